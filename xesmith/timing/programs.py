"""A program in the process that runs it: its module, its Model, its inputs on the device.

Runs in the processes of the timer: standard library and torch only.
"""

from __future__ import annotations

import linecache
import re
import sys
import traceback
import types
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import torch

from xesmith.ghost.inputs import random_input
from xesmith.ghost.launch import Program
from xesmith.timing.accelerator import Accelerator
from xesmith.worker.channel import Channel

MODULE_NAME = "xesmith_program"
#: what a fresh address is chosen from: places in a buffer of so many bytes more
_SPREAD_BYTES = 1 << 20
_PAGE_BYTES = 4096

#: a device named in a program's text, where it names one
_DEVICE = re.compile(
    r"""(\bdevice\s*=\s*|\btorch\.device\(\s*|\.to\(\s*)(["'])(?:xpu|cuda)(?::0)?\2"""
)
_MODEL_CALL = re.compile(r"\.(?:xpu|cuda)\(\)")


def placed(source: str, kind: str) -> str:
    """`source` with the GPU that it names replaced by the one at hand.

    Problems name the GPU that they were written for. What a generated launch plan asks of the
    backend is no device and stays, so code judged for another GPU is not launched.
    """
    text = _DEVICE.sub(lambda match: f"{match[1]}{match[2]}{kind}{match[2]}", source)
    return _MODEL_CALL.sub(f'.to("{kind}")', text)


class LoadedProgram:
    """A program's module, and what is made of it on one device."""

    def __init__(self, program: Program, accelerator: Accelerator) -> None:
        self.program = program
        self.accelerator = accelerator
        source = placed(program.source, accelerator.kind)
        path = program.path
        sys.path.insert(0, str(Path(path).resolve().parent))
        # Triton reads a kernel's text through `inspect`: this text, not the file's.
        linecache.cache[path] = (len(source), None, source.splitlines(keepends=True), path)
        self.module = types.ModuleType(MODULE_NAME)
        self.module.__file__ = path
        sys.modules[MODULE_NAME] = self.module
        exec(compile(source, path, "exec"), self.module.__dict__)

    def model(self, seed: int) -> Any:
        """`Model(*inits)`, its weights drawn from `seed` as the file draws them."""
        _seed(seed)
        inits = self.program.inits
        if inits is None:
            make = getattr(self.module, "get_init_inputs", None)
            inits = () if make is None else tuple(make())
        model = self._required("Model")(*inits)
        if isinstance(model, torch.nn.Module):
            model = model.to(self.accelerator.device)
            if self.program.dtype:
                model = model.to(getattr(torch, self.program.dtype))
        return model

    def inputs(self, seed: int) -> list[Any]:
        """Inputs drawn on the device from `seed`, at addresses that no earlier call had."""
        _seed(seed)
        if self.program.inputs is None:
            made = list(self._required("get_inputs")())
        else:
            # Drawn on the device itself: a CPU would take a second for a large matrix.
            with self.accelerator.device:
                made = [random_input(spec) for spec in self.program.inputs]
        return [_at_fresh_address(x) if isinstance(x, torch.Tensor) else x for x in made]

    def _required(self, name: str) -> Any:
        found = getattr(self.module, name, None)
        if found is None:
            raise AttributeError(f"{Path(self.program.path).name} defines no '{name}'")
        return found


def _at_fresh_address(tensor: torch.Tensor) -> torch.Tensor:
    """A copy of equal strides at a random page of a larger buffer: alignment stays a page's."""
    span = 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    if tensor.numel() == 0:
        return tensor
    size = tensor.element_size()
    room = torch.empty(span * size + _SPREAD_BYTES, dtype=torch.uint8, device=tensor.device)
    page = int(torch.randint(_SPREAD_BYTES // _PAGE_BYTES, (), device="cpu"))
    start = page * _PAGE_BYTES
    flat = room[start : start + span * size].view(tensor.dtype)
    copy = flat.as_strided(tensor.shape, tensor.stride(), flat.storage_offset())
    return copy.copy_(tensor)


def load_weights(model: Any, given: dict[str, torch.Tensor]) -> str:
    """Gives `model` the reference's weights where names and shapes agree; how it got its own."""
    if not isinstance(model, torch.nn.Module):
        return "none"
    own: dict[str, torch.Tensor] = model.state_dict()
    if not own and not given:
        return "none"
    if own.keys() != given.keys() or any(own[k].shape != given[k].shape for k in own):
        return "the same seed"
    model.load_state_dict(given)
    return "the same state_dict"


def tensors(value: Any) -> Iterator[torch.Tensor]:
    """Every tensor of nested containers, in order; a subclass of Tensor is refused."""
    if isinstance(value, torch.Tensor):
        if type(value) not in (torch.Tensor, torch.nn.Parameter):
            raise TypeError(f"an output of type {type(value).__qualname__}, no plain tensor")
        yield value.detach()
    elif isinstance(value, (list, tuple)):
        for item in cast("list[Any]", value):
            yield from tensors(item)
    elif isinstance(value, dict):
        for item in cast("dict[Any, Any]", value).values():
            yield from tensors(item)


def put(outputs: list[torch.Tensor], path: Path) -> list[dict[str, Any]]:
    """Copies tensors into the file at `path`, which is mapped, and tells their layout in it."""
    layout: list[dict[str, Any]] = []
    offset = 0
    for tensor in outputs:
        layout.append(
            {
                "dtype": str(tensor.dtype).removeprefix("torch."),
                "shape": list(tensor.shape),
                "strides": list(tensor.stride()),
                "offset_bytes": offset,
            }
        )
        offset += -(-tensor.numel() * tensor.element_size() // 64) * 64
    if offset:
        room = torch.from_file(str(path), shared=True, size=offset, dtype=torch.uint8)
        for tensor, place in zip(outputs, layout, strict=True):
            start, size = place["offset_bytes"], tensor.numel() * tensor.element_size()
            if size:
                raw = tensor.contiguous().view(-1).view(torch.uint8)
                room[start : start + size].copy_(raw)
    return layout


def get(layout: list[dict[str, Any]], path: Path, device: torch.device) -> list[torch.Tensor]:
    """The tensors that `put` wrote, contiguous, on `device`."""
    found: list[torch.Tensor] = []
    total = path.stat().st_size if path.exists() else 0
    room = torch.from_file(str(path), size=total, dtype=torch.uint8) if total else None
    for place in layout:
        dtype: torch.dtype = getattr(torch, place["dtype"])
        shape = torch.Size(place["shape"])
        start, size = int(place["offset_bytes"]), shape.numel() * dtype.itemsize
        if size == 0 or room is None:
            found.append(torch.empty(shape, dtype=dtype, device=device))
            continue
        found.append(room[start : start + size].to(device).view(dtype).view(shape))
    return found


def serve_methods(served: Any, channel: Channel) -> None:
    """Answers {"do": name, ...} by the method `name` of `served`, whose `path` is its program's.

    What a program raises is its answer: {"error": one line}.
    """
    warnings.simplefilter("ignore")

    def handle(message: dict[str, Any]) -> dict[str, Any]:
        try:
            return getattr(served, message.pop("do"))(**message)
        except (Exception, SystemExit) as error:
            return {"error": explain(error, served.path)}

    channel.serve(handle)


def explain(error: BaseException, path: str) -> str:
    """One line: what was raised, and the program's own line where it passed through it."""
    line = error.lineno if isinstance(error, SyntaxError) else None
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename == path:
            line = frame.lineno
    first = (str(error).strip().splitlines() or [""])[0]
    at = f" (line {line})" if line is not None else ""
    return f"{type(error).__name__}: {first[:400]}{at}"


def _seed(seed: int) -> None:
    torch.manual_seed(seed)  # pyright: ignore[reportUnknownMemberType]
