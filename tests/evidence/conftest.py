"""Evidence of the kernels in kernels.py, each lowered once a session."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from xesmith.evidence import Evidence, read
from xesmith.ghost.launch import Program

if TYPE_CHECKING:
    from xesmith.lowering import Lowerer
    from xesmith.lowering.record import Lowering

KERNELS = Path(__file__).with_name("kernels.py")


@pytest.fixture(scope="session")
def lowering_of(lowerer: Lowerer) -> Callable[[str], Lowering]:
    """The one lowering of a case of kernels.py."""
    source = KERNELS.read_text()
    made: dict[str, Lowering] = {}

    def lower(case: str) -> Lowering:
        if case not in made:
            run = lowerer.run(Program(source, str(KERNELS), entry="script", argv=(case,)))
            assert len(run.lowerings) == 1, run.failure
            made[case] = run.lowerings[0]
        return made[case]

    return lower


@pytest.fixture(scope="session")
def evidence_of(lowering_of: Callable[[str], Lowering]) -> Callable[[str], Evidence]:
    read_once: dict[str, Evidence] = {}

    def evidence(case: str) -> Evidence:
        if case not in read_once:
            read_once[case] = read(lowering_of(case))
        return read_once[case]

    return evidence


@pytest.fixture
def line_of() -> Callable[[str, str], int]:
    """The line of kernels.py that has `text`, the first one inside `kernel`."""

    def find(kernel: str, text: str) -> int:
        lines = KERNELS.read_text().splitlines()
        start = next(i for i, line in enumerate(lines) if line.startswith(f"def {kernel}("))
        return next(i for i in range(start, len(lines)) if text in lines[i]) + 1

    return find


@pytest.fixture
def cuda_lowering() -> Lowering:
    """A pointer gemm for an H100 as Triton 3.9.0 lowers it, without Triton (data/README.md)."""
    from xesmith.lowering.record import Lowering

    folder = Path(__file__).with_name("data") / "cuda_gemm"
    lowering = Lowering.from_json(json.loads((folder / "lowering.json").read_text()))
    levels = {name: str(folder / file) for name, file in lowering.levels.items()}
    return replace(lowering, levels=levels)
