"""The client of a fork server: submits tasks, gives back what became of them."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import secrets
import socket
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, cast

import xesmith
from xesmith.errors import ToolchainError
from xesmith.worker.channel import Channel, ChannelClosedError
from xesmith.worker.confinement import Confinement, Measure, Name

Status = Literal[
    "ok",
    "raised",
    "crash",
    "timeout",
    "memory",
    "cancelled",
    "lost",
    "forged",
    "stuck",
    "unconfined",
]

#: what a worker may know of our environment: no keys, no proxies
_KEPT_VARIABLES = ("PATH", "HOME", "USER", "LANG", "TMPDIR", "TZ", "LD_LIBRARY_PATH", "CC")
_KEPT_PREFIXES = (
    "LC_", "TRITON_", "ONEAPI_", "ZE_", "SYCL_", "IGC_", "NEO_", "OCLOC_", "CUDA_", "NVIDIA_",
    "OPENBLAS_",
)  # fmt: skip

#: registers our package by its folder, so that nothing else of our environment becomes
#: importable in the toolchain's Python
_BOOTSTRAP = """
import importlib.util, json, sys
spec = importlib.util.spec_from_file_location(
    "xesmith", sys.argv[1] + "/__init__.py", submodule_search_locations=[sys.argv[1]])
module = importlib.util.module_from_spec(spec)
sys.modules["xesmith"] = module
spec.loader.exec_module(module)
from xesmith.worker.server import main
main(json.loads(sys.argv[2]))
"""


@dataclass(frozen=True)
class TaskResult:
    """What became of a task.

    "ok": `value` is what the function returned. "raised": `error` has type, message and
    traceback. "crash": it died by `signal` or left with `exit_code` before giving a result.
    "timeout", "memory": it was ended at its limit. "cancelled": by `WorkerPool.cancel`. "lost":
    the server itself ended before the task did, which says nothing of the task. "forged":
    something other than the task's end wrote where its result belongs. "stuck": it was ended and
    does not end, which a hung device brings about. "unconfined": a required measure could not
    be put into force, and the task was not run.

    `measures`: what held it (see `confinement`); empty where it gave no result. They are what
    the server's child put into force before the task began.
    """

    status: Status
    value: Any = None
    error: dict[str, str] | None = None
    signal: int | None = None
    exit_code: int | None = None
    stdout_tail: str = ""
    stderr_tail: str = ""
    seconds: float = 0.0
    measures: tuple[Measure, ...] = ()

    def __str__(self) -> str:
        """The ending in a few words, for messages."""
        match self.status:
            case "crash":
                how = f"signal {self.signal}" if self.signal else f"exit code {self.exit_code}"
                return f"it ended by {how} before it gave a result"
            case "raised":
                assert self.error is not None
                return f"{self.error['type']}: {self.error['message']}"
            case _:
                return _ENDINGS[self.status]


_ENDINGS: dict[Status, str] = {
    "ok": "it gave a result",
    "timeout": "it was ended at its limit of time",
    "memory": "it was ended at its limit of memory",
    "cancelled": "it was cancelled",
    "lost": "the server that had started it ended while it ran",
    "forged": "something other than its end wrote where its result belongs",
    "stuck": "it was ended and does not end: the device may hang",
    "unconfined": "this machine does not allow a measure that it must be held by",
}


class TaskEndedError(Exception):
    """A conversation is over: `result` says what became of the task."""

    def __init__(self, result: TaskResult) -> None:
        super().__init__(str(result))
        self.result = result


class Conversation:
    """Questions to a running task, and its answers, over a socket that only these two have.

    Each question carries a fresh word, which the answer repeats: what was written ahead of it is
    no answer. What a task says of itself is its claim; what counts is measured elsewhere.
    """

    def __init__(self, pool: WorkerPool, future: Future[TaskResult], channel: Channel) -> None:
        self._pool = pool
        self._future = future
        self._channel = channel

    def ask(self, message: Any, *, timeout_s: float) -> Any:
        """The task's answer to a JSON value.

        Raises:
            TaskEndedError: the task ended, was ended after `timeout_s` ("timeout"), or answered
                otherwise than asked ("forged").
        """
        word = secrets.token_hex(8)
        try:
            self._channel.send({"word": word, "message": message})
            answer = self._channel.receive(timeout_s)
        except TimeoutError:
            raise self._ended("timeout") from None
        except ChannelClosedError:
            raise TaskEndedError(self._future.result()) from None
        except ValueError:
            raise self._ended("forged") from None
        if not (isinstance(answer, dict) and cast("dict[str, Any]", answer).get("word") == word):
            raise self._ended("forged")
        return cast("dict[str, Any]", answer).get("message")

    def finish(self) -> TaskResult:
        """Tells the task that there are no more questions, and waits for its end."""
        self._channel.close()
        return self._future.result()

    def _ended(self, status: Status) -> TaskEndedError:
        """Once it has ended in truth: what comes next may use the device that it had."""
        result = self._pool.end(self._future)
        return TaskEndedError(
            result if result.status == "stuck" else replace(result, status=status, value=None)
        )

    def __enter__(self) -> Conversation:
        return self

    def __exit__(self, *_: object) -> None:
        self._channel.close()
        self._pool.cancel(self._future)


class _Task(Future[TaskResult]):
    def __init__(self, request_id: int) -> None:
        super().__init__()
        self.request_id = request_id


class WorkerPool:
    """A fork server in `python`, started at the first task and again if it should die.

    Args:
        python: the interpreter of the toolchain.
        role: names the server in error messages ("lower", "interpret").
        preload: modules to import once, before any fork.
        import_path: folders, beside the toolchain's own, where tasks and preloads are found.
        parallel: children at once.
        env: added to the server's environment, e.g. TRITON_INTERPRET.
        shared_off: measures of the server itself to leave out, for tests of what they stop.
    """

    def __init__(
        self,
        python: Path,
        role: str,
        *,
        preload: Sequence[str] = (),
        import_path: Sequence[Path] = (),
        parallel: int = 2,
        env: Mapping[str, str] | None = None,
        shared_off: Sequence[Name] = (),
        start_timeout_s: float = 120.0,
    ) -> None:
        self._python = python
        self._role = role
        self._config = {
            "preload": list(preload),
            "import_path": [str(folder) for folder in import_path],
            "parallel": parallel,
            "off": list(shared_off),
        }
        self._env = dict(env or {})
        self._start_timeout_s = start_timeout_s
        self._process: subprocess.Popen[bytes] | None = None
        self._requests: socket.socket | None = None
        self._reader: threading.Thread | None = None
        self._pending: dict[int, tuple[_Task, subprocess.Popen[bytes]]] = {}
        self._ids = itertools.count(1)
        self._lock = threading.Lock()

    def submit(
        self,
        task: str,
        arguments: Mapping[str, Any],
        *,
        folder: Path,
        timeout_s: float = 120.0,
        memory_bytes: int = 4 << 30,
        env: Mapping[str, str] | None = None,
        confinement: Confinement | None = None,
    ) -> Future[TaskResult]:
        """Runs "module:function"(arguments, folder) in a disposable, confined child.

        `folder` is the only one that it may write to; what it leaves there that is neither file
        nor folder is removed.

        `timeout_s` counts from the child's start, not from the queue. `memory_bytes` is what
        the child may use beyond the preloaded server.

        Raises:
            ToolchainError: the server cannot start in this Python.
        """
        return self._submit(
            task, arguments, folder, timeout_s, memory_bytes, env, confinement or Confinement()
        )

    def converse(
        self,
        task: str,
        arguments: Mapping[str, Any],
        *,
        folder: Path,
        timeout_s: float = 600.0,
        memory_bytes: int = 4 << 30,
        env: Mapping[str, str] | None = None,
        confinement: Confinement | None = None,
    ) -> Conversation:
        """As `submit`, for "module:function"(arguments, folder, channel), and asks it questions.

        The function answers them by `channel.serve(handler)`, which returns when there are no
        more. `timeout_s` bounds the whole conversation.
        """
        ours, theirs = socket.socketpair()
        try:
            future = self._submit(
                task,
                arguments,
                folder,
                timeout_s,
                memory_bytes,
                env,
                confinement or Confinement(),
                channel=theirs,
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        return Conversation(self, future, Channel(ours))

    def _submit(
        self,
        task: str,
        arguments: Mapping[str, Any],
        folder: Path,
        timeout_s: float,
        memory_bytes: int,
        env: Mapping[str, str] | None,
        confinement: Confinement,
        channel: socket.socket | None = None,
    ) -> Future[TaskResult]:
        request = {
            "task": task,
            "arguments": dict(arguments),
            "folder": str(folder.resolve()),
            "confinement": confinement.to_json(),
            "channel": channel is not None,
            "timeout_s": timeout_s,
            "memory_bytes": memory_bytes,
            "env": dict(env or {}),
        }
        future = _Task(next(self._ids))
        request["id"] = future.request_id
        with self._lock:
            process = self._running_server()
            self._pending[future.request_id] = (future, process)
            self._send(process, request, channel)
        return future

    def run(self, task: str, arguments: Mapping[str, Any], **limits: Any) -> TaskResult:
        """`submit`, then waits; Ctrl-C while waiting ends the child."""
        future = self.submit(task, arguments, **limits)
        try:
            return future.result()
        except KeyboardInterrupt:
            self.cancel(future)
            raise

    def end(self, future: Future[TaskResult]) -> TaskResult:
        """Ends the task's child, or takes it out of the queue, and waits until that has happened:
        "cancelled", "stuck", or how it ended before."""
        assert isinstance(future, _Task)
        with self._lock:
            _, process = self._pending.get(future.request_id, (None, None))
            if process is not None:
                self._send(process, {"cancel": True, "id": future.request_id})
        return future.result()

    def cancel(self, future: Future[TaskResult]) -> None:
        """The same without the wait."""
        assert isinstance(future, _Task)
        with self._lock:
            _, process = self._pending.pop(future.request_id, (None, None))
            if process is not None:
                self._send(process, {"cancel": True, "id": future.request_id})
        if process is not None:
            future.set_result(TaskResult(status="cancelled"))

    def close(self) -> None:
        """Ends the server and all its children."""
        with self._lock:
            self._discard()
            reader = self._reader
        if reader is not None:
            reader.join()

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _send(
        self,
        process: subprocess.Popen[bytes],
        request: Mapping[str, Any],
        channel: socket.socket | None = None,
    ) -> None:
        assert self._requests is not None
        # When the server has ended, the reader answers every pending task.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            if channel is not None:
                socket.send_fds(self._requests, [b"\n"], [channel.fileno()])
            self._requests.sendall(json.dumps(request).encode() + b"\n")

    def _running_server(self) -> subprocess.Popen[bytes]:
        if self._process is not None:
            return self._process
        self._discard()
        # The server keeps its own handle of the log; ours is only for a start that fails.
        ours, theirs = socket.socketpair()
        with tempfile.TemporaryFile() as log, theirs:
            try:
                process = subprocess.Popen(
                    [
                        str(self._python),
                        "-I",
                        "-c",
                        _BOOTSTRAP,
                        str(Path(xesmith.__file__).resolve().parent),
                        json.dumps(self._config),
                    ],
                    stdin=theirs.fileno(),
                    stdout=subprocess.PIPE,
                    stderr=log,
                    env=scrubbed_environment() | self._env,
                    start_new_session=True,
                )
            except OSError as error:
                ours.close()
                raise self._cannot_start(error.strerror or str(error)) from error
            self._process, self._requests = process, ours
            ready = threading.Event()
            first: list[dict[str, Any]] = []
            self._reader = threading.Thread(
                target=self._read_replies, args=(process, first, ready), daemon=True
            )
            self._reader.start()
            ready.wait(self._start_timeout_s)
            if first and "fatal" not in first[0]:
                return process
            self._discard()
            log.seek(0)
            tail = log.read()[-2000:].decode(errors="replace").strip()
            raise self._cannot_start(
                first[0]["fatal"] if first else (tail.splitlines() or ["no answer"])[-1]
            )

    def _cannot_start(self, cause: str) -> ToolchainError:
        return ToolchainError(
            f"the {self._role} worker cannot start: {cause}",
            where=str(self._python),
            remedy="xesmith doctor",
        )

    def _discard(self) -> None:
        """Ends the server's process, if there is one, and lets go of its pipes."""
        process, self._process = self._process, None
        requests, self._requests = self._requests, None
        if process is None:
            return
        assert requests is not None
        requests.close()
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _read_replies(
        self,
        process: subprocess.Popen[bytes],
        first: list[dict[str, Any]],
        ready: threading.Event,
    ) -> None:
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                reply = json.loads(line)
                if not ready.is_set():
                    first.append(reply)
                    ready.set()
                    continue
                with self._lock:
                    future, _ = self._pending.pop(reply.pop("id"), (None, None))
                if future is not None:
                    future.set_result(_result(reply))
        if not ready.is_set():
            ready.set()
            return
        with self._lock:
            # The pipe closes a moment before the process can be polled as ended: a task that
            # is submitted in between must meet a new server, not this one.
            if self._process is process:
                self._discard()
            mine = [i for i, (_, owner) in self._pending.items() if owner is process]
            orphans = [self._pending.pop(request_id)[0] for request_id in mine]
        for future in orphans:
            future.set_result(
                TaskResult(status="lost", stderr_tail=f"the {self._role} server ended")
            )


def _result(reply: dict[str, Any]) -> TaskResult:
    measures = [Measure(**measure) for measure in reply.pop("measures", [])]
    return TaskResult(measures=tuple(measures), **reply)


def scrubbed_environment() -> dict[str, str]:
    """Our environment less everything that a candidate has no business with."""
    return {
        name: value
        for name, value in os.environ.items()
        if name in _KEPT_VARIABLES or name.startswith(_KEPT_PREFIXES)
    }
