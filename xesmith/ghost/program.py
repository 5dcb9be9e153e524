"""Runs a program's source on the ghost device.

Runs in worker processes: standard library, torch and Triton only.
"""

from __future__ import annotations

import linecache
import sys
import traceback
import types
from pathlib import Path
from typing import Any

from xesmith.ghost.capture import Recorder
from xesmith.ghost.driver import Target
from xesmith.ghost.foreign import foreign
from xesmith.ghost.inputs import empty_input
from xesmith.ghost.launch import Program
from xesmith.ghost.torch_device import GhostTorch, made_bytes
from xesmith.lowering.record import Failure

MODULE_NAME = "xesmith_program"


def run_program(program: Program, target: Target, recorder: Recorder) -> Failure | None:
    """Runs `program` with torch answering as a machine that has the target's device.

    Returns:
        Why it did not come to its end; None when it did.
    """
    import torch

    level = "import"
    recorder.enter_phase(level)
    try:
        ghost = GhostTorch(target.backend, notes=recorder.notes, properties=target.properties)
        with ghost:
            module = _load(program)
            if program.entry == "script":
                return None
            level = "model"
            recorder.enter_phase(level)
            with torch.no_grad():
                recorder.made_bytes = made_bytes(_call_model(program, module))
    except SystemExit as error:
        if error.code in (None, 0):
            return None
        return Failure(kind="python", level=level, message=f"the program exits with {error.code}")
    except BaseException as error:  # a candidate may raise anything
        if isinstance(error, MemoryError):
            raise
        return _failure(error, level, program, recorder)
    return None


def _load(program: Program) -> types.ModuleType:
    """Executes the source as a module of its own, under the path that it came from."""
    path = program.path
    folder = str(Path(path).resolve().parent)
    sys.path.insert(0, folder)
    sys.argv = [path, *program.argv]
    lines = program.source.splitlines(keepends=True)
    # Triton reads a kernel's text through `inspect`: it must find this source, not the file's.
    linecache.cache[path] = (len(program.source), None, lines, path)
    code = compile(program.source, path, "exec")
    name = "__main__" if program.entry == "script" else MODULE_NAME
    module = types.ModuleType(name)
    module.__file__ = path
    sys.modules[name] = module
    exec(code, module.__dict__)
    return module


def _call_model(program: Program, module: types.ModuleType) -> Any:
    import torch

    model_class = _required(module, "Model", program)
    foreign("torch").manual_seed(program.seed)
    inits = program.inits
    if inits is None:
        inits = tuple(_optional(module, "get_init_inputs"))
    model = model_class(*inits)
    dtype = getattr(torch, program.dtype) if program.dtype else None
    if dtype is not None and isinstance(model, torch.nn.Module):
        model = model.to(dtype)
    if program.inputs is None:
        inputs = list(_required(module, "get_inputs", program)())
    else:
        inputs = [empty_input(spec) for spec in program.inputs]
    return model(*inputs)


def _required(module: types.ModuleType, name: str, program: Program) -> Any:
    found = getattr(module, name, None)
    if found is None:
        raise AttributeError(f"{Path(program.path).name} defines no '{name}'")
    return found


def _optional(module: types.ModuleType, name: str) -> list[Any]:
    function = getattr(module, name, None)
    return [] if function is None else list(function())


def _failure(error: BaseException, level: str, program: Program, recorder: Recorder) -> Failure:
    line = error.lineno if isinstance(error, SyntaxError) else None
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename == program.path:
            line = frame.lineno
    for raised, refused in recorder.raised:
        if raised is error:
            return refused
    return Failure(
        kind="python",
        level=level,
        message=f"{type(error).__name__}: {error}",
        line=line,
        detail="".join(traceback.format_exception(error))[-4000:],
    )
