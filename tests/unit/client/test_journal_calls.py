"""Calls within a step: what is recorded, and what the next attempt finds."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import pytest

from stepwell.core.records import limits
from stepwell_client import Effect, JournalError, Retry, TaskContext, decode, encode
from stepwell_client.agent.journal import journal
from stepwell_client.errors import JournalMismatch, LeaseLost
from stepwell_client.v1 import types_pb2
from tests.support.journal import Counted, Crash, JournaledStep, crashed, result_of

END = types_pb2.JOURNAL_MARK_END
TRY = types_pb2.JOURNAL_MARK_TRY


async def test_a_recorded_call_is_not_made_again_by_the_next_attempt() -> None:
    step, search = JournaledStep(), Counted()

    async def work(ctx: TaskContext) -> list[str]:
        found = [await ctx.call("search", search, query) for query in ("a", "b")]
        if ctx.attempt == 1:
            raise Crash
        return [*found, await ctx.call("search", search, "c")]

    await crashed(step, work)
    outcome = await step.attempt(work)

    assert result_of(outcome) == ["done 1", "done 2", "done 3"]
    assert search.runs == [("a",), ("b",), ("c",)]
    assert step.services.records == 3


async def test_same_call_made_twice_is_two_calls() -> None:
    step, roll = JournaledStep(), Counted(4, 6)

    async def work(ctx: TaskContext) -> list[int]:
        return [await ctx.call("roll", roll), await ctx.call("roll", roll)]

    assert result_of(await step.attempt(work)) == [4, 6]
    assert result_of(await step.attempt(work)) == [4, 6]
    assert [key.rpartition("#")[2] for key, _, _ in step.services.entries] == ["1", "2"]


async def test_branches_in_another_order_find_their_own_values() -> None:
    step, search = JournaledStep(), Counted()

    async def work(ctx: TaskContext) -> dict[str, str]:
        names = ["a", "b"] if ctx.attempt == 1 else ["b", "a", "new"]
        values = await asyncio.gather(*(ctx.call("search", search, name) for name in names))
        return dict(zip(names, values, strict=True))

    first = result_of(await step.attempt(work))
    second = result_of(await step.attempt(work))

    assert {name: second[name] for name in first} == first


async def test_scopes_have_their_own_counters_and_nested_calls_their_own_keys() -> None:
    step, think = JournaledStep(), Counted()

    async def inner(ctx: TaskContext) -> str:
        return str(await ctx.call("think", think))

    async def branch(ctx: TaskContext, name: str) -> str:
        with ctx.scope(name):
            return await ctx.call("inner", lambda: inner(ctx), key="k")

    async def work(ctx: TaskContext) -> list[str]:
        names = ["x", "y"] if ctx.attempt == 1 else ["y", "x"]
        values = await asyncio.gather(*(branch(ctx, name) for name in names))
        return [value for _, value in sorted(zip(names, values, strict=True))]

    first = result_of(await step.attempt(work))

    assert result_of(await step.attempt(work)) == first
    assert len(think.runs) == 2
    keys = [key for key, _, _ in step.services.entries]
    assert sorted(key.partition("think")[0] for key in keys) == ["x/k", "x/k#/", "y/k", "y/k#/"]


@dataclasses.dataclass
class Found:
    name: str
    sizes: list[int]


async def test_the_value_is_the_decoded_entry_in_the_first_attempt_too() -> None:
    step = JournaledStep()
    made = Found("a", [1])

    async def typed() -> Found:
        return made

    async def pair_of() -> tuple[int, int]:
        return (1, 2)

    async def work(ctx: TaskContext) -> tuple[tuple[int, int], Found]:
        found = await ctx.call("typed", typed)
        assert found == made
        assert found is not made
        pair = await ctx.call("pair", pair_of)
        as_found = await ctx.call("untyped", lambda: {"name": "b", "sizes": []}, as_=Found, key="b")
        return pair, as_found

    for _ in range(2):
        assert result_of(await step.attempt(work)) == [[1, 2], {"name": "b", "sizes": []}]


@pytest.mark.parametrize(
    ("value", "kind"),
    [(object(), "INVALID_RESULT"), ("x" * (1 << 20), "RESULT_TOO_LARGE"), (7, "INVALID_RESULT")],
)
async def test_a_value_that_cannot_be_kept_fails_at_once(value: Any, kind: str) -> None:
    step, runs = JournaledStep(), list[int]()

    async def make() -> str:
        runs.append(1)
        return value

    async def work(ctx: TaskContext) -> None:
        await ctx.call("make", make, retry=Retry(max_attempts=5))

    failure = (await step.attempt(work)).failed.failure

    assert (failure.kind, failure.retryable, len(runs)) == (kind, False, 1)
    assert [one.failure.kind for one in step.kept(TRY)] == [kind]


@pytest.mark.parametrize("how", ["call", "ask"])
async def test_a_recorded_value_that_does_not_fit_fails_for_good_and_stays(how: str) -> None:
    step, make = JournaledStep(), Counted()
    step.keep("k", END, value=encode("seven"))

    async def work(ctx: TaskContext) -> Any:
        as_ = int if ctx.attempt == 1 else str
        if how == "ask":
            return await ctx.ask("Which?", key="k", as_=as_)
        return await ctx.call("make", make, key="k", as_=as_, retry=Retry(max_attempts=5))

    failure = (await step.attempt(work)).failed.failure

    assert (failure.kind, failure.retryable) == ("JournalError", False)
    assert "the call k" in failure.message
    assert result_of(await step.attempt(work)) == "seven"
    assert not make.runs


async def test_arguments_without_a_json_form_need_a_key() -> None:
    step, use = JournaledStep(), Counted()

    async def work(ctx: TaskContext) -> Any:
        return await ctx.call("use", use, object(), key=None if ctx.attempt == 1 else "own")

    failure = (await step.attempt(work)).failed.failure
    assert (failure.kind, failure.retryable) == ("JournalError", False)
    assert "key=" in failure.message
    assert result_of(await step.attempt(work)) == "done 1"


async def test_a_key_is_used_once_an_attempt_and_with_the_same_arguments() -> None:
    step, charge = JournaledStep(), Counted()

    async def work(ctx: TaskContext) -> Any:
        value = await ctx.call("charge", charge, ctx.attempt, key="order")
        with pytest.raises(JournalError, match="used before"):
            await ctx.call("charge", charge, ctx.attempt, key="order")
        return value

    assert result_of(await step.attempt(work)) == "done 1"
    failure = (await step.attempt(work)).failed.failure
    assert failure.kind == JournalMismatch.__name__
    assert len(charge.runs) == 1


async def test_usage_and_messages_go_to_the_innermost_call() -> None:
    step = JournaledStep()

    async def inner(ctx: TaskContext) -> None:
        ctx.usage(input_tokens=1, model="small")
        ctx.append("tool", "inner")

    async def outer(ctx: TaskContext) -> None:
        ctx.usage(input_tokens=10)
        await ctx.call("inner", inner, ctx, key="in")
        ctx.append("assistant", "outer")

    async def work(ctx: TaskContext) -> None:
        ctx.usage(input_tokens=100)
        await ctx.call("outer", outer, ctx, key="out")

    outcome = await step.attempt(work)

    assert outcome.usage.input_tokens == 100
    assert not outcome.messages
    kept = {one.key: one for one in step.kept(END)}
    assert (kept["out"].usage.input_tokens, kept["out#/in"].usage.input_tokens) == (10, 1)
    assert [one.content for one in kept["out"].messages] == ["outer"]
    assert [one.content for one in kept["out#/in"].messages] == ["inner"]


@pytest.mark.parametrize("fails", [False, True])
async def test_messages_of_a_call_have_256_kib_whether_it_fails_or_not(fails: bool) -> None:
    step, text = JournaledStep(), "x" * (100 << 10)

    async def talk(ctx: TaskContext) -> str:
        for _ in range(2):
            ctx.append("tool", text)
        with pytest.raises(ValueError, match="262,144 is the most"):
            ctx.append("tool", text)
        if fails:
            raise OSError
        return "said"

    async def work(ctx: TaskContext) -> Any:
        value = await ctx.call("talk", talk, ctx, key="talk")
        for _ in range(3):
            ctx.append("assistant", text)
        return value

    outcome = await step.attempt(work)

    assert outcome.HasField("failed" if fails else "completed")
    assert len(outcome.messages) == (0 if fails else 3)
    assert [len(one.messages) for one in step.kept(TRY if fails else END)] == [2]


async def test_a_lost_lease_raises_cancels_and_lets_no_further_call_run() -> None:
    step, after, search = JournaledStep(), list[bool](), Counted()

    async def work(ctx: TaskContext) -> None:
        step.services.is_lost = True
        for _ in range(2):
            with pytest.raises(LeaseLost):
                await ctx.call("search", search)
            after.append(ctx.cancelled)
        raise LeaseLost("over")

    with pytest.raises(LeaseLost):
        await step.attempt(work)
    assert after == [True, True]
    assert len(search.runs) == 1
    assert not step.services.entries


async def test_a_limit_of_the_journal_is_raised_with_its_kind() -> None:
    step = JournaledStep(rejected=types_pb2.Failure(kind="JOURNAL_FULL", message="10,000 entries"))

    async def work(ctx: TaskContext) -> None:
        await ctx.call("search", Counted())

    failure = (await step.attempt(work)).failed.failure
    assert (failure.kind, failure.retryable) == ("JOURNAL_FULL", False)


async def test_a_long_journal_is_read_in_pages_before_the_first_call() -> None:
    step, search = JournaledStep(page_entries=3), Counted()

    async def work(ctx: TaskContext) -> int:
        await asyncio.gather(*(ctx.call("search", search, number) for number in range(10)))
        return len(search.runs)

    assert result_of(await step.attempt(work)) == 10
    assert result_of(await step.attempt(work)) == 10
    assert [cursor for _, cursor in step.services.reads] == [3, 6, 9]


async def test_the_attempt_knows_what_was_stored_for_a_cancelled_call() -> None:
    step, charge = JournaledStep(), Counted()

    async def cancelled(work: Any) -> None:
        task = asyncio.ensure_future(work)
        step.services.on_record = lambda entry: task.cancel()
        step.services.on_forget = lambda key: task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        step.services.on_record = lambda entry: None

    async def work(ctx: TaskContext) -> Any:
        await cancelled(ctx.call("charge", charge, key="a", effect=Effect.AT_MOST_ONCE))
        with pytest.raises(JournalError, match="has begun"):
            await ctx.forget("a")
        await ctx.call("charge", charge, key="b")
        await cancelled(ctx.forget("b"))
        return await ctx.call("charge", charge, key="b")

    assert result_of(await step.attempt(work)) == "done 2"


async def test_a_strict_step_fails_where_it_did_not_ask_for_what_was_recorded() -> None:
    step, search = JournaledStep(), Counted()

    async def outer(ctx: TaskContext) -> Any:
        return await ctx.call("inner", search)

    async def work(ctx: TaskContext) -> None:
        await ctx.call("outer", lambda: outer(ctx), key="outer")
        if ctx.attempt == 1:
            await ctx.call("search", search, key="gone")
            raise Crash

    await crashed(step, work)
    assert (await step.attempt(work)).HasField("completed")
    failure = (await step.attempt(work, strict=True)).failed.failure
    assert failure.kind == "UNASKED_CALLS"
    assert failure.message.endswith(": gone")


async def test_a_reconcile_function_makes_no_calls() -> None:
    step = JournaledStep()

    async def work(ctx: TaskContext) -> None:
        ctx.assignment.execution.kind = types_pb2.STEP_KIND_RECONCILE
        await ctx.call("search", Counted())

    assert (await step.attempt(work)).failed.failure.kind == "JournalError"


async def test_calls_under_way_end_before_the_outcome() -> None:
    step = JournaledStep()
    slow = asyncio.Event()

    async def model() -> str:
        await slow.wait()
        return "dear"

    async def fail() -> None:
        slow.set()
        raise ValueError

    async def work(ctx: TaskContext) -> None:
        await asyncio.gather(ctx.call("model", model), fail())

    assert (await step.attempt(work)).failed.failure.kind == "ValueError"
    assert [decode(one.value) for one in step.kept(END)] == ["dear"]


async def test_calls_that_do_not_end_after_the_function_are_cancelled(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("stepwell_client.agent.journal.journal_calls.END_SECONDS", 0.0)
    step, started, ended = JournaledStep(), asyncio.Event(), list[str]()

    async def model() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("model")

    async def work(ctx: TaskContext) -> str:
        call = asyncio.ensure_future(ctx.call("model", model))
        await started.wait()
        assert not call.done()
        return "done"

    assert result_of(await step.attempt(work)) == "done"
    assert ended == ["model"]
    assert "still under way" in caplog.text
    assert not step.services.entries


async def test_a_journal_that_fills_warns_once_in_an_attempt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(journal, "JOURNAL_BYTES_MAX", 5_000)
    step = JournaledStep()

    async def work(ctx: TaskContext) -> None:
        for number in range(4):
            await ctx.call("read", Counted("x" * 1_000), number)

    for _ in range(2):
        step.services.written.clear()
        await step.attempt(work)
        ((text, level, _),) = step.services.written
        assert level == "WARNING"
        assert text.startswith("the step's journal is 8")
        assert "full: 4 entries" in text


async def test_a_call_that_is_dropped_leaves_room_in_the_journal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(journal, "JOURNAL_BYTES_MAX", 5_000)
    step = JournaledStep()

    async def work(ctx: TaskContext) -> None:
        for number in range(9):
            await ctx.call("read", Counted("x" * 1_000), key=f"k{number}")
            await ctx.forget(f"k{number}")

    await step.attempt(work)
    assert step.services.written == []


def test_the_client_knows_the_journals_limits() -> None:
    assert limits.JOURNAL_BYTES_MAX == journal.JOURNAL_BYTES_MAX
    assert limits.JOURNAL_ENTRIES_MAX == journal.JOURNAL_ENTRIES_MAX
