"""The process that knows what is right: computes the reference and compares outputs with it.

No timed program ever runs here, and what is expected never leaves this process.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import torch

from xesmith.cascade.compare_task import compare_outputs
from xesmith.ghost.launch import Program
from xesmith.timing.accelerator import open_accelerator
from xesmith.timing.kinds import Kind
from xesmith.timing.programs import LoadedProgram, explain, get, put, serve_methods, tensors
from xesmith.worker.channel import Channel


def serve(arguments: dict[str, Any], folder: Path, channel: Channel) -> None:
    """Answers {"do": name, ...} by that method below, until there are no more questions."""
    del arguments, folder
    serve_methods(_Checker(), channel)


class _Checker:
    def __init__(self) -> None:
        self.path = ""
        self._expected: tuple[int, Any] | None = None

    def prepare(
        self,
        kind: Kind,
        program: dict[str, Any],
        seed: int,
        file: str,
        float64: bool,
        rtol: float | None,
        atol: float | None,
    ) -> dict[str, Any]:
        """Builds the reference's Model and writes its weights to `file`.

        `float64`: compute in it where the Model allows; not when the reference is a Triton kernel.
        """
        self._accelerator = open_accelerator(kind)
        self.path = program["path"]
        self._program = LoadedProgram(Program.from_json(program), self._accelerator)
        self._model = self._program.model(seed)
        self._tolerances = {"rtol": rtol, "atol": atol, "reduction_length": None}
        is_module = isinstance(self._model, torch.nn.Module)
        self._state: dict[str, torch.Tensor] = self._model.state_dict() if is_module else {}
        self._wide: Any = None
        self._why_native = None if float64 else "the reference is a Triton kernel"
        if float64:
            self._wide = copy.deepcopy(self._model)
            self._wide = self._wide.double() if is_module else self._wide
        weights = put([t.detach() for t in self._state.values()], Path(file))
        weight_bytes = sum(t.numel() * t.element_size() for t in self._state.values())
        inputs = self._program.inputs(seed)
        expected = self._expect(seed)
        return {
            "weights": weights,
            "names": list(self._state),
            "weight_bytes": weight_bytes,
            "input_bytes": _bytes(tensors(inputs)),
            "output_bytes": _bytes(expected["native"]),
            "precision": "float64" if self._why_native is None else "native",
            "why_native": self._why_native,
        }

    def check(self, seed: int, file: str, outputs: list[dict[str, Any]]) -> dict[str, Any]:
        """Compares outputs that a program made of the inputs of `seed`, element by element."""
        expected = self._expect(seed)
        got = get(outputs, Path(file), self._accelerator.device)
        records = compare_outputs(
            got,
            expected["exact"],
            expected["trees"],
            {**self._tolerances, "expected_exact": self._why_native is None},
        )
        ratios = [r["error_over_allowed"] for r in records if "error_over_allowed" in r]
        faults = [r["fault"] for r in records if r["fault"]]
        return {"faults": faults, "error_over_allowed": max(ratios, default=None)}

    def _expect(self, seed: int) -> dict[str, Any]:
        if self._expected is None or self._expected[0] != seed:
            self._expected = None  # lets go of the memory first
            self._expected = (seed, self._compute(seed))
        return self._expected[1]

    def _compute(self, seed: int) -> dict[str, Any]:
        inputs = self._program.inputs(seed)
        with torch.no_grad():
            native = list(tensors(self._model(*inputs)))
            exact = native
            if self._why_native is None:
                try:
                    exact = self._compute_float64(inputs)
                except Exception as error:  # an operator that has no float64, or no memory for it
                    self._why_native = f"not in float64: {explain(error, self.path)}"
                    self._wide = None
        known = [*tensors(inputs), *self._state.values()]
        trees = {
            "natively": True,
            "native": [{"dtype": str(t.dtype).removeprefix("torch.")} for t in native],
            "native_errors": [_error(a, b) for a, b in zip(native, exact, strict=True)],
            "float_types": sorted(
                {str(t.dtype).removeprefix("torch.") for t in known if t.is_floating_point()}
            ),
            "largest_dimension": max((n for t in known for n in t.shape), default=1),
            "largest_input": max((t.numel() for t in tensors(inputs)), default=1),
        }
        return {"native": native, "exact": exact, "trees": trees}

    def _compute_float64(self, inputs: list[Any]) -> list[torch.Tensor]:
        default = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)  # for what the Model makes by itself
        try:
            return list(tensors(self._wide(*(_wide(x) for x in inputs))))
        finally:
            torch.set_default_dtype(default)


def _wide(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and value.is_floating_point():
        return value.double()
    return value


def _error(got: torch.Tensor, want: torch.Tensor) -> float | None:
    if got.numel() == 0 or got is want:
        return 0.0
    error = (got.to(torch.float64) - want.to(torch.float64)).abs().max().item()
    return error if error < float("inf") else None


def _bytes(found: Any) -> int:
    return sum(t.numel() * t.element_size() for t in found)
