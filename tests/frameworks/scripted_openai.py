"""Models of the OpenAI Agents SDK that follow a script."""

from __future__ import annotations

from typing import Any

from agents import Usage
from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call

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
