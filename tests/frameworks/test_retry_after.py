"""Waits that a model's API asks for: an agent's next request, and a step's next attempt, come no sooner."""

from __future__ import annotations

from typing import Any

import agents
import anthropic
import httpx
import openai
import pydantic_ai
import pytest
from pydantic_ai.exceptions import ModelHTTPError

from stepwell_client import Retry, TaskContext
from stepwell_frameworks.openai_agents import StepwellRunner
from stepwell_frameworks.pydantic_ai import StepwellDurability
from tests.frameworks.scripted import Script, going
from tests.frameworks.scripted_openai import scripted
from tests.support.journal import JournaledStep, result_of


def refused(kind: type[Any] = openai.RateLimitError) -> Exception:
    """Return the error of a vendor's client for a request that comes too early."""
    # Of either generation of httpx, whichever the client uses.
    request = httpx.Request("POST", "http://localhost")
    response = httpx.Response(429, headers={"Retry-After": "7"}, request=request)
    return kind("slow down", response=response, body=None)


def model_error() -> ModelHTTPError:
    """Return the error that pydantic-ai makes of it."""
    error = ModelHTTPError(429, "model")
    error.__cause__ = refused()
    return error


async def test_openai_agents_step_is_tried_again_when_the_api_asks() -> None:
    agent = agents.Agent(name="reader", model=scripted(refused()))

    async def work(ctx: TaskContext) -> Any:
        return (await StepwellRunner.run(agent, "go")).final_output

    failure = (await JournaledStep().attempt(work)).failed.failure
    assert (failure.kind, failure.retry_after.ToSeconds()) == ("RateLimitError", 7)


@pytest.mark.parametrize("error", [model_error(), refused(anthropic.RateLimitError)])
async def test_pydantic_ai_request_is_tried_again_when_the_api_asks(error: Exception) -> None:
    errors = [error]

    class Later(Script):
        def _answer(self, messages: Any, info: Any) -> Any:
            if errors:
                raise errors.pop()
            return super()._answer(messages, info)

    durability = StepwellDurability[object](retry=Retry(initial_backoff=0.1, jitter=0))
    agent = pydantic_ai.Agent(Later("done").model(), name="reader", capabilities=[durability])

    work = going(agent)

    step = JournaledStep()
    assert result_of(await step.attempt(work)) == "done"
    assert 7.0 in step.services.runtime.slept
