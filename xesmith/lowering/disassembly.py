"""Native binaries (zebin) as text: which kernels they hold, and the assembly of one.

ocloc disassembles for the device that the binary names. Its text has no source lines; those of
the binary's own line table are put in as IGC's listings have them, so that one reader reads both.
"""

from __future__ import annotations

import io
import os
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import yaml
from elftools.common.exceptions import DWARFError, ELFError
from elftools.elf.elffile import ELFFile

from xesmith.errors import ToolchainError, UsageError
from xesmith.lowering.native import read_zebin, run_tool
from xesmith.toolchain.record import NativeTools

DISASM_TIMEOUT_SECONDS = 120.0

_YAML_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
#: what pyelftools raises on files that are cut off or overwritten
_MALFORMED = (
    ELFError, DWARFError, struct.error, ValueError, LookupError, TypeError, AttributeError,
    ArithmeticError, AssertionError, MemoryError, RecursionError, OSError,
)  # fmt: skip
_COMPACTED = re.compile(r"\{[^{}]*\bCompacted\b[^{}]*\}")
#: what the last instruction of a kernel carries
END_OF_THREAD = re.compile(r"\{[^{}]*\bEOT\b[^{}]*\}")


def zebin_kernels(data: bytes, where: str) -> list[str]:
    """The names of the kernels in a native binary.

    Raises:
        UsageError: it is malformed, or holds no kernel.
    """
    try:
        section: Any = ELFFile(io.BytesIO(data)).get_section_by_name(".ze_info")
        text = "" if section is None else section.data().rstrip(b"\0").decode()
        found: Any = yaml.load(text, Loader=_YAML_LOADER)  # a safe loader in both cases
        names = [str(kernel["name"]) for kernel in cast("list[Any]", found["kernels"])]
    except (*_MALFORMED, yaml.YAMLError) as error:
        raise UsageError(
            f"the native binary is malformed: {_said(error)}",
            where=where,
            remedy="name a whole zebin, as ocloc or the driver writes it",
        ) from error
    if not names:
        raise UsageError("the native binary holds no kernel", where=where)
    return names


def zebin_section(data: bytes, name: str) -> bytes | None:
    """The content of a section; None where there is none."""
    try:
        section: Any = ELFFile(io.BytesIO(data)).get_section_by_name(name)
        return None if section is None else section.data()
    except _MALFORMED:
        return None


def zebin_info(data: bytes, kernel: str, where: str) -> str:
    """The .ze_info of a binary that holds code for a kernel.

    Raises:
        UsageError: it is malformed.
    """
    try:
        info, fault = read_zebin(data, kernel)
    except _MALFORMED as error:
        info, fault = "", _said(error)
    if fault is not None:
        raise UsageError(f"the native binary is malformed: {fault}", where=where)
    return info


def zebin_text(
    data: bytes, kernel: str, tools: NativeTools, folder: Path, where: str
) -> tuple[str, str]:
    """(.ze_info, assembly) of one kernel; `folder` is to be empty and takes files.

    Raises:
        UsageError: the binary is malformed.
        ToolchainError: ocloc does not disassemble it.
    """
    info = zebin_info(data, kernel, where)
    folder = folder.absolute()  # ocloc runs in it
    file = folder / "kernel.zebin"
    file.write_bytes(data)
    out = folder / "sections"
    command = [*tools.ocloc, "disasm", "-file", str(file), "-dump", str(out)]
    code, log, timed_out = run_tool(command, folder, DISASM_TIMEOUT_SECONDS)
    listing = out / f".text.{kernel}.asm"
    if timed_out or code != 0 or not listing.is_file():
        said = (
            "it does not end" if timed_out else " ".join(log.split())[-300:] or f"exit code {code}"
        )
        raise ToolchainError(
            f"ocloc does not disassemble the native binary: {said}",
            where=where,
            remedy="an ocloc that knows its device: xesmith doctor",
        )
    return info, _with_lines(listing.read_text(errors="replace"), _line_table(data))


def _said(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]


def _line_table(data: bytes) -> list[tuple[int, str, int]]:
    """(address, file, line) in the order of addresses; [] where the binary has none."""
    found: list[tuple[int, str, int]] = []
    try:
        elf: Any = ELFFile(io.BytesIO(data))
        if not elf.has_dwarf_info():
            return []
        dwarf: Any = elf.get_dwarf_info(relocate_dwarf_sections=False)
        for unit in dwarf.iter_CUs():
            found += _rows(dwarf.line_program_for_CU(unit))
    except _MALFORMED:
        return []
    return sorted(found, key=lambda row: row[0])


def _rows(program: Any) -> list[tuple[int, str, int]]:
    if program is None:
        return []
    states = [entry.state for entry in program.get_entries()]
    return [
        (state.address, _file_name(program.header, state.file), state.line)
        for state in states
        if state is not None and not state.end_sequence
    ]


def _file_name(header: Any, number: int) -> str:
    """By the header of a line table; numbers start at 1 before DWARF 5."""
    first = 1 if header["version"] < 5 else 0
    entry = header["file_entry"][number - first]
    name = str(entry["name"], "utf-8", "replace")
    folders: list[bytes] = list(header["include_directory"])
    folder: int = entry["dir_index"] - first
    if 0 <= folder < len(folders):
        return os.path.join(str(folders[folder], "utf-8", "replace"), name)
    return name


def _with_lines(text: str, table: list[tuple[int, str, int]]) -> str:
    """The assembly up to the end of the thread, with the lines of `table` as comments.

    What follows the end fills up the last fetch and never runs.
    """
    lines = text.splitlines()
    last = max((i for i, line in enumerate(lines) if END_OF_THREAD.search(line)), default=None)
    return "\n".join(_annotated(lines[: None if last is None else last + 1], table)) + "\n"


def _annotated(lines: list[str], table: list[tuple[int, str, int]]) -> Iterator[str]:
    address, position = 0, 0
    file: str | None = None
    number: int | None = None
    for line in lines:
        code = line.partition("//")[0].strip()
        if not code or (code.endswith(":") and " " not in code):
            yield line
            continue
        row: tuple[int, str, int] | None = None
        while position < len(table) and table[position][0] <= address:
            row = table[position]
            position += 1
        if row is not None and row[1] != file:
            file, number = row[1], None
            yield f"// File: {file}"
        if row is not None and row[2] != number:
            number = row[2]
            yield f"// Line {number}:"
        yield line
        address += 8 if _COMPACTED.search(line) else 16
