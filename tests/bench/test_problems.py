"""The problems are what they say: right, launchable or not, in the layout that others read."""

from __future__ import annotations

import pytest

from xesmith.assets import asset_folder
from xesmith.bench import load_problem, problem_names
from xesmith.cascade import syntax
from xesmith.cascade.correctness import Case, CorrectnessChecker, find_reference, interpreter_pool
from xesmith.errors import UsageError
from xesmith.kernel_file import KernelFile
from xesmith.spec import Budget

PROBLEMS = problem_names()

#: block size along each dim, where the kernel tiles it: shapes get two tiles and a tail
TILES = {
    "batched_gemm": {"M": 64, "N": 64, "K": 32},
    "flash_attention": {"SEQ_LEN": 128},
    "gemm": {"M": 128, "N": 128, "K": 32},
    "gemm_256": {"M": 256, "N": 256, "K": 32},
    "gemm_bias_gelu": {"BATCH": 128, "OUT_FEATURES": 128, "IN_FEATURES": 32},
    "gemm_bt": {"BATCH": 128, "OUT_FEATURES": 128, "IN_FEATURES": 32},
    "gemm_rebuilt": {"M": 128, "N": 128, "K": 32},
    "layer_norm": {"ROWS": 16},
    "linear_sum": {"BATCH": 128, "OUT_FEATURES": 128, "IN_FEATURES": 32},
    "softmax": {"ROWS": 16},
    "swiglu": {"ROWS": 16, "FEATURES": 128},
}


@pytest.fixture(scope="module")
def checker(toolchain):
    with (
        interpreter_pool(toolchain.python, parallel=1) as pool,
        CorrectnessChecker(pool) as checker,
    ):
        yield checker


def test_all_problems_of_the_readme_are_there():
    readme = (asset_folder("bench") / "README.md").read_text("utf-8")
    assert [name for name in PROBLEMS if f"| `{name}` |" not in readme] == []
    assert set(TILES) == set(PROBLEMS)


@pytest.mark.parametrize("problem", PROBLEMS)
def test_a_problem_has_its_three_files_and_two_variants(problem):
    loaded = load_problem(problem)
    files = {path.name for path in loaded.folder.iterdir() if path.is_file()}
    assert files == {loaded.kernel.name, loaded.reference.name, "spec.yaml"}
    spec = loaded.spec
    assert set(spec.variants) == {"ci", "bench-gpu"}
    assert spec.default_variant == "bench-gpu"
    small, large = spec.shapes("ci")[0], spec.shapes("bench-gpu")[0]
    assert small.flop is not None
    assert large.flop is not None
    assert small.flop < large.flop


def test_an_unknown_problem_names_the_nearest():
    with pytest.raises(UsageError) as caught:
        load_problem("softmx")
    assert "did you mean 'softmax'?" in (caught.value.remedy or "")


@pytest.mark.parametrize("problem", PROBLEMS)
def test_a_kernel_file_reads_and_passes_the_syntax_level(problem):
    kernel_file = KernelFile.load(load_problem(problem).kernel)
    assert kernel_file.has_model
    assert kernel_file.has_get_inputs
    assert kernel_file.has_get_init_inputs
    assert syntax.check(kernel_file.text, kernel_file).status == "passed"


def test_a_gemm_of_known_size_counts_two_flop_a_multiply_add():
    (shape,) = load_problem("gemm").spec.shapes()
    assert shape.flop == 2 * 4096**3
    assert shape.mem_bytes == 3 * 4096 * 4096 * 2


@pytest.mark.intel
@pytest.mark.parametrize("problem", PROBLEMS)
def test_a_baseline_is_right_at_its_scaled_shape_and_at_one_that_no_tile_divides(problem, checker):
    loaded = load_problem(problem)
    spec = loaded.spec
    (shape,) = spec.shapes()
    kernel = shape.program(loaded.kernel.read_text("utf-8"), loaded.kernel)
    reference = find_reference(kernel)
    assert reference.kind == "pytorch"
    # A program of the grid costs the interpreter about the same whatever it computes.
    elements = 2**13 if "ROWS" in TILES[problem] else 2**18
    limits = {"tiles": TILES[problem], "budget": Budget(elements=elements, flop=5e7)}
    scaled = Case.of(spec.scale(shape, **limits))
    result = checker.check(kernel, reference, [scaled])
    assert (result.status, result.messages) == ("passed", ())
    assert result.facts["cases"][0]["torch_operators"] == {}
    odd = [Case.of(odd) for odd in spec.odd_shapes(shape, **limits)]
    assert any(checker.passing(kernel, reference, [case]) for case in odd)


@pytest.mark.intel
@pytest.mark.parametrize(
    ("problem", "shared_bytes"),
    # Seen with triton-xpu 3.3.0b1: the padded accumulator's way to its store.
    [("gemm", [34816]), ("gemm_256", [135168]), ("softmax", [16]), ("layer_norm", [64])],
)
def test_a_baseline_asks_for_the_slm_that_the_readme_says(problem, shared_bytes, lowerer, device):
    loaded = load_problem(problem)
    (shape,) = loaded.spec.shapes()
    run = lowerer.run(shape.program(loaded.kernel.read_text("utf-8"), loaded.kernel))
    assert [lowering.metadata["shared"] for lowering in run.lowerings] == shared_bytes
    fits = shared_bytes[0] <= device.slm_bytes_per_work_group
    assert [lowering.failure is None for lowering in run.lowerings] == [fits]
