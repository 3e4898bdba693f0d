"""Opens a Redis store by its URL."""

from __future__ import annotations

from stepwell.core.port import Runtime, Store
from stepwell_drivers.redis.opening import opened
from stepwell_drivers.redis.store import RedisStore
from stepwell_drivers.redis.url import parse


async def open_store(url: str, *, runtime: Runtime) -> Store:
    """Open the store that the URL names; it is created if it isn't there.

    Raises:
        StoreRefused: the URL is wrong, or the servers can't be used as they are.
        StoreUnavailable: they can't be reached.
    """
    store = RedisStore(await opened(parse(url), runtime))
    try:
        await store.begin()
    except BaseException:
        await store.close()
        raise
    return store
