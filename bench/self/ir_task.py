"""The compiler from TTIR on, in a worker's child: what a transform's result becomes."""

from __future__ import annotations

import types
from pathlib import Path
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler.compiler import triton_key

# Triton hashes its whole installation once per process.
triton_key()


def compile_ttir(arguments: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Arguments: text (TTIR), arch, options. Answers the SPIR-V in hexadecimal, and its SLM."""
    backend = triton.backends.backends["intel"].compiler
    backend.__init__.__globals__["compile_module_from_src"] = lambda *_: types.SimpleNamespace(
        parse_device_arch=lambda _: ""
    )
    path = folder / "kernel.ttir"
    path.write_text(arguments["text"])
    compiled = triton.compile(
        str(path), target=GPUTarget("xpu", arguments["arch"], 32), options=arguments["options"]
    )
    return {"spirv": compiled.asm["spv"].hex(), "shared_bytes": compiled.metadata.shared}
