"""Reader of `spirv-dis` text -> `Spirv`.

Each line is one instruction: `[%result =] OpName operand...`. 2D block and DPAS operations
stand there either as calls of imported built-ins (OpenCL names, mangled or not, and
`__spirv_...` names) or as instructions of SPV_INTEL_2d_block_io and
SPV_INTEL_subgroup_matrix_multiply_accumulate. Both are counted alike.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from xesmith.errors import UnreadableLevelError
from xesmith.evidence.record import Spirv

#: beyond this a module is not a kernel but an accident
MAX_TEXT_BYTES = 256 * 1024 * 1024

_FLOAT_OPS = frozenset(
    {
        "OpFNegate", "OpFAdd", "OpFSub", "OpFMul", "OpFDiv", "OpFRem", "OpFMod", "OpDot",
        "OpVectorTimesScalar", "OpConvertSToF", "OpConvertUToF", "OpFConvert",
    }
)  # fmt: skip
_INTEGER_OPS = frozenset(
    {
        "OpSNegate", "OpIAdd", "OpISub", "OpIMul", "OpUDiv", "OpSDiv", "OpUMod", "OpSRem",
        "OpSMod", "OpShiftRightLogical", "OpShiftRightArithmetic", "OpShiftLeftLogical",
        "OpBitwiseOr", "OpBitwiseXor", "OpBitwiseAnd", "OpNot", 
        "OpConvertFToS", "OpConvertFToU",
    }
)  # fmt: skip
#: comparisons have a boolean result: the type that matters is their operand's
_FLOAT_COMPARISONS = re.compile(r"^OpF(Ord|Unord)\w+$")
_INTEGER_COMPARISONS = frozenset(
    {
        "OpIEqual", "OpINotEqual", "OpUGreaterThan", "OpSGreaterThan", "OpUGreaterThanEqual",
        "OpSGreaterThanEqual", "OpULessThan", "OpSLessThan", "OpULessThanEqual",
        "OpSLessThanEqual",
    }
)  # fmt: skip
_OCL_BUILTIN = re.compile(r"__spirv_ocl_([a-z0-9_]*?[a-z0-9])(?:D?v?\d*_?[fdhij])*$")


@dataclass(frozen=True, slots=True)
class _Line:
    result: str | None
    opcode: str
    operands: list[str]


def _lines(text: str) -> Iterator[_Line]:
    for raw in text.splitlines():
        line = raw.lstrip()
        if not line or line[0] == ";":
            continue
        tokens = line.split()
        if len(tokens) > 2 and tokens[1] == "=":
            yield _Line(tokens[0], tokens[2], tokens[3:])
        else:
            yield _Line(None, tokens[0], tokens[1:])


def block_io_kind(name: str) -> str | None:
    """ "load", "store" or "prefetch" where `name` is a 2D block operation's, else None."""
    if "2d_block_" not in name and "2DBlock" not in name:
        return None
    lower = name.lower()
    if "prefetch" in lower:
        return "prefetch"
    if "write" in lower or "store" in lower:
        return "store"
    return "load"


def is_dpas(name: str) -> bool:
    return "matrix_mad" in name or "MatrixMultiplyAccumulate" in name


def read_spirv(text: str) -> Spirv:
    """Counts operations of one SPIR-V module.

    Raises:
        UnreadableLevelError: not `spirv-dis` text, or too large.
    """
    if len(text) > MAX_TEXT_BYTES:
        raise UnreadableLevelError(f"SPIR-V text of {len(text)} B is over {MAX_TEXT_BYTES} B")
    capabilities: list[str] = []
    extensions: list[str] = []
    names: dict[str, str] = {}
    wide_floats: set[str] = set()  # ids of double and its vectors
    wide_integers: set[str] = set()
    types: dict[str, str] = {}  # id of a value -> id of its type
    ocl_sets: set[str] = set()
    blocks: Counter[str] = Counter()
    math: Counter[str] = Counter()
    dpas = barriers = atomics = f64 = i64 = 0
    memory_model = False

    for line in _lines(text):
        opcode, operands = line.opcode, line.operands
        if line.result is not None and operands:
            types[line.result] = operands[0]
        if opcode == "OpFunctionCall":
            callee = names.get(operands[1], operands[1][1:])
            if (kind := block_io_kind(callee)) is not None:
                blocks[kind] += 1
            elif is_dpas(callee):
                dpas += 1
            elif "Barrier" in callee or "barrier" in callee:
                barriers += 1
            elif "atomic" in callee.lower():
                atomics += 1
            elif (match := _OCL_BUILTIN.search(callee)) is not None:
                math[match.group(1)] += 1
        elif opcode == "OpExtInst":
            if operands[1] in ocl_sets:
                math[operands[2]] += 1
                f64 += operands[0] in wide_floats
        elif opcode in _FLOAT_OPS or opcode in _INTEGER_OPS:
            # A conversion works on the wider of its two types.
            involved = {operands[0], *(types.get(o, "") for o in operands[1:])}
            f64 += bool(involved & wide_floats)
            i64 += bool(involved & wide_integers)
        elif opcode in _INTEGER_COMPARISONS:
            i64 += types.get(operands[1], "") in wide_integers
        elif _FLOAT_COMPARISONS.match(opcode):
            f64 += types.get(operands[1], "") in wide_floats
        elif opcode.startswith("OpAtomic"):
            atomics += 1
        elif opcode.startswith("OpControlBarrier"):
            barriers += 1
        elif (kind := block_io_kind(opcode)) is not None:
            blocks[kind] += 1
        elif is_dpas(opcode):
            dpas += 1
        elif opcode == "OpName":
            names[operands[0]] = operands[1].strip('"')
        elif opcode == "OpCapability":
            capabilities.append(operands[0])
        elif opcode == "OpExtension":
            extensions.append(operands[0].strip('"'))
        elif opcode == "OpExtInstImport":
            if operands[0] == '"OpenCL.std"' and line.result is not None:
                ocl_sets.add(line.result)
        elif opcode == "OpMemoryModel":
            memory_model = True
        elif line.result is not None:
            if opcode == "OpTypeFloat" and operands[0] == "64":
                wide_floats.add(line.result)
            elif opcode == "OpTypeInt" and operands[0] == "64":
                wide_integers.add(line.result)
            elif opcode == "OpTypeVector":
                for wide in (wide_floats, wide_integers):
                    if operands[0] in wide:
                        wide.add(line.result)

    if not memory_model:
        raise UnreadableLevelError("not a disassembled SPIR-V module: it has no OpMemoryModel")
    return Spirv(
        capabilities=tuple(capabilities),
        extensions=tuple(extensions),
        loads_2d=blocks["load"],
        stores_2d=blocks["store"],
        prefetches_2d=blocks["prefetch"],
        dpas_calls=dpas,
        barriers=barriers,
        atomics=atomics,
        f64_operations=f64,
        i64_operations=i64,
        math=dict(sorted(math.items())),
    )
