"""The queue of everything to send to one worker; all queued items go into one message.

It is the executor's `WorkerPort`. Adding to it never waits, and the stream's task empties it as
fast as the worker reads. Its size is bounded by the worker's credits, and by `Stream`, which stops
reading outcomes while too many acknowledgements are unwritten.
"""

from __future__ import annotations

import asyncio
from collections import deque

from stepwell.core.port import Assignment, Presence
from stepwell.core.records.cuts import failure_bytes
from stepwell.core.records.journal import Entry
from stepwell.core.records.states import StepKind
from stepwell.rpc.worker.intake import ACK_FAILURE_BYTES_MAX, Receipt
from stepwell.wire.leases import ended_call, put_assignment
from stepwell_client.v1 import worker_pb2 as pb

ITEMS_PER_MESSAGE_MAX = 1_000
_ITEM_BYTES = 64
"""The size of an acknowledgement or a cancellation without its texts."""
_CHAR_BYTES_MAX = 4
"""Texts of acknowledgements are short, so their largest possible size is used instead of measuring them."""


class Outgoing:
    """The `WorkerPort` of one stream."""

    def __init__(
        self,
        presence: Presence,
        stages: tuple[StepKind, ...],
        *,
        message_bytes_max: int,
        idle_ms: int | None = None,
    ) -> None:
        """`idle_ms`: the time after which an idle stream sends an empty message; None: never."""
        self._idle_s = idle_ms and idle_ms / 1_000
        self.presence = presence
        self.stages = stages
        self._bytes_max = message_bytes_max
        self._assignments: deque[Assignment] = deque()
        self._cancellations: deque[pb.Cancellation] = deque()
        self._ended_calls: deque[pb.EndedCall] = deque()
        self._receipts: deque[Receipt] = deque()
        self._journal_acks: deque[pb.JournalAck] = deque()
        self._changed = asyncio.Event()
        self._reason: pb.WorkEndReason | None = None
        self._error: Exception | None = None
        self._closing = False
        self._end_sent = False

    # --- the port -------------------------------------------------------------------------------------

    def assign(self, assignment: Assignment) -> None:
        """Send a leased step. Called after the commit."""
        self._assignments.append(assignment)
        self._changed.set()

    def cancel(self, execution_id: str, run_id: str, reason: str) -> None:
        """Report that an execution is no longer wanted."""
        self._cancellations.append(
            pb.Cancellation(lease=pb.Lease(run_id=run_id, execution_id=execution_id), reason=reason)
        )
        self._changed.set()

    def ended(self, execution_id: str, run_id: str, entry: Entry) -> None:
        """Tell the end of a call that waits while its step runs. Called after the commit."""
        self._ended_calls.append(ended_call(execution_id, run_id, entry))
        self._changed.set()

    def replaced(self) -> None:
        """End the stream because a newer instance of the same worker has connected."""
        self.end(pb.WORK_END_REASON_REPLACED)

    # --- the stream's side ----------------------------------------------------------------------------

    def acknowledge(self, receipt: Receipt) -> None:
        """Send the acknowledgement of an item."""
        self._receipts.append(receipt)
        self._changed.set()

    def recorded(self, answer: pb.JournalAck) -> None:
        """Send the answer to a journal write."""
        self._journal_acks.append(answer)
        self._changed.set()

    @property
    def unwritten(self) -> int:
        """The number of unwritten acknowledgements."""
        return len(self._receipts) + len(self._journal_acks)

    def end(self, reason: pb.WorkEndReason) -> None:
        """End the stream with a message, after the pending acknowledgements."""
        if self._reason is None:
            self._reason = reason
        self._changed.set()

    def fail(self, error: Exception) -> None:
        """End the stream with an error, after the pending acknowledgements."""
        if self._error is None:
            self._error = error
        self._changed.set()

    def close(self) -> None:
        """End the stream without a message: the worker has closed its side and has all answers."""
        self._closing = True
        self._changed.set()

    async def next_message(self) -> pb.WorkResponse | None:
        """Wait for something to send and return it, in as few messages as possible.

        Returns None at the end of the stream, or raises the error with which it ends. An idle stream sends an
        empty message from time to time, because proxies cut streams on which nothing passes.
        """
        while True:
            if self._is_ending:
                # A closing stream drops unsent assignments; their leases expire and are retried.
                self._assignments.clear()
            if (
                self._receipts
                or self._journal_acks
                or self._ended_calls
                or self._assignments
                or self._cancellations
            ):
                return self._pack()
            if self._error is not None:
                raise self._error
            if self._reason is not None and not self._end_sent:
                self._end_sent = True
                return pb.WorkResponse(end=pb.WorkEnd(reason=self._reason))
            if self._is_ending:
                return None
            self._changed.clear()
            try:
                async with asyncio.timeout(self._idle_s):
                    await self._changed.wait()
            except TimeoutError:
                return pb.WorkResponse()

    @property
    def _is_ending(self) -> bool:
        return self._reason is not None or self._error is not None or self._closing

    def _pack(self) -> pb.WorkResponse:
        """Return a message of the soft size; a single assignment may be larger."""
        message = pb.WorkResponse()
        room, count = self._bytes_max, ITEMS_PER_MESSAGE_MAX
        receipts, acks = self._receipts, message.acks
        while receipts and count and room > 0:
            receipt = receipts.popleft()
            receipt.write(acks.add())
            room -= _receipt_bytes(receipt)
            count -= 1
        while self._journal_acks and count and room > 0:
            ack = self._journal_acks.popleft()
            message.journal_acks.append(ack)
            room -= _ITEM_BYTES + ack.ByteSize()
            count -= 1
        while self._cancellations and count and room > 0:
            cancellation = self._cancellations.popleft()
            message.cancellations.append(cancellation)
            room -= _ITEM_BYTES + cancellation.ByteSize()
            count -= 1
        while self._ended_calls and count and room > 0:
            # One has 1 MiB at the most, so it fits beside what is within the soft size.
            ended = self._ended_calls.popleft()
            message.ended_calls.append(ended)
            room -= _ITEM_BYTES + ended.ByteSize()
            count -= 1
        while self._assignments and count and room > 0:
            added = message.assignments.add()
            put_assignment(self._assignments[0], added)
            room -= added.ByteSize()
            if room < 0 and count < ITEMS_PER_MESSAGE_MAX:
                del message.assignments[-1]
                break
            self._assignments.popleft()
            count -= 1
        return message


def _receipt_bytes(receipt: Receipt) -> int:
    size = _ITEM_BYTES + _CHAR_BYTES_MAX * (
        len(receipt.delivery_id) + len(receipt.run_id) + len(receipt.execution_id)
    )
    if receipt.failure is None:
        return size
    return size + min(failure_bytes(receipt.failure), ACK_FAILURE_BYTES_MAX)
