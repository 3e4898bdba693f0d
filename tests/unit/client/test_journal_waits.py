"""Waits within a step: which are waited for in place, and when the step is handed back."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from typing import Any

import pytest

from stepwell_client import (
    Agent,
    Effect,
    JournalError,
    PlanContext,
    QuestionKind,
    TaskContext,
    encode,
)
from stepwell_client.internal import AgentRunner
from stepwell_client.v1 import types_pb2
from tests.support.journal import JournaledStep, calls_of, result_of
from tests.support.steps import assignment

END = types_pb2.JOURNAL_MARK_END
TRY = types_pb2.JOURNAL_MARK_TRY
WAIT = types_pb2.JOURNAL_MARK_WAIT
DAY = 24 * 3600


async def one() -> int:
    return 1


async def test_a_short_sleep_is_waited_for_in_place_and_kept() -> None:
    step = JournaledStep()

    async def work(ctx: TaskContext) -> str:
        await ctx.sleep(1.5)
        return "rested"

    assert result_of(await step.attempt(work)) == "rested"
    assert step.services.runtime.slept == [1.5]
    assert result_of(await step.attempt(work)) == "rested"
    assert step.services.runtime.slept == [1.5]
    assert len(step.kept(WAIT)) == 1


async def test_a_long_sleep_suspends_and_the_next_attempt_waits_for_the_rest() -> None:
    step = JournaledStep()

    async def work(ctx: TaskContext) -> str:
        await ctx.sleep(timedelta(days=1))
        return "rested"

    outcome = await step.attempt(work)
    assert calls_of(outcome) == [step.kept(WAIT)[0].key]
    rest = outcome.suspended.waits[0].sleep.remaining.ToSeconds()
    assert DAY - 1 <= rest <= DAY
    step.services.runtime.now += DAY - 2
    assert result_of(await step.attempt(work)) == "rested"
    assert step.services.runtime.now >= next(iter(step.services.ends.values()))
    assert len(step.kept(WAIT)) == 1


async def test_an_answer_is_the_value_of_the_question() -> None:
    step = JournaledStep()

    async def work(ctx: TaskContext) -> list[Any]:
        first = await ctx.call("one", one)
        agreed = await ctx.ask("Go on?", kind=QuestionKind.APPROVAL, expires=60, as_=bool)
        return [first, agreed]

    outcome = await step.attempt(work)
    asked = outcome.suspended.waits[0]
    assert (asked.ask.prompt, asked.ask.kind) == ("Go on?", types_pb2.QUESTION_KIND_APPROVAL)
    assert asked.ask.expires.ToSeconds() == 60
    step.keep(asked.call, END, value=encode(True))
    assert result_of(await step.attempt(work)) == [1, True]


async def test_a_sleep_with_a_key_ends_as_it_was_stamped_whatever_its_length_is_now() -> None:
    step = JournaledStep()

    async def work(ctx: TaskContext) -> str:
        await ctx.sleep(DAY / ctx.attempt, key="nap")
        return "rested"

    assert calls_of(await step.attempt(work)) == ["nap"]
    step.services.runtime.now += DAY
    assert result_of(await step.attempt(work)) == "rested"
    assert len(step.kept(WAIT)) == 1


async def test_a_key_of_a_sleep_is_no_key_of_anything_else() -> None:
    step = JournaledStep()

    async def work(ctx: TaskContext) -> Any:
        if ctx.attempt == 1:
            await ctx.sleep(1, key="k")
            raise OSError
        return await (
            ctx.ask("Go on?", key="k") if ctx.attempt == 2 else ctx.call("k", one, key="k")
        )

    for kind in ("OSError", "JournalMismatch", "JournalMismatch"):
        assert (await step.attempt(work)).failed.failure.kind == kind


async def test_questions_side_by_side_go_in_one_outcome() -> None:
    step = JournaledStep()

    async def work(ctx: TaskContext) -> list[Any]:
        return await asyncio.gather(
            *(ctx.ask(f"Which {name}?", key=name) for name in ("a", "b", "c")), ctx.sleep(DAY)
        )

    keys = calls_of(await step.attempt(work))
    assert sorted(keys)[:3] == ["a", "b", "c"]
    assert len(keys) == 4
    step.keep("b", END, value=encode("B"))
    assert sorted(calls_of(await step.attempt(work)))[:2] == ["a", "c"]


async def test_a_step_keeps_its_worker_while_a_call_of_another_branch_runs() -> None:
    step, finished = JournaledStep(), list[str]()

    async def model() -> str:
        for _ in range(5):
            await step.services.runtime.sleep(100)
        finished.append("model")
        return "answer"

    async def branch(ctx: TaskContext) -> None:
        await ctx.call("model", model)
        await ctx.call("one", one)

    async def work(ctx: TaskContext) -> None:
        await asyncio.gather(ctx.ask("Go on?", key="q"), branch(ctx))

    assert calls_of(await step.attempt(work)) == ["q"]
    assert finished == ["model"]
    assert len(step.kept(END)) == 2


async def test_a_sleep_that_ends_while_another_branch_works_goes_on_in_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in ("agent.journal.waits", "agent.journal.journal_calls"):
        monkeypatch.setattr(f"stepwell_client.{module}.SHORT_SECONDS", 0.001)
    step = JournaledStep()

    async def model() -> str:
        await step.services.runtime.sleep(1)
        return "answer"

    async def work(ctx: TaskContext) -> str:
        await asyncio.gather(ctx.sleep(0.01), ctx.call("model", model))
        return "both"

    assert result_of(await step.attempt(work)) == "both"


async def test_waiting_through_an_outer_call_is_no_failed_try() -> None:
    step = JournaledStep()

    async def outer(ctx: TaskContext) -> Any:
        ctx.usage(input_tokens=7)
        return await ctx.ask("Go on?", key="q")

    async def work(ctx: TaskContext) -> Any:
        return await ctx.call("outer", outer, ctx, key="o")

    outcome = await step.attempt(work)
    assert calls_of(outcome) == ["o#/q"]
    assert outcome.usage.input_tokens == 7
    assert not step.kept(TRY)
    step.keep("o#/q", END, value=encode("yes"))
    assert result_of(await step.attempt(work)) == "yes"


@pytest.mark.parametrize("how", ["sleep", "ask"])
async def test_waiting_is_refused_within_an_at_most_once_call(how: str) -> None:
    step = JournaledStep()

    async def charge(ctx: TaskContext) -> None:
        await ctx.sleep(0.5)
        await (ctx.sleep(DAY) if how == "sleep" else ctx.ask("Charge?"))

    async def work(ctx: TaskContext) -> None:
        await ctx.call("charge", charge, ctx, key="c", effect=Effect.AT_MOST_ONCE)

    failure = (await step.attempt(work)).failed.failure
    assert (failure.kind, failure.retryable) == (JournalError.__name__, False)
    assert "AT_MOST_ONCE" in failure.message
    assert [entry.number for entry in step.kept(TRY)] == [1]


@pytest.mark.parametrize("how", ["sleep", "ask"])
async def test_waiting_is_refused_in_an_at_most_once_task_that_has_begun(how: str) -> None:
    step = JournaledStep()

    async def work(ctx: TaskContext) -> None:
        await ctx.sleep(0.5)
        with ctx.scope("part"):
            await (ctx.sleep(DAY) if how == "sleep" else ctx.ask("Go on?"))

    outcome = await step.attempt(work, effect=types_pb2.EFFECT_AT_MOST_ONCE)
    assert (outcome.failed.failure.kind, outcome.failed.failure.retryable) == (
        JournalError.__name__,
        False,
    )
    assert "AT_MOST_ONCE task" in outcome.failed.failure.message


BEGINS = {"effect": types_pb2.EFFECT_AT_MOST_ONCE, "manual_begin": True}


async def test_an_at_most_once_task_may_wait_before_it_begins() -> None:
    async def work(ctx: TaskContext) -> None:
        await ctx.sleep(DAY)

    assert len(calls_of(await JournaledStep().attempt(work, **BEGINS))) == 1


async def test_an_at_most_once_task_does_not_begin_while_another_branch_waits() -> None:
    step = JournaledStep()

    async def work(ctx: TaskContext) -> None:
        await asyncio.gather(ctx.ask("Go on?", key="q"), ctx.begin())

    failure = (await step.attempt(work, **BEGINS)).failed.failure
    assert (failure.kind, failure.retryable) == (JournalError.__name__, False)
    assert "'q'" in failure.message
    assert step.services.begun == []


async def test_a_sleep_that_is_being_recorded_while_its_task_begins_is_refused() -> None:
    step = JournaledStep()

    async def work(ctx: TaskContext) -> None:
        await asyncio.gather(ctx.sleep(DAY), ctx.begin())

    failure = (await step.attempt(work, **BEGINS)).failed.failure
    assert failure.kind == JournalError.__name__
    assert len(step.services.begun) == 1


async def test_a_task_that_waits_for_a_budget_begins_or_is_suspended() -> None:
    async def outcome_of(turns: int) -> bool:
        """Let a task begin after so many turns of the loop; return whether it has."""
        step = JournaledStep(budget_spent=True)

        async def later(ctx: TaskContext) -> int:
            await ctx.call("first", one)
            return await ctx.call("second", one)

        async def begin(ctx: TaskContext) -> None:
            for _ in range(turns):
                await asyncio.sleep(0)
            await ctx.begin()

        async def work(ctx: TaskContext) -> int:
            return (await asyncio.gather(later(ctx), begin(ctx)))[0]

        outcome = await step.attempt(work, **BEGINS)
        if step.services.begun:
            assert result_of(outcome) == 1
        else:
            assert len(calls_of(outcome)) == 1
        return bool(step.services.begun)

    begun = [await outcome_of(turns) for turns in range(40)]
    assert begun == sorted(begun, reverse=True)
    assert {True, False} == set(begun)


async def test_a_spent_budget_does_not_hold_back_an_at_most_once_task_that_has_begun() -> None:
    step = JournaledStep(budget_spent=True)

    async def work(ctx: TaskContext) -> list[int]:
        return [await ctx.call("first", one), await ctx.call("second", one)]

    assert result_of(await step.attempt(work, effect=types_pb2.EFFECT_AT_MOST_ONCE)) == [1, 1]


async def test_a_spent_budget_suspends_the_next_call_and_not_a_replayed_one() -> None:
    step = JournaledStep(budget_spent=True)

    async def work(ctx: TaskContext) -> list[int]:
        return [await ctx.call("first", one), await ctx.call("second", one)]

    outcome = await step.attempt(work)
    assert outcome.suspended.waits[0].HasField("budget")
    assert calls_of(outcome)[0].startswith("second/")
    assert len(step.kept(END)) == 1
    step.services.budget_spent = False
    assert result_of(await step.attempt(work)) == [1, 1]


async def test_a_budget_that_is_raised_meanwhile_lets_the_call_go_on() -> None:
    step = JournaledStep(budget_spent=True)

    async def model() -> int:
        for _ in range(3):
            await step.services.runtime.sleep(1)
        step.services.budget_spent = False
        return 2

    async def branch(ctx: TaskContext) -> int:
        await ctx.call("first", one)
        return await ctx.call("second", one)

    async def work(ctx: TaskContext) -> tuple[int, int]:
        return await asyncio.gather(ctx.call("model", model), branch(ctx))

    assert result_of(await step.attempt(work)) == [2, 1]


async def test_threads_are_suspended_too() -> None:
    step, after = JournaledStep(), list[str]()

    def work(ctx: TaskContext) -> str:
        try:
            answer = ctx.ask_sync("Go on?", key="q")
            ctx.sleep_sync(0.5)
        except Exception:
            return "swallowed"
        finally:
            after.append(threading.current_thread().name)
        return f"{answer}"

    assert calls_of(await step.attempt(work)) == ["q"]
    assert after[0].startswith("agent-step")
    step.keep("q", END, value=encode("yes"))
    assert result_of(await step.attempt(work)) == "yes"


async def test_a_cancelled_step_ends_a_thread_that_waits() -> None:
    step, ended = JournaledStep(), list[str]()
    waiting = asyncio.Event()
    loop = asyncio.get_running_loop()

    async def model() -> None:
        loop.call_soon_threadsafe(waiting.set)
        await asyncio.Event().wait()

    def work(ctx: TaskContext) -> None:
        try:
            ctx.call_sync("model", model)
        except BaseException as error:
            ended.append(type(error).__name__)
            raise

    attempt = asyncio.ensure_future(step.attempt(work))
    await waiting.wait()
    attempt.cancel()
    with pytest.raises(asyncio.CancelledError):
        await attempt
    assert ended == ["LeaseLost"]


async def test_other_kinds_of_step_ask_too() -> None:
    agent, step = Agent(), JournaledStep()

    @agent.plan
    async def plan(ctx: PlanContext) -> Any:
        await ctx.ask("Which way?", key="way")

    runner = AgentRunner(agent, step.services.runtime)
    made = assignment(kind=types_pb2.STEP_KIND_PLAN)
    assert calls_of(await runner.run(made, step.services)) == ["way"]
