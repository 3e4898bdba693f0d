"""An agent of pydantic-ai within a step that uses the tools of an MCP server."""

from __future__ import annotations

import sys
from pathlib import Path

from fastmcp.client.transports import StdioTransport
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset

from stepwell_client import TaskContext
from stepwell_frameworks.pydantic_ai import StepwellDurability
from tests.frameworks.scripted import Script, going, returned, tool_call
from tests.support.journal import Crash, JournaledStep, crashed, result_of

SERVER = Path(__file__).with_name("tools_over_mcp.py")


async def test_calls_of_an_mcp_server_come_from_the_journal(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    transport = StdioTransport(sys.executable, [str(SERVER)], env={"NOTES": str(notes)})
    script = Script([tool_call("count", shelf="a")], "done")
    agent = Agent(
        script.model(),
        name="reader",
        toolsets=[MCPToolset(transport, id="shelves", init_timeout=120)],
        capabilities=[StepwellDurability()],
    )

    async def work(ctx: TaskContext) -> str:
        messages = (await agent.run("go")).all_messages()
        if ctx.attempt == 1:
            raise Crash
        return str(returned(messages)[0])

    step = JournaledStep()
    assert await step.after_crash(work) == "three on a"
    assert notes.read_text(encoding="utf-8").split() == ["a"]
    assert script.requests == 2


async def test_an_mcp_server_keeps_its_state_between_calls_of_an_attempt(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    transport = StdioTransport(sys.executable, [str(SERVER)], env={"NOTES": str(notes)})
    once = tool_call("increment")
    script = Script([once, tool_call("increment")], [tool_call("increment")], "done")
    agent = Agent(
        script.model(),
        name="reader",
        toolsets=[MCPToolset(transport, id="numbers", init_timeout=120)],
        capabilities=[StepwellDurability()],
    )

    async def work(ctx: TaskContext) -> list[str]:
        found = [str(one) for one in returned((await agent.run("go")).all_messages())]
        numbers, processes = zip(*(one.split(" of ") for one in found), strict=True)
        assert sorted(numbers) == ["1", "2", "3"]
        assert len(set(processes)) == 1
        if ctx.attempt == 1:
            raise Crash
        return found

    step = JournaledStep()
    await crashed(step, work)
    assert len(result_of(await step.attempt(work))) == 3
    assert sorted(notes.read_text(encoding="utf-8").split()) == ["1", "2", "3"]


async def test_a_call_of_an_mcp_server_that_dies_fails_alone(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    env = {"NOTES": str(notes), "DIES_AT": "2"}
    transport = StdioTransport(sys.executable, [str(SERVER)], env=env)
    script = Script([tool_call("increment")], [tool_call("increment")], "done")
    agent = Agent(
        script.model(),
        name="reader",
        toolsets=[MCPToolset(transport, id="numbers", init_timeout=120)],
        capabilities=[StepwellDurability()],
    )

    work = going(agent)

    step = JournaledStep()
    for _ in range(2):
        assert result_of(await step.attempt(work)) == "done"
    assert notes.read_text(encoding="utf-8").split() == ["1", "2"]
