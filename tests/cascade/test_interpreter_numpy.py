"""The interpreter with a NumPy that makes no `int` of an array with one element."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

PROGRAM = """
import warnings
import torch, triton, triton.language as tl
from xesmith.cascade.interpreter import Watch, install

install(Watch(source_path=__file__), "xpu", {"multi_processor_count": 1})

@triton.jit
def rows(out_ptr, n, BLOCK: tl.constexpr):
    total = 0
    for start in range(0, n, BLOCK):
        total += start
    tl.store(out_ptr, total)

out = torch.zeros(1, dtype=torch.int32)
# What NumPy 2.4 refuses, NumPy 1.25 to 2.3 warn of.
warnings.filterwarnings("error", "Conversion of an array with ndim > 0", DeprecationWarning)
rows[(1,)](out, 20, BLOCK=4)
print(int(out))
"""


@pytest.mark.intel
def test_a_bound_of_a_loop_is_a_number(toolchain, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [str(toolchain.python), str(program)],
        capture_output=True,
        text=True,
        env={**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert done.stdout.strip() == "40", done.stderr  # 0 + 4 + 8 + 12 + 16
