"""Programs made of the files in kernels/, lowered to SPIR-V without a cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from xesmith.device import Device
from xesmith.ghost.launch import Program
from xesmith.lowering import Lowerer
from xesmith.lowering.record import GhostRun
from xesmith.toolchain import Toolchain

KERNELS = Path(__file__).parent / "kernels"


@pytest.fixture(scope="session")
def ghost_lowerer(toolchain: Toolchain, device: Device) -> Iterator[Lowerer]:
    """A Lowerer for Arc Pro B70 that compiles every time."""
    with Lowerer(toolchain, device, parallel=1, cache=False) as shared:
        yield shared


@pytest.fixture(scope="session")
def run_file(ghost_lowerer: Lowerer) -> Callable[..., GhostRun]:
    """run_file("name.py", "model" | "script", native=False): the ghost run of a kernel file."""

    def run(name: str, entry: str = "script", *, native: bool = False) -> GhostRun:
        path = KERNELS / name
        program = Program(source=path.read_text(), path=str(path), entry=entry)
        return ghost_lowerer.run(program, native=native)

    return run


@pytest.fixture(scope="session")
def run_text(ghost_lowerer: Lowerer) -> Callable[..., GhostRun]:
    """run_text(source): the ghost run of a script with no file behind it."""

    def run(text: str) -> GhostRun:
        program = Program(source=text, path="/nowhere/script.py", entry="script")
        return ghost_lowerer.run(program, native=False)

    return run
