"""Programs with the hook in place, each in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
KERNELS = Path(__file__).parent / "kernels"


@dataclass(frozen=True)
class Ended:
    """A program that came to its end: its last line as JSON, and what it wrote to stderr."""

    value: Any
    stderr: str


@dataclass(frozen=True)
class Place:
    """An empty folder to work in, with Triton caches of its own."""

    folder: Path
    python: str

    @property
    def trace(self) -> Path:
        return self.folder / "trace"

    def run(self, code: str, *, before: tuple[str, ...] = (), **environment: str) -> Ended:
        """Runs `code` as a script; `before` stands between the interpreter and the script."""
        script = self.folder / "script.py"
        script.write_text(code)
        done = subprocess.run(
            [self.python, *before, str(script)],
            env=self.environment(**environment),
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return Ended(json.loads(done.stdout.splitlines()[-1]), done.stderr)

    def environment(self, **more: str) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("TRITON_", "XESMITH_"))}
        return {
            **kept,
            "TRITON_CACHE_DIR": str(self.folder / "cache"),
            "TRITON_DEFAULT_FP_FUSION": "1",  # else 3.9 tells that its default will change
            "PYTHONPATH": os.pathsep.join([str(KERNELS), str(REPOSITORY)]),
            "TRACE": str(self.trace),
            **more,
        }

    def plan(self, *entries: dict[str, Any]) -> None:
        """Writes passes.json."""
        text = json.dumps({"xesmith_passes": 1, "entries": entries})
        (self.folder / "passes.json").write_text(text)

    def events(self, kind: str = "kernel") -> list[dict[str, Any]]:
        lines = (self.trace / "index.jsonl").read_text().splitlines()
        return [event for event in map(json.loads, lines) if event["event"] == kind]

    def files(self, event: dict[str, Any]) -> set[str]:
        return {item.name for item in (self.trace / "kernels" / event["folder"]).iterdir()}
