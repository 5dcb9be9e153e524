"""The noun State: the best program so far, and the nouns that lead from one to the next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from xesmith.cascade.examine import Examination
from xesmith.device import Device
from xesmith.ledger import Trial
from xesmith.stage_contract import Stage
from xesmith.stages.draft import Draft, Variant
from xesmith.stages.proposers.record import Situation


@dataclass(frozen=True)
class State:
    """The best program so far: its draft, what is known of it, and its trial in the ledger."""

    draft: Draft
    text: str
    examinations: Mapping[str, Examination]
    trial: Trial

    def situation(
        self, device: Device, ranked: Mapping[str, tuple[Variant, ...]] | None = None
    ) -> Situation:
        return Situation(self.draft, self.examinations, device, ranked or {})


@dataclass(frozen=True)
class Attempt:
    """What a proposer came to at a stage. `state` is the one it began with where nothing was
    accepted; `reasons` say why not, and `judged` whether there was a candidate at all."""

    state: State
    notes: tuple[str, ...] = ()  # of what was accepted
    reasons: tuple[str, ...] = ()
    judged: bool = False
    failed: bool = False  # the proposer could not work (a model that is away)


class ProposerAtWork(Protocol):
    """One of `--proposer`: tries to improve a program in one stage."""

    @property
    def name(self) -> str: ...

    @property
    def goes_with_others(self) -> bool:
        """Whether it is asked too where another one has done the stage's work."""
        ...

    def knows(self, stage: Stage) -> str | None:
        """None where it can work at the stage, else why not."""
        ...

    def work(self, stage: Stage, state: State) -> Attempt: ...
