"""Jobs: done in the main thread in turn, with their steps, errors and interrupts."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from xesmith.errors import UsageError
from xesmith.mcp.jobs import Jobs

Say = Callable[[str], None]


def served(jobs: Jobs, client: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """Runs `client` in an event loop of another thread while this one does the jobs."""
    result: list[Any] = []

    def listen() -> None:
        try:
            result.append(asyncio.run(client()))
        except Exception as error:
            result.append(error)
        finally:
            jobs.end()

    thread = threading.Thread(target=listen)
    thread.start()
    jobs.run()
    thread.join()
    return result[0]


def test_work_is_done_in_the_main_thread_and_its_steps_are_reported() -> None:
    jobs, steps = Jobs(dropped=lambda: None), list[str]()

    async def report(step: str) -> None:
        steps.append(step)

    def work(say: Say) -> bool:
        say("one")
        say("two")
        return threading.current_thread() is threading.main_thread()

    assert served(jobs, lambda: jobs.do(work, report)) is True
    assert steps == ["one", "two"]


def test_what_the_work_raises_reaches_who_asked() -> None:
    jobs = Jobs(dropped=lambda: None)

    async def report(_: str) -> None:
        pass

    def work(_: Say) -> None:
        raise UsageError("no such thing")

    error = served(jobs, lambda: jobs.do(work, report))
    assert isinstance(error, UsageError)
    assert error.what == "no such thing"


def test_a_cancelled_request_interrupts_its_work_and_the_next_is_done() -> None:
    dropped: list[str] = []
    jobs = Jobs(dropped=lambda: dropped.append("dropped"))
    interrupted: list[type[BaseException]] = []

    def endless(say: Say) -> None:
        try:
            say("begun")  # the interrupt may come before it returns
            threading.Event().wait()
        except KeyboardInterrupt as interrupt:
            interrupted.append(type(interrupt))
            raise

    async def client() -> str:
        begun = asyncio.Event()

        async def report(_: str) -> None:
            begun.set()

        asked = asyncio.create_task(jobs.do(endless, report))
        await begun.wait()
        asked.cancel()
        return await jobs.do(lambda _: "next", report)

    assert served(jobs, client) == "next"
    assert dropped == ["dropped"]
    assert [kind.__name__ for kind in interrupted] == ["Cancelled"]


def test_a_signal_that_comes_late_interrupts_nobody() -> None:
    jobs = Jobs(dropped=lambda: pytest.fail("nothing was cancelled"))

    async def report(_: str) -> None:
        pass

    def work(_: Say) -> str:
        signal.raise_signal(signal.SIGUSR1)
        return "done"

    before = signal.getsignal(signal.SIGUSR1)
    assert served(jobs, lambda: jobs.do(work, report)) == "done"
    assert signal.getsignal(signal.SIGUSR1) is before
