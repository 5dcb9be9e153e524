"""What a device's registers, matrix instructions and shared memory ask of a configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from xesmith.device import Device

__all__ = ["ExecutionUnits", "RegisterMode", "units_of"]

#: stands in where a core count is not published: it only orders
_CORES = 32
#: CUDA programming guide, compute capabilities: of an SM, 64 resident warps and 65536 registers
#: of 4 bytes; of a thread, 255 registers. A warp has 32 threads.
_CUDA_WARPS_PER_SM, _CUDA_SM_REGISTERS_BYTES, _CUDA_REGISTERS_BYTES = 64, 65536 * 4, 255 * 4 * 32


@dataclass(frozen=True)
class RegisterMode:
    """One way to divide the register file; on Intel a choice of the launch."""

    name: str | None  # "128" | "256"; None where the device has one register file
    most_registers_bytes: int  # of a warp
    most_warps: int  # of a work-group
    warps_per_core: int  # that a core holds at once
    core_registers_bytes: int | None = None  # of all warps of a core, where they share them

    def registers_bytes(self, warps: int) -> int:
        """Of a warp, where a work-group has so many."""
        if self.core_registers_bytes is None:
            return self.most_registers_bytes
        return min(self.most_registers_bytes, self.core_registers_bytes // warps)


@dataclass(frozen=True)
class ExecutionUnits:
    """A warp is Triton's: a sub-group of Xe.

    matrix_rows, matrix_columns: the least result of a matrix instruction with 16-bit operands,
        which `matrix_warps` warps compute together.
    matrix_reuse: (power of the reuse within a warp, within a work-group) in the estimate of what
        a tile is worth; the first counts more where operands come from registers.
    depths: values of a product's BLOCK_K, each with its worth.
    stages: of software pipelining, each with its worth; empty where they are a hint for
        prefetches alone, and any number will do.
    default_stages: what the compiler does where the launch says nothing.
    pipelined_bytes: of shared memory, where the operands of all stages lie; None where loads
        go to registers.
    """

    modes: tuple[RegisterMode, ...]
    cores: int
    lanes: int
    warps: tuple[int, ...]  # of a work-group
    warps_of_products: tuple[int, ...]  # the same where there is a matrix product
    matrix_rows: int
    matrix_columns: int
    matrix_warps: int
    matrix_reuse: tuple[float, float]
    depths: Mapping[int, float]
    stages: Mapping[int, float]
    default_stages: int
    pipelined_bytes: int | None


def units_of(device: Device) -> ExecutionUnits:
    """Sources: docs of the device's facts (knowledge/devices); for warp-group instructions,
    PTX ISA, `wgmma.mma_async`: 64 rows, computed by four warps, operands in shared memory."""
    cores = device.xe_cores or _CORES
    if device.kind != "cuda":
        return ExecutionUnits(
            modes=_grf_modes(device),
            cores=cores,
            lanes=16,
            warps=(4, 8, 16, 32, 64),
            warps_of_products=(4, 8, 16, 32, 64),
            matrix_rows=8,
            matrix_columns=16,
            matrix_warps=1,
            matrix_reuse=(0.6, 0.4),
            depths={16: 0.8, 32: 1.0, 64: 0.97},
            stages={},
            default_stages=2,
            pipelined_bytes=None,
        )
    has_warp_groups = float(str(_fact(device, "compute_capability") or 0)) >= 9
    return ExecutionUnits(
        modes=(
            RegisterMode(
                None, _CUDA_REGISTERS_BYTES, 32, _CUDA_WARPS_PER_SM, _CUDA_SM_REGISTERS_BYTES
            ),
        ),
        cores=cores,
        lanes=32,
        warps=(1, 2, 4, 8, 16, 32),
        warps_of_products=(4, 8, 16),
        matrix_rows=64 if has_warp_groups else 16,
        matrix_columns=16 if has_warp_groups else 8,
        matrix_warps=4 if has_warp_groups else 1,
        matrix_reuse=(0.3, 0.7) if has_warp_groups else (0.5, 0.5),
        depths={16: 0.6, 32: 0.9, 64: 1.0, 128: 0.95},
        stages={2: 0.9, 3: 1.0, 4: 1.0, 5: 0.95},
        default_stages=3,
        pipelined_bytes=device.slm_bytes_per_work_group,
    )


def _grf_modes(device: Device) -> tuple[RegisterMode, ...]:
    threads = _by_mode(device, "threads_per_xve") or {"128": 8}
    most = _by_mode(device, "sub_groups_per_work_group")
    xves, grf_bytes = device.xves_per_xe_core or 8, device.grf_bytes or 64
    return tuple(
        RegisterMode(name, int(name) * grf_bytes, most.get(name, 32), count * xves)
        for name, count in threads.items()
    )


def _by_mode(device: Device, name: str) -> dict[str, int]:
    values: dict[Any, int] = _fact(device, name) or {}
    return {str(mode): count for mode, count in values.items() if str(mode) in ("128", "256")}


def _fact(device: Device, name: str) -> Any:
    fact = device.fact(name)
    return None if fact is None else fact.value
