"""What the passes cost in this process: python bench/self/passes.py [--json]

checks      all check passes on the TTGIR of the flash attention problem, parsed already
            (median of 200; goal <= 5 ms)
whole       the same from text to findings, parsing included (median of 200)
evidence    TTIR and TTGIR from text to records, as `xesmith inspect` reads them (median of 200)
mlir_opt    the checks by mlir-opt in a process of its own, where it is installed (median of 10)
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from xesmith.device import load_device
from xesmith.engine.problem import load_problem
from xesmith.evidence.ttgir import read_ttgir
from xesmith.evidence.ttir import read_ttir
from xesmith.lowering import Lowerer
from xesmith.lowering.record import Lowering
from xesmith.passes.pipeline import full_pipeline, run_pipeline
from xesmith.passes.plugin import load_plugin, plugin_path
from xesmith.toolchain import find_toolchain

ATTENTION = Path(__file__).resolve().parents[1] / "problems" / "flash_attention" / "kernel.py"
GOAL_MS = 5.0


def median_ms(function: Callable[[], float], repeats: int) -> float:
    function()  # warm
    return 1e3 * statistics.median(function() for _ in range(repeats))


def attention() -> Lowering:
    device = load_device("bmg-g31")
    toolchain = find_toolchain(None, "xpu", native=False)
    program = next(iter(load_problem(ATTENTION).programs().values()))
    with Lowerer(toolchain, device, parallel=1) as lowerer:
        (lowering,) = lowerer.run(program, native=False).lowerings
    return lowering


def measure() -> dict[str, Any]:
    lowering = attention()
    ttir, text = (Path(lowering.levels[f"{n}_generic"]).read_text() for n in ("ttir", "ttgir"))
    mlir = load_plugin()
    context = mlir.ir.Context()
    context.allow_unregistered_dialects = True
    context.enable_multithreading(False)
    context.attach_diagnostic_handler(lambda _: True)
    manager = mlir.passmanager.PassManager.parse(full_pipeline("checks"), context)

    def checks() -> float:
        module = mlir.ir.Module.parse(text, context)
        start = time.perf_counter()
        manager.run(module.operation)
        return time.perf_counter() - start

    def whole() -> float:
        start = time.perf_counter()
        run_pipeline(text, "checks", keep_text=False)
        return time.perf_counter() - start

    def evidence() -> float:
        start = time.perf_counter()
        read_ttir(ttir, lowering.launch)
        read_ttgir(text, lowering.launch, lowering.metadata)
        return time.perf_counter() - start

    checks_ms = median_ms(checks, 200)
    return {
        "ttgir_bytes": len(text),
        "findings": len(run_pipeline(text, "checks", keep_text=False).findings),
        "checks_ms": checks_ms,
        "whole_ms": median_ms(whole, 200),
        "evidence_ms": median_ms(evidence, 200),
        "mlir_opt_ms": mlir_opt_ms(text),
        "goal": f"checks <= {GOAL_MS:g} ms",
        "met": checks_ms <= GOAL_MS,
    }


def mlir_opt_ms(text: str) -> float | None:
    tool = Path(sysconfig.get_path("purelib")) / "mlir" / "bin" / "mlir-opt"
    if not tool.is_file():
        return None
    with tempfile.NamedTemporaryFile("w", suffix=".mlir") as file:
        file.write(text)
        file.flush()
        command = [
            *(str(tool), f"--load-pass-plugin={plugin_path()}", "--allow-unregistered-dialect"),
            *(f"--pass-pipeline={full_pipeline('checks')}", file.name, "-o", "/dev/null"),
        ]

        def once() -> float:
            start = time.perf_counter()
            subprocess.run(command, capture_output=True, check=True)
            return time.perf_counter() - start

        return median_ms(once, 10)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    as_json = parser.parse_args().json
    found = measure()
    if as_json:
        print(json.dumps(found, indent=1))
    else:
        for name, value in found.items():
            print(f"{name}: {f'{value:.3g}' if isinstance(value, float) else value}")
    return 0 if found["met"] else 1


if __name__ == "__main__":
    sys.exit(main())
