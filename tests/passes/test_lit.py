"""passes/test with lit and FileCheck: every pass in mlir-opt, positive, negative and edge cases."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from xesmith.passes.plugin import plugin_path
from xesmith.passes.reference import pass_names

pytestmark = pytest.mark.mlir


def test_every_lit_test_passes(repository: Path, tmp_path: Path) -> None:
    environment = {
        **os.environ, "XESMITH_LIT_OUTPUT": str(tmp_path), "XESMITH_PASSES": str(plugin_path())
    }  # fmt: skip
    command = [sys.executable, "-c", "from lit.main import main; main()", "-v", "-j2"]
    done = subprocess.run(
        [*command, str(repository / "passes" / "test")],
        capture_output=True,
        text=True,
        env=environment,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    passed = re.search(r"Passed\s*: +(\d+)", done.stdout)
    assert passed is not None
    assert int(passed.group(1)) == len(list((repository / "passes" / "test").glob("*.mlir")))


def test_every_pass_has_a_lit_test(repository: Path) -> None:
    texts = "".join(p.read_text("utf-8") for p in (repository / "passes" / "test").glob("*.mlir"))
    assert [name for name in pass_names() if f"({name}" not in texts] == []
