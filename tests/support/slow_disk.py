"""A disk that stands still until a test lets it go: calls to it are caught in whatever thread makes them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import pytest


class SlowDisk:
    """Stands in the place of a function that waits for the disk."""

    def __init__(self, module: ModuleType, name: str) -> None:
        self._call = getattr(module, name)
        self._loop = asyncio.get_running_loop()
        self._met = asyncio.Event()
        self._over = threading.Event()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # On the event loop nobody could ever let it go.
        assert threading.current_thread() is not threading.main_thread()
        self._loop.call_soon_threadsafe(self._met.set)
        self._over.wait()
        return self._call(*args, **kwargs)

    async def met(self) -> None:
        """Wait until somebody waits for the disk."""
        await self._met.wait()

    def let_go(self) -> None:
        """Have the disk go on, from now on as fast as it is."""
        self._over.set()


@contextmanager
def slow(monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str) -> Iterator[SlowDisk]:
    """Let a function of a module stand still."""
    disk = SlowDisk(module, name)
    with monkeypatch.context() as rigged:
        rigged.setattr(module, name, disk)
        try:
            yield disk
        finally:
            disk.let_go()
