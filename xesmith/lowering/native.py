"""Native code from SPIR-V: what the driver would build for the device, with IGC's own listing.

The driver's choice of register file is reproduced. With grf_mode 'default' Triton's loader
builds once more with more registers when the first build spills too much; which of the two
then runs depends on the version (see `RetryRule`).
"""

from __future__ import annotations

import io
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

from xesmith.lowering.options import build_flags
from xesmith.lowering.record import LEVEL_FILES, Failure, Lowering
from xesmith.toolchain.record import NativeTools
from xesmith.worker.client import scrubbed_environment

OCLOC_TIMEOUT_SECONDS = 180.0
SPIRV_DIS_TIMEOUT_SECONDS = 60.0

_LEVELS = ("zebin", "ze_info", "asm", "native_log")
_DUMP_NAME = re.compile(r"_(?:(?P<retry>\d+)_)?simd\d+_.*\.asm$")
_SPILL = re.compile(r"^\s*spill_size:\s*(\d+)", re.M)
_GRF = re.compile(r"^\s*grf_count:\s*(\d+)", re.M)
_LINE = re.compile(r"^(// Line (\d+))\b.*$", re.M)  # without a file IGC quotes nothing
_FILE = re.compile(r"^// File: (.*)$", re.M)


@dataclass(frozen=True)
class RetryRule:
    """What Triton's loader does with grf_mode 'default'.

    When the first build spills more than `threshold_bytes` (per hardware thread) it builds
    again with the larger register file. `keeps_second` is False for 3.3, whose loader makes
    the second module in an inner scope and then loads the first one.
    """

    threshold_bytes: int
    keeps_second: bool


def retry_rule(triton_version: str) -> RetryRule:
    """The rule of an Intel Triton: 1000 bytes up to 3.7, any spill from 3.8 on."""
    numbers = re.findall(r"\d+", triton_version)
    version = (int(numbers[0]), int(numbers[1]))
    if version >= (3, 8):
        return RetryRule(threshold_bytes=0, keeps_second=True)
    return RetryRule(threshold_bytes=1000, keeps_second=version >= (3, 4))


@dataclass
class _Build:
    """One run of ocloc."""

    folder: Path
    seconds: float = 0.0
    failure: Failure | None = None
    levels: dict[str, str] = field(default_factory=dict[str, str])
    spill_bytes: int = 0  # per hardware thread
    grf_count: int = 0


def add_native(
    lowering: Lowering,
    tools: NativeTools,
    *,
    ocloc_device: str,
    larger_grf: str = "256",
    triton_version: str,
    source: str,
    timeout_s: float = OCLOC_TIMEOUT_SECONDS,
) -> Lowering:
    """`lowering` with the levels that ocloc, IGC and spirv-dis make of its SPIR-V.

    Args:
        ocloc_device: what `ocloc -device` calls the device.
        larger_grf: the GRF mode that a retry takes.
        source: the program's text; IGC quotes the file on disk, which may be another.

    A lowering without SPIR-V comes back with the native levels under `not_read`.
    """
    spirv = lowering.levels.get("spirv")
    if spirv is None:
        reason = "no SPIR-V was made"
        missing = dict.fromkeys((*_LEVELS, "spirv_text"), reason)
        return replace(lowering, not_read={**lowering.not_read, **missing})
    path = Path(spirv).absolute()  # the tools run in folders of their own
    levels = dict(lowering.levels)
    not_read = dict(lowering.not_read)
    disassemble_spirv(tools, path, levels, not_read)
    build, notes = _build_as_loaded(
        lowering, tools, path, ocloc_device, larger_grf, retry_rule(triton_version), timeout_s
    )
    levels.update(build.levels)
    if "asm" in levels:
        _quote(Path(levels["asm"]), lowering.launch.file, source)
    for name in _LEVELS:
        if name not in levels:
            not_read[name] = (
                build.failure.message if build.failure else "IGC wrote no assembly listing"
            )
    return replace(
        lowering,
        levels=levels,
        not_read=not_read,
        seconds={**lowering.seconds, "native": build.seconds},
        native_compiler=f"ocloc {tools.versions.get('ocloc', 'of unknown version')}",
        failure=lowering.failure or build.failure,
        notes=(*lowering.notes, *notes),
    )


def _build_as_loaded(
    lowering: Lowering,
    tools: NativeTools,
    spirv: Path,
    ocloc_device: str,
    larger_grf: str,
    rule: RetryRule,
    timeout_s: float,
) -> tuple[_Build, tuple[str, ...]]:
    """The build that Triton's loader would run, and what is to be told about it."""
    mode = str(lowering.launch.options.get("grf_mode", "default"))
    kernel = str(lowering.metadata.get("name", lowering.launch.kernel))

    def build(flags: str) -> _Build:
        return _run_ocloc(tools, spirv, kernel, ocloc_device, flags, timeout_s)

    first = build(build_flags(mode))
    if mode != "default" or first.failure or first.spill_bytes <= rule.threshold_bytes:
        return first, ()
    if first.grf_count >= int(larger_grf):
        return first, ()
    spilled = f"grf_mode 'default' spills {first.spill_bytes} B per thread at {first.grf_count} GRF"
    if not rule.keeps_second:
        return first, (
            f"{spilled}; this Triton's loader rebuilds with {larger_grf} GRF but runs the first "
            "build",
        )
    second = build(build_flags(larger_grf))
    second.seconds += first.seconds
    if second.failure is None:
        return second, (f"{spilled}, so Triton's loader rebuilds with {larger_grf} GRF",)
    first.seconds = second.seconds
    return build(build_flags(mode)), (f"{spilled}; a build with {larger_grf} GRF failed",)


def _run_ocloc(
    tools: NativeTools,
    spirv: Path,
    kernel: str,
    device: str,
    flags: str,
    timeout_s: float,
) -> _Build:
    folder = spirv.parent
    work = folder / "ocloc"
    shutil.rmtree(work, ignore_errors=True)
    dump = work / "dump"
    dump.mkdir(parents=True)
    log_path = folder / LEVEL_FILES["native_log"]
    made = _Build(folder)
    started = time.perf_counter()
    command = [*tools.ocloc, "compile", "-file", str(spirv), "-spirv_input"]
    command += ["-device", device, "-options", flags, "-out_dir", str(work), "-output", "kernel"]
    environment = {
        "IGC_ShaderDumpEnable": "1",
        "IGC_DumpToCustomDir": str(dump),
    }
    try:
        exit_code, log, timed_out = run_tool(command, work, timeout_s, environment)
        made.seconds = time.perf_counter() - started
        log_path.write_text(log)
        made.levels["native_log"] = str(log_path)
        if timed_out:
            made.failure = Failure(
                kind="timeout",
                level="native",
                message=f"ocloc did not end within {timeout_s:g} s",
                detail=log[-4000:],
            )
            return made
        _read_binary(made, work, kernel, exit_code, log)
        if made.failure is None:
            _keep_listing(made, dump)
        return made
    finally:
        shutil.rmtree(work, ignore_errors=True)


def run_tool(
    command: list[str], folder: Path, timeout_s: float, more: Mapping[str, str] | None = None
) -> tuple[int, str, bool]:
    """(exit code, output, whether it was ended at its limit) of a native tool, run in `folder`.

    Of the environment it sees what tasks see, and `more`.
    """
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**scrubbed_environment(), **(more or {})},
        cwd=folder,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=timeout_s)
        timed_out = False
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        timed_out = True
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise
    return process.returncode, output.decode(errors="replace"), timed_out


def _read_binary(made: _Build, work: Path, kernel: str, exit_code: int, log: str) -> None:
    """Takes the binary over, unless there is none or it holds no code."""
    binaries = sorted(work.glob("kernel*.bin"))
    if exit_code != 0 or not binaries:
        signalled = f"died by signal {-exit_code}" if exit_code < 0 else f"exit code {exit_code}"
        made.failure = Failure(
            kind="native",
            level="native",
            message=f"ocloc: {_cause(log) or signalled}",
            detail=log[-4000:],
            numbers={"exit_code": exit_code},
        )
        return
    data = binaries[0].read_bytes()
    info, fault = read_zebin(data, kernel)
    if fault is not None:
        made.failure = Failure(
            kind="native",
            level="native",
            message=f"ocloc gave a degenerate binary: {fault}",
            detail=log[-4000:],
            numbers={"exit_code": exit_code},
        )
        return
    for level, content in (("zebin", data), ("ze_info", info.encode())):
        path = made.folder / LEVEL_FILES[level]
        path.write_bytes(content)
        made.levels[level] = str(path)
    spill = _SPILL.search(info)
    made.spill_bytes = int(spill.group(1)) if spill else 0
    count = _GRF.search(info)
    made.grf_count = int(count.group(1)) if count else 0


def read_zebin(data: bytes, kernel: str) -> tuple[str, str | None]:
    """(.ze_info, None) of a native binary, or ("", what is missing in it)."""
    try:
        elf: Any = ELFFile(io.BytesIO(data))
        sections: dict[str, Any] = {s.name: s for s in elf.iter_sections()}
    except (ELFError, OSError) as error:
        return "", f"no ELF file ({error})"
    text = sections.get(f".text.{kernel}")
    if text is None or text["sh_size"] == 0:
        return "", f"no code for '{kernel}'"
    symbols = sections.get(".symtab")
    if symbols is None or not any(s.name == kernel for s in symbols.iter_symbols()):
        return "", f"no symbol '{kernel}'"
    info = sections.get(".ze_info")
    if info is None:
        return "", "no .ze_info section"
    return info.data().rstrip(b"\0").decode(errors="replace"), None


def _keep_listing(made: _Build, dump: Path) -> None:
    """Keeps the annotated assembly of IGC's last attempt."""
    listings: list[tuple[int, Path]] = []
    for path in dump.glob("*.asm"):
        if match := _DUMP_NAME.search(path.name):
            listings.append((int(match.group("retry") or 0), path))
    if not listings:
        return
    kept = made.folder / LEVEL_FILES["asm"]
    shutil.move(max(listings)[1], kept)
    made.levels["asm"] = str(kept)


def _quote(listing: Path, file: str, source: str) -> None:
    """Lets the listing quote the program that was compiled, not the file of the same name."""
    if Path(file).is_file() and Path(file).read_text(errors="replace") == source:
        return
    lines = source.splitlines()
    text = listing.read_text(errors="replace")
    current = ""

    def quoted(match: re.Match[str]) -> str:
        number = int(match.group(2))
        line = lines[number - 1].strip() if 0 < number <= len(lines) else ""
        return f"{match.group(1)}:  {line}"

    out: list[str] = []
    for line in text.splitlines(keepends=True):
        if named := _FILE.match(line):
            current = named.group(1).strip()
        if line.startswith("// Line ") and current in ("", file):
            line = _LINE.sub(quoted, line)
        out.append(line)
    listing.write_text("".join(out))


def disassemble_spirv(
    tools: NativeTools, spirv: Path, levels: dict[str, str], not_read: dict[str, str]
) -> None:
    """Puts the text of a SPIR-V file into `levels`, or into `not_read` why there is none."""
    if not tools.spirv_dis:
        not_read["spirv_text"] = "spirv-dis is not on this machine"
        return
    spirv = spirv.absolute()  # spirv-dis runs in its folder
    path = spirv.parent / LEVEL_FILES["spirv_text"]
    command = [*tools.spirv_dis, "--no-color", "-o", str(path), str(spirv)]
    code, log, timed_out = run_tool(command, spirv.parent, SPIRV_DIS_TIMEOUT_SECONDS)
    if code == 0:
        levels["spirv_text"] = str(path)
    else:
        said = log.strip().removeprefix("error: ").partition("; file '")[0]
        said = "it does not end" if timed_out else said[:200] or f"exit code {code}"
        not_read["spirv_text"] = f"spirv-dis: {said}"


def _cause(log: str) -> str | None:
    """The first line of ocloc's output that says what is wrong."""
    for line in log.splitlines():
        if "error" in line.lower() or "could not" in line.lower():
            return line.strip()
    return None
