"""Lowerer: every way in which a program can end costs that program alone, with its cause."""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from xesmith.device import load_device
from xesmith.errors import UsageError
from xesmith.lowering import Lowerer
from xesmith.lowering.lowerer import target_json

pytestmark = pytest.mark.intel

HEAD = """import torch
import triton
import triton.language as tl


@triton.jit
def fill(x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, 1.0, mask=i < n)


x = torch.empty(1000, device="xpu")
fill[(8,)](x, 1000, 128)
"""

TRIPS = """import torch
import triton
import triton.language as tl


@triton.jit
def trips(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    a0 = tl.make_block_ptr(a_ptr, [M, K], [K, 1], [0, 0], [BM, BK], [1, 0])
    b0 = tl.make_block_ptr(b_ptr, [K, N], [N, 1], [0, 0], [BK, BN], [1, 0])
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        x = tl.load(tl.advance(a0, [0, k * BK]))
        y = tl.load(tl.advance(b0, [k * BK, 0]))
        acc = tl.dot(x, y, acc)
    c0 = tl.make_block_ptr(c_ptr, [M, N], [N, 1], [0, 0], [BM, BN], [1, 0])
    tl.store(c0, acc.to(tl.float16))


a = torch.randn(4096, 4096, dtype=torch.float16, device="xpu")
trips[(1,)](a, a, a, 4096, 4096, 4096, 128, 128, 32, num_warps=16)
"""


def test_a_script_without_a_model_is_lowered(uncached, script):
    run = uncached.run(script(HEAD))
    assert run.failure is None
    (lowering,) = run.lowerings
    assert (lowering.launch.kernel, lowering.launch.line) == ("fill", 7)
    assert lowering.compiler == f"triton-xpu {uncached.toolchain.triton_version}"
    assert lowering.native_compiler is not None
    assert set(lowering.seconds) == {"ttir", "ttgir", "llir", "spirv", "native"}


@pytest.mark.parametrize(
    ("text", "kind", "level", "line", "message"),
    [
        ("x = (1,\n", "python", "import", 1, "SyntaxError"),
        ("\nimport no_such_module\n", "python", "import", 2, "ModuleNotFoundError"),
        (
            "def f():\n    raise ValueError('seven')\nf()\n",
            "python",
            "import",
            2,
            "ValueError: seven",
        ),
        ("import sys\nsys.exit(4)\n", "python", "import", None, "exits with 4"),
        ("import os\nos._exit(9)\n", "crash", "import", None, "the program crashed (exit code 9)"),
        ("import os\nos.abort()\n", "crash", "import", None, "the program crashed (SIGABRT)"),
    ],
)
def test_a_program_that_fails_says_where(uncached, script, text, kind, level, line, message):
    run = uncached.run(script(text))
    assert run.lowerings == ()
    assert run.failure is not None
    assert (run.failure.kind, run.failure.level, run.failure.line) == (kind, level, line)
    assert message in run.failure.message


def test_a_program_that_exits_well_is_no_failure(uncached, script):
    assert uncached.run(script("import sys\nsys.exit(0)\n")).failure is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\n", "defines no 'Model'"),
        ("class Model:\n    def __init__(self):\n        raise KeyError('w')\n", "KeyError"),
        ("class Model:\n    def __call__(self): pass\n", "defines no 'get_inputs'"),
    ],
)
def test_a_model_that_cannot_be_built_is_told(uncached, script, text, message):
    failure = uncached.run(script(text, entry="model")).failure
    assert failure is not None
    assert (failure.kind, failure.level) == ("python", "model")
    assert message in failure.message


def test_what_was_captured_before_a_failure_is_kept(uncached, script):
    run = uncached.run(script(HEAD + "raise RuntimeError('late')\n"))
    assert [item.launch.kernel for item in run.lowerings] == ["fill"]
    assert run.failure is not None
    assert run.failure.line == 14

    run = uncached.run(script(HEAD + "import os\nos.abort()\n"))
    (lowering,) = run.lowerings
    assert Path(lowering.levels["ze_info"]).is_file()
    assert run.failure is not None
    assert run.failure.kind == "crash"


def test_a_program_that_would_end_its_server_ends_itself(uncached, script):
    run = uncached.run(script("import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\n"))
    assert run.failure is not None
    assert (run.failure.kind, run.failure.message) == ("crash", "the program crashed (SIGKILL)")
    assert uncached.run(script(HEAD)).failure is None


def test_a_server_that_ends_is_told_so_and_the_next_program_runs(uncached, script):
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(uncached.run, script("import time\ntime.sleep(60)\n"))
        server = None
        while server is None or not uncached_children(server):
            time.sleep(0.01)
            server = uncached._workers._process
        server.kill()
        run = running.result()
    assert run.failure is not None
    # Of no kind that is kept: another run may not meet it.
    assert run.failure.kind == "lost"
    assert "server ended while the program was at work" in run.failure.message
    assert uncached.run(script(HEAD)).failure is None


def uncached_children(server) -> bool:
    return bool(Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text())


def test_a_program_that_never_ends_is_ended(impatient, script):
    run = impatient.run(script(HEAD + "while True: pass\n"))
    assert run.failure is not None
    assert run.failure.kind == "timeout"
    assert run.failure.message == "the program did not end within 3 s"
    assert [item.launch.kernel for item in run.lowerings] == ["fill"]
    assert impatient.run(script(HEAD)).failure is None


def test_a_program_that_eats_memory_is_ended(impatient, script):
    run = impatient.run(script("held = []\nwhile True: held.append(bytearray(1 << 24))\n"))
    assert run.failure is not None
    assert run.failure.kind == "memory"
    assert run.failure.message == "the program took more than 256 MiB of memory"
    assert run.failure.numbers == {"limit_bytes": 1 << 28}


def test_large_tensors_cost_no_memory(uncached, script):
    text = """import resource
import torch
torch.randn(4, device="xpu") @ torch.randn(4, device="xpu")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
made = [torch.randn(1 << 28, device="xpu") for _ in range(40)]
y = torch.zeros(30000, 30000, dtype=torch.float16, device="xpu")
y.normal_()
z = (y @ y + y).relu().float().softmax(-1).mul_(2.0)
assert z.shape == (30000, 30000) and z.dtype == torch.float32
grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
assert grown_kib < 64 << 10, grown_kib
"""
    run = uncached.run(script(text))
    assert run.failure is None


def test_a_pass_that_fails_is_named_with_its_assertion(uncached, script):
    run = uncached.run(script(TRIPS))
    (lowering,) = run.lowerings
    failure = lowering.failure
    assert failure is not None
    assert (failure.kind, failure.level, failure.line) == ("compile", "ttgir", 7)
    assert "the pass TritonIntelGPUPipeline fails: Assertion" in failure.message
    assert {"ttir", "ttir_generic"} == set(lowering.levels)
    assert lowering.not_read["zebin"] == "no SPIR-V was made"


def test_a_compiler_that_dies_costs_one_program(uncached, script):
    dies = HEAD.replace(
        "x = torch",
        "import os\ntriton.compiler.compiler.ir.context = lambda: os.abort()\nx = torch",
    )
    alive, dead, fine = uncached.run_many([script(HEAD), script(dies), script(HEAD + "\n")])
    assert alive.failure is None
    assert fine.failure is None
    assert dead.failure is not None
    assert (dead.failure.kind, dead.failure.level) == ("crash", "ttir")
    assert dead.failure.message == "the compiler, making ttir, crashed (SIGABRT)"
    (lowering,) = dead.lowerings
    assert lowering.launch.kernel == "fill"
    assert lowering.launch.grid == (8, 1, 1)
    assert lowering.failure == dead.failure


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("1.0, mask", "undefined, mask", 9, "undefined is not defined"),
        ("tl.arange(0, BLOCK)", "tl.arange(0, 100)", 8, "must be a power of 2"),
        ("tl.store(x", "tl.static_assert(BLOCK > 999)\n    tl.store(x", 9, ""),
        ("tl.program_id(0)", "tl.no_such_thing(0)", 8, "no_such_thing"),
    ],
)
def test_the_front_ends_errors_have_the_programs_line(uncached, script, old, new, line, message):
    (lowering,) = uncached.run(script(HEAD.replace(old, new))).lowerings
    failure = lowering.failure
    assert failure is not None
    assert (failure.kind, failure.level, failure.line) == ("compile", "ttir", line)
    assert message in failure.message


def test_an_error_in_a_called_function_has_its_own_line(uncached, script):
    text = HEAD.replace(
        "@triton.jit\ndef fill",
        "@triton.jit\ndef helper(i):\n    j = i + 1\n    return j + nothing\n\n\n"
        "@triton.jit\ndef fill",
    ).replace("1.0, mask", "helper(i), mask")
    (lowering,) = uncached.run(script(text)).lowerings
    assert lowering.failure is not None
    assert lowering.failure.line == 9
    assert "nothing is not defined" in lowering.failure.message


def test_run_many_keeps_the_order_and_lowers_equal_programs_once(uncached, script):
    texts = [HEAD.replace("128)", f"{size})") for size in (256, 512, 256)]
    runs = uncached.run_many([script(text) for text in texts])
    assert [r.lowerings[0].launch.values["BLOCK"] for r in runs] == [256, 512, 256]
    assert runs[0] == runs[2]


def test_launches_of_one_kernel_share_a_build(uncached, script):
    run = uncached.run(script(HEAD + "fill[(9,)](x, 1000, 128)\n"))
    first, second = run.lowerings
    assert first.launch.grid != second.launch.grid
    assert first.levels == second.levels


def test_without_native_code_the_levels_end_at_spirv(uncached, script):
    (lowering,) = uncached.run(script(HEAD), native=False).lowerings
    assert "spirv" in lowering.levels
    assert "zebin" not in lowering.levels


def test_a_device_of_another_kind_is_refused(toolchain):
    with pytest.raises(UsageError, match="compiles for xpu"):
        Lowerer(toolchain, load_device("h200"))


def test_the_target_carries_the_devices_limits(device):
    target = target_json(device)
    assert target["limits"]["shared_bytes"] == 131072
    assert target["limits"]["sub_groups"] == {"128": 64, "256": 32}
    assert target_json(load_device("h200"))["arch"] == 90
