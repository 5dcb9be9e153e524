"""Toolchains: found on the machine, or installed under the user's cache folder.

The nouns are light, so that worker processes can import them; finding is loaded when used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from xesmith.toolchain.record import KINDS, Kind, NativeTools, Toolchain

if TYPE_CHECKING:
    from xesmith.toolchain.discover import find_toolchain, list_toolchains

__all__ = ["KINDS", "Kind", "NativeTools", "Toolchain", "find_toolchain", "list_toolchains"]

_LATER = ("find_toolchain", "list_toolchains")


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(importlib.import_module("xesmith.toolchain.discover"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
