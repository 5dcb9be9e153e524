"""The noun Jobs: work that one thread does in turn, asked for by the server's event loop.

The session's work is made for Ctrl-C: an interrupt in the main thread ends what its workers do
and leaves caches and ledgers whole. Python interrupts the main thread only, so jobs run there
and the event loop in another thread; a request that is cancelled interrupts its job by a signal.
"""

from __future__ import annotations

import asyncio
import queue
import signal
import threading
from collections.abc import Awaitable, Callable
from types import FrameType
from typing import Any, Generic, TypeVar

_T = TypeVar("_T")

Say = Callable[[str], None]


class Cancelled(KeyboardInterrupt):
    """Raised inside a job whose request was cancelled."""


class _Job(Generic[_T]):
    """`told`: called with each step of the work, and with None at its end."""

    def __init__(self, work: Callable[[Say], _T], told: Callable[[str | None], None]) -> None:
        self._work = work
        self._told = told
        self._result: _T | None = None
        self._error: BaseException | None = None
        self.cancelled = False

    def run(self) -> None:
        """Does the work; only an interrupt leaves this, whatever the work raises."""
        try:
            self._result = self._work(self._told)
        except Exception as error:
            self._error = error

    def finish(self) -> None:
        self._told(None)

    def result(self) -> Any:
        if self._error is not None:
            raise self._error
        return self._result


class Jobs:
    """Jobs done one after another by `run`, in the main thread.

    Args:
        dropped: called after a cancelled job, to give up what it may have left half done.
    """

    def __init__(self, dropped: Callable[[], None]) -> None:
        self._dropped = dropped
        self._queue: queue.SimpleQueue[_Job[Any] | None] = queue.SimpleQueue()
        self._running: _Job[Any] | None = None

    async def do(self, work: Callable[[Say], _T], report: Callable[[str], Awaitable[None]]) -> _T:
        """Has `work` done and reports its steps; cancelling this cancels the work.

        Raises what `work` raises.
        """
        loop = asyncio.get_running_loop()
        steps: asyncio.Queue[str | None] = asyncio.Queue()

        def told(step: str | None) -> None:
            loop.call_soon_threadsafe(steps.put_nowait, step)

        job = _Job(work, told)
        self._queue.put(job)
        try:
            while (step := await steps.get()) is not None:
                await report(step)
        except BaseException:
            self._cancel(job)
            raise
        return job.result()

    def _cancel(self, job: _Job[Any]) -> None:
        job.cancelled = True
        if self._running is job:
            main = threading.main_thread().ident
            assert main is not None
            signal.pthread_kill(main, signal.SIGUSR1)

    def end(self) -> None:
        """Lets `run` return after the job that it does."""
        self._queue.put(None)

    def run(self) -> None:
        """Does jobs until `end`. Of the main thread."""
        before = signal.signal(signal.SIGUSR1, self._interrupt)
        try:
            while (job := self._queue.get()) is not None:
                self._do(job)
        finally:
            signal.signal(signal.SIGUSR1, before)

    def _do(self, job: _Job[Any]) -> None:
        try:
            self._running = job
            if not job.cancelled:
                job.run()
            self._running = None
        except Cancelled:
            self._running = None
            self._dropped()
        else:
            job.finish()

    def _interrupt(self, _signal: int, _frame: FrameType | None) -> None:
        # A signal that comes late, when its job has ended, is for nobody.
        if self._running is not None and self._running.cancelled:
            self._running = None
            raise Cancelled
