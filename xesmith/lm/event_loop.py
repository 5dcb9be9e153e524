"""One event loop for all requests, in a thread of its own.

Whoever waits for a reply waits in its own thread, where Ctrl-C arrives, and stops waiting at
the deadline whatever the loop is doing.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import contextlib
import threading
from collections.abc import Coroutine
from functools import cache
from typing import Any, TypeVar

_Value = TypeVar("_Value")
_CLOSING_SECONDS = 2.0


def run(work: Coroutine[Any, Any, _Value], timeout_s: float) -> _Value:
    """The coroutine's value; it is cancelled when the caller is interrupted or time is up.

    Raises:
        TimeoutError: it did not end within `timeout_s` seconds.
    """
    future = asyncio.run_coroutine_threadsafe(work, _loop())
    try:
        return future.result(timeout_s)
    except concurrent.futures.TimeoutError:
        raise TimeoutError from None
    finally:
        future.cancel()


@cache
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="xesmith-lm", daemon=True)
    thread.start()
    atexit.register(_close, loop, thread)
    return loop


def _close(loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
    with contextlib.suppress(Exception):
        asyncio.run_coroutine_threadsafe(_cancel_all(), loop).result(_CLOSING_SECONDS)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(_CLOSING_SECONDS)
    if not thread.is_alive():
        loop.close()


async def _cancel_all() -> None:
    """Ends what an interrupted caller has left behind, and LiteLLM's own tasks."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=_CLOSING_SECONDS / 2)
