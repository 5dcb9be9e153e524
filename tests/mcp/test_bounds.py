"""What a tool answers fits a client's context, however much there is to say."""

from __future__ import annotations

import json

from xesmith.cascade.record import LevelResult, Verdict
from xesmith.mcp.levels import level_answers
from xesmith.mcp.text import MESSAGE_CHARACTERS, short


def test_messages_are_few_and_short_and_say_how_many_more_there_are() -> None:
    messages = tuple(f"{number} {'x' * 5000}" for number in range(100))
    judged = Verdict((LevelResult("correctness", "refused", messages, {"cases": [1]}),))
    (brief,) = level_answers(judged, detail=False)
    assert (len(brief.messages), brief.more) == (6, 94)
    assert all(len(message) == MESSAGE_CHARACTERS for message in brief.messages)
    assert brief.facts is None
    (whole,) = level_answers(judged, detail=True)
    assert (len(whole.messages), whole.more) == (40, 60)
    assert whole.facts == {"cases": [1]}


def test_facts_that_are_too_long_are_named_and_left_out() -> None:
    facts = {"launches": 3, "cases": ["y" * 1000] * 100, "seeds": [0]}
    (answer,) = level_answers(
        Verdict((LevelResult("correctness", "passed", (), facts),)), detail=True
    )
    assert answer.facts == {"launches": 3, "seeds": [0], "left_out": ["cases"]}
    assert len(json.dumps(answer.model_dump(mode="json"))) < 1000


def test_a_text_becomes_one_line() -> None:
    assert short("a\n  b\tc") == "a b c"
    assert short("abcdef", 5) == "ab..."
