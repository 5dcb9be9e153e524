"""The command line's contract: streams, exit codes, errors with the nearest name."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from xesmith.cli import app, common, doctor
from xesmith.errors import InputKernelError, ToolchainError, UsageError, XesmithError


def raising(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Lets `xesmith doctor` raise `error`."""

    def examine() -> list[doctor.Check]:
        raise error

    monkeypatch.setattr(doctor, "examine", examine)


def test_help_lists_the_commands_in_groups(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["--help"]) == 0
    out, err = capsys.readouterr()
    assert common.PANEL_MACHINE in out
    assert "doctor" in out
    assert "toolchain" in out
    assert err == ""


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["--version"]) == 0
    assert capsys.readouterr().out == "xesmith 0.1.0\n"


@pytest.mark.parametrize(
    ("arguments", "where", "hint"),
    [
        (["docter"], "xesmith", "did you mean 'doctor'?"),
        (["doctor", "--jsn"], "xesmith doctor", "did you mean '--json'?"),
        (["toolchain", "lst"], "xesmith toolchain", "did you mean 'list'?"),
        (["toolchain", "install", "xpu", "--forse"], "xesmith toolchain install", "'--force'"),
        (["toolchain", "install"], "xesmith toolchain install", "--help"),
        (["doctor", "unasked"], "xesmith doctor", "--help"),
    ],
)
def test_wrong_usage_ends_with_2_and_the_nearest_name(
    capsys: pytest.CaptureFixture[str], arguments: list[str], where: str, hint: str
) -> None:
    assert app.run(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert f"where: {where}" in err
    assert hint in err


def test_an_unknown_toolchain_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["toolchain", "install", "xpu-3.33"]) == 2
    assert "did you mean 'xpu-3.3'?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageError("a"), 2),
        (ToolchainError("a"), 3),
        (XesmithError("a"), 3),
        (InputKernelError("a"), 4),
    ],
)
def test_each_error_has_its_exit_code(
    monkeypatch: pytest.MonkeyPatch, error: XesmithError, code: int
) -> None:
    raising(monkeypatch, error)
    assert app.run(["doctor"]) == code


def test_errors_say_cause_place_and_remedy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    raising(monkeypatch, ToolchainError("no ocloc", where="PATH", remedy="install it"))
    assert app.run(["doctor"]) == 3
    out, err = capsys.readouterr()
    assert (out, err) == ("", "error: no ocloc\n  where: PATH\n  remedy: install it\n")


def test_errors_are_json_under_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    raising(monkeypatch, InputKernelError("it hangs", where="k.py:3"))
    assert app.run(["doctor", "--json"]) == 4
    out, err = capsys.readouterr()
    assert out == ""
    assert json.loads(err) == {
        "error": "InputKernelError",
        "what": "it hangs",
        "where": "k.py:3",
        "remedy": None,
        "exit_code": 4,
    }


def test_usage_errors_are_json_under_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["doctor", "--json", "--jsn"]) == 2
    assert json.loads(capsys.readouterr().err)["error"] == "UsageError"


def test_a_defect_shows_no_traceback_unless_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    raising(monkeypatch, ZeroDivisionError("by zero"))
    assert app.run(["doctor"]) == 70
    err = capsys.readouterr().err
    assert "internal error: ZeroDivisionError: by zero" in err
    assert "report" in err
    assert "Traceback" not in err

    monkeypatch.setenv("XESMITH_DEBUG", "1")
    assert app.run(["doctor"]) == 70
    assert "Traceback" in capsys.readouterr().err


def test_a_defect_is_json_under_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    raising(monkeypatch, RuntimeError("x"))
    assert app.run(["doctor", "--json"]) == 70
    told = json.loads(capsys.readouterr().err)
    assert (told["error"], told["exit_code"]) == ("InternalError", 70)


def test_an_interrupt_ends_with_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    raising(monkeypatch, KeyboardInterrupt())
    assert app.run(["doctor"]) == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_ctrl_c_in_a_real_process_shows_no_traceback(tmp_path: Path) -> None:
    """An install waits for the lock that this test holds; SIGINT ends it."""
    import fcntl

    root = tmp_path / "toolchains"
    root.mkdir()
    with (root / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        process = subprocess.Popen(
            [sys.executable, "-m", "xesmith.cli.app", "toolchain", "install", "xpu"],
            env={**os.environ, "XESMITH_TOOLCHAIN_DIR": str(root)},
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stderr is not None
        assert "waiting" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err == "interrupted\n"


def test_a_closed_pipe_ends_quietly(xesmith_command: list[str]) -> None:
    done = subprocess.run(
        ["bash", "-c", f"{' '.join(xesmith_command)} --help | true; echo ${{PIPESTATUS[0]}}"],
        capture_output=True,
        text=True,
    )
    assert done.stderr == ""
    assert done.stdout.strip() == "141"


def test_nothing_heavy_is_imported_before_it_is_used() -> None:
    """So that the command answers at once (bench/self/start.py measures it)."""
    script = (
        "import sys, xesmith.cli.app as a; a.build()\n"
        "print([n for n in ('torch', 'triton', 'libcst', 'pydantic', 'mlir') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_a_table_is_cut_nowhere(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [["first", "BLOCK_M=128 BLOCK_N=128"], ["second", "BLOCK_M=64 BLOCK_N=64"]]
    columns = ["launch", "configuration", "predicted us"]
    common.table(columns, [[*row, "4.0"] for row in rows])
    assert "first    BLOCK_M=128 BLOCK_N=128   4.0\n" in capsys.readouterr().out
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal
    monkeypatch.setenv("COLUMNS", "44")
    common.table(columns, [["gemm", "BLOCK_M=128 BLOCK_N=128", "4.0"]])
    out = capsys.readouterr().out
    assert "configuration" in out
    assert "BLOCK_M=128 BLOCK_N=128" in out
    assert "…" not in out
