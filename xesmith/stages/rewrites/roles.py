"""What a kernel's constexprs are for, and which grid its wrapper passes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Literal

from xesmith.ghost.launch import Launch
from xesmith.stages.rewrites.analysis import Analysis
from xesmith.stages.rewrites.poly import Poly
from xesmith.stages.rewrites.proofs import Proofs, tile_uses
from xesmith.stages.rewrites.result import KernelFacts, Refusal, evaluate
from xesmith.stages.rewrites.symbolic import analyse

Kind = Literal["gemm", "attention", "other"]
Placement = Literal["whole", "loop", "grid"]
#: the weaker first: a length used in several ways is what its strongest use says
_ORDER: tuple[Placement, ...] = ("whole", "loop", "grid")


@dataclass(frozen=True)
class TileAxis:
    """A constexpr that is the length of a tile.

    placed_by: "grid" (program ids), "loop" (a loop steps by it) or "whole" (the tile is all
    there is, as a head dimension or a row: its value follows from the shape).
    program_axes: grid axes that place it. loops: a loop moves what the grid has placed, as of
    persistent programs. bound: the extent that its tiles divide, an expression
    over parameters.
    """

    name: str
    placed_by: Placement
    program_axes: frozenset[int] = frozenset()
    bound: str | None = None
    loops: bool = False


@dataclass(frozen=True)
class Roles:
    """kind "gemm": block_m x block_n tiles, summed over block_k; "attention": block_m rows of
    queries against block_n columns of keys in a loop. `tiles` has every tile constexpr."""

    kind: Kind
    tiles: dict[str, TileAxis]
    block_m: str | None = None
    block_n: str | None = None
    block_k: str | None = None
    group: str | None = None

    @property
    def tunable(self) -> tuple[str, ...]:
        """Tile constexprs that can take another value at the same shapes."""
        return tuple(n for n, tile in self.tiles.items() if tile.placed_by != "whole")


def find_roles(source: str, facts: KernelFacts) -> Roles | Refusal:
    analysis = analyse(source, facts)
    if isinstance(analysis, Refusal):
        return analysis
    return roles_of(analysis, facts)


def roles_of(analysis: Analysis, facts: KernelFacts) -> Roles:
    tiles = _tiles(analysis, facts)
    group = next((n for n in analysis.constexprs if n not in tiles and "GROUP" in n.upper()), None)
    shapes = [
        (dot.a_shape, dot.b_shape)
        for dot in analysis.dots
        if dot.a_shape and dot.b_shape and len(dot.a_shape) == 2 and len(dot.b_shape) == 2
    ]
    named = [
        (_name(a[0], tiles), _name(b[1], tiles), _name(a[1], tiles) or _name(b[0], tiles))
        for a, b in shapes
    ]
    for m, n, k in named:
        if _placed(tiles, m, "grid") and _placed(tiles, n, "grid") and _placed(tiles, k, "loop"):
            return Roles("gemm", tiles, m, n, k, group)
    for m, n, _ in named:
        if len(named) >= 2 and _placed(tiles, m, "grid") and _placed(tiles, n, "loop"):
            return Roles("attention", tiles, m, n, None, group)
    return Roles("other", tiles, group=group)


def _placed(tiles: dict[str, TileAxis], name: str | None, by: str) -> bool:
    return name is not None and tiles[name].placed_by == by


def _name(poly: Poly, tiles: dict[str, TileAxis]) -> str | None:
    atom = poly.single
    return atom.text if atom is not None and atom.text in tiles else None


def _tiles(analysis: Analysis, facts: KernelFacts) -> dict[str, TileAxis]:
    proofs = Proofs(analysis, facts)
    tiles: dict[str, TileAxis] = {}

    def record(length: Poly, found: TileAxis) -> None:
        atom = length.single
        if atom is None or atom.text not in analysis.constexprs:
            return
        known = tiles.get(atom.text, TileAxis(atom.text, "whole"))
        weaker = _ORDER.index(known.placed_by) < _ORDER.index(found.placed_by)
        tiles[atom.text] = TileAxis(
            atom.text,
            found.placed_by if weaker else known.placed_by,
            known.program_axes | found.program_axes,
            known.bound or found.bound,
            known.loops or found.loops,
        )

    def guardable(bound: Poly | None) -> str | None:
        return bound.source() if bound is not None and proofs.is_guardable(bound) else None

    for use in tile_uses(analysis):
        bound = guardable(use.bound)
        if bound is None:
            candidates = proofs.bounds(use.start, use.length, use.loops)
            bound = next((text for poly in candidates if (text := guardable(poly))), None)
        axes = use.start.program_axes
        if axes and use.start.divided_by(use.length) is not None:
            loops = any(atom.iterates for atom in use.start.atoms)
            record(use.length, TileAxis("", "grid", axes, bound, loops))
        elif any(atom.kind == "iteration" for atom in use.start.atoms):
            record(use.length, TileAxis("", "loop", bound=bound))
        else:
            record(use.length, TileAxis("", "whole", bound=bound))
    for loop in analysis.loops:
        if loop.trips is not None:
            record(loop.trips[1], TileAxis("", "loop", bound=guardable(loop.trips[0])))
    for step in analysis.steps:
        for length in step:
            record(length, TileAxis("", "loop"))
    return _with_bounds_of_the_grid(tiles, analysis, facts)


def _with_bounds_of_the_grid(
    tiles: dict[str, TileAxis], analysis: Analysis, facts: KernelFacts
) -> dict[str, TileAxis]:
    """Give grid tiles without a known bound the size that explains the captured grids.

    Sizes that bound no other tile are tried first.
    """
    taken = {tile.bound for tile in tiles.values()}
    sizes = sorted(
        _integer_parameters(analysis, facts),
        key=lambda name: (name in taken, "stride" in name.lower()),
    )
    filled = dict(tiles)
    for axis in range(3):
        here = [
            t
            for t in tiles.values()
            if t.placed_by == "grid" and t.program_axes == frozenset({axis})
        ]
        if all(tile.bound for tile in here):
            continue
        grids = [launch.grid[axis] for launch in facts.launches]
        choices = [[tile.bound] if tile.bound else sizes for tile in here]
        for bounds in product(*choices):
            guess = [replace(t, bound=b) for t, b in zip(here, bounds, strict=True)]
            if _fits(_counts(guess) or "1", facts, grids):
                filled.update({tile.name: tile for tile in guess})
                break
    return filled


def infer_grid(source: str, launches: Sequence[Launch]) -> tuple[str, ...] | Refusal:
    """The grid as expressions over the kernel's parameters, true of every given launch.

    Axes that place tiles come from the analysis; for the others integer parameters, extents of
    tensors and their products are tried, the likeliest first. Launches of distinct shapes rule
    out what fits by chance; a plan compares the caller's grid with the expressions besides, so
    that a wrong one sends a call on the original path.
    """
    facts = KernelFacts(launches=tuple(launches))
    analysis = analyse(source, facts)
    if isinstance(analysis, Refusal):
        return analysis
    tiles = list(roles_of(analysis, facts).tiles.values())
    expressions: list[str] = []
    for axis in range(3):
        sizes = [launch.grid[axis] for launch in facts.launches]
        here = [t for t in tiles if t.placed_by == "grid" and axis in t.program_axes]
        if any(t.program_axes != frozenset({axis}) for t in here):
            return Refusal(f"the tiles of axis {axis} of the grid are placed by other axes too")
        found = _first_fit(_axis_candidates(axis, here, tiles, analysis, facts), facts, sizes)
        if found is None:
            seen = ", ".join(str(size) for size in sizes[:4])
            return Refusal(
                f"no expression over the kernel's arguments gives axis {axis} of the grid ({seen})"
            )
        expressions.append(found)
    while len(expressions) > 1 and expressions[-1] == "1":
        expressions.pop()
    return tuple(expressions)


def _counts(tiles: list[TileAxis]) -> str | None:
    """How many tiles there are, where the bound of each is known."""
    if any(tile.bound is None for tile in tiles):
        return None
    return " * ".join(f"cdiv({tile.bound}, {tile.name})" for tile in tiles)


def _axis_candidates(
    axis: int, here: list[TileAxis], tiles: list[TileAxis], analysis: Analysis, facts: KernelFacts
) -> Iterator[str]:
    """Expressions for one axis, the likeliest first. Where the axis places tiles, their counts
    are factors: a tile may change, and the grid with it."""
    integers, extents = _integer_parameters(analysis, facts), _extents(analysis, facts)
    sizes = [name for name in integers if "stride" not in name.lower()]
    plain = [*sizes, *(text for texts in extents for text in texts)]
    counts = _counts(here)
    if counts is None:
        return
    if here:
        yield counts
        for factor in plain:
            yield f"{counts} * {factor}"
        return
    yield "1"
    for divisor in _divisors(axis, analysis):  # as HEADS in z = zh // HEADS
        yield from (f"{text} * {divisor}" for text in plain if text != divisor)
    yield from sizes
    for texts in extents:
        yield from (" * ".join(texts[:count]) for count in (1, 2, 3) if count < len(texts))
    yield from plain
    for one, two in product(plain, plain):
        if one != two:
            yield f"{one} * {two}"
    lengths = {tile.name for tile in tiles}
    blocks = [
        name
        for name in analysis.constexprs
        if name not in lengths and all(_is_count(x, name) for x in facts.launches)
    ]
    for one, block in product(plain, blocks):
        yield f"cdiv({one}, {block})"
    yield from integers


def _divisors(axis: int, analysis: Analysis) -> list[str]:
    """Parameters that the axis's program id is divided by."""
    found: list[str] = []
    for atom in analysis.quotients:
        if atom.operation == "//" and atom.arguments[0].program_axes == frozenset({axis}):
            divisor = atom.arguments[1].single
            if divisor is not None and divisor.kind == "parameter":
                found.append(divisor.text)
    return list(dict.fromkeys(found))


def _first_fit(candidates: Iterator[str], facts: KernelFacts, sizes: list[int]) -> str | None:
    return next((text for text in candidates if _fits(text, facts, sizes)), None)


def _fits(text: str, facts: KernelFacts, sizes: list[int]) -> bool:
    """Whether the expression has these values at the captured launches."""
    pairs = zip(facts.launches, sizes, strict=True)
    return all(evaluate(text, launch) == size for launch, size in pairs)


def _is_count(launch: Launch, name: str) -> bool:
    value = launch.constexprs.get(name)
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _integer_parameters(analysis: Analysis, facts: KernelFacts) -> list[str]:
    """Sizes before strides."""
    names = [
        name
        for name in analysis.parameters
        if name not in analysis.constexprs
        and all(type(launch.values.get(name)) is int for launch in facts.launches)
    ]
    return sorted(names, key=lambda name: "stride" in name.lower())


def _extents(analysis: Analysis, facts: KernelFacts) -> list[list[str]]:
    """Per tensor its extents, then its number of elements."""
    result: list[list[str]] = []
    for name in analysis.parameters:
        tensors = facts.tensors(name)
        ranks = {len(tensor.shape) for tensor in tensors}
        if len(tensors) == len(facts.launches) and len(ranks) == 1:
            texts = [f"{name}.shape[{i}]" for i in range(ranks.pop())]
            result.append([*texts, f"{name}.numel"])
    return result
