"""The proxy: what it loses, cuts and holds back is known to the byte."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from redis.asyncio import Redis as Client
from redis.exceptions import ConnectionError as Cut

from tests.support.backends.child import until
from tests.support.backends.postgres import Postgres
from tests.support.backends.proxy import Proxy
from tests.support.backends.redis import Redis
from tests.support.backends.tls import Certificates

LONG_S = 30


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


async def test_it_passes_on_what_it_gets(redis_proxy: Proxy, client: Client) -> None:
    long = b"x" * 1_000_000

    await client.set("key", long)

    assert await client.get("key") == long
    assert min(redis_proxy.passed_up, redis_proxy.passed_down) > len(long)
    assert (redis_proxy.accepted, redis_proxy.open_lines, redis_proxy.fired) == (1, 1, 0)


async def test_a_reply_is_lost_and_what_was_asked_is_done(
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


async def test_a_request_is_cut_before_it_is_sent_on(
    redis: Redis, redis_proxy: Proxy, client: Client
) -> None:
    redis_proxy.cut_before(b"the-second")
    await client.set("key", "the-first")

    with pytest.raises(Cut):
        await client.set("key", "the-second")

    assert redis.execute("GET", "key") == "the-first"


async def test_a_commit_is_done_and_its_answer_lost(
    postgres: Postgres, postgres_database: str, postgres_proxy: Proxy
) -> None:
    url = postgres.url(postgres_database, port=postgres_proxy.port)
    connection: Any = await asyncpg.connect(url, ssl=False)
    await connection.execute("CREATE TABLE done (n int)")
    postgres_proxy.lose_reply_to(b"COMMIT")

    with pytest.raises((asyncpg.PostgresConnectionError, asyncpg.InterfaceError, OSError)):
        async with connection.transaction():
            await connection.execute("INSERT INTO done VALUES (1)")
    await postgres_proxy.settled()

    assert postgres.fetch("SELECT n FROM done", database=postgres_database)[0][0] == 1


async def test_a_commit_is_cut_before_it_is_sent_on(
    postgres: Postgres, postgres_database: str, postgres_proxy: Proxy
) -> None:
    url = postgres.url(postgres_database, port=postgres_proxy.port)
    connection: Any = await asyncpg.connect(url, ssl=False)
    await connection.execute("CREATE TABLE done (n int)")
    postgres_proxy.cut_before(b"COMMIT")

    with pytest.raises((asyncpg.PostgresConnectionError, asyncpg.InterfaceError, OSError)):
        async with connection.transaction():
            await connection.execute("INSERT INTO done VALUES (1)")

    assert postgres.fetch("SELECT n FROM done", database=postgres_database) == []


async def test_a_pattern_may_come_in_two_pieces(redis: Redis, redis_proxy: Proxy) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", redis_proxy.port)
    redis_proxy.lose_reply_to(b"key value")
    writer.write(b"SET key")
    await writer.drain()
    await redis_proxy.until_sent(len(b"SET key"))
    writer.write(b" value\r\n")

    assert await reader.read() == b""
    await redis_proxy.settled()

    assert redis.execute("GET", "key") == "value"
    await closed(writer)


async def test_so_many_bytes_are_sent_and_not_one_more(redis: Redis, redis_proxy: Proxy) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", redis_proxy.port)
    redis_proxy.cut_after_sent(len(b"SET a 1\r\n"))

    writer.write(b"SET a 1\r\nSET b 2\r\n")
    assert await reader.read() == b""
    await redis_proxy.settled()

    assert redis.execute("MGET", "a", "b") == ["1", None]
    assert (redis_proxy.passed_up, redis_proxy.fired) == (9, 1)
    await closed(writer)


async def test_so_many_bytes_are_received_and_not_one_more(
    redis: Redis, redis_proxy: Proxy
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", redis_proxy.port)
    redis_proxy.cut_after_received(7)

    writer.write(b"SET a 1\r\nSET b 2\r\n")
    assert await reader.read() == b"+OK\r\n+O"
    await redis_proxy.settled()

    assert redis.execute("MGET", "a", "b") == ["1", "2"]
    await closed(writer)


async def test_a_cut_that_has_begun_is_ended_though_all_is_healed(redis_proxy: Proxy) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", redis_proxy.port)
    redis_proxy.trickles = True
    redis_proxy.cut_after_received(3)
    writer.write(b"PING\r\n")

    first = await reader.readexactly(1)
    redis_proxy.heal()
    async with asyncio.timeout(LONG_S):
        assert first + await reader.read() == b"+PO"
    await closed(writer)


async def test_replies_vanish_until_the_line_is_lost(
    redis: Redis, redis_proxy: Proxy, client: Client
) -> None:
    redis_proxy.swallow_replies()
    asked = asyncio.ensure_future(client.set("key", "value"))
    await redis_proxy.until_sent(redis_proxy.passed_up + 1)
    await asyncio.to_thread(until, lambda: redis.execute("EXISTS", "key") == 1, LONG_S)
    assert not asked.done()

    redis_proxy.lose_lines()

    with pytest.raises(Cut):
        await asked
    await redis_proxy.settled()
    assert await client.get("key") == b"value"


async def test_a_connection_on_which_something_vanished_is_lost_when_all_is_healed(
    redis_proxy: Proxy,
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", redis_proxy.port)
    redis_proxy.swallow_replies()
    writer.write(b"PING\r\n")
    await redis_proxy.until_vanished()

    redis_proxy.heal()
    async with asyncio.timeout(LONG_S):
        assert await reader.read() == b""
    await closed(writer)


async def test_open_connections_are_cut_and_new_ones_are_taken(
    redis_proxy: Proxy, client: Client
) -> None:
    assert redis_proxy.cut() == 1

    with pytest.raises(Cut):
        await client.ping()
    assert await client.ping()
    assert redis_proxy.accepted == 2


async def test_a_cut_may_be_a_reset(redis_proxy: Proxy) -> None:
    redis_proxy.reset = True
    reader, writer = await asyncio.open_connection("127.0.0.1", redis_proxy.port)
    writer.write(b"PING\r\n")
    assert await reader.readline() == b"+PONG\r\n"

    redis_proxy.cut()

    with pytest.raises(ConnectionResetError):
        await reader.read()
    await closed(writer)


async def test_new_connections_are_refused_and_open_ones_go_on(
    redis_proxy: Proxy, client: Client
) -> None:
    await redis_proxy.refuse()
    assert await client.ping()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", redis_proxy.port)

    await redis_proxy.accept()

    _, writer = await asyncio.open_connection("127.0.0.1", redis_proxy.port)
    await closed(writer)


async def test_an_accept_that_is_cut_short_can_be_made_again(redis: Redis) -> None:
    for turns in range(8):
        async with Proxy(redis.port) as proxy:
            await proxy.refuse()
            accepting = asyncio.create_task(proxy.accept())
            for _ in range(turns):
                await asyncio.sleep(0)
            accepting.cancel()
            await asyncio.wait((accepting,))
            await proxy.accept()
            async with Client(port=proxy.port) as client:
                assert await client.ping()


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


async def test_each_chunk_waits_its_delay(redis_proxy: Proxy, client: Client) -> None:
    loop = asyncio.get_running_loop()
    redis_proxy.delay_s = 0.05
    start = loop.time()

    await client.ping()

    # There, and back.
    assert loop.time() - start >= 0.1
    redis_proxy.heal()
    assert redis_proxy.delay_s == 0


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


async def test_what_trickles_comes_byte_by_byte_and_whole(
    redis_proxy: Proxy, client: Client
) -> None:
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


async def test_what_trickles_ends_when_the_line_is_lost(caplog: pytest.LogCaptureFixture) -> None:
    sent, arrived = b"x" * 1_000, asyncio.get_running_loop().create_future()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first = await reader.readexactly(1)
        proxy.lose_lines()
        arrived.set_result(first + await reader.read())
        await closed(writer)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server, Proxy(server.sockets[0].getsockname()[1]) as proxy:
        proxy.trickles = True
        _, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(sent)
        async with asyncio.timeout(LONG_S):
            assert 1 <= len(await arrived) < len(sent)
        await proxy.settled()
        await closed(writer)

    assert caplog.records == []


async def test_with_jitter_separate_connections_overtake_each_other(redis: Redis) -> None:
    overtaken = 0
    async with Proxy(redis.port) as proxy:
        proxy.jitter_s = 0.02
        clients = [Client(port=proxy.port, single_connection_client=True) for _ in range(2)]
        for client in clients:
            await client.ping()
        for number in range(20):
            first = asyncio.ensure_future(clients[0].getset("last", f"{number} first"))
            second = asyncio.ensure_future(clients[1].getset("last", f"{number} second"))
            await asyncio.gather(first, second)
            overtaken += first.result() == f"{number} second".encode()
        for client in clients:
            await client.aclose()
    assert 0 < overtaken < 20


async def test_it_speaks_tls_for_a_server_that_does_not(redis: Redis, tmp_path: Path) -> None:
    certificates = Certificates(tmp_path / "tls")
    async with Proxy(redis.port, certificates=certificates) as proxy:
        authority = str(certificates.authority)
        url = redis.url(port=proxy.port, scheme="rediss", ssl_ca_certs=authority)
        async with Client.from_url(url) as client:
            assert await client.ping()
        async with Client.from_url(url.replace("rediss", "redis").partition("/?")[0]) as plain:
            with pytest.raises(Cut):
                await plain.ping()


async def test_a_server_that_is_down_looks_like_a_cut(redis: Redis) -> None:
    async with Proxy(Path("/nonexistent/s")) as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        assert await reader.read() == b""
        await closed(writer)
