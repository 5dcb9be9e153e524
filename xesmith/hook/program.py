"""`python -m xesmith.hook.program [-m] PROGRAM ARGUMENTS...`: a program with the hook in place from
its first line on, as the environment says. Imports Triton before the program does.
"""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path

from xesmith.hook.install import bootstrap


def main() -> None:
    """Becomes the program, as Python itself would run it."""
    arguments = sys.argv[1:]
    is_module = arguments[0] == "-m"
    sys.argv = arguments[1:] if is_module else arguments
    bootstrap()
    if is_module:
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
        return
    sys.path[0] = str(Path(sys.argv[0]).resolve().parent)
    # As Python does: code objects, and so every location in Triton's IR, hold the absolute name.
    runpy.run_path(os.path.abspath(sys.argv[0]), run_name="__main__")


if __name__ == "__main__":
    main()
