"""Findings as SARIF 2.1.0, held against the standard's schema."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.passes.conftest import EVERYTHING
from xesmith.cli.app import run
from xesmith.findings.record import CHECK_KINDS, KINDS, Finding
from xesmith.report.sarif import Result, result_of, result_of_pass, sarif_log

SCHEMA = Path(__file__).parent / "sarif" / "sarif-2.1.0-rtm.5.json"


@pytest.fixture(scope="module")
def validator() -> Any:
    return jsonschema.Draft4Validator(json.loads(SCHEMA.read_text("utf-8")))


def finding(**changes: Any) -> Finding:
    values: dict[str, Any] = {
        "kind": "spill",
        "severity": "warning",
        "level": "native",
        "kernel": "gemm",
        "line": 2,
        "message": "spills 64 B per thread",
        "reason": "more values are live than 128 registers hold",
        "remedy": "256 registers",
        "numbers": {"spill_bytes_per_thread": 64.0},
    }
    return Finding(**{**values, **changes})


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    (tmp_path / ".git").mkdir()
    file = tmp_path / "a folder" / "kernel.py"
    file.parent.mkdir()
    file.write_text("def gemm():\n    for k in range(9):\n        pass\n")
    return file


def only_run(log: dict[str, Any]) -> dict[str, Any]:
    (run_,) = log["runs"]
    return run_


def test_a_finding_stands_at_its_line_with_its_rule(kernel: Path, validator: Any) -> None:
    lines = kernel.read_text().splitlines()
    log = sarif_log([result_of(finding(), str(kernel), lines, device="bmg-g31")], ["asm not read"])
    validator.validate(log)
    run_ = only_run(log)
    (rule,) = run_["tool"]["driver"]["rules"]
    assert (rule["id"], rule["help"]["text"]) == ("spill", "256 registers.")
    assert rule["shortDescription"]["text"] == "Registers spilled to memory."
    (result,) = run_["results"]
    assert (result["ruleId"], result["ruleIndex"], result["level"]) == ("spill", 0, "warning")
    assert result["message"]["text"].splitlines() == [
        "spills 64 B per thread",
        "why: more values are live than 128 registers hold",
        "mend: 256 registers",
    ]
    (location,) = result["locations"]
    physical = location["physicalLocation"]
    # Relative to the repository, and percent-encoded as a URI is.
    assert physical["artifactLocation"] == {"uri": "a%20folder/kernel.py", "uriBaseId": "SRCROOT"}
    assert physical["region"] == {
        "startLine": 2,
        "snippet": {"text": "    for k in range(9):"},
    }
    assert location["logicalLocations"] == [{"name": "gemm", "kind": "function"}]
    assert result["properties"]["spill_bytes_per_thread"] == 64.0
    root = kernel.parents[1]
    assert run_["originalUriBaseIds"] == {"SRCROOT": {"uri": f"{root.as_uri()}/"}}
    (note,) = run_["invocations"][0]["toolExecutionNotifications"]
    assert note["message"]["text"] == "asm not read"


def prints(file: Path, *findings: Finding) -> list[str]:
    lines = file.read_text().splitlines()
    log = sarif_log(result_of(item, str(file), lines, device="bmg-g31") for item in findings)
    return [r["partialFingerprints"]["xesmithFinding/v1"] for r in only_run(log)["results"]]


def test_a_fingerprint_outlives_edits_elsewhere_and_tells_equal_ones_apart(kernel: Path) -> None:
    (before,) = prints(kernel, finding())
    kernel.write_text("import this\n" + kernel.read_text())
    moved = finding(line=3, message="spills 128 B per thread")
    assert prints(kernel, moved) == [before]
    assert prints(kernel, finding(line=4)) != [before]
    first, second = prints(kernel, moved, moved)
    assert (first, second == first) == (before, False)


def test_what_is_not_known_is_left_out(validator: Any, tmp_path: Path) -> None:
    log = sarif_log(
        [
            Result("spill", "warning", "it spills", None, None, None, None, None),
            Result("odd-kind", "note", "odd", None, None, "k", str(tmp_path / "gone.py"), 3),
        ]
    )
    validator.validate(log)
    bare, gone = only_run(log)["results"]
    assert "locations" not in bare
    location = gone["locations"][0]["physicalLocation"]
    assert location["artifactLocation"] == {"uri": (tmp_path / "gone.py").as_uri()}
    assert location["region"] == {"startLine": 3}


def test_every_kind_that_a_pass_reports_has_a_meaning(repository: Path) -> None:
    sources = sorted((repository / "passes" / "lib").glob("Check*.cpp"))
    made = [
        line for path in sources for line in path.read_text().splitlines() if ".kind = " in line
    ]
    kinds = {kind for line in made for kind in re.findall(r'"([a-z0-9-]+)"', line)}
    assert "register-pressure" in kinds
    assert kinds - KINDS.keys() == CHECK_KINDS.keys()


def test_no_findings_are_a_log_too(validator: Any) -> None:
    log = sarif_log([])
    validator.validate(log)
    assert only_run(log)["results"] == []


def test_a_check_pass_that_knows_no_line_points_at_the_dump(validator: Any, tmp_path: Path) -> None:
    dump = tmp_path / "kernel.ttgir"
    found = {"kind": "f64-arithmetic", "severity": "warning", "message": "float64", "numbers": {}}
    log = sarif_log([result_of_pass(found, "kernel.ttgir", str(dump))])
    validator.validate(log)
    (result,) = only_run(log)["results"]
    assert "region" not in result["locations"][0]["physicalLocation"]


@pytest.mark.mlir
@pytest.mark.parametrize("command", [("passes", "run", "checks"), ("inspect",)])
def test_the_commands_write_it(
    command: tuple[str, ...], validator: Any, tmp_path: Path, capsys: Any
) -> None:
    dump = tmp_path / "kernel.ttgir"
    dump.write_text(EVERYTHING)
    assert run([*command, str(dump), "--format", "sarif"]) == 0
    log = json.loads(capsys.readouterr().out)
    validator.validate(log)
    results = only_run(log)["results"]
    assert "dot-not-dpas" in {result["ruleId"] for result in results}
    for result in results:  # its IR names no source
        location = result["locations"][0]["physicalLocation"]
        assert location["artifactLocation"]["uri"].endswith("kernel.ttgir")


def test_formats_that_contradict_or_do_not_exist(capsys: Any) -> None:
    assert run(["inspect", "a.ttir", "--format", "sarrif"]) == 2
    assert "did you mean 'sarif'?" in capsys.readouterr().err
    assert run(["inspect", "a.ttir", "--format", "sarif", "--json"]) == 2
    assert "contradict" in capsys.readouterr().err
