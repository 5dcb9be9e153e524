"""What the compile hook costs and records: bench/self/hook.py [--json] [--out DIR]

  overhead    20 kernels compiled with the hook over the same without, each in fresh processes
              with empty caches (median of --repeats; without native code on the ghost device of
              Intel; goal <= 1.05). Processor time beside the wall clock, for a machine with other
              work.
              Where xesmith's packages are installed, the same with findings logged is told apart:
              their reader builds native code beside the compiles, at the lowest priority.
  model       with a GPU only: a torch.compile'd model run under `python -m xesmith.hook`, with
              and without a transform; its results against eager PyTorch, and what was recorded

Needs torch and Triton (any of 3.3 to 3.9), and nothing else where there is a GPU. --out gets the
model's traces as one archive each, which `xesmith trace show` reads elsewhere when it is unpacked.
"""

from __future__ import annotations

import argparse
import collections
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]  # a machine where xesmith is not installed

REPEATS = 7
GOAL = 1.05


def child_overhead(folder: str, findings: bool) -> None:
    """Compiles the kernels; with the hook where `folder` names a trace."""
    device = _use_device()
    import hook_kernels
    import triton

    import xesmith.hook

    for name in ("triton.compiler.compiler", "triton.runtime.cache"):
        if hasattr(sys.modules[name], "triton_key"):  # hashes the installation, once per process
            sys.modules[name].triton_key()
            break
    hook_kernels.gelu.warmup(*[_one(device)] * 2, 16, B=16, grid=(1,))
    if folder:
        xesmith.hook.enable(folder, findings=findings)
    cpu, wall = time.process_time(), time.perf_counter()
    count = hook_kernels.compile_all(device)
    seconds = {"wall": time.perf_counter() - wall, "processor": time.process_time() - cpu}
    print(json.dumps({"kernels": count, "triton": triton.__version__, "device": device, **seconds}))


def _one(device: str) -> Any:
    import torch

    return torch.empty(16, device=device)


def _use_device() -> str:
    """The GPU of this machine, or the ghost of an Intel one."""
    import torch

    accelerator = torch.accelerator.current_accelerator()
    if accelerator is not None:
        return accelerator.type
    import triton

    from xesmith.device import load_device
    from xesmith.ghost.driver import GhostDriver, Target, make_backend_class
    from xesmith.lowering.lowerer import target_json

    name = "bmg-g31" if "intel" in triton.backends.backends else "h200"
    target = Target.from_json(target_json(load_device(name)))
    make_backend_class(target)
    driver = GhostDriver(target, lambda *_: lambda *_: None, lambda *_, **__: [1.0])
    triton.runtime.driver.set_active(driver)
    return "cpu"


def child_model() -> None:
    """Runs the model eagerly and compiled."""
    import hook_kernels
    import torch

    device = torch.accelerator.current_accelerator()
    torch.manual_seed(0)
    model = hook_kernels.Model().to(device, torch.float16)
    x = torch.randn(64, 512, device=device, dtype=torch.float16)
    with torch.no_grad():
        expected = model(x)
        started = time.perf_counter()
        got = torch.compile(model)(x)
        torch.accelerator.synchronize()
    seconds = time.perf_counter() - started
    error = (got.float() - expected.float()).abs().max().item()
    print(json.dumps({"largest_difference": error, "first_call_seconds": seconds}))


def run(arguments: list[str], environment: dict[str, str] | None = None) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as caches:
        done = subprocess.run(
            [sys.executable, *arguments],
            env={
                **os.environ,
                "TRITON_CACHE_DIR": f"{caches}/triton",
                "TORCHINDUCTOR_CACHE_DIR": f"{caches}/inductor",
                **(environment or {}),
            },
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode != 0:
        raise SystemExit(f"{arguments} fails:\n{done.stderr[-4000:]}")
    return {**json.loads(done.stdout.splitlines()[-1]), "stderr": done.stderr}


def overhead(repeats: int) -> dict[str, Any]:
    reads_here = all(importlib.util.find_spec(name) for name in ("pydantic", "mlir"))
    ways = ["without", "with", *(["with_findings"] if reads_here else [])]
    times: dict[str, list[dict[str, Any]]] = {way: [] for way in ways}
    recorded = 0
    for number in range(repeats):  # in turns, there and back, so that all meet the same load
        for way in ways if number % 2 else ways[::-1]:
            # A build of ocloc that the reader of findings began may still write when it has ended.
            with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as trace:
                options = ["--findings"] if way == "with_findings" else []
                folder = "" if way == "without" else trace
                times[way].append(run([__file__, "--child-overhead", folder, *options]))
                if way == "with":
                    recorded = len(kernels(Path(trace)))
    one = times["with"][0]
    made: dict[str, Any] = {k: one[k] for k in ("triton", "device", "kernels")}
    made |= {"repeats": repeats, "recorded": recorded}
    for clock in ("wall", "processor"):
        seconds = {way: [one[clock] for one in seen] for way, seen in times.items()}
        made[f"{clock}_seconds"] = {k: round(statistics.median(v), 3) for k, v in seconds.items()}
        for way in ways[1:]:  # within a turn: the machine's pace drifts from turn to turn
            ratios = [a / b for a, b in zip(seconds[way], seconds["without"], strict=True)]
            name = f"{clock}_ratio" if way == "with" else f"{clock}_ratio_{way}"
            made[name] = round(statistics.median(ratios), 3)
            made[f"{name}_least"] = round(min(seconds[way]) / min(seconds["without"]), 3)
    return {**made, "goal": GOAL}


def kernels(trace: Path) -> list[dict[str, Any]]:
    lines = (trace / "index.jsonl").read_text().splitlines()
    return [event for event in map(json.loads, lines) if event["event"] == "kernel"]


def model(out: Path) -> dict[str, Any]:
    made: dict[str, Any] = {"without_hook": run([__file__, "--child-model"])}
    runs: dict[str, list[str]] = {
        "recorded": [],
        "transformed": ["--transform", "hook_kernels:swap_factors"],
    }
    path = os.pathsep.join([str(HERE), str(HERE.parents[1])])
    out.mkdir(parents=True, exist_ok=True)
    for name, options in runs.items():
        with tempfile.TemporaryDirectory() as scratch:
            trace = Path(scratch) / name
            command = ["-m", "xesmith.hook", "--out", str(trace), *options]
            result = run([*command, __file__, "--child-model"], {"PYTHONPATH": path})
            made[name] = {**result, **recorded_in(trace)}
            with tarfile.open(out / f"{name}.tar.gz", "w:gz") as archive:
                archive.add(trace, name, filter=without_hidden)
    return made


def without_hidden(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Leaves out the link to this package, and locks."""
    return None if Path(member.name).name.startswith(".") else member


def recorded_in(trace: Path) -> dict[str, Any]:
    found = kernels(trace)
    return {
        "processes": len({k["pid"] for k in found}),
        "hashes_are_unique": len({k["hash"] for k in found}) == len(found),
        "transforms": dict(
            collections.Counter((k["transform"] or {}).get("status", "none") for k in found)
        ),
        "kernels": [
            {
                "kernel": k["kernel"],
                "target": k["target"],
                "compiler": k["compiler"],
                "from_cache": k["from_cache"],
                "compile_seconds": round(sum(k["seconds"].values()), 4),
                "files": sorted(p.name for p in (trace / "kernels" / k["folder"]).iterdir()),
            }
            for k in found
        ],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print the figures as one JSON value")
    parser.add_argument("--repeats", type=int, default=REPEATS, help="runs of each kind")
    parser.add_argument("--out", type=Path, help="keep the model's traces here (.tar.gz)")
    parser.add_argument("--child-overhead", metavar="TRACE", help=argparse.SUPPRESS)
    parser.add_argument("--findings", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--child-model", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child_overhead is not None:
        return child_overhead(given.child_overhead, given.findings)
    if given.child_model:
        return child_model()
    import torch

    figures: dict[str, Any] = {"overhead": overhead(given.repeats)}
    if torch.accelerator.is_available():
        with tempfile.TemporaryDirectory() as scratch:
            figures["model"] = model(given.out or Path(scratch))
    if given.json:
        print(json.dumps(figures, indent=2))
        return None
    found = figures["overhead"]
    for clock in ("wall", "processor"):
        print(f"overhead, {clock} clock: {found[f'{clock}_ratio']} ({found[f'{clock}_seconds']} s)")
        if f"{clock}_ratio_with_findings" in found:
            print(f"  with findings logged: {found[f'{clock}_ratio_with_findings']}")
    for name, result in figures.get("model", {}).items():
        print(f"model, {name}: { ({k: v for k, v in result.items() if k != 'stderr'}) }")
    return None


if __name__ == "__main__":
    main()
