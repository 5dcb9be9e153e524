"""Reader of native code: `.ze_info` and IGC's annotated assembly -> `Native`.

All counts are static instructions of one hardware thread's program. A send is one message,
whatever it moves. Loops are found as a label and a backward jump to it, never by name.
Triton calls built-ins (dpas, 2D blocks) without a source line; IGC prints nothing then, so
such an instruction counts on the line that was stated before it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, cast

import yaml

from xesmith.errors import UnreadableLevelError
from xesmith.evidence.record import Native, NativeLoop, Send2D, Site

_YAML_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

#: bytes of one general register on every Xe-HPC and Xe2 device
GRF_BYTES = 64

#: where the block's shape stands in the address payload of a 2D message
_SHAPE_BYTE = 28

_BRANCHES = frozenset({"jmpi", "goto", "while", "brd", "brc", "break", "cont", "call"})
_SEND_PREFIXES = ("load", "store", "atomic", "send", "read", "write")
_REGISTER = re.compile(r"^r(\d+)\.(\d+)<(\d)>:([a-z]+)$")
_SOURCE = re.compile(r"^r(\d+)\.(\d+)<(\d)")
_DESTINATION = re.compile(r"^r(\d+)(?::|$)")
_WRITTEN = re.compile(r"^r(\d+)(?::(\d+))?$")
_READ_LENGTH = re.compile(r"rd:(\d+)( B)?")
#: what no message exceeds, for one that states no length
_MOST_REGISTERS = 32
_PAYLOAD = re.compile(r"^\[r(\d+):\d")
#: a row of IGC's table of inputs: the register of an argument, and its place in the payload
_INPUT = re.compile(r"\| r(\d+)(?:\+0x([0-9A-Fa-f]+))? +\| (?:inline|cti)\+0x([0-9A-Fa-f]+) ")
_TYPE_BYTES = {"q": 8, "uq": 8, "df": 8, "w": 2, "uw": 2, "hf": 2, "bf": 2, "b": 1, "ub": 1}
_BLOCK_TYPE = re.compile(r"^d(\d+)([tv]?)$")


class Instruction(NamedTuple):
    """One line of assembly.

    `kind` says what it counts as: "alu", "dpas", a send's kind ("load_2d", "store_2d",
    "prefetch_2d", "global_load", "global_store", "atomic", "slm", "slm_atomic",
    "scratch", "barrier", "other_send").
    """

    opcode: str  # with its suffixes; of sends the message: "load_block2d.ugm.d16v.a64"
    base: str  # the instruction before its first dot: "load_block2d", "send", "mov"
    kind: str
    operands: tuple[str, ...]
    execution_size: int
    registers_written: int  # by a send or a dpas, as a whole; 0 for ALU instructions
    pipe: str | None
    is_f64: bool
    is_int64: bool
    file: str | None
    line: int | None

    @property
    def is_2d(self) -> bool:
        return self.kind in ("load_2d", "store_2d", "prefetch_2d")


def _decoded(comment: str) -> str:
    """The message in IGC's comment behind a raw send: `wr:1+0, rd:4; load.ugm.d32x64t.a32 //`."""
    text = comment.strip()
    if text.startswith(("wr:", "rd:")):
        text = text.partition(";")[2].strip()
    return text.partition(" ")[0]


def _kind(message: str, prefetch: bool, operands: Sequence[str], comment: str) -> str:
    """What a send counts as.

    Args:
        message: mnemonic of the message with its suffixes.
        prefetch: it has no destination.
    """
    base = message.partition(".")[0]
    if "signal barrier" in comment:
        return "barrier"
    if base.startswith("atomic"):
        return "slm_atomic" if ".slm" in message else "atomic"
    if ".slm" in message:
        return "slm"  # fences too: they wait for the messages before them
    if any(operand.startswith("ss[") for operand in operands) or ".ss[" in message:
        return "scratch"  # the thread's scratch surface: a spill or a fill
    if "spill" in comment or "fill from" in comment or "scratch space" in comment:
        return "scratch"
    if base == "load_block2d":
        return "prefetch_2d" if prefetch else "load_2d"  # it only fills the cache
    if base == "store_block2d":
        return "store_2d"
    # Surface 255 holds the kernel's arguments.
    if ".ugm" in message and not any("bti[255]" in text for text in (message, *operands)):
        if base.startswith(("load", "read")):
            return "global_load"
        if base.startswith(("store", "write")):
            return "global_store"
    return "other_send"


@dataclass
class Assembly:
    """A parsed `.asm`: instructions in order, labels by the index they stand before."""

    kernel: str | None = None
    #: index of the first instruction behind IGC's prologue, which loads the arguments
    main: int = 0
    instructions: list[Instruction] = field(default_factory=lambda: [])
    labels: dict[str, int] = field(default_factory=lambda: {})
    #: (register, byte) -> byte in the kernel's argument payload, after the prologue
    inputs: dict[tuple[int, int], int] = field(default_factory=lambda: {})
    grf_count: int | None = None
    register_allocator: str | None = None
    bank_conflicts: int | None = None
    spill_bytes: int | None = None


def parse_assembly(text: str) -> Assembly:
    """IGC's annotated assembly (also plain `ocloc disasm` text, which has no source lines).

    Raises:
        UnreadableLevelError: no instruction is in it.
    """
    assembly = Assembly()
    file: str | None = None
    line: int | None = None
    for raw in text.splitlines():
        if raw.startswith(("// _main:", "_main:")):
            assembly.main = len(assembly.instructions)
        if raw.startswith("//"):
            if raw.startswith("//.declare"):
                continue
            if raw.startswith("// Line "):
                number = raw[8 : raw.find(":", 8)]
                line = int(number) if number.isdigit() else None
            elif raw.startswith("// File: "):
                file, line = raw[9:].strip(), None
            else:
                _read_header(assembly, raw)
            continue
        code, _, comment = raw.partition("//")
        code = code.strip()
        if not code:
            continue
        if code.endswith(":") and " " not in code:
            assembly.labels[code[:-1]] = len(assembly.instructions)
            continue
        assembly.instructions.append(_instruction(code, comment, file, line))
    for index in range(assembly.main):
        item = assembly.instructions[index]
        if item.kind == "global_load":
            assembly.instructions[index] = item._replace(kind="other_send")
    if not assembly.instructions:
        raise UnreadableLevelError(
            "the assembly holds no instruction", remedy="look at the native compiler's log"
        )
    return assembly


def _read_header(assembly: Assembly, raw: str) -> None:
    if raw.startswith("// | "):
        if (match := _INPUT.search(raw)) is not None:
            place = (int(match.group(1)), int(match.group(2) or "0", 16))
            assembly.inputs[place] = int(match.group(3), 16)
    elif raw.startswith("//.kernel "):
        assembly.kernel = raw[10:].strip()
    elif raw.startswith("//.thread_config"):
        match = re.search(r"numGRF=(\d+)", raw)
        assembly.grf_count = int(match.group(1)) if match else None
    elif raw.startswith("//.RA type"):
        assembly.register_allocator = raw[10:].strip()
    elif raw.startswith("//.BankConflicts:"):
        assembly.bank_conflicts = int(raw[17:])
    elif raw.startswith("//.spill size"):
        assembly.spill_bytes = int(raw[13:])


def _instruction(code: str, comment: str, file: str | None, line: int | None) -> Instruction:
    if code[0] == "(":  # predicate or (W), the write-all-lanes mark
        code = code[code.index(")") + 1 :]
    tokens = code.split()
    opcode = tokens[0]
    execution_size = 1
    operands: list[str] = []
    for token in tokens[1:]:
        first = token[0]
        if first == "(" and "|M" in token:
            execution_size = int(token[1 : token.index("|")])
        elif first == "{":
            break
        else:
            operands.append(token)
    base = opcode.partition(".")[0]
    kind, pipe = "alu", None
    is_f64 = is_int64 = False
    written = 0
    if base in ("dpas", "bdpas"):
        kind, pipe, written = "dpas", "xmx", 8
    elif base.startswith(_SEND_PREFIXES):
        if base.startswith("send"):  # raw: only IGC's comment says what the message is
            opcode = _decoded(comment)
            if not opcode and ".gtwy" not in tokens[0]:
                raise UnreadableLevelError(
                    f"the assembly does not say what its message does: {code.strip()[:100]}"
                )
        written = _registers_written(operands[:1], comment)
        kind = _kind(opcode, not written, operands, comment)
    else:
        _, found, tail = comment.partition("ALU pipe: ")
        if found:
            pipe = tail.partition(";")[0].strip()
        is_f64 = ":df" in code
        is_int64 = ":q" in code or ":uq" in code
    return Instruction(
        opcode,
        base,
        kind,
        tuple(operands),
        execution_size,
        written,
        pipe,
        is_f64,
        is_int64,
        file,
        line,
    )


def _registers_written(destination: Sequence[str], comment: str) -> int:
    """`r6:31` says it; a raw send's comment does: `rd:31` registers, or `rd:256 B`."""
    match = _WRITTEN.match(destination[0]) if destination else None
    if match is None:
        return 0
    if (count := match.group(2)) is not None:
        return int(count)
    stated = _READ_LENGTH.search(comment)
    if stated is None:
        return _MOST_REGISTERS
    length = int(stated.group(1))
    return -(-length // GRF_BYTES) if stated.group(2) else length


@dataclass(frozen=True)
class _Span:
    label: str
    first: int
    last: int


def _loop_spans(assembly: Assembly) -> list[_Span]:
    """Label and the last backward jump to it, outer loops before inner ones."""
    last_jump: dict[str, int] = {}
    for index, instruction in enumerate(assembly.instructions):
        if instruction.base not in _BRANCHES:
            continue
        for operand in instruction.operands:
            target = assembly.labels.get(operand)
            if target is not None and target <= index:
                last_jump[operand] = index
    spans = [_Span(label, assembly.labels[label], jump) for label, jump in last_jump.items()]
    return sorted(spans, key=lambda span: (span.first, -span.last))


def _parent(spans: Sequence[_Span], index: int) -> int | None:
    inner = spans[index]
    around = [
        i
        for i, outer in enumerate(spans)
        if i != index
        and outer.first <= inner.first
        and inner.last <= outer.last
        and (outer.first, outer.last, i) != (inner.first, inner.last, index)
        and not (outer.first == inner.first and outer.last == inner.last and i > index)
    ]
    return min(around, key=lambda i: spans[i].last - spans[i].first) if around else None


def _mix(instructions: Sequence[Instruction]) -> dict[str, Any]:
    """The counts that loops and whole kernels share, by field name."""
    kinds = Counter(item.kind for item in instructions)
    pipes = Counter(item.pipe for item in instructions if item.pipe is not None)
    return {
        "instructions": len(instructions),
        "dpas": kinds["dpas"],
        "loads_2d": kinds["load_2d"],
        "stores_2d": kinds["store_2d"],
        "prefetches_2d": kinds["prefetch_2d"],
        "global_loads": kinds["global_load"],
        "global_stores": kinds["global_store"],
        "atomics": kinds["atomic"] + kinds["slm_atomic"],
        "slm_messages": kinds["slm"] + kinds["slm_atomic"],
        "scratch_messages": kinds["scratch"],
        "f64_instructions": sum(item.is_f64 for item in instructions),
        "int64_instructions": sum(item.is_int64 for item in instructions),
        "pipes": dict(sorted(pipes.items())),
    }


@dataclass(frozen=True)
class _Payload:
    """What the address payload of a 2D message tells: its block, and whose memory it is."""

    blocks: int | None = None
    height: int | None = None
    width: int | None = None
    argument: int | None = None  # index of the kernel argument that is the base


def _payloads(assembly: Assembly, arguments: Mapping[tuple[int, int], int]) -> dict[int, _Payload]:
    """Index of a 2D message -> what its payload register holds there.

    The payload's first quadword is the base address; its eighth dword is the block's shape,
    (blocks - 1) << 16 | (height - 1) << 8 | (width - 1), always an immediate. Both are
    followed through moves in program order, and forgotten at any other write.

    A base that is an argument plus an offset is still that argument's.

    Args:
        arguments: (register, byte) -> index of the argument that is there after the prologue.
    """
    shapes: dict[int, int] = {}  # register -> its eighth dword
    bases = dict(arguments)
    found: dict[int, _Payload] = {}

    def forget(register: int, first: int, last: int) -> None:
        if first < _SHAPE_BYTE + 4 and last > _SHAPE_BYTE:
            shapes.pop(register, None)
        for byte in range(first // 8 * 8, min(last, GRF_BYTES), 8):
            bases.pop((register, byte), None)

    for index, item in enumerate(assembly.instructions):
        if index < assembly.main:
            continue
        if item.is_2d:
            found[index] = _payload_of(item, shapes, bases)
        if not item.operands:
            continue
        if item.kind != "alu":
            for each in _written_registers(item):
                forget(each, 0, GRF_BYTES)
            continue
        destination = _REGISTER.match(item.operands[0])
        if destination is None:
            continue
        register, size = int(destination.group(1)), _TYPE_BYTES.get(destination.group(4), 4)
        stride = int(destination.group(3))
        first = int(destination.group(2)) * size
        last = first + (item.execution_size - 1) * stride * size + size
        shape: int | None = None
        carried: dict[int, int] = {}
        if item.base == "mov":
            source = _SOURCE.match(item.operands[1])
            if source is None and item.execution_size == 1 and last > _SHAPE_BYTE >= first:
                value = _immediate(item.operands[1])
                shape = None if value is None else value >> 8 * (_SHAPE_BYTE - first)
            elif source is not None and stride == 1 and source.group(3) == "1":
                copied, behind = int(source.group(1)), int(source.group(2)) * size - first
                if behind == 0 and first <= _SHAPE_BYTE < last:
                    shape = shapes.get(copied)
                carried = {
                    byte - behind: v
                    for (r, byte), v in bases.items()
                    if r == copied and first <= byte - behind <= last - 8
                }
        if size == 8 and stride == 1 and not carried:
            carried = _carried_bases(item, first, bases)
        for each in range(register, register + (last + GRF_BYTES - 1) // GRF_BYTES):
            start = (each - register) * GRF_BYTES
            forget(each, max(first - start, 0), min(last - start, GRF_BYTES))
        if shape is not None:
            shapes[register] = shape
        for byte, argument in carried.items():
            bases[register, byte] = argument
    return found


def _written_registers(item: Instruction) -> range:
    """The registers that a send or a dpas writes as a whole."""
    match = _DESTINATION.match(item.operands[0])
    if match is None or not item.registers_written:
        return range(0)
    first = int(match.group(1))
    return range(first, first + item.registers_written)


def _carried_bases(
    item: Instruction, first: int, bases: Mapping[tuple[int, int], int]
) -> dict[int, int]:
    """Byte of a destination quadword -> the one argument that its sources carry."""
    sources = [m for m in map(_SOURCE.match, item.operands[1:]) if m is not None]
    carried: dict[int, int] = {}
    for lane in range(min(item.execution_size, (GRF_BYTES - first) // 8)):
        held: set[int] = set()
        for source in sources:
            step = 0 if source.group(3) == "0" else lane
            place = (int(source.group(1)), (int(source.group(2)) + step) * 8)
            if (argument := bases.get(place)) is not None:
                held.add(argument)
        if len(held) == 1:
            carried[first + lane * 8] = held.pop()
    return carried


def _payload_of(
    item: Instruction, shapes: Mapping[int, int], bases: Mapping[tuple[int, int], int]
) -> _Payload:
    if item.base.startswith("send"):  # raw: the operand behind the destination
        match = _WRITTEN.match(item.operands[1]) if len(item.operands) > 1 else None
    else:
        match = next((m for m in map(_PAYLOAD.match, item.operands) if m is not None), None)
    if match is None:
        return _Payload()
    register = int(match.group(1))
    argument = bases.get((register, 0))
    value = shapes.get(register)
    if value is None:
        return _Payload(argument=argument)
    return _Payload(
        blocks=(value >> 16 & 0xFF) + 1,
        height=(value >> 8 & 0xFF) + 1,
        width=(value & 0xFF) + 1,
        argument=argument,
    )


def _immediate(operand: str) -> int | None:
    text, _, _ = operand.partition(":")
    try:
        return int(text, 0)
    except ValueError:
        return None


def _send_2d(
    item: Instruction, payload: _Payload, loop: int | None, arguments: Sequence[str]
) -> Send2D:
    parts = [m for m in map(_BLOCK_TYPE.match, item.opcode.split(".")[1:]) if m]
    if not parts:
        raise UnreadableLevelError(f"the 2D block message '{item.opcode}' names no element size")
    op: Literal["load", "store", "prefetch"] = (
        "prefetch" if item.kind == "prefetch_2d" else "load" if item.kind == "load_2d" else "store"
    )
    index = payload.argument
    return Send2D(
        op=op,
        site=Site(file=item.file, line=item.line),
        element_bits=int(parts[0].group(1)),
        width=payload.width,
        height=payload.height,
        blocks=payload.blocks,
        transpose=parts[0].group(2) == "t",
        vnni=parts[0].group(2) == "v",
        loop=loop,
        argument=arguments[index] if index is not None and index < len(arguments) else None,
    )


def _loop_site(body: Sequence[Instruction], source_file: str | None) -> Site:
    """The line of the backward jump: the loop statement's. Else the first line of the body."""
    jump = body[-1]
    if jump.line is not None and _same_file(jump.file, source_file):
        return Site(file=jump.file, line=jump.line)
    known = [i for i in body if i.line is not None]
    own = [i for i in known if _same_file(i.file, source_file)] or known
    first = min(own, key=lambda i: i.line or 0, default=None)
    return Site() if first is None else Site(file=first.file, line=first.line)


def _same_file(file: str | None, source_file: str | None) -> bool:
    if file is None or source_file is None:
        return file is not None
    return file == source_file or file.rpartition("/")[2] == source_file.rpartition("/")[2]


def read_ze_info(text: str, kernel: str | None) -> dict[str, Any]:
    """The entry of `kernel` (of the only kernel when None).

    Raises:
        UnreadableLevelError: not YAML, or the kernel is not in it.
    """
    try:
        data: Any = yaml.load(text, Loader=_YAML_LOADER)  # a safe loader in both cases
        kernels = cast("list[dict[str, Any]]", data["kernels"])
        named = [k for k in kernels if kernel is None or k["name"] == kernel]
        if len(named) != 1:
            names = ", ".join(str(k["name"]) for k in kernels)
            raise UnreadableLevelError(f".ze_info has no kernel '{kernel}', only: {names}")
        environment = cast("dict[str, Any]", named[0]["execution_env"])
        for required in ("grf_count", "simd_size"):
            int(environment[required])
        return named[0]
    except (yaml.YAMLError, KeyError, TypeError, ValueError) as error:
        raise UnreadableLevelError(f".ze_info is malformed: {error}") from error


def _argument_places(entry: Mapping[str, Any], assembly: Assembly) -> dict[tuple[int, int], int]:
    """(register, byte) -> index of the pointer argument that is there after the prologue."""
    payload = cast("list[dict[str, Any]]", entry.get("payload_arguments") or [])
    by_offset = {
        int(item["offset"]): int(item["arg_index"])
        for item in payload
        if item.get("arg_type") == "arg_bypointer" and item.get("addrspace") == "global"
    }
    return {
        place: by_offset[offset] for place, offset in assembly.inputs.items() if offset in by_offset
    }


def read_native(
    ze_info: str,
    asm: str,
    *,
    kernel: str | None = None,
    arguments: Sequence[str] = (),
    shared_bytes: int | None = 0,
    source_file: str | None = None,
) -> Native:
    """Reads the two files of one kernel.

    Args:
        ze_info: text of the zebin's `.ze_info` section.
        asm: IGC's annotated assembly of the last retry.
        kernel: its name in `.ze_info`; None where it holds one only.
        arguments: names of the kernel's run-time arguments, in order.
        shared_bytes: Triton's `shared`; `.ze_info` says 0 where SLM is passed as an argument.
            None: not known.
        source_file: the kernel's file: lines of other files are not its lines.

    Raises:
        UnreadableLevelError: either file is malformed.
    """
    entry = read_ze_info(ze_info, kernel)
    environment = cast("dict[str, Any]", entry["execution_env"])
    assembly = parse_assembly(asm)
    code = assembly.instructions
    spans = _loop_spans(assembly)
    inner_loop = _innermost(spans, len(code))
    loops: list[NativeLoop] = []
    for index, span in enumerate(spans):
        body = code[span.first : span.last + 1]
        loops.append(
            NativeLoop(
                index=index,
                label=span.label,
                site=_loop_site(body, source_file),
                parent=_parent(spans, index),
                barriers=sum(item.kind == "barrier" for item in body),
                send_messages=sum(item.kind not in ("alu", "dpas") for item in body),
                **_mix(body),
            )
        )

    payloads = _payloads(assembly, _argument_places(entry, assembly))
    per_line = Counter(
        i.line for i in code if i.line is not None and _same_file(i.file, source_file)
    )
    simd_size = int(environment["simd_size"])
    spill_bytes = int(environment.get("spill_size", 0))
    return Native(
        grf_count=int(environment["grf_count"]),
        simd_size=simd_size,
        spill_bytes_per_thread=spill_bytes,
        spill_bytes_per_lane=spill_bytes / simd_size,
        private_bytes_per_thread=_number(environment, "private_size"),
        slm_bytes=_slm_bytes(environment, shared_bytes, code),
        barrier_count=_number(environment, "barrier_count"),
        hardware_threads_per_xve=_number(environment, "eu_thread_count"),
        has_dpas=bool(environment.get("has_dpas", False)),
        bank_conflicts=assembly.bank_conflicts,
        sends_2d=tuple(
            _send_2d(code[i], payload, inner_loop[i], arguments) for i, payload in payloads.items()
        ),
        loops=tuple(loops),
        main_loop=_main_loop(loops),
        instructions_per_line=dict(sorted(per_line.items())),
        register_allocator=assembly.register_allocator,
        **_mix(code),
    )


def _number(environment: Mapping[str, Any], name: str) -> int | None:
    """`.ze_info` leaves out what is 0; it is null where a listing alone told the rest."""
    value = environment.get(name, 0)
    return None if value is None else int(value)


def _slm_bytes(
    environment: Mapping[str, Any], shared_bytes: int | None, code: Sequence[Instruction]
) -> int | None:
    """None: it has messages to SLM, and nothing tells how much it holds."""
    stated = _number(environment, "slm_size") or 0
    if shared_bytes is None:
        uses_slm = any(item.kind in ("slm", "slm_atomic") for item in code)
        return None if uses_slm and not stated else stated
    return max(shared_bytes, stated)


def _innermost(spans: Sequence[_Span], length: int) -> list[int | None]:
    inner: list[int | None] = [None] * length
    # Outer loops come first, so that inner ones overwrite them.
    for index, span in enumerate(spans):
        for position in range(span.first, span.last + 1):
            inner[position] = index
    return inner


def _main_loop(loops: Sequence[NativeLoop]) -> int | None:
    """Most dpas of its own; without any, the innermost with most instructions.

    Of equals the one with more instructions: compilers version loops (with and without
    masks), and native code does not tell which version a launch takes.
    """
    if not loops:
        return None
    outer = {loop.parent for loop in loops}
    if any(loop.dpas for loop in loops):
        inner_dpas = {
            loop.index: loop.dpas - sum(child.dpas for child in loops if child.parent == loop.index)
            for loop in loops
        }
        return max(loops, key=lambda loop: (inner_dpas[loop.index], loop.instructions)).index
    innermost = [loop for loop in loops if loop.index not in outer]
    return max(innermost, key=lambda loop: loop.instructions).index
