"""The test kit: an agent's runs in process, with skipped time, scripted failures and their history."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from stepwell.core.records.errors import FailedPrecondition, InvalidArgument
from stepwell.core.records.states import EventType, ExecutionStatus, RunStatus
from stepwell.embedded.result import RunFailed
from stepwell.runtime import SystemRuntime
from stepwell_client import (
    Agent,
    Effect,
    NeedsAnswer,
    PlanContext,
    QuestionKind,
    Retry,
    SynthesizeContext,
    Task,
    TaskContext,
)
from stepwell_client.enums import ExpiryAction
from stepwell_testkit.environment import Environment, NothingHappens

DAY = timedelta(days=1)


def report() -> Agent:
    agent = Agent("report")

    @agent.plan
    def plan(ctx: PlanContext) -> list[Task]:
        slow = Retry(initial_backoff=3_600, max_backoff=86_400, jitter=0.0)
        return [Task("fetch", "fetch", retry=slow), Task("write", "write", depends_on=["fetch"])]

    @agent.task("fetch")
    async def fetch(ctx: TaskContext) -> str:
        return "data"

    @agent.task("write")
    def write(ctx: TaskContext) -> str:
        return f"about {ctx.results['fetch']}"

    @agent.synthesize
    def synthesize(ctx: SynthesizeContext) -> str:
        return str(ctx.results["write"])

    return agent


def asking() -> Agent:
    agent = Agent("asking")

    @agent.task
    def do(ctx: TaskContext) -> str:
        answer = ctx.answer()
        if answer is None:
            raise NeedsAnswer(
                "Really?", kind=QuestionKind.APPROVAL, expires=DAY, on_expiry=ExpiryAction.DENY
            )
        return f"said {answer}"

    return agent


async def test_a_run_goes_from_its_plan_to_its_answer() -> None:
    async with Environment(report()) as env:
        run = await env.start("a report")
        assert await run.result() == "about data"
        history = await run.history()
        assert history.done() == ("fetch", "write")
        assert history.is_before("fetch", "write")
        assert not history.is_before("write", "fetch")


async def test_failures_come_by_script_and_back_offs_of_hours_pass_at_once() -> None:
    clock = SystemRuntime()
    async with Environment(report()) as env:
        env.fail("fetch", times=2, kind="OFFLINE")
        run = await env.start()
        began = clock.monotonic()
        assert await run.result() == "about data"
        assert clock.monotonic() - began < 60
        history = await run.history()
        assert history.attempts("fetch") == ("FAILED", "FAILED", "COMPLETED")
        assert history.run.ended_us - history.run.created_us >= 3 * 3_600 * 1_000_000


async def test_a_failure_that_is_not_retried_ends_the_run() -> None:
    async with Environment(report()) as env:
        env.fail("fetch", kind="GONE", message="no such page", retryable=False)
        run = await env.start()
        with pytest.raises(RunFailed, match="no such page"):
            await run.result()
        assert (await run.history()).count(EventType.RUN_FAILED) == 1


async def test_a_lost_worker_s_lease_expires_and_the_step_is_run_again() -> None:
    async with Environment(report()) as env:
        env.lose("fetch")
        env.lose("synthesize", after=True)
        run = await env.start()
        assert await run.result() == "about data"
        history = await run.history()
        assert history.attempts("fetch") == (ExecutionStatus.LOST, ExecutionStatus.COMPLETED)
        assert history.attempts("synthesize") == ("LOST", "COMPLETED")


async def test_a_step_that_may_run_once_is_not_run_again_after_it_began() -> None:
    plan = [Task("pay", "fetch", effect=Effect.AT_MOST_ONCE)]
    async with Environment(report()) as env:
        env.lose("pay")
        run = await env.start(plan=plan, stages=[])
        assert (await run.wait()).status is RunStatus.WAITING
        assert (await run.history()).attempts("pay") == ("UNKNOWN_OUTCOME",)


async def test_crash_costs_the_running_attempt_and_nothing_else() -> None:
    agent, holds = Agent("held"), asyncio.Event()
    ran: list[str] = []

    @agent.task
    async def do(ctx: TaskContext) -> None:
        ran.append(ctx.task_id)
        if ctx.task_id == "second" and ctx.attempt == 1:
            holds.set()
            await asyncio.Event().wait()

    async with Environment(agent) as env:
        run = await env.start(plan=[Task("first"), Task("second", depends_on=["first"])])
        await holds.wait()
        await env.crash()
        assert (await run.wait()).status is RunStatus.SUCCEEDED
        assert ran == ["first", "second", "second"]
        assert (await run.history()).attempts("second") == ("LOST", "COMPLETED")


async def test_a_person_s_answer_goes_to_the_task_that_asked() -> None:
    async with Environment(asking()) as env:
        run = await env.start(plan=[Task("a")])
        assert (await run.wait()).status is RunStatus.WAITING
        (question,) = await run.questions()
        assert question.prompt == "Really?"
        with pytest.raises(InvalidArgument, match="approval"):
            await run.answer("perhaps")
        await run.answer(True)
        assert await run.result() == {"a": "said True"}
        with pytest.raises(FailedPrecondition):
            await run.answer(True, question.question_id)


async def test_a_question_expires_when_its_time_is_skipped_and_not_before() -> None:
    async with Environment(asking()) as env:
        run = await env.start(plan=[Task("a")])
        assert (await run.wait()).status is RunStatus.WAITING
        await env.skip(DAY - timedelta(minutes=1))
        assert (await run.wait()).status is RunStatus.WAITING
        await env.skip(timedelta(minutes=2))
        with pytest.raises(RunFailed):
            await run.result()
        assert (await run.read()).failure.kind == "DENIED"


async def test_sleep_of_two_weeks_passes_at_once() -> None:
    agent = Agent("patient")

    @agent.task("remind")
    async def remind(ctx: TaskContext) -> str:
        await ctx.sleep(14 * 24 * 3_600)
        return "reminded"

    async with Environment(agent) as env:
        run = await env.start(plan=[Task("a", "remind")])
        assert await run.result() == {"a": "reminded"}
        assert (await run.history()).attempts("a") == ("SUSPENDED", "COMPLETED")


async def test_a_run_is_paused_resumed_and_cancelled() -> None:
    async with Environment(asking()) as env:
        run = await env.start(plan=[Task("a")])
        await run.wait()
        await run.pause("later")
        assert (await run.wait()).status is RunStatus.PAUSED
        await run.resume()
        assert (await run.wait()).status is RunStatus.WAITING
        await run.cancel()
        with pytest.raises(RunFailed):
            await run.result()


async def test_task_without_a_worker_is_reported() -> None:
    async with Environment(asking()) as env:
        run = await env.start(plan=[Task("a")])
        with pytest.raises(NothingHappens, match="QUESTION"):
            await run.result()


async def test_a_mishap_that_never_happened_fails_the_test() -> None:
    with pytest.raises(AssertionError, match="at fetsh"):  # noqa: PT012 - it is the end of the block that raises
        async with Environment(report()) as env:
            env.fail("fetsh")
            await (await env.start()).result()


async def test_runs_of_one_environment_are_apart() -> None:
    async with Environment(report()) as env:
        runs = [await env.start(f"number {n}") for n in range(5)]
        assert [await run.result() for run in runs] == ["about data"] * 5


async def test_it_runs_over_a_store_in_a_file(tmp_path: object) -> None:
    async with Environment(report(), store=f"sqlite:///{tmp_path}/env.db") as env:
        env.fail("write")
        run = await env.start()
        assert await run.result() == "about data"
