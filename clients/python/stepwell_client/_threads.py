"""Threads for synchronous functions.

Not `concurrent.futures`: its threads are joined when the interpreter ends, so one function that never
returns would keep a drained worker from ending. These are daemons. What a function raises comes back
as a value, because a StopIteration set on a future of the event loop is never delivered.
"""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from collections.abc import Callable

Answer = tuple[object, BaseException | None]
_Job = tuple[asyncio.AbstractEventLoop, "asyncio.Future[Answer]", Callable[[], object]]


class Threads:
    """As many threads as were ever busy at once; the callers bound how many that is."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0
        self._count = 0

    def call(self, function: Callable[[], object]) -> asyncio.Future[Answer]:
        """Call it in a thread: the future brings what it returned, or what it raised."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Answer] = loop.create_future()
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
        """Let the threads end, each when its function has."""
        with self._lock:
            for _ in range(self._count):
                self._jobs.put(None)
            self._count = self._idle = 0

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            loop, future, function = job
            answer: Answer
            try:
                answer = (function(), None)
            except BaseException as error:  # noqa: BLE001 - whatever it is, it is the function's answer
                answer = (None, error)
            with self._lock:
                self._idle += 1
            try:
                loop.call_soon_threadsafe(_deliver, future, answer)
            except RuntimeError:  # The event loop is closed: nobody waits any more.
                return
            del job, future, function, answer


def _deliver(future: asyncio.Future[Answer], answer: Answer) -> None:
    if not future.done():
        future.set_result(answer)
