"""The hook in upstream's Triton 3.9, in real compiles for CUDA, through to cubin."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bench.self.round_trip import carrier, kernel_names
from tests.hook.cases import Cases
from tests.hook.conftest import Place
from xesmith.bench import problem_names

pytestmark = [pytest.mark.network, pytest.mark.mlir]

TRITON = "triton==3.9.0"


@pytest.fixture(scope="module")
def upstream_python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An environment with upstream's Triton, and with torch from this one."""
    folder = tmp_path_factory.mktemp("triton39")
    python = str(folder / "bin" / "python")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    subprocess.run([python, "-m", "pip", "install", "-q", "--no-deps", TRITON], check=True)
    (packages,) = (folder / "lib").glob("python3*/site-packages")
    # After its own packages, so that its own Triton comes first.
    ours = [path for path in sys.path if path.endswith("site-packages")]
    (packages / "zz_torch.pth").write_text("\n".join(ours) + "\n")
    return python


def test_its_modules_come_back_from_stock_mlir(upstream_python: str) -> None:
    """As tests/exchange has it of Intel's Triton; all problems, and the kernels beside them."""
    with carrier(upstream_python) as one:
        rows = list(one.rows([*problem_names(), *kernel_names()]))
    assert {row.subject for row in rows} == {*problem_names(), *kernel_names()}
    for row in rows:
        if row.subject in ("block_pointers", "gemm_rebuilt"):
            assert row.result == "not made"
            assert "Block pointers have been removed" in row.detail
        else:
            assert row.result == "identical", row


class TestUpstreamsTriton(Cases):
    native = "kernel.ptx kernel.cubin"

    @pytest.fixture
    def place(self, tmp_path: Path, upstream_python: str) -> Place:
        return Place(tmp_path, upstream_python)
