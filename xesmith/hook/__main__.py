"""`python -m xesmith.hook [OPTIONS] SCRIPT ARGUMENTS...`: a program with the hook in place.

Sets the environment that tells every Triton below it and then becomes the program: nothing of
ours is in that process before its Triton asks for a cache, unless a plan of passes is to see the
very first launch.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

from xesmith.errors import UsageError
from xesmith.hook.install import child_environment
from xesmith.hook.planned import PlannedPasses
from xesmith.hook.settings import DEFAULT_FOLDER, DEFAULT_LIMIT_BYTES, FINDINGS, Settings
from xesmith.hook.transform import make_transform
from xesmith.pass_plan import NO_PASSES, read_plan


def main(arguments: list[str]) -> int:
    """Runs the program; returns its exit code, or 2 for a wrong argument."""
    parser = argparse.ArgumentParser(
        prog="python -m xesmith.hook",
        description="Run a Python program and record every kernel that Triton compiles in it.",
    )
    parser.add_argument("-o", "--out", default=DEFAULT_FOLDER, help="folder of the trace")
    parser.add_argument(
        "--transform", help="module:function or command that changes the Triton IR (generic text)"
    )
    parser.add_argument(
        "--passes", metavar="FILE", help="plan of passes (passes.json of xesmith optimize) to apply"
    )
    parser.add_argument("--limit-bytes", type=int, default=DEFAULT_LIMIT_BYTES)
    parser.add_argument(
        "--findings",
        action="store_true",
        help="log findings as kernels are compiled, and show the others when the program ends",
    )
    parser.add_argument("-m", dest="module", action="store_true", help="PROGRAM is a module")
    parser.add_argument("program", help="a script, or with -m a module")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="the program's own")
    given = parser.parse_args(arguments)
    try:
        transform = None if given.transform is None else make_transform(given.transform)
        if given.passes is not None and transform is not None:
            raise UsageError("give --transform or --passes, not both")
        plan = NO_PASSES if given.passes is None else read_plan(given.passes)
        reader = (os.environ.get(FINDINGS) or "1") if given.findings else ""
        settings = Settings.given(
            given.out, given.transform, given.limit_bytes, reader, given.passes
        )
        planned = PlannedPasses(plan)
        key = planned.key if transform is None else transform.key
        environment = child_environment(settings, key)
    except (UsageError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    # Launches must be seen from the first one on, which is before Triton asks for a cache.
    early = ["-m", "xesmith.hook.program"] if planned.looks_at_launches else []
    module = ["-m"] if given.module else []
    command = [sys.executable, *early, *module, given.program, *given.arguments]
    if not given.findings:
        sys.stdout.flush()
        os.execve(sys.executable, command, environment)
    code = subprocess.run(command, env=environment, check=False).returncode
    shown = [
        sys.executable,
        "-m",
        "xesmith.cli.app",
        "trace",
        "show",
        str(settings.folder),
        "--new",
    ]
    subprocess.run(shown, check=False, stdout=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
