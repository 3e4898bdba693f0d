"""The work on Restate: a service's handler that journals each step; the server is a process of its own."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
from contextlib import closing, suppress
from pathlib import Path

import httpx
import restate
from common import Asked, Book, asked, timed
from hypercorn.asyncio import serve
from hypercorn.config import Config

PATIENCE_S = 60
book = Book()
bench = restate.Service("bench")


async def step() -> str:
    """Do a step."""
    return book.work()


@bench.handler()
async def chain(ctx: restate.Context, steps: int) -> int:
    """Do steps one after another."""
    for number in range(steps):
        await ctx.run_typed(f"s{number}", step)
    return steps


def free_port() -> int:
    """Return a port that nobody listens on."""
    with closing(socket.socket()) as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def started(size: Asked, ingress: int, admin: int) -> subprocess.Popen[bytes]:
    """Start a server with its defaults, in an empty folder."""
    with Path(size.folder, "restate.log").open("wb") as log:
        return subprocess.Popen(
            [os.environ["RESTATE_SERVER"], "--base-dir", f"{size.folder}/restate"],
            env={
                **os.environ,
                "RESTATE_INGRESS__BIND_ADDRESS": f"127.0.0.1:{ingress}",
                "RESTATE_ADMIN__BIND_ADDRESS": f"127.0.0.1:{admin}",
                "RESTATE_BIND_ADDRESS": f"127.0.0.1:{free_port()}",
                "RESTATE_DISABLE_TELEMETRY": "true",
                "DO_NOT_TRACK": "1",
            },
            stdout=log,
            stderr=subprocess.STDOUT,
        )


async def register(client: httpx.AsyncClient, admin: int, service: int) -> None:
    """Tell the server of the service, as soon as it listens."""
    body = {"uri": f"http://127.0.0.1:{service}"}
    async with asyncio.timeout(PATIENCE_S):
        while True:
            with suppress(httpx.TransportError):
                answer = await client.post(f"http://127.0.0.1:{admin}/deployments", json=body)
                if answer.is_success:
                    return
            await asyncio.sleep(0.2)


async def main() -> None:
    """Time it, the service and the client in this process."""
    size = asked()
    ingress, admin, service = free_port(), free_port(), free_port()
    server = started(size, ingress, admin)
    config = Config()
    config.bind = [f"127.0.0.1:{service}"]
    ended = asyncio.Event()
    serving = asyncio.create_task(serve(restate.app([bench]), config, shutdown_trigger=ended.wait))
    try:
        limits = httpx.Limits(max_connections=200)
        async with httpx.AsyncClient(timeout=PATIENCE_S * 4, limits=limits) as client:
            await register(client, admin, service)

            async def one(steps: int) -> None:
                url = f"http://127.0.0.1:{ingress}/bench/chain"
                answer = await client.post(url, json=steps)
                answer.raise_for_status()
                book.end()

            async def play(runs: int, steps: int) -> None:
                await asyncio.gather(*(one(steps) for _ in range(runs)))

            await timed(size, book, play)
    finally:
        server.terminate()
        server.wait(20)
        ended.set()
        await serving


asyncio.run(main())
