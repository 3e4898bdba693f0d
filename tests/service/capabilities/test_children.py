"""Child runs, as the Python client makes them: started by a step, waited for, cancelled, and found again."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from stepwell_client import (
    Agent,
    BlockedKind,
    Budget,
    ChildFailed,
    NonRetryable,
    Retry,
    RunHandle,
    RunStatus,
    Task,
    TaskContext,
    TaskStatus,
)
from stepwell_client.enums import PauseReason
from tests.service.capabilities.conftest import Served, served_on
from tests.support.patience import until

WORK = [Task("work", "work")]


def family(log: list[str]) -> Agent:
    """Return an agent whose tasks start children on their own queue."""
    agent = Agent("family")

    @agent.task("work")
    async def work(ctx: TaskContext) -> Any:
        log.append(ctx.goal)
        if ctx.goal == "fail":
            raise NonRetryable("it can't be done", kind="Impossible")
        if ctx.goal == "wait":
            await ctx.sleep(3_600)
        if ctx.goal == "note":
            return await ctx.receive("note")
        ctx.usage(input_tokens=3)
        return {"goal": ctx.goal, "input": ctx.run_input()}

    @agent.task("parent")
    async def parent(ctx: TaskContext) -> Any:
        children = [
            await ctx.start_child(goal, input=goal.upper(), plan=WORK) for goal in ("bees", "ants")
        ]
        return await asyncio.gather(*(child.result() for child in children))

    @agent.task("disappointed")
    async def disappointed(ctx: TaskContext) -> Any:
        child = await ctx.start_child("fail", plan=WORK)
        try:
            await child.result()
        except ChildFailed as error:
            return [error.kind, error.end.kind, error.end.status.name]

    @agent.task("impatient")
    async def impatient(ctx: TaskContext) -> Any:
        child = await ctx.start_child("wait", plan=WORK)
        await ctx.sleep(3.0)
        await child.cancel()
        return (await child.wait()).status.name

    @agent.task("careless")
    async def careless(ctx: TaskContext) -> Any:
        await ctx.start_child("wait", plan=WORK)
        await ctx.start_child("wait", plan=WORK, leave=True, key="stays")
        return "done"

    @agent.task("patient")
    async def patient(ctx: TaskContext) -> Any:
        return await (await ctx.start_child("wait", plan=WORK)).result()

    @agent.task("stepwise")
    async def stepwise(ctx: TaskContext) -> Any:
        first = await (await ctx.start_child("bees", plan=WORK)).result()
        second = await ctx.start_child("note", plan=WORK)
        return [first, await second.result()]

    @agent.task("repeated")
    async def repeated(ctx: TaskContext) -> Any:
        child = await ctx.start_child("note", plan=WORK)
        if "repeated" not in log:
            log.append("repeated")
            raise RuntimeError("not yet")
        return await child.result()

    @agent.task("greedy")
    async def greedy(ctx: TaskContext) -> Any:
        await ctx.start_child("bees", plan=WORK, budget=Budget(input_tokens=100))

    return agent


def followers() -> Agent:
    """Return an agent whose runs have children that follow their pauses, to a depth of two."""
    agent = Agent("followers")

    @agent.task("following")
    async def following(ctx: TaskContext) -> Any:
        plan = [Task("below", "note" if ctx.goal == "middle" else "following")]
        goal = "bottom" if ctx.goal == "middle" else "middle"
        child = await ctx.start_child(goal, plan=plan, follow_pauses=True)
        return await child.result()

    @agent.task("note")
    async def note(ctx: TaskContext) -> Any:
        return await ctx.receive("note")

    return agent


async def children_of(served: Served, run: RunHandle) -> dict[str, RunHandle]:
    """Return the children of a run, by their goals."""
    found = served.client.runs(labels={"stepwell.parent": run.id})
    return {one.goal: served.client.run(one.id) async for one in found}


async def until_status(run: RunHandle, status: RunStatus) -> None:
    async def is_there() -> bool:
        return (await run.get()).status is status

    await until(is_there)


async def test_a_step_goes_on_with_the_results_of_its_children(served_everywhere: Served) -> None:
    served, log = served_everywhere, list[str]()
    async with served.worker(family(log), concurrency=4):
        run = await served.client.start("top", plan=[Task("a", "parent")])
        found = (await run.result())["a"]
        assert found == [
            {"work": {"goal": goal, "input": goal.upper()}} for goal in ("bees", "ants")
        ]
        labels = {"stepwell.parent": run.id, "stepwell.root": run.id}
        children = [one async for one in served.client.runs(labels=labels)]
        assert {one.goal for one in children} == {"bees", "ants"}
        assert {one.status for one in children} == {RunStatus.SUCCEEDED}
        assert (await run.get()).usage.input_tokens == 6

    assert sorted(log) == ["ants", "bees"]


async def test_a_child_that_fails_raises_its_failure_in_the_parent(served: Served) -> None:
    async with served.worker(family([]), concurrency=4):
        run = await served.client.start(plan=[Task("a", "disappointed")])
        assert (await run.result())["a"] == ["CHILD_FAILED", "Impossible", "FAILED"]


async def test_a_step_that_waits_for_a_child_holds_no_place(served: Served) -> None:
    async with served.worker(family([]), concurrency=1):
        run = await served.client.start(plan=[Task("a", "parent")])
        assert len((await run.result())["a"]) == 2


async def test_a_child_that_is_cancelled_ends_its_wait(served: Served) -> None:
    async with served.worker(family([]), concurrency=4):
        run = await served.client.start(plan=[Task("a", "impatient")])
        assert (await run.result())["a"] == "CANCELLED"


async def test_children_of_a_step_that_ended_are_cancelled_unless_they_are_left(
    served: Served,
) -> None:
    async with served.worker(family([]), concurrency=4):
        run = await served.client.start(plan=[Task("a", "careless")])
        assert (await run.result())["a"] == "done"
        labels = {"stepwell.parent": run.id}

        async def statuses() -> list[str]:
            return sorted([one.status.name async for one in served.client.runs(labels=labels)])

        async def is_over() -> bool:
            return await statuses() == ["CANCELLED", "WAITING"]

        await until(is_over)
        ids = [one.id async for one in served.client.runs(labels=labels)]
        await run.delete()
        left = [(await served.client.run(one).get()).status.name for one in ids]
        assert sorted(left) == ["CANCELLED", "WAITING"]


async def test_usage_of_a_child_that_its_step_left_open_goes_up_when_it_ends(
    served_everywhere: Served,
) -> None:
    served, agent = served_everywhere, family([])

    @agent.task("abandons")
    async def abandons(ctx: TaskContext) -> str:
        rest = Task("rest", "note", depends_on=["work"])
        child = await ctx.start_child("bees", plan=[*WORK, rest])
        await ctx.receive("go")
        return child.run_id

    @agent.task("note")
    async def note(ctx: TaskContext) -> Any:
        return await ctx.receive("note")

    async with served.worker(agent, concurrency=4):
        plan = [Task("a", "abandons"), Task("b", "note", depends_on=["a"])]
        run = await served.client.start(plan=plan)

        async def is_used() -> bool:
            children = await children_of(served, run)
            return bool(children) and (await children["bees"].get()).usage.input_tokens == 3

        await until(is_used)
        await run.signal("go")

        async def is_added() -> bool:
            return (await run.get()).usage.input_tokens == 3

        await until(is_added)
        await run.signal("note", 1)
        await run.result()
        assert (await run.get()).usage.input_tokens == 3


async def test_a_run_that_waits_for_a_child_asks_nobody(served: Served) -> None:
    async with served.worker(family([]), concurrency=4):
        run = await served.client.start(plan=[Task("a", "patient")])
        await until_status(run, RunStatus.WAITING)
        assert (await run.get()).blocked_on is BlockedKind.CHILD
        assert [one async for one in run.questions()] == []
        assert [one async for one in served.client.questions()] == []
        [child] = [one async for one in served.client.runs(labels={"stepwell.parent": run.id})]
        await run.cancel()
        await until_status(served.client.run(child.id), RunStatus.CANCELLED)


async def test_children_that_follow_are_paused_and_go_on_with_their_parents(
    served_everywhere: Served,
) -> None:
    served = served_everywhere
    async with served.worker(followers(), concurrency=4):
        top = await served.client.start("top", plan=[Task("a", "following")])

        async def child_below(run: RunHandle) -> RunHandle:
            await until_status(run, RunStatus.WAITING)
            [child] = (await children_of(served, run)).values()
            return child

        middle = await child_below(top)
        bottom = await child_below(middle)
        await until_status(bottom, RunStatus.WAITING)
        await bottom.pause()
        await top.pause()
        await until_status(middle, RunStatus.PAUSED)
        assert (await middle.get()).pause_reason is PauseReason.PARENT
        await top.resume()
        await until_status(middle, RunStatus.WAITING)
        assert (await bottom.get()).pause_reason is PauseReason.REQUESTED
        await bottom.resume()
        await bottom.signal("note", 1)
        assert await top.result() == {"a": {"below": {"below": 1}}}


async def test_a_child_beyond_the_budget_is_refused_by_name(served: Served) -> None:
    async with served.worker(family([]), concurrency=4):
        run = await served.client.start(plan=[Task("a", "greedy")], budget=Budget(input_tokens=10))
        ended = await run.wait()
        assert ended.failure is not None
        assert (ended.status, ended.failure.kind) == (RunStatus.FAILED, "CHILD_BUDGET")


@pytest.mark.parametrize("store", ["memory", "sqlite"])
async def test_a_fork_has_the_ends_of_children_and_starts_the_open_ones_again(
    store: str, tmp_path: Path
) -> None:
    log = list[str]()
    async with served_on(store, tmp_path) as served, served.worker(family(log), concurrency=4):
        run = await served.client.start("top", plan=[Task("a", "stepwise")])

        async def waits_for_both() -> bool:
            now = await run.get()
            return now.blocked_on is BlockedKind.CHILD and len(await children_of(served, run)) == 2

        await until(waits_for_both)
        theirs = await children_of(served, run)
        await until_status(theirs["note"], RunStatus.WAITING)
        fork = await run.fork()

        async def has_a_child() -> bool:
            return len(await children_of(served, fork)) == 1

        await until(has_a_child)
        ours = await children_of(served, fork)
        assert ours["note"].id != theirs["note"].id
        await ours["note"].signal("note", "of the fork")
        found = (await fork.result())["a"]
        assert found == [{"work": {"goal": "bees", "input": None}}, {"work": "of the fork"}]
        assert (await theirs["note"].get()).status is RunStatus.WAITING
        await theirs["note"].signal("note", "of the parent")
        assert (await run.result())["a"][1] == {"work": "of the parent"}
    assert log.count("bees") == 1


@pytest.mark.parametrize("fresh", [False, True])
async def test_a_fresh_retry_in_a_back_off_has_children_of_its_own(
    served: Served, fresh: bool
) -> None:
    retry = Retry(initial_backoff=3_600.0, max_backoff=3_600.0, jitter=0.0)
    async with served.worker(family([]), concurrency=4):
        run = await served.client.start(plan=[Task("a", "repeated", retry=retry)])

        async def failed() -> bool:
            tasks = [one async for one in run.tasks()]
            return bool(tasks and tasks[0].status is TaskStatus.READY and tasks[0].attempts == 2)

        await until(failed)
        [first] = (await children_of(served, run)).values()
        await run.retry_task("a", fresh=fresh)
        if fresh:
            await until_status(first, RunStatus.CANCELLED)

        async def open_ones() -> list[str]:
            found = served.client.runs(labels={"stepwell.parent": run.id})
            return [one.id async for one in found if one.status is RunStatus.WAITING]

        async def is_one() -> bool:
            return len(await open_ones()) == 1

        await until(is_one)
        [kept] = await open_ones()
        assert (kept == first.id) is not fresh
        await served.client.run(kept).signal("note", 1)
        assert (await run.result())["a"] == {"work": 1}
