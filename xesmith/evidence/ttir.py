"""Reader of TTIR in generic form -> `Ttir`: what the kernel asks for, before any layout."""

from __future__ import annotations

from xesmith.evidence.ir import ir_facts
from xesmith.evidence.record import Ttir
from xesmith.ghost.launch import Launch


def read_ttir(text: str, launch: Launch) -> Ttir:
    """Reads one kernel's TTIR.

    FLOPs count each element of floating arithmetic once (dots 2 m n k, a fused multiply-add
    twice); bytes count every access whole, masked-off elements too. A branch that the captured
    values rule out counts nothing; any other counts as taken. Numbers are means over the
    programs of the captured grid.

    Raises:
        UnreadableLevelError: not a kernel in generic form.
        ToolchainError: the MLIR passes are not built.
    """
    facts = ir_facts(text, launch)
    return Ttir.model_validate({**facts["kernel"], **facts["amounts"]})
