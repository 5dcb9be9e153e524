"""A fork server: preloads torch and Triton once, then runs each task in a forked child.

Runs in a toolchain's own Python (standard library only, any Python from 3.9). It reads
requests as JSON lines on standard input and answers on standard output. A child has its own
session, its own standard streams, and dies with the server; `confinement` says what else holds
it. Its result travels in an anonymous memory file, so a task that dies early has none and cannot
leave half of one. The result carries a word that the server made up for this one task: what
anything else writes there, or has kept from another task, is told as "forged".
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import resource
import secrets
import selectors
import signal
import socket
import stat
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xesmith.worker import linux
from xesmith.worker.channel import Channel
from xesmith.worker.confinement import (
    Confinement,
    Host,
    Processes,
    UnconfinedError,
    enter,
    new_processes,
    prepare_server,
)

POLL_SECONDS = 0.02
TAIL_BYTES = 16_384
LARGEST_RESULT_BYTES = 256 << 20
#: a process that is stuck in a driver does not end when it is killed
_STUCK_SECONDS = 10.0
#: so many times as long as a look at memory took is none taken
_LOOK_SHARE = 9.0
_MOST_PASSED = 16
_MOST_DESCRIPTORS = 1 << 20


@dataclass
class _Child:
    request_id: int
    pid: int
    pidfd: int
    result_fd: int
    nonce: str
    processes: Processes | None
    output_fds: tuple[int, int]
    folder: Path
    started: float
    deadline: float
    memory_bytes: int
    base_rss_bytes: int
    verdict: str | None = None  # set when the server itself ended the child
    killed: float = 0.0

    def pids(self) -> list[int]:
        """Of what it may have started too, where nobody else is its parent any more."""
        return [self.pid, *([self.processes.pid] if self.processes else [])]


class Server:
    """Serves requests until standard input closes, then ends every child."""

    def __init__(self, requests: socket.socket, replies_fd: int, parallel: int, host: Host) -> None:
        self._requests = requests
        self._replies_fd = replies_fd
        self._parallel = parallel
        self._host = host
        self._tasks = 0
        self._passed: list[int] = []  # channels, in the order of the requests that have one
        self._children: dict[int, _Child] = {}  # by pidfd
        self._queue: list[dict[str, Any]] = []
        self._buffer = b""
        self._next_look = 0.0
        self._selector = selectors.DefaultSelector()
        self._selector.register(requests, selectors.EVENT_READ)

    def serve(self) -> None:
        try:
            while self._step():
                pass
        finally:
            for child in self._children.values():
                _kill(child)

    def reply(self, message: dict[str, Any]) -> None:
        data = json.dumps(message).encode() + b"\n"
        while data:
            data = data[os.write(self._replies_fd, data) :]

    def _step(self) -> bool:
        for key, _ in self._selector.select(POLL_SECONDS if self._children else None):
            if key.fd == self._requests.fileno():
                if not self._read_requests():
                    return False
            elif key.fd in self._children:
                self._reap(self._children[key.fd])
        self._enforce_limits()
        while self._queue and len(self._children) < self._parallel:
            self._start(self._queue.pop(0))
        return True

    def _read_requests(self) -> bool:
        data, passed, _, _ = socket.recv_fds(self._requests, 1 << 16, _MOST_PASSED)
        self._passed += passed
        if not data:
            return False
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            if not line:  # it came with a channel
                continue
            request = json.loads(line)
            if request.get("cancel"):
                self._cancel(request["id"])
                continue
            if request["channel"]:
                request["channel_fd"] = self._passed.pop(0)
            self._queue.append(request)
        return True

    def _cancel(self, request_id: int) -> None:
        for request in self._queue:
            if request["id"] == request_id:
                if request["channel"]:
                    os.close(request["channel_fd"])
                self.reply({"id": request_id, "status": "cancelled"})
        self._queue = [r for r in self._queue if r["id"] != request_id]
        for child in self._children.values():
            if child.request_id == request_id:
                self._end(child, "cancelled")

    def _end(self, child: _Child, verdict: str) -> None:
        child.verdict = verdict
        child.killed = time.monotonic()
        _kill(child)

    def _start(self, request: dict[str, Any]) -> None:
        folder = Path(request["folder"])
        folder.mkdir(parents=True, exist_ok=True)
        self._tasks += 1
        uid = linux.user_of_task(self._tasks) if self._host.as_root else None
        if uid is not None:
            linux.give(folder, uid)
        confinement = Confinement.from_json(request["confinement"])
        result_fd = os.memfd_create("xesmith-result", os.MFD_CLOEXEC)
        output_fds = (_new_file(folder / "stdout"), _new_file(folder / "stderr"))
        nonce = secrets.token_hex(16)
        sys.stdout.flush()
        sys.stderr.flush()
        started = time.monotonic()
        with new_processes(self._host, confinement) as processes:
            pid = os.fork()
            if pid == 0:
                _run_child(
                    request,
                    confinement,
                    self._host,
                    folder,
                    result_fd,
                    output_fds,
                    nonce,
                    processes,
                    uid,
                )
        if request["channel"]:
            os.close(request["channel_fd"])
        pidfd = os.pidfd_open(pid)
        child = _Child(
            request_id=request["id"],
            pid=pid,
            pidfd=pidfd,
            result_fd=result_fd,
            nonce=nonce,
            processes=processes,
            output_fds=output_fds,
            folder=folder,
            started=started,
            deadline=started + request["timeout_s"],
            memory_bytes=request["memory_bytes"],
            base_rss_bytes=_rss_bytes(os.getpid()),
        )
        self._children[pidfd] = child
        self._selector.register(pidfd, selectors.EVENT_READ)

    def _enforce_limits(self) -> None:
        now = time.monotonic()
        looks = now >= self._next_look
        for child in list(self._children.values()):
            if child.verdict is not None:
                if now > child.killed + _STUCK_SECONDS:
                    child.verdict = "stuck"
                    self._forget(child, None)
            elif now > child.deadline:
                self._end(child, "timeout")
            elif looks:
                limit = child.memory_bytes + child.base_rss_bytes
                # Resident sizes count a shared page once for each process: quick, and too much.
                if (
                    sum(_tree_bytes(pid, _rss_bytes) for pid in child.pids()) > limit
                    and sum(_tree_bytes(pid, _pss_bytes) for pid in child.pids()) > limit
                ):
                    self._end(child, "memory")
        if looks:  # a look at a thousand processes must not take all the time
            done = time.monotonic()
            self._next_look = done + max(POLL_SECONDS / 2, _LOOK_SHARE * (done - now))

    def _reap(self, child: _Child) -> None:
        _, status = os.waitpid(child.pid, 0)
        _kill(child)  # what it started and left behind
        if child.processes is not None:
            child.processes.end()
        _tidy(child.folder)
        self._forget(child, status)

    def _forget(self, child: _Child, status: int | None) -> None:
        """Answers for a child that has ended, or (no status) that does not end."""
        self._selector.unregister(child.pidfd)
        del self._children[child.pidfd]
        os.close(child.pidfd)
        size = os.fstat(child.result_fd).st_size
        payload: dict[str, Any] = {}
        if child.verdict is None and 0 < size <= LARGEST_RESULT_BYTES:
            with contextlib.suppress(ValueError, TypeError):
                payload = dict(json.loads(os.pread(child.result_fd, size, 0)))
        os.close(child.result_fd)
        ended = status is not None
        reply: dict[str, Any] = {
            "id": child.request_id,
            "seconds": time.monotonic() - child.started,
            "signal": os.WTERMSIG(status) if ended and os.WIFSIGNALED(status) else None,
            "exit_code": os.WEXITSTATUS(status) if ended and os.WIFEXITED(status) else None,
            "stdout_tail": _tail(child.output_fds[0]),
            "stderr_tail": _tail(child.output_fds[1]),
        }
        for descriptor in child.output_fds:
            os.close(descriptor)
        if child.verdict is not None:
            reply["status"] = child.verdict
        elif size == 0:
            reply["status"] = "memory" if _ran_out(reply["stderr_tail"]) else "crash"
        elif payload.pop("nonce", None) != child.nonce:
            reply["status"] = "forged"
        else:
            reply.update(payload)
        self.reply(reply)


def _run_child(
    request: dict[str, Any],
    confinement: Confinement,
    host: Host,
    folder: Path,
    result_fd: int,
    output_fds: tuple[int, int],
    nonce: str,
    processes: Processes | None,
    uid: int | None,
) -> None:
    """Becomes the task's own process; never returns."""
    try:
        os.setsid()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        null = os.open(os.devnull, os.O_RDONLY)
        for target, source in enumerate((null, *output_fds)):
            os.dup2(source, target)
        first = 3
        for kept in sorted({result_fd, request.get("channel_fd", result_fd)}):
            os.closerange(first, kept)
            first = kept + 1
        os.closerange(first, _MOST_DESCRIPTORS)
        os.environ.update(request.get("env", {}))
        try:
            measures = enter(
                confinement,
                host,
                folder,
                timeout_s=request["timeout_s"],
                memory_bytes=request["memory_bytes"],
                in_pid_namespace=processes is not None,
                uid=uid,
                own_bytes=_vm_bytes(),
            )
        except UnconfinedError as error:
            outcome: dict[str, Any] = {"status": "unconfined", "error": _described(error)}
        else:
            gc.freeze()
            outcome = _call(request, folder)
            outcome["measures"] = [vars(measure) for measure in measures]
        outcome["nonce"] = nonce
        data = json.dumps(outcome).encode()
        while data:
            data = data[os.write(result_fd, data) :]
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(70)


def _call(request: dict[str, Any], folder: Path) -> dict[str, Any]:
    module_name, _, function_name = request["task"].partition(":")
    try:
        function = getattr(importlib.import_module(module_name), function_name)
        given = [request["arguments"], folder]
        if request["channel"]:
            given.append(Channel(socket.socket(fileno=request["channel_fd"])))
        return {"status": "ok", "value": function(*given)}
    except MemoryError:
        return {"status": "memory"}
    except (Exception, SystemExit) as error:
        return {"status": "raised", "error": _described(error)}


def _described(error: BaseException) -> dict[str, str]:
    return {
        "type": type(error).__name__,
        "message": str(error),
        "traceback": traceback.format_exc(),
    }


def _kill(child: _Child) -> None:
    """Ends a child with its group and, where it has a PID namespace, all that is in there."""
    if child.processes is not None:
        child.processes.init.kill()
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    # Between fork and setsid the child is still in our own group.
    with contextlib.suppress(ProcessLookupError):
        os.kill(child.pid, signal.SIGKILL)


def _new_file(path: Path) -> int:
    """Opened before the task begins, so that it is this file that is read in the end."""
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)


def _tidy(folder: Path) -> None:
    """Makes what a task has left ours, and leaves plain files and folders alone: a link would
    lead whoever reads it here to another file."""
    us = (os.getuid(), os.getgid())
    for at, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = os.path.join(at, name)
            found = os.lstat(path)
            if not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):
                os.unlink(path)
            elif (found.st_uid, found.st_gid) != us:
                os.chown(path, *us, follow_symlinks=False)
    os.chown(folder, *us)


def _rss_bytes(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except (OSError, IndexError):
        return 0


def _pss_bytes(pid: int) -> int:
    """Resident, each shared page by the share of this process."""
    try:
        with open(f"/proc/{pid}/smaps_rollup") as file:
            return next(int(line.split()[1]) << 10 for line in file if line.startswith("Pss:"))
    except FileNotFoundError:
        return 0  # it has ended
    except (OSError, StopIteration):
        return _rss_bytes(pid)


def _tree_bytes(pid: int, bytes_of: Callable[[int], int]) -> int:
    total = bytes_of(pid)
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            children = file.read().split()
    except OSError:
        return total
    return total + sum(_tree_bytes(int(child), bytes_of) for child in children)


def _vm_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


def _tail(descriptor: int) -> str:
    size = os.fstat(descriptor).st_size
    return os.pread(descriptor, TAIL_BYTES, max(0, size - TAIL_BYTES)).decode(errors="replace")


def _ran_out(stderr: str) -> bool:
    return any(mark in stderr for mark in ("bad_alloc", "MemoryError", "out of memory"))


def main(config: dict[str, Any]) -> None:
    """`config`: `parallel` children at once, modules to `preload`, folders of `import_path`,
    measures to leave `off`."""
    replies_fd = os.dup(1)
    requests = socket.socket(fileno=os.dup(0))
    os.dup2(2, 1)  # a preloaded module that prints must not write into the replies
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.path[:0] = config["import_path"]
    host = prepare_server(config["import_path"], config["off"])  # before any module starts a thread
    server = Server(requests, replies_fd, config["parallel"], host)
    try:
        for name in config["preload"]:
            importlib.import_module(name)
    except BaseException as error:
        server.reply({"fatal": f"{type(error).__name__}: {error}"})
        raise
    gc.collect()
    server.reply({"ready": True})
    server.serve()
