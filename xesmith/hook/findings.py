"""Findings of a growing trace as log lines in the process that compiles.

MLIR cannot be loaded beside Triton, so a child process of low priority reads the trace
(`xesmith.hook.watch`) and tells its findings through a pipe; a thread logs them. The child is
started when a kernel was recorded and nobody reads the trace yet: a lock that the child holds
lets one process of all that share the trace have it. It ends with its parent, whose end of the
other pipe it watches.

Runs in users' processes: standard library only.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import json
import logging
import os
import subprocess
import sys
import threading
from pathlib import Path

from xesmith.hook.settings import CACHE_MANAGER, FOLDER

_logger = logging.getLogger("xesmith.hook")

_LOCK = ".findings.lock"
_LOG = ".findings.log"
_LEVELS = {"note": logging.INFO}  # all others: logging.WARNING


class FindingsReader:
    """Has the findings of a trace logged.

    Args:
        trace: the folder.
        python: the interpreter that has xesmith's packages; "" or "1" for this one.
    """

    def __init__(self, trace: Path, python: str) -> None:
        self._trace = trace
        self._python = sys.executable if python in ("", "1") else python
        self._lock = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._alive: int | None = None  # our end of the child's standard input
        self._told: int | None = None  # our end of its standard output
        self._recorded = self._judged = 0
        self._is_broken = False
        self._leave = self._say_what_is_left
        atexit.register(self._leave)

    def wake(self) -> None:
        """A kernel was recorded. Returns at once; starts the child where none reads the trace.

        Raises:
            OSError: the child cannot be started.
        """
        with self._lock:
            self._recorded += 1
            if self._child is not None or self._is_broken:
                return
            lock = os.open(self._trace / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o644)
            try:
                with contextlib.suppress(BlockingIOError):  # another process has it
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    self._start(lock)
            finally:
                os.close(lock)

    def _start(self, lock: int) -> None:
        environment = {k: v for k, v in os.environ.items() if not k.startswith(FOLDER)}
        environment.pop(CACHE_MANAGER, None)
        child_in, self._alive = os.pipe()
        self._told, child_out = os.pipe()
        try:
            with (self._trace / _LOG).open("wb") as log:
                self._child = subprocess.Popen(
                    [self._python, "-m", "xesmith.hook.watch", str(self._trace)],
                    stdin=child_in,
                    stdout=child_out,
                    stderr=log,
                    pass_fds=(lock,),
                    env=environment,
                    start_new_session=True,  # Ctrl-C is the program's
                )
        except OSError:
            self._is_broken = True
            os.close(self._alive)
            os.close(self._told)
            self._alive = self._told = None
            raise
        finally:
            os.close(child_in)
            os.close(child_out)
        arguments = (self._child, self._told)
        threading.Thread(target=self._log, args=arguments, daemon=True).start()

    def _log(self, child: subprocess.Popen[bytes], told: int) -> None:
        rest = b""
        while data := os.read(told, 1 << 16):
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                self._say(json.loads(line))
        code = child.wait()
        with self._lock:
            if self._child is not child:
                return  # closed
            self._is_broken = True
            self._close_pipes()
        lines = (self._trace / _LOG).read_text(errors="replace").splitlines()
        said = lines[-1] if lines else f"exit code {code}"
        _logger.warning("xesmith hook: no findings are logged any more: %s", said[:300])

    def _say(self, told: dict[str, str]) -> None:
        if "judged" in told:
            self._judged += 1
        else:
            _logger.log(_LEVELS.get(told["severity"], logging.WARNING), "%s", told["text"])

    def _say_what_is_left(self) -> None:
        left = self._recorded - self._judged
        if self._child is not None and not self._is_broken and left > 0:
            _logger.warning(
                "xesmith hook: the program ends before the findings of %d kernels are known: "
                "xesmith trace show %s --new",
                left,
                self._trace,
            )

    def close(self) -> None:
        """Ends the child."""
        atexit.unregister(self._leave)
        with self._lock:
            self._child = None
            self._is_broken = True
            if self._alive is not None:
                os.close(self._alive)  # the thread closes the other when the child has ended
                self._alive = None

    def _close_pipes(self) -> None:
        for end in (self._alive, self._told):
            if end is not None:
                os.close(end)
        self._alive = self._told = None

    def forget(self) -> None:
        """In a forked child of this process: the reader is its parent's, and so are the counts."""
        self._lock = threading.Lock()
        if self._child is not None:
            self._child.returncode = 0  # not ours to wait for
            self._close_pipes()
            self._child = None
        self._recorded = self._judged = 0
