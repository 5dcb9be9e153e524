"""Lowering: every level that a compiler makes of each launch of a program.

`Lowerer` is loaded on first use: worker processes import this package with nothing but the
standard library, torch and Triton.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xesmith.lowering.cache import LoweringCache
    from xesmith.lowering.lowerer import Lowerer

__all__ = ["Lowerer", "LoweringCache"]


def __getattr__(name: str) -> Any:
    if name == "Lowerer":
        from xesmith.lowering.lowerer import Lowerer

        return Lowerer
    if name == "LoweringCache":
        from xesmith.lowering.cache import LoweringCache

        return LoweringCache
    raise AttributeError(name)
