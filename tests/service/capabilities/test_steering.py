"""Runs that signals steer: what planner and reflection are shown, and how the run goes on, on all stores."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stepwell_client import (
    Agent,
    ChildRun,
    Continue,
    Finish,
    InvalidRequest,
    PlanContext,
    ReflectContext,
    RunHandle,
    StepKind,
    Task,
    TaskContext,
)
from tests.service.capabilities.conftest import Served
from tests.support.patience import until

PLAN = [Task("a", "hold"), Task("b", "say", input="b", depends_on=["a"])]


class Steered:
    """An agent whose reflection adds a task for each note, and lets its plan go on without one."""

    def __init__(self) -> None:
        self.runs, self.ends = asyncio.Event(), asyncio.Event()
        self.shown: list[list[tuple[int, str, Any]]] = []
        """The signals that each PLAN and REFLECT attempt was shown."""
        self.agent = agent = Agent("steered")

        @agent.plan
        def plan(ctx: PlanContext) -> list[Task]:
            return [*PLAN, *self.tasks_of(ctx)]

        @agent.reflect
        def reflect(ctx: ReflectContext) -> Continue | Finish:
            if (more := self.tasks_of(ctx)) and ctx.iteration == 1:
                return Continue([*PLAN, *more], reason="looked")
            return Continue() if "b" not in ctx.results else Finish()

        @agent.task("hold")
        async def hold(ctx: TaskContext) -> str:
            self.runs.set()
            await self.ends.wait()
            return "held"

        @agent.task("say")
        def write(ctx: TaskContext, what: str) -> str:
            return what

    def tasks_of(self, ctx: PlanContext | ReflectContext) -> list[Task]:
        found = [(one.number, one.name, one.value and one.value.value) for one in ctx.signals]
        self.shown.append(found)
        return [Task(f"s{n}", "say", input=value) for n, _, value in found if value]


async def kept(run: RunHandle, count: int) -> None:
    async def is_so() -> bool:
        return len([one async for one in run.signals()]) == count

    await until(is_so)


async def test_planner_and_reflection_are_shown_what_nothing_took(
    served_everywhere: Served,
) -> None:
    steered = Steered()
    steered.ends.set()
    run = await served_everywhere.client.start("steer")
    await run.signal("more", "first")
    await run.signal("other", None)
    async with served_everywhere.worker(steered.agent):
        result = await run.result()
    assert result == {"a": "held", "b": "b", "s1": "first"}
    assert steered.shown[0] == [(1, "more", "first"), (2, "other", None)]
    assert steered.shown == [steered.shown[0]] * len(steered.shown)
    assert len(steered.shown) == 3


async def test_note_changes_the_rest_of_the_plan_and_is_taken(served_everywhere: Served) -> None:
    steered = Steered()
    run = await served_everywhere.client.start(
        plan=PLAN, stages=[StepKind.REFLECT], reflect_on=["note"]
    )
    async with served_everywhere.worker(steered.agent):
        await steered.runs.wait()
        await run.signal("note", "prices")
        steered.ends.set()
        assert await run.result() == {"a": "held", "b": "b", "s1": "prices"}
    assert steered.shown == [[(1, "note", "prices")], []]
    assert (await run.get()).iteration == 2


@pytest.mark.parametrize("is_task", [True, False])
async def test_note_to_a_child_run_makes_it_reflect_early(served: Served, is_task: bool) -> None:
    steered = Steered()

    @steered.agent.task("start")
    async def start(ctx: TaskContext) -> Any:
        return await (await ctx.start_child("steer", reflect_on=["note"])).result()

    kid = Task("kid", run=ChildRun(reflect_on=["note"])) if is_task else Task("kid", "start")
    run = await served.client.start(plan=[kid])
    async with served.worker(steered.agent):
        await steered.runs.wait()
        [child] = [one async for one in served.client.runs(child_of=run.id)]
        await served.client.run(child.id).signal("note", "prices")
        steered.ends.set()
        assert await run.result() == {"kid": {"a": "held", "b": "b", "s1": "prices"}}
    assert steered.shown == [[], [(1, "note", "prices")], []]


async def test_note_that_changes_nothing_lets_the_plan_go_on(served_everywhere: Served) -> None:
    steered = Steered()
    run = await served_everywhere.client.start(
        plan=PLAN, stages=[StepKind.REFLECT], reflect_on=["note"]
    )
    async with served_everywhere.worker(steered.agent):
        await steered.runs.wait()
        await run.signal("note", None)
        steered.ends.set()
        assert await run.result() == {"a": "held", "b": "b"}
    assert steered.shown == [[(1, "note", None)], []]
    assert (await run.get()).iteration == 1


async def test_fork_of_a_run_that_keeps_a_note_reflects_first(served_everywhere: Served) -> None:
    steered = Steered()
    steered.ends.set()
    run = await served_everywhere.client.start(
        plan=PLAN, stages=[StepKind.REFLECT], reflect_on=["note"]
    )
    await run.signal("note", "prices")
    fork = await run.fork()
    await run.cancel()
    async with served_everywhere.worker(steered.agent):
        assert await fork.result() == {"a": "held", "b": "b", "s1": "prices"}
    assert steered.shown == [[(1, "note", "prices")], []]
    await kept(fork, 0)
    await kept(run, 1)


async def test_run_that_never_reflects_is_refused_by_the_field(served: Served) -> None:
    with pytest.raises(InvalidRequest) as caught:
        await served.client.start(plan=PLAN, reflect_on=["note"])
    assert [one.field for one in caught.value.violations] == ["reflect_on"]
    with pytest.raises(InvalidRequest) as caught:
        await served.client.start("plan", reflect_on=["no name"])
    assert [one.field for one in caught.value.violations] == ["reflect_on[0]"]


async def test_step_is_shown_a_hundred_signals_and_whether_there_are_more(served: Served) -> None:
    more: list[bool] = []
    agent = Agent("counting")

    @agent.plan
    def plan(ctx: PlanContext) -> list[Task]:
        more.append(ctx.more_signals)
        more.append(len(ctx.signals) == 100)
        return [Task("b", "say", input="b")]

    @agent.task("say")
    def write(ctx: TaskContext, what: str) -> str:
        return what

    run = await served.client.start("count")
    for number in range(101):
        await run.signal("other", number)
    async with served.worker(agent):
        assert await run.result() == {"b": "b"}
    assert more == [True, True]
