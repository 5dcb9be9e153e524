"""From a lowering's files to one Evidence record, and the schema of that record."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar, cast

from xesmith.errors import NOT_UNDERSTOOD, UnreadableLevelError
from xesmith.evidence.native import read_native
from xesmith.evidence.ptx import read_ptx
from xesmith.evidence.record import Evidence, Native, Send2D, Site, Ttgir
from xesmith.evidence.spirv import read_spirv
from xesmith.evidence.ttgir import read_ttgir
from xesmith.evidence.ttir import read_ttir
from xesmith.lowering.record import Lowering

_T = TypeVar("_T")

_DEBUG_OPCODES = frozenset(
    {
        "OpLine", "OpNoLine", "OpString", "OpSource", "OpSourceExtension", "OpName",
        "OpMemberName", "OpModuleProcessed",
    }
)  # fmt: skip
_ID = re.compile(r"%\w+")


def read(lowering: Lowering) -> Evidence:
    """Reads every level that is there; `not_read` names each other one with the reason.

    A level that is there but malformed counts as not read: nothing is guessed.
    """
    missing: dict[str, str] = {}

    def level(name: str, files: tuple[str, ...], reader: Callable[[list[str]], _T]) -> _T | None:
        absent = next((file for file in files if file not in lowering.levels), None)
        if absent is not None:
            missing[name] = _why_absent(lowering, name, absent)
            return None
        try:
            return reader([Path(lowering.levels[file]).read_text("utf-8") for file in files])
        except (OSError, UnicodeDecodeError) as error:
            missing[name] = f"the file of level {name} can't be read: {error}"
        except UnreadableLevelError as error:
            missing[name] = error.what
        except NOT_UNDERSTOOD as error:
            # A compiler newer than the reader: name it, and count nothing as read.
            kind = type(error).__name__
            missing[name] = f"the reader of {name} does not understand this file: {kind}: {error}"
        return None

    launch = lowering.launch
    shared = lowering.metadata.get("shared")
    shared_bytes = shared if isinstance(shared, int) else None
    ttir = level("ttir", ("ttir_generic",), lambda t: read_ttir(t[0], launch))
    ttgir = level(
        "ttgir",
        ("ttgir_generic",),
        lambda t: read_ttgir(t[0], launch, lowering.metadata),
    )
    spirv = level("spirv", ("spirv_text",), lambda t: read_spirv(t[0]))
    native = level(
        "native",
        ("ze_info", "asm"),
        lambda t: read_native(
            t[0],
            t[1],
            kernel=_native_name(lowering),
            arguments=[n for n, kind in launch.signature.items() if kind != "constexpr"],
            shared_bytes=shared_bytes,
            source_file=launch.file or None,
        ),
    )
    if native is not None and ttgir is not None:
        native = _with_lines(native, ttgir)
    # Intel GPUs have no PTX: its absence there is nothing to tell.
    ptx = level("ptx", ("ptx",), lambda t: read_ptx(t[0])) if "ptx" in lowering.levels else None
    return Evidence(
        kernel=launch.kernel,
        device=lowering.device,
        compiler=lowering.compiler,
        native_compiler=lowering.native_compiler,
        launch=_as_json(launch.to_json()),
        ttir=ttir,
        ttgir=ttgir,
        spirv=spirv,
        native=native,
        ptx=ptx,
        not_read={**lowering.not_read, **missing},
        notes=lowering.notes,
        suppress=lowering.suppress,
        failure=None if lowering.failure is None else _as_json(asdict(lowering.failure)),
    )


def _as_json(value: Any) -> Any:
    """With lists for tuples, so that a record equals what is read back from its JSON."""
    if isinstance(value, dict):
        return {k: _as_json(v) for k, v in cast("dict[str, Any]", value).items()}
    if isinstance(value, (list, tuple)):
        return [_as_json(item) for item in cast("list[Any]", value)]
    return value


def _why_absent(lowering: Lowering, level: str, file: str) -> str:
    if (reason := lowering.not_read.get(file) or lowering.not_read.get(level)) is not None:
        return reason
    if lowering.failure is not None:
        return f"lowering failed at {lowering.failure.level}: {lowering.failure.message}"
    if "ptx" in lowering.levels:
        return "this compiler lowers to PTX"
    return f"the lowering has no file of {file}"


def _native_name(lowering: Lowering) -> str | None:
    name = lowering.metadata.get("name")
    return name if isinstance(name, str) else None


def _with_lines(native: Native, ttgir: Ttgir) -> Native:
    """Gives each 2D message the line of the access that it comes from.

    Assembly states no line for it (the built-in has none); its argument tells, where the
    kernel has one access of that kind to that argument. A message whose base was spilled
    tells no argument; it is the only one that can be meant, where there is only one.
    """
    sites: dict[tuple[str, str], set[Site]] = {}
    for access in ttgir.accesses:
        meant = access.block_io is not None or access.op == "store"
        if meant and access.argument is not None and access.reached and len(access.shape) > 1:
            sites.setdefault((access.op, access.argument), set()).add(access.site)
    sends: list[Send2D] = []
    for send in native.sends_2d:
        argument = send.argument
        if argument is None:
            possible = [name for op, name in sites if op == send.op]
            argument = possible[0] if len(possible) == 1 else None
        found = sites.get((send.op, argument or ""), set())
        site = next(iter(found)) if len({(s.file, s.line) for s in found}) == 1 else send.site
        sends.append(send.model_copy(update={"site": site, "argument": argument}))
    return native.model_copy(update={"sends_2d": tuple(sends)})


def lowered_content(lowering: Lowering) -> bytes | None:
    """The code that was made of a launch, without debug information, with native options.

    SPIR-V text with its ids renumbered, or PTX without line directives: two sources that
    differ in names, comments or line numbers alone give the same bytes. Without a
    disassembler it is the SPIR-V itself, with its names and lines. None where no such level
    was made.
    """
    if "spirv_text" in lowering.levels:
        code = _bare_spirv(Path(lowering.levels["spirv_text"]).read_text("utf-8")).encode()
    elif "spirv" in lowering.levels:
        code = Path(lowering.levels["spirv"]).read_bytes()
    elif "ptx" in lowering.levels:
        code = _bare_ptx(Path(lowering.levels["ptx"]).read_text("utf-8")).encode()
    else:
        return None
    flags = lowering.metadata.get("build_flags") or ""
    shared = lowering.metadata.get("shared") or 0
    warps = lowering.metadata.get("num_warps") or 0
    head = f"{lowering.device}\n{flags}\nshared={shared} warps={warps}\n"
    return head.encode() + code


def lowered_hash(lowering: Lowering) -> str | None:
    """SHA-256 of `lowered_content`: the same hash means that nothing changed."""
    content = lowered_content(lowering)
    return None if content is None else hashlib.sha256(content).hexdigest()


def _bare_spirv(text: str) -> str:
    debug_sets: set[str] = set()
    kept: list[str] = []
    for raw in text.splitlines():
        line = raw.strip()
        if not line or line[0] == ";":
            continue
        result, _, rest = line.rpartition(" = ") if line[0] == "%" else ("", "", line)
        tokens = rest.split(None, 3)
        opcode = tokens[0]
        if opcode in _DEBUG_OPCODES:
            continue
        if opcode == "OpExtInstImport" and "DebugInfo" in rest:
            debug_sets.add(result)
            continue
        if opcode == "OpExtInst" and len(tokens) > 2 and tokens[2] in debug_sets:
            continue
        kept.append(line)
    numbers: dict[str, str] = {}
    return _ID.sub(lambda m: numbers.setdefault(m.group(), f"%{len(numbers)}"), "\n".join(kept))


def _bare_ptx(text: str) -> str:
    kept: list[str] = []
    for raw in text.splitlines():
        line = raw.partition("//")[0].strip()
        if line.startswith(".section"):
            break  # DWARF follows to the end
        if line and not line.startswith((".loc", ".file", "$L__tmp", "$L__func")):
            kept.append(line)
    return "\n".join(kept)


def schema() -> dict[str, Any]:
    """The JSON schema of an Evidence record, as docs/schema/evidence.schema.json has it."""
    body = Evidence.model_json_schema(mode="serialization")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **body,
    }
