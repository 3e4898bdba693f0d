"""Fields that a newer version has written into a row of Redis stay there when this one writes it again."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import msgspec
import pytest

from stepwell.runtime import SystemRuntime
from stepwell_drivers.redis.base import Base
from stepwell_drivers.redis.opening import opened
from stepwell_drivers.redis.store import RedisStore
from stepwell_drivers.redis.url import parse
from stepwell_testkit.conformance import builders as b
from tests.contract.drivers.newer import unknown_fields_stay
from tests.support.backends.redis import Redis

NEWER = {"newer": {"deep": [1.5, None, "é", b"\x00\xff"]}}
FIELDS = ("run", "t:a", f"e:{b.STEP}", "i:q")
_encode = msgspec.msgpack.encode
_decode = msgspec.msgpack.Decoder(dict[str, Any]).decode


@pytest.fixture(scope="module")
def server(backends: None) -> Iterator[Redis]:
    with Redis(appendfsync=None) as running:
        yield running


@pytest.fixture
async def door(server: Redis) -> AsyncIterator[tuple[RedisStore, Base]]:
    server.flush()
    found = await opened(parse(server.url()), SystemRuntime())
    store = RedisStore(found)
    yield store, found.base
    await store.close()


async def row(base: Base, field: str) -> tuple[bytes, dict[str, Any]]:
    """Return what stands before a record in a row, and the record."""
    run = base.run(b.TENANT, b.RUN)
    found: bytes = await base.read(run, ("HGET", run.rows, field))
    size = {"e": len(found) - len(found.split(b"\0", 3)[-1]), "i": 32}.get(field[0], 0)
    return found[:size], _decode(found[size:])


@pytest.mark.parametrize("since", [0, 1])
async def test_unknown_fields_stay_when_a_row_is_written_again(
    door: tuple[RedisStore, Base], since: int
) -> None:
    store, base = door

    async def read(field: str) -> dict[str, Any]:
        return (await row(base, field))[1]

    async def put(field: str, value: dict[str, Any]) -> None:
        run, (before, _) = base.run(b.TENANT, b.RUN), await row(base, field)
        await base.read(run, ("HSET", run.rows, field, before + _encode(value)))

    await unknown_fields_stay(store, FIELDS, read, put, NEWER, since)
