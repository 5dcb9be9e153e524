"""An order of configurations that needs no clock and no bandwidth."""

from __future__ import annotations

from xesmith.evidence.record import Evidence

OrderKey = tuple[int, float, float, float, int]


def order_key(evidence: Evidence) -> OrderKey:
    """Sorts ascending from the likely best: spill, SLM messages, dpas share, instructions.

    Spill is in bytes per lane. SLM messages of the main loop are per dpas, so that tiles of
    different sizes compare; without dpas they are counted as they are, and without a loop the
    whole kernel counts. What cannot run or was not lowered to native code comes last.
    """
    native = evidence.native
    if native is None:
        return (2, 0.0, 0.0, 0.0, 0)
    failed = int(evidence.failure is not None)
    part = native.main or native
    slm_messages = part.slm_messages / part.dpas if part.dpas else float(part.slm_messages)
    dpas_share = part.dpas / part.instructions if part.instructions else 0.0
    return (
        failed,
        native.spill_bytes_per_lane,
        slm_messages,
        -dpas_share,
        native.instructions,
    )
