"""The level "performance": measured where the device is at hand, else predicted and called so.

`judge_measured` reads verdicts of the timer (docs/11-bench.md). `judge_performance` predicts.

A candidate passes when its predicted time is lower at one shape at least and higher at none.
Differences below the model's resolution are none. Where the device file lacks a clock or a
bandwidth nothing is predicted, and the order of the code (`cost.order_key`: spill, SLM
messages, dpas share, instructions) decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xesmith.cascade.examine import Examination
from xesmith.cascade.record import LevelResult
from xesmith.contracts import ProgramEvidence
from xesmith.cost import order_key
from xesmith.evidence.record import Evidence
from xesmith.timing.contest import Outcome

#: relative difference below which two predictions are called equal
RESOLUTION = 0.005


def predicted_seconds(examinations: Mapping[str, Examination]) -> float | None:
    """Predicted time of all shapes together; None where one is not predicted."""
    values = [_seconds(item.evidence) for item in examinations.values()]
    known = [value for value in values if value is not None]
    return sum(known) if values and len(known) == len(values) else None


def judge_performance(
    before: Mapping[str, Examination],
    after: Mapping[str, Examination],
    *,
    must_improve: bool = True,
) -> LevelResult:
    """`must_improve`: False where it is enough that nothing becomes worse."""
    better = False
    messages: list[str] = []
    facts: dict[str, Any] = {"predicted_seconds": {}, "measured": False}
    for name, item in after.items():
        old, new = _seconds(before[name].evidence), _seconds(item.evidence)
        facts["predicted_seconds"][name] = {"before": old, "after": new}
        if old is None or new is None:
            change = _compare(_order(before[name].evidence), _order(item.evidence))
            how = "not predicted; by spill, SLM messages, dpas share and instructions"
            reason = _why_not(item.evidence) or _why_not(before[name].evidence)
            facts.setdefault("not_predicted", {})[name] = reason
        elif abs(new - old) <= RESOLUTION * old:
            change = 0
            how = f"predicted {_us(old)} before and {_us(new)} after, equal within the model"
        else:
            change = 1 if new < old else -1
            how = f"predicted {_us(old)} before, {_us(new)} after"
        if change > 0:
            better = True
            messages.append(f"{name}: {how}: better")
        elif change < 0:
            messages.append(f"{name}: {how}: worse")
        elif any(e.native for e in (*before[name].evidence, *item.evidence)):
            messages.append(f"{name}: {how}: the same")
        else:
            messages.append(f"{name}: not predicted, and no native code is read that would order")
    worse = [text for text in messages if text.endswith(": worse")]
    passed = not worse and (better or not must_improve)
    return LevelResult("performance", "passed" if passed else "refused", tuple(messages), facts)


def judge_measured(outcomes: Sequence[Outcome], *, must_improve: bool = True) -> LevelResult:
    """From the verdicts of a candidate (the kernel) against its baseline, shape by shape.

    Passed where it is FASTER at one shape at least and elsewhere SAME. UNCLEAR is no pass: what was
    not shown to be as fast is not accepted.
    """
    messages: list[str] = []
    verdicts: list[str] = []
    for outcome in outcomes:
        judgement = outcome.judgements.get("baseline")
        verdict = "FAILED" if outcome.errors or judgement is None else judgement.verdict
        verdicts.append(verdict)
        texts = [*outcome.errors] or [str(judgement)]
        messages += [f"{outcome.shape.name}: measured {text}" for text in texts]
    as_fast = all(verdict in ("FASTER", "SAME") for verdict in verdicts)
    passed = as_fast and ("FASTER" in verdicts or not must_improve)
    facts = {
        "measured": True,
        "outcomes": [outcome.to_json() for outcome in outcomes],
    }
    return LevelResult("performance", "passed" if passed else "refused", tuple(messages), facts)


def _seconds(evidence: Sequence[Evidence]) -> float | None:
    if not evidence:
        return None
    value = ProgramEvidence.of(evidence).values["derived.seconds"]
    return None if value is None else float(value)


def _order(evidence: Sequence[Evidence]) -> list[Any]:
    """The launches' keys, the worst first, so that lists of unequal length compare."""
    return sorted((order_key(item) for item in ProgramEvidence.of(evidence).launches), reverse=True)


def _compare(old: list[Any], new: list[Any]) -> int:
    return (new < old) - (new > old)


def _why_not(evidence: Sequence[Evidence]) -> str | None:
    for item in evidence:
        prediction = item.derived.prediction if item.derived else None
        if prediction is not None and prediction.why_not:
            return prediction.why_not
    return None


def _us(seconds: float) -> str:
    return f"{seconds * 1e6:.1f} us"
