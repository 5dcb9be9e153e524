"""docs/06-models.md names the settings, the faults and the tests that there are."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from xesmith.lm.settings import ENVIRONMENT
from xesmith.lm.stand_in import Fault


@pytest.fixture
def page(repository: Path) -> str:
    return (repository / "docs" / "06-models.md").read_text("utf-8")


def test_each_test_of_the_fault_table_exists(page: str, repository: Path) -> None:
    named = re.findall(r"`(?:(tests/[\w/]+\.py)::)?(test_\w+)`", page)
    missing = [
        (file, name)
        for file, name in named
        if f"def {name}(" not in (repository / (file or "tests/lm/test_faults.py")).read_text()
    ]
    assert (missing, len(named) > 20) == ([], True)


def test_each_setting_and_fault_is_told(page: str) -> None:
    told = set(re.findall(r"`(\w+)`", page))
    assert set(ENVIRONMENT) - told == set()
    assert {field.name for field in fields(Fault)} - told - {"times"} == set()
