"""Suspensions of a step: what their outcomes hold, and what its functions see of them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stepwell_client import Effect, Retry, TaskContext, encode
from stepwell_client.errors import Suspended
from stepwell_client.v1 import types_pb2, worker_pb2
from tests.support.journal import Counted, HeldRuntime, JournaledStep, calls_of, result_of
from tests.support.patience import until

END = types_pb2.JOURNAL_MARK_END
DAY = 24 * 3600
QUIET_SECONDS = 0.1


async def one() -> int:
    return 1


async def suspended_by(
    questions: int, prompt: str, sleeps: int = 0
) -> list[worker_pb2.Outcome.SuspendedCall]:
    """Return what a step waits for that asks so much, and sleeps so often."""

    async def work(ctx: TaskContext) -> None:
        asks = (ctx.ask(prompt, key=f"q{number:03}") for number in reversed(range(questions)))
        naps = (ctx.sleep(DAY + number, key=f"s{number:03}") for number in range(sleeps))
        await asyncio.gather(*naps, *asks)

    return list((await JournaledStep().attempt(work)).suspended.waits)


async def test_many_sleeps_take_no_room_from_questions_nor_these_from_the_first_sleep() -> None:
    few = await suspended_by(3, "Which?", sleeps=120)
    many = await suspended_by(120, "Which?", sleeps=2)

    assert [one.call for one in few][:5] == ["s000", "q000", "q001", "q002", "s001"]
    assert [one.call for one in many] == ["s000", *(f"q{number:03}" for number in range(99))]
    assert len(few) == 100


async def test_questions_that_are_too_large_together_are_asked_by_later_attempts() -> None:
    asked = await suspended_by(20, "x" * (200 << 10))

    assert [one.call for one in asked] == [f"q{number:03}" for number in range(5)]


def asking_and_pausing(effect: Effect) -> tuple[Any, Counted]:
    """Return a step that asks while a call within another one waits for its next try, and that call's function."""
    fetch = Counted(OSError(), "fetched")
    retry = Retry(initial_backoff=10, jitter=0)

    async def outer(ctx: TaskContext) -> Any:
        return await ctx.call("fetch", fetch, key="fetch", retry=retry)

    async def work(ctx: TaskContext) -> Any:
        outer_call = ctx.call("outer", outer, ctx, key="outer", effect=effect)
        return await asyncio.gather(ctx.ask("Go on?", key="q"), outer_call)

    return work, fetch


async def test_a_question_is_asked_while_a_call_waits_for_long_for_its_next_try() -> None:
    step = JournaledStep(runtime=HeldRuntime())
    work, fetch = asking_and_pausing(Effect.IDEMPOTENT)

    outcome = await step.attempt(work)

    assert calls_of(outcome) == ["outer#/fetch", "q"]
    assert 9_000 < outcome.suspended.waits[0].sleep.remaining.ToMilliseconds() <= 10_000
    step.keep("q", END, value=encode("yes"))
    assert result_of(await step.attempt(work)) == ["yes", "fetched"]
    assert len(fetch.runs) == 2


async def test_no_step_is_suspended_while_a_try_within_an_at_most_once_call_is_due() -> None:
    runtime = HeldRuntime()
    step = JournaledStep(runtime=runtime)
    work, fetch = asking_and_pausing(Effect.AT_MOST_ONCE)

    attempt = asyncio.ensure_future(step.attempt(work))
    await until(lambda: runtime.slept.count(QUIET_SECONDS) >= 2 and 10 in runtime.slept)
    assert not attempt.done()
    runtime.goes_on.set()

    assert calls_of(await attempt) == ["q"]
    assert sorted(one.key for one in step.kept(END)) == ["outer", "outer#/fetch"]
    assert len(fetch.runs) == 2


async def swallow_and_return(ctx: TaskContext) -> str:
    try:
        await ctx.ask("Go on?")
    except BaseException:
        return "nothing happened"
    return "answered"


async def swallow_and_raise(ctx: TaskContext) -> None:
    try:
        await ctx.ask("Go on?")
    except BaseException as error:
        raise ValueError from error


@pytest.mark.parametrize("function", [swallow_and_return, swallow_and_raise])
async def test_a_swallowed_suspension_counts_all_the_same_and_is_logged(
    function: Any, caplog: pytest.LogCaptureFixture
) -> None:
    step = JournaledStep()

    assert (await step.attempt(function)).HasField("suspended")
    assert function.__name__ in caplog.text


async def test_an_outer_call_that_swallows_is_named_and_not_recorded(
    caplog: pytest.LogCaptureFixture,
) -> None:
    step = JournaledStep()

    async def work(ctx: TaskContext) -> Any:
        return await ctx.call("tool", swallow_and_return, ctx, key="tool")

    assert (await step.attempt(work)).HasField("suspended")
    assert caplog.text.count("caught Suspended") == 1
    assert "the call tool" in caplog.text
    assert not step.services.entries


@pytest.mark.parametrize("how", ["ask", "sleep"])
async def test_a_time_out_around_a_wait_does_not_hold_as_the_step_is_handed_back(
    how: str,
) -> None:
    step = JournaledStep()

    async def work(ctx: TaskContext) -> str:
        try:
            async with asyncio.timeout(60):
                await (ctx.ask("Go on?") if how == "ask" else ctx.sleep(3_600))
        except TimeoutError:
            return "too late"
        return "in time"

    (key,) = calls_of(await step.attempt(work))
    if how == "ask":
        step.keep(key, END, value=encode("yes"))
    else:
        step.services.ends[key] = step.services.runtime.now
    assert result_of(await step.attempt(work)) == "in time"


async def test_a_wait_that_is_given_up_for_a_call_does_not_suspend_the_step() -> None:
    step = JournaledStep()

    async def work(ctx: TaskContext) -> str:
        call = asyncio.ensure_future(ctx.call("look", Counted("seen")))
        wait = asyncio.ensure_future(ctx.sleep(3_600))
        await asyncio.wait((call, wait), return_when=asyncio.FIRST_COMPLETED)
        wait.cancel()
        return await call

    assert result_of(await step.attempt(work)) == "seen"


async def test_a_suspension_that_gather_returns_as_a_value_is_no_result_of_the_run() -> None:
    step = JournaledStep()
    look = Counted("seen")
    values: list[object] = []

    async def work(ctx: TaskContext) -> list[object]:
        both = (ctx.ask("Go on?"), ctx.call("look", look))
        values[:] = await asyncio.gather(*both, return_exceptions=True)
        await ctx.call("send", Counted("sent"))
        return values

    (key,) = calls_of(await step.attempt(work))
    assert isinstance(values[0], Suspended)
    assert [one.name for one in step.kept(END)] == ["look"]
    step.keep(key, END, value=encode("yes"))
    assert result_of(await step.attempt(work)) == ["yes", "seen"]
    assert len(look.runs) == 1


async def test_once_suspended_every_use_of_the_context_raises_it_again() -> None:
    step, raised = JournaledStep(), list[str]()

    async def work(ctx: TaskContext) -> None:
        uses: dict[str, Any] = {
            "call": lambda: ctx.call("one", one),
            "sleep": lambda: ctx.sleep(1),
            "ask": lambda: ctx.ask("Again?"),
            "forget": lambda: ctx.forget("x"),
            "save": ctx.save_messages,
            "begin": ctx.begin,
            "load": lambda: ctx.load("x"),
        }
        acts: dict[str, Any] = {
            "check_cancelled": ctx.check_cancelled,
            "heartbeat": ctx.heartbeat,
            "stream": lambda: ctx.stream("x"),
            "append": lambda: ctx.append("user", "x"),
            "session": lambda: ctx.session("b", "s"),
            "record": lambda: ctx.transcript(prompt="x"),
            "scope": lambda: ctx.scope("x").__enter__(),
        }
        try:
            await ctx.ask("Go on?")
        finally:
            ctx.log("the finally block runs")
            for name, use in uses.items():
                try:
                    await use()
                except Suspended:
                    raised.append(name)
            for name, act in acts.items():
                try:
                    act()
                except Suspended:
                    raised.append(name)
            ctx.usage(input_tokens=3)

    outcome = await step.attempt(work)
    assert outcome.HasField("suspended")
    assert outcome.usage.input_tokens == 3
    asynchronous = ["call", "sleep", "ask", "forget", "save", "begin", "load"]
    acting = ["check_cancelled", "heartbeat", "stream", "append", "session", "record", "scope"]
    assert raised == [*asynchronous, *acting]
    assert not step.services.entries
    assert step.services.written


async def test_suspended_is_neither_exception_nor_cancellation_and_found_in_groups(
    caplog: pytest.LogCaptureFixture,
) -> None:
    step = JournaledStep()

    async def work(ctx: TaskContext) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                for name in "ab":
                    group.create_task(ctx.ask("Which?", key=name))
        except (Exception, asyncio.CancelledError):
            await ctx.call("one", one)

    assert sorted(calls_of(await step.attempt(work))) == ["a", "b"]
    assert "caught" not in caplog.text
