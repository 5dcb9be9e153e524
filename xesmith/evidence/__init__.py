"""Evidence: what each level of a lowering says, one reader per level.

Readers read and never judge; findings, contracts and the cost model judge.
"""

from __future__ import annotations

from xesmith.evidence.read import lowered_content, lowered_hash, read, schema
from xesmith.evidence.record import Evidence

__all__ = ["Evidence", "lowered_content", "lowered_hash", "read", "schema"]
