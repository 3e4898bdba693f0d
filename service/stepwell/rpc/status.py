"""One table maps errors to gRPC statuses; each status carries exactly one ErrorInfo."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import google.rpc.code_pb2 as code_pb2
import google.rpc.error_details_pb2 as error_details_pb2
import google.rpc.status_pb2 as status_pb2
import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import Message

from stepwell.core.records import errors

DOMAIN = "stepwell"
RETRY_AFTER_MS = 200
"""The pause after UNAVAILABLE or TOO_MANY_CALLS, to which clients add jitter and a back-off."""
DETAILS_KEY = "grpc-status-details-bin"
_FIELD_BYTES_MAX = 4 * 1024
"""The most bytes of all field violations: most peers limit trailing metadata to some KiB."""


class SlowConsumer(errors.StepwellError):
    """A write of a stream was blocked for too long."""

    reason = "SLOW_CONSUMER"


class TooManyCalls(errors.ResourceExhausted):
    """The server already serves its maximum of calls. Nothing was done; call again after a while."""

    reason = "TOO_MANY_CALLS"


class MethodUnknown(errors.StepwellError):
    """There is no such method."""

    reason = "METHOD_UNKNOWN"


class CallTimedOut(errors.StepwellError):
    """The time-out of a call by HTTP has passed. gRPC ends its own calls itself."""

    reason = "DEADLINE_EXCEEDED"


CODES: dict[type[errors.StepwellError], grpc.StatusCode] = {
    errors.InvalidArgument: grpc.StatusCode.INVALID_ARGUMENT,
    errors.NotFound: grpc.StatusCode.NOT_FOUND,
    errors.AlreadyExists: grpc.StatusCode.ALREADY_EXISTS,
    errors.FailedPrecondition: grpc.StatusCode.FAILED_PRECONDITION,
    errors.VersionChanged: grpc.StatusCode.ABORTED,
    errors.CursorOutOfRange: grpc.StatusCode.OUT_OF_RANGE,
    errors.Unauthenticated: grpc.StatusCode.UNAUTHENTICATED,
    errors.PermissionDenied: grpc.StatusCode.PERMISSION_DENIED,
    errors.ResourceExhausted: grpc.StatusCode.RESOURCE_EXHAUSTED,
    errors.StoreRefused: grpc.StatusCode.FAILED_PRECONDITION,
    errors.StoreFull: grpc.StatusCode.RESOURCE_EXHAUSTED,
    errors.StoreUnavailable: grpc.StatusCode.UNAVAILABLE,
    errors.OutcomeUnknown: grpc.StatusCode.UNAVAILABLE,
    SlowConsumer: grpc.StatusCode.UNAVAILABLE,
    MethodUnknown: grpc.StatusCode.UNIMPLEMENTED,
    CallTimedOut: grpc.StatusCode.DEADLINE_EXCEEDED,
    errors.StepwellError: grpc.StatusCode.INTERNAL,
}
"""The code of each error class; other classes have that of their nearest base."""


class Answer(NamedTuple):
    """The status that a call ends with."""

    code: grpc.StatusCode
    message: str
    metadata: tuple[tuple[str, bytes], ...]


def code_of(error: errors.StepwellError) -> grpc.StatusCode:
    """Return the error's code."""
    return next(CODES[kind] for kind in type(error).__mro__ if kind in CODES)


def answer_of(error: errors.StepwellError) -> Answer:
    """Return the status of a call that failed with this error."""
    code = code_of(error)
    return _answer(code, error.message, error.reason, _metadata(error), *_details(error, code))


def internal(error_id: str) -> Answer:
    """Return the answer to an unexpected error: only an id that is also in the log."""
    message = f"an internal error; the server's log has it under {error_id}"
    return _answer(grpc.StatusCode.INTERNAL, message, "INTERNAL", {"error_id": error_id})


def _answer(
    code: grpc.StatusCode, message: str, reason: str, metadata: dict[str, str], *details: Message
) -> Answer:
    info = error_details_pb2.ErrorInfo(reason=reason, domain=DOMAIN, metadata=metadata)
    number = code.value[0]
    assert number in code_pb2.Code.values()
    status = status_pb2.Status(code=number, message=message)
    for detail in (info, *details):
        packed = AnyMessage()
        packed.Pack(detail)
        status.details.append(packed)
    return Answer(code, message, ((DETAILS_KEY, status.SerializeToString()),))


def _metadata(error: errors.StepwellError) -> dict[str, str]:
    if isinstance(error, errors.CursorOutOfRange):
        return {"oldest": str(error.oldest), "latest": str(error.latest)}
    if isinstance(error, errors.RunNotFound):
        return {"run_id": error.run_id}
    return {}


def _details(error: errors.StepwellError, code: grpc.StatusCode) -> Iterator[Message]:
    if isinstance(error, errors.InvalidArgument) and error.violations:
        faults = error_details_pb2.BadRequest()
        room = _FIELD_BYTES_MAX
        for one in error.violations:
            room -= len(one.field) + len(one.description)
            if faults.field_violations and room < 0:
                break
            faults.field_violations.add(field=one.field, description=one.description)
        yield faults
    if isinstance(error, errors.ForkIncompatible):
        broken = error_details_pb2.PreconditionFailure()
        room = _FIELD_BYTES_MAX
        for one in error.misfits:
            room -= len(one.kind) + len(one.subject) + len(one.description)
            if broken.violations and room < 0:
                break
            broken.violations.add(type=one.kind, subject=one.subject, description=one.description)
        yield broken
    if isinstance(error, errors.NotFound):
        yield error_details_pb2.ResourceInfo(
            resource_type=error.reason.removesuffix("_NOT_FOUND").lower(),
            resource_name=error.run_id if isinstance(error, errors.RunNotFound) else "",
            description=error.message,
        )
    if code is grpc.StatusCode.UNAVAILABLE or isinstance(error, TooManyCalls):
        retry = error_details_pb2.RetryInfo()
        retry.retry_delay.FromMilliseconds(RETRY_AFTER_MS)
        yield retry
