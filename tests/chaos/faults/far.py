"""What runs at the other end of the wire. Each prints a line when it is ready.

python -m tests.chaos.faults.far work TARGET QUEUE     takes one step and does nothing with it
python -m tests.chaos.faults.far watch TARGET RUN      watches a run
python -m tests.chaos.faults.far forward HOST PORT SOCKET INTERFACE
    passes connections on to a Unix socket; a line `cut before|after WORD` on its standard input has it pull
    the wire when WORD goes by: before it is sent on, or before its answer is
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from typing import Any

import grpc.aio

from tests.service.conftest import Client


def say(word: str) -> None:
    sys.stdout.write(word + "\n")
    sys.stdout.flush()


async def work(target: str, queue: str) -> None:
    async with Client(target).worker("far", queues=[queue], grant=1) as worker:
        await worker.assignment()
        say("leased")
        with suppress(grpc.aio.AioRpcError):
            await worker.until_end()
        await asyncio.Event().wait()


async def watch(target: str, run_id: str) -> None:
    call = Client(target).watch(run_id)
    await call.read()
    say("watching")
    with suppress(grpc.aio.AioRpcError):
        await call.read()
    await asyncio.Event().wait()


class Forwarder:
    """Between the wire and a server's Unix socket."""

    def __init__(self, socket: str, interface: str) -> None:
        self._socket = socket
        self._interface = interface
        self._word = b""
        self._when = ""
        self._tasks: set[asyncio.Task[None]] = set()

    def listen_to(self, line: bytes) -> None:
        _, self._when, word = line.decode().split()
        self._word = word.encode()
        say("armed")

    async def _pull(self) -> None:
        command = ("ip", "link", "set", self._interface, "down")
        process = await asyncio.create_subprocess_exec(*command)
        assert await process.wait() == 0

    async def serve(self, near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        far, out = await asyncio.open_unix_connection(self._socket)
        pulled = asyncio.Event()
        there = asyncio.create_task(self._there(near, out, pulled))
        here = asyncio.create_task(self._back(far, back, pulled))
        for task in (there, here):
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _there(self, near: Any, out: asyncio.StreamWriter, pulled: asyncio.Event) -> None:
        with suppress(OSError):
            while data := await near.read(65_536):
                if self._word and self._word in data:
                    self._word = b""
                    await self._pull()
                    pulled.set()
                    if self._when == "before":
                        out.close()
                        say("cut")
                        return
                out.write(data)
                await out.drain()
            out.close()

    async def _back(self, far: Any, back: asyncio.StreamWriter, pulled: asyncio.Event) -> None:
        with suppress(OSError):
            while data := await far.read(65_536):
                if pulled.is_set() and self._when == "after":
                    # It was done, and nobody will ever hear of it on this connection.
                    say("cut")
                    return
                back.write(data)
                await back.drain()
            if not pulled.is_set():
                back.close()


async def forward(host: str, port: str, socket: str, interface: str) -> None:
    forwarder = Forwarder(socket, interface)
    server = await asyncio.start_server(forwarder.serve, host, int(port))
    loop = asyncio.get_running_loop()
    loop.add_reader(sys.stdin, lambda: _read(forwarder, loop))
    say("listens")
    await server.serve_forever()


def _read(forwarder: Forwarder, loop: asyncio.AbstractEventLoop) -> None:
    line = sys.stdin.buffer.readline()
    if line:
        forwarder.listen_to(line)
    else:
        loop.remove_reader(sys.stdin)


if __name__ == "__main__":
    what = {"work": work, "watch": watch, "forward": forward}[sys.argv[1]]
    asyncio.run(what(*sys.argv[2:]))
