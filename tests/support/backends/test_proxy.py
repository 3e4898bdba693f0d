"""The proxy: what it loses, cuts and holds back is known to the byte."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from redis.asyncio import Redis as Client
from redis.exceptions import ConnectionError as Cut

from tests.support.backends.child import until
from tests.support.backends.proxy import Proxy
from tests.support.backends.redis import Redis
from tests.support.patience import PATIENCE_S


@pytest.fixture
async def client(redis: Redis, redis_proxy: Proxy) -> AsyncIterator[Client]:
    """One connection, and no second try."""
    # What the library says of itself at first is not what the tests count.
    options: dict[str, Any] = {"retry": None, "driver_info": None, "protocol": 2}
    client = Client(port=redis_proxy.port, single_connection_client=True, **options)
    await client.ping()
    yield client
    await client.aclose()


async def closed(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


async def test_bytes_pass_without_faults(redis_proxy: Proxy, client: Client) -> None:
    long = b"x" * 1_000_000

    await client.set("key", long)

    assert await client.get("key") == long
    assert min(redis_proxy.passed_up, redis_proxy.passed_down) > len(long)
    assert (redis_proxy.accepted, redis_proxy.open_lines, redis_proxy.fired) == (1, 1, 0)


async def test_lost_reply_leaves_the_request_done(
    redis: Redis, redis_proxy: Proxy, client: Client
) -> None:
    redis_proxy.lose_reply_to(b"the-second")
    await client.set("key", "the-first")

    with pytest.raises(Cut):
        await client.set("key", "the-second")
    await redis_proxy.settled()

    assert redis.execute("GET", "key") == "the-second"
    # Once only.
    await client.set("key", "the-second")
    assert redis_proxy.fired == 1


async def test_cut_request_is_never_sent_on(
    redis: Redis, redis_proxy: Proxy, client: Client
) -> None:
    redis_proxy.cut_before(b"the-second")
    await client.set("key", "the-first")

    with pytest.raises(Cut):
        await client.set("key", "the-second")

    assert redis.execute("GET", "key") == "the-first"


async def test_cut_after_sent_lets_so_many_bytes_pass(redis: Redis, redis_proxy: Proxy) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", redis_proxy.port)
    redis_proxy.cut_after_sent(len(b"SET a 1\r\n"))

    writer.write(b"SET a 1\r\nSET b 2\r\n")
    assert await reader.read() == b""
    await redis_proxy.settled()

    assert redis.execute("MGET", "a", "b") == ["1", None]
    assert (redis_proxy.passed_up, redis_proxy.fired) == (9, 1)
    await closed(writer)


async def test_cut_after_received_lets_so_many_bytes_pass(redis: Redis, redis_proxy: Proxy) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", redis_proxy.port)
    redis_proxy.cut_after_received(7)

    writer.write(b"SET a 1\r\nSET b 2\r\n")
    assert await reader.read() == b"+OK\r\n+O"
    await redis_proxy.settled()

    assert redis.execute("MGET", "a", "b") == ["1", "2"]
    await closed(writer)


async def test_cut_under_way_is_finished_though_all_is_healed(redis_proxy: Proxy) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", redis_proxy.port)
    redis_proxy.trickles = True
    redis_proxy.cut_after_received(3)
    writer.write(b"PING\r\n")

    first = await reader.readexactly(1)
    redis_proxy.heal()
    async with asyncio.timeout(PATIENCE_S):
        assert first + await reader.read() == b"+PO"
    await closed(writer)


async def test_replies_vanish_until_the_line_is_lost(
    redis: Redis, redis_proxy: Proxy, client: Client
) -> None:
    redis_proxy.swallow_replies()
    asked = asyncio.ensure_future(client.set("key", "value"))
    await redis_proxy.until_sent(redis_proxy.passed_up + 1)
    await asyncio.to_thread(until, lambda: redis.execute("EXISTS", "key") == 1, PATIENCE_S)
    assert not asked.done()

    redis_proxy.lose_lines()

    with pytest.raises(Cut):
        await asked
    await redis_proxy.settled()
    assert await client.get("key") == b"value"


async def test_nothing_moves_while_it_is_frozen(
    redis: Redis, redis_proxy: Proxy, client: Client
) -> None:
    redis_proxy.freeze()
    asked = asyncio.ensure_future(client.set("key", "value"))
    await asyncio.wait([asked], timeout=0.05)
    assert not asked.done()
    assert redis.execute("GET", "key") is None

    redis_proxy.thaw()

    assert await asked


async def test_requests_vanish_until_the_line_is_lost(
    redis: Redis, redis_proxy: Proxy, client: Client
) -> None:
    redis_proxy.swallow_requests()
    before = redis_proxy.passed_up
    asked = asyncio.ensure_future(client.set("key", "value"))
    await asyncio.wait([asked], timeout=0.05)
    assert not asked.done()

    redis_proxy.lose_lines()

    with pytest.raises(Cut):
        await asked
    assert redis_proxy.passed_up == before
    assert redis.execute("GET", "key") is None
    assert await client.set("key", "value")


async def test_trickled_bytes_come_one_by_one_and_whole(redis_proxy: Proxy, client: Client) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", redis_proxy.port)
    redis_proxy.trickles = True
    writer.write(b"PING\r\n")

    pieces: list[bytes] = []
    while sum(map(len, pieces)) < len(b"+PONG\r\n"):
        pieces.append(await reader.read(100))
    assert b"".join(pieces) == b"+PONG\r\n"
    assert len(pieces) > 1
    long = "x" * 100_000
    await client.set("key", long)
    assert await client.get("key") == long.encode()
    await closed(writer)
