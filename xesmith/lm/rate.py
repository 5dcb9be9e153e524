"""Limits of requests and tokens in any sixty seconds, as providers set them."""

from __future__ import annotations

from collections import deque

WINDOW_SECONDS = 60.0


class RateLimiter:
    """Says how long to wait before a request. Times are seconds of any steady clock."""

    def __init__(self, requests_per_minute: float | None, tokens_per_minute: float | None) -> None:
        self._requests = requests_per_minute
        self._tokens = tokens_per_minute
        self._made: deque[tuple[float, int]] = deque()

    @property
    def longest_s(self) -> float:
        """The longest wait that there can be, in seconds."""
        return 0.0 if self._requests is None and self._tokens is None else WINDOW_SECONDS

    def delay_s(self, now: float, tokens: int) -> float:
        """Seconds until a request of so many tokens fits; 0 when it fits at once.

        A request that no window can hold is let through once the window is empty.
        """
        while self._made and self._made[0][0] <= now - WINDOW_SECONDS:
            self._made.popleft()
        count, total = len(self._made), sum(made for _, made in self._made)
        wait = 0.0
        for at, made in self._made:
            if self._fits(count, total, tokens):
                break
            wait = at + WINDOW_SECONDS - now
            count, total = count - 1, total - made
        return wait

    def note(self, now: float, tokens: int) -> None:
        """Counts a request that is being made."""
        if self._requests is not None or self._tokens is not None:
            self._made.append((now, tokens))

    def _fits(self, count: int, total: int, tokens: int) -> bool:
        if self._requests is not None and count + 1 > self._requests:
            return False
        return self._tokens is None or total + tokens <= self._tokens
