"""The legal order that is nearest to a wanted one.

Nearest means: the fewest pairs of names stand the other way round than wanted (Kendall's tau);
of several such orders the one that is first when they are compared by wanted position.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from functools import lru_cache

#: (name, names that must come before it), of all names
Edges = tuple[tuple[str, tuple[str, ...]], ...]

#: sets of names that a search looks at before the rest is taken as it comes: a second or two.
#: Two dozen names in any order stay far below it.
_MOST_SETS = 100_000


@lru_cache(maxsize=64)
def ancestors(edges: Edges) -> Mapping[str, frozenset[str]]:
    """By name: all that must come before it. A name on a cycle stands among its own."""
    direct = dict(edges)
    found: dict[str, frozenset[str]] = {}
    for name in direct:
        seen: set[str] = set()
        todo = list(direct[name])
        while todo:
            if (item := todo.pop()) not in seen:
                seen.add(item)
                todo.extend(direct.get(item, ()))
        found[name] = frozenset(seen)
    return found


def nearest_order(wanted: Sequence[str], before: Mapping[str, frozenset[str]]) -> tuple[str, ...]:
    """The names of `wanted` in the nearest order that is legal under `before` (without cycles).

    Edges to names that are not in `wanted` do not count. Best-first search over the sets of
    names done, cheapest first: a set costs the pairs inverted so far and those that the edges
    invert among the rest; the latter are the same for every order, and left out. A legal order
    is done in one pass. After `_MOST_SETS` sets the rest follows without a search: legal, and
    perhaps not the nearest.
    """
    place = {name: position for position, name in enumerate(wanted)}
    blockers, followers = [0] * len(wanted), [0] * len(wanted)
    for name, position in place.items():
        for other in before[name]:
            if other in place:
                blockers[position] |= 1 << place[other]
                followers[place[other]] |= 1 << position
    whole = (1 << len(wanted)) - 1
    # Equal costs compare by the order, so the first to be complete also wins the tie.
    frontier: list[tuple[int, tuple[int, ...], int]] = [(0, (), 0)]
    settled: set[int] = set()
    while frontier:
        cost, order, done = heapq.heappop(frontier)
        if done == whole:
            return tuple(wanted[position] for position in order)
        if done in settled:
            continue
        settled.add(done)
        free = _next(done, whole, blockers)
        if len(settled) > _MOST_SETS:
            frontier.clear()
            free = free[:1]
        for position in free:
            overtaken = ~done & ((1 << position) - 1) & ~followers[position]
            heapq.heappush(
                frontier,
                (cost + overtaken.bit_count(), (*order, position), done | 1 << position),
            )
    raise ValueError("the names wait for each other")


def _next(done: int, whole: int, blockers: Sequence[int]) -> list[int]:
    """What may come next: of the shortest wanted prefix that waits for nothing behind it.

    Nothing behind such a prefix is worth putting before any of it: that inverts pairs and
    spares none.
    """
    rest = whole & ~done
    position = end = (rest & -rest).bit_length() - 1
    free: list[int] = []
    while position <= end:
        if rest >> position & 1:
            if waits_for := blockers[position] & rest:
                end = max(end, waits_for.bit_length() - 1)
            else:
                free.append(position)
        position += 1
    return free
