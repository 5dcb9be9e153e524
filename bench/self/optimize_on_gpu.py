"""Problems through the main job on this machine's GPU, where times are measured.

    python bench/self/optimize_on_gpu.py PROBLEM... --target h200 --out DIR [--seconds 500]

Each problem's verdict, stage by stage, stands in DIR/optimize.json and DIR/optimize.md as soon as
it is there; its run, with the optimised file and the ledger, in DIR/PROBLEM. Exit code 0 where
every run ended with a measured verdict, FASTER or an honest "not improved".
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from xesmith.bench import load_problem  # noqa: E402
from xesmith.timing.run_bundle import write_json  # noqa: E402

#: of `xesmith optimize`: an improvement, and none
_ENDED = (0, 1)


def optimized(name: str, target: str, folder: Path, seconds: float) -> dict[str, Any]:
    """What one run came to."""
    kernel = load_problem(name).kernel
    command = [sys.executable, "-m", "xesmith.cli.app", "optimize", str(kernel), "--json"]
    started = time.monotonic()
    try:
        done = subprocess.run(
            [*command, "--target", target, "--out", str(folder)],
            capture_output=True,
            text=True,
            timeout=seconds,
            cwd=ROOT,
        )
    except subprocess.TimeoutExpired:
        return {"problem": name, "error": f"not done within {seconds:.0f} s", "exit_code": None}
    found: dict[str, Any] = {"problem": name, "exit_code": done.returncode}
    found["wall_seconds"] = time.monotonic() - started
    if done.returncode not in _ENDED:
        return {**found, "error": done.stderr.strip()[-2000:]}
    result = json.loads(done.stdout)
    kept = ("verdict", "improved", "measured", "measurements", "session", "stages")
    return {**found, **{key: result[key] for key in kept}}


def table(records: list[dict[str, Any]]) -> str:
    """The verdicts as Markdown."""
    lines = ["| problem | verdict | seconds |", "|---|---|---|"]
    for record in records:
        seconds = record.get("wall_seconds")
        verdict = str(record.get("verdict") or record["error"]).splitlines()[-1][:200]
        time_text = "" if seconds is None else f"{seconds:.0f}"
        lines.append(f"| {record['problem']} | {verdict} | {time_text} |")
    for record in records:
        lines += ["", f"{record['problem']}:", ""]
        lines += [f"- {line}" for line in record.get("measurements", ())]
        lines += [
            f"- {stage['name']}: {stage['status']}: {stage['reason']}"
            for stage in record.get("stages", ())
            if stage["status"] in ("improved", "refused")
        ]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("problems", nargs="+")
    parser.add_argument("--target", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=500.0, help="for all of them")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    ends = time.monotonic() + given.seconds
    records: list[dict[str, Any]] = []
    for name in given.problems:
        left = ends - time.monotonic()
        if left < 1:
            break
        records.append(optimized(name, given.target, given.out / name, left))
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        write_json(given.out / "optimize.json", {"date": now, "runs": records})
        (given.out / "optimize.md").write_text(table(records))
        print(f"{name}: {records[-1].get('verdict') or records[-1]['error']}", flush=True)
    measured = all(record.get("measured") for record in records)
    return 0 if measured and len(records) == len(given.problems) else 1


if __name__ == "__main__":
    sys.exit(main())
