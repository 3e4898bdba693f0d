"""A step that runs an agent of the OpenAI Agents SDK with a session, whose model and tools note in a file that they run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import agents
from agents.testing import ModelCall, ModelStep, ScriptedModel

from stepwell_client import Agent, TaskContext, current_step
from stepwell_frameworks.openai_agents import StepwellRunner, durable
from tests.chaos.world.gates import noted
from tests.frameworks.scripted_openai import step_of

agent = Agent("killed")
READING = ["request-0", "find-bees", "request-1", "inner-0", "find-ants", "inner-1", "request-2"]
"""Calls of `read`, in this order."""


def here(name: str) -> str:
    """Return the name of a gate of the run that this is."""
    step = current_step()
    assert step is not None
    return f"{step.goal}-{name}"


def model(name: str, *answers: Any) -> ScriptedModel:
    """Return a model that answers by how often it has answered in this run."""

    def answer(call: ModelCall) -> ModelStep:
        number = sum(one.get("type") == "function_call" for one in call.input)
        with noted(here(f"{name}-{number}")):
            return step_of(answers[number])

    return ScriptedModel([ModelStep.respond(answer)] * len(answers))


@agents.function_tool
def find(what: str) -> str:
    with noted(here(f"find-{what}")):
        return f"seen {what}"


inner = agents.Agent(
    name="inner", model=model("inner", [("find", "c1", {"what": "ants"})], "ants"), tools=[find]
)
reader = agents.Agent(
    name="reader",
    model=model(
        "request",
        [("find", "c1", {"what": "bees"})],
        [("ask_inner", "c2", {"input": "And ants?"})],
        "bees and ants",
    ),
    tools=[find, durable(inner).as_tool("ask_inner", "Asks another one.")],
)


def session() -> agents.SQLiteSession:
    return agents.SQLiteSession("reading", Path(os.environ["SYSTEM_GATES"]) / "session")


@agent.task("read")
async def read(ctx: TaskContext) -> str:
    result = await StepwellRunner.run(reader, "What is there?", session=session())
    return result.final_output
