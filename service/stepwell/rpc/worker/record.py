"""Record and ReadJournal: journal entries of steps that are under way.

An entry that breaks a limit is refused by itself; the rest of its message, and the stream, go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from stepwell.core.port import JournalPage
from stepwell.core.records import limits
from stepwell.core.records.cuts import cut_failure
from stepwell.core.records.errors import InvalidArgument, StepwellError, StoreUnavailable, Violation
from stepwell.core.records.journal import Entry
from stepwell.core.records.model import Budget, Failure
from stepwell.core.records.model import Violation as FailureViolation
from stepwell.engine.executor import Executor
from stepwell.engine.journals import JournalAsked
from stepwell.engine.recorder import Kept, NewEntries, RecordAnswer
from stepwell.rpc.caller import tenant
from stepwell.rpc.parts import Parts
from stepwell.wire import fill
from stepwell.wire.codec import put_ms
from stepwell.wire.records import checked_reader
from stepwell.wire.validate import Faults, violations
from stepwell_client.v1 import types_pb2
from stepwell_client.v1 import worker_pb2 as pb

INVALID_ENTRY = "INVALID_ENTRY"
_FAILURE_BYTES_MAX = 2 * 1024
"""The failure of one entry: a thousand of them find room in one message."""
_ECHO_CHARS_MAX = 256
"""Characters of an id that is too long which the answer repeats."""
_NAMES_ITS_LEASE = frozenset({"run_id", "execution_id", "lease_token"})
_MISMATCH = Failure(
    kind="JOURNAL_MISMATCH", message="another content is kept under this name", retryable=False
)
_NO_BUDGET = Budget()

_read_entry = checked_reader(Entry)

Answer = pb.Recorded | Exception
"""An exception: nothing is known of the recording's fate; the worker is to send it again."""
Answered = Callable[[Answer], None]


def check_count(recordings: Sequence[pb.Recording]) -> None:
    """Refuse a message with too many entries, whose answers would find no room in one.

    Raises:
        InvalidArgument: it has too many.
    """
    count = sum([len(one.entries) for one in recordings])
    if count > limits.ITEMS_PER_MESSAGE_MAX:
        what = f"have {count:,} entries together; limit: {limits.ITEMS_PER_MESSAGE_MAX:,}"
        raise InvalidArgument(f"recordings {what}", (Violation("recordings", what),))


def record(executor: Executor, tenant_id: str, item: pb.Recording, answered: Answered) -> None:
    """Write a recording; `answered` is called once its entries are kept, once, never from here."""
    faults = violations(item)
    if faults:
        refused = _refused(item, faults)
        asyncio.get_running_loop().call_soon(answered, refused)
        return
    entries: list[Entry] = []
    bad: dict[int, Failure] = {}
    for place, message in enumerate(item.entries):
        found = Faults()
        entry = _read(message, found)
        if entry is None:
            bad[place] = _failure_of(found)
        else:
            entries.append(entry)
    new = NewEntries(item.run_id, item.execution_id, item.lease_token, entries, tuple(item.forget))
    executor.record(tenant_id, new, partial(_answer, item, bad, answered))


def _read(message: types_pb2.JournalEntry, faults: Faults) -> Entry | None:
    try:
        return _read_entry(message, faults)
    except InvalidArgument as error:
        for one in error.violations:
            faults.add(one.field, one.description)
        return None


def _answer(
    item: pb.Recording,
    bad: dict[int, Failure],
    answered: Answered,
    answer: RecordAnswer | Exception,
) -> None:
    if isinstance(answer, Exception):
        answered(answer)
        return
    recorded = pb.Recorded(delivery_id=item.delivery_id)
    lease = recorded.lease
    lease.run_id = item.run_id
    lease.execution_id = item.execution_id
    if not answer.live:
        lease.status = pb.LEASE_STATUS_LOST
        lease.cancel_requested = answer.cancelled
        answered(recorded)
        return
    lease.status = pb.LEASE_STATUS_LIVE
    states = answer.entries
    if bad:
        whole = list(states)
        for place, failure in bad.items():
            whole.insert(place, failure)
        states = whole
    add = recorded.entries.add
    for state in states:
        _fill_state(add(), state)
    if answer.remaining_budget != _NO_BUDGET:
        fill(answer.remaining_budget, recorded.remaining_budget)
        recorded.budget_spent = answer.budget_spent
    answered(recorded)


def _fill_state(message: pb.EntryState, state: Kept | Failure) -> None:
    if isinstance(state, Failure):
        message.status = pb.ENTRY_STATUS_REJECTED
        fill(cut_failure(state, _FAILURE_BYTES_MAX), message.failure)
    elif not state.accepted:
        message.status = pb.ENTRY_STATUS_MISMATCH
        fill(_MISMATCH, message.failure)
    else:
        message.status = pb.ENTRY_STATUS_ACCEPTED
        if state.remaining_ms:
            put_ms(message.remaining, state.remaining_ms)


def _refused(item: pb.Recording, faults: Faults) -> pb.Recorded:
    """Return the answer to a recording that breaks a limit by itself: nothing of it is written."""
    recorded = pb.Recorded(delivery_id=item.delivery_id[:_ECHO_CHARS_MAX])
    recorded.lease.run_id = item.run_id[:_ECHO_CHARS_MAX]
    recorded.lease.execution_id = item.execution_id[:_ECHO_CHARS_MAX]
    names_none = any(one.field in _NAMES_ITS_LEASE for one in faults)
    recorded.lease.status = pb.LEASE_STATUS_LOST if names_none else pb.LEASE_STATUS_LIVE
    if names_none:
        return recorded
    failure = cut_failure(_failure_of(faults), _FAILURE_BYTES_MAX)
    for _ in range(min(len(item.entries), limits.ITEMS_PER_MESSAGE_MAX)):
        state = recorded.entries.add(status=pb.ENTRY_STATUS_REJECTED)
        fill(failure, state.failure)
    return recorded


def _failure_of(faults: Faults) -> Failure:
    first = faults[0]
    more = f" (and {len(faults) - 1:,} more)" if len(faults) > 1 else ""
    return Failure(
        kind=faults.reason or INVALID_ENTRY,
        retryable=False,
        message=f"{first.field}: {first.description}{more}",
        violations=tuple(FailureViolation(field=f, description=d) for f, d in faults),
    )


async def record_all(parts: Parts, request: pb.RecordRequest) -> pb.RecordResponse:
    """Write recordings that came without a stream.

    Raises:
        InvalidArgument: they have too many entries together.
        StoreUnavailable: some of them may be written; send the same again.
    """
    check_count(request.recordings)
    loop, tenant_id = asyncio.get_running_loop(), tenant()
    answers: list[asyncio.Future[Answer]] = []
    for item in request.recordings:
        answer: asyncio.Future[Answer] = loop.create_future()
        answers.append(answer)
        record(parts.executor, tenant_id, item, partial(_settle, answer))
    return pb.RecordResponse(recorded=[_recorded(await answer) for answer in answers])


def _settle(waiting: asyncio.Future[Answer], answer: Answer) -> None:
    if not waiting.done():
        waiting.set_result(answer)


def _recorded(answer: Answer) -> pb.Recorded:
    if isinstance(answer, pb.Recorded):
        return answer
    if isinstance(answer, StepwellError):
        raise answer
    raise StoreUnavailable("entries were not taken; send them again")


async def read_journal(parts: Parts, request: pb.ReadJournalRequest) -> JournalPage | None:
    """Return a page of a step's journal; None: its lease is lost."""
    asked = JournalAsked(
        run_id=request.run_id,
        execution_id=request.execution_id,
        token=request.lease_token,
        cursor=request.cursor,
    )
    return await parts.executor.journals.read(tenant(), asked)
