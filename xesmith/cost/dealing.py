"""Which programs the busiest Xe core runs."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Sequence


def busiest_share(groups: Sequence[tuple[int, float]], xe_cores: int) -> list[int]:
    """How many programs of each group the Xe core with the most work runs.

    Every Xe core gets as many of each group; what is left over goes, the longest programs
    first, to the one with the least work. So it is about as even as it can be: the order in which
    the hardware starts work-groups is not considered.

    Args:
        groups: (programs, work of one of them) each; the work in any unit.
    """
    even = [programs // xe_cores for programs, _ in groups]
    left = [programs % xe_cores for programs, _ in groups]
    extra: list[Counter[int]] = [Counter() for _ in range(xe_cores)]
    loads = [(0.0, core) for core in range(xe_cores)]  # a heap: the least work first
    for group in sorted(range(len(groups)), key=lambda group: -groups[group][1]):
        for _ in range(left[group]):
            load, core = loads[0]
            heapq.heapreplace(loads, (load + groups[group][1], core))
            extra[core][group] += 1
    _, busiest = max(loads, key=lambda entry: (entry[0], -entry[1]))
    return [count + extra[busiest][group] for group, count in enumerate(even)]
