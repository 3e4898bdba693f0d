"""Threads for synchronous functions.

These are daemon threads. The threads of `concurrent.futures` are joined when the interpreter ends,
so a function that never returns would keep a drained worker alive. An exception comes back as a
value, because an event loop's future can't deliver a StopIteration.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
import queue
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

STUCK_SECONDS = 10
"""The time after which a cancelled function that has not ended is warned of."""

CallResult = tuple[object, BaseException | None]
"""A function's return value, and the exception that it raised."""
InThread = Callable[[Callable[[], object]], "asyncio.Future[CallResult]"]
"""Calls a function in a thread; used on the event loop."""
_log = logging.getLogger("stepwell_client.execution")
_Job = tuple[asyncio.AbstractEventLoop, "asyncio.Future[CallResult]", Callable[[], object]]


class Threads:
    """A pool that grows to as many threads as were ever busy at once; its callers limit that."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0
        self._count = 0

    def call(self, function: Callable[[], object]) -> asyncio.Future[CallResult]:
        """Call the function in a thread; return a future of its result."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[CallResult] = loop.create_future()
        context = contextvars.copy_context()
        with self._lock:
            if self._idle:
                self._idle -= 1
            else:
                self._count += 1
                name = f"{self._name}-{self._count}"
                threading.Thread(target=self._work, name=name, daemon=True).start()
        self._jobs.put((loop, future, lambda: context.run(function)))
        return future

    def close(self) -> None:
        """End the threads, each after its function has ended."""
        with self._lock:
            for _ in range(self._count):
                self._jobs.put(None)
            self._count = self._idle = 0

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            loop, future, function = job
            result = _result_of(function)
            with self._lock:
                self._idle += 1
            try:
                loop.call_soon_threadsafe(_deliver, future, result)
            except RuntimeError:  # The event loop is closed, so nobody waits.
                return
            del job, future, function, result


class WaitingThread:
    """A thread that waits for a coroutine of the event loop, and runs functions for it meanwhile."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()

    def call(self, function: Callable[[], object]) -> asyncio.Future[CallResult]:
        """Call the function in the waiting thread; used on the event loop, like `Threads.call`."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[CallResult] = loop.create_future()
        context = contextvars.copy_context()
        self._jobs.put((loop, future, lambda: context.run(function)))
        return future

    def wait(self, work: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop) -> T:
        """Run a coroutine on the event loop, and wait for its end in this thread."""
        running = asyncio.run_coroutine_threadsafe(work, loop)
        running.add_done_callback(lambda _: self._jobs.put(None))
        while (job := self._jobs.get()) is not None:
            _, future, function = job
            loop.call_soon_threadsafe(_deliver, future, _result_of(function))
        return running.result()


async def finished(
    future: asyncio.Future[CallResult], on_cancel: Callable[[], None] = lambda: None
) -> Any:
    """Return or raise what a function in a thread returned or raised.

    A function in a thread can't be cancelled, so CancelledError is raised once it has ended, or at
    the second cancellation. A function that takes long for that is warned of, as it keeps a place.
    """
    try:
        value, error = await asyncio.shield(future)
    except asyncio.CancelledError:
        on_cancel()
        await asyncio.wait([future], timeout=STUCK_SECONDS)
        if not future.done():
            _log.warning(
                "a function goes on in its thread %d s after its step was cancelled or timed out; it"
                " holds a place of the worker until it returns",
                STUCK_SECONDS,
            )
        await asyncio.shield(future)
        raise
    if error is not None:
        raise error
    return value


def whole(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function; run a generator to its end here, in a thread where it may block."""
    value = function(*arguments)
    return list(value) if inspect.isgenerator(value) else value


def _result_of(function: Callable[[], object]) -> CallResult:
    try:
        return (function(), None)
    except BaseException as error:  # noqa: BLE001 - every exception is the function's result
        return (None, error)


def _deliver(future: asyncio.Future[CallResult], result: CallResult) -> None:
    if not future.done():
        future.set_result(result)
