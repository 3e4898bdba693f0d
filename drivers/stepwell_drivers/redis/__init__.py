"""`redis://`, `rediss://`, `redis+cluster://`, `rediss+cluster://`: Redis 7 and Valkey 8 or newer.

Rows lie in numbered partitions, each under one hash tag; a script commits a run's rows, its events and
what is due of it in one go. Nothing needs a module, and nothing rests on the expiry of keys. What an
acknowledgement survives is read from the servers at start: see `facts.py`.
"""

from __future__ import annotations

from stepwell.core.port import Runtime, Store
from stepwell_drivers.redis.opening import opened
from stepwell_drivers.redis.store import RedisStore
from stepwell_drivers.redis.url import parse


async def open_store(url: str, *, runtime: Runtime) -> Store:
    """Open the store that the URL names; it is born if it isn't there.

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
