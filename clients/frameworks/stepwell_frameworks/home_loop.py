"""Runs operations of a framework's agent on the event loop of that agent."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

T = TypeVar("T")


async def on_home_loop(home: asyncio.AbstractEventLoop, body: Callable[[], Awaitable[T]]) -> T:
    """Run an operation on its agent's event loop, because a step in a thread has another one."""
    if asyncio.get_running_loop() is home:
        return await body()

    async def there() -> T:
        return await body()

    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(there(), home))


async def called(function: Callable[[], Any]) -> Any:
    """Return what a function returns, awaited if it is awaitable."""
    value = function()
    return await value if inspect.isawaitable(value) else value
