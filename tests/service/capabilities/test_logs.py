"""Logs: what steps write while they work, read back, followed live, cut where there is too much."""

from __future__ import annotations

import asyncio

import pytest

from stepwell.core.records.model import LogEntry as StoredEntry
from stepwell.core.records.states import LogKind as StoredKind
from stepwell_client import (
    Agent,
    Failure,
    InvalidRequest,
    LogKind,
    Retry,
    RunNotFound,
    RunStatus,
    Task,
    TaskContext,
)
from stepwell_client.v1 import types_pb2
from tests.service.capabilities.conftest import TENANT, Served
from tests.service.conftest import NO_RUN
from tests.support.patience import PATIENCE_S

AT_ONCE = Retry(initial_backoff=0.0)


async def read(served: Served, run_id: str, **options: object) -> list[types_pb2.LogEntry]:
    async with served.client.logs(run_id, **options) as log:  # pyright: ignore[reportArgumentType] - a test's shorthand
        return [entry async for entry in log]


def texts(entries: list[types_pb2.LogEntry]) -> list[str]:
    return [entry.text for entry in entries]


async def test_lines_of_threads_and_coroutines_are_kept_in_their_order(served: Served) -> None:
    agent = Agent("writer")

    @agent.task("async")
    async def in_the_loop(ctx: TaskContext) -> None:
        for number in range(50):
            ctx.log(f"line {number}")
        ctx.logger.warning("careful with %s", "this")

    @agent.task("sync")
    def in_a_thread(ctx: TaskContext) -> None:
        for number in range(50):
            ctx.log(f"line {number}", level="DEBUG")

    run = await served.client.start("write", plan=[Task("a", "async"), Task("b", "sync")])
    async with served.worker(agent):
        assert (await run.wait(PATIENCE_S)).status == RunStatus.SUCCEEDED
    a = await read(served, run.id, task_id="a")
    b = await read(served, run.id, execution_id="task:b#1")
    lines = [f"line {number}" for number in range(50)]
    assert texts(a) == [*lines, "careful with this"]
    assert (a[-1].level, a[0].level) == ("WARNING", "INFO")
    assert texts(b) == lines
    assert {entry.level for entry in b} == {"DEBUG"}
    assert {entry.execution_id for entry in a} == {"task:a#1"}
    assert a[0].written_time.seconds > 0
    assert len(await read(served, run.id)) == 101


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
        async with run.logs(follow=True) as log:
            async for entry in log:
                assert entry.kind == LogKind.CHUNK
                found.append(entry.text)
                received[len(found) - 1].set()
        assert found == ["piece 0", "piece 1", "piece 2"]
        assert log.cursor.over


async def test_readers_leave_collapsed_chunks_out_though_nobody_removed_them(
    served: Served,
) -> None:
    agent = Agent("writer")

    @agent.task("talk")
    async def talk(ctx: TaskContext) -> str:
        if ctx.attempt == 1:
            raise Failure("no")
        return "yes"

    run = await served.client.start("write", plan=[Task("a", "talk", retry=AT_ONCE)])
    async with served.worker(agent):
        assert await run.result() == {"a": "yes"}
    # As though the replica had died between the commit and the removal.
    chunks = [
        StoredEntry(execution_id=name, text=name, kind=StoredKind.CHUNK)
        for name in ("task:a#1", "task:a#2", "synthesize:1#1")
    ]
    await served.store.append_logs(TENANT, run.id, chunks)
    assert texts(await read(served, run.id)) == ["task:a#1", "synthesize:1#1"]


async def test_a_reader_goes_on_from_its_cursor_over_a_restart(served: Served) -> None:
    agent = Agent("writer")

    @agent.task("talk")
    async def talk(ctx: TaskContext) -> None:
        for number in range(10):
            ctx.log(str(number))

    run = await served.client.start("write", plan=[Task("a", "talk")])
    async with served.worker(agent):
        await run.wait(PATIENCE_S)
    async with served.client.logs(run.id) as log:
        first = [entry.text async for entry in log]
        cursor = log.cursor.cursor
    assert first == [str(number) for number in range(10)]
    await served.restart()
    late = [StoredEntry(execution_id="task:a#1", text="late")]
    await served.store.append_logs(TENANT, run.id, late)
    assert texts(await read(served, run.id, cursor=cursor)) == ["late"]


async def test_foreign_cursor_or_run_is_refused(served: Served) -> None:
    one = await served.client.start("one", plan=[Task("a", "x")])
    two = await served.client.start("two", plan=[Task("a", "x")])
    entry = [StoredEntry(execution_id="task:a#1", text="x")]
    await served.store.append_logs(TENANT, one.id, entry)
    async with served.client.logs(one.id) as log:
        assert [entry.text async for entry in log] == ["x"]
    for cursor in (log.cursor.cursor, "nonsense", "!!!", "AAAAAAAAAAAAAAAAAAAA"):
        with pytest.raises(InvalidRequest) as caught:
            await read(served, two.id, cursor=cursor)
        assert caught.value.reason == "CURSOR_INVALID"
    with pytest.raises(RunNotFound):
        await read(served, NO_RUN)
    with pytest.raises(RunNotFound):
        [one async for one in served.client.messages(NO_RUN)]
