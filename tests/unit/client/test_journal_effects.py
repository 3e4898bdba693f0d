"""AT_MOST_ONCE calls within a step: begun once, and never again by themselves."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stepwell_client import Done, Effect, JournalEntry, NotDone, Retry, TaskContext, Undecided
from stepwell_client.enums import JournalMark
from stepwell_client.v1 import types_pb2
from tests.support.journal import Counted, Crash, JournaledStep, result_of

END = types_pb2.JOURNAL_MARK_END
BEGIN = types_pb2.JOURNAL_MARK_BEGIN
TRY = types_pb2.JOURNAL_MARK_TRY


async def test_a_begin_is_stored_before_the_function_runs() -> None:
    step, seen = JournaledStep(), list[list[int]]()

    async def work(ctx: TaskContext) -> Any:
        async def charge() -> str:
            seen.append([one.number for one in step.kept(BEGIN)])
            if len(seen) == 1:
                raise OSError
            return "paid"

        retry = Retry(max_attempts=2, initial_backoff=0.01)
        return await ctx.call("charge", charge, effect=Effect.AT_MOST_ONCE, retry=retry)

    assert result_of(await step.attempt(work)) == "paid"
    assert seen == [[1], [1, 2]]
    marks = [(one.mark, one.number, one.effect) for one in step.services.entries.values()]
    assert [mark for mark, _, _ in marks] == [BEGIN, TRY, BEGIN, END]
    assert {effect for _, _, effect in marks} == {types_pb2.EFFECT_AT_MOST_ONCE}


async def lost_charge(step: JournaledStep, charge: Counted) -> None:
    async def work(ctx: TaskContext) -> None:
        await ctx.call("charge", charge, 5, key="order", effect=Effect.AT_MOST_ONCE)

    with pytest.raises(Crash):
        await step.attempt(work)


async def test_a_begun_call_is_not_run_again_and_ends_the_attempt_as_unknown() -> None:
    step, charge = JournaledStep(), Counted(Crash(), "paid")
    await lost_charge(step, charge)

    async def work(ctx: TaskContext) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(
                    ctx.call("charge", charge, 5, key="order", effect=Effect.AT_MOST_ONCE)
                )
        except Exception:
            return

    outcome = await step.attempt(work)

    assert outcome.unknown_call.call == "order"
    assert outcome.unknown_call.reason
    assert len(charge.runs) == 1


@pytest.mark.parametrize("answer", ["done", "not done", "undecided"])
async def test_reconcile_settles_a_begun_call(answer: str) -> None:
    step, charge = JournaledStep(), Counted(Crash(), "paid again")
    await lost_charge(step, charge)
    asked: list[JournalEntry] = []

    def find_out(entry: JournalEntry) -> Any:
        asked.append(entry)
        answers = {"done": Done("paid"), "not done": NotDone("no trace"), "undecided": Undecided()}
        return answers[answer]

    async def work(ctx: TaskContext) -> Any:
        return await ctx.call(
            "charge", charge, 5, key="order", effect=Effect.AT_MOST_ONCE, reconcile=find_out
        )

    outcome = await step.attempt(work)
    begins = [(one.key, one.number, one.mark) for one in asked]
    assert begins == [("order", 1, JournalMark.BEGIN)]
    if answer == "undecided":
        assert outcome.unknown_call.call == "order"
        return
    expected = {"done": ("paid", 1), "not done": ("paid again", 2)}[answer]
    assert (result_of(outcome), len(charge.runs)) == expected
    assert result_of(await step.attempt(work)) == expected[0]
    assert len(asked) == 1
