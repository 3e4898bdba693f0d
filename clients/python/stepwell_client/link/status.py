"""Converts a failed call into an error of the client's error tree.

A server sends the details as a `google.rpc.Status` in the trailing metadata.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

import google.rpc.error_details_pb2 as error_details_pb2
import google.rpc.status_pb2 as status_pb2
import grpc
from google.protobuf.message import DecodeError

from stepwell_client.errors import (
    CursorOutOfRange,
    DeadlineExceeded,
    FailedPrecondition,
    ForkIncompatible,
    InvalidRequest,
    NotFound,
    NotSecured,
    PermissionDenied,
    RequestIdReused,
    ResourceExhausted,
    RunNotFound,
    ServerError,
    StepwellClientError,
    Unauthenticated,
    Unavailable,
    VersionChanged,
    Violation,
)
from stepwell_client.tls import guess, handshake_trouble

_DETAILS_KEY = "grpc-status-details-bin"


class Details(NamedTuple):
    """An error's details beyond its code and message."""

    reason: str = ""
    metadata: dict[str, str] = {}  # noqa: RUF012 - a NamedTuple's default, never written to
    violations: tuple[Violation, ...] = ()


def parse_status(data: bytes) -> Details:
    """Read the ErrorInfo, BadRequest and PreconditionFailure of a serialized google.rpc.Status; never raises."""
    info = error_details_pb2.ErrorInfo()
    violations = list[Violation]()
    try:
        for detail in status_pb2.Status.FromString(data).details:
            request = error_details_pb2.BadRequest()
            precondition = error_details_pb2.PreconditionFailure()
            if detail.Unpack(request):
                violations += [
                    Violation(item.field, item.description) for item in request.field_violations
                ]
            elif detail.Unpack(precondition):
                violations += [
                    Violation(item.subject, f"{item.type}: {item.description}")
                    for item in precondition.violations
                ]
            else:
                detail.Unpack(info)
    except DecodeError:
        # From another kind of server, or changed by a proxy: only code and message are used.
        return Details()
    return Details(info.reason, dict(info.metadata), tuple(violations))


_BY_CODE: dict[grpc.StatusCode, type[StepwellClientError]] = {
    grpc.StatusCode.ALREADY_EXISTS: RequestIdReused,
    grpc.StatusCode.ABORTED: VersionChanged,
    grpc.StatusCode.FAILED_PRECONDITION: FailedPrecondition,
    grpc.StatusCode.UNAUTHENTICATED: Unauthenticated,
    grpc.StatusCode.PERMISSION_DENIED: PermissionDenied,
    grpc.StatusCode.RESOURCE_EXHAUSTED: ResourceExhausted,
    grpc.StatusCode.UNAVAILABLE: Unavailable,
    # Sent by a server that shuts down, or by a proxy: a reason to retry.
    grpc.StatusCode.CANCELLED: Unavailable,
    grpc.StatusCode.DEADLINE_EXCEEDED: DeadlineExceeded,
}


def error_of(code: grpc.StatusCode, message: str, details: Details) -> StepwellClientError:
    """Return the error of the tree for a failed call."""
    reason = details.reason
    message = message or code.name
    if code is grpc.StatusCode.INVALID_ARGUMENT:
        return InvalidRequest(message, details.violations, reason=reason, status=code)
    if code is grpc.StatusCode.OUT_OF_RANGE:
        oldest = details.metadata.get("oldest", "")
        number = int(oldest) if oldest.isdecimal() else 0
        return CursorOutOfRange(message, oldest=number, reason=reason, status=code)
    if code is grpc.StatusCode.NOT_FOUND:
        kind = RunNotFound if reason == "RUN_NOT_FOUND" else NotFound
        return kind(message, reason=reason, status=code)
    if reason == "TOO_MANY_CALLS":  # Nothing was done: a reason to retry.
        return Unavailable(message, reason=reason, status=code)
    if reason == ForkIncompatible.reason:
        return ForkIncompatible(message, details.violations, reason=reason, status=code)
    if code is grpc.StatusCode.UNAVAILABLE and not reason:
        trouble = handshake_trouble(message)
        if trouble:
            return NotSecured(trouble, status=code)
        message = guess(message)
    return _BY_CODE.get(code, ServerError)(message, reason=reason, status=code)


def from_rpc_error(error: grpc.RpcError) -> StepwellClientError:
    """Return the error of the tree for an error that a stub raised, synchronous or not."""
    call = cast(grpc.Call, error)
    trailing = cast("Sequence[tuple[str, str | bytes]] | None", call.trailing_metadata())
    details = Details()
    for key, value in trailing or ():
        if key == _DETAILS_KEY:
            details = parse_status(value if isinstance(value, bytes) else value.encode())
    code = cast("grpc.StatusCode | None", call.code()) or grpc.StatusCode.UNKNOWN
    return error_of(code, call.details() or "", details)
