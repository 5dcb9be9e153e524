"""The worker task that lowers a program: run on the ghost device, each launch compiled.

Runs in worker processes: standard library, torch and Triton only.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from xesmith.ghost.capture import Compiled, Recorder
from xesmith.ghost.descriptor import translated_descriptors
from xesmith.ghost.driver import Target
from xesmith.ghost.foreign import foreign
from xesmith.ghost.launch import Program
from xesmith.ghost.program import run_program
from xesmith.lowering.generic import NotGenericError, generic_form
from xesmith.lowering.record import LEVEL_FILES, GhostRun


def lower_program(arguments: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Runs a program on the ghost device and writes every level under `folder`/<n>/.

    Args:
        arguments: {"program": Program, "target": Target, "device": its name,
            "distribution": Triton's distribution, "pass_command": what runs the pipelines of the
            program's plan, "keep_going": go on after a launch that the
            device would refuse, "descriptors": "block_pointer" or "pointers"}, as JSON.
        folder: an empty folder.

    Returns:
        {"run": a GhostRun as JSON, without native levels, "dependencies": files that the
        program imported from its own folder}.
    """
    tempfile.tempdir = str(folder)  # for the compiler's own leavings
    started = time.perf_counter()
    program = Program.from_json(arguments["program"])
    target = Target.from_json(arguments["target"])
    recorder = Recorder(
        target,
        folder,
        device=arguments["device"],
        compiler=f"{arguments['distribution']} {foreign('triton').__version__}",
        keep_going=arguments["keep_going"],
        plan=program.passes,
        pass_command=arguments["pass_command"],
        on_level=_write_generic,
    )
    block_pointers = arguments["descriptors"] == "block_pointer"
    with recorder, translated_descriptors(recorder.translated, block_pointers=block_pointers):
        failure = run_program(program, target, recorder)
    run = GhostRun(
        lowerings=tuple(recorder.lowerings),
        failure=failure,
        notes=tuple(recorder.notes),
        seconds=time.perf_counter() - started,
        made_bytes=recorder.made_bytes,
    )
    return {"run": run.to_json(), "dependencies": _dependencies(program)}


def _write_generic(compiled: Compiled, level: str, path: Path, data: Any) -> None:
    """Writes TTIR and TTGIR a second time, in generic form."""
    name = f"{level}_generic"
    if name not in LEVEL_FILES:
        return
    try:
        text = generic_form(path, data.context, live=data)
    except (NotGenericError, RuntimeError, AttributeError) as error:
        compiled.not_read[name] = f"{type(error).__name__}: {error}"
        return
    generic = path.with_name(LEVEL_FILES[name])
    generic.write_text(text)
    compiled.levels[name] = str(generic)


def _dependencies(program: Program) -> list[str]:
    """Files beside the program that it imported: its result depends on them too."""
    folder = Path(program.path).resolve().parent
    files: set[str] = set()
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if file and file != program.path and "site-packages" not in file:
            path = Path(file).resolve()
            if path.is_relative_to(folder):
                files.add(str(path))
    return sorted(files)
