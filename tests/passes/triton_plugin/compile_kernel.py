"""A user's program: triton.compile for cuda:90 with a pass after make_ttir. Takes the plugin."""

import hashlib
import json
import sys
from pathlib import Path

import triton
import triton.language as tl
from triton import knobs
from triton._C.libtriton import ir, passes
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

PLUGIN = sys.argv[1]
passes.plugin.extend_with(PLUGIN)
texts = []


def with_exp2(self=None, stages=None, options=None, language=None, capability=None):
    if stages is None:  # Triton asks for what its cache's key must hold
        return "xesmith-exp2", hashlib.sha256(Path(PLUGIN).read_bytes()).hexdigest()
    make_ttir = stages["ttir"]

    def make(source, metadata):
        module = make_ttir(source, metadata)
        texts.append(str(module))
        manager = ir.pass_manager(module.context)
        passes.plugin.add_xesmith_exp2(manager, [])
        manager.run(module, "xesmith")
        texts.append(str(module))
        return module

    stages["ttir"] = make


@triton.jit
def kernel(x, y, n, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    v = tl.load(x + i, mask=i < n)
    tl.store(y + i, tl.exp(v * 0.5), mask=i < n)


knobs.runtime.add_stages_inspection_hook = with_exp2
compiled = triton.compile(
    ASTSource(
        kernel,
        {"x": "*fp32", "y": "*fp32", "n": "i32", "block": "constexpr"},
        constexprs={"block": 128},
    ),
    target=GPUTarget("cuda", 90, 32),
)
before, after = texts
print(
    json.dumps(
        {
            "before": before,
            "after": after,
            "ttgir": compiled.asm["ttgir"],
            "ptx": compiled.asm["ptx"],
            "cubin": compiled.asm["cubin"][:4].hex(),
            "cubin_bytes": len(compiled.asm["cubin"]),
        }
    )
)
