"""The noun Bundle: problems and the harness in one file, to be timed on another machine.

`xesmith bench export-bundle` writes it where the compiler's evidence can be read, `python -m
xesmith.timing.run_bundle` times it where a GPU is, `xesmith bench import` takes the result back.
Digests tell whether it is all of one piece.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import xesmith
from xesmith.assets import asset_folder
from xesmith.errors import UsageError
from xesmith.timing.contest import Entry

FORMAT = 1
_NAME = "bundle.json"
_LARGEST_BYTES = 64 << 20
#: what runs where programs are timed, below xesmith/
_HARNESS = (
    "__init__.py",
    "assets.py",
    "device.py",
    "errors.py",
    "pass_plan.py",
    "scratch.py",
    "cascade/__init__.py",
    "cascade/compare_task.py",
    "cascade/expected.py",
    "cascade/guarded_memory.py",
    "cascade/tensor_files.py",
    "ghost/__init__.py",
    "ghost/inputs.py",
    "ghost/launch.py",
    "timing/*.py",
    "worker/*.py",
)


@dataclass(frozen=True)
class Bundle:
    """`target` names the device file whose limits hold; None: the one that fits the device there.

    `evidence` says which compiler read what of the kernels, and which levels could not be read.
    """

    entries: tuple[Entry, ...]
    harness_digest: str
    target: str | None = None
    evidence: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "xesmith": xesmith.__version__,
            "harness_digest": self.harness_digest,
            "target": self.target,
            "evidence": self.evidence,
            "entries": [{**entry.to_json(), "digest": entry.digest} for entry in self.entries],
        }

    @property
    def digest(self) -> str:
        return hashlib.sha256(json.dumps(self.to_json(), sort_keys=True).encode()).hexdigest()


def harness_files() -> dict[str, bytes]:
    """The harness as it is installed here, by its path in a bundle, device files included."""
    package = Path(xesmith.__file__).resolve().parent
    files = {
        f"xesmith/{path.relative_to(package).as_posix()}": path.read_bytes()
        for pattern in _HARNESS
        for path in sorted(package.glob(pattern))
    }
    for path in sorted((asset_folder("knowledge") / "devices").glob("*.yaml")):
        files[f"xesmith/assets/knowledge/devices/{path.name}"] = path.read_bytes()
    return files


def harness_digest() -> str:
    """SHA-256 over the harness's files and their names."""
    digest = hashlib.sha256()
    for name, data in sorted(harness_files().items()):
        digest.update(f"{name}:{len(data)}:".encode() + data)
    return digest.hexdigest()


def write_bundle(
    path: Path, entries: Sequence[Entry], *, target: str | None, evidence: str | None
) -> Bundle:
    """Writes the entries and this harness to one tar file."""
    bundle = Bundle(tuple(entries), harness_digest(), target, evidence)
    path.parent.mkdir(parents=True, exist_ok=True)
    files = {_NAME: json.dumps(bundle.to_json(), indent=1).encode(), **harness_files()}
    with tarfile.open(path, "w:gz") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return bundle


def read_bundle(path: Path) -> Bundle:
    """The bundle in that file. Nothing of it is run or unpacked.

    Raises:
        UsageError: it is no bundle, of another format, or an entry is not what its digest says.
    """
    remedy = "make it anew: xesmith bench export-bundle"
    try:
        with tarfile.open(path) as tar:
            member = tar.extractfile(_NAME)
            if member is None:
                raise KeyError(_NAME)
            data: Any = json.loads(member.read(_LARGEST_BYTES))
    except (OSError, tarfile.TarError, KeyError, ValueError) as error:
        raise UsageError(f"no bundle: {error}", where=str(path), remedy=remedy) from error
    if not isinstance(data, dict) or cast("dict[str, Any]", data).get("format") != FORMAT:
        raise UsageError("a bundle of another format", where=str(path), remedy=remedy)
    found = cast("dict[str, Any]", data)
    entries: list[Entry] = []
    for item in cast("list[dict[str, Any]]", found["entries"]):
        said = item.pop("digest")
        entry = Entry.from_json(item)
        if entry.digest != said:
            raise UsageError(
                f"'{entry.name}' was changed after the bundle was made",
                where=str(path),
                remedy=remedy,
            )
        entries.append(entry)
    return Bundle(tuple(entries), found["harness_digest"], found["target"], found["evidence"])
