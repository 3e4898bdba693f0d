"""The embedded orchestrator, stopped: waiting, paused, cancelled, interrupted, killed."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from stepwell.core.port import Store
from stepwell.core.records.errors import FailedPrecondition
from stepwell.core.records.states import BlockedKind, ExecutionStatus, RunStatus
from stepwell.embedded import Orchestrator, RunCancelled
from stepwell.runtime import SystemRuntime
from stepwell.store.opener import open_store
from stepwell_client import (
    Agent,
    Done,
    Effect,
    NeedsInput,
    Retry,
    Task,
    TaskContext,
)

ONCE = Retry(max_attempts=1)


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    """A store, and the proof that every test ends without a task of its own."""
    opened = await open_store("memory://", runtime=SystemRuntime())
    yield opened
    await opened.close()
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_run_that_waits_for_a_person_is_returned(store: Store) -> None:
    agent = Agent()

    @agent.task
    def ask(ctx: TaskContext) -> None:
        raise NeedsInput("may I?")

    result = await Orchestrator("", agent, plan=[Task("ask")], store=store).run()

    assert result.status is RunStatus.WAITING
    assert result.run.blocked_on is BlockedKind.INPUT
    assert result.value == {}


async def test_pause_waits_for_what_is_in_hand_and_resume_goes_on(store: Store) -> None:
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
        await asyncio.sleep(60)

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


async def test_cancelling_the_call_hands_the_step_back_and_spends_no_attempt(store: Store) -> None:
    agent, started = Agent(), asyncio.Event()

    @agent.task
    async def work(ctx: TaskContext) -> int:
        started.set()
        if ctx.attempt == 1:
            await asyncio.sleep(60)
        return ctx.attempt

    run_id = await interrupted(agent, Task("one", retry=ONCE), store, started)

    run = await store.get_run("default", run_id)
    assert run is not None
    assert run.status is RunStatus.RUNNING
    result = await (await Orchestrator.resume(run_id, agent, store=store)).run()
    assert result.value == {"one": 2}


async def test_an_effect_that_was_begun_is_not_repeated(store: Store) -> None:
    agent, started, calls = Agent(), asyncio.Event(), list[int]()

    @agent.task
    async def work(ctx: TaskContext) -> None:
        calls.append(ctx.attempt)
        started.set()
        await asyncio.sleep(60)

    run_id = await interrupted(agent, Task("one", effect=Effect.AT_MOST_ONCE), store, started)
    result = await (await Orchestrator.resume(run_id, agent, store=store)).run()

    assert result.status is RunStatus.WAITING
    assert result.run.blocked_on is BlockedKind.UNKNOWN_OUTCOME
    assert calls == [1]


async def test_a_thread_that_goes_on_is_not_handed_back(store: Store) -> None:
    agent, started, ends = Agent(), asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    @agent.task
    def work(ctx: TaskContext) -> bool:
        loop.call_soon_threadsafe(started.set)
        return ends.wait(60)

    run_id = await interrupted(agent, Task("one"), store, started)
    page = await store.list_executions("default", run_id)
    ends.set()

    assert [one.status for one in page.executions] == [ExecutionStatus.LEASED]


CRASHES = """
    import asyncio, os, sys
    from stepwell.embedded import Orchestrator
    from stepwell_client import Agent, Task, TaskContext

    url, calls, crash = sys.argv[1:]
    agent = Agent()

    def note(word: str) -> None:
        with open(calls, "a") as file:
            print(word, file=file, flush=True)

    @agent.plan
    def plan(ctx):
        note("plan")
        return [Task(f"t{n}", depends_on=[f"t{n - 1}"] if n else []) for n in range(6)]

    @agent.task
    async def work(ctx: TaskContext):
        note(ctx.task_id)
        if crash == "crash" and ctx.task_id == "t3":
            print("here", flush=True)
            await asyncio.sleep(60)
        return ctx.attempt

    async def main():
        if crash == "crash":
            orchestrator = Orchestrator("survive", agent, store=url, run_id="r1")
        else:
            orchestrator = await Orchestrator.resume("r1", agent, store=url)
        print((await orchestrator.run()).value)

    asyncio.run(main())
"""


def test_after_kill_9_a_resume_runs_only_what_was_not_done(tmp_path: Path) -> None:
    script, calls = tmp_path / "crashes.py", tmp_path / "calls"
    script.write_text(textwrap.dedent(CRASHES))
    command = [sys.executable, str(script), f"sqlite:///{tmp_path}/runs.db", str(calls)]

    with subprocess.Popen([*command, "crash"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "here\n"
        os.kill(process.pid, signal.SIGKILL)
    done = subprocess.run(
        [*command, "resume"], capture_output=True, text=True, timeout=60, check=False
    )

    assert done.stdout == "{'t0': 1, 't1': 1, 't2': 1, 't3': 2, 't4': 1, 't5': 1}\n", done.stderr
    assert calls.read_text().split() == ["plan", "t0", "t1", "t2", "t3", "t3", "t4", "t5"]


async def test_a_begun_task_of_a_dead_process_is_settled_by_hand(store: Store) -> None:
    agent, reached = Agent(), asyncio.Event()

    @agent.task
    async def charge(ctx: TaskContext) -> str:
        reached.set()
        await asyncio.sleep(3600)
        return "never"

    plan = [Task("charge", effect=Effect.AT_MOST_ONCE)]
    first = Orchestrator("", agent, plan=plan, store=store, run_id="sale")
    process = asyncio.ensure_future(first.run())
    await reached.wait()
    process.cancel()
    await asyncio.wait([process])
    second = await Orchestrator.resume("sale", agent, store=store)
    waiting = await second.run()
    assert waiting.run.blocked_on is BlockedKind.UNKNOWN_OUTCOME
    await second.resolve("task:charge#1", Done("by hand"))
    assert (await second.run()).value == {"charge": "by hand"}
