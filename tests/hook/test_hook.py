"""The hook in Intel's Triton 3.3, in real compiles on the ghost device."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.hook.cases import BEGIN, Cases
from tests.hook.conftest import Place

pytestmark = pytest.mark.intel


class TestIntelsTriton(Cases):
    native = "kernel.spv"

    @pytest.fixture
    def place(self, tmp_path: Path) -> Place:
        return Place(tmp_path, sys.executable)

    @pytest.mark.mlir
    def test_passes_of_this_project_run_in_front_of_the_compiler(self, place: Place):
        body = """
command = [sys.executable, "-m", "xesmith.cli.app", "passes", "run"]
xesmith.hook.enable(TRACE, transform=[*command, "xesmith-exp2", "{file}"])
answer(["math.exp2" in kernel.asm["ttir"] for kernel in (compile_exponential(), compile_scale())])
"""
        plain = place.run(BEGIN + 'answer("math.exp2" in compile_exponential().asm["ttir"])')
        assert plain.value is False
        assert place.run(BEGIN + body).value == [True, False]
        statuses = {e["kernel"]: e["transform"]["status"] for e in place.events()}
        assert statuses["exponential"] == "applied"
        assert "failed" not in statuses.values()
