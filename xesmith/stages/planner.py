"""The planner: findings choose the stages that are pending, edges and a proposal their order.

A model may propose an order. Whatever it says, the plan is legal and keeps as much of the
proposal as the edges allow.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, cast

from xesmith.findings.record import KINDS
from xesmith.stage_contract import Stage, ancestors_of, legal_order
from xesmith.stage_order import nearest_order

#: characters of a reply that are read, from its end, and names that are taken from it
_MOST_CHARACTERS = 20_000
_MOST_NAMES = 100

_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
_LIST = re.compile(r"\[[^\[\]]*\]")
_NUMBERED = re.compile(r"[ \t>]*(?:[-*+]|\(?\d{1,3}[.):])[ \t]+(.*)")
_SEPARATOR = re.compile(r"->|=>|[,;>\u2192]")
_MARKS = " \t\"'`*_."
_REMARK = re.compile(r"[:(\u2013\u2014]|\s-\s")


@dataclass(frozen=True)
class Plan:
    """The stages to run, in order, and why others are not.

    skipped: stage -> reason.
    proposed: as it was given; None where nobody proposed.
    dropped: names of the proposal that are not in the plan -> reason.
    added: stages of the plan that the proposal did not name.
    moved: (first, second) pairs of the plan that the proposal had the other way round.
    """

    order: tuple[str, ...]
    skipped: Mapping[str, str] = field(default_factory=dict[str, str])
    proposed: tuple[str, ...] | None = None
    dropped: Mapping[str, str] = field(default_factory=dict[str, str])
    added: tuple[str, ...] = ()
    moved: tuple[tuple[str, str], ...] = ()


def plan(
    stages: Mapping[str, Stage],
    finding_kinds: Iterable[str],
    *,
    wanted: Sequence[str] | None = None,
    proposed: Sequence[str] | None = None,
) -> Plan:
    """Which of the stages are pending, and in which order.

    Args:
        stages: all stages by name; their order is the default one.
        finding_kinds: of the program as it is now.
        wanted: the stages asked for, in the order that is the default then.
        proposed: an order to keep where the edges allow it. Unknown names are dropped, missing
            ones are placed by their edges and the default order.

    Raises:
        UsageError: an unknown name in `wanted` (the nearest is offered).
    """
    kinds = set(finding_kinds)
    default = legal_order(stages.values(), wanted)
    skipped = {name: "not asked for" for name in stages if name not in default}
    skipped |= {
        name: f"no finding of {', '.join(stages[name].triggers)}"
        for name in default
        if not stages[name].applies(kinds)
    }
    pending = [name for name in default if name not in skipped]
    if proposed is None:
        return Plan(repair(pending, stages), skipped)
    kept: list[str] = []
    dropped: dict[str, str] = {}
    for name in proposed:
        if name not in stages:
            dropped[name] = "unknown"
        elif name in skipped:
            dropped[name] = f"skipped: {skipped[name]}"
        elif name not in kept:
            kept.append(name)
    order = list(repair(kept, stages))
    moved = tuple(
        (first, second)
        for first, second in combinations(order, 2)
        if kept.index(first) > kept.index(second)
    )
    added = tuple(name for name in pending if name not in kept)
    before = ancestors_of(stages.values())
    for name in added:
        order.insert(_slot(name, order, before, pending), name)
    return Plan(tuple(order), skipped, tuple(proposed), dropped, added, moved)


def repair(proposed: Sequence[str], stages: Mapping[str, Stage]) -> tuple[str, ...]:
    """The legal order nearest to `proposed` (distinct names of `stages`).

    The fewest pairs of stages stand the other way round; of several such orders the one that
    begins with what was proposed earliest. Edges hold through stages that are not in `proposed`.
    """
    return nearest_order(proposed, ancestors_of(stages.values()))


def _slot(
    name: str,
    order: Sequence[str],
    before: Mapping[str, frozenset[str]],
    default: Sequence[str],
) -> int:
    """Where `name` goes into a legal order, so that nothing in it moves.

    After all that must come before it, before all that must come after it; in between, before
    the first stage that the default order has after it.
    """
    first = max((i + 1 for i, other in enumerate(order) if other in before[name]), default=0)
    later = default[default.index(name) + 1 :]
    return next(
        (i for i in range(first, len(order)) if name in before[order[i]] or order[i] in later),
        len(order),
    )


# -- asking a model -------------------------------------------------------------------------------


def order_prompt(
    stages: Mapping[str, Stage], pending: Sequence[str], findings: Mapping[str, int]
) -> str:
    """What a model is asked for an order of the `pending` stages.

    `findings`: kind -> how many there are.
    """
    before = ancestors_of(stages.values())
    found = [
        f"- {kind}: {count} ({KINDS[kind][0]}: {KINDS[kind][1]})"
        for kind, count in sorted(findings.items())
    ]
    lines = [
        "In which order should these stages change a Triton kernel?",
        "",
        "What the compiler's output showed, with the number of places:",
        *(found or ["- nothing"]),
        "",
        "The stages:",
    ]
    for name in pending:
        stage = stages[name]
        lines.append(f"- {name}: {stage.description}")
        if edges := [other for other in pending if other in before[name]]:
            lines.append(f"  must come after: {', '.join(edges)}")
        if called := [kind for kind in stage.triggers if kind in findings]:
            lines.append(f"  called for by: {', '.join(called)}")
    example = json.dumps(list(pending))
    lines += [
        "",
        "Put first what makes the rest easier or needless. Reply with one JSON list that names "
        f"every stage once, such as {example}, and nothing else.",
    ]
    return "\n".join(lines)


def read_order(text: str, stages: Iterable[str]) -> tuple[str, ...]:
    """The order that a model's reply proposes; empty where it names no stage.

    Taken from the last JSON list that names a stage, else from numbered lines, else from the line
    of separated names that has most, else from where each stage is named first. Names that are
    not of `stages` are kept where the form shows that a stage is meant, for `plan` to tell of.
    """
    known = frozenset(stages)
    text = text[-_MOST_CHARACTERS:]
    lists = [_names(items, known) for items in map(_json_items, _LIST.findall(text))]
    lists = [names for names in lists if known.intersection(names)]
    if lists:
        return lists[-1]
    lines = text.splitlines()
    numbered = _names((m[1] for line in lines if (m := _NUMBERED.match(line))), known)
    if known.intersection(numbered):
        return numbered
    rows = [_names(_SEPARATOR.split(line), known) for line in lines]
    best = max(rows, key=lambda names: len(known.intersection(names)), default=())
    if len(known.intersection(best)) > 1:
        return best
    return _mentioned(text, known)


def _json_items(text: str) -> list[str]:
    try:
        items: Any = json.loads(text)
    except (ValueError, RecursionError):
        return []
    return [item for item in cast("list[Any]", items) if isinstance(item, str)]


def _names(items: Iterable[str], known: frozenset[str]) -> tuple[str, ...]:
    """The name in each item, without marks, remarks and case; none where it can be no name."""
    names: list[str] = []
    for item in items:
        bare = _REMARK.split(item.strip(_MARKS))[0].strip(_MARKS).lower()
        name = re.sub(r"[ -]+", "_", bare)
        if name not in known and len(mentioned := _mentioned(item, known)) == 1:
            name = mentioned[0]
        if _NAME.fullmatch(name):
            names.append(name)
    return tuple(names[:_MOST_NAMES])


def _mentioned(text: str, known: frozenset[str]) -> tuple[str, ...]:
    """The known names in a text, each where it comes first."""
    forms = "|".join(name.replace("_", "[ _-]") for name in sorted(known, key=len, reverse=True))
    found = re.findall(rf"(?<![a-z0-9_])(?:{forms})(?![a-z0-9_])", text.lower())
    return tuple(dict.fromkeys(re.sub("[ -]", "_", item) for item in found))
