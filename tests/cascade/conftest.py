"""What the tests of the correctness level share: one interpreter, small programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from xesmith.cascade.correctness import Case, CorrectnessChecker, interpreter_pool
from xesmith.ghost.launch import Program, TensorSpec

if TYPE_CHECKING:
    from xesmith.toolchain import Toolchain
    from xesmith.worker.client import WorkerPool

HEADER = """\
import torch
import torch.nn as nn
import triton
import triton.language as tl

"""

#: y = 2 x, one dimension, tiles of 64
DOUBLE = (
    HEADER
    + """
@triton.jit
def double_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    y = x * 2
    tl.store(y_ptr + i, y, mask=i < n)


class Model(nn.Module):
    def forward(self, x):
        y = torch.empty(x.shape, device="xpu", dtype=x.dtype)
        double_kernel[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), BLOCK=64)
        return y
"""
)

DOUBLE_REFERENCE = (
    HEADER
    + """
class Model(nn.Module):
    def forward(self, x):
        return x * 2
"""
)


@pytest.fixture(scope="session")
def pool(toolchain: Toolchain) -> Iterator[WorkerPool]:
    with interpreter_pool(toolchain.python, parallel=1) as shared:
        yield shared


@pytest.fixture(scope="session")
def checker(pool: WorkerPool) -> Iterator[CorrectnessChecker]:
    with CorrectnessChecker(pool) as shared:
        yield shared


@pytest.fixture(scope="session")
def double() -> str:
    return DOUBLE


@pytest.fixture(scope="session")
def double_reference() -> str:
    return DOUBLE_REFERENCE


@pytest.fixture(scope="session")
def header() -> str:
    return HEADER


@pytest.fixture(scope="session")
def changed() -> Callable[[str, str, str], str]:
    """Replaces text that must be there."""

    def replace(text: str, old: str, new: str) -> str:
        assert old in text
        return text.replace(old, new)

    return replace


@pytest.fixture(scope="session")
def program() -> Callable[..., Program]:
    def make(source: str, path: str = "kernel.py") -> Program:
        return Program(source=source, path=path)

    return make


@pytest.fixture(scope="session")
def case() -> Callable[..., Case]:
    """A case with inputs of the given shapes, named x, y, ..."""

    def make(
        *shapes: tuple[int, ...], dtype: str = "float16", name: str = "test", **more: object
    ) -> Case:
        inputs = tuple(
            TensorSpec(letter, shape, dtype) for letter, shape in zip("xyzw", shapes, strict=False)
        )
        return Case(name, inputs=inputs, **more)

    return make
