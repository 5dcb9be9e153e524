"""Reader of TTGIR / TTIG in generic form -> `Ttgir`: layouts, and what they are meant to give.

`block_io` is an intent: native code may still hold no 2D block for it. Why an access has no
such intent, or why it may come to nothing, is read from the IR and said in one sentence.
"""

from __future__ import annotations

from typing import Any

from xesmith.evidence.ir import ir_facts
from xesmith.evidence.record import Ttgir
from xesmith.ghost.launch import Launch


def read_ttgir(text: str, launch: Launch, metadata: dict[str, Any]) -> Ttgir:
    """Reads one kernel's TTGIR, of an Intel GPU (either dialect spelling) or any other.

    Args:
        metadata: Triton's own, of which `shared` (bytes of shared local memory) is taken.

    Raises:
        UnreadableLevelError: not a kernel in generic form.
        ToolchainError: the MLIR passes are not built.
    """
    facts = ir_facts(text, launch)
    shared = metadata.get("shared")
    shared_bytes = shared if isinstance(shared, int) else None
    return Ttgir.model_validate(
        {**facts["kernel"], **facts["layouts"], "shared_bytes": shared_bytes}
    )
