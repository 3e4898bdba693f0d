"""Passes outcomes and begins of a worker to the loop, and the loop's replies back as acknowledgements.

An item that breaks a limit fails its own execution, through the loop like any failure; the rest of
its message, and the stream, continue. This is the hot path: only long plans and questions make
a task, and nothing is read twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from stepwell.core.loop.occurrences import (
    Begin,
    Completed,
    Delivery,
    Failed,
    NeedsAnswer,
    Suspended,
)
from stepwell.core.loop.transition import Reply, ReplyStatus
from stepwell.core.port import Runtime
from stepwell.core.records import errors
from stepwell.core.records.cuts import cut_failure
from stepwell.core.records.errors import INVALID_OUTCOME
from stepwell.core.records.model import Failure, Violation
from stepwell.engine.executor import Executor
from stepwell.schemas import question_violations
from stepwell.wire.faults import Faults
from stepwell.wire.plans import Item, is_long, read_item, read_long_item
from stepwell.wire.records import fill
from stepwell_client.v1 import worker_pb2 as pb

RESULT_TOO_LARGE = "RESULT_TOO_LARGE"
_RESULTS = frozenset({"completed.result.data", "reconciled.result.data"})
ACK_FAILURE_BYTES_MAX = 2 * 1024
"""The size of a failure in an acknowledgement: a thousand of them fit into one message."""
_ECHO_CHARS_MAX = 256
"""The characters of a too long id that the answer repeats."""
_ACCEPTED = frozenset({ReplyStatus.ACCEPTED, ReplyStatus.UNCHANGED})
_NAMES_ITS_LEASE = frozenset({"lease", "lease.run_id", "lease.execution_id", "lease.token"})


class Receipt(NamedTuple):
    """The acknowledgement of one item, converted to a message when it is written."""

    delivery_id: str
    run_id: str
    execution_id: str
    status: pb.AckStatus
    failure: Failure | None = None

    def write(self, ack: pb.Ack) -> None:
        """Fill in the message."""
        ack.delivery_id = self.delivery_id
        lease = ack.lease
        lease.run_id = self.run_id
        lease.execution_id = self.execution_id
        ack.status = self.status
        if self.failure is not None:
            fill(cut_failure(self.failure, ACK_FAILURE_BYTES_MAX), ack.failure)


Answer = Receipt | Exception
"""An exception means that the item's outcome is unknown, so the worker must send it again."""


class Intake:
    """Delivers the items of one tenant's workers."""

    def __init__(self, executor: Executor, runtime: Runtime, tenant_id: str) -> None:
        self._executor = executor
        self._runtime = runtime
        self._tenant_id = tenant_id

    def accept(self, item: Item, answered: Callable[[Answer], None]) -> None:
        """Deliver an item to its run; later call `answered` once, after the commit."""
        if is_long(item):
            self._runtime.spawn(self._accept_long(item, answered), name="long plan")
            return
        faults = Faults()
        self._deliver(item, read_item(item, faults), faults, answered)

    async def _accept_long(self, item: Item, answered: Callable[[Answer], None]) -> None:
        faults = Faults()
        delivery = await read_long_item(self._runtime, item, faults)
        self._deliver(item, delivery, faults, answered)

    def _deliver(
        self,
        item: Item,
        delivery: Delivery | Begin | None,
        faults: Faults,
        answered: Callable[[Answer], None],
    ) -> None:
        failure: Failure | None = None
        asked: Sequence[NeedsAnswer] = ()
        if delivery is None:
            delivery, failure = _failed(item, faults)
        elif isinstance(delivery, Delivery) and not isinstance(delivery.result, Completed):
            failure, asked = _replaced(delivery.result), _questions(delivery.result)
        waiting = _Waiting(
            item.delivery_id[:_ECHO_CHARS_MAX],
            item.lease.run_id[:_ECHO_CHARS_MAX],
            item.lease.execution_id[:_ECHO_CHARS_MAX],
            failure,
            answered,
        )
        if delivery is None:
            # The execution is unknown, so none can be failed.
            rejected = waiting.receipt(pb.ACK_STATUS_REJECTED, failure)
            asyncio.get_running_loop().call_soon(answered, rejected)
        elif asked and isinstance(delivery, Delivery):
            asking = self._ask(item.lease.run_id, delivery, asked, waiting)
            self._runtime.spawn(asking, name="questions")
        else:
            self._executor.pass_on(self._tenant_id, item.lease.run_id, delivery, waiting.answer)

    async def _ask(
        self,
        run_id: str,
        delivery: Delivery,
        questions: Sequence[NeedsAnswer],
        waiting: _Waiting,
    ) -> None:
        """Deliver questions, or the failure of an attempt if one of them is invalid."""
        try:
            for question in questions:
                if faults := await question_violations(question):
                    failure = _failure_of(
                        [errors.Violation(one.field, one.description) for one in faults]
                    )
                    delivery = replace(delivery, result=Failed(failure=failure))
                    waiting = waiting._replace(failure=failure)
                    break
        except Exception as error:  # noqa: BLE001 - the worker waits for an answer
            waiting.answer(error)
        else:
            self._executor.pass_on(self._tenant_id, run_id, delivery, waiting.answer)


class _Waiting(NamedTuple):
    """A delivered item until it is acknowledged."""

    delivery_id: str
    run_id: str
    execution_id: str
    failure: Failure | None
    """The failure that replaced an invalid item."""
    answered: Callable[[Answer], None]

    def receipt(self, status: pb.AckStatus, failure: Failure | None = None) -> Receipt:
        """Return the item's acknowledgement."""
        return Receipt(self.delivery_id, self.run_id, self.execution_id, status, failure)

    def answer(self, reply: Reply | Exception) -> None:
        """Acknowledge the item by the loop's reply."""
        self.answered(self._answer_to(reply))

    def _answer_to(self, reply: Reply | Exception) -> Answer:
        if isinstance(reply, errors.NotFound | errors.AlreadyExists):
            # The run was deleted, or belongs to another tenant.
            return self.receipt(pb.ACK_STATUS_LEASE_LOST)
        if isinstance(reply, Exception):
            return reply
        if reply.status is ReplyStatus.LEASE_LOST:
            return self.receipt(pb.ACK_STATUS_LEASE_LOST)
        if self.failure is not None:
            return self.receipt(pb.ACK_STATUS_REJECTED, self.failure)
        if reply.status in _ACCEPTED:
            return self.receipt(pb.ACK_STATUS_ACCEPTED)
        failure = Failure(kind=reply.reason, message=reply.message, violations=reply.violations)
        return self.receipt(pb.ACK_STATUS_REJECTED, failure)


def _questions(result: object) -> Sequence[NeedsAnswer]:
    if isinstance(result, Suspended):
        return [one.wait for one in result.waits if isinstance(one.wait, NeedsAnswer)]
    return [result] if isinstance(result, NeedsAnswer) else ()


def _failed(item: Item, faults: Faults) -> tuple[Delivery | None, Failure]:
    """Return the delivered failure of an invalid item, or None if the execution is unknown."""
    failure = _failure_of(faults, faults.reason)
    if any(one.field in _NAMES_ITS_LEASE for one in faults):
        return None, failure
    result = Failed(failure=failure)
    return Delivery(
        execution_id=item.lease.execution_id, token=item.lease.token, result=result
    ), failure


def _replaced(result: object) -> Failure | None:
    """Return the failure that replaced an unreadable outcome, if this is one."""
    if isinstance(result, Failed) and result.failure.kind == INVALID_OUTCOME:
        return result.failure
    return None


def _failure_of(faults: Sequence[errors.Violation], reason: str = "") -> Failure:
    first = faults[0]
    more = f" (and {len(faults) - 1:,} more)" if len(faults) > 1 else ""
    # The same work would reach the same size again.
    too_large = any(one.field in _RESULTS for one in faults)
    return Failure(
        kind=RESULT_TOO_LARGE if too_large else reason or INVALID_OUTCOME,
        retryable=not too_large,
        message=f"{first.field}: {first.description}{more}",
        violations=tuple(Violation(field=f, description=d) for f, d in faults),
    )
