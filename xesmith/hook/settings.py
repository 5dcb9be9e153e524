"""The noun Settings: what the hook was asked to do, and how child processes are told.

Standard library only.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from xesmith.passes.plugin import VARIABLE as PLUGIN

FOLDER = "XESMITH_HOOK"
TRANSFORM = "XESMITH_HOOK_TRANSFORM"
PASSES = "XESMITH_HOOK_PASSES"
LIMIT_BYTES = "XESMITH_HOOK_LIMIT_BYTES"
FINDINGS = "XESMITH_HOOK_FINDINGS"
#: where a transform's command runs; set by the hook, for child processes
DIRECTORY = "XESMITH_HOOK_DIRECTORY"
#: the cache manager that the user had set for Triton, which ours then extends
USERS_CACHE_MANAGER = "XESMITH_HOOK_CACHE_MANAGER"

#: read by every Triton when it first needs its cache: imports `xesmith.hook.cache`
CACHE_MANAGER = "TRITON_CACHE_MANAGER"
OUR_CACHE_MANAGER = "xesmith.hook.cache:Cache"

DEFAULT_FOLDER = "xesmith-trace"
DEFAULT_LIMIT_BYTES = 1 << 30


@dataclass(frozen=True)
class Settings:
    """folder: of the trace. transform: "module:function" or a command line, None for none.
    limit_bytes: a trace that holds this much takes no further kernel. findings: "" to log
    none; "1", or the Python that has xesmith's packages, to log them as kernels are compiled.
    passes: file of a plan of passes. directory: what relative names in the transform's command
    start from. All paths are absolute: a program may change its directory, and its children may
    be started in others."""

    folder: Path
    transform: str | None = None
    limit_bytes: int = DEFAULT_LIMIT_BYTES
    findings: str = ""
    passes: Path | None = None
    directory: Path | None = None

    @classmethod
    def given(
        cls,
        folder: str | os.PathLike[str],
        transform: str | None,
        limit_bytes: int,
        findings: str,
        passes: str | os.PathLike[str] | None,
        directory: str | os.PathLike[str] | None = None,
    ) -> Settings:
        """Settings of paths that may be relative to the current directory."""
        return cls(
            folder=Path(os.path.abspath(folder)),
            transform=transform,
            limit_bytes=limit_bytes,
            # A name without a separator is looked up on PATH.
            findings=os.path.abspath(findings) if os.sep in findings else findings,
            passes=None if passes is None else Path(os.path.abspath(passes)),
            directory=current_directory() if directory is None else Path(directory),
        )

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Settings:
        """What the environment says.

        Raises:
            ValueError: XESMITH_HOOK_LIMIT_BYTES is no number.
        """
        return cls.given(
            environment.get(FOLDER) or DEFAULT_FOLDER,
            environment.get(TRANSFORM) or None,
            int(environment.get(LIMIT_BYTES) or DEFAULT_LIMIT_BYTES),
            environment.get(FINDINGS) or "",
            environment.get(PASSES) or None,
            environment.get(DIRECTORY) or None,
        )

    def to_environment(self, environment: Mapping[str, str]) -> dict[str, str]:
        """The variables that make a child process with `environment` do the same."""
        variables = {
            FOLDER: str(self.folder),
            LIMIT_BYTES: str(self.limit_bytes),
            CACHE_MANAGER: OUR_CACHE_MANAGER,
            TRANSFORM: self.transform or "",
            FINDINGS: self.findings,
            PASSES: "" if self.passes is None else str(self.passes),
            DIRECTORY: "" if self.directory is None else str(self.directory),
        }
        if plugin := environment.get(PLUGIN):
            variables[PLUGIN] = os.path.abspath(plugin)
        users = environment.get(CACHE_MANAGER)
        if users and users != OUR_CACHE_MANAGER:
            variables[USERS_CACHE_MANAGER] = users
        return variables


def current_directory() -> Path | None:
    """None where it was taken away."""
    with contextlib.suppress(OSError):
        return Path.cwd()
    return None
