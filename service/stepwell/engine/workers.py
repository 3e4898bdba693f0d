"""Workers connected to this replica: their credits, and the leases granted to them."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import islice

from msgspec.structs import replace

from stepwell.core.loop.context import FreeWorker, Grants
from stepwell.core.loop.occurrences import GrantLease
from stepwell.core.loop.transition import Transition
from stepwell.core.port import Commit, Presence, Runtime, WorkerPort
from stepwell.core.records import limits
from stepwell.core.records.model import Execution, RunSpec
from stepwell.core.records.states import ExecutionStatus
from stepwell.engine.demand import Demand
from stepwell.engine.key_types import LeaseKey, QueueKey, RunKey
from stepwell.engine.slots import QueueSlots

_NO_GRANTS = Grants()
_TOKENS_READY = 64
"""The number of tokens for which a decision needs no count of the free credits."""
LAPSED_MAX = 1_000
"""The number of instances whose lapses are remembered."""
REST_SECONDS_MAX = 60.0
_OUTCOMES = frozenset(
    {
        ExecutionStatus.COMPLETED,
        ExecutionStatus.FAILED,
        ExecutionStatus.NEEDS_ANSWER,
        ExecutionStatus.SUSPENDED,
    }
)


class WorkerConnection:
    """A worker that is connected to this replica."""

    __slots__ = (
        "_described",
        "closed",
        "connected_us",
        "credits",
        "drains",
        "input_schema",
        "kept_for",
        "lapses",
        "leases",
        "port",
        "rests",
    )

    def __init__(self, port: WorkerPort, *, connected_us: int, input_schema: str = "") -> None:
        self.port = port
        self.connected_us = connected_us
        self.input_schema = input_schema
        presence = port.presence
        self._described = FreeWorker(
            worker_id=presence.worker_id,
            instance_id=presence.instance_id,
            kinds=presence.kinds,
            tasks=presence.tasks,
            version=presence.version,
            stages=port.stages,
        )
        self.credits = 0
        """The number of steps that it may be assigned now."""
        self.leases: dict[LeaseKey, str] = {}
        """The tokens of the leases that were assigned to it here."""
        self.kept_for: LeaseKey | None = None
        """The suspect step that it is kept for; it gets no other step."""
        self.lapses = 0
        """The number of times in a row that it let leases expire; its first outcome resets that."""
        self.rests = False
        """True if it just let leases expire, so that it gets none for a while."""
        self.drains = False
        """True if its credits are revoked for good."""
        self.closed = False

    @property
    def is_free(self) -> bool:
        """True if it may be assigned a step now."""
        may = not (self.closed or self.drains or self.rests)
        return may and self.credits > 0 and self.kept_for is None

    @property
    def presence(self) -> Presence:
        """Its current presence."""
        return replace(
            self.port.presence,
            credits=self.credits,
            connected_us=self.connected_us,
            draining=self.drains,
            lapses=self.lapses,
        )

    @property
    def name(self) -> tuple[str, str, str]:
        """Its tenant, worker and instance."""
        presence = self.port.presence
        return presence.tenant_id, presence.worker_id, presence.instance_id

    @property
    def tenant_id(self) -> str:
        """The tenant whose steps it takes."""
        return self.port.presence.tenant_id

    @property
    def worker_id(self) -> str:
        """Its worker's id, which is unique within the tenant."""
        return self.port.presence.worker_id

    def as_free(self) -> FreeWorker:
        """Return its description for a decision."""
        return replace(self._described, credits=self.credits)


class Workers:
    """The connected workers. Decisions grant them leases; a commit makes a grant final."""

    def __init__(self, runtime: Runtime, demand: Demand, slots: QueueSlots) -> None:
        self._runtime = runtime
        self._demand = demand
        self._slots = slots
        self._connections: dict[tuple[str, str], WorkerConnection] = {}
        """The connected workers by tenant and id; ids are unique within a tenant only."""
        self._free: dict[QueueKey, dict[WorkerConnection, FreeWorker]] = {}
        """Workers with credits by queue, in the order of their turns."""
        self._tokens: deque[str] = deque()
        """Unused tokens. A token that a decision uses is removed."""
        self._granted: dict[str, WorkerConnection] = {}
        """Grants whose commit is not decided yet, by token."""
        self._lapsed: dict[tuple[str, str, str], int] = {}
        """Lapses of instances, by name, which a reconnect doesn't reset."""
        self._stopping = False

    # --- connections --------------------------------------------------------------------------------

    @property
    def connections(self) -> Sequence[WorkerConnection]:
        """The connected workers, oldest connection first."""
        return tuple(self._connections.values())

    def add(self, connection: WorkerConnection) -> None:
        """Begin to grant leases to a worker."""
        connection.lapses = self._lapsed.get(connection.name, 0)
        self._connections[connection.tenant_id, connection.worker_id] = connection
        self._update_free(connection)

    def remove(self, connection: WorkerConnection) -> None:
        """Grant a worker no more leases; it keeps its leases until they end."""
        connection.closed = True
        if self.find(connection.tenant_id, connection.worker_id) is connection:
            del self._connections[connection.tenant_id, connection.worker_id]
        self._update_free(connection)

    def find(self, tenant_id: str, worker_id: str) -> WorkerConnection | None:
        """Return the connection of a tenant's worker, or None if it isn't connected here."""
        return self._connections.get((tenant_id, worker_id))

    def credit(self, connection: WorkerConnection, count: int) -> None:
        """Add to the number of steps that a worker may be assigned, without a claim for it."""
        connection.credits = min(connection.credits + count, limits.CREDITS_MAX)
        self._update_free(connection)

    def claim_for_free(self) -> None:
        """Claim at once if a worker is free then, and READY steps may be waiting."""
        self._demand.worker_is_free()

    @property
    def any_free(self) -> bool:
        """True if a step may be leased to some worker now."""
        return bool(self._free)

    def return_credit(self, connection: WorkerConnection) -> None:
        """Return the credit of an assignment that its worker never receives: it won't grant it again."""
        self.credit(connection, 1)
        self.claim_for_free()

    def revoke_credits(self, connection: WorkerConnection) -> None:
        """Grant a draining worker no more leases."""
        connection.drains = True
        self._update_free(connection)

    def lapsed(self, name: tuple[str, str, str]) -> None:
        """Note that a worker instance let leases expire.

        For a while, longer each time, it gets no steps; then it comes after all other workers.
        """
        connection = self.find(*name[:2])
        if connection is None or connection.name != name or connection.rests:
            return
        connection.lapses += 1
        connection.rests = True
        if len(self._lapsed) >= LAPSED_MAX:
            self._lapsed.clear()
        self._lapsed[name] = connection.lapses
        self._update_free(connection)
        self._runtime.spawn(self._rest(connection, connection.lapses), name="rest")

    async def _rest(self, connection: WorkerConnection, lapses: int) -> None:
        await self._runtime.sleep(min(2.0 ** (lapses - 1), REST_SECONDS_MAX))
        if connection.lapses == lapses:
            self._end_rest(connection)

    def _end_rest(self, connection: WorkerConnection) -> None:
        if connection.rests:
            connection.rests = False
            self._update_free(connection)
            self._demand.wake()

    def keep(self, connection: WorkerConnection, step: LeaseKey) -> None:
        """Give a worker no step other than this suspect one."""
        connection.kept_for = step
        self._update_free(connection)

    def let_go(self, connection: WorkerConnection) -> None:
        """Give a worker steps again that was kept for a suspect one."""
        connection.kept_for = None
        self._update_free(connection)
        self._demand.wake()

    def is_being_granted(self, connection: WorkerConnection) -> bool:
        """Return whether a grant to this worker is not committed yet."""
        return connection in self._granted.values()

    def stop(self) -> None:
        """Stop granting."""
        self._stopping = True

    def _update_free(self, connection: WorkerConnection, *, had_its_turn: bool = False) -> None:
        free = connection.as_free() if connection.is_free else None
        for name in connection.port.presence.queues:
            queue = self._free.setdefault((connection.tenant_id, name), {})
            if free is None or had_its_turn:
                queue.pop(connection, None)
            if free is not None:
                queue[connection] = free
            elif not queue:
                del self._free[connection.tenant_id, name]

    # --- grants -------------------------------------------------------------------------------------

    def grants(self, spec: RunSpec, kept: int) -> Grants:
        """Return the leases that a decision on a run of this spec may grant now.

        `kept` is the number of leases that it may grant even if other steps have waited for longer.
        """
        queue = (spec.tenant_id, spec.queue)
        free = self._free.get(queue)
        if self._stopping or not free:
            return _NO_GRANTS
        needed = spec.max_parallel
        limit = self._slots.limit(spec.queue)
        if limit and not self._slots.may_keep(queue):
            return _NO_GRANTS
        if self._demand.overtaken_too_long(queue):
            if not kept:
                return _NO_GRANTS
            needed = min(needed, kept)
        workers = tuple(free.values())
        if self._lapsed:
            workers = tuple([free[one] for one in sorted(free, key=_by_lapses)])
        if needed > _TOKENS_READY:
            needed = min(needed, sum(worker.credits for worker in workers))
        while len(self._tokens) < needed:
            self._tokens.append(self._runtime.new_token())
        tokens = tuple(islice(self._tokens, needed))
        return Grants(workers=workers, tokens=tokens, limit=limit)

    def reserve(self, transition: Transition) -> list[str]:
        """Reserve credits for the leases that a decision granted; return their tokens.

        Steps that stay READY are left to the claim.
        """
        spec, tokens = transition.run.spec, list[str]()
        leases = transition.commit.leases if transition.commit is not None else ()
        for lease in leases:
            ready = self._tokens[0] if self._tokens else ""
            if not ready or (lease.token != ready and lease.token.partition("@")[0] != ready):
                continue  # Granted by a claim, and so reserved already.
            self._tokens.popleft()
            connection = self.find(spec.tenant_id, lease.worker_id)
            assert connection is not None, "a decision grants leases to connected workers only"
            self._take_credit(connection, lease.token)
            tokens.append(lease.token)
        if transition.offered and not self._stopping:
            queue = (spec.tenant_id, spec.queue)
            if queue in self._free and self._demand.overtaken_too_long(queue):
                self._demand.wake()
            else:
                self._demand.step_waits(queue)
        return tokens

    def grant_claimed(
        self,
        connection: WorkerConnection,
        key: RunKey,
        execution_id: str,
        queue: str,
        *,
        alone: bool = False,
        connected: frozenset[str] = frozenset(),
    ) -> GrantLease | None:
        """Reserve a worker's credit for a claimed step; return the occurrence that leases it.

        None: the queue is limited, and no slot of it seems free.

        `alone` says that the worker holds nothing else and is kept for this step. `connected` has
        the connected instances if the step is suspect.
        """
        token: str | None = self._runtime.new_token()
        if self._slots.limit(queue):
            token = self._slots.pick((key[0], queue), token)
        if token is None:
            return None
        self._take_credit(connection, token)
        presence = connection.port.presence
        return GrantLease(
            execution_id=execution_id,
            token=token,
            worker_id=presence.worker_id,
            instance_id=presence.instance_id,
            stages=connection.port.stages,
            alone=alone,
            connected=connected,
        )

    def _take_credit(self, connection: WorkerConnection, token: str) -> None:
        connection.credits -= 1
        self._granted[token] = connection
        self._update_free(connection, had_its_turn=True)

    def return_grants(self, tokens: Sequence[str], *, uncertain: bool = False) -> None:
        """Return the credits of grants that were not committed; `uncertain`: they may have been."""
        for token in tokens:
            connection = self._granted.pop(token, None)
            if connection is not None:
                connection.credits += 1
                self._update_free(connection)
            self._slots.give_back(token, uncertain=uncertain)

    def committed_grant(self, token: str) -> WorkerConnection | None:
        """Make a grant final; return its worker, or None if that isn't connected here."""
        self._slots.committed(token)
        connection = self._granted.pop(token, None)
        return None if connection is None or connection.closed else connection

    def apply(self, key: RunKey, commit: Commit) -> None:
        """Drop the leases that a commit ended; claim again when something that it wrote is due."""
        due_ms = self._due_ms(key, commit)
        if due_ms >= 0:
            self._demand.due_in(due_ms)
        for execution in commit.executions:
            if execution.worker_id and execution.ended_us:
                self._drop_lease(key, execution)

    def _due_ms(self, key: RunKey, commit: Commit) -> int:
        """Return the milliseconds until the first item that a commit wrote is due; -1: none.

        A step that can be leased at once, but for which no worker is free here, is claimed when one
        becomes free.
        """
        due = [min(one.lease_ms, one.limit_ms or one.lease_ms) for one in commit.leases]
        if commit.timers:
            due += [one.delay_ms for one in commit.timers if one.delay_ms >= 0]
        ready = ExecutionStatus.READY
        for one in commit.executions:
            if one.status is ready and (
                one.delay_ms or (key[0], commit.run.spec.queue) in self._free
            ):
                due.append(one.delay_ms)
        return min(due) if due else -1

    def _drop_lease(self, key: RunKey, execution: Execution) -> None:
        connection = self.find(key[0], execution.worker_id)
        if connection is not None:
            connection.leases.pop((key[1], execution.execution_id), None)
            if connection.lapses and execution.status in _OUTCOMES:
                connection.lapses = 0
                self._lapsed.pop(connection.name, None)
                self._end_rest(connection)


def _by_lapses(connection: WorkerConnection) -> int:
    return connection.lapses
