"""Triton's parser, verifier and printer, in a worker's child."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget

from xesmith.ghost.driver import Target, make_backend_class


def read(arguments: dict[str, Any], folder: Path) -> list[str]:
    """Arguments: texts in any form, target (Target as JSON). Answers how Triton prints each.

    Raises:
        RuntimeError: Triton does not parse one, or its verifier refuses it.
    """
    target = Target.from_json(arguments["target"])
    context = ir.context()
    ir.load_dialects(context)
    gpu = GPUTarget(target.backend, target.arch, target.warp_size)
    make_backend_class(target)(gpu).load_dialects(context)
    read: list[str] = []
    for text in arguments["texts"]:
        path = folder / "module.ttir"
        path.write_text(text, "utf-8")
        module = ir.parse_mlir_module(str(path), context)
        module.context = context
        if not module.verify():
            raise RuntimeError("Triton's verifier refuses it")
        read.append(str(module))
    return read
