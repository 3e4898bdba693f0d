"""The client's errors, as a tree.

StepwellClientError ├── InvalidRequest             the request is wrong; `violations` says which
fields ├── NotFound                   no such thing for this tenant (a foreign one answers the same)
│   └── RunNotFound            also a ValueError │       └── RunPurged          the run was deleted
while it was watched ├── RequestIdReused            the request id came before, with another request
├── FailedPrecondition         right request, wrong state of the run │   └── ForkIncompatible
a fork doesn't fit; `violations` says why ├── VersionChanged             the run is not at the
version that the command expects ├── CursorOutOfRange           those events are no longer kept;
`oldest` is the first that is ├── Unauthenticated ├── PermissionDenied ├── ResourceExhausted
a limit or a quota; nothing was done ├── Unavailable                nothing was done, or it is not
known: call again │   ├── NotSecured             TLS: a certificate is missing, not trusted, or for
another name │   └── DeadlineExceeded       no answer in time ├── ServerError                the
server failed, or doesn't know the call ├── RunFailed                  the run ended otherwise than
SUCCEEDED, so it has no result ├── Misconfigured              target, token or agent can't be used
as given (also a ValueError) ├── DecodeError                bytes that don't fit the type asked for
(also a ValueError) ├── NoSignal                   the run keeps no signal of the name (also a
LookupError) ├── NotLoaded                  a result must be loaded before it is read (also a
LookupError) ├── JournalError               a call within a step can't be made or kept as it is
written │   └── JournalMismatch        its key has another content in the journal ├── LeaseLost
another worker has the step, or it is cancelled └── WorkerReplaced             a newer process has
this worker's id

Each error has a `reason`, stable and in UPPER_SNAKE_CASE, from the server's `google.rpc.ErrorInfo`
if there is one; and a `status`, the gRPC status code, or None if no call was made.

Suspended and UnknownOutcome are not in the tree. They end a step's function and are neither
Exception nor CancelledError, so that code which handles failures lets them through.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import grpc

__all__ = [
    "CursorOutOfRange",
    "DeadlineExceeded",
    "DecodeError",
    "FailedPrecondition",
    "ForkIncompatible",
    "InvalidRequest",
    "JournalError",
    "JournalMismatch",
    "LeaseLost",
    "Misconfigured",
    "NoSignal",
    "NotFound",
    "NotLoaded",
    "NotSecured",
    "PermissionDenied",
    "RequestIdReused",
    "ResourceExhausted",
    "RunFailed",
    "RunNotFound",
    "RunPurged",
    "ServerError",
    "StepwellClientError",
    "Suspended",
    "Unauthenticated",
    "Unavailable",
    "UnknownOutcome",
    "VersionChanged",
    "Violation",
    "WorkerReplaced",
]

_NOBODY = re.compile("refused|No such file|Socket closed|reset|Broken pipe|GOAWAY", re.IGNORECASE)
"""gRPC's messages when no server listens, or it has stopped."""


class Violation(NamedTuple):
    """A violation of one field."""

    field: str
    """The path from the request's root: `plan.tasks[3].depends_on[0]`."""
    description: str
    """The mistake and its remedy, in one sentence."""


class StepwellClientError(Exception):
    """The root of the tree. `reason` is stable; the message is for people."""

    reason: str = "CLIENT_ERROR"
    status: grpc.StatusCode | None = None

    def __init__(
        self, message: str, *, reason: str = "", status: grpc.StatusCode | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.reason = reason or self.reason
        self.status = status or self.status

    def explain(self, target: str, remedy: str = "") -> str:
        """Return one line for people about what is wrong at the target."""
        del remedy
        return f"{target}: {self}"


class InvalidRequest(StepwellClientError):
    """The request is wrong in itself. Nothing was done."""

    reason = "INVALID_ARGUMENT"

    def __init__(
        self,
        message: str,
        violations: Sequence[Violation] = (),
        *,
        reason: str = "",
        status: grpc.StatusCode | None = None,
    ) -> None:
        super().__init__(message, reason=reason, status=status)
        self.violations = tuple(violations)

    def __str__(self) -> str:
        # The message has the first violation.
        others = [f"  {one.field}: {one.description}" for one in self.violations[1:]]
        return "\n".join([self.message, *others])


class NotFound(StepwellClientError):
    """The thing doesn't exist, or belongs to another tenant; the answer is the same."""

    reason = "NOT_FOUND"


class RunNotFound(NotFound, ValueError):
    """There is no run with this id."""

    reason = "RUN_NOT_FOUND"


class RunPurged(RunNotFound):
    """The run was deleted while it was watched."""

    reason = "RUN_PURGED"


class RequestIdReused(StepwellClientError):
    """The request id was used before, for another request."""

    reason = "REQUEST_ID_REUSED"


class VersionChanged(StepwellClientError):
    """The run is not at the version that the command expects. Nothing was done."""

    reason = "VERSION_CHANGED"


class FailedPrecondition(StepwellClientError):
    """The run is not in a state that allows this."""

    reason = "FAILED_PRECONDITION"


class ForkIncompatible(FailedPrecondition):
    """The fork doesn't fit its run. Nothing was started.

    Each violation's `field` is the part of the request at fault, or else the task. Its description
    begins with the kind, such as EFFECT_REPEATED. `check_fork` returns the violations in full.
    """

    reason = "FORK_INCOMPATIBLE"

    def __init__(
        self,
        message: str,
        violations: Sequence[Violation] = (),
        *,
        reason: str = "",
        status: grpc.StatusCode | None = None,
    ) -> None:
        super().__init__(message, reason=reason, status=status)
        self.violations = tuple(violations)


class CursorOutOfRange(StepwellClientError):
    """The events after the cursor are no longer kept. `oldest` is the first kept event; 0: unknown."""

    reason = "CURSOR_OUT_OF_RANGE"

    def __init__(
        self,
        message: str,
        *,
        oldest: int = 0,
        reason: str = "",
        status: grpc.StatusCode | None = None,
    ) -> None:
        super().__init__(message, reason=reason, status=status)
        self.oldest = oldest


class Unauthenticated(StepwellClientError):
    """The token is missing or invalid."""

    reason = "UNAUTHENTICATED"


class PermissionDenied(StepwellClientError):
    """The token lacks a scope."""

    reason = "PERMISSION_DENIED"


class ResourceExhausted(StepwellClientError):
    """A limit or a quota is reached; nothing was done."""

    reason = "RESOURCE_EXHAUSTED"


class Unavailable(StepwellClientError):
    """The server can't be reached, or can't serve now. Nothing was done, or that is unknown."""

    reason = "UNAVAILABLE"

    def explain(self, target: str, remedy: str = "start one with `stepwell serve`") -> str:
        """Return one line for people about what is wrong at the target; `remedy` is used if no server is there."""
        if self.reason != type(self).reason:  # The server gave the reason.
            return f"{target} can't serve this now: {self.message} ({self.reason})"
        if self.status is grpc.StatusCode.CANCELLED:
            return f"{target} ended the call"
        cause = self.message.rpartition("last error: ")[2]
        usual = cause == self.reason or _NOBODY.search(cause) is not None
        return f"no server answers at {target}{'' if usual else f' ({cause})'}; {remedy}"


class NotSecured(Unavailable):
    """TLS prevented the connection. The message says what is wrong, as far as that can be known."""

    reason = "TLS_FAILED"

    def explain(self, target: str, remedy: str = "") -> str:
        """Return one line for people about what is wrong at the target."""
        del remedy
        return f"no connection to {target}: {self.message}"


class DeadlineExceeded(Unavailable):
    """No answer came in time."""

    reason = "DEADLINE_EXCEEDED"

    def explain(self, target: str, remedy: str = "") -> str:
        """Return one line for people about what is wrong at the target."""
        del remedy
        return f"{target} did not answer in time"


class ServerError(StepwellClientError):
    """The server failed, or it doesn't know the call."""

    reason = "INTERNAL"


class RunFailed(StepwellClientError):
    """The run ended FAILED or CANCELLED, so it has no result."""

    reason = "RUN_FAILED"

    def __init__(self, run_id: str, run_status: str, kind: str, message: str) -> None:
        why = ": ".join(part for part in (kind, message) if part) or "no reason was given"
        super().__init__(f"run {run_id} {run_status}: {why}")
        self.run_id = run_id
        self.run_status = run_status
        self.kind = kind


class Misconfigured(StepwellClientError, ValueError):
    """The target, the token or the agent can't be used as given. The message says what to do."""

    reason = "MISCONFIGURED"


class DecodeError(StepwellClientError, ValueError):
    """The bytes don't fit the requested type."""

    reason = "DECODE_ERROR"

    def __init__(self, message: str, violations: Sequence[Violation] = ()) -> None:
        super().__init__(message)
        self.violations = tuple(violations)


class NoSignal(StepwellClientError, LookupError):
    """The run keeps no signal of the name that a call takes one of without waiting."""

    reason = "NO_SIGNAL"


class NotLoaded(StepwellClientError, LookupError):
    """The result isn't loaded, and an event loop can't wait for it. The message names the call that loads it."""

    reason = "NOT_LOADED"


class LeaseLost(StepwellClientError):
    """Another worker has the step, or it is over: stop, because nobody waits for an outcome."""

    reason = "LEASE_LOST"


class JournalError(StepwellClientError):
    """A call within a step can't be made or recorded as written. Another attempt would find the same."""

    reason = "JOURNAL_ERROR"


class JournalMismatch(JournalError):
    """The journal has other content under the call's key: other arguments, or another value."""

    reason = "JOURNAL_MISMATCH"


class Suspended(BaseException):
    """The step's function ends here, because only waits are left of the step.

    A later attempt continues the step; its calls find their values in the journal. Let the
    exception through: once it was raised, every call and wait of the context raises it again, and
    the function's return value is ignored.
    """

    def __init__(self) -> None:
        super().__init__("the step is suspended until one of the things that it waits for is over")


class UnknownOutcome(BaseException):
    """An earlier attempt began an AT_MOST_ONCE call whose outcome is unknown.

    If it isn't caught, the step becomes UNKNOWN_OUTCOME until somebody resolves the call by its
    key.
    """

    def __init__(self, key: str, reason: str = "") -> None:
        self.key = key
        """The call's key within its step's journal."""
        self.reason = reason or f"nobody knows what became of the call {key}"
        super().__init__(self.reason)


class WorkerReplaced(StepwellClientError):
    """A newer process with the same worker id is connected. Two processes need two ids."""

    reason = "REPLACED"
