"""Threads over an executor: one run of a thread works at a time, in their order, whatever stops in between."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from stepwell.core.loop import letters, thread_messages
from stepwell.core.loop.occurrences import Cancel, Failed, Resume, StartInThread
from stepwell.core.loop.thread_occurrences import WriteToThread
from stepwell.core.loop.transition import Reply, ReplyStatus
from stepwell.core.port import Assignment, JournalQuery, RunQuery
from stepwell.core.records import limits
from stepwell.core.records.errors import FailedPrecondition, StoreUnavailable
from stepwell.core.records.model import Failure, Payload, RetryPolicy, Run, RunSpec, TaskSpec
from stepwell.core.records.states import BlockedKind, OnBusy, RunStatus
from stepwell.core.records.threads import ThreadMessageDraft, ThreadWrite, key_of
from stepwell.engine.executor import Executor
from stepwell.engine.thread_reader import ThreadPage, ThreadQuery, read_messages
from stepwell_testkit.conformance.harness import turns
from tests.unit.core.loop_world import chain
from tests.unit.engine.executor_world import (
    TENANT,
    ExecutorWorld,
    FakeWorker,
    Rigged,
    executor_world,
)

THREAD = key_of(TENANT, "t1")


def run_id(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012}"


async def join(
    executor: Executor,
    number: int,
    on_busy: OnBusy = OnBusy.ENQUEUE,
    plan: list[TaskSpec] | None = None,
    given: Payload | None = None,
    **spec: Any,
) -> Reply:
    whole = RunSpec(
        **{
            "tenant_id": TENANT,
            "run_id": run_id(number),
            "thread_id": "t1",
            "request_fingerprint": f"print {number}",
            **spec,
        }
    )
    start = StartInThread(spec=whole, input=given, plan=tuple(plan or chain("a")), on_busy=on_busy)
    reply = await executor.send(*THREAD, start)
    await executor.deliver_letters(*THREAD)
    return reply


async def thread(world: ExecutorWorld) -> Run:
    run = await world.store.get_run(*THREAD)
    assert run is not None
    return run


def said(*texts: str, state: str = "") -> ThreadWrite:
    return ThreadWrite(
        messages=tuple(
            ThreadMessageDraft(role="user", content=Payload(data=text.encode())) for text in texts
        ),
        state=Payload(data=state.encode()) if state else None,
    )


async def reads(executor: Executor, assignment: Assignment, **query: Any) -> ThreadPage:
    asked = ThreadQuery(
        run_id=assignment.run.run_id,
        execution_id=assignment.execution.execution_id,
        token=assignment.token,
        **query,
    )
    page = await executor.read_thread(TENANT, asked)
    assert page is not None
    return page


def texts(page: ThreadPage) -> list[str]:
    return [one.content.data.decode() for one in page.messages if one.content is not None]


async def undelivered(world: ExecutorWorld, *key: str) -> int:
    query = JournalQuery(tenant_id=key[0], run_id=key[1], journal=letters.JOURNAL)
    return len((await world.store.page(query)).items)


async def test_runs_of_a_thread_work_one_at_a_time_in_their_order() -> None:
    async with executor_world() as world:
        executor, worker = await world.serving(credits=9)
        for number in (1, 2, 3):
            assert (await join(executor, number)).status is ReplyStatus.ACCEPTED
        waiting = await world.run(run_id(2))
        assert (waiting.status, waiting.blocked_on) == (RunStatus.QUEUED, BlockedKind.THREAD)
        assert (await thread(world)).thread.working == run_id(1)
        for number in (1, 2, 3):
            assignment = await worker.next()
            assert assignment.run.run_id == run_id(number)
            assert assignment.run.labels == {"stepwell.thread": "t1"}
            await turns(200)
            assert worker.pile.empty()
            await worker.deliver(assignment)
        await executor.drain()
        assert (await thread(world)).thread.working == ""
        keys = [THREAD, *((TENANT, run_id(number)) for number in (1, 2, 3))]
        assert [await undelivered(world, *key) for key in keys] == [0, 0, 0, 0]
        listed = await world.store.page(RunQuery(tenant_id=TENANT))
        assert {one.spec.run_id for one in listed.items} == {run_id(n) for n in (1, 2, 3)}


async def test_a_run_cancelled_while_it_waits_never_works() -> None:
    async with executor_world() as world:
        executor, worker = await world.serving(credits=9)
        for number in (1, 2, 3):
            await join(executor, number)
        await executor.send(TENANT, run_id(2), Cancel())
        await worker.deliver(await worker.next())
        assert (await worker.next()).run.run_id == run_id(3)
        assert await world.status(run_id(2)) is RunStatus.CANCELLED


async def test_a_run_that_rejects_a_busy_thread_is_not_started() -> None:
    async with executor_world() as world:
        executor, worker = await world.serving(credits=9)
        assert (await join(executor, 1, OnBusy.REJECT)).status is ReplyStatus.ACCEPTED
        assert (await join(executor, 2, OnBusy.REJECT)).reason == "THREAD_BUSY"
        assert await world.store.get_run(TENANT, run_id(2)) is None
        await worker.deliver(await worker.next())
        await turns(200)
        assert (await join(executor, 2, OnBusy.REJECT)).status is ReplyStatus.ACCEPTED


async def test_a_run_that_interrupts_comes_next_and_replaces_earlier_ones() -> None:
    async with executor_world() as world:
        executor, worker = await world.serving(credits=9)
        await join(executor, 1)
        await worker.next()
        await join(executor, 2)
        await join(executor, 3, OnBusy.INTERRUPT)
        assert (await worker.next()).run.run_id == run_id(3)
        await join(executor, 4, OnBusy.INTERRUPT)
        replacing = await worker.next()
        assert replacing.run.run_id == run_id(4)
        await worker.deliver(replacing)
        assert (await worker.next()).run.run_id == run_id(2)
        await executor.drain()
        states = {number: await world.status(run_id(number)) for number in (1, 3, 4)}
        cancelled = RunStatus.CANCELLED
        assert states == {1: cancelled, 3: cancelled, 4: RunStatus.SUCCEEDED}


async def test_a_repeated_start_in_a_thread_changes_nothing() -> None:
    async with executor_world() as world:
        executor, worker = await world.serving(credits=9)
        await join(executor, 1)
        await join(executor, 2)
        for number in (1, 2):
            assert (await join(executor, number)).status is ReplyStatus.UNCHANGED
        other = await join(executor, 2, request_fingerprint="other")
        assert other.reason == "REQUEST_ID_REUSED"
        for number in (1, 2):
            await worker.deliver(await worker.next())
            await turns(200)
            # After the run's end the thread takes it in again, finds that it has ended, and goes on.
            await join(executor, number)
        await executor.drain()
        assert worker.pile.empty()
        assert (await thread(world)).thread.working == ""


async def test_a_run_that_can_not_be_started_makes_place_for_the_next() -> None:
    async with executor_world() as world:
        executor, worker = await world.serving(credits=9)
        await world.start(executor, chain("a"), run_id=run_id(1), request_fingerprint="another's")
        other = await worker.next()
        await join(executor, 1)
        await join(executor, 2)
        assert (await worker.next()).run.run_id == run_id(2)
        assert (await worker.deliver(other)).status is ReplyStatus.ACCEPTED


async def test_a_failed_run_of_a_thread_is_not_resumed() -> None:
    async with executor_world() as world:
        executor, worker = await world.serving(credits=9)
        await join(executor, 1)
        await join(executor, 2)
        failure = Failure(kind="Boom", message="no", retryable=False)
        await worker.deliver(await worker.next(), Failed(failure=failure))
        assert (await worker.next()).run.run_id == run_id(2)
        assert (await executor.send(TENANT, run_id(1), Resume())).reason == "THREAD_WENT_ON"


async def test_a_run_with_a_start_delay_counts_it_from_its_turn() -> None:
    async with executor_world() as world:
        executor, worker = await world.serving(credits=9)
        await join(executor, 1)
        await join(executor, 2, start_delay_ms=4_000)
        world.pass_time(5_000)
        await turns(50)
        await worker.deliver(await worker.next())
        await turns(200)
        assert (await world.run(run_id(2))).blocked_on is BlockedKind.TIMER
        assert worker.pile.empty()


async def test_a_full_or_too_large_start_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "THREAD_WAITING_MAX", 1)
    async with executor_world() as world:
        executor, _ = await world.serving(credits=9)
        await join(executor, 1)
        large = await join(executor, 2, goal="x" * limits.THREAD_START_BYTES_MAX)
        assert large.reason == "THREAD_START_TOO_LARGE"
        await join(executor, 2)
        assert (await join(executor, 3)).reason == "THREAD_FULL"
        assert (await join(executor, 4, OnBusy.INTERRUPT)).reason == "THREAD_FULL"
        invalid = await join(executor, 5, plan=[*chain("a"), *chain("a")])
        assert invalid.reason == "PLAN_INVALID"


async def test_a_step_reads_what_earlier_steps_and_runs_wrote_and_no_failed_one() -> None:
    async with executor_world() as world:
        executor, worker = await world.serving(credits=9)
        plan = [replace(one, retry=RetryPolicy(initial_backoff_ms=0)) for one in chain("a", "b")]
        await join(executor, 1, plan=plan)
        await join(executor, 2)
        first = await worker.next()
        assert first.run.thread_id == "t1"
        await worker.deliver(first, Failed(failure=Failure(kind="Boom")), thread=said("no"))
        await worker.deliver(await worker.next(), thread=said("1", "2", state="x"))
        second = await worker.next()
        page = await reads(executor, second, last=9, state=True)
        assert (texts(page), page.to, page.next) == (["1", "2"], 2, 0)
        assert (page.version, page.state) == (1, Payload(data=b"x"))
        outside = WriteToThread(thread_id="t1", write=said("3"))
        await executor.send(*THREAD, outside)
        assert texts(await reads(executor, second, last=1)) == ["3"]
        # Its next attempt reads what the first one saw.
        assert texts(await reads(executor, second, last=9, to=2)) == ["1", "2"]
        await worker.deliver(second, thread=said("4"))
        other = await worker.next()
        page = await reads(executor, other, last=9)
        assert texts(page) == ["1", "2", "3", "4"]
        assert [one.run_id for one in page.messages] == [run_id(1), run_id(1), "", run_id(1)]
        await worker.deliver(other)
        asked = ThreadQuery(
            run_id=run_id(2), execution_id=other.execution.execution_id, token=other.token
        )
        assert await executor.read_thread(TENANT, asked) is None, "its lease is over"


async def test_a_long_thread_is_read_in_pages_from_its_end() -> None:
    async with executor_world() as world:
        executor, worker = await world.serving(credits=9)
        count = 3 * thread_messages.BLOCK_MESSAGES + 1
        numbers = [str(number) for number in range(1, count + 1)]
        await executor.send(*THREAD, WriteToThread(thread_id="t1", write=said(*numbers)))
        await join(executor, 1)
        step = await worker.next()
        assert texts(await reads(executor, step, last=count)) == numbers
        assert texts(await reads(executor, step, last=60)) == numbers[-60:]
        assert texts(await reads(executor, step, last=2, to=thread_messages.BLOCK_MESSAGES)) == [
            "49",
            "50",
        ]
        large = ["x" * limits.PAYLOAD_BYTES_MAX] * 4
        for text in large:
            await executor.send(*THREAD, WriteToThread(thread_id="t1", write=said(text)))
        page = await reads(executor, step, last=4)
        assert (len(page.messages), page.to, page.next) == (2, count + 4, count + 3)
        rest = await reads(executor, step, last=4, to=page.to, first=page.next)
        assert ([*texts(page), *texts(rest)], rest.next) == (large, 0)


async def test_a_step_that_reads_waits_for_its_runs_messages_to_be_delivered() -> None:
    async with executor_world() as world:
        away = False

        async def first(method: str, *args: Any, **kwargs: Any) -> None:
            if away and method == "commit" and args[0][0].run_id == THREAD[1]:
                raise StoreUnavailable("it is down")

        executor, worker = await world.serving(credits=9, store=Rigged(world.store, first))
        await join(executor, 1, plan=chain("a", "b"))
        step = await worker.next()
        away = True
        await worker.deliver(step, thread=said("1"))
        step = await worker.next()
        with pytest.raises(StoreUnavailable, match="on their way"):
            await reads(executor, step, last=9)
        away = False
        assert texts(await reads(executor, step, last=9)) == ["1"]


async def test_a_run_that_ended_leaves_by_its_own_letters_after_its_messages() -> None:
    async with executor_world() as world:
        away: bool | None = None

        async def first(method: str, *args: Any, **kwargs: Any) -> None:
            nonlocal away
            if method == "commit" and args[0][0].run_id == THREAD[1] and away:
                raise StoreUnavailable("it is down")
            if method == "commit" and args[0][0].run_id == run_id(1) and away is None:
                away = True  # The thread keeps the letter that starts the run.

        executor, worker = await world.serving(credits=9, store=Rigged(world.store, first))
        await join(executor, 1)
        await worker.deliver(await worker.next(), thread=said("1"))
        await turns()
        first_run = await world.store.get_run(TENANT, run_id(1))
        assert first_run is not None
        assert first_run.ended
        assert await undelivered(world, *THREAD) == 1
        away = False
        await executor.deliver_letters(*THREAD)
        await executor.deliver_letters(TENANT, run_id(1))
        found, _ = await read_messages(world.store, THREAD, 1, 9)
        assert [one.content for one in found] == [Payload(data=b"1")]
        assert (await thread(world)).thread.working == ""


async def test_a_step_of_a_run_in_no_thread_reads_none() -> None:
    async with executor_world() as world:
        executor, worker = await world.serving(credits=9)
        await world.start(executor, chain("a"), run_id=run_id(1))
        with pytest.raises(FailedPrecondition, match="in no thread"):
            await reads(executor, await worker.next(), last=9)


@pytest.mark.parametrize("commits", range(1, 20))
async def test_a_replica_that_dies_between_two_commits_leaves_the_order_as_it_was(
    commits: int,
) -> None:
    """Another replica takes over after this many commits of the first. Each run says one thing in the thread."""
    async with executor_world() as world:
        _, worker = world.mortal(commits)
        executor = worker.executor
        ran: list[str] = []
        started = 0
        try:
            await worker.attach(9)
            for number in (1, 2, 3):
                await join(executor, number)
                started = number
            await _work(worker, ran)
        except StoreUnavailable:
            pass
        successor = await world.succeed(executor)
        other = successor.executor
        await successor.attach(9)
        for number in range(started + 1, 4):
            await join(other, number)
        for _ in range(100):
            world.pass_time(1_000)
            await _work(successor, ran)
            successor.credit()
            if (await thread(world)).thread.working == "":
                break
        await other.drain()
        for number in (1, 2, 3):
            assert await world.status(run_id(number)) is RunStatus.SUCCEEDED
            assert await undelivered(world, TENANT, run_id(number)) == 0
        assert await undelivered(world, *THREAD) == 0
        assert list(dict.fromkeys(ran)) == [run_id(number) for number in (1, 2, 3)]
        messages, _ = await read_messages(world.store, THREAD, 1, 9)
        assert [(one.number, one.run_id) for one in messages] == [
            (number, run_id(number)) for number in (1, 2, 3)
        ]


async def _work(worker: FakeWorker, ran: list[str]) -> None:
    """Do what comes until nothing comes any more; at no time does a second run of the thread work."""
    held: list[Assignment] = []
    for _ in range(4):
        await turns(100)
        while not worker.pile.empty():
            held.append(worker.pile.get_nowait())
        assert len({one.run.run_id for one in held}) <= 1
        for assignment in held:
            ran.append(assignment.run.run_id)
            await worker.deliver(assignment, thread=said("done"))
        held = []
