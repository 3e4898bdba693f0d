"""The history of an agent of pydantic-ai as messages of a thread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    UserPromptPart,
)

from stepwell_client.internal import StepThread


async def thread_history(thread: StepThread, *, last: int = 1_000) -> list[ModelMessage]:
    """Return the newest messages of `ctx.thread`, 1 to 1,000 of them, for `message_history`, oldest first.

    Texts of the roles user, assistant and system are messages, too; what is no message of
    pydantic-ai otherwise is left out. A history that is cut begins at a user's message. Each attempt
    at the step gets the same. Raises what `ctx.thread.messages` raises.
    """
    found = await thread.messages(last)
    history = [made for one in found for made in _messages(one.role, one.content)]
    if found and found[0].number > 1:
        while history and not _is_asked(history[0]):
            del history[0]
    return history


def append_to_thread(thread: StepThread, messages: Sequence[ModelMessage]) -> None:
    """Append messages, such as `result.new_messages()`, to `ctx.thread`, by the step's outcome.

    Each is a message of the thread: the role is assistant for a response, user for a request with a
    user's prompt, and tool for another one. Raises what `ctx.thread.append` raises.
    """
    contents = ModelMessagesTypeAdapter.dump_python(list(messages), mode="json")
    for message, content in zip(messages, contents, strict=True):
        asked = "user" if _is_asked(message) else "tool"
        thread.append("assistant" if isinstance(message, ModelResponse) else asked, content)


def _is_asked(message: ModelMessage) -> bool:
    return any(isinstance(part, UserPromptPart) for part in message.parts)


def _messages(role: str, content: Any) -> list[ModelMessage]:
    """Return a thread's message as pydantic-ai's, or nothing if it is none."""
    match role, content:
        case _, {"kind": "request" | "response", "parts": _}:
            return ModelMessagesTypeAdapter.validate_python([content])
        case "user", str():
            return [ModelRequest(parts=[UserPromptPart(content)])]
        case "system", str():
            return [ModelRequest(parts=[SystemPromptPart(content)])]
        case "assistant", str():
            return [ModelResponse(parts=[TextPart(content)])]
        case _:
            return []
