"""Calls within a step, made by synchronous functions in threads."""

from __future__ import annotations

import threading

import pytest

from stepwell_client import JournalError, TaskContext
from stepwell_client.v1 import types_pb2
from tests.support.journal import InstantRuntime, JournaledStep, result_of
from tests.support.patience import PATIENCE_S

END = types_pb2.JOURNAL_MARK_END
TRY = types_pb2.JOURNAL_MARK_TRY


async def test_a_synchronous_step_makes_its_calls_in_its_own_thread() -> None:
    step, threads = JournaledStep(), list[str]()

    def search(query: str) -> str:
        threads.append(threading.current_thread().name)
        return query.upper()

    async def think() -> str:
        threads.append(threading.current_thread().name)
        return "thought"

    def work(ctx: TaskContext) -> list[str]:
        threads.append(threading.current_thread().name)
        with ctx.scope("s"):
            return [ctx.call_sync("search", search, "a"), ctx.call_sync("think", think)]

    for _ in range(2):
        assert result_of(await step.attempt(work)) == ["A", "thought"]
    mine, searching, thinking, again = threads
    assert mine == searching != thinking
    assert again.startswith("agent-step")
    assert all(key.startswith("s/") for key, _, _ in step.services.entries)


async def test_what_a_call_in_a_thread_raises_is_raised_there() -> None:
    step = JournaledStep()

    def fail() -> None:
        raise KeyError("x")

    def work(ctx: TaskContext) -> str:
        with pytest.raises(KeyError):
            ctx.call_sync("fail", fail)
        return "caught"

    assert result_of(await step.attempt(work)) == "caught"
    assert [one.failure.kind for one in step.kept(TRY)] == ["KeyError"]


async def test_a_synchronous_function_of_an_async_step_runs_in_a_thread_and_nests() -> None:
    step, threads = JournaledStep(), list[str]()

    def inner() -> int:
        threads.append(threading.current_thread().name)
        return 2

    def outer(ctx: TaskContext) -> int:
        threads.append(threading.current_thread().name)
        return 1 + ctx.call_sync("inner", inner)

    async def work(ctx: TaskContext) -> int:
        with pytest.raises(JournalError, match="await"):
            ctx.call_sync("inner", inner)
        return await ctx.call("outer", outer, ctx, key="o")

    assert result_of(await step.attempt(work)) == 3
    assert threads[0] == threads[1]
    assert [one.key.partition("inner")[0] for one in step.kept(END)] == ["o#/", "o"]


class MeetingRuntime(InstantRuntime):
    """A clock that two threads can only read together."""

    def __init__(self) -> None:
        super().__init__()
        self.meeting = threading.Barrier(2, timeout=PATIENCE_S)

    def monotonic(self) -> float:
        if threading.current_thread().name.startswith("branch"):
            self.meeting.wait()
        return super().monotonic()


async def test_first_calls_that_two_threads_make_together_are_counted_as_two() -> None:
    step = JournaledStep(runtime=MeetingRuntime())

    def roll() -> int:
        return 4

    def work(ctx: TaskContext) -> None:
        branches = [
            threading.Thread(target=ctx.call_sync, args=("roll", roll), name=f"branch-{number}")
            for number in range(2)
        ]
        for branch in branches:
            branch.start()
        for branch in branches:
            branch.join()

    await step.attempt(work)
    numbers = [one.key.rpartition("#")[2] for one in step.kept(END)]
    assert sorted(numbers) == ["1", "2"]
