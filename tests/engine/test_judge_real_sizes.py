"""Programs that are right at every small shape and wrong at the real one do not pass."""

from dataclasses import replace
from pathlib import Path

import pytest

from xesmith.cascade.correctness import find_reference
from xesmith.engine import judge as judge_module
from xesmith.engine.judge import Judge
from xesmith.engine.problem import load_problem
from xesmith.engine.session import Session

pytestmark = [pytest.mark.intel, pytest.mark.mlir]

SPEC = """
inputs:
  x: {shape: [ROWS, COLS], dtype: float16}
inits: []
bench:
  - {params: [x], dtype: float16, dims: {ROWS: 8192, COLS: 4096}, flop: "ROWS*COLS"}
"""

HEADER = """\
import torch
import torch.nn as nn
import triton
import triton.language as tl
"""

REFERENCE = (
    HEADER
    + """
class Model(nn.Module):
    def forward(self, x):
        return x.sum(-1)
"""
)

#: y[row] = sum of x[row], one row a program
KERNEL = (
    HEADER
    + """

@triton.jit
def sum_kernel(x_ptr, y_ptr, rows, cols, NUM: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, cols, BLOCK):
        at = start + i
        acc += tl.load(x_ptr + row * cols + at, mask=at < cols, other=0.0).to(tl.float32)
    tl.store(y_ptr + row, tl.sum(acc, 0).to(tl.float16))


class Model(nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        y = torch.empty((rows,), device=x.device, dtype=x.dtype)
        sum_kernel[(rows,)](x, y, rows, cols, NUM=64, BLOCK=256)
        return y
"""
)

#: 64 programs share the rows
SHARED = (
    KERNEL.replace(
        '''    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, cols, BLOCK):
        at = start + i
        acc += tl.load(x_ptr + row * cols + at, mask=at < cols, other=0.0).to(tl.float32)
    tl.store(y_ptr + row, tl.sum(acc, 0).to(tl.float16))
''',
        '''    i = tl.arange(0, BLOCK)
    for row in range(tl.program_id(0), rows, NUM):
        acc = tl.zeros((BLOCK,), dtype=tl.float32)
        for start in range(0, cols, BLOCK):
            at = start + i
            acc += tl.load(x_ptr + row * cols + at, mask=at < cols, other=0.0).to(tl.float32)
        tl.store(y_ptr + row, tl.sum(acc, 0).to(tl.float16))
''',
    ).replace("sum_kernel[(rows,)]", "sum_kernel[(min(rows, 64),)]")
)  # fmt: skip

ROUNDS = "range(tl.program_id(0), rows, NUM)"
RESET = "        acc = tl.zeros((BLOCK,), dtype=tl.float32)\n"
RESET_ONCE = RESET.removeprefix("    ")
LOOP = "    for row in range"


def changed(text: str, *pairs: tuple[str, str]) -> str:
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    return text


STALE = changed(SHARED, (RESET, ""), (LOOP, RESET_ONCE + LOOP))
WHILE = changed(
    SHARED,
    (f"    for row in {ROUNDS}:", "    row = tl.program_id(0)\n    while row < rows:"),
    ("tl.sum(acc, 0).to(tl.float16))\n", "tl.sum(acc, 0).to(tl.float16))\n        row += NUM\n"),
)
#: four rows a program, the loop over them unrolled
UNROLLED = changed(
    SHARED.replace("NUM=64", "NUM=128").replace("min(rows, 64)", "min(rows, 128)"),
    (ROUNDS, "tl.static_range(0, 4)"),
    ("y_ptr + row, tl.sum(acc, 0).to(tl.float16))", "y_ptr + at_row, total, mask=at_row < rows)"),
    ("        tl.store", "        total = tl.sum(acc, 0).to(tl.float16)\n        tl.store"),
    (RESET, "        at_row = tl.program_id(0) + row * NUM\n" + RESET),
    ("row * cols + at, mask=at < cols,", "at_row * cols + at, mask=(at < cols) & (at_row < rows),"),
)
BRANCH = """    if rows > 4096:
        tl.store(y_ptr + tl.program_id(0), FACTOR)
"""

RIGHT = {
    "shared rows": SHARED,
    "while": WHILE,
    "a branch that changes nothing": changed(
        SHARED, (LOOP, BRANCH.replace("FACTOR", "0.0") + LOOP)
    ),
}
#: text, the level that must not pass, and a part of what it says
WRONG = {
    "stale accumulator": (STALE, "correctness", "elements are wrong"),
    "stale accumulator, while": (
        changed(WHILE, (RESET, ""), ("    while row", RESET_ONCE + "    while row")),
        "correctness",
        "elements are wrong",
    ),
    "first round only": (
        changed(SHARED, (ROUNDS, "range(tl.program_id(0), min(rows, NUM), NUM)")),
        "lowering",
        "the kernels store 128 bytes at most, and the outputs hold 16384",
    ),
    "two rounds only": (
        changed(SHARED, (ROUNDS, "range(tl.program_id(0), min(rows, 2 * NUM), NUM)")),
        "lowering",
        "the kernels store 256 bytes at most, and the outputs hold 16384",
    ),
    "a fixed grid": (
        changed(KERNEL, ("sum_kernel[(rows,)]", "sum_kernel[(min(rows, 600),)]")),
        "lowering",
        "the kernels store 1200 bytes at most, and the outputs hold 16384",
    ),
    "two rounds only, in zeros": (
        changed(
            SHARED,
            (ROUNDS, "range(tl.program_id(0), min(rows, 2 * NUM), NUM)"),
            ("torch.empty(", "torch.zeros("),
        ),
        "lowering",
        "whether the rest is right",
    ),
    "columns up to a constant": (
        changed(SHARED, ("range(0, cols, BLOCK)", "range(0, min(cols, 2048), BLOCK)")),
        "correctness",
        "COLS=4352",
    ),
    "columns up to the spec's": (
        changed(SHARED, ("range(0, cols, BLOCK)", "range(0, min(cols, 4096), BLOCK)")),
        "correctness",
        "COLS=4352",
    ),
    "a mask at a constant": (
        changed(SHARED, ("mask=at < cols", "mask=at < min(cols, 3000)")),
        "correctness",
        "COLS=4352",
    ),
    "a branch for many rows": (
        changed(
            SHARED,
            (
                "        tl.store(y_ptr + row, tl.sum(acc, 0).to(tl.float16))\n",
                "        if rows > 4096:\n"
                "            acc = tl.load(x_ptr + i).to(tl.float32)\n"
                "        tl.store(y_ptr + row, tl.sum(acc, 0).to(tl.float16))\n",
            ),
        ),
        "correctness",
        "ROWS=",
    ),
}


def judged(folder: Path, spec: str, kernel: str, texts: dict[str, str], session: Session):
    (folder / "kernel.py").write_text(kernel)
    (folder / "reference.py").write_text(REFERENCE)
    (folder / "spec.yaml").write_text(spec)
    problem = load_problem(folder / "kernel.py")
    judge = Judge(session, problem, find_reference(problem.program()), lambda _: None)
    baseline = judge.baseline()
    results = {}
    for name, item in zip(texts, session.examine(problem, list(texts.values())), strict=True):
        levels = judge.lowered_levels(baseline.examinations, item, must_improve=False)
        levels.append(judge.correctness(texts[name], baseline, examinations=item))
        results[name] = {level.level: level for level in levels if level.level != "performance"}
    return results


@pytest.fixture(scope="module")
def session():
    with Session() as opened:
        yield opened


@pytest.fixture(scope="module")
def results(session, tmp_path_factory):
    texts = {**RIGHT, **{name: text for name, (text, *_) in WRONG.items()}}
    return judged(tmp_path_factory.mktemp("sum"), SPEC, KERNEL, texts, session)


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_program_passes(results, name):
    assert {level: r.status for level, r in results[name].items()} == dict.fromkeys(
        ("structure", "lowering", "correctness"), "passed"
    ), [r.messages for r in results[name].values()]


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_program_does_not(results, name):
    _, level, said = WRONG[name]
    result = results[name][level]
    assert result.status in ("refused", "not_read")
    assert said in " ".join(result.messages)


def test_what_an_unrolled_loop_carries_along_is_found(session, tmp_path):
    loop = "    for row in tl.static_range"
    stale = changed(UNROLLED, (RESET, ""), (loop, RESET_ONCE + loop))
    spec = SPEC.replace("8192", "512").replace("4096", "512")
    results = judged(tmp_path, spec, KERNEL, {"right": UNROLLED, "stale": stale}, session)
    assert results["right"]["correctness"].status == "passed"
    assert "elements are wrong" in results["stale"]["correctness"].messages[0]


#: a spec whose shape itself can be interpreted, and a branch that holds there alone
SMALL = SPEC.replace("8192", "1024").replace("4096", "1024")


def wrong_when_large(text):
    store = "    tl.store(y_ptr + row, tl.sum(acc, 0).to(tl.float16))\n"
    return changed(text, (store, "    if rows * cols >= 1024 * 1024:\n        acc *= 0\n" + store))


@pytest.fixture
def wide(session, tmp_path):
    """What `Judge.wide` says of a text for `SMALL`."""

    def check(text, kernel=KERNEL):
        (tmp_path / "kernel.py").write_text(kernel)
        (tmp_path / "reference.py").write_text(REFERENCE)
        (tmp_path / "spec.yaml").write_text(SMALL)
        problem = load_problem(tmp_path / "kernel.py")
        judge = Judge(session, problem, find_reference(problem.program()), lambda _: None)
        return judge.wide(text)

    return check


def test_a_right_program_is_right_where_all_sizes_but_one_are_the_spec_s(wide):
    result = wide(KERNEL)
    assert (result.status, result.messages) == ("passed", ())
    assert [case["case"] for case in result.facts["cases"]] == [
        "bench[0] ROWS=1024 COLS=1024",
        "bench[0] (scaled) ROWS=512 COLS=1024",
    ]
    assert [case["runs"] for case in result.facts["cases"]] == [1, 1]


def test_what_hangs_on_a_product_of_sizes_is_found(wide):
    result = wide(wrong_when_large(KERNEL))
    assert result.status == "refused"
    assert all("ROWS=1024 COLS=1024: " in message for message in result.messages)
    assert "elements are wrong" in result.messages[0]


def test_a_wide_case_that_the_original_gets_wrong_is_left_out(wide):
    wrong = wrong_when_large(KERNEL)
    result = wide(wrong + "# a candidate\n", kernel=wrong)
    assert result.status == "passed"
    assert result.facts["left_out"] == {
        "bench[0] ROWS=1024 COLS=1024": "the original is not right there"
    }


def test_a_wide_case_that_takes_too_long_is_left_out(wide, monkeypatch):
    monkeypatch.setattr(judge_module, "WIDE", replace(judge_module.WIDE, timeout_s=0.01))
    result = wide(KERNEL + "# slow\n", kernel=KERNEL + "# another reference\n")
    assert (result.status, result.facts["cases"]) == ("passed", [])
    assert all("0.01 s" in reason for reason in result.facts["left_out"].values())


def test_a_wrong_result_is_not_read_where_the_original_takes_too_long(wide, monkeypatch):
    hasty = replace(judge_module.WIDE, timeout_s=0.01)
    monkeypatch.setattr(judge_module, "_WIDE_ORIGINAL", hasty)
    result = wide(wrong_when_large(KERNEL), kernel=KERNEL + "# slow\n")
    assert result.status == "not_read"
    assert result.messages[0].startswith("not checked for the original, bench[0] ROWS=1024")
