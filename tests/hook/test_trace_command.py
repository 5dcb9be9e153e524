"""`xesmith trace` on traces of a real compile, and on damaged ones."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from tests.hook.cases import BEGIN
from tests.hook.conftest import Place

COMPILE = BEGIN + "xesmith.hook.enable(TRACE{})\nfor b in (64, 128): compile_scale(b)\nanswer(0)"


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The same program without a transform and with one."""
    places = [Place(tmp_path_factory.mktemp(name), sys.executable) for name in ("a", "b")]
    places[0].run(COMPILE.format(""))
    places[1].run(COMPILE.format(', transform="transforms:other_constant"'))
    return places[0].trace, places[1].trace


@pytest.fixture
def trace_command(xesmith_command: list[str]):
    def run(*arguments: object, code: int = 0, cwd: Path | None = None) -> str:
        command = [*xesmith_command, "trace", *map(str, arguments)]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=200, cwd=cwd
        )
        assert done.returncode == code, done.stderr
        return done.stdout if code == 0 else done.stderr

    return run


@pytest.mark.intel
def test_show_reads_evidence_down_to_native_code(traces, trace_command):
    shown = json.loads(trace_command("show", traces[0], "--json"))
    kernels = shown["kernels"]
    assert [k["evidence"]["kernel"] for k in kernels] == ["scale", "scale"]
    assert {k["device"] for k in kernels} == {"bmg-g31"}
    for kernel in kernels:
        evidence = kernel["evidence"]
        assert evidence["not_read"] == {}
        assert evidence["native"]["grf_count"] == 128
        accesses = [(a["op"], a["site"]["line"]) for a in evidence["ttir"]["accesses"]]
        source = (Path(__file__).parent / "kernels" / "hooked.py").read_text().splitlines()
        assert [(op, source[line - 1].split("(")[0].split()[-1]) for op, line in accesses] == [
            ("load", "tl.load"),
            ("store", "tl.store"),
        ]


@pytest.mark.intel
def test_a_trace_is_named_from_where_one_stands(traces, trace_command, tmp_path):
    """The native compiler runs in a folder of its own."""
    shutil.copytree(traces[0], tmp_path / "trace", ignore=shutil.ignore_patterns("native-*"))
    shown = json.loads(trace_command("show", "trace", "--json", cwd=tmp_path))
    assert [k["evidence"]["not_read"] for k in shown["kernels"]] == [{}, {}]
    assert [k["evidence"]["native"]["grf_count"] for k in shown["kernels"]] == [128, 128]


@pytest.mark.intel
def test_show_prints_a_kernel_a_row_and_new_ones_once(traces, trace_command, tmp_path):
    out = trace_command("show", traces[1])
    assert "2 kernels" in out
    assert out.count("applied") == 2
    assert "scale" not in trace_command("show", traces[1], "--new")


@pytest.mark.intel
def test_diff_tells_what_a_transform_changed(traces, trace_command):
    same = json.loads(trace_command("diff", traces[0], traces[0], "--json"))
    assert [k["status"] for k in same["kernels"]] == ["same", "same"]
    changed = json.loads(trace_command("diff", *traces, "--json"))
    assert [k["status"] for k in changed["kernels"]] == ["changed", "changed"]
    assert "2 kernels, 0 compiled to the same code" in trace_command("diff", *traces)


@pytest.mark.intel
def test_a_named_kernel_must_be_there(traces, trace_command):
    error = trace_command("show", traces[0], "--kernel", "scal", code=2)
    assert "the trace has no kernel 'scal'" in error
    assert "did you mean 'scale'?" in error
    error = trace_command("show", traces[0], "--target", "h200", code=2)
    assert "'h200' is cuda, scale was compiled for xpu" in error


def test_no_trace_is_one_clear_error(trace_command, tmp_path):
    error = trace_command("show", tmp_path, code=2)
    assert error.startswith("error: there is no trace\n")
    assert "python -m xesmith.hook" in error


def test_a_damaged_record_is_one_clear_error(trace_command, tmp_path):
    folder = tmp_path / "kernels" / "k-1"
    folder.mkdir(parents=True)
    (folder / "lowering.json").write_text('{"launch": 3}')
    (tmp_path / "index.jsonl").write_text('{"event": "kernel", "folder": "k-1", "hash": "1"}\n')
    error = trace_command("show", tmp_path, code=2)
    assert error.startswith("error: the record is damaged")


def test_failures_and_the_limit_are_told(trace_command, tmp_path):
    (tmp_path / "index.jsonl").write_text(
        '{"event": "failed", "kernel": "k", "level": "ttgir", "message": "Error: no\\nmore"}\n'
        '{"event": "full", "limit_bytes": 1}\n'
    )
    out = trace_command("show", tmp_path)
    assert out == f"{tmp_path}: 0 kernels, full\nfailed at ttgir: k: Error: no\n"


def test_a_program_is_needed():
    done = subprocess.run(
        [sys.executable, "-m", "xesmith.hook", "--out", "x"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "the following arguments are required: program" in done.stderr


def test_a_transform_that_is_not_there_stops_the_program_before_it_starts(tmp_path):
    command = [sys.executable, "-m", "xesmith.hook", "--out", str(tmp_path / "t")]
    command += ["--transform", "json:nothing", "script.py"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "there is no transform 'json:nothing'" in done.stderr
    assert not (tmp_path / "t").exists()


@pytest.mark.intel
def test_show_as_sarif_points_at_the_kernels_file(traces, trace_command, repository):
    log = json.loads(trace_command("show", traces[0], "--no-native", "--format", "sarif"))
    schema = repository / "tests" / "report" / "sarif" / "sarif-2.1.0-rtm.5.json"
    jsonschema.Draft4Validator(json.loads(schema.read_text("utf-8"))).validate(log)
    assert log["runs"][0]["tool"]["driver"]["name"] == "xesmith"


@pytest.mark.mlir
def test_a_trace_knows_no_grid_whatever_it_states(traces, trace_command):
    (event, *_) = (
        json.loads(line) for line in (traces[0] / "index.jsonl").read_text().splitlines()
    )
    file = traces[0] / "kernels" / event["folder"] / "lowering.json"
    recorded = json.loads(file.read_text())
    assert recorded["launch"]["grid"] is None
    recorded["launch"]["grid"] = [1, 1, 1]  # as earlier versions wrote it
    file.write_text(json.dumps(recorded))
    shown = json.loads(trace_command("show", traces[0], "--no-native", "--json"))
    for kernel in shown["kernels"]:
        evidence = kernel["evidence"]
        assert evidence["launch"]["grid"] is None
        assert evidence["ttir"]["program_groups"] == []
        assert evidence["derived"]["prediction"]["why_not"] == "no launch is known"
