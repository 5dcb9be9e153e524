"""The process that knows what is right: computes the reference and compares outputs with it.

No timed program ever runs here, and what is expected never leaves this process.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from xesmith.cascade.expected import Expected, ReferenceModel
from xesmith.ghost.launch import Program
from xesmith.timing.accelerator import open_accelerator
from xesmith.timing.kinds import Kind
from xesmith.timing.programs import LoadedProgram, get, put, serve_methods, tensors
from xesmith.worker.channel import Channel


def serve(arguments: dict[str, Any], folder: Path, channel: Channel) -> None:
    """Answers {"do": name, ...} by that method below, until there are no more questions."""
    del arguments, folder
    serve_methods(_Checker(), channel)


class _Checker:
    def __init__(self) -> None:
        self.path = ""
        self._expected: tuple[int, Expected] | None = None

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
        self._model = ReferenceModel(self._program.model(seed), float64=float64)
        self._tolerances = {"rtol": rtol, "atol": atol}
        state = self._model.state
        weights = put([t.detach() for t in state.values()], Path(file))
        weight_bytes = sum(t.numel() * t.element_size() for t in state.values())
        inputs = self._program.inputs(seed)
        expected = self._expect(seed)
        return {
            "weights": weights,
            "names": list(state),
            "weight_bytes": weight_bytes,
            "input_bytes": _bytes(tensors(inputs)),
            "output_bytes": _bytes(expected.native),
            "precision": "float64" if expected.is_exact else "native",
            "why_native": self._model.why_native,
        }

    def check(self, seed: int, file: str, outputs: list[dict[str, Any]]) -> dict[str, Any]:
        """Compares outputs that a program made of the inputs of `seed`, element by element."""
        expected = self._expect(seed)
        got = get(outputs, Path(file), self._accelerator.device)
        return expected.compare(got, **self._tolerances)

    def _expect(self, seed: int) -> Expected:
        if self._expected is None or self._expected[0] != seed:
            self._expected = None  # lets go of the memory first
            self._expected = (seed, self._model.expect(self._program.inputs(seed)))
        return self._expected[1]


def _bytes(found: Any) -> int:
    return sum(t.numel() * t.element_size() for t in found)
