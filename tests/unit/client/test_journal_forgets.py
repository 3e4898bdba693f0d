"""Calls that a step drops from its journal: one after another, and never beside entries on their way."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from stepwell_client import TaskContext
from stepwell_client.v1 import types_pb2, worker_pb2
from tests.support.journal import Counted, JournaledServices, JournaledStep, result_of

END = types_pb2.JOURNAL_MARK_END
T = TypeVar("T")


async def test_a_forgotten_call_is_made_again() -> None:
    step, search = JournaledStep(), Counted()

    async def work(ctx: TaskContext) -> Any:
        await ctx.call("search", search, key="a")
        await ctx.forget("a")
        return await ctx.call("search", search, key="a")

    assert result_of(await step.attempt(work)) == "done 2"
    assert step.services.forgotten == [("a", 1)]


async def test_calls_are_forgotten_one_after_another() -> None:
    step, search = JournaledStep(), Counted()
    answered: list[int] = []

    async def work(ctx: TaskContext) -> None:
        async def forget(key: str) -> None:
            await ctx.forget(key)
            answered.append(len(step.services.forgotten))

        for key in "abc":
            await ctx.call("search", search, key=key)
        begun = asyncio.ensure_future(forget("a"))

        def cancel_the_first(key: str) -> None:
            if key == "a":
                begun.cancel()

        step.services.on_forget = cancel_the_first
        await asyncio.gather(begun, forget("b"), forget("c"), return_exceptions=True)

    assert (await step.attempt(work)).HasField("completed")
    assert step.services.forgotten == [("a", 1), ("b", 2), ("c", 3)]
    assert answered == [2, 3]


async def test_a_refused_forget_fails_the_attempt_and_the_call_stays() -> None:
    step, search = JournaledStep(), Counted()

    async def work(ctx: TaskContext) -> Any:
        await ctx.call("search", search, key="a")
        step.services.rejected = types_pb2.Failure(kind="INVALID_ENTRY", message="forget[0]: no")
        await ctx.forget("a")

    failure = (await step.attempt(work)).failed.failure
    assert (failure.kind, failure.message) == ("INVALID_ENTRY", "forget[0]: no")
    assert not failure.retryable
    assert [one.key for one in step.kept(END)] == ["a"]


@dataclass
class HeldServices(JournaledServices):
    """Services that answer a journal write once the test says so."""

    sent: list[worker_pb2.JournalWrite] = field(default_factory=list)
    _answers: list[asyncio.Future[worker_pb2.JournalAck]] = field(default_factory=list)

    def write_journal(
        self, assignment: Any, write: worker_pb2.JournalWrite
    ) -> asyncio.Future[worker_pb2.JournalAck]:
        answer: asyncio.Future[worker_pb2.JournalAck] = asyncio.get_running_loop().create_future()
        self.sent.append(write)
        self._answers.append(answer)
        return answer

    def answer(self, place: int) -> None:
        """Answer a journal write, by its place among all that were sent."""
        self._answer(self._answers[place], self.sent[place])

    def described(self) -> list[tuple[str, str, int]]:
        """Return what each journal write is, its call, and its number."""
        return [
            ("forget", one.forget[0], one.forget_number)
            if one.forget
            else ("write", one.entries[0].key, one.forget_number)
            for one in self.sent
        ]


def held_step() -> tuple[JournaledStep, HeldServices]:
    step, services = JournaledStep(), HeldServices()
    step.services = services
    return step, services


async def begun(work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Return a task that has gone as far as it can without an answer."""
    task = asyncio.ensure_future(work)
    await turns()
    return task


async def turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_a_forget_and_entries_are_never_on_their_way_together() -> None:
    step, services = held_step()
    search = Counted()

    async def work(ctx: TaskContext) -> None:
        first = await begun(ctx.call("search", search, key="a"))
        forget = await begun(ctx.forget("a"))
        second = await begun(ctx.call("search", search, key="b"))
        assert len(search.runs) == 2
        assert services.described() == [("write", "a", 0)]
        services.answer(0)
        await first
        await turns()
        assert services.described()[1:] == [("forget", "a", 1)]
        services.answer(1)
        await forget
        await turns()
        assert services.described()[2:] == [("write", "b", 1)]
        services.answer(2)
        await second

    assert (await step.attempt(work)).HasField("completed")
    assert [one.key for one in step.kept(END)] == ["b"]


async def test_entries_wait_for_a_forget_that_nobody_waits_for_any_more() -> None:
    step, services = held_step()

    async def work(ctx: TaskContext) -> None:
        forget = await begun(ctx.forget("a"))
        forget.cancel()
        call = await begun(ctx.call("search", Counted(), key="a"))
        assert services.described() == [("forget", "a", 1)]
        services.answer(0)
        await turns()
        assert services.described()[1:] == [("write", "a", 1)]
        services.answer(1)
        await call

    assert (await step.attempt(work)).HasField("completed")


async def test_a_forget_that_is_cancelled_before_it_is_sent_holds_nothing_up() -> None:
    step, services = held_step()

    async def work(ctx: TaskContext) -> None:
        calls = [await begun(ctx.call("search", Counted(), key="a"))]
        forget = await begun(ctx.forget("a"))
        forget.cancel()
        calls.append(await begun(ctx.call("search", Counted(), key="b")))
        assert services.described() == [("write", "a", 0), ("write", "b", 0)]
        for place in range(2):
            services.answer(place)
        await asyncio.gather(*calls)

    assert (await step.attempt(work)).HasField("completed")
    assert services.forgotten == []
