"""The work on LangGraph: a graph of one node with an edge back to itself, checkpointed at each superstep."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TypedDict

from common import Book, asked, timed
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

book = Book()


class State(TypedDict):
    """State that is checkpointed: how far it is, and the last result."""

    left: int
    result: str


async def node(state: State) -> State:
    """Do a step."""
    return {"left": state["left"] - 1, "result": book.work()}


@asynccontextmanager
async def saver(url: str):
    """Open the checkpointer of a URL."""
    if url.startswith("postgres"):
        options = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
        async with AsyncConnectionPool(url, min_size=4, max_size=16, kwargs=options) as pool:
            kept = AsyncPostgresSaver(pool)
            await kept.setup()
            yield kept
    else:
        async with AsyncSqliteSaver.from_conn_string(url.removeprefix("sqlite:///")) as kept:
            # WAL would sync nothing at a commit with NORMAL, which some builds of SQLite begin with.
            await kept.conn.execute("PRAGMA synchronous=FULL")
            yield kept


async def main() -> None:
    """Time it on SQLite or Postgres, as the URL says."""
    size = asked()
    graph = StateGraph(State)
    graph.add_node("node", node)
    graph.add_edge(START, "node")
    graph.add_conditional_edges("node", lambda state: "node" if state["left"] else END)
    numbers = iter(range(1_000_000))
    async with saver(size.url) as kept:
        compiled = graph.compile(checkpointer=kept)

        async def one(steps: int) -> None:
            where = {"thread_id": f"run-{next(numbers)}"}
            config = {"configurable": where, "recursion_limit": steps + 10}
            begin: State = {"left": steps, "result": ""}
            await compiled.ainvoke(begin, config, durability="sync")
            book.end()

        async def play(runs: int, steps: int) -> None:
            await asyncio.gather(*(one(steps) for _ in range(runs)))

        await timed(size, book, play)


asyncio.run(main())
