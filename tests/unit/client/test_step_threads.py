"""`ctx.thread` in a step: what it reads stays the same over attempts, and what it writes goes with its outcome."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from stepwell_client import Failure, TaskContext, decode
from stepwell_client.agent.step_thread import StepThread
from stepwell_client.errors import JournalError
from stepwell_client.v1 import types_pb2, worker_pb2
from tests.support.journal import JournaledServices, JournaledStep, result_of


@dataclass
class ThreadServices(JournaledServices):
    """Services of a step whose run is in a thread."""

    said: list[str] = field(default_factory=list)
    state: str = ""
    asked: list[tuple[int, int | None]] = field(default_factory=list)
    """`last` and `to` of each question for messages."""

    async def read_thread(
        self, assignment: Any, *, last: int, to: int | None, state: bool
    ) -> worker_pb2.ReadThreadResponse:
        to = len(self.said) if to is None else to
        found = worker_pb2.ReadThreadResponse(to=to)
        if state and self.state:
            found.state.data = self.state.encode()
        if last:
            self.asked.append((last, to))
            for number in range(max(1, to - last + 1), to + 1):
                content = types_pb2.Payload(data=json.dumps(self.said[number - 1]).encode())
                found.messages.add(number=number, role="user", content=content, run_id="r")
        return found


class ThreadStep(JournaledStep):
    """A step of a run that is in a thread."""

    def __init__(self, *said: str, state: str = "") -> None:
        super().__init__()
        self.services = ThreadServices(said=list(said), state=state)

    async def attempt(self, function: Any, **step: Any) -> worker_pb2.Outcome:
        return await super().attempt(function, thread_id="t1", **step)


def thread_of(ctx: TaskContext) -> StepThread:
    assert ctx.thread is not None
    return ctx.thread


def written(outcome: worker_pb2.Outcome) -> tuple[list[tuple[str, Any]], Any]:
    """Return the messages and the state that an outcome writes to the thread."""
    thread = outcome.thread
    state = decode(thread.state) if thread.HasField("state") else None
    said = [
        (one.role, decode(one.content) if one.HasField("content") else None)
        for one in thread.messages
    ]
    return said, state


async def contents(ctx: TaskContext) -> list[Any]:
    return [one.content for one in await thread_of(ctx).messages(last=2)]


async def test_messages_are_the_same_in_every_attempt_whatever_came_meanwhile() -> None:
    step = ThreadStep("1", "2", "3")

    async def failing(ctx: TaskContext) -> Any:
        assert await contents(ctx) == ["2", "3"]
        raise Failure("again")

    await step.attempt(failing)
    step.services.said.append("4")
    assert result_of(await step.attempt(contents)) == ["2", "3"]
    assert step.services.asked == [(2, 3), (2, 3)]

    async def twice(ctx: TaskContext) -> Any:
        return [await contents(ctx), await contents(ctx)]

    assert result_of(await step.attempt(twice)) == [["2", "3"], ["3", "4"]]


async def test_state_is_that_of_the_first_attempt_and_none_before_it_was_set() -> None:
    step = ThreadStep()

    async def work(ctx: TaskContext) -> Any:
        return [await thread_of(ctx).state(as_=dict[str, int])]

    assert result_of(await step.attempt(work)) == [None]
    step = ThreadStep(state='{"turns":1}')
    assert result_of(await step.attempt(work)) == [{"turns": 1}]
    step.services.state = '{"turns":2}'
    assert result_of(await step.attempt(work)) == [{"turns": 1}]


async def test_what_a_step_writes_goes_with_the_outcome_that_completes_it() -> None:
    async def work(ctx: TaskContext) -> str:
        thread = thread_of(ctx)
        thread.append("user", "hello")
        thread.append("tool", {"found": [1]})
        thread.append("tool", None)
        thread.set_state("old")
        thread.set_state({"turns": 1})
        return thread.id

    outcome = await ThreadStep().attempt(work)
    assert result_of(outcome) == "t1"
    said = [("user", "hello"), ("tool", {"found": [1]}), ("tool", None)]
    assert written(outcome) == (said, {"turns": 1})


async def test_an_attempt_that_fails_or_is_suspended_writes_nothing() -> None:
    async def failing(ctx: TaskContext) -> None:
        thread_of(ctx).append("user", "hello")
        raise Failure("no")

    async def asking(ctx: TaskContext) -> None:
        thread_of(ctx).append("user", "hello")
        await ctx.ask("Which?")

    for function in (failing, asking):
        assert not (await ThreadStep().attempt(function)).HasField("thread")


async def test_a_function_in_a_thread_reads_and_writes_as_others_do() -> None:
    def work(ctx: TaskContext) -> Any:
        thread = thread_of(ctx)
        found = [one.content for one in thread.messages_sync()]
        thread.append("assistant", "hi")
        thread.set_state([thread.state_sync()])
        return found

    outcome = await ThreadStep("1", state="7").attempt(work)
    assert (result_of(outcome), written(outcome)) == (["1"], ([("assistant", "hi")], [7]))


async def test_too_much_is_refused_where_it_is_written() -> None:
    async def work(ctx: TaskContext) -> None:
        thread = thread_of(ctx)
        with pytest.raises(ValueError, match="1,048,576 is the most"):
            thread.append("user", "x" * (1 << 20))
        with pytest.raises(ValueError, match="65,536 is the most"):
            thread.set_state("x" * (1 << 16))
        with pytest.raises(ValueError, match="1 to 128 characters"):
            thread.append("", "x")
        with pytest.raises(ValueError, match="1 to 1,000"):
            await thread.messages(last=0)
        for _ in range(100):
            thread.append("user", "x")
        with pytest.raises(ValueError, match="at most 100 messages"):
            thread.append("user", "x")

    assert len(written(await ThreadStep().attempt(work))[0]) == 100


async def test_a_call_can_not_write_because_its_value_is_replayed() -> None:
    async def within(ctx: TaskContext) -> None:
        thread_of(ctx).append("user", "x")

    async def work(ctx: TaskContext) -> None:
        with pytest.raises(JournalError, match="Write to the thread after the call"):
            await ctx.call("within", within, ctx, key="k")

    assert (await ThreadStep().attempt(work)).HasField("completed")


async def test_a_step_of_a_run_in_no_thread_has_none() -> None:
    def work(ctx: TaskContext) -> bool:
        return ctx.thread is None

    assert result_of(await JournaledStep().attempt(work)) is True
