"""Models and tools of the OpenAI Agents SDK that follow a script, and a step that runs an agent."""

from __future__ import annotations

from typing import Any

from agents import Agent, Usage, function_tool
from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call

from stepwell_client import TaskContext
from stepwell_client.v1 import types_pb2
from stepwell_frameworks.openai_agents import StepwellRunner
from tests.support.journal import Crash, JournaledStep

USED = Usage(requests=1, input_tokens=10, output_tokens=2, total_tokens=12)
Call = tuple[str, str, dict[str, Any]]
"""The name of a tool, the id of the call, its arguments."""


def scripted(*answers: str | list[Call] | Exception) -> ScriptedModel:
    """Return a model that follows a script: a list of calls of tools is one answer, a text is the last."""
    return ScriptedModel([step_of(one) for one in answers], default_usage=USED)


def step_of(answer: str | list[Call] | Exception) -> ModelStep:
    """Return one answer of a script."""
    if isinstance(answer, Exception):
        return ModelStep.raise_error(answer)
    if isinstance(answer, str):
        return ModelStep(output=[assistant_message(answer)], usage=USED)
    return ModelStep(
        output=[function_call(name, given, call_id=id_) for name, id_, given in answer]
    )


class Finder:
    """A tool that notes what it was asked to find."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self.tool = function_tool(self.find)

    def find(self, what: str) -> str:
        self.found.append(what)
        return f"two {what}"


def names(step: JournaledStep) -> list[str]:
    """Return the names of the calls in the journal."""
    return [one.name for one in step.kept(types_pb2.JOURNAL_MARK_END)]


def twice(agent: Agent[Any], **options: Any) -> Any:
    """Return a step that runs an agent, and whose first attempt is lost once the agent has ended."""

    async def work(ctx: TaskContext) -> Any:
        result = await StepwellRunner.run(agent, "count the bees", **options)
        if ctx.attempt == 1:
            raise Crash
        return result.final_output

    return work
