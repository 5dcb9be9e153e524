"""Tokens of a text where nobody counts them."""

from __future__ import annotations

import math

#: bytes of UTF-8 that are taken for one token: English has about 4.5 of them, code about 3
_BYTES_PER_TOKEN = 3


def estimate_tokens(text: str) -> int:
    """Rather too many than too few."""
    return math.ceil(len(text.encode("utf-8", "replace")) / _BYTES_PER_TOKEN)
