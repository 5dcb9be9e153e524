"""Limits of a device, what a contest makes of a measurement, and bundles that travel."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import tarfile
from dataclasses import replace

import pytest

from xesmith.cli.app import run
from xesmith.device import load_device
from xesmith.errors import UsageError
from xesmith.timing.bundle import harness_digest, read_bundle, write_bundle
from xesmith.timing.contest import (
    Entry,
    EntryShape,
    Options,
    contestants,
    judged,
    library_call,
    summary,
)
from xesmith.timing.csv_table import write_csv
from xesmith.timing.imported import check_provenance, one_record
from xesmith.timing.machine import parse_nvidia
from xesmith.timing.physics import Work, floor, roof
from xesmith.timing.roofline import points, svg
from xesmith.timing.timer import Measurement, Timed

H200 = load_device("h200")
GEMM = 4096
SHAPE = EntryShape(
    name="bench-gpu[0]",
    label="bench-gpu[0] M=4096",
    inputs=None,
    inits=(),
    dtype="float16",
    flop=2.0 * GEMM**3,
    mem_bytes=3 * 2.0 * GEMM**2,
)
ENTRY = Entry("gemm", "kernel text", "kernel text", 'LIBRARY = "torch.matmul"\n', None, (SHAPE,))
BYTES = {"input_bytes": 2 * 2 * GEMM**2, "weight_bytes": 0, "output_bytes": 2 * GEMM**2}


def measurement(clock_hz=1.98e9, **seconds):
    programs = {
        name.replace("_", " "): Timed(name.replace("_", " "), rounds=[[s, s]] * 6)
        for name, s in seconds.items()
    }
    clocks = {"core_clock_hz": clock_hz}
    return Measurement(programs, "goal", 1.0, 0, 2**28, clocks, dict(BYTES))


def test_the_floor_of_a_product_is_its_flop_at_the_highest_clock():
    work = Work(SHAPE.flop, SHAPE.mem_bytes, 2 * 2 * GEMM**2, 2 * GEMM**2, "float16")
    least = floor(work, H200)
    peak = 132 * 4096 * 1.98e9  # SMs x FLOP per clock and SM x boost clock
    assert least.bound == "compute"
    assert least.seconds == pytest.approx(2 * GEMM**3 / peak)  # 128 us
    at_1_5 = roof(work, H200, 1.5e9)
    assert at_1_5.seconds == pytest.approx(2 * GEMM**3 / (132 * 4096 * 1.5e9))
    assert roof(work, H200, None).seconds == pytest.approx(2 * GEMM**3 / (132 * 4096 * 1.83e9))


def test_the_floor_of_a_copy_leaves_out_what_may_stay_in_the_cache():
    size = 64 << 20
    least = floor(Work(0.0, None, size, size, "float16"), H200)
    assert least.bound == "memory"
    assert least.seconds == pytest.approx((size + size - 52428800) / 4.8e12)
    assert roof(Work(0.0, None, size, size, "float16"), H200, None).seconds == pytest.approx(
        2 * size / 4.8e12
    )


def test_a_device_of_unknown_clock_has_no_floor():
    unknown = replace(H200, facts={k: v for k, v in H200.facts.items() if "clock" not in k})
    least = floor(Work(1.0, None, 1, 1, "float16"), unknown)
    assert least.seconds is None
    assert least.why_not == "its clock or matrix rate is not known"


def test_an_outcome_names_verdicts_fractions_and_the_library():
    found = judged(
        ENTRY,
        SHAPE,
        measurement(kernel=300e-6, kernel_again=300e-6, eager=200e-6, compile=300e-6),
        H200,
        Options(),
    )
    assert found.errors == ()
    assert {name: item.verdict for name, item in found.judgements.items()} == {
        "eager": "SLOWER",
        "compile": "SAME",
        "library": "SLOWER",
    }
    assert found.library == "torch.matmul"
    assert found.noise_floor == 0
    assert found.fractions["kernel"] == pytest.approx(2 * GEMM**3 / (132 * 4096 * 1.98e9) / 300e-6)


def test_an_impossible_time_is_an_error_and_counts_nowhere():
    found = judged(ENTRY, SHAPE, measurement(kernel=100e-6, eager=200e-6), H200, Options())
    assert any("is below the 128.4 us" in text for text in found.errors)
    assert any("above what is possible" in text for text in found.errors)
    assert summary([found]) == {}
    # Unless its lowered code is known to do less: a sum pushed through a product.
    saving = replace(ENTRY, executed_flop={SHAPE.name: 1e6})
    assert judged(saving, SHAPE, measurement(kernel=100e-6), H200, Options()).errors == ()
    # The bytes still have to come from memory: 67 MB take 14 us.
    assert judged(saving, SHAPE, measurement(kernel=10e-6), H200, Options()).errors != ()


def test_the_summary_shows_the_worst_shape():
    other = replace(SHAPE, label="bench-gpu[1] M=64")
    outcomes = [
        judged(ENTRY, SHAPE, measurement(kernel=200e-6, eager=400e-6), H200, Options()),
        judged(ENTRY, other, measurement(kernel=400e-6, eager=200e-6), H200, Options()),
    ]
    found = summary(outcomes)["eager"]
    assert found["geometric_mean"] == pytest.approx(1)
    assert found["median"] == pytest.approx(1.25)
    assert (found["worst"], found["worst_at"]) == (pytest.approx(0.5), "gemm bench-gpu[1] M=64")


def test_who_is_timed_against_whom():
    def names(entry, **options):
        return [c.name for c in contestants(entry, SHAPE, Options(**options))]

    assert names(ENTRY) == ["kernel", "kernel again", "eager", "compile"]
    assert names(ENTRY, against=("library",), again=False) == ["kernel", "eager"]
    assert names(replace(ENTRY, kernel="other"), against=("baseline",), again=False) == [
        "kernel",
        "baseline",
    ]
    assert names(replace(ENTRY, reference="x = 1\n"), against=("library",)) == [
        "kernel",
        "kernel again",
    ]
    assert library_call("LIBRARY = 'torch.bmm'\n") == "torch.bmm"
    assert library_call("import torch\n") is None


def test_clocks_are_read_in_hertz():
    assert parse_nvidia("1980, 3201, 1980, 412.50, 41, 580.159.04\n") == {
        "core_clock_hz": 1.98e9,
        "memory_clock_hz": 3.201e9,
        "highest_core_clock_hz": 1.98e9,
        "power_watts": 412.5,
        "temperature_celsius": 41.0,
        "driver": "580.159.04",
    }
    assert "power_watts" not in parse_nvidia("1980, 3201, 1980, [N/A], 41, 580\n")


def test_a_table_has_a_row_for_each_program_in_ai_benchs_columns(tmp_path, monkeypatch):
    monkeypatch.setenv("AIBENCH_CARD", "H200")
    shape = replace(SHAPE, dims={"M": GEMM})
    outcome = judged(ENTRY, shape, measurement(kernel=200e-6, eager=400e-6), H200, Options())
    machine = {"name": "NVIDIA H200", "kind": "cuda"}
    write_csv(tmp_path / "t.csv", [outcome], machine, note="first")
    with (tmp_path / "t.csv").open() as file:
        header = file.readline().strip().split(",")
        file.seek(0)
        kernel, eager = csv.DictReader(file)
    assert header[:13] == [
        "kernel_name",
        "kernel_type",
        "problem_level",
        "flops",
        "flops_val",
        "flops_unit",
        "bytes",
        "mem_bw_val",
        "mem_bw_unit",
        "time_us",
        "input_values",
        "note",
        "AIBENCH_CARD",
    ]
    assert (kernel["kernel_type"], eager["kernel_type"]) == ("triton", "pytorch")
    assert (kernel["program"], kernel["device"], kernel["note"], kernel["AIBENCH_CARD"]) == (
        "kernel", "NVIDIA H200", "first", "H200"
    )  # fmt: skip
    assert json.loads(kernel["input_values"]) == {"M": GEMM}
    assert float(kernel["time_us"]) == pytest.approx(200)
    assert float(kernel["flops_val"]) == pytest.approx(2 * GEMM**3 / 200e-6 / 1e12)
    assert (float(eager["kernel_over_program"]), eager["verdict"]) == (pytest.approx(2), "FASTER")


def record_of(*outcomes, bundle=None):
    return {
        "format": 1,
        "date": "2026-12-01T10:00:00+00:00",
        "bundle_digest": bundle.digest if bundle else None,
        "harness_digest": harness_digest(),
        "device_file": "h200",
        "machine": {"name": "NVIDIA H200", "kind": "cuda"},
        "levels_not_read": ["lowering"],
        "outcomes": json.loads(json.dumps([outcome.to_json() for outcome in outcomes])),
    }


def test_a_plot_marks_what_is_above_the_roof(tmp_path, capsys):
    good = judged(ENTRY, SHAPE, measurement(kernel=300e-6, eager=200e-6), H200, Options())
    bad = judged(ENTRY, SHAPE, measurement(kernel=100e-6), H200, Options())
    assert [p.above for p in points(record_of(good, bad))] == [False, False, True]
    text = svg(record_of(good), H200)
    assert text.count("<circle") == 2 + 4  # two points and the legend
    assert "1.98 GHz (measured clock)" in text
    file = tmp_path / "result.json"
    file.write_text(json.dumps(record_of(bad)))
    assert run(["bench", "roofline", str(file), "--out", str(tmp_path / "r.svg")]) == 1
    assert "gemm bench-gpu[0], kernel: above the roof" in capsys.readouterr().out
    assert (tmp_path / "r.svg").read_text().startswith("<svg")


@pytest.fixture(scope="module")
def bundle_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("bundle") / "b.tar.gz"
    write_bundle(path, [ENTRY], target=None, evidence=None)
    return path


def test_a_bundle_comes_back_as_it_was(bundle_file):
    bundle = read_bundle(bundle_file)
    assert bundle.entries == (ENTRY,)
    assert bundle.harness_digest == harness_digest()


def test_a_changed_bundle_is_noticed(bundle_file, tmp_path):
    with tarfile.open(bundle_file) as tar:
        tar.extractall(tmp_path, filter="data")
    data = json.loads((tmp_path / "bundle.json").read_text())
    data["entries"][0]["shapes"][0]["atol"] = 10.0
    (tmp_path / "bundle.json").write_text(json.dumps(data))
    with tarfile.open(tmp_path / "changed.tar.gz", "w:gz") as tar:
        tar.add(tmp_path / "bundle.json", "bundle.json")
    with pytest.raises(UsageError, match="'gemm' was changed after the bundle was made"):
        read_bundle(tmp_path / "changed.tar.gz")
    (tmp_path / "none.tar.gz").write_bytes(b"no tar")
    with pytest.raises(UsageError, match="no bundle"):
        read_bundle(tmp_path / "none.tar.gz")


def test_the_harness_of_a_bundle_runs_without_the_evidence_packages(bundle_file, tmp_path):
    with tarfile.open(bundle_file) as tar:
        tar.extractall(tmp_path, filter="data")
    script = (
        "import sys\n"
        "for name in ('pydantic', 'libcst', 'platformdirs', 'simpleeval', 'elftools', 'mlir',\n"
        "             'jinja2', 'typer', 'rich'):\n"
        "    sys.modules[name] = None\n"
        "sys.meta_path = sys.meta_path[-3:]\n"  # without that of an editable installation
        f"sys.path.insert(0, {str(tmp_path)!r})\n"
        "import xesmith.timing.checker_task, xesmith.timing.program_task\n"
        "from xesmith.timing import run_bundle\n"
        f"assert run_bundle.__file__.startswith({str(tmp_path)!r})\n"
        "print(run_bundle.device_at_hand({'name': 'NVIDIA H200', 'kind': 'cuda'}).name)\n"
        f"bundle = run_bundle.read_bundle(run_bundle.Path({str(bundle_file)!r}))\n"
        "run_bundle.check_harness(bundle)\n"
    )
    done = subprocess.run([sys.executable, "-I", "-c", script], capture_output=True, text=True)
    assert (done.stdout.strip(), done.returncode) == ("h200", 0), done.stderr


def test_a_result_is_taken_back_only_as_that_of_its_bundle(bundle_file, tmp_path, capsys):
    bundle = read_bundle(bundle_file)
    outcome = judged(ENTRY, SHAPE, measurement(kernel=300e-6), H200, Options())
    record = record_of(outcome, bundle=bundle)
    check_provenance(record, bundle)
    assert one_record(record, bundle)["bundle"]["evidence"].startswith("not read")
    for change, text in (
        ({"harness_digest": "0"}, "another harness"),
        ({"bundle_digest": "0"}, "another bundle"),
        ({"outcomes": [{**record["outcomes"][0], "digest": "0"}]}, "'gemm' is not what"),
        (
            {"outcomes": [{**record["outcomes"][0], "shape": {"atol": 1.0}}]},
            "a shape of 'gemm' is not",
        ),
    ):
        with pytest.raises(UsageError, match=text):
            check_provenance({**record, **change}, bundle)
    file = tmp_path / "result.json"
    file.write_text(json.dumps(record))
    out = tmp_path / "record.json"
    arguments = ["bench", "import", str(file), "--bundle", str(bundle_file), "--out", str(out)]
    assert run(arguments) == 0
    assert "levels not read there: lowering" in capsys.readouterr().out
    assert json.loads(out.read_text())["bundle"]["digest"] == bundle.digest


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["softmax", "--against", "eagre"], "did you mean 'eager'"),
        (["softmax", "--stop", "never"], "--stop never"),
        (["softmax", "--device", "tpu"], "--device tpu"),
        (["sofmax"], "one of batched_gemm"),
        (["roofline", "nothing.json"], "no result"),
        (["import", "nothing.json", "--bundle", "b", "--out", "o"], "no result"),
    ],
)
def test_bad_input_is_one_clear_error(arguments, text, capsys):
    assert run(["bench", *arguments]) == 2
    assert text in capsys.readouterr().err
