"""The level "structure": what each launch asks of the device, before anything is compiled.

Warps are sub-groups; a work-group of W warps of S lanes has W * S work-items. How many warps
fit depends on the registers that each thread holds (GRF mode).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from xesmith.cascade.record import LevelResult
from xesmith.device import Device
from xesmith.ghost.launch import Launch

_GRF_COUNTS = {"128": 128, "small": 128, "256": 256, "large": 256, "512": 512}
_GRF_COMPILER_CHOICE = ("auto", "default")

#: names under which kernels pass the sizes of their tiles
_BLOCK_SIZE = re.compile(
    r"[XYZR]?(BLOCK|TILE)(_?SIZE)?(_?(M|N|K|D|H|W|C|X|Y|Z|Q|R|T|DMODEL|HEADDIM)\d?)?|B[MNKDHW]",
    re.IGNORECASE,
)


def check(launches: Iterable[Launch], device: Device) -> LevelResult:
    """Judges every launch against the hard limits of `device`."""
    launches = tuple(launches)
    messages: dict[str, None] = {}
    for launch in launches:
        where = launch.kernel
        if launch.config_index is not None:
            where += f", configuration {launch.config_index}"
        for fault in _faults(launch, device):
            messages[f"{where}: {fault}"] = None
    facts = {"launches": len(launches), "device": device.name}
    if messages:
        return LevelResult("structure", "refused", tuple(messages), facts)
    if not launches:
        return LevelResult("structure", "not_read", ("no launch was captured",), facts)
    return LevelResult("structure", "passed", (), facts)


def is_block_size(name: str) -> bool:
    """Whether a constexpr of this name is the size of a tile."""
    return _BLOCK_SIZE.fullmatch(name) is not None


def _faults(launch: Launch, device: Device) -> Iterator[str]:
    options = launch.options
    given = options.get("num_warps")
    warps = given if isinstance(given, int) and _is_power_of_two(given) else None
    if given is not None and warps is None:
        yield f"num_warps is {given!r}, not a power of two"
    stages = options.get("num_stages")
    if stages is not None and not (isinstance(stages, int) and stages >= 0):
        yield f"num_stages is {stages!r}, not a count"
    if device.kind == "xpu":
        yield from _xpu_faults(options, warps, device)
    if warps is not None:
        yield from _work_group_faults(options, warps, device)
    for name, value in launch.constexprs.items():
        is_size = isinstance(value, int) and not isinstance(value, bool)
        if is_size and is_block_size(name) and not _is_power_of_two(value):
            yield f"block size {name} is {value}, not a power of two"


def _xpu_faults(options: dict[str, Any], warps: int | None, device: Device) -> Iterator[str]:
    ctas = options.get("num_ctas")
    if ctas not in (None, 1):
        yield f"num_ctas is {ctas}: {device.title} has no clusters"
    mode = str(options.get("grf_mode", "default"))
    known = device.grf_modes
    if mode not in _GRF_COUNTS and mode not in _GRF_COMPILER_CHOICE:
        modes = ", ".join([*map(str, known), *_GRF_COMPILER_CHOICE])
        yield f"grf_mode '{mode}' does not exist; {device.title} has {modes}"
        return
    # Where the compiler chooses, the smallest mode allows the most warps.
    count = _GRF_COUNTS.get(mode, min(known, default=128))
    if known and count not in known:
        modes = ", ".join(map(str, known))
        yield f"{device.title} has no mode of {count} registers; it has {modes}"
    elif known and warps is not None:
        most = device.max_sub_groups_per_work_group(count)
        if warps > most:
            yield (
                f"num_warps is {warps}; with {count} registers a work-group of {device.title} "
                f"has at most {most}"
            )


def _work_group_faults(options: dict[str, Any], warps: int, device: Device) -> Iterator[str]:
    sizes = device.sub_group_sizes
    lanes = options.get("threads_per_warp")
    if lanes is not None and sizes and lanes not in sizes:
        yield f"threads_per_warp is {lanes}; {device.title} has {', '.join(map(str, sizes))}"
        return
    # Unstated, it is the compiler's choice: then only what no choice allows is a fault.
    lanes = lanes or (min(sizes) if sizes else None)
    most = device.max_work_group_size
    if lanes is not None and most is not None and warps * lanes > most:
        yield (
            f"{warps} warps of {lanes} lanes are {warps * lanes} work-items; a work-group of "
            f"{device.title} has at most {most}"
        )


def _is_power_of_two(value: int) -> bool:
    return value > 0 and value & (value - 1) == 0
