"""Tools of the OpenAI Agents SDK that run here and are no functions: their calls and their approvals in a step."""

from __future__ import annotations

from typing import Any

import pytest
from agents import (
    Agent,
    ApplyPatchTool,
    AsyncComputer,
    ComputerTool,
    CustomTool,
    HostedMCPTool,
    LocalShellTool,
    ShellTool,
    Tool,
)
from agents.editor import ApplyPatchResult
from agents.sandbox import SandboxAgent
from agents.testing import ModelStep, ScriptedModel, assistant_message
from agents.tool import ShellCallOutcome, ShellCommandOutput, ShellResult
from openai.types.responses import (
    Response,
    ResponseApplyPatchToolCall,
    ResponseCompletedEvent,
    ResponseCustomToolCall,
    ResponseFunctionShellToolCall,
)
from openai.types.responses.response_output_item import LocalShellCall, McpApprovalRequest

from stepwell_client import Effect, JournalError, TaskContext, encode
from stepwell_client.v1 import types_pb2
from stepwell_frameworks.openai_agents import StepwellRunner, as_call, not_kept
from tests.frameworks.scripted_openai import names, twice
from tests.support.journal import Crash, JournaledStep, crashed, result_of

END = types_pb2.JOURNAL_MARK_END
SHELL = ResponseFunctionShellToolCall.model_validate(
    {
        "id": "i1",
        "call_id": "c1",
        "type": "shell_call",
        "status": "completed",
        "action": {"commands": ["ls"]},
    }
)
LOCAL = LocalShellCall.model_validate(
    {
        "id": "i1",
        "call_id": "c1",
        "type": "local_shell_call",
        "status": "completed",
        "action": {"type": "exec", "command": ["ls"], "env": {}},
    }
)
PATCH = ResponseApplyPatchToolCall.model_validate(
    {
        "id": "i1",
        "call_id": "c1",
        "type": "apply_patch_call",
        "status": "completed",
        "operation": {"type": "create_file", "path": "a.txt", "diff": "+a"},
    }
)
CUSTOM = ResponseCustomToolCall(call_id="c1", input="a b", name="shout", type="custom_tool_call")
HOSTED = McpApprovalRequest(
    id="m1",
    arguments='{"shelf": "a"}',
    name="count",
    server_label="books",
    type="mcp_approval_request",
)


class Editor:
    """An editor that notes what it created."""

    def __init__(self, ran: list[str]) -> None:
        self.ran = ran

    def create_file(self, operation: Any) -> Any:
        self.ran.append(operation.path)
        return ApplyPatchResult(status="completed", output="made")

    update_file = delete_file = create_file


def made(call: object, ran: list[str], **options: Any) -> Tool:
    """Return a tool that notes each run, for a call of it."""

    async def shell(request: Any) -> ShellResult:
        ran.append("shell")
        outcome = ShellCallOutcome(type="exit", exit_code=3)
        return ShellResult([ShellCommandOutput(stdout="a.txt", outcome=outcome)])

    def local(request: Any) -> str:
        ran.append("local")
        return "a.txt"

    def shout(context: Any, text: str) -> str:
        ran.append(text)
        return text.upper()

    if call is SHELL:
        return ShellTool(executor=shell, **options)
    if call is LOCAL:
        return LocalShellTool(executor=local, **options)
    if call is PATCH:
        return ApplyPatchTool(editor=Editor(ran), **options)
    return CustomTool(name="shout", description="Shouts.", on_invoke_tool=shout, **options)


def model_of(call: Any) -> ScriptedModel:
    return ScriptedModel([ModelStep(output=[call]), ModelStep(output=[assistant_message("done")])])


def read(model: ScriptedModel) -> str:
    """Return what the model read last."""
    return str(model.calls[-1].input)


@pytest.mark.parametrize(
    ("call", "name"),
    [(SHELL, "shell"), (LOCAL, "local_shell"), (PATCH, "apply_patch"), (CUSTOM, "shout")],
    ids=["shell", "local shell", "patch", "custom tool"],
)
async def test_a_tool_that_runs_here_runs_once_in_two_attempts(call: object, name: str) -> None:
    ran: list[str] = []
    plain = model_of(call)
    await StepwellRunner.run(
        Agent(name="admin", model=plain, tools=[made(call, [])]), "count the bees"
    )
    model = model_of(call)
    agent = Agent(name="admin", model=model, tools=[made(call, ran)])
    step = JournaledStep()
    await crashed(step, twice(agent))
    assert result_of(await step.attempt(twice(agent))) == "done"
    assert len(ran) == 1
    assert names(step) == ["admin.model", f"admin.tool.{name}", "admin.model"]
    assert len(model.calls) == 2
    assert read(model) == read(plain)


@pytest.mark.parametrize("call", [SHELL, PATCH, CUSTOM], ids=["shell", "patch", "custom tool"])
@pytest.mark.parametrize("approved", [True, False])
async def test_a_tool_that_runs_here_asks_for_its_approval(call: object, approved: bool) -> None:
    ran: list[str] = []
    model = model_of(call)
    agent = Agent(name="admin", model=model, tools=[made(call, ran, needs_approval=True)])

    async def work(ctx: TaskContext) -> Any:
        return (await StepwellRunner.run(agent, "go")).final_output

    step = JournaledStep()
    (wait,) = (await step.attempt(work)).suspended.waits
    assert wait.ask.prompt.startswith("May ")
    assert ran == []
    step.keep(wait.call, END, value=encode({"approved": approved, "message": "not today"}))
    assert result_of(await step.attempt(work)) == "done"
    assert len(ran) == approved
    assert ("not today" in read(model)) is not approved


async def test_a_tools_error_is_its_answer_in_each_attempt() -> None:
    ran: list[int] = []

    def fail(request: Any) -> str:
        ran.append(1)
        raise ConnectionError("no shell here")

    model = model_of(SHELL)
    agent = Agent(name="admin", model=model, tools=[ShellTool(executor=fail)])
    step = JournaledStep()
    await crashed(step, twice(agent))
    assert result_of(await step.attempt(twice(agent))) == "done"
    assert (len(ran), len(model.calls)) == (1, 2)
    assert "no shell here" in read(model)


async def test_a_shell_command_that_was_cut_off_does_not_run_again_if_it_must_not() -> None:
    ran: list[int] = []

    def cut(request: Any) -> str:
        ran.append(1)
        raise Crash

    shell = as_call(ShellTool(executor=cut), effect=Effect.AT_MOST_ONCE)
    model = model_of(SHELL)
    work = twice(Agent(name="admin", model=model, tools=[shell]))
    step = JournaledStep()
    await crashed(step, work)
    key = (await step.attempt(work)).unknown_call.call
    step.keep(key, END, value=encode("settled by a person"))
    assert result_of(await step.attempt(work)) == "done"
    assert ran == [1]
    assert "settled by a person" in read(model)


async def test_a_shell_that_is_not_kept_runs_in_each_attempt() -> None:
    ran: list[str] = []
    work = twice(Agent(name="admin", model=model_of(SHELL), tools=[not_kept(made(SHELL, ran))]))
    step = JournaledStep()
    assert await step.after_crash(work) == "done"
    assert len(ran) == 2


@pytest.mark.parametrize("given", [True, {"approved": False, "message": "not that shelf"}])
async def test_an_approval_for_a_hosted_mcp_server_is_asked_for(given: Any) -> None:
    config: Any = {"type": "mcp", "server_label": "books", "server_url": "https://books.example"}
    model = model_of(HOSTED)
    agent = Agent(name="reader", model=model, tools=[HostedMCPTool(tool_config=config)])

    async def work(ctx: TaskContext) -> Any:
        return (await StepwellRunner.run(agent, "go")).final_output

    step = JournaledStep()
    (wait,) = (await step.attempt(work)).suspended.waits
    assert wait.ask.prompt == 'May books.count be called? books.count({"shelf": "a"})'
    step.keep(wait.call, END, value=encode(given))
    assert result_of(await step.attempt(work)) == "done"
    assert f"'approve': {given is True}" in read(model)


class Screen(AsyncComputer):
    """A computer that does nothing."""

    async def screenshot(self) -> str:
        return ""

    async def click(self, x: int, y: int, button: Any) -> None: ...
    async def double_click(self, x: int, y: int) -> None: ...
    async def scroll(self, x: int, y: int, scroll_x: int, scroll_y: int) -> None: ...
    async def type(self, text: str) -> None: ...
    async def wait(self) -> None: ...
    async def move(self, x: int, y: int) -> None: ...
    async def keypress(self, keys: list[str]) -> None: ...
    async def drag(self, path: list[tuple[int, int]]) -> None: ...


async def test_a_computer_is_refused_unless_it_is_not_kept() -> None:
    computer: Any = ComputerTool(computer=Screen())

    async def work(ctx: TaskContext) -> Any:
        model = ScriptedModel([ModelStep(output=[assistant_message("done")])])
        agent = Agent(name="admin", model=model, tools=[computer])
        with pytest.raises(JournalError, match=r"'admin' has a computer.*not_kept"):
            await StepwellRunner.run(agent, "go")
        agent.tools = [not_kept(computer)]
        return (await StepwellRunner.run(agent, "go")).final_output

    assert result_of(await JournaledStep().attempt(work)) == "done"


async def test_a_sandbox_agent_is_refused() -> None:
    async def work(ctx: TaskContext) -> None:
        with pytest.raises(JournalError, match=r"'coder' is a sandbox agent"):
            await StepwellRunner.run(SandboxAgent(name="coder"), "go")

    assert (await JournaledStep().attempt(work)).HasField("completed")


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_run_that_stopped_for_an_approval_does_not_complete_its_step(
    streamed: bool,
) -> None:
    def undecided(context: Any, item: Any) -> Any:
        return None

    ran: list[str] = []
    shell = made(SHELL, ran, needs_approval=True, on_approval=undecided)
    answer = Response.model_construct(id="r1", model="script", output=[SHELL], usage=None)
    last = ResponseCompletedEvent(type="response.completed", sequence_number=1, response=answer)
    model = ScriptedModel([ModelStep.stream([last])]) if streamed else model_of(SHELL)
    agent = Agent(name="admin", model=model, tools=[shell])

    async def work(ctx: TaskContext) -> Any:
        if not streamed:
            return (await StepwellRunner.run(agent, "go")).final_output
        result = StepwellRunner.run_streamed(agent, "go")
        async for _ in result.stream_events():
            pass
        return result.final_output

    failure = (await JournaledStep().attempt(work)).failed.failure
    assert (failure.kind, failure.retryable) == ("JournalError", False)
    assert "approvals that can't be asked for in a step: shell" in failure.message
