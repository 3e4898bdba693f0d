"""Forks end to end: what they keep, what they refuse, and what outlives the run that they came from."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from stepwell.embedded.result import read_result
from stepwell.rpc.orchestrator import forks
from stepwell_client import (
    Agent,
    Continue,
    FailedPrecondition,
    Finish,
    ForkMode,
    InvalidRequest,
    RunHandle,
    RunStatus,
    Task,
)
from stepwell_client.errors import ForkIncompatible, RequestIdReused, RunNotFound
from stepwell_client.v1 import orchestrator_pb2 as pb
from tests.service.capabilities.conftest import Served
from tests.support.patience import PATIENCE_S

WAIT_S = PATIENCE_S
BIG = "x" * 40_000


def agent(done: list[str] | None = None) -> Agent:
    """Plans `a` and `b`, which is built on it; `done` is told of each task that is run."""
    made = Agent("forks")

    @made.plan
    def plan(ctx: Any) -> list[Task]:
        return [Task("a", "say", input="a"), Task("b", "join", depends_on=["a"])]

    @made.task("say")
    def echo(ctx: Any, value: str) -> str:
        if done is not None:
            done.append(ctx.task_id)
        return value

    @made.task("join")
    def join(ctx: Any) -> str:
        if done is not None:
            done.append(ctx.task_id)
        return "+".join(str(one) for one in ctx.results.values())

    @made.task("big")
    def big(ctx: Any) -> str:
        return BIG + ctx.task_id

    @made.task("size")
    def size(ctx: Any) -> int:
        return sum(len(one) for one in ctx.results.values())

    @made.reflect
    def reflect(ctx: Any) -> Finish | Continue:
        if ctx.goal == "twice" and ctx.iteration == 1:
            return Continue([Task("c", "join", depends_on=["b"])])
        return Finish("enough")

    @made.synthesize
    def synthesize(ctx: Any) -> str:
        return f"{ctx.goal}: " + ", ".join(f"{k}={v}" for k, v in sorted(ctx.results.items()))

    return made


@asynccontextmanager
async def working(served: Served, done: list[str] | None = None) -> AsyncIterator[None]:
    async with served.worker(agent(done)):
        yield


async def finished(served: Served, goal: str = "once", **options: Any) -> RunHandle:
    run = await served.client.start(goal, **options)
    assert (await run.wait(WAIT_S)).status == RunStatus.SUCCEEDED
    return run


async def version_where(served: Served, run: RunHandle, holds: Callable[[Any], bool]) -> int:
    """Return the first version as of which this holds of the run."""
    last = (await run.get()).version
    for version in range(1, last + 1):
        if holds(await served.client.run(run.id).get(version=version)):
            return version
    raise AssertionError("at no version")


async def tasks_of(served: Served, run: RunHandle, version: int = 0) -> dict[str, Any]:
    found = served.client.run(run.id).tasks(version=version)
    return {task.id: task async for task in found}


async def kinds(served: Served, run: RunHandle, **options: Any) -> list[tuple[str, str]]:
    checked = await served.client.run(run.id).check_fork(**options)
    return [
        (pb.ForkViolationKind.Name(one.kind).removeprefix("FORK_VIOLATION_KIND_"), one.task_id)
        for one in checked.violations
    ]


# --- going on from where another run was -----------------------------------------------------------


async def test_a_fork_from_the_middle_keeps_what_was_done_and_does_the_rest(
    served_everywhere: Served,
) -> None:
    served = served_everywhere
    done: list[str] = []
    async with working(served, done):
        run = await finished(served, labels={"team": "x", "try": "1"})
        middle = await version_where(served, run, lambda then: then.counts.completed == 1)
        done.clear()
        fork = await run.fork(version=middle, goal="again", labels={"try": "2"})
        ended = await fork.wait(WAIT_S)
        assert ended.status == RunStatus.SUCCEEDED
        assert await fork.result() == "again: a=a, b=a"

    assert done == ["b"]
    assert (ended.parent_run_id, ended.parent_version) == (run.id, middle)
    assert ended.family_id == run.id
    assert fork.id[-12:] == run.id[-12:]
    assert ended.labels == {"team": "x", "try": "2"}
    kept = (await tasks_of(served, fork))["a"]
    assert (kept.result_id, kept.result_run_id) == ("task:a#1", run.id)
    children = [one.id async for one in served.client.runs(parent_run_id=run.id)]
    assert children == [fork.id]
    assert [one async for one in served.client.runs(parent_run_id=fork.id)] == []


async def test_run_is_deleted_after_its_forks(served_everywhere: Served) -> None:
    served = served_everywhere
    async with working(served):
        run = await finished(served)
        fork = await run.fork(goal="later", replan=True)
        assert await fork.result() == "later: a=a, b=a"
        last = await fork.fork(goal="last")
        assert await last.result() == "last: a=a, b=a"

    for parent, child in ((run, fork), (fork, last)):
        with pytest.raises(FailedPrecondition, match=f"has forks.*: {child.id}; delete") as caught:
            await served.client.run(parent.id).delete()
        assert caught.value.reason == "RUN_HAS_FORKS"
    results = await last.results()
    assert {one.run_id for one in results.results} == {run.id}
    for one in (last, fork, run):
        await served.client.run(one.id).delete()
    with pytest.raises(RunNotFound):
        await run.fork()


async def test_a_step_of_a_fork_is_handed_kept_results_that_are_sent_by_reference(
    served: Served,
) -> None:
    big = [Task(f"big{n:02}", "big") for n in range(30)]
    names = [task.id for task in big]
    async with working(served):
        run = await served.client.start("sizes", plan=big)
        assert (await run.wait(WAIT_S)).status == RunStatus.SUCCEEDED
        plan = [*big, Task("sum", "size", depends_on=names)]
        fork = await run.fork(mode=ForkMode.PATCH, plan=plan)
        await fork.wait(WAIT_S)
        results = await fork.results()

    assert results.tasks["sum"] == 30 * (len(BIG) + 5)


# --- what doesn't fit -----------------------------------------------------------------------------


async def test_each_mode_says_what_does_not_fit_before_anything_is_written(
    served: Served,
) -> None:
    a, b = Task("a", "say", input="a"), Task("b", "join", depends_on=["a"])
    changed = Task("a", "say", input="other")
    async with working(served):
        run = await finished(served)
        assert await kinds(served, run, plan=[a]) == [("TASK_REMOVED", "b")]
        assert await kinds(served, run, version=1) == [("PLAN_MISSING", "")]
        assert await kinds(served, run, plan=[a, b]) == []
        mode: Any = {"mode": ForkMode.PATCH, "plan": [Task("w", "say", input="w", role="writer")]}
        while await kinds(served, run, **mode) != [("ROLE_MISSING", "w")]:
            pass  # A worker's presence is told a moment after it has come.
        assert await kinds(served, run, **mode, queue="nobody") == []
    with pytest.raises(ForkIncompatible) as caught:
        await run.fork(plan=[changed, b, Task("c")])
    assert caught.value.reason == "FORK_INCOMPATIBLE"
    assert [one.field for one in caught.value.violations] == [
        "plan.tasks[0].input",
        "plan.tasks[2]",
    ]
    assert caught.value.violations[0].description.startswith("DEFINITION_CHANGED: ")
    with pytest.raises(InvalidRequest) as invalid:
        await run.fork(mode=ForkMode.PATCH, plan=[Task("c", depends_on=["d"])])
    assert invalid.value.reason == "PLAN_INVALID"
    assert invalid.value.violations[0].field == "plan.tasks[0].depends_on[0]"
    with pytest.raises(InvalidRequest, match="either a plan or replan"):
        await run.fork(plan=[a], replan=True, mode=ForkMode.PATCH)
    assert [one.id async for one in served.client.runs()] == [run.id]


async def test_the_same_request_finds_the_same_fork_and_another_is_refused(
    served: Served,
) -> None:
    run = await served.client.start("parent", queue="nobody")
    options: Any = {"version": 1, "replan": True, "queue": "nobody", "request_id": "one"}
    fork = await run.fork(**options)
    again = await run.fork(**options)
    assert fork.created or not served.calm
    assert (again.id, again.created) == (fork.id, False)
    with pytest.raises(RequestIdReused):
        await run.fork(goal="another", **options)
    for one in (fork, run):
        await served.client.run(one.id).cancel()
        await served.client.run(one.id).delete()
    for call in (
        run.fork(version=1, replan=True),
        anext(served.client.run(run.id).checkpoints()),
        anext(served.client.run(run.id).plans()),
    ):
        with pytest.raises(RunNotFound):
            await call


async def test_parent_deleted_meanwhile_is_not_found(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await served.client.start("goes", queue="nobody")
    await run.cancel()
    prepare = forks.prepare_fork

    async def too_late(*arguments: Any) -> Any:
        base = await prepare(*arguments)
        await served.client.run(run.id).delete()
        return base

    monkeypatch.setattr(forks, "prepare_fork", too_late)
    with pytest.raises(RunNotFound):
        await run.fork(replan=True)
    assert [one async for one in served.client.runs()] == []


async def test_fork_has_the_warnings_of_its_response(served: Served) -> None:
    async with working(served):
        run = await finished(served)
        plain, changed = await run.fork(), await run.fork(goal="another")
    assert plain.warnings == ()
    assert "for another goal" in changed.warnings[0]


async def test_an_embedded_result_of_a_fork_has_what_it_kept(served: Served) -> None:
    async with working(served):
        run = await finished(served)
        fork = await run.fork(replan=True)
        await fork.wait(WAIT_S)
    row = await fork.get()
    found = await served.store.get_run(row.tenant_id, fork.id)
    assert found is not None
    result = await read_result(served.store, found)
    assert {name: one.value for name, one in result.tasks.items()} == {"a": "a", "b": "a"}
