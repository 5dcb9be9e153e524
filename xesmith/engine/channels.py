"""Opens what answers a model's requests in a run: an endpoint, a folder, a recording."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from xesmith.engine.proposers import ProposerName
from xesmith.ledger import Exchange
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


def open_channel(
    name: ProposerName, options: ChannelOptions, held: Sequence[Exchange] = ()
) -> Channel:
    """The channel of a proposer.

    Args:
        held: exchanges of the run's earlier processes: they count against its budget.

    Raises:
        UsageError: no model is given, or there is no such recording.
    """
    if name.folder is not None:
        if name.kind == "replay":
            return FolderChannel(name.folder, replay=True)
        return FolderChannel(name.folder, wait_s=options.wait_s)
    from xesmith.lm.endpoint import EndpointChannel

    settings = options.load()
    spent = Spent()
    for exchange in held:
        spent = spent.plus(exchange.reply.usage, exchange.reply.seconds)
    channel: Channel = EndpointChannel(settings, Budget(settings.limits, spent))
    return channel if options.record is None else Recorder(channel, options.record)
