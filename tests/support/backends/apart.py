"""Runs a coroutine from plain code, also from within a running loop: on a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def apart(make: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """The coroutine's result; the caller's loop stands still meanwhile, so keep it short."""
    results: list[T] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            results.append(asyncio.run(make()))
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work, name="apart")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]
