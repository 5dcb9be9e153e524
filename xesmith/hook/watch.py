"""`python -m xesmith.hook.watch TRACE`: judges the kernels of a trace as they are recorded.

The child of `xesmith.hook.findings`. Writes one JSON object a line: each finding as it is to be
logged, then that its kernel is judged. Ends when its standard input does.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from xesmith.errors import ToolchainError, XesmithError
from xesmith.findings.record import Finding
from xesmith.hook.judged import judge_kernel
from xesmith.hook.read import read_kernel
from xesmith.hook.trace import INDEX, KERNELS, events
from xesmith.toolchain.native import find_native
from xesmith.toolchain.record import NativeTools

_POLL_SECONDS = 0.3


def main(trace: Path) -> None:
    _be_modest()
    try:
        tools = find_native()
    except ToolchainError:
        tools = None  # what native code would tell stays untold
    said: set[tuple[str, str, str, int | None]] = set()
    read = 0
    while not _has_ended(_POLL_SECONDS):
        data = (trace / INDEX).read_bytes()[read:]
        whole = data[: data.rfind(b"\n") + 1]
        read += len(whole)
        for event in events(whole):
            if event["event"] == "kernel" and "folder" in event and "hash" in event:
                for line in _told_of(trace, event, tools, said):
                    print(json.dumps(line), flush=True)
                if _has_ended(0):
                    return


def _be_modest() -> None:
    """What the program does comes first; ocloc, a child of this process, inherits it."""
    with contextlib.suppress(OSError):
        os.nice(19)
    with contextlib.suppress(OSError, AttributeError):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def _has_ended(seconds: float) -> bool:
    """Whether the parent is gone: it never writes, so what can be read is the end."""
    return bool(select.select([sys.stdin], [], [], seconds)[0])


def _told_of(
    trace: Path,
    event: dict[str, Any],
    tools: NativeTools | None,
    said: set[tuple[str, str, str, int | None]],
) -> Iterator[dict[str, str]]:
    folder = trace / KERNELS / Path(str(event["folder"])).name
    if any(folder.glob("findings-*.json")):
        return  # told before: by another reader, or by `xesmith trace show`
    try:
        kernel = read_kernel(trace, event)
        judged = None if kernel is None else judge_kernel(kernel, None, tools)
    except XesmithError as error:
        judged = None
        yield {"severity": "note", "text": f"{event.get('kernel')}: not judged: {error.what}"}
    if judged is not None and not judged.was_shown:
        file = judged.kernel.lowering.launch.file
        for finding in judged.findings:
            # Configurations of a kernel share most of their findings.
            key = (file, finding.kernel, finding.kind, finding.line)
            if key not in said:
                said.add(key)
                yield {"severity": finding.severity, "text": _line(finding, file)}
    yield {"judged": str(event["hash"])}


def _line(finding: Finding, file: str) -> str:
    at = f"{file}:{finding.line}" if finding.line else file
    parts = [f"{finding.severity}[{finding.kind}] {finding.kernel} ({at}): {finding.message}"]
    parts += [f"why: {finding.reason}"] if finding.reason else []
    parts += [f"mend: {finding.remedy}"] if finding.remedy else []
    return "; ".join(parts).replace("\n", " ")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
