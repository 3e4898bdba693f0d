"""WriteJournal and ReadJournal: journal entries of running steps.

Only an entry that breaks a limit is refused; the rest of its message, and the stream, continue.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from stepwell.core.loop.occurrences import NeedsAnswer, SuspendedCall
from stepwell.core.port import JournalPage
from stepwell.core.records import limits
from stepwell.core.records.errors import InvalidArgument, StepwellError, StoreUnavailable, Violation
from stepwell.core.records.journal_answers import JournalAnswer
from stepwell.core.records.model import Failure
from stepwell.engine.executor import Executor
from stepwell.engine.journal_writer import NewEntries
from stepwell.engine.journals import JournalAsked
from stepwell.rpc.caller import tenant
from stepwell.rpc.worker.worker_dependencies import WorkerDependencies
from stepwell.schemas import question_violations
from stepwell.wire.faults import Faults
from stepwell.wire.journal_writes import (
    failure_of,
    fill_ack,
    fill_failure,
    fill_state,
    read_entries,
)
from stepwell.wire.leases import named
from stepwell.wire.plans import check_child_plans
from stepwell.wire.records import to_record
from stepwell.wire.validate import violations
from stepwell_client.v1 import worker_pb2 as pb

_ECHO_CHARS_MAX = 256
"""The characters of a too long id that the answer repeats."""
_NAMES_ITS_LEASE = frozenset({"lease", "lease.run_id", "lease.execution_id", "lease.token"})

Answer = pb.JournalAck | Exception
"""An exception means that the journal write's outcome is unknown, so the worker must send it again."""
Answered = Callable[[Answer], None]


def check_count(writes: Sequence[pb.JournalWrite], field: str) -> None:
    """Refuse a message with too many entries in this field, whose answers would not fit into one message.

    Raises:
        InvalidArgument: it has too many.
    """
    count = sum([len(one.entries) for one in writes])
    if count > limits.ITEMS_PER_MESSAGE_MAX:
        what = f"have {count:,} entries together; limit: {limits.ITEMS_PER_MESSAGE_MAX:,}"
        raise InvalidArgument(f"{field} {what}", (Violation(field, what),))


def write_one(
    executor: Executor, tenant_id: str, item: pb.JournalWrite, answered: Answered
) -> None:
    """Do a journal write; later call `answered` once, when its entries are stored."""
    faults = violations(item)
    if item.forget and item.entries:
        # A repetition would drop what it wrote the first time.
        faults.add("forget", "is there beside entries; limit: a journal write has one of the two")
    if (item.open or item.open_number) and (item.entries or item.forget):
        faults.add("open", "is there beside others; limit: a journal write has one of the three")
    if item.open and not item.open_number:
        faults.add("open_number", "is 0; limit: 1 or more with open")
    for at, each in enumerate(item.open):
        if each.WhichOneof("wait") in ("sleep", "budget"):
            what = "is no wait for a person, a signal or a child run: those alone are opened"
            faults.add(f"open[{at}]", what)
    check_child_plans(item.open, "open", faults)
    if item.forget and not item.forget_number:
        faults.add("forget_number", "is 0; limit: 1 or more with forget")
    if faults:
        asyncio.get_running_loop().call_soon(answered, _refused(item, faults))
        return
    if item.open_number:
        executor.runtime.spawn(_open(executor, tenant_id, item, answered), name="open waits")
        return
    entries, refused = read_entries(item.entries)
    new = NewEntries(
        item.lease.run_id,
        item.lease.execution_id,
        item.lease.token,
        entries,
        tuple(item.forget),
        item.forget_number,
    )
    executor.write_journal(tenant_id, new, partial(_answer, item, refused, answered))


async def _open(
    executor: Executor, tenant_id: str, item: pb.JournalWrite, answered: Answered
) -> None:
    """Open calls that wait while their step runs, or refuse all of them if a question is invalid."""
    calls: list[SuspendedCall] = [to_record(each) for each in item.open]
    faults = Faults()
    try:
        for at, call in enumerate(calls):
            if isinstance(call.wait, NeedsAnswer):
                for one in await question_violations(call.wait):
                    faults.add(f"open[{at}].{one.field}", one.description)
    except Exception as error:  # noqa: BLE001 - the worker waits for an answer
        answered(error)
        return
    if faults:
        answered(_refused(item, faults))
        return
    new = NewEntries(
        item.lease.run_id,
        item.lease.execution_id,
        item.lease.token,
        (),
        opens=calls,
        open_number=item.open_number,
        known=tuple(item.known),
    )
    executor.write_journal(tenant_id, new, partial(_answer, item, {}, answered))


def _answer(
    item: pb.JournalWrite,
    refused: dict[int, Failure],
    answered: Answered,
    answer: JournalAnswer | Exception,
) -> None:
    if isinstance(answer, Exception):
        answered(answer)
        return
    recorded = pb.JournalAck(delivery_id=item.delivery_id)
    recorded.lease.lease.CopyFrom(named(item.lease))
    fill_ack(answer, refused, recorded)
    answered(recorded)


def _refused(item: pb.JournalWrite, faults: Faults) -> pb.JournalAck:
    """Return the answer to a journal write that breaks a limit as a whole, so that nothing of it is written."""
    recorded = pb.JournalAck(delivery_id=item.delivery_id[:_ECHO_CHARS_MAX])
    recorded.lease.lease.CopyFrom(named(item.lease))
    names_none = any(one.field in _NAMES_ITS_LEASE for one in faults)
    recorded.lease.status = pb.LEASE_STATUS_LOST if names_none else pb.LEASE_STATUS_LIVE
    if names_none:
        return recorded
    failure = failure_of(faults)
    for _ in range(min(len(item.entries), limits.ITEMS_PER_MESSAGE_MAX)):
        fill_state(failure, recorded.entries.add())
    if item.forget or item.open or item.open_number:
        fill_failure(failure, recorded.failure)
    return recorded


async def write_all(
    deps: WorkerDependencies, request: pb.WriteJournalRequest
) -> pb.WriteJournalResponse:
    """Write journal writes that came without a stream.

    Raises:
        InvalidArgument: they have too many entries together.
        StoreUnavailable: some of them may be written; send the same again.
    """
    check_count(request.writes, "writes")
    loop, tenant_id = asyncio.get_running_loop(), tenant()
    answers: list[asyncio.Future[Answer]] = []
    for item in request.writes:
        answer: asyncio.Future[Answer] = loop.create_future()
        answers.append(answer)
        write_one(deps.executor, tenant_id, item, partial(_settle, answer))
    return pb.WriteJournalResponse(acks=[_ack_of(await answer) for answer in answers])


def _settle(waiting: asyncio.Future[Answer], answer: Answer) -> None:
    if not waiting.done():
        waiting.set_result(answer)


def _ack_of(answer: Answer) -> pb.JournalAck:
    if isinstance(answer, pb.JournalAck):
        return answer
    if isinstance(answer, StepwellError):
        raise answer
    raise StoreUnavailable("entries were not taken; send them again")


async def read_journal(
    deps: WorkerDependencies, request: pb.ReadJournalRequest
) -> JournalPage | None:
    """Return a page of a step's journal, or None if its lease is lost."""
    asked = JournalAsked(
        run_id=request.lease.run_id,
        execution_id=request.lease.execution_id,
        token=request.lease.token,
        cursor=request.page_token,
    )
    return await deps.executor.journals.read(tenant(), asked)
