"""Asks of a problem whether its output is worth computing (see `problem_task`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from xesmith.errors import InputKernelError
from xesmith.ghost.launch import Program
from xesmith.scratch import ScratchFolder
from xesmith.timing.contest import EntryShape
from xesmith.worker.client import WorkerPool

_TASK = "xesmith.timing.problem_task"


@dataclass(frozen=True)
class ProblemCheck:
    """`faults` say what is wrong at which shape; `asked`, what the output was held against."""

    faults: tuple[str, ...]
    asked: tuple[str, ...]


def checking_pool(python: Path) -> WorkerPool:
    """The fork server in which references are checked."""
    return WorkerPool(python, "check", preload=(_TASK,))


def check_problem(
    pool: WorkerPool,
    reference: str,
    path: str,
    shapes: Sequence[EntryShape],
    init_names: Sequence[str] = (),
    *,
    timeout_s: float = 120.0,
) -> ProblemCheck:
    """Runs the reference at each shape, which should be small.

    Raises:
        InputKernelError: the reference does not run.
    """
    faults: list[str] = []
    asked: list[str] = []
    with ScratchFolder("check") as scratch:
        for number, shape in enumerate(shapes):
            program = Program(reference, path, inits=shape.inits, inputs=shape.inputs)
            floats = [
                i.dtype for i in shape.inputs or () if i.dtype.startswith(("float", "bfloat"))
            ]
            ended = pool.run(
                f"{_TASK}:check",
                {
                    "program": program.to_json(),
                    "dtype": floats[0] if floats else None,
                    "rtol": shape.rtol,
                    "atol": shape.atol,
                    "init_names": list(init_names),
                },
                folder=scratch.path / str(number),
                timeout_s=timeout_s,
            )
            failure = str(ended) if ended.status != "ok" else ended.value["failure"]
            if failure is not None:
                raise InputKernelError(
                    f"the reference fails at {shape.label}: {failure}",
                    where=path,
                    remedy="a problem needs a reference that runs by itself",
                )
            faults += [f"{shape.label}: {text}" for text in ended.value["faults"]]
            asked += ended.value["asked"]
    return ProblemCheck(tuple(faults), tuple(dict.fromkeys(asked)))
