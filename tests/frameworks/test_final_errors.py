"""Errors of frameworks and of models' clients that can't mend: each ends its step at the first attempt, by its own name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import agents
import anthropic
import httpx
import openai
import pydantic_ai
import pytest
from langgraph.errors import GraphRecursionError
from pydantic_ai.exceptions import (
    FallbackExceptionGroup,
    ModelAuthenticationError,
    ModelHTTPError,
    UsageLimitExceeded,
)
from pydantic_ai.usage import UsageLimits

from stepwell_client import Retry, TaskContext
from stepwell_client.agent.final_errors import KINDS, is_final
from stepwell_frameworks.langgraph import StepwellSaver, run
from stepwell_frameworks.openai_agents import StepwellRunner
from stepwell_frameworks.pydantic_ai import StepwellDurability
from tests.frameworks.graphs import Ran, State, chain
from tests.frameworks.scripted import Script, tool_call
from tests.frameworks.scripted_openai import Finder, scripted
from tests.support.journal import Counted, JournaledStep

Work = Callable[[TaskContext], Awaitable[Any]]


def looping_graph(ran: Ran) -> Work:
    async def again(state: State) -> State:
        return {"seen": [ran("again")]}

    builder = chain(again)
    builder.add_edge("n0", "n0")
    graph = builder.compile(checkpointer=StepwellSaver())
    return lambda _: run(graph, {"seen": []}, {"recursion_limit": 10})


def looping_agent(ran: Ran) -> Work:
    script = [[("find", str(turn), {"what": "bees"})] for turn in range(9)]
    agent = agents.Agent(name="reader", model=scripted(*script), tools=[Finder().tool])
    return lambda _: StepwellRunner.run(agent, "count", max_turns=3)


def tripping_input(ran: Ran) -> Work:
    @agents.input_guardrail
    def refuse(*_: Any) -> agents.GuardrailFunctionOutput:
        return agents.GuardrailFunctionOutput(output_info=ran("guard"), tripwire_triggered=True)

    agent = agents.Agent(name="reader", model=scripted("two"), input_guardrails=[refuse])
    return lambda _: StepwellRunner.run(agent, "count")


def tripping_output(ran: Ran) -> Work:
    @agents.output_guardrail
    def refuse(*_: Any) -> agents.GuardrailFunctionOutput:
        return agents.GuardrailFunctionOutput(output_info=ran("guard"), tripwire_triggered=True)

    agent = agents.Agent(name="reader", model=scripted("two"), output_guardrails=[refuse])
    return lambda _: StepwellRunner.run(agent, "count")


def limited_agent(ran: Ran) -> Work:
    model = Script([tool_call("find")], [tool_call("find")]).model()
    agent = pydantic_ai.Agent(model, name="reader", capabilities=[StepwellDurability()])
    agent.tool_plain(name="find")(lambda: ran("find"))
    return lambda _: agent.run("count", usage_limits=UsageLimits(request_limit=1))


@pytest.mark.parametrize(
    ("make", "kind", "ran_times"),
    [
        (looping_graph, GraphRecursionError, 10),
        (looping_agent, agents.MaxTurnsExceeded, 0),
        (tripping_input, agents.InputGuardrailTripwireTriggered, 1),
        (tripping_output, agents.OutputGuardrailTripwireTriggered, 1),
        (limited_agent, UsageLimitExceeded, 1),
    ],
)
async def test_limit_or_guardrail_of_a_framework_ends_the_step(
    make: Callable[[Ran], Work], kind: type[Exception], ran_times: int
) -> None:
    ran = Ran()
    work = make(ran)

    async def play(ctx: TaskContext) -> None:
        await work(ctx)

    failure = (await JournaledStep().attempt(play)).failed.failure
    assert (failure.kind, failure.retryable) == (kind.__name__, False)
    assert failure.HasField("retryable")
    assert len(ran.names) == ran_times


def answered(status: int) -> list[Exception]:
    """Return the errors of the clients for an HTTP status."""
    # Of either generation of httpx, whichever the clients use.
    response: Any = httpx.Response(status, request=httpx.Request("POST", "http://localhost"))
    errors: list[Exception] = [
        openai.APIStatusError("no", response=response, body=None),
        anthropic.APIStatusError("no", response=response, body=None),
        ModelHTTPError(status, "model"),
        FallbackExceptionGroup("no model is left", [ModelHTTPError(status, "model")]),
    ]
    return errors


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_request_that_a_model_refuses_is_final(status: int) -> None:
    assert all(map(is_final, answered(status)))


@pytest.mark.parametrize("status", [408, 409, 429, 500, 529])
def test_request_that_a_model_may_answer_later_is_not_final(status: int) -> None:
    assert not any(map(is_final, answered(status)))


async def test_refused_request_is_one_try_of_a_call_and_one_attempt() -> None:
    refused, *_ = answered(401)
    ask = Counted(refused, refused)

    async def work(ctx: TaskContext) -> None:
        await ctx.call("ask", ask, retry=Retry(max_attempts=3, initial_backoff=0.0))

    failure = (await JournaledStep().attempt(work)).failed.failure
    assert (failure.kind, failure.retryable) == ("APIStatusError", False)
    assert len(ask.runs) == 1


async def test_refused_request_that_is_caught_is_made_again_by_the_next_attempt() -> None:
    """Code that falls back on another model takes the same branch in each attempt."""
    refused, *_ = answered(400)
    ask = Counted(refused, refused)

    async def work(ctx: TaskContext) -> None:
        with pytest.raises(openai.APIStatusError):
            await ctx.call("ask", ask)
        raise ConnectionError("the line was cut")

    step = JournaledStep()
    for _ in range(2):
        assert (await step.attempt(work)).failed.failure.kind == "ConnectionError"
    assert len(ask.runs) == 2


def test_names_of_final_errors_are_those_of_the_frameworks() -> None:
    classes = [
        GraphRecursionError,
        UsageLimitExceeded,
        ModelAuthenticationError.__base__,
        agents.MaxTurnsExceeded,
        agents.InputGuardrailTripwireTriggered,
        agents.OutputGuardrailTripwireTriggered,
        agents.ToolInputGuardrailTripwireTriggered,
        agents.ToolOutputGuardrailTripwireTriggered,
    ]
    assert {f"{one.__module__}.{one.__qualname__}" for one in classes} == KINDS
