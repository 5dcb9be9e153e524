"""The worker task that prints a dump of Triton IR in generic form.

Runs in worker processes: standard library and Triton only.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from xesmith.ghost.driver import Target, make_backend_class
from xesmith.ghost.foreign import foreign
from xesmith.lowering.generic import generic_form


def print_generic(arguments: dict[str, Any], folder: Path) -> dict[str, str]:
    """Parses a module with Triton's own parser and prints it in generic form.

    Args:
        arguments: {"text": as Triton prints it, "suffix": ".ttir" or ".ttgir", "target": Target
            as JSON}.
        folder: an empty folder.

    Returns:
        {"text": generic form}; the locations that the text holds, and no others.
    """
    target = Target.from_json(arguments["target"])
    path = folder / f"dump{arguments['suffix']}"
    path.write_text(arguments["text"], "utf-8")
    ir = foreign("triton._C.libtriton").ir
    context = ir.context()
    ir.load_dialects(context)
    gpu = foreign("triton.backends.compiler").GPUTarget(
        target.backend, target.arch, target.warp_size
    )
    make_backend_class(target)(gpu).load_dialects(context)
    return {"text": generic_form(path, context, checked=True)}
