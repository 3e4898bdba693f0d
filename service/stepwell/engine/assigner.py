"""Sends assignments of committed leases to their workers, filled with the bytes they need."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from stepwell.core.loop.occurrences import Failed, Released
from stepwell.core.loop.state import RunState
from stepwell.core.loop.transition import Transition
from stepwell.core.port import Assignment, Commit, JournalPage, Runtime, Store
from stepwell.core.records import limits
from stepwell.core.records.errors import StoreError
from stepwell.core.records.family import Signals
from stepwell.core.records.model import Execution, Failure, Message, Payload
from stepwell.core.records.states import ExecutionStatus
from stepwell.engine import assignments, conversations
from stepwell.engine.answers import with_answer
from stepwell.engine.clock import StoreTime
from stepwell.engine.key_types import RunKey
from stepwell.engine.payloads import PayloadCache, Place
from stepwell.engine.step_journal import (
    StepJournal,
    is_same,
    journal_in,
    read_page,
    shown_signals,
    with_written,
)
from stepwell.engine.workers import WorkerConnection, Workers
from stepwell.logger import get_logger

log = get_logger(__name__)


class Ahead(NamedTuple):
    """A step's journal that is read while the commit that leases the step is made."""

    journal: StepJournal
    """As it is before the commit."""
    commit: Commit
    page: asyncio.Task[JournalPage | None]


class Unfilled(NamedTuple):
    """An assignment whose bytes must be read from the store first."""

    connection: WorkerConnection
    assignment: Assignment
    journal: StepJournal | None
    """The step's journal; None if it is empty."""
    leased_us: int
    """The time of the lease, from which the rest of each sleep is computed, so that none is too short."""
    signals: Signals | None
    """The signals that the run keeps, if the step is shown any."""
    ahead: Ahead | None


class Undelivered(NamedTuple):
    """An assignment that can't be sent, and the end of its lease."""

    assignment: Assignment
    end: Released | Failed


class Unsent(NamedTuple):
    """The assignments of a commit that could not be sent at once."""

    undelivered: Sequence[Undelivered]
    unfilled: Sequence[Unfilled]


class Assigner:
    """Sends assignments and cancellations to the connected workers after each commit."""

    def __init__(
        self,
        store: Store,
        workers: Workers,
        payloads: PayloadCache,
        runtime: Runtime,
        clock: StoreTime,
        *,
        retry_pause_ms: int,
    ) -> None:
        self._store = store
        self._workers = workers
        self.payloads = payloads
        self._runtime = runtime
        self._clock = clock
        self._retry_pause_ms = retry_pause_ms

    def read_ahead(self, key: RunKey, state: RunState, commit: Commit) -> Mapping[str, Ahead]:
        """Begin to read the journals of steps that a commit is to lease; return the reads by execution.

        `state` is the one that the commit was decided on. A journal that an attempt may still write is left out.
        """
        executions = {one.execution_id: one for one in commit.executions}
        found: dict[str, Ahead] = {}
        for lease in commit.leases:
            execution = executions[lease.execution_id]
            if execution.task_id and execution.task_id not in state.tasks:
                continue
            step = journal_in(state, execution)
            if step is None or step.journal.is_empty or _may_change(state, execution, step, commit):
                continue
            reading = self._read_ahead(key, step, execution.leased_us)
            page = self._runtime.spawn(reading, name="read ahead")
            found[lease.execution_id] = Ahead(step, commit, page)
        return found

    async def _read_ahead(
        self, key: RunKey, step: StepJournal, leased_us: int
    ) -> JournalPage | None:
        try:
            return await read_page(self._store, key, step, "", leased_us, begins=True)
        except StoreError:
            return None

    def committed(
        self,
        key: RunKey,
        state: RunState,
        transition: Transition,
        ahead: Mapping[str, Ahead],
    ) -> Unsent:
        """Send the assignments of a committed transition, and notify workers of revoked leases and ended calls.

        `state` has the transition's commit applied; `ahead` has what was read for it.
        """
        undelivered: list[Undelivered] = []
        unfilled: list[Unfilled] = []
        assert transition.commit is not None
        self.payloads.keep(transition.commit)
        for lease in transition.commit.leases:
            connection = self._workers.committed_grant(lease.token)
            assignment = assignments.outline(state, lease)
            if connection is None:
                undelivered.append(Undelivered(assignment, _NOT_SENT))
                continue
            connection.leases[key[1], lease.execution_id] = lease.token
            places = assignments.places_of(assignment)
            payloads = self.payloads.cached(key[0], places, limits.INLINE_RESULTS_BYTES_MAX)
            journal, leased_us = None, 0
            if assignment.tries_from:
                execution = state.open[lease.execution_id].execution
                journal, leased_us = journal_in(state, execution), execution.leased_us
            signals = (
                state.run.signals if assignments.shows_signals(state.run, assignment) else None
            )
            if (
                payloads is None
                or assignment.conversation
                or assignment.answered is not None
                or journal is not None
                or signals is not None
            ):
                read = ahead.get(lease.execution_id)
                if read is not None and (journal is None or not is_same(journal, read.journal)):
                    read = None  # The commit begins another generation.
                unfilled.append(Unfilled(connection, assignment, journal, leased_us, signals, read))
            elif unsent := self._send(connection, assignment, payloads):
                undelivered.append(unsent)
        self._workers.apply(key, transition.commit)
        for revoked in transition.revoked:
            connection = self._workers.find(key[0], revoked.worker_id)
            if connection is not None:
                connection.port.cancel(revoked.execution_id, key[1], revoked.reason)
        for ended in transition.ended_calls:
            connection = self._workers.find(key[0], ended.worker_id)
            if connection is not None:
                connection.port.ended(ended.execution_id, key[1], ended.entry)
        return Unsent(undelivered, unfilled)

    async def fill(self, key: RunKey, unfilled: Unfilled) -> Undelivered | None:
        """Read an assignment's bytes and send it; returns it if it can't be sent."""
        connection, assignment, journal, leased_us, signals, ahead = unfilled
        page: JournalPage | None = None
        try:
            places = assignments.places_of(assignment)
            payloads = await self.payloads.get(key[0], places, limits.INLINE_RESULTS_BYTES_MAX)
            messages = await conversations.read_for(self._store, *key, assignment)
            assignment = await with_answer(self._store, assignment)
            if ahead is not None and (page := await ahead.page) is not None:
                page = with_written(page, ahead.journal, ahead.commit)
            elif journal is not None:
                page = await read_page(self._store, key, journal, "", leased_us, begins=True)
            if signals is not None:
                shown = await shown_signals(self._store, key, signals.shown)
                more = signals.kept > len(shown)
                assignment = replace(assignment, signals=shown, more_signals=more)
        except StoreError as error:
            log.warning("a lease could not be filled", run_id=key[1], error=error.message)
            # Released at once it would be leased again at once, with a store that has trouble
            # already.
            await self._runtime.sleep(self._retry_pause_ms / 1_000)
            self._workers.return_credit(connection)
            return Undelivered(assignment, _NOT_SENT)
        if connection.closed:
            return Undelivered(assignment, _NOT_SENT)
        name = (key[1], assignment.execution.execution_id)
        if connection.leases.get(name) != assignment.token:
            # The lease ended while the bytes were read.
            self._workers.return_credit(connection)
            return None
        return self._send(connection, assignment, payloads, messages, page)

    def _send(
        self,
        connection: WorkerConnection,
        assignment: Assignment,
        payloads: Mapping[Place, Payload | None],
        messages: Sequence[Message] = (),
        journal: JournalPage | None = None,
    ) -> Undelivered | None:
        """Send an assignment with its bytes; return it if it is too large for any message."""
        filled = assignments.fill(assignment, payloads, messages, journal)
        if filled is not None:
            connection.port.assign(filled)
            return None
        run_id, execution_id = assignment.run.run_id, assignment.execution.execution_id
        log.warning("an assignment is too large", run_id=run_id, execution_id=execution_id)
        self._workers.return_credit(connection)
        return Undelivered(assignment, _TOO_LARGE)


def _may_change(state: RunState, execution: Execution, step: StepJournal, commit: Commit) -> bool:
    """Return whether more than a commit's entries may be new in the journal of a step that it leases."""
    if any(one.journal == step.name for one in commit.forgotten):
        return True
    of_step = execution.task_id, execution.kind
    return any(
        (one.execution.task_id, one.execution.kind) == of_step
        and one.execution.status is not ExecutionStatus.READY
        for one in state.open.values()
    )


_NOT_SENT = Released(reason="it could not be delivered")
_TOO_LARGE = Failed(
    failure=Failure(
        kind=assignments.TOO_LARGE,
        message=(
            "goal, prompt, inputs, dependencies and what the attempts before left have more than "
            f"{assignments.ASSIGNMENT_BYTES_MAX:,} bytes together: no message may be larger. Keep "
            "large things elsewhere and pass on where they are."
        ),
        retryable=False,
    )
)
