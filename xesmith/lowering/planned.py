"""A PassPlan put to work inside Triton: which entry a launch gets, and what is done in its compile.

Triton compiles a kernel once for all values of its integer arguments, so what holds for some
values only must not reach the others. A launch that an entry is for goes to a stand-in of its
jit function: the same function with compiled kernels, and a key in the caches on disk, of its own.

Runs in worker and users' processes: standard library and Triton only.
"""

from __future__ import annotations

import contextlib
import copy
import os
import threading
from collections import defaultdict
from collections.abc import Generator, Mapping, Sequence
from typing import Any, cast

from xesmith.lowering.text_filter import TransformError, run_filter
from xesmith.pass_plan import PassEntry

_STAND_INS = "_xesmith_stand_ins"
_ENTRY = "_xesmith_entry"

_lock = threading.Lock()


def stand_in(function: Any, entry: PassEntry, passes_key: str = "") -> Any:
    """The jit function that is launched instead of `function` where `entry` is for the launch.

    Args:
        passes_key: differs where the passes do.
    """
    with _lock:
        known: dict[str, Any] = function.__dict__.setdefault(_STAND_INS, {})
        key = f"{entry.key}{passes_key}"
        made = known.get(key)
        if made is None:
            base: str = function.cache_key  # computed now: the copy takes what comes with it
            made = copy.copy(function)
            made.device_caches = defaultdict(made.create_binder)
            made.hash = f"{base}-{key}"
            made.__dict__[_ENTRY] = entry
            known[key] = made
        return made


def entry_of(function: Any) -> PassEntry | None:
    """The entry that `function` is a stand-in for."""
    return getattr(function, "__dict__", {}).get(_ENTRY)


def arguments_of(function: Any, args: Sequence[Any], keywords: Mapping[str, Any]) -> dict[str, Any]:
    """Parameter -> value of a launch, with defaults; what is no parameter is left out."""
    found: dict[str, Any] = dict(zip(function.arg_names, args, strict=False))
    for parameter in function.params:
        name = parameter.name
        if name in keywords:
            found[name] = keywords[name]
        elif name not in found and parameter.has_default:
            found[name] = parameter.default
    return found


def grid_of(grid: Any, values: Mapping[str, Any]) -> tuple[int, int, int] | None:
    """The extents of a launch's grid; None of one that is not understood."""
    shape: Any = grid(values) if callable(grid) else grid
    if isinstance(shape, int):
        shape = (shape,)
    if not isinstance(shape, (tuple, list)):
        return None
    extents = cast("Sequence[Any]", shape)
    try:
        x, y, z = (*(int(extent) for extent in extents), 1, 1)[:3]
    except (TypeError, ValueError):
        return None
    return (x, y, z)


def apply_pipeline(
    command: Sequence[str], entry: PassEntry, signature: Mapping[str, str], text: str
) -> str:
    """What the entry's pipeline makes of a kernel's generic TTIR.

    Args:
        command: takes the pipeline as its last argument, and filters.

    Raises:
        TransformError: it fails.
    """
    pipeline = entry.resolved(signature)
    try:
        return run_filter([*command, pipeline], text)
    except TransformError as error:
        raise TransformError(f"the pipeline '{entry.pipeline}' fails: {error}") from None


@contextlib.contextmanager
def switched(switches: Mapping[str, str]) -> Generator[None]:
    """The process's environment with these variables, for the time of a compile."""
    before = {name: os.environ.get(name) for name in switches}
    os.environ.update(switches)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
