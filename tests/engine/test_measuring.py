"""When a run measures: only where the target itself is at hand."""

from __future__ import annotations

from xesmith.device import load_device
from xesmith.engine.measuring import Measurer


def test_without_a_device_nothing_is_started(tmp_path):
    said: list[str] = []
    nowhere = tmp_path / "no-python"
    assert Measurer.find(nowhere, load_device("bmg-g31"), said.append, root=tmp_path) is None
    assert said == []


def test_another_device_than_the_target_does_not_count(tmp_path, toolchain):
    (tmp_path / "nvidia0").touch()
    said: list[str] = []
    found = Measurer.find(toolchain.python, load_device("h200"), said.append, root=tmp_path)
    assert found is None
    assert said[0].endswith("so times are predicted")
