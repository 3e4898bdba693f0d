"""Agents of the OpenAI Agents SDK within a step that wait for a person, or whose calls a person settles."""

from __future__ import annotations

from typing import Any

import pytest
from agents import Agent, RunContextWrapper, function_tool

from stepwell_client import Effect, QuestionKind, TaskContext, encode
from stepwell_client.v1 import types_pb2
from stepwell_frameworks.openai_agents import StepwellRunner, as_call, durable
from tests.frameworks.scripted_openai import scripted
from tests.support.journal import Crash, JournaledStep, crashed, result_of, this_step

END = types_pb2.JOURNAL_MARK_END


def outputs(result: Any) -> list[Any]:
    """Return the results of the tools that were called."""
    return [one.output for one in result.new_items if one.type == "tool_call_output_item"]


def running(agent: Agent[Any]) -> Any:
    async def work(ctx: TaskContext) -> list[Any]:
        return outputs(await StepwellRunner.run(agent, "go"))

    return work


async def test_tools_that_need_approval_ask_side_by_side() -> None:
    model = scripted(
        [("wipe", "c1", {"disk": 1}), ("wipe", "c2", {"disk": 2}), ("wipe", "c3", {"disk": 3})],
        "done",
    )
    wiped: list[int] = []

    @function_tool(needs_approval=True)
    def wipe(disk: int) -> str:
        wiped.append(disk)
        return "wiped"

    work = running(Agent(name="admin", model=model, tools=[wipe]))
    step = JournaledStep()
    outcome = await step.attempt(work)
    asks = {wait.ask.prompt: wait for wait in outcome.suspended.waits}
    assert sorted(asks) == [f'May wipe be called? wipe({{"disk": {disk}}})' for disk in (1, 2, 3)]
    assert {wait.ask.kind for wait in asks.values()} == {int(QuestionKind.APPROVAL)}
    answers = [True, {"approved": False, "message": "not that one"}, False]
    for prompt, answer in zip(sorted(asks), answers, strict=True):
        step.keep(asks[prompt].call, END, value=encode(answer))
    assert result_of(await step.attempt(work)) == [
        "wiped",
        "not that one",
        "Tool execution was not approved.",
    ]
    assert wiped == [1]
    assert len(model.calls) == 2


async def test_a_person_changes_the_arguments_of_an_approved_call() -> None:
    model = scripted([("mail", "c1", {"to": "ann@old.example", "copies": 1})], "done")
    mailed: list[tuple[str, int]] = []

    @function_tool(needs_approval=True)
    def mail(to: str, copies: int) -> str:
        mailed.append((to, copies))
        return "sent"

    work = running(Agent(name="clerk", model=model, tools=[mail]))
    step = JournaledStep()
    (wait,) = (await step.attempt(work)).suspended.waits
    changed = {"to": "ann@new.example", "copies": 2}
    step.keep(wait.call, END, value=encode({"approved": True, "arguments": changed}))
    for _ in range(2):
        assert result_of(await step.attempt(work)) == ["sent"]
    assert mailed == [("ann@new.example", 2)]
    assert "ann@new.example" in str(model.calls[-1].input)
    assert "ann@old.example" not in str(model.calls[-1].input)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ({"approved": True, "args": {"disk": 2}}, "An answer about this call has no args."),
        ({"approved": True, "arguments": [2]}, "The arguments of an answer are an object, and"),
        ({"approved": False, "message": 3}, "The arguments of an answer are an object, and"),
        ({"approved": False, "arguments": {"disk": 2}}, "Arguments are for a call that is"),
    ],
)
async def test_an_answer_that_cannot_be_followed_is_asked_for_again(
    answer: dict[str, Any], problem: str
) -> None:
    wiped: list[int] = []

    @function_tool(needs_approval=True)
    def wipe(disk: int) -> str:
        wiped.append(disk)
        return "wiped"

    model = scripted([("wipe", "c1", {"disk": 1})], "done")
    work = running(Agent(name="admin", model=model, tools=[wipe]))
    step = JournaledStep()
    (wait,) = (await step.attempt(work)).suspended.waits
    step.keep(wait.call, END, value=encode(answer))
    (again,) = (await step.attempt(work)).suspended.waits
    assert again.ask.prompt.startswith(problem)
    assert again.ask.prompt.endswith('May wipe be called? wipe({"disk": 1})')
    assert wiped == []
    step.keep(again.call, END, value=encode(True))
    assert result_of(await step.attempt(work)) == ["wiped"]


@pytest.mark.parametrize(
    ("given", "asked"),
    [({"amount": 5}, False), ({"amount": 500}, True), ({}, True)],
    ids=["little", "much", "left to the tool's default"],
)
async def test_a_policy_says_which_calls_need_approval(given: dict[str, int], asked: bool) -> None:
    async def is_much(context: RunContextWrapper[Any], arguments: dict[str, Any], id_: str) -> bool:
        return arguments["amount"] > 100

    @function_tool(needs_approval=is_much, strict_mode=False)
    def pay(amount: int = 1_000) -> str:
        return "paid"

    model = scripted([("pay", "c1", given)], "done")
    outcome = await JournaledStep().attempt(running(Agent(name="payer", model=model, tools=[pay])))
    assert outcome.HasField("suspended") is asked


async def test_outside_of_a_step_a_durable_agents_tool_interrupts_its_run() -> None:
    @function_tool(needs_approval=True)
    def wipe() -> str:
        return "wiped"

    agent = durable(Agent(name="admin", model=scripted([("wipe", "c1", {})]), tools=[wipe]))
    result = await StepwellRunner.run(agent, "go")
    assert [one.name for one in result.interruptions] == ["wipe"]


async def test_a_question_within_an_agent_that_is_a_tool_is_asked_once() -> None:
    wiped: list[int] = []

    @function_tool(needs_approval=True)
    def wipe(disk: int) -> str:
        wiped.append(disk)
        return "wiped"

    inner_model = scripted([("wipe", "c1", {"disk": 1})], "inner")
    inner = durable(Agent(name="inner", model=inner_model, tools=[wipe]))
    model = scripted([("ask_inner", "c1", {"input": "go"})], "done")
    work = running(Agent(name="outer", model=model, tools=[inner.as_tool("ask_inner", "Asks.")]))

    step = JournaledStep()
    (wait,) = (await step.attempt(work)).suspended.waits
    step.keep(wait.call, END, value=encode(True))
    assert result_of(await step.attempt(work)) == ["inner"]
    assert wiped == [1]
    assert len(model.calls) == len(inner_model.calls) == 2


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_tool_may_ask_a_person_itself(streamed: bool) -> None:
    model = scripted([("choose", "c1", {}), ("find", "c2", {})], "done")
    found: list[int] = []

    @function_tool
    async def choose() -> str:
        step = this_step()
        return await step.ask("Which one?", as_=str)

    @function_tool
    def find() -> str:
        found.append(1)
        return "seen"

    agent = Agent(name="reader", model=model, tools=[choose, find])

    async def work(ctx: TaskContext) -> list[Any]:
        if not streamed:
            return outputs(await StepwellRunner.run(agent, "go"))
        result = StepwellRunner.run_streamed(agent, "go")
        async for _ in result.stream_events():
            pass
        return outputs(result)

    step = JournaledStep()
    (wait,) = (await step.attempt(work)).suspended.waits
    step.keep(wait.call, END, value=encode("the red one"))
    assert result_of(await step.attempt(work)) == ["the red one", "seen"]
    assert len(found) == 1
    assert len(model.calls) == 2


async def test_a_tool_in_a_thread_may_ask_a_person() -> None:
    model = scripted([("choose", "c1", {})], "done")

    @function_tool
    def choose() -> str:
        step = this_step()
        return step.ask_sync("Which one?", as_=str)

    work = running(Agent(name="reader", model=model, tools=[choose]))
    step = JournaledStep()
    (wait,) = (await step.attempt(work)).suspended.waits
    step.keep(wait.call, END, value=encode("the red one"))
    assert result_of(await step.attempt(work)) == ["the red one"]


@pytest.mark.parametrize("streamed", [False, True])
async def test_an_at_most_once_tool_that_began_is_not_called_again(streamed: bool) -> None:
    model = scripted([("pay", "c1", {})], "done")
    paid: list[int] = []

    @as_call(effect=Effect.AT_MOST_ONCE)
    @function_tool
    async def pay() -> str:
        paid.append(1)
        raise Crash

    agent = Agent(name="payer", model=model, tools=[pay])

    async def work(ctx: TaskContext) -> list[Any]:
        if not streamed:
            return outputs(await StepwellRunner.run(agent, "go"))
        result = StepwellRunner.run_streamed(agent, "go")
        async for _ in result.stream_events():
            pass
        return outputs(result)

    step = JournaledStep()
    await crashed(step, work)
    outcome = await step.attempt(work)
    key = outcome.unknown_call.call
    assert key.startswith("payer.tool.pay/")
    step.keep(key, END, value=encode("receipt 7"))
    assert result_of(await step.attempt(work)) == ["receipt 7"]
    assert paid == [1]
    assert len(model.calls) == 2
