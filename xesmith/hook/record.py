"""Records one compiled kernel into the trace folder.

Runs in users' processes: standard library and Triton only.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from xesmith.ghost.foreign import foreign
from xesmith.hook.source import function_texts, launch_of
from xesmith.hook.trace import BEFORE, FUNCTIONS, LARGEST_LEVEL_BYTES, LOWERING
from xesmith.lowering.exchange import GenericPrinter
from xesmith.lowering.record import LEVEL_FILES, Lowering

#: names of Triton's stages and files -> ours
_LEVELS = {"spv": "spirv"}


def level_name(stage: str) -> str:
    """Our name of the level that one of Triton's stages makes."""
    return _LEVELS.get(stage, stage)


@dataclass
class Compile:
    """What one thread knows of the compile that it is in."""

    started: float = field(default_factory=time.perf_counter)
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    transform: dict[str, Any] | None = None  # key, spec, status, seconds, reason
    before: str | None = None  # generic TTIR before a transform that changed it
    source: Any = None  # Triton's ASTSource, where a plan of passes asks for it


def fill(
    folder: Path,
    kernel: Any,
    group: Mapping[str, str],
    compile_: Compile | None,
    printer: GenericPrinter,
) -> Mapping[str, Any]:
    """Writes all that is known of a kernel into an empty folder.

    Args:
        kernel: Triton's CompiledKernel.
        group: its files in Triton's cache, by name.
        compile_: None where Triton's cache had it.

    Returns:
        What the index tells of it.
    """
    metadata: dict[str, Any] = kernel.metadata._asdict()
    target = metadata["target"]
    levels, not_read = _keep_levels(folder, group)
    for level in ("ttir", "ttgir"):
        if level in levels:
            generic = f"{level}_generic"
            try:
                text = printer.text(folder / levels[level], target)
            except Exception as error:  # a Triton that prints in another way
                not_read[generic] = f"{type(error).__name__}: {error}"[:500]
                continue
            (folder / LEVEL_FILES[generic]).write_text(text)
            levels[generic] = LEVEL_FILES[generic]
    distribution = "triton-xpu" if target.backend == "xpu" else "triton"
    lowering = Lowering(
        launch=launch_of(kernel.src, metadata),
        device=_target_name(target),
        compiler=f"{distribution} {foreign('triton').__version__}",
        native_compiler=None,
        levels=levels,
        metadata=_plain_metadata(metadata),
        seconds={} if compile_ is None else compile_.seconds,
        not_read=not_read,
    )
    (folder / LOWERING).write_text(json.dumps(lowering.to_json(), default=str))
    if (function := getattr(kernel.src, "fn", None)) is not None:
        texts = [item.to_json() for item in function_texts(function)]
        (folder / FUNCTIONS).write_text(json.dumps(texts))
    if compile_ is not None and compile_.before is not None:
        (folder / BEFORE).write_text(compile_.before)
    return {
        "kernel": lowering.launch.kernel,
        "file": lowering.launch.file,
        "line": lowering.launch.line,
        "target": lowering.device,
        "compiler": lowering.compiler,
        "options": lowering.launch.options,
        "seconds": lowering.seconds,
        "from_cache": compile_ is None,
        "transform": None if compile_ is None else compile_.transform,
    }


def _keep_levels(folder: Path, group: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """(level -> file in `folder`, level -> why it is not kept)."""
    levels: dict[str, str] = {}
    not_read: dict[str, str] = {}
    for file_name, path in group.items():
        level = level_name(file_name.rpartition(".")[2])
        if level not in LEVEL_FILES:
            continue
        size = os.path.getsize(path)
        if size > LARGEST_LEVEL_BYTES:
            not_read[level] = f"{size} B, more than a trace keeps ({LARGEST_LEVEL_BYTES} B)"
            continue
        # No second name for the cache's file: a trace may be edited.
        shutil.copyfile(path, folder / LEVEL_FILES[level])
        levels[level] = LEVEL_FILES[level]
    return levels, not_read


def _target_name(target: Any) -> str:
    arch: Any = target.arch
    name = cast("dict[str, Any]", arch).get("name") if isinstance(arch, dict) else arch
    return f"{target.backend}:{name}"


def _plain_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for name, value in metadata.items():
        if name in ("target", "extern_libs", "hash"):
            continue
        with contextlib.suppress(TypeError, ValueError):
            kept[name] = json.loads(json.dumps(value))
    return kept
