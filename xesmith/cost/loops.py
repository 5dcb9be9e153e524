"""Which native loop is which loop of the IR."""

from __future__ import annotations

from collections import defaultdict

from xesmith.evidence.record import Dot, Evidence, Loop, Native, NativeLoop, Ttir


def match_loops(ttir: Ttir, native: Native) -> dict[int, int]:
    """Native loop -> IR loop, by index.

    Where both levels have the same nest, loops of the same place are the same; else the main
    loop is the IR loop with the most dot work (without dots: the one that runs most), and the
    others stay unmatched.
    """
    if [loop.parent for loop in ttir.loops] == [loop.parent for loop in native.loops]:
        matched = {index: index for index in range(len(native.loops))}
        return {**matched, **_versions(ttir, native)}
    if native.main_loop is not None and ttir.loops:
        return {native.main_loop: max(ttir.loops, key=lambda loop: _weight(loop, ttir)).index}
    return {}


def _versions(ttir: Ttir, native: Native) -> dict[int, int]:
    """Pairs of the versions that the compiler made of one loop.

    It makes one with masks and one without, and IGC may lay them out in either order: the one
    with more masks is the longer one.
    """
    parents = {loop.parent for loop in ttir.loops}
    groups: dict[tuple[int | None, int | None], list[int]] = defaultdict(list)
    for loop in ttir.loops:
        if loop.index not in parents:
            groups[loop.parent, loop.site.line].append(loop.index)
    pairs: dict[int, int] = {}
    for (_, line), members in groups.items():
        masks = {
            index: sum(access.masked and access.loop == index for access in ttir.accesses)
            for index in members
        }
        if line is None or len(set(masks.values())) < len(members):
            continue
        by_length = sorted(members, key=lambda index: native.loops[index].instructions)
        by_masks = sorted(members, key=lambda index: masks[index])
        pairs.update(zip(by_length, by_masks, strict=True))
    return pairs


def work(dot: Dot) -> int:
    """Multiply-adds of a dot."""
    return dot.batch * dot.m * dot.n * dot.k


def _weight(loop: Loop, ttir: Ttir) -> tuple[bool, float, float, int]:
    dots = sum(work(d) for d in ttir.dots if d.loop == loop.index and d.reached)
    trips = loop.trip_count if loop.trip_count is not None else loop.trip_mean or 0.0
    return (loop.reached, dots, trips, -loop.index)


def running_main_loop(evidence: Evidence) -> int | None:
    """The main loop among those that run at the captured values.

    The native reader takes the loop with the most dpas; that may be the version of a loop that
    this launch never enters. None without loops or without native code.
    """
    native, ttir = evidence.native, evidence.ttir
    if native is None or native.main_loop is None:
        return None
    if ttir is None:
        return native.main_loop
    matched = match_loops(ttir, native)

    def runs(loop: NativeLoop) -> bool:
        return loop.index not in matched or ttir.loops[matched[loop.index]].reached

    main = native.loops[native.main_loop]
    running = [loop for loop in native.loops if runs(loop)]
    if runs(main) or not running:
        return main.index
    parents = {loop.parent for loop in native.loops}

    def own_dpas(loop: NativeLoop) -> int:
        return loop.dpas - sum(c.dpas for c in native.loops if c.parent == loop.index)

    def weight(loop: NativeLoop) -> tuple[int, bool, int, int]:
        return (own_dpas(loop), loop.index not in parents, loop.instructions, -loop.index)

    return max(running, key=weight).index
