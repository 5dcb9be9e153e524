"""The passes inside Triton 3.9.0's own process, on its registered operations (make triton-plugin).

They are not part of make test: building the plugin takes clang and another Triton, 450 MB.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from xesmith.passes.reference import pass_names

pytestmark = pytest.mark.triton_plugin

HERE = Path(__file__).parent / "triton_plugin"
BUILD = Path(__file__).resolve().parents[2] / "build" / "triton-plugin"
PLUGIN = BUILD / "XeSmithTritonPasses.so"

#: of an iteration of the loop in kernel.ttir: a dot, a sum and an exp
FLOP = 2 * 64**3 + 2 * 64**2

#: by pass, the file in which it fires and what the module after it matches
FIRES = {
    "xesmith-report": ("kernel.ttir", rf"cdiv\(arg1, 64\) \* {FLOP}\D"),
    "xesmith-evidence": ("kernel.ttir", r"xesmith\.evidence = "),
    "xesmith-check-block-io": ("kernel.ttir", "load-not-2d-block"),
    "xesmith-check-dpas": ("kernel.ttir", "dot-not-dpas"),
    "xesmith-check-layout-conversions": ("kernel.ttgir", "layout-conversion-in-loop"),
    "xesmith-check-offsets{values=1=65536 grid=65536}": ("kernel.ttir", "offset-wraps"),
    "xesmith-check-prefetch": ("kernel.ttgir", "missing-prefetch"),
    # Of 64x64xf32 each of 4 warps holds 4096 B: the dot's result and both operands, and pointers.
    "xesmith-check-registers": (
        "kernel.ttgir",
        r"register-pressure.*an estimated 14336 B of tiles",
    ),
    # 64x64xf32 change their layout after the loop, with rows padded by 4 elements.
    "xesmith-check-slm{slm-bytes=16384}": (
        "kernel.ttgir",
        rf"slm-over-limit.*{64 * (64 + 4) * 4} B",
    ),
    "xesmith-check-coalescing": ("kernel.ttgir", "uncoalesced-access"),
    "xesmith-check-invariants": ("kernel.ttir", "invariant-rebuilt-in-loop"),
    "xesmith-check-wide-arithmetic": ("kernel.ttir", "f64-arithmetic"),
    "xesmith-check-masks{values=1=64}": ("kernel.ttir", "needless-mask"),
    # n is 64: the loop runs once and is gone
    "xesmith-specialize-args{values=1=64}": ("kernel.ttir", "dense<64> : tensor<64x1xi32>"),
    "xesmith-narrow-offsets{grid=32}": (
        "kernel.ttir",
        r"tt.addptr %arg0, %\d+ : !tt.ptr<f32>, i32[^@]*tt.addptr %arg0, %\d+ : !tt.ptr<f32>, i32",
    ),
    "xesmith-demote-float64": ("kernel.ttir", r"(?s)\A(?!.*f64)"),
    "xesmith-exp2": ("kernel.ttir", "math.exp2 "),
    "xesmith-hoist-invariant": ("kernel.ttir", ""),  # the same operations: see below
    "xesmith-drop-true-masks{values=1=64}": ("kernel.ttir", r"tt.load %\d+ : tensor<64x64x!tt.ptr"),
}


def run(script: str, *arguments: str) -> Any:
    """What a script of this folder prints, run with the Triton that the plugin was built for."""
    done = subprocess.run(
        [BUILD / "venv" / "bin" / "python", HERE / script, PLUGIN, *arguments],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        env={**os.environ, "TRITON_DEFAULT_FP_FUSION": "1"},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def run_passes(file: str, *pipelines: str) -> list[str | None]:
    return run("run_passes.py", str(HERE / file), *pipelines)


@pytest.fixture(scope="module")
def after() -> dict[str, str]:
    """By pass, the module after it, where it fires; by file, the module as it was."""
    made: dict[str, str] = {}
    for file in ("kernel.ttir", "kernel.ttgir"):
        names = [name for name, (where, _) in FIRES.items() if where == file]
        # Nothing is specialised where no value is given: the module as Triton prints it.
        texts = run_passes(file, "xesmith-specialize-args", *names)
        made |= {name: text or "" for name, text in zip([file, *names], texts, strict=True)}
    return made


def test_every_pass_is_in_the_table() -> None:
    names = {name.partition("{")[0] for name in FIRES}
    # Its operation is of no dialect: Triton's parser does not take it.
    assert names == {*pass_names()} - {"xesmith-ask"}


@pytest.mark.parametrize("name", FIRES)
def test_each_pass_fires(after: dict[str, str], name: str) -> None:
    file, written = FIRES[name]
    assert after[name] != after[file]
    assert re.search(written, after[name])
    assert written == "" or not re.search(written, after[file])


def test_invariants_leave_the_loop(after: dict[str, str]) -> None:
    loop, _, _ = after["xesmith-hoist-invariant"].partition("scf.yield")
    assert "tt.splat" in after["kernel.ttir"].partition("scf.for")[2].partition("scf.yield")[0]
    assert "tt.splat" not in loop.partition("scf.for")[2]


def test_what_a_pass_refuses_is_an_exception_in_python() -> None:
    """MLIR would end the process where options are malformed."""
    pipelines = ("xesmith-report{valuess=3}", "xesmith-report{values=9=3}", "xesmith-exp2")
    misspelt, no_argument, fine = run_passes("kernel.ttir", *pipelines)
    assert misspelt is None
    assert no_argument is None
    assert fine is not None


def test_a_transform_fires_in_a_compile_through_to_cubin(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    made = run("compile_kernel.py")
    assert "math.exp %" in made["before"]
    assert "math.exp2" not in made["before"]
    # exp(v * 0.5) = exp2(v * (0.5 * log2(e)))
    assert "dense<0.72134751> : tensor<128xf32>" in made["after"]
    assert "math.exp2 %" in made["after"]
    assert "math.exp2 %" in made["ttgir"]
    assert "ex2.approx" in made["ptx"]
    assert made["cubin"] == b"\x7fELF".hex()
    assert made["cubin_bytes"] > 1000


@pytest.mark.parametrize(
    ("compiler", "release", "said"),
    [("g++", "3.9.0", "needs clang, not GNU"), ("clang++", "3.9.1", "is for Triton 3.9.0")],
)
def test_another_compiler_or_release_is_refused(
    repository: Path, tmp_path: Path, compiler: str, release: str, said: str
) -> None:
    cache = (BUILD / "CMakeCache.txt").read_text()
    settings = dict(re.findall(r"^(XESMITH_\w+|CMAKE_\w+):\w+=(.*)$", cache, re.M))
    version = tmp_path / "include" / "triton" / "Version.h"
    version.parent.mkdir(parents=True)
    version.write_text(f'#define TRITON_VERSION "{release}"\n')
    if compiler == "clang++":
        compiler = settings["CMAKE_CXX_COMPILER"]
    done = subprocess.run(
        [
            *("cmake", "-S", repository, "-B", tmp_path / "build", "-DXESMITH_TRITON_PLUGIN=ON"),
            f"-DXESMITH_TRITON={tmp_path}",
            f"-DXESMITH_LLVM={settings['XESMITH_LLVM']}",
            f"-DCMAKE_PREFIX_PATH={settings['CMAKE_PREFIX_PATH']}",
            f"-DCMAKE_CXX_COMPILER={compiler}",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert said in " ".join(done.stderr.split())
