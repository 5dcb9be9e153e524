"""The noun RunFolder: where a run keeps its ledger and leaves its results."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xesmith.errors import UsageError
from xesmith.ledger import Ledger

if TYPE_CHECKING:
    from types import TracebackType

LEDGER_FILE = "ledger.sqlite"


class RunFolder:
    """A folder with the ledger of one run. A context manager.

    Raises (from `open`):
        UsageError: the folder holds another run, or (with resume) none, or it cannot be written.
    """

    def __init__(self, folder: Path, ledger: Ledger) -> None:
        self.folder = folder
        self.ledger = ledger

    @classmethod
    def open(cls, folder: Path, header: Mapping[str, Any], *, resume: bool) -> RunFolder:
        path = folder / LEDGER_FILE
        if resume:
            ledger = Ledger.open(path)
            changed = _differences(ledger.header, header)
            if changed:
                ledger.close()
                raise UsageError(
                    f"the run in this folder had another {changed[0]}",
                    where=str(folder),
                    remedy="give the same kernel, spec, reference, stages and toolchain, or start "
                    "a new run in another folder",
                )
            return cls(folder, ledger)
        if path.exists():
            raise UsageError(
                "the folder already holds a run",
                where=str(folder),
                remedy="add --resume to go on with it, or give another folder",
            )
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(
                f"the run folder cannot be made: {error.strerror}", where=str(folder)
            ) from error
        return cls(folder, Ledger.create(path, header))

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.ledger.close()

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


def _differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    # How the path was spelled does not matter; what it held does.
    fields = [name for name in new if name != "kernel"]
    return [name for name in fields if old.get(name) != json.loads(json.dumps(new[name]))]
