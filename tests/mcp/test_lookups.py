"""Tools that only read: stages, devices, knowledge, and the trials and best file of a run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from xesmith.errors import UsageError
from xesmith.knowledge import load_knowledge
from xesmith.ledger import Ledger, Trial, text_digest
from xesmith.mcp import lookups
from xesmith.mcp.workbench import Workbench
from xesmith.stage_contract import load_stages

BENCH = Workbench(None, 10.0)


def silent(_: str) -> None:
    pass


def test_a_device_tells_its_facts_with_their_sources() -> None:
    answer = lookups.devices(lookups.DevicesAsk(name="b70"), BENCH, silent)
    assert [device.name for device in answer.devices] == ["bmg-g31"]
    assert answer.facts["xe_cores"].value == "32"
    assert answer.facts["xe_cores"].source
    assert "l2_bytes" not in answer.facts  # no source gives it


def test_stages_stand_in_a_legal_order_and_one_shows_its_contract() -> None:
    listed = lookups.stages(lookups.StagesAsk(), BENCH, silent)
    assert [stage.name for stage in listed.stages] == list(load_stages())
    assert listed.contract is None
    one = lookups.stages(lookups.StagesAsk(name="memory_access"), BENCH, silent)
    assert one.contract is not None
    assert one.contract.promises["xpu"] == list(load_stages()["memory_access"].promises.xpu)
    assert "needless-mask" in one.stages[0].triggers
    assert one.contract.body.startswith("# Memory access")


def test_the_guide_tells_the_reply_and_the_plan() -> None:
    answer = lookups.guide(lookups.GuideAsk(schema_too=True), BENCH, silent)
    assert '"rebindings"' in answer.text
    assert "original_grid" in (answer.plan_schema or "")


def test_an_entry_is_found_by_its_name_first_and_is_whole() -> None:
    entry = load_knowledge().by_id["mask.even"]
    answer = lookups.knowledge_search(
        lookups.KnowledgeAsk(query="mask even", limit=1), BENCH, silent
    )
    (found,) = answer.entries
    assert (found.id, found.before, found.after) == (entry.id, entry.before, entry.after)
    assert found.source == entry.source
    assert answer.more > 0


def test_a_search_keeps_to_finding_stage_and_device() -> None:
    def ids(**arguments: str) -> list[str]:
        ask = lookups.KnowledgeAsk(limit=50, **arguments)
        return [entry.id for entry in lookups.knowledge_search(ask, BENCH, silent).entries]

    by_id = load_knowledge().by_id
    spill = ids(finding="spill")
    assert spill
    assert all("spill" in by_id[name].findings for name in spill)
    staged = ids(stage="memory_access")
    assert staged
    assert all(name.split(".")[0] in ("memory_access", "mask") for name in staged)
    for name in ids(target="h200"):
        devices = by_id[name].applies.devices
        assert not devices or {"cuda", "h200"} & set(devices)
    assert ids(query="nosuchword") == []


# -- a run that is written by hand ----------------------------------------------------------------

Make = Callable[..., Path]

BASE = "# the baseline\n"


def level(name: str, status: str, *messages: str) -> dict[str, object]:
    return {"level": name, "status": status, "messages": list(messages), "facts": {}}


@pytest.fixture
def run(tmp_path: Path) -> Make:
    """Makes a run folder of trials (stage, text, accepted, predicted seconds)."""

    def make(*trials: tuple[str, str, bool, float | None]) -> Path:
        folder = tmp_path / "run"
        folder.mkdir()
        kernel = tmp_path / "kernel.py"
        kernel.write_text(BASE)
        header = {"kernel": str(kernel), "source": BASE, "session": {"device": "bmg-g31"}}
        with Ledger.create(folder / "ledger.sqlite", header) as ledger:
            for stage, text, accepted, seconds in [("baseline", BASE, True, 5e-6), *trials]:
                against = level("correctness", "refused", "3 elements are wrong")
                levels = [level("syntax", "passed"), *([] if accepted else [against])]
                trial = Trial(
                    stage=stage,
                    proposer="mcp",
                    note=f"note of {text.strip()}",
                    source=text_digest(text),
                    verdict={"accepted": accepted, "levels": levels},
                    accepted=accepted,
                    parent=None if stage == "baseline" else 1,
                    predicted_seconds=seconds,
                )
                ledger.add(trial, source_text=text)
        return folder

    return make


def best(folder: Path, **arguments: object) -> lookups.BestAnswer:
    ask = lookups.BestAsk.model_validate({"run": str(folder), **arguments})
    return lookups.best(ask, BENCH, silent)


def test_trials_show_the_tree_and_what_refused(run: Make) -> None:
    folder = run(("discovery", "# wrong\n", False, 1e-6), ("discovery", "# right\n", True, 4e-6))
    answer = lookups.trials(lookups.TrialsAsk(run=str(folder)), BENCH, silent)
    shown = [(t.id, t.parent, t.verdict, t.refused_by, t.predicted_us) for t in answer.trials]
    assert shown == [
        (1, None, "accepted", None, 5.0),
        (2, 1, "refused", "correctness", 1.0),
        (3, 1, "accepted", None, 4.0),
    ]
    assert answer.trials[1].reason == "3 elements are wrong"
    assert answer.best == 3
    one = lookups.trials(lookups.TrialsAsk(run=str(folder), trial=2), BENCH, silent)
    assert [item.level for item in one.levels] == ["syntax", "correctness"]
    with pytest.raises(UsageError, match="there is no trial 9"):
        lookups.trials(lookups.TrialsAsk(run=str(folder), trial=9), BENCH, silent)


def test_the_best_is_the_accepted_one_predicted_fastest(run: Make) -> None:
    folder = run(
        ("discovery", "# refused\n", False, 1e-6),
        ("discovery", "# slower\n", True, 4e-6),
        ("discovery", "# faster\n", True, 3e-6),
    )
    answer = best(folder)
    assert (answer.trial, answer.text) == (4, "# faster\n")
    assert (answer.predicted_us_before, answer.predicted_us_after) == (5.0, 3.0)
    assert answer.measured == "not measured"


def test_a_file_that_the_final_check_refused_is_not_the_best(run: Make) -> None:
    folder = run(
        ("discovery", "# faster\n", True, 3e-6),
        ("discovery", "# slower\n", True, 4e-6),
        ("final", "# faster\n", False, 3e-6),
    )
    assert best(folder).text == "# slower\n"


def test_without_an_accepted_candidate_there_is_no_best(run: Make) -> None:
    with pytest.raises(UsageError, match="no candidate of this run was accepted"):
        best(run(("discovery", "# wrong\n", False, 1e-6)))


def test_the_best_is_written_where_the_caller_says_and_nowhere_else(
    run: Make, tmp_path: Path
) -> None:
    folder = run(("discovery", "# faster\n", True, 3e-6))
    target = tmp_path / "best.py"
    before = set(tmp_path.rglob("*"))
    answer = best(folder, write_to=str(target))
    assert (answer.written, answer.text) == (str(target), None)
    assert target.read_text() == "# faster\n"
    assert {p for p in tmp_path.rglob("*") if "ledger" not in p.name} - before == {target}
    target.write_text("# mine\n")
    with pytest.raises(UsageError, match="there already"):
        best(folder, write_to=str(target))
    assert target.read_text() == "# mine\n"
    best(folder, write_to=str(target), overwrite=True)
    assert target.read_text() == "# faster\n"


def test_the_baseline_is_never_written_over(run: Make, tmp_path: Path) -> None:
    folder = run(("discovery", "# faster\n", True, 3e-6))
    link = tmp_path / "link.py"
    link.symlink_to(tmp_path / "kernel.py")
    copy = tmp_path / "copy.py"
    copy.write_text(BASE)
    for path in (tmp_path / "kernel.py", link, copy):
        with pytest.raises(UsageError, match="never written over"):
            best(folder, write_to=str(path), overwrite=True)
        assert path.read_text() == BASE


def test_only_a_python_file_in_a_folder_is_written(run: Make, tmp_path: Path) -> None:
    folder = run(("discovery", "# faster\n", True, 3e-6))
    with pytest.raises(UsageError, match="not a Python file"):
        best(folder, write_to=str(tmp_path / "best.txt"))
    with pytest.raises(UsageError, match="cannot be written"):
        best(folder, write_to=str(tmp_path / "no" / "best.py"))
