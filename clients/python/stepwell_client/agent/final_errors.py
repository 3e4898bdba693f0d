"""Errors of frameworks and of models' clients that can't mend: a further attempt would meet them again."""

from __future__ import annotations

from typing import Any, cast

KINDS = frozenset(
    {
        "langgraph.errors.GraphRecursionError",
        "agents.exceptions.MaxTurnsExceeded",
        "agents.exceptions.InputGuardrailTripwireTriggered",
        "agents.exceptions.OutputGuardrailTripwireTriggered",
        "agents.exceptions.ToolInputGuardrailTripwireTriggered",
        "agents.exceptions.ToolOutputGuardrailTripwireTriggered",
        "pydantic_ai.exceptions.UsageLimitExceeded",
        "pydantic_ai.exceptions.ModelRequestRejectedError",
    }
)
"""Classes by name, because only one framework may be installed."""
REQUESTS = frozenset({"APIStatusError", "ModelHTTPError"})
"""Classes of HTTP errors: those of OpenAI's and Anthropic's clients and of others that are made alike, and of pydantic-ai."""
STATUSES = frozenset({400, 401, 403, 404, 413, 422})
"""Answers to requests that would be answered alike when they are made again."""


def is_final(error: BaseException) -> bool:
    """Return whether a further attempt would meet this error again. A group is final if all its errors are."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(is_final, cast("BaseExceptionGroup[Any]", error).exceptions))
    kinds = type(error).__mro__
    if any(kind.__name__ in REQUESTS for kind in kinds):
        return getattr(error, "status_code", None) in STATUSES
    return any(f"{kind.__module__}.{kind.__qualname__}" in KINDS for kind in kinds)
