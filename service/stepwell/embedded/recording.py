"""Journals of an embedded run's steps: entries on their way to the executor, and the pages that it reads."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from stepwell.core.port import JournalPage
from stepwell.core.records.journal import Entry
from stepwell.core.records.model import Budget, Failure
from stepwell.engine.executor import Executor
from stepwell.engine.journals import JournalAsked
from stepwell.engine.recorder import Kept, NewEntries, RecordAnswer
from stepwell.wire import fill, to_message
from stepwell.wire.codec import put_ms
from stepwell.wire.records import checked_reader
from stepwell.wire.validate import Faults
from stepwell_client import LeaseLost
from stepwell_client.v1 import types_pb2, worker_pb2

_NO_BUDGET = Budget()
_read_entry = checked_reader(Entry)


def lost() -> worker_pb2.Recorded:
    """Return the answer where the lease has ended."""
    return worker_pb2.Recorded(lease=worker_pb2.LeaseState(status=worker_pb2.LEASE_STATUS_LOST))


async def write_entries(
    executor: Executor,
    tenant_id: str,
    assignment: worker_pb2.Assignment,
    entries: Sequence[types_pb2.JournalEntry],
    forget: Sequence[str],
) -> worker_pb2.Recorded:
    """Write entries of a step, and return the answer once they are kept.

    Raises:
        StoreError: they may be written or not; write the same again.
    """
    read: list[Entry] = []
    refused: dict[int, Failure] = {}
    for place, message in enumerate(entries):
        faults = Faults()
        entry = _read_entry(message, faults)
        if entry is None:
            text = f"{faults[0].field}: {faults[0].description}"
            refused[place] = Failure(kind="INVALID_ENTRY", message=text, retryable=False)
        else:
            read.append(entry)
    new = NewEntries(
        assignment.run.run_id,
        assignment.execution.execution_id,
        assignment.lease_token,
        read,
        tuple(forget),
    )
    waiting: asyncio.Future[RecordAnswer | Exception] = asyncio.get_running_loop().create_future()

    def answered(answer: RecordAnswer | Exception) -> None:
        if not waiting.done():
            waiting.set_result(answer)

    executor.record(tenant_id, new, answered)
    answer = await waiting
    if isinstance(answer, Exception):
        raise answer
    return _recorded(answer, refused)


def _recorded(answer: RecordAnswer, refused: dict[int, Failure]) -> worker_pb2.Recorded:
    if not answer.live:
        return lost()
    recorded = worker_pb2.Recorded(budget_spent=answer.budget_spent)
    states = list(answer.entries)
    for place, failure in refused.items():
        states.insert(place, failure)
    for state in states:
        message = recorded.entries.add(status=worker_pb2.ENTRY_STATUS_ACCEPTED)
        if isinstance(state, Kept):
            if not state.accepted:
                message.status = worker_pb2.ENTRY_STATUS_MISMATCH
            elif state.remaining_ms:
                put_ms(message.remaining, state.remaining_ms)
        else:
            message.status = worker_pb2.ENTRY_STATUS_REJECTED
            fill(state, message.failure)
    if answer.remaining_budget != _NO_BUDGET:
        fill(answer.remaining_budget, recorded.remaining_budget)
    return recorded


async def read_page(
    executor: Executor, tenant_id: str, assignment: worker_pb2.Assignment, cursor: str
) -> worker_pb2.JournalPage:
    """Return a page of a step's journal. Raises LeaseLost where its lease has ended, StoreError as the store does."""
    asked = JournalAsked(
        run_id=assignment.run.run_id,
        execution_id=assignment.execution.execution_id,
        token=assignment.lease_token,
        cursor=cursor,
    )
    page: JournalPage | None = await executor.journals.read(tenant_id, asked)
    if page is None:
        raise LeaseLost(f"execution {asked.execution_id} is not wanted any more")
    return to_message(page)
