"""Calls within a step, as the Python client makes them: found again, waited through, and paid for once."""

from __future__ import annotations

import asyncio
from typing import Any

from stepwell_client import (
    Agent,
    Budget,
    ExecutionStatus,
    QuestionKind,
    Retry,
    Run,
    RunHandle,
    RunStatus,
    Task,
    TaskContext,
)
from stepwell_client.enums import PauseReason
from stepwell_client.v1 import types_pb2
from tests.service.capabilities.conftest import Served
from tests.support.patience import until

AT_ONCE = Retry(initial_backoff=0.0)


class Model:
    """A function that counts its runs and what they cost."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def __call__(self, ctx: TaskContext, question: str) -> str:
        self.asked.append(question)
        ctx.usage(input_tokens=10)
        return question.upper()


def calling(model: Model) -> Agent:
    agent = Agent("calling")

    async def ask_model(ctx: TaskContext, question: str) -> Any:
        return await ctx.call("model", model, ctx, question, key=question)

    @agent.task("write")
    async def write(ctx: TaskContext) -> list[Any]:
        notes = await asyncio.gather(*(ask_model(ctx, name) for name in ("bees", "ants")))
        if ctx.attempt == 1:
            raise ConnectionError
        title, agreed = await asyncio.gather(
            ctx.ask("Title?", key="title"),
            ctx.ask("Print?", kind=QuestionKind.APPROVAL, key="print", as_=bool),
        )
        return [*notes, title, agreed]

    @agent.task("count")
    async def count(ctx: TaskContext) -> list[Any]:
        return [await ask_model(ctx, str(number)) for number in range(4)]

    return agent


async def until_waiting(run: RunHandle, *statuses: RunStatus) -> Run:
    async def waits() -> bool:
        return (await run.get()).status in (statuses or (RunStatus.WAITING,))

    await until(waits)
    return await run.get()


async def test_a_step_goes_on_from_its_calls_after_a_failure_and_two_answers(
    served_everywhere: Served,
) -> None:
    served, model = served_everywhere, Model()
    async with served.worker(calling(model)):
        run = await served.client.start(plan=[Task("a", "write", retry=AT_ONCE)])
        waiting = await until_waiting(run)
        assert waiting.blocked_on == types_pb2.BLOCKED_KIND_QUESTION
        asked = {one.prompt: one async for one in run.questions()}
        assert {prompt: one.call for prompt, one in asked.items()} == {
            "Title?": "title",
            "Print?": "print",
        }
        for prompt, answer in (("Title?", "On bees"), ("Print?", True)):
            await run.answer(asked[prompt].id, answer)
        assert (await run.result())["a"] == ["BEES", "ANTS", "On bees", True]

    assert sorted(model.asked) == ["ants", "bees"]
    assert (await run.get()).usage.input_tokens == 20
    statuses = [one.status async for one in served.client.run(run.id).executions()]
    assert statuses[0] == ExecutionStatus.FAILED
    assert statuses[-1] == ExecutionStatus.COMPLETED
    assert set(statuses[1:-1]) == {ExecutionStatus.SUSPENDED}
    kept = {one.key: one.value and one.value.value async for one in run.journal(values=True)}
    assert kept == {"bees": "BEES", "ants": "ANTS", "title": "On bees", "print": True}


async def test_a_budget_holds_between_the_calls_of_a_step(served: Served) -> None:
    model = Model()
    async with served.worker(calling(model)):
        run = await served.client.start(plan=[Task("a", "count")], budget=Budget(input_tokens=20))
        paused = await until_waiting(run, RunStatus.PAUSED)
        assert paused.pause_reason == PauseReason.BUDGET_EXHAUSTED
        assert model.asked == ["0", "1"]
        await run.raise_budget(Budget(input_tokens=1_000))
        assert (await run.result())["a"] == ["0", "1", "2", "3"]

    assert model.asked == ["0", "1", "2", "3"]
    assert (await run.get()).usage.input_tokens == 40


async def test_a_cancelled_run_has_no_open_questions_of_its_steps(served: Served) -> None:
    async with served.worker(calling(Model())):
        run = await served.client.start(plan=[Task("a", "write", retry=AT_ONCE)])
        await until_waiting(run)
        await run.cancel()
        assert (await run.wait()).status == RunStatus.CANCELLED
        statuses = {one.status async for one in run.questions()}
    assert statuses == {types_pb2.QUESTION_STATUS_CANCELLED}
