"""The noun Run: the trials of one kernel that a client had judged, in a run folder's ledger."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from xesmith.cascade.correctness import Reference
from xesmith.cascade.examine import Examination
from xesmith.cascade.record import Verdict
from xesmith.engine.judge import Baseline
from xesmith.engine.problem import Problem
from xesmith.engine.run_folder import LEDGER_FILE, RunFolder, run_header
from xesmith.engine.session import Session
from xesmith.engine.trials import keep_baseline, keep_trial
from xesmith.errors import UsageError
from xesmith.ledger import BASELINE, FINAL, Ledger, StageOutcome, Trial, text_digest

PROPOSER = "mcp"


class Run:
    """A run folder that is open. A context manager.

    Raises (from `open`):
        UsageError: the folder holds a run of another kernel, or another process has it.
    """

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._ledger = folder.ledger

    @classmethod
    def open(cls, folder: Path, problem: Problem, reference: Reference, session: Session) -> Run:
        """The run in `folder`; a new one where there is none."""
        header: dict[str, Any] = {
            **run_header(problem, reference, session),
            "stages": [],
            "proposers": [PROPOSER],
        }
        return cls(RunFolder.open(folder, header, resume=Ledger.is_begun(folder / LEDGER_FILE)))

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._folder.__exit__(kind, error, trace)

    def baseline(self, problem: Problem, baseline: Baseline) -> Trial:
        """The trial of the kernel as it was given, which every other goes back to."""
        return keep_baseline(self._ledger, problem.source, baseline)

    def parent(self, trial_id: int) -> tuple[Trial, str]:
        """An accepted trial and its text.

        Raises:
            UsageError: there is none of that id, or it was refused.
        """
        trial = find_trial(self._ledger, trial_id)
        if not trial.accepted:
            raise UsageError(
                f"trial {trial_id} was not accepted, so nothing can be built on it",
                where="parent",
                remedy="give an accepted trial (see trials), or leave parent out",
            )
        return trial, self._ledger.get(trial.source)

    def known(self, stage: str, text: str, parent: Trial) -> Trial | None:
        """The trial of this text in this stage after this parent, if it was judged."""
        return self._ledger.find(stage, text_digest(text), parent.id)

    def add(
        self,
        stage: str,
        note: str,
        text: str,
        parent: Trial,
        judged: Verdict,
        examinations: Mapping[str, Examination],
        wall_seconds: float,
    ) -> Trial:
        """Keeps a candidate with its verdict. `examinations`: empty where it was not lowered."""
        trial = Trial(
            stage=stage,
            proposer=PROPOSER,
            note=note,
            source=text_digest(text),
            verdict=judged.to_json(),
            accepted=judged.accepted,
            parent=parent.id,
            wall_seconds=wall_seconds,
        )
        kept = keep_trial(self._ledger, trial, text, examinations)
        self._tell_stages()
        return kept

    def _tell_stages(self) -> None:
        """Says of each stage what became of it, for reports: the best trial's way is the result.

        Every verdict may be a client's last, so the run counts as finished after each.
        """
        trials = [trial for trial in self._ledger.trials() if trial.stage != BASELINE]
        by_id = {trial.id: trial for trial in trials}
        way: list[Trial] = []
        step = best_trial(self._ledger)
        while step is not None:
            way.insert(0, step)
            step = by_id.get(step.parent)
        improved = {trial.stage: (place, trial) for place, trial in enumerate(way)}
        others = sorted({trial.stage for trial in trials} - improved.keys())
        for name, (place, trial) in improved.items():
            self._ledger.set_stage(StageOutcome(name, place, "improved", trial.note, trial.id))
        for place, name in enumerate(others, len(way)):
            if any(trial.accepted for trial in trials if trial.stage == name):
                status, reason = "skipped", "what was accepted is not on the way to the best"
            else:
                status, reason = "refused", "no candidate was accepted"
            self._ledger.set_stage(StageOutcome(name, place, status, reason))
        self._ledger.finish()


def opened_ledger(folder: str) -> Ledger:
    """The ledger of a run, of verify or of `xesmith optimize`. A context manager.

    Raises:
        UsageError: the folder holds none.
    """
    return Ledger.open(Path(folder).expanduser() / LEDGER_FILE)


def find_trial(ledger: Ledger, trial_id: int) -> Trial:
    """The trial of that id. Raises UsageError where there is none."""
    trials = ledger.trials()
    for trial in trials:
        if trial.id == trial_id:
            return trial
    raise UsageError(
        f"there is no trial {trial_id}",
        where=str(ledger.path),
        remedy=f"trials 1 to {len(trials)} are there (see trials)",
    )


def best_trial(ledger: Ledger) -> Trial | None:
    """Of the candidates that every level passed, the best predicted; None without any.

    One that the final check of a run refused does not count. Where a time is not predicted, the
    last accepted one is the best: it was held against its parent.
    """
    trials = ledger.trials()
    failed = {(t.source, t.passes) for t in trials if t.stage == FINAL and not t.accepted}
    accepted = [
        t
        for t in trials
        if t.accepted and t.stage not in (BASELINE, FINAL) and (t.source, t.passes) not in failed
    ]
    if not accepted:
        return None
    if any(trial.predicted_seconds is None for trial in accepted):
        return accepted[-1]
    return min(accepted, key=lambda trial: trial.predicted_seconds or 0.0)
