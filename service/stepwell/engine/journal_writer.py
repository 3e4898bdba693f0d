"""Records journal entries of running steps under their leases: without the loop, and in groups.

Everything that arrives in one turn of the event loop, from all workers, is one write to the store.
The store checks each lease. This replica's state of the lease names the journal, and its sums tell
how full that is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import NamedTuple

from stepwell.core.loop import budgets
from stepwell.core.loop.occurrences import Forget, Open, SuspendedCall
from stepwell.core.loop.state import RunState
from stepwell.core.loop.transition import LEASE_LOST, Reply, ReplyStatus
from stepwell.core.port import JournalAck, JournalWrite, Runtime, Store
from stepwell.core.records import limits
from stepwell.core.records.errors import NotFound, StepwellError, StoreRefused
from stepwell.core.records.journal import Entry, entry_bytes
from stepwell.core.records.journal_answers import NO_BUDGET, JournalAnswer, Kept
from stepwell.core.records.model import Failure
from stepwell.core.records.states import ExecutionStatus, RunStatus
from stepwell.engine.clock import StoreTime
from stepwell.engine.entry_order import KnownNumbers, needs_order, out_of_order
from stepwell.engine.groups import Groups
from stepwell.engine.key_types import RunKey
from stepwell.engine.lease_lookup import is_leased, leased_state
from stepwell.engine.runs import Runs
from stepwell.engine.step_journal import StepJournal, entries_of, journal_in, remaining_ms
from stepwell.logger import get_logger

log = get_logger(__name__)

JOURNAL_FULL = "JOURNAL_FULL"
_FULL = Failure(
    kind=JOURNAL_FULL,
    message=(
        f"a step's journal holds {limits.JOURNAL_ENTRIES_MAX:,} entries and "
        f"{limits.JOURNAL_BYTES_MAX:,} bytes of values, messages and failures: divide the step's work among "
        "several tasks, or keep large values elsewhere"
    ),
    retryable=False,
)
JOURNAL_WRITE_LATE = "JOURNAL_WRITE_LATE"
_LATE = (
    "forget_number: is {}, and calls were dropped with a higher one since, so nothing was written; send entries with "
    "that of the last JournalWrite with `forget` that was answered"
)


class NewEntries(NamedTuple):
    """Entries that the worker of a step writes, or calls that it drops or opens."""

    run_id: str
    execution_id: str
    token: str
    entries: Sequence[Entry]
    forget: Sequence[str] = ()
    forget_number: int = 0
    """With `forget`, a number that grows with each such message of the execution; a repetition
    drops nothing. With entries, the number of the last such message that was answered before they
    were sent."""
    opens: Sequence[SuspendedCall] = ()
    """Calls that wait while the step runs, instead of entries."""
    open_number: int = 0
    known: Sequence[str] = ()


Answered = Callable[[JournalAnswer | Exception], None]


class _Written(NamedTuple):
    """Entries on their way to the store."""

    key: RunKey
    one: NewEntries
    refused: dict[int, Failure]
    """Refused entries, by index."""
    bytes: int
    answered: Answered


class _Sums:
    """Sums of everything on its way to the store under one lease."""

    __slots__ = ("bytes", "entries", "writes")

    def __init__(self) -> None:
        self.writes = self.entries = self.bytes = 0


class JournalWriter:
    """Records entries for every run."""

    def __init__(self, store: Store, runs: Runs, runtime: Runtime, clock: StoreTime) -> None:
        self._store = store
        self._runs = runs
        self._runtime = runtime
        self._clock = clock
        self._stats = runs.verdicts.stats
        self._groups: Groups[JournalWrite, JournalAck] = Groups(
            self._keep, runtime, size_max=limits.COMMITS_PER_GROUP_MAX, name="recorder"
        )
        self._under_way: dict[str, _Sums] = {}
        """Sums by lease token."""
        self._numbers = KnownNumbers()

    async def _keep(self, writes: Sequence[JournalWrite]) -> Sequence[JournalAck]:
        # Looked up only here, so that a driver without it can serve steps that record nothing.
        return await self._store.write_journal(writes)

    def close(self) -> None:
        """Accept no more entries; those on their way may end."""
        self._groups.close()

    def write(self, tenant_id: str, one: NewEntries, answered: Answered) -> None:
        """Write entries; later call `answered` once with the result, or an error.

        After StoreUnavailable or OutcomeUnknown the same entries may be sent again.
        """
        key = (tenant_id, one.run_id)
        if self._runs.hold_back(key, partial(self.write, tenant_id, one, answered)):
            return
        if one.opens or one.open_number:
            self._runtime.spawn(self._open(key, one, answered), name="open waits")
            return
        state = self._runs.held(key)
        if one.forget or state is None or not is_leased(state, one.execution_id, one.token):
            self._runtime.spawn(self._find_and_write(key, one, answered), name="find lease")
            return
        attempt = state.open[one.execution_id].execution.attempt
        if out_of_order(one.entries, self._numbers.of(one.token), attempt):
            # This replica's knowledge of the call may be outdated, so the store is read.
            self._runtime.spawn(self._find_and_write(key, one, answered), name="read journal")
            return
        self._write(key, state, one, {}, answered)

    async def _find_and_write(self, key: RunKey, one: NewEntries, answered: Answered) -> None:
        """Write entries under a lease, or after entries, unknown here, or after calls were dropped."""
        try:
            state = await leased_state(self._store, self._runs, key, one.execution_id, one.token)
            if state is not None and one.forget:
                reply = await self._forget(key, state, one)
                if reply.status is ReplyStatus.REFUSED:
                    answered(_refused(one, reply.reason, reply.message))
                    return
                if reply.status is ReplyStatus.LEASE_LOST:
                    state = None
            if state is None:
                await self._answer_lost(key, answered)
            else:
                misplaced = await self._find_misplaced(key, state, one)
                self._write(key, state, one, misplaced, answered)
        except Exception as error:  # noqa: BLE001 - whoever asked waits for an answer
            _answer_error(one, error, answered)

    async def _open(self, key: RunKey, one: NewEntries, answered: Answered) -> None:
        """Open calls that wait while their step runs."""
        opens = Open(
            execution_id=one.execution_id,
            token=one.token,
            number=one.open_number,
            calls=tuple(one.opens),
            known=tuple(one.known),
        )
        try:
            reply = await self._runs.post(key, opens)
        except NotFound:
            reply = LEASE_LOST
        except Exception as error:  # noqa: BLE001 - whoever asked waits for an answer
            _answer_error(one, error, answered)
            return
        if reply.status is ReplyStatus.LEASE_LOST:
            await self._answer_lost(key, answered)
        elif reply.status is ReplyStatus.REFUSED:
            answered(_refused(one, reply.reason, reply.message))
        else:
            answered(JournalAnswer(live=True, children=reply.children))

    async def _find_misplaced(
        self, key: RunKey, state: RunState, one: NewEntries
    ) -> dict[int, Failure]:
        """Return a failure for each entry that doesn't follow the journal's entries, by index."""
        execution = state.open[one.execution_id].execution
        step, attempt = journal_in(state, execution), execution.attempt
        if step is None or not out_of_order(one.entries, self._numbers.of(one.token), attempt):
            return {}
        calls = {entry.key for entry in one.entries if needs_order(entry)}
        found = await entries_of(self._store, key, step, calls)
        for written in found.values():
            self._numbers.add(one.token, [each.entry for each in written])
        return out_of_order(one.entries, self._numbers.of(one.token), attempt)

    async def _forget(self, key: RunKey, state: RunState, one: NewEntries) -> Reply:
        """Drop calls from the journal; return the reply."""
        step = journal_in(state, state.open[one.execution_id].execution)
        if step is None:
            return LEASE_LOST
        found = await entries_of(self._store, key, step, one.forget)
        forget = Forget(
            execution_id=one.execution_id,
            token=one.token,
            number=one.forget_number,
            calls=tuple(found),
            entries=tuple(chain.from_iterable(found.values())),
        )
        try:
            return await self._runs.post(key, forget)
        except NotFound:
            return LEASE_LOST

    def _write(
        self,
        key: RunKey,
        state: RunState,
        one: NewEntries,
        misplaced: dict[int, Failure],
        answered: Answered,
    ) -> None:
        row = state.open.get(one.execution_id)
        step = journal_in(state, row.execution) if row is not None else None
        if row is None or step is None or row.execution.status is not ExecutionStatus.LEASED:
            # The step ended while the store was read, or it has no journal.
            self._runtime.spawn(self._answer_lost(key, answered), name="lost lease")
            return
        sums = self._under_way.get(one.token)
        if sums is None:
            sums = self._under_way[one.token] = _Sums()
        totals = row.recorded
        entries, refused, size = _within_limits(
            one.entries,
            misplaced,
            limits.JOURNAL_ENTRIES_MAX - step.journal.entries - totals.entries - sums.entries,
            limits.JOURNAL_BYTES_MAX - step.journal.bytes - totals.bytes - sums.bytes,
        )
        sums.writes += 1
        sums.entries += len(entries)
        sums.bytes += size
        written = _Written(key, one, refused, size, answered)
        self._groups.post(_write(key, step, one, entries), partial(self._settle, written))

    def _settle(self, written: _Written, answer: JournalAck | Exception) -> None:
        """Report the result of entries, and note the sums of their lease."""
        key, one, refused, size, answered = written
        sums = self._under_way[one.token]
        sums.writes -= 1
        sums.entries -= len(one.entries) - len(refused)
        sums.bytes -= size
        if not sums.writes:
            del self._under_way[one.token]
        if isinstance(answer, Exception):
            _answer_error(one, answer, answered)
            return
        self._clock.observe(answer.now_us)
        if not answer.live:
            self._runtime.spawn(self._answer_lost(key, answered), name="lost lease")
            return
        if answer.late:
            # The calls that a copy of a `forget` would drop are already gone.
            refused_all = _refused(one, JOURNAL_WRITE_LATE, _LATE.format(one.forget_number))
            answered(JournalAnswer(live=True) if one.forget else refused_all)
            return
        self._stats["journal_entries"] += len(answer.written)
        taken = (entry for place, entry in enumerate(one.entries) if place not in refused)
        self._numbers.add(
            one.token, (e for e, kept in zip(taken, answer.written, strict=True) if kept.accepted)
        )
        now_us = answer.now_us
        kept: list[Kept | Failure] = [
            Kept(each.accepted, remaining_ms(each.until_us, now_us)) for each in answer.written
        ]
        for place, failure in sorted(refused.items()):
            kept.insert(place, failure)
        state = self._runs.held(key)
        if state is None:
            answered(JournalAnswer(live=True, entries=kept))
            return
        state.note_recorded(one.execution_id, one.token, answer.totals)
        run = state.run
        if run.budget == NO_BUDGET:
            answered(JournalAnswer(live=True, entries=kept))
            return
        run = budgets.with_open_leases(run, state.open.values())
        answered(
            JournalAnswer(
                live=True,
                entries=kept,
                remaining_budget=budgets.remaining(run, self._clock.now_us()),
                budget_spent=bool(budgets.used_up(run)),
            )
        )

    async def _answer_lost(self, key: RunKey, answered: Answered) -> None:
        """Report that a lease is lost, and count that, because it leaves no event."""
        self._stats["stale_journal_writes"] += 1
        try:
            run = await self._store.get_run(*key)
        except Exception as error:  # noqa: BLE001 - whoever asked waits for an answer
            answered(error)
            return
        cancelled = run is not None and run.status is RunStatus.CANCELLED
        answered(JournalAnswer(live=False, cancelled=cancelled))


def _answer_error(one: NewEntries, error: Exception, answered: Answered) -> None:
    """Report an error after which the same may be sent again; if it would fail again, refuse the entries."""
    if isinstance(error, StepwellError) and not isinstance(error, StoreRefused):
        answered(error)
        return
    if isinstance(error, StoreRefused):
        answered(_refused(one, error.reason, error.message))
    else:
        log.error("entries were not taken", run_id=one.run_id, exc_info=error)
        answered(_refused(one, "INTERNAL", "the server could not take it; its log says why"))


def _refused(one: NewEntries, kind: str, message: str) -> JournalAnswer:
    """Return the answer to entries none of which was taken, or to calls none of which was dropped."""
    failure = Failure(kind=kind, message=message, retryable=False)
    return JournalAnswer(
        live=True,
        entries=[failure] * len(one.entries),
        failure=failure if one.forget or one.open_number else None,
    )


def _write(
    key: RunKey, step: StepJournal, one: NewEntries, entries: Sequence[Entry]
) -> JournalWrite:
    return JournalWrite(
        tenant_id=key[0],
        run_id=key[1],
        execution_id=one.execution_id,
        token=one.token,
        journal=step.name,
        generation=step.journal.generation,
        entries=tuple(entries),
        forget_number=one.forget_number,
    )


def _within_limits(
    entries: Sequence[Entry], misplaced: dict[int, Failure], count: int, room: int
) -> tuple[Sequence[Entry], dict[int, Failure], int]:
    """Return the entries for which a journal has room, a failure for each other entry by index, and their bytes."""
    size = sum(map(entry_bytes, entries))
    if not misplaced and len(entries) <= count and size <= room:
        return entries, {}, size
    kept: list[Entry] = []
    refused = dict(misplaced)
    size = 0
    for place, one in enumerate(entries):
        if place in misplaced:
            continue
        own = entry_bytes(one)
        if len(kept) < count and size + own <= room:
            kept.append(one)
            size += own
        else:
            refused[place] = _FULL
    return kept, refused, size
