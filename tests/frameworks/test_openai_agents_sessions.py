"""Sessions of the OpenAI Agents SDK within a step: each attempt finds the history that the first one found."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from agents import (
    Agent,
    OpenAIConversationsSession,
    OpenAIResponsesCompactionSession,
    Session,
    SQLiteSession,
    UserError,
)

from stepwell_client import TaskContext
from stepwell_client.v1 import types_pb2
from stepwell_frameworks.openai_agents import StepwellRunner, StepwellSession
from tests.frameworks.scripted_openai import scripted
from tests.support.journal import Crash, JournaledStep, crashed, result_of

BEGIN = types_pb2.JOURNAL_MARK_BEGIN
END = types_pb2.JOURNAL_MARK_END


def message(text: str) -> Any:
    return {"role": "user", "content": text}


def texts(items: list[Any]) -> list[str]:
    """Return what was said."""
    contents = [one["content"] for one in items]
    return [one if isinstance(one, str) else one[0]["text"] for one in contents]


@pytest.fixture
def stored(tmp_path: Path) -> SQLiteSession:
    return SQLiteSession("customer-17", tmp_path / "sessions")


async def test_a_stored_session_has_the_same_history_in_each_attempt(
    stored: SQLiteSession,
) -> None:
    await stored.add_items([message("before")])
    model = scripted("one", "two")
    agent = Agent(name="reader", model=model)

    async def work(ctx: TaskContext) -> list[str]:
        await StepwellRunner.run(agent, "first", session=stored)
        result = await StepwellRunner.run(agent, "second", session=stored)
        if ctx.attempt == 1:
            raise Crash
        return texts(result.to_input_list())

    step = JournaledStep()
    await crashed(step, work)
    await step.attempt(work)
    said = ["before", "first", "one", "second", "two"]
    assert texts(model.calls[1].input) == said[:-1]
    assert texts(await stored.get_items()) == said
    assert len(model.calls) == 2


async def test_a_session_in_memory_is_whole_in_the_next_attempt() -> None:
    model = scripted("one", "two")
    agent = Agent(name="reader", model=model)

    async def work(ctx: TaskContext) -> str:
        session = SQLiteSession("chat")
        await StepwellRunner.run(agent, "first", session=session)
        if ctx.attempt == 1:
            raise Crash
        return (await StepwellRunner.run(agent, "second", session=session)).final_output

    step = JournaledStep()
    assert await step.after_crash(work) == "two"
    assert texts(model.calls[1].input) == ["first", "one", "second"]


async def test_each_change_of_a_session_is_made_once(stored: SQLiteSession) -> None:
    await stored.add_items([message("a"), message("b")])

    async def work(ctx: TaskContext) -> list[list[str]]:
        session = StepwellSession(stored)
        seen = [texts(await session.get_items())]
        assert await session.pop_item() == message("b")
        await session.add_items([message("c"), message("d")])
        seen.append(texts(await session.get_items(2)))
        if ctx.attempt == 1:
            raise Crash
        await session.clear_session()
        assert await session.pop_item() is None
        await session.add_items([message("e")])
        return [*seen, texts(await session.get_items())]

    step = JournaledStep()
    await crashed(step, work)
    assert texts(await stored.get_items()) == ["a", "c", "d"]
    assert result_of(await step.attempt(work)) == [["a", "b"], ["c", "d"], ["e"]]
    assert texts(await stored.get_items()) == ["e"]


@pytest.mark.parametrize("crash", ["before", "after"])
@pytest.mark.parametrize("change", ["add_items", "pop_item", "clear_session"])
async def test_a_change_that_was_cut_off_takes_place_once(
    stored: SQLiteSession, change: str, crash: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stored.add_items([message("a"), message("b")])
    plain = getattr(stored, change)

    async def cut_off(*given: Any) -> None:
        monkeypatch.setattr(stored, change, plain)
        if crash == "after":
            await plain(*given)
        raise Crash

    monkeypatch.setattr(stored, change, cut_off)

    async def work(ctx: TaskContext) -> list[str]:
        session = StepwellSession(stored)
        await getattr(session, change)(*([[message("c")]] if change == "add_items" else []))
        return texts(await session.get_items())

    step = JournaledStep()
    await crashed(step, work)
    assert len(step.kept(BEGIN)) == 1
    held = {"add_items": ["a", "b", "c"], "pop_item": ["a"], "clear_session": []}[change]
    assert result_of(await step.attempt(work)) == held
    assert texts(await stored.get_items()) == held


async def test_outside_of_a_step_it_is_the_session_that_it_is_made_of(
    stored: SQLiteSession,
) -> None:
    session = StepwellSession(stored)
    await StepwellRunner.run(Agent(name="reader", model=scripted("one")), "first", session=session)
    assert texts(await session.get_items()) == ["first", "one"]
    assert await session.pop_item() is not None
    await session.add_items([message("c")])
    assert texts(await stored.get_items()) == ["first", "c"]
    await session.clear_session()
    assert await stored.get_items() == []


def test_sessions_that_would_not_be_kept_are_refused(
    stored: SQLiteSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    with pytest.raises(UserError, match="compacts itself"):
        StepwellSession(OpenAIResponsesCompactionSession("customer-17", stored))
    with pytest.raises(UserError, match="conversation_id"):
        StepwellSession(cast("Session", OpenAIConversationsSession()))
