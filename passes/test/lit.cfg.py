"""lit's configuration: mlir-opt and FileCheck of the environment's wheels, and the plugin."""

# ruff: noqa: F821

import os
import sysconfig
from pathlib import Path

import lit.formats

packages = Path(sysconfig.get_path("purelib"))
plugin = os.environ.get("XESMITH_PASSES") or str(
    Path(__file__).resolve().parents[2] / "build" / "passes" / "XeSmithPasses.so"
)

config.name = "xesmith-passes"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir"]
config.test_source_root = str(Path(__file__).resolve().parent)
config.test_exec_root = os.environ.get("XESMITH_LIT_OUTPUT", str(Path(plugin).parent / "test"))
# `xs-opt` in a RUN line: unregistered dialects, and locations that point into the test itself.
config.substitutions.append(
    (
        r"xs-opt",
        f"{packages}/mlir/bin/mlir-opt --load-pass-plugin={plugin} "
        "--allow-unregistered-dialect --mlir-print-op-generic",
    )
)
config.substitutions.append((r"FileCheck", f"{packages}/llvm/bin/FileCheck"))
