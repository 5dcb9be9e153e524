"""Problems: what belongs to a kernel file, and what cannot be one."""

from __future__ import annotations

from pathlib import Path

import pytest

from xesmith.engine.problem import AS_WRITTEN, load_problem
from xesmith.errors import UsageError

KERNEL = """\
import triton
import triton.language as tl


@triton.jit
def double(x, y, n, BLOCK: tl.constexpr):
    tl.store(y, tl.load(x))
"""
MODEL = KERNEL + "\n\nclass Model:\n    pass\n"
SPEC = """\
inputs: {x: {shape: [N], dtype: float32}}
inits: [{dim: N}]
default_variant: large
ci: [{params: [x], dims: {N: 64}}]
large: [{params: [x], dims: {N: 1024}}, {params: [x], dims: {N: 4096}}]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "double"
    made.mkdir()
    (made / "kernel.py").write_text(MODEL)
    (made / "spec.yaml").write_text(SPEC)
    return made


def test_the_spec_beside_a_kernel_gives_its_default_shapes(folder):
    problem = load_problem(folder / "kernel.py")
    assert (problem.name, problem.entry, problem.variant) == ("double", "model", "large")
    programs = problem.programs()
    assert list(programs) == ["large[0]", "large[1]"]
    assert [program.inits for program in programs.values()] == [(1024,), (4096,)]
    assert {program.source for program in problem.programs("other").values()} == {"other"}
    assert problem.constexprs == {"double": frozenset({"BLOCK"})}


def test_another_variant_can_be_asked_for(folder):
    problem = load_problem(folder / "kernel.py", variant="ci")
    assert [shape.dims for shape in problem.shapes] == [{"N": 64}]
    with pytest.raises(UsageError) as caught:
        load_problem(folder / "kernel.py", variant="larg")
    assert "did you mean 'large'?" in (caught.value.remedy or "")


def test_without_a_spec_the_file_says_what_it_runs_on(folder):
    (folder / "spec.yaml").unlink()
    problem = load_problem(folder / "kernel.py")
    assert list(problem.programs()) == [AS_WRITTEN]
    assert problem.programs()[AS_WRITTEN].inputs is None
    with pytest.raises(UsageError, match="there is no spec"):
        load_problem(folder / "kernel.py", variant="ci")


def test_a_script_has_no_model_and_takes_no_spec(folder):
    script = folder / "run.py"
    script.write_text(KERNEL)
    with pytest.raises(UsageError, match="no class Model"):
        load_problem(script)  # the spec beside it cannot be applied
    (folder / "spec.yaml").unlink()
    problem = load_problem(script)
    assert (problem.name, problem.entry) == ("run", "script")
    with pytest.raises(UsageError, match="no class Model, so nothing can be run and compared"):
        problem.require_model()


def test_a_script_may_import_its_kernels(folder):
    (folder / "spec.yaml").unlink()
    script = folder / "run.py"
    script.write_text("import kernel\n")
    problem = load_problem(script)
    assert (problem.entry, problem.constexprs) == ("script", {})
