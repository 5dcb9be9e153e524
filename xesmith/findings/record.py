"""The noun Finding: one diagnosed fault of a kernel, with its reason and remedy."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Severity = Literal["error", "warning", "note"]


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
