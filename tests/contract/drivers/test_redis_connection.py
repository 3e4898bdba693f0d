"""One connection shared by many: whose reply is whose, what had left when it ended, and who is refused.

The peer here is a bare socket that says what it is sent to, byte by byte: no server can be brought to.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

import pytest

from stepwell.runtime import SystemRuntime
from stepwell_drivers.redis.errors import Refusal
from stepwell_drivers.redis.network import Network
from stepwell_drivers.redis.url import Place, parse
from stepwell_drivers.redis.wire import Connection, Lost, Refused, Reply, connect

T = TypeVar("T")

PONG = b"+PONG\r\n"
REFUSALS = ["NOSCRIPT No matching script.", "ASK 3999 :6381", "ERR unknown command", "ODD"]


class Peer:
    """A server under test: accepts the greeting, then sends what a test asks for."""

    def __init__(self, greeting: bytes) -> None:
        self.greeting = greeting
        self.received = bytearray()
        self.writer: asyncio.StreamWriter | None = None
        self.news = asyncio.Event()
        self.met = asyncio.Event()
        self.left = asyncio.Event()

    @asynccontextmanager
    async def listening(self, timeout_ms: int = 10_000) -> AsyncIterator[Place]:
        async with await asyncio.start_server(self.serve, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            yield parse(f"redis://127.0.0.1:{port}?timeout_ms={timeout_ms}")

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        self.met.set()
        greeted, named = b"", 0
        while not greeted.endswith(b"PING\r\n"):
            data = await reader.read(65_536)
            if not data:
                break
            greeted += data
            # Who we are is sent ahead of the greeting's last command.
            sent = greeted.count(b"SETINFO")
            writer.write(b"+OK\r\n" * (sent - named))
            named = sent
        writer.write(self.greeting)
        with suppress(ConnectionResetError):
            while data := await reader.read(65_536):
                self.received += data
                self.news.set()
        self.left.set()
        writer.close()

    def send(self, words: bytes) -> None:
        assert self.writer is not None
        self.writer.write(words)

    async def hears(self, words: bytes) -> None:
        async with asyncio.timeout(10):
            while words not in self.received:
                self.news.clear()
                await self.news.wait()

    def hang_up(self) -> None:
        assert self.writer is not None
        self.writer.close()


async def connected(place: Place, on_message: Callable[[Reply], None] | None) -> Connection:
    """Connect until there is an answer in time, however short that is."""
    async with asyncio.timeout(10):
        while True:
            try:
                return await connect(place, place.seeds[0], SystemRuntime(), on_message)
            except Lost:
                await asyncio.sleep(0)


@asynccontextmanager
async def met(
    greeting: bytes = PONG, *, timeout_ms: int = 10_000, received: list[Reply] | None = None
) -> AsyncIterator[tuple[Peer, Connection]]:
    peer = Peer(greeting)
    async with peer.listening(timeout_ms) as place:
        on_message = None if received is None else received.append
        connection = await connected(place, on_message)
        try:
            yield peer, connection
        finally:
            await connection.close()


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1_000])
async def test_replies_are_whole_however_the_bytes_come(size: int) -> None:
    wire = (
        b"+OK\r\n:-7\r\n$5\r\na\r\nbc\r\n$0\r\n\r\n$-1\r\n*-1\r\n*0\r\n"
        b"*2\r\n*2\r\n:1\r\n$1\r\nx\r\n*1\r\n*0\r\n:9\r\n"
    )
    wanted = [b"OK", -7, b"a\r\nbc", b"", None, None, [], [[1, b"x"], [[]]], 9]
    async with met() as (peer, connection):
        asked = [connection.ask(("GET", at)) for at in range(len(wanted))]
        for at in range(0, len(wire), size):
            peer.send(wire[at : at + size])
            await asyncio.sleep(0)
        assert await asyncio.gather(*asked) == wanted


async def test_a_refusal_is_a_reply_and_the_next_one_is_the_next_ones() -> None:
    async with met() as (peer, connection):
        asked = [connection.ask(("GET", at)) for at in range(2 * len(REFUSALS))]
        for at, text in enumerate(REFUSALS):
            peer.send(f"-{text}\r\n:{at}\r\n".encode())
        replies = await asyncio.gather(*asked)
        assert replies[1::2] == list(range(len(REFUSALS)))
        for text, refusal in zip(REFUSALS, replies[::2], strict=True):
            assert isinstance(refusal, Refusal)
            assert f"{refusal.code} {refusal.words}".strip() == text


async def test_commands_of_one_turn_travel_with_their_lengths_and_in_order() -> None:
    async with met() as (peer, connection):
        asked = [connection.ask(("GET", b"\x00\r\n", 12)), connection.ask(("PING",))]
        await peer.hears(b"*3\r\n$3\r\nGET\r\n$3\r\n\x00\r\n\r\n$2\r\n12\r\n*1\r\n$4\r\nPING\r\n")
        peer.send(b":1\r\n:2\r\n")
        assert await asyncio.gather(*asked) == [1, 2]


async def test_cancelled_caller_takes_no_other_reply() -> None:
    async with met() as (peer, connection):
        first, second, third = [connection.ask(("GET", at)) for at in range(3)]
        second.cancel()
        peer.send(b":1\r\n:2\r\n:3\r\n")
        assert [await first, await third] == [1, 3]


async def test_lost_connection_separates_sent_from_unsent_commands() -> None:
    async with met() as (peer, connection):
        left = connection.ask(("GET", "left"))
        await peer.hears(b"left")
        stayed = connection.ask(("GET", "stayed"))
        connection.end("was ended")
        for asked, sent in ((left, True), (stayed, False)):
            with pytest.raises(Lost, match="was ended") as caught:
                await asked
            assert caught.value.sent is sent
        with pytest.raises(Lost) as caught:
            connection.ask(("GET", "late"))
        assert caught.value.sent is False


@asynccontextmanager
async def unheard(peer: Peer) -> AsyncIterator[None]:
    """Have the peer read nothing meanwhile."""
    assert peer.writer is not None
    transport: Any = peer.writer.transport
    transport.pause_reading()
    try:
        yield
    finally:
        transport.resume_reading()


TOO_LARGE = b"x" * 12_000_000
"""More than finds room on the way to a peer that doesn't read."""


async def test_commands_for_a_peer_that_takes_no_more_stay_until_it_does() -> None:
    async with met() as (peer, connection):
        async with unheard(peer):
            asked = [connection.ask(("SET", TOO_LARGE))]
            await asyncio.sleep(0)
            asked.append(connection.ask(("GET", "later")))
            await asyncio.sleep(0)
        await peer.hears(b"later")
        peer.send(b":1\r\n:2\r\n")
        assert await asyncio.gather(*asked) == [1, 2]


async def test_commands_that_stayed_behind_a_full_peer_were_not_sent() -> None:
    async with met() as (peer, connection):
        async with unheard(peer):
            left = connection.ask(("SET", TOO_LARGE))
            await asyncio.sleep(0)
            stayed = connection.ask(("GET", "stayed"))
            await asyncio.sleep(0)
            connection.end("was ended")
            for asked, sent in ((left, True), (stayed, False)):
                with pytest.raises(Lost) as caught:
                    await asked
                assert caught.value.sent is sent
        await peer.left.wait()


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 400\r\n", b"$x\r\n", b"*a\r\n", b"\r\n:1\r\n"])
async def test_peer_that_closes_or_speaks_no_redis_fails_its_callers(said: bytes) -> None:
    async with met() as (peer, connection):
        asked = connection.ask(("GET", "x"))
        await peer.hears(b"GET")
        if said:
            peer.send(said)
        else:
            peer.hang_up()
        words = "is no Redis" if said else "closed the connection"
        with pytest.raises(Lost, match=words) as caught:
            await asked
        assert caught.value.sent is True


async def test_a_server_that_says_what_nobody_asked_is_left() -> None:
    async with met() as (peer, connection):
        peer.send(b":1\r\n")
        async with asyncio.timeout(10):
            await connection.lost
        with pytest.raises(Lost, match="nobody asked"):
            connection.ask(("GET", "x"))


async def test_silence_ends_a_connection() -> None:
    async with met(timeout_ms=100) as (_, connection):
        with pytest.raises(Lost, match="no answer in time"):
            await connection.ask(("GET", "x"))


async def test_unasked_reply_is_a_message_for_subscribers() -> None:
    received: list[Reply] = []
    async with met(received=received) as (peer, connection):
        connection.send(("SUBSCRIBE", "x"))
        await peer.hears(b"SUBSCRIBE")
        peer.send(b"*1\r\n$1\r\na\r\n:7\r\n")
        peer.hang_up()
        async with asyncio.timeout(10):
            await connection.lost
        assert received == [[b"a"], 7]


@pytest.mark.parametrize("code", ["LOADING", "MASTERDOWN", "BUSY"])
async def test_a_server_that_can_do_nothing_now_is_connected_to(code: str) -> None:
    async with met(f"-{code} not now\r\n".encode()) as (peer, connection):
        asked = connection.ask(("GET", "x"))
        await peer.hears(b"GET")
        peer.send(b":1\r\n")
        assert await asked == 1


@pytest.mark.parametrize("text", ["NOAUTH Authentication required.", "DENIED protected mode"])
async def test_a_server_that_does_not_take_us_says_why(text: str) -> None:
    with pytest.raises(Refused) as caught:
        async with met(f"-{text}\r\n".encode()):
            pass
    assert f"{caught.value.refusal.code} {caught.value.refusal.words}" == text


# --- connections of a store ---


class Impatient(SystemRuntime):
    """A caller that is cancelled just when its connection is there."""

    waiter: asyncio.Task[Reply]

    def spawn(self, work: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
        task = super().spawn(work, name=name)
        if name == "stepwell-redis-connect":
            task.add_done_callback(lambda _: self.waiter.cancel())
        return task


async def test_a_connection_that_nobody_waits_for_any_more_is_closed_with_the_store() -> None:
    peer, runtime = Peer(PONG), Impatient()
    async with peer.listening() as place, asyncio.timeout(10):
        network = Network(place, runtime)
        runtime.waiter = asyncio.create_task(network.ask_server(place.seeds[0], ("GET", "x")))
        await asyncio.wait((runtime.waiter,))
        assert runtime.waiter.cancelled()
        assert not peer.left.is_set()
        await network.close()
        await peer.left.wait()


async def test_closing_a_store_fails_callers_waiting_for_a_connection() -> None:
    peer = Peer(b"")
    async with peer.listening() as place, asyncio.timeout(10):
        network = Network(place, SystemRuntime())
        waiter = asyncio.create_task(network.ask_server(place.seeds[0], ("GET", "x")))
        await peer.met.wait()
        await network.close()
        with pytest.raises(Lost, match="asked no more") as caught:
            await waiter
        assert caught.value.sent is False
        with pytest.raises(Lost, match="was closed"):
            await network.ask_server(place.seeds[0], ("GET", "x"))
