"""Asking the native tools whether they work, by letting them work.

A missing library, a truncated binary or an ocloc without its IGC all show only when a kernel
is compiled, so that is what is done: 216 bytes of SPIR-V, about 30 ms.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from xesmith.toolchain.record import NativeTools

_TIMEOUT_SECONDS = 60.0

#: `kernel void probe(global uint *a) { *a = 7; }` for SPIR-V 1.0 (Physical64, OpenCL)
PROBE_SPIRV = bytes.fromhex(
    "03022307000001000000070009000000000000001100020004000000110002000600000011000200050000000e"
    "00030002000000020000000f000500060000000100000070726f62650000001300020002000000150004000300"
    "00002000000000000000200004000400000005000000030000002b000400030000000500000007000000210004"
    "000600000002000000040000003600050002000000010000000000000006000000370003000400000007000000"
    "f8000200080000003e00050007000000050000000200000004000000fd00010038000100"
)


@dataclass(frozen=True)
class Answer:
    """What a tool said: `returncode` is negative for a signal, None where it never ended or
    could not be started."""

    returncode: int | None
    output: str  # stdout and stderr

    @property
    def ok(self) -> bool:
        return self.returncode == 0

    @property
    def reason(self) -> str:
        """One line for a diagnosis."""
        lines = [line.strip() for line in self.output.splitlines() if line.strip()]
        telling = [line for line in lines if re.search(r"error|cannot|fail|unknown", line, re.I)]
        last = (telling or lines or ["it printed nothing"])[0]
        if self.returncode is None:
            return last
        if self.returncode < 0:
            return f"ended by signal {-self.returncode}"
        return f"exit code {self.returncode}: {last}"


def ask(command: tuple[str, ...] | list[str], *, folder: Path | None = None) -> Answer:
    """Runs a tool to its end and never raises for what the tool does."""
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_SECONDS,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Answer(None, f"it did not end within {_TIMEOUT_SECONDS:.0f} s")
    except OSError as error:
        return Answer(None, error.strerror or str(error))
    return Answer(done.returncode, done.stdout + done.stderr)


def ocloc_version(ocloc: tuple[str, ...]) -> str | None:
    """What `ocloc --version` prints ("26.27.039122"), None where it does not answer.

    Releases before 2025 know no --version; they answer a query with a file.
    """
    with tempfile.TemporaryDirectory(prefix="xesmith-ocloc-") as name:
        folder = Path(name)
        for command in ([*ocloc, "--version"], [*ocloc, "query", "OCL_DRIVER_VERSION"]):
            answer = ask(command, folder=folder)
            found = re.search(r"^\d+\.\d+\.\d+\S*", answer.output, re.MULTILINE)
            if answer.ok and found:
                return found.group()
        written = folder / "OCL_DRIVER_VERSION"
        return written.read_text(errors="replace").strip() or None if written.is_file() else None


def knows_device(ocloc: tuple[str, ...], device: str) -> bool:
    """Whether this ocloc knows the device's acronym."""
    return ask([*ocloc, "ids", device]).ok


def spirv_tools_version(spirv_dis: tuple[str, ...]) -> str | None:
    found = re.search(r"SPIRV-Tools v(\S+)", ask([*spirv_dis, "--version"]).output)
    return found.group(1) if found else None


def fault(tools: NativeTools, device: str) -> str | None:
    """Why these tools do not work, as one sentence; None where all do.

    Compiles a kernel for `device`, reads the SPIR-V back, and starts the assembler.
    """
    with tempfile.TemporaryDirectory(prefix="xesmith-probe-") as name:
        folder = Path(name)
        (folder / "probe.spv").write_bytes(PROBE_SPIRV)
        compile_probe = ["compile", "-file", "probe.spv", "-spirv_input", "-device", device]
        answer = ask(
            [*tools.ocloc, *compile_probe, "-out_dir", "out", "-output", "probe"], folder=folder
        )
        binaries = list((folder / "out").glob("probe*.bin"))
        if not answer.ok:
            return f"ocloc cannot compile for {device} ({answer.reason})"
        if not binaries or not binaries[0].read_bytes().startswith(b"\x7fELF"):
            return f"ocloc said that it compiled for {device} but wrote no device binary"
        for title, prefix, arguments, expected in (
            ("spirv-dis", tools.spirv_dis, ("probe.spv",), "OpEntryPoint"),
            ("spirv-val", tools.spirv_val, ("probe.spv",), ""),
            ("iga64", tools.iga64, ("-h",), "Intel Graphics Assembler"),
        ):
            if not prefix:
                continue
            answer = ask([*prefix, *arguments], folder=folder)
            if not answer.ok or expected not in answer.output:
                return f"{title} does not work ({answer.reason})"
    return None
