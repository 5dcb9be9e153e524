"""A fork server: preloads torch and Triton once, then runs each task in a forked child.

Runs in a toolchain's own Python (standard library only, any Python from 3.9). It reads
requests as JSON lines on standard input and answers on standard output. A child has its own
session, its own standard streams, limits, and dies with the server; its result travels in an
anonymous memory file, so a task that dies early has none and cannot leave half of one.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import resource
import selectors
import signal
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

POLL_SECONDS = 0.02
TAIL_BYTES = 16_384
PR_SET_PDEATHSIG = 1
LARGEST_RESULT_BYTES = 256 << 20
#: a ghost tensor is reserved and never touched, so the limit is far above any memory
LARGEST_RESERVATION_BYTES = 64 << 30


@dataclass
class _Child:
    request_id: int
    pid: int
    pidfd: int
    result_fd: int
    folder: Path
    started: float
    deadline: float
    memory_bytes: int
    base_rss_bytes: int
    verdict: str | None = None  # set when the server itself ended the child


class Server:
    """Serves requests until standard input closes, then ends every child."""

    def __init__(self, requests_fd: int, replies_fd: int, parallel: int) -> None:
        self._requests_fd = requests_fd
        self._replies_fd = replies_fd
        self._parallel = parallel
        self._children: dict[int, _Child] = {}  # by pidfd
        self._queue: list[dict[str, Any]] = []
        self._buffer = b""
        self._selector = selectors.DefaultSelector()
        self._selector.register(requests_fd, selectors.EVENT_READ)

    def serve(self) -> None:
        try:
            while self._step():
                pass
        finally:
            for child in self._children.values():
                _kill_group(child.pid)

    def reply(self, message: dict[str, Any]) -> None:
        data = json.dumps(message).encode() + b"\n"
        while data:
            data = data[os.write(self._replies_fd, data) :]

    def _step(self) -> bool:
        for key, _ in self._selector.select(POLL_SECONDS if self._children else None):
            if key.fd == self._requests_fd:
                if not self._read_requests():
                    return False
            elif key.fd in self._children:
                self._reap(self._children[key.fd])
        self._enforce_limits()
        while self._queue and len(self._children) < self._parallel:
            self._start(self._queue.pop(0))
        return True

    def _read_requests(self) -> bool:
        data = os.read(self._requests_fd, 1 << 16)
        if not data:
            return False
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            request = json.loads(line)
            if request.get("cancel"):
                self._cancel(request["id"])
            else:
                self._queue.append(request)
        return True

    def _cancel(self, request_id: int) -> None:
        self._queue = [r for r in self._queue if r["id"] != request_id]
        for child in self._children.values():
            if child.request_id == request_id:
                child.verdict = "cancelled"
                _kill_group(child.pid)

    def _start(self, request: dict[str, Any]) -> None:
        folder = Path(request["folder"])
        folder.mkdir(parents=True, exist_ok=True)
        result_fd = os.memfd_create("xesmith-result", 0)
        sys.stdout.flush()
        sys.stderr.flush()
        started = time.monotonic()
        pid = os.fork()
        if pid == 0:
            _run_child(request, folder, result_fd, os.getppid())
        pidfd = os.pidfd_open(pid)
        child = _Child(
            request_id=request["id"],
            pid=pid,
            pidfd=pidfd,
            result_fd=result_fd,
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
        for child in self._children.values():
            if child.verdict is not None:
                continue
            if now > child.deadline:
                child.verdict = "timeout"
            elif _tree_rss_bytes(child.pid) - child.base_rss_bytes > child.memory_bytes:
                child.verdict = "memory"
            else:
                continue
            _kill_group(child.pid)

    def _reap(self, child: _Child) -> None:
        _, status = os.waitpid(child.pid, 0)
        _kill_group(child.pid)  # what it started and left behind
        self._selector.unregister(child.pidfd)
        del self._children[child.pidfd]
        os.close(child.pidfd)
        size = os.fstat(child.result_fd).st_size
        payload: dict[str, Any] | None = None
        if child.verdict is None and 0 < size <= LARGEST_RESULT_BYTES:
            with contextlib.suppress(ValueError):
                payload = json.loads(os.pread(child.result_fd, size, 0))
        os.close(child.result_fd)
        reply: dict[str, Any] = {
            "id": child.request_id,
            "seconds": time.monotonic() - child.started,
            "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else None,
            "exit_code": os.WEXITSTATUS(status) if os.WIFEXITED(status) else None,
            "stdout_tail": _tail(child.folder / "stdout"),
            "stderr_tail": _tail(child.folder / "stderr"),
        }
        if child.verdict is not None:
            reply["status"] = child.verdict
        elif payload is None:
            reply["status"] = "memory" if _ran_out(reply["stderr_tail"]) else "crash"
        else:
            reply.update(payload)
        self.reply(reply)


def _run_child(request: dict[str, Any], folder: Path, result_fd: int, parent: int) -> None:
    """Becomes the task's own process; never returns."""
    try:
        os.setsid()
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        null = os.open(os.devnull, os.O_RDONLY)
        out = os.open(folder / "stdout", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        err = os.open(folder / "stderr", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        for source, target in ((null, 0), (out, 1), (err, 2)):
            os.dup2(source, target)
        os.closerange(3, result_fd)
        os.closerange(result_fd + 1, 4096)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        # The watcher ends a child by its resident size; this only stops a single huge
        # reservation between two looks.
        space = _vm_bytes() + max(2 * request["memory_bytes"], LARGEST_RESERVATION_BYTES)
        resource.setrlimit(resource.RLIMIT_AS, (space, space))
        os.environ.update(request.get("env", {}))
        gc.freeze()
        outcome = _call(request, folder)
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
        return {"status": "ok", "value": function(request["arguments"], folder)}
    except MemoryError:
        return {"status": "memory"}
    except (Exception, SystemExit) as error:
        return {
            "status": "raised",
            "error": {
                "type": type(error).__name__,
                "message": str(error),
                "traceback": traceback.format_exc(),
            },
        }


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    # Between fork and setsid the child is still in our own group.
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _rss_bytes(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except (OSError, IndexError):
        return 0


def _tree_rss_bytes(pid: int) -> int:
    total = _rss_bytes(pid)
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            children = file.read().split()
    except OSError:
        return total
    return total + sum(_tree_rss_bytes(int(child)) for child in children)


def _vm_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


def _tail(path: Path) -> str:
    try:
        with open(path, "rb") as file:
            file.seek(max(0, path.stat().st_size - TAIL_BYTES))
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def _ran_out(stderr: str) -> bool:
    return any(mark in stderr for mark in ("bad_alloc", "MemoryError", "out of memory"))


def main(config: dict[str, Any]) -> None:
    """`config`: `parallel` children at once, modules to `preload`, folders of `import_path`."""
    replies_fd = os.dup(1)
    requests_fd = os.dup(0)
    os.dup2(2, 1)  # a preloaded module that prints must not write into the replies
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    server = Server(requests_fd, replies_fd, config["parallel"])
    sys.path[:0] = config["import_path"]
    try:
        for name in config["preload"]:
            importlib.import_module(name)
    except BaseException as error:
        server.reply({"fatal": f"{type(error).__name__}: {error}"})
        raise
    gc.collect()
    server.reply({"ready": True})
    server.serve()
