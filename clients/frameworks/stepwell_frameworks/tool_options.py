"""Reads from the metadata of a framework's tool how a step calls it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, cast

from stepwell_client import JournalError

METADATA = "stepwell"
"""The key of a tool's metadata that says how it is called."""
OPTIONS = ("effect", "retry", "reconcile")
"""Arguments of `ctx.call` that it may give."""

Options = Mapping[str, Any]


def tool_options(name: str, metadata: Mapping[str, Any] | None) -> Options | Literal[False]:
    """Return the arguments of `ctx.call` for a tool; False: its calls aren't kept."""
    options = (metadata or {}).get(METADATA, {})
    if options is False:
        return False
    if not isinstance(options, Mapping) or not set(cast("Options", options)) <= set(OPTIONS):
        known = ", ".join(OPTIONS)
        raise JournalError(f"{METADATA!r} in the metadata of tool {name!r}: {known}, or False")
    return cast("Options", options)
