"""The names that a stage's promises can speak of, each with unit, meaning and how it is read.

One table serves three readers: contracts.check (values), stage_contract (validation of
STAGE.md) and the documentation. A name is `<level>.<field>` or `native.main.<field>`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from xesmith.errors import UsageError, nearest
from xesmith.evidence.record import Access, Evidence, Native, NativeLoop

Level = Literal["program", "ttir", "ttgir", "spirv", "ptx", "native", "derived"]
Aggregate = Literal["sum", "max", "min", "share"]
Number = int | float


@dataclass(frozen=True)
class Name:
    """A value of one launch, and how the values of a program's launches become one.

    `read` answers None where the level was read but does not know the value; it is only
    called when the level was read. An aggregate "share" is the quotient of two sums: `read`
    gives the numerator and `over` the denominator.
    """

    level: Level
    aggregate: Aggregate
    meaning: str
    read: Callable[[Evidence], Number | None]
    over: Callable[[Evidence], Number | None] | None = None


def _programs(evidence: Evidence) -> int:
    """Work-groups that the launch starts, over all its repetitions."""
    x, y, z = evidence.launch["grid"]
    return x * y * z * _repeats(evidence)


def _repeats(evidence: Evidence) -> int:
    return evidence.launch.get("repeats", 1)


def _native(evidence: Evidence) -> Native:
    assert evidence.native is not None
    return evidence.native


def _main(field: str) -> Callable[[Evidence], Number]:
    """A count of the main loop; 0 in a kernel without a loop."""

    def read(evidence: Evidence) -> Number:
        loop: NativeLoop | None = _native(evidence).main
        return 0 if loop is None else getattr(loop, field)

    return read


def _of(level: str, field: str) -> Callable[[Evidence], Number | None]:
    return lambda evidence: getattr(getattr(evidence, level), field)


def _count(level: str, field: str) -> Callable[[Evidence], Number]:
    return lambda evidence: getattr(getattr(evidence, level).counts, field)


def _accesses(level: str, test: Callable[[Access], bool]) -> Callable[[Evidence], int]:
    return lambda evidence: sum(a.reached and test(a) for a in getattr(evidence, level).accesses)


def _scaled(*fields: str) -> Callable[[Evidence], Number | None]:
    """A per-program value of the TTIR times the number of programs."""

    def read(evidence: Evidence) -> Number | None:
        values = [getattr(evidence.ttir, field) for field in fields]
        return None if None in values else sum(values) * _programs(evidence)

    return read


def _min_bytes_per_load(evidence: Evidence) -> int | None:
    assert evidence.ttgir is not None
    loads = [a for a in evidence.ttgir.accesses if a.op == "load" and a.reached]
    widths = [a.bytes_per_access for a in loads]
    known = [width for width in widths if width is not None]
    return min(known) if known and len(known) == len(widths) else None


def _slm_conversions_in_loop(evidence: Evidence) -> int | None:
    assert evidence.ttgir is not None
    conversions = [c for c in evidence.ttgir.layout_conversions if c.loop is not None and c.reached]
    if any(c.slm_bytes is None for c in conversions):
        return None
    return sum(bool(c.slm_bytes) for c in conversions)


def _load_lines_2d(evidence: Evidence) -> int:
    lines = {s.site.line for s in _native(evidence).sends_2d if s.op == "load"}
    return len(lines)


def _occupancy(field: str) -> Callable[[Evidence], Number | None]:
    def read(evidence: Evidence) -> Number | None:
        assert evidence.derived is not None
        occupancy = evidence.derived.occupancy
        return None if occupancy is None else getattr(occupancy, field)

    return read


def _seconds(evidence: Evidence) -> float | None:
    assert evidence.derived is not None
    prediction = evidence.derived.prediction
    if prediction is None or prediction.seconds is None:
        return None
    return prediction.seconds * _repeats(evidence)


def _table() -> dict[str, Name]:
    names: dict[str, Name] = {
        "program.launches": Name("program", "sum", "kernel launches", _repeats),
        "program.work_groups": Name("program", "sum", "work-groups of all launches", _programs),
        "program.failed_launches": Name(
            "program",
            "sum",
            "launches that do not lower or cannot start",
            lambda e: int(bool(e.failure)),
        ),
        # The number of configurations is no fact of one launch: ProgramEvidence fills it in.
        "program.configurations": Name(
            "program",
            "sum",
            "configurations over all autotuned launches; 1 per plain launch",
            lambda e: 1,
        ),
        "ttir.dots": Name(
            "ttir",
            "sum",
            "dot operations",
            lambda e: sum(d.reached for d in e.ttir.dots) if e.ttir else None,
        ),
        "ttir.loops": Name(
            "ttir",
            "sum",
            "loops",
            lambda e: sum(x.reached for x in e.ttir.loops) if e.ttir else None,
        ),
        "ttir.loads": Name("ttir", "sum", "loads", _accesses("ttir", lambda a: a.op == "load")),
        "ttir.stores": Name("ttir", "sum", "stores", _accesses("ttir", lambda a: a.op == "store")),
        "ttir.pointer_loads": Name(
            "ttir",
            "sum",
            "loads from tensors of pointers",
            _accesses("ttir", lambda a: a.op == "load" and a.kind == "pointer"),
        ),
        "ttir.masked_accesses": Name(
            "ttir",
            "sum",
            "loads and stores with a mask or boundary check",
            _accesses("ttir", lambda a: a.masked),
        ),
        "ttir.flop": Name(
            "ttir", "sum", "floating-point operations of all programs", _scaled("flop_per_program")
        ),
        "ttir.bytes": Name(
            "ttir",
            "sum",
            "bytes that all programs load and store, caches not considered",
            _scaled("bytes_loaded_per_program", "bytes_stored_per_program"),
        ),
        "ttir.bytes_loaded": Name(
            "ttir", "sum", "bytes that all programs load", _scaled("bytes_loaded_per_program")
        ),
        "ttir.bytes_stored": Name(
            "ttir", "sum", "bytes that all programs store", _scaled("bytes_stored_per_program")
        ),
        "ttgir.dots": Name(
            "ttgir",
            "sum",
            "dot operations",
            lambda e: sum(d.reached for d in e.ttgir.dots) if e.ttgir else None,
        ),
        "ttgir.dots_on_dpas": Name(
            "ttgir",
            "sum",
            "dots whose result has a DPAS encoding",
            lambda e: sum(bool(d.on_dpas) and d.reached for d in e.ttgir.dots) if e.ttgir else None,
        ),
        "ttgir.loads_block_io": Name(
            "ttgir",
            "sum",
            "loads marked block_io: the intent",
            _accesses("ttgir", lambda a: a.op == "load" and a.block_io is not None),
        ),
        "ttgir.stores_block_io": Name(
            "ttgir",
            "sum",
            "stores marked block_io: the intent",
            _accesses("ttgir", lambda a: a.op == "store" and a.block_io is not None),
        ),
        "ttgir.layout_conversions": Name(
            "ttgir",
            "sum",
            "layout conversions",
            lambda e: sum(c.reached for c in e.ttgir.layout_conversions) if e.ttgir else None,
        ),
        "ttgir.layout_conversions_in_loop": Name(
            "ttgir",
            "sum",
            "layout conversions inside a loop",
            lambda e: (
                sum(c.loop is not None and c.reached for c in e.ttgir.layout_conversions)
                if e.ttgir
                else None
            ),
        ),
        "ttgir.slm_conversions_in_loop": Name(
            "ttgir",
            "sum",
            "layout conversions inside a loop that go through SLM",
            _slm_conversions_in_loop,
        ),
        "ttgir.prefetches": Name("ttgir", "sum", "prefetch operations", _of("ttgir", "prefetches")),
        "ttgir.shared_bytes": Name(
            "ttgir", "max", "SLM bytes per work-group", _of("ttgir", "shared_bytes")
        ),
        "ttgir.num_warps": Name(
            "ttgir", "max", "sub-groups per work-group", _of("ttgir", "num_warps")
        ),
        "ttgir.min_bytes_per_load": Name(
            "ttgir", "min", "bytes per lane of the narrowest load", _min_bytes_per_load
        ),
        "native.grf_count": Name(
            "native", "max", "registers per hardware thread", _of("native", "grf_count")
        ),
        "native.spill_bytes_per_thread": Name(
            "native",
            "max",
            "spill bytes per hardware thread",
            _of("native", "spill_bytes_per_thread"),
        ),
        "native.spill_bytes_per_lane": Name(
            "native", "max", "spill bytes per lane", _of("native", "spill_bytes_per_lane")
        ),
        "native.slm_bytes": Name(
            "native", "max", "SLM bytes per work-group", _of("native", "slm_bytes")
        ),
        "native.load_lines_2d": Name(
            "native", "sum", "source lines that have a native 2D block load", _load_lines_2d
        ),
        "native.dpas_share": Name(
            "native",
            "share",
            "dpas per instruction of the whole kernel",
            lambda e: _native(e).dpas,
            lambda e: _native(e).instructions,
        ),
        "native.main.dpas_share": Name(
            "native",
            "share",
            "dpas per instruction of the main loops",
            _main("dpas"),
            _main("instructions"),
        ),
        "derived.seconds": Name("derived", "sum", "predicted seconds of all launches", _seconds),
        "derived.occupancy": Name(
            "derived",
            "min",
            "fraction of the hardware threads that can hold work",
            _occupancy("fraction"),
        ),
        "derived.threads_per_xve": Name(
            "derived",
            "min",
            "hardware threads per XVE that can hold work",
            _occupancy("threads_per_xve"),
        ),
    }
    for field in (
        "f64_operations",
        "i64_operations",
        "i64_address_operations",
        "atomics",
        "reductions",
    ):
        meaning = field.replace("_", " ")
        names[f"ttir.{field}"] = Name("ttir", "sum", meaning, _count("ttir", field))
    for field in (
        "loads_2d",
        "stores_2d",
        "prefetches_2d",
        "dpas_calls",
        "barriers",
        "atomics",
        "f64_operations",
        "i64_operations",
    ):
        names[f"spirv.{field}"] = Name(
            "spirv", "sum", f"{field} in the SPIR-V", _of("spirv", field)
        )
    for field in (
        "instructions",
        "dpas",
        "loads_2d",
        "stores_2d",
        "prefetches_2d",
        "global_loads",
        "global_stores",
        "atomics",
        "slm_messages",
        "scratch_messages",
        "f64_instructions",
        "int64_instructions",
    ):
        names[f"native.{field}"] = Name(
            "native", "sum", f"{field} in the native code, static", _of("native", field)
        )
    for field in (
        "instructions",
        "dpas",
        "loads_2d",
        "stores_2d",
        "prefetches_2d",
        "global_loads",
        "global_stores",
        "slm_messages",
        "scratch_messages",
        "barriers",
        "send_messages",
    ):
        names[f"native.main.{field}"] = Name(
            "native", "sum", f"{field} per iteration of the main loops", _main(field)
        )
    for field in (
        "instructions",
        "matrix_instructions",
        "async_copies",
        "bulk_copies",
        "shared_messages",
        "barriers",
        "atomics",
        "f64_instructions",
        "int64_instructions",
    ):
        names[f"ptx.{field}"] = Name("ptx", "sum", f"{field} in the PTX, static", _of("ptx", field))
    names["ptx.bytes_per_load"] = Name(
        "ptx", "min", "mean bytes per thread of a global load", _of("ptx", "bytes_per_load")
    )
    return dict(sorted(names.items()))


#: all names; `before.` or `after.` stands in front in an expression
NAMES: dict[str, Name] = _table()

FUNCTIONS: dict[str, Callable[..., Any]] = {"min": min, "max": max, "abs": abs}

_ALLOWED = (
    ast.Expression, ast.BoolOp, ast.And, ast.Or, ast.Compare, ast.BinOp, ast.UnaryOp, ast.Constant,
    ast.Attribute, ast.Name, ast.Load, ast.Call, ast.Add, ast.Sub, ast.Mult, ast.Div, ast.USub,
    ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq,
)  # fmt: skip


def parse_promise(text: str, where: str | None = None) -> ast.expr:
    """The checked syntax tree of a promise such as "after.native.dpas >= before.native.dpas".

    Raises:
        UsageError: not an expression, a construct outside arithmetic, comparison, and/or,
            min/max/abs, or an unknown name (the nearest is offered).
    """
    try:
        tree = ast.parse(text, mode="eval")
    except SyntaxError as error:
        raise UsageError(
            f"the promise '{text}' is no expression: {error.msg}", where=where
        ) from error
    for node in ast.walk(tree):
        if not isinstance(node, _ALLOWED):
            raise UsageError(
                f"the promise '{text}' uses {type(node).__name__}",
                where=where,
                remedy="use comparisons, + - * /, and, or, min, max, abs over before.* and after.*",
            )
        if isinstance(node, ast.Constant) and not isinstance(node.value, int | float):
            raise UsageError(f"the promise '{text}' uses a text or none", where=where)
        if isinstance(node, ast.Call) and not (
            isinstance(node.func, ast.Name) and node.func.id in FUNCTIONS and not node.keywords
        ):
            raise UsageError(
                f"the promise '{text}' calls {ast.unparse(node.func)}",
                where=where,
                remedy=nearest(ast.unparse(node.func), FUNCTIONS),
            )
    called = {id(n.func) for n in ast.walk(tree) if isinstance(n, ast.Call)}
    _check_names(tree.body, text, where, called)
    if not isinstance(tree.body, ast.Compare | ast.BoolOp):
        raise UsageError(
            f"the promise '{text}' is no condition", where=where, remedy="compare two values"
        )
    return tree.body


def _check_names(node: ast.AST, text: str, where: str | None, called: set[int]) -> None:
    dotted = dotted_name(node)
    if dotted is None:
        for child in ast.iter_child_nodes(node):
            _check_names(child, text, where, called)
        return
    if id(node) in called:
        return
    side, _, name = dotted.partition(".")
    if side not in ("before", "after") or name not in NAMES:
        known = [f"{s}.{n}" for s in ("before", "after") for n in NAMES]
        guess = nearest(dotted if side in ("before", "after") else f"after.{dotted}", known)
        raise UsageError(
            f"unknown name '{dotted}' in the promise '{text}'",
            where=where,
            remedy=guess.partition(" known:")[0]
            + " (the names are listed in llm_stages/README.md)",
        )


def dotted_name(node: ast.AST) -> str | None:
    """ "after.native.dpas" for that chain of attributes; None for any other node."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        base = dotted_name(node.value)
        return None if base is None else f"{base}.{node.attr}"
    return None
