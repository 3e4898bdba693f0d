"""A connection to a server, shared by all callers.

redis-py connects, speaks TLS and authenticates. This module then takes over the connection and uses
hiredis for the protocol. Commands of many coroutines are pipelined: those of one turn of the event
loop are sent in one write, and replies are matched in order. redis-py's client and pool are not
used, because their connections serve one caller at a time and their retries can't be seen.

A silent connection is closed, and each waiting caller learns whether its bytes were sent: if not,
nothing was done; else the outcome is unknown.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable
from typing import Any, cast

import hiredis
from hiredis import pack_command
from redis.asyncio import connection as library
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.driver_info import DriverInfo
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError

from stepwell.core.port import Runtime
from stepwell_drivers.redis.errors import Refusal, refusal_of, words_of
from stepwell_drivers.redis.url import Address, Place

CONNECT_SECONDS_MAX = 5.0
CHECKS = 4
"""The number of checks, within one time-out, whether a connection's server is silent."""

Command = tuple[bytes | str | int, ...]
Reply = Any
"""`bytes`, `int`, `None`, `Refusal`, or a list of these."""

_NOT_YET = object()
"""The parser's answer while a reply is incomplete."""
_PASSES = frozenset({"LOADING", "MASTERDOWN", "BUSY"})
"""Refusals of a server that accepts the connection but can't work yet."""


class Lost(Exception):
    """The connection ended before the reply came."""

    def __init__(self, words: str, *, sent: bool) -> None:
        super().__init__(words)
        self.words = words
        self.sent = sent
        """True if the command may have reached the server."""


class Refused(Exception):
    """The server refuses this client; waiting doesn't help."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.code)
        self.refusal = refusal


class _Line(library.Connection):
    """The library's connection, without retries and closed at once."""

    def __init__(self, place: Place, address: Address) -> None:
        who = place.credentials
        super().__init__(  # pyright: ignore[reportUnknownMemberType] - the library's **kwargs
            host=address.host,
            port=address.port,
            db=place.database,
            username=who.user if who.password is not None else None,
            password=who.password,
            protocol=2,
            decode_responses=False,
            # The user of the connection measures the time.
            socket_timeout=None,
            socket_connect_timeout=None,
            retry=Retry(NoBackoff(), 0),
            health_check_interval=0,
            driver_info=DriverInfo(name="stepwell", lib_version=None),
        )

    def taken_over(self, protocol: asyncio.Protocol) -> asyncio.Transport:
        """Return the transport, now with another protocol."""
        assert self._writer is not None
        transport = cast("asyncio.Transport", self._writer.transport)
        transport.set_protocol(protocol)
        return transport

    def forget(self) -> None:
        """Forget the socket: whoever took over the transport has closed it."""
        self._reader = self._writer = None

    def abort(self) -> None:
        """Close the socket at once: the peer may be gone."""
        if self._writer is not None:
            self._writer.transport.abort()

    async def disconnect(
        self,
        nowait: bool = False,
        error: Exception | None = None,
        failure_count: int | None = None,
        health_check_failed: bool = False,
    ) -> None:
        """Close the socket at once."""
        self.abort()
        await super().disconnect(nowait, error, failure_count, health_check_failed)

    async def answer(self) -> Reply:
        """Return the next reply, or a refusal.

        Raises:
            RedisError, OSError, ValueError: no reply came.
        """
        try:
            return cast(
                "Reply",
                await self.read_response(disable_decoding=True, disconnect_on_error=False),
            )
        except RedisError as error:
            refusal = refusal_of(error)
            if refusal is None:
                raise
            return refusal


class _TlsLine(_Line, library.SSLConnection):
    """The same, with the URL's TLS settings."""

    def __init__(self, place: Place, address: Address) -> None:
        super().__init__(place, address)
        # Made once for all connections, because reading the certificates takes time.
        self.ssl_context.context = place.tls


class Connection(asyncio.Protocol):
    """A connection after its handshake; `on_message` is called with published messages."""

    def __init__(
        self,
        line: _Line,
        name: str,
        timeout_s: float,
        runtime: Runtime,
        on_message: Callable[[Reply], None] | None,
    ) -> None:
        self.name = name
        self._loop = asyncio.get_running_loop()
        self.lost: asyncio.Future[None] = self._loop.create_future()
        self._closed: asyncio.Future[None] = self._loop.create_future()
        self._timeout_s = timeout_s
        self._on_message = on_message
        self._replies = hiredis.Reader(replyError=_refusal, notEnoughData=_NOT_YET)
        self._waiting: deque[tuple[asyncio.Future[Reply], float]] = deque()
        """Calls without a reply, each with the moment when the server counts as too slow."""
        self._out: list[bytes] = []
        """Commands that are not sent yet."""
        self._flushing = False
        self._is_full = False
        """True while the peer accepts no more data."""
        self._words = ""
        self._line = line
        self._transport = line.taken_over(self)
        runtime.spawn(self._watch(), name="stepwell-redis-watch")

    # --- calls ---

    def ask(self, command: Command) -> asyncio.Future[Reply]:
        """Send a command with others of this turn; return a future of the reply.

        Raises:
            Lost: the connection has ended; nothing was sent.
        """
        if self.lost.done():
            raise Lost(self._words, sent=False)
        self._send(command)
        reply: asyncio.Future[Reply] = self._loop.create_future()
        self._waiting.append((reply, self._loop.time() + self._timeout_s))
        return reply

    def send(self, command: Command) -> None:
        """Send a command that is answered by messages instead of a reply."""
        if not self.lost.done():
            self._send(command)

    def _send(self, command: Command) -> None:
        self._out.append(pack_command(command))
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        # With a closing transport the commands stay here, as never sent.
        if self._out and not self._is_full and not self._transport.is_closing():
            out, self._out = self._out, []
            self._transport.writelines(out)

    def pause_writing(self) -> None:
        """Hold back commands until the peer has taken what it was sent."""
        self._is_full = True

    def resume_writing(self) -> None:
        """Send the commands that were held back."""
        self._is_full = False
        self._flush()

    # --- replies ---

    def data_received(self, data: bytes) -> None:
        """Give each whole reply to its caller."""
        replies = self._replies
        try:
            replies.feed(data)
            while not self.lost.done() and (reply := replies.gets()) is not _NOT_YET:
                self._take(reply)
        except hiredis.ProtocolError:
            self.end("is no Redis: the answer is not in its protocol")

    def _take(self, reply: Reply) -> None:
        if self._waiting:
            future, _ = self._waiting.popleft()
            # The caller may be gone; the reply must still be consumed.
            if not future.done():
                future.set_result(reply)
        elif self._on_message is not None:
            self._on_message(reply)
        else:
            self.end("said something that nobody asked")

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail all waiting calls."""
        self.end("closed the connection" if exc is None else _broken(exc))
        if not self._closed.done():
            self._closed.set_result(None)

    # --- the end ---

    async def _watch(self) -> None:
        while not self.lost.done():
            await asyncio.wait((self.lost,), timeout=self._timeout_s / CHECKS)
            if self._waiting and self._waiting[0][1] < self._loop.time():
                self.end("gave no answer in time")

    def end(self, words: str) -> None:
        """Close the socket at once, and fail all waiting calls."""
        if self.lost.done():
            return
        self._words = f"{self.name} {words}"
        self.lost.set_result(None)
        self._transport.abort()
        self._line.forget()
        left = len(self._waiting) - len(self._out)
        self._out.clear()
        for at, (future, _) in enumerate(self._waiting):
            if not future.done():
                future.set_exception(Lost(self._words, sent=at < left))
                # The caller may be gone, so the error is retrieved here.
                future.exception()
        self._waiting.clear()

    async def close(self) -> None:
        """Close the socket, and wait until it is closed."""
        self.end("was closed")
        await asyncio.wait((self._closed,))


def _refusal(text: str) -> Any:
    code, _, words = text.partition(" ")
    return Refusal(code, words)


async def connect(
    place: Place,
    address: Address,
    runtime: Runtime,
    on_message: Callable[[Reply], None] | None = None,
) -> Connection:
    """Open a connection and authenticate.

    Raises:
        Lost: there is no server, or it doesn't answer.
        Refused: the server refuses this client.
    """
    timeout_s = place.timeout_ms / 1_000
    line = _Line(place, address) if place.tls is None else _TlsLine(place, address)
    try:
        async with asyncio.timeout(min(timeout_s, CONNECT_SECONDS_MAX)):
            await _greet(line, address.name)
    except TimeoutError:
        raise Lost(f"no Redis answers at {address.name}", sent=False) from None
    except (RedisError, OSError, ValueError) as error:
        raise Lost(_unreachable(error, address.name), sent=False) from None
    return Connection(line, address.name, timeout_s, runtime, on_message)


async def _greet(line: _Line, name: str) -> None:
    try:
        await _handshake(line)
    except RedisError as error:
        await line.disconnect()
        refusal = refusal_of(error)
        if refusal is None:
            raise
        if refusal.code in _PASSES:
            raise Lost(words_of(refusal, name), sent=False) from None
        raise Refused(refusal) from None
    except BaseException:
        await line.disconnect()
        raise


async def _handshake(line: _Line) -> None:
    await line.connect()
    # Without a password or database, no command was sent until now.
    await line.send_packed_command([pack_command(("PING",))], check_health=False)
    said = await line.answer()
    if isinstance(said, Refusal) and said.code not in _PASSES:
        raise Refused(said)


def _unreachable(error: Exception, name: str) -> str:
    cause = _cause(error)
    if isinstance(cause, ssl.SSLError):
        why = getattr(cause, "verify_message", "") or cause.reason or "no handshake"
        return f"TLS with the Redis at {name} fails: {why}; look at the ssl_… parameters"
    if isinstance(cause, OSError):
        return f"no Redis can be reached at {name}: {cause.strerror or type(cause).__name__}"
    return f"{name} {_why(error)}"


def _broken(error: BaseException) -> str:
    return f"broke the connection: {type(error).__name__}"


def _why(error: Exception) -> str:
    cause = _cause(error)
    if isinstance(cause, OSError):
        return _broken(cause)
    if isinstance(cause, RedisConnectionError):
        return "closed the connection"
    return "is no Redis: the answer is not in its protocol"


def _cause(error: Exception) -> BaseException:
    """Return the socket's error that the library wrapped, if there is one."""
    return error.__context__ if isinstance(error.__context__, OSError) else error
