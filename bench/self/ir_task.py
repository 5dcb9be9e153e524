"""The compiler from TTIR on, in a worker's child: what a transform's result becomes."""

from __future__ import annotations

import types
from pathlib import Path
from typing import Any

import triton
from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget
from triton.compiler.compiler import triton_key

from xesmith.lowering.generic import generic_form

# Triton hashes its whole installation once per process.
triton_key()


def compile_ttir(arguments: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Arguments: text (TTIR), arch, options. Answers the SPIR-V in hexadecimal, the TTGIR in
    generic form, and Triton's metadata."""
    backend = triton.backends.backends["intel"].compiler
    backend.__init__.__globals__["compile_module_from_src"] = lambda *_: types.SimpleNamespace(
        parse_device_arch=lambda _: ""
    )
    path = folder / "kernel.ttir"
    path.write_text(arguments["text"])
    target = GPUTarget("xpu", arguments["arch"], 32)
    compiled = triton.compile(str(path), target=target, options=arguments["options"])
    lowered = folder / "kernel.ttgir"
    lowered.write_text(str(compiled.asm["ttgir"]))
    context = ir.context()
    ir.load_dialects(context)
    backend(target).load_dialects(context)
    metadata = {
        name: value
        for name, value in compiled.metadata._asdict().items()
        if isinstance(value, (int, str))
    }
    return {
        "spirv": compiled.asm["spv"].hex(),
        "ttgir": generic_form(lowered, context),
        "metadata": metadata,
    }
