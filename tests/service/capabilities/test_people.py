"""People in the loop: questions reach them, answers reach the tasks that asked, and what is no answer is refused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from stepwell_client import (
    Agent,
    FailedPrecondition,
    InvalidRequest,
    NeedsAnswer,
    NotFound,
    Question,
    QuestionKind,
    Retry,
    RunHandle,
    RunStatus,
    Task,
    TaskContext,
)
from stepwell_client.errors import RequestIdReused, RunNotFound
from stepwell_client.v1 import orchestrator_pb2, types_pb2
from tests.service.capabilities.conftest import Served
from tests.service.conftest import NO_RUN
from tests.support.patience import until

NAMES = {
    "type": "object",
    "properties": {
        "items": {
            "type": "array",
            "items": {"type": "object", "properties": {"name": {"type": "string"}}},
        }
    },
    "required": ["items"],
}


def agent_of(**question: Any) -> Agent:
    """Return an agent whose `ask` tasks ask once and return what they were answered."""
    agent = Agent("asking")

    @agent.task("ask")
    def ask(ctx: TaskContext) -> Any:
        if ctx.answered is None:
            raise NeedsAnswer(f"{ctx.task_id}?", **question)
        return ctx.answer()

    return agent


async def open_questions(run: RunHandle, count: int) -> list[Question]:
    """Wait until the run asks so many questions."""
    found: list[Question] = []

    async def are_there() -> bool:
        found[:] = [one async for one in run.questions() if one.ended_time is None]
        return len(found) == count

    await until(are_there)
    return found


@asynccontextmanager
async def asking(served: Served, **question: Any) -> AsyncIterator[tuple[RunHandle, str]]:
    """A run that waits for its one question, which its worker asked; yields the question's id."""
    async with served.worker(agent_of(**question)):
        run = await served.client.start("ask", plan=[Task("a", "ask", retry=Retry(max_attempts=1))])
        (one,) = await open_questions(run, 1)
        yield run, one.id


# --- answers -------------------------------------------------------------------------------------------


async def test_an_answer_is_given_once(served: Served) -> None:
    async with asking(served) as (run, question_id):
        await run.answer(question_id, 1, request_id="one")
        assert run.changed or not served.calm
        assert isinstance(run.response, orchestrator_pb2.AnswerQuestionResponse)
        assert run.response.question.answered_by == "all"
        await run.answer(question_id, 1, request_id="one")
        assert not run.changed
        with pytest.raises(RequestIdReused):
            await run.answer(question_id, 2, request_id="one")
        with pytest.raises(FailedPrecondition) as second:
            await run.answer(question_id, 1)
        assert second.value.reason == "QUESTION_ANSWERED"
        assert await run.result() == {"a": 1}


async def test_one_of_two_concurrent_answers_counts(served_everywhere: Served) -> None:
    served = served_everywhere
    async with asking(served) as (run, question_id):
        clients = [served.client, served.new_client()]
        if served.store_kind != "sqlite":  # A file is one process's.
            clients[1] = served.new_client(target=(await served.replica()).addresses[0])
        handles = [one.run(run.id) for one in clients]
        answers = [one.answer(question_id, n) for n, one in enumerate(handles)]
        said = await asyncio.gather(*answers, return_exceptions=True)
        (late,) = [one for one in said if isinstance(one, FailedPrecondition)]
        (first,) = [one.response for one in handles if one.response is not None]
        assert late.reason == "QUESTION_ANSWERED"
        assert isinstance(first, orchestrator_pb2.AnswerQuestionResponse)
        assert await run.result() == {"a": int(first.question.answer.data)}


async def test_refused_answer_names_its_reason(served: Served) -> None:
    async with asking(served) as (run, question_id):
        with pytest.raises(NotFound) as missing:
            await run.answer("question:task:b#1", 1)
        assert missing.value.reason == "QUESTION_NOT_FOUND"
        with pytest.raises(RunNotFound):
            await served.client.run(NO_RUN).answer(question_id, 1)
        with pytest.raises(RunNotFound):
            await served.new_client("foreign").run(run.id).answer(question_id, 1)
        assert [one async for one in served.new_client("foreign").questions()] == []
        await run.cancel()
        with pytest.raises(FailedPrecondition) as late:
            await run.answer(question_id, 1)
        assert late.value.reason == "QUESTION_CANCELLED"


# --- what an answer must be ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("question", "wrong", "field", "right"),
    [
        ({"schema": NAMES}, {"items": [{"name": 3}]}, "answer.items[0].name", {"items": []}),
        ({"kind": QuestionKind.APPROVAL}, "yes", "answer", True),
        ({"kind": QuestionKind.APPROVAL}, {"approved": 1}, "answer", {"approved": False}),
        ({"kind": QuestionKind.CHOICE, "choices": ["a", "b"]}, "c", "answer", "b"),
        ({"kind": QuestionKind.AUTH, "schema": {"type": "string"}}, 1, "answer", "token"),
        ({}, types_pb2.Payload(data=b"[" * 65 + b"]" * 65), "answer", [1]),
        ({}, types_pb2.Payload(data=b"{"), "answer", {}),
        ({}, types_pb2.Payload(data=b"NaN"), "answer", 1),
    ],
    ids=["schema", "approval", "approval-object", "choice", "auth", "deep", "torn", "no number"],
)
async def test_an_answer_must_fit_its_question(
    served: Served, question: dict[str, Any], wrong: Any, field: str, right: Any
) -> None:
    async with asking(served, **question) as (run, question_id):
        with pytest.raises(InvalidRequest) as refused:
            await run.answer(question_id, wrong)
        assert refused.value.reason == "ANSWER_INVALID"
        assert [one.field for one in refused.value.violations] == [field]
        assert (await run.get()).status == RunStatus.WAITING
        await run.answer(question_id, right)
        assert await run.result() == {"a": right}


@pytest.mark.parametrize(
    ("question", "field"),
    [
        ({"schema": {"type": "strin"}}, "schema"),
        ({"schema": {"enum": list(range(1_500)), "type": "strin"}}, "schema"),
        ({"kind": QuestionKind.CHOICE}, "choices"),
    ],
    ids=["no schema", "large", "no choices"],
)
async def test_a_question_that_is_none_fails_its_attempt(
    served: Served, question: dict[str, Any], field: str
) -> None:
    async with served.worker(agent_of(**question)):
        run = await served.client.start("ask", plan=[Task("a", "ask", retry=Retry(max_attempts=1))])
        ended = await run.wait()
    assert ended.status == RunStatus.FAILED
    assert ended.failure is not None
    assert ended.failure.kind == "INVALID_OUTCOME"
    assert [one.field for one in ended.failure.violations] == [f"needs_answer.{field}"]
    assert [one async for one in run.questions()] == []
