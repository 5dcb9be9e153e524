"""Nothing gets out of a worker's child: each way out is tried, and each is told by a name.

Each attack is also made without the measures that stop it, where it must succeed (else the test
would show nothing), and with any single one of them.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

from xesmith.worker.client import TaskEndedError, WorkerPool
from xesmith.worker.confinement import Confinement, Name

HERE = Path(__file__).parent
ATTACKS = "attacks"
#: on a machine where each can be put into force; of two that exclude each other, one
ALL = set(get_args(Name)) - {"user namespace"}
HELD_TEXT = b"secret"


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    with WorkerPool(Path(sys.executable), "test", preload=[ATTACKS], import_path=[HERE]) as pool:
        yield pool


@pytest.fixture(scope="module")
def networked_pool() -> Iterator[WorkerPool]:
    with WorkerPool(
        Path(sys.executable),
        "test",
        preload=[ATTACKS],
        import_path=[HERE],
        shared_off=["network"],
    ) as pool:
        yield pool


@pytest.fixture
def victim() -> Iterator[subprocess.Popen[bytes]]:
    """A process outside, of the same user as the server, with a secret in its environment."""
    process = subprocess.Popen(
        ["sleep", "600"], env={"KEY": "sk-secret", "PATH": os.environ["PATH"]}
    )
    yield process
    process.kill()
    process.wait()


def attempt(
    pool: WorkerPool, name: str, folder: Path, off: tuple[Name, ...] = (), **arguments: Any
) -> tuple[bool, Any]:
    """(whether it got through, what it got or why not)."""
    result = pool.run(
        f"{ATTACKS}:{name}",
        arguments,
        folder=folder / f"task-{time.monotonic_ns()}",
        timeout_s=20,
        memory_bytes=32 << 30,
        confinement=Confinement(off=off),
    )
    assert result.status == "ok", result
    through, what = result.value
    return through == "in", what


def assert_stopped(
    pool: WorkerPool,
    name: str,
    folder: Path,
    by: tuple[Name, ...],
    alone: tuple[Name, ...] | None = None,
    **arguments: Any,
) -> None:
    """By all measures, by each of `by` (or of `alone`) alone, and not without any of them."""
    assert not attempt(pool, name, folder, **arguments)[0]
    for only in by if alone is None else alone:
        if len(by) == 1:
            break  # it has just been shown
        off = tuple(other for other in by if other != only)
        through, what = attempt(pool, name, folder, off, **arguments)
        assert not through, f"{only} alone does not stop it: {what}"
    through, what = attempt(pool, name, folder, by, **arguments)
    assert through, what


def test_every_measure_is_named_and_in_force_here(pool, tmp_path):
    result = pool.run(f"{ATTACKS}:identity", {}, folder=tmp_path)
    assert {measure.name for measure in result.measures} == ALL
    assert [str(m) for m in result.measures if not m.in_force] == []
    assert result.value["uid"] != 0
    assert (result.value["home"], result.value["cwd"]) == (str(tmp_path), str(tmp_path))
    assert all(cache.startswith(str(tmp_path)) for cache in result.value["caches"])
    assert result.value["left"] == []


def test_a_measure_that_is_off_is_told_and_a_required_one_keeps_the_task_from_running(
    pool, tmp_path
):
    lax = Confinement(off=("files",))
    result = pool.run(f"{ATTACKS}:identity", {}, folder=tmp_path, confinement=lax)
    assert "files: off (left out as asked)" in map(str, result.measures)
    strict = Confinement(off=("files",), required=("files",))
    result = pool.run(f"{ATTACKS}:leaves_at_once", {}, folder=tmp_path, confinement=strict)
    assert result.status == "unconfined"
    assert result.error is not None
    assert result.error["message"] == "files: off (left out as asked)"


def test_it_cannot_write_outside_its_folder(pool, tmp_path):
    open_to_all = tmp_path / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    for parent in (tmp_path, *tmp_path.parents[:2]):
        parent.chmod(0o755)
    path = open_to_all / "file"
    assert_stopped(pool, "writes", tmp_path, ("files",), path=str(path))
    assert path.read_text() == "written"  # by the attempt without
    closed = tmp_path / "closed"
    closed.mkdir()
    assert_stopped(pool, "writes", tmp_path, ("files", "user"), path=str(closed / "file"))


def test_it_cannot_read_what_it_has_no_need_of(pool, tmp_path):
    (tmp_path / "key").write_text("sk-secret")
    assert_stopped(pool, "reads", tmp_path, ("files",), path=str(tmp_path / "key"))
    allowed = Confinement(readable=(str(tmp_path / "key"),))
    result = pool.run(
        f"{ATTACKS}:reads",
        {"path": str(tmp_path / "key")},
        folder=tmp_path / "allowed",
        confinement=allowed,
    )
    assert result.value == ["in", "sk-secret"]
    for path in ("/etc/shadow", str(Path.home() / ".bashrc")):
        assert not attempt(pool, "reads", tmp_path, path=path)[0]


def test_it_cannot_read_another_process_environment(pool, victim, tmp_path):
    path = f"/proc/{victim.pid}/environ"
    by: tuple[Name, ...] = ("processes", "user", "files")
    # Landlock does not stop one who has all of root's capabilities from this.
    assert_stopped(pool, "reads", tmp_path, by, alone=("processes", "user"), path=path)
    assert "sk-secret" in attempt(pool, "reads", tmp_path, by, path=path)[1]


def test_it_cannot_read_another_process_memory(pool, tmp_path):
    held = ctypes.create_string_buffer(HELD_TEXT)
    by: tuple[Name, ...] = ("processes", "user", "files")
    where = {"pid": os.getpid(), "address": ctypes.addressof(held)}
    assert_stopped(pool, "reads_memory", tmp_path, by, **where)


def test_it_cannot_trace_another_process(pool, victim, tmp_path):
    by: tuple[Name, ...] = ("processes", "user", "files", "system calls")
    assert_stopped(pool, "traces", tmp_path, by, pid=victim.pid)


def test_it_cannot_end_another_process(pool, victim, tmp_path):
    by: tuple[Name, ...] = ("processes", "user", "files")
    assert_stopped(pool, "kills", tmp_path, by, pid=victim.pid)
    assert victim.wait(timeout=5) == -signal.SIGKILL  # by the attempt without


def test_it_sees_no_other_process(pool, tmp_path):
    _, seen = attempt(pool, "lists_processes", tmp_path)
    assert len(seen) == 2  # itself, and what waits for it
    _, seen = attempt(pool, "lists_processes", tmp_path, ("processes",))
    assert os.getpid() in seen


def test_it_cannot_reach_a_server(networked_pool, pool, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        greeting = threading.Thread(target=greet, args=(server,), daemon=True)
        greeting.start()
        # Here the network itself is there.
        assert_stopped(networked_pool, "connects", tmp_path, ("files", "system calls"), port=port)
        # And here the network alone is missing.
        off: tuple[Name, ...] = ("files", "system calls")
        assert not attempt(pool, "connects", tmp_path, off, port=port)[0]
        greeting.join(timeout=5)


def greet(server: socket.socket) -> None:
    end, _ = server.accept()
    with end:
        end.sendall(b"hello")


def test_it_cannot_mount(pool, tmp_path):
    assert_stopped(pool, "mounts", tmp_path, ("system calls", "user", "files"))


def test_it_cannot_fork_without_end(pool, tmp_path):
    assert_stopped(pool, "forks", tmp_path, ("limits",), count=1000)


def test_one_that_forks_without_end_takes_no_process_from_another(pool, tmp_path):
    """The kernel counts by user, so each task is one of its own."""
    bomb = pool.submit(
        f"{ATTACKS}:forks", {"count": 1000, "holds_seconds": 3}, folder=tmp_path / "bomb"
    )
    time.sleep(1)
    through, what = attempt(pool, "forks", tmp_path, count=100)
    assert through, what
    assert not bomb.done()  # it held its 512 all the time
    assert bomb.result().value[0] == "out"


def test_the_limit_of_processes_holds_for_no_root(pool, tmp_path):
    """Root ignores it: without another user id it would stop nothing."""
    assert attempt(pool, "forks", tmp_path, ("user",), count=600)[0] == (os.getuid() == 0)


def test_it_cannot_allocate_100_gb(pool, tmp_path):
    assert_stopped(pool, "reserves", tmp_path, ("address space",), bytes=100 << 30)


def test_what_processes_share_counts_once(pool, tmp_path):
    """100 processes, each of which has the server's memory, are no 100 times that."""
    result = pool.run(
        f"{ATTACKS}:forks", {"count": 100}, folder=tmp_path, memory_bytes=256 << 20, timeout_s=20
    )
    assert result.value == ["in", None]


def test_it_cannot_write_a_huge_file(pool, tmp_path):
    assert_stopped(pool, "fills_a_file", tmp_path, ("limits",), bytes=1 << 40)


@pytest.mark.parametrize("how", ["leaves_in_a_thread", "writes_to_every_descriptor"])
def test_leaving_early_gives_no_result(pool, tmp_path, how):
    result = pool.run(f"{ATTACKS}:{how}", {}, folder=tmp_path, timeout_s=20)
    assert result.status == {"leaves_in_a_thread": "crash"}.get(how, "forged")
    assert result.value is None
    assert result.exit_code == 0


def test_exit_is_told_as_what_it_is(pool, tmp_path):
    result = pool.run(f"{ATTACKS}:leaves_at_once", {}, folder=tmp_path)
    assert (result.status, str(result)) == ("raised", "SystemExit: 0")


@pytest.mark.parametrize("stays", [False, True])
def test_a_daemon_ends_with_its_task(pool, tmp_path, stays):
    seconds = "5011" if stays else "5012"
    result = pool.run(
        f"{ATTACKS}:leaves_a_daemon",
        {"seconds": seconds, "stays": stays},
        folder=tmp_path,
        timeout_s=1.0,
    )
    assert result.status == ("timeout" if stays else "ok")
    assert gone(seconds)


def test_a_daemon_outlives_a_task_without_a_pid_namespace(pool, tmp_path):
    """So it is this that ends it."""
    result = pool.run(
        f"{ATTACKS}:leaves_a_daemon",
        {"seconds": "5013", "stays": False},
        folder=tmp_path,
        confinement=Confinement(off=("processes",)),
    )
    assert result.status == "ok"
    (pid,) = sleeping("5013")
    os.kill(pid, signal.SIGKILL)


def test_nothing_is_left_when_whoever_started_it_is_killed(tmp_path):
    script = f"""
import sys
from pathlib import Path
from xesmith.worker.client import WorkerPool
with WorkerPool(Path(sys.executable), "test", import_path=[Path({str(HERE)!r})]) as pool:
    pool.run("{ATTACKS}:leaves_a_daemon", {{"seconds": "5014", "stays": True}},
             folder=Path({str(tmp_path)!r}))
"""
    process = subprocess.Popen([sys.executable, "-c", script])
    deadline = time.monotonic() + 30
    while not sleeping("5014") and time.monotonic() < deadline:
        time.sleep(0.02)
    assert sleeping("5014")
    process.kill()
    process.wait()
    assert gone("5014")


def test_what_it_leaves_are_files_and_folders(pool, tmp_path):
    (tmp_path / "key").write_text("sk-secret")
    folder = tmp_path / "task"
    arguments = {"to": str(tmp_path / "key")}
    result = pool.run(f"{ATTACKS}:links", arguments, folder=folder)
    assert result.status == "ok"
    assert result.stdout_tail == ""  # not what the link leads to
    assert [path.name for path in folder.iterdir() if path.is_symlink()] == []
    assert {path.name for path in folder.iterdir()} == {"stderr", "plain"}
    assert (folder / "plain").stat().st_uid == os.getuid()


# -- conversations ----------------------------------------------------------------------------


def test_a_compiler_works_in_its_folder_though_no_other_user_may_enter_there(pool, tmp_path):
    tmp_path.chmod(0o700)
    through = pool.run(f"{ATTACKS}:compiles", {}, folder=tmp_path / "task")
    assert through.value == [0, 7], through


@pytest.mark.parametrize(("device", "through"), [(True, True), (False, False)])
def test_what_uses_a_gpu_may_name_its_threads(pool, tmp_path, device, through):
    held = Confinement(device=device)
    result = pool.run(f"{ATTACKS}:names_a_thread", {}, folder=tmp_path / "task", confinement=held)
    assert (result.value[0] == "in") == through, result


def test_a_conversation_is_questions_and_answers(pool, tmp_path):
    with pool.converse(f"{ATTACKS}:answers", {}, folder=tmp_path) as talk:
        assert talk.ask("a", timeout_s=10) == {"got": "a"}
        assert talk.ask([1, "x" * 200_000], timeout_s=10)["got"][0] == 1
        result = talk.finish()
    assert (result.status, result.value) == ("ok", "no more questions")
    assert {measure.name for measure in result.measures} == ALL


def test_an_answer_before_the_question_is_forged(pool, tmp_path):
    talk = pool.converse(f"{ATTACKS}:answers_twice", {}, folder=tmp_path)
    with talk, pytest.raises(TaskEndedError) as ended:
        talk.ask("a", timeout_s=10)
    assert ended.value.result.status == "forged"


@pytest.mark.parametrize(
    ("message", "status", "said"),
    [
        ("leave", "crash", "it ended by exit code 3 before it gave a result"),
        ("sleep", "timeout", "it was ended at its limit of time"),
    ],
)
def test_a_conversation_that_breaks_off_says_why(pool, tmp_path, message, status, said):
    with (
        pool.converse(f"{ATTACKS}:answers", {}, folder=tmp_path) as talk,
        pytest.raises(TaskEndedError, match=said) as ended,
    ):
        talk.ask(message, timeout_s=1)
    assert ended.value.result.status == status


# -- the process list, from outside -----------------------------------------------------------


def sleeping(seconds: str) -> list[int]:
    found: list[int] = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if path.read_bytes() == f"sleep\0{seconds}\0".encode():
                found.append(int(path.parent.name))
    return found


def gone(seconds: str) -> bool:
    deadline = time.monotonic() + 5
    while sleeping(seconds) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not sleeping(seconds)


# -- an ordinary user -------------------------------------------------------------------------

#: as uid 1000 of a user namespace, without the rights of root there or anywhere
AS_USER = """
import os, sys
from xesmith.worker import linux
uid, gid = os.getuid(), os.getgid()
linux.unshare(linux.CLONE_NEWUSER)
def write(name, text):
    with open(f"/proc/self/{name}", "w") as file:
        file.write(text)
write("setgroups", "deny")
write("uid_map", f"1000 {uid} 1")
write("gid_map", f"1000 {gid} 1")
os.execv(sys.executable, [sys.executable, "-c", sys.argv[1]])
"""
USERS_ATTACKS = """
import json, sys
from pathlib import Path
from xesmith.worker.client import WorkerPool
python = Path(sys.executable)
with WorkerPool(python, "test", preload=["attacks"], import_path=[Path(HERE)]) as pool:
    def run(name, arguments, number=iter(range(99))):
        folder = Path(FOLDER) / str(next(number))
        return pool.run("attacks:" + name, arguments, folder=folder, memory_bytes=32 << 30)
    first = run("identity", {})
    print(json.dumps({
        "measures": {m.name: str(m) for m in first.measures},
        "uid": first.value["uid"],
        "through": [name for name, arguments in ATTEMPTS if run(name, arguments).value[0] == "in"],
        "processes": run("lists_processes", {}).value[1],
        "daemon": run("leaves_a_daemon", {"seconds": "5015", "stays": False}).status,
    }))
"""


def test_an_ordinary_user_is_held_by_the_same(victim, tmp_path):
    attempts = [
        ("writes", {"path": str(tmp_path / "outside")}),
        ("reads", {"path": f"/proc/{victim.pid}/environ"}),
        ("kills", {"pid": victim.pid}),
        ("traces", {"pid": victim.pid}),
        ("mounts", {}),
        ("connects", {"port": 1}),
    ]  # not forks: root stays root to the kernel there, which counts none of its processes
    script = USERS_ATTACKS
    for name, value in (("HERE", str(HERE)), ("FOLDER", str(tmp_path)), ("ATTEMPTS", attempts)):
        script = script.replace(name, repr(value))
    done = subprocess.run(
        [sys.executable, "-c", AS_USER, script], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["measures"].keys() == set(get_args(Name))
    assert [text for text in found["measures"].values() if ": off" in text] == []
    assert found["uid"] == 1000
    assert found["through"] == []
    assert len(found["processes"]) == 2
    assert found["daemon"] == "ok"
    assert gone("5015")


@contextlib.contextmanager
def late_kill_pool(stuck_seconds: float) -> Iterator[WorkerPool]:
    """A driver that keeps a process of a hung device, stood in for by a kill that comes late."""
    with WorkerPool(
        Path(sys.executable),
        "test",
        preload=[ATTACKS, "late_kill"],
        import_path=[HERE],
        env={"STUCK_SECONDS": str(stuck_seconds)},
    ) as pool:
        yield pool


def test_a_task_that_does_not_end_is_told_and_holds_up_no_other(tmp_path):
    with late_kill_pool(0.2) as pool:
        with (
            pool.converse(f"{ATTACKS}:answers", {}, folder=tmp_path / "stuck") as talk,
            pytest.raises(TaskEndedError, match="the device may hang") as ended,
        ):
            talk.ask("sleep", timeout_s=0.2)
        assert ended.value.result.status == "stuck"
        assert pool.run(f"{ATTACKS}:identity", {}, folder=tmp_path / "next").status == "ok"


def test_a_conversation_that_is_broken_off_has_ended(tmp_path):
    """Not merely been told to: a program that still runs takes the device from the next."""
    beats = tmp_path / "beats"
    with late_kill_pool(60) as pool:
        with (
            pool.converse(f"{ATTACKS}:beats", {}, folder=tmp_path) as talk,
            pytest.raises(TaskEndedError) as ended,
        ):
            talk.ask("go on", timeout_s=0.5)
        before = beats.stat().st_size
        time.sleep(0.3)
        assert beats.stat().st_size == before > 0
    assert ended.value.result.status == "timeout"
