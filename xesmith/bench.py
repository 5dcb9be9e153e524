"""The problems of bench/problems: kernels to be made better, each with reference and spec."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from xesmith.assets import asset_folder
from xesmith.errors import UsageError, nearest
from xesmith.spec import Spec, load_spec


@dataclass(frozen=True)
class Problem:
    """One folder of bench/problems."""

    name: str
    folder: Path
    spec: Spec

    @property
    def kernel(self) -> Path:
        """The baseline: jit functions, what launches them, Model and inputs."""
        return self.folder / "kernel.py"

    @property
    def reference(self) -> Path:
        """The same Model and inputs in plain PyTorch."""
        return self.folder / "reference.py"


def problem_names() -> tuple[str, ...]:
    """All problems, sorted. Raises ToolchainError where the assets are missing."""
    folder = asset_folder("bench") / "problems"
    return tuple(sorted(path.name for path in folder.iterdir() if (path / "kernel.py").is_file()))


def load_problem(name: str) -> Problem:
    """The problem called `name`.

    Raises:
        UsageError: there is none (the nearest is named), or its spec is wrong.
    """
    names = problem_names()
    if name not in names:
        raise UsageError(f"no problem '{name}' in bench/problems", remedy=nearest(name, names))
    folder = asset_folder("bench") / "problems" / name
    return Problem(name, folder, load_spec(folder / "spec.yaml"))
