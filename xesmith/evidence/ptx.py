"""Reader of PTX -> `Ptx`: how wide memory is read and written, and what multiplies matrices.

PTX is not what runs: registers, spills and occupancy are decided after it (`ptxas`), so they
are no facts here. Counts are static instructions of one thread's program.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from xesmith.errors import UnreadableLevelError
from xesmith.evidence.record import Ptx

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
_VECTOR = re.compile(r"\.v([248])(?=\.|$)")
_TYPE_BITS = re.compile(r"\.[busf](\d+)$")
#: directives and labels, each on a line of its own
_NO_INSTRUCTION = re.compile(r"^\s*(?:\.[^\n]*|[$\w]+:\s*)$", re.M)
_PREDICATE = re.compile(r"^@!?%\w+\s+")
_MATH = re.compile(r"^(ex2|lg2|sin|cos|tanh|rcp|rsqrt|sqrt|div)\b.*\.[fb](?:16|32|64)")
_BITS_64 = re.compile(r"\.[sub]64(?:\.|$)")
#: moves, loads, stores and conversions of 64-bit values are no 64-bit arithmetic
_INTEGER_ARITHMETIC = ("add", "sub", "mul", "mad", "div", "rem", "shl", "shr", "min", "max", "setp")


def read_ptx(text: str) -> Ptx:
    """Counts the instructions of one PTX module.

    Raises:
        UnreadableLevelError: not PTX, or a module without instructions.
    """
    target = re.search(r"^\s*\.target\s+([\w, ]+)", text, re.M)
    version = re.search(r"^\s*\.version\s+([\d.]+)", text, re.M)
    if target is None or version is None:
        raise UnreadableLevelError("not PTX: it has no .version or .target")
    loads: Counter[int] = Counter()
    stores: Counter[int] = Counter()
    math: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    for opcode, operands in _statements(text):
        kinds["instructions"] += 1
        base = opcode.partition(".")[0]
        if opcode.startswith("cp.async.bulk"):
            # Bytes of a bulk copy are those of a whole box, moved by one thread for all.
            if not opcode.startswith(("cp.async.bulk.commit", "cp.async.bulk.wait")):
                kinds["bulk_copies"] += 1
        elif opcode.startswith(("cp.async.ca", "cp.async.cg")):
            kinds["async_copies"] += 1
            loads[_copied_bytes(operands)] += 1
        elif base in ("ld", "ldu") and ".global" in opcode:
            loads[_bytes(opcode)] += 1
        elif base == "st" and ".global" in opcode:
            stores[_bytes(opcode)] += 1
        elif (base in ("ld", "st") and ".shared" in opcode) or base in ("ldmatrix", "stmatrix"):
            kinds["shared_messages"] += 1
        elif opcode.startswith(("mma.", "wmma.mma", "wgmma.mma", "tcgen05.mma")):
            kinds["matrix_instructions"] += 1
        elif base in ("atom", "red"):
            kinds["atomics"] += 1
        elif base in ("bar", "barrier") or opcode.startswith("mbarrier.try_wait"):
            kinds["barriers"] += 1
        elif (match := _MATH.match(opcode)) is not None:
            math[match.group(1)] += 1
        kinds["f64"] += ".f64" in opcode and base not in ("ld", "st", "mov")
        kinds["int64"] += base in _INTEGER_ARITHMETIC and (
            _BITS_64.search(opcode) is not None or ".wide.s32" in opcode or ".wide.u32" in opcode
        )
    if not kinds["instructions"]:
        raise UnreadableLevelError("the PTX holds no instruction")
    total = sum(loads.values())
    return Ptx(
        version=version.group(1),
        target=target.group(1).strip(),
        instructions=kinds["instructions"],
        loads=dict(sorted(loads.items())),
        stores=dict(sorted(stores.items())),
        bytes_per_load=sum(b * n for b, n in loads.items()) / total if total else None,
        async_copies=kinds["async_copies"],
        bulk_copies=kinds["bulk_copies"],
        matrix_instructions=kinds["matrix_instructions"],
        shared_messages=kinds["shared_messages"],
        barriers=kinds["barriers"],
        atomics=kinds["atomics"],
        f64_instructions=kinds["f64"],
        int64_instructions=kinds["int64"],
        math=dict(sorted(math.items())),
    )


def _statements(text: str) -> Iterator[tuple[str, str]]:
    """(opcode, operands) of every instruction; no directives, labels or debug sections."""
    code = _COMMENT.sub("", text)
    code = code.partition("\n\t.section")[0]  # DWARF follows to the end
    code = _NO_INSTRUCTION.sub("", code)
    for raw in code.split(";"):
        statement = _PREDICATE.sub("", raw.strip(" \t\n(){}"))
        match = re.match(r"([a-z][\w.:]*)\s*(.*)", statement, re.S)
        if match is not None:
            yield match.group(1), match.group(2)


def _bytes(opcode: str) -> int:
    """Bytes per thread of `ld.global.v4.b32` and the like."""
    bits = _TYPE_BITS.search(opcode)
    vector = _VECTOR.search(opcode)
    if bits is None:
        raise UnreadableLevelError(f"the PTX instruction '{opcode}' names no type")
    return int(bits.group(1)) // 8 * (int(vector.group(1)) if vector else 1)


def _copied_bytes(operands: str) -> int:
    """The size operand of `cp.async.cg.shared.global [to], [from], 16, ...`."""
    parts = [part.strip() for part in operands.split(",")]
    try:
        return int(parts[2], 0)
    except (IndexError, ValueError) as error:
        raise UnreadableLevelError(f"cp.async without a size: {operands[:80]}") from error
