"""Waits that a running step opens: it goes on when it is told their ends, and is suspended when it isn't."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stepwell_client import NonRetryable, TaskContext, decode, encode
from stepwell_client.agent.journal.context import opened_calls
from stepwell_client.v1 import types_pb2, worker_pb2
from tests.support.journal import JournaledStep, calls_of, result_of

END = types_pb2.JOURNAL_MARK_END


async def turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def awaited(ctx: TaskContext, name: str, key: str | None = None) -> Any:
    wait = worker_pb2.Outcome.SuspendedCall()
    wait.signal.name = name
    end = await opened_calls(ctx).await_end("receive", f"digest of {name}", key, wait)
    return decode(end.value)


async def test_running_step_goes_on_with_the_end_that_comes() -> None:
    step, gate, waits = JournaledStep(), asyncio.Event(), asyncio.Event()
    step.services.on_open = lambda key: waits.set()

    async def work(ctx: TaskContext) -> Any:
        async def wait() -> Any:
            got = await awaited(ctx, "note", "k")
            gate.set()
            return got

        return (await asyncio.gather(wait(), ctx.call("busy", gate.wait)))[0]

    attempt = asyncio.ensure_future(step.attempt(work))
    await waits.wait()
    await turns()
    step.services.put_end("k", value=encode("hello"))
    assert result_of(await attempt) == "hello"
    assert step.services.opened[0].arguments == "digest of note"
    assert result_of(await step.attempt(work)) == "hello"
    assert len(step.services.opened) == 1


async def test_end_that_comes_before_the_answer_to_the_opening_is_taken() -> None:
    step = JournaledStep()
    step.services.on_open = lambda key: step.services.put_end(key, value=encode(7))

    async def work(ctx: TaskContext) -> Any:
        return await awaited(ctx, "note", "k")

    assert result_of(await step.attempt(work)) == 7


async def test_step_that_no_end_reaches_is_suspended_and_wakes_with_the_end() -> None:
    step = JournaledStep()

    async def work(ctx: TaskContext) -> Any:
        return await awaited(ctx, "note", "k")

    outcome = await step.attempt(work)
    assert calls_of(outcome) == ["k"]
    assert outcome.suspended.waits[0].signal.name == "note"
    assert not outcome.suspended.more
    step.keep("k", END, value=encode("late"))
    assert result_of(await step.attempt(work)) == "late"


async def test_waits_of_one_moment_are_opened_by_one_message_of_a_hundred() -> None:
    step = JournaledStep()

    async def work(ctx: TaskContext) -> Any:
        return await asyncio.gather(*(awaited(ctx, "note", f"k{n:03}") for n in range(250)))

    outcome = await step.attempt(work)
    assert (len(step.services.opened), step.services.records) == (250, 3)
    assert (len(outcome.suspended.waits), outcome.suspended.more) == (100, True)


async def test_call_that_ends_before_its_turn_is_not_opened_again() -> None:
    """An earlier attempt has opened it, and its end comes while others are opened."""
    step = JournaledStep()

    def end_late_one(key: str) -> None:
        if key == "k000":
            step.services.put_end("k240", value=encode("came"))

    step.services.on_open = end_late_one

    async def work(ctx: TaskContext) -> Any:
        waits = (awaited(ctx, "note", f"k{n:03}") for n in range(250))
        return await asyncio.gather(*waits)

    outcome = await step.attempt(work)
    assert outcome.HasField("suspended")
    opened = [call.call for call in step.services.opened]
    assert (len(opened), "k240" in opened) == (249, False)
    assert step.services.known == ["k240"]


async def test_what_was_not_opened_comes_first_into_a_suspension() -> None:
    step = JournaledStep()

    async def work(ctx: TaskContext) -> Any:
        waits = [awaited(ctx, "note", f"a{n:03}") for n in range(150)]
        return await asyncio.gather(*waits, ctx.ask("Sure?", key="z"))

    assert calls_of(await step.attempt(work))[:2] == ["z", "a000"]


async def test_next_opening_names_the_ends_that_came() -> None:
    step = JournaledStep()

    def answer(key: str) -> None:
        if key == "k":
            step.services.put_end(key, value=encode(1))

    step.services.on_open = answer

    async def work(ctx: TaskContext) -> Any:
        await awaited(ctx, "note", "k")
        return await awaited(ctx, "note", "l")

    assert calls_of(await step.attempt(work)) == ["l"]
    assert step.services.known == ["k"]


async def test_a_hundred_ends_are_named_though_nothing_is_to_be_opened() -> None:
    step = JournaledStep()
    step.services.on_open = lambda key: step.services.put_end(key, value=encode(1))
    keys = [f"k{n:03}" for n in range(100)]

    async def work(ctx: TaskContext) -> Any:
        return sum(await asyncio.gather(*(awaited(ctx, "note", key) for key in keys)))

    assert result_of(await step.attempt(work)) == 100
    assert [call.call for call in step.services.opened] == keys
    assert step.services.known == keys


async def test_answer_reaches_a_running_step_that_asks() -> None:
    step = JournaledStep()

    async def work(ctx: TaskContext) -> Any:
        asking = asyncio.ensure_future(ctx.ask("Go on?", key="k", as_=bool))
        await turns()
        step.services.put_end("k", value=encode(True))
        return await asking

    assert result_of(await step.attempt(work)) is True


async def test_opening_that_is_refused_fails_its_call() -> None:
    step = JournaledStep()
    failure = types_pb2.Failure(kind="TOO_MANY_QUESTIONS", message="too many")

    async def work(ctx: TaskContext) -> Any:
        step.services.rejected = failure
        with pytest.raises(NonRetryable, match="too many"):
            await awaited(ctx, "note", "k")
        return "refused"

    assert result_of(await step.attempt(work)) == "refused"
