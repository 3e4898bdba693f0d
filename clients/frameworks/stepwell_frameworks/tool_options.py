"""Reads the options of a tool's calls from its framework's metadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, cast

from stepwell_client import JournalError

METADATA = "stepwell"
"""The key of these options in a tool's metadata."""
OPTIONS = ("effect", "retry", "reconcile")
"""The allowed options, which are arguments of `ctx.call`."""

Options = Mapping[str, Any]


def tool_options(name: str, metadata: Mapping[str, Any] | None) -> Options | Literal[False]:
    """Return the arguments of `ctx.call` for a tool, or False if its calls aren't recorded."""
    options = (metadata or {}).get(METADATA, {})
    if options is False:
        return False
    if not isinstance(options, Mapping) or not set(cast("Options", options)) <= set(OPTIONS):
        known = ", ".join(OPTIONS)
        raise JournalError(f"{METADATA!r} in the metadata of tool {name!r}: {known}, or False")
    return cast("Options", options)
