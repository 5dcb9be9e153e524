"""Modules of the toolchain's environment, whose types nobody states.

Standard library only.
"""

from __future__ import annotations

import importlib
from typing import Any


def foreign(name: str) -> Any:
    """The module `name` (of Triton, mostly), as one whose attributes have no types."""
    return importlib.import_module(name)
