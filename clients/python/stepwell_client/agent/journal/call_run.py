"""Runs one call whose value isn't in the journal, and records the result of each try."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from stepwell_client.agent.annotations import is_async, return_type
from stepwell_client.agent.failures import failure_message, failure_of
from stepwell_client.agent.final_errors import is_final
from stepwell_client.agent.journal.journal import BEGIN, END, TRY, HeldCall, Journal
from stepwell_client.agent.journal.waits import Waits, note_swallowed
from stepwell_client.agent.scopes import CodeRun, Frame, Output, add_usage
from stepwell_client.agent.threads import InThread, finished, whole
from stepwell_client.enums import Effect, to_wire
from stepwell_client.errors import DecodeError, JournalError, LeaseLost, Suspended, UnknownOutcome
from stepwell_client.link.runtime import Runtime
from stepwell_client.records.decisions import (
    Done,
    Failure,
    NeedsAnswer,
    NonRetryable,
    NotDone,
    ReconcileDecision,
    Release,
    Undecided,
)
from stepwell_client.records.limits import PAYLOAD_BYTES_MAX, RESULT_TOO_LARGE
from stepwell_client.records.messages_pb2 import JournalEntry
from stepwell_client.records.payloads import decode, encode_as, flaw_of
from stepwell_client.records.plans import Retry, put_duration, seconds_of
from stepwell_client.records.reading import read
from stepwell_client.v1 import types_pb2

ATTEMPTS_MAX = 3
"""The tries of a retry policy without a number."""
NOT_DONE = "NOT_DONE"
"""The kind of a TRY for a begun call that, as was found later, didn't take place, or that paused by itself."""
INVALID_RESULT = "INVALID_RESULT"

Reconcile = Callable[[JournalEntry], ReconcileDecision | Awaitable[ReconcileDecision]]


@dataclass(slots=True)
class CallRequest:
    """A call, as a step's function requests it."""

    name: str
    function: Callable[..., Any]
    arguments: Sequence[Any]
    named: Mapping[str, Any]
    key: str | None
    as_: Any
    effect: Effect
    reconcile: Reconcile | None
    retry: Retry | None

    @property
    def returns(self) -> Any:
        """The type of the call's value."""
        return return_type(self.function) if self.as_ is None else self.as_


class CallRun:
    """A running call."""

    def __init__(
        self,
        request: CallRequest,
        frame: Frame,
        outer: Output,
        held: HeldCall,
        digest: str,
        journal: Journal,
        runtime: Runtime,
        waits: Waits,
        in_thread: InThread,
    ) -> None:
        self._request = request
        self._frame = frame
        self._held = held
        self._digest = digest
        self._journal = journal
        self._runtime = runtime
        self._waits = waits
        self._in_thread = in_thread
        self._at_most_once = request.effect == Effect.AT_MOST_ONCE
        self._returns = request.returns
        self._outer = outer

    async def value(self) -> Any:
        """Return the call's value once it is stored, or raise what the last try raised."""
        while (begun := self._held.open_begin) is not None:
            found = await self._find_out(begun)
            if isinstance(found, Done):
                payload, value = self._kept(found.value)
                await self._journal.write(self._entry(END, value=payload))
                return value
            failure = failure_message(NOT_DONE, found.reason)
            await self._journal.write(self._entry(TRY, number=begun.number, failure=failure))
        tries = self._tries()
        if tries and self._is_last(len(tries), tries[-1].failure):
            raise _recorded(tries[-1].failure)
        if (flaw := flaw_of(self._returns)) is not None:
            raise NonRetryable(
                f"what the call {self._frame.key} would return can't be kept: {flaw}",
                kind=INVALID_RESULT,
            )
        number, made = self._held.number, len(tries)
        while True:
            number, made = number + 1, made + 1
            if self._at_most_once:
                await self._journal.write(self._entry(BEGIN, number=number))
            self._frame.output = Output()
            self._frame.run = CodeRun()
            began = self._runtime.monotonic()
            payload, value, error = await self._try()
            took = self._runtime.monotonic() - began
            if error is None:
                await self._journal.write(self._entry(END, value=payload, took=took))
                return value
            failure = failure_of(error)
            is_paused = isinstance(error, Release | NeedsAnswer)
            if self._at_most_once or not is_paused:
                if is_paused:
                    failure.kind = NOT_DONE
                await self._journal.write(
                    self._entry(TRY, number=number, failure=failure, took=took)
                )
            else:
                self._count_above()
            retry = self._request.retry
            is_over = is_paused or isinstance(error, SystemExit) or is_final(error)
            if retry is None or is_over or self._is_last(made, failure):
                raise error
            pause = retry.pause_seconds(made, self._runtime.random())
            pause = max(pause, seconds_of(failure.retry_after))
            # A step is not handed back during a call that must not be repeated.
            activity = None if self._frame.at_most_once else self._frame.activity
            await self._waits.pause(self._frame.key, pause, activity)

    async def _find_out(self, begun: types_pb2.JournalEntry) -> Done | NotDone:
        """Ask the call's reconcile function for the outcome. Raises UnknownOutcome if that can't be known."""
        reconcile = self._request.reconcile
        if reconcile is None:
            raise UnknownOutcome(self._frame.key)
        ask = partial(reconcile, read(begun, JournalEntry))
        found = await self._result(ask, is_async=is_async(reconcile))
        if isinstance(found, Done | NotDone):
            return found
        if isinstance(found, Undecided):
            raise UnknownOutcome(self._frame.key, found.reason)
        raise TypeError(
            f"a reconcile function returns Done, NotDone or Undecided, and that of the call "
            f"{self._frame.key} returned a {type(found).__qualname__}"
        )

    async def _try(self) -> tuple[types_pb2.Payload | None, Any, BaseException | None]:
        """Run the function once; return its stored value and its returned value, or the failure.

        Raises what isn't the function's failure: the end of the step, and an unknown outcome of an
        inner call.
        """
        request = self._request
        function = partial(request.function, *request.arguments, **request.named)
        try:
            value = await self._result(function, is_async=is_async(request.function))
        except (Exception, SystemExit) as error:
            if isinstance(error, LeaseLost) and self._journal.record.cancelled:
                raise
            return None, None, error
        except BaseException:
            self._count_above()
            raise
        try:
            return *self._kept(value), None
        except NonRetryable as error:
            return None, None, error

    async def _result(self, function: Callable[[], Any], *, is_async: bool) -> Any:
        """Call a function, in a thread unless it is async, and return its result.

        Raises Suspended if the step was suspended meanwhile, even if the function caught it.
        """
        problem: BaseException | None = None
        value: Any = None
        try:
            if is_async:
                value = await cast("Awaitable[Any]", function())
            else:
                value = await finished(self._in_thread(partial(whole, function)))
                if inspect.isawaitable(value):
                    value = await value
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - it is raised again below
            problem = error
        if self._journal.record.suspended:
            note_swallowed(f"the call {self._frame.key}", problem)
            raise Suspended
        if problem is not None:
            raise problem
        return value

    def _kept(self, value: object) -> tuple[types_pb2.Payload | None, Any]:
        """Return a value as stored in the journal, and as decoded from there. Raises NonRetryable
        if that is impossible.
        """
        try:
            payload, decoded = encode_as(value, self._returns)
        except (TypeError, ValueError, RecursionError) as error:
            raise NonRetryable(
                f"what the call {self._frame.key} returned can't be kept: {error}",
                kind=INVALID_RESULT,
            ) from error
        size = 0 if payload is None else len(payload.data)
        if size > PAYLOAD_BYTES_MAX:
            raise NonRetryable(
                f"what the call {self._frame.key} returned has {size:,} bytes; {PAYLOAD_BYTES_MAX:,} is the most",
                kind=RESULT_TOO_LARGE,
            )
        return payload, decoded

    def _entry(
        self,
        mark: types_pb2.JournalMark,
        *,
        number: int = 0,
        value: types_pb2.Payload | None = None,
        failure: types_pb2.Failure | None = None,
        took: float = 0.0,
    ) -> types_pb2.JournalEntry:
        entry = types_pb2.JournalEntry(
            key=self._frame.key,
            mark=mark,
            number=number,
            name=self._request.name,
            arguments=self._digest,
            value=value,
            failure=failure,
        )
        if self._at_most_once:
            entry.effect = to_wire(Effect.AT_MOST_ONCE)
        if mark == TRY:
            entry.attempt = self._journal.attempt
        output = self._frame.output
        if mark != BEGIN and output is not None:
            if output.usage is not None:
                entry.usage.CopyFrom(output.usage)
            entry.messages.extend(output.messages)
        if took:
            put_duration(entry.took, took)
        return entry

    def _tries(self) -> list[types_pb2.JournalEntry]:
        """Return the tries that count for the call's retry policy, oldest first."""
        return [
            entry
            for _, entry in sorted(self._held.tries.items())
            if entry.attempt >= self._journal.tries_from and entry.failure.kind != NOT_DONE
        ]

    def _is_last(self, made: int, failure: types_pb2.Failure) -> bool:
        """Return whether `made` tries are the last, the newest of which had this failure."""
        retry = self._request.retry
        if failure.HasField("retryable") and not failure.retryable:
            return True
        if retry is None:
            return False
        return made >= _attempts_max(retry) or failure.kind in retry.non_retryable_kinds

    def _count_above(self) -> None:
        """Add the usage of a try without an entry to the enclosing call, or to the attempt."""
        used = self._frame.output.usage if self._frame.output is not None else None
        if used is not None:
            above = self._outer
            if above.usage is None:
                above.usage = types_pb2.Usage()
            add_usage(above.usage, used)


def value_of(entry: types_pb2.JournalEntry, annotation: Any) -> Any:
    """Return the value of an END entry. Raises JournalError if it doesn't fit the annotation."""
    try:
        return decode(entry.value if entry.HasField("value") else None, annotation)
    except DecodeError as error:
        raise JournalError(
            f"what the journal has of the call {entry.key} is not what as_= or the function's annotation wants: {error}"
        ) from error


def _recorded(failure: types_pb2.Failure) -> Failure:
    """Return the failure of an earlier attempt's try, to be raised again because no try is left."""
    if failure.HasField("retryable") and not failure.retryable:
        return NonRetryable(failure.message, kind=failure.kind, details=failure.details)
    return Failure(failure.message, kind=failure.kind, details=failure.details)


def _attempts_max(retry: Retry) -> int:
    return ATTEMPTS_MAX if retry.max_attempts is None else max(1, retry.max_attempts)
