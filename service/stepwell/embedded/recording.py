"""Journals of an embedded run's steps: entries on their way to the executor, and the pages that it reads."""

from __future__ import annotations

import asyncio

from stepwell.core.port import JournalPage
from stepwell.core.records.recorded import RecordAnswer
from stepwell.engine.executor import Executor
from stepwell.engine.journals import JournalAsked
from stepwell.engine.recorder import NewEntries
from stepwell.wire import to_message
from stepwell.wire.recordings import fill_recorded, read_entries
from stepwell_client import LeaseLost
from stepwell_client.v1 import worker_pb2


def lost() -> worker_pb2.Recorded:
    """Return the answer where the lease has ended."""
    return worker_pb2.Recorded(lease=worker_pb2.LeaseState(status=worker_pb2.LEASE_STATUS_LOST))


async def write_entries(
    executor: Executor,
    tenant_id: str,
    assignment: worker_pb2.Assignment,
    recording: worker_pb2.Recording,
) -> worker_pb2.Recorded:
    """Write entries of a step, or drop calls, and return the answer once that is kept.

    Raises:
        StoreError: they may be written or not; write the same again.
    """
    read, refused = read_entries(recording.entries)
    new = NewEntries(
        assignment.run.run_id,
        assignment.execution.execution_id,
        assignment.lease.token,
        read,
        tuple(recording.forget),
        recording.forget_number,
    )
    waiting: asyncio.Future[RecordAnswer | Exception] = asyncio.get_running_loop().create_future()

    def answered(answer: RecordAnswer | Exception) -> None:
        if not waiting.done():
            waiting.set_result(answer)

    executor.record(tenant_id, new, answered)
    answer = await waiting
    if isinstance(answer, Exception):
        raise answer
    recorded = worker_pb2.Recorded()
    fill_recorded(answer, refused, recorded)
    return recorded


async def read_page(
    executor: Executor, tenant_id: str, assignment: worker_pb2.Assignment, cursor: str
) -> worker_pb2.JournalPage:
    """Return a page of a step's journal. Raises LeaseLost where its lease has ended, StoreError as the store does."""
    asked = JournalAsked(
        run_id=assignment.run.run_id,
        execution_id=assignment.execution.execution_id,
        token=assignment.lease.token,
        cursor=cursor,
    )
    page: JournalPage | None = await executor.journals.read(tenant_id, asked)
    if page is None:
        raise LeaseLost(f"execution {asked.execution_id} is not wanted any more")
    return to_message(page)
