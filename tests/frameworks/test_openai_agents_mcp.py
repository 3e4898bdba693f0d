"""An agent of the OpenAI Agents SDK within a step that uses the tools of an MCP server."""

from __future__ import annotations

import sys
from pathlib import Path

from agents import Agent
from agents.mcp import MCPServerStdio

from stepwell_client import TaskContext, encode
from stepwell_client.v1 import types_pb2
from stepwell_frameworks.openai_agents import StepwellRunner
from tests.frameworks.scripted_openai import scripted
from tests.support.journal import Crash, JournaledStep, crashed, result_of

SERVER = Path(__file__).with_name("tools_over_mcp.py")
END = types_pb2.JOURNAL_MARK_END


async def test_an_mcp_servers_approved_calls_come_from_the_journal(
    tmp_path: Path,
) -> None:
    notes = tmp_path / "notes"
    model = scripted([("count", "c1", {"shelf": "a"})], "done")
    shelves = MCPServerStdio(
        {"command": sys.executable, "args": [str(SERVER)], "env": {"NOTES": str(notes)}},
        require_approval="always",
        client_session_timeout_seconds=30,
    )
    agent = Agent(name="reader", model=model, mcp_servers=[shelves])

    async def work(ctx: TaskContext) -> str:
        async with shelves:
            result = await StepwellRunner.run(agent, "go")
        if ctx.attempt == 2:
            raise Crash
        outputs = [
            one for one in result.to_input_list() if one.get("type") == "function_call_output"
        ]
        return str(outputs)

    step = JournaledStep()
    (wait,) = (await step.attempt(work)).suspended.waits
    assert wait.ask.prompt == 'May count be called? count({"shelf": "a"})'
    assert not notes.exists()
    step.keep(wait.call, END, value=encode(True))
    await crashed(step, work)
    assert "three on a" in result_of(await step.attempt(work))
    assert notes.read_text(encoding="utf-8").split() == ["a"]
    assert len(model.calls) == 2


async def test_a_call_of_an_mcp_server_that_dies_fails_alone(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    model = scripted(
        [("increment", "c1", {}), ("increment", "c2", {})], [("increment", "c3", {})], "done"
    )
    env = {"NOTES": str(notes), "DIES_AT": "3"}

    async def work(ctx: TaskContext) -> list[str]:
        numbers = MCPServerStdio(
            {"command": sys.executable, "args": [str(SERVER)], "env": env},
            client_session_timeout_seconds=30,
        )
        async with numbers:
            agent = Agent(name="reader", model=model, mcp_servers=[numbers])
            result = await StepwellRunner.run(agent, "go")
        return [str(one.output) for one in result.new_items if one.type == "tool_call_output_item"]

    step = JournaledStep()
    # The SDK asks the server for its tools before the model's next request.
    assert (await step.attempt(work)).HasField("failed")
    *counted, failed = result_of(await step.attempt(work))
    assert "error occurred" in failed
    assert len(counted) == 2
    assert len({one.partition(" of ")[2] for one in counted}) == 1
    assert sorted(notes.read_text(encoding="utf-8").split()) == ["1", "2", "3"]
    assert len(model.calls) == 3
