"""Runs optimised files on this machine's GPU and compares them with PyTorch.

    python bench/self/on_gpu.py FOLDER... [--any-backend] [--json FILE]

Each FOLDER holds kernel.optimized.py and reference.py. Needs torch and Triton alone, so that it
also runs where xesmith cannot be installed. The device that the files name is replaced by the one
at hand. With --any-backend the variants are launched also where the file was made for another
kind of GPU, which tries the generated block itself. Nothing is timed.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import re
import sys
import tempfile
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import triton
from triton.runtime.jit import JITFunction

DEVICE = torch.accelerator.current_accelerator().type


def load(path: Path, name: str, folder: Path, any_backend: bool = False) -> ModuleType:
    """The module in `path`, with the device that it names replaced (Triton reads the file)."""
    copy = folder / f"{name}.py"
    text = re.sub(r'device="(xpu|cuda)"', f'device="{DEVICE}"', path.read_text())
    if any_backend:
        text = re.sub(r'_xs_backend\(\) in \(None, "\w+"\)', "True", text)
    copy.write_text(text)
    spec = importlib.util.spec_from_file_location(name, copy)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def count_launches(launched: Counter[str]) -> None:
    original = JITFunction.run

    def run(kernel: Any, *args: Any, **kwargs: Any) -> Any:
        launched[kernel.fn.__name__] += 1
        return original(kernel, *args, **kwargs)

    JITFunction.run = run


def tensors(value: Any) -> list[torch.Tensor]:
    return [value] if isinstance(value, torch.Tensor) else [t for v in value for t in tensors(v)]


def compare(folder: Path, work: Path, launched: Counter[str], any_backend: bool) -> dict[str, Any]:
    torch.manual_seed(0)
    name = f"{folder.name}_optimized"
    module = load(folder / "kernel.optimized.py", name, work, any_backend)
    reference = load(folder / "reference.py", f"{folder.name}_reference", work)
    model = module.Model(*module.get_init_inputs()).to(DEVICE)
    wanted = reference.Model(*reference.get_init_inputs()).to(DEVICE)
    wanted.load_state_dict(model.state_dict())
    inputs = module.get_inputs()
    launched.clear()
    got = tensors(model(*inputs))
    torch.accelerator.synchronize()
    kernels = dict(launched)
    exact = tensors(wanted.double()(*(x.double() if x.is_floating_point() else x for x in inputs)))
    errors, allowed = [], []
    for a, b in zip(got, exact, strict=True):
        scale = b.abs().max().item()
        errors.append((a.double() - b).abs().max().item())
        # Rounding of the output's type at the largest value, and 32-bit sums before it.
        allowed.append(4 * scale * torch.finfo(a.dtype).eps + 1e-5 * scale)
    return {
        "problem": folder.name,
        "kernels": kernels,
        "largest_error": max(errors),
        "allowed": max(allowed),
        "passed": all(e <= t for e, t in zip(errors, allowed, strict=True)),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--any-backend", action="store_true")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    launched: Counter[str] = Counter()
    count_launches(launched)
    records = []
    with tempfile.TemporaryDirectory() as work:
        for folder in arguments.folders:
            try:
                records.append(compare(folder, Path(work), launched, arguments.any_backend))
            except Exception as error:  # the next problem is still of interest
                text = f"{type(error).__name__}: {error}"[:400]
                records.append({"problem": folder.name, "passed": False, "error": text})
            print(json.dumps(records[-1]), flush=True)
    properties = torch.cuda.get_device_properties(0) if DEVICE == "cuda" else None
    result = {
        "provenance": {
            "device": properties.name if properties else DEVICE,
            "triton": triton.__version__,
            "torch": torch.__version__,
            "python": sys.version.split()[0],
            "any_backend": arguments.any_backend,
            "timed": False,
        },
        "runs": records,
    }
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=1) + "\n")
    return 0 if all(record["passed"] for record in records) else 1


if __name__ == "__main__":
    sys.exit(main())
