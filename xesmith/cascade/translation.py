"""Translation validation: a kernel stores the same before and after passes.

Triton's interpreter runs a kernel's source and knows nothing of what passes do to its TTIR. So the
chain has two links: the source computes what PyTorch does (`correctness`), and the TTIR that was
compiled stores what the TTIR of the source does, here, at the launches that were lowered. What a
backend makes of TTIR is trusted, as it is for every kernel.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from xesmith.cascade.record import LevelResult
from xesmith.ghost.launch import Launch
from xesmith.lowering.record import GhostRun, Lowering
from xesmith.pass_plan import PassEntry, PassPlan
from xesmith.scratch import ScratchFolder
from xesmith.worker.client import TaskResult, WorkerPool
from xesmith.worker.confinement import Confinement

_TASK = "xesmith.cascade.translation_task:compare"
#: share of the limit after which no further program of a launch is begun
_SHARE = 0.5

TRUSTED = (
    "the TTIR is compared; what the backend makes of it, under switches too, is trusted as it is "
    "for every kernel"
)


@dataclass(frozen=True)
class _Pair:
    shape: str
    before: Lowering
    after: Lowering
    exact: bool


class TranslationChecker:
    """Compares lowerings with those of the same program without passes.

    Args:
        timeout_s, memory_bytes: of one launch.
    """

    def __init__(
        self, *, parallel: int = 2, timeout_s: float = 120.0, memory_bytes: int = 4 << 30
    ) -> None:
        self._timeout_s = timeout_s
        self._memory_bytes = memory_bytes
        self._pool = WorkerPool(
            Path(sys.executable),
            "translation",
            preload=("xesmith.cascade.translation_task",),
            parallel=parallel,
            env={"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        )

    def close(self) -> None:
        self._pool.close()

    def check(
        self,
        before: Mapping[str, GhostRun],
        after: Mapping[str, GhostRun],
        plan: PassPlan,
        backend: str,
    ) -> LevelResult:
        """Judges the runs of a program with `plan`, by shape name, against those without.

        "not_read" where a kernel holds what the evaluator does not know, or takes too long.
        """
        told: list[str] = []
        refused: list[str] = []
        unknown: list[str] = []
        pairs: list[_Pair] = []
        used: set[str] = set()
        for shape, run in after.items():
            try:
                for entry, pair in _pairs(shape, before[shape], run, plan, backend):
                    used.add(entry.key)
                    pairs.append(pair)
            except _UnlikeError as error:
                refused.append(str(error))
        unknown += [
            f"what is planned for '{entry.kernel}' ({entry.pipeline or entry.switches}) is for no "
            "launch of the spec's shapes, so it cannot be checked"
            for entry in plan.entries
            if entry.key not in used and entry.backend in (None, backend)
        ]
        records = self._records(_distinct(pairs))
        for pair, result in records:
            at = f"{pair.shape}: '{pair.after.launch.kernel}'"
            if result.status != "ok":
                unknown.append(f"{at}: its TTIR cannot be checked: {result}")
            elif (what := result.value["unknown"]) is not None:
                unknown.append(f"{at}: its TTIR cannot be checked: {what}")
            elif (fault := result.value["fault"]) is not None:
                refused.append(f"{at}: the passes change its results: {fault}")
            elif not result.value["elements"]:
                unknown.append(f"{at}: the programs that were compared store nothing")
            else:
                how = "bit for bit" if pair.exact else "within the tolerance"
                count, of = result.value["programs"], result.value["of"]
                told.append(f"{at}: {count} of {of} programs store the same with passes, {how}")
        facts = {
            "launches": [
                {"shape": pair.shape, "kernel": pair.after.launch.kernel, "exact": pair.exact}
                | (result.value if result.status == "ok" else {"status": result.status})
                for pair, result in records
            ],
            "trusted": TRUSTED,
        }
        status = "refused" if refused else "not_read" if unknown else "passed"
        messages = (*refused, *unknown) if refused or unknown else (*told, TRUSTED)
        return LevelResult("correctness", status, messages, facts)

    def _records(self, pairs: Sequence[_Pair]) -> list[tuple[_Pair, TaskResult]]:
        with ScratchFolder("translation") as scratch:
            futures = [
                self._pool.submit(
                    _TASK,
                    {
                        "before": pair.before.levels["ttir_generic"],
                        "after": pair.after.levels["ttir_generic"],
                        "launch": pair.after.launch.to_json(),
                        "exact": pair.exact,
                        "seconds": self._timeout_s * _SHARE,
                    },
                    folder=scratch.path / str(number),
                    timeout_s=self._timeout_s,
                    memory_bytes=self._memory_bytes,
                    confinement=Confinement(
                        (pair.before.levels["ttir_generic"], pair.after.levels["ttir_generic"])
                    ),
                )
                for number, pair in enumerate(pairs)
            ]
            try:
                return list(zip(pairs, [future.result() for future in futures], strict=True))
            except KeyboardInterrupt:
                for future in futures:
                    self._pool.cancel(future)
                raise


class _UnlikeError(Exception):
    """The two runs do not launch the same."""


def _pairs(
    shape: str, before: GhostRun, after: GhostRun, plan: PassPlan, backend: str
) -> list[tuple[PassEntry, _Pair]]:
    """The launches that an entry of the plan is for."""
    if len(before.lowerings) != len(after.lowerings):
        raise _UnlikeError(f"{shape}: with passes the program launches another number of kernels")
    pairs: list[tuple[PassEntry, _Pair]] = []
    for old, new in zip(before.lowerings, after.lowerings, strict=True):
        if _call(old.launch) != _call(new.launch):
            raise _UnlikeError(f"{shape}: with passes '{new.launch.kernel}' is launched otherwise")
        launch = new.launch
        entry = plan.find(launch.kernel, backend, launch.values, launch.grid)
        if entry is not None:
            if "ttir_generic" not in old.levels or "ttir_generic" not in new.levels:
                raise _UnlikeError(f"{shape}: '{launch.kernel}' has no TTIR to be compared")
            pairs.append((entry, _Pair(shape, old, new, not entry.rounds)))
    return pairs


def _call(launch: Launch) -> Launch:
    """The launch less what a program's order decides."""
    return replace(launch, index=0, repeats=1)


def _distinct(pairs: Sequence[_Pair]) -> list[_Pair]:
    """Of launches that are the same at several shapes, one."""
    found: dict[Any, _Pair] = {}
    for pair in pairs:
        files = (item.levels["ttir_generic"] for item in (pair.before, pair.after))
        key = (*(Path(file).read_text() for file in files), repr(_call(pair.after.launch)))
        found.setdefault(key, pair)
    return list(found.values())
