"""Suspect steps: each gets its own worker, which holds nothing else while it does the step.

A step is no longer suspect once the workers that it was lost with are connected again: any worker
may then get it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from stepwell.core.loop.leases import SUSPECT
from stepwell.core.loop.transition import Reply, ReplyStatus
from stepwell.core.port import LeaseQuery, ReadyStep, Runtime, Store
from stepwell.core.records.errors import StepwellError, StoreError
from stepwell.core.records.states import ExecutionStatus
from stepwell.engine.key_types import LeaseKey, RunKey
from stepwell.engine.runs import Runs
from stepwell.engine.worker_deaths import Deaths
from stepwell.engine.workers import WorkerConnection, Workers
from stepwell.logger import get_logger

log = get_logger(__name__)


class SuspectSteps:
    """Keeps workers for suspect steps: such a worker finishes its steps, does the suspect one, and is free again."""

    def __init__(
        self,
        store: Store,
        runs: Runs,
        workers: Workers,
        deaths: Deaths,
        runtime: Runtime,
        *,
        poll_ms: int,
    ) -> None:
        self._store = store
        self._runs = runs
        self._workers = workers
        self._deaths = deaths
        self._runtime = runtime
        self._poll_s = poll_ms / 1_000
        self._steps: set[LeaseKey] = set()

    def place(self, step: ReadyStep, connections: Sequence[WorkerConnection], queue: str) -> None:
        """Give the step to the least busy worker, once that has finished its other steps.

        If each is kept for another suspect step, nothing happens, because a later claim returns the
        step again.
        """
        lease = (step.run_id, step.execution_id)
        free = [one for one in connections if not one.closed and one.kept_for is None]
        if lease in self._steps or not free:
            return
        connection = min(free, key=lambda one: len(one.leases))
        self._workers.keep(connection, lease)
        self._steps.add(lease)
        self._runtime.spawn(self._do_alone(step, connection, queue), name="suspect step")

    async def _do_alone(self, step: ReadyStep, connection: WorkerConnection, queue: str) -> None:
        key = (step.tenant_id, step.run_id)
        try:
            while not connection.closed and self._is(key, step, ExecutionStatus.READY):
                if connection.credits:
                    alone = not await self._held_by(connection)
                    reply = await self._grant(key, step, connection, queue, alone=alone)
                    if reply.reason != SUSPECT:
                        if alone and reply.status is ReplyStatus.ACCEPTED:
                            await self._end_of(key, step, connection)
                        return
                await self._runtime.sleep(self._poll_s)
        finally:
            self._steps.discard((step.run_id, step.execution_id))
            self._workers.let_go(connection)

    async def _grant(
        self, key: RunKey, step: ReadyStep, connection: WorkerConnection, queue: str, *, alone: bool
    ) -> Reply:
        connected: frozenset[str] | None = None
        with suppress(StoreError):
            connected = await self._deaths.connected(key[0])
        grant = self._workers.grant_claimed(
            connection,
            key,
            step.execution_id,
            queue,
            alone=alone,
            connected=connected or frozenset(),
        )
        if grant is None:
            return Reply(status=ReplyStatus.REFUSED, reason=SUSPECT)
        uncertain = True
        try:
            reply = await self._runs.post(key, grant)
            uncertain = False
        except StepwellError as error:
            log.warning("a suspect step could not be leased", run_id=key[1], error=error.message)
            return Reply(status=ReplyStatus.REFUSED)
        else:
            return reply
        finally:
            self._workers.return_grants([grant.token], uncertain=uncertain)

    async def _end_of(self, key: RunKey, step: ReadyStep, connection: WorkerConnection) -> None:
        """Wait until the worker no longer holds the step, or its outcome became unknown."""
        lease = (step.run_id, step.execution_id)
        while not connection.closed and self._is(key, step, ExecutionStatus.LEASED):
            if lease not in await self._held_by(connection):
                return
            await self._runtime.sleep(self._poll_s)

    async def _held_by(self, connection: WorkerConnection) -> frozenset[LeaseKey]:
        """Return the leases that a worker holds in the store, and those being granted to it.

        Leases of the worker's earlier instances don't count: the present one has ended them, and they
        may stay for as long as it takes to find out whether their steps are poison.
        """
        presence = connection.port.presence
        query = LeaseQuery(tenant_id=presence.tenant_id, worker_id=presence.worker_id)
        try:
            leases = (await self._store.page(query)).items
        except StoreError:
            return frozenset(connection.leases) | {("", "it can't be told")}
        own = [one for one in leases if one.instance_id == presence.instance_id]
        held = frozenset((one.run_id, one.execution_id) for one in own)
        return held | {("", "granted")} if self._workers.is_being_granted(connection) else held

    def _is(self, key: RunKey, step: ReadyStep, status: ExecutionStatus) -> bool:
        """Return whether the execution has this status, as far as this replica knows."""
        state = self._runs.held(key)
        row = state.open.get(step.execution_id) if state is not None else None
        return state is None or (row is not None and row.execution.status is status)
