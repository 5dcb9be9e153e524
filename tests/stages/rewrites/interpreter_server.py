"""Runs kernels in Triton's interpreter: one JSON job a line in, one JSON answer a line out.

A job: {"sources": [text, ...], "kernel": name, "launches": [...], "tensors": {...}, "values":
{...}, "grid": [...]}. Each source's kernel runs on equal fresh tensors; the answer gives, per
source, the largest difference of any tensor from those of the first source, as a fraction of
the largest magnitude there, or the error's text. Elements between the rows of a padded tensor
are compared too.
"""

import importlib.util
import json
import os
import sys
import tempfile

os.environ["TRITON_INTERPRET"] = "1"

import torch

HEADER = "import triton\nimport triton.language as tl\n\n\n"


def storage(spec: dict, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    size = 1 + sum((n - 1) * s for n, s in zip(spec["shape"], spec["strides"], strict=True))
    size += spec.get("slack", 0)
    generator = torch.Generator().manual_seed(seed)
    flat = torch.randn(size, generator=generator).to(getattr(torch, spec["dtype"]))
    return flat, flat.as_strided(spec["shape"], spec["strides"])


def run(source: str, job: dict, folder: str, number: int) -> list[torch.Tensor]:
    path = os.path.join(folder, f"candidate{number}.py")
    with open(path, "w") as file:
        file.write(HEADER + source)
    spec = importlib.util.spec_from_file_location(f"candidate{number}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    values, flats = dict(job["values"]), []
    for seed, (name, tensor) in enumerate(job["tensors"].items()):
        flat, values[name] = storage(tensor, seed)
        flats.append(flat)
    metas = job.get("metas", {}).get(str(number), {})
    getattr(module, job["kernel"])[tuple(job.get("grids", {}).get(str(number), job["grid"]))](
        **{**values, **metas}
    )
    return [flat.double() for flat in flats]


def answer(job: dict) -> list:
    with tempfile.TemporaryDirectory() as folder:
        expected = run(job["sources"][0], job, folder, 0)
        result: list = []
        for number, source in enumerate(job["sources"][1:], start=1):
            try:
                found = run(source, job, folder, number)
            except Exception as error:
                result.append(f"{type(error).__name__}: {error} {error.__cause__ or ''}")
                continue
            worst = 0.0
            for one, other in zip(expected, found, strict=True):
                scale = float(one.nan_to_num().abs().max()) or 1.0
                if not torch.equal(one.isnan(), other.isnan()):
                    worst = float("inf")
                worst = max(worst, float((one - other).nan_to_num().abs().max()) / scale)
            result.append(worst)
        return result


for line in sys.stdin:
    try:
        reply = answer(json.loads(line))
    except Exception as error:
        reply = f"{type(error).__name__}: {error} {error.__cause__ or ''}"
    print("answer " + json.dumps(reply), flush=True)
