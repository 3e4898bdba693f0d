"""Maps a failed call to the port's errors, and tells whether it is certain that nothing was done."""

from __future__ import annotations

from typing import NamedTuple

import google.rpc.error_details_pb2 as error_details_pb2
import google.rpc.status_pb2 as status_pb2
from google.protobuf.message import DecodeError
from grpc import StatusCode
from grpc.aio import AioRpcError

from stepwell.core.records.errors import (
    InvalidArgument,
    OutcomeUnknown,
    StepwellError,
    StoreFull,
    StoreRefused,
    StoreUnavailable,
    Violation,
)
from stepwell_client.tls import guess, handshake_trouble

TOO_LARGE = "RESPONSE_TOO_LARGE"
"""The service's reason when an answer doesn't fit into a message: ask for less."""

_DOMAIN = "stepwell"
_DETAILS_KEY = "grpc-status-details-bin"
_WORDS_MAX = 500
_REFUSALS = frozenset(
    {
        StatusCode.UNAUTHENTICATED,
        StatusCode.PERMISSION_DENIED,
        StatusCode.UNIMPLEMENTED,
        StatusCode.FAILED_PRECONDITION,
    }
)
_CONNECTION = frozenset({StatusCode.UNAVAILABLE, StatusCode.CANCELLED})


class Fault(NamedTuple):
    """The failure of a call."""

    error: StepwellError
    """The error to raise if nothing was done or that doesn't matter."""
    certain: bool = False
    """True if certainly nothing was done."""
    again: bool = False
    """The same call may work in a moment."""
    refused: bool = False
    """The service wants another credential, or is no Store service: waiting doesn't help."""

    def for_write(self) -> StepwellError:
        """Return the error to raise when commits or journal writes failed."""
        return self.error if self.certain else OutcomeUnknown(self.error.message)

    @property
    def too_large(self) -> bool:
        """Return whether the answer doesn't fit into a message: ask for less."""
        return self.error.reason == TOO_LARGE


class Details(NamedTuple):
    """The ErrorInfo and BadRequest of an error."""

    reason: str = ""
    """Empty if gRPC, or something on the way, made the error rather than the service."""
    violations: tuple[Violation, ...] = ()


def fault_of(error: AioRpcError, *, name: str, token_source: str) -> Fault:
    """Classify a failed call of the service `name`."""
    code, words = error.code(), (error.details() or error.code().name)[:_WORDS_MAX]
    details = details_of(error)
    stated = bool(details.reason)
    if code in _REFUSALS:
        return _refusal(code, words, details.reason, name=name, token_source=token_source)
    if code is StatusCode.INVALID_ARGUMENT and stated:
        wrong = InvalidArgument(words, details.violations, reason=details.reason)
        return Fault(wrong, certain=True)
    reason = details.reason or None
    if stated and code in {StatusCode.UNAVAILABLE, StatusCode.RESOURCE_EXHAUSTED}:
        # The service gave the reason; only OutcomeUnknown's leaves the outcome open.
        certain = reason != OutcomeUnknown.reason
        again = code is StatusCode.UNAVAILABLE
        kind = StoreFull if reason == StoreFull.reason else StoreUnavailable
        return Fault(kind(words, reason=reason), certain=certain, again=again)
    again = code in _CONNECTION
    words = handshake_trouble(words) or guess(words)
    what = "can't be reached" if again else "gave no answer"
    lost = StoreUnavailable(f"the Store service at {name} {what}: {words}", reason=reason)
    return Fault(lost, again=again)


def details_of(error: AioRpcError) -> Details:
    """Read the ErrorInfo and BadRequest of an error; never raises."""
    reason, violations = "", list[Violation]()
    for key, value in error.trailing_metadata() or ():
        if key != _DETAILS_KEY:
            continue
        status = status_pb2.Status()
        try:
            status.ParseFromString(value if isinstance(value, bytes) else value.encode())
            for packed in status.details:
                info, faults = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest()
                if packed.Unpack(info) and info.domain == _DOMAIN:
                    reason = info.reason
                elif packed.Unpack(faults):
                    found = faults.field_violations
                    violations += [Violation(one.field, one.description) for one in found]
        except DecodeError:
            return Details()  # The peer is no Store service: only code and message are known.
    return Details(reason, tuple(violations))


def _refusal(code: StatusCode, words: str, reason: str, *, name: str, token_source: str) -> Fault:
    what = f"the Store service at {name} refuses: {words}"
    if code is StatusCode.UNIMPLEMENTED:
        what = f"what answers at {name} is no Store service: {words}"
    elif code is StatusCode.UNAUTHENTICATED:
        what += f" (the token was looked for in {token_source}; name another with ?token_file=PATH)"
    elif code is StatusCode.PERMISSION_DENIED:
        what += f" (the token of {token_source} needs the scope `store`)"
    error = StoreUnavailable(what, reason=reason or code.name)
    # The first three codes come before a call reaches its method, from any kind of server.
    certain = bool(reason) or code is not StatusCode.FAILED_PRECONDITION
    return Fault(error, certain=certain, refused=True)


def refusal_at_open(fault: Fault) -> StepwellError:
    """Return the error to raise when the first call failed, at opening."""
    error = fault.error
    return StoreRefused(error.message, reason=error.reason) if fault.refused else error
