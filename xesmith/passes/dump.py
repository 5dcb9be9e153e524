"""Dumps of Triton IR, as Triton prints them or in generic form, as text that stock MLIR reads."""

from __future__ import annotations

import re
from pathlib import Path

from xesmith.device import Device
from xesmith.errors import ToolchainError, UnreadableLevelError, UsageError
from xesmith.ghost.launch import Launch
from xesmith.ir_bounds import MAX_TEXT_BYTES
from xesmith.lowering.lowerer import target_json
from xesmith.passes.mlir import check_bounds
from xesmith.passes.pipeline import full_pipeline
from xesmith.scratch import ScratchFolder
from xesmith.toolchain import find_toolchain
from xesmith.worker.client import WorkerPool

#: endings of the files that are taken for dumps
SUFFIXES = (".ttir", ".ttgir", ".mlir")
_PLAIN_MASKS = re.compile(r"xesmith-check-masks(?![\w{-])")
_GENERIC = '"builtin.module"('
_TASK = "xesmith.passes.generic_task:print_generic"
_ERROR = re.compile(r":(\d+):(\d+)\)?: error: (.*)")


def read_dump(
    path: Path, device: Device, toolchain: str | None = None, *, level: str | None = None
) -> str:
    """The module in a file, in generic form.

    A file in generic form is read as it is. One as Triton prints it goes through a Triton that
    knows `device`, in a worker process. `level`: "ttir" or "ttgir"; None: the file's ending says.

    Raises:
        UsageError: no such file, or it is no text.
        UnreadableLevelError: too large, too deep, or Triton can't parse it; with its position.
        ToolchainError: it needs a Triton, and there is none.
    """
    try:
        if path.stat().st_size > MAX_TEXT_BYTES:
            raise UnreadableLevelError(f"it is over {MAX_TEXT_BYTES} B", where=str(path))
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"the file can't be read: {error}", where=str(path), remedy="name a .ttir or .ttgir"
        ) from error
    try:
        check_bounds(text)
    except UnreadableLevelError as error:
        raise UnreadableLevelError(error.what, where=str(path)) from error
    if _GENERIC in text:
        return text
    suffix = path.suffix if level is None else f".{level}"
    return _through_triton(text, path, suffix, device, toolchain)


def _through_triton(
    text: str, path: Path, suffix: str, device: Device, toolchain: str | None
) -> str:
    found = find_toolchain(toolchain, device.kind, native=False)
    arguments = {
        "text": text,
        "suffix": suffix if suffix in (".ttir", ".ttgir") else ".ttir",
        "target": target_json(device),
    }
    with (
        ScratchFolder("dump") as scratch,
        WorkerPool(found.python, "lower", preload=["triton"], parallel=1) as workers,
    ):
        work = scratch.path / "task"
        result = workers.run(_TASK, arguments, folder=work)
    if result.status == "ok":
        return result.value["text"]
    said = _ERROR.search(result.stderr_tail)
    if said is not None:
        line, column, message = said.groups()
        raise UnreadableLevelError(
            f"Triton can't parse it: {message.strip()[:300]}", where=f"{path}:{line}:{column}"
        )
    if result.status == "raised" and result.error is not None:
        raise UnreadableLevelError(
            f"Triton can't parse it: {result.error['message'][:300]}", where=str(path)
        )
    raise ToolchainError(
        f"the compiler did not read the dump: {result.status}",
        where=str(path),
        remedy="xesmith doctor",
    )


def with_launch(pipeline: str, launch: Launch) -> str:
    """`pipeline` with each `{launch}` replaced by the values and the grid of a launch.

    `xesmith-specialize-args{launch}` gets the values alone: it takes no grid. The check of masks,
    where no options stand after it, gets the launch too.
    """
    pipeline = _PLAIN_MASKS.sub("xesmith-check-masks{launch}", full_pipeline(pipeline))
    names = [name for name, kind in launch.signature.items() if kind != "constexpr"]
    values = ",".join(
        f"{index}={_number(launch.values[name])}"
        for index, name in enumerate(names)
        if isinstance(launch.values.get(name), (int, float))
    )
    grid = "grid=" + ",".join(str(size) for size in launch.grid)
    given = f"values={values}" if values else ""
    alone = pipeline.replace(
        "xesmith-specialize-args{launch}", f"xesmith-specialize-args{{{given}}}"
    )
    return alone.replace("{launch}", f"{{{f'{given} {grid}'.strip()}}}")


def _number(value: float) -> str:
    return repr(int(value)) if isinstance(value, (bool, int)) else repr(value)
