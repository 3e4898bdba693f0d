"""Sessions of the OpenAI Agents SDK that are kept in a thread: one turn reads what the turn before it added."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, ModelRetrySettings, ModelSettings, UserError
from agents.memory import Session

import stepwell_client
from stepwell.embedded import Orchestrator, RunFailed
from stepwell_client import JournalError, Retry, Task, TaskContext
from stepwell_frameworks.openai_agents import StepwellRunner, ThreadSession
from tests.frameworks.scripted_openai import Finder, scripted
from tests.frameworks.test_openai_agents_sessions import message
from tests.unit.client.test_step_threads import ThreadStep, written

PLAN = [Task("a", "answer", retry=Retry(max_attempts=2, initial_backoff=0.0))]


class Talk:
    """A chat whose runs are turns of one thread; a turn's first attempts fail as it is told."""

    def __init__(self, folder: Path) -> None:
        self.fails = 0
        self.store = f"sqlite:///{folder / 'runs.db'}"
        self.agent = stepwell_client.Agent("talk")
        self.finder = Finder()
        self.model = scripted([("find", "c1", {"what": "bees"})], "two bees", "and ants", "or not")
        reader = Agent(name="reader", model=self.model, tools=[self.finder.tool])

        @self.agent.task("answer")
        async def answer(ctx: TaskContext) -> str:
            session = ThreadSession(ctx.thread)
            result = await StepwellRunner.run(reader, ctx.goal, session=session)
            if ctx.attempt <= self.fails:
                raise ConnectionError("the line was cut")
            return result.final_output

        @self.agent.task("answer_sync")
        def answer_sync(ctx: TaskContext) -> str:
            session = ThreadSession(ctx.thread)
            # The SDK leaves the loop of a thread open, for its next run.
            with closing(asyncio.new_event_loop()) as loop:
                asyncio.set_event_loop(loop)
                return StepwellRunner.run_sync(reader, ctx.goal, session=session).final_output

        @self.agent.task("read")
        async def read(ctx: TaskContext) -> list[str]:
            assert ctx.thread is not None
            return [one.role for one in await ctx.thread.messages()]

    async def turn(self, goal: str, plan: list[Task] = PLAN) -> Any:
        run = Orchestrator(goal, self.agent, plan=plan, thread="t1", store=self.store)
        return (await run.run()).value["a"]

    async def roles(self) -> list[str]:
        return await self.turn("read", [Task("a", "read")])


FIRST = ["user", "function_call", "function_call_output", "assistant"]


def asked(model: Any) -> list[str]:
    """Return the roles, or the types, of the items that the model was shown at last."""
    return [one.get("role") or one["type"] for one in model.calls[-1].input]


@pytest.mark.parametrize("task", ["answer", "answer_sync"])
async def test_second_turn_of_a_thread_shows_the_model_the_first_one(
    tmp_path: Path, task: str
) -> None:
    talk, plan = Talk(tmp_path), [Task("a", task)]
    assert await talk.turn("Which bees?", plan) == "two bees"
    assert await talk.turn("And ants?", plan) == "and ants"
    assert asked(talk.model) == [*FIRST, "user"]
    shown = talk.model.calls[-1].input
    assert [one["content"] for one in shown[::4]] == ["Which bees?", "And ants?"]
    assert await talk.roles() == [*FIRST, "user", "assistant"]


async def test_turn_that_is_tried_again_adds_once_and_asks_no_model_again(tmp_path: Path) -> None:
    talk = Talk(tmp_path)
    talk.fails = 1
    assert await talk.turn("Which bees?") == "two bees"
    assert await talk.turn("And ants?") == "and ants"
    assert (len(talk.model.calls), talk.finder.found) == (3, ["bees"])
    assert await talk.roles() == [*FIRST, "user", "assistant"]


async def test_turn_that_fails_adds_nothing_to_its_thread(tmp_path: Path) -> None:
    talk = Talk(tmp_path)
    talk.fails = 2
    with pytest.raises(RunFailed):
        await talk.turn("Which bees?")
    talk.fails = 0
    assert await talk.roles() == []
    assert await talk.turn("And ants?") == "and ants"
    assert asked(talk.model) == ["user"]


async def test_only_what_the_step_added_is_taken_back() -> None:
    async def work(ctx: TaskContext) -> list[Any]:
        session = ThreadSession(ctx.thread)
        assert isinstance(session, Session)
        assert ctx.thread is not None
        await session.add_items([message("a"), message("b"), message("c")])
        ctx.thread.append("note", {"seen": True})
        assert await session.pop_item() == message("c")
        assert await session.get_items(2) == [message("a"), message("b")]
        with pytest.raises(UserError, match="keeps its messages: clear_session"):
            await session.clear_session()
        assert await session.pop_item() == message("b")
        assert await session.pop_item() == message("a")
        with pytest.raises(UserError, match="keeps its messages: pop_item"):
            await session.pop_item()
        with pytest.raises(JournalError):
            await ctx.call("add", session.add_items, [message("d")])
        await session.add_items([message("e")])
        return await session.get_items()

    outcome = await ThreadStep("before").attempt(work)
    assert stepwell_client.decode(outcome.completed.result) == [message("before"), message("e")]
    assert written(outcome)[0] == [("note", {"seen": True}), ("user", message("e"))]


async def test_session_of_an_empty_thread_is_cleared_of_what_was_added() -> None:
    async def work(ctx: TaskContext) -> list[Any]:
        session = ThreadSession(ctx.thread)
        assert await session.pop_item() is None
        await session.add_items([message("a"), message("b")])
        await session.clear_session()
        return await session.get_items()

    outcome = await ThreadStep().attempt(work)
    assert stepwell_client.decode(outcome.completed.result) == []
    assert not outcome.HasField("thread")


async def test_request_that_the_sdk_makes_again_adds_its_question_once() -> None:
    model = scripted(ConnectionError("the line was cut"), "one")
    retry = ModelRetrySettings(max_retries=1, policy=lambda _: True)
    agent = Agent(name="reader", model=model, model_settings=ModelSettings(retry=retry))

    async def work(ctx: TaskContext) -> str:
        session = ThreadSession(ctx.thread)
        return (await StepwellRunner.run(agent, "first", session=session)).final_output

    outcome = await ThreadStep("before").attempt(work)
    assert [role for role, _ in written(outcome)[0]] == ["user", "assistant"]
    assert [one["content"] for one in model.calls[-1].input] == ["before", "first"]


def test_session_without_a_thread_is_refused() -> None:
    with pytest.raises(UserError, match="in no thread"):
        ThreadSession(None)
