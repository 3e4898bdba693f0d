"""Runs operations of a framework's agent on the event loop of that agent, and asks people about its tools."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from stepwell_client.agent.contexts import StepContext
from stepwell_client.enums import InputKind
from stepwell_client.records.limits import PROMPT_BYTES_MAX, clip

T = TypeVar("T")


async def on_loop(home: asyncio.AbstractEventLoop, body: Callable[[], Awaitable[T]]) -> T:
    """Run an operation on the loop of its agent, which is another one where the step is in a thread."""
    if asyncio.get_running_loop() is home:
        return await body()

    async def there() -> T:
        return await body()

    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(there(), home))


def about(what: str, tool: str, arguments: Mapping[str, Any]) -> str:
    """Return a question about a call of a tool, with its arguments."""
    shown = json.dumps(arguments, ensure_ascii=False, sort_keys=True)
    return clip(f"{what} {tool}({shown})", PROMPT_BYTES_MAX)


async def ask_approval(
    step: StepContext, tool: str, arguments: Mapping[str, Any]
) -> tuple[bool, str]:
    """Ask a person whether a tool may be called. Returns that, and what the person tells the model, if anything."""
    prompt = about(f"May {tool} be called?", tool, arguments)
    answer: bool | dict[str, Any] = await step.ask(prompt, kind=InputKind.APPROVAL)
    details = answer if isinstance(answer, dict) else {"approved": answer}
    message = details.get("message")
    return bool(details.get("approved")), message if isinstance(message, str) else ""
