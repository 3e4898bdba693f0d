"""Errors of the service, as a tree.

StepwellError ├── InvalidArgument            the request is wrong; names the fields, and how to
correct them │   └── PageTokenInvalid ├── NotFound                   no such thing for this tenant
(another tenant's is not found either) │   └── RunNotFound            also a ValueError ├──
AlreadyExists              a request id came again with another request ├── FailedPrecondition
right request, wrong state of the run │   └── ForkIncompatible       names what doesn't fit ├──
VersionChanged             the run is not at the version that the command expects ├──
CursorOutOfRange           a watch below retention, or ahead of the log ├── Unauthenticated ├──
PermissionDenied ├── ResourceExhausted          a limit or a quota; nothing was done └── StoreError
    ├── StoreRefused           the store can't be opened or used as configured; names the remedy
    │   └── StoreMissing       … and isn't there at all
    ├── StoreUnavailable       nothing was done; try again
    │   ├── StoreFull          … once there is room
    │   └── StoreStopped       … once the store has been opened again
    └── OutcomeUnknown         the commit may or may not be applied; send the same one again

Each has a stable `reason` (UPPER_SNAKE_CASE), which `google.rpc.ErrorInfo` shows.
"""

from __future__ import annotations

from typing import NamedTuple

INVALID_OUTCOME = "INVALID_OUTCOME"
"""The failure kind of an attempt with an unusable outcome."""


class Violation(NamedTuple):
    """One invalid field of a request."""

    field: str
    """The path from the request's root: `plan.tasks[3].depends_on[0]`."""
    description: str
    """The defect and its correction, in one sentence."""


class StepwellError(Exception):
    """The root of the tree. `reason` is stable; the message is for people."""

    reason = "INTERNAL"

    def __init__(self, message: str, *, reason: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        if reason is not None:
            self.reason = reason


class InvalidArgument(StepwellError):
    """The request is wrong in itself. Nothing was done."""

    reason = "INVALID_ARGUMENT"

    def __init__(
        self, message: str, violations: tuple[Violation, ...] = (), *, reason: str | None = None
    ) -> None:
        super().__init__(message, reason=reason)
        self.violations = violations


class PageTokenInvalid(InvalidArgument):
    """A page token that is malformed, or that another query made."""

    reason = "PAGE_TOKEN_INVALID"


class NotFound(StepwellError):
    """The thing doesn't exist, or belongs to another tenant; the answer is the same."""

    reason = "NOT_FOUND"


class RunNotFound(NotFound, ValueError):
    """There is no run with this id."""

    reason = "RUN_NOT_FOUND"

    def __init__(self, run_id: str, why: str = "") -> None:
        super().__init__(f"there is no run {run_id!r}{': ' if why else ''}{why}")
        self.run_id = run_id


class AlreadyExists(StepwellError):
    """The request id was used before, for another request."""

    reason = "REQUEST_ID_REUSED"


class FailedPrecondition(StepwellError):
    """The run is not in a state that allows this."""

    reason = "FAILED_PRECONDITION"


class VersionChanged(StepwellError):
    """The run isn't at the version that a command expects. Nothing was done."""

    reason = "VERSION_CHANGED"


def version_changed(expected: int, version: int) -> str:
    """Return the message of a VersionChanged, with the version that the run is at."""
    return f"expected_version: is {expected}, and the run is at version {version}; read it again"


class Misfit(NamedTuple):
    """One incompatibility of a fork with its parent."""

    kind: str
    """A stable word: `DEFINITION_CHANGED`."""
    subject: str
    """The field at fault, or else the task."""
    description: str


class ForkIncompatible(FailedPrecondition):
    """The fork's changes are incompatible with its parent. Nothing was written."""

    reason = "FORK_INCOMPATIBLE"

    def __init__(self, message: str, misfits: tuple[Misfit, ...]) -> None:
        super().__init__(message)
        self.misfits = misfits


class CursorOutOfRange(StepwellError):
    """A cursor below retention (continue at `oldest`), or ahead of the log."""

    reason = "CURSOR_OUT_OF_RANGE"

    def __init__(self, message: str, *, oldest: int, latest: int, reason: str) -> None:
        super().__init__(message, reason=reason)
        self.oldest = oldest
        self.latest = latest


class Unauthenticated(StepwellError):
    """The credential is missing or invalid."""

    reason = "UNAUTHENTICATED"


class PermissionDenied(StepwellError):
    """The credential lacks a scope."""

    reason = "PERMISSION_DENIED"


class ResourceExhausted(StepwellError):
    """A limit or a quota is reached; nothing was done."""

    reason = "RESOURCE_EXHAUSTED"


class StoreError(StepwellError):
    """The store failed."""

    reason = "STORE_ERROR"


class StoreRefused(StoreError):
    """The store can't be opened or used as configured. The message says what to do."""

    reason = "STORE_REFUSED"


class StoreMissing(StoreRefused):
    """The store doesn't exist, and was not to be created."""


class StoreUnavailable(StoreError):
    """The store certainly did nothing; the call may be repeated."""

    reason = "STORE_UNAVAILABLE"


class StoreFull(StoreUnavailable):
    """The store has no room left. Nothing was done; calls succeed again once there is room."""

    reason = "STORE_FULL"


class StoreStopped(StoreUnavailable):
    """The store lost its foundation. Nothing was done, and nothing will be until it is reopened."""

    reason = "STORE_STOPPED"


class OutcomeUnknown(StoreError):
    """The store may or may not have applied a commit. Sending the same commit again gets the verdict."""

    reason = "OUTCOME_UNKNOWN"
