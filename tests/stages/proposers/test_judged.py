"""A proposal with its verdict: when two of them are the same code."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest

from xesmith.cascade.examine import Examination
from xesmith.cascade.record import Verdict
from xesmith.ledger import Trial
from xesmith.lowering.record import Failure
from xesmith.stages.proposers.judged import Judged

TRIAL = Trial("discovery", "lm", "n", "", {}, False)


def judged(*items: Examination) -> Judged:
    proposal: Any = None
    return Judged(proposal, Verdict(()), dict(zip("ab", items, strict=False)), TRIAL)


@pytest.fixture
def lowered(evidence_maker: ModuleType) -> Examination:
    derived = evidence_maker.derived().model_copy(update={"lowered_hash": "of its code"})
    return Examination((evidence_maker.make(derived=derived),), (), None)


def test_code_is_compared_where_the_compiler_made_some(lowered: Examination) -> None:
    assert judged(lowered).code == judged(lowered).code != ""


def test_two_that_fail_are_not_the_same_code(lowered: Examination) -> None:
    failed = Examination((), (), Failure("compile", "ttir", "no such operation"))
    other = replace(failed, failure=Failure("compile", "ttir", "another fault"))
    assert judged(failed).code == judged(other).code == ""
    assert judged(lowered, failed).code == ""  # one shape without code is enough
    assert judged().code == ""  # refused before anything was lowered
