"""Tokens where nobody counts them."""

from xesmith.tokens import estimate_tokens


def test_tokens_are_estimated_by_bytes() -> None:
    assert [estimate_tokens(text) for text in ("", "a", "abc", "abcd", "äöü")] == [0, 1, 1, 2, 2]
    # half of a surrogate pair, which no encoding has
    assert estimate_tokens("\ud800" * 6) == 2
