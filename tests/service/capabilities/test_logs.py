"""Logs: what steps write while they work, read back, followed live, cut where there is too much."""

from __future__ import annotations

import asyncio

import pytest

from stepwell.core.records.model import LogEntry as StoredEntry
from stepwell_client import (
    Agent,
    Failure,
    InvalidRequest,
    LogEntry,
    LogKind,
    Retry,
    Task,
    TaskContext,
)
from stepwell_client.errors import RunNotFound
from tests.service.capabilities.conftest import TENANT, Served
from tests.service.conftest import NO_RUN
from tests.support.patience import PATIENCE_S

AT_ONCE = Retry(initial_backoff=0.0)


async def read(served: Served, run_id: str, **options: object) -> list[LogEntry]:
    async with served.client.run(run_id).logs(**options) as log:  # pyright: ignore[reportArgumentType] - a test's shorthand
        return [entry async for entry in log]


def texts(entries: list[LogEntry]) -> list[str]:
    return [entry.text for entry in entries]


async def test_a_log_is_followed_live_until_the_run_ends(served_everywhere: Served) -> None:
    served = served_everywhere
    agent = Agent("writer")
    received = [asyncio.Event() for _ in range(3)]

    @agent.task("talk")
    async def talk(ctx: TaskContext) -> None:
        for number in range(3):
            ctx.stream(f"piece {number}")
            # Goes on only when the reader has it: nothing waits for the end.
            await asyncio.wait_for(received[number].wait(), PATIENCE_S)

    run = await served.client.start("write", plan=[Task("a", "talk")])
    found: list[str] = []
    async with served.worker(agent):
        async with run.logs(follow=True, progress_interval=1.0) as log:
            async for entry in log:
                assert entry.kind == LogKind.CHUNK
                found.append(entry.text)
                received[len(found) - 1].set()
        assert found == ["piece 0", "piece 1", "piece 2"]
        assert log.cursor.over


async def test_chunks_can_be_read_after_their_task_has_ended(served: Served) -> None:
    agent = Agent("writer")

    @agent.task("talk")
    async def talk(ctx: TaskContext) -> str:
        ctx.stream(f"piece of attempt {ctx.attempt}")
        if ctx.attempt == 1:
            raise Failure("no")
        return "yes"

    run = await served.client.start("write", plan=[Task("a", "talk", retry=AT_ONCE)])
    async with served.worker(agent):
        assert await run.result() == {"a": "yes"}
        follow = [await read(served, run.id), await read(served, run.id, execution_id="task:a#2")]
    assert texts(follow[0]) == ["piece of attempt 1", "piece of attempt 2"]
    assert texts(follow[1]) == ["piece of attempt 2"]
    assert {entry.kind for entry in follow[0]} == {LogKind.CHUNK}


async def test_foreign_cursor_or_run_is_refused(served: Served) -> None:
    one = await served.client.start("one", plan=[Task("a", "x")])
    two = await served.client.start("two", plan=[Task("a", "x")])
    entry = [StoredEntry(execution_id="task:a#1", text="x")]
    await served.store.append_logs(TENANT, one.id, entry)
    async with served.client.run(one.id).logs() as log:
        assert [entry.text async for entry in log] == ["x"]
    for cursor in (log.position, "nonsense", "!!!", "AAAAAAAAAAAAAAAAAAAA"):
        with pytest.raises(InvalidRequest) as caught:
            await read(served, two.id, cursor=cursor)
        assert caught.value.reason == "CURSOR_INVALID"
    with pytest.raises(RunNotFound):
        await read(served, NO_RUN)
    with pytest.raises(RunNotFound):
        [one async for one in served.client.run(NO_RUN).messages()]
