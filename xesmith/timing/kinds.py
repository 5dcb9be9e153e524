"""Kinds of devices that programs are timed on. Standard library only."""

from __future__ import annotations

from typing import Literal

Kind = Literal["cuda", "xpu", "cpu"]

#: written between timed calls where the size of the last-level cache is not known
LEAST_FLUSH_BYTES = 256 << 20
