"""What a Python environment holds that lowering needs.

Standard library only: the file is also run as a script by foreign interpreters, with -I, and
then prints `look()` as JSON. Nothing heavy is imported: versions come from metadata.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import platform
import re
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

INTEL_DISTRIBUTIONS = ("triton-xpu", "pytorch-triton-xpu")


@dataclass(frozen=True)
class Environment:
    """Versions found in one environment; None where the distribution is absent.

    `intel` is the Intel Triton distribution as (name, version). `intel_files` says whether the
    import package `triton` really is that distribution's: another `triton` installed over it
    leaves both metadata in place. `shadowed` names what is in the way then.
    """

    python: str
    python_version: str  # "3.11.7"
    torch: str | None
    numpy: str | None
    triton: str | None  # the upstream distribution
    intel: tuple[str, str] | None
    intel_files: bool

    @property
    def shadowed(self) -> str | None:
        if self.intel is None or self.intel_files:
            return None
        return f"triton {self.triton}" if self.triton else "an incomplete install"

    @property
    def numpy_breaks_interpreter(self) -> bool:
        """Intel's 3.3 and older interpreters fail on numpy 2.4 and newer."""
        if self.intel is None or self.numpy is None:
            return False
        return _release(self.intel[1]) < (3, 4) and _release(self.numpy) >= (2, 3)


def look() -> Environment:
    """The environment that this interpreter runs in."""
    intel = None
    for name in INTEL_DISTRIBUTIONS:
        version = _version(name)
        if version is not None:
            intel = (name, version)
            break
    return Environment(
        python=sys.executable,
        python_version=platform.python_version(),
        torch=_version("torch"),
        numpy=_version("numpy"),
        triton=_version("triton"),
        intel=intel,
        intel_files=intel is not None and _package_is(intel[1]),
    )


def from_json(text: str) -> Environment:
    """What another interpreter printed. Raises ValueError, KeyError or TypeError."""
    data: dict[str, Any] = json.loads(text)
    if data["intel"] is not None:
        data["intel"] = tuple(data["intel"])
    return Environment(**data)


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _package_is(version: str) -> bool:
    """Whether the import package `triton` has Intel's backend and is of this release."""
    spec = importlib.util.find_spec("triton")
    if spec is None or spec.origin is None:
        return False
    folder = Path(spec.origin).parent
    if not (folder / "backends" / "intel" / "compiler.py").is_file():
        return False
    found = re.search(r"^__version__\s*=\s*['\"]([^'\"]+)", _text(Path(spec.origin)), re.MULTILINE)
    return found is not None and _release(found.group(1))[:2] == _release(version)[:2]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""


def _release(version: str) -> tuple[int, ...]:
    """The leading numbers: "3.3.0b1" -> (3, 3, 0)."""
    found = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(part) for part in found.group().split(".")) if found else ()


if __name__ == "__main__":
    print(json.dumps(asdict(look())))
