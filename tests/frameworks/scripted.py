"""A model of pydantic-ai that follows a script."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RequestUsage

from stepwell_client import TaskContext
from tests.support.journal import Crash


class Script:
    """A model that follows a script: a list of calls of tools is one answer, a text is the last."""

    def __init__(self, *answers: str | list[ToolCallPart] | BaseException) -> None:
        self.answers = answers
        self.requests = 0

    def model(self) -> FunctionModel:
        return FunctionModel(self._answer, model_name="script")

    def _answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.requests += 1
        answer = self.answers[sum(isinstance(one, ModelResponse) for one in messages)]
        if isinstance(answer, BaseException):
            raise answer
        parts = [TextPart(answer)] if isinstance(answer, str) else answer
        return ModelResponse(parts=parts, usage=RequestUsage(input_tokens=10, output_tokens=2))


def tool_call(name: str, **arguments: Any) -> ToolCallPart:
    return ToolCallPart(name, arguments)


def returned(messages: Sequence[ModelMessage]) -> list[Any]:
    """Return the results of the tools that were called."""
    parts = [part for message in messages for part in message.parts]
    return [part.content for part in parts if isinstance(part, ToolReturnPart)]


def going(agent: Agent[Any, Any], *, lost: bool = False) -> Any:
    """Return a step that runs an agent; `lost`: its first attempt is lost once the agent has ended."""

    async def work(ctx: TaskContext) -> Any:
        output = (await agent.run("go")).output
        if lost and ctx.attempt == 1:
            raise Crash
        return output

    return work
