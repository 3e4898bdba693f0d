"""A step that runs agents of pydantic-ai, whose models and tools note in a file that they run."""

from __future__ import annotations

from typing import Any

import pydantic_ai
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel

from stepwell_client import Agent, TaskContext, current_step
from stepwell_frameworks.pydantic_ai import StepwellDurability
from tests.chaos.world.gates import noted

agent = Agent("killed")
READING = ["request-0", "find-bees", "request-1", "find-ants", "request-2"]
"""Calls of `read`, in this order."""


def here(name: str) -> str:
    """Return the name of a gate of the run that this is."""
    step = current_step()
    assert step is not None
    return f"{step.goal}-{name}"


def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    number = sum(isinstance(one, ModelResponse) for one in messages)
    with noted(here(f"request-{number}")):
        if number == 2:
            return ModelResponse(parts=[TextPart("bees and ants")])
        return ModelResponse(parts=[ToolCallPart("find", {"what": ("bees", "ants")[number]})])


def find(what: str) -> str:
    with noted(here(f"find-{what}")):
        return f"seen {what}"


reader = pydantic_ai.Agent(
    FunctionModel(answer), name="reader", tools=[find], capabilities=[StepwellDurability()]
)
tested = pydantic_ai.Agent(
    TestModel(), name="tested", tools=[find], capabilities=[StepwellDurability()]
)


@agent.task("read")
async def read(ctx: TaskContext) -> str:
    return (await reader.run("What is there?")).output


@agent.task("test")
async def test(ctx: TaskContext) -> Any:
    return (await tested.run("What is there?")).output
