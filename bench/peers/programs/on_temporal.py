"""The work on Temporal: a workflow of activities; the development server is a process of its own."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
from contextlib import closing
from datetime import timedelta
from pathlib import Path

from common import Asked, Book, asked, timed
from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.service import RPCError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

PATIENCE_S = 60
SETTINGS = (
    # A shard reads its queue 20 times a second by default: each of a step's two hand-overs would wait for that.
    *("--dynamic-config-value", "history.transferProcessorMaxPollRPS=1000"),
    # It begins with a rollback journal, which takes several syncs a commit.
    *("--sqlite-pragma", "journal_mode=WAL", "--sqlite-pragma", "synchronous=FULL"),
)
QUEUE = "bench"
book = Book()


@activity.defn
async def step() -> str:
    """Do a step."""
    return book.work()


@workflow.defn
class Chain:
    """Steps one after another."""

    @workflow.run
    async def run(self, steps: int) -> None:
        """Do so many."""
        for _ in range(steps):
            await workflow.execute_activity(step, start_to_close_timeout=timedelta(minutes=1))


def free_port() -> int:
    """Return a port that nobody listens on."""
    with closing(socket.socket()) as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def started(size: Asked, port: int) -> subprocess.Popen[bytes]:
    """Start a server in an empty file."""
    with Path(size.folder, "temporal.log").open("wb") as log:
        return subprocess.Popen(
            [
                *(os.environ["TEMPORAL"], "server", "start-dev", "--headless"),
                *("--port", str(port), "--db-filename", f"{size.folder}/temporal.db"),
                *("--log-level", "error", *SETTINGS),
            ],
            stdout=log,
            stderr=subprocess.STDOUT,
        )


async def connected(port: int) -> Client:
    """Connect to the server, as soon as it serves."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                client = await Client.connect(f"127.0.0.1:{port}")
                await client.count_workflows()
            except (RPCError, RuntimeError):
                await asyncio.sleep(0.2)
            else:
                return client


async def main() -> None:
    """Time it, the worker and the client in this process."""
    size, port = asked(), free_port()
    server = started(size, port)
    numbers = iter(range(1_000_000))
    try:
        client = await connected(port)

        async def one(steps: int) -> None:
            await client.execute_workflow(
                Chain.run, steps, id=f"run-{next(numbers)}", task_queue=QUEUE
            )
            book.end()

        async def play(runs: int, steps: int) -> None:
            await asyncio.gather(*(one(steps) for _ in range(runs)))

        worker = Worker(
            client,
            task_queue=QUEUE,
            workflows=[Chain],
            activities=[step],
            workflow_runner=UnsandboxedWorkflowRunner(),
        )
        async with worker:
            await timed(size, book, play)
    finally:
        server.terminate()
        server.wait(20)


asyncio.run(main())
