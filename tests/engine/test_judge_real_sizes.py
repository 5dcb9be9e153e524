"""Programs that are right at every small shape and wrong at the real one do not pass."""

from pathlib import Path

import pytest

from xesmith.cascade.correctness import find_reference
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
