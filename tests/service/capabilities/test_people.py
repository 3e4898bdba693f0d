"""People in the loop, over every store: questions, answers, expiry, and another plan by an answer."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from stepwell_client import (
    Agent,
    ExecutionStatus,
    FailedPrecondition,
    InputKind,
    InvalidRequest,
    NeedsInput,
    NotFound,
    PlanContext,
    RequestIdReused,
    Retry,
    RunHandle,
    RunNotFound,
    RunStatus,
    Task,
    TaskContext,
    TaskStatus,
)
from stepwell_client.v1 import orchestrator_pb2 as pb
from stepwell_client.v1 import types_pb2
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
            raise NeedsInput(f"{ctx.task_id}?", **question)
        return ctx.answer()

    return agent


async def inputs(run: RunHandle, count: int, *, ended: bool) -> list[pb.RunInput]:
    """Wait until the run has so many questions: that are open, or with those that are over."""
    found: list[pb.RunInput] = []

    async def are_there() -> bool:
        listed = [one async for one in run.inputs()]
        found[:] = [one for one in listed if ended or not one.request.ended_time.seconds]
        return len(found) == count

    await until(are_there)
    assert all(one.run_id == run.id for one in found)
    return found


async def open_inputs(served: Served, run: RunHandle, count: int) -> list[pb.RunInput]:
    """Wait until the run asks so many questions."""
    return await inputs(run, count, ended=False)


@asynccontextmanager
async def asking(served: Served, **question: Any) -> AsyncIterator[tuple[RunHandle, str]]:
    """A run that waits for its one question, which its worker asked; yields the question's id."""
    async with served.worker(agent_of(**question)):
        run = await served.client.start("ask", plan=[Task("a", "ask", retry=Retry(max_attempts=1))])
        # One that expires may be over before it is seen here.
        (one,) = await inputs(run, 1, ended="expires" in question)
        yield run, one.request.input_id


async def stands(run: RunHandle, status: RunStatus) -> types_pb2.Run:
    """Wait until the run is so."""

    async def is_so() -> bool:
        return (await run.refresh()).status == status

    await until(is_so)
    assert run.message is not None
    return run.message


# --- answers -------------------------------------------------------------------------------------------


async def test_ten_parallel_questions_each_get_their_own_answer(served_everywhere: Served) -> None:
    served = served_everywhere
    names = [f"t{n}" for n in range(10)]
    async with served.worker(agent_of()):
        run = await served.client.start("ask", plan=[Task(one, "ask") for one in names])
        asked = await open_inputs(served, run, 10)
        assert {one.request.prompt for one in asked} == {f"{one}?" for one in names}
        across = [one async for one in served.client.inputs()]
        assert {one.request.input_id for one in across} == {one.request.input_id for one in asked}
        random.Random(6).shuffle(asked)
        for one in asked:
            await run.answer(one.request.input_id, {"for": one.request.task_id})
        assert await run.result() == {one: {"for": one} for one in names}
        assert [one async for one in served.client.inputs()] == []


async def test_the_next_attempts_are_given_the_question_and_its_answer(served: Served) -> None:
    agent = Agent("once more")
    seen: list[tuple[int, str, Any]] = []

    @agent.task("ask")
    def ask(ctx: TaskContext) -> str:
        if ctx.answered is None:
            raise NeedsInput("colour?", kind=InputKind.CHOICE, choices=["red", "blue"])
        seen.append((ctx.attempt, ctx.answered.prompt, ctx.answer(str)))
        assert ctx.answered.answered_by == "Ada"
        if ctx.attempt == 2:
            raise RuntimeError("not this time")
        return ctx.answer(str)

    async with served.worker(agent):
        quick = Retry(max_attempts=2, initial_backoff=0)
        run = await served.client.start("ask", plan=[Task("a", "ask", retry=quick)])
        (one,) = await open_inputs(served, run, 1)
        await served.client.answer(run.id, one.request.input_id, "blue", answered_by="Ada")
        assert await run.result() == {"a": "blue"}
    assert seen == [(2, "colour?", "blue"), (3, "colour?", "blue")]


async def test_a_question_outlives_a_restart_and_its_answer_too(served: Served) -> None:
    async with asking(served) as (run, input_id):
        pass
    await served.restart()
    answered = await served.client.answer(run.id, input_id, [1])
    assert answered.changed or not served.calm
    assert answered.input.answered_by == "all"
    await served.restart()
    async with served.worker(agent_of()):
        assert (await served.client.wait(run.id)).status == RunStatus.SUCCEEDED
    (one,) = [one async for one in served.client.inputs(run.id)]
    assert one.request.answer.data == b"[1]"


async def test_an_answer_is_given_once(served: Served) -> None:
    async with asking(served) as (run, input_id):
        client = served.client
        first = await client.answer(run.id, input_id, 1, request_id="one")
        again = await client.answer(run.id, input_id, 1, request_id="one")
        assert first.changed or not served.calm
        assert not again.changed
        with pytest.raises(RequestIdReused):
            await client.answer(run.id, input_id, 2, request_id="one")
        with pytest.raises(FailedPrecondition) as second:
            await run.answer(input_id, 1)
        assert second.value.reason == "INPUT_ANSWERED"
        assert await run.result() == {"a": 1}


async def test_one_of_two_concurrent_answers_counts(served_everywhere: Served) -> None:
    served = served_everywhere
    async with asking(served) as (run, input_id):
        clients = [served.client, served.new_client()]
        if served.store_kind != "sqlite":  # A file is one process's.
            clients[1] = served.new_client(target=(await served.replica()).addresses[0])
        answers = [one.answer(run.id, input_id, n) for n, one in enumerate(clients)]
        said = await asyncio.gather(*answers, return_exceptions=True)
        (late,) = [one for one in said if isinstance(one, FailedPrecondition)]
        (first,) = [one for one in said if not isinstance(one, BaseException)]
        assert late.reason == "INPUT_ANSWERED"
        assert await run.result() == {"a": int(first.input.answer.data)}


async def test_refused_answer_names_its_reason(served: Served) -> None:
    async with asking(served) as (run, input_id):
        with pytest.raises(NotFound) as missing:
            await run.answer("input:task:b#1", 1)
        assert missing.value.reason == "INPUT_NOT_FOUND"
        with pytest.raises(RunNotFound):
            await served.client.answer(NO_RUN, input_id, 1)
        with pytest.raises(RunNotFound):
            await served.new_client("foreign").answer(run.id, input_id, 1)
        assert [one async for one in served.new_client("foreign").inputs()] == []
        await run.cancel()
        with pytest.raises(FailedPrecondition) as late:
            await run.answer(input_id, 1)
        assert late.value.reason == "INPUT_CANCELLED"


# --- what an answer must be ---------------------------------------------------------------------------


async def test_an_answer_that_breaks_the_schema_is_refused_with_its_paths(served: Served) -> None:
    async with asking(served, schema=NAMES) as (run, input_id):
        with pytest.raises(InvalidRequest) as refused:
            await run.answer(input_id, {"items": [{"name": 3}, {"name": "b"}]})
        assert refused.value.reason == "ANSWER_INVALID"
        assert [one.field for one in refused.value.violations] == ["answer.items[0].name"]
        assert (await run.refresh()).status == RunStatus.WAITING
        await run.answer(input_id, {"items": [{"name": "a"}]})
        assert (await run.wait()).status == RunStatus.SUCCEEDED


@pytest.mark.parametrize(
    ("question", "wrong", "right"),
    [
        ({"kind": InputKind.APPROVAL}, "yes", True),
        ({"kind": InputKind.APPROVAL}, {"approved": 1}, {"approved": False, "why": "no"}),
        ({"kind": InputKind.CHOICE, "choices": ["a", "b"]}, "c", "b"),
        ({"kind": InputKind.AUTH, "schema": {"type": "string"}}, 1, "token"),
    ],
    ids=["approval", "approval-object", "choice", "auth"],
)
async def test_each_kind_has_its_answers(
    served_memory: Served, question: dict[str, Any], wrong: Any, right: Any
) -> None:
    async with asking(served_memory, **question) as (run, input_id):
        with pytest.raises(InvalidRequest) as refused:
            await run.answer(input_id, wrong)
        assert refused.value.reason == "ANSWER_INVALID"
        await run.answer(input_id, right)
        assert await run.result() == {"a": right}


@pytest.mark.parametrize(
    ("data", "field"),
    [
        (b"[" * 65 + b"]" * 65, "answer"),
        (b"{", "answer"),
        (b"NaN", "answer"),
        (b'"' + b"x" * 256 * 1024 + b'"', "answer.data"),
    ],
    ids=["deep", "torn", "no number", "large"],
)
async def test_an_answer_is_json_within_limits(
    served_memory: Served, data: bytes, field: str
) -> None:
    async with asking(served_memory) as (run, input_id):
        with pytest.raises(InvalidRequest) as refused:
            await run.answer(input_id, types_pb2.Payload(data=data))
        assert [one.field for one in refused.value.violations] == [field]
        await run.answer(input_id, types_pb2.Payload(data=b"ok", media_type="text/plain"))
        assert await run.result() == {"a": "ok"}


@pytest.mark.parametrize(
    "question",
    [
        {"schema": {"type": "strin"}},
        {"schema": "{"},
        {"schema": {"$ref": "https://example.com/schema.json"}},
        {"schema": {"pattern": "("}},
        {"schema": {"enum": list(range(1_500)), "type": "strin"}},
        {"kind": InputKind.CHOICE},
    ],
    ids=["no schema", "no json", "elsewhere", "no pattern", "large", "no choices"],
)
async def test_a_question_that_is_none_fails_its_attempt(
    served: Served, question: dict[str, Any]
) -> None:
    async with served.worker(agent_of(**question)):
        run = await served.client.start("ask", plan=[Task("a", "ask", retry=Retry(max_attempts=1))])
        ended = await run.wait()
    assert ended.status == RunStatus.FAILED
    assert ended.failure.kind == "INVALID_OUTCOME"
    field = "needs_input.schema" if "schema" in question else "needs_input.choices"
    assert [one.field for one in ended.failure.violations] == [field]
    assert [one async for one in run.inputs()] == []


# --- another plan ----------------------------------------------------------------------------------------


async def test_an_answer_may_ask_for_another_plan_while_two_tasks_run(served: Served) -> None:
    agent = agent_of()
    go_on = {"kept": asyncio.Event(), "dropped": asyncio.Event()}
    began: set[str] = set()

    @agent.task("work")
    async def work(ctx: TaskContext) -> str:
        began.add(ctx.task_id)
        await go_on[ctx.task_id].wait()
        return "done"

    @agent.plan
    def plan(ctx: PlanContext) -> list[Task]:
        assert ctx.reason == "another way"
        return [Task("a", "ask"), Task("kept", "work"), Task("new", "ask", depends_on=["kept"])]

    async with served.worker(agent):
        tasks = [Task("a", "ask"), Task("kept", "work"), Task("dropped", "work")]
        run = await served.client.start("ask", plan=tasks)
        (one,) = await open_inputs(served, run, 1)
        await until(lambda: len(began) == 2)
        await run.answer(one.request.input_id, "no", replan=True, reason="another way")

        async def is_planned() -> bool:
            return (await run.refresh()).plan_revision == 2

        await until(is_planned)
        for event in go_on.values():
            event.set()
        (asked,) = await open_inputs(served, run, 1)
        assert asked.request.task_id == "new"
        await run.answer(asked.request.input_id, "yes")
        assert await run.result() == {"a": "no", "kept": "done", "new": "yes"}
    assert run.message is not None
    assert run.message.iteration == 2
    tasks_now = {one.task.task_id: one.task async for one in served.client.tasks(run.id)}
    assert tasks_now["dropped"].status == TaskStatus.CANCELLED
    assert tasks_now["kept"].attempts == 1
    executions = [one async for one in served.client.executions(run.id, task_id="dropped")]
    assert [one.status for one in executions] == [ExecutionStatus.CANCELLED]
