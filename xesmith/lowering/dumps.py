"""Dumps that others made: files of one kernel, at any levels, as one Lowering without a launch.

A file is told by what it holds, not by its name alone. What no dump says stays unknown: the
grid is ANY_GRID, values are those that a user states, and each level without a file is named.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from xesmith.device import Device, device_of_target, load_device
from xesmith.errors import (
    NOT_UNDERSTOOD,
    ToolchainError,
    UnreadableLevelError,
    UsageError,
    XesmithError,
    nearest,
)
from xesmith.evidence.native import parse_assembly
from xesmith.ghost.launch import ANY_GRID, Launch
from xesmith.lowering.disassembly import (
    END_OF_THREAD,
    zebin_info,
    zebin_kernels,
    zebin_section,
    zebin_text,
)
from xesmith.lowering.native import add_native, disassemble_spirv
from xesmith.lowering.options import options_of_metadata
from xesmith.lowering.record import LEVEL_FILES, Lowering, without_launch
from xesmith.passes.dump import read_dump
from xesmith.passes.mlir import UNNAMED_TEXT, functions_of
from xesmith.toolchain.record import NativeTools

#: endings that Triton, IGC and ocloc give; of a folder only files that have one are looked at
SUFFIXES = (
    *(".ttir", ".ttgir", ".ttig", ".mlir", ".ll", ".llir", ".spv", ".spvasm", ".ptx", ".cubin"),
    *(".zebin", ".bin", ".elf", ".asm", ".ze_info", ".json"),
)
LARGEST_BYTES = 256 << 20
#: why a level is not read of which there is no file
NOT_GIVEN = "no dump of it was given"

_SPIRV_MAGIC = (b"\x03\x02\x23\x07", b"\x07\x23\x02\x03")
_INTEL_GT, _CUDA = 205, 190  # machines of ELF
_HEAD_CHARACTERS = 1 << 20
_ISA = re.compile(r"^(?:\(\S+\))?[ \t]*\w[\w.]* \(\d+\|M\d+\)", re.M)
_ENTRY_POINT = re.compile(r'^[ \t]*OpEntryPoint \w+ %\w+ "([^"\n]+)"', re.M)
_FUNCTION = re.compile(r"^[ \t]*%\w+ = OpFunction ", re.M)
_FUNCTION_END = re.compile(r"^[ \t]*OpFunctionEnd\b", re.M)
_PTX_ENTRY = re.compile(r"^[ \t]*(?:\.visible )?\.entry ([\w$]+)", re.M)
_PTX_TARGET = re.compile(r"^[ \t]*\.target\s+sm_(\d+)", re.M)
_TTGIR_TARGET = re.compile(r'"?ttg\.target"? = "(\w+):(\w+)"')
#: a row of IGC's table of inputs: the ids of a thread's lanes, one for each
_LANES = re.compile(r"\| :u?w x (\d+) +\|[^|]*\| r\d+ +\| pti\[tid\]")
#: an instruction that is not for all lanes whatever the mask, with its lanes and the first of them
_MASKED = re.compile(r"^[ \t]*(?!\(W)(?:\([^)\n]*\)[ \t]*)?[a-z]\S* \((\d+)\|M(\d+)\)", re.M)

_NAMES = {
    "ttir": "TTIR", "ttgir": "TTGIR", "llir": "LLVM IR", "spirv": "SPIR-V",
    "spirv_text": "SPIR-V assembly", "zebin": "a native binary", "asm": "native assembly",
    "ze_info": ".ze_info", "ptx": "PTX", "cubin": "a cubin", "metadata": "Triton's metadata",
}  # fmt: skip
#: those of Evidence that each kind of device has
_LEVELS = {"xpu": ("ttir", "ttgir", "spirv", "native"), "cuda": ("ttir", "ttgir", "ptx")}
#: what one of them alone tells nothing about the kernel
_NOT_READ_ALONE = {
    "llir": "name the .spv or .ptx that was made of it",
    "cubin": "name the .ptx that it was made of: registers and spills of a cubin are not read",
    "ze_info": "name the zebin, or the .asm beside it",
    "metadata": "name the files of the kernel's levels beside it",
}


@dataclass(frozen=True)
class Dump:
    """A file and the level that it holds, a key of LEVEL_FILES or "metadata"."""

    path: Path
    level: str
    data: bytes = field(repr=False)

    @property
    def text(self) -> str:
        return self.data.decode("utf-8", errors="replace")


def is_dump(path: Path) -> bool:
    """Whether a path is to be read as dumps rather than run as a script."""
    if path.is_dir() or path.suffix in SUFFIXES:
        return True
    return path.suffix != ".py" and path.is_file() and _level_of(_content(path)) is not None


def find_dumps(paths: Sequence[Path]) -> tuple[Dump, ...]:
    """The dumps among files and folders; at most one of a level.

    Raises:
        UsageError: a file is no dump or cannot be read, or there are two of one level.
    """
    found: dict[str, Dump] = {}
    for path in paths:
        for dump in _in_folder(path) if path.is_dir() else [_named(path)]:
            other = found.get(dump.level)
            if other is not None and _is_generic(other) == _is_generic(dump):
                raise UsageError(
                    f"two files hold {_NAMES[dump.level]}: {other.path.name}, {dump.path.name}",
                    where=str(dump.path),
                    remedy="name the files of one kernel only",
                )
            if other is None or _is_generic(dump):
                found[dump.level] = dump
    if not found:
        raise UsageError(
            "no dump is in it",
            where=str(paths[0]),
            remedy="name files, or a folder with files, that end in " + ", ".join(SUFFIXES[:-1]),
        )
    if (remedy := _alone(set(found))) is not None:
        names = " and ".join(_NAMES[level] for level in found)
        raise UsageError(f"{names} is not read", where=str(paths[0]), remedy=remedy)
    return tuple(found.values())


def _alone(levels: set[str]) -> str | None:
    """The remedy where nothing that is read is among the levels."""
    if levels <= set(_NOT_READ_ALONE):
        return next(remedy for level, remedy in _NOT_READ_ALONE.items() if level in levels)
    return None


def _in_folder(folder: Path) -> list[Dump]:
    dumps: list[Dump] = []
    for path in sorted(folder.iterdir()):
        if path.suffix in SUFFIXES and path.is_file() and not path.name.startswith("__grp__"):
            data = _content(path)
            level = _level_of(data)
            if level is not None:
                dumps.append(Dump(path, level, data))
    return dumps


def _named(path: Path) -> Dump:
    data = _content(path)
    level = _level_of(data)
    if level is None:
        raise UsageError(
            "this is no dump that xesmith knows: "
            + ("it is empty" if not data else _what_it_is(data)),
            where=str(path),
            remedy="name TTIR, TTGIR, SPIR-V (binary or text), a zebin, IGC's .asm or PTX",
        )
    return Dump(path, level, data)


def _content(path: Path) -> bytes:
    try:
        size = path.stat().st_size
        if size > LARGEST_BYTES:
            raise UsageError(f"it has {size} B, over {LARGEST_BYTES} B", where=str(path))
        return path.read_bytes()
    except OSError as error:
        raise UsageError(
            f"the file can't be read: {error.strerror or error}",
            where=str(path),
            remedy="name a dump, or a folder with the dumps of one kernel",
        ) from error


def _what_it_is(data: bytes) -> str:
    if data[:4] == b"\x7fELF":
        machine = int.from_bytes(data[18:20], "little")
        return f"an ELF file for machine {machine}, not for an Intel GPU ({_INTEL_GT})"
    if data[:8] == b"!<arch>\n":
        return "an archive for several devices; ocloc makes one for each: ocloc -device ONE"
    if data[:4] == b"BC\xc0\xde":
        return "LLVM bitcode"
    return "its content is none of theirs"


def _level_of(data: bytes) -> str | None:
    if data[:4] in _SPIRV_MAGIC:
        return "spirv"
    if data[:4] == b"\x7fELF":
        return {_INTEL_GT: "zebin", _CUDA: "cubin"}.get(int.from_bytes(data[18:20], "little"))
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return _level_of_text(text)


def _level_of_text(text: str) -> str | None:
    head = text[:_HEAD_CHARACTERS]
    if head.lstrip().startswith("{"):
        return "metadata" if _metadata(text) is not None else None
    if "; SPIR-V" in head[:200] or re.search(r"^[ \t]*OpMemoryModel ", head, re.M):
        return "spirv_text"
    if re.search(r"^[ \t]*\.version\s", head, re.M) and re.search(r"^[ \t]*\.target\s", head, re.M):
        return "ptx"
    if head.startswith("//.kernel ") or _ISA.search(head):
        return "asm"
    if "execution_env:" in head and "kernels:" in head:
        return "ze_info"
    if "builtin.module" in head or re.search(r"^module\b", head, re.M):
        return "ttgir" if re.search(r"\b(ttg|ttng|triton_gpu)\.", text) else "ttir"
    if re.search(r"^(; ModuleID|source_filename|target triple|define )", head, re.M):
        return "llir"
    return None


def _is_generic(dump: Dump) -> bool:
    return dump.level in ("ttir", "ttgir") and b'"builtin.module"(' in dump.data


def _metadata(text: str) -> dict[str, Any] | None:
    """What Triton keeps beside a kernel's files; None for any other JSON."""
    try:
        found: Any = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or "num_warps" not in found:
        return None
    return cast("dict[str, Any]", found)


def metadata_of(dumps: Sequence[Dump]) -> dict[str, Any]:
    """Triton's metadata among the dumps; {} without."""
    for dump in dumps:
        if dump.level == "metadata":
            return _metadata(dump.text) or {}
    return {}


def device_of(dumps: Sequence[Dump], target: str | None, default: str = "bmg-g31") -> Device:
    """The device that is named, else the one that the dumps were made for, else `default`.

    Raises:
        UsageError: there is no such device, or it is of another kind than the dumps.
    """
    backend, arch = _target_of(dumps)
    if target is not None or backend is None:
        device = load_device(target or default)
        if backend not in (None, device.kind):
            raise UsageError(f"'{device.name}' is {device.kind}, the dumps are for {backend}")
        return device
    device = device_of_target(backend, arch)
    if device is None and backend == "xpu":
        return load_device(default)
    if device is None:
        raise UsageError(
            f"no device file is for {backend}:{arch}", remedy="name the device: --target NAME"
        )
    return device


def _target_of(dumps: Sequence[Dump]) -> tuple[str | None, str]:
    """(backend, architecture) as Triton names them; None where no dump says so."""
    target: Any = metadata_of(dumps).get("target")
    if isinstance(target, dict) and "backend" in target:
        named = cast("dict[str, Any]", target)
        arch: Any = named.get("arch")
        name: Any = cast("dict[str, Any]", arch).get("name") if isinstance(arch, dict) else arch
        return str(named["backend"]), str(name)
    for dump in dumps:
        if dump.level in ("spirv", "spirv_text", "zebin", "asm"):
            return "xpu", ""
        if dump.level == "ptx":
            found = _PTX_TARGET.search(dump.text)
            return "cuda", found.group(1) if found else ""
        if dump.level == "ttgir" and (named_in := _TTGIR_TARGET.search(dump.text)):
            return named_in.group(1), named_in.group(2)
    return None, ""


@dataclass
class _Work:
    """The lowering as it is put together."""

    folder: Path
    device: Device
    tools: NativeTools | None
    toolchain: str | None
    has_listing: bool  # IGC's own, which tells more than a disassembly
    levels: dict[str, str] = field(default_factory=dict[str, str])
    not_read: dict[str, str] = field(default_factory=dict[str, str])
    notes: list[str] = field(default_factory=list[str])
    names: dict[str, list[str]] = field(default_factory=dict[str, list[str]])  # per file
    site: tuple[str, int] = ("", 0)
    arguments: dict[str, str] | None = None

    def keep(self, level: str, content: bytes | str) -> Path:
        path = self.folder / LEVEL_FILES[level]
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        self.levels[level] = str(path)
        return path


_Reader = Callable[[_Work, Dump, "str | None"], None]


def lower_dumps(
    dumps: Sequence[Dump],
    device: Device,
    folder: Path,
    *,
    tools: NativeTools | None,
    toolchain: str | None = None,
    kernel: str | None = None,
    values: Mapping[str, Any] | None = None,
    grid: tuple[int, int, int] | None = None,
    build_native: bool = False,
) -> Lowering:
    """The dumps as a Lowering; its new files go into `folder`.

    Args:
        kernel: which one, where a file holds several.
        values: of arguments, as the user states them.
        grid: likewise; None: not known.
        build_native: has ocloc compile the SPIR-V where no native code is among the dumps.

    Raises:
        UsageError: they are of different kernels, or the only one of them is malformed.
        ToolchainError: what the only one of them needs is not on this machine.
    """
    metadata = metadata_of(dumps)
    given = {dump.level: dump for dump in dumps}
    work = _Work(folder, device, tools, toolchain, has_listing="asm" in given)
    readers = {
        "ttir": _read_ir,
        "ttgir": _read_ir,
        "spirv_text": _read_spirv_text,
        "spirv": _read_spirv,
        "ptx": _read_ptx,
        "ze_info": _read_ze_info,
        "zebin": _read_zebin,
        "asm": _read_asm,
    }
    levels = [level for level in readers if level in given]
    for level in levels:
        dump = given[level]
        try:
            _understood(readers[level], work, dump, kernel)
        except XesmithError as error:
            if len(levels) == 1 or isinstance(error, UsageError):
                raise _at(error, dump) from error
            work.not_read[_evidence_level(level)] = error.what
    for level in _LEVELS[device.kind]:
        if not any(_evidence_level(one) == level for one in (*levels, *work.levels)):
            work.not_read.setdefault(level, NOT_GIVEN)
    if device.kind != "xpu":
        work.not_read |= dict.fromkeys(("spirv", "native"), "this compiler lowers to PTX")
    for level in ("llir", "cubin"):
        if level in given:
            note = f"{given[level].path.name} is not read; {_NOT_READ_ALONE[level]}"
            work.notes.append(note)
    launch = _launch(work, metadata, kernel, values or {}, grid)
    version = metadata.get("triton_version")
    distribution = "triton-xpu" if device.kind == "xpu" else "triton"
    lowering = Lowering(
        launch=launch,
        device=device.name,
        compiler=f"{distribution} {version}" if version else "not known",
        native_compiler=None,
        levels=work.levels,
        metadata={**metadata, "name": launch.kernel},
        seconds={},
        not_read=work.not_read,
        notes=tuple(work.notes),
    )
    if grid is None:
        lowering = without_launch(lowering)
    return _with_native(lowering, work) if build_native else lowering


def _understood(reader: _Reader, work: _Work, dump: Dump, kernel: str | None) -> None:
    try:
        reader(work, dump, kernel)
    except NOT_UNDERSTOOD as error:
        raise UnreadableLevelError(
            f"{_NAMES[dump.level]} is malformed: {type(error).__name__}: {str(error)[:200]}"
        ) from error


def _at(error: XesmithError, dump: Dump) -> XesmithError:
    kind = UsageError if isinstance(error, UnreadableLevelError) else type(error)
    return kind(error.what, where=error.where or str(dump.path), remedy=error.remedy)


def _evidence_level(level: str) -> str:
    """The level of Evidence that a file belongs to."""
    return {
        "spirv_text": "spirv", "zebin": "native", "asm": "native", "ze_info": "native",
        "ttir_generic": "ttir", "ttgir_generic": "ttgir",
    }.get(level, level)  # fmt: skip


def _with_native(lowering: Lowering, work: _Work) -> Lowering:
    if "asm" in lowering.levels or "spirv" not in lowering.levels:
        return lowering
    if work.tools is None or work.device.ocloc_name is None:
        raise ToolchainError(
            "native code cannot be built: "
            + ("no ocloc on this machine" if work.tools is None else "ocloc knows no such device"),
            remedy="xesmith toolchain install xpu",
        )
    left = {k: v for k, v in lowering.not_read.items() if k != "native"}
    built = f"native code was built here for {work.device.title}, it is no dump"
    return add_native(
        replace(lowering, not_read=left, notes=(*lowering.notes, built)),
        work.tools,
        ocloc_device=work.device.ocloc_name,
        larger_grf="512" if work.device.name == "cri" else "256",
        triton_version=str(lowering.metadata.get("triton_version") or "3.9.0"),
        source=_source(lowering.launch.file),
    )


def _source(file: str) -> str:
    try:
        return Path(file).read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


# -- levels ----------------------------------------------------------------------------------


def _read_ir(work: _Work, dump: Dump, kernel: str | None) -> None:
    text = read_dump(dump.path, work.device, work.toolchain, level=dump.level)
    functions = {function.name: function for function in functions_of(text)}
    public = [name for name, function in functions.items() if function.is_public]
    names = public or list(functions)
    if not names:
        raise UnreadableLevelError("there is no kernel (tt.func) in the module")
    name = _chosen(work, dump, names, kernel)
    function = functions[name]
    work.keep(f"{dump.level}_generic", text)
    if work.arguments is None:
        work.arguments = dict(function.arguments)
        if function.file is not None:
            # MLIR gives operations without a location that of the text itself.
            file = str(dump.path) if function.file == UNNAMED_TEXT else function.file
            work.site = (file, function.line or 0)


def _read_spirv(work: _Work, dump: Dump, kernel: str | None) -> None:
    path = work.keep("spirv", dump.data)
    if "spirv_text" in work.levels:
        return  # the text was given too
    if work.tools is None:
        raise ToolchainError(
            "spirv-dis is not on this machine", remedy="xesmith toolchain install xpu"
        )
    disassemble_spirv(work.tools, path, work.levels, work.not_read)
    if (why := work.not_read.pop("spirv_text", None)) is not None:
        raise UnreadableLevelError(f"the SPIR-V is malformed: {why}")
    text = Path(work.levels["spirv_text"]).read_text("utf-8", errors="replace")
    work.keep("spirv_text", text)  # names in it may be any bytes
    _entry_points(work, dump, text, kernel)


def _read_spirv_text(work: _Work, dump: Dump, kernel: str | None) -> None:
    _entry_points(work, dump, dump.text, kernel)
    work.keep("spirv_text", dump.text)


def _entry_points(work: _Work, dump: Dump, text: str, kernel: str | None) -> None:
    names = _ENTRY_POINT.findall(text)
    if not names:
        raise UnreadableLevelError("the SPIR-V has no entry point")
    if len(_FUNCTION.findall(text)) != len(_FUNCTION_END.findall(text)):
        raise UnreadableLevelError("the SPIR-V is cut off: a function has no end")
    if len(names) > 1:
        work.notes.append(f"counts of SPIR-V are of all {len(names)} kernels of the module")
    _chosen(work, dump, names, kernel)


def _read_ptx(work: _Work, dump: Dump, kernel: str | None) -> None:
    names = _PTX_ENTRY.findall(dump.text)
    if not names:
        raise UnreadableLevelError("the PTX has no entry")
    if dump.data.count(b"{") != dump.data.count(b"}"):
        raise UnreadableLevelError("the PTX is cut off: a brace is not closed")
    if len(names) > 1:
        work.notes.append(f"counts of PTX are of all {len(names)} kernels of the module")
    _chosen(work, dump, names, kernel)
    work.keep("ptx", dump.text)


def _read_ze_info(work: _Work, dump: Dump, kernel: str | None) -> None:
    work.keep("ze_info", dump.text)


def _read_zebin(work: _Work, dump: Dump, kernel: str | None) -> None:
    names = zebin_kernels(dump.data, str(dump.path))
    name = _chosen(work, dump, names, kernel)
    if "spirv" not in work.levels and "spirv_text" not in work.levels:
        _read_spirv_inside(work, dump, kernel)
    if work.has_listing:
        work.keep("ze_info", zebin_info(dump.data, name, str(dump.path)))
        return
    if work.tools is None:
        raise ToolchainError("no ocloc on this machine", remedy="xesmith toolchain install xpu")
    scratch = work.folder / "disasm"
    scratch.mkdir()
    info, assembly = zebin_text(dump.data, name, work.tools, scratch, str(dump.path))
    work.keep("zebin", dump.data)
    work.keep("ze_info", info)
    work.keep("asm", assembly)
    work.notes.append(
        "native code is disassembled: pipes, bank conflicts and the register allocator are in "
        "IGC's own listing only"
    )
    if not work.site[0] and (file := re.search(r"^// File: (.*)$", assembly, re.M)):
        work.site = (file.group(1), 0)


def _read_spirv_inside(work: _Work, dump: Dump, kernel: str | None) -> None:
    """The SPIR-V that a binary carries, where it does."""
    section = zebin_section(dump.data, ".spv")
    if section is None or section[:4] not in _SPIRV_MAGIC:
        return
    try:
        _read_spirv(work, replace(dump, level="spirv", data=section), kernel)
        work.notes.append("the SPIR-V is the one that the native binary carries")
    except XesmithError as error:
        work.not_read["spirv"] = error.what


def _read_asm(work: _Work, dump: Dump, kernel: str | None) -> None:
    assembly = parse_assembly(dump.text)
    if END_OF_THREAD.search(dump.text) is None:
        raise UnreadableLevelError("the assembly is cut off: no instruction ends the thread")
    if assembly.kernel is not None:
        _chosen(work, dump, [assembly.kernel], kernel)
    if "ze_info" not in work.levels:
        work.keep("ze_info", _header_as_ze_info(dump))
        work.notes.append(
            f"{dump.path.name} alone does not tell barriers, private memory, hardware threads"
        )
    work.keep("asm", dump.text)
    if not work.site[0] and (file := re.search(r"^// File: (.*)$", dump.text, re.M)):
        work.site = (file.group(1).strip(), 0)


def _header_as_ze_info(dump: Dump) -> str:
    """What a listing's header tells, in the words of .ze_info.

    Raises:
        UnreadableLevelError: it does not tell the registers or the lanes.
    """
    assembly = parse_assembly(dump.text)
    lanes = _lanes(dump.text)
    if assembly.grf_count is None or lanes is None:
        raise UnreadableLevelError(
            "the listing tells no register count or no SIMD size",
            remedy="name the zebin, or its .ze_info beside the listing",
        )
    environment = {
        "grf_count": assembly.grf_count,
        "simd_size": lanes,
        "spill_size": assembly.spill_bytes or 0,
        "has_dpas": any(item.kind == "dpas" for item in assembly.instructions),
        **dict.fromkeys(("barrier_count", "private_size", "eu_thread_count")),
    }
    name = assembly.kernel or "kernel"
    return json.dumps({"kernels": [{"name": name, "execution_env": environment}]})


def _lanes(text: str) -> int | None:
    """The SIMD size of a kernel: ids of a thread's lanes, else the highest lane that is masked."""
    if (ids := _LANES.search(text)) is not None:
        return int(ids.group(1))
    lanes = max((int(n) + int(first) for n, first in _MASKED.findall(text)), default=0)
    return lanes if lanes in (8, 16, 32) else None


# -- the kernel ------------------------------------------------------------------------------


def _chosen(work: _Work, dump: Dump, names: list[str], kernel: str | None) -> str:
    """The kernel of a file that is meant.

    Raises:
        UsageError: the file has none of that name, or several and none is named.
    """
    if kernel is not None and kernel not in names:
        raise UsageError(
            f"no kernel '{kernel}' in it", where=str(dump.path), remedy=nearest(kernel, names)
        )
    if kernel is None and len(names) > 1:
        shown = ", ".join(names[:10])
        raise UsageError(
            f"it holds {len(names)} kernels: {shown}",
            where=str(dump.path),
            remedy=f"name one: --kernel {names[0]}",
        )
    chosen = kernel or names[0]
    for file, others in work.names.items():
        if chosen not in others:
            raise UsageError(
                f"the files are of different kernels: {file} holds {others[0]}, "
                f"{dump.path.name} holds {chosen}",
                where=str(dump.path),
                remedy="name the files of one kernel only",
            )
    work.names[dump.path.name] = [chosen]
    return chosen


def _launch(
    work: _Work,
    metadata: Mapping[str, Any],
    kernel: str | None,
    values: Mapping[str, Any],
    grid: tuple[int, int, int] | None,
) -> Launch:
    known = work.arguments
    for name in values:
        if known is not None and name not in known:
            raise UsageError(f"the kernel has no argument '{name}'", remedy=nearest(name, known))
    names = [name for names in work.names.values() for name in names]
    file, line = work.site
    return Launch(
        index=0,
        kernel=kernel or (names[0] if names else str(metadata.get("name") or "kernel")),
        file=file,
        line=line,
        grid=ANY_GRID if grid is None else grid,
        signature=dict(known or {}),
        values=dict(values),
        constexprs={},
        divisible_by_16=(),
        options=options_of_metadata(metadata),
    )
