"""`python -m xesmith.passes.apply PIPELINE`: generic IR on standard input, and what passes make of
it on standard output.

A process that holds Triton cannot load the passes; it runs this one, in xesmith's own Python.
"""

from __future__ import annotations

import sys
from pathlib import Path

from xesmith.errors import ToolchainError, XesmithError
from xesmith.passes.plugin import VARIABLE, plugin_path

_PROGRAM = (
    f"import os, sys; os.environ['{VARIABLE}'] = sys.argv.pop(1); "
    "sys.path.insert(0, sys.argv.pop(1)); "
    "from xesmith.passes.apply import main; sys.exit(main(sys.argv[1:]))"
)


def pass_command() -> tuple[str, ...]:
    """The command that takes a pipeline as its last argument, for a process of any Python.

    It runs the plugin of this process: a worker has another environment.
    """
    try:
        plugin = str(plugin_path())
    except ToolchainError:
        plugin = ""  # the command says what is missing
    return (sys.executable, "-c", _PROGRAM, plugin, str(Path(__file__).resolve().parents[2]))


def main(arguments: list[str]) -> int:
    """Runs the pipeline; returns 1 where there is no result, and says why."""
    from xesmith.passes.pipeline import run_pipeline

    (pipeline,) = arguments
    try:
        sys.stdout.write(run_pipeline(sys.stdin.read(), pipeline).text)
    except XesmithError as error:
        print(error.what, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
