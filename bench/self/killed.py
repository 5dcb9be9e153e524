"""Kills a run with SIGKILL again and again, resumes it each time, and counts what was lost.

    python bench/self/killed.py --out bench/results/killed.json [--kills 10] [--seed 0]

The run is the recording of the flash attention: rules and a model, which a local stand-in for an
endpoint answers for. Each time it is killed at a random moment after the ledger has grown, so that
the kills are spread over the run, and resumed. Afterwards no recorded exchange may have been asked
for again, no trial may be missing, and the result must be that of a run that nobody killed.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.self.recordings import RECORDINGS, ROOT, command, environment
from xesmith import __version__
from xesmith.ledger import Ledger, Trial
from xesmith.lm.record import Reply, Request
from xesmith.lm.stand_in import StandIn

NAME = "flash_attention"


def held(out: Path) -> tuple[list[Trial], list[tuple[Request, Reply]]]:
    """The trials, and what was asked and answered."""
    path = out / "ledger.sqlite"
    if not Ledger.is_begun(path):
        return [], []
    with Ledger.open(path) as ledger:
        return ledger.trials(), [(e.request, e.reply) for e in ledger.exchanges()]


def whole(server: StandIn, out: Path) -> dict[str, Any]:
    """A run to its end."""
    more = ["--resume"] if Ledger.is_begun(out / "ledger.sqlite") else []
    done = subprocess.run(
        command(NAME, out, *more),
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env=environment(server),
    )
    if done.returncode != 0:
        raise SystemExit(f"exit code {done.returncode}\n{done.stderr}")
    return json.loads(done.stdout)


def killed(server: StandIn, out: Path, delay_seconds: float) -> bool:
    """Starts or resumes the run and kills it so long after its next record in the ledger.

    False where it had ended by itself.
    """
    before = sum(map(len, held(out)))
    more = ["--resume"] if Ledger.is_begun(out / "ledger.sqlite") else []
    process = subprocess.Popen(
        command(NAME, out, *more),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=ROOT,
        env=environment(server),
    )
    while process.poll() is None and sum(map(len, held(out))) == before:
        time.sleep(0.1)
    try:
        process.wait(timeout=delay_seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.wait()
        return True
    return False


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    arguments = parser.parse_args()
    generator = random.Random(arguments.seed)
    kills: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder, StandIn([RECORDINGS / NAME]) as server:
        expected = whole(server, Path(folder) / "whole")
        asked_by_whole = len(server.requests)
        out, lost = Path(folder) / "killed", 0
        trials, exchanges = [], []
        asked_when_recorded: dict[str, int] = {}
        while len(kills) < arguments.kills:
            delay = generator.uniform(0, 2)
            if not killed(server, out, delay):
                break
            now = held(out)
            lost += now[0][: len(trials)] != trials or now[1][: len(exchanges)] != exchanges
            trials, exchanges = now
            for request, _ in exchanges:
                label = request.label
                asked_when_recorded.setdefault(label, server.count(label))
            kills.append(
                {"delay_s": round(delay, 1), "trials": len(trials), "exchanges": len(exchanges)}
            )
            print(f"killed: {kills[-1]}", flush=True)
        result = whole(server, out)
        now = held(out)
        lost += now[0][: len(trials)] != trials or now[1][: len(exchanges)] != exchanges
        labels = [request.label for request, _ in now[1]]
        asked = [served.label for served in server.requests[asked_by_whole:]]
        record = {
            "provenance": {
                "xesmith": __version__,
                "python": platform.python_version(),
                "machine": platform.machine(),
                "date": time.strftime("%Y-%m-%d"),
                "measured": False,
            },
            "kills": kills,
            "times_that_something_was_lost": lost,
            "exchanges_recorded": len(labels),
            "requests_made": len(asked),
            # In flight at a kill: asked for, and not recorded.
            "requests_that_a_kill_cut_off": len(asked) - len(labels),
            "recorded_exchanges_repeated": sum(
                server.count(label) - count for label, count in asked_when_recorded.items()
            ),
            "trials": len(now[0]),
            "same_result_as_a_whole_run": result["after"] == expected["after"],
        }
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(record, indent=1) + "\n")
    print(json.dumps(record, indent=1))
    good = record["same_result_as_a_whole_run"] and not lost and len(kills) == arguments.kills
    return 0 if good and not record["recorded_exchanges_repeated"] else 1


if __name__ == "__main__":
    sys.exit(main())
