"""What waits to be sent to one worker: everything that queues up goes in one message.

It is the `WorkerPort` that the executor sees. Nothing in it waits; the stream's own task empties it as
fast as the worker reads. What it holds is bounded by the worker's credits and by `Stream`, which reads
no more outcomes while too many of their acknowledgements are unwritten.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator

from stepwell.core.port import Assignment, Presence
from stepwell.core.records.model import Payload
from stepwell.core.records.states import StepKind
from stepwell.rpc.worker.intake import Receipt
from stepwell.wire import fill
from stepwell_client.v1 import worker_pb2 as pb

ITEMS_PER_MESSAGE_MAX = 1_000
_ACK_BYTES = 64
_ASSIGNMENT_BYTES = 1_024


class Outbox:
    """The `WorkerPort` of one stream."""

    def __init__(
        self,
        presence: Presence,
        stages: tuple[StepKind, ...],
        *,
        message_bytes_max: int,
    ) -> None:
        self.presence = presence
        self.stages = stages
        self._bytes_max = message_bytes_max
        self._assignments: deque[Assignment] = deque()
        self._cancellations: deque[pb.Cancellation] = deque()
        self._receipts: deque[Receipt] = deque()
        self._ring = asyncio.Event()
        self._reason: pb.WorkEndReason | None = None
        self._error: Exception | None = None
        self._closing = False

    # --- the port -------------------------------------------------------------------------------------

    def assign(self, assignment: Assignment) -> None:
        """Hand it a leased step. Called after the commit."""
        self._assignments.append(assignment)
        self._ring.set()

    def cancel(self, execution_id: str, run_id: str, reason: str) -> None:
        """Tell it that an execution of its is not wanted any more."""
        self._cancellations.append(
            pb.Cancellation(run_id=run_id, execution_id=execution_id, reason=reason)
        )
        self._ring.set()

    def replaced(self) -> None:
        """Tell it that a newer instance of the same worker is here."""
        self.end(pb.WORK_END_REASON_REPLACED)

    # --- the stream's side ----------------------------------------------------------------------------

    def acknowledge(self, receipt: Receipt) -> None:
        """Tell it what became of an item."""
        self._receipts.append(receipt)
        self._ring.set()

    @property
    def unwritten(self) -> int:
        """How many acknowledgements wait to be written."""
        return len(self._receipts)

    def end(self, reason: pb.WorkEndReason) -> None:
        """End the stream with a message, after the acknowledgements that are due."""
        if self._reason is None:
            self._reason = reason
        self._ring.set()

    def fail(self, error: Exception) -> None:
        """End the stream with an error, after the acknowledgements that are due."""
        if self._error is None:
            self._error = error
        self._ring.set()

    def close(self) -> None:
        """End the stream without a word: the worker has closed its side and knows all."""
        self._closing = True
        self._ring.set()

    async def messages(self) -> AsyncGenerator[pb.WorkResponse]:
        """Yield what is to be sent, as few messages as there can be, until the stream ends."""
        while True:
            await self._ring.wait()
            self._ring.clear()
            ending = self._reason is not None or self._error is not None or self._closing
            if ending:
                # Whoever leaves takes nothing on: unsent leases come back by their own end.
                self._assignments.clear()
            while self._receipts or self._assignments or self._cancellations:
                yield self._next()
            if self._error is not None:
                raise self._error
            if self._reason is not None:
                yield pb.WorkResponse(end=pb.WorkEnd(reason=self._reason))
                return
            if self._closing:
                return

    def _next(self) -> pb.WorkResponse:
        message = pb.WorkResponse()
        room, count = self._bytes_max, ITEMS_PER_MESSAGE_MAX
        receipts, acks = self._receipts, message.acks
        while receipts and count and room > 0:
            receipt = receipts.popleft()
            receipt.write(acks.add())
            room -= _ACK_BYTES + (len(receipt.failure.message) if receipt.failure else 0)
            count -= 1
        while self._cancellations and count:
            message.cancellations.append(self._cancellations.popleft())
            count -= 1
        assignments = self._assignments
        while assignments and count and room > 0:
            size = _size_of(assignments[0])
            if size > room and message.assignments:
                break
            fill(assignments.popleft(), message.assignments.add())
            room -= size
            count -= 1
        return message


def _size_of(assignment: Assignment) -> int:
    """Return about how many bytes it takes: what can be large is counted, the rest is not."""
    size = _ASSIGNMENT_BYTES + len(assignment.run.spec.goal)
    for payload in (assignment.run_input, assignment.previous_progress, assignment.answer):
        size += _bytes_of(payload)
    task = assignment.task
    if task is not None:
        size += len(task.prompt) + _bytes_of(task.input)
    for result in assignment.results:
        size += 64 + _bytes_of(result.payload)
        if result.failure is not None:
            size += len(result.failure.message) + len(result.failure.details)
    size += sum(64 + len(message.content) for message in assignment.previous_messages)
    failure = assignment.previous_failure
    return size if failure is None else size + len(failure.message) + len(failure.details)


def _bytes_of(payload: Payload | None) -> int:
    return len(payload.data) if payload is not None else 0
