"""`xesmith passes list | run | doc`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from xesmith.cli.app import run

pytestmark = pytest.mark.mlir


@pytest.fixture
def dump(tmp_path: Path, everything: str) -> Path:
    path = tmp_path / "kernel.ttgir"
    path.write_text(everything)
    return path


def test_list_names_every_pass(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["passes", "list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    names = [item["name"] for item in listed["passes"]]
    assert len(names) == 17
    assert "xesmith-check-block-io" in names


def test_doc_prints_one_pass(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["passes", "doc", "xesmith-exp2"]) == 0
    assert "math.exp2" in capsys.readouterr().out
    assert run(["passes", "doc", "xesmith-exp"]) == 2
    assert "did you mean 'xesmith-exp2'" in capsys.readouterr().err


def test_checks_print_findings_and_no_ir(dump: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["passes", "run", "checks", str(dump)]) == 0
    out = capsys.readouterr().out
    assert "warning[dot-not-dpas]" in out
    assert "    why: float32 operands" in out
    assert "builtin.module" not in out


def test_a_transform_prints_ir_alone(dump: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["passes", "run", "checks,xesmith-exp2", str(dump)]) == 0
    shown = capsys.readouterr()
    assert shown.out.startswith('"builtin.module"()') or shown.out.startswith("#loc")
    assert '"math.exp2"' in shown.out
    assert "remark: 1 rewritten exponential" in shown.err
    assert "dot-not-dpas" in shown.err


def test_output_takes_the_ir(dump: Path, capsys: pytest.CaptureFixture[str]) -> None:
    after = dump.with_name("after.ttgir")
    assert run(["passes", "run", "xesmith-exp2", str(dump), "-o", str(after)]) == 0
    assert '"math.exp2"' in after.read_text()
    assert "builtin.module" not in capsys.readouterr().out


def test_json_holds_everything(dump: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["passes", "run", "checks,xesmith-report", str(dump), "--json"]) == 0
    (module,) = json.loads(capsys.readouterr().out)["modules"]
    assert {f["kind"] for f in module["findings"]} >= {"dot-not-dpas", "f64-arithmetic"}
    assert module["report"][0]["name"] == "kernel"
    assert module["text"].count("tt.func") == 1


def test_fail_on(dump: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["passes", "run", "checks", str(dump), "--fail-on", "warning"]) == 1
    assert run(["passes", "run", "xesmith-report", str(dump), "--fail-on", "note"]) == 0
    assert run(["passes", "run", "checks", str(dump), "--fail-on", "worse"]) == 2


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["checks", "none.ttir"], 2, "can't be read"),
        (["checks", "kernel.txt"], 2, "neither a dump nor a kernel file"),
        (["checks", "kernel.ttgir", "--level", "ttir"], 2, "a dump has its level"),
        (["xesmith-check-masks{launch}", "kernel.ttgir"], 2, "a dump has no launch"),
        (["checks", "deep.ttgir"], 3, "nested deeper"),
        (["checks", "broken.ttgir"], 3, "MLIR can't parse it"),
    ],
)
def test_bad_input_is_one_error(
    dump: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    code: int,
    said: str,
) -> None:
    monkeypatch.chdir(dump.parent)
    Path("deep.ttgir").write_text('"builtin.module"() {a = ' + "[" * 20_000)
    Path("broken.ttgir").write_text('"builtin.module"( : ')
    assert run(["passes", "run", *arguments]) == code
    error = capsys.readouterr().err
    assert error.count("error:") == 1
    assert said in error


@pytest.mark.intel
def test_a_dump_as_triton_prints_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "scale.ttir"
    path.write_text(
        "module {\n"
        "  tt.func public @scale(%arg0: !tt.ptr<f32>) {\n"
        "    %0 = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>\n"
        "    %1 = tt.splat %arg0 : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>\n"
        "    %2 = tt.addptr %1, %0 : tensor<64x!tt.ptr<f32>>, tensor<64xi32>\n"
        "    %3 = tt.load %2 : tensor<64x!tt.ptr<f32>>\n"
        "    %4 = math.exp %3 : tensor<64xf32>\n"
        "    tt.store %2, %4 : tensor<64x!tt.ptr<f32>>\n"
        "    tt.return\n  }\n}\n"
    )
    assert run(["passes", "run", "xesmith-exp2", str(path)]) == 0
    assert '"math.exp2"' in capsys.readouterr().out
    path.write_text(
        "module {\n  tt.func public @scale(%arg0: !tt.ptr<f32>) {\n    bad.op\n  }\n}\n"
    )
    assert run(["passes", "run", "checks", str(path)]) == 3
    assert "scale.ttir:3:" in capsys.readouterr().err


@pytest.mark.intel
def test_a_kernel_file_with_its_launch(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kernel = repository / "bench" / "problems" / "gemm" / "kernel.py"
    arguments = ["checks", str(kernel), "--json"]
    assert run(["passes", "run", *arguments]) == 0
    (module,) = json.loads(capsys.readouterr().out)["modules"]
    loads = [f for f in module["findings"] if f["kind"] == "load-not-2d-block"]
    lines = kernel.read_text().splitlines()
    assert len(loads) == 2
    for finding in loads:
        assert "tl.load" in lines[finding["line"] - 1]
        assert "tensor of pointers" in finding["why"]
    assert sum(f["kind"] == "needless-mask" for f in module["findings"]) == 3
