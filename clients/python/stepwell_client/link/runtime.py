"""The clock, ids, random numbers, tasks and sleeping.

All other code is passed a `Runtime`, so that a simulation or a test can control them.
"""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from collections.abc import Coroutine
from datetime import UTC, datetime
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Chance(Protocol):
    """The source of jitter."""

    def random(self) -> float:
        """Return a number in [0, 1)."""
        ...


class WorkerRuntime(Chance, Protocol):
    """The runtime that a worker needs: the client's, or in an embedded run the server's."""

    def monotonic(self) -> float:
        """Return seconds on a monotonic clock. Any thread may call."""
        ...

    def new_id(self) -> str:
        """Return a random UUID, as text."""
        ...

    def spawn(self, work: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
        """Run a coroutine as a task of the running event loop, referenced until it ends."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait on the event loop."""
        ...


class Runtime:
    """The operating system and the running event loop."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def monotonic(self) -> float:
        """Return seconds on the system's monotonic clock. Any thread may call."""
        return time.monotonic()

    def new_id(self) -> str:
        """Return a random UUID, as text."""
        return str(uuid.uuid4())

    def random(self) -> float:
        """Return a number in [0, 1)."""
        return random.random()  # noqa: S311 - jitter, not a secret

    def spawn(self, work: Coroutine[Any, Any, T], *, name: str | None = None) -> asyncio.Task[T]:
        """Run a coroutine as a task of the running event loop, referenced until it ends."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def sleep(self, seconds: float) -> None:
        """Wait on the event loop."""
        await asyncio.sleep(seconds)

    def block(self, seconds: float) -> None:
        """Wait in this thread."""
        time.sleep(seconds)


def utc_now() -> datetime:
    """Return the machine's wall-clock time, for a date that another machine gave. Any thread may call."""
    return datetime.now(UTC)
