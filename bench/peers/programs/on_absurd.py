"""The work on Absurd: tasks of checkpointed steps in Postgres, by workers with a connection each."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

from absurd_sdk import AsyncAbsurd, AsyncTaskContext
from common import Asked, Book, asked, timed

WORKERS = 16
POLL_S = 0.01
"""Its default of 0.25 s would be waited for at each start."""
book = Book()


async def step() -> str:
    """Do a step."""
    return book.work()


async def chain(params: dict[str, int], ctx: AsyncTaskContext) -> None:
    """Do steps one after another."""
    for number in range(params["steps"]):
        await ctx.step(f"s{number}", step)
    book.end()


def prepare(url: str) -> None:
    """Make its schema and a queue."""
    tool = Path(sys.executable).parent / "absurdctl"
    for command in (["init"], ["create-queue", "default"]):
        # What it prints isn't a figure.
        subprocess.run(
            [tool, *command],
            env={**os.environ, "ABSURD_DATABASE_URL": url},
            stdout=sys.stderr,
            check=True,
        )


async def main(size: Asked) -> None:
    """Time it on a database of its own."""
    workers = [AsyncAbsurd(size.url) for _ in range(WORKERS)]
    client = AsyncAbsurd(size.url)
    serving: list[asyncio.Task[None]] = []
    for worker in workers:
        worker.register_task("chain")(chain)
        coroutine = worker.start_worker(concurrency=4, poll_interval=POLL_S)
        serving.append(asyncio.create_task(coroutine))
    client.register_task("chain")(chain)

    async def play(runs: int, steps: int) -> None:
        until = len(book.ended) + runs
        for _ in range(runs):
            await client.spawn("chain", {"steps": steps})
        while len(book.ended) < until:  # noqa: ASYNC110 - in other tasks, some by other connections
            await asyncio.sleep(0.005)

    await timed(size, book, play)
    for worker in workers:
        worker.stop_worker()
    await asyncio.gather(*serving)
    for one in [*workers, client]:
        await one.close()


size = asked()
prepare(size.url)
asyncio.run(main(size))
