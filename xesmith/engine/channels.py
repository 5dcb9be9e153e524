"""Opens what answers a model's requests in a run: an endpoint, a folder, a recording."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from xesmith.engine.judge import Say
from xesmith.engine.proposers import ProposerName
from xesmith.ledger import Ledger
from xesmith.lm.budget import Budget, Spent
from xesmith.lm.folder import FolderChannel, Recorder
from xesmith.lm.record import Channel
from xesmith.lm.settings import LmSettings, load_settings


@dataclass(frozen=True)
class ChannelOptions:
    """What flags say of channels.

    settings: of the endpoint, by field of LmSettings; None values were not given.
    record: folder that keeps every exchange with the endpoint.
    wait_s: how long an exchange folder is watched for a reply.
    """

    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    record: Path | None = None
    wait_s: float = 0.0

    def load(self) -> LmSettings:
        return load_settings(self.settings)


class Channels:
    """The channels of a run, each opened once, since a budget counts all that goes through it.

    Args:
        ledger: of the run; what its earlier processes asked counts against the budget.
        say: told about retries.
    """

    def __init__(self, options: ChannelOptions, ledger: Ledger, say: Say) -> None:
        self._options = options
        self._ledger = ledger
        self._say = say
        self._open: dict[ProposerName, Channel] = {}

    def get(self, name: ProposerName) -> Channel:
        """The channel of a proposer.

        Raises:
            UsageError: no model is given, or there is no such recording.
        """
        if name not in self._open:
            self._open[name] = self._opened(name)
        return self._open[name]

    def _opened(self, name: ProposerName) -> Channel:
        if name.folder is not None:
            if name.kind == "replay":
                return FolderChannel(name.folder, replay=True)
            return FolderChannel(name.folder, wait_s=self._options.wait_s)
        from xesmith.lm.endpoint import EndpointChannel

        settings = self._options.load()
        spent = Spent()
        for exchange in self._ledger.exchanges():
            if exchange.channel == name.kind:
                spent = spent.plus(exchange.reply.usage, exchange.reply.seconds)
        for lost in self._ledger.lost():
            if lost.channel == name.kind:
                spent = spent.plus(lost.usage, lost.seconds)
        channel = EndpointChannel(settings, budget=Budget(settings.limits, spent), say=self._say)
        if self._options.record is None:
            return channel
        return Recorder(channel, self._options.record, channel.redactor)
