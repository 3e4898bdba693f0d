"""From a failed call to an error of the tree.

The details travel as a `google.rpc.Status` in the trailing metadata. Its package is none that users
of the client have, so the few fields that matter are read from the wire format by hand.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, cast

import grpc

from stepwell_client._errors import (
    CursorOutOfRange,
    DeadlineExceeded,
    FailedPrecondition,
    ForkIncompatible,
    InvalidRequest,
    NotFound,
    PermissionDenied,
    RequestIdReused,
    ResourceExhausted,
    RunNotFound,
    ServerError,
    StepwellClientError,
    Unauthenticated,
    Unavailable,
    Violation,
)

_DETAILS_KEY = "grpc-status-details-bin"


class Details(NamedTuple):
    """What a server says about an error beyond its code and message."""

    reason: str = ""
    metadata: dict[str, str] = {}  # noqa: RUF012 - a NamedTuple's default, never written to
    violations: tuple[Violation, ...] = ()


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
        shift += 7


def _fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield number and bytes of each length-delimited field; pass over the others."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        if kind == 0:
            _, at = _varint(data, at)
        elif kind == 1:
            at += 8
        elif kind == 5:
            at += 4
        elif kind == 2:
            length, at = _varint(data, at)
            if at + length > len(data):
                raise ValueError("a field ends beyond its message")
            yield key >> 3, data[at : at + length]
            at += length
        else:
            raise ValueError(f"wire type {kind} is none that is used")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _strings(data: bytes) -> dict[int, str]:
    return {number: _text(value) for number, value in _fields(data)}


def parse_status(data: bytes) -> Details:
    """Read the ErrorInfo, BadRequest and PreconditionFailure of a serialized google.rpc.Status; never raises."""
    reason, metadata, violations = "", dict[str, str](), list[Violation]()
    try:
        for number, detail in _fields(data):
            if number != 3:
                continue
            # Any: 1 is the type's URL, 2 the message.
            parts = dict(_fields(detail))
            name = _text(parts.get(1, b"")).rpartition("/")[2]
            for field, value in _fields(parts.get(2, b"")):
                if name == "google.rpc.ErrorInfo" and field == 1:
                    reason = _text(value)
                elif name == "google.rpc.ErrorInfo" and field == 3:
                    entry = _strings(value)
                    metadata[entry.get(1, "")] = entry.get(2, "")
                elif name == "google.rpc.BadRequest" and field == 1:
                    entry = _strings(value)
                    violations.append(Violation(entry.get(1, ""), entry.get(2, "")))
                elif name == "google.rpc.PreconditionFailure" and field == 1:
                    entry = _strings(value)
                    words = f"{entry.get(1, '')}: {entry.get(3, '')}"
                    violations.append(Violation(entry.get(2, ""), words))
    except (ValueError, IndexError):
        pass  # A peer that isn't ours, or a proxy's doing: code and message must do.
    return Details(reason, metadata, tuple(violations))


_BY_CODE: dict[grpc.StatusCode, type[StepwellClientError]] = {
    grpc.StatusCode.ALREADY_EXISTS: RequestIdReused,
    grpc.StatusCode.FAILED_PRECONDITION: FailedPrecondition,
    grpc.StatusCode.UNAUTHENTICATED: Unauthenticated,
    grpc.StatusCode.PERMISSION_DENIED: PermissionDenied,
    grpc.StatusCode.RESOURCE_EXHAUSTED: ResourceExhausted,
    grpc.StatusCode.UNAVAILABLE: Unavailable,
    # The peer's, as a server that goes down or a proxy sends it: a reason to come again.
    grpc.StatusCode.CANCELLED: Unavailable,
    grpc.StatusCode.DEADLINE_EXCEEDED: DeadlineExceeded,
}


def error_of(code: grpc.StatusCode, message: str, details: Details) -> StepwellClientError:
    """Return the error of the tree that stands for a failed call."""
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
    if reason == ForkIncompatible.reason:
        return ForkIncompatible(message, details.violations, reason=reason, status=code)
    return _BY_CODE.get(code, ServerError)(message, reason=reason, status=code)


def from_rpc_error(error: grpc.RpcError) -> StepwellClientError:
    """Return the error of the tree for one that a stub raised, synchronous or not."""
    call = cast(grpc.Call, error)
    trailing = cast("Sequence[tuple[str, str | bytes]] | None", call.trailing_metadata())
    details = Details()
    for key, value in trailing or ():
        if key == _DETAILS_KEY:
            details = parse_status(value if isinstance(value, bytes) else value.encode())
    code = cast("grpc.StatusCode | None", call.code()) or grpc.StatusCode.UNKNOWN
    return error_of(code, call.details() or "", details)
