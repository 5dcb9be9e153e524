"""From a ghost run to what is known of it: evidence with predictions, and findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xesmith import cost, evidence, findings
from xesmith.cascade.overflow import overflows
from xesmith.device import Device
from xesmith.evidence.record import Evidence
from xesmith.findings.record import Finding
from xesmith.ghost.launch import ANY_GRID
from xesmith.lowering.record import Failure, GhostRun


@dataclass(frozen=True)
class Examination:
    """Evidence per launch and configuration in launch order, and all findings.

    `failure` is the program's own (it did not come to its end); that of a launch is in its
    evidence. `variant` names the shape of the spec that the program was run at. `made_bytes` is
    GhostRun's; `overflows` are lines whose offsets wrap (see `overflow`).
    """

    evidence: tuple[Evidence, ...]
    findings: tuple[Finding, ...]
    failure: Failure | None
    variant: str | None = None
    made_bytes: Mapping[str, int] = field(default_factory=dict[str, int])
    overflows: tuple[int, ...] = ()

    @property
    def first_failure(self) -> Failure | None:
        """The program's failure, else the first launch's."""
        if self.failure is not None:
            return self.failure
        failed = (item.failure for item in self.evidence if item.failure)
        return Failure.from_json(next(failed, None))


def examine(run: GhostRun, device: Device, *, variant: str | None = None) -> Examination:
    """Read every lowering of a run, predict its time, and judge it."""
    read = tuple(
        cost.derive(evidence.read(item), device, lowered_hash=evidence.lowered_hash(item) or "")
        for item in run.lowerings
    )
    found = findings.judge_program(read, device)
    return Examination(
        evidence=read,
        findings=tuple(_named(found, variant)),
        failure=run.failure,
        variant=variant,
        made_bytes=run.made_bytes,
        overflows=tuple(
            sorted(
                {
                    line
                    for item in run.lowerings
                    if item.launch.grid != ANY_GRID
                    for line in overflows(item)
                }
            )
        ),
    )


def _named(found: Sequence[Finding], variant: str | None) -> Sequence[Finding]:
    if variant is None:
        return found
    return [item.model_copy(update={"variant": variant}) for item in found]
