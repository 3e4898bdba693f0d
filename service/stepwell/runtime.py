"""The runtime of the real world: the one place that reads clocks, makes ids and starts tasks."""

from __future__ import annotations

import asyncio
import random
import secrets
import time
import uuid
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class SystemRuntime:
    """The `Runtime` port over the operating system and the running event loop."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def now_us(self) -> int:
        """Return the wall clock in microseconds since 1970."""
        return time.time_ns() // 1_000

    def monotonic(self) -> float:
        """Return seconds on the system's monotonic clock."""
        return time.monotonic()

    def new_id(self) -> str:
        """Return a random UUID, as text."""
        return str(uuid.uuid4())

    def new_token(self) -> str:
        """Return 128 random bits in hex."""
        return secrets.token_hex(16)

    def random(self) -> float:
        """Return a number in [0, 1)."""
        return random.random()  # noqa: S311 - jitter, not a secret

    def spawn(self, work: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
        """Run it as a task of the running event loop, referenced until it ends."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def sleep(self, seconds: float) -> None:
        """Wait on the event loop."""
        await asyncio.sleep(seconds)
