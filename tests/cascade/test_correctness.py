"""Each trap with the program that falls into it; controls that are right must pass."""

from __future__ import annotations

from dataclasses import replace

import pytest

from xesmith.cascade.correctness import Case, CorrectnessChecker, Reference, find_reference
from xesmith.errors import InputKernelError, UsageError
from xesmith.ghost.launch import TensorSpec


@pytest.fixture
def judge(checker, program, double, double_reference, changed, case):
    """Checks DOUBLE with text replaced against y = 2 x, at 200 elements unless told."""

    def check(*edits: tuple[str, str], cases=None, reference=double_reference, **limits):
        source = double
        for old, new in edits:
            source = changed(source, old, new)
        reference = Reference(program(reference, "reference.py"), "pytorch")
        return checker.check(program(source), reference, cases or [case((200,))], **limits)

    return check


def one_message(result) -> str:
    assert result.status == "refused", result
    return "\n".join(result.messages)


def test_a_right_program_passes_and_tells_what_was_compared(judge, case):
    result = judge(cases=[case((200,)), case((3, 50), name="two dimensions")])
    assert (result.status, result.messages) == ("passed", ())
    assert result.facts["reference"] == "reference.py"
    first, second = result.facts["cases"]
    assert first["launches"] == {"double_kernel": 1}
    assert first["programs"] == 4  # ceil(200 / 64)
    assert second["programs"] == 3  # ceil(150 / 64)
    assert first["runs"] == 4  # three seeds, and one with programs in reverse order
    assert first["reference_precision"] == "float64"
    assert first["error_over_allowed"] == 0  # doubling is exact


# -- values ---------------------------------------------------------------------------------


@pytest.mark.parametrize("size", ["64.0", "63", "65"])
def test_a_size_that_no_block_has_is_refused_after_one_that_it_has(judge, size):
    """What is known of a block's shape is remembered: never for another shape."""
    zeros = "tl.zeros(({},), tl.float16)"
    said = one_message(
        judge(("y = x * 2", f"y = x * 2 + {zeros.format('64')} + {zeros.format(size)}"))
    )
    assert "Shape element 0 must" in said


def test_one_wrong_element_is_found_and_named(judge):
    said = one_message(judge(("y = x * 2", "y = tl.where(i == 137, x * 2 + 0.25, x * 2)")))
    assert "1 of 200 elements are wrong; the worst, at [137]" in said
    assert "(seed 0)" in said
    assert "(seed 2)" in said


def test_an_element_that_is_never_written_is_told_from_a_wrong_one(judge):
    said = one_message(judge(("y, mask=i < n", "y, mask=i < n - 1")))
    assert "1 of 200 elements are wrong; the worst, at [199], is nan" in said
    assert "1 elements were never written" in said


def test_an_integer_that_is_never_written_is_wrong(judge, case):
    said = one_message(
        judge(("y, mask=i < n", "y, mask=i < n - 1"), cases=[case((70,), dtype="int32")])
    )
    assert "1 of 70 elements are wrong; the worst, at [69]" in said


def test_another_dtype_is_refused(judge):
    said = one_message(judge(("dtype=x.dtype", "dtype=torch.float32")))
    assert "dtype float16 expected, float32 returned" in said


def test_another_shape_is_refused(judge):
    said = one_message(judge(("return y", "return y.view(2, 100)")))
    assert "shape [200] expected, [2, 100] returned" in said


def test_every_output_is_compared(judge, double_reference, changed):
    reference = changed(double_reference, "return x * 2", "return x * 2, x * 2")
    assert judge(("return y", "return y, y"), reference=reference).status == "passed"
    said = one_message(judge(("return y", "return y, x"), reference=reference))
    assert "output 1" in said
    assert "output 0" not in said
    said = one_message(judge(reference=reference))
    assert "2 output tensors expected, 1 returned" in said


def test_a_lower_precision_than_the_types_say_is_refused(judge, case):
    cases = [case((200,), dtype="float32")]
    assert judge(("y = x * 2", "y = x * 2.0"), cases=cases).status == "passed"
    said = one_message(judge(("y = x * 2", "y = x.to(tl.float16) * 2"), cases=cases))
    assert "elements are wrong" in said


def test_bfloat16_arithmetic_and_rounding_are_the_device_s(judge, case):
    cases = [case((500,), dtype="bfloat16")]
    result = judge(("y = x * 2", "y = x + x"), cases=cases)
    assert result.status == "passed"
    assert result.facts["cases"][0]["error_over_allowed"] == 0
    rounded = judge(
        ("y = x * 2", "y = (x.to(tl.float32) * 1.7).to(tl.bfloat16)"),
        cases=cases,
        reference=BFLOAT16_REFERENCE,
    )
    # Rounded to nearest the error is at most half a unit: 2^-9 of 8 * 2^-8 allowed.
    assert rounded.status == "passed"
    assert rounded.facts["cases"][0]["error_over_allowed"] < 1 / 8


BFLOAT16_REFERENCE = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return x * 1.7
"""


def test_nan_and_infinity_equal_themselves_only(judge, case):
    logs = "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x):\n"
    logs += "        return torch.log(x)\n"
    edit = ("y = x * 2", "y = tl.log(x.to(tl.float32))")
    assert judge(edit, reference=logs).status == "passed"  # NaN where x < 0
    said = one_message(judge(("y = x * 2", "y = tl.log(tl.abs(x.to(tl.float32)))"), reference=logs))
    assert "where nan is expected" in said
    big = "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x):\n"
    big += "        return x * 1e6\n"
    assert judge(("y = x * 2", "y = x.to(tl.float32) * 1e6"), reference=big).status == "passed"


def test_rtol_and_atol_of_the_spec_override_the_derived_ones(judge, case):
    edit = ("y = x * 2", "y = x * 2 + 0.125")
    assert judge(edit).status == "refused"
    assert judge(edit, cases=[case((200,), atol=0.126)]).status == "passed"
    assert judge(edit, cases=[case((200,), atol=0.01)]).status == "refused"


# -- a gemm at a shape that no tile divides ---------------------------------------------------

MASKS = (
    ("mask=(offs_m[:, None] < M) & (offs_k[None, :] < k_left), other=0.0", ""),
    ("mask=(offs_k[:, None] < k_left) & (offs_n[None, :] < N), other=0.0", ""),
    ("acc.to(tl.float16), mask=c_mask", "acc.to(tl.float16)"),
)


@pytest.fixture(scope="module")
def gemm(repository) -> tuple[str, str]:
    folder = repository / "bench" / "problems" / "gemm"
    return (folder / "kernel.py").read_text("utf-8"), str(folder / "kernel.py")


def test_an_unmasked_gemm_is_right_where_tiles_divide_and_refused_elsewhere(
    checker, program, gemm, changed, case
):
    text, path = gemm
    for old, new in MASKS:
        text = changed(text, old, new)
    kernel = program(text, path)
    reference = find_reference(kernel)
    even, odd = case((256, 64), (64, 128), name="even"), case((257, 67), (67, 131), name="odd")
    assert checker.check(kernel, reference, [even]).status == "passed"
    said = one_message(checker.check(kernel, reference, [even, odd]))
    assert "even" not in said
    assert "is nan where" in said  # what lies behind a tensor is NaN
    assert "line 41: load of matmul_kernel reaches" in said
    assert "store of matmul_kernel reaches" in said
    assert checker.passing(kernel, reference, [even, odd]) == [even]


def test_a_read_outside_that_changes_nothing_is_told_and_only_refused_when_new(
    checker, program, gemm, changed, case
):
    text, path = gemm
    reads = changed(text, *MASKS[0])  # rows of A beyond M: their results are not stored
    reads = changed(reads, "tl.load(a_ptrs, )", "tl.load(a_ptrs)")
    baseline, kernel = program(text, path), program(reads, path)
    reference = find_reference(kernel)
    cases = [case((130, 64), (64, 128))]
    alone = checker.check(kernel, reference, cases)
    assert alone.status == "passed"
    outside = alone.facts["cases"][0]["outside"]
    assert {access["op"] for access in outside} == {"load"}
    # Row 255 of the tile's rows, of 64 elements of 2 bytes: 126 rows beyond the last.
    assert outside[0]["farthest_bytes"] == 126 * 64 * 2
    before = checker.check(baseline, reference, cases)
    said = one_message(checker.check(kernel, reference, cases, baseline=before))
    assert "load of matmul_kernel reaches" in said
    assert checker.check(kernel, reference, cases, baseline=alone).status == "passed"


def test_the_whole_gemm_takes_seconds(checker, program, gemm, case):
    text, path = gemm
    kernel = program(text, path)
    cases = [case((256, 256), (256, 256), name="scaled"), case((257, 263), (263, 269), name="odd")]
    result = checker.check(kernel, find_reference(kernel), cases)
    assert result.status == "passed"
    assert sum(c["seconds"] + c["reference_seconds"] for c in result.facts["cases"]) < 10


# -- memory -----------------------------------------------------------------------------------


def test_a_write_outside_is_refused_with_its_line(judge):
    said = one_message(judge(("y, mask=i < n", "y, mask=i < n + 1")))
    assert "line 12: store of double_kernel reaches 1 elements outside its tensor" in said


@pytest.mark.parametrize(
    ("old", "line", "op"),
    [("tl.load(x_ptr + i,", 10, "load"), ("tl.store(y_ptr + i,", 12, "store")],
)
def test_an_access_where_there_is_no_memory_at_all_has_its_line(judge, old, line, op):
    """Done, it would end the process by signal 11."""
    far = old.replace("+ i", "+ (i.to(tl.int64) << 42)")
    said = one_message(judge((old, far)))
    assert f"line {line}: IndexError: {op} of double_kernel reaches" in said
    assert "outside its tensor, so far that there is no memory" in said


def test_memory_that_pytorch_has_made_is_none_outside(judge):
    result = judge(("double_kernel[", "x = x + 0\n        double_kernel["))
    assert (result.status, result.messages) == ("passed", ())


def test_a_changed_input_is_refused(judge):
    said = one_message(judge(("y = x * 2", "y = x * 2\n    tl.store(x_ptr + i, y, mask=i < n)")))
    assert "input 0" in said
    assert "was changed" in said


def test_programs_that_depend_on_each_other_are_found(judge):
    # The last program to come writes its own number: right in one order only.
    said = one_message(
        judge(
            ("y = x * 2", "y = tl.where(i == 0, x * 2 + 3 - tl.load(y_ptr + 1), x * 2)"),
            ("i = tl.program_id(0)", "i = (3 - tl.program_id(0))"),
        )
    )
    assert "elements are wrong" in said


LAST_WINS = """
@triton.jit
def last_kernel(x_ptr, y_ptr):
    p = tl.program_id(0)
    tl.store(y_ptr, tl.load(x_ptr + p))


class Model(nn.Module):
    def forward(self, x):
        y = torch.empty((1,), device="xpu", dtype=x.dtype)
        last_kernel[(x.numel(),)](x, y)
        return y
"""


def test_a_race_that_the_usual_order_hides_is_found_in_reverse(checker, program, header, case):
    reference = (
        header + "class Model(nn.Module):\n    def forward(self, x):\n        return x[-1:]\n"
    )
    said = one_message(
        checker.check(
            program(header + LAST_WINS),
            Reference(program(reference), "pytorch"),
            [case((16,))],
        )
    )
    assert "(seed 0, programs in reverse order)" in said
    assert "(seed 1)" not in said


# -- state and chance -------------------------------------------------------------------------


def test_a_program_that_is_right_only_at_first_is_refused(judge):
    said = one_message(
        judge(
            ("class Model", "CALLS = []\n\n\nclass Model"),
            ("return y", "CALLS.append(1)\n        return y if len(CALLS) < 3 else y + 1"),
        )
    )
    assert "(seed 2)" in said
    assert "(seed 1)" not in said


def test_chance_is_refused(judge):
    said = one_message(
        judge(
            ("class Model", "import os\n\n\nclass Model"),
            ("return y", "return y + os.urandom(1)[0] + 1"),
        )
    )
    assert "200 of 200 elements are wrong" in said


# -- what launches ----------------------------------------------------------------------------


def test_a_program_without_a_launch_is_refused(judge):
    said = one_message(
        judge(
            ("double_kernel[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), BLOCK=64)", "y = x * 2")
        )
    )
    assert "no kernel is launched" in said


def test_a_decoy_kernel_is_refused(judge):
    said = one_message(judge(("return y", "return x * 2")))
    assert "do not change the output" in said


def test_pytorch_in_a_kernel_s_place_is_refused_when_the_baseline_had_none(judge, changed):
    half = ("y = x * 2", "y = x")
    baseline = judge()
    moved = judge(half, ("return y", "return y + x"), baseline=baseline)
    assert "computes with PyTorch what was a kernel's work: add" in one_message(moved)
    assert judge(half, ("return y", "return y + x")).status == "passed"


# -- autotune ---------------------------------------------------------------------------------

ATOMIC_SUM = """
@triton.autotune(
    configs=[
        triton.Config({"BLOCK": 64}, num_warps=4),
        triton.Config({"BLOCK": 128}, num_warps=8),
        triton.Config({"BLOCK": 32, "grf_mode": "large"}, num_warps=8),
    ],
    key=["n"],
)
@triton.jit
def sum_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    tl.atomic_add(y_ptr, tl.sum(x.to(tl.float32), 0))


class Model(nn.Module):
    def forward(self, x):
        y = torch.zeros((1,), device="xpu", dtype=torch.float32)
        sum_kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, x.numel())
        return y
"""
SUM_REFERENCE = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return x.sum(dtype=torch.float64 if x.dtype == torch.float64 else torch.float32).view(1)
"""


@pytest.fixture
def judge_sum(checker, program, header, case):
    def check(source: str):
        return checker.check(
            program(header + source),
            Reference(program(SUM_REFERENCE), "pytorch"),
            [case((300,), dtype="float32")],
        )

    return check


def test_an_atomic_kernel_under_autotune_sums_once_in_every_configuration(judge_sum):
    result = judge_sum(ATOMIC_SUM)
    assert (result.status, result.messages) == ("passed", ())
    record = result.facts["cases"][0]
    assert record["configurations"] == 3
    assert record["runs"] == 5  # one in reverse order, one as the first call
    assert record["launches"] == {"sum_kernel": 1}


def test_one_wrong_configuration_is_named(judge_sum, changed):
    # Eight elements of each tile are left out, in the second configuration only.
    wrong = changed(ATOMIC_SUM, "mask=i < n", "mask=(i < n) & ((BLOCK != 128) | (i % 16 < 8))")
    said = one_message(judge_sum(wrong))
    assert "(seed 1, configuration 1)" in said
    assert "configuration 2" not in said


def test_more_configurations_than_seeds_are_all_run(judge_sum, changed):
    more = changed(
        ATOMIC_SUM,
        "configs=[",
        "configs=[\n        triton.Config({'BLOCK': 16}),\n        triton.Config({'BLOCK': 256}),",
    )
    assert (
        judge_sum(more).facts["cases"][0]["runs"] == 7
    )  # five, one in reverse order, one as the first call
    wrong = changed(more, "mask=i < n", "mask=i < n - (BLOCK == 32) * 200")
    assert "configuration 4" in one_message(judge_sum(wrong))


def test_a_result_that_needs_the_tuner_to_zero_its_buffer_is_refused(judge_sum, changed):
    # reset_to_zero acts while configurations are timed; a later call finds the buffer as it is.
    unzeroed = changed(ATOMIC_SUM, "torch.zeros", "torch.empty")
    unzeroed = changed(unzeroed, 'key=["n"],', 'key=["n"],\n    reset_to_zero=["y_ptr"],')
    assert "is nan where" in one_message(judge_sum(unzeroed))


def test_a_first_call_that_tuning_spoils_is_told_and_refused_when_new(
    checker, program, header, case, changed
):
    reference = Reference(program(SUM_REFERENCE), "pytorch")
    cases = [case((300,), dtype="float32")]
    zeroed = changed(ATOMIC_SUM, 'key=["n"],', 'key=["n"],\n    reset_to_zero=["y_ptr"],')
    careful = checker.check(program(header + zeroed), reference, cases)
    assert careful.facts["cases"][0]["wrong_while_tuning"] == []
    careless = checker.check(program(header + ATOMIC_SUM), reference, cases)
    assert careless.status == "passed"
    assert len(careless.facts["cases"][0]["wrong_while_tuning"]) == 1
    said = one_message(
        checker.check(program(header + ATOMIC_SUM), reference, cases, baseline=careful)
    )
    assert "name what the kernel adds to in reset_to_zero" in said


def test_a_tuned_parameter_given_by_the_caller_is_told(judge_sum, changed):
    twice = changed(ATOMIC_SUM, "x, y, x.numel())", "x, y, x.numel(), BLOCK=64)")
    assert "Conflicting meta-parameters: BLOCK" in one_message(judge_sum(twice))
    twice = changed(ATOMIC_SUM, "x, y, x.numel())", "x, y, x.numel(), num_warps=4)")
    assert "multiple values for" in one_message(judge_sum(twice))


# -- what the interpreter is taught -----------------------------------------------------------


DESCRIPTORS = """
@triton.jit
def double_kernel(x_ptr, y_ptr, m, n, BLOCK: tl.constexpr):
    x_desc = tl.make_tensor_descriptor(
        x_ptr, shape=[m, n], strides=[n, 1], block_shape=[8, BLOCK]
    )
    y_desc = tl.make_tensor_descriptor(
        y_ptr, shape=[m, n], strides=[n, 1], block_shape=[8, BLOCK]
    )
    place = [0, tl.program_id(0) * BLOCK]
    y_desc.store(place, x_desc.load(place) * 2)


class Model(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        double_kernel[(triton.cdiv(x.shape[1], 32),)](x, y, *x.shape, BLOCK=32)
        return y
"""


def test_a_descriptor_kernel_runs_where_triton_has_none(
    checker, program, header, double_reference, case
):
    reference = Reference(program(double_reference), "pytorch")
    # 6 rows of 48: the last tile is over the edge on both sides.
    result = checker.check(program(header + DESCRIPTORS), reference, [case((6, 48))])
    assert (result.status, result.messages) == ("passed", ())


def test_a_persistent_kernel_asks_how_many_cores_there_are(pool, program, double, changed, case):
    source = changed(double, "(triton.cdiv(x.numel(), 64),)", "(CORES,)")
    source = changed(
        source,
        "class Model",
        "CORES = torch.xpu.get_device_properties(0).multi_processor_count\n"
        "assert triton.runtime.driver.active.utils.get_device_properties(0)"
        "['multiprocessor_count'] == CORES\n\n\nclass Model",
    )
    reference = Reference(program(changed(double, "y = x * 2", "y = x * 2.0")), "kernel")
    with CorrectnessChecker(pool, target={"gpu_subslice_count": 32}) as checker:
        result = checker.check(program(source), reference, [case((200,))])
    assert result.status == "passed", result.messages
    assert result.facts["cases"][0]["programs"] == 32


def test_true_and_a_mask(judge):
    assert judge(("mask=i < n)\n    y", "mask=(BLOCK == 64) & (i < n))\n    y")).status == "passed"


# -- programs that misbehave ------------------------------------------------------------------


@pytest.fixture
def hasty(pool):
    """Little time and memory, for programs that take all there is."""
    with CorrectnessChecker(pool, timeout_s=3, memory_bytes=256 << 20) as checker:
        yield checker


def misbehaving(checker, program, double, double_reference, case, statement: str):
    source = double.replace("class Model", "import os, signal, sys\n\n\nclass Model").replace(
        "return y", f"{statement}\n        return y"
    )
    reference = Reference(program(double_reference), "pytorch")
    return checker.check(program(source), reference, [case((200,))])


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("while True: pass", "did not end within 3 s"),
        ("y = [torch.ones(1 << 22) for _ in range(1000)]", "used more than 0.25 GiB"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "ended its process by signal 9"),
        # Who started it has no number where it is: 0 is its own group.
        ("os.kill(os.getppid(), signal.SIGKILL)", "ended its process by signal 9"),
        ("os._exit(0)", "ended its process by exit code 0"),
        ("sys.exit(0)", "line 22: SystemExit: 0 (seed 0)"),
        ("raise ValueError('no such luck')", "line 22: ValueError: no such luck (seed 0)"),
        ("return {1: y}", "Model returns a dict whose keys are not all strings"),
        ("return y.to_sparse()", "Model returns a tensor of layout torch.sparse_coo"),
    ],
)
def test_a_program_that_misbehaves_costs_itself_only(
    hasty, program, double, double_reference, case, statement, said
):
    result = misbehaving(hasty, program, double, double_reference, case, statement)
    assert said in one_message(result)
    after = misbehaving(hasty, program, double, double_reference, case, "pass")
    assert after.status == "passed"


def test_an_error_inside_a_kernel_has_its_line_and_cause(judge):
    said = one_message(judge(("y = x * 2", "y = x * 2 + tl.arange(0, 48)")))
    assert "line 11: ValueError: arange's range must be a power of 2 (seed 0)" in said


def test_a_syntax_error_has_its_line(judge):
    assert "line 11: SyntaxError" in one_message(judge(("y = x * 2", "y = x *")))


def test_what_the_interpreter_lacks_is_not_read_and_never_passed(judge):
    edit = 'tl.inline_asm_elementwise("mov $0, $1", "=r,r", [x], tl.float16, True, 1)'
    result = judge(("y = x * 2", f"y = {edit}"))
    assert result.status == "not_read"
    assert "inline_asm not supported" in result.messages[0]


def test_a_reference_without_end_is_told_to_be_smaller(hasty, program, double, case):
    endless = "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x):\n"
    endless += "        while True: pass\n"
    with pytest.raises(InputKernelError, match="did not end within 3 s") as caught:
        hasty.check(program(double), Reference(program(endless), "pytorch"), [case((200,))])
    assert "or a longer --timeout" in (caught.value.remedy or "")


# -- the reference ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("raise RuntimeError('empty')", "RuntimeError: empty"),
        ("return x @ x.view(3, 5)", "RuntimeError"),
    ],
)
def test_a_reference_that_fails_is_the_input_s_fault(judge, body, said):
    reference = (
        f"import torch\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        {body}"
    )
    with pytest.raises(InputKernelError, match=said) as caught:
        judge(reference=reference)
    assert caught.value.exit_code == 4
    assert caught.value.where == "reference.py:4"


def test_without_a_reference_the_kernel_is_held_against_itself(
    checker, program, double, changed, case, tmp_path
):
    kernel = program(double, str(tmp_path / "kernel.py"))
    reference = find_reference(kernel)
    assert reference.kind == "kernel"
    result = checker.check(kernel, reference, [case((200,))])
    assert result.status == "passed"
    assert "the original kernel (kernel.py)" in result.facts["reference"]
    assert result.facts["note"].startswith("compared with the original kernel")
    assert result.facts["cases"][0]["reference_precision"] == "native"
    wrong = program(changed(double, "y = x * 2", "y = x * 3"), kernel.path)
    assert checker.check(wrong, reference, [case((200,))]).status == "refused"


def test_the_reference_is_the_file_beside_or_the_one_given(program, double, tmp_path):
    kernel = program(double, str(tmp_path / "kernel.py"))
    (tmp_path / "reference.py").write_text("beside")
    (tmp_path / "mine.py").write_text("given")
    assert find_reference(kernel).program.source == "beside"
    assert find_reference(kernel, tmp_path / "mine.py").program.source == "given"
    with pytest.raises(UsageError) as caught:
        find_reference(kernel, tmp_path / "missing.py")
    assert caught.value.where == str(tmp_path / "missing.py")


LINEAR = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        {name} = nn.Parameter(torch.randn(200).to(device="xpu", dtype=torch.float16))

    def forward(self, x):
        y = torch.empty(x.shape, device="xpu", dtype=x.dtype)
        scale_kernel[(1,)](x, {name}, y, x.numel(), BLOCK=256)
        return y


@triton.jit
def scale_kernel(x_ptr, w_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    w = tl.load(w_ptr + i, mask=i < n)
    tl.store(y_ptr + i, x * w, mask=i < n)
"""
LINEAR_REFERENCE = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(200).to(device="xpu", dtype=torch.float16))

    def forward(self, x):
        return x * self.weight
"""


@pytest.mark.parametrize(
    ("name", "weights"),
    [("self.weight", "the same state_dict"), ("self.scale", "the same seed")],
)
def test_weights_come_from_the_state_dict_else_from_the_seed(
    checker, program, header, case, name, weights
):
    result = checker.check(
        program(header + LINEAR.format(name=name)),
        Reference(program(LINEAR_REFERENCE), "pytorch"),
        [case((200,))],
    )
    assert result.status == "passed", result.messages
    assert result.facts["cases"][0]["weights"] == weights


def test_a_reference_runs_once_for_all_candidates(pool, program, double, double_reference, case):
    with CorrectnessChecker(pool) as checker:
        reference = Reference(program(double_reference), "pytorch")
        first = checker.check(program(double), reference, [case((200,))])
        second = checker.check(program(double + "\n# again\n"), reference, [case((200,))])
    times = [r.facts["cases"][0]["reference_seconds"] for r in (first, second)]
    assert times[0] == times[1]


def test_a_candidate_cannot_find_the_expected_values(
    pool, program, double, double_reference, changed, case, tmp_path, monkeypatch
):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    spy = changed(
        double,
        "return y",
        "import os, sys\n"
        "        at = sys._getframe()\n"
        "        while not hasattr(at.f_locals.get('self'), '_prepared'): at = at.f_back\n"
        "        found = os.listdir(at.f_locals['self']._prepared)\n"
        "        assert any('inputs' in name for name in found), found\n"
        "        assert not any('expected' in name for name in found), found\n"
        f"        try: os.listdir({str(tmp_path)!r})\n"
        "        except PermissionError: return y\n"
        "        raise AssertionError('it sees the folders of others')",
    )
    with CorrectnessChecker(pool) as checker:
        reference = Reference(program(double_reference), "pytorch")
        result = checker.check(program(spy), reference, [case((200,))])
    assert (result.status, result.messages) == ("passed", ())
    assert list(tmp_path.iterdir()) == []


def test_a_case_without_inputs_uses_the_program_s_own(checker, program, double, double_reference):
    from xesmith.cascade.correctness import Case

    own = "\n\ndef get_inputs():\n    return [torch.randn(100, device='xpu')]\n"
    result = checker.check(
        program(double + own), Reference(program(double_reference + own), "pytorch"), [Case("own")]
    )
    assert result.status == "passed", result.messages
    assert result.facts["cases"][0]["outputs"][0]["elements"] == 100


def test_inputs_have_the_values_and_the_layout_that_the_spec_says(checker, program, header):
    """The reference's own inputs: transposed, so not contiguous, and of two values only."""
    source = header + (
        "class Model(nn.Module):\n"
        "    def forward(self, x):\n"
        "        assert x.stride() == (1, 32), x.stride()\n"
        "        assert x.unique().tolist() == [-1.0, 1.0]\n"
        "        return x\n"
    )
    spec = TensorSpec("x", (8, 32), "float16", transforms=("rademacher", "transpose"))
    said = checker.check(
        program(header + "class Model(nn.Module):\n    def forward(self, x):\n        return x\n"),
        Reference(program(source), "pytorch"),
        [Case("transposed", inputs=(spec,))],
    )
    # The reference ran; the candidate is right but launches nothing.
    assert said.messages == ("transposed: no kernel is launched",)


# -- a candidate that speaks for the harness --------------------------------------------------

#: finds the word that makes a result genuine in the frames around it, and says that all is well
FORGER = """import json, os, sys
        from xesmith.cascade import tensor_files
        at = sys._getframe()
        while "nonce" not in at.f_locals or "result_fd" not in at.f_locals: at = at.f_back
        folder, nonce, result_fd = (at.f_locals[n] for n in ("folder", "nonce", "result_fd"))
        runs = []
        for number, (seed, how) in enumerate(RUNS):
            outputs = tensor_files.write(torch.ones_like(y), folder / f"run-{number}.bin")
            runs.append({"seed": seed, "configuration": 0, "how": how, "outputs": outputs,
                         "file": FILE.format(number), "inputs_changed": [], "broken_guards": [],
                         "outside": []})
        value = {"failure": None, "failed_run": None, "runs": runs, "launches": {"double": 1},
                 "programs": 1, "configurations": 1, "torch_operators": {},
                 "changed_by_kernels": True, "weights": "none", "notes": [],
                 "trace": {"accessed": [], "rounds": []}}
        BEFORE
        said = {"status": "ok", "value": value, "measures": [], "nonce": nonce}
        os.write(result_fd, json.dumps(said).encode())
        os._exit(0)"""


@pytest.mark.parametrize(
    ("runs", "file", "before", "said"),
    [
        ([(0, "usual"), (1, "usual"), (2, "usual"), (0, "reverse")], "run-{}.bin", "", "are wrong"),
        ([(0, "usual")], "run-{}.bin", "", "its report lacks runs that were asked for"),
        ([], "run-{}.bin", "", "its report lacks runs that were asked for"),
        (
            [(0, "usual"), (1, "usual"), (2, "usual"), (0, "reverse")],
            "../run-{}.bin",
            "",
            "cannot be read: '../run-0.bin' is no name of a file",
        ),
        (
            [(0, "usual"), (1, "usual"), (2, "usual"), (0, "reverse")],
            "run-{}.bin",
            "os.unlink(folder / 'run-0.bin'); os.symlink('expected-0.bin', folder / 'run-0.bin')",
            "cannot be read: [Errno 2]",
        ),
    ],
)
def test_a_forged_report_is_a_claim_and_its_outputs_are_looked_at(
    pool, program, double, double_reference, changed, case, runs, file, before, said
):
    """Whoever runs in the same process can write its report. The verdict is made elsewhere."""
    text = FORGER.replace("RUNS", repr(runs)).replace("FILE", repr(file)).replace("BEFORE", before)
    forger = changed(double, "return y", text)
    with CorrectnessChecker(pool) as checker:
        reference = Reference(program(double_reference), "pytorch")
        result = checker.check(program(forger), reference, [case((200,))])
    assert result.status == "refused"
    assert said in result.messages[0]


def test_a_result_says_by_what_it_was_judged(judge, pool, program, double, double_reference, case):
    def hashes(reference_source, *cases):
        with CorrectnessChecker(pool) as checker:
            reference = Reference(program(reference_source), "pytorch")
            return checker.check(program(double), reference, cases).facts["hashes"]

    first = hashes(double_reference, case((200,)))
    assert {len(value) for value in first.values()} == {64}
    assert hashes(double_reference, case((200,))) == first
    edited = hashes(double_reference + "\n", case((200,)))
    assert {name for name in first if edited[name] != first[name]} == {"reference"}
    loose = hashes(double_reference, replace(case((200,)), rtol=0.5))
    assert {name for name in first if loose[name] != first[name]} == {"cases"}
