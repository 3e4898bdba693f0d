"""The thread that waits for the disk, so that the event loop doesn't."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import Any, NamedTuple, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class _Call(NamedTuple):
    """A function to call, and the future of its result."""

    function: Callable[[], Any]
    done: asyncio.Future[Any]


class DiskThread:
    """Runs one call after another; each caller awaits its result."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._thread = Thread(target=self._run, name="stepwell-write", daemon=True)
        self._thread.start()

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a function in the thread, and return its result.

        The function runs even if the caller is cancelled.
        """
        call = _Call(partial(function, *args, **kwargs), self._loop.create_future())
        self._calls.put(call)
        found: T = await call.done
        return found

    def close(self) -> None:
        """End the thread, which must be idle."""
        self._calls.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            answer, error = None, None
            try:
                answer = call.function()
            except Exception as raised:  # noqa: BLE001 - it is raised where it is waited for
                error = raised
            try:
                self._loop.call_soon_threadsafe(_settle, call.done, answer, error)
            except RuntimeError:
                return  # On a closed loop nobody waits.


def _settle(done: asyncio.Future[Any], answer: Any, error: Exception | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(answer)
    else:
        done.set_exception(error)
