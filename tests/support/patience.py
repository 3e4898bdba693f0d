"""Waits of the tests: for conditions, never for durations, and one patience for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from stepwell.core.records.errors import StoreError

T = TypeVar("T")

PAUSE_S = 0.01
PATIENCE_S = 60.0
"""Nothing waits for it to pass: it ends a test in which nothing goes on."""


async def until(condition: Callable[[], Awaitable[bool] | bool]) -> None:
    """Wait until the condition holds.

    Raises:
        TimeoutError: it doesn't within `PATIENCE_S`.
    """
    async with asyncio.timeout(PATIENCE_S):
        while True:
            now = condition()
            if now if isinstance(now, bool) else await now:
                return
            await asyncio.sleep(PAUSE_S)


async def insisting(ask: Callable[[], Awaitable[T]]) -> T:
    """Ask until the store answers: under faults, or with short limits, it may not at once.

    Raises:
        TimeoutError: it has not within `PATIENCE_S`.
    """
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                return await ask()
            except StoreError:
                await asyncio.sleep(PAUSE_S)
