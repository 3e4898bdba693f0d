"""The embedded orchestrator, stopped: waiting, paused, cancelled, interrupted, killed."""

from __future__ import annotations

import asyncio
import threading

import pytest

from stepwell.core.port import ExecutionQuery, Store
from stepwell.core.records import states
from stepwell.core.records.errors import FailedPrecondition
from stepwell.embedded import Orchestrator, RunCancelled
from stepwell.runtime import SystemRuntime
from stepwell.store.opener import open_store
from stepwell_client import (
    Agent,
    BlockedKind,
    Done,
    Effect,
    Retry,
    RunStatus,
    Task,
    TaskContext,
)
from stepwell_testkit.faults import Faults, FaultyStore, Mode
from tests.support.patience import until

ONCE = Retry(max_attempts=1)


async def test_pause_waits_for_running_steps_and_resume_goes_on(store: Store) -> None:
    agent = Agent()

    @agent.task("second")
    def second(ctx: TaskContext) -> str:
        return "two"

    @agent.task("first")
    async def first(ctx: TaskContext) -> str:
        await orchestrator.pause("for lunch")
        return "done"

    plan = [Task("one", "first"), Task("two", "second", depends_on=["one"])]
    orchestrator = Orchestrator("", agent, plan=plan, store=store)
    result = await orchestrator.run()

    assert result.status is RunStatus.PAUSED
    assert result.run.reason == "for lunch"
    assert result.value == {"one": "done"}
    resumed = await Orchestrator.resume(result.run_id, agent, store=store)
    assert (await resumed.run()).value == {"one": "done", "two": "two"}


async def test_cancel_is_final(store: Store) -> None:
    agent = Agent()

    @agent.task
    async def work(ctx: TaskContext) -> None:
        await orchestrator.cancel("enough")
        await asyncio.Event().wait()

    orchestrator = Orchestrator("", agent, plan=[Task("one")], store=store)

    with pytest.raises(RunCancelled, match="enough"):
        await orchestrator.run()
    with pytest.raises(FailedPrecondition, match="cancelled"):
        await Orchestrator.resume(orchestrator.run_id, agent, store=store)


async def interrupted(agent: Agent, task: Task, store: Store, started: asyncio.Event) -> str:
    """Start a run of one task and cancel the call once the task has started."""
    orchestrator = Orchestrator("", agent, plan=[task], store=store)
    call = asyncio.ensure_future(orchestrator.run())
    await started.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    return orchestrator.run_id


async def test_cancelled_call_releases_the_step_and_spends_no_attempt(store: Store) -> None:
    agent, started = Agent(), asyncio.Event()

    @agent.task
    async def work(ctx: TaskContext) -> int:
        started.set()
        if ctx.attempt == 1:
            await asyncio.Event().wait()
        return ctx.attempt

    run_id = await interrupted(agent, Task("one", retry=ONCE), store, started)

    run = await store.get_run("default", run_id)
    assert run is not None
    assert run.status is states.RunStatus.RUNNING
    result = await (await Orchestrator.resume(run_id, agent, store=store)).run()
    assert result.value == {"one": 2}


@pytest.mark.parametrize("finishes", [False, True])
async def test_stop_does_not_wait_for_a_store_that_is_away(finishes: bool) -> None:
    agent, started, ends = Agent(), asyncio.Event(), asyncio.Event()
    runtime = SystemRuntime()
    inner = await open_store("memory://", runtime=runtime)
    store = FaultyStore(inner, runtime)

    @agent.task
    async def work(ctx: TaskContext) -> int:
        started.set()
        if ctx.attempt == 1:
            await ends.wait()
        return ctx.attempt

    orchestrator = Orchestrator("", agent, plan=[Task("one")], store=store)
    call = asyncio.ensure_future(orchestrator.run())
    await started.wait()
    store.faults = Faults(refuse=1.0)
    if finishes:
        ends.set()
        await until(lambda: store.seen[f"commit:{Mode.REFUSE}"] > 0)
    call.cancel()
    async with asyncio.timeout(2.0):
        with pytest.raises(asyncio.CancelledError):
            await call
    resumed = await Orchestrator.resume(orchestrator.run_id, agent, store=inner)
    assert (await resumed.run()).value == {"one": 2}


async def test_a_thread_that_goes_on_is_not_handed_back(store: Store) -> None:
    agent, started, ends = Agent(), asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    @agent.task
    def work(ctx: TaskContext) -> bool:
        loop.call_soon_threadsafe(started.set)
        return ends.wait(60)

    run_id = await interrupted(agent, Task("one"), store, started)
    page = await store.page(ExecutionQuery(tenant_id="default", run_id=run_id))
    ends.set()

    assert [one.status for one in page.items] == [states.ExecutionStatus.LEASED]


async def test_begun_task_of_a_dead_process_is_resolved_by_a_person(store: Store) -> None:
    agent, started, calls = Agent(), asyncio.Event(), list[int]()

    @agent.task
    async def charge(ctx: TaskContext) -> None:
        calls.append(ctx.attempt)
        started.set()
        await asyncio.Event().wait()

    task = Task("charge", effect=Effect.AT_MOST_ONCE)
    run_id = await interrupted(agent, task, store, started)
    second = await Orchestrator.resume(run_id, agent, store=store)
    waiting = await second.run()
    assert waiting.status is RunStatus.WAITING
    assert waiting.run.blocked_on is BlockedKind.UNKNOWN_OUTCOME
    await second.resolve("task:charge#1", Done("by hand"))
    assert (await second.run()).value == {"charge": "by hand"}
    assert calls == [1]
