"""Tiles, warps, stages, register mode and tile order: what to try, the best guess first.

The space is pruned by what no compiler can change (registers of the accumulator, sub-groups
of a work-group, the shape of a matrix instruction) and ordered by a rough estimate of reuse,
fit in registers and use of all cores. The estimate only orders: the evidence decides.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import libcst as cst
from libcst import matchers as m

from xesmith.device import Device
from xesmith.ghost.launch import Launch, TensorArg
from xesmith.stages.rewrites.analysis import Analysis
from xesmith.stages.rewrites.edits import Edits, drop_dead_assignments, names_in, unique_name
from xesmith.stages.rewrites.execution_units import ExecutionUnits, RegisterMode, units_of
from xesmith.stages.rewrites.poly import Poly
from xesmith.stages.rewrites.proofs import tile_uses
from xesmith.stages.rewrites.result import (
    ELEMENT_BYTES,
    KernelFacts,
    Refusal,
    Rewrite,
    evaluate,
    guards_hold,
)
from xesmith.stages.rewrites.roles import Roles, infer_grid, roles_of
from xesmith.stages.rewrites.symbolic import analyse
from xesmith.stages.rewrites.values import Affine

__all__ = ["Configuration", "SearchSpace", "infer_grid", "insert_group", "search_space"]

#: of the registers of a thread, what an accumulator may take: beyond the first it surely
#: spills all the time, beyond the second it leaves little for operands
MOST_OF_REGISTERS, GOOD_PART_OF_REGISTERS = 1.0, 0.55


@dataclass(frozen=True)
class Configuration:
    """Values of the tile constexprs, and the options of the launch."""

    metas: dict[str, int]
    num_warps: int
    num_stages: int
    grf_mode: str | None  # "128" | "256"; None where the device has one register file
    promise: float = field(default=0.0, compare=False)  # orders, means nothing else

    @property
    def options(self) -> dict[str, Any]:
        options: dict[str, Any] = {"num_warps": self.num_warps, "num_stages": self.num_stages}
        return options if self.grf_mode is None else {**options, "grf_mode": self.grf_mode}


@dataclass(frozen=True)
class SearchSpace:
    """Configurations, the most promising first; `pruned` counts those left out, per reason."""

    roles: Roles
    configurations: tuple[Configuration, ...]
    pruned: dict[str, int]


def search_space(
    source: str,
    facts: KernelFacts,
    device: Device,
    *,
    guards: Sequence[str] = (),
    limit: int = 96,
) -> SearchSpace | Refusal:
    """What to try for a kernel on a device.

    guards: of the path that the configurations are for; one that a configuration breaks at
        every captured launch prunes it.
    limit: most configurations given back.
    """
    analysis = analyse(source, facts)
    if isinstance(analysis, Refusal):
        return analysis
    roles = roles_of(analysis, facts)
    units = units_of(device)
    warps_tried = units.warps if roles.kind == "other" else units.warps_of_products
    pruned: dict[str, int] = {}

    def prune(reason: str) -> None:
        pruned[reason] = pruned.get(reason, 0) + 1

    candidates: list[tuple[Configuration, tuple[int, ...]]] = []
    for metas in _tiles(roles, facts, units):
        if not any(guards_hold(guards, launch, metas) for launch in facts.launches):
            prune("a guard of the rewrite fails at every captured shape")
            continue
        stages = _stages(roles, metas, facts, units)
        if not stages:
            prune("the operands of two stages take more than the shared memory")
            continue
        for warps, mode in product(warps_tried, units.modes):
            if warps > mode.most_warps:
                kind = f"{mode.name} registers allow" if mode.name else "the device allows"
                prune(f"{kind} at most {mode.most_warps} warps")
                continue
            reason, promise = _judge(roles, metas, warps, mode, facts, units)
            if reason is not None:
                prune(reason)
                continue
            promise *= units.stages.get(stages[0], 1.0)
            candidates.append((Configuration(metas, warps, stages[0], mode.name, promise), stages))
    if not candidates:
        return Refusal(f"no configuration is legal: {pruned}" if pruned else "nothing to choose")
    candidates.sort(key=lambda c: (-c[0].promise, c[0].num_warps, sorted(c[0].metas.items())))
    return SearchSpace(roles, tuple(_varied(candidates, roles, units))[:limit], pruned)


def _stages(
    roles: Roles, metas: dict[str, int], facts: KernelFacts, units: ExecutionUnits
) -> tuple[int, ...]:
    """Numbers of stages to try, the first of them first; none where not even two fit.

    The first is what the launch says, else what the compiler does by itself.
    """
    given = facts.launches[0].options.get("num_stages")
    first = given if isinstance(given, int) and given >= 2 else units.default_stages
    if not units.stages or roles.kind == "other":
        return (first, first + 1) if roles.kind != "other" else (first,)
    fitting = [n for n in units.stages if _fits(n, roles, metas, facts, units)]
    return tuple(sorted(fitting, key=lambda n: (n != first, -units.stages[n], n)))


def _fits(
    stages: int, roles: Roles, metas: dict[str, int], facts: KernelFacts, units: ExecutionUnits
) -> bool:
    """Whether the operands of so many stages lie in shared memory at once."""
    if units.pipelined_bytes is None:
        return True
    launch = _largest(facts)
    tensors = [t for t in launch.values.values() if isinstance(t, TensorArg)]
    element = min((ELEMENT_BYTES.get(t.dtype, 4) for t in tensors), default=4)
    rows, columns = metas[roles.block_m or ""], metas[roles.block_n or ""]
    if roles.kind == "attention":  # queries once, keys and values in each stage
        width = _head_width(roles, launch)
        return (rows * width + stages * 2 * columns * width) * element <= units.pipelined_bytes
    depth = metas.get(roles.block_k or "", 32)
    return stages * (rows + columns) * depth * element <= units.pipelined_bytes


def _head_width(roles: Roles, launch: Launch) -> int:
    whole = [n for n, tile in roles.tiles.items() if tile.placed_by == "whole"]
    return max([int(launch.constexprs[n]) for n in whole] or [64])


def _varied(
    candidates: Iterable[tuple[Configuration, tuple[int, ...]]], roles: Roles, units: ExecutionUnits
) -> Iterator[Configuration]:
    """Adds the variants that no estimate can order: the group of tile rows and the stages.

    candidates: each with the stages to try, its own first.
    """
    varied = 4 if units.stages else 1  # how many of the first
    for place, (candidate, stages) in enumerate(candidates):
        groups = (4, 1) if place < 4 else (4,)
        if roles.group is None:
            yield candidate
            groups = ()
        for group in groups:
            yield replace(candidate, metas={**candidate.metas, roles.group or "": group})
        if place < varied:
            metas = candidate.metas if roles.group is None else {**candidate.metas, roles.group: 4}
            for count in stages[1:2]:
                yield replace(candidate, metas=metas, num_stages=count)


def _tiles(roles: Roles, facts: KernelFacts, units: ExecutionUnits) -> Iterator[dict[str, int]]:
    """Values of the constexprs that may change."""
    launch = _largest(facts)
    options: dict[str, tuple[int, ...]] = {}
    for name in roles.tunable:
        tile = roles.tiles[name]
        if name == roles.block_k:
            options[name] = tuple(units.depths)
        elif name == roles.block_m:
            options[name] = (16, 32, 64, 128, 256)
        elif name == roles.block_n:
            least = 16 if roles.kind == "attention" else 32
            options[name] = tuple(n for n in (16, 32, 64, 128, 256) if n >= least)
        elif roles.kind == "other":
            options[name] = (64, 128, 256, 512, 1024, 2048, 4096)
            if len(roles.tunable) > 1:
                options[name] = (8, 16, 32, 64, 128)
        else:
            continue
        if tile.bound is not None:
            # a tile past the next power of two holds nothing but padding
            most = max(16, 1 << (int(evaluate(tile.bound, launch)) - 1).bit_length())
            options[name] = tuple(n for n in options[name] if n <= most)
    for values in product(*options.values()):
        yield dict(zip(options, values, strict=True))


def _largest(facts: KernelFacts) -> Launch:
    return max(
        facts.launches,
        key=lambda x: sum(math.prod(t.shape) for t in x.values.values() if hasattr(t, "shape")),
    )


def _judge(
    roles: Roles,
    metas: dict[str, int],
    warps: int,
    mode: RegisterMode,
    facts: KernelFacts,
    units: ExecutionUnits,
) -> tuple[str | None, float]:
    """(why it is left out, or None; its promise)."""
    launch = _largest(facts)
    if roles.kind == "other":
        return _judge_elementwise(roles, metas, warps, mode, facts, units)
    m_name, n_name = roles.block_m or "", roles.block_n or ""
    rows, columns = metas[m_name], metas[n_name]
    if roles.kind == "attention":
        width = _head_width(roles, launch)
        least = units.matrix_rows // units.matrix_warps
        if warps % units.matrix_warps or rows < least * warps:
            return f"fewer than {least} rows of the tile for each warp", 0.0
        accumulator = rows * (width + columns) * 4 // warps
        warp_rows, warp_columns = rows // warps, columns
    else:
        split = _split(rows, columns, warps, units)
        if split is None:
            return "less than one matrix instruction for each warp", 0.0
        warp_rows, warp_columns = split
        accumulator = rows * columns * 4 // warps
    part = accumulator / mode.registers_bytes(warps)
    if part > MOST_OF_REGISTERS:
        return "the accumulator alone takes more than all registers", 0.0
    fit = 1.0 if part <= GOOD_PART_OF_REGISTERS else 0.35
    if roles.kind == "attention":
        fit = 1.0 if part <= 0.6 else 0.35
    # operand bytes per flop, within a warp (registers) and within a work-group (caches)
    warp_reuse = warp_rows * warp_columns / (warp_rows + warp_columns)
    group_reuse = rows * columns / (rows + columns) if roles.kind == "gemm" else float(rows)
    depth = units.depths.get(metas.get(roles.block_k or "", 32), 1.0)
    used = _use_of_cores(roles, metas, warps, mode, launch, units.cores)
    by_warp, by_group = units.matrix_reuse
    return None, fit * depth * used * warp_reuse**by_warp * group_reuse**by_group


def _split(rows: int, columns: int, warps: int, units: ExecutionUnits) -> tuple[int, int] | None:
    """Rows and columns of each part that has a matrix instruction of its own, the squarest."""
    parts, left = divmod(warps, units.matrix_warps)
    if left:
        return None
    best: tuple[int, int] | None = None
    for down in (2**i for i in range(parts.bit_length())):
        part = (rows // down, columns // (parts // down))
        if part[0] < units.matrix_rows or part[1] < units.matrix_columns:
            continue
        if best is None or sum(part) < sum(best):
            best = part
    return best


def _use_of_cores(
    roles: Roles,
    metas: dict[str, int],
    warps: int,
    mode: RegisterMode,
    launch: Launch,
    cores: int,
) -> float:
    """Fraction of the cores' time in which they compute elements that exist."""
    before, after, useful = 1, 1, 1.0
    for tile in roles.tiles.values():
        if tile.placed_by != "grid" or tile.bound is None:
            continue
        extent = int(evaluate(tile.bound, launch))
        old, new = int(launch.constexprs[tile.name]), metas.get(tile.name, 1)
        before *= -(-extent // old)
        after *= -(-extent // new)
        useful *= extent / (-(-extent // new) * new)
    programs = max(1, math.prod(launch.grid) // before) * after
    busy = programs / (-(-programs // cores) * cores)
    # latency is hidden by the sub-groups that a core holds at once
    at_once = max(1, mode.warps_per_core // warps)
    resident = warps * min(at_once, -(-programs // cores))
    return useful * busy * (0.8 + 0.2 * min(1.0, resident / 32))


def _judge_elementwise(
    roles: Roles,
    metas: dict[str, int],
    warps: int,
    mode: RegisterMode,
    facts: KernelFacts,
    units: ExecutionUnits,
) -> tuple[str | None, float]:
    """No matrix product: enough elements for each lane to load widely, few enough to fit."""
    launch = _largest(facts)
    values = {**launch.constexprs, **metas}
    lengths = [int(values[name]) for name in roles.tiles]
    per_lane = math.prod(lengths) / (warps * units.lanes)
    if lengths and per_lane < 1:
        return "more lanes than elements", 0.0
    if per_lane * 4 * units.lanes > mode.registers_bytes(warps):
        return "one tile takes more than all registers", 0.0
    width = min((t.dtype for t in launch.values.values() if hasattr(t, "dtype")), default="float32")
    wide = 16 / ELEMENT_BYTES.get(width, 4)  # elements of one 16-byte access
    fit = min(per_lane / wide, wide * 4 / per_lane, 1.0)
    larger = 0.9 if mode.name == "256" else 1.0
    return None, fit * larger * (
        0.5 + 0.5 * _use_of_cores(roles, metas, warps, mode, launch, units.cores)
    )


# --- the order of tiles


def insert_group(source: str, facts: KernelFacts) -> Rewrite | Refusal:
    """Walk the tiles in groups of GROUP_SIZE_M rows, so that neighbours share what they load.

    Understands `pid // num_n, pid % num_n` of a one-dimensional grid, and a program id each for
    rows and columns, whose grid becomes one-dimensional. The set of tiles is the same where
    the grid is the one that was inferred, which the plan checks.
    """
    analysis = analyse(source, facts)
    if isinstance(analysis, Refusal):
        return analysis
    roles = roles_of(analysis, facts)
    if roles.kind != "gemm" or roles.block_m is None or roles.block_n is None:
        return Refusal("no product of two grid-placed tiles whose order could matter")
    if roles.group is not None:
        return Refusal(f"the tiles are grouped by {roles.group} already")
    rows, columns = roles.tiles[roles.block_m], roles.tiles[roles.block_n]
    if rows.bound is None or columns.bound is None:
        return Refusal("the extent that the tiles divide is not known")
    found = [_program_index(analysis, name) for name in (rows.name, columns.name)]
    if found[0] is None or found[1] is None:
        return Refusal("no variable holds just the row or just the column of the tile")
    row, column = found[0], found[1]
    taken = names_in(analysis.module)
    group = unique_name("GROUP_SIZE_M", taken)
    counts = (f"tl.cdiv({rows.bound}, {rows.name})", f"tl.cdiv({columns.bound}, {columns.name})")
    grid: tuple[str, ...] | None = None
    old_grid = infer_grid(source, facts.launches)
    if isinstance(old_grid, Refusal):
        return Refusal(f"the grid is not understood: {old_grid.reason}")
    kinds = {_operation(row), _operation(column)}
    if kinds == {"//", "%"}:
        if rows.program_axes != columns.program_axes or len(rows.program_axes) != 1:
            return Refusal("rows and columns do not come from one program id")
        axis = next(iter(rows.program_axes))
        if not _whole(row) or not _whole(column):
            return Refusal("the tiles are not a plain quotient and remainder of the program id")
    elif kinds == {"program_id"}:
        axes = sorted(rows.program_axes | columns.program_axes)
        if axes != [0, 1]:
            return Refusal("rows and columns are not axes 0 and 1 of the grid")
        reads = [atom for atom in analysis.program_ids if atom.program_axes <= {0, 1}]
        if len(reads) != 2:
            return Refusal("the program ids of rows and columns are used elsewhere too")
        axis = 0
        rest = old_grid[2:]
        both = f"cdiv({rows.bound}, {rows.name}) * cdiv({columns.bound}, {columns.name})"
        grid = (both, "1", *rest) if rest else (both,)
    else:
        return Refusal("the tiles are placed in a way that is not understood")
    names = {
        key: unique_name(key, taken)
        for key in ("tile", "tile_rows", "tiles_in_group", "first_row", "group_rows")
    }
    text = _GROUPED.format(
        axis=axis, rows=counts[0], columns=counts[1], GROUP=group, row=row.name, column=column.name,
        **names,
    )  # fmt: skip
    first, second = sorted((row, column), key=lambda index: index.order)
    edits = Edits()
    for statement in cst.parse_module(text).body:
        edits.insert_before(first.statement, cst.Module([statement]).code.strip("\n"))
    edits.remove |= {first.statement, second.statement}
    edits.replace[analysis.function.params] = _with_parameter(group)
    if _read_between(analysis.function, first, second):
        return Refusal(f"`{first.name}` is used before `{second.name}` is known")
    module = drop_dead_assignments(edits.apply(analysis.module), analysis.module)
    return Rewrite(
        module.code,
        notes=(f"tiles in groups of {group} rows",),
        metas={group: 4},
        grid=grid,
    )


_GROUPED = """\
{tile} = tl.program_id({axis})
{tile_rows} = {rows}
{tiles_in_group} = {GROUP} * {columns}
{first_row} = {tile} // {tiles_in_group} * {GROUP}
{group_rows} = min({tile_rows} - {first_row}, {GROUP})
{row} = {first_row} + {tile} % {tiles_in_group} % {group_rows}
{column} = {tile} % {tiles_in_group} // {group_rows}
"""


@dataclass(frozen=True, eq=False)
class _Index:
    """The variable that holds a tile's row or column, and the line that assigns it."""

    name: str
    value: Poly
    statement: cst.SimpleStatementLine
    order: int


def _program_index(analysis: Analysis, length: str) -> _Index | None:
    """The variable that every tile of this length starts at a multiple of."""
    starts = {
        quotient.source(): quotient
        for use in tile_uses(analysis)
        if use.length.source() == length and use.start.program_axes
        and (quotient := use.start.divided_by(use.length)) is not None
    }  # fmt: skip
    if len(starts) != 1:
        return None
    value = next(iter(starts.values()))
    atom = value.single
    if atom is None:
        return None
    for order, statement in enumerate(analysis.function.body.body):
        match statement:
            case cst.SimpleStatementLine(
                body=[cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=name))])]
            ):
                pass
            case _:
                continue
        later = _state_after(analysis, statement)
        held = later.get(name)
        if isinstance(held, Affine) and held.scalar == value:
            meaning = atom.arguments[0] if atom.operation == "=" else value
            return _Index(name, meaning, statement, order)
    return None


def _state_after(analysis: Analysis, statement: cst.BaseStatement) -> dict[str, Any]:
    body = list(analysis.function.body.body)
    place = body.index(statement)
    if place + 1 < len(body):
        return dict(analysis.states[body[place + 1]].values)
    return {}


def _operation(index: _Index) -> str:
    atom = index.value.single
    return "" if atom is None else atom.operation


def _whole(index: _Index) -> bool:
    """Whether it is the program id itself over, or modulo, a number of tiles."""
    atom = index.value.single
    if atom is None or len(atom.arguments) != 2:
        return False
    inner = atom.arguments[0].single
    while inner is not None and inner.operation == "=":
        inner = inner.arguments[0].single
    return inner is not None and inner.operation == "program_id"


def _read_between(function: cst.FunctionDef, first: _Index, second: _Index) -> bool:
    between = function.body.body[first.order + 1 : second.order]
    return any(m.findall(statement, m.Name(first.name)) for statement in between)


def _with_parameter(name: str) -> Callable[[cst.CSTNode], cst.CSTNode]:
    def replacement(node: cst.CSTNode) -> cst.CSTNode:
        parameters = cst.ensure_type(node, cst.Parameters)
        last = parameters.params[-1]
        new = cst.Param(
            name=cst.Name(name),
            annotation=cst.Annotation(cst.parse_expression("tl.constexpr")),
            comma=last.comma,
        )
        spaced = last.with_changes(comma=parameters.params[0].comma)
        return parameters.with_changes(params=[*parameters.params[:-1], spaced, new])

    return replacement
