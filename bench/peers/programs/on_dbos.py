"""The work on DBOS Transact: a workflow of steps, both async, in this process."""

from __future__ import annotations

import asyncio

from common import Book, asked, timed
from dbos import DBOS, SetWorkflowID

book = Book()


@DBOS.step()
async def step() -> str:
    """Do a step."""
    return book.work()


@DBOS.workflow()
async def chain(steps: int) -> None:
    """Do steps one after another."""
    for _ in range(steps):
        await step()
    book.end()


async def main() -> None:
    """Time it on SQLite or Postgres, as the URL says."""
    size = asked()
    DBOS(config={"name": "bench", "system_database_url": size.url, "run_admin_server": False})
    DBOS.launch()
    numbers = iter(range(1_000_000))

    async def play(runs: int, steps: int) -> None:
        handles = []
        for _ in range(runs):
            with SetWorkflowID(f"run-{next(numbers)}"):
                handles.append(await DBOS.start_workflow_async(chain, steps))
        await asyncio.gather(*(handle.get_result() for handle in handles))

    await timed(size, book, play)
    DBOS.destroy()


asyncio.run(main())
