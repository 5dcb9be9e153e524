"""The noun Transform: a change of generic TTIR, text to text, with the key of what it does.

A function runs in the user's process and must be plain Python: it may load no second LLVM
beside Triton's. Anything built on MLIR is a command: it reads the text on its standard input,
or from the file whose name takes the place of {file}, and writes the new one on its standard
output: `xesmith passes run xesmith-exp2 {file}`, or `mlir-opt` itself.

Standard library only.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xesmith.errors import UsageError
from xesmith.hook.settings import current_directory
from xesmith.lowering.text_filter import run_filter
from xesmith.passes.plugin import passes_key

_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


@dataclass(frozen=True)
class Transform:
    """apply: generic TTIR in, generic TTIR out. key: differs whenever `apply` may do something
    else. spec: how a child process can make the same one; None where it cannot."""

    apply: Callable[[str], str]
    key: str
    spec: str | None


def make_transform(
    given: Callable[[str], str] | Sequence[str] | str, directory: Path | None = None
) -> Transform:
    """The transform that a user names.

    Args:
        given: a function; "module:function"; a command line; or a command as a list.
        directory: where a command runs; default: the current one, whatever is so later.

    Raises:
        UsageError: there is no such function or command, or the function's result hangs on
            values that its text does not tell.
    """
    if callable(given):
        return _of_function(given)
    if not isinstance(given, str):
        return _of_command([str(part) for part in given], directory)
    if _FUNCTION.fullmatch(given):
        module_name, _, path = given.partition(":")
        try:
            found: Any = importlib.import_module(module_name)
            for name in path.split("."):
                found = getattr(found, name)
        except (ImportError, AttributeError) as error:
            raise UsageError(
                f"there is no transform '{given}': {error}",
                remedy="name it module:function, in a module that this Python can import",
            ) from error
        return _of_function(found)
    return _of_command(shlex.split(given), directory)


def _of_function(function: Any) -> Transform:
    name = f"{function.__module__}:{function.__qualname__}"
    if getattr(function, "__closure__", None):
        raise UsageError(
            f"the transform {name} uses variables of the function that made it",
            remedy="give a function of a module: its file tells what it does",
        )
    file = sys.modules[function.__module__].__file__
    digest = _digest(Path(file)) if file else repr(function.__code__.co_code)
    spec = name if _is_importable(function) else None
    return Transform(apply=function, key=_key(name, digest), spec=spec)


def _is_importable(function: Any) -> bool:
    return function.__module__ != "__main__" and "<" not in function.__qualname__


def _of_command(command: list[str], directory: Path | None) -> Transform:
    directory = current_directory() if directory is None else directory
    name = command[0] if command else ""
    # A name with a separator is a path; one without is looked up on PATH.
    found = os.path.join(directory or "", name) if os.path.dirname(name) else name
    program = shutil.which(found) if name else None
    if program is None:
        raise UsageError(f"there is no command '{name}'", remedy="give the transform's full path")
    command = [os.path.abspath(program), *command[1:]]
    # Passes, pipelines and plug-ins come as files: another content is another transform.
    files = {
        part: _digest(path)
        for part in command
        if (path := Path(directory or "", _path(part))).is_file()
    }
    files["xesmith"] = passes_key()

    def apply(text: str) -> str:
        return run_filter(command, text, directory)

    return Transform(apply=apply, key=_key(command, files), spec=shlex.join(command))


def _path(argument: str) -> str:
    """The file that an argument may name: "--load-pass-plugin=FILE" does."""
    return argument.rpartition("=")[2]


def _digest(path: Path) -> str:
    made = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while chunk := file.read(1 << 20):
                made.update(chunk)
    except OSError:
        return "unreadable"
    return made.hexdigest()


def _key(*parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]
