"""Kernels, launches as the ghost device would capture them, and the interpreter to run both."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest

from xesmith.ghost.launch import Launch, TensorArg
from xesmith.stages.rewrites import KernelFacts
from xesmith.toolchain import Toolchain

FOLDER = Path(__file__).parent
TRITON_TYPES = {"float16": "*fp16", "bfloat16": "*bf16", "float32": "*fp32", "float64": "*fp64"}


def tensor(
    *shape: int,
    strides: tuple[int, ...] | None = None,
    dtype: str = "float16",
    alignment: int = 4096,
) -> TensorArg:
    """A contiguous tensor argument unless strides are given."""
    if strides is None:
        steps = [1]
        for size in reversed(shape[1:]):
            steps.insert(0, steps[0] * size)
        strides = tuple(steps)
    return TensorArg(dtype, shape, strides, alignment, 0)


def launch(kernel: str, values: dict[str, Any], constexprs: dict[str, Any], *grid: int) -> Launch:
    signature = dict.fromkeys(constexprs, "constexpr")
    for name, value in values.items():
        if isinstance(value, TensorArg):
            signature[name] = TRITON_TYPES[value.dtype]
        else:
            signature[name] = "fp32" if isinstance(value, float) else "i32"
    sizes = (*grid, 1, 1)[:3]
    return Launch(
        0, kernel, "kernel.py", 1, (sizes[0], sizes[1], sizes[2]), signature, values, constexprs,
        (), {"num_warps": 4},
    )  # fmt: skip


def cdiv(a: int, b: int) -> int:
    return -(-a // b)


def gemm(m: int, n: int, k: int, *, block: tuple[int, int, int] = (32, 32, 32)) -> Launch:
    bm, bn, bk = block
    return launch(
        "gemm",
        {"a_ptr": tensor(m, k), "b_ptr": tensor(k, n), "c_ptr": tensor(m, n), "M": m, "N": n,
         "K": k, "stride_am": k, "stride_ak": 1, "stride_bk": n, "stride_bn": 1, "stride_cm": n,
         "stride_cn": 1},
        {"BLOCK_M": bm, "BLOCK_N": bn, "BLOCK_K": bk, "GROUP_SIZE_M": 2},
        cdiv(m, bm) * cdiv(n, bn),
    )  # fmt: skip


def gemm_masked(
    m: int, n: int, k: int, *, block: tuple[int, int, int] = (32, 32, 32), transposed: bool = False,
    padding: int = 0, alignment: int = 4096,
) -> Launch:  # fmt: skip
    """`padding` elements lie between the rows of A; `transposed` stores B as [N, K]."""
    bm, bn, bk = block
    b = tensor(k, n, strides=(1, k)) if transposed else tensor(k, n)
    return launch(
        "gemm_masked",
        {"A": tensor(m, k, strides=(k + padding, 1), alignment=alignment), "B": b,
         "C": tensor(m, n), "M": m, "N": n, "K": k, "sam": k + padding, "sak": 1,
         "sbk": b.strides[0], "sbn": b.strides[1], "scm": n, "scn": 1},
        {"BM": bm, "BN": bn, "BK": bk},
        cdiv(m, bm), cdiv(n, bn),
    )  # fmt: skip


def gemm_bt(m: int, n: int, k: int, *, block: tuple[int, int, int] = (32, 32, 32)) -> Launch:
    bm, bn, bk = block
    return launch(
        "gemm_bt",
        {
            "a_ptr": tensor(m, k),
            "w_ptr": tensor(n, k),
            "c_ptr": tensor(m, n),
            "M": m,
            "N": n,
            "K": k,
        },
        {"BLOCK_M": bm, "BLOCK_N": bn, "BLOCK_K": bk},
        cdiv(m, bm) * cdiv(n, bn),
    )


def batched(
    b: int, m: int, n: int, k: int, *, block: tuple[int, int, int] = (32, 32, 32)
) -> Launch:
    bm, bn, bk = block
    return launch(
        "batched",
        {"a_ptr": tensor(b, m, k), "b_ptr": tensor(b, k, n), "c_ptr": tensor(b, m, n),
         "M": m, "N": n, "K": k, "stride_ab": m * k, "stride_am": k, "stride_ak": 1,
         "stride_bb": k * n, "stride_bk": n, "stride_bn": 1, "stride_cb": m * n, "stride_cm": n,
         "stride_cn": 1},
        {"BLOCK_M": bm, "BLOCK_N": bn, "BLOCK_K": bk},
        cdiv(m, bm) * cdiv(n, bn), b,
    )  # fmt: skip


def gemm_bias_gelu(m: int, n: int, k: int, *, block: tuple[int, int, int] = (32, 32, 32)) -> Launch:
    bm, bn, bk = block
    return launch(
        "gemm_bias_gelu",
        {"x_ptr": tensor(m, k), "w_ptr": tensor(k, n), "bias_ptr": tensor(n), "y_ptr": tensor(m, n),
         "M": m, "N": n, "K": k, "stride_xm": k, "stride_xk": 1, "stride_wk": n, "stride_wn": 1,
         "stride_ym": n, "stride_yn": 1},
        {"BLOCK_M": bm, "BLOCK_N": bn, "BLOCK_K": bk},
        cdiv(m, bm), cdiv(n, bn),
    )  # fmt: skip


def attention(
    batch: int, heads: int, length: int, width: int, *, block: tuple[int, int] = (32, 32),
    causal: bool = False,
) -> Launch:  # fmt: skip
    values: dict[str, Any] = {n: tensor(batch, heads, length, width) for n in "QKVO"}
    values["sm_scale"] = width**-0.5
    for name, row in zip("qkvo", "mnnm", strict=True):
        values[f"stride_{name}b"] = heads * length * width
        values[f"stride_{name}h"] = length * width
        values[f"stride_{name}{row}"] = width
        values[f"stride_{name}d"] = 1
    values |= {"H": heads, "N_CTX": length}
    constexprs = {"BLOCK_M": block[0], "BLOCK_N": block[1], "HEAD_DIM": width, "CAUSAL": causal}
    return launch("attention", values, constexprs, cdiv(length, block[0]), batch * heads)


def softmax(rows: int, columns: int) -> Launch:
    values = {"y_ptr": tensor(rows, columns), "x_ptr": tensor(rows, columns), "stride_y": columns,
              "stride_x": columns, "n_cols": columns}  # fmt: skip
    return launch("softmax", values, {"BLOCK": 1 << (columns - 1).bit_length()}, rows)


def layer_norm(rows: int, columns: int, dtype: str = "float16") -> Launch:
    values = {"x_ptr": tensor(rows, columns, dtype=dtype), "y_ptr": tensor(rows, columns),
              "row_stride": columns, "n_cols": columns, "eps": 1e-5}  # fmt: skip
    return launch("layer_norm", values, {"BLOCK": 1 << (columns - 1).bit_length()}, rows)


def script(source: str, launched: Launch) -> str:
    """A program that makes one launch: what a Lowerer takes."""
    lines = ["import torch", "import triton", "import triton.language as tl", "", "", source, ""]
    arguments: list[str] = []
    for name, value in {**launched.values, **launched.constexprs}.items():
        if isinstance(value, TensorArg):
            size = 1 + sum((n - 1) * s for n, s in zip(value.shape, value.strides, strict=True))
            lines.append(
                f"_{name} = torch.empty({size}, dtype=torch.{value.dtype}, device='xpu')"
                f".as_strided({value.shape}, {value.strides})"
            )
        arguments.append(f"{name}=_{name}" if isinstance(value, TensorArg) else f"{name}={value}")
    arguments += [f"{name}={value!r}" for name, value in launched.options.items()]
    lines.append(f"{launched.kernel}[{launched.grid}]({', '.join(arguments)})")
    return "\n".join(lines) + "\n"


def source(kernel: str) -> str:
    """The text of a kernel under kernels/, from its decorator on."""
    text = (FOLDER / "kernels" / f"{kernel}.py").read_text()
    return text[text.index("@triton.jit") :]


@dataclass(frozen=True)
class Kernels:
    """The makers above, for the tests of this folder."""

    gemm = staticmethod(gemm)
    gemm_masked = staticmethod(gemm_masked)
    gemm_bt = staticmethod(gemm_bt)
    batched = staticmethod(batched)
    gemm_bias_gelu = staticmethod(gemm_bias_gelu)
    attention = staticmethod(attention)
    softmax = staticmethod(softmax)
    layer_norm = staticmethod(layer_norm)
    script = staticmethod(script)
    source = staticmethod(source)
    launch = staticmethod(launch)
    tensor = staticmethod(tensor)

    @staticmethod
    def facts(
        *launches: Launch, first_line: int = 1, original_source: str | None = None
    ) -> KernelFacts:
        return KernelFacts(launches, first_line=first_line, original_source=original_source)


@pytest.fixture(scope="session")
def kernels() -> Kernels:
    return Kernels()


class Interpreter:
    """Triton's interpreter in a process of its own; see interpreter_server.py."""

    def __init__(self, python: Path) -> None:
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONWARNINGS"}
        self.process = subprocess.Popen(
            [str(python), str(FOLDER / "interpreter_server.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def differences(
        self,
        launched: Launch,
        original: str,
        *candidates: str,
        metas: dict[int, dict[str, Any]] | None = None,
        grids: dict[int, tuple[int, ...]] | None = None,
    ) -> list[float | str]:
        """Per candidate, the largest relative difference from the original's tensors."""
        tensors = {n: v for n, v in launched.values.items() if isinstance(v, TensorArg)}
        scalars = {n: v for n, v in launched.values.items() if n not in tensors}
        job = {
            "sources": [original, *candidates],
            "kernel": launched.kernel,
            "tensors": {n: asdict(t) for n, t in tensors.items()},
            "values": {**scalars, **launched.constexprs},
            "grid": launched.grid,
            "metas": {str(k): v for k, v in (metas or {}).items()},
            "grids": {str(k): v for k, v in (grids or {}).items()},
        }
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            if line.startswith("answer "):
                reply = json.loads(line.removeprefix("answer "))
                assert isinstance(reply, list), f"the original kernel failed: {reply}"
                return reply
        raise AssertionError(f"the interpreter ended with {self.process.wait()}")


@pytest.fixture(scope="session")
def interpreter(toolchain: Toolchain) -> Iterator[Interpreter]:
    server = Interpreter(toolchain.python)
    yield server
    assert server.process.stdin is not None
    assert server.process.stdout is not None
    server.process.stdin.close()
    server.process.wait(timeout=30)
    server.process.stdout.close()
