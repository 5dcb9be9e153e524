"""The fork server: every way in which a task can end is told apart, and costs one task."""

import contextlib
import os
import signal
import sys
import time
from concurrent.futures import wait
from pathlib import Path

import pytest

from xesmith.errors import ToolchainError
from xesmith.worker.client import WorkerPool

HERE = Path(__file__).parent
TASKS = "worker_tasks"


@pytest.fixture(scope="module")
def pool():
    with WorkerPool(
        Path(sys.executable), "test", preload=[TASKS], import_path=[HERE], parallel=2
    ) as pool:
        yield pool


def running(command: str) -> bool:
    """Whether some process has this command line; a task's own number for it is no help."""
    wanted = command.replace(" ", "\0") + "\0"
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if path.read_bytes().decode(errors="replace") == wanted:
                return True
    return False


def gone(command: str) -> bool:
    deadline = time.monotonic() + 5
    while running(command) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not running(command)


def test_a_task_gets_its_arguments_and_folder(pool, tmp_path):
    result = pool.run(f"{TASKS}:echo", {"n": [1, "two"]}, folder=tmp_path / "f")
    assert result.status == "ok"
    assert result.value == {"arguments": {"n": [1, "two"]}, "folder": "f"}


def test_an_exception_is_reported_with_its_traceback(pool, tmp_path):
    result = pool.run(f"{TASKS}:raises", {}, folder=tmp_path)
    assert result.status == "raised"
    assert result.error is not None
    assert (result.error["type"], result.error["message"]) == ("ValueError", "seven")
    assert "worker_tasks.py" in result.error["traceback"]


def test_an_unknown_task_is_an_error_of_that_task(pool, tmp_path):
    assert pool.run("no_such_module:f", {}, folder=tmp_path).status == "raised"


@pytest.mark.parametrize("code", [0, 3])
def test_leaving_early_is_a_crash_whatever_the_exit_code(pool, tmp_path, code):
    result = pool.run(f"{TASKS}:leaves", {"code": code}, folder=tmp_path)
    assert (result.status, result.exit_code, result.signal) == ("crash", code, None)


def test_a_signal_is_named_and_standard_error_kept(pool, tmp_path):
    result = pool.run(f"{TASKS}:segfaults", {}, folder=tmp_path)
    assert (result.status, result.signal) == ("crash", signal.SIGSEGV)
    assert "last words" in result.stderr_tail


def test_a_task_without_end_is_ended_with_all_that_it_started(pool, tmp_path):
    future = pool.submit(f"{TASKS}:sleeps", {"seconds": 5003}, folder=tmp_path, timeout_s=1.0)
    while not (tmp_path / "grandchild").exists():
        time.sleep(0.01)
    assert running("sleep 5003")
    result = future.result()
    assert result.status == "timeout"
    assert result.seconds < 5
    assert gone("sleep 5003")


def test_a_task_that_eats_memory_is_ended(pool, tmp_path):
    result = pool.run(f"{TASKS}:eats_memory", {}, folder=tmp_path, memory_bytes=128 << 20)
    assert result.status == "memory"


def test_one_huge_reservation_is_refused(pool, tmp_path):
    result = pool.run(
        f"{TASKS}:reserves_memory", {"bytes": 1 << 40}, folder=tmp_path, memory_bytes=1 << 28
    )
    assert result.status == "memory"


def test_printing_cannot_forge_a_reply(pool, tmp_path):
    result = pool.run(f"{TASKS}:prints", {}, folder=tmp_path)
    assert (result.status, result.value) == ("ok", "real")
    assert "forged" in result.stdout_tail
    assert result.stderr_tail == "noise"


def test_a_result_of_many_megabytes_comes_whole(pool, tmp_path):
    result = pool.run(f"{TASKS}:big", {"bytes": 5_000_000}, folder=tmp_path)
    assert len(result.value) == 5_000_000


def test_standard_input_is_empty(pool, tmp_path):
    assert pool.run(f"{TASKS}:reads_stdin", {}, folder=tmp_path).value == ""


def test_secrets_do_not_reach_a_task(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("HTTPS_PROXY", "http://user:pw@proxy")
    with WorkerPool(
        Path(sys.executable), "test", import_path=[HERE], env={"TRITON_INTERPRET": "1"}
    ) as pool:
        result = pool.run(f"{TASKS}:environment", {}, folder=tmp_path, env={"CASE": "7"})
    assert "sk-secret" not in str(result.value)
    assert "proxy" not in str(result.value)
    assert result.value["TRITON_INTERPRET"] == "1"
    assert result.value["CASE"] == "7"


def test_no_more_children_than_asked_run_at_once(pool, tmp_path):
    started = time.monotonic()
    futures = [
        pool.submit(f"{TASKS}:naps", {"seconds": 0.3}, folder=tmp_path / str(i)) for i in range(4)
    ]
    wait(futures)
    ends = sorted(f.result().value for f in futures)
    assert ends[1] < ends[2]  # the second pair began after the first pair's first end
    assert ends[3] - started >= 0.6  # four naps of 0.3 s, two at once


def test_cancel_ends_a_running_and_a_queued_task(pool, tmp_path):
    running = [
        pool.submit(f"{TASKS}:sleeps", {"seconds": 1000}, folder=tmp_path / str(i))
        for i in range(3)
    ]
    for future in running:
        pool.cancel(future)
    assert [f.result(timeout=5).status for f in running] == ["cancelled"] * 3
    assert pool.run(f"{TASKS}:echo", {}, folder=tmp_path / "next").status == "ok"


def test_a_server_that_dies_answers_for_its_tasks_and_is_started_anew(tmp_path):
    with WorkerPool(Path(sys.executable), "test", import_path=[HERE]) as pool:
        future = pool.submit(f"{TASKS}:sleeps", {"seconds": 1000}, folder=tmp_path / "a")
        assert pool._process is not None
        while not (tmp_path / "a" / "grandchild").exists():
            time.sleep(0.01)
        os.kill(pool._process.pid, signal.SIGKILL)
        assert future.result(timeout=5).status == "lost"
        assert pool.run(f"{TASKS}:echo", {}, folder=tmp_path / "b").status == "ok"


def test_a_python_that_is_missing_is_a_toolchain_error(tmp_path):
    pool = WorkerPool(tmp_path / "python", "lower")
    with pytest.raises(ToolchainError, match="the lower worker cannot start"):
        pool.run(f"{TASKS}:echo", {}, folder=tmp_path)


def test_a_preload_that_fails_is_a_toolchain_error_with_its_cause(tmp_path):
    pool = WorkerPool(Path(sys.executable), "lower", preload=["no_such_module"])
    with pytest.raises(ToolchainError, match="No module named 'no_such_module'"):
        pool.run(f"{TASKS}:echo", {}, folder=tmp_path)
