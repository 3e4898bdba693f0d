"""A child run in its parent's step: its id, signals to it, and the forms for functions that aren't async."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from stepwell_client import (
    Agent,
    BlockedKind,
    Child,
    ChildFailed,
    NonRetryable,
    RunHandle,
    RunStatus,
    Task,
    TaskContext,
)
from tests.service.capabilities.conftest import Served, served_on
from tests.support.patience import until

CHAT = [Task("work", "chat")]


def talkative(log: list[Any]) -> Agent:
    """Return an agent whose steps talk to their children."""
    agent = Agent("talkative")

    @agent.task("chat")
    async def chat(ctx: TaskContext) -> Any:
        if ctx.goal == "fail":
            raise NonRetryable("it can't be done")
        if ctx.goal == "at once":
            return 1
        return [await ctx.receive("note"), await ctx.receive("note")]

    @agent.task("parent")
    async def parent(ctx: TaskContext) -> Any:
        child = await ctx.start_child("chat", plan=CHAT)
        log.append(child.run_id)
        await child.signal("note", {"n": 1})
        if len(log) == 1:
            raise RuntimeError("the first attempt is lost")
        await child.signal("note", {"n": 1})
        return [child.run_id, (await child.result())["work"]]

    @agent.task("late", strict=True)
    async def late(ctx: TaskContext) -> Any:
        child = await ctx.start_child("at once", plan=CHAT)
        await child.result()
        with pytest.raises(NonRetryable) as caught:
            await child.signal("note")
        return caught.value.kind

    @agent.task("plain")
    def plain(ctx: TaskContext) -> Any:
        child = ctx.start_child_sync("chat", plan=CHAT)
        child.signal_sync("note", 1)
        child.signal_sync("note", 2)
        assert child.wait_sync().run_id == child.run_id
        stopped = ctx.start_child_sync("chat", plan=CHAT, key="stopped")
        stopped.cancel_sync()
        failed = ctx.start_child_sync("fail", plan=CHAT)
        with contextlib.suppress(ChildFailed):
            log.append(failed.result_sync())
        return [child.result_sync()["work"], stopped.wait_sync().status.name]

    @agent.task("forked", strict=True)
    async def forked(ctx: TaskContext) -> Any:
        child = await ctx.start_child("chat", plan=CHAT)
        await child.signal("note", "from " + child.run_id)
        await ctx.receive("go")
        await child.signal("note", "second", key="second")
        return await child.result()

    return agent


async def until_true(holds: Callable[[Any], bool], run: RunHandle) -> None:
    async def is_so() -> bool:
        return holds(await run.get())

    await until(is_so)


async def test_a_signal_to_a_child_is_sent_once_whatever_attempts_send_it(
    served_everywhere: Served,
) -> None:
    served, log = served_everywhere, list[Any]()
    async with served.worker(talkative(log), concurrency=4):
        run = await served.client.start(plan=[Task("a", "parent")])
        run_id, notes = (await run.result())["a"]
        assert notes == [{"n": 1}, {"n": 1}]
        assert set(log) == {run_id}
        child = await served.client.run(run_id).get()
        assert child.child_of is not None
        assert (child.child_of.run_id, child.status) == (run.id, RunStatus.SUCCEEDED)


async def test_a_signal_to_a_child_that_has_ended_raises_by_name(served: Served) -> None:
    async with served.worker(talkative([]), concurrency=4):
        run = await served.client.start(plan=[Task("a", "late")])
        assert (await run.result())["a"] == "CHILD_ENDED"


async def test_a_function_that_is_not_async_has_children(served: Served) -> None:
    log = list[Any]()
    async with served.worker(talkative(log), concurrency=4):
        run = await served.client.start(plan=[Task("a", "plain")])
        assert (await run.result())["a"] == [[1, 2], "CANCELLED"]
    assert log == []


async def test_a_child_that_is_refused_keeps_no_other_from_its_start(served: Served) -> None:
    agent = Agent("several")

    @agent.task("chat")
    def chat(ctx: TaskContext) -> str:
        return ctx.goal

    async def end_of(start: Awaitable[Child]) -> Any:
        try:
            return await (await start).result()
        except NonRetryable as error:
            return error.kind

    @agent.task("parent")
    async def parent(ctx: TaskContext) -> Any:
        starts = [
            ctx.start_child("one", plan=CHAT),
            ctx.start_child("labelled", plan=CHAT, labels={"stepwell.parent": "mine"}),
            ctx.start_child("large", plan=CHAT, input="x" * 1024 * 1024),
            ctx.start_child("two", plan=CHAT),
        ]
        return await asyncio.gather(*map(end_of, starts))

    async with served.worker(agent, concurrency=4):
        run = await served.client.start(plan=[Task("a", "parent")])
        assert (await run.result())["a"] == [
            {"work": "one"},
            "LABELS_INVALID",
            "CHILD_TOO_LARGE",
            {"work": "two"},
        ]


@pytest.mark.parametrize("store", ["memory", "sqlite"])
async def test_a_fork_sends_its_own_children_the_signals_again(store: str, tmp_path: Path) -> None:
    async with (
        served_on(store, tmp_path) as served,
        served.worker(talkative([]), concurrency=4),
    ):
        run = await served.client.start(plan=[Task("a", "forked")])
        await until_true(lambda now: now.blocked_on is BlockedKind.SIGNAL, run)
        fork = await run.fork()
        for one in (fork, run):
            await until_true(lambda now: now.blocked_on is BlockedKind.SIGNAL, one)
            await one.signal("go")
            first, second = (await one.result())["a"]["work"]
            found = served.client.runs(labels={"stepwell.parent": one.id})
            assert [first, second] == [f"from {(await anext(found)).id}", "second"]


async def test_a_fork_says_what_of_signals_children_and_thread_it_has(served: Served) -> None:
    async with served.worker(talkative([]), concurrency=4):
        run = await served.client.start(plan=[Task("a", "forked")], thread="t1")
        await until_true(lambda now: now.blocked_on is BlockedKind.SIGNAL, run)
        await run.signal("kept")
        check, fork = await run.check_fork(), await run.fork()
        assert check.warnings == fork.warnings
        assert check.warnings == (
            "1 signal that the run kept will be kept by the fork, too",
            "1 child run had not ended; the fork starts its own instead",
            "the run is of thread 't1', and the fork is of none",
        )
