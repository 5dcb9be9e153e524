"""The noun RunSetup: what a run is to do, from what its caller asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xesmith.engine.candidates import Candidates
from xesmith.engine.channels import ChannelOptions, Channels
from xesmith.engine.judge import Judge, Say
from xesmith.engine.model_at_work import ModelAtWork, ModelOptions
from xesmith.engine.optimize import MakeProposers, OrderStages
from xesmith.engine.ordering import ordered, ordered_by_model
from xesmith.engine.passes_at_work import PassesAtWork
from xesmith.engine.probes import Probes
from xesmith.engine.proposers import ProposerName
from xesmith.engine.rules_at_work import RulesAtWork
from xesmith.engine.state import ProposerAtWork, State
from xesmith.errors import UsageError, nearest
from xesmith.knowledge import load_knowledge
from xesmith.ledger import Ledger
from xesmith.lm.folder import FolderChannel
from xesmith.stage_contract import Stage
from xesmith.stages.proposers.rules import RulesProposer

_PLANNERS = ("contracts", "model")


@dataclass(frozen=True)
class RunSetup:
    """Stages, proposers and the channels to models of one run.

    wanted: names of the stages to run; None: all.
    planner: "contracts", or "model": the first proposer that is one orders the stages.
    """

    stages: Mapping[str, Stage]
    wanted: Sequence[str] | None
    planner: str
    proposers: Sequence[ProposerName]
    channels: ChannelOptions
    model: ModelOptions

    def check(self) -> None:
        """Finds what is wrong before anything is lowered.

        Raises:
            UsageError: an unknown stage or planner, no model for what asks one, or a setting that
                nothing reads.
        """
        ordered(self.stages, self.wanted)
        if self.planner not in _PLANNERS:
            raise UsageError(
                f"unknown planner '{self.planner}'", remedy=nearest(self.planner, _PLANNERS)
            )
        if self.planner == "model" and self._asked is None:
            raise UsageError(
                "the planner 'model' needs a proposer that is a model",
                where="--planner",
                remedy="add lm, exchange:DIR or replay:DIR to --proposer",
            )
        for name in self.proposers:
            if name.kind == "replay" and name.folder is not None:
                FolderChannel(name.folder, replay=True)  # says so where there is none
        kinds = {name.kind for name in self.proposers}
        if self._asked is None and self.model != ModelOptions():
            raise UsageError(
                "an option of a model without a proposer that is one",
                where="--iterations, --samples, --withhold-evidence",
                remedy="add lm, exchange:DIR or replay:DIR to --proposer, or leave it out",
            )
        if self.channels.wait_s and "exchange" not in kinds:
            raise UsageError(
                "--wait without the proposer 'exchange'",
                where="--proposer",
                remedy="add exchange:DIR to --proposer, or leave it out",
            )
        given = [name for name, value in self.channels.settings.items() if value is not None]
        if "lm" in kinds:
            self.channels.load().secret()
        elif given or self.channels.record is not None:
            what = "--record" if self.channels.record is not None else "a model's settings"
            raise UsageError(
                f"{what} without the proposer 'lm'",
                where="--proposer",
                remedy="add lm to --proposer, or leave them out",
            )

    @property
    def _asked(self) -> ProposerName | None:
        return next((name for name in self.proposers if name.is_model), None)

    def header(self) -> dict[str, Any]:
        """What two processes of one run must agree in. A model's address may change."""
        names = [name.kind for name in self.proposers]
        settings = self.channels.load() if "lm" in names else None
        return {
            "stages": [stage.name for stage in ordered(self.stages, self.wanted)],
            "proposers": names,
            "planner": self.planner,
            "model": None if settings is None else f"{settings.model} ({settings.api})",
            "iterations": self.model.iterations,
            "samples": self.model.samples,
            "evidence_withheld": self.model.withheld,
        }

    def begin(self, judge: Judge, ledger: Ledger, say: Say) -> tuple[OrderStages, MakeProposers]:
        """What orders the stages once the baseline is known, and what makes the proposers."""
        channels = Channels(self.channels, ledger, say)
        device = judge.session.device

        def order(state: State) -> Sequence[Stage]:
            if self.planner == "contracts" or (name := self._asked) is None:
                return ordered(self.stages, self.wanted)
            asked = channels.get(name)
            return ordered_by_model(self.stages, self.wanted, state, device, asked, ledger, say)

        def make(candidates: Candidates) -> list[ProposerAtWork]:
            return [
                self._at_work(name, judge, candidates, ledger, channels, say)
                for name in self.proposers
            ]

        return order, make

    def _at_work(
        self,
        name: ProposerName,
        judge: Judge,
        candidates: Candidates,
        ledger: Ledger,
        channels: Channels,
        say: Say,
    ) -> ProposerAtWork:
        if name.kind == "rules":
            probes = Probes(judge.session, judge.problem)
            rules = RulesProposer(probes.launches)
            return RulesAtWork(rules, candidates, judge.session.device)
        if name.kind == "passes":
            return PassesAtWork(candidates, judge.session.device)
        channel, knowledge = channels.get(name), load_knowledge()
        return ModelAtWork(channel, judge, candidates, ledger, knowledge, self.model, say)
