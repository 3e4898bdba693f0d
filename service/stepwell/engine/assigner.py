"""Sends assignments of committed leases to their workers, filled with the bytes they need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import structlog

from stepwell.core.loop.state import RunState
from stepwell.core.loop.transition import Transition
from stepwell.core.port import Assignment, Runtime, Store
from stepwell.core.records.errors import StoreError
from stepwell.engine import assignments, conversations
from stepwell.engine.answered import with_answer
from stepwell.engine.clock import StoreTime
from stepwell.engine.names import RunKey
from stepwell.engine.payloads import PayloadCache
from stepwell.engine.workers import WorkerConnection, Workers

log = structlog.get_logger(__name__)


class Unfilled(NamedTuple):
    """An assignment whose bytes must be read from the store first."""

    connection: WorkerConnection
    assignment: Assignment


class Unsent(NamedTuple):
    """The assignments of a commit that could not be sent at once."""

    undeliverable: Sequence[Assignment]
    """Their workers are gone: the leases must be released."""
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
        self._payloads = payloads
        self._runtime = runtime
        self._clock = clock
        self._retry_pause_ms = retry_pause_ms

    def committed(self, key: RunKey, state: RunState, transition: Transition) -> Unsent:
        """Send the assignments of a committed transition, and notify workers of revoked leases.

        `state` has the transition's commit applied.
        """
        undeliverable: list[Assignment] = []
        unfilled: list[Unfilled] = []
        assert transition.commit is not None
        self._payloads.keep(transition.commit)
        for lease in transition.commit.leases:
            connection = self._workers.committed_grant(lease.token)
            assignment = assignments.outline(state, lease, now_us=self._clock.now_us())
            if connection is None:
                undeliverable.append(assignment)
                continue
            connection.leases[key[1], lease.execution_id] = lease.token
            payloads = self._payloads.cached(key[0], assignments.places_of(assignment))
            plain = not assignment.conversation and assignment.answered is None
            if payloads is not None and plain:
                connection.port.assign(assignments.fill(assignment, payloads))
            else:
                unfilled.append(Unfilled(connection, assignment))
        self._workers.apply(key, transition.commit)
        for revoked in transition.revoked:
            connection = self._workers.find(key[0], revoked.worker_id)
            if connection is not None:
                connection.port.cancel(revoked.execution_id, key[1], revoked.reason)
        return Unsent(undeliverable, unfilled)

    async def fill(self, key: RunKey, unfilled: Unfilled) -> bool:
        """Read an assignment's bytes and send it; False: its lease must be released."""
        connection, assignment = unfilled
        try:
            payloads = await self._payloads.get(key[0], assignments.places_of(assignment))
            messages = await conversations.read_for(self._store, *key, assignment)
            assignment = await with_answer(self._store, assignment)
        except StoreError as error:
            log.warning("a lease could not be filled", run_id=key[1], error=error.message)
            # Released at once it would be leased again at once, and the store is in trouble already.
            await self._runtime.sleep(self._retry_pause_ms / 1_000)
            # The worker never receives the assignment, so it will not grant this credit again.
            self._workers.credit(connection, 1)
            return False
        if connection.closed:
            return False
        name = (key[1], assignment.execution.execution_id)
        if connection.leases.get(name) != assignment.token:
            # The lease ended while the bytes were read; its worker will not grant this credit again.
            self._workers.credit(connection, 1)
        else:
            connection.port.assign(assignments.fill(assignment, payloads, messages))
        return True
