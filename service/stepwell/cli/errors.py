"""Exit codes of run statuses and client errors, and messages for the errors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from stepwell.cli.exits import Exit
from stepwell_client import (
    FailedPrecondition,
    InvalidRequest,
    NotFound,
    PermissionDenied,
    RunStatus,
    StepwellClientError,
    Unauthenticated,
    Unavailable,
)
from stepwell_client.enums import ENDED
from stepwell_client.errors import Misconfigured, RequestIdReused

_STATUS_EXITS: dict[int, Exit] = {
    RunStatus.FAILED: Exit.FAILED,
    RunStatus.CANCELLED: Exit.CANCELLED,
    RunStatus.WAITING: Exit.STANDS_STILL,
    RunStatus.PAUSED: Exit.STANDS_STILL,
}
_ERROR_EXITS: tuple[tuple[type[StepwellClientError], Exit], ...] = (
    (InvalidRequest, Exit.USAGE),
    (NotFound, Exit.USAGE),
    (RequestIdReused, Exit.USAGE),
    (Misconfigured, Exit.USAGE),
    (FailedPrecondition, Exit.FAILED),
    (Unauthenticated, Exit.UNREACHABLE),
    (PermissionDenied, Exit.UNREACHABLE),
    (Unavailable, Exit.UNREACHABLE),
)

# The library names each option by its argument and by its option of the command line.
_ARGUMENT = re.compile(r"\b[a-z_]+, (--[a-z-]+)")
_INSECURE = re.compile(r"(?<![-\w])insecure_allow_remote\b")
_PLAN_ID = re.compile(r"^(plan\.tasks\[\d+\]\.)task_id$")
"""The id of a task is `id` in a plan's file."""
OPTIONS: Mapping[str, str] = {"version": "--at"}
"""Options of commands by the request's fields, where the two have other names."""


def exit_of_status(status: int) -> Exit:
    """Return the exit code for a run that was followed."""
    return _STATUS_EXITS.get(status, Exit.DONE)


def stands_still(status: int) -> bool:
    """Return whether a run of this status has ended or won't move by itself."""
    return status in ENDED or status in (RunStatus.WAITING, RunStatus.PAUSED)


def exit_of_error(error: StepwellClientError) -> Exit:
    """Return the exit code for an error of the client."""
    return next((code for kind, code in _ERROR_EXITS if isinstance(error, kind)), Exit.FAILED)


def explain(
    error: StepwellClientError, target: str, names: Mapping[str, str] = MappingProxyType({})
) -> str:
    """Return the error and its remedy in one line, in the command line's own terms.

    `names`: what the caller calls fields of the request, where it has another name.
    """
    text = _ARGUMENT.sub(r"\1", _explained(error, target, names))
    return _INSECURE.sub("--insecure-allow-remote", text)


def _explained(error: StepwellClientError, target: str, names: Mapping[str, str]) -> str:
    message = error.message
    if isinstance(error, InvalidRequest) and error.violations:
        first = error.violations[0]
        more = f" (and {len(error.violations) - 1} more)" if len(error.violations) > 1 else ""
        field = names.get(first.field) or _PLAN_ID.sub(r"\1id", first.field)
        return f"{field}: {first.description}{more}"
    if isinstance(error, Unauthenticated):
        return (
            f"{target} wants a token that it knows ({message}); name its file with --token-file or"
            " STEPWELL_TOKEN_FILE, as `stepwell serve` prints it"
        )
    if isinstance(error, PermissionDenied):
        return f"the token may not do this at {target} ({message}); use one with that scope"
    if isinstance(error, Unavailable):
        return error.explain(
            target, "start one with `stepwell serve`, or name another with --target"
        )
    return message
