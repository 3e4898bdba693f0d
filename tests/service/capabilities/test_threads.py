"""Threads, as clients use them: runs that are started in one thread work one at a time, on every store."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stepwell_client import (
    Agent,
    FailedPrecondition,
    Failure,
    Retry,
    RunStatus,
    StepKind,
    Task,
    TaskContext,
)
from stepwell_client.enums import BlockedKind, Phase
from stepwell_client.errors import InvalidRequest, RequestIdReused, RunNotFound
from stepwell_client.v1 import orchestrator_pb2
from tests.service.capabilities.conftest import Served
from tests.support.patience import until

ANSWER = [Task("answer", "answer")]


class Chat:
    """An agent whose runs note that they work, and go on when they are let."""

    def __init__(self) -> None:
        self.agent = Agent("chat")
        self.order: list[str] = []
        self.working = 0
        self.most = 0
        self.go_on = asyncio.Event()

        @self.agent.task("answer")
        async def answer(ctx: TaskContext) -> Any:
            self.order.append(ctx.goal)
            self.working += 1
            self.most = max(self.most, self.working)
            try:
                await self.go_on.wait()
            finally:
                self.working -= 1
            return ctx.goal.upper()


async def test_runs_of_a_thread_work_one_at_a_time_on_every_store(
    served_everywhere: Served,
) -> None:
    served, chat = served_everywhere, Chat()
    targets = [served.target]
    if served.store_kind != "sqlite":
        targets.append((await served.replica()).addresses[0])
    clients = [served.new_client(target=target) for target in targets]
    chat.go_on.set()
    goals = [f"message {number}" for number in range(8)]
    async with (
        served.worker(chat.agent, target=targets[0], worker_id="one", concurrency=4),
        served.worker(chat.agent, target=targets[-1], worker_id="two", concurrency=4),
    ):
        runs = [
            await clients[number % len(clients)].start(goal, plan=ANSWER, thread="t1")
            for number, goal in enumerate(goals)
        ]
        other = await served.client.start("other", plan=ANSWER, thread="t2")
        found = [await run.result() for run in runs]
        await other.result()
    assert found == [{"answer": goal.upper()} for goal in goals]
    assert [goal for goal in chat.order if goal != "other"] == goals


class Talk:
    """An agent that answers in its thread: one step takes up what was said, and the next one, in a thread, answers."""

    def __init__(self) -> None:
        self.agent = Agent("talk")

        @self.agent.task("listen")
        async def listen(ctx: TaskContext) -> list[Any]:
            thread = ctx.thread
            assert thread is not None
            before = [[one.number, one.role, one.content] for one in await thread.messages()]
            turns = await thread.state(as_=int | None) or 0
            thread.append("user", ctx.goal if ctx.attempt > 1 else f"{ctx.goal}, in vain")
            thread.set_state(turns + 1)
            if ctx.attempt == 1:
                raise Failure("once more")
            return before

        @self.agent.task("answer")
        def answer(ctx: TaskContext) -> list[Any]:
            thread = ctx.thread
            assert thread is not None
            said = thread.messages_sync(last=1)[0]
            assert (said.run_id, said.time is not None) == (ctx.run_id, True)
            thread.append("assistant", {"text": said.content.upper()})
            return [said.content, thread.state_sync()]


TALK = [
    Task("listen", "listen", retry=Retry(initial_backoff=0)),
    Task("answer", "answer", depends_on=["listen"]),
]


async def test_a_turn_reads_the_former_turns_and_its_own_steps_on_every_store(
    served_everywhere: Served,
) -> None:
    served, talk = served_everywhere, Talk()
    async with served.worker(talk.agent, concurrency=4):
        turns = [await served.client.start(goal, plan=TALK, thread="t1") for goal in ("hi", "bye")]
        first, second = [await turn.result() for turn in turns]
    assert first == {"listen": [], "answer": ["hi", 1]}
    said = [[1, "user", "hi"], [2, "assistant", {"text": "HI"}]]
    assert second == {"listen": said, "answer": ["bye", 2]}


async def test_a_waiting_run_is_read_watched_and_cancelled_like_any(served: Served) -> None:
    chat = Chat()
    async with served.worker(chat.agent, concurrency=4):
        client = served.client
        first = await client.start("one", plan=ANSWER, thread="t1")
        await until(lambda: chat.order == ["one"])
        second = await client.start("two", plan=ANSWER, thread="t1")
        third = await client.start("three", plan=ANSWER, thread="t1")
        waiting = await second.get()
        assert (waiting.status, waiting.blocked_on) == (RunStatus.QUEUED, BlockedKind.THREAD)
        assert (waiting.thread_id, waiting.labels) == ("t1", {"stepwell.thread": "t1"})
        await second.cancel()
        result = asyncio.create_task(third.result())
        chat.go_on.set()
        assert await result == {"answer": "THREE"}
        assert await first.result() == {"answer": "ONE"}
        assert chat.order == ["one", "three"]
        assert chat.most == 1
        listed = [one.id async for one in client.runs(labels={"stepwell.thread": "t1"})]
        assert set(listed) == {first.id, second.id, third.id}
        # The thread itself is in no list.
        assert {one.id async for one in client.runs()} == set(listed)
        fork = await third.fork()
        forked = await fork.get()
        assert (forked.thread_id, dict(forked.labels)) == ("", {})


async def test_a_start_says_what_is_wrong_with_its_on_busy(served: Served) -> None:
    for on_busy in ("reject", "interrupt", "steer"):
        with pytest.raises(InvalidRequest) as refused:
            await served.client.start(on_busy=on_busy)
        assert [one.field for one in refused.value.violations] == ["on_busy"]
    with pytest.raises(ValueError, match="enqueue, reject, interrupt, steer"):
        await served.client.start(thread="t1", on_busy="wait")  # pyright: ignore[reportArgumentType] - what it says


async def test_a_busy_thread_rejects_or_is_interrupted_as_the_start_says(served: Served) -> None:
    chat = Chat()
    async with served.worker(chat.agent, concurrency=4):
        client = served.client
        first = await client.start("one", plan=ANSWER, thread="t1")
        await until(lambda: chat.order == ["one"])
        for validate_only in (True, False):
            with pytest.raises(FailedPrecondition, match="works") as refusal:
                await client.start(
                    "two", thread="t1", on_busy="reject", validate_only=validate_only
                )
            assert refusal.value.reason == "THREAD_BUSY"
        waiting = await client.start("three", plan=ANSWER, thread="t1")
        chat.go_on.set()
        chat.go_on = asyncio.Event()
        chat.order.clear()
        await first.result()
        await until(lambda: chat.order == ["three"])
        urgent = await client.start("four", plan=ANSWER, thread="t1", on_busy="interrupt")
        await until(lambda: chat.order == ["three", "four"])
        chat.go_on.set()
        assert await urgent.result() == {"answer": "FOUR"}
        assert (await waiting.get()).status is RunStatus.CANCELLED


STEPS = [*ANSWER, Task("again", "answer", depends_on=["answer"])]


async def test_a_fork_that_names_a_thread_has_a_place_in_its_order(
    served_everywhere: Served,
) -> None:
    served, chat = served_everywhere, Chat()
    chat.go_on.set()
    async with served.worker(chat.agent, concurrency=4):
        client = served.client
        done = await client.start("one", plan=STEPS, thread="t1")
        await done.result()
        chat.go_on = asyncio.Event()
        working = await client.start("two", plan=ANSWER, thread="t1")
        await until(lambda: chat.order == ["one", "one", "two"])
        for call in (done.check_fork, done.fork):
            with pytest.raises(FailedPrecondition, match="works") as refusal:
                await call(thread="t1", on_busy="reject")
            assert refusal.value.reason == "THREAD_BUSY"
        versions = range(1, (await done.get()).version + 1)
        checks = [await done.check_fork(version=one, thread="t1") for one in versions]
        middle = next(at for at, one in zip(versions, checks, strict=True) if one.kept == 1)
        plain, other = await done.check_fork(), await done.check_fork(thread="t2")
        assert plain.warnings == ("the run is of thread 't1', and the fork is of none",)
        assert other.warnings == ("the run is of thread 't1', and the fork is of thread 't2'",)
        fork = await done.fork(version=middle, thread="t1", request_id="fork")
        waiting = await client.start("three", plan=ANSWER, thread="t1")
        row = await fork.get()
        assert (row.thread_id, row.blocked_on) == ("t1", BlockedKind.THREAD)
        assert row.parent_run_id == done.id
        again = await done.fork(version=middle, thread="t1", request_id="fork")
        assert (again.id, again.created) == (fork.id, False)
        chat.go_on.set()
        assert await fork.result() == {"answer": "ONE", "again": "ONE"}
        await waiting.result()
        await working.wait()
    assert chat.order == ["one", "one", "two", "one", "three"]
    assert chat.most == 1
    assert await client.thread("t1").delete()
    with pytest.raises(RunNotFound):
        await fork.get()


async def test_a_fork_may_reflect_for_other_signals_where_it_reflects(served: Served) -> None:
    run = await served.client.start("x", plan=ANSWER, queue="nobody")
    with pytest.raises(InvalidRequest, match="reflect_on"):
        await run.fork(reflect_on=["note"])
    with pytest.raises(InvalidRequest, match="on_busy"):
        await run.fork(thread="t1", on_busy="steer")
    run = await served.client.start(
        "x", plan=ANSWER, stages=[StepKind.REFLECT], queue="nobody", reflect_on=["note"]
    )
    other, same = await run.fork(reflect_on=["other"]), await run.fork()
    for fork in (other, same):
        for name in ("note", "other"):
            before = await fork.get()
            await fork.signal(name, 1)
            reflects = (await fork.get()).phase is Phase.REFLECTING
            expected = before.phase is Phase.REFLECTING or (fork is other) == (name == "other")
            assert reflects == expected


async def test_a_start_that_steers_reaches_the_run_that_works_or_becomes_a_run(
    served: Served,
) -> None:
    agent = Agent("guide")

    @agent.task("visit")
    async def visit(ctx: TaskContext) -> Any:
        if ctx.goal != "Rome":
            return ctx.goal
        steered = await ctx.receive("steer", as_=dict[str, Any])
        await ctx.receive("leave")
        return steered

    plan = [Task("visit", "visit")]
    async with served.worker(agent, concurrency=4):
        client = served.client
        first = await client.start("Rome", plan=plan, thread="t1", on_busy="steer")
        assert (first.created, first.steered) == (True, False)
        rehearsed = await client.start("Pisa", thread="t1", on_busy="steer", validate_only=True)
        assert (rehearsed.id, rehearsed.steered) == (first.id, True)
        second = await client.start(
            "Pisa", input={"days": 2}, plan=plan, thread="t1", on_busy="steer", request_id="r2"
        )
        assert (second.id, second.created, second.steered) == (first.id, False, True)
        late = await client.start("Bari", plan=plan, thread="t1", on_busy="steer", request_id="r3")
        assert (late.id, late.steered) == (first.id, True)
        await first.signal("leave")
        assert await first.result() == {"visit": {"goal": "Pisa", "input": {"days": 2}}}

        async def is_run() -> bool:
            nonlocal late
            late = await client.start(
                "Bari", plan=plan, thread="t1", on_busy="steer", request_id="r3"
            )
            return not late.steered

        await until(is_run)
        assert await late.result() == {"visit": "Bari"}
        again = await client.start(
            "Pisa", input={"days": 2}, plan=plan, thread="t1", on_busy="steer", request_id="r2"
        )
        assert (again.id, again.steered) == (first.id, True)
        assert {one.id async for one in client.runs()} == {first.id, late.id}


async def test_a_repeated_request_finds_the_run_of_the_thread(served: Served) -> None:
    client = served.client
    first = await client.start("one", plan=ANSWER, thread="t1", request_id="r1")
    again = await client.start("one", plan=ANSWER, thread="t1", request_id="r1")
    assert again.id == first.id
    rehearsed = await client.start("two", plan=ANSWER, thread="t1", validate_only=True)
    assert rehearsed.id not in {one.id async for one in client.runs()}
    with pytest.raises(RequestIdReused):
        await client.start("other", plan=ANSWER, thread="t1", request_id="r1")
    with pytest.raises(RequestIdReused):
        await client.start("one", plan=ANSWER, thread="t2", request_id="r1")
    for wrong in ({"thread_id": "a b"}, {"on_busy": 9}):
        request = orchestrator_pb2.StartRunRequest(goal="x", **wrong)  # pyright: ignore[reportArgumentType] - wrong on purpose
        with pytest.raises(InvalidRequest, match=next(iter(wrong))):
            await client.caller.call("StartRun", request, patience_seconds=0)
