"""Whether a problem can be won by a trick: runs its reference and says what the output hangs on.

A problem whose output is constant, vanishes, or does not change with an input, a weight or a
constructor argument invites a candidate that computes nothing. Runs the reference alone, in
float64, in a process of its own.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from xesmith.ghost.inputs import random_input
from xesmith.ghost.launch import Program
from xesmith.timing.accelerator import open_accelerator
from xesmith.timing.programs import LoadedProgram, explain, tensors

SEEDS = (0, 1, 2)
#: a change of the output below this share of its root mean square is none: any tolerance allows it
_NO_CHANGE = 1e-6

#: of the largest input: what float64 leaves of a sum that cancels
_ROUNDING = 1e-12


def check(arguments: dict[str, Any], folder: Path) -> dict[str, Any]:
    """{"failure": text | None, "faults": [text, ...], "asked": [what was varied, ...]}.

    Arguments: program; dtype (of its float inputs); rtol, atol (the spec's or None); init_names.
    """
    del folder
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    program = Program.from_json({**arguments["program"], "dtype": None})
    try:
        return _Problem(program, arguments).check()
    except Exception as error:
        return {"failure": explain(error, program.path), "faults": [], "asked": []}


class _Problem:
    def __init__(self, program: Program, arguments: dict[str, Any]) -> None:
        self._accelerator = open_accelerator("cpu")
        self._loaded = LoadedProgram(program, self._accelerator)
        self._arguments = arguments
        self._asked: list[str] = []

    def check(self) -> dict[str, Any]:
        torch.set_default_dtype(torch.float64)
        runs = [self._outputs(seed) for seed in SEEDS]
        faults = [text for number in range(len(runs[0])) for text in self._values(number, runs)]
        if not runs[0]:
            faults.append("it returns no tensor")
        # What vanishes or is constant depends on nothing: that is one fault, not many.
        if not faults:
            faults = [*self._inputs(runs), *self._weights(runs), *self._inits(runs)]
        return {"failure": None, "faults": faults, "asked": self._asked}

    def _outputs(
        self,
        seed: int,
        *,
        other_input: int | None = None,
        other_weight: str | None = None,
        loaded: LoadedProgram | None = None,
    ) -> list[torch.Tensor]:
        """The outputs of a seed, with one input or weight drawn from another."""
        loaded = loaded or self._loaded
        model = loaded.model(seed)
        if isinstance(model, torch.nn.Module):
            model = model.double()
            if other_weight is not None:
                _redraw(model.get_parameter(other_weight))
        inputs = self._drawn(seed)
        if other_input is not None:
            inputs[other_input] = self._drawn(seed + 1000)[other_input]
        torch.manual_seed(seed)  # pyright: ignore[reportUnknownMemberType]
        with torch.no_grad():
            return [t.clone() for t in tensors(model(*map(_wide, inputs)))]

    def _drawn(self, seed: int) -> list[Any]:
        specs = self._loaded.program.inputs
        if specs is None:
            return self._loaded.inputs(seed)
        torch.manual_seed(seed)  # pyright: ignore[reportUnknownMemberType]
        return [random_input(spec) for spec in specs]

    def _values(self, number: int, runs: Sequence[list[torch.Tensor]]) -> list[str]:
        which = f"output {number}"
        values = [run[number] for run in runs if run[number].numel()]
        if not values:
            return [f"{which} has no elements"]
        if any(not bool(torch.isfinite(v).any()) for v in values if v.is_floating_point()):
            return [f"{which} has no finite element"]
        largest = max(float(v.double().nan_to_num(0, 0, 0).abs().max()) for v in values)
        if largest <= self._smallest():
            return [f"{which} is near zero: {largest:.3g} at most, so zeros would pass for it"]
        if largest <= _ROUNDING * self._largest_input():
            return [f"{which} is near zero: {largest:.3g} at most, which is rounding"]
        if all(v.numel() > 1 and bool((v == v.flatten()[0]).all()) for v in values):
            return [f"{which} is constant: all its elements are equal"]
        return []

    def _largest_input(self) -> float:
        values = [x.double().abs().max() for x in tensors(self._drawn(SEEDS[0])) if x.numel()]
        return max(map(float, values), default=1.0)

    def _smallest(self) -> float:
        """Zeros cannot be told from values up to this: by the spec's tolerance or by the type."""
        atol, rtol = self._arguments["atol"] or 0.0, self._arguments["rtol"] or 0.0
        allowed = math.inf if rtol >= 1 else atol / (1 - rtol)
        dtype = self._arguments["dtype"] or "float32"
        found = getattr(torch, dtype)
        tiny = torch.finfo(found).tiny if found.is_floating_point else 0.0
        return max(allowed, tiny)

    def _inputs(self, runs: Sequence[list[torch.Tensor]]) -> list[str]:
        faults: list[str] = []
        specs = self._loaded.program.inputs
        for index, value in enumerate(self._drawn(SEEDS[0])):
            if not isinstance(value, torch.Tensor):
                continue
            name = f"input {index}" if specs is None else f"input {specs[index].name}"
            self._asked.append(name)
            if all(
                _same(run, self._outputs(seed, other_input=index))
                for seed, run in zip(SEEDS, runs, strict=True)
            ):
                faults.append(f"the output does not depend on {name}")
        return faults

    def _weights(self, runs: Sequence[list[torch.Tensor]]) -> list[str]:
        model = self._loaded.model(SEEDS[0])
        if not isinstance(model, torch.nn.Module):
            return []
        faults: list[str] = []
        for name, weight in model.named_parameters():
            if not weight.is_floating_point():
                continue
            self._asked.append(f"weight {name}")
            if all(
                _same(run, self._outputs(seed, other_weight=name))
                for seed, run in zip(SEEDS, runs, strict=True)
            ):
                faults.append(f"the output does not depend on the weight {name}")
        return faults

    def _inits(self, runs: Sequence[list[torch.Tensor]]) -> list[str]:
        """Constructor arguments that are numbers; one that sets a size changes shapes, or fails."""
        program = self._loaded.program
        faults: list[str] = []
        given: list[Any] = list(program.inits or ())
        for index, value in enumerate(given):
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                continue
            names: list[str] = self._arguments["init_names"]
            name = names[index] if index < len(names) else str(index)
            self._asked.append(f"init {name}")
            inits = [*given]
            inits[index] = value + 1 if isinstance(value, int) else value * 1.5 + 0.5
            try:
                other = LoadedProgram(replace(program, inits=tuple(inits)), self._accelerator)
                changed = [self._outputs(seed, loaded=other) for seed in SEEDS]
            except Exception:  # a size that no longer fits: it counts
                continue
            if all(_same(a, b) for a, b in zip(runs, changed, strict=True)):
                faults.append(f"the output does not depend on the init {name}")
        return faults


def _redraw(weight: torch.Tensor) -> None:
    spread = float(weight.detach().std(correction=0)) if weight.numel() else 0.0
    middle = float(weight.detach().mean()) if weight.numel() else 0.0
    with torch.no_grad():
        weight.copy_(middle + (spread or 1.0) * torch.randn_like(weight))


def _same(a: Sequence[torch.Tensor], b: Sequence[torch.Tensor]) -> bool:
    return len(a) == len(b) and all(map(_unchanged, a, b))


def _unchanged(a: torch.Tensor, b: torch.Tensor) -> bool:
    if a.shape != b.shape:
        return False
    a, b = a.double().nan_to_num(), b.double().nan_to_num()
    scale = float(a.square().mean().sqrt()) if a.numel() else 0.0
    return a.numel() == 0 or float((a - b).abs().max()) <= _NO_CHANGE * scale


def _wide(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and value.is_floating_point():
        return value.double()
    return value
