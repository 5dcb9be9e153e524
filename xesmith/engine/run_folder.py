"""The noun RunFolder: where a run keeps its ledger and leaves its results."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from xesmith.errors import UsageError
from xesmith.ledger import Ledger

if TYPE_CHECKING:
    from types import TracebackType

    from xesmith.cascade.correctness import Reference
    from xesmith.engine.problem import Problem
    from xesmith.engine.session import Session

LEDGER_FILE = "ledger.sqlite"
LOCK_FILE = ".lock"


class RunFolder:
    """A folder with the ledger of one run. A context manager.

    Raises (from `open`):
        UsageError: the folder holds another run, or (with resume) none, or it cannot be written.
    """

    def __init__(self, folder: Path, ledger: Ledger, lock: IO[bytes]) -> None:
        self.folder = folder
        self.ledger = ledger
        self._lock = lock

    @classmethod
    def open(cls, folder: Path, header: Mapping[str, Any], *, resume: bool) -> RunFolder:
        path = folder / LEDGER_FILE
        if not resume and Ledger.is_begun(path):
            raise UsageError(
                "the folder already holds a run",
                where=str(folder),
                remedy="add --resume to go on with it, or give another folder",
            )
        if resume and not path.exists():
            Ledger.open(path)  # says that there is none
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock = open(folder / LOCK_FILE, "ab")  # noqa: SIM115 (held as long as the run)
        except OSError as error:
            raise UsageError(
                f"the run folder cannot be made: {error.strerror}", where=str(folder)
            ) from error
        try:
            _take(lock, folder)
            return cls(folder, cls._ledger(path, folder, header), lock)
        except BaseException:
            lock.close()
            raise

    @staticmethod
    def _ledger(path: Path, folder: Path, header: Mapping[str, Any]) -> Ledger:
        if not Ledger.is_begun(path):
            return Ledger.create(path, header)
        ledger = Ledger.open(path)
        ledger_header = ledger.header
        changed = _differences(ledger_header, header)
        if changed:
            ledger.close()
            name, old = changed[0], ledger_header.get(changed[0])
            had = f": {old}" if len(str(old)) < 200 else ""
            raise UsageError(
                f"the run in this folder had other {name}{had}",
                where=str(folder),
                remedy="give the same kernel, spec, reference, stages, proposers, model and "
                "toolchain (addresses, keys and budgets may change), or start a new run in "
                "another folder",
            )
        return ledger

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.ledger.close()
        self._lock.close()

    def write_text(self, name: str, text: str) -> Path:
        """Writes a file whole or not at all."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f".{path.name}.partial")
        with open(partial, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        os.replace(partial, path)
        return path

    def write_json(self, name: str, value: Any) -> Path:
        return self.write_text(name, json.dumps(value, indent=1, sort_keys=True) + "\n")


def run_header(problem: Problem, reference: Reference, session: Session) -> dict[str, Any]:
    """What a run is about, for its ledger. Texts are whole, so that it stands alone."""
    return {
        "kernel": str(problem.path),
        "problem": problem.name,
        "variant": problem.variant,
        "source": problem.source,
        "spec": None if problem.spec is None else Path(problem.spec.path).read_text("utf-8"),
        "reference": str(reference),
        "reference_source": reference.program.source,
        "session": session.description,
    }


def _take(lock: IO[bytes], folder: Path) -> None:
    """The kernel lets go of the lock when its process ends, however that comes about."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise UsageError(
            "another xesmith is at work in this folder",
            where=str(folder),
            remedy="wait for it, or give another folder",
        ) from error


def _differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    # How the path was spelled does not matter; what it held does.
    fields = [name for name in new if name != "kernel"]
    return [name for name in fields if old.get(name) != json.loads(json.dumps(new[name]))]
