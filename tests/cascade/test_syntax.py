from __future__ import annotations

import pytest

from xesmith.cascade import syntax
from xesmith.kernel_file import KernelFile


@pytest.fixture(scope="module")
def text(repository) -> str:
    return (repository / "bench" / "problems" / "gemm" / "kernel.py").read_text("utf-8")


@pytest.fixture(scope="module")
def baseline(text) -> KernelFile:
    return KernelFile.parse(text, "gemm.py")


DOT = "acc += tl.dot(a, b)"


def test_the_unchanged_file_passes(text, baseline):
    result = syntax.check(text, baseline)
    assert result.status == "passed"
    assert result.facts["changed"] == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (DOT, "acc = tl.dot(a, b, acc)"),
        ("pid_m = tl.program_id(0)", "id = tl.program_id(0)\n    pid_m = id"),
        ("    BLOCK_K: tl.constexpr,\n", "    BLOCK_K: tl.constexpr,\n    G: tl.constexpr = 4,\n"),
        (
            "@triton.jit\ndef matmul_kernel(",
            '@triton.heuristics({"G": lambda args: args["K"] % 32 == 0})\n'
            "@triton.jit\ndef matmul_kernel(",
        ),
    ],
)
def test_a_changed_kernel_passes(text, baseline, changed, old, new):
    result = syntax.check(changed(text, old, new), baseline)
    assert (result.status, result.messages) == ("passed", ())
    assert result.facts["changed"] == ["matmul_kernel"]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (DOT, "acc += tl.dot(a, b", "was never closed"),
        (DOT, "import os", "line 43: an import in 'matmul_kernel'"),
        (DOT, "acc += torch.matmul(a, b)", "line 43: module 'torch'"),
        (DOT, "exec('acc = 1')", "'exec'"),
        (DOT, "acc += open('x').read()", "'open'"),
        (DOT, "acc += tl.core.os.getpid()", "'os'"),
        (DOT, "acc += (1).__class__", "'__class__'"),
        (DOT, "acc += __import__('os').getpid()", "'__import__'"),
        ("num_warps=16", "num_warps=32", "text outside the kernels was changed (line 73"),
        ("def matmul_kernel(", "def other_kernel(", "kernel 'matmul_kernel' is gone"),
        (
            "    c_ptr,\n    M",
            "    M",
            "the parameters of 'matmul_kernel' were (a_ptr, b_ptr, c_ptr",
        ),
        (
            "    BLOCK_K: tl.constexpr,\n",
            "    BLOCK_K: tl.constexpr,\n    G: tl.constexpr,\n",
            "new parameter 'G' of 'matmul_kernel' has no value",
        ),
        (
            "    BLOCK_K: tl.constexpr,\n",
            "    BLOCK_K,\n",
            "'BLOCK_K' of 'matmul_kernel' is no longer",
        ),
    ],
)
def test_what_is_not_a_changed_kernel_is_refused(text, baseline, changed, old, new, said):
    result = syntax.check(changed(text, old, new), baseline)
    assert result.status == "refused"
    assert any(said in message for message in result.messages), result.messages


def test_code_that_runs_at_import_is_refused(text, baseline, changed):
    attack = changed(text, "@triton.jit\ndef", "@triton.jit\n@(lambda f: exec('1') or f)\ndef")
    assert syntax.check(attack, baseline).status == "refused"


def test_what_the_baseline_already_does_is_allowed(text, changed):
    odd = changed(text, DOT, f"{DOT}\n        if K < 0:\n            raise ValueError")
    baseline = KernelFile.parse(odd, "gemm.py")
    edited = changed(odd, "pid_m = tl.program_id(0)", "pid_m = tl.program_id(axis=0)")
    assert syntax.check(edited, baseline).status == "passed"


def test_a_generated_block_that_was_edited_is_refused(text, baseline):
    block = "\n# >>> xesmith launch plan >>>\n#| {}\nmatmul = None\n# <<< xesmith launch plan <<<\n"
    result = syntax.check(text + block, baseline)
    assert result.status == "refused"
    assert "generated block" in result.messages[0]


HEAD = "@triton.jit\ndef matmul_kernel("
LAST = "    BLOCK_K: tl.constexpr,\n"
RUNS = "triton.runtime.build.tempfile._os.system('true')"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (LAST, f"{LAST}    Z: tl.constexpr = {RUNS},\n", "'triton.runtime.build.tempfile"),
        ("    stride_am,\n", f"    stride_am: {RUNS},\n", "'triton.runtime.build.tempfile"),
        (
            LAST,
            f"{LAST}    Z: tl.constexpr = triton.runtime.jit.re.enum.bltns.eval('0'),\n",
            "bltns",
        ),
        (LAST, f"{LAST}    Z: tl.constexpr = len('{{0.__class__}}'.format(1)),\n", "'format'"),
        # a variable of the body excuses no default, which is evaluated outside
        (DOT, f"{DOT}\n        eval = 1", None),
        (HEAD, f"@torch.no_grad()\n{HEAD}", "the decorator 'torch.no_grad()'"),
        (HEAD, f"@(lambda f: f)\n{HEAD}", "the decorator 'lambda f: f'"),
        (DOT, "tl.dot = tl.dot", "an assignment to 'tl.dot'"),
        (
            LAST,
            f"{LAST}    Z: tl.constexpr = len([0 for tl.dot in [1]]),\n",
            "assignment to 'tl.dot'",
        ),
        (DOT, "acc += a.handle.data", "'handle'"),
        (DOT, "acc += hasattr(a, 'handle')", "'hasattr'"),
        (DOT, "acc += matmul(a, b)", "'matmul'"),
        (DOT, "acc += nn.functional.linear(a, b)", "module 'nn'"),
        (
            HEAD,
            "@triton.heuristics({'G': lambda args: args['c_ptr'].copy_(args['a_ptr']) is None})\n"
            f"{HEAD}",
            "'copy_', which changes a tensor",
        ),
    ],
)
def test_ways_out_of_a_kernel_are_refused(text, baseline, changed, old, new, said):
    attack = changed(text, old, new)
    if said is None:
        attack = changed(attack, LAST, f"{LAST}    Z: tl.constexpr = eval('0'),\n")
        said = "'eval'"
    result = syntax.check(attack, baseline)
    assert result.status == "refused"
    assert any(said in message for message in result.messages), result.messages


@pytest.mark.parametrize(
    "new",
    [
        "acc = tl.math.fma(a, b, acc)",
        "acc += tl.extra.intel.libdevice.tanh(a)",
        "acc += tl.dot(a, b).to(tl.float32)",
        "acc += float('-inf') if BLOCK_K == 1 else min(1, 2)",
    ],
)
def test_the_language_may_be_used(text, baseline, changed, new):
    assert syntax.check(changed(text, DOT, new), baseline).messages == ()


def test_a_hook_may_zero_a_buffer(text, baseline, changed):
    tuned = (
        "@triton.autotune(configs=[triton.Config({}, pre_hook=lambda d: d['c_ptr'].zero_())], "
        f"key=['M'])\n{HEAD}"
    )
    assert syntax.check(changed(text, HEAD, tuned), baseline).messages == ()
