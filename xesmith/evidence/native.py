"""Reader of native code: `.ze_info` and IGC's annotated assembly -> `Native`.

All counts are static instructions of one hardware thread's program. A send is one message,
whatever it moves. Loops are found as a label and a backward jump to it, never by name.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import yaml

from xesmith.evidence.record import Native, NativeLoop, Send2D, Site
from xesmith.evidence.unreadable import UnreadableLevelError

_YAML_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

#: bytes of one general register on every Xe-HPC and Xe2 device
GRF_BYTES = 64

#: where the block's shape stands in the address payload of a 2D message
_SHAPE_BYTE = 28

_BRANCHES = frozenset({"jmpi", "goto", "while", "brd", "brc", "break", "cont", "call"})
_SEND_PREFIXES = ("load", "store", "atomic", "send", "read", "write")
_TYPE = re.compile(r":(df|uq|q)\b")
_REGISTER = re.compile(r"^r(\d+)\.(\d+)<(\d)>:([a-z]+)$")
_SOURCE_REGISTER = re.compile(r"^r(\d+)\.0<")
_PAYLOAD = re.compile(r"\[r(\d+):\d")
_TYPE_BYTES = {"q": 8, "uq": 8, "df": 8, "w": 2, "uw": 2, "hf": 2, "bf": 2, "b": 1, "ub": 1}
_BLOCK_TYPE = re.compile(r"^d(\d+)([tv]?)$")


@dataclass(frozen=True, slots=True)
class Instruction:
    """One line of assembly. `opcode` keeps its suffixes: "load_block2d.ugm.d16v.a64"."""

    opcode: str
    base: str  # the opcode before its first dot
    operands: tuple[str, ...]
    execution_size: int
    code: str
    pipe: str | None
    file: str | None
    line: int | None

    @property
    def is_send(self) -> bool:
        return self.base.startswith(_SEND_PREFIXES)

    @property
    def is_scratch(self) -> bool:
        """A spill or a fill: its address is in the thread's scratch surface."""
        return " ss[" in self.code

    @property
    def is_argument_load(self) -> bool:
        """IGC's prologue reads kernel arguments and local ids through surface 255."""
        return " bti[255]" in self.code

    @property
    def is_slm(self) -> bool:
        return self.is_send and ".slm" in self.opcode

    @property
    def is_barrier(self) -> bool:
        return self.base == "send" and self.code.rstrip().endswith("signal barrier")

    @property
    def is_2d(self) -> bool:
        return self.base in ("load_block2d", "store_block2d")

    @property
    def is_prefetch_2d(self) -> bool:
        """A 2D load without a destination only fills the cache."""
        return self.base == "load_block2d" and self.operands[:1] == ("null:0",)

    @property
    def is_global(self) -> bool:
        return ".ugm" in self.opcode and not (
            self.is_2d or self.is_scratch or self.is_argument_load
        )


@dataclass
class Assembly:
    """A parsed `.asm`: instructions in order, labels by the index they stand before."""

    kernel: str | None = None
    instructions: list[Instruction] = field(default_factory=lambda: [])
    labels: dict[str, int] = field(default_factory=lambda: {})
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
    if not assembly.instructions:
        raise UnreadableLevelError(
            "the assembly holds no instruction", remedy="look at the native compiler's log"
        )
    return assembly


def _read_header(assembly: Assembly, raw: str) -> None:
    if raw.startswith("//.kernel "):
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
    rest = code
    if rest.startswith("("):  # predicate or (W), the write-all-lanes mark
        rest = rest[rest.index(")") + 1 :].lstrip()
    tokens = rest.split()
    opcode = tokens[0]
    execution_size = 1
    operands: list[str] = []
    for token in tokens[1:]:
        if token.startswith("(") and "|M" in token:
            execution_size = int(token[1 : token.index("|")])
        elif token.startswith("{"):
            break
        else:
            operands.append(token)
    base = opcode.partition(".")[0]
    pipe: str | None = None
    if base == "dpas":
        pipe = "xmx"
    else:
        _, found, tail = comment.partition("ALU pipe: ")
        if found:
            pipe = tail.partition(";")[0].strip()
    # Barriers and fences are the same opcode; only IGC's comment tells them apart.
    shown = f"{code} signal barrier" if "signal barrier" in comment else code
    return Instruction(opcode, base, tuple(operands), execution_size, shown, pipe, file, line)


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


@dataclass
class _Mix:
    """Counts over a run of instructions."""

    instructions: int = 0
    dpas: int = 0
    loads_2d: int = 0
    stores_2d: int = 0
    prefetches_2d: int = 0
    global_loads: int = 0
    global_stores: int = 0
    atomics: int = 0
    slm_messages: int = 0
    scratch_messages: int = 0
    barriers: int = 0
    send_messages: int = 0
    f64_instructions: int = 0
    int64_instructions: int = 0
    pipes: dict[str, int] = field(default_factory=lambda: {})


def _mix(instructions: Iterable[Instruction]) -> _Mix:
    mix = _Mix()
    pipes: Counter[str] = Counter()
    for item in instructions:
        mix.instructions += 1
        if item.pipe is not None:
            pipes[item.pipe] += 1
        if item.base == "dpas":
            mix.dpas += 1
        elif item.is_send:
            mix.send_messages += 1
            if item.is_barrier:
                mix.barriers += 1
            elif item.is_scratch:
                mix.scratch_messages += 1
            elif item.base.startswith("atomic"):
                mix.atomics += 1
                if item.is_slm:
                    mix.slm_messages += 1
            elif item.is_slm:
                mix.slm_messages += 1  # fences too: they wait for the messages before them
            elif item.is_prefetch_2d:
                mix.prefetches_2d += 1
            elif item.is_2d:
                mix.loads_2d += item.base == "load_block2d"
                mix.stores_2d += item.base == "store_block2d"
            elif item.is_global:
                mix.global_loads += item.base.startswith(("load", "read"))
                mix.global_stores += item.base.startswith(("store", "write"))
        else:
            types = set(_TYPE.findall(item.code)) if ":" in item.code else set[str]()
            mix.f64_instructions += "df" in types
            mix.int64_instructions += bool(types & {"q", "uq"})
    mix.pipes = dict(sorted(pipes.items()))
    return mix


def _block_shapes(instructions: Sequence[Instruction]) -> dict[int, tuple[int, int, int]]:
    """Index of a 2D message -> (blocks, height, width) of its block.

    The shape is the eighth dword of the message's address payload: (blocks - 1) << 16 |
    (height - 1) << 8 | (width - 1), always an immediate. It is followed through whole-register
    copies in program order.
    """
    held: dict[int, int] = {}
    shapes: dict[int, tuple[int, int, int]] = {}
    for index, item in enumerate(instructions):
        if item.is_2d:
            match = _PAYLOAD.search(item.code)
            value = held.get(int(match.group(1))) if match else None
            if value is not None:
                shapes[index] = (
                    (value >> 16 & 0xFF) + 1,
                    (value >> 8 & 0xFF) + 1,
                    (value & 0xFF) + 1,
                )
            continue
        if not item.operands or item.is_send:
            continue
        destination = _REGISTER.match(item.operands[0])
        if destination is None:
            continue
        register, stride = int(destination.group(1)), int(destination.group(3))
        size = _TYPE_BYTES.get(destination.group(4), 4)
        first = int(destination.group(2)) * size
        last = first + (item.execution_size - 1) * stride * size + size
        if not first < _SHAPE_BYTE + 4 <= last:
            continue
        held.pop(register, None)
        if item.base != "mov":
            continue
        if item.execution_size == 1:
            value = _immediate(item.operands[1])
            if value is not None:
                held[register] = value >> 8 * (_SHAPE_BYTE - first)
        elif first == 0:
            source = _SOURCE_REGISTER.match(item.operands[1])
            copied = held.get(int(source.group(1))) if source else None
            if copied is not None:
                held[register] = copied
    return shapes


def _immediate(operand: str) -> int | None:
    text, _, _ = operand.partition(":")
    try:
        return int(text, 0)
    except ValueError:
        return None


def _send_2d(item: Instruction, shape: tuple[int, int, int] | None, loop: int | None) -> Send2D:
    parts = [m for m in map(_BLOCK_TYPE.match, item.opcode.split(".")[1:]) if m]
    if not parts:
        raise UnreadableLevelError(f"the 2D block message '{item.opcode}' names no element size")
    blocks, height, width = shape or (None, None, None)
    op: Literal["load", "store", "prefetch"] = (
        "prefetch" if item.is_prefetch_2d else "load" if item.base == "load_block2d" else "store"
    )
    return Send2D(
        op=op,
        site=Site(file=item.file, line=item.line),
        element_bits=int(parts[0].group(1)),
        width=width,
        height=height,
        blocks=blocks,
        transpose=parts[0].group(2) == "t",
        vnni=parts[0].group(2) == "v",
        loop=loop,
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
    """The `execution_env` of `kernel` (of the only kernel when None).

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
        return environment
    except (yaml.YAMLError, KeyError, TypeError, ValueError) as error:
        raise UnreadableLevelError(f".ze_info is malformed: {error}") from error


def read_native(
    ze_info: str,
    asm: str,
    *,
    kernel: str | None = None,
    shared_bytes: int = 0,
    source_file: str | None = None,
) -> Native:
    """Reads the two files of one kernel.

    Args:
        ze_info: text of the zebin's `.ze_info` section.
        asm: IGC's annotated assembly of the last retry.
        kernel: its name in `.ze_info`; None where it holds one only.
        shared_bytes: Triton's `shared`; `.ze_info` says 0 where SLM is passed as an argument.
        source_file: the kernel's file: lines of other files are not its lines.

    Raises:
        UnreadableLevelError: either file is malformed.
    """
    environment = read_ze_info(ze_info, kernel)
    assembly = parse_assembly(asm)
    code = assembly.instructions
    spans = _loop_spans(assembly)
    parents = [_parent(spans, i) for i in range(len(spans))]
    inner_loop = _innermost(spans, len(code))

    loops: list[NativeLoop] = []
    for index, span in enumerate(spans):
        body = code[span.first : span.last + 1]
        mix = _mix(body)
        loops.append(
            NativeLoop(
                index=index,
                label=span.label,
                site=_loop_site(body, source_file),
                parent=parents[index],
                instructions=mix.instructions,
                dpas=mix.dpas,
                loads_2d=mix.loads_2d,
                stores_2d=mix.stores_2d,
                prefetches_2d=mix.prefetches_2d,
                global_loads=mix.global_loads,
                global_stores=mix.global_stores,
                atomics=mix.atomics,
                slm_messages=mix.slm_messages,
                scratch_messages=mix.scratch_messages,
                barriers=mix.barriers,
                send_messages=mix.send_messages,
                f64_instructions=mix.f64_instructions,
                int64_instructions=mix.int64_instructions,
                pipes=mix.pipes,
            )
        )

    total = _mix(code)
    shapes = _block_shapes(code)
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
        private_bytes_per_thread=int(environment.get("private_size", 0)),
        slm_bytes=max(shared_bytes, int(environment.get("slm_size", 0))),
        barrier_count=int(environment.get("barrier_count", 0)),
        hardware_threads_per_xve=int(environment.get("eu_thread_count", 0)),
        has_dpas=bool(environment.get("has_dpas", False)),
        instructions=total.instructions,
        dpas=total.dpas,
        loads_2d=total.loads_2d,
        stores_2d=total.stores_2d,
        prefetches_2d=total.prefetches_2d,
        global_loads=total.global_loads,
        global_stores=total.global_stores,
        atomics=total.atomics,
        slm_messages=total.slm_messages,
        scratch_messages=total.scratch_messages,
        bank_conflicts=assembly.bank_conflicts,
        pipes=total.pipes,
        sends_2d=tuple(
            _send_2d(item, shapes.get(i), inner_loop[i])
            for i, item in enumerate(code)
            if item.is_2d
        ),
        loops=tuple(loops),
        main_loop=_main_loop(loops),
        instructions_per_line=dict(sorted(per_line.items())),
        f64_instructions=total.f64_instructions,
        int64_instructions=total.int64_instructions,
        register_allocator=assembly.register_allocator,
    )


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
