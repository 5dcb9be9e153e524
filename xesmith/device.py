"""The noun Device: what is known of one GPU, each fact with its source.

A device is a YAML file under knowledge/devices/. A fact that no source gives is absent, and
everything that needs it says so instead of assuming a neighbour's value.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal, cast

from xesmith.assets import asset_folder
from xesmith.errors import UsageError, nearest

Kind = Literal["xpu", "cuda"]


@dataclass(frozen=True)
class Fact:
    """A value and where it comes from ("driver: ...", "spec: ...", "secondary: ...")."""

    value: Any
    source: str
    note: str | None = None


#: every fact that a device file may state: name -> (type, unit and meaning)
FACTS: dict[str, tuple[type, str]] = {
    "device_ids": (list, "PCI device ids"),
    "ip_version": (str, "graphics IP version, major.minor.revision"),
    "compute_capability": (str, "CUDA compute capability, major.minor"),
    "xe_cores": (int, "Xe cores (CUDA: streaming multiprocessors)"),
    "xves_per_xe_core": (int, "vector engines per Xe core (CUDA: schedulers per SM)"),
    "clock_hz": (float, "sustained clock, the one that predictions use"),
    "boost_clock_hz": (float, "highest clock"),
    "fp16_dpas_flop_per_clock_per_xve": (int, "dense fp16 matrix FLOP per clock and XVE"),
    "fp32_flop_per_clock_per_xve": (int, "fp32 vector FLOP per clock and XVE, FMA counted as 2"),
    "fp64_flop_per_clock_per_xve": (int, "float64 vector FLOP per clock and XVE"),
    "memory_bytes_per_second": (float, "peak DRAM bandwidth"),
    "memory_bytes": (int, "DRAM size"),
    "l2_bytes": (int, "last-level cache of the GPU"),
    "slm_bytes_per_work_group": (int, "largest shared local memory of one work-group"),
    "slm_bytes_per_xe_core": (int, "shared local memory that a Xe core's work-groups divide"),
    "slm_granules_bytes": (list, "sizes that an allocation of SLM is rounded up to"),
    "grf_bytes": (int, "bytes of one general register"),
    "threads_per_xve": (dict, "hardware threads per XVE for each register count"),
    "sub_groups_per_work_group": (dict, "most sub-groups of a work-group for each register count"),
    "max_work_group_size": (int, "lanes of the largest work-group"),
    "sub_group_sizes": (list, "lanes per sub-group"),
    "dpas_execution_size": (int, "N of a DPAS operation"),
    "scratch_bytes_per_thread": (int, "largest scratch space of a hardware thread"),
    "has_dpas": (bool, "matrix engines usable by sub-group matrix multiply-accumulate"),
    "has_dpas_tf32": (bool, "the same for TF32"),
    "has_2d_block_io": (bool, "sub-group 2D block messages"),
    "has_bfloat16_conversions": (bool, "native fp32/bf16 conversion"),
    "has_fp64": (bool, "native float64"),
    "block_2d_base_alignment_bytes": (int, "alignment of a 2D block surface's base"),
    "block_2d_pitch_multiple_bytes": (int, "a 2D block surface's pitch is a multiple of this"),
    "block_2d_min_width_bytes": (int, "narrowest 2D block surface (width and pitch)"),
    "block_2d_max_width_bytes": (int, "widest 2D block surface"),
}


@dataclass(frozen=True)
class Device:
    """One GPU. Properties answer None where the device file has no such fact."""

    name: str
    title: str
    kind: Kind
    ocloc_name: str | None  # what `ocloc -device` calls it
    triton_arch: str  # the name that Triton's backend gives the architecture
    aliases: tuple[str, ...] = ()
    facts: dict[str, Fact] = field(default_factory=dict[str, Fact])
    path: str | None = None

    def fact(self, name: str) -> Fact | None:
        """The fact with its source; None when unknown.

        Raises:
            UsageError: no device file may state a fact of that name.
        """
        if name not in FACTS:
            raise UsageError(f"unknown device fact '{name}'", remedy=nearest(name, FACTS))
        return self.facts.get(name)

    def _value(self, name: str) -> Any:
        fact = self.fact(name)
        return None if fact is None else fact.value

    @property
    def xe_cores(self) -> int | None:
        return self._value("xe_cores")

    @property
    def xves_per_xe_core(self) -> int | None:
        return self._value("xves_per_xe_core")

    @property
    def xves(self) -> int | None:
        if self.xe_cores is None or self.xves_per_xe_core is None:
            return None
        return self.xe_cores * self.xves_per_xe_core

    @property
    def clock_hz(self) -> float | None:
        return self._value("clock_hz")

    @property
    def boost_clock_hz(self) -> float | None:
        return self._value("boost_clock_hz")

    @property
    def fp16_dpas_flop_per_clock_per_xve(self) -> int | None:
        return self._value("fp16_dpas_flop_per_clock_per_xve")

    @property
    def fp32_flop_per_clock_per_xve(self) -> int | None:
        return self._value("fp32_flop_per_clock_per_xve")

    @property
    def memory_bytes_per_second(self) -> float | None:
        return self._value("memory_bytes_per_second")

    @property
    def memory_bytes(self) -> int | None:
        return self._value("memory_bytes")

    @property
    def l2_bytes(self) -> int | None:
        return self._value("l2_bytes")

    @property
    def slm_bytes_per_work_group(self) -> int | None:
        return self._value("slm_bytes_per_work_group")

    @property
    def slm_bytes_per_xe_core(self) -> int | None:
        return self._value("slm_bytes_per_xe_core")

    @property
    def grf_bytes(self) -> int | None:
        return self._value("grf_bytes")

    @property
    def max_work_group_size(self) -> int | None:
        return self._value("max_work_group_size")

    @property
    def sub_group_sizes(self) -> tuple[int, ...] | None:
        sizes = self._value("sub_group_sizes")
        return None if sizes is None else tuple(sizes)

    @property
    def dpas_execution_size(self) -> int | None:
        return self._value("dpas_execution_size")

    @property
    def scratch_bytes_per_thread(self) -> int | None:
        return self._value("scratch_bytes_per_thread")

    @property
    def has_dpas(self) -> bool | None:
        return self._value("has_dpas")

    @property
    def has_2d_block_io(self) -> bool | None:
        return self._value("has_2d_block_io")

    @property
    def has_fp64(self) -> bool | None:
        return self._value("has_fp64")

    @property
    def block_2d_base_alignment_bytes(self) -> int | None:
        return self._value("block_2d_base_alignment_bytes")

    @property
    def block_2d_pitch_multiple_bytes(self) -> int | None:
        return self._value("block_2d_pitch_multiple_bytes")

    @property
    def block_2d_min_width_bytes(self) -> int | None:
        return self._value("block_2d_min_width_bytes")

    @property
    def block_2d_max_width_bytes(self) -> int | None:
        return self._value("block_2d_max_width_bytes")

    @property
    def peak_fp16_flop_per_second(self) -> float | None:
        """Dense fp16 peak at `clock_hz`; None when one of its facts is unknown."""
        if not self.xves or not self.clock_hz or not self.fp16_dpas_flop_per_clock_per_xve:
            return None
        return self.xves * self.fp16_dpas_flop_per_clock_per_xve * self.clock_hz

    @property
    def grf_modes(self) -> tuple[int, ...]:
        """Register counts that a kernel may be compiled for, ascending."""
        return tuple(sorted(self._value("threads_per_xve") or {}))

    def threads_per_xve(self, grf_count: int) -> int:
        """Hardware threads that share an XVE when each holds `grf_count` registers.

        Raises:
            UsageError: the device has no mode with that many registers.
        """
        return self._by_grf("threads_per_xve", grf_count)

    def max_sub_groups_per_work_group(self, grf_count: int) -> int:
        """Most sub-groups ("warps") of a work-group at `grf_count` registers.

        Raises:
            UsageError: the device has no mode with that many registers.
        """
        return self._by_grf("sub_groups_per_work_group", grf_count)

    def _by_grf(self, name: str, grf_count: int) -> int:
        table: dict[int, int] = self._value(name) or {}
        fitting = [count for count in sorted(table) if count >= grf_count]
        if not fitting:
            modes = ", ".join(str(count) for count in sorted(table)) or "none known"
            raise UsageError(
                f"{self.title} has no mode of {grf_count} registers",
                where=f"device '{self.name}'",
                remedy=f"register counts: {modes}",
            )
        return table[fitting[0]]

    def slm_allocated_bytes(self, requested_bytes: int) -> int:
        """SLM that the hardware sets aside for a request: the next granule."""
        granules: list[int] = self._value("slm_granules_bytes") or []
        return next((size for size in sorted(granules) if size >= requested_bytes), requested_bytes)

    def target_properties(self) -> dict[str, Any]:
        """The `arch` dict of Triton's `GPUTarget("xpu", arch, 32)`.

        `architecture` is SYCL's number (see sycl_architecture), 0 when the version is unknown.

        Raises:
            UsageError: the device is not an Intel GPU.
        """
        if self.kind != "xpu":
            raise UsageError(
                f"'{self.name}' is no Intel GPU: it has no XPU target properties",
                remedy=f"use compute capability {self._value('compute_capability')}",
            )
        version = self._value("ip_version")
        sub_groups: dict[int, int] = self._value("sub_groups_per_work_group") or {}
        return {
            "architecture": 0 if version is None else sycl_architecture(version),
            "name": self.title,
            "platform_name": "Intel(R) oneAPI Unified Runtime over Level-Zero",
            "vendor": "Intel(R) Corporation",
            "version": version or "",
            "gpu_eu_count": self.xves or 0,
            "gpu_subslice_count": self.xe_cores or 0,
            "max_work_group_size": self.max_work_group_size,
            "max_num_sub_groups": max(sub_groups.values(), default=0),
            "sub_group_sizes": list(self.sub_group_sizes or ()),
            "has_fp64": bool(self.has_fp64),
            "has_subgroup_matrix_multiply_accumulate": bool(self.has_dpas),
            "has_subgroup_matrix_multiply_accumulate_tensor_float32": bool(
                self._value("has_dpas_tf32")
            ),
            "has_subgroup_2d_block_io": bool(self.has_2d_block_io),
            "has_bfloat16_conversions": bool(self._value("has_bfloat16_conversions")),
        }


def sycl_architecture(ip_version: str) -> int:
    """SYCL's architecture number of an IP version.

    The GMD id packs major (bits 22..31), minor (14..21) and revision (0..5); SYCL keeps it
    shifted by 8: "20.1.0" (bmg-g21) is 0x0500400000.
    """
    major, minor, revision = (int(part) for part in ip_version.split("."))
    return ((major << 22) | (minor << 14) | revision) << 8


def device_names() -> tuple[str, ...]:
    """Names of all device files, without aliases."""
    return tuple(sorted(device.name for device in _all_devices()))


def device_of_target(backend: str, arch: str) -> Device | None:
    """The device that Triton calls `backend`:`arch`; None where no device file is for it."""
    for name in device_names():
        device = load_device(name)
        capability = device.fact("compute_capability")
        known = None if capability is None else str(capability.value).replace(".", "")
        if device.kind == backend and arch in (device.title, known):
            return device
    return None


def load_device(name: str) -> Device:
    """The device of that name or alias.

    Raises:
        UsageError: unknown name (the nearest is offered), or a faulty device file.
    """
    key = name.strip().lower()
    for device in _all_devices():
        if key in (device.name, *device.aliases):
            return device
    known = [n for device in _all_devices() for n in (device.name, *device.aliases)]
    raise UsageError(f"unknown device '{name}'", remedy=nearest(key, known))


@cache
def _all_devices() -> tuple[Device, ...]:
    folder = asset_folder("knowledge") / "devices"
    devices = tuple(read_device(path) for path in sorted(folder.glob("*.yaml")))
    taken: dict[str, str] = {}
    for device in devices:
        for name in (device.name, *device.aliases):
            if name in taken:
                raise UsageError(
                    f"the name '{name}' is also taken by {taken[name]}",
                    where=str(device.path),
                    remedy="rename one of them",
                )
            taken[name] = str(device.path)
    return devices


def read_device(path: Path) -> Device:
    """Read and check one device file.

    Raises:
        UsageError: unknown or missing field, wrong type, or a fact without a source.
    """
    import yaml

    try:
        loaded: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise UsageError(f"cannot read the device file: {error}", where=str(path)) from error
    if not isinstance(loaded, dict):
        raise UsageError("a device file is a mapping", where=str(path))
    data = cast("dict[str, Any]", loaded)
    fields = ("name", "title", "kind", "ocloc_name", "triton_arch", "aliases", "facts")
    for key in data:
        if key not in fields:
            raise UsageError(
                f"unknown field '{key}'", where=str(path), remedy=nearest(str(key), fields)
            )
    for key in ("name", "title", "kind", "triton_arch", "facts"):
        if key not in data:
            raise UsageError(f"the field '{key}' is missing", where=str(path))
    if data["kind"] not in ("xpu", "cuda"):
        raise UsageError(
            f"kind '{data['kind']}' is unknown",
            where=str(path),
            remedy=nearest(str(data["kind"]), ("xpu", "cuda")),
        )
    return Device(
        name=data["name"],
        title=data["title"],
        kind=data["kind"],
        ocloc_name=data.get("ocloc_name"),
        triton_arch=data["triton_arch"],
        aliases=tuple(data.get("aliases") or ()),
        facts={name: _read_fact(name, fact, path) for name, fact in data["facts"].items()},
        path=str(path),
    )


def _read_fact(name: str, data: Any, path: Path) -> Fact:
    where = f"{path}: facts.{name}"
    if name not in FACTS:
        raise UsageError(f"unknown fact '{name}'", where=where, remedy=nearest(name, FACTS))
    if not isinstance(data, dict):
        raise UsageError("a fact is a mapping with value and source", where=where)
    entry = cast("dict[str, Any]", data)
    for key in entry:
        if key not in ("value", "source", "note"):
            raise UsageError(
                f"unknown field '{key}'",
                where=where,
                remedy=nearest(str(key), ("value", "source", "note")),
            )
    if not entry.get("source"):
        raise UsageError(
            "a fact without a source",
            where=where,
            remedy="name the source, or leave the fact out: unknown stays unknown",
        )
    wanted = FACTS[name][0]
    value = entry.get("value")
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    # bool is an int in Python: `xe_cores: true` must not pass.
    if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
        raise UsageError(
            f"the value is {value!r}, not {wanted.__name__} ({FACTS[name][1]})",
            where=where,
            remedy="leave the fact out where no source gives it" if value is None else None,
        )
    return Fact(value=value, source=entry["source"], note=entry.get("note"))
