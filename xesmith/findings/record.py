"""The noun Finding: one diagnosed fault of a kernel, with its reason and remedy."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Severity = Literal["error", "warning", "note"]


#: every kind of finding: severity and meaning. An error is refused by the device or gives
#: wrong results there; a warning is an outcome in the native code that costs time; a note is
#: an opportunity, or a cost that may be needed. A warning about something that stands outside
#: every loop, and so runs once, is given as a note.
KINDS: dict[str, tuple[Severity, str]] = {
    "cannot-compile": ("error", "the compiler refuses the kernel or does not survive it"),
    "cannot-launch": ("error", "the device would refuse the launch"),
    "slm-over-limit": ("error", "a work-group needs more SLM than the device has"),
    "grf-warps-illegal": ("error", "more sub-groups than the register count allows"),
    "2d-op-illegal": ("error", "a native 2D block operation on a surface that it must not touch"),
    "not-power-of-two": ("error", "a warp count or block size that is no power of two"),
    "load-not-2d-block": ("warning", "a load of a tile that is no 2D block load in native code"),
    "store-not-2d-block": ("warning", "a store of a tile that is no 2D block store"),
    "block-io-intent-without-outcome": (
        "warning",
        "the IR marks an access block_io and native code has no 2D block message for it",
    ),
    "dot-not-dpas": ("warning", "a dot that is not computed by the matrix engines"),
    "spill": ("warning", "registers spilled to memory"),
    "slm-limits-occupancy": ("warning", "SLM keeps hardware threads empty"),
    "layout-conversion-in-loop": ("warning", "a layout conversion through SLM in every iteration"),
    "f64-arithmetic": ("warning", "float64 arithmetic"),
    "uncoalesced-access": ("warning", "lanes that touch memory in small separate pieces"),
    "i64-address-arithmetic": ("note", "64-bit address arithmetic"),
    "needless-mask": ("note", "a mask that is always true for the launched shape"),
    "missing-prefetch": ("note", "a loop that loads without prefetching"),
    "many-kernels": ("note", "several launches where one would do"),
    "2d-op-unchecked": ("note", "a native 2D block operation on a surface that is not known"),
}

#: what the check passes report beyond these: of the IR alone, before native code exists
CHECK_KINDS: dict[str, str] = {
    "register-pressure": "tiles that do not fit the registers of a thread, by an estimate",
    "slm-footprint": "the shared local memory that a work-group needs",
    "block-pointer-rebuilt-in-loop": "a block pointer made in every iteration of a loop",
    "invariant-rebuilt-in-loop": "an address made in every iteration and never another",
    "offset-wraps": "32-bit arithmetic on offsets that wraps around in a launch",
}


class Finding(BaseModel):
    """One fault.

    `kind` is a stable slug ("load-not-2d-block"); stages name it in their `triggers`.
    `numbers` holds the values with their units in the keys ("slm_bytes", "limit_bytes").
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: str
    severity: Severity
    level: Literal["source", "ttir", "ttgir", "spirv", "native", "derived", "launch"]
    kernel: str
    line: int | None
    message: str  # one sentence, without the line number
    reason: str | None = None  # why the compiler did so
    remedy: str | None = None
    numbers: dict[str, float] = Field(default_factory=dict)
    launch_index: int | None = None
    variant: str | None = None  # the spec shape it concerns, when only some
