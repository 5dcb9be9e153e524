"""A Lowerer without a cache, and programs made of the files in kernels/."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from xesmith.device import Device
from xesmith.ghost.launch import Program
from xesmith.lowering import Lowerer, LoweringCache
from xesmith.toolchain import Toolchain

KERNELS = Path(__file__).parent / "kernels"

MakeProgram = Callable[..., Program]


@pytest.fixture(scope="session")
def uncached(toolchain: Toolchain, device: Device) -> Iterator[Lowerer]:
    """A Lowerer for Arc Pro B70 that compiles every time."""
    with Lowerer(toolchain, device, parallel=2, cache=False) as shared:
        yield shared


@pytest.fixture(scope="session")
def impatient(
    toolchain: Toolchain, device: Device, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lowerer]:
    """A Lowerer with a cache of its own, 3 seconds and 256 MiB for each program."""
    with Lowerer(
        toolchain,
        device,
        parallel=1,
        cache=LoweringCache(tmp_path_factory.mktemp("cache")),
        timeout_s=3,
        memory_bytes=1 << 28,
    ) as shared:
        yield shared


@pytest.fixture(scope="session")
def program() -> MakeProgram:
    """program("gemm.py", GRF="256"): the file with the words replaced."""

    def make(name: str, *, entry: str = "model", **words: str) -> Program:
        path = KERNELS / name
        source = path.read_text()
        for word, text in words.items():
            assert word in source
            source = source.replace(word, text)
        return Program(source=source, path=str(path), entry=entry)

    return make


@pytest.fixture
def script(tmp_path: Path) -> Callable[..., Program]:
    """script(text): a program of that text, with no file behind it."""

    def make(text: str, *, entry: str = "script") -> Program:
        return Program(source=text, path=str(tmp_path / "script.py"), entry=entry)

    return make
