"""Tries of a call: which are recorded, which count, and which failures are final."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stepwell_client import (
    Failure,
    JournalError,
    NonRetryable,
    Retry,
    TaskContext,
)
from stepwell_client.v1 import types_pb2
from tests.support.journal import Counted, Crash, HeldRuntime, JournaledStep, crashed, result_of

TRY = types_pb2.JOURNAL_MARK_TRY


async def test_a_failed_try_is_recorded_raised_and_never_replayed() -> None:
    step, fetch = JournaledStep(), Counted(ValueError("no"), "yes")

    async def work(ctx: TaskContext) -> Any:
        return await ctx.call("fetch", fetch)

    first = await step.attempt(work)
    assert (first.failed.failure.kind, first.failed.failure.message) == ("ValueError", "no")
    tried = step.kept(TRY)
    assert [(one.number, one.attempt, one.failure.kind) for one in tried] == [(1, 1, "ValueError")]
    assert result_of(await step.attempt(work)) == "yes"


@pytest.mark.parametrize("key", [None, "mine"])
async def test_next_try_of_a_call_finds_the_calls_that_its_function_made(key: str | None) -> None:
    step, charge, send = JournaledStep(), Counted(), Counted(OSError("away"))

    async def order(ctx: TaskContext) -> Any:
        charged = [
            await ctx.call("charge", charge, 5, key=key),
            await ctx.call("charge", charge, 5),
        ]
        await ctx.call("send", send)
        return charged

    async def work(ctx: TaskContext) -> Any:
        return await ctx.call("order", order, ctx, key="order", retry=Retry(max_attempts=2))

    assert result_of(await step.attempt(work)) == ["done 1", "done 2"]
    assert (len(charge.runs), len(send.runs)) == (2, 2)


async def test_retries_wait_and_stop_at_their_number() -> None:
    step, fetch = JournaledStep(), Counted(*(OSError("away") for _ in range(9)))
    retry = Retry(max_attempts=3, initial_backoff=10, jitter=0)

    async def work(ctx: TaskContext) -> Any:
        return await ctx.call("fetch", fetch, retry=retry)

    assert (await step.attempt(work)).failed.failure.kind == "OSError"
    assert [one.number for one in step.kept(TRY)] == [1, 2, 3]
    assert step.services.runtime.slept == [10, 20]


async def test_tries_of_a_lost_attempt_count_and_those_before_tries_from_do_not() -> None:
    step = JournaledStep()
    fetch = Counted(OSError(), OSError(), Crash(), OSError("last"), "after")
    retry = Retry(max_attempts=3, initial_backoff=0.01)

    async def work(ctx: TaskContext) -> Any:
        return await ctx.call("fetch", fetch, retry=retry)

    await crashed(step, work)
    assert (await step.attempt(work)).failed.failure.message == "last"
    assert len(fetch.runs) == 4

    # The attempt was lost before it could report that: no try is left.
    assert (await step.attempt(work)).failed.failure.kind == "OSError"
    assert len(fetch.runs) == 4

    step.tries_from = 3
    assert result_of(await step.attempt(work)) == "after"


@pytest.mark.parametrize(
    "error",
    [NonRetryable("never"), Failure("no", kind="BAD"), JournalError("misused")],
)
async def test_failures_that_are_final_are_not_tried_again(error: Exception) -> None:
    step, fetch = JournaledStep(), Counted(error, "second")
    retry = Retry(max_attempts=3, non_retryable_kinds=["BAD"])

    async def work(ctx: TaskContext) -> Any:
        return await ctx.call("fetch", fetch, retry=retry)

    assert (await step.attempt(work)).HasField("failed")
    assert len(fetch.runs) == 1


@pytest.mark.parametrize(
    ("error", "retry"),
    [
        (NonRetryable("never", kind="BAD"), Retry(max_attempts=3)),
        (NonRetryable("never", kind="BAD"), None),
        (Failure("never", kind="BAD"), Retry(max_attempts=3, non_retryable_kinds=["BAD"])),
    ],
)
async def test_a_final_failure_is_final_for_the_attempt_after_a_lost_one(
    error: Failure, retry: Retry | None
) -> None:
    step, fetch = JournaledStep(), Counted(error, "second")

    async def work(ctx: TaskContext) -> Any:
        try:
            return await ctx.call("fetch", fetch, retry=retry)
        except Failure as failure:
            if ctx.attempt == 1:
                raise Crash from None
            return [failure.message, failure.kind, isinstance(failure, NonRetryable)]

    await crashed(step, work)
    expected = ["never", "BAD", isinstance(error, NonRetryable)]
    assert result_of(await step.attempt(work)) == expected
    assert len(fetch.runs) == 1

    step.tries_from = 3
    assert result_of(await step.attempt(work)) == "second"


async def test_call_key_is_the_same_in_every_try() -> None:
    step, keys = JournaledStep(), list[str]()

    async def work(ctx: TaskContext) -> None:
        async def charge() -> None:
            keys.append(ctx.call_key)
            if len(keys) < 3:
                raise OSError

        with pytest.raises(JournalError):
            _ = ctx.call_key
        await ctx.call("charge", charge, retry=Retry(max_attempts=2, initial_backoff=0.01))

    await step.attempt(work)
    step.tries_from = 2
    await step.attempt(work)

    assert len(keys) == 3
    assert len(set(keys)) == 1
    assert keys[0].startswith("0b5f6a3e")


async def test_a_call_of_a_function_that_has_ended_is_not_tried_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    step, fetch = JournaledStep(runtime=HeldRuntime()), Counted(OSError(), "second")
    tried = asyncio.Event()
    step.services.on_record = lambda entry: tried.set()

    async def fail() -> None:
        await tried.wait()
        raise ValueError

    async def work(ctx: TaskContext) -> None:
        retry = Retry(initial_backoff=5)
        await asyncio.gather(ctx.call("fetch", fetch, retry=retry), fail())

    assert (await step.attempt(work)).failed.failure.kind == "ValueError"
    assert len(fetch.runs) == 1
    assert "still under way" not in caplog.text, "nothing waits for the next try"
