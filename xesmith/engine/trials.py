"""How a trial gets into a ledger: with all that its verdict rests on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from xesmith.cascade.examine import Examination
from xesmith.cascade.lowering import lowered_hash
from xesmith.cascade.performance import predicted_seconds
from xesmith.cascade.record import LevelResult
from xesmith.contracts import ProgramEvidence
from xesmith.engine.judge import Baseline, verdict
from xesmith.ledger import BASELINE, Ledger, Trial, text_digest


def keep_trial(
    ledger: Ledger, trial: Trial, text: str, examinations: Mapping[str, Examination]
) -> Trial:
    """The trial as the ledger has it, evidence and summary added.

    One that was judged before is left as it is, unless it has now been judged further.

    Args:
        examinations: empty where the candidate was not lowered.
    """
    if (known := ledger.find(trial.stage, trial.source, trial.parent, trial.passes)) is not None:
        assert known.id is not None
        if known.accepted == trial.accepted:
            return known
        return ledger.revise(known.id, trial.verdict, accepted=trial.accepted)
    evidence = {
        name: {
            "evidence": [e.model_dump(mode="json") for e in item.evidence],
            "findings": [f.model_dump(mode="json") for f in item.findings],
        }
        for name, item in examinations.items()
    }
    return ledger.add(
        replace(
            trial,
            summary={name: _summary(item) for name, item in examinations.items()},
            lowered_hash=lowered_hash(examinations) or None,
            predicted_seconds=predicted_seconds(examinations),
        ),
        source_text=text,
        evidence_json=json.dumps(evidence, sort_keys=True) if examinations else None,
    )


def keep_baseline(
    ledger: Ledger, source: str, baseline: Baseline, wall_seconds: float = 0.0
) -> Trial:
    """The trial of the kernel as it was given, which every other goes back to."""
    trial = Trial(
        stage=BASELINE,
        proposer="user",
        note="as given",
        source=text_digest(source),
        verdict=verdict([LevelResult("lowering", "passed"), baseline.correctness]).to_json(),
        accepted=True,
        wall_seconds=wall_seconds,
    )
    return keep_trial(ledger, trial, source, baseline.examinations)


def _summary(item: Examination) -> dict[str, Any]:
    """The contract names' values of one shape, for reports."""
    return dict(ProgramEvidence.of(item.evidence).values) if item.evidence else {}
