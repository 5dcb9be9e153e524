"""The two processes of a check on a device: one knows what is right, the other runs the candidate.

`serve_reference` makes inputs, expected outputs and comparisons; no candidate ever runs there and
what is expected never leaves it. `serve_candidate` gets inputs as files, in guarded and poisoned
memory of the device, and leaves its outputs as files. Tasks of a worker: torch and Triton.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from xesmith.cascade import tensor_files
from xesmith.cascade.expected import Expected, ReferenceModel
from xesmith.cascade.guarded_memory import POISON, GuardedMemory, WatchedTorch
from xesmith.ghost.launch import Program
from xesmith.timing.accelerator import Kind, open_accelerator
from xesmith.timing.programs import LoadedProgram, load_weights, serve_methods, tensors
from xesmith.worker.channel import Channel

#: what the allocator may hand out again is filled with the poison first: blocks of these sizes,
#: and of those of the inputs
_FREE_BLOCK_BYTES = (1 << 12, 1 << 16, 1 << 20)

_DISTRIBUTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "normal": lambda x: x,
    "uniform": lambda x: torch.rand_like(x, dtype=torch.float32).to(x.dtype),
    "large": lambda x: x * 8,
    "tiny": lambda x: x / 64,
    "zeros": torch.zeros_like,
    "negative": lambda x: -x.abs(),
    "special": lambda x: _with_special_values(x),
}


def serve_reference(arguments: dict[str, Any], folder: Path, channel: Channel) -> None:
    serve_methods(_Reference(arguments["kind"], folder), channel)


def serve_candidate(arguments: dict[str, Any], folder: Path, channel: Channel) -> None:
    serve_methods(_Candidate(arguments["kind"], folder), channel)


class _Reference:
    def __init__(self, kind: Kind, folder: Path) -> None:
        self._accelerator = open_accelerator(kind)
        self._shared = folder / "shared"
        self._shared.mkdir()
        self._expected: dict[str, Expected] = {}
        self.path = ""

    def load(self, program: dict[str, Any], seed: int, float64: bool) -> dict[str, Any]:
        """Builds the reference's Model of one case; its weights become a shared file."""
        self.path = program["path"]
        self._program = LoadedProgram(Program.from_json(program), self._accelerator)
        self._model = ReferenceModel(self._program.model(seed), float64=float64)
        self._expected = {}
        state = {name: tensor.cpu() for name, tensor in self._model.state.items()}
        return {"state": tensor_files.write(state, self._shared / "state.bin")}

    def make(self, key: str, seed: int, distribution: str) -> dict[str, Any]:
        """Inputs of a seed and a distribution as a shared file; what is expected of them stays."""
        inputs = self._program.inputs(seed)
        change = _DISTRIBUTIONS[distribution]
        inputs = [change(x) if _is_float(x) else x for x in inputs]
        tree = tensor_files.write([_on_cpu(x) for x in inputs], self._shared / f"{key}.bin")
        expected = self._expected[key] = self._model.expect(inputs)
        finite = all(bool(t.isfinite().all()) for t in expected.exact)
        return {"inputs": tree, "finite": finite, "why_native": self._model.why_native}

    def compare(
        self,
        key: str,
        outputs: dict[str, Any],
        devices: list[str],
        path: str,
        rtol: float | None,
        atol: float | None,
    ) -> dict[str, Any]:
        """What is wrong with outputs that the candidate left."""
        expected = self._expected[key]
        got = list(tensor_files.tensors(tensor_files.read(outputs, Path(path))))
        strides = [list(t.stride()) for t in got]
        on_device = [t.to(self._accelerator.device) for t in got]
        compared = expected.compare(on_device, rtol, atol)
        layout: list[str] = []
        for index, (want, have) in enumerate(
            zip(expected.native, zip(strides, devices, strict=False), strict=False)
        ):
            wanted, returned = list(want.stride()), have[0]
            if wanted != returned:
                layout.append(f"output {index}: strides {wanted} expected, {returned} returned")
            if want.device.type != have[1]:
                layout.append(f"output {index}: on {have[1]}, not on {want.device.type}")
        return {**compared, "layout": layout}


class _Candidate:
    def __init__(self, kind: Kind, folder: Path) -> None:
        self._accelerator = open_accelerator(kind)
        self._folder = folder
        self._launches = _Launches()
        self.path = ""

    def load(self, program: dict[str, Any], seed: int, state: Any, file: str) -> dict[str, Any]:
        self.path = program["path"]
        self._program = LoadedProgram(Program.from_json(program), self._accelerator)
        self._memory = GuardedMemory()  # of the Model, which is built once for all calls
        with WatchedTorch(self._memory, self._accelerator.device.type):
            self._model = self._program.model(seed)
        load_weights(self._model, tensor_files.read(state, Path(file)))
        return {}

    def call(self, inputs: Any, file: str, how: str, number: int) -> dict[str, Any]:
        """One call. `how`: "usual", "strided" (inputs not contiguous), "left out" (no kernel)."""
        device = self._accelerator.device
        # What is read outside a tensor is NaN in one call, what is written there seen in the next.
        memory = GuardedMemory(*((0xA5, POISON) if number % 2 == 0 else (0x5A, 0xA5)))
        watch = WatchedTorch(memory, device.type)
        given: list[Any] = tensor_files.read(
            inputs, Path(file), lambda t: memory.adopt(_strided(t, how).to(device))
        )
        before = [x.clone() for x in tensor_files.tensors(given)]
        self._poison_free_memory(before)
        self._accelerator.synchronize()
        watch.operators.clear()
        self._launches.begin(leave_out=how == "left out")
        threads = len(sys._current_frames())  # pyright: ignore[reportPrivateUsage]
        with watch, torch.no_grad():
            output = self._model(*given)
        # On the queue that the caller goes on with, before anything is waited for.
        taken = [
            (t.device.type, t.clone(memory_format=torch.preserve_format)) for t in tensors(output)
        ]
        left = len(sys._current_frames()) - threads  # pyright: ignore[reportPrivateUsage]
        self._accelerator.synchronize()
        path = self._folder / f"outputs-{number}.bin"
        tree = tensor_files.write([t.cpu() for _, t in taken], path)
        changed = [
            index
            for index, (was, now) in enumerate(
                zip(before, tensor_files.tensors(given), strict=True)
            )
            if not _same_bits(was, now)
        ]
        return {
            "outputs": tree,
            "devices": [kind for kind, _ in taken],
            "file": path.name,
            "inputs_changed": changed,
            "broken_guards": memory.broken_guards() + self._memory.broken_guards(),
            "operators": dict(watch.operators),
            "launches": self._launches.count,
            "threads_left": max(0, left),
        }

    def _poison_free_memory(self, inputs: list[torch.Tensor]) -> None:
        """What the allocator hands out next, to whoever asks past torch.empty, holds NaN."""
        device = self._accelerator.device
        blocks = [
            torch.full((size,), POISON, dtype=torch.uint8, device=device)
            for size in (*_FREE_BLOCK_BYTES, *(x.numel() * x.element_size() for x in inputs))
        ]
        blocks.clear()


class _Launches:
    """Counts launches of Triton kernels, and leaves them out on demand."""

    def __init__(self) -> None:
        self.count = 0
        self._leave_out = False
        for module, name, method in (
            ("triton.runtime.jit", "JITFunction", "run"),
            ("triton.runtime.interpreter", "GridExecutor", "__call__"),
        ):
            kind: Any = getattr(importlib.import_module(module), name)
            setattr(kind, method, self._counted(getattr(kind, method)))

    def begin(self, *, leave_out: bool) -> None:
        self.count, self._leave_out = 0, leave_out

    def _counted(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def run(kernel: Any, *args: Any, **kwargs: Any) -> Any:
            if kwargs.get("warmup"):
                return original(kernel, *args, **kwargs)
            self.count += 1
            return None if self._leave_out else original(kernel, *args, **kwargs)

        return run


def _is_float(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def _on_cpu(value: Any) -> Any:
    return value.cpu() if isinstance(value, torch.Tensor) else value


def _strided(tensor: torch.Tensor, how: str) -> torch.Tensor:
    """The same values; where asked, every second element of a larger tensor."""
    if how != "strided" or tensor.dim() == 0:
        return tensor
    room = torch.empty((*tensor.shape[:-1], 2 * tensor.shape[-1]), dtype=tensor.dtype)
    every_second = room[..., ::2]
    return every_second.copy_(tensor)


def _with_special_values(tensor: torch.Tensor) -> torch.Tensor:
    made = tensor.clone(memory_format=torch.contiguous_format)
    flat = made.view(-1)
    for place, value in ((0, "nan"), (flat.numel() // 2, "inf"), (flat.numel() - 1, "-inf")):
        if 0 <= place < flat.numel():
            flat[place] = float(value)
    return made


def _same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.equal(a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8))
