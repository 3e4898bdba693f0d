"""Passes outcomes and begins of a worker to the loop, and the loop's replies back as acknowledgements.

An item that breaks a limit fails its own execution, through the loop like any failure; the rest of its
message, and the stream, go on. This is the hot path: nothing here waits, makes a task or reads twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from stepwell.core.loop.signals import Begin, Delivery, Failed, NeedsInput
from stepwell.core.loop.transition import Reply, ReplyStatus
from stepwell.core.records import errors
from stepwell.core.records.cuts import cut_failure
from stepwell.core.records.model import Failure, Violation
from stepwell.engine.executor import Executor
from stepwell.schemas import check_question
from stepwell.wire import fill, to_record
from stepwell.wire.undecodable import INVALID_OUTCOME
from stepwell.wire.validate import violations
from stepwell_client.v1 import worker_pb2 as pb

RESULT_TOO_LARGE = "RESULT_TOO_LARGE"
_RESULTS = frozenset({"completed.result.data", "reconciled.result.data"})
ACK_FAILURE_BYTES_MAX = 2 * 1024
"""The failure in an acknowledgement: a thousand of them find room in one message."""
_ECHO_CHARS_MAX = 256
"""Characters of an id that is too long which the answer repeats."""
_NAMES_ITS_LEASE = frozenset({"run_id", "execution_id", "lease_token"})

Item = pb.Outcome | pb.Begin


class Receipt(NamedTuple):
    """The acknowledgement of one item; made into a message when it is written."""

    delivery_id: str
    execution_id: str
    status: pb.AckStatus
    failure: Failure | None = None

    def write(self, ack: pb.Ack) -> None:
        """Fill in the message."""
        ack.delivery_id = self.delivery_id
        ack.execution_id = self.execution_id
        ack.status = self.status
        if self.failure is not None:
            fill(cut_failure(self.failure, ACK_FAILURE_BYTES_MAX), ack.failure)


Answer = Receipt | Exception
"""An exception: nothing is known of the item's fate; the worker is to send it again."""


class Intake:
    """Delivers the items of one tenant's workers."""

    def __init__(self, executor: Executor, tenant_id: str) -> None:
        self._executor = executor
        self._tenant_id = tenant_id

    def accept(self, item: Item, answered: Callable[[Answer], None]) -> None:
        """Deliver an item to its run. `answered` is called after the commit, once, never from here."""
        delivery_id, execution_id = item.delivery_id, item.execution_id
        delivery, failure = _read(item)
        if failure is not None:
            delivery_id = delivery_id[:_ECHO_CHARS_MAX]
        if delivery is None:
            # The execution is unknown, so there is none to fail.
            execution_id = execution_id[:_ECHO_CHARS_MAX]
            receipt = Receipt(delivery_id, execution_id, pb.ACK_STATUS_REJECTED, failure)
            asyncio.get_running_loop().call_soon(answered, receipt)
            return

        def deliver(delivery: Delivery | Begin, failure: Failure | None) -> None:
            def done(reply: asyncio.Future[Reply]) -> None:
                answered(_answer_of(reply, delivery_id, execution_id, failure))

            reply = self._executor.deliver(self._tenant_id, item.run_id, delivery)
            reply.add_done_callback(done)

        if isinstance(delivery, Delivery) and isinstance(delivery.result, NeedsInput):
            _ask(delivery, delivery.result, deliver, answered)
        else:
            deliver(delivery, failure)


def _ask(
    delivery: Delivery,
    question: NeedsInput,
    deliver: Callable[[Delivery, Failure | None], None],
    answered: Callable[[Answer], None],
) -> None:
    """Deliver a question, or the failure of an attempt whose question is invalid."""

    def settle(faults: Sequence[Violation]) -> None:
        if not faults:
            deliver(delivery, None)
            return
        failure = _failure_of([errors.Violation(one.field, one.description) for one in faults])
        deliver(replace(delivery, result=Failed(failure=failure)), failure)

    def checked(done: asyncio.Future[tuple[Violation, ...]]) -> None:
        error = done.exception()
        if error is None:
            settle(done.result())
        else:
            answered(error if isinstance(error, Exception) else RuntimeError(repr(error)))

    faults = check_question(question)
    if isinstance(faults, tuple):
        settle(faults)
    else:
        faults.add_done_callback(checked)


def _read(item: Item) -> tuple[Delivery | Begin | None, Failure | None]:
    """Return the record for the loop, and the failure that replaced an invalid item."""
    found = violations(item)
    faults: Sequence[errors.Violation] = found
    if not found:
        try:
            delivery = to_record(item)
            return delivery, _replaced(delivery)
        except errors.InvalidArgument as error:
            faults = error.violations
    failure = _failure_of(faults, found.reason)
    if any(one.field in _NAMES_ITS_LEASE for one in faults):
        return None, failure
    result = Failed(failure=failure)
    return Delivery(execution_id=item.execution_id, token=item.lease_token, result=result), failure


def _replaced(delivery: Delivery | Begin) -> Failure | None:
    """Return the failure that stands for an outcome which could not be read, where this is one."""
    if isinstance(delivery, Delivery) and isinstance(delivery.result, Failed):
        failure = delivery.result.failure
        return failure if failure.kind == INVALID_OUTCOME else None
    return None


def _answer_of(
    reply: asyncio.Future[Reply], delivery_id: str, execution_id: str, failure: Failure | None
) -> Answer:
    if reply.cancelled():
        return errors.StoreUnavailable("this replica is going down", reason="DRAINING")
    error = reply.exception()
    if error is not None:
        if isinstance(error, errors.NotFound | errors.AlreadyExists):
            # The run was deleted, or is another tenant's.
            return Receipt(delivery_id, execution_id, pb.ACK_STATUS_LEASE_LOST)
        return error if isinstance(error, Exception) else RuntimeError(repr(error))
    answer = reply.result()
    if answer.status is ReplyStatus.LEASE_LOST:
        return Receipt(delivery_id, execution_id, pb.ACK_STATUS_LEASE_LOST)
    if failure is not None:
        return Receipt(delivery_id, execution_id, pb.ACK_STATUS_REJECTED, failure)
    if answer.status in (ReplyStatus.ACCEPTED, ReplyStatus.UNCHANGED):
        return Receipt(delivery_id, execution_id, pb.ACK_STATUS_ACCEPTED)
    failure = Failure(kind=answer.reason, message=answer.message, violations=answer.violations)
    return Receipt(delivery_id, execution_id, pb.ACK_STATUS_REJECTED, failure)


def _failure_of(faults: Sequence[errors.Violation], reason: str = "") -> Failure:
    first = faults[0]
    more = f" (and {len(faults) - 1:,} more)" if len(faults) > 1 else ""
    # The same work would come to the same size again.
    too_large = any(one.field in _RESULTS for one in faults)
    return Failure(
        kind=RESULT_TOO_LARGE if too_large else reason or INVALID_OUTCOME,
        retryable=not too_large,
        message=f"{first.field}: {first.description}{more}",
        violations=tuple(Violation(field=f, description=d) for f, d in faults),
    )
