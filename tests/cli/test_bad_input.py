"""Bad input of every kind: one clear error, where it is, how to mend it, the right exit code."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from xesmith.cli import app

KERNEL = """\
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def double(x, y, N, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < N
    tl.store(y + offs, 2.0 * tl.load(x + offs, mask=mask), mask=mask)


class Model(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        double[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
        return y


def get_inputs():
    return [torch.randn(1024, device="xpu")]


def get_init_inputs():
    return []
"""
REFERENCE = """\
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return 2.0 * x


def get_inputs():
    return [torch.randn(1024, device="xpu")]


def get_init_inputs():
    return []
"""
SPEC = """\
inputs: {x: {shape: [N], dtype: float32}}
inits: []
ci: [{params: [x], dtype: float32, dims: {N: 1024}, flop: "N"}]
"""


@dataclass
class Done:
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def xesmith(capsys):
    """The command line in this process: `run` is all that its entry point calls."""

    def run(*arguments: object) -> Done:
        code = app.run([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return Done(code, out, err)

    return run


@pytest.fixture
def problem(tmp_path):
    """Writes a problem folder; each file can be given another text, or left out with None."""

    def write(kernel=KERNEL, reference=REFERENCE, spec=SPEC) -> Path:
        for name, text in (("kernel.py", kernel), ("reference.py", reference), ("spec.yaml", spec)):
            if text is not None:
                (tmp_path / name).write_text(text)
        return tmp_path / "kernel.py"

    return write


def check(done: Done, code: int, *parts: str) -> None:
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert len(re.findall(r"^error: ", done.stderr, re.M)) == 1, done.stderr
    for part in parts:
        assert part in done.stderr, done.stderr


def test_a_file_that_is_missing(xesmith):
    check(xesmith("optimize", "no_such.py"), 2, "no such file", "no_such.py")


def test_a_file_that_is_no_python(xesmith, tmp_path):
    path = tmp_path / "kernel.txt"
    path.write_text(KERNEL)
    check(xesmith("optimize", path), 2, "not a Python file")


def test_a_binary_file(xesmith, tmp_path):
    path = tmp_path / "kernel.py"
    path.write_bytes(b"\x7fELF\0\0")
    check(xesmith("inspect", path), 2, "NUL bytes")


def test_a_file_without_a_jit_function(xesmith, problem):
    check(xesmith("optimize", problem(kernel=REFERENCE)), 2, "no @triton.jit function")


def test_a_syntax_error_has_its_line(xesmith, problem):
    path = problem(kernel=KERNEL.replace("y = torch.empty_like(x)", "y = = x"))
    check(xesmith("optimize", path), 4, "syntax error", f"{path}:16")


@pytest.mark.parametrize(
    ("old", "new", "parts"),
    [
        ("flop:", "flops:", ["unknown field", "flops", "did you mean 'flop'"]),
        ("shape: [N]", "shape: [M]", ["M"]),
        ('flop: "N"', 'flop: "N *"', ["flop"]),
        ('flop: "N"', 'flop: "9**9**9**9"', ["flop"]),
        ("dims: {N: 1024}", "dims: {}", ["N"]),
        ("inits: []", "inits: [", ["spec.yaml"]),
    ],
)
def test_a_spec_that_is_wrong(xesmith, problem, old, new, parts):
    path = problem(spec=SPEC.replace(old, new))
    check(xesmith("optimize", path), 2, "spec.yaml", *parts)


def test_a_spec_that_is_missing(xesmith, problem, tmp_path):
    done = xesmith("optimize", problem(spec=None), "--spec", tmp_path / "other.yaml")
    check(done, 2, "other.yaml")


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["--target", "bmg-g32"], ["unknown device 'bmg-g32'", "did you mean 'bmg-g31'"]),
        (["--stages", "block_pointer"], ["unknown stage", "did you mean 'block_pointers'"]),
        (["--stages", ""], ["unknown stage"]),
        (["--tile-size", "64"], ["unknown flag '--tile-size'"]),
        (["--varient", "ci"], ["unknown flag", "did you mean '--variant'"]),
        (["--variant", "cii"], ["no variant 'cii'", "did you mean 'ci'"]),
        (["--resume"], ["--resume needs the run folder"]),
    ],
)
def test_an_argument_that_is_wrong_offers_the_nearest(xesmith, problem, arguments, parts):
    check(xesmith("optimize", problem(), *arguments), 2, *parts)


def test_errors_are_json_where_json_is_asked(xesmith, problem):
    done = xesmith("optimize", problem(), "--target", "bmg-g32", "--json")
    error = json.loads(done.stderr)
    assert (done.returncode, error["exit_code"], done.stdout) == (2, 2, "")
    assert "bmg-g31" in error["remedy"]


@pytest.mark.intel
def test_a_missing_toolchain_names_the_command_that_mends_it(
    xesmith, problem, tmp_path, monkeypatch
):
    monkeypatch.setenv("XESMITH_TOOLCHAIN_DIR", str(tmp_path / "none"))
    monkeypatch.setenv("PATH", "/nowhere")
    check(xesmith("optimize", problem()), 3, "xesmith toolchain install xpu")


@pytest.mark.intel
def test_a_toolchain_of_that_name_is_not_there(xesmith, problem):
    check(xesmith("optimize", problem(), "--toolchain", "xpu-9"), 2, "xpu-9", "xpu-3.3")


@pytest.mark.intel
@pytest.mark.mlir
@pytest.mark.parametrize(
    ("old", "new", "parts"),
    [
        ("y = torch.empty_like(x)", 'raise ValueError("seven")', ["ValueError: seven", ":16"]),
        ("tl.store(y + offs", "tl.stor(y + offs", ["stor", ":11"]),
        ("BLOCK=256", "BLOCK=255", ["power of 2"]),
        ("2.0 *", "3.0 *", ["results are wrong before anything is changed"]),
        ("import torch\n", "import os\nos.abort()\nimport torch\n", ["SIGABRT"]),
        ("double[(triton", "x * 2 if True else double[(triton", ["no Triton kernel is launched"]),
        (
            "y = torch.empty_like(x)",
            "triton.compiler.compiler.ir.context = lambda: __import__('os').abort(); y = x * 0",
            ["the compiler, making ttir, crashed (SIGABRT)"],
        ),
    ],
)
def test_a_kernel_that_fails_by_itself(xesmith, problem, old, new, parts):
    path = problem(kernel=KERNEL.replace(old, new, 1))
    check(xesmith("optimize", path, "--out", path.parent / "run"), 4, *parts)


@pytest.mark.intel
@pytest.mark.mlir
def test_a_reference_that_fails(xesmith, problem):
    path = problem(reference=REFERENCE.replace("return 2.0 * x", "return 2.0 * z"))
    check(xesmith("optimize", path, "--out", path.parent / "run"), 4, "reference.py", "'z'")


@pytest.mark.intel
@pytest.mark.mlir
@pytest.mark.parametrize(
    ("loop", "messages"),
    [
        # The compiler takes it; the interpreter never leaves it.
        ("n = N * 0\n    while n < N:\n        n = n * 1", ["did not end within 4 s"]),
        # Unrolled in the compiler, which grows until one of its limits ends it.
        ("for i in tl.static_range(100000000):\n        offs += i", ["4 s", "memory"]),
    ],
)
def test_a_candidate_that_never_ends_or_eats_memory(xesmith, problem, tmp_path, loop, messages):
    base = problem()
    candidate = tmp_path / "candidate.py"
    candidate.write_text(KERNEL.replace("    mask = offs < N", f"    {loop}\n    mask = offs < N"))
    done = xesmith("verify", base, candidate, "--timeout", 4)
    assert done.returncode == 1, done.stderr
    assert any(message in done.stdout for message in messages), done.stdout
    assert done.stdout.endswith("refused\n")


@pytest.mark.intel
@pytest.mark.mlir
def test_a_kernel_without_a_spec_that_is_too_much_for_the_interpreter(xesmith, problem):
    many = KERNEL.replace("randn(1024", "randn(1 << 24")
    path = problem(kernel=many, reference=REFERENCE.replace("(1024", "(1 << 24"), spec=None)
    done = xesmith("optimize", path, "--out", path.parent / "run", "--timeout", 10)
    check(done, 4, "results cannot be checked", "did not end within 10 s", "give a spec")


@pytest.mark.intel
@pytest.mark.mlir
def test_the_problem_of_this_table_is_fine_itself(xesmith, problem):
    done = xesmith("inspect", problem())
    assert done.returncode == 0, done.stderr


def test_a_cache_folder_that_cannot_be_made_is_no_internal_error(xesmith, tmp_path, monkeypatch):
    monkeypatch.setenv("XESMITH_CACHE_DIR", "/proc/none")
    (tmp_path / "kernel.py").write_text(KERNEL)
    done = xesmith("inspect", tmp_path / "kernel.py")
    assert done.returncode == 3
    assert "error: a file cannot be used: No such file or directory" in done.stderr
    assert "/proc/none" in done.stderr
    assert "XESMITH_CACHE_DIR" in done.stderr


def test_a_damaged_ledger_is_no_internal_error(xesmith, tmp_path):
    from xesmith.ledger import Ledger

    path = tmp_path / "ledger.sqlite"
    with Ledger.create(path, {"kernel": "k"}):
        pass
    size = path.stat().st_size
    assert size > 4096
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xa5" * (size - 4096))
    done = xesmith("report", tmp_path)
    assert done.returncode == 2
    assert "ledger is damaged" in done.stderr


def test_sigterm_ends_like_ctrl_c(tmp_path):
    (tmp_path / "kernel.py").write_text(f"import time\n{KERNEL}\ntime.sleep(60)\n")
    (tmp_path / "scratch").mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "xesmith.cli.app", "inspect", str(tmp_path / "kernel.py")],
        stderr=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(tmp_path / "scratch")},
    )
    time.sleep(4)
    process.send_signal(signal.SIGTERM)
    _, told = process.communicate(timeout=30)
    assert process.returncode == 130
    assert told.decode().splitlines()[-1] == "interrupted"
    assert list((tmp_path / "scratch").iterdir()) == []


def test_a_kernel_that_works_in_place_is_told_so(xesmith, tmp_path):
    text = KERNEL.replace("y = torch.empty_like(x)", "y = x")
    (tmp_path / "kernel.py").write_text(text)
    done = xesmith("optimize", tmp_path / "kernel.py", "--out", tmp_path / "run")
    assert done.returncode == 4
    assert "the kernel works in place, which is not checked: as written: input 0" in done.stderr
    assert "x.clone()" in done.stderr


@pytest.mark.parametrize(
    ("size", "code", "said"),
    [(0, 4, "its outputs have no elements"), (10**20, 2, "not a size")],
)
def test_sizes_of_nothing_and_beyond_all_are_told_so(xesmith, tmp_path, size, code, said):
    (tmp_path / "kernel.py").write_text(KERNEL)
    (tmp_path / "spec.yaml").write_text(SPEC.replace("1024", str(size)))
    done = xesmith("optimize", tmp_path / "kernel.py", "--out", tmp_path / "run")
    assert done.returncode == code
    assert said in done.stderr
