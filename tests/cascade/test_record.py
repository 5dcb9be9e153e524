from __future__ import annotations

import pytest

from xesmith.cascade.record import LEVELS, LevelResult, Verdict


def all_passed() -> list[LevelResult]:
    return [LevelResult(level, "passed") for level in LEVELS]


def test_accepted_needs_every_level_to_have_passed():
    assert Verdict(tuple(all_passed())).accepted


@pytest.mark.parametrize("status", ["refused", "not_read", "not_run"])
@pytest.mark.parametrize("index", range(len(LEVELS)))
def test_one_level_that_did_not_pass_is_no_acceptance(status, index):
    results = all_passed()
    results[index] = LevelResult(LEVELS[index], status)
    assert not Verdict(tuple(results)).accepted


def test_a_level_that_nobody_asked_is_no_acceptance():
    assert not Verdict(tuple(all_passed()[:-1])).accepted
    assert not Verdict(()).accepted


def test_the_first_refusal_and_what_was_not_read_are_named():
    results = all_passed()
    results[2] = LevelResult("lowering", "refused", ("spills",))
    results[4] = LevelResult("performance", "not_read", ("no clock",))
    verdict = Verdict(tuple(results))
    assert verdict.refused_by is results[2]
    assert verdict.not_read == (results[4],)


def test_a_level_cannot_answer_twice():
    with pytest.raises(ValueError, match="twice"):
        Verdict((LevelResult("syntax", "passed"), LevelResult("syntax", "refused")))


def test_json_round_trip():
    verdict = Verdict((LevelResult("syntax", "refused", ("line 3: an import",), {"changed": []}),))
    assert Verdict.from_json(verdict.to_json()) == verdict
    assert verdict.to_json()["accepted"] is False
