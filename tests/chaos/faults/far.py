"""Programs at the other end of the wire; each prints a line when it is ready.

python -m tests.chaos.faults.far work TARGET QUEUE     takes one step and does nothing with it
python -m tests.chaos.faults.far watch TARGET RUN      watches a run
python -m tests.chaos.faults.far forward HOST PORT SOCKET passes connections on to a Unix socket
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress

import grpc.aio

from tests.service.conftest import Client


def write(word: str) -> None:
    sys.stdout.write(word + "\n")
    sys.stdout.flush()


async def work(target: str, queue: str) -> None:
    async with Client(target).worker("far", queues=[queue], grant=1) as worker:
        await worker.assignment()
        write("leased")
        with suppress(grpc.aio.AioRpcError):
            await worker.until_end()
        await asyncio.Event().wait()


async def watch(target: str, run_id: str) -> None:
    call = Client(target).watch(run_id)
    await call.read()
    write("watching")
    with suppress(grpc.aio.AioRpcError):
        await call.read()
    await asyncio.Event().wait()


async def forward(host: str, port: str, socket: str) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await joined(reader, writer, *await asyncio.open_unix_connection(socket))

    server = await asyncio.start_server(serve, host, int(port))
    write("listens")
    await server.serve_forever()


async def joined(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    far_reader: asyncio.StreamReader,
    far_writer: asyncio.StreamWriter,
) -> None:
    """Pass on between two connections until both have ended."""
    await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    try:
        while data := await source.read(65_536):
            sink.write(data)
            await sink.drain()
    except OSError:
        pass
    finally:
        sink.close()


if __name__ == "__main__":
    what = {"work": work, "watch": watch, "forward": forward}[sys.argv[1]]
    asyncio.run(what(*sys.argv[2:]))
