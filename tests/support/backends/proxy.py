"""A TCP proxy of our own, in front of any server: it delays, freezes, cuts, and loses what passes.

    async with Proxy(server.port) as proxy:
        url = server.url(name, port=proxy.port)
        proxy.lose_reply_to(b"COMMIT")   # sent on and done; the answer never comes
        ...
        await proxy.settled()            # the server has read all that was sent on

It runs in the loop of the test. With certificates it speaks TLS to its clients, and plainly to
the server.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, Self

from tests.support.backends import ports
from tests.support.backends.tls import Certificates
from tests.support.patience import PATIENCE_S

CHUNK = 65_536
TRICKLED_BYTES = 64
"""So much of a chunk comes byte by byte; the rest in one piece, or nothing would ever arrive."""


class Fault(NamedTuple):
    """A fault at the moment when the client sends `pattern`."""

    pattern: bytes
    sent_on: bool
    silent: bool = False
    """Nothing moves from then on; otherwise the connection ends."""


class Line:
    """One client's connection with its own to the server."""

    def __init__(
        self,
        client: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        server: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        self.reset = False
        self.from_client, self.to_client = client
        self.from_server, self.to_server = server
        # Asked for now: a TLS transport forgets it at its end.
        self.socket: Any = self.to_client.get_extra_info("socket")
        # What was sent last, in case a pattern is spread over two chunks.
        self.end_of_sent = b""
        # Answers are dropped; at the first of them the client is cut off.
        self.deaf = False
        # The client is cut off; the server is read to its end, so that it does all it was sent.
        self.lost = False
        # Something on it vanished: it may not go on as if nothing had.
        self.is_incomplete = False

    def cut(self) -> None:
        """Both ends at once, as when the machine in between is gone."""
        self._drop_client()
        self.to_server.transport.abort()

    def lose(self) -> None:
        """The client's end at once, the server's when it has done all that it was sent."""
        self.lost = True
        self._drop_client()
        # The server may be gone, and this loop not know it yet.
        with contextlib.suppress(OSError):
            if self.to_server.can_write_eof():
                self.to_server.write_eof()

    def _drop_client(self) -> None:
        if self.reset and self.socket.fileno() >= 0:
            # To close without lingering is to send a reset.
            linger = struct.pack("ii", 1, 0)
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.to_client.transport.abort()


async def _gone(writer: asyncio.StreamWriter) -> None:
    """Waits for what `close` and `abort` only begin."""
    with contextlib.suppress(OSError):
        await writer.wait_closed()


class Proxy:
    """Listens on a free loopback port, and passes on what it gets, but for the faults that are set.

    `target` is a loopback port or the path of a Unix socket. `delay_s` is waited before each
    chunk, in both directions; so is a part of `jitter_s` by chance, each connection's own, so that
    what went over two of them comes in another order. With `trickles` the beginning of each chunk
    comes byte by byte. A client that is cut off reads the end of the stream, as from a
    server that was killed; with `reset`, on connections made after it was set, a reset.
    """

    def __init__(
        self,
        target: int | Path,
        *,
        certificates: Certificates | None = None,
        chance: Random | None = None,
    ) -> None:
        self.target = target
        self.certificates = certificates
        self.port = ports.reserve()
        self.delay_s = 0.0
        self.jitter_s = 0.0
        self.trickles = False
        self._chance = chance or Random(0)
        self.reset = False
        self._faults: list[Fault] = []
        self._up_left: int | None = None
        self._down_left: int | None = None
        self._swallow = False
        self._swallow_up = False
        self._lines: set[Line] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._thawed = asyncio.Event()
        self._thawed.set()
        self._changed = asyncio.Condition()
        self.fired = 0
        """The number of times that a fault met its moment."""

    # Its life

    async def start(self) -> Self:
        """Listens, also again after `refuse`."""
        if self._server is None:
            self._server = await asyncio.start_server(
                self._accept,
                "127.0.0.1",
                self.port,
                ssl=self.certificates.server_context() if self.certificates else None,
                # Else it waits once more while it listens: cancelled there, it would go on unknown.
                start_serving=False,
            )
        await self._server.start_serving()
        return self

    async def close(self) -> None:
        await self.refuse()
        self.cut()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        ports.release(self.port)

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # Faults

    async def refuse(self) -> None:
        """New connections are refused from now on; those that are open go on."""
        if self._server is not None:
            self._server.close()
            self._server = None

    async def accept(self) -> None:
        """New connections are taken again."""
        await self.start()

    def cut(self) -> int:
        """Cuts every open connection now; how many those were."""
        lines = list(self._lines)
        for line in lines:
            line.cut()
        return len(lines)

    def cut_after_sent(self, count_bytes: int) -> None:
        """So many more bytes reach the server; at the next one its connection is cut."""
        self._up_left = count_bytes

    def cut_after_received(self, count_bytes: int) -> None:
        """So many more bytes reach clients; at the next one that connection is cut."""
        self._down_left = count_bytes

    def lose_reply_to(self, pattern: bytes) -> None:
        """Send on what holds the pattern; lose the connection when the server answers.

        The server does all that it was sent. Mind pipelines: the first answer may be to what was
        sent before in the same breath.
        """
        self._faults.append(Fault(pattern, sent_on=True))

    def cut_before(self, pattern: bytes) -> None:
        """Cut the connection instead of sending on what holds the pattern."""
        self._faults.append(Fault(pattern, sent_on=False))

    def fall_silent_at(self, pattern: bytes, *, sent_on: bool) -> None:
        """Stand still when the pattern comes, as a wire that is pulled; unless `sent_on` it never arrives."""
        self._faults.append(Fault(pattern, sent_on, silent=True))

    def swallow_replies(self) -> None:
        """Answers vanish from now on, and clients wait; until `lose_lines`."""
        self._swallow = True

    def swallow_requests(self) -> None:
        """Requests vanish from now on, and clients wait; until `lose_lines`."""
        self._swallow_up = True

    def lose_lines(self) -> None:
        """Cuts clients off now; the server does what it was sent. All passes again."""
        self._swallow = self._swallow_up = False
        for line in list(self._lines):
            line.lose()

    def freeze(self) -> None:
        """Nothing moves, in either direction; connections stay open."""
        self._thawed.clear()

    def thaw(self) -> None:
        self._thawed.set()

    def heal(self) -> None:
        """No faults from now on; what was cut stays cut, and what vanished costs its connection."""
        self._faults.clear()
        self._up_left = self._down_left = None
        self._swallow = self._swallow_up = False
        for line in self._lines:
            if line.is_incomplete:
                line.lose()
        self.delay_s = self.jitter_s = 0.0
        self.trickles = False
        self.thaw()

    # What a test waits for

    async def settled(self) -> None:
        """Waits until the server is done with all connections that were lost."""
        async with asyncio.timeout(PATIENCE_S), self._changed:
            await self._changed.wait_for(lambda: not any(line.lost for line in self._lines))

    # Passing on

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._serve(reader, writer)
        except asyncio.CancelledError:
            # By `close` alone; a handler's task that ends cancelled is reported as an error.
            pass
        finally:
            writer.transport.abort()
            await _gone(writer)
            self._tasks.discard(task)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._thawed.wait()
            if isinstance(self.target, int):
                server = await asyncio.open_connection("127.0.0.1", self.target)
            else:
                server = await asyncio.open_unix_connection(self.target)
        except OSError:
            return
        line = Line((reader, writer), server)
        line.reset = self.reset
        self._lines.add(line)
        try:
            await asyncio.gather(self._up(line), self._down(line))
        finally:
            line.cut()
            await _gone(line.to_server)
            self._lines.discard(line)
            async with self._changed:
                self._changed.notify_all()

    async def _up(self, line: Line) -> None:
        with contextlib.suppress(OSError):
            while data := await line.from_client.read(CHUNK):
                await self._wait()
                if self._swallow_up:
                    line.is_incomplete = True
                    continue
                if not await self._may_go_up(line, data):
                    return
                await self._write(line, line.to_server, data)
        if not line.lost:
            with contextlib.suppress(OSError):
                line.to_server.write_eof()

    async def _wait(self) -> None:
        await self._thawed.wait()
        late_s = self.delay_s + (self.jitter_s and self._chance.random() * self.jitter_s)
        if late_s:
            await asyncio.sleep(late_s)

    async def _write(self, line: Line, writer: asyncio.StreamWriter, data: bytes) -> None:
        single = min(TRICKLED_BYTES, len(data)) if self.trickles else 0
        for piece in (*(data[at : at + 1] for at in range(single)), data[single:]):
            if line.lost:
                # While it waited: the server got the end, and the client is gone.
                return
            writer.write(piece)
            await writer.drain()
            # The peer's turn to read it.
            await asyncio.sleep(0)

    async def _may_go_up(self, line: Line, data: bytes) -> bool:
        seen = line.end_of_sent + data
        for fault in self._faults:
            if fault.pattern in seen:
                self._faults.remove(fault)
                line.end_of_sent = b""
                if fault.silent:
                    self.freeze()
                    line.is_incomplete = not fault.sent_on
                    self.fired += 1
                    return fault.sent_on
                if not fault.sent_on:
                    line.cut()
                    self.fired += 1
                    return False
                line.deaf = True
                break
        else:
            longest = max((len(fault.pattern) for fault in self._faults), default=1)
            line.end_of_sent = seen[max(0, len(seen) - longest + 1) :]
        if self._up_left is not None:
            part = data[: self._up_left]
            self._up_left -= len(part)
            if len(part) < len(data):
                self._up_left = None
                await self._write(line, line.to_server, part)
                line.lose()
                self.fired += 1
                return False
        return True

    async def _down(self, line: Line) -> None:
        with contextlib.suppress(OSError):
            while data := await line.from_server.read(CHUNK):
                if line.lost:
                    continue
                await self._wait()
                if line.deaf:
                    line.lose()
                    self.fired += 1
                elif self._swallow:
                    line.is_incomplete = True
                elif not await self._go_down(line, data):
                    return
        if not line.lost:
            # Servers close both directions; a client that is still sending learns of it.
            line.to_client.close()

    async def _go_down(self, line: Line, data: bytes) -> bool:
        """Passes on what may pass; whether the line goes on."""
        # Decided before anything is awaited: meanwhile another line may be cut, or all be healed, and a
        # line that goes on must have passed on every byte.
        left, self._down_left = self._down_left, None
        part = data[:left]
        goes_on = len(part) == len(data)
        if left is not None and goes_on:
            self._down_left = left - len(part)
        await self._write(line, line.to_client, part)
        if goes_on:
            return True
        # What was written has left, or the cut would take it along.
        line.to_client.close()
        await _gone(line.to_client)
        line.lose()
        self.fired += 1
        return True
