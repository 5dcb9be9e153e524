"""Contracts: a stage's promises checked on the evidence before and after a candidate.

A promise holds, is broken, or could not be read; what was not read never counts as held.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import simpleeval  # pyright: ignore[reportMissingTypeStubs]

from xesmith.contract_names import FUNCTIONS, NAMES, Number, dotted_name, parse_promise
from xesmith.cost.order import order_key
from xesmith.evidence.record import Evidence

Status = Literal["holds", "broken", "not_read"]


@dataclass(frozen=True)
class ProgramEvidence:
    """Evidence of all launches of a program.

    Of an autotuned launch every configuration has an Evidence; the one with the lowest
    predicted time (where nothing is predicted: the first by cost.order_key) stands for it.
    """

    launches: tuple[Evidence, ...]
    configurations: int

    @classmethod
    def of(cls, evidence: Sequence[Evidence]) -> ProgramEvidence:
        groups = group_configurations(evidence)
        return cls(
            launches=tuple(_representative(group) for group in groups),
            configurations=sum(len(group) for group in groups),
        )

    @cached_property
    def values(self) -> dict[str, Number | None]:
        """Every name of contract_names.NAMES; None where it was not read."""
        return {name: self._value(name) for name in NAMES}

    def why_not_read(self, name: str) -> str:
        """Why a value is None: the level's reason, else that the level doesn't know it."""
        level = NAMES[name].level
        for evidence in self.launches:
            if level in evidence.not_read:
                return f"{level} of '{evidence.kernel}' was not read: {evidence.not_read[level]}"
            if level != "program" and getattr(evidence, level) is None:
                return f"{level} of '{evidence.kernel}' was not read"
        return f"{level} does not know it" if self.launches else "the program launched nothing"

    def _value(self, name: str) -> Number | None:
        if name == "program.configurations":
            return self.configurations
        entry = NAMES[name]
        if not self.launches and entry.level != "program":
            return None
        if entry.level != "program" and any(getattr(e, entry.level) is None for e in self.launches):
            return None
        values = [entry.read(e) for e in self.launches]
        known = [value for value in values if value is not None]
        if len(known) != len(values):
            return None
        if entry.over is not None:
            below = sum(entry.over(e) or 0 for e in self.launches)
            return sum(known) / below if below else 0.0
        if entry.aggregate == "sum":
            return sum(known)
        return max(known) if entry.aggregate == "max" else min(known)


def group_configurations(evidence: Sequence[Evidence]) -> list[list[Evidence]]:
    """The launches in order; the configurations of one autotuned launch as one group.

    Configurations stand next to each other and count up from the first; another kernel, a
    plain launch or a counter that starts again begins a new group.
    """
    groups: list[list[Evidence]] = []
    for item in evidence:
        number = item.launch.get("config_index")
        last = groups[-1][-1] if groups else None
        last_number = None if last is None else last.launch.get("config_index")
        same = (
            last is not None
            and last.kernel == item.kernel
            and number is not None
            and last_number is not None
            and number > last_number
        )
        if same:
            groups[-1].append(item)
        else:
            groups.append([item])
    return groups


def _representative(group: Sequence[Evidence]) -> Evidence:
    best = min(group, key=_preference)
    if len(group) == 1:
        return best
    # Tuning launched every configuration once; only what was launched beyond that is the
    # program's own.
    launched = sum(item.launch.get("repeats", 1) for item in group)
    own = max(1, launched - len(group))
    return best.model_copy(update={"launch": {**best.launch, "repeats": own}})


def _preference(evidence: Evidence) -> tuple[Any, ...]:
    prediction = evidence.derived.prediction if evidence.derived else None
    seconds = prediction.seconds if prediction else None
    # A configuration that cannot run comes last, whatever is predicted of it.
    return (evidence.failure is not None, seconds is None, seconds or 0.0, order_key(evidence))


@dataclass(frozen=True)
class Outcome:
    """What became of one promise. Truthy only when it holds."""

    expression: str
    status: Status
    text: str  # "after.native.loads_2d > before.native.loads_2d: 0 > 0 is false"
    values: dict[str, Number | None] = field(default_factory=dict[str, Number | None])

    def __bool__(self) -> bool:
        return self.status == "holds"

    def to_json(self) -> dict[str, Any]:
        return {
            "expression": self.expression,
            "status": self.status,
            "text": self.text,
            "values": self.values,
        }


def check(expression: str, before: ProgramEvidence, after: ProgramEvidence) -> Outcome:
    """Whether a promise holds between two programs.

    `and`/`or` are three-valued: "a or b" holds when one of them holds though the other was
    not read; "a and b" is broken when one is broken.

    Raises:
        UsageError: the expression is faulty (see contract_names.parse_promise).
    """
    tree = parse_promise(expression)
    sides = {"before": before, "after": after}
    names = sorted({d for node in ast.walk(tree) if (d := dotted_name(node)) and "." in d})
    # The walk also meets the inner parts of a chain ("after.native"); those are no names.
    used = [d for d in names if d.partition(".")[2] in NAMES]
    values = {d: sides[d.partition(".")[0]].values[d.partition(".")[2]] for d in used}
    status = _evaluate(tree, values)
    shown = ast.unparse(_Substitute(values).visit(parse_promise(expression)))
    if status == "not_read":
        reasons = [
            f"{d} ({sides[d.partition('.')[0]].why_not_read(d.partition('.')[2])})"
            for d in used
            if values[d] is None
        ]
        why = f"not read: {'; '.join(reasons)}" if reasons else "it divides by zero"
        text = f"{expression}: {shown} cannot be decided; {why}"
    else:
        text = f"{expression}: {shown} is {'true' if status == 'holds' else 'false'}"
    return Outcome(expression=expression, status=status, text=text, values=values)


def check_all(
    expressions: Sequence[str], before: ProgramEvidence, after: ProgramEvidence
) -> tuple[Outcome, ...]:
    return tuple(check(expression, before, after) for expression in expressions)


def _evaluate(node: ast.expr, values: dict[str, Number | None]) -> Status:
    if isinstance(node, ast.BoolOp):
        parts = {_evaluate(part, values) for part in node.values}
        decisive: Status = "holds" if isinstance(node.op, ast.Or) else "broken"
        if decisive in parts:
            return decisive
        if "not_read" in parts:
            return "not_read"
        return "broken" if decisive == "holds" else "holds"
    dotted = {d for inner in ast.walk(node) if (d := dotted_name(inner)) in values}
    if any(values[d] is None for d in dotted if d):
        return "not_read"
    text = ast.unparse(_Substitute(values).visit(_copy(node)))
    evaluator: Any = simpleeval.SimpleEval(functions=FUNCTIONS, names={})
    try:
        return "holds" if evaluator.eval(text) else "broken"
    except ZeroDivisionError:
        return "not_read"  # undecided, so it must not pass


def _copy(node: ast.expr) -> ast.expr:
    return ast.parse(ast.unparse(node), mode="eval").body


class _Substitute(ast.NodeTransformer):
    """Puts values in the place of names; a value that was not read shows as `unread`."""

    def __init__(self, values: dict[str, Number | None]) -> None:
        self.values = values

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        dotted = dotted_name(node)
        if dotted not in self.values:
            return node
        value = self.values[dotted]
        return ast.Name(id="unread") if value is None else ast.Constant(value)
