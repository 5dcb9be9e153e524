"""The same ghost device on upstream's Triton, for CUDA, through to cubin."""

import site
import subprocess
import sys
from pathlib import Path

import pytest

from xesmith.device import load_device
from xesmith.ghost.launch import Program
from xesmith.lowering import Lowerer
from xesmith.toolchain import find_toolchain

pytestmark = pytest.mark.network

KERNELS = Path(__file__).parent / "kernels"
TRITON = "triton==3.9.0"


@pytest.fixture(scope="module")
def cuda_lowerer(tmp_path_factory):
    """An environment with upstream's Triton, and with torch from this one."""
    folder = tmp_path_factory.mktemp("cuda")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = folder / "bin" / "python"
    subprocess.run([str(python), "-m", "pip", "install", "-q", "--no-deps", TRITON], check=True)
    (packages,) = (folder / "lib").glob("python3*/site-packages")
    # After its own packages, so that its own Triton comes first.
    (packages / "zz_torch.pth").write_text("\n".join(site.getsitepackages()) + "\n")
    toolchain = find_toolchain(str(python), "cuda")
    with Lowerer(toolchain, load_device("h200"), parallel=1, cache=False) as lowerer:
        yield lowerer


def run(lowerer, name):
    path = KERNELS / name
    text = path.read_text().replace(', grf_mode="256"', "").replace("num_warps=32", "num_warps=8")
    return lowerer.run(Program(source=text, path=str(path), entry="script"))


def test_programs_are_lowered_to_cubin(cuda_lowerer):
    for name in ("descriptors.py", "host_descriptors.py"):
        done = run(cuda_lowerer, name)
        assert done.failure is None
        (lowering,) = done.lowerings
        assert lowering.failure is None
        assert lowering.compiler == "triton 3.9.0"
        assert set(lowering.levels) == {
            "ttir", "ttir_generic", "ttgir", "ttgir_generic", "llir", "ptx", "cubin",
        }  # fmt: skip
        # This compiler has descriptors: nothing was translated.
        assert lowering.notes == ()
        generic = Path(lowering.levels["ttgir_generic"]).read_text()
        assert '"builtin.module"(' in generic
        assert "xe_force_generic" not in generic


def test_an_option_of_intels_compiler_is_refused(cuda_lowerer):
    path = KERNELS / "descriptors.py"
    program = Program(source=path.read_text(), path=str(path), entry="script")
    (lowering,) = cuda_lowerer.run(program).lowerings
    assert lowering.failure is not None
    assert lowering.failure.kind == "options"
    assert lowering.failure.message == "this compiler has no launch option 'grf_mode'"


def test_every_configuration_is_reached(cuda_lowerer):
    done = run(cuda_lowerer, "tuned.py")
    assert done.failure is None
    kinds = [item.failure.kind if item.failure else None for item in done.lowerings]
    assert kinds[0] is None
    # The second names a GRF mode, the third 64 warps, the last a block of 3000.
    assert kinds[1:] == ["options", "out_of_resources", "compile"]
