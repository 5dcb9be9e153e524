"""Offsets that wrap at a size that no interpreter can afford, with the real compiler."""

import pytest

from xesmith.cascade.examine import examine
from xesmith.ghost.launch import Program, TensorSpec

pytestmark = [pytest.mark.intel, pytest.mark.mlir]

KERNEL = """
@triton.jit
def double_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)CAST
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + i, mask=i < n)
    tl.store(y_ptr + row * n + i, x * 2, mask=i < n)


class Model(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        rows, n = x.shape
        double_kernel[(rows,)](x, y, n, BLOCK=4096)
        return y
"""


@pytest.mark.parametrize(
    ("rows", "cast", "lines"),
    [
        (2**19 + 1, "", (11,)),  # the last row starts at element 2^31; the compiler multiplies once
        (2**19, "", ()),
        (2**19 + 1, ".to(tl.int64)", ()),
    ],
)
def test_an_offset_of_32_bits_wraps_at_the_real_size(lowerer, device, header, rows, cast, lines):
    source = header + KERNEL.replace("CAST", cast)
    inputs = (TensorSpec("x", (rows, 4096), "float16"),)
    run = lowerer.run(Program(source, "kernel.py", inputs=inputs))
    assert examine(run, device).overflows == lines
