"""A socket in front of a server's socket, whose answers can be withheld and whose connections cut."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self


class Proxy:
    """Passes bytes on in both directions, until it is told otherwise."""

    def __init__(self, server: Path) -> None:
        self._server = server
        # A socket's path has hardly a hundred bytes, so it is not below pytest's folder.
        self._folder = tempfile.TemporaryDirectory(prefix="stepwell-proxy-")
        self._socket = Path(self._folder.name) / "p.sock"
        self._listener: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._pumps: set[asyncio.Task[None]] = set()
        self._answers = asyncio.Event()
        self._answers.set()

    @property
    def target(self) -> str:
        return f"unix:{self._socket}"

    async def __aenter__(self) -> Self:
        self._listener = await asyncio.start_unix_server(self._accept, self._socket)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._listener is not None
        self._listener.close()
        self._answers.set()
        self.cut()
        await asyncio.gather(*self._pumps, return_exceptions=True)
        self._folder.cleanup()

    def withhold_answers(self) -> None:
        """Pass on what the client says, and nothing of what the server says."""
        self._answers.clear()

    def cut(self) -> None:
        """End every connection; what was withheld is lost. New ones are passed on as ever."""
        for writer in self._writers:
            writer.transport.abort()
        for pump in self._pumps:
            pump.cancel()
        self._answers.set()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            from_server, to_server = await asyncio.open_unix_connection(self._server)
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, to_server}
        for pump in (
            asyncio.create_task(self._pump(reader, to_server, None)),
            asyncio.create_task(self._pump(from_server, writer, self._answers)),
        ):
            self._pumps.add(pump)
            pump.add_done_callback(self._pumps.discard)

    async def _pump(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        gate: asyncio.Event | None,
    ) -> None:
        try:
            while data := await reader.read(65_536):
                if gate is not None:
                    await gate.wait()
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.transport.abort()
            self._writers.discard(writer)
