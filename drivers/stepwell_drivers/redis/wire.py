"""One connection to a server, shared by all who have something to ask of it.

Commands of many coroutines travel together: what is asked within one turn of the event loop leaves in
one write, and replies come back in the order of the commands. A connection that falls silent is
closed, and everything that waits on it is told whether its bytes had left: who asked knows then
whether nothing was done, or whether it can't be known.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable

from stepwell.core.ports import Runtime
from stepwell_drivers.redis.resp import Malformed, Parser, Refusal, Reply, command
from stepwell_drivers.redis.url import Address, Place

CONNECT_SECONDS_MAX = 5.0
LOOKS = 4
"""How often within the time-out a connection looks whether its server has fallen silent."""


class Lost(Exception):
    """The connection ended before the reply came."""

    def __init__(self, words: str, *, sent: bool) -> None:
        super().__init__(words)
        self.words = words
        self.sent = sent
        """Whether the command may have reached the server."""


class Refused(Exception):
    """The server doesn't take us as we are; waiting mends nothing."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.code)
        self.refusal = refusal


class Connection(asyncio.Protocol):
    """A connection after its handshake. `on_message` takes what comes unasked (published messages)."""

    def __init__(
        self, name: str, timeout_s: float, on_message: Callable[[Reply], None] | None = None
    ) -> None:
        self.name = name
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._timeout_s = timeout_s
        self._on_message = on_message
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._parser = Parser()
        self._waiting: deque[tuple[asyncio.Future[Reply], float]] = deque()
        """With the moment from which on the server is too late."""
        self._out: list[bytes] = []
        self._words = ""

    # --- asking ---

    def ask(self, sent: bytes) -> asyncio.Future[Reply]:
        """Send a command with the others of this turn; the future brings the reply.

        Raises:
            Lost: the connection has ended; nothing was sent.
        """
        if self.lost.done():
            raise Lost(self._words, sent=False)
        reply: asyncio.Future[Reply] = self._loop.create_future()
        self._waiting.append((reply, self._loop.time() + self._timeout_s))
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out.append(sent)
        return reply

    def tell(self, sent: bytes) -> None:
        """Send a command that answers with messages, not with a reply."""
        if self._transport is not None:
            self._transport.write(sent)

    def _flush(self) -> None:
        if self._transport is not None and self._out:
            out, self._out = b"".join(self._out), []
            self._transport.write(out)

    def look(self) -> None:
        """End the connection if the server has been silent for too long."""
        if self._waiting and self._waiting[0][1] < self._loop.time():
            self.end("gave no answer in time")

    def end(self, words: str) -> None:
        """Close the socket at once."""
        self._words = self._words or f"{self.name} {words}"
        if self._transport is not None:
            self._transport.abort()

    async def close(self) -> None:
        """Close the socket and wait until it is."""
        self.end("was closed")
        await asyncio.wait((self.lost,))

    # --- the event loop's side ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        try:
            replies = self._parser.feed(data)
        except Malformed as error:
            self.end(f"is no Redis: {error}")
            return
        for reply in replies:
            if self._on_message is not None and not self._waiting:
                self._on_message(reply)
                continue
            if not self._waiting:
                self.end("said something that nobody asked")
                return
            future, _ = self._waiting.popleft()
            if not future.done():
                future.set_result(reply)

    def connection_lost(self, exc: Exception | None) -> None:
        words = self._words or f"{self.name} closed the connection"
        if exc is not None and not self._words:
            words = f"the connection to {self.name} broke: {type(exc).__name__}"
        self._words = words
        self._transport = None
        # What is still in `_out` never left.
        unsent = len(self._out)
        self._out.clear()
        for at, (future, _) in enumerate(self._waiting):
            if not future.done():
                future.set_exception(Lost(words, sent=at < len(self._waiting) - unsent))
                # Who asked may have gone: then nobody looks.
                future.exception()
        self._waiting.clear()
        if not self.lost.done():
            self.lost.set_result(None)


async def connect(
    place: Place,
    address: Address,
    runtime: Runtime,
    on_message: Callable[[Reply], None] | None = None,
) -> Connection:
    """Open a connection and say who we are.

    Raises:
        Lost: there is nobody, or nobody who answers.
        Refused: the server doesn't take us.
    """
    timeout_s = place.timeout_ms / 1_000
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(min(timeout_s, CONNECT_SECONDS_MAX)):
            _, connection = await loop.create_connection(
                lambda: Connection(address.name, timeout_s, on_message),
                address.host,
                address.port,
                ssl=place.tls,
                server_hostname=address.host if place.tls is not None else None,
            )
            try:
                await _greet(connection, place)
            except BaseException:
                connection.end("was not needed any more")
                raise
    except TimeoutError:
        words = f"no Redis answers at {address.name}"
        raise Lost(words, sent=False) from None
    except ssl.SSLError as error:
        why = getattr(error, "verify_message", "") or error.reason or "no handshake"
        words = f"TLS with the Redis at {address.name} fails: {why}; look at the ssl_… parameters"
        raise Lost(words, sent=False) from None
    except OSError as error:
        words = (
            f"no Redis can be reached at {address.name}: {error.strerror or type(error).__name__}"
        )
        raise Lost(words, sent=False) from None
    except Lost as error:
        # Nothing of what is to be asked was sent.
        raise Lost(error.words, sent=False) from None
    runtime.spawn(_watch(connection, timeout_s), name="stepwell-redis-watch")
    return connection


async def _greet(connection: Connection, place: Place) -> None:
    asked: list[bytes] = []
    who = place.credentials
    if who.password is not None:
        names = (who.user, who.password) if who.user else (who.password,)
        asked.append(command("AUTH", *names))
    asked.append(command("PING"))
    if place.database:
        asked.append(command("SELECT", place.database))
    replies = [connection.ask(each) for each in asked]
    for reply in replies:
        said = await reply
        if isinstance(said, Refusal) and said.code not in {"LOADING", "MASTERDOWN", "BUSY"}:
            raise Refused(said)


async def _watch(connection: Connection, timeout_s: float) -> None:
    while not connection.lost.done():
        await asyncio.wait((connection.lost,), timeout=timeout_s / LOOKS)
        connection.look()
