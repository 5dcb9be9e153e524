"""Optimises every problem, and the gemm for further devices; writes what came of each.

    python bench/self/problems.py --out bench/results/NAME [--only gemm,softmax]

Each run goes through the command line, as a user's would. Of every accepted candidate the promises
are read again in its evidence JSON. NAME.json and NAME.md are written after each run, so that
nothing is lost when it is stopped. Times in them are predicted, never measured.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from xesmith import __version__
from xesmith.bench import load_problem, problem_names

ROOT = Path(__file__).resolve().parents[2]
MAIN_DEVICE = "bmg-g31"
OTHER_DEVICES = ("pvc", "bmg-g21", "lnl-m", "cri")
VERDICTS = {0: "improved", 1: "not improved", 4: "the kernel itself fails"}


def optimize(problem: str, device: str, folder: Path) -> dict[str, Any]:
    # As a user would name it, from the checkout: results name no folder of this machine.
    kernel = load_problem(problem).kernel.relative_to(ROOT)
    out = folder / f"{problem}-{device}"
    command = [sys.executable, "-m", "xesmith.cli.app", "optimize", str(kernel)]
    command += ["--target", device, "--out", str(out), "--json"]
    started = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    record: dict[str, Any] = {
        "problem": problem,
        "device": device,
        "exit_code": done.returncode,
        "verdict": VERDICTS.get(done.returncode, "error"),
        "wall_seconds": round(time.monotonic() - started, 1),
    }
    if done.returncode not in (0, 1):
        return {**record, "error": json.loads(done.stderr)}
    result = json.loads(done.stdout)
    return {
        **record,
        "session": result["session"],
        "predicted_seconds": result["predicted_seconds"],
        "stages": {stage["name"]: stage["status"] for stage in result["stages"]},
        "before": result["before"],
        "after": result["after"],
        "promises": promises(out / "evidence"),
    }


def promises(evidence: Path) -> dict[str, int]:
    """How many promises of accepted candidates hold in their evidence, and how many do not."""
    statuses = [
        outcome["status"]
        for path in evidence.glob("*.json")
        for level in json.loads(path.read_text())["verdict"]["levels"]
        if level["level"] == "lowering"
        for outcomes in level["facts"].get("promises", {}).values()
        for outcome in outcomes
    ]
    return {"hold": statuses.count("holds"), "do not": len(statuses) - statuses.count("holds")}


def table(records: list[dict[str, Any]]) -> str:
    lines = [
        "| problem | device | verdict | stages that improved | dpas in loop, before -> after "
        "| spill B/thread | SLM B | predicted us, before -> after | promises | wall s |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for record in records:
        head = f"| {record['problem']} | {record['device']} | {record['verdict']} "
        if "after" not in record:
            lines.append(
                f"{head}| {record['error']['what']} | | | | | | {record['wall_seconds']} |"
            )
            continue
        (before,), (after,) = record["before"].values(), record["after"].values()
        improved = [name for name, status in record["stages"].items() if status == "improved"]
        seconds = record["predicted_seconds"]
        lines.append(
            f"{head}| {', '.join(improved) or 'none'} "
            f"| {before['native.main.dpas_share']:.0%} -> {after['native.main.dpas_share']:.0%} "
            f"| {both(before, after, 'native.spill_bytes_per_thread')} "
            f"| {both(before, after, 'native.slm_bytes')} "
            f"| {microseconds(seconds['before'])} -> {microseconds(seconds['after'])} "
            f"| {record['promises']['hold']} of {sum(record['promises'].values())} hold "
            f"| {record['wall_seconds']} |"
        )
    return "\n".join(lines)


def both(before: dict[str, Any], after: dict[str, Any], name: str) -> str:
    return f"{before[name]:g} -> {after[name]:g}"


def microseconds(seconds: float | None) -> str:
    return "not predicted" if seconds is None else f"{seconds * 1e6:.1f}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", help="comma-separated problems")
    parser.add_argument("--devices", default=",".join(OTHER_DEVICES), help="more, for the gemm")
    arguments = parser.parse_args()
    names = arguments.only.split(",") if arguments.only else problem_names()
    runs = [(name, MAIN_DEVICE) for name in names]
    runs += [("gemm", device) for device in arguments.devices.split(",") if device]
    records: list[dict[str, Any]] = []
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for problem, device in runs:
            records.append(optimize(problem, device, Path(folder)))
            last = records[-1]
            print(
                f"{problem} for {device}: {last['verdict']} ({last['wall_seconds']} s)", flush=True
            )
            provenance = {
                "xesmith": __version__,
                "python": platform.python_version(),
                "machine": platform.machine(),
                "date": time.strftime("%Y-%m-%d"),
                "measured": False,
            }
            arguments.out.with_suffix(".json").write_text(
                json.dumps({"provenance": provenance, "runs": records}, indent=1) + "\n"
            )
            session = next((r["session"] for r in records if "session" in r), {})
            arguments.out.with_suffix(".md").write_text(
                f"# Every problem, by the rules alone\n\nxesmith {__version__}, "
                f"{session.get('compiler')}, ocloc {session.get('native_compiler')}, "
                f"{provenance['date']}. No GPU took part: results were computed by Triton's "
                "interpreter, times are predicted.\n"
                f"Made by `python bench/self/problems.py --out {arguments.out}`.\n\n"
                f"{table(records)}\n"
            )
    return 0 if all(r["exit_code"] in VERDICTS for r in records) else 1


if __name__ == "__main__":
    sys.exit(main())
