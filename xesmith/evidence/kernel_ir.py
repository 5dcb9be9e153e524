"""What TTIR and TTGIR have in common: one kernel's loops, dots, accesses and counts.

`KernelIr` finds them; `ttir` and `ttgir` add what only their level tells.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from xesmith.evidence.mlir import Block, Operation, Value, parse_module
from xesmith.evidence.record import AccessKind, IrCounts, Loop, Site, Surface
from xesmith.evidence.unreadable import UnreadableLevelError
from xesmith.evidence.values import Integers, Range, Values
from xesmith.ghost.launch import Launch, TensorArg

Floats = npt.NDArray[np.float64]

DOTS = frozenset({"tt.dot", "tt.dot_scaled", "ttng.warp_group_dot", "ttng.tc_gen5_mma"})
LOOPS = frozenset({"scf.for", "scf.while"})
_DESCRIPTOR_LOADS = frozenset(
    {
        "tt.descriptor_load",
        "tt.experimental_descriptor_load",
        "ttng.async_tma_copy_global_to_local",
    }
)
_DESCRIPTOR_STORES = frozenset(
    {
        "tt.descriptor_store",
        "tt.experimental_descriptor_store",
        "ttng.async_tma_copy_local_to_global",
    }
)
LOADS = frozenset({"tt.load", "ttg.async_copy_global_to_local"}) | _DESCRIPTOR_LOADS
STORES = frozenset({"tt.store"}) | _DESCRIPTOR_STORES
PREFETCHES = frozenset(
    {"triton_intel_gpu.prefetch", "ttig.prefetch", "ttig.descriptor_prefetch"}
)  # fmt: skip
_SAME_BLOCK = frozenset({"ttg.convert_layout", "builtin.unrealized_conversion_cast"})
_BLOCK_MAKERS = frozenset(
    {
        "tt.make_tensor_ptr",
        "tt.make_tensor_descriptor",
        "tt.experimental_make_tensor_descriptor",
    }
)
REDUCTIONS = frozenset({"tt.reduce", "tt.scan"})

_INTEGER_ARITHMETIC = frozenset(
    f"arith.{name}"
    for name in (
        "addi", "subi", "muli", "divsi", "divui", "remsi", "remui", "minsi", "minui", "maxsi",
        "maxui", "andi", "ori", "xori", "shli", "shrsi", "shrui", "cmpi", "ceildivsi",
        "floordivsi", "mulsi_extended", "mului_extended", "addui_extended",
    )
)  # fmt: skip
FLOAT_ARITHMETIC = frozenset(
    f"arith.{name}"
    for name in (
        "addf", "subf", "mulf", "divf", "remf", "negf", "maxnumf", "minnumf", "maximumf",
        "minimumf",
    )
)  # fmt: skip
_MATH = re.compile(r"^(?:math\.|tt\.precise_)(\w+)$")
_INPUT_PRECISIONS = {0: "tf32", 1: "tf32x3", 2: "ieee", 3: "bf16x3", 4: "bf16x6"}


@dataclass(frozen=True)
class Address:
    """Where an access goes: `offsets` and `surface` are known for blocks only."""

    kind: AccessKind
    argument: str | None
    maker: Operation | None  # make_tensor_ptr or make_tensor_descriptor
    offsets: tuple[Range | None, ...]


class KernelIr:
    """One kernel's function at one level, with the launch that was captured."""

    def __init__(self, text: str, launch: Launch) -> None:
        """
        Raises:
            UnreadableLevelError: not MLIR in generic form, or without a kernel function.
        """
        self.module = parse_module(text)
        self.function = _kernel_function(self.module, launch.kernel)
        self.names = _argument_names(self.function, launch)
        self.launch = launch
        numbers = {
            name: launch.values.get(name, launch.constexprs.get(name)) for name in self.names
        }
        self.values = Values(self.function, self.names, numbers, launch.grid)
        self._promises = _divisibilities(self.function)
        self.operations = list(self.function.walk())[1:]
        self.loop_operations = [op for op in self.operations if op.name in LOOPS]
        self._loop_index = {id(op): i for i, op in enumerate(self.loop_operations)}

    def divisible(self, argument: str, by: int) -> bool:
        """Whether the function promises that an argument is a multiple of `by`."""
        index = self.names.index(argument)
        promises = self._promises[index] if index < len(self._promises) else 1
        return promises % by == 0

    # loops

    def loop_of(self, op: Operation) -> int | None:
        """The innermost loop around an operation, as an index into `loops`."""
        around = op.parent
        while around is not None:
            if (index := self._loop_index.get(id(around))) is not None:
                return index
            around = around.parent
        return None

    def loops(self) -> tuple[Loop, ...]:
        return tuple(self._loop(i, op) for i, op in enumerate(self.loop_operations))

    def _loop(self, index: int, op: Operation) -> Loop:
        trips = self.values.trips(op)
        return Loop(
            index=index,
            site=op.site,
            parent=self.loop_of(op),
            trip_count=None if trips is None else trips.constant,
            trip_expression=self._trip_expression(op),
            reached=self.reached(op),
            trip_mean=None if trips is None else float(np.mean((trips.low + trips.high) / 2)),
        )

    def _trip_expression(self, op: Operation) -> str | None:
        if op.name != "scf.for":
            return None
        low, high, step = (self.values.text(operand) for operand in op.operands[:3])
        if low is None or high is None or step is None:
            return None
        span = high if low == "0" else f"{high} - {low}" if low.isalnum() else f"{high} - ({low})"
        return span if step == "1" else f"cdiv({span}, {step})"

    def trips_around(self, op: Operation) -> Floats | None:
        """How often an operation runs, per program: the product of the loops around it.

        Where only bounds of a count are known, their middle stands for it. A branch counts as
        taken unless the captured values prove that it is not. None where a loop's count is
        unknown.
        """
        product = self._taken(op).astype(np.float64)
        if not product.any():
            return product
        index = self.loop_of(op)
        while index is not None:
            trips = self.values.trips(self.loop_operations[index])
            if trips is None:
                return None
            product = product * ((trips.low + trips.high) / 2)
            index = self.loop_of(self.loop_operations[index])
        return product

    def iterations(self, loop: Operation) -> Floats | None:
        """How often a loop's body runs, per program, counted as in `trips_around`."""
        around = self.trips_around(loop)
        if around is None or not around.any():
            return around
        trips = self.values.trips(loop)
        return None if trips is None else around * ((trips.low + trips.high) / 2)

    def _taken(self, op: Operation) -> Integers:
        """Per program 0 where a condition around `op` is proven to go the other way, else 1."""
        taken = np.ones(1, dtype=np.int64)
        inner, around = op, op.parent
        while around is not None:
            if around.name == "scf.if":
                condition = self.values.range(around.operands[0])
                if condition is not None:
                    is_else = len(around.regions) > 1 and _holds(around.regions[1], inner)
                    taken = taken * ((1 - condition.low) if is_else else condition.high)
            inner, around = around, around.parent
        return taken

    def reached(self, op: Operation) -> bool:
        """False where no program of the captured launch runs the operation.

        The compiler itself makes such branches: a loop with masks, and one without them for
        sizes that its blocks divide.
        """
        return bool(self._taken(op).any())

    def trip_text_around(self, op: Operation) -> str:
        """The product of the trip counts around an operation as an expression; "" for none.

        A loop whose count is no expression in the arguments stands as `trips<index>`.
        """
        factors: list[str] = []
        index = self.loop_of(op)
        while index is not None:
            loop = self.loop_operations[index]
            text = self._trip_expression(loop) or f"trips{index}"
            factors.insert(0, text if re.fullmatch(r"\w+|\w+\(.*\)", text) else f"({text})")
            index = self.loop_of(loop)
        return " * ".join(factors)

    # accesses

    def accesses(self) -> Iterator[tuple[str, Operation]]:
        """("load" | "store" | "prefetch", operation) in textual order."""
        for op in self.operations:
            if op.name in LOADS:
                yield "load", op
            elif op.name in STORES:
                yield "store", op
            elif op.name in PREFETCHES:
                yield "prefetch", op

    def address(self, op: Operation) -> Address:
        pointer = op.operands[0]
        argument = self.values.base_argument(pointer)
        if pointer.type.kind == "descriptor":
            maker, _ = self._block(pointer)
            offsets = tuple(
                self.values.range(operand)
                for operand in op.operands[1:]
                if not operand.type.shape and not operand.type.is_pointer
            )
            return Address("descriptor", argument, maker, offsets)
        if pointer.type.kind == "block_pointer":
            maker, block_offsets = self._block(pointer)
            return Address("block_pointer", argument, maker, block_offsets)
        return Address("pointer", argument, None, ())

    def _block(self, pointer: Value) -> tuple[Operation | None, tuple[Range | None, ...]]:
        """The operation that made a block pointer, and its offsets (in elements) here."""
        rank = len(pointer.type.shape)
        unknown: tuple[Range | None, ...] = (None,) * rank
        moved: list[Range | None] = [Range(np.zeros(1, np.int64), np.zeros(1, np.int64))] * rank
        current: Value | None = pointer
        seen: set[Value] = set()
        while current is not None and current not in seen:
            seen.add(current)
            owner = current.owner
            if owner is not None and owner.name in _BLOCK_MAKERS:
                if owner.name != "tt.make_tensor_ptr":
                    return owner, unknown
                starts = [self.values.range(o) for o in owner.operands[1 + 2 * rank :]]
                return owner, tuple(_plus(a, b) for a, b in zip(starts, moved, strict=True))
            if owner is not None and owner.name == "tt.advance":
                steps = [self.values.range(operand) for operand in owner.operands[1:]]
                moved = [_plus(a, b) for a, b in zip(moved, steps, strict=True)]
                current = owner.operands[0]
                continue
            if owner is None:
                moved = self._moved_by_loop(current, moved)
            elif owner.name in LOOPS or owner.name not in _SAME_BLOCK:
                moved = [None] * rank  # how far it has moved by then is not followed
            current = self.values.pointer_source(current)
        return None, unknown

    def _moved_by_loop(self, carried: Value, moved: list[Range | None]) -> list[Range | None]:
        """Adds what all earlier iterations advanced a loop-carried block pointer by."""
        loop = carried.block_of
        unknown: list[Range | None] = [None] * len(moved)
        if loop is None or loop.name != "scf.for" or carried.index == 0:
            return unknown
        trips = self.values.trips(loop)
        current = loop.regions[0][0].operations[-1].operands[carried.index - 1]
        steps: list[Range | None] = [Range(np.zeros(1, np.int64), np.zeros(1, np.int64))]
        steps = steps * len(moved)
        while current is not carried:
            owner = current.owner
            if owner is None or owner.name != "tt.advance" or trips is None:
                return unknown
            ranges = [self.values.range(operand) for operand in owner.operands[1:]]
            steps = [_plus(a, b) for a, b in zip(steps, ranges, strict=True)]
            current = owner.operands[0]
        if trips is None:
            return unknown
        most = np.maximum(trips.high - 1, 0)
        return [_plus(a, _times(most, b)) for a, b in zip(moved, steps, strict=True)]

    def surface(self, address: Address) -> Surface | None:
        """The memory that a block pointer or descriptor states: sizes and strides."""
        maker = address.maker
        if maker is None:
            return None
        sizes, strides = _parts(maker)
        tensor = self.launch.values.get(address.argument or "")
        pointer_alignment = (
            tensor.pointer_alignment_bytes if isinstance(tensor, TensorArg) else None
        )
        base = maker.operands[0]
        return Surface(
            shape=tuple(self.values.text(v) for v in sizes),
            strides=tuple(self.values.text(v) for v in strides),
            shape_values=tuple(self.values.number(v) for v in sizes),
            stride_values=tuple(self.values.number(v) for v in strides),
            order=maker.integers("order"),
            base_alignment_bytes=self._base_alignment(base, pointer_alignment),
            base_moved=base.owner is not None,
        )

    def _base_alignment(self, base: Value, argument_alignment: int | None) -> int | None:
        """The largest power of two (in bytes) that divides the base in every program.

        None where the offset from the argument is not known for each program.
        """
        if argument_alignment is None:
            return None
        offset_bytes = np.zeros(1, np.int64)
        current = base
        while (owner := current.owner) is not None:
            moved = self.values.range(owner.operands[1]) if owner.name == "tt.addptr" else None
            if moved is None or not moved.exact:
                return None
            offset_bytes = offset_bytes + moved.low * (current.type.element_bits // 8)
            current = owner.operands[0]
        if self.values.argument(current) is None:
            return None
        divisor = int(np.gcd.reduce(offset_bytes))
        return argument_alignment if divisor == 0 else min(argument_alignment, divisor & -divisor)

    def mask_of(self, op: Operation) -> Value | None:
        """The mask operand of a load or store through pointers."""
        if op.operands[0].type.kind in ("block_pointer", "descriptor"):
            return None
        # A store's value may itself be a predicate: the mask is what comes after it.
        candidates = op.operands[2 if op.name in STORES else 1 :]
        return next(
            (v for v in candidates if v.type.element == "i1" and v.type.kind != "memory"), None
        )

    def masked(self, op: Operation) -> bool:
        kind = op.operands[0].type.kind
        if kind == "block_pointer":
            return bool(op.integers("boundaryCheck"))
        # Descriptors always check their bounds.
        return kind == "descriptor" or self.mask_of(op) is not None

    def mask_always_true(self, op: Operation, address: Address) -> bool | None:
        """Whether the launch's own values prove the mask (or boundary check) needless.

        False where some program has no element inside; None where neither is proven.
        """
        if address.kind == "descriptor" or not self.masked(op):
            return None
        if address.kind == "pointer":
            mask = self.mask_of(op)
            found = None if mask is None else self.values.range(mask)
            if found is None:
                return None
            if bool((found.low > 0).all()):
                return True
            return False if bool((found.high == 0).any()) else None
        if address.maker is None:
            return None
        sizes, _ = _parts(address.maker)
        shape = op.operands[0].type.shape
        for dim in op.integers("boundaryCheck"):
            offset, size = address.offsets[dim], self.values.range(sizes[dim])
            if offset is None or size is None:
                return None
            if bool((offset.low < 0).any()):
                return None
            if bool((offset.high + shape[dim] > size.low).any()):
                return None
        return True

    # counts

    def counts(self) -> IrCounts:
        feeding = self._feeding_addresses()
        math: Counter[str] = Counter()
        f64 = i64 = i64_address = atomics = barriers = reductions = 0
        for op in self.operations:
            f64 += works_on_f64(op)
            if works_on_i64(op):
                i64 += 1
                i64_address += any(result in feeding for result in op.results)
            atomics += "atomic" in op.name
            barriers += "barrier" in op.name
            reductions += op.name in REDUCTIONS
            if (name := math_name(op)) is not None:
                math[name] += 1
        return IrCounts(
            f64_operations=f64,
            i64_operations=i64,
            i64_address_operations=i64_address,
            atomics=atomics,
            barriers=barriers,
            reductions=reductions,
            math=dict(sorted(math.items())),
        )

    def f64_sites(self) -> tuple[Site, ...]:
        return _distinct(op.site for op in self.operations if works_on_f64(op))

    def i64_address_sites(self) -> tuple[Site, ...]:
        feeding = self._feeding_addresses()
        return _distinct(
            op.site
            for op in self.operations
            if works_on_i64(op) and any(result in feeding for result in op.results)
        )

    def _feeding_addresses(self) -> set[Value]:
        """Values from which an address is computed: offsets of pointers and of blocks."""
        waiting: list[Value] = []
        for op in self.operations:
            if op.name == "tt.addptr":
                waiting.append(op.operands[1])
            elif (
                op.name == "tt.make_tensor_ptr"
                or "make_tensor_descriptor" in op.name
                or op.name == "tt.advance"
            ):
                waiting.extend(op.operands[1:])
        found: set[Value] = set()
        while waiting:
            value = waiting.pop()
            if value in found or value.type.is_float:
                continue
            found.add(value)
            if value.owner is not None and not value.owner.regions:
                waiting.extend(value.owner.operands)
        return found


def _holds(region: list[Block], op: Operation) -> bool:
    return any(op is inner for block in region for inner in block.operations)


def _plus(first: Range | None, second: Range | None) -> Range | None:
    if first is None or second is None:
        return None
    return Range(first.low + second.low, first.high + second.high)


def _times(most: Integers, step: Range | None) -> Range | None:
    """What 0 to `most` steps add."""
    if step is None:
        return None
    ends = (most * step.low, most * step.high, np.zeros_like(most))
    return Range(np.minimum.reduce(ends), np.maximum.reduce(ends))


def _parts(maker: Operation) -> tuple[list[Value], list[Value]]:
    """Sizes and strides that a block pointer or descriptor was made with."""
    rank = len(maker.results[0].type.shape)
    return maker.operands[1 : 1 + rank], maker.operands[1 + rank : 1 + 2 * rank]


def _kernel_function(module: Operation, kernel: str) -> Operation:
    functions = [op for op in module.body() if op.name == "tt.func"]
    for function in functions:
        name = function.attribute("sym_name") or ""
        if name == kernel or name.startswith(f"{kernel}__") or len(functions) == 1:
            return function
    raise UnreadableLevelError(f"no function of the kernel '{kernel}' in the module")


def _argument_names(function: Operation, launch: Launch) -> list[str]:
    """By the launch's signature; by name locations, else arg0.., where it does not fit."""
    arguments = function.regions[0][0].arguments
    names = [name for name, kind in launch.signature.items() if kind != "constexpr"]
    if len(names) == len(arguments):
        return names
    return [value.name_hint or f"arg{i}" for i, value in enumerate(arguments)]


def _divisibilities(function: Operation) -> list[int]:
    """`tt.divisibility` of each argument; 1 where none is promised."""
    text = function.attribute("arg_attrs") or ""
    found: list[int] = []
    for entry in re.findall(r"\{([^{}]*)\}", text):
        match = re.search(r"tt\.divisibility = (\d+)", entry)
        found.append(int(match.group(1)) if match else 1)
    return found


def works_on_f64(op: Operation) -> bool:
    """Arithmetic or a conversion with a float64 operand or result; constants do not count."""
    if op.name in ("arith.constant", "scf.yield") or op.regions:
        return False
    if not op.name.startswith(("arith.", "math.", "tt.dot", "tt.precise_", "tt.extern_")):
        return False
    return any(
        v.type.element == "f64" and not v.type.is_pointer for v in (*op.operands, *op.results)
    )


def works_on_i64(op: Operation) -> bool:
    return op.name in _INTEGER_ARITHMETIC and any(
        operand.type.element == "i64" for operand in op.operands
    )


def math_name(op: Operation) -> str | None:
    """ "exp2" of `math.exp2`; the library's symbol of an external call."""
    match = _MATH.match(op.name)
    if match is not None:
        return match.group(1)
    if op.name == "tt.extern_elementwise":
        return op.attribute("symbol") or "extern"
    return None


def input_precision(op: Operation) -> str:
    number = op.integer("inputPrecision")
    return "none" if number is None else _INPUT_PRECISIONS.get(number, str(number))


def dot_shape(op: Operation) -> tuple[int, int, int]:
    """m, n, k of one dot; a batch dimension in front is not among them."""
    a, b = op.operands[0].type.shape, op.operands[1].type.shape
    return a[-2], b[-1], a[-1]


def dot_batch(op: Operation) -> int:
    shape = op.operands[0].type.shape
    return shape[0] if len(shape) == 3 else 1


def _distinct(sites: Iterable[Site]) -> tuple[Site, ...]:
    """One site a line, in order."""
    found = {(site.file, site.line): site for site in sites if site.line is not None}
    return tuple(sorted(found.values(), key=lambda site: (site.file or "", site.line or 0)))
