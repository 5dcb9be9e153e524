"""Where a jit function stands in its file.

Runs in worker processes: standard library only.
"""

from __future__ import annotations

import inspect
from typing import Any


def function_position(function: Any) -> tuple[str, int]:
    """(file, line of its `def`) of a jit function."""
    file = function.fn.__code__.co_filename
    lines, start = inspect.getsourcelines(function.fn)
    for offset, text in enumerate(lines):
        if text.lstrip().startswith("def "):
            return file, start + offset
    return file, start
