"""What the evidence costs: python bench/self/lowering.py [--json]

Three figures, each with its goal:
  overhead    evidence for one configuration over the bare compiler's own time, both in a fresh
              child of a warm fork server (median of 7; the gemm problem; goal <= 1.5)
  cached      an unchanged source, answered from the cache by the API, warm (median; <= 20 ms)
  scaling     a sweep of 32 configurations, one worker over two workers (goal >= 1.7)
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

from xesmith.cascade.examine import examine
from xesmith.device import load_device
from xesmith.engine.problem import load_problem
from xesmith.ghost.launch import Program
from xesmith.lowering import Lowerer
from xesmith.lowering.cache import LoweringCache
from xesmith.toolchain import find_toolchain
from xesmith.worker.client import WorkerPool

HERE = Path(__file__).resolve().parent
GEMM = HERE.parent / "problems" / "gemm" / "kernel.py"
DEVICE = "bmg-g31"
REPEATS = 7


def seconds(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def median(function: Callable[[], object], repeats: int = REPEATS) -> float:
    function()  # warm
    return statistics.median(seconds(function) for _ in range(repeats))


def overhead() -> dict[str, Any]:
    device, toolchain = load_device(DEVICE), find_toolchain(None, "xpu")
    assert toolchain.native is not None
    (program,) = load_problem(GEMM).programs().values()
    with Lowerer(toolchain, device, parallel=1, cache=False) as lowerer:
        (lowering,) = lowerer.run(program).lowerings
        with_evidence = median(lambda: examine(lowerer.run(program), device))
    launch = lowering.launch.to_json()
    options = {k: v for k, v in launch["options"].items() if k in ("num_warps", "num_stages")}
    arguments = {
        "source": program.source,
        "launch": launch,
        "arch": device.target_properties(),
        "options": options,
        "ocloc": list(toolchain.native.ocloc),
        "ocloc_device": device.ocloc_name,
        "flags": "",
    }
    with (
        tempfile.TemporaryDirectory() as folder,
        WorkerPool(
            toolchain.python,
            "bare",
            preload=["torch", "triton", "bare_task"],
            import_path=[HERE],
            parallel=1,
        ) as pool,
    ):
        count = 0

        def bare() -> None:
            nonlocal count
            count += 1
            work = Path(folder) / str(count)
            result = pool.run(
                "bare_task:compile_launch",
                arguments,
                folder=work,
                env={"TRITON_CACHE_DIR": str(work / "cache")},
            )
            if result.status != "ok":
                raise RuntimeError(f"the bare compiler failed: {result}")

        bare_seconds = median(bare)
    return {
        "with_evidence_seconds": with_evidence,
        "bare_seconds": bare_seconds,
        "ratio": with_evidence / bare_seconds,
        "goal": "<= 1.5",
        "met": with_evidence / bare_seconds <= 1.5,
    }


def cached() -> dict[str, Any]:
    device, toolchain = load_device(DEVICE), find_toolchain(None, "xpu")
    (program,) = load_problem(GEMM).programs().values()
    with (
        tempfile.TemporaryDirectory() as folder,
        Lowerer(toolchain, device, parallel=1, cache=LoweringCache(Path(folder))) as lowerer,
    ):
        lowerer.run(program)
        milliseconds = 1e3 * median(lambda: lowerer.run(program), 50)
    return {"milliseconds": milliseconds, "goal": "<= 20", "met": milliseconds <= 20}


def sweep() -> list[Program]:
    """The gemm with 32 distinct tiles and warp counts."""
    problem = load_problem(GEMM)
    texts = [
        problem.source.replace("BLOCK_M=128", f"BLOCK_M={m}")
        .replace("BLOCK_N=128", f"BLOCK_N={n}")
        .replace("BLOCK_K=32", f"BLOCK_K={k}")
        .replace("num_warps=16", f"num_warps={warps}, num_stages={stages}")
        for m, n, k, warps, stages in product((32, 64), (32, 64), (32, 64), (4, 8), (2, 3))
    ]
    return [program for text in texts for program in problem.programs(text).values()]


def scaling() -> dict[str, Any]:
    device, toolchain = load_device(DEVICE), find_toolchain(None, "xpu")
    programs = sweep()
    assert len({p.source for p in programs}) == 32
    taken: dict[int, float] = {}
    for workers in (1, 2):
        with Lowerer(toolchain, device, parallel=workers, cache=False) as lowerer:
            lowerer.run(programs[0])  # warm
            taken[workers] = seconds(lambda lowerer=lowerer: lowerer.run_many(programs))
    ratio = taken[1] / taken[2]
    return {
        "one_worker_seconds": taken[1],
        "two_workers_seconds": taken[2],
        "ratio": ratio,
        "goal": ">= 1.7",
        "met": ratio >= 1.7,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    as_json = parser.parse_args().json
    results = {"overhead": overhead(), "cached": cached(), "scaling": scaling()}
    if as_json:
        print(json.dumps(results, indent=1))
    else:
        for name, values in results.items():
            shown = ", ".join(
                f"{key} {value:.3g}" if isinstance(value, float) else f"{key} {value}"
                for key, value in values.items()
            )
            print(f"{name}: {shown}")
    return 0 if all(values["met"] for values in results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
