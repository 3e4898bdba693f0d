"""Asking again: a store under faults, or with limits as short as a busy machine, may not answer at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from stepwell.core.records.errors import StoreError

T = TypeVar("T")

PAUSE_S = 0.01
PATIENCE_S = 60.0
"""Nothing waits for it to pass: it ends a test in which nothing goes on."""


async def insisting(ask: Callable[[], Awaitable[T]]) -> T:
    """Ask until the store answers.

    Raises:
        TimeoutError: it has not within `PATIENCE_S`.
    """
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                return await ask()
            except StoreError:
                await asyncio.sleep(PAUSE_S)
