"""Reader of TTGIR / TTIG in generic form -> `Ttgir`: layouts, and what they are meant to give.

`block_io` is an intent: native code may still hold no 2D block for it. Why an access has no
such intent, or why it may come to nothing, is read from the IR and said in one sentence.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Literal

from xesmith.evidence.encoding import (
    Encoding,
    contiguous_per_thread,
    conversion_slm_bytes,
    order,
    parse_encoding,
)
from xesmith.evidence.kernel_ir import (
    DOTS,
    Address,
    KernelIr,
    dot_batch,
    dot_shape,
    input_precision,
)
from xesmith.evidence.mlir import Operation, Value
from xesmith.evidence.record import Access, Dot, Dpas, LayoutConversion, Ttgir
from xesmith.evidence.values import ZERO, Slope
from xesmith.ghost.launch import Launch

Dialect = Literal["triton_intel_gpu", "ttig", "none"]

_INTEL: tuple[Dialect, ...] = ("triton_intel_gpu", "ttig")
_MODULE_PREFIXES = ("triton_intel_gpu.", "ttig.", "ttg.")
#: 2D block messages need a pitch that is a multiple of so many bytes
PITCH_BYTES = 16
_MAX_BYTES_PER_LANE = 16  # widest access of one lane: four dwords


def read_ttgir(text: str, launch: Launch, metadata: dict[str, Any]) -> Ttgir:
    """Reads one kernel's TTGIR, of an Intel GPU (either dialect spelling) or any other.

    Args:
        metadata: Triton's own, of which `shared` (bytes of shared local memory) is taken.

    Raises:
        UnreadableLevelError: not a kernel in generic form.
    """
    ir = KernelIr(text, launch)
    module = ir.module
    attributes = {
        name: module.attribute(name) or ""
        for name in module.attribute_names()
        if name.startswith(_MODULE_PREFIXES)
    }
    encodings = Counter(
        value.type.encoding
        for op in ir.operations
        for value in op.results
        if value.type.encoding is not None
    )
    parsed = [parse_encoding(text) for text in encodings]
    dialect = _dialect(attributes, parsed, ir)
    accesses = tuple(_access(ir, dialect, kind, op) for kind, op in ir.accesses())
    shared = metadata.get("shared")
    return Ttgir(
        dialect=dialect,
        num_warps=module.integer("ttg.num-warps") or 0,
        threads_per_warp=module.integer("ttg.threads-per-warp") or 0,
        target=attributes.get("ttg.target"),
        module_attributes=dict(sorted(attributes.items())),
        encodings=dict(sorted(encodings.items())),
        dpas=_dpas(parsed),
        dots=tuple(_dot(ir, dialect, op) for op in ir.operations if op.name in DOTS),
        accesses=accesses,
        prefetches=sum(access.op == "prefetch" for access in accesses),
        layout_conversions=tuple(_conversions(ir)),
        loops=ir.loops(),
        counts=ir.counts(),
        shared_bytes=shared if isinstance(shared, int) else None,
    )


def _dialect(attributes: dict[str, str], encodings: list[Encoding], ir: KernelIr) -> Dialect:
    for name in _INTEL:
        used = any(key.startswith(f"{name}.") for key in attributes)
        used = used or any(encoding.dialect == name for encoding in encodings)
        if used or any(op.name.startswith(f"{name}.") for op in ir.operations):
            return name
    return "none"


def _dpas(encodings: list[Encoding]) -> tuple[Dpas, ...]:
    found: dict[Dpas, None] = {}
    for encoding in encodings:
        current: Encoding | None = encoding
        while current is not None and not current.is_dpas:
            current = current.parent
        if current is not None:
            found[
                Dpas(
                    repeat_count=current.integer("repeatCount"),
                    systolic_depth=current.integer("systolicDepth"),
                    execution_size=current.integer("executionSize"),
                    ops_per_channel=current.integer("opsPerChan"),
                    warps_per_cta=current.integers("warpsPerCTA"),
                )
            ] = None
    return tuple(found)


def _encoding(value: Value) -> Encoding | None:
    return None if value.type.encoding is None else parse_encoding(value.type.encoding)


def _short(encoding: Encoding | None) -> str:
    return "unknown" if encoding is None else encoding.short


# dots


def _dot(ir: KernelIr, dialect: Dialect, op: Operation) -> Dot:
    m, n, k = dot_shape(op)
    encoding = _encoding(op.results[0]) if op.results else None
    on_dpas = encoding is not None and encoding.is_dpas
    return Dot(
        site=op.site,
        m=m,
        n=n,
        k=k,
        batch=dot_batch(op),
        a_type=op.operands[0].type.element,
        b_type=op.operands[1].type.element,
        acc_type=op.operands[2].type.element,
        input_precision=input_precision(op),
        loop=ir.loop_of(op),
        reached=ir.reached(op),
        encoding=None if encoding is None else encoding.short,
        on_dpas=None if dialect == "none" else on_dpas,
        why_not_dpas=None if on_dpas or dialect == "none" else _why_not_dpas(ir, op),
    )


def _dot_obstacle(op: Operation) -> str | None:
    """Why DPAS can't make this dot by its types and sizes alone."""
    a, b, acc = (operand.type.element for operand in op.operands[:3])
    _, n, k = dot_shape(op)
    if a != b and not (a.startswith("f8") and b.startswith("f8")):
        return f"its operands have different element types, {a} and {b}"
    if a == "f64":
        return "DPAS has no float64"
    if a == "f32" and input_precision(op) != "tf32":
        return (
            f"float32 operands with input_precision '{input_precision(op)}': "
            "DPAS takes float32 only as tf32"
        )
    if a in ("f16", "bf16") and acc not in ("f32", a):
        return f"DPAS has no {acc} accumulator for {a} operands"
    depth = {"f32": 8, "f16": 16, "bf16": 16, "i8": 32}.get(a)
    if depth is None and not a.startswith("f8"):
        return f"DPAS has no {a} operands"
    if depth is not None and k < depth:
        return f"its K is {k}; one DPAS of {a} takes {depth}"
    if n < 16:
        return f"its N is {n}; one DPAS makes 16 columns"
    return None


def _why_not_dpas(ir: KernelIr, op: Operation) -> str:
    # "support_dpas", later "support_subgroup_matrix_multiply_accumulate".
    marks = ("support_dpas", "matrix_multiply_accumulate")
    if not any(mark in name for name in ir.module.attribute_names() for mark in marks):
        return "the compiler takes this device for one without DPAS"
    if (obstacle := _dot_obstacle(op)) is not None:
        return obstacle
    for other in ir.operations:
        if other.name in DOTS and (obstacle := _dot_obstacle(other)) is not None:
            line = f" in line {other.site.line}" if other.site.line else ""
            return f"every dot of a kernel must qualify, and the one{line} does not: {obstacle}"
    layout = _short(_encoding(op.results[0]) if op.results else None)
    return f"the compiler kept layout {layout}; the IR tells no reason"


# accesses


def _access(ir: KernelIr, dialect: Dialect, kind: str, op: Operation) -> Access:
    address = ir.address(op)
    moved = op.operands[0].type
    encoding = _access_encoding(kind, op)
    block_io = next((value for name in _INTEL if (value := op.attribute(f"{name}.block_io"))), None)
    contiguity, bytes_per_access = _contiguity(ir, op, encoding)
    why_not: str | None = None
    doubt: str | None = None
    if dialect != "none":
        if block_io is None:
            why_not = _why_not_block_io(ir, kind, op, address, encoding)
        elif kind != "prefetch":
            doubt = _doubt(op, encoding)
    return Access(
        op="load" if kind == "load" else "store" if kind == "store" else "prefetch",
        kind=address.kind,
        site=op.site,
        shape=moved.shape,
        element_type=moved.element,
        element_bits=moved.element_bits,
        masked=ir.masked(op),
        mask_always_true=ir.mask_always_true(op, address),
        loop=ir.loop_of(op),
        reached=ir.reached(op),
        argument=address.argument,
        encoding=None if encoding is None else encoding.text,
        block_io=block_io,
        why_not_block_io=why_not,
        block_io_doubt=doubt,
        surface=ir.surface(address),
        contiguity=contiguity,
        bytes_per_access=bytes_per_access,
    )


def _access_encoding(kind: str, op: Operation) -> Encoding | None:
    """The layout of the tensor that is moved."""
    if kind == "load" and op.results and op.results[0].type.encoding is not None:
        return _encoding(op.results[0])
    if kind == "store":
        stored = next(
            (o for o in op.operands if o.type.kind == "tensor" and not o.type.is_pointer), None
        )
        if stored is not None:
            return _encoding(stored)
    return _encoding(op.operands[0])


def _contiguity(
    ir: KernelIr, op: Operation, encoding: Encoding | None
) -> tuple[int | None, int | None]:
    """Contiguous elements per thread of an access through pointers, and bytes at a time.

    The compiler chose the layout's vector by what it had proven of contiguity and alignment;
    where the address does not grow by one along that dimension there is no vector at all.
    """
    pointer = op.operands[0]
    rank = len(pointer.type.shape)
    if encoding is None or rank == 0 or pointer.type.kind != "tensor":
        return None, None
    vector = contiguous_per_thread(encoding, rank)
    if vector is None:
        return None, None
    slopes = ir.values.slopes(pointer)
    if slopes is None:
        return None, None
    contiguity = vector if slopes[order(encoding, rank)[0]].step == 1 else 1
    element_bytes = max(pointer.type.element_bits // 8, 1)
    return contiguity, min(contiguity * element_bytes, _MAX_BYTES_PER_LANE)


def _doubt(op: Operation, encoding: Encoding | None) -> str | None:
    """Why an access that is marked block_io may get no 2D block in native code."""
    rank = len(op.operands[0].type.shape)
    if rank > 2:
        return f"the block has {rank} dimensions; several compiler versions fall back there"
    if encoding is not None and not (encoding.is_dpas_operand or encoding.is_dpas):
        return (
            f"its layout is {encoding.short}, neither a DPAS operand nor a DPAS result: "
            "several compiler versions make 2D blocks for those only"
        )
    return None


def _why_not_block_io(
    ir: KernelIr, kind: str, op: Operation, address: Address, encoding: Encoding | None
) -> str | None:
    """From the IR, why the compiler did not mean a 2D block; None where nothing speaks against.

    Stores carry no mark of intent: a store through a block in a DPAS layout has no obstacle.
    """
    shape = op.operands[0].type.shape
    if len(shape) < 2:
        what = "one element" if not shape else "one dimension"
        return f"it moves {what}; a 2D block needs two dimensions"
    if address.kind == "pointer":
        return "; ".join(_pointer_obstacles(ir, op))
    obstacle = _surface_obstacle(ir, op, address)
    if obstacle is not None:
        return obstacle
    if len(shape) > 2:
        return f"the block has {len(shape)} dimensions; a 2D block has two"
    if kind == "store":
        if encoding is None or not encoding.is_dpas:
            return (
                f"the stored value has layout {encoding.short if encoding else 'unknown'}, not dpas"
            )
        return None
    return "the compiler gives no reason in the IR"


def _pointer_obstacles(ir: KernelIr, op: Operation) -> list[str]:
    """What keeps a tensor of pointers from being one rectangle in memory, most telling first."""
    pointer = op.operands[0]
    rank = len(pointer.type.shape)
    found: list[str] = []
    slopes = ir.values.slopes(pointer)
    if slopes is None:
        found.append("tensor of pointers whose addresses are not a plain sum of row and column")
    else:
        fastest = next((d for d in (rank - 1, rank - 2) if slopes[d].step == 1), None)
        if fastest is None:
            found.append(
                f"tensor of pointers: stride of the last dimension is "
                f"{_slope_text(ir, slopes[-1])}, not known to be 1"
            )
        else:
            pitch = _slope_text(ir, slopes[2 * rank - 3 - fastest], plain=True)
            lies = (
                f"with row stride {pitch}"
                if fastest == rank - 1
                else f"that lies transposed in memory, with column stride {pitch}"
            )
            found.append(f"tensor of pointers {lies}")
            found.append("nothing states width and pitch, as a block pointer would")
        found.extend(
            f"the offset along dimension {d} is taken modulo `{slope.modulo}`"
            for d, slope in enumerate(slopes)
            if slope.modulo is not None and slope != ZERO
        )
    if ir.masked(op):
        found.append("it is masked")
    if rank > 2:
        found.append(f"the tensor has {rank} dimensions")
    return found


def _slope_text(ir: KernelIr, slope: Slope, *, plain: bool = False) -> str:
    if isinstance(slope.step, int):
        return str(slope.step)
    if slope.step is None:
        return "that is no expression of the arguments"
    kind = "" if plain else "the argument " if slope.step in ir.names else "the expression "
    return f"{kind}`{slope.step}`"


def _surface_obstacle(ir: KernelIr, op: Operation, address: Address) -> str | None:
    """Strides that a 2D block can't have, by what the compiler knows at compile time."""
    surface = ir.surface(address)
    if surface is None:
        return "the operation that made the block pointer is not visible from here"
    rank = len(surface.strides)
    strides = surface.strides
    fastest = next((d for d in (rank - 1, rank - 2) if strides[d] == "1"), None)
    if fastest is None:
        stride = strides[-1]
        text = "not an expression of the arguments" if stride is None else f"`{stride}`"
        if stride in ir.names:
            text = f"the argument {text}"
        return f"stride of the last dimension is {text}, not known to be 1"
    dimension = 2 * rank - 3 - fastest
    pitch = strides[dimension]
    if pitch is None:
        return None
    element_bytes = op.operands[0].type.element_bits // 8
    needed = PITCH_BYTES // max(element_bytes, 1)
    if pitch.isdigit():
        if int(pitch) % needed:
            return f"the pitch is {int(pitch) * element_bytes} B, not a multiple of {PITCH_BYTES} B"
        return None
    if pitch in ir.names and not ir.divisible(pitch, needed):
        return (
            f"the pitch is the argument `{pitch}` times {element_bytes} B, "
            f"not known to be a multiple of {PITCH_BYTES} B"
        )
    return None


# conversions


def _conversions(ir: KernelIr) -> list[LayoutConversion]:
    found: list[LayoutConversion] = []
    for op in ir.operations:
        if op.name == "ttg.convert_layout":
            source, destination = _encoding(op.operands[0]), _encoding(op.results[0])
            if source is None or destination is None:
                continue
            moved = op.operands[0].type
            bits = 64 if moved.is_pointer else moved.element_bits
            found.append(
                LayoutConversion(
                    site=op.site,
                    source=source.text,
                    destination=destination.text,
                    shape=moved.shape,
                    element_bits=bits,
                    loop=ir.loop_of(op),
                    reached=ir.reached(op),
                    slm_bytes=conversion_slm_bytes(source, destination, moved.shape, bits),
                )
            )
        elif op.name == "ttg.local_alloc" and op.operands:
            source, staged = _encoding(op.operands[0]), op.results[0]
            loaded = _loaded_as(ir, staged)
            if source is None:
                continue
            moved = op.operands[0].type
            found.append(
                LayoutConversion(
                    site=op.site,
                    source=source.text,
                    destination=loaded.text if loaded else staged.type.encoding or "",
                    shape=moved.shape,
                    element_bits=moved.element_bits,
                    loop=ir.loop_of(op),
                    reached=ir.reached(op),
                    slm_bytes=moved.elements * moved.element_bits // 8,
                    op=op.name,
                )
            )
    return found


def _loaded_as(ir: KernelIr, memory: Value) -> Encoding | None:
    """The layout in which staged memory is first read back."""
    for op in ir.operations:
        if op.name == "ttg.local_load" and op.operands[0] is memory:
            return _encoding(op.results[0])
    return None
