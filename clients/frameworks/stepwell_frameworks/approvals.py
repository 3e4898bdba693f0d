"""Asks people about calls of a framework's tools."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from stepwell_client import QuestionKind, StepContext
from stepwell_client.internal import PROMPT_BYTES_MAX, clip


def about(what: str, tool: str, arguments: Mapping[str, Any]) -> str:
    """Return a question about a call of a tool, with its arguments."""
    shown = json.dumps(arguments, ensure_ascii=False, sort_keys=True)
    return clip(f"{what} {tool}({shown})", PROMPT_BYTES_MAX)


async def ask_approval(
    step: StepContext, tool: str, arguments: Mapping[str, Any]
) -> tuple[bool, str]:
    """Ask a person whether a tool may be called; return the answer, and a text for the model."""
    prompt = about(f"May {tool} be called?", tool, arguments)
    answer: bool | dict[str, Any] = await step.ask(prompt, kind=QuestionKind.APPROVAL)
    details = answer if isinstance(answer, dict) else {"approved": answer}
    message = details.get("message")
    return bool(details.get("approved")), message if isinstance(message, str) else ""
