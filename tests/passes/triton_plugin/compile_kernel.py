"""A user's program: triton.compile for cuda:90 with a pass after make_ttir.

compile_kernel.py PLUGIN [--show]    prints JSON, or what the pass changed
"""

import difflib
import hashlib
import json
import re
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


knobs.compilation.always_compile = True  # else the second run finds the kernel in the cache
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
cubin = compiled.asm["cubin"]
if "--show" in sys.argv:
    bare = [
        re.sub(r"^#loc.*\n| loc\(.*?\)$", "", text, flags=re.MULTILINE).splitlines()
        for text in texts
    ]
    names = ("TTIR", "TTIR after xesmith-exp2")
    print("\n".join(difflib.unified_diff(*bare, *names, n=1, lineterm="")))
    print(f"PTX: {re.search(r'ex2[^;]*', compiled.asm['ptx']).group()}")
    print(f"cubin: {len(cubin)} B, {cubin[:4]}")
else:
    found = {"ttgir": compiled.asm["ttgir"], "ptx": compiled.asm["ptx"]}
    found |= {"before": before, "after": after}
    print(json.dumps({**found, "cubin": cubin[:4].hex(), "cubin_bytes": len(cubin)}))
