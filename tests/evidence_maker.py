"""Hand-made evidence for tests of judgement: only what a test names differs from the defaults.

The defaults are a block pointer gemm of 4096 x 4096 x 4096 fp16 at 256x256x32, 32 warps and
256 registers, whose native main loop has 61 instructions, 32 of them dpas, 3 loads and
2 prefetches.
"""

from __future__ import annotations

from typing import Any

from xesmith.evidence.record import (
    Access,
    Derived,
    Dot,
    Dpas,
    Evidence,
    IrCounts,
    LayoutConversion,
    Loop,
    Native,
    NativeLoop,
    Occupancy,
    Prediction,
    Ptx,
    Send2D,
    Site,
    Spirv,
    Surface,
    Ttgir,
    Ttir,
)
from xesmith.ghost.launch import Launch, TensorArg


def site(line: int | None = None) -> Site:
    return Site(file="kernel.py", line=line)


def tensor(*shape: int, dtype: str = "float16", **changes: Any) -> TensorArg:
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.insert(0, step)
        step *= size
    values: dict[str, Any] = {
        "dtype": dtype,
        "shape": shape,
        "strides": tuple(strides),
        "pointer_alignment_bytes": 64,
        "storage_bytes": step * {"float16": 2, "float32": 4, "float64": 8}[dtype],
    }
    return TensorArg(**{**values, **changes})


def launch(**changes: Any) -> dict[str, Any]:
    a = tensor(4096, 4096)
    values: dict[str, Any] = {
        "index": 0,
        "kernel": "gemm",
        "file": "kernel.py",
        "line": 1,
        "grid": (256, 1, 1),
        "signature": {"a": "*fp16", "b": "*fp16", "c": "*fp16"},
        "values": {"a": a, "b": a, "c": a},
        "constexprs": {},
        "divisible_by_16": (),
        "options": {"num_warps": 32},
    }
    return Launch(**{**values, **changes}).to_json()


def access(**changes: Any) -> Access:
    values: dict[str, Any] = {
        "op": "load",
        "kind": "block_pointer",
        "site": site(10),
        "shape": (256, 32),
        "element_type": "f16",
        "element_bits": 16,
        "masked": False,
        "loop": 0,
        "argument": "a",
    }
    return Access(**{**values, **changes})


def surface(**changes: Any) -> Surface:
    values: dict[str, Any] = {
        "shape": ("M", "N"),
        "strides": ("N", "1"),
        "shape_values": (4096, 4096),
        "stride_values": (4096, 1),
        "order": (1, 0),
        "base_alignment_bytes": 64,
    }
    return Surface(**{**values, **changes})


def dot(**changes: Any) -> Dot:
    values: dict[str, Any] = {
        "site": site(12),
        "m": 256,
        "n": 256,
        "k": 32,
        "a_type": "f16",
        "b_type": "f16",
        "acc_type": "f32",
        "input_precision": "tf32",
        "loop": 0,
    }
    return Dot(**{**values, **changes})


def loop(**changes: Any) -> Loop:
    values: dict[str, Any] = {"index": 0, "site": site(9), "parent": None, "trip_count": 128}
    return Loop(**{**values, **changes})


def conversion(**changes: Any) -> LayoutConversion:
    values: dict[str, Any] = {
        "site": site(11),
        "source": "#blocked",
        "destination": "#dot_op",
        "shape": (128, 32),
        "element_bits": 16,
        "loop": 0,
        "slm_bytes": 8192,
    }
    return LayoutConversion(**{**values, **changes})


def ttir(**changes: Any) -> Ttir:
    values: dict[str, Any] = {
        "dots": (dot(),),
        "accesses": (
            access(),
            access(site=site(11), shape=(32, 256), argument="b"),
            access(op="store", site=site(14), shape=(256, 256), loop=None, argument="c"),
        ),
        "loops": (loop(),),
        "counts": IrCounts(),
        "flop_per_program": 2.0 * 256 * 256 * 4096,
        "bytes_loaded_per_program": 2.0 * (256 + 256) * 4096,
        "bytes_stored_per_program": 2.0 * 256 * 256,
    }
    return Ttir(**{**values, **changes})


def ttgir(**changes: Any) -> Ttgir:
    values: dict[str, Any] = {
        "dialect": "triton_intel_gpu",
        "num_warps": 32,
        "threads_per_warp": 16,
        "target": "xpu",
        "module_attributes": {},
        "encodings": {},
        "dpas": (
            Dpas(
                repeat_count=8,
                systolic_depth=8,
                execution_size=16,
                ops_per_channel=2,
                warps_per_cta=(8, 4),
            ),
        ),
        "dots": (dot(on_dpas=True),),
        "accesses": (
            access(block_io="row_major"),
            access(site=site(11), shape=(32, 256), argument="b", block_io="row_major"),
            access(op="store", site=site(14), shape=(256, 256), loop=None, argument="c",
                   block_io="row_major"),
        ),
        "prefetches": 2,
        "layout_conversions": (),
        "loops": (loop(),),
        "counts": IrCounts(),
        "shared_bytes": 0,
    }  # fmt: skip
    return Ttgir(**{**values, **changes})


def spirv(**changes: Any) -> Spirv:
    values: dict[str, Any] = {
        "capabilities": (),
        "extensions": (),
        "loads_2d": 3,
        "stores_2d": 16,
        "prefetches_2d": 4,
        "dpas_calls": 32,
        "barriers": 0,
        "atomics": 0,
        "f64_operations": 0,
        "i64_operations": 0,
        "math": {},
    }
    return Spirv(**{**values, **changes})


def ptx(**changes: Any) -> Ptx:
    values: dict[str, Any] = {
        "version": "8.7",
        "target": "sm_90a",
        "instructions": 400,
        "loads": {16: 8},
        "stores": {16: 4},
        "bytes_per_load": 16.0,
        "async_copies": 8,
        "bulk_copies": 0,
        "matrix_instructions": 4,
        "shared_messages": 20,
        "barriers": 2,
        "atomics": 0,
        "f64_instructions": 0,
        "int64_instructions": 10,
        "math": {},
    }
    return Ptx(**{**values, **changes})


def native_loop(**changes: Any) -> NativeLoop:
    values: dict[str, Any] = {
        "index": 0,
        "label": "L1",
        "site": site(10),
        "parent": None,
        "instructions": 61,
        "dpas": 32,
        "loads_2d": 3,
        "stores_2d": 0,
        "prefetches_2d": 2,
        "global_loads": 0,
        "global_stores": 0,
        "slm_messages": 0,
        "scratch_messages": 0,
        "barriers": 0,
        "send_messages": 5,
        "pipes": {"int": 20, "xmx": 32},
    }
    return NativeLoop(**{**values, **changes})


def send_2d(**changes: Any) -> Send2D:
    values: dict[str, Any] = {
        "op": "load",
        "site": site(10),
        "element_bits": 16,
        "width": 16,
        "height": 32,
        "blocks": 2,
        "loop": 0,
        "argument": "a",
    }
    return Send2D(**{**values, **changes})


def native(**changes: Any) -> Native:
    values: dict[str, Any] = {
        "grf_count": 256,
        "simd_size": 16,
        "spill_bytes_per_thread": 0,
        "spill_bytes_per_lane": 0.0,
        "private_bytes_per_thread": 0,
        "slm_bytes": 0,
        "barrier_count": 0,
        "hardware_threads_per_xve": 4,
        "has_dpas": True,
        "instructions": 300,
        "dpas": 32,
        "loads_2d": 3,
        "stores_2d": 16,
        "prefetches_2d": 4,
        "global_loads": 0,
        "global_stores": 0,
        "atomics": 0,
        "slm_messages": 0,
        "scratch_messages": 0,
        "bank_conflicts": 0,
        "pipes": {},
        "sends_2d": (
            send_2d(),
            send_2d(site=site(11), argument="b", width=16, height=32, blocks=2),
            send_2d(site=site(11), argument="b", width=16, height=32, blocks=2),
            send_2d(op="store", site=site(14), argument="c", loop=None, height=8, blocks=1),
        ),
        "loops": (native_loop(),),
        "main_loop": 0,
        "instructions_per_line": {},
    }
    merged = {**values, **changes}
    if "spill_bytes_per_thread" in changes and "spill_bytes_per_lane" not in changes:
        merged["spill_bytes_per_lane"] = merged["spill_bytes_per_thread"] / merged["simd_size"]
    return Native(**merged)


def derived(seconds: float | None = 1e-3, **occupancy: Any) -> Derived:
    values: dict[str, Any] = {"threads_per_xve": 4, "fraction": 0.5, "limited_by": "grf"}
    return Derived(
        occupancy=Occupancy(**{**values, **occupancy}),
        prediction=Prediction(
            seconds=seconds,
            bound_by=None if seconds is None else "dpas",
            why_not="no clock_hz" if seconds is None else None,
        ),
        lowered_hash="",
    )


def make(**changes: Any) -> Evidence:
    """An Evidence; each level can be given, or None to leave it unread."""
    values: dict[str, Any] = {
        "kernel": "gemm",
        "device": "bmg-g31",
        "compiler": "triton-xpu 3.3.0b1",
        "native_compiler": "ocloc 26.27.1",
        "launch": launch(),
        "ttir": ttir(),
        "ttgir": ttgir(),
        "spirv": spirv(),
        "native": native(),
    }
    return Evidence(**{**values, **changes})
