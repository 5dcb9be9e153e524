"""The noun Settings: what the hook was asked to do, and how child processes are told.

Standard library only.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

FOLDER = "XESMITH_HOOK"
TRANSFORM = "XESMITH_HOOK_TRANSFORM"
LIMIT_BYTES = "XESMITH_HOOK_LIMIT_BYTES"
FINDINGS = "XESMITH_HOOK_FINDINGS"
#: the cache manager that the user had set for Triton, which ours then extends
USERS_CACHE_MANAGER = "XESMITH_HOOK_CACHE_MANAGER"

#: read by every Triton when it first needs its cache: imports `xesmith.hook.cache`
CACHE_MANAGER = "TRITON_CACHE_MANAGER"
OUR_CACHE_MANAGER = "xesmith.hook.cache:Cache"

DEFAULT_FOLDER = "xesmith-trace"
DEFAULT_LIMIT_BYTES = 1 << 30


@dataclass(frozen=True)
class Settings:
    """folder: of the trace, absolute. transform: "module:function" or a command line, None for
    none. limit_bytes: a trace that holds this much takes no further kernel. findings: "" to log
    none; "1", or the Python that has xesmith's packages, to log them as kernels are compiled."""

    folder: Path
    transform: str | None = None
    limit_bytes: int = DEFAULT_LIMIT_BYTES
    findings: str = ""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Settings:
        """What the environment says.

        Raises:
            ValueError: XESMITH_HOOK_LIMIT_BYTES is no number.
        """
        made = cls(
            folder=Path(os.path.abspath(environment.get(FOLDER) or DEFAULT_FOLDER)),
            transform=environment.get(TRANSFORM) or None,
            findings=environment.get(FINDINGS) or "",
        )
        limit = environment.get(LIMIT_BYTES)
        return replace(made, limit_bytes=int(limit)) if limit else made

    def to_environment(self, environment: Mapping[str, str]) -> dict[str, str]:
        """The variables that make a child process with `environment` do the same."""
        variables = {
            FOLDER: str(self.folder),
            LIMIT_BYTES: str(self.limit_bytes),
            CACHE_MANAGER: OUR_CACHE_MANAGER,
            TRANSFORM: self.transform or "",
            FINDINGS: self.findings,
        }
        users = environment.get(CACHE_MANAGER)
        if users and users != OUR_CACHE_MANAGER:
            variables[USERS_CACHE_MANAGER] = users
        return variables
