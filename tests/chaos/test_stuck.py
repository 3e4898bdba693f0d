"""L5: one foreign transaction is stuck, and everybody else goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from stepwell_client import Agent, RunStatus, Task, TaskContext
from tests.chaos.load.chains import session
from tests.service.capabilities.conftest import Served
from tests.support.backends.shared import postgres_server
from tests.support.patience import PATIENCE_S


@pytest.fixture
async def database(backends: None) -> AsyncIterator[str]:
    server = postgres_server()
    name = server.new_database()
    yield name
    server.drop_database(name)


def counting() -> Agent:
    agent = Agent("counting")

    @agent.task("count")
    def count(ctx: TaskContext, text: str) -> int:
        return len(text.split())

    return agent


async def test_L5_other_runs_advance_while_a_transaction_is_stuck(
    database: str, tmp_path: Path
) -> None:
    server = postgres_server()
    url = server.url(database, sslmode="disable", lock_timeout_ms="500")
    plan = [Task("a", "count", input="one two")]
    async with AsyncExitStack() as stack:
        served = Served(stack, tmp_path, "postgres", url)
        await served.start()
        held = await served.client.start("held", plan=plan)
        stranger = await stack.enter_async_context(session(server, database))
        async with asyncio.timeout(PATIENCE_S), stranger.transaction():
            # It has written, so no feed may pass it; and it holds the one run.
            await stranger.execute("SELECT pg_current_xact_id()")
            row = "SELECT 1 FROM stepwell.run_rows WHERE run_id = $1 FOR UPDATE"
            await stranger.execute(row, held.id)
            async with served.worker(counting()):
                free = await served.client.start("free", plan=plan)
                seen = [event async for event in free.watch()]
                assert await free.result() == {"a": 2}
                assert len(seen) == (await free.get()).last_event
                # What is stuck can be read still, and its watch stands.
                assert (await held.get()).status != RunStatus.SUCCEEDED
                listed = [one.id async for one in served.client.runs()]
                assert sorted(listed) == sorted([held.id, free.id])
        async with served.worker(counting()):
            assert (await held.wait(PATIENCE_S)).status == RunStatus.SUCCEEDED
