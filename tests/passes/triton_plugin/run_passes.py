"""Runs passes inside Triton's own process: run_passes.py PLUGIN FILE [PASS[{OPTIONS}] ...]

Prints the module after each, from the same start, as a JSON array; null where the pass refused.
"""

import json
import sys

from triton._C.libtriton import ir, passes
from triton.backends.compiler import GPUTarget
from triton.compiler.compiler import make_backend

plugin, path, *pipelines = sys.argv[1:]
passes.plugin.extend_with(plugin)
context = ir.context()
ir.load_dialects(context)
make_backend(GPUTarget("cuda", 90, 32)).load_dialects(context)
made = []
for pipeline in pipelines:
    module = ir.parse_mlir_module(path, context)
    module.context = context
    manager = ir.pass_manager(context)
    name, _, options = pipeline.rstrip("}").partition("{")
    add = getattr(passes.plugin, "add_" + name.replace("-", "_"))
    add(manager, options.split())
    try:
        manager.run(module, "xesmith")
        assert module.verify()
        made.append(str(module))
    except RuntimeError:
        made.append(None)
print(json.dumps(made))
