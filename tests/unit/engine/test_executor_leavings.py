"""An attempt's session, progress and messages reach the next one; its log reaches the store."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from stepwell.core.loop.occurrences import Failed, Released
from stepwell.core.port import Assignment, LogQuery, MessageQuery, Store
from stepwell.core.records import limits
from stepwell.core.records.model import Failure, LogEntry, Message, Payload, RetryPolicy, Session
from stepwell.core.records.states import LogKind
from stepwell.engine.appender import AppendBatch
from stepwell.engine.executor import Heartbeat
from stepwell_testkit.conformance.harness import turns
from tests.unit.core.loop_world import chain
from tests.unit.engine.executor_world import (
    RUN,
    TENANT,
    ExecutorWorld,
    FakeWorker,
    delivery,
)

SESSION = Session(backend="cli", session_id="s-1")
HALF = Payload(data=b'"half"')
BOOM = Failed(failure=Failure(kind="Boom", message="it broke"))
AT_ONCE = RetryPolicy(initial_backoff_ms=0)


async def leased(world: ExecutorWorld, **task: object) -> tuple[FakeWorker, Assignment]:
    """A run of one task, and the worker that has it."""
    executor, worker = await world.serving()
    await world.start(executor, chain("a", retry=AT_ONCE, **task))
    return worker, await worker.next()


def beat(one: Assignment) -> Heartbeat:
    return Heartbeat(
        run_id=RUN,
        execution_id=one.execution.execution_id,
        token=one.token,
        progress=HALF,
        session=SESSION,
    )


def written(one: Assignment, *texts: str, **fields: object) -> AppendBatch:
    entries = tuple(
        LogEntry(execution_id="", text=text, **fields)  # pyright: ignore[reportArgumentType] - a test's shorthand
        for text in texts
    )
    return AppendBatch(
        run_id=RUN, execution_id=one.execution.execution_id, token=one.token, entries=entries
    )


def said(one: Assignment, *texts: str, after: int = 0) -> AppendBatch:
    return AppendBatch(
        run_id=RUN,
        execution_id=one.execution.execution_id,
        token=one.token,
        messages=tuple(Message(role="user", content=text) for text in texts),
        after=after,
    )


async def kept(store: Store) -> Sequence[LogEntry]:
    return (await store.page(LogQuery(tenant_id=TENANT, run_id=RUN, limit=1_000))).items


async def test_the_next_attempt_is_given_what_the_last_one_left(world: ExecutorWorld) -> None:
    worker, first = await leased(world)
    assert (first.previous_failure, first.previous_progress) == (None, None)
    assert (first.previous_session, first.previous_messages) == (Session(), ())
    await world.executors[0].append(TENANT, [said(first, "one", "two")])
    failed = delivery(first, BOOM)
    await world.executors[0].deliver(TENANT, RUN, replace(failed, session=SESSION, progress=HALF))
    worker.credit()
    second = await worker.next()
    assert second.execution.attempt == 2
    assert (second.previous_session, second.previous_progress) == (SESSION, HALF)
    assert second.previous_failure == BOOM.failure
    assert [one.content for one in second.previous_messages] == ["one", "two"]
    assert [one.number for one in second.previous_messages] == [1, 2]
    assert second.conversation == 2


async def test_a_lost_attempt_leaves_what_its_heartbeats_brought(world: ExecutorWorld) -> None:
    worker, first = await leased(world)
    assert list(await world.executors[0].heartbeat(TENANT, [beat(first)])) == [True]
    worker.credit()
    world.pass_time(11_000)
    await turns()
    world.pass_time(1_000)  # It let a lease run out, and rests.
    second = await worker.next()
    assert second.execution.attempt == 2
    assert (second.previous_session, second.previous_progress) == (SESSION, HALF)
    assert second.previous_failure is not None
    assert second.previous_failure.kind == "LOST"


async def test_a_conversation_that_is_too_long_is_sent_from_its_newest_message_back(
    world: ExecutorWorld,
) -> None:
    worker, first = await leased(world)
    large = "x" * 400_000
    for number in range(5):
        await world.executors[0].append(TENANT, [said(first, f"{number}{large}", after=number)])
    await world.executors[0].deliver(TENANT, RUN, delivery(first, Released()))
    worker.credit()
    second = await worker.next()
    assert [one.number for one in second.previous_messages] == [4, 5]
    assert second.conversation == 5


async def test_logs_are_kept_at_once_and_apart_from_commits(world: ExecutorWorld) -> None:
    _, first = await leased(world)
    before = await world.store.get_run(TENANT, RUN)
    assert await world.executors[0].append(TENANT, [written(first, "one", "two")]) == [True]
    assert [one.text for one in await kept(world.store)] == ["one", "two"]
    assert {one.execution_id for one in await kept(world.store)} == {"task:a#1"}
    assert await world.store.get_run(TENANT, RUN) == before


async def test_log_lines_of_a_lost_lease_are_dropped(world: ExecutorWorld) -> None:
    worker, first = await leased(world)
    await worker.deliver(first)
    assert await world.executors[0].append(
        TENANT, [written(first, "late"), said(first, "late")]
    ) == [False, False]
    assert await kept(world.store) == ()
    assert not (await world.store.page(MessageQuery(tenant_id=TENANT, run_id=RUN))).items


async def test_a_replica_that_is_behind_looks_again(world: ExecutorWorld) -> None:
    executor = world.executor()
    other = world.executor()
    await world.start(executor, chain("a"), start_delay_ms=1_000)
    # The other one has the run at hand, as it was before the lease.
    await other.heartbeat(TENANT, [])
    await other.append(TENANT, [AppendBatch(run_id=RUN, execution_id="task:a#1", token="none")])
    worker = FakeWorker(executor)
    await worker.attach(1)
    world.pass_time(2_000)
    first = await worker.next()
    assert await other.append(TENANT, [written(first, "hello")]) == [True]


async def test_a_line_that_is_too_long_is_cut_and_says_so(world: ExecutorWorld) -> None:
    _, first = await leased(world)
    await world.executors[0].append(TENANT, [written(first, "é" * 20_000)])
    (line,) = await kept(world.store)
    assert len(line.text.encode()) <= limits.LOG_TEXT_BYTES_MAX
    text, mark = line.text.split(" … ")
    left_out = 40_000 - len(text.encode())
    assert mark == f"[cut: {left_out:,} bytes left out]"


async def test_log_flood_is_cut_at_the_executions_share_with_one_notice(
    world: ExecutorWorld,
) -> None:
    _, first = await leased(world)
    line = "x" * 10_000
    for _ in range(10):
        live = await world.executors[0].append(TENANT, [written(first, *[line] * 100)])
        assert live == [True]
    entries = await kept(world.store)
    size = sum(len(one.text) for one in entries)
    assert size <= limits.LOG_BYTES_PER_EXECUTION_MAX
    assert [one.kind for one in entries].count(LogKind.CUT) == 1
    assert entries[-1].kind is LogKind.CUT


async def test_log_bytes_written_before_a_restart_count(world: ExecutorWorld) -> None:
    _, first = await leased(world)
    line = "x" * 16_000
    for _ in range(3):
        await world.executors[0].append(TENANT, [written(first, *[line] * 80)])
    world.runtime.advance(1_000)
    other = world.executor()
    await other.append(TENANT, [written(first, *[line] * 80)])
    entries = await kept(world.store)
    assert sum(len(one.text) for one in entries) <= limits.LOG_BYTES_PER_EXECUTION_MAX
    assert entries[-1].kind is LogKind.CUT
