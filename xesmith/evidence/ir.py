"""What TTIR and TTGIR state of a kernel, as the pass `xesmith-evidence` reads it."""

from __future__ import annotations

import re
from typing import Any

from xesmith.errors import ToolchainError, UnreadableLevelError, UsageError
from xesmith.ghost.launch import ANY_GRID, Launch, TensorArg
from xesmith.passes.pipeline import run_pipeline
from xesmith.passes.plugin import REMEDY

#: names that pass options can hold; Triton's own are such
_NAME = re.compile(r"[\w.]+")


def ir_facts(text: str, launch: Launch) -> dict[str, Any]:
    """The pass's JSON of one kernel: its objects `kernel`, `amounts` and `layouts`.

    Raises:
        UnreadableLevelError: not a kernel in generic form.
        ToolchainError: the passes are not built or are older, or the bindings are missing.
    """
    try:
        result = run_pipeline(text, f"xesmith-evidence{{{_options(launch)}}}", keep_text=False)
    except UsageError as error:
        raise ToolchainError(
            f"the MLIR passes are not those of this xesmith: {error.what}", remedy=REMEDY
        ) from error
    if result.evidence is None:
        raise UnreadableLevelError("the pass gave no evidence")
    return result.evidence


def _options(launch: Launch) -> str:
    """A launch as options of the pass.

    Without a grid the pass tells what holds for every one. Values and alignments go by name: the function's arguments may be others than the
    signature's, and are then known by the names of their locations.
    """
    names = [name for name, kind in launch.signature.items() if kind != "constexpr"]
    given = {**launch.constexprs, **launch.values}
    values = {
        name: int(value)
        for name, value in given.items()
        if isinstance(value, int) and _NAME.fullmatch(name)
    }
    alignments = {
        name: value.pointer_alignment_bytes
        for name, value in given.items()
        if isinstance(value, TensorArg) and _NAME.fullmatch(name)
    }
    known = launch.grid != ANY_GRID and min(launch.grid) > 0
    options: dict[str, list[str]] = {
        "kernel": [launch.kernel] if _NAME.fullmatch(launch.kernel) else [],
        "names": names if all(_NAME.fullmatch(name) for name in names) else [],
        "values": [f"{name}={value}" for name, value in values.items()],
        "alignments": [f"{name}={value}" for name, value in alignments.items()],
        "grid": [str(size) for size in launch.grid] if known else [],
    }
    return " ".join(f"{name}={','.join(items)}" for name, items in options.items() if items)
