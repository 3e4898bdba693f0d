"""Converts exceptions of an agent's functions to failures, which are data: kind, text, traceback."""

from __future__ import annotations

import math
import traceback
from types import TracebackType
from typing import TypeVar, cast

from stepwell_client.agent.retry_after import RETRY_AFTER_SECONDS_MAX, asked_seconds
from stepwell_client.errors import JournalError, NotLoaded
from stepwell_client.records.decisions import Failure
from stepwell_client.records.limits import FAILURE_BYTES_MAX, KIND_CHARS_MAX, clip
from stepwell_client.v1 import types_pb2

E = TypeVar("E", bound=BaseException)

FINAL = (NotLoaded, JournalError)
"""Errors that every further attempt would meet again."""


def failure_message(
    kind: str, message: str, *, details: str = "", retryable: bool | None = None
) -> types_pb2.Failure:
    """Return a failure, cut to the protocol's limits."""
    failure = types_pb2.Failure(
        kind=clip(kind, KIND_CHARS_MAX),
        message=clip(message, FAILURE_BYTES_MAX),
        details=clip(details, FAILURE_BYTES_MAX, keep_end=True),
    )
    if retryable is not None:
        failure.retryable = retryable
    return failure


def failure_of(error: BaseException, *, with_trace: bool = True) -> types_pb2.Failure:
    """Return the failure for an exception, with its traceback unless the exception has its own details.

    A wait that an API asked for in its response becomes the failure's `retry_after`, an hour at
    most; the details name a longer one.
    """
    kind = error.kind if isinstance(error, Failure) else type(error).__name__
    details = error.details if isinstance(error, Failure) else ""
    retryable = error.retryable if isinstance(error, Failure) else None
    if isinstance(error, FINAL):
        retryable = False
    if not details and with_trace:
        details = _traceback(error)
    asked = asked_seconds(error) if retryable is not False else None
    if asked is not None and asked > RETRY_AFTER_SECONDS_MAX:
        details += f"\nThe API asks to wait for {asked:,.0f} s; {RETRY_AFTER_SECONDS_MAX:,.0f} s is the most."
        asked = RETRY_AFTER_SECONDS_MAX
    failure = failure_message(kind, _text_of(error), details=details, retryable=retryable)
    if isinstance(error, Failure) and error.retry_after is not None:
        failure.retry_after.CopyFrom(error.retry_after)
    elif asked is not None:
        failure.retry_after.FromMilliseconds(math.ceil(asked * 1_000))
    return failure


def find_in(error: BaseException | None, kind: type[E]) -> E | None:
    """Return an exception of this kind, also from within exception groups, or None."""
    if isinstance(error, kind):
        return error
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        return next((one for each in group.exceptions if (one := find_in(each, kind))), None)
    return None


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as problem:  # noqa: BLE001 - an exception whose own text fails must be reported too
        return f"(its text can't be had: {type(problem).__name__})"


def _traceback(error: BaseException) -> str:
    """Return the traceback, from the agent's own first frame on."""
    frames: TracebackType | None = error.__traceback__
    while frames is not None and str(frames.tb_frame.f_globals.get("__name__")).startswith(
        "stepwell_client."
    ):
        frames = frames.tb_next
    try:
        return "".join(traceback.format_exception(type(error), error, frames))
    except Exception:  # noqa: BLE001 - as above: the report goes without it
        return ""
