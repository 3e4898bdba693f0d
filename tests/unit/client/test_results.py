"""Results in an agent's function: those that came with its step, and those that it reads."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell_client import Agent, Finish, Task, decode
from stepwell_client.errors import NotLoaded
from stepwell_client.v1 import types_pb2, worker_pb2
from tests.support.steps import FakeServices, assignment, run, shown

REFLECT, SYNTHESIZE = types_pb2.STEP_KIND_REFLECT, types_pb2.STEP_KIND_SYNTHESIZE
FAILED = types_pb2.Failure(kind="Oops", message="the whole of it")
OOPS = worker_pb2.DependencyResult(task_id="oops", failure=types_pb2.Failure(kind="Oops"))


def wide_step(**fields: Any) -> worker_pb2.Assignment:
    """Return a synthesis of a, oops, b (not listed), c (listed) and d (with its bytes)."""
    results = [*shown("c", by_reference=True), *shown("d")]
    return assignment(kind=SYNTHESIZE, results=results, results_before=3, **fields)


def wide_services() -> FakeServices:
    """Return services that have all of these results, two in a page."""
    failed = worker_pb2.DependencyResult(task_id="oops", failure=FAILED)
    return FakeServices(
        results=[*shown("a"), failed, *shown("b", "c", "d")],
        listed=[
            *shown("a", by_reference=True),
            OOPS,
            *shown("b", "c", by_reference=True),
            *shown("d", by_reference=True),
        ],
    )


async def test_synchronous_function_reads_results_as_it_asks_for_them() -> None:
    agent, services = Agent(), wide_services()

    @agent.synthesize
    def synthesize(ctx: Any) -> list[Any]:
        assert (ctx.results["d"], services.reads) == ("d", [])
        assert (ctx.results["c"], services.reads) == ("c", [(["c"], 0)])
        assert "a" in ctx.results
        assert "oops" not in ctx.results
        assert ctx.failures["oops"].kind == "Oops"
        with pytest.raises(KeyError):
            ctx.results["never"]
        assert ctx.results.get("oops") is None
        return [len(ctx.results), *ctx.results.values()]

    outcome = await run(agent, wide_step(), services)

    assert decode(outcome.completed.result) == [4, "a", "b", "c", "d"]


async def test_async_function_loads_before_it_reads() -> None:
    agent, services = Agent(), wide_services()

    @agent.synthesize
    async def synthesize(ctx: Any) -> Any:
        with pytest.raises(NotLoaded, match=r"await ctx\.load\('c'\)"):
            ctx.results["c"]
        for unlisted in (
            lambda: list(ctx.results),
            lambda: ctx.failures,
            lambda: "a" in ctx.results,
        ):
            with pytest.raises(NotLoaded, match=r"await ctx\.list_results\(\)"):
                unlisted()
        assert (await ctx.load("c", "d"))["c"] == "c"
        assert services.reads == [(["c"], 0)], "what is here is not read again"
        with pytest.raises(KeyError, match="never"):
            await ctx.load("never")
        assert list(await ctx.list_results()) == ["a", "b", "c", "d"]
        assert ctx.failures["oops"].message == ""
        await ctx.load("oops")
        assert ctx.failures["oops"].message == FAILED.message
        await ctx.load()
        services.reads.clear()
        await ctx.load()
        assert services.reads == []
        return dict(ctx.results)

    outcome = await run(agent, wide_step(), services)

    assert decode(outcome.completed.result) == {each: each for each in "abcd"}


async def test_unloaded_result_fails_the_step_for_good() -> None:
    agent = Agent()

    @agent.synthesize
    async def synthesize(ctx: Any) -> Any:
        return ctx.results["c"]

    failure = (await run(agent, wide_step(), wide_services())).failed.failure

    assert (failure.kind, failure.retryable) == ("NotLoaded", False)
    assert "await ctx.load('c')" in failure.message


@pytest.mark.parametrize("revision", [1, 2])
async def test_reflection_loads_an_earlier_iteration_by_its_id(revision: int) -> None:
    agent, services = Agent(), FakeServices(results=shown("old"))
    agent.reflect(lambda ctx: Finish(ctx.results["old"]))
    step = assignment(kind=REFLECT, results=shown("new"))
    step.run.plan_revision = revision

    outcome = await run(agent, step, services)

    if revision == 1:  # There is nothing earlier to ask for.
        assert (outcome.failed.failure.kind, services.reads) == ("KeyError", [])
    else:
        assert outcome.reflected.reason == "old"


async def test_synchronous_generator_of_a_plan_reads_results() -> None:
    agent = Agent()

    @agent.plan
    def plan(ctx: Any) -> Any:
        yield Task(ctx.results["a"], "do")

    step = assignment(kind=types_pb2.STEP_KIND_PLAN, results=shown("a", by_reference=True))
    outcome = await run(agent, step, FakeServices(results=shown("a")))

    assert [task.task_id for task in outcome.planned.plan.tasks] == ["a"]
