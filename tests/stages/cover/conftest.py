"""A kernel file, a situation without a compiler, and channels that answer from a list."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from xesmith.cascade.examine import Examination
from xesmith.device import load_device
from xesmith.kernel_file import KernelFile
from xesmith.lm.record import Reply, Request, Usage
from xesmith.stages.draft import Draft
from xesmith.stages.proposers.record import Situation

SOURCE = """\
import torch
import triton
import triton.language as tl


@triton.jit
def double_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + offs, 2 * tl.load(x_ptr + offs, mask=offs < n), mask=offs < n)


def double(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    double_kernel[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
    return y


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return double(x)


def get_inputs():
    return [torch.randn(1000, device="xpu")]


def get_init_inputs():
    return []
"""

KERNEL = """\
@triton.jit
def double_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    tl.store(y_ptr + offs, x + x, mask=offs < n)"""


def answer(kernel: str = KERNEL, note: str = "x + x") -> str:
    return f"Sure.\n\nNOTE: {note}\n```python\n{kernel}\n```\nThat is all.\n"


class Scripted:
    """A channel that answers from a list; an exception in it is raised."""

    name = "scripted"

    def __init__(self, answers: Iterable[str | Reply | Exception]) -> None:
        self.answers = list(answers)
        self.requests: list[Request] = []

    def ask(self, request: Request) -> Reply:
        self.requests.append(request)
        given = self.answers[len(self.requests) - 1]
        if isinstance(given, Exception):
            raise given
        if isinstance(given, Reply):
            return given
        return Reply(given, "scripted", "stop", Usage(10, 5))

    def prompt(self, number: int) -> str:
        """The user's message of a request, counted from 1."""
        return self.requests[number - 1].messages[-1].content


@pytest.fixture
def kernel_file() -> KernelFile:
    return KernelFile.parse(SOURCE, "double.py")


@pytest.fixture
def situation(kernel_file: KernelFile) -> Situation:
    nothing: Any = ()
    before = Examination(evidence=nothing, findings=nothing, failure=None, variant="a[0]")
    return Situation(Draft(kernel_file, "xpu"), {"a[0]": before}, load_device("bmg-g31"))
