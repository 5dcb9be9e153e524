"""The bare compiler, in the same kind of child as xesmith's own lowering.

Compiles a captured launch with `triton.compile` and ocloc as a user would, with no evidence
taken: no generic IR, no shader dump, no SPIR-V text.
"""

from __future__ import annotations

import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.compiler.compiler import triton_key

# Triton hashes its whole installation once per process, which our own lowering does without; a
# process that compiles more than one kernel has it behind it.
triton_key()


def compile_launch(arguments: dict[str, Any], folder: Path) -> int:
    """Arguments: source, launch (JSON), arch, options, ocloc (command), ocloc_device, flags.

    Answers the size of the native binary in bytes.
    """
    backend = triton.backends.backends["intel"].compiler
    backend.__init__.__globals__["compile_module_from_src"] = lambda *_: types.SimpleNamespace(
        parse_device_arch=lambda _: ""
    )
    path = folder / "program.py"
    path.write_text(arguments["source"])
    module = types.ModuleType("program")
    module.__file__ = str(path)
    sys.modules["program"] = module
    launch = arguments["launch"]
    # Inputs and wrapper play no part here: the kernels alone are defined.
    exec(compile(arguments["source"], str(path), "exec"), module.__dict__)
    kernel = getattr(module, launch["kernel"])
    names = [p.name for p in kernel.params]
    signature = {name: launch["signature"].get(name, "constexpr") for name in names}
    constants = {(names.index(k),): v for k, v in launch["constexprs"].items()}
    attributes = {
        (names.index(name),): [["tt.divisibility", 16]] for name in launch["divisible_by_16"]
    }
    compiled = triton.compile(
        ASTSource(kernel, signature, constants, attributes),
        target=GPUTarget("xpu", arguments["arch"], 32),
        options=arguments["options"],
    )
    spirv = folder / "kernel.spv"
    spirv.write_bytes(compiled.asm["spv"])
    command = [*arguments["ocloc"], "compile", "-file", str(spirv), "-spirv_input"]
    command += ["-device", arguments["ocloc_device"], "-options", arguments["flags"]]
    out = folder / "out"
    out.mkdir()
    command += ["-out_dir", str(out), "-output", "kernel"]
    subprocess.run(command, check=True, capture_output=True)
    return max(path.stat().st_size for path in out.glob("*.bin"))
