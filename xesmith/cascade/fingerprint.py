"""What a result was judged by, as content hashes: the harness, the reference, the tolerances.

Two results can be held against each other only where these are the same, and a harness that was
edited shows. Standard library only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

#: the packages whose code decides what is right, and what holds the processes that are judged
HARNESS = ("cascade", "ghost", "timing", "worker")


@cache
def harness_hash() -> str:
    """Of the source of `HARNESS`, as it lies on this machine."""
    package = Path(__file__).resolve().parents[1]
    digest = hashlib.sha256()
    for name in HARNESS:
        for path in sorted((package / name).rglob("*.py")):
            digest.update(f"{path.relative_to(package)}\0".encode())
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def fingerprint(reference: str, cases: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Hashes to stand in a result.

    Args:
        reference: its source.
        cases: what was asked in each: sizes, inputs, tolerances, as the spec gave them.
    """
    asked = "\n".join(repr(sorted(case.items())) for case in cases)
    return {
        "harness": harness_hash(),
        "reference": hashlib.sha256(reference.encode()).hexdigest(),
        "cases": hashlib.sha256(asked.encode()).hexdigest(),
    }
