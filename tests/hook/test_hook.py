"""The hook in Intel's Triton 3.3, in real compiles on the ghost device."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.hook.cases import Cases
from tests.hook.conftest import Place

pytestmark = pytest.mark.intel


class TestIntelsTriton(Cases):
    native = "kernel.spv"

    @pytest.fixture
    def place(self, tmp_path: Path) -> Place:
        return Place(tmp_path, sys.executable)
