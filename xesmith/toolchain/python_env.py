"""An environment of its own for a Triton release: a venv under the cache folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from xesmith.errors import ToolchainError
from xesmith.toolchain.discover import inspect_python
from xesmith.toolchain.environment import Environment
from xesmith.toolchain.layout import Say
from xesmith.toolchain.pins import CompilerPin

_PIP_TIMEOUT_SECONDS = 3600


def create(folder: Path, pin: CompilerPin, say: Say) -> Environment:
    """Makes the venv `folder` with the pinned requirements, and looks at what it holds.

    Raises:
        ToolchainError: no fitting Python, or pip failed (its own reason is given).
    """
    base = find_python(pin.pythons)
    say(f"making an environment with {base.name} for {pin.distribution} {pin.version}")
    _run([str(base), "-m", "venv", "--clear", str(folder)], folder, "the environment")
    python = folder / "bin" / "python"
    say(f"installing {', '.join(pin.requirements)} (some minutes)")
    _pip(python, ["install", *pin.requirements])
    mend(python, pin, say)
    return inspect_python(python)


def mend(python: Path, pin: CompilerPin, say: Say) -> None:
    """Gives the import package `triton` back to the pinned distribution.

    PyTorch's wheels for CUDA require the upstream `triton`, which installs the same import
    package: pip then leaves a mixture of both. Wheels of PyTorch for CPU do not.
    """
    look = inspect_python(python)
    if look.triton is None and look.intel_files:
        return
    if look.triton is not None:
        say(f"removing triton {look.triton}: it lies over {pin.distribution}")
        _pip(python, ["uninstall", "--yes", "triton"])
    say(f"reinstalling {pin.distribution} {pin.version}")
    exact = f"{pin.distribution}=={pin.version}"
    _pip(python, ["install", "--force-reinstall", "--no-deps", exact])


def find_python(versions: Iterable[str]) -> Path:
    """An interpreter of one of `versions` ("3.11") that runs and can make environments.

    This process's own is preferred, then those on PATH.

    Raises:
        ToolchainError: there is none.
    """
    wanted = tuple(versions)
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    candidates = [sys.executable] if own in wanted else []
    preferred = sorted(wanted, key=lambda version: version != "3.11")
    candidates += [f"python{version}" for version in preferred] + ["python3"]
    check = (
        "import sys, venv, ensurepip; "
        "raise SystemExit('%d.%d' % sys.version_info[:2] not in sys.argv[1:])"
    )
    for candidate in candidates:
        found = shutil.which(candidate)
        # A version manager's shim is there also for versions that do not run.
        if found and _silent([found, "-c", check, *wanted]):
            return Path(found)
    raise ToolchainError(
        f"no Python {' or '.join(wanted)} with venv on this machine",
        remedy=f"install one (on Debian and Ubuntu: sudo apt-get install python3.11 "
        f"python3.11-venv), this one is {own}",
    )


def _silent(command: list[str]) -> bool:
    try:
        done = subprocess.run(command, capture_output=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _pip(python: Path, arguments: list[str]) -> None:
    command = [str(python), "-m", "pip", "--disable-pip-version-check", "--no-input", *arguments]
    _run(command, python, " ".join(["pip", *arguments]))


def _run(command: list[str], where: Path, title: str) -> None:
    # PYTHON* of the caller (warnings, paths) do not concern the other environment.
    env = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            env=env,
            timeout=_PIP_TIMEOUT_SECONDS,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ToolchainError(
            f"{title} did not end within {_PIP_TIMEOUT_SECONDS} s", where=str(where)
        ) from error
    if done.returncode != 0:
        lines = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        telling = [line for line in lines if line.startswith("ERROR")] or lines[-1:]
        raise ToolchainError(
            f"{title} failed: {(telling or ['no output'])[-1].removeprefix('ERROR: ')}",
            where=str(where),
            remedy="check the network and disk space, then run this command again",
        )


def _mend_own() -> None:
    """For the Makefile, whose environment is its own to mend: see `mend`."""
    from xesmith.toolchain.environment import look
    from xesmith.toolchain.pins import load_pins

    if look().intel is not None:
        _, pin = load_pins().compiler("xpu")
        mend(Path(sys.executable), pin, print)


if __name__ == "__main__":
    _mend_own()
