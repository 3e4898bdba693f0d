"""Asks people about calls of a framework's tools."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from stepwell_client import QuestionKind, StepContext
from stepwell_client.internal import PROMPT_BYTES_MAX, clip

CHANGEABLE = ("approved", "message", "arguments")
"""The fields of an answer about a call whose arguments a person may change."""
UNCHANGEABLE = ("approved", "message")


class Approval(NamedTuple):
    """A person's decision about a call."""

    approved: bool
    message: str
    """A text for the model if the call is rejected."""
    arguments: dict[str, Any] | None
    """The arguments that the person gave in the place of the model's; None: the model's."""


def about(what: str, tool: str, arguments: Mapping[str, Any]) -> str:
    """Return a question about a call of a tool, with its arguments."""
    shown = json.dumps(arguments, ensure_ascii=False, sort_keys=True)
    return clip(f"{what} {tool}({shown})", PROMPT_BYTES_MAX)


async def ask_approval(
    step: StepContext,
    tool: str,
    arguments: Mapping[str, Any],
    fields: tuple[str, ...] = CHANGEABLE,
) -> Approval:
    """Ask a person whether a tool may be called. An answer that can't be followed is asked for again."""
    what = f"May {tool} be called?"
    while True:
        answer: object = await step.ask(about(what, tool, arguments), kind=QuestionKind.APPROVAL)
        given = cast("dict[str, Any]", answer) if isinstance(answer, dict) else {"approved": answer}
        changed, message = given.get("arguments"), given.get("message")
        if unknown := ", ".join(sorted(set(given) - set(fields))):
            problem = f"An answer about this call has no {unknown}."
        elif not isinstance(changed, dict | None) or not isinstance(message, str | None):
            problem = "The arguments of an answer are an object, and its message is a text."
        elif changed is not None and not given["approved"]:
            problem = "Arguments are for a call that is approved."
        else:
            return Approval(bool(given["approved"]), message or "", changed)
        what = f"{problem} May {tool} be called?"
