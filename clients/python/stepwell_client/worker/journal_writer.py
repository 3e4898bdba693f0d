"""A worker's journal writes: journal entries of its steps that are not acknowledged yet.

It has no network, like `state`. Each journal write is kept until it is answered, so that a new stream
begins with all of them, and is given up only with its lease.
"""

from __future__ import annotations

import asyncio
from collections import deque

from stepwell_client.records.decisions import NonRetryable
from stepwell_client.records.limits import (
    BATCH_BYTES_MAX,
    ITEMS_PER_MESSAGE_MAX,
    OUTCOME_BYTES_MAX,
    RESULT_TOO_LARGE,
)
from stepwell_client.v1 import worker_pb2
from stepwell_client.worker.log_buffer import ExecutionKey


class _Pending:
    __slots__ = ("answered", "size", "write")

    def __init__(
        self, write: worker_pb2.JournalWrite, answered: asyncio.Future[worker_pb2.JournalAck]
    ) -> None:
        self.write = write
        self.answered = answered
        self.size = write.ByteSize() + 8


class JournalWriter:
    """The unacknowledged journal writes of one worker."""

    def __init__(self) -> None:
        self._pending: dict[str, _Pending] = {}
        self._of_step: dict[ExecutionKey, set[str]] = {}
        self._unsent: deque[str] = deque()
        self._numbers = 0

    def add(
        self,
        key: ExecutionKey,
        token: str,
        write: worker_pb2.JournalWrite,
    ) -> asyncio.Future[worker_pb2.JournalAck]:
        """Queue a journal write; return a future that resolves once it is answered or given up.

        Raises NonRetryable if no message can carry it, because it would end every stream.
        """
        self._numbers += 1
        delivery_id = f"r{self._numbers}"
        write.delivery_id = delivery_id
        write.lease.run_id, write.lease.execution_id = key
        write.lease.token = token
        if (size := write.ByteSize()) > OUTCOME_BYTES_MAX:
            raise NonRetryable(
                f"what is to be recorded has {size:,} bytes; {OUTCOME_BYTES_MAX:,} is the most",
                kind=RESULT_TOO_LARGE,
            )
        answered: asyncio.Future[worker_pb2.JournalAck] = asyncio.get_running_loop().create_future()
        self._pending[delivery_id] = _Pending(write, answered)
        self._of_step.setdefault(key, set()).add(delivery_id)
        self._unsent.append(delivery_id)
        return answered

    @property
    def has_unsent(self) -> bool:
        """True if a journal write must be sent."""
        return bool(self._unsent)

    def new_stream(self) -> None:
        """Begin a new stream, on which all unanswered journal writes must be sent."""
        self._unsent = deque(self._pending)

    def settle(self, recorded: worker_pb2.JournalAck) -> None:
        """Resolve a journal write with its answer; ignore repeated answers."""
        pending = self._pending.pop(recorded.delivery_id, None)
        if pending is None:
            return
        key = (pending.write.lease.run_id, pending.write.lease.execution_id)
        of_step = self._of_step[key]
        of_step.discard(recorded.delivery_id)
        if not of_step:
            del self._of_step[key]
        if not pending.answered.done():
            pending.answered.set_result(recorded)

    def give_up(self, key: ExecutionKey) -> None:
        """Resolve the journal writes of a step whose lease has ended, as the server would."""
        if key in self._of_step:
            for delivery_id in list(self._of_step[key]):
                self.settle(lost(delivery_id))

    def next_batch(self, size: int = 0) -> list[worker_pb2.JournalWrite]:
        """Return unsent journal writes for a message that already has `size` bytes; at least one for an empty message."""
        return _take(self._pending, self._unsent, size)

    def requests(self) -> list[worker_pb2.WriteJournalRequest]:
        """Return all unanswered journal writes, for calls without a stream."""
        ids = deque(self._pending)
        requests: list[worker_pb2.WriteJournalRequest] = []
        while batch := _take(self._pending, ids, 0):
            requests.append(worker_pb2.WriteJournalRequest(writes=batch))
        return requests


def lost(delivery_id: str) -> worker_pb2.JournalAck:
    """Return the answer to a journal write whose lease has ended."""
    lease = worker_pb2.LeaseState(status=worker_pb2.LEASE_STATUS_LOST)
    return worker_pb2.JournalAck(delivery_id=delivery_id, lease=lease)


def _take(
    pending: dict[str, _Pending], ids: deque[str], size: int
) -> list[worker_pb2.JournalWrite]:
    batch: list[worker_pb2.JournalWrite] = []
    while ids and len(batch) < ITEMS_PER_MESSAGE_MAX:
        one = pending.get(ids[0])
        if one is not None:
            size += one.size
            if size > BATCH_BYTES_MAX and size > one.size:
                break
            batch.append(one.write)
        ids.popleft()
    return batch
