"""The level "lowering": what the compiler made of a candidate, held against its stage's promise.

A candidate may leave some shapes alone (its guards do not hold there): those lower to the same
code as before and are called unchanged. At every other shape all promises must hold, and at
least one shape must change.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from xesmith.cascade.examine import Examination
from xesmith.cascade.record import LevelResult
from xesmith.contracts import Outcome, ProgramEvidence, check_all
from xesmith.evidence.record import Dot, Evidence, Ttir

#: findings that refuse a candidate by themselves: the code would be wrong on the device
_FATAL_FINDINGS = ("2d-op-illegal",)
#: findings that say that it could not be told whether the code is right on the device
_OPEN_FINDINGS = ("2d-op-unchecked",)

#: bits of the significand, the hidden one included; float64 counts as float32
_BITS = {
    **{"f32": 24, "fp32": 24, "f64": 24, "fp64": 24, "tf32": 11},
    **{"f16": 11, "fp16": 11, "bf16": 8, "f8E4M3FN": 4, "f8E5M2": 3, "fp8e4nv": 4, "fp8e5": 3},
}

Examinations = Mapping[str, Examination]


def lowered_hash(examinations: Examinations) -> str:
    """One text that is equal for two programs when the compiler made the same code of both."""
    return " ".join(
        f"{shape}:{','.join(_hashes(item.evidence) or ['not lowered'])}"
        for shape, item in examinations.items()
    )


def has_code(examinations: Examinations) -> bool:
    """Whether every launch at every shape has code that could be compared with another's."""
    return bool(examinations) and all(
        item.evidence and _hashes(item.evidence) is not None for item in examinations.values()
    )


def unchanged_shapes(before: Examinations, after: Examinations) -> tuple[str, ...]:
    """Names of the shapes at which both lower to the same code, launch by launch."""
    return tuple(
        name
        for name, item in after.items()
        if name in before
        and (code := _hashes(item.evidence)) is not None
        and code == _hashes(before[name].evidence)
    )


def judge_lowering(
    before: Examinations, after: Examinations, promises: Sequence[str]
) -> LevelResult:
    """Whether the candidate lowers at every shape, legally, and keeps the promises.

    "not_read" when a level of the lowering could not be read here, or when a native 2D
    operation that the code before had not cannot be held against the device's rules.
    """
    messages: list[str] = []
    facts: dict[str, Any] = {"promises": {}, "unchanged": [], "not_read": {}}
    for name, item in after.items():
        messages += [f"{name}: {text}" for text in _failures(item)]
        messages += [
            f"{name}: line {finding.line}: {finding.message}"
            for finding in item.findings
            if finding.kind in _FATAL_FINDINGS
        ]
        if name in before:
            messages += [f"{name}: {text}" for text in _coarser_dots(before[name], item)]
            messages += [f"{name}: {text}" for text in _unwritten(before[name], item, "empty")]
            if item.overflows and not before[name].overflows:
                line = item.overflows[0]
                messages.append(f"{name}: line {line}: an offset of more than 32 bits wraps around")
    if messages:
        return LevelResult("lowering", "refused", tuple(messages), facts)

    unchanged = unchanged_shapes(before, after)
    facts["unchanged"] = list(unchanged)
    if len(unchanged) == len(after):
        text = "the compiler makes the same code of it as before: nothing changed"
        return LevelResult("lowering", "refused", (text,), facts)

    status: Literal["passed", "refused", "not_read"] = "passed"
    for name, item in after.items():
        if name in unchanged:
            continue
        outcomes = check_all(promises, _program(before[name].evidence), _program(item.evidence))
        facts["promises"][name] = [outcome.to_json() for outcome in outcomes]
        messages += [f"{name}: {text}" for text in _unmet(outcomes)]
        if any(outcome.status == "broken" for outcome in outcomes):
            status = "refused"
        elif status == "passed" and not all(outcomes):
            status = "not_read"
        unknown = [*_levels_not_read(item), *_unchecked(before[name], item)]
        unknown += _unwritten(before[name], item, "filled")
        messages += [f"{name}: not read: {text}" for text in unknown]
        if unknown and status == "passed":
            status = "not_read"
        facts["not_read"].update(_not_read(item.evidence))
    if status == "refused":
        messages += _explanations(after)
    return LevelResult("lowering", status, tuple(messages), facts)


def _coarser_dots(before: Examination, after: Examination) -> Iterator[str]:
    """Products of fewer bits than the baseline's: faster, and right within a tolerance.

    float64 may become float32 (the stage dtype_fix); anything below stays as precise as the
    coarsest of the baseline's own products or, for factors, of the tensors passed to it.
    """
    given = list(_dots(before))
    if not given:
        return
    factors = min(_bits(dot.a_type, dot.b_type, precision=dot.input_precision) for dot in given)
    kinds = [kind for item in before.evidence for kind in item.launch["signature"].values()]
    factors = min([factors, *(_BITS[kind[1:]] for kind in kinds if kind[1:] in _BITS)])
    sums = min(_bits(dot.acc_type) for dot in given)
    for dot in _dots(after):
        at = f"line {dot.site.line}: the product of {dot.m}x{dot.n}x{dot.k}"
        if _bits(dot.acc_type) < sums:
            yield f"{at} adds up in {dot.acc_type}, coarser than the baseline's products"
        if (bits := _bits(dot.a_type, dot.b_type, precision=dot.input_precision)) < factors:
            yield f"{at} keeps {bits} bits of its factors, the baseline's {factors}"


def _unwritten(before: Examination, after: Examination, origin: str) -> Iterator[str]:
    """Outputs made as `origin` that the kernels cannot have written whole: they store too little.

    Where the baseline stores too few as well, something else than its kernels fills them.
    """
    wanted = after.made_bytes.get(origin, 0)
    stored, usual = _stored_bytes(after), _stored_bytes(before)
    if stored is None or usual is None or stored >= wanted:
        return
    if usual >= sum(before.made_bytes.values()):
        yield f"the kernels store {stored} bytes at most, and the outputs hold {wanted}" + (
            "" if origin == "empty" else ": whether the rest is right as it was made is not checked"
        )


def _stored_bytes(item: Examination) -> int | None:
    """What all launches store, no less than what they do: a condition that may hold does, and
    masked elements count. Of an autotuned launch the configuration that is predicted best counts.
    None where that is not known, as with atomics."""
    total = 0.0
    for evidence in _program(item.evidence).launches:
        ttir = evidence.ttir
        if ttir is None or ttir.counts.atomics or evidence.failure is not None:
            return None
        programs = math.prod(evidence.launch["grid"]) * evidence.launch["repeats"]
        for access in ttir.accesses:
            if access.op != "store" or not access.reached:
                continue
            times = _most_rounds(access.loop, ttir)
            if times is None:
                return None
            total += programs * times * math.prod(access.shape) * access.element_bits / 8
    return math.ceil(total)


def _most_rounds(loop: int | None, ttir: Ttir) -> float | None:
    """A bound of how often a loop's body runs, on the mean over all programs.

    Where counts differ, their mean is known, or the middle of their bounds, which is half of the
    count at least. Of two such loops nothing is known: their counts may go together.
    """
    times, uneven = 1.0, 0
    while loop is not None:
        around = ttir.loops[loop]
        if around.trip_count is not None:
            times *= around.trip_count
        elif around.trip_mean is not None:
            times *= 2 * around.trip_mean
            uneven += 1
        else:
            return None
        loop = around.parent
    return times if uneven < 2 else None


def _dots(item: Examination) -> Iterator[Dot]:
    for evidence in item.evidence:
        if evidence.ttir is not None:
            yield from evidence.ttir.dots


def _bits(*types: str, precision: str = "ieee") -> int:
    """Bits of the coarsest type's significand, at most 24 (float32)."""
    bits = min(_BITS.get(name, 24) for name in types)
    return min(bits, _BITS["tf32"]) if precision == "tf32" else bits


def _levels_not_read(item: Examination) -> list[str]:
    """The levels that judging needs and that are missing, each with the reason."""
    texts: dict[str, None] = {}
    for evidence in item.evidence:
        code = "native" if evidence.ptx is None else "ptx"
        for level in ("ttir", "ttgir", code):
            if getattr(evidence, level) is None:
                why = evidence.not_read.get(level, "no reason is known")
                texts[f"{level} of '{evidence.kernel}': {why}"] = None
    return list(texts)


def _unchecked(before: Examination, after: Examination) -> list[str]:
    """What cannot be told of the code's legality, and was no question of the code before."""

    def questions(item: Examination) -> set[str]:
        return {f.message for f in item.findings if f.kind in _OPEN_FINDINGS}

    return sorted(questions(after) - questions(before))


def _program(evidence: Sequence[Evidence]) -> ProgramEvidence:
    return ProgramEvidence.of(evidence)


def _hashes(evidence: Sequence[Evidence]) -> list[str] | None:
    """One per launch; None where a launch has no code that could be compared."""
    hashes = [item.derived.lowered_hash if item.derived else "" for item in evidence]
    if not all(hashes):
        return None
    return [f"{code}@{item.launch['grid']}" for code, item in zip(hashes, evidence, strict=True)]


def _failures(item: Examination) -> list[str]:
    texts: list[str] = []
    if item.failure is not None:
        at = f"line {item.failure.line}: " if item.failure.line else ""
        texts.append(f"{at}{item.failure.message}")
    for evidence in item.evidence:
        if evidence.failure is not None:
            at = f"line {evidence.failure['line']}: " if evidence.failure["line"] else ""
            texts.append(f"{at}'{evidence.kernel}': {evidence.failure['message']}")
    if not item.evidence and not texts:
        texts.append("no kernel is launched")
    return list(dict.fromkeys(texts))


def _unmet(outcomes: Sequence[Outcome]) -> list[str]:
    return [
        f"promise {'broken' if outcome.status == 'broken' else 'not read'}: {outcome.text}"
        for outcome in outcomes
        if not outcome
    ]


def _explanations(after: Examinations) -> list[str]:
    """What the compiler did, by line, for whoever proposes next."""
    texts = [
        (f"line {finding.line}" if finding.line is not None else finding.kernel)
        + f": {finding.message}: {finding.reason}"
        for item in after.values()
        for finding in item.findings
        if finding.reason and (finding.severity != "note" or finding.kind == "spill")
    ]
    return list(dict.fromkeys(texts))


def _not_read(evidence: Sequence[Evidence]) -> dict[str, str]:
    return {
        f"{item.kernel}.{level}": reason
        for item in evidence
        for level, reason in item.not_read.items()
    }
