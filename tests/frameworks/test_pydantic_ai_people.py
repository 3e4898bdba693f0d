"""Agents of pydantic-ai within a step that wait for a person, or whose calls a person settles."""

from __future__ import annotations

from typing import Any

from pydantic_ai import Agent
from pydantic_ai.exceptions import CallDeferred

from stepwell_client import Effect, QuestionKind, TaskContext, encode
from stepwell_client.v1 import types_pb2
from stepwell_frameworks.pydantic_ai import StepwellDurability
from tests.frameworks.scripted import Script, going, returned, tool_call
from tests.support.journal import Crash, JournaledStep, crashed, result_of, this_step

END = types_pb2.JOURNAL_MARK_END


async def test_tools_that_need_approval_ask_side_by_side() -> None:
    script = Script([tool_call("wipe", disk=1), tool_call("wipe", disk=2)], "done")
    agent = Agent(script.model(), name="admin", capabilities=[StepwellDurability()])
    wiped: list[int] = []

    @agent.tool_plain(requires_approval=True)
    def wipe(disk: int) -> str:
        wiped.append(disk)
        return "wiped"

    async def work(ctx: TaskContext) -> list[Any]:
        return returned((await agent.run("go")).all_messages())

    step = JournaledStep()
    outcome = await step.attempt(work)
    asks = {wait.ask.prompt: wait for wait in outcome.suspended.waits}
    assert sorted(asks) == [
        'May wipe be called? wipe({"disk": 1})',
        'May wipe be called? wipe({"disk": 2})',
    ]
    assert {wait.ask.kind for wait in asks.values()} == {int(QuestionKind.APPROVAL)}
    answers = [True, {"approved": False, "message": "not that one"}]
    for prompt, answer in zip(sorted(asks), answers, strict=True):
        step.keep(asks[prompt].call, END, value=encode(answer))
    assert result_of(await step.attempt(work)) == ["wiped", "not that one"]
    assert wiped == [1]
    assert script.requests == 2


async def test_a_person_changes_the_arguments_of_an_approved_call() -> None:
    script = Script([tool_call("mail", to="ann@old.example", copies=1)], "done")
    agent = Agent(script.model(), name="clerk", capabilities=[StepwellDurability()])
    mailed: list[tuple[str, int]] = []

    @agent.tool_plain(requires_approval=True)
    def mail(to: str, copies: int) -> str:
        mailed.append((to, copies))
        return "sent"

    async def work(ctx: TaskContext) -> str:
        return str((await agent.run("go")).all_messages())

    step = JournaledStep()
    (wait,) = (await step.attempt(work)).suspended.waits
    changed = {"to": "ann@new.example", "copies": 2}
    step.keep(wait.call, END, value=encode({"approved": True, "arguments": changed}))
    for _ in range(2):
        read = result_of(await step.attempt(work))
        assert "sent" in read
        assert "ann@new.example" in read
        assert "ann@old.example" not in read
    assert mailed == [("ann@new.example", 2)]
    assert script.requests == 2


async def test_changed_arguments_that_the_tool_does_not_take_call_nothing() -> None:
    script = Script([tool_call("wipe", disk=1)], "done")
    agent = Agent(script.model(), name="admin", capabilities=[StepwellDurability()])
    wiped: list[int] = []

    @agent.tool_plain(requires_approval=True)
    def wipe(disk: int) -> str:
        wiped.append(disk)
        return "wiped"

    async def work(ctx: TaskContext) -> str:
        return str((await agent.run("go")).all_messages())

    step = JournaledStep()
    (wait,) = (await step.attempt(work)).suspended.waits
    step.keep(wait.call, END, value=encode({"approved": True, "arguments": {"disk": "all"}}))
    assert "valid integer" in result_of(await step.attempt(work))
    assert wiped == []


async def test_a_question_is_as_long_as_the_protocol_lets_it_be() -> None:
    script = Script([tool_call("write", text="x" * 1_000_000)], "done")
    agent = Agent(script.model(), name="writer", capabilities=[StepwellDurability()])

    @agent.tool_plain(requires_approval=True)
    def write(text: str) -> str:
        return text

    work = going(agent)

    (wait,) = (await JournaledStep().attempt(work)).suspended.waits
    assert len(wait.ask.prompt.encode()) == 256 * 1024


async def test_the_result_of_a_deferred_tool_is_asked_for() -> None:
    script = Script([tool_call("measure")], "done")
    agent = Agent(script.model(), name="lab", capabilities=[StepwellDurability()])

    @agent.tool_plain
    async def measure() -> str:
        raise CallDeferred(metadata={"prompt": "How warm is it?"})

    async def work(ctx: TaskContext) -> str:
        return returned((await agent.run("go")).all_messages())[0]

    step = JournaledStep()
    (wait,) = (await step.attempt(work)).suspended.waits
    assert wait.ask.prompt == "How warm is it? measure({})"
    step.keep(wait.call, END, value=encode("21 degrees"))
    assert result_of(await step.attempt(work)) == "21 degrees"
    assert script.requests == 2


async def test_a_tool_may_ask_a_person_itself() -> None:
    script = Script([tool_call("choose"), tool_call("find")], "done")
    agent = Agent(script.model(), name="reader", capabilities=[StepwellDurability()])
    found: list[int] = []

    @agent.tool_plain
    async def choose() -> str:
        step = this_step()
        return await step.ask("Which one?", as_=str)

    @agent.tool_plain
    async def find() -> str:
        found.append(1)
        return "seen"

    work = going(agent)

    step = JournaledStep()
    (wait,) = (await step.attempt(work)).suspended.waits
    step.keep(wait.call, END, value=encode("the red one"))
    assert result_of(await step.attempt(work)) == "done"
    assert len(found) == 1
    assert script.requests == 2


async def test_an_at_most_once_tool_that_began_is_not_called_again() -> None:
    script = Script([tool_call("pay")], "done")
    agent = Agent(script.model(), name="payer", capabilities=[StepwellDurability()])
    paid: list[int] = []

    @agent.tool_plain(metadata={"stepwell": {"effect": Effect.AT_MOST_ONCE}})
    async def pay() -> str:
        paid.append(1)
        raise Crash

    async def work(ctx: TaskContext) -> str:
        return returned((await agent.run("go")).all_messages())[0]

    step = JournaledStep()
    await crashed(step, work)
    outcome = await step.attempt(work)
    key = outcome.unknown_call.call
    assert key.startswith("payer.tool.pay/")
    step.keep(key, END, value=encode("receipt 7"))
    assert result_of(await step.attempt(work)) == "receipt 7"
    assert paid == [1]
    assert script.requests == 2
