"""Which small shapes take a program's path at a real shape.

A candidate may launch its new kernels only where their guards hold (`n_cols % 4096 == 0`), so a
scaled-down shape can take the original path: it would show that the original is right, and
nothing of the candidate. A small case covers a shape where the program launches the same
kernels in the same order, by the same alternatives of its launch plan, with the same tiles and
options, in grids of more than one program wherever the real grid has more than one.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from xesmith.cascade.structure import is_block_size
from xesmith.spec import Budget, Shape, Spec

#: the most that is interpreted for coverage
LARGEST_ELEMENTS = 2**24
LARGEST_FLOP = 8e9
LARGEST_PROGRAM_COUNT = 1024

#: the most that is interpreted for one shape that the spec does not have
UNSEEN_ELEMENTS = 2**22
UNSEEN_FLOP = 2e9
UNSEEN_PROGRAM_COUNT = 256

#: the most that is interpreted for one wide case: a few seconds
WIDE = Budget(elements=2**25, flop=5e9, programs=4096)
#: the same for the real shape itself
_WHOLE_ELEMENTS = 2**23
_WIDE_CASES = 2

_TILES = (512, 1024, 2048)
_NARROW = (64, 256, 512)
_SMALL = Budget(elements=2**18, flop=3e8)
_LARGEST_DIM_COUNT = 6
_UNSEEN_DIM_COUNT = 4
#: step, and how many of them the first small size is
_UNSEEN_STEPS = ((256, 1), (64, 3))


def covers(small: Mapping[str, Any], real: Mapping[str, Any]) -> bool:
    """Whether what was probed (`interpret_task.probe`) of a small case covers a real one."""
    return (
        same_kernels(small, real)
        and small["alternatives"] == real["alternatives"]
        and all(
            a["options"] == b["options"] and _tiles(a) == _tiles(b)
            for a, b in zip(small["launches"], real["launches"], strict=True)
        )
    )


def same_kernels(small: Mapping[str, Any], real: Mapping[str, Any]) -> bool:
    """Whether both launch the same kernels, and the small one several programs wherever the
    real one does. Tiles may differ: a wrapper may choose them by size."""
    if small["failure"] is not None or real["failure"] is not None:
        return False
    return len(small["launches"]) == len(real["launches"]) and all(
        a["kernel"] == b["kernel"]
        and all(few > 1 or many == 1 for few, many in zip(a["grid"], b["grid"], strict=True))
        for a, b in zip(small["launches"], real["launches"], strict=True)
    )


def programs(probed: Mapping[str, Any]) -> int:
    """Programs of all grids together."""
    return sum(g[0] * g[1] * g[2] for g in (launch["grid"] for launch in probed["launches"]))


def smaller_shapes(spec: Spec, shape: Shape) -> tuple[Shape, ...]:
    """Shapes that might cover `shape`, the cheapest first; `spec.scale` comes before all."""
    usual = spec.scale(shape)
    made = {other.label: other for other in _alternatives(spec, shape)}
    made.pop(usual.label, None)
    return (usual, *_affordable(made.values()))


def wider_shapes(spec: Spec, shape: Shape) -> tuple[Shape, ...]:
    """`smaller_shapes` and those in which two sizes at most are large and all others small, the
    cheapest first: many tiles, and little work in each."""
    made = {other.label: other for other in (*_alternatives(spec, shape), *_wide(spec, shape))}
    return _affordable(made.values())


def spread(shapes: Sequence[Shape], real: Shape) -> tuple[Shape, ...]:
    """`shapes` in another order: the first, then the first in which each size is the real one
    (a branch may ask for it), then the others."""
    at_size = [
        next((shape for shape in shapes if shape.dims[name] == size), None)
        for name, size in _large_sizes(real).items()
    ]
    order = [*shapes[:1], *(shape for shape in at_size if shape is not None), *shapes]
    return tuple({shape.label: shape for shape in order}.values())


def _affordable(shapes: Iterable[Shape]) -> tuple[Shape, ...]:
    affordable = [
        other
        for other in shapes
        if other.input_elements <= LARGEST_ELEMENTS and (other.flop or 0) <= LARGEST_FLOP
    ]
    affordable.sort(key=lambda other: (other.flop or 0) + 100 * other.input_elements)
    return tuple(affordable)


def _wide(spec: Spec, shape: Shape) -> Iterator[Shape]:
    sizes = _large_sizes(shape)
    names = sorted(sizes, key=lambda name: sizes[name])[-_LARGEST_DIM_COUNT:]
    for narrow, tile in itertools.product(_NARROW, _TILES):
        small = {name: min(size, size % narrow + narrow) for name, size in sizes.items()}
        wide = {n: sizes[n] % tile + 2 * tile for n in names if sizes[n] >= 2 * tile}
        for count in (0, 1, 2):
            for chosen in itertools.combinations(wide, count):
                yield spec.resized(shape, {**small, **{name: wide[name] for name in chosen}})


def unseen_shapes(spec: Spec, shape: Shape) -> tuple[tuple[Shape, ...], ...]:
    """Shapes that tell a general program from one made for `shape` alone.

    In each, one size is larger than in `shape` by 256, and all others are small and different
    from each other, so that neither a bound taken from the spec nor one size in another's place
    (N for K, in a spec of squares) gives the right result. For each size that is made larger
    there are several, the best first: in that, remainders by 256 stay, in the next, those by 64.
    """
    names = sorted(sizes := _large_sizes(shape), key=lambda name: sizes[name])
    found: list[tuple[Shape, ...]] = []
    for larger in names[-_UNSEEN_DIM_COUNT:]:
        others = [name for name in names if name != larger]
        made = [
            spec.resized(
                shape,
                {
                    **{
                        name: min(sizes[name], sizes[name] % step + step * count)
                        for count, name in enumerate(others, start=least)
                    },
                    larger: sizes[larger] + 256,
                },
            )
            for step, least in _UNSEEN_STEPS
        ]
        affordable = {
            other.label: other
            for other in made
            if other.input_elements <= UNSEEN_ELEMENTS and (other.flop or 0) <= UNSEEN_FLOP
        }
        if affordable:
            found.append(tuple(affordable.values()))
    return tuple(found)


def wide_shapes(spec: Spec, shape: Shape) -> tuple[Shape, ...]:
    """Shapes in which all sizes but one are those of `shape` and that one is small, the cheapest
    first; before them `shape` itself where that is no great work.

    What a kernel does by a condition on several sizes (`M * N >= 2**24`) shows there, and at no
    other shape that is small enough.
    """
    names = [name for name, value in shape.dims.items() if isinstance(value, int | tuple)]
    made = [
        spec.scale(shape, budget=WIDE, fixed=[other for other in names if other != name])
        for name in names
    ]
    found = [other for other in made if other.within_budget and other.dims != shape.dims]
    found.sort(key=lambda other: (other.flop or 0, other.input_elements))
    whole = shape.input_elements <= _WHOLE_ELEMENTS and (shape.flop or 0) <= WIDE.flop
    return (shape, *found) if whole else tuple(found)


def wide(probed: Sequence[Mapping[str, Any]], real: Mapping[str, Any]) -> list[int]:
    """The indices of the probed `wide_shapes` to be run: of the same launches as the real one (one
    tile may be all that there is along a small size), and few programs."""
    return [
        index
        for index, small in enumerate(probed)
        if small["failure"] is None
        and small["alternatives"] == real["alternatives"]
        and _kernels(small) == _kernels(real)
        and programs(small) <= WIDE.programs
    ][:_WIDE_CASES]


def _kernels(probed: Mapping[str, Any]) -> list[str]:
    return [launch["kernel"] for launch in probed["launches"]]


def _large_sizes(shape: Shape) -> dict[str, int]:
    return {
        name: value
        for name, value in shape.dims.items()
        if isinstance(value, int) and not isinstance(value, bool) and value > 16
    }


def _alternatives(spec: Spec, shape: Shape) -> Iterator[Shape]:
    sizes = _large_sizes(shape)
    names = sorted(sizes, key=lambda name: sizes[name])[:_LARGEST_DIM_COUNT]
    for tile in _TILES:
        tiles = {name: tile for name, value in sizes.items() if value >= 2 * tile}
        if tiles:
            yield spec.scale(shape, tiles)
    for count in range(1, len(names)):
        for fixed in itertools.combinations(names, count):
            for budget in (_SMALL, None):
                yield spec.scale(shape, budget=budget, fixed=fixed)
    yield shape


def _tiles(launch: Mapping[str, Any]) -> dict[str, str]:
    constexprs: Mapping[str, str] = launch["constexprs"]
    return {name: value for name, value in constexprs.items() if is_block_size(name)}


def covering(probed: Sequence[Mapping[str, Any]], real: Mapping[str, Any]) -> list[int]:
    """The indices of the probed cases that cover `real` and are no great work."""
    return [
        index
        for index, small in enumerate(probed)
        if covers(small, real) and programs(small) <= LARGEST_PROGRAM_COUNT
    ]


def same_grids(small: Mapping[str, Any], real: Mapping[str, Any]) -> bool:
    """Whether each launch has as many programs as at the real shape."""
    return all(
        a["grid"] == b["grid"] for a, b in zip(small["launches"], real["launches"], strict=True)
    )
