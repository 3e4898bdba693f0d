"""Tasks that are child runs: no function of theirs runs, and the child's end is theirs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stepwell_client import (
    Agent,
    BlockedKind,
    Budget,
    ChildRun,
    InvalidRequest,
    NonRetryable,
    OnFailure,
    Plan,
    PlanContext,
    Retry,
    RunHandle,
    RunStatus,
    Task,
    TaskContext,
    TaskStatus,
)
from tests.service.capabilities.conftest import Served, served_on
from tests.support.patience import until

ONCE = Retry(max_attempts=1)


def agents(log: list[str]) -> Agent:
    """Return an agent that plans children by their goals."""
    agent = Agent("agents")

    @agent.plan
    def plan(ctx: PlanContext) -> Plan:
        return Plan([Task("work", "work")])

    @agent.task("work")
    async def work(ctx: TaskContext) -> Any:
        log.append(ctx.goal)
        ctx.usage(input_tokens=3)
        if ctx.goal == "fail" or (ctx.goal == "once" and log.count("once") == 1):
            raise RuntimeError("not today")
        if ctx.goal == "never":
            raise NonRetryable("it can't be done", kind="Impossible")
        if ctx.goal == "wait":
            return await ctx.receive("note")
        return {"goal": ctx.goal, "input": ctx.run_input()}

    @agent.task("facts")
    def facts(ctx: TaskContext) -> Any:
        return {"n": 1}

    @agent.task("large")
    def large(ctx: TaskContext) -> str:
        return "x" * 600_000

    @agent.task("last")
    def last(ctx: TaskContext) -> Any:
        return ctx.result("child")

    return agent


async def child_of(served: Served, run: RunHandle) -> RunHandle:
    """Return the newest child of a run that hasn't ended, once there is one."""
    found: list[str] = []

    async def is_there() -> bool:
        runs = served.client.runs(labels={"stepwell.parent": run.id})
        found[:] = [one.id async for one in runs if one.status is RunStatus.WAITING]
        return bool(found)

    await until(is_there)
    return served.client.run(found[0])


async def task_of(run: RunHandle, task_id: str = "child") -> Any:
    return next(iter([one async for one in run.tasks() if one.id == task_id]))


async def test_a_task_that_is_a_child_run_has_its_result_and_usage(
    served_everywhere: Served,
) -> None:
    served = served_everywhere
    plan = [
        Task("facts", "facts"),
        Task("child", run=ChildRun("team", goal="bees"), input=[7], depends_on=["facts"]),
        Task("last", "last", depends_on=["child"]),
    ]
    async with served.worker(agents([]), concurrency=4):
        run = await served.client.start("top", plan=plan)
        results = await run.result()
        given = {"input": [7], "results": {"facts": {"n": 1}}, "failures": {}}
        assert results["last"] == {"work": {"goal": "bees", "input": given}}
        assert results["child"] == results["last"]
        assert (await run.get()).usage.input_tokens == 3
        task = await task_of(run)
        assert (task.status, task.attempts) == (TaskStatus.COMPLETED, 1)
        runs = [one async for one in served.client.runs(labels={"stepwell.parent": run.id})]
        assert [(one.pipeline, one.goal) for one in runs] == [("team", "bees")]


async def test_a_task_without_dependencies_gives_its_own_input_and_prompt(served: Served) -> None:
    async with served.worker(agents([]), concurrency=4):
        plan = [Task("child", run=ChildRun(), prompt="ants", input={"a": 1})]
        run = await served.client.start("top", plan=plan)
        assert (await run.result())["child"] == {"work": {"goal": "ants", "input": {"a": 1}}}


async def test_children_with_plans_do_these_at_any_depth(served_everywhere: Served) -> None:
    served = served_everywhere
    inner = ChildRun(goal="deep", plan=[Task("work", "work")])
    outer = ChildRun("team", plan=[Task("facts", "facts"), Task("below", run=inner)])
    plan = [Task("child", run=outer, prompt="ants")]
    async with served.worker(agents([]), concurrency=4):
        run = await served.client.start("top", plan=plan)
        task = await anext(served.client.run(run.id).tasks(full_specs=True))
        assert task.definition.run is not None
        assert [one.id for one in task.definition.run.plan or ()] == ["facts", "below"]
        deep = {"work": {"goal": "deep", "input": None}}
        assert (await run.result())["child"] == {"facts": {"n": 1}, "below": deep}


@pytest.mark.parametrize(
    ("child", "field"),
    [
        (ChildRun(plan=[]), "child.plan.tasks"),
        (ChildRun(plan=[Task(f"t{n}", "x", prompt="a" * 60_000) for n in range(9)]), "child.plan"),
        (ChildRun(plan=[Task("a b", "x")]), "child.plan.tasks[0].task_id"),
        (ChildRun(plan=[Task("a", "x", depends_on=["b"])]), "child.plan.tasks[0].depends_on[0]"),
        (ChildRun(plan=[Task("a", "x")], reflect_on=["note"]), "child.reflect_on"),
        (
            ChildRun(plan=[Task("a", run=ChildRun(plan=[]))]),
            "child.plan.tasks[0].child.plan.tasks",
        ),
    ],
)
async def test_a_plan_is_refused_for_the_plan_of_its_child(
    served: Served, child: ChildRun, field: str
) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        await served.client.start("x", plan=[Task("child", run=child)])
    assert [one.field for one in refusal.value.violations] == [f"plan.tasks[0].{field}"]


async def test_a_step_starts_no_child_with_an_empty_plan(served: Served) -> None:
    agent = Agent("empty")

    @agent.task("start")
    async def start(ctx: TaskContext) -> str:
        with pytest.raises(NonRetryable, match="at least one task") as refusal:
            await ctx.start_child("x", plan=[])
        return refusal.value.kind

    async with served.worker(agent):
        run = await served.client.start(plan=[Task("a", "start")])
        assert await run.result() == {"a": "PLAN_INVALID"}


async def test_a_task_starts_another_child_while_its_policy_has_attempts_left(
    served: Served,
) -> None:
    retry = Retry(max_attempts=2, initial_backoff=0.01)
    log = list[str]()
    async with served.worker(agents(log), concurrency=4):
        plan = [Task("child", run=ChildRun(goal="never"), retry=retry)]
        run = await served.client.start(plan=plan)
        ended = await run.wait()
        assert ended.failure is not None
        assert (ended.status, ended.failure.kind) == (RunStatus.FAILED, "Impossible")
        assert log == ["never"]

        other = [Task("child", run=ChildRun(goal="fail"), retry=retry)]
        failed = await (await served.client.start(plan=other)).wait()
        assert failed.status is RunStatus.FAILED
        assert (await task_of(served.client.run(failed.id))).attempts == 2


async def test_a_failed_child_is_given_to_dependents_that_go_on(served: Served) -> None:
    async with served.worker(agents([]), concurrency=4):
        plan = [
            Task("child", run=ChildRun(goal="never"), on_failure=OnFailure.CONTINUE),
            Task("next", run=ChildRun(goal="next"), depends_on=["child"]),
        ]
        results = await (await served.client.start(plan=plan)).result()
        failures = results["next"]["work"]["input"]["failures"]
        assert failures["child"]["kind"] == "Impossible"


@pytest.mark.parametrize("how", ["cancel", "skip", "time-out"])
async def test_what_ends_the_task_cancels_its_child(served: Served, how: str) -> None:
    span = 0.5 if how == "time-out" else None
    async with served.worker(agents([]), concurrency=4):
        task = Task("child", run=ChildRun(goal="wait"), attempt_timeout=span, retry=ONCE)
        run = await served.client.start(plan=[task])
        child = await child_of(served, run)
        if how == "cancel":
            await run.cancel()
        elif how == "skip":
            assert (await run.get()).blocked_on is BlockedKind.CHILD
            await run.skip_task("child")
        ended = await run.wait()
        wanted = {"cancel": "CANCELLED", "skip": "SUCCEEDED", "time-out": "FAILED"}
        assert ended.status.name == wanted[how]
        assert (await child.wait()).status is RunStatus.CANCELLED


async def test_a_paused_run_keeps_the_end_of_its_child(served: Served) -> None:
    async with served.worker(agents([]), concurrency=4):
        run = await served.client.start(
            plan=[
                Task("child", run=ChildRun(goal="wait")),
                Task("last", "last", depends_on=["child"]),
            ]
        )
        child = await child_of(served, run)
        await run.pause()
        await child.signal("note", 5)
        await child.wait()

        async def is_settled() -> bool:
            return (await task_of(run)).status is TaskStatus.COMPLETED

        await until(is_settled)
        assert (await run.get()).status is RunStatus.PAUSED
        await run.resume()
        assert (await run.result())["last"] == {"work": 5}


async def test_a_retry_after_a_failure_starts_another_child(served: Served) -> None:
    log = list[str]()
    async with served.worker(agents(log), concurrency=4):
        plan = [
            Task("child", run=ChildRun(goal="never"), on_failure=OnFailure.CONTINUE),
            Task("other", run=ChildRun(goal="wait")),
        ]
        run = await served.client.start(plan=plan)
        other = await child_of(served, run)

        async def has_failed() -> bool:
            return (await task_of(run)).status is TaskStatus.FAILED

        await until(has_failed)
        await run.retry_task("child", fresh=True)

        async def has_failed_again() -> bool:
            task = await task_of(run)
            return (task.status, task.attempts) == (TaskStatus.FAILED, 2)

        await until(has_failed_again)
        await other.signal("note", 1)
        assert (await run.wait()).status is RunStatus.SUCCEEDED
        assert log.count("never") == 2


@pytest.mark.parametrize("store", ["memory", "sqlite"])
async def test_a_fork_keeps_a_child_that_ended_and_starts_the_others(
    store: str, tmp_path: Path
) -> None:
    log = list[str]()
    async with served_on(store, tmp_path) as served, served.worker(agents(log), concurrency=4):
        plan = [
            Task("child", run=ChildRun(goal="bees")),
            Task("open", run=ChildRun(goal="wait"), depends_on=["child"]),
        ]
        run = await served.client.start(plan=plan)
        theirs = await child_of(served, run)
        fork = await run.fork()
        ours = await child_of(served, fork)
        assert ours.id != theirs.id
        for child, whole in ((ours, fork), (theirs, run)):
            await child.signal("note", 1)
            assert (await whole.result())["open"] == {"work": 1}
    assert log.count("bees") == 1


async def test_a_child_beyond_the_budget_fails_its_task_by_name(served: Served) -> None:
    async with served.worker(agents([]), concurrency=4):
        given = ChildRun(goal="bees", budget=Budget(input_tokens=100))
        run = await served.client.start(
            plan=[Task("child", run=given)], budget=Budget(input_tokens=10)
        )
        ended = await run.wait()
        assert ended.failure is not None
        assert (ended.status, ended.failure.kind) == (RunStatus.FAILED, "CHILD_BUDGET")


async def test_a_task_of_a_child_has_nothing_of_a_worker(served: Served) -> None:
    with pytest.raises(InvalidRequest, match="no worker gets it"):
        await served.client.start(plan=[Task("child", "work", run=ChildRun())])


async def test_results_that_are_too_large_for_a_child_fail_its_task_by_name(
    served: Served,
) -> None:
    async with served.worker(agents([]), concurrency=4):
        plan = [
            Task("large", "large"),
            Task("other", "large"),
            Task("child", run=ChildRun(goal="bees"), depends_on=["large", "other"]),
        ]
        ended = await (await served.client.start(plan=plan)).wait()
        assert ended.failure is not None
        assert (ended.status, ended.failure.kind) == (RunStatus.FAILED, "CHILD_TOO_LARGE")


async def test_fifty_children_of_one_plan_all_end(served: Served) -> None:
    async with served.worker(agents([]), concurrency=8):
        plan = [Task(f"t{n}", run=ChildRun(goal=f"g{n}")) for n in range(50)]
        results = await (await served.client.start(plan=plan)).result()
        assert {one["work"]["goal"] for one in results.values()} == {f"g{n}" for n in range(50)}
