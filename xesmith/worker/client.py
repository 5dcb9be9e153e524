"""The client of a fork server: submits tasks, gives back what became of them."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import xesmith
from xesmith.errors import ToolchainError

Status = Literal["ok", "raised", "crash", "timeout", "memory", "cancelled", "lost"]

#: what a worker may know of our environment: no keys, no proxies
_KEPT_VARIABLES = ("PATH", "HOME", "USER", "LANG", "TMPDIR", "TZ", "LD_LIBRARY_PATH", "CC")
_KEPT_PREFIXES = ("LC_", "TRITON_", "ONEAPI_", "ZE_", "SYCL_", "CUDA_", "NVIDIA_", "OPENBLAS_")

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
    the server itself ended before the task did, which says nothing of the task.
    """

    status: Status
    value: Any = None
    error: dict[str, str] | None = None
    signal: int | None = None
    exit_code: int | None = None
    stdout_tail: str = ""
    stderr_tail: str = ""
    seconds: float = 0.0


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
        start_timeout_s: float = 120.0,
    ) -> None:
        self._python = python
        self._role = role
        self._config = {
            "preload": list(preload),
            "import_path": [str(folder) for folder in import_path],
            "parallel": parallel,
        }
        self._env = dict(env or {})
        self._start_timeout_s = start_timeout_s
        self._process: subprocess.Popen[bytes] | None = None
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
    ) -> Future[TaskResult]:
        """Runs "module:function"(arguments, folder) in a disposable child.

        `timeout_s` counts from the child's start, not from the queue. `memory_bytes` is what
        the child may use beyond the preloaded server.

        Raises:
            ToolchainError: the server cannot start in this Python.
        """
        request = {
            "task": task,
            "arguments": dict(arguments),
            "folder": str(folder),
            "timeout_s": timeout_s,
            "memory_bytes": memory_bytes,
            "env": dict(env or {}),
        }
        future = _Task(next(self._ids))
        request["id"] = future.request_id
        with self._lock:
            process = self._running_server()
            self._pending[future.request_id] = (future, process)
            self._send(process, request)
        return future

    def run(self, task: str, arguments: Mapping[str, Any], **limits: Any) -> TaskResult:
        """`submit`, then waits; Ctrl-C while waiting ends the child."""
        future = self.submit(task, arguments, **limits)
        try:
            return future.result()
        except KeyboardInterrupt:
            self.cancel(future)
            raise

    def cancel(self, future: Future[TaskResult]) -> None:
        """Ends the task's child, or takes it out of the queue."""
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

    def _send(self, process: subprocess.Popen[bytes], request: Mapping[str, Any]) -> None:
        assert process.stdin is not None
        # When the server has ended, the reader answers every pending task.
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()

    def _running_server(self) -> subprocess.Popen[bytes]:
        if self._process is not None:
            return self._process
        self._discard()
        # The server keeps its own handle of the log; ours is only for a start that fails.
        with tempfile.TemporaryFile() as log:
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
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    env=scrubbed_environment() | self._env,
                    start_new_session=True,
                )
            except OSError as error:
                raise self._cannot_start(error.strerror or str(error)) from error
            self._process = process
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
        if process is None:
            return
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
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
                    future.set_result(TaskResult(**reply))
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


def scrubbed_environment() -> dict[str, str]:
    """Our environment less everything that a candidate has no business with."""
    return {
        name: value
        for name, value in os.environ.items()
        if name in _KEPT_VARIABLES or name.startswith(_KEPT_PREFIXES)
    }
