"""The nouns Lowering and GhostRun: what the compiler made of each launch of a program.

Standard library only: worker processes in foreign environments import it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any

from xesmith.ghost.launch import ANY_GRID, Launch

#: file names of the levels inside a lowering's folder, in order of descent
LEVEL_FILES = {
    "ttir": "kernel.ttir",  # as Triton prints it
    "ttir_generic": "kernel.generic.ttir",  # generic form, aliases expanded, for stock MLIR
    "ttgir": "kernel.ttgir",
    "ttgir_generic": "kernel.generic.ttgir",
    "llir": "kernel.ll",
    "spirv": "kernel.spv",
    "spirv_text": "kernel.spvasm",
    "zebin": "kernel.zebin",
    "ze_info": "kernel.ze_info",
    "asm": "kernel.asm",  # IGC's annotated assembly, last retry only
    "native_log": "kernel.ocloc.log",
    "ptx": "kernel.ptx",
    "cubin": "kernel.cubin",
}


@dataclass(frozen=True)
class Failure:
    """Why a task did not give its result.

    kind: "python" (the program raised), "compile" (the compiler refused), "out_of_resources"
    (the device would refuse: SLM, work-group size), "crash", "timeout", "memory", "native"
    (ocloc refused or gave a degenerate binary), "options" (an option would be ignored), "lost"
    (the worker's server ended before it was done), "forged", "stuck" and "unconfined" (see
    `worker.client.TaskResult`).
    level: the level that was being made, or "launch", "import", "model".
    """

    kind: str
    level: str
    message: str
    line: int | None = None
    detail: str = ""  # tail of the compiler's stderr or of the traceback
    numbers: dict[str, int] = field(
        default_factory=dict[str, int]
    )  # e.g. required_bytes, limit_bytes

    @classmethod
    def from_json(cls, data: dict[str, Any] | None) -> Failure | None:
        return None if data is None else cls(**data)


@dataclass(frozen=True)
class Lowering:
    """One launch lowered for one device by one toolchain.

    `levels` maps each level that was made to its file's path; a level that is missing was
    not made (`failure` or `not_read` says why).
    """

    launch: Launch
    device: str
    compiler: str  # "triton-xpu 3.3.0b1"
    native_compiler: str | None  # "ocloc 26.27.1"
    levels: dict[str, str]
    metadata: dict[str, Any]  # Triton's: shared, num_warps, threads_per_warp, name, ...
    seconds: dict[str, float]  # per level
    failure: Failure | None = None
    not_read: dict[str, str] = field(default_factory=dict[str, str])  # level -> reason
    notes: tuple[str, ...] = ()  # e.g. descriptor translated to block pointers
    suppress: tuple[str, ...] = ()  # finding kinds that a translation would cause
    cached: bool = False

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "launch": self.launch.to_json()}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Lowering:
        fields: dict[str, Any] = {
            **data,
            "launch": Launch.from_json(data["launch"]),
            "failure": Failure.from_json(data.get("failure")),
            "notes": tuple(data.get("notes", ())),
            "suppress": tuple(data.get("suppress", ())),
        }
        return cls(**fields)


def without_launch(lowering: Lowering) -> Lowering:
    """A lowering of which only the compile was seen: no finding asks for what it cannot tell."""
    launch = replace(lowering.launch, grid=ANY_GRID)
    suppress = (*dict.fromkeys((*lowering.suppress, "2d-op-unchecked")),)
    return replace(lowering, launch=launch, suppress=suppress)


@dataclass(frozen=True)
class GhostRun:
    """A program run on the ghost device: its launches in order, each lowered.

    `failure` is set when the program itself did not come to its end; what was captured
    before that is kept. `made_bytes`: of the outputs that only kernels can have written, by what
    they were before: "empty", or "filled" with one value.
    """

    lowerings: tuple[Lowering, ...]
    failure: Failure | None
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    made_bytes: dict[str, int] = field(default_factory=dict[str, int])

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> GhostRun:
        return cls(
            lowerings=tuple(Lowering.from_json(item) for item in data["lowerings"]),
            failure=Failure.from_json(data.get("failure")),
            notes=tuple(data.get("notes", ())),
            seconds=data.get("seconds", 0.0),
            made_bytes=data.get("made_bytes", {}),
        )
