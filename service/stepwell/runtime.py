"""The runtime of the real world: the only place that reads clocks, makes ids and starts tasks."""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
_VARIANTS = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}
"""A UUID's variant digit, by a random digit, of which two bits are free."""


class SystemRuntime:
    """The `Runtime` port over the operating system and the running event loop."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._random_hex = ""
        self._drawn = 0

    def now_us(self) -> int:
        """Return the wall clock in microseconds since 1970."""
        return time.time_ns() // 1_000

    monotonic = staticmethod(time.monotonic)
    """Return seconds on the system's monotonic clock."""

    def new_id(self) -> str:
        """Return a random UUID, as text."""
        # Formatted by hand: each decision needs an id, and a uuid.UUID takes several times as long.
        drawn = self.new_token()
        variant = _VARIANTS[drawn[16]]
        return f"{drawn[:8]}-{drawn[8:12]}-4{drawn[13:16]}-{variant}{drawn[17:20]}-{drawn[20:]}"

    def new_token(self) -> str:
        """Return 128 random bits in hex."""
        # Random bytes are read a page at a time: each system call releases the interpreter's lock,
        # and getting it back from a busy writer thread costs more than a whole commit.
        if self._drawn == len(self._random_hex):
            self._random_hex, self._drawn = secrets.token_hex(16 * 256), 0
        self._drawn += 32
        return self._random_hex[self._drawn - 32 : self._drawn]

    def random(self) -> float:
        """Return a number in [0, 1)."""
        return random.random()  # noqa: S311 - jitter, not a secret

    def spawn(self, work: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
        """Run a coroutine as a task of the running event loop, referenced until it ends."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def sleep(self, seconds: float) -> None:
        """Wait on the event loop."""
        await asyncio.sleep(seconds)
