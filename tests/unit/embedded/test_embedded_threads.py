"""Runs in the caller's process that share a store and a thread work one at a time."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from stepwell.core.records.errors import AlreadyExists, FailedPrecondition
from stepwell.embedded import Orchestrator, RunCancelled, SQLiteStore, thread, threads
from stepwell_client import Agent, Task, TaskContext, errors
from tests.support.patience import until
from tests.unit.embedded.own_stores import OwnStore

PLAN = [Task("a", "answer")]


class Chat:
    """An agent whose runs note that they work, and end when they are let."""

    def __init__(self) -> None:
        self.agent = Agent("chat")
        self.order: list[str] = []
        self.ends = asyncio.Event()

        @self.agent.task("answer")
        async def answer(ctx: TaskContext) -> str:
            self.order.append(ctx.goal)
            await self.ends.wait()
            return ctx.goal.upper()

    def run(self, goal: str, **named: Any) -> Orchestrator:
        return Orchestrator(goal, self.agent, **{"plan": PLAN, "thread": "t1", **named})


async def test_embedded_runs_of_a_thread_work_one_after_the_other(tmp_path: Path) -> None:
    chat, store = Chat(), f"sqlite:///{tmp_path / 'runs.db'}"
    first = asyncio.create_task(chat.run("one", store=store).run())
    await until(lambda: chat.order == ["one"])
    with pytest.raises(FailedPrecondition, match="works") as refusal:
        await chat.run("no", store=store, on_busy="reject").run()
    assert refusal.value.reason == "THREAD_BUSY"
    second = asyncio.create_task(chat.run("two", store=store).run())
    other = asyncio.create_task(chat.run("other", store=store, thread="t2").run())
    await until(lambda: "other" in chat.order)
    assert "two" not in chat.order
    chat.ends.set()
    found = [(await one).value for one in (first, second, other)]
    assert found == [{"a": "ONE"}, {"a": "TWO"}, {"a": "OTHER"}]


async def test_embedded_run_that_interrupts_replaces_the_one_that_works(tmp_path: Path) -> None:
    chat, store = Chat(), f"sqlite:///{tmp_path / 'runs.db'}"
    first = asyncio.create_task(chat.run("one", store=store).run())
    await until(lambda: chat.order == ["one"])
    second = asyncio.create_task(chat.run("two", store=store, on_busy="interrupt").run())
    with pytest.raises(RunCancelled):
        await first
    chat.ends.set()
    assert (await second).value == {"a": "TWO"}


async def test_embedded_run_of_a_thread_goes_on_by_its_id_in_that_thread_alone(
    tmp_path: Path,
) -> None:
    chat, store = Chat(), SQLiteStore(tmp_path / "runs.db")
    three: dict[str, Any] = dict.fromkeys(("run_store", "task_store", "context_store"), store)
    stopped = asyncio.create_task(chat.run("one", run_id="r1", **three).run())
    await until(lambda: chat.order == ["one"])
    stopped.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopped
    with pytest.raises(AlreadyExists, match="thread_id was 't1' and is now 't2'") as refusal:
        await chat.run("one", run_id="r1", thread="t2", **three).run()
    assert "labels" not in str(refusal.value)
    chat.ends.set()
    assert (await chat.run("one", run_id="r1", **three).run()).value == {"a": "ONE"}
    assert (await chat.run("two", run_id="r2", **three).run()).value == {"a": "TWO"}


def test_embedded_thread_of_an_invalid_name_rule_or_store_is_refused() -> None:
    chat = Chat()
    with pytest.raises(ValueError, match="thread"):
        chat.run("one", thread="no name")
    with pytest.raises(ValueError, match="enqueue, reject"):
        chat.run("one", on_busy="steer")
    own = OwnStore()
    with pytest.raises(ValueError, match="thread: it must be kept"):
        chat.run("one", run_id="r1", run_store=own, task_store=own, context_store=own)


async def test_embedded_run_reads_what_the_one_before_it_wrote(tmp_path: Path) -> None:
    agent, store = Agent("talk"), f"sqlite:///{tmp_path / 'runs.db'}"

    @agent.task("answer")
    async def answer(ctx: TaskContext) -> list[Any]:
        assert ctx.thread is not None
        before = [one.content for one in await ctx.thread.messages()]
        ctx.thread.append("user", ctx.goal)
        ctx.thread.set_state([*before, ctx.goal])
        return [before, await ctx.thread.state()]

    runs = [Orchestrator(goal, agent, plan=PLAN, thread="t1", store=store) for goal in ("1", "2")]
    found = [(await one.run()).value for one in runs]
    assert found == [{"a": [[], None]}, {"a": [["1"], ["1"]]}]


async def test_embedded_thread_is_read_written_forked_and_deleted_by_its_handle(
    tmp_path: Path,
) -> None:
    chat, store = Chat(), f"sqlite:///{tmp_path / 'runs.db'}"
    handle = thread("t1", store=store)
    with pytest.raises(errors.NotFound) as missing:
        await handle.get()
    assert missing.value.reason == "THREAD_NOT_FOUND"
    await handle.append("user", "hello", request_id="once")
    await handle.append("user", "hello", request_id="once")
    await handle.set_state({"turn": 1}, expected_version=0)
    with pytest.raises(errors.VersionChanged):
        await handle.set_state({"turn": 2}, expected_version=0)
    with pytest.raises(errors.InvalidRequest) as invalid:
        await handle.append("r" * 129, "hello")
    assert invalid.value.violations[0].field == "messages[0].role"
    working = asyncio.create_task(chat.run("one", store=store).run())
    await until(lambda: chat.order == ["one"])
    await handle.append("user", "meanwhile")
    assert [one.content async for one in handle.messages(last=1)] == ["meanwhile"]
    await handle.fork("t2", at=1)
    found = [(one.id, one.messages) async for one in threads(store=store, page_size=1)]
    assert sorted(found) == [("t1", 2), ("t2", 1)]
    assert [one async for one in threads(store=store, tenant_id="other")] == []
    with pytest.raises(errors.FailedPrecondition, match="works") as busy:
        await handle.delete()
    assert busy.value.reason == "THREAD_BUSY"
    working.cancel()  # The run stays as it is, and still works for its thread.
    with pytest.raises(asyncio.CancelledError):
        await working
    assert await handle.delete(force=True)
    assert not await handle.delete()
    assert [one.id async for one in threads(store=store)] == ["t2"]
