"""Replays the recordings over HTTP, with the compiler's facts in the requests and without them.

    python bench/self/recordings.py --out bench/results/recordings [--only gemm] [--refresh]

A recording (bench/recordings/<name>) holds the replies of a model to one run's requests. A local
stand-in for an endpoint serves them; `xesmith optimize` asks it as it would ask a model. The
replies are the same both times, so the verdicts are; what differs is what the model is shown when
it refines, and that is what the second table tells. `--refresh` writes the requests, as they are
now, beside the replies.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import yaml

from xesmith import __version__
from xesmith.bench import load_problem
from xesmith.cascade.record import LEVELS
from xesmith.ledger import Exchange, Ledger
from xesmith.lm.stand_in import StandIn

ROOT = Path(__file__).resolve().parents[2]
RECORDINGS = ROOT / "bench" / "recordings"
#: sections of a request that hold what the compiler, the comparison and the clock's model said
BEFORE = ("What is wrong, by the compiler's evidence", "What the compiler made of it")
LAST_TRY = ("What became of it", "What the compiler made of it: before -> after")


def names() -> list[str]:
    return sorted(path.parent.name for path in RECORDINGS.glob("*/recording.yaml"))


def command(name: str, out: Path, *more: str) -> list[str]:
    """The command line of a recorded run."""
    said = yaml.safe_load((RECORDINGS / name / "recording.yaml").read_text("utf-8"))
    kernel = load_problem(said["problem"]).kernel.relative_to(ROOT)
    made = [sys.executable, "-m", "xesmith.cli.app", "optimize", str(kernel), "--json"]
    made += ["--out", str(out), "--proposer", said["proposer"]]
    if said.get("stages"):
        made += ["--stages", ",".join(said["stages"])]
    return [*made, *more]


def environment(server: StandIn) -> dict[str, str]:
    """Of a process that is to take the stand-in for a model."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("XESMITH_LM")}
    said = {"XESMITH_LM": "openai/stand-in", "XESMITH_LM_BASE_URL": server.url}
    return {**kept, **said, "XESMITH_LM_API_KEY": "the-stand-in-asks-for-none"}


def arms(name: str) -> list[bool]:
    """Whether the facts are withheld: once each, where the recording does not say."""
    said = yaml.safe_load((RECORDINGS / name / "recording.yaml").read_text("utf-8"))
    evidence = said.get("evidence")
    return [False, True] if evidence is None else [evidence == "withheld"]


def run(name: str, folder: Path, *, withheld: bool) -> dict[str, Any]:
    out, record = folder / f"{name}-{withheld}", folder / f"{name}-{withheld}-exchanges"
    more = ["--record", str(record), *(["--withhold-evidence"] if withheld else [])]
    started = time.monotonic()
    with StandIn([RECORDINGS / name]) as server:
        done = subprocess.run(
            command(name, out, *more),
            capture_output=True,
            text=True,
            check=False,
            cwd=ROOT,
            env=environment(server),
        )
    if done.returncode not in (0, 1):
        raise SystemExit(f"{name}: exit code {done.returncode}\n{done.stderr}")
    result = json.loads(done.stdout)
    with Ledger.open(out / "ledger.sqlite") as ledger:
        trials, exchanges = ledger.trials(), ledger.exchanges()
    refusals = Counter(refused(trial.verdict) for trial in trials if trial.exchange is not None)
    faults = [e.fault for e in exchanges if e.fault is not None]
    declined = sum(fault.startswith("declined: ") for fault in faults)
    refusals["reply"] = len(faults) - declined
    return {
        "recording": name,
        "evidence": "withheld" if withheld else "shown",
        "session": result["session"],
        "answers": len(exchanges),
        "refused": {level: refusals[level] for level in ("reply", *LEVELS) if refusals[level]},
        "accepted": refusals["accepted"],
        "declined": declined,
        "predicted_seconds": result["predicted_seconds"],
        "prompt_tokens": sum(e.reply.usage.prompt_tokens for e in exchanges),
        "refine_requests": [shown(e) for e in exchanges if "## Your last answer" in prompt(e)],
        "wall_seconds": round(time.monotonic() - started, 1),
        "exchanges": str(record),
    }


def refused(verdict: dict[str, Any]) -> str:
    """The level that refused; "accepted", or "not best" of several answers."""
    if verdict["accepted"]:
        return "accepted"
    statuses = {level["level"]: level["status"] for level in verdict["levels"]}
    bad = [level for level in LEVELS if statuses.get(level) in ("refused", "not_read")]
    return bad[0] if bad else "not best"


def prompt(exchange: Exchange) -> str:
    return exchange.request.messages[-1].content


def shown(exchange: Exchange) -> dict[str, Any]:
    """What a request to refine showed of the compiler: lines of facts, and how much text."""
    lines: dict[str, int] = {}
    for section in prompt(exchange).split("\n## ")[1:]:
        heading, _, text = section.partition("\n")
        lines[heading] = sum(bool(line.strip()) for line in text.splitlines())
    before = sum(n for h, n in lines.items() if h.startswith(BEFORE) and h not in LAST_TRY)
    return {
        "request": exchange.request.label,
        "lines_before": before,
        "lines_last_try": sum(lines.get(heading, 0) for heading in LAST_TRY),
        "characters": len(prompt(exchange)),
    }


def table(records: list[dict[str, Any]]) -> str:
    lines = [
        "| recording | answers | refused, by level | accepted | declined "
        "| predicted us, before -> after | prompt tokens: shown / withheld |",
        "|---|---|---|---|---|---|---|",
    ]
    once = [r for r in records if len(arms(r["recording"])) == 1]
    shown_records = [r for r in records if r["evidence"] == "shown" and r not in once]
    for record in shown_records:
        other = next(
            (r for r in records if r["recording"] == record["recording"] and r is not record), None
        )
        levels = ", ".join(f"{level} {count}" for level, count in record["refused"].items())
        seconds = record["predicted_seconds"]
        tokens = "not run" if other is None else str(other["prompt_tokens"])
        lines.append(
            f"| {record['recording']} | {record['answers']} | {levels or 'none'} "
            f"| {record['accepted']} | {record['declined']} | {seconds['before'] * 1e6:.1f} -> "
            f"{seconds['after'] * 1e6:.1f} | {record['prompt_tokens']} / {tokens} |"
        )
    lines += [
        "",
        "What each request to refine showed, in lines of facts by compiler and comparison (of the "
        "program before, and of the last try), with evidence and without:",
        "",
        "| request | before: shown / withheld | last try: shown / withheld |",
        "|---|---|---|",
    ]
    for record in shown_records:
        others = {
            item["request"]: item
            for r in records
            if r["recording"] == record["recording"] and r is not record
            for item in r["refine_requests"]
        }
        for item in record["refine_requests"]:
            without = others.get(item["request"], {})
            lines.append(
                f"| {record['recording']}: {item['request']} "
                f"| {item['lines_before']} / {without.get('lines_before', 'not run')} "
                f"| {item['lines_last_try']} / {without.get('lines_last_try', 'not run')} |"
            )
    if once:
        lines += [
            "",
            "Conversations that were held twice, once with the facts in the requests and once "
            "without them, by models that saw the requests alone; one of them held its four partly "
            "at the same time. One of each for a problem: too few to conclude from.",
            "",
            "| recording | evidence | answers | refused, by level | predicted us |",
            "|---|---|---|---|---|",
        ]
    for record in once:
        levels = ", ".join(f"{level} {count}" for level, count in record["refused"].items())
        seconds = record["predicted_seconds"]
        lines.append(
            f"| {record['recording']} | {record['evidence']} | {record['answers']} "
            f"| {levels or 'none'} "
            f"| {seconds['before'] * 1e6:.1f} -> {seconds['after'] * 1e6:.1f} |"
        )
    return "\n".join(lines)


def refresh(name: str, exchanges: Path) -> None:
    """Puts the requests of a run beside the replies that they got."""
    folder = RECORDINGS / name
    for old in folder.glob("*.request.md"):
        old.unlink()
    for path in exchanges.glob("*.request.md"):
        shutil.copyfile(path, folder / path.name)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", help="comma-separated recordings")
    parser.add_argument("--refresh", action="store_true", help="keep the requests as they are now")
    arguments = parser.parse_args()
    records: list[dict[str, Any]] = []
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.only.split(",") if arguments.only else names():
            for withheld in arms(name):
                record = run(name, Path(folder), withheld=withheld)
                if arguments.refresh and withheld == arms(name)[0]:
                    refresh(name, Path(record["exchanges"]))
                del record["exchanges"]
                records.append(record)
                print(f"{name} ({record['evidence']}): {record['refused']}", flush=True)
                write(arguments.out, records)
    return 0


def write(out: Path, records: list[dict[str, Any]]) -> None:
    provenance = {
        "xesmith": __version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "date": time.strftime("%Y-%m-%d"),
        "measured": False,
    }
    text = json.dumps({"provenance": provenance, "runs": records}, indent=1) + "\n"
    out.with_suffix(".json").write_text(text)
    session = records[0]["session"]
    out.with_suffix(".md").write_text(
        f"# The recordings, replayed\n\nxesmith {__version__}, {session['compiler']}, ocloc "
        f"{session['native_compiler']}, {provenance['date']}. Replies come from a local stand-in "
        "for an endpoint; no GPU took part: results were computed by Triton's interpreter, times "
        "are predicted.\n"
        f"Made by `python bench/self/recordings.py --out {out}`. The replies are the same with and "
        "without evidence, so this tells what a model sees, not what it makes of it.\n\n"
        f"{table(records)}\n"
    )


if __name__ == "__main__":
    sys.exit(main())
