"""A softmax made better through tools only: what a model's client would do, step by step."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from xesmith.ledger import Ledger
from xesmith.report.model import build

pytestmark = [pytest.mark.intel, pytest.mark.mlir]

SOFTMAX = "bench/problems/softmax/kernel.py"

#: as the file's kernel, with exp2; {scale} is what exp needs to become exp2
KERNEL = """\
@triton.jit
def softmax_kernel(
    out_ptr, in_ptr, in_row_stride, out_row_stride, n_cols, BLOCK_SIZE: tl.constexpr
):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols
    x = tl.load(in_ptr + row * in_row_stride + cols, mask=mask, other=-float("inf"))
    x = x.to(tl.float32)
    numerator = tl.exp2((x - tl.max(x, axis=0)) * {scale})
    y = numerator * (1.0 / tl.sum(numerator, axis=0))
    tl.store(out_ptr + row * out_row_stride + cols, y.to(tl.float16), mask=mask)
"""

#: the same for rows that fill their block: nothing is masked
EVEN = """\
@triton.jit
def softmax_even(
    out_ptr, in_ptr, in_row_stride, out_row_stride, n_cols, BLOCK_SIZE: tl.constexpr
):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK_SIZE)
    x = tl.load(in_ptr + row * in_row_stride + cols).to(tl.float32)
    numerator = tl.exp2((x - tl.max(x, axis=0)) * 1.4426950408889634)
    y = numerator * (1.0 / tl.sum(numerator, axis=0))
    tl.store(out_ptr + row * out_row_stride + cols, y.to(tl.float16))
"""


def even_plan(guard: str) -> dict[str, Any]:
    launch = {"kernel": "softmax_even", "grid": ["out_ptr.shape[0]"]}
    alternative = {"guard": guard, "launches": [launch]}
    return {"rebindings": [{"name": "softmax_kernel", "alternatives": [alternative]}]}


LEVELS = ["syntax", "structure", "lowering", "correctness", "performance"]
SECRET = "sk-never-to-be-seen-0123456789"


def statuses(value: Any) -> dict[str, str]:
    return {level["level"]: level["status"] for level in value["levels"]}


def test_a_softmax_is_optimised_through_tools_only(
    talk: Callable[..., Any], repository: Path, tmp_path: Path
) -> None:
    run, result = tmp_path / "run", tmp_path / "softmax_best.py"
    given = (repository / SOFTMAX).read_bytes()
    common = {"kernel": SOFTMAX, "target": "bmg-g31", "run": str(run)}

    async def conversation(client: Any) -> None:
        # What is there: bound by memory, with masks that are never false.
        seen = await client.value("inspect", kernel=SOFTMAX, target="bmg-g31")
        (shape,) = seen["shapes"]
        (launch,) = shape["launches"]
        assert launch["bound_by"] == "memory"
        instructions = launch["values"]["native.instructions"]
        assert {finding["kind"] for finding in shape["findings"]} == {"needless-mask"}

        # What may be done about it, and how it is said.
        contract = (await client.value("stages", name="discovery"))["contract"]
        assert contract["must_improve"]
        assert "exp2" in contract["body"]
        told = await client.value("knowledge_search", finding="needless-mask", target="bmg-g31")
        assert "mask.even" in [entry["id"] for entry in told["entries"]]
        assert "rebindings" in (await client.value("guide"))["text"]

        # The scale of exp2 is forgotten: the code is better and the results are wrong.
        wrong = await client.call(
            "verify",
            **common,
            stage="discovery",
            note="exp2 instead of exp, one reciprocal a row",
            kernels=KERNEL.format(scale="1.0"),
        )
        assert wrong.steps == [
            f"lowering the baseline {SOFTMAX}",
            "checking the baseline's results",
            "lowering the candidate",
            "checking the candidate's results",
        ]
        assert (wrong.value["accepted"], wrong.value["refused_by"]) == (False, "correctness")
        reasons = next(x for x in wrong.value["levels"] if x["level"] == "correctness")
        assert "elements are wrong; the worst, at [" in reasons["messages"][0]
        assert (wrong.value["trial"], wrong.value["parent"]) == (2, 1)

        # With the scale every level passes.
        right = await client.value(
            "verify",
            **common,
            stage="discovery",
            note="exp2 with the scale folded in, one reciprocal a row",
            kernels=KERNEL.format(scale="1.4426950408889634"),
        )
        assert right["accepted"], right
        assert statuses(right) == dict.fromkeys(LEVELS, "passed")
        (times,) = right["predicted_us"].values()
        assert times["after"] < times["before"]
        assert right["measured"] == "not measured"
        (changed,) = right["changed_values"].values()
        assert changed["native.instructions"][0] == instructions
        assert changed["native.instructions"][1] < 0.7 * instructions

        # Without masks under a guard, held to another stage's promises.
        even = await client.value(
            "verify",
            **common,
            stage="memory_access",
            note="no masks where a row fills its block",
            kernels=EVEN,
            plan=even_plan("n_cols == BLOCK_SIZE"),
        )
        assert even["accepted"], even
        (changed,) = even["changed_values"].values()
        assert changed["ttir.masked_accesses"] == [2, 0]

        # The same without its guard is wrong where a row does not fill its block.
        loose = await client.value(
            "verify",
            **common,
            stage="memory_access",
            note="no masks at all",
            kernels=EVEN,
            plan=even_plan("True"),
        )
        assert (loose["accepted"], loose["refused_by"]) == (False, "correctness")
        assert [line.split("(")[0] for line in loose["cited_lines"].values()] == [
            "x = tl.load",
            "tl.store",
        ]

        # Built on the accepted one there is nothing left: the memory bounds it.
        last = await client.value(
            "verify",
            **common,
            parent=even["trial"],
            note="the masked one again",
            kernels=KERNEL.format(scale="1.4426950408889634"),
        )
        assert (last["refused_by"], last["parent"]) == ("performance", even["trial"])
        assert statuses(last)["correctness"] == "not_run"

        # Nothing is judged twice, and nothing is built on what was refused.
        again = await client.value(
            "verify", **common, stage="discovery", kernels=KERNEL.format(scale="1.0")
        )
        assert (again["judged_before"], again["trial"]) == (True, 2)
        stuck = await client.call("verify", **common, parent=2, kernels=EVEN, plan=even_plan("1"))
        assert "trial 2 was not accepted" in stuck.text

        # The tree, and the best file.
        tree = await client.value("trials", run=str(run))
        assert [
            (t["id"], t.get("parent"), t["verdict"], t.get("refused_by")) for t in tree["trials"]
        ] == [
            (1, None, "accepted", None),
            (2, 1, "refused", "correctness"),
            (3, 1, "accepted", None),
            (4, 1, "accepted", None),
            (5, 1, "refused", "correctness"),
            (6, 4, "refused", "performance"),
        ]
        best = await client.value("best", run=str(run), write_to=str(result))
        assert best["trial"] == tree["best"] == 4
        assert best["predicted_us_after"] < best["predicted_us_before"]

        # It stands by itself: the file that was written is judged anew, as a file.
        anew = await client.value("verify", kernel=SOFTMAX, candidate=str(result))
        assert anew["accepted"]

        # A run is of one kernel.
        other = await client.call(
            "verify", kernel="bench/problems/layer_norm/kernel.py", run=str(run), plan={}
        )
        assert "the run in this folder had other" in other.text

    talk(conversation, OPENAI_API_KEY=SECRET)
    assert (repository / SOFTMAX).read_bytes() == given
    text = result.read_text()
    assert text.startswith(given.decode().rstrip("\n"))
    assert "def softmax_even(" in text
    with Ledger.open(run / "ledger.sqlite") as ledger:
        report = build(ledger)
    assert report.verdict.startswith("improved: predicted time 222.5 us before, 221.1 us after")
    assert [(row.stage, row.note) for row in report.rows] == [
        ("baseline", "as given"),
        ("memory_access", "no masks where a row fills its block"),
    ]
    assert {stage.name: stage.status for stage in report.stages} == {
        "memory_access": "improved",
        "discovery": "skipped",
        "verify": "refused",
    }
    for path in tmp_path.rglob("*"):
        assert path.is_dir() or SECRET.encode() not in path.read_bytes()


def test_text_that_is_no_kernel_is_kept_as_a_trial_and_never_lowered(
    talk: Callable[..., Any], repository: Path, tmp_path: Path
) -> None:
    note = tmp_path / "executed"
    candidate = tmp_path / "candidate.py"
    changed = (repository / SOFTMAX).read_text().replace("import torch\n", "import os\n", 1)
    candidate.write_text(f"{changed}\nopen({str(note)!r}, 'w')\n")

    async def conversation(client: Any) -> tuple[Any, Any, Any]:
        asked = {"kernel": SOFTMAX, "candidate": str(candidate)}
        alone = await client.call("verify", **asked)
        kept = await client.call("verify", **asked, run=str(tmp_path / "run"))
        return alone, kept, await client.value("trials", run=str(tmp_path / "run"))

    alone, kept, tree = talk(conversation)
    for answer in (alone, kept):
        assert not answer.is_error
        assert statuses(answer.value) == {"syntax": "refused"}
        assert answer.value["refused_by"] == "syntax"
    assert alone.steps == []
    assert "lowering the candidate" not in kept.steps
    assert [(t["id"], t.get("refused_by")) for t in tree["trials"]] == [(1, None), (2, "syntax")]
    assert not note.exists()


def test_a_kernel_that_is_wrong_by_itself_is_no_baseline(
    talk: Callable[..., Any], repository: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "problem"
    folder.mkdir()
    for name in ("kernel.py", "reference.py", "spec.yaml"):
        text = (repository / "bench/problems/softmax" / name).read_text()
        (folder / name).write_text(text.replace("tl.exp(x)", "tl.exp(x) + 1"))

    async def conversation(client: Any) -> Any:
        return await client.call(
            "verify",
            kernel=str(folder / "kernel.py"),
            run=str(tmp_path / "run"),
            kernels=KERNEL.format(scale="1.0"),
        )

    answer = talk(conversation)
    assert answer.is_error
    assert "results are wrong before anything is changed" in answer.text
    assert "only a correct kernel can be optimised" in answer.text
