"""Fixtures that every part shares. A toolchain that is missing fails the test; nothing skips."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from xesmith.device import Device
    from xesmith.lowering import Lowerer
    from xesmith.toolchain import Toolchain

REPOSITORY = Path(__file__).resolve().parents[1]

#: files that take longest, the longest first
SLOW_FILES = (
    "engine/test_optimize_model.py",
    "engine/test_optimize.py",
    "traps/test_traps.py",
    "cli/test_bad_input.py",
    "stages/proposers/test_rules_given.py",
    "cli/test_traps.py",
    "engine/test_judge_real_sizes.py",
    "hook/test_triton39.py",
    "test_packaging.py",
    "mcp/test_softmax_session.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Slow files go first, so that at the end no worker has one while the others wait."""
    rank = {REPOSITORY / "tests" / name: place for place, name in enumerate(SLOW_FILES)}
    items.sort(key=lambda item: rank.get(item.path, len(rank)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With `-n` a file stays with one worker: what its tests share is made once."""
    if config.getoption("dist") != "load":
        return None  # asked for by name
    from xdist.scheduler import LoadFileScheduling

    config.option.loadscopereorder = False
    return LoadFileScheduling(config, log)


@pytest.fixture(scope="session")
def repository() -> Path:
    """The top folder of the checkout."""
    return REPOSITORY


@pytest.fixture(scope="session")
def xesmith_command() -> list[str]:
    """The command line as a user starts it, in this environment."""
    return [sys.executable, "-m", "xesmith.cli.app"]


@pytest.fixture(scope="session")
def toolchain() -> Toolchain:
    """The Intel toolchain with its native tools; they have been seen to work."""
    from xesmith.toolchain import find_toolchain

    return find_toolchain(None, "xpu")


@pytest.fixture(scope="session")
def device() -> Device:
    """Arc Pro B70."""
    from xesmith.device import load_device

    return load_device("bmg-g31")


@pytest.fixture(scope="session")
def lowerer(toolchain: Toolchain, device: Device) -> Iterator[Lowerer]:
    """A Lowerer for Arc Pro B70, with one worker process for the whole session."""
    from xesmith.lowering import Lowerer

    with Lowerer(toolchain, device, parallel=1) as shared:
        yield shared


@pytest.fixture(scope="session")
def evidence_maker() -> ModuleType:
    """Builders of hand-made evidence: tests/evidence_maker.py."""
    path = REPOSITORY / "tests" / "evidence_maker.py"
    spec = importlib.util.spec_from_file_location("evidence_maker", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def _no_inherited_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the caller's shell has set about xesmith must not change a result.

    XESMITH_TOOLCHAIN_DIR stays: it says where the toolchain of this run is installed.
    """
    for name in list(os.environ):
        if name.startswith("XESMITH_") and name != "XESMITH_TOOLCHAIN_DIR":
            monkeypatch.delenv(name)
    # A file that is not there: the developer's own would name a model.
    monkeypatch.setenv("XDG_CONFIG_HOME", "/nonexistent")


@pytest.fixture(scope="session", autouse=True)
def _coverage_reaches_workers() -> None:
    """Workers see nothing of our environment; under `make coverage` they are measured too."""
    if "COVERAGE_PROCESS_CONFIG" not in os.environ:
        return
    from xesmith.worker import client

    client._KEPT_PREFIXES = (*client._KEPT_PREFIXES, "COVERAGE_PROCESS_")
