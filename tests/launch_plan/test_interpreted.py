"""Rendered files run in Triton's interpreter: results equal torch's, and the right kernel ran."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from xesmith.kernel_file import KernelFile
from xesmith.launch_plan import LaunchPlan, read, render

KERNELS = Path(__file__).parent / "kernels"
SCALE = (KERNELS / "scale.py").read_text("utf-8")
WIDE = json.loads((KERNELS / "wide.json").read_text("utf-8"))
PRELUDE = """
import torch
import triton
import triton.language as tl
"""


def rendered(source: str, added: list[str], plan: dict[str, Any]) -> str:
    text = render(KernelFile.parse(source, "k.py"), {}, added, LaunchPlan.from_data(plan))
    again = read(text, "k.py")
    assert again.kernel_file.text == source
    assert again.plan == LaunchPlan.from_data(plan)
    return text


def interpret(tmp_path: Path, text: str, script: str, python: str = sys.executable) -> Any:
    """What `script` prints last, as JSON; it has `program`, `load` and `taken`."""
    (tmp_path / "program.py").write_text(text, encoding="utf-8")
    recorder = (KERNELS / "recorder.py").read_text("utf-8")
    program = f"import json\nimport torch\nprogram = load({str(tmp_path / 'program.py')!r})"
    main = f"{recorder}\n{program}\n{script}"
    (tmp_path / "main.py").write_text(main, encoding="utf-8")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    run = subprocess.run(
        [python, str(tmp_path / "main.py")],
        env={**environment, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    return json.loads(run.stdout.splitlines()[-1])


def test_every_way_of_launching(tmp_path: Path) -> None:
    script = """
results = {}
for name in ("by_position", "by_keyword", "by_run", "assigned", "forward"):
    call = program.Model() if name == "forward" else getattr(program, name)
    for n in (256, 250):
        x = torch.randn(n)
        assert torch.equal(call(x), x * 3.0), name
        results[f"{name} {n}"] = taken()
x = torch.randn(256)
assert torch.equal(program.by_keyword(x.double()), x.double() * 3.0)  # another dtype
results["double"] = taken()
out = program.other_grid(x)
assert torch.equal(out[:16], x[:16] * 3.0) and not out[16:].any()  # as the author wrote it
results["other grid"] = taken()
results["attributes"] = [
    program.scale_kernel.fn.__name__,
    program.scale_kernel.arg_names,
    hasattr(program.scale_kernel, "no_such"),
]
print(json.dumps(results))
"""
    results = interpret(tmp_path, rendered(SCALE, WIDE["added"], WIDE["plan"]), script)
    for name in ("by_position", "by_keyword", "by_run", "assigned", "forward"):
        assert results[f"{name} 256"] == [["wide_kernel", [2], {"BLOCK": 128}]]
        kernel, grid, _ = results[f"{name} 250"][0]
        blocks = {"by_position": 32, "by_run": 64}.get(name, 16)
        assert (kernel, grid[0]) == ("scale_kernel", -(-250 // blocks))
    assert results["double"][0][0] == "scale_kernel"
    assert results["other grid"][0][:2] == ["scale_kernel", [1]]
    names = ["x_ptr", "out_ptr", "n", "scale", "BLOCK", "FLIP"]
    assert results["attributes"] == ["scale_kernel", names, False]


def test_errors_of_the_caller_stay_the_callers(tmp_path: Path) -> None:
    script = """
messages = []
for args, kwargs in [((), {}), ((1,) * 9, {}), ((torch.ones(128),), {"x_ptr": 1})]:
    try:
        program.scale_kernel[(1,)](*args, **kwargs)
    except Exception as error:
        messages.append(type(error).__name__)
print(json.dumps(messages))
"""
    messages = interpret(tmp_path, rendered(SCALE, WIDE["added"], WIDE["plan"]), script)
    assert messages == ["TypeError"] * 3


GEMM = (
    PRELUDE
    + """

@triton.jit
def tile(a, b):
    return tl.dot(a, b)


@triton.jit
def gemm_kernel(a_ptr, b_ptr, c_ptr, M, N, K, lda, ldb, ldc,
                BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        a = tl.load(a_ptr + m[:, None] * lda + (k[None, :] + start),
                    mask=(m[:, None] < M) & (k[None, :] + start < K), other=0.0)
        b = tl.load(b_ptr + (k[:, None] + start) * ldb + n[None, :],
                    mask=(k[:, None] + start < K) & (n[None, :] < N), other=0.0)
        acc += tile(a, b)
    tl.store(c_ptr + m[:, None] * ldc + n[None, :], acc.to(c_ptr.dtype.element_ty),
             mask=(m[:, None] < M) & (n[None, :] < N))


def matmul(a, b):
    M, K = a.shape
    N = b.shape[1]
    c = torch.empty((M, N), device=a.device, dtype=a.dtype)
    gemm_kernel[(triton.cdiv(M, 16), triton.cdiv(N, 16))](
        a, b, c, M, N, K, a.stride(0), b.stride(0), c.stride(0), BM=16, BN=16, BK=16, num_warps=4)
    return c


def matmul_relu(a, b, alpha=1.0):
    return torch.relu(matmul(a, b)) * alpha


class Model(torch.nn.Module):
    def __init__(self, k=32, n=32):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(k, n))

    def forward(self, x):
        return matmul_relu(x, self.weight)
"""
)

#: partial sums of split K, then their sum
SPLIT = [
    """
@triton.jit
def split_kernel(a_ptr, b_ptr, part_ptr, M, N, K, lda, ldb,
                 BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SPLITS: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    split = tl.program_id(2)
    k = split * (K // SPLITS) + tl.arange(0, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K // SPLITS, BK):
        a = tl.load(a_ptr + m[:, None] * lda + (k[None, :] + start))
        b = tl.load(b_ptr + (k[:, None] + start) * ldb + n[None, :])
        acc += tile(a, b)
    tl.store(part_ptr + split * M * N + m[:, None] * N + n[None, :], acc)
""",
    """
LANES = tl.constexpr(16)

@triton.jit
def sum_kernel(part_ptr, c_ptr, size, SPLITS: tl.constexpr, RELU: tl.constexpr):
    at = tl.program_id(0) * LANES + tl.arange(0, LANES)
    total = tl.zeros((LANES,), dtype=tl.float32)
    for i in range(SPLITS):
        total += tl.load(part_ptr + i * size + at)
    if RELU:
        total = tl.maximum(total, 0.0)
    tl.store(c_ptr + at, total.to(c_ptr.dtype.element_ty))
""",
]


def _split_launches(sizes: tuple[str, str, str], relu: bool) -> list[dict[str, Any]]:
    m, n, _ = sizes
    return [
        {
            "kernel": "split_kernel",
            "grid": [f"cdiv({m}, BM)", f"cdiv({n}, BN)", "SPLITS"],
            "args": {"part_ptr": "part"},
            "metas": {"BM": 16, "BN": 16, "BK": 16, "SPLITS": 2},
        },
        {
            "kernel": "sum_kernel",
            "grid": [f"{m} * {n} // 16"],
            "args": {"part_ptr": "part", "size": f"{m} * {n}"},
            "metas": {"SPLITS": 2, "RELU": relu},
            "inherit_options": False,
        },
    ]


def test_a_kernel_replaced_by_two_launches_and_a_buffer(tmp_path: Path) -> None:
    plan = {
        "rebindings": [
            {
                "name": "gemm_kernel",
                "original_grid": ["cdiv(M, BM)", "cdiv(N, BN)"],
                "alternatives": [
                    {
                        "guard": "max(M, N) <= 64 and K % 32 == 0 and M % 16 == 0 and N % 16 == 0 "
                        "and ldc == N and aligned(a_ptr, 16)",
                        "buffers": [
                            {"name": "part", "shape": [2, "M", "N"], "dtype": "float32",
                             "like": "a_ptr"}
                        ],
                        "launches": _split_launches(("M", "N", "K"), relu=False),
                    }
                ],
            }
        ]
    }  # fmt: skip
    script = """
results = []
for m, n, k in [(32, 48, 64), (32, 48, 40), (30, 48, 64), (80, 16, 64)]:
    a, b = torch.randn(m, k), torch.randn(k, n)
    torch.testing.assert_close(program.matmul(a, b), a @ b, rtol=1e-4, atol=1e-4)
    results.append([item[0] for item in taken()])
print(json.dumps(results))
"""
    results = interpret(tmp_path, rendered(GEMM, SPLIT, plan), script)
    assert results == [["split_kernel", "sum_kernel"], *[["gemm_kernel"]] * 3]


@pytest.mark.parametrize("name", ["matmul_relu", "Model.forward"])
def test_a_function_and_a_method_rebound(tmp_path: Path, name: str) -> None:
    method = name == "Model.forward"
    a, b = ("x", "self.weight") if method else ("a", "b")
    sizes = (f"{a}.shape[0]", f"{b}.shape[1]", f"{a}.shape[1]")
    launches = _split_launches(sizes, relu=True)
    launches[0]["args"] |= {
        "a_ptr": a, "b_ptr": b, "M": sizes[0], "N": sizes[1], "K": sizes[2],
        "lda": f"{a}.stride[0]", "ldb": f"{b}.stride[0]",
    }  # fmt: skip
    launches[1]["args"] |= {"c_ptr": "out"}
    guard = f"{a}.ndim == 2 and {sizes[0]} % 16 == 0 and {sizes[1]} % 16 == 0"
    alternative = {
        "guard": f"{guard} and {sizes[2]} % 32 == 0" + ("" if method else " and alpha == 1.0"),
        "buffers": [
            {"name": "part", "shape": [2, *sizes[:2]], "dtype": "float32", "like": a},
            {"name": "out", "shape": list(sizes[:2]), "dtype": f"{a}.dtype", "zeroed": True},
        ],
        "launches": launches,
        "returns": ["out"],
    }
    plan = {"rebindings": [{"kind": "function", "name": name, "alternatives": [alternative]}]}
    script = """
model = program.Model().requires_grad_(False)
results = []
for m in (32, 30):
    x = torch.randn(m, 32)
    expected = torch.relu(x @ model.weight)
    torch.testing.assert_close(model(x), expected, rtol=1e-4, atol=1e-4)
    results.append([item[0] for item in taken()])
x = torch.randn(32, 32)
expected = torch.relu(x @ model.weight) * 2
torch.testing.assert_close(program.matmul_relu(x, b=model.weight, alpha=2.0), expected,
                           rtol=1e-4, atol=1e-4)
results.append([item[0] for item in taken()])
print(json.dumps(results))
"""
    results = interpret(tmp_path, rendered(GEMM, SPLIT, plan), script)
    assert results == [["split_kernel", "sum_kernel"], ["gemm_kernel"], ["gemm_kernel"]]


TUNED = (
    PRELUDE
    + '''

class Bench:
    """A driver that times nothing: autotune asks for one when the file is imported."""
    def get_benchmarker(self):
        return lambda call, quantiles: (call(), 1.0)[1]

triton.runtime.driver.set_active(Bench())


@triton.autotune(configs=[triton.Config({"BLOCK": 16}, num_warps=4),
                          triton.Config({"BLOCK": 32}, num_warps=4)], key=["n"])
@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit
def tuned_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < n) * 2, mask=at < n)


def double(x, floor=False):
    out = torch.empty_like(x)
    if floor:
        out.zero_()
        grid = lambda META: (x.numel() // META["BLOCK"],)
    else:
        grid = lambda META: (triton.cdiv(x.numel(), META["BLOCK"]),)
    tuned_kernel[grid](x, out, x.numel())
    return out
'''
)


def test_an_autotuned_original_and_an_autotuned_stand_in(tmp_path: Path) -> None:
    """The caller's grid is held against every configuration of the original's autotune."""
    added = """
@triton.autotune(configs=[triton.Config({"WIDTH": 64, "grf_mode": "256"}, num_warps=8)], key=[])
@triton.jit
def better_kernel(x_ptr, out_ptr, n, WIDTH: tl.constexpr):
    at = tl.program_id(0) * WIDTH + tl.arange(0, WIDTH)
    tl.store(out_ptr + at, tl.load(x_ptr + at) * 2)
"""
    plan = {
        "rebindings": [
            {
                "name": "tuned_kernel",
                "original_grid": ["cdiv(n, BLOCK)"],
                "alternatives": [
                    {
                        "guard": "n % 64 == 0 or n == 33",
                        "launches": [{"kernel": "better_kernel", "grid": ["cdiv(n, WIDTH)"]}],
                    }
                ],
            }
        ]
    }
    script = """
results = []
for n in (128, 100):
    x = torch.randn(n)
    assert torch.equal(program.double(x), x * 2)
    results.append([item[0] for item in taken()][-1])
program.double(torch.randn(33), floor=True)  # for BLOCK=16: 2 programs where 3 were expected
results.append([item[0] for item in taken()][-1])
print(json.dumps(results))
"""
    results = interpret(tmp_path, rendered(TUNED, [added], plan), script)
    assert results == ["better_kernel", "tuned_kernel", "tuned_kernel"]


def test_the_block_stands_before_a_scripts_main_part(tmp_path: Path) -> None:
    source = SCALE + '\n\nif __name__ == "__main__":\n    print(by_position(torch.ones(128)))\n'
    text = rendered(source, WIDE["added"], WIDE["plan"])
    assert text.endswith("print(by_position(torch.ones(128)))\n")
    crlf = source.replace("\n", "\r\n").rstrip()
    text = rendered(crlf, WIDE["added"], WIDE["plan"])
    assert "\n" not in text.replace("\r\n", "")
    tail = SCALE.rstrip("\n")
    rendered(tail, WIDE["added"], WIDE["plan"])  # no final newline
    results = interpret(
        tmp_path,
        text,
        "assert torch.equal(program.by_position(torch.ones(128)), torch.full((128,), 3.0))\n"
        "print(json.dumps([item[0] for item in taken()]))",
    )
    assert results == ["wide_kernel"]


COPY = (
    PRELUDE
    + """

@triton.jit
def copy_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < n), mask=at < n)


def copy(x):
    out = torch.empty_like(x)
    copy_kernel[(triton.cdiv(x.numel(), 16),)](x, out, x.numel(), 16)
    return out
"""
)


def test_the_same_kernel_in_both_pointer_apis(tmp_path: Path) -> None:
    """Triton below 3.8 runs the block pointers, later ones the tensor descriptors."""
    blocks = """
@triton.jit
def copy_blocks(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK
    x = tl.make_block_ptr(x_ptr, (n // 16, 16), (16, 1), (at, 0), (BLOCK, 16), (1, 0))
    out = tl.make_block_ptr(out_ptr, (n // 16, 16), (16, 1), (at, 0), (BLOCK, 16), (1, 0))
    tl.store(out, tl.load(x))
"""
    descriptors = """
@triton.jit
def copy_descriptors(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK
    x = tl.make_tensor_descriptor(x_ptr, (n // 16, 16), (16, 1), (BLOCK, 16))
    out = tl.make_tensor_descriptor(out_ptr, (n // 16, 16), (16, 1), (BLOCK, 16))
    out.store([at, 0], x.load([at, 0]))
"""
    choice = {"block_pointer": "copy_blocks", "descriptor": "copy_descriptors"}
    launch = {"kernel": choice, "grid": ["n // 16 // BLOCK"], "metas": {"BLOCK": 8}}
    plan = {
        "rebindings": [
            {
                "name": "copy_kernel",
                "original_grid": ["cdiv(n, BLOCK)"],
                "alternatives": [{"guard": "n % 128 == 0", "launches": [launch]}],
            }
        ]
    }
    script = """
import triton
results = []
for n in (256, 250):
    x = torch.randn(n)
    assert torch.equal(program.copy(x), x)
    results.append([item[:2] for item in taken()])
version = tuple(int(part) for part in triton.__version__.split(".")[:2])
print(json.dumps([version < (3, 8), results]))
"""
    old, results = interpret(tmp_path, rendered(COPY, [blocks, descriptors], plan), script)
    name = "copy_blocks" if old else "copy_descriptors"
    assert results == [[[name, [2]]], [["copy_kernel", [16]]]]
