"""JournalWrites of workers and their answers, between messages and records: the same at both edges.

EntryAck by hand, since each call within a step passes here: an entry that breaks a limit is refused by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from stepwell.core.records import limits
from stepwell.core.records.cuts import cut_failure
from stepwell.core.records.errors import InvalidArgument
from stepwell.core.records.journal import Entry
from stepwell.core.records.journal_answers import NO_BUDGET, JournalAnswer, Kept
from stepwell.core.records.model import Failure, Violation
from stepwell.wire.conversions_pb2 import checked_Entry
from stepwell.wire.faults import Faults
from stepwell.wire.records import fill
from stepwell.wire.values import put_ms
from stepwell_client.v1 import types_pb2, worker_pb2

INVALID_ENTRY = "INVALID_ENTRY"
_MISMATCH = Failure(
    kind="JOURNAL_MISMATCH", message="another content is kept under this name", retryable=False
)


def read_entries(
    messages: Iterable[types_pb2.JournalEntry],
) -> tuple[list[Entry], dict[int, Failure]]:
    """Return the entries, and a failure for each one that breaks a limit, by its place."""
    entries: list[Entry] = []
    refused: dict[int, Failure] = {}
    for place, message in enumerate(messages):
        faults = Faults()
        entry = _read(message, faults)
        if entry is None:
            refused[place] = failure_of(faults)
        else:
            entries.append(entry)
    return entries, refused


def _read(message: types_pb2.JournalEntry, faults: Faults) -> Entry | None:
    try:
        return checked_Entry(message, faults)
    except InvalidArgument as error:
        for one in error.violations:
            faults.add(one.field, one.description)
        return None


def failure_of(faults: Faults) -> Failure:
    """Return the failure of an entry with these faults; there is at least one."""
    first = faults[0]
    more = f" (and {len(faults) - 1:,} more)" if len(faults) > 1 else ""
    return Failure(
        kind=faults.reason or INVALID_ENTRY,
        retryable=False,
        message=f"{first.field}: {first.description}{more}",
        violations=tuple(Violation(field=f, description=d) for f, d in faults),
    )


def fill_ack(
    answer: JournalAnswer, refused: Mapping[int, Failure], recorded: worker_pb2.JournalAck
) -> None:
    """Put an answer into its message; `refused`: the entries that `read_entries` refused before."""
    if not answer.live:
        recorded.lease.status = worker_pb2.LEASE_STATUS_LOST
        recorded.lease.cancel_requested = answer.cancelled
        return
    recorded.lease.status = worker_pb2.LEASE_STATUS_LIVE
    recorded.children.update(answer.children)
    states = answer.entries
    if refused:
        states = list(states)
        for place, failure in refused.items():
            states.insert(place, failure)
    add = recorded.entries.add
    for state in states:
        fill_state(state, add())
    if answer.failure is not None:
        fill_failure(answer.failure, recorded.failure)
    if answer.remaining_budget != NO_BUDGET:
        fill(answer.remaining_budget, recorded.remaining_budget)
        recorded.budget_spent = answer.budget_spent


def fill_state(state: Kept | Failure, message: worker_pb2.EntryState) -> None:
    """Put the result of one entry into its message."""
    if isinstance(state, Failure):
        message.status = worker_pb2.ENTRY_STATUS_REJECTED
        fill_failure(state, message.failure)
    elif not state.accepted:
        message.status = worker_pb2.ENTRY_STATUS_MISMATCH
        fill(_MISMATCH, message.failure)
    else:
        message.status = worker_pb2.ENTRY_STATUS_ACCEPTED
        if state.remaining_ms:
            put_ms(message.remaining, state.remaining_ms)


def fill_failure(failure: Failure, message: types_pb2.Failure) -> None:
    """Put the failure of an entry, or of a journal write, into its message, cut so that a thousand fit into one message."""
    fill(cut_failure(failure, limits.ENTRY_FAILURE_BYTES_MAX), message)
