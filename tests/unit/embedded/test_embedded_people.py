"""A run in the caller's process asks its caller, who answers it there."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from stepwell.core.records.errors import InvalidArgument, NotFound
from stepwell.embedded import Orchestrator
from stepwell_client import (
    Agent,
    NeedsAnswer,
    PlanContext,
    QuestionKind,
    RunStatus,
    Task,
    TaskContext,
)
from tests.support.patience import until


def asking(**question: Any) -> Agent:
    agent = Agent("asking")

    @agent.task("ask")
    def ask(ctx: TaskContext) -> Any:
        if ctx.answered is None:
            raise NeedsAnswer(f"{ctx.task_id}?", **question)
        return ctx.answer()

    return agent


@pytest.mark.parametrize("kept", [False, True])
async def test_a_run_is_answered_between_two_calls_of_run(kept: bool, tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'runs.db'}" if kept else None
    plan = [Task("a", "ask"), Task("b", "ask")]
    orchestrator = Orchestrator("ask", asking(), plan=plan, store=store)
    assert (await orchestrator.run()).status is RunStatus.WAITING
    asked = await orchestrator.questions()
    assert sorted(one.prompt for one in asked) == ["a?", "b?"]
    for one in asked:
        await orchestrator.answer(one.id, one.task_id.upper())
    assert await orchestrator.questions() == ()
    result = await orchestrator.run()
    assert result.value == {"a": "A", "b": "B"}


async def test_a_run_is_answered_while_it_runs_and_makes_another_plan() -> None:
    agent = asking()
    go_on = asyncio.Event()

    @agent.task("work")
    async def work(ctx: TaskContext) -> None:
        await go_on.wait()

    @agent.plan
    def plan(ctx: PlanContext) -> list[Task]:
        return [Task("a", "ask"), Task("work", "work"), Task("new", "work")]

    orchestrator = Orchestrator("ask", agent, plan=[Task("a", "ask"), Task("work", "work")])

    async def asks() -> bool:
        return orchestrator._drive.is_running and bool(await orchestrator.questions())

    running = asyncio.create_task(orchestrator.run())
    await until(asks)
    (one,) = await orchestrator.questions()
    await orchestrator.answer(one.id, None, replan=True, reason="more")
    go_on.set()
    result = await running
    assert result.value == {"a": None, "work": None, "new": None}
    assert result.run.iteration == 2


async def test_a_token_answers_its_question_of_an_embedded_run(tmp_path: Path) -> None:
    agent, tokens = Agent("asking"), list[str]()

    @agent.task("ask")
    async def ask(ctx: TaskContext) -> Any:
        question = await ctx.open_question("paid?")
        tokens.append(question.token)
        return await question.answer()

    store = f"sqlite:///{tmp_path / 'runs.db'}"
    orchestrator = Orchestrator("ask", agent, plan=[Task("a", "ask")], store=store)
    assert (await orchestrator.run()).status is RunStatus.WAITING
    assert await orchestrator.answer_by_token(tokens[0], None)
    assert not await orchestrator.answer_by_token(tokens[0], None)
    assert (await orchestrator.run()).value == {"a": None}
    assert tokens == [tokens[0]] * 2


async def test_wrong_token_is_no_questions_in_an_embedded_store() -> None:
    orchestrator = Orchestrator("ask", asking(), plan=[Task("a", "ask")])
    await orchestrator.run()
    with pytest.raises(NotFound, match="no question has this token"):
        await orchestrator.answer_by_token("stwa_nothing", 1)


async def test_invalid_answer_is_refused_as_by_a_server() -> None:
    agent = asking(kind=QuestionKind.CHOICE, choices=["x", "y"])
    orchestrator = Orchestrator("ask", agent, plan=[Task("a", "ask")])
    await orchestrator.run()
    (one,) = await orchestrator.questions()
    with pytest.raises(InvalidArgument) as invalid:
        await orchestrator.answer(one.id, "z")
    assert [violation.field for violation in invalid.value.violations] == ["answer"]
    with pytest.raises(NotFound):
        await orchestrator.answer("question:task:b#1", "x")
