"""Stores that the embedded runs of one event loop share: one for each URL, open while any run uses it.

A SQLite file, for example, can be opened only once in a process.
"""

from __future__ import annotations

import asyncio

from stepwell.core.port import Runtime, Store
from stepwell.store.opener import open_store


class _Shared:
    """A URL's store. The lock is held while the store is being opened or closed."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.store: Store | None = None
        self.users = 0


_Key = tuple[asyncio.AbstractEventLoop, str]

_shared: dict[_Key, _Shared] = {}


def _key(url: str) -> _Key:
    return asyncio.get_running_loop(), url


async def acquire(url: str, runtime: Runtime, *, create: bool) -> Store:
    """Return the URL's store, opened by the first caller. Raises what `open_store` raises."""
    key = _key(url)
    one = _shared.setdefault(key, _Shared())
    one.users += 1
    try:
        async with one.lock:
            if one.store is None:
                one.store = await open_store(url, runtime=runtime, create=create)
            return one.store
    except BaseException:
        _leave(key, one)
        raise


async def release(url: str, store: Store) -> None:
    """Release the store; the last user closes it."""
    key = _key(url)
    one = _shared[key]
    try:
        async with one.lock:
            if one.users == 1:
                one.store = None
                await store.close()
    finally:
        _leave(key, one)


def _leave(key: _Key, one: _Shared) -> None:
    one.users -= 1
    if not one.users:
        _shared.pop(key, None)
