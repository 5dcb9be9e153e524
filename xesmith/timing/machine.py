"""What timed: the device, its clocks, the driver and the software, as this machine tells them."""

from __future__ import annotations

import platform
import shutil
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xesmith.timing.accelerator import Accelerator

_NVIDIA_FIELDS = {
    "clocks.sm": ("core_clock_hz", 1e6),
    "clocks.mem": ("memory_clock_hz", 1e6),
    "clocks.max.sm": ("highest_core_clock_hz", 1e6),
    "power.draw": ("power_watts", 1.0),
    "temperature.gpu": ("temperature_celsius", 1.0),
}
#: of Intel's drivers xe and i915, in MHz
_INTEL_CLOCKS = (
    "/sys/class/drm/card*/device/tile0/gt0/freq0/act_freq",
    "/sys/class/drm/card*/gt/gt0/rps_act_freq_mhz",
)
_QUERY_TIMEOUT_S = 20.0


def describe_device(accelerator: Accelerator) -> dict[str, Any]:
    """The device that was opened, and the software that drives it."""
    import torch

    found: dict[str, Any] = {
        "kind": accelerator.kind,
        "name": platform.processor() or platform.machine(),
        "torch": torch.__version__,
        "torch_cuda": torch.version.cuda,
        "torch_xpu": getattr(torch.version, "xpu", None),
        "triton": _triton_version(),
        "python": platform.python_version(),
        "system": platform.platform(),
    }
    if accelerator.kind == "cpu":
        return found
    backend: Any = getattr(torch, accelerator.kind)
    properties: Any = backend.get_device_properties(accelerator.device)
    found["name"] = properties.name
    for name in ("total_memory", "L2_cache_size", "driver_version", "multi_processor_count"):
        if hasattr(properties, name):
            found[name] = getattr(properties, name)
    if accelerator.kind == "cuda":
        found["compute_capability"] = ".".join(map(str, backend.get_device_capability()))
    return found


def _triton_version() -> str | None:
    try:
        return version("triton")
    except PackageNotFoundError:
        pass
    try:
        return version("triton-xpu")
    except PackageNotFoundError:
        return None


def clocks(kind: str) -> dict[str, Any]:
    """Clocks, power and temperature of the GPU at this moment; what cannot be read is missing."""
    if kind == "cuda":
        return _nvidia_clocks()
    if kind == "xpu":
        return _intel_clocks(Path("/"))
    return {}


def _nvidia_clocks() -> dict[str, Any]:
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return {}
    names = [*_NVIDIA_FIELDS, "driver_version"]
    query = [tool, f"--query-gpu={','.join(names)}", "--format=csv,noheader,nounits", "--id=0"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=_QUERY_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired):
        return {}
    return parse_nvidia(done.stdout) if done.returncode == 0 else {}


def parse_nvidia(line: str) -> dict[str, Any]:
    """nvidia-smi's line of the fields asked for, in Hz, watts and degrees."""
    found: dict[str, Any] = {}
    values = [value.strip() for value in line.strip().split(",")]
    for value, (name, unit) in zip(values, _NVIDIA_FIELDS.values(), strict=False):
        try:
            found[name] = float(value) * unit
        except ValueError:  # "[N/A]"
            continue
    if len(values) > len(_NVIDIA_FIELDS):
        found["driver"] = values[-1]
    return found


def _intel_clocks(root: Path) -> dict[str, Any]:
    for pattern in _INTEL_CLOCKS:
        for path in sorted(root.glob(pattern.lstrip("/"))):
            try:
                return {"core_clock_hz": float(path.read_text()) * 1e6}
            except (OSError, ValueError):
                continue
    return {}
