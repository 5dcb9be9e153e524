"""Launches as the driver would receive them, and the ones that it would refuse."""

import pytest

from xesmith.ghost.launch import Launch, Program, TensorArg
from xesmith.lowering import Lowerer
from xesmith.lowering.record import GhostRun

pytestmark = pytest.mark.intel


@pytest.fixture(scope="module")
def tuned(run_file):
    return run_file("tuned.py")


def test_every_configuration_is_reached_with_its_index(tuned):
    assert tuned.failure is None
    launches = [item.launch for item in tuned.lowerings]
    assert [launch.config_index for launch in launches] == [0, 1, 2, 3]
    assert [launch.constexprs["BLOCK"] for launch in launches] == [128, 1024, 2048, 3000]
    assert [launch.grid[0] for launch in launches] == [8192, 1024, 512, 350]
    assert launches[1].options["grf_mode"] == "256"
    assert launches[1].config == {
        "BLOCK": 1024, "grf_mode": "256", "num_warps": 8, "num_ctas": 1, "num_stages": 3,
    }  # fmt: skip


def test_heuristics_are_evaluated_for_each_configuration(tuned):
    even = [item.launch.constexprs["EVEN"] for item in tuned.lowerings]
    assert even == [True, True, True, False]


def test_a_configuration_that_the_device_refuses_is_not_chosen(tuned):
    kinds = [item.failure.kind if item.failure else None for item in tuned.lowerings]
    assert kinds == [None, None, "out_of_resources", "compile"]
    # 64 sub-groups of 32 lanes.
    refused = tuned.lowerings[2].failure
    assert refused.numbers == {"required_work_items": 2048, "limit_work_items": 1024}
    # The first was tried, and launched again as the best.
    assert [item.launch.repeats for item in tuned.lowerings] == [2, 1, 1, 1]


@pytest.fixture(scope="module")
def launches(run_file):
    run = run_file("launches.py")
    assert run.failure is None
    assert [item.failure for item in run.lowerings] == [None] * 6
    return [item.launch for item in run.lowerings]


def test_a_launch_has_its_exact_specialisation(launches):
    first = launches[0]
    assert (first.kernel, first.line, first.grid) == ("fill", 7, (8, 2, 1))
    assert first.signature == {"x": "*bf16", "n": "i32", "value": "fp32", "BLOCK": "constexpr"}
    assert first.values["x"] == TensorArg(
        dtype="bfloat16", shape=(64, 1000), strides=(1000, 1), pointer_alignment_bytes=512,
        storage_bytes=128000, device="xpu",
    )  # fmt: skip
    assert first.values["n"] == 1000
    assert first.values["value"] == 2.0
    assert first.constexprs == {"BLOCK": 128}
    assert first.divisible_by_16 == ("x",)
    assert first.options == {
        "num_warps": 4, "num_stages": 2, "num_ctas": 1, "grf_mode": "default",
    }  # fmt: skip


def test_views_have_the_alignment_of_their_offset(launches):
    # Row 1 starts at 2000 bytes, a multiple of 16; element 16 at 32 bytes.
    assert launches[1].values["x"].pointer_alignment_bytes == 16
    assert launches[1].divisible_by_16 == ("x", "n")
    assert launches[2].values["x"].pointer_alignment_bytes == 32
    assert launches[2].values["x"].storage_bytes == 128000
    assert launches[2].grid == (500, 1, 1)


def test_an_integer_1_becomes_a_constant_and_equal_launches_are_counted(launches):
    assert launches[3].signature["n"] == "constexpr"
    assert launches[3].constexprs["n"] == 1
    assert launches[3].values["x"].strides == (1, 1000)
    assert launches[3].repeats == 5


def test_a_kernel_compiled_beforehand_is_seen_when_it_is_launched(launches):
    assert launches[4].grid == (7, 1, 1)
    assert launches[4].values["BLOCK"] == 64
    assert launches[5].grid == (3, 1, 1)  # under do_bench


def test_launches_go_through_json_unchanged(launches):
    import json

    for launch in launches:
        assert Launch.from_json(json.loads(json.dumps(launch.to_json()))) == launch


def test_what_the_device_would_refuse_is_refused(run_file):
    run = run_file("refused.py")
    assert run.failure is None
    seen = [
        (item.failure.kind, item.failure.message) if item.failure else None
        for item in run.lowerings
    ]
    assert seen == [
        ("out_of_resources", "num_warps is 3, not a power of two"),
        ("out_of_resources", "work-group size: 2048 work-items required, limit 1024"),
        (
            "out_of_resources",
            "RuntimeError: grf_mode = large cannot be used with num_warps > 32",
        ),
        (
            "options",
            "grf_mode 'huge' does not exist; known: small, large, auto, default, 128, 256, 512",
        ),
        ("options", "this compiler has no launch option 'num_wraps'; did you mean 'num_warps'?"),
        (
            "options",
            "this compiler would ignore grf_mode '512'; it knows 128, 256, auto and default",
        ),
        None,
    ]
    # What the compiler made before it refused is kept.
    assert "llir" in run.lowerings[2].levels
    assert run.lowerings[6].metadata["threads_per_warp"] == 16


@pytest.fixture(scope="module")
def strict(toolchain, device):
    """Raises into the program what the device would raise."""
    with Lowerer(toolchain, device, parallel=1, cache=False, keep_going=False) as lowerer:
        yield lowerer


@pytest.mark.parametrize(
    ("launch", "kind", "caught"),
    [
        ("fill[(8,)](x, 1000, 128, num_warps=64)", "out_of_resources", "OutOfResources"),
        ("fill[(8,)](x, 1000, 128, num_wraps=4)", "options", "LaunchRefusedError"),
        ("fill[(8,)](x, 1000, 100)", "compile", "CompilationError"),
    ],
)
def test_refusals_are_raised_where_the_program_shall_meet_them(strict, launch, kind, caught):
    head = (
        "import torch, triton\nimport triton.language as tl\n\n\n@triton.jit\n"
        "def fill(x, n, BLOCK: tl.constexpr):\n"
        "    tl.store(x + tl.arange(0, BLOCK), 1.0)\n\n\nx = torch.empty(9, device='xpu')\n"
    )
    run = _run(strict, head + launch)
    assert run.failure is not None
    assert run.failure.kind == kind
    assert run.failure == run.lowerings[0].failure
    seen = f"try:\n    {launch}\nexcept Exception as e:\n    raise SystemExit(type(e).__name__)"
    assert _run(strict, head + seen).failure.message == f"the program exits with {caught}"


def _run(lowerer: Lowerer, text: str) -> GhostRun:
    return lowerer.run(Program(source=text, path="/nowhere/s.py", entry="script"), native=False)


def test_a_grid_that_is_no_integer_raises_as_on_the_device(run_text):
    run = run_text(
        "import torch, triton\nimport triton.language as tl\n\n\n@triton.jit\n"
        "def fill(x):\n    tl.store(x, 1.0)\n\n\n"
        "fill[(8 / 2,)](torch.empty(9, device='xpu'))\n"
    )
    assert run.failure is not None
    assert run.failure.message == "TypeError: a grid extent is float, not an integer: 4.0"
    assert run.failure.line == 10
