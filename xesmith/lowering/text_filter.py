"""Commands that filter the text of a module, in processes of their own.

Runs in worker and users' processes: standard library only.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

TIMEOUT_SECONDS = 120.0
FILE = "{file}"


class TransformError(Exception):
    """A transform gave no IR. Its text is one sentence."""


def run_filter(command: Sequence[str], text: str, directory: Path | None = None) -> str:
    """What a command makes of `text`: given on its standard input, or as the file whose name
    takes the place of {file}.

    Args:
        directory: where the command runs; default: the current one.

    Raises:
        TransformError: it fails, or does not end.
    """
    with contextlib.ExitStack() as stack:
        if FILE in command:
            file = stack.enter_context(tempfile.NamedTemporaryFile("w", suffix=".ttir"))
            file.write(text)
            file.flush()
            command = [file.name if part == FILE else part for part in command]
            text = ""
        return _output(command, text, directory)


def _output(command: Sequence[str], text: str, directory: Path | None) -> str:
    # TRITON_CACHE_MANAGER and its like are the user's process's affair.
    hidden = ("TRITON_", "XESMITH_HOOK")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(hidden)}
    try:
        done = subprocess.run(
            command,
            input=text.encode(),
            capture_output=True,
            timeout=TIMEOUT_SECONDS,
            env=environment,
            cwd=directory,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise TransformError(f"it did not end within {TIMEOUT_SECONDS:g} s") from error
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip()[-500:]
        raise TransformError(f"exit code {done.returncode}: {said}")
    return done.stdout.decode()
