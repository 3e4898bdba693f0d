"""Who does the next step: workers and their credits, eager leases, and the claim.

An eager lease is given in the commit that makes its step ready, because a worker is connected here
with a free credit. Everything else is found by the claim: steps that nobody was free for, steps that
other replicas made ready, expired leases and timers. There is no other scan.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

import structlog

from stepwell.core.loop.signals import (
    Delivery,
    GrantLease,
    Released,
    Reply,
    Signal,
    TimerDue,
    Transition,
)
from stepwell.core.loop.state import RunState
from stepwell.core.port import (
    ANY_ROLE,
    Assignment,
    ClaimRequest,
    Due,
    ReadyStep,
    Runtime,
    Store,
    Want,
    WorkerPort,
)
from stepwell.core.records import limits
from stepwell.core.records.errors import StepwellError, StoreError
from stepwell.core.records.model import Execution
from stepwell.core.records.states import DueKind, ExecutionStatus
from stepwell.engine import assignments, conversations
from stepwell.engine.answered import with_answer
from stepwell.engine.clock import StoreTime
from stepwell.engine.last_heartbeat import expired_of
from stepwell.engine.payloads import PayloadCache
from stepwell.engine.runs import RunKey, Runs
from stepwell.engine.shares import LeaseKey, QueueShares

log = structlog.get_logger(__name__)

HINT_PAUSE_SECONDS = 0.01
"""After a claim that found nothing, hints alone cause no other one for so long, and after each more for
twice as long: where several replicas work on a run, each commit of one is a hint to all."""
HINT_PAUSE_SECONDS_MAX = 0.08


class Timing(NamedTuple):
    """How patient the dispatcher is."""

    poll_ms: int = 1_000
    """The longest time between two claims; hints and due times make it shorter."""
    hold_ms: int = 2_000
    stickiness_ms: int = 100
    """How long eager leases may overtake older ready steps."""


class WorkerConnection:
    """A worker that is connected to this replica."""

    __slots__ = ("closed", "credits", "holds", "port")

    def __init__(self, port: WorkerPort) -> None:
        self.port = port
        self.credits = 0
        self.holds: dict[tuple[str, str], str] = {}
        """(run_id, execution_id) -> token, of what it was handed here."""
        self.closed = False

    @property
    def tenant_id(self) -> str:
        return self.port.presence.tenant_id

    def takes(self, queue: str, execution: Execution) -> bool:
        """Tell whether it serves this queue, kind and role, and has a credit left."""
        presence = self.port.presence
        return (
            self.credits > 0
            and not self.closed
            and queue in presence.queues
            and execution.kind in presence.kinds
            and (
                not execution.role or execution.role in presence.roles or ANY_ROLE in presence.roles
            )
        )


class Dispatcher:
    """Gives leases out: the `Hands` of `Runs`."""

    def __init__(
        self,
        store: Store,
        runs: Runs,
        payloads: PayloadCache,
        runtime: Runtime,
        clock: StoreTime,
        timing: Timing,
        shares: QueueShares,
    ) -> None:
        self._store = store
        self._runs = runs
        self._payloads = payloads
        self._runtime = runtime
        self._clock = clock
        self._timing = timing
        self._shares = shares
        self._limited: dict[str, tuple[str, str, LeaseKey]] = {}
        """By token: what was granted of limited queues and isn't committed yet."""
        self._sessions: list[WorkerConnection] = []
        self._granted: dict[str, WorkerConnection] = {}
        self._backlog: dict[tuple[str, str], float] = {}
        self._wake = asyncio.Event()
        self._more_ready = True
        self._stopping = False
        self._turn = 0
        self._trouble = ""
        self._hinted = False
        self._hints_count_from = 0.0
        self._hint_pause_s = HINT_PAUSE_SECONDS

    # --- workers ----------------------------------------------------------------------------------

    @property
    def sessions(self) -> Sequence[WorkerConnection]:
        """The workers connected here."""
        return self._sessions

    def add(self, session: WorkerConnection) -> None:
        """Begin to give leases to a worker."""
        self._sessions.append(session)

    def remove(self, session: WorkerConnection) -> None:
        """Give it no more; what it holds stays its own until the lease ends."""
        session.closed = True
        if session in self._sessions:
            self._sessions.remove(session)

    def credit(self, session: WorkerConnection, count: int) -> None:
        """Note that a worker has room for `count` more steps."""
        session.credits = min(session.credits + count, limits.CREDITS_MAX)
        if self._more_ready:
            self._wake.set()

    def stop(self) -> None:
        """Give out nothing any more."""
        self._stopping = True
        self._wake.set()

    def wake(self) -> None:
        """Look at what is due now: something may have changed that this replica did not do."""
        self._more_ready = True
        self._wake.set()

    def hint(self, tenant_id: str, run_id: str, version: int) -> None:
        """Take a hint of the store; what this replica did itself is no reason to look."""
        if self._runs.is_news((tenant_id, run_id), version):
            self._hinted = True
            self._more_ready = True
            if self._runtime.monotonic() >= self._hints_count_from:
                self._wake.set()

    # --- eager leases: the Hands of Runs ------------------------------------------------------------

    def grant(self, transition: Transition) -> list[GrantLease]:
        """Return eager leases for what this transition offers."""
        spec = transition.run.spec
        queue = (spec.tenant_id, spec.queue)
        if self._stopping:
            return []
        if self._overtakes_too_long(queue):
            self._more_ready = True
            self._wake.set()
            return []
        offered = {e.execution_id: e for e in transition.executions}
        takes: list[GrantLease] = []
        limited = self._shares.limits(spec.queue)
        room = self._room(transition) if limited else 1
        for execution_id in transition.offered:
            session = None
            if room:
                session = self._free_for(spec.tenant_id, spec.queue, offered[execution_id])
            if session is None:
                self._more_ready = True
                self._backlog.setdefault(queue, self._runtime.monotonic())
                continue
            take = self._take(session, execution_id)
            if limited:
                room -= 1
                self._take_share(take, spec.tenant_id, spec.queue, spec.run_id)
            takes.append(take)
        return takes

    def _room(self, transition: Transition) -> int:
        """Return how many leases its limited queue has room for, those that end with it counted."""
        spec = transition.run.spec
        ending = sum(
            self._shares.has(spec.tenant_id, spec.queue, (spec.run_id, one.execution_id))
            for one in transition.executions
            if one.ended_us
        )
        return self._shares.room(spec.tenant_id, spec.queue) + ending

    def _take_share(self, take: GrantLease, tenant_id: str, queue: str, run_id: str) -> None:
        lease = (run_id, take.execution_id)
        self._limited[take.token] = (tenant_id, queue, lease)
        self._shares.take(tenant_id, queue, lease)

    def committed(self, key: RunKey, state: RunState, transition: Transition) -> None:
        """Hand out what was leased; tell workers of what was revoked."""
        self._payloads.keep(*key, transition)
        for lease in transition.leases:
            session = self._granted.pop(lease.token, None)
            self._limited.pop(lease.token, None)
            assignment = assignments.outline(state, lease, now_us=self._clock.now_us())
            if session is None or session.closed:
                self._give_back(key, assignment)
                continue
            session.holds[key[1], lease.execution_id] = lease.token
            found = self._payloads.at_hand(key[0], assignments.places_of(assignment))
            plain = not assignment.conversation and assignment.answered is None
            if found is not None and plain:
                session.port.assign(assignments.fill(assignment, found))
            else:
                self._runtime.spawn(self._fetch(key, session, assignment), name="hand out")
        for execution in transition.executions:
            if execution.worker_id and execution.ended_us:
                self._let_go(key, execution)
            if execution.status is not ExecutionStatus.LEASED:
                self._give_share(key, execution)
        for revoked in transition.revoked:
            session = self._session_of(key[0], revoked.worker_id)
            if session is not None:
                session.port.cancel(revoked.execution_id, key[1], revoked.reason)

    def refused(self, tokens: Sequence[str]) -> None:
        """Give credits back whose lease was not committed."""
        for token in tokens:
            session = self._granted.pop(token, None)
            if session is not None:
                session.credits += 1
            limited = self._limited.pop(token, None)
            if limited is not None:
                self._shares.give(*limited)

    def uncommitted(self, tenant_id: str) -> frozenset[LeaseKey]:
        """Return what was granted of a tenant's limited queues and isn't known to be stored yet."""
        return frozenset(lease for whose, _, lease in self._limited.values() if whose == tenant_id)

    def _give_share(self, key: RunKey, execution: Execution) -> None:
        if self._shares.give(key[0], execution.queue, (key[1], execution.execution_id)):
            self._more_ready = True
            self._wake.set()

    async def _fetch(self, key: RunKey, session: WorkerConnection, assignment: Assignment) -> None:
        try:
            found = await self._payloads.get(key[0], assignments.places_of(assignment))
            messages = await conversations.read_for(self._store, *key, assignment)
            assignment = await with_answer(self._store, assignment)
        except StoreError as error:
            log.warning("a lease could not be filled", run_id=key[1], error=error.message)
            # Released at once it would be leased again at once, and the store is in trouble already.
            await self._runtime.sleep(self._timing.poll_ms / 1_000)
            # The worker never hears of it, so it will not grant this credit again.
            self.credit(session, 1)
            self._give_back(key, assignment)
            return
        name = (key[1], assignment.execution.execution_id)
        if session.closed:
            self._give_back(key, assignment)
        elif session.holds.get(name) != assignment.token:
            # It ended while its bytes were read, and its worker will not grant this credit again.
            self.credit(session, 1)
        else:
            session.port.assign(assignments.fill(assignment, found, messages))

    def _give_back(self, key: RunKey, assignment: Assignment) -> None:
        """Release a lease that its worker never saw; left to run out, it would spend an attempt."""
        released = Delivery(
            execution_id=assignment.execution.execution_id,
            token=assignment.token,
            result=Released(reason="it could not be delivered"),
        )
        self._runs.insist(key, released, pause_s=self._timing.poll_ms / 1_000)

    def _let_go(self, key: RunKey, execution: Execution) -> None:
        session = self._session_of(key[0], execution.worker_id)
        if session is not None:
            session.holds.pop((key[1], execution.execution_id), None)

    def _session_of(self, tenant_id: str, worker_id: str) -> WorkerConnection | None:
        """Return the session of a tenant's worker; two tenants may use the same name."""
        for session in self._sessions:
            if session.tenant_id == tenant_id and session.port.presence.worker_id == worker_id:
                return session
        return None

    def _take(self, session: WorkerConnection, execution_id: str) -> GrantLease:
        session.credits -= 1
        token = self._runtime.new_token()
        self._granted[token] = session
        presence = session.port.presence
        return GrantLease(
            execution_id=execution_id,
            token=token,
            worker_id=presence.worker_id,
            instance_id=presence.instance_id,
            stages=session.port.stages,
        )

    def _free_for(
        self, tenant_id: str, queue: str, execution: Execution
    ) -> WorkerConnection | None:
        """Return a worker with room, each in its turn."""
        count = len(self._sessions)
        for step in range(count):
            session = self._sessions[(self._turn + step) % count]
            if session.tenant_id == tenant_id and session.takes(queue, execution):
                self._turn = (self._turn + step + 1) % count
                return session
        return None

    def _overtakes_too_long(self, queue: tuple[str, str]) -> bool:
        since = self._backlog.get(queue)
        if since is None:
            return False
        return (self._runtime.monotonic() - since) * 1_000 >= self._timing.stickiness_ms

    # --- the claim ----------------------------------------------------------------------------------

    async def run(self) -> None:
        """Claim whenever there is reason to, until stopped."""
        while not self._stopping:
            self._wake.clear()
            self._hinted = False
            wait_ms = self._timing.poll_ms
            try:
                wait_ms = await self._claim()
            except StoreError as error:
                self._claim_failed(error)
            else:
                self._claim_worked()
            await self._rest(wait_ms)

    async def _rest(self, wait_ms: float) -> None:
        """Wait until there is reason to claim: something that came due, a wake, or a hint that counts."""
        early_ms = (self._hints_count_from - self._runtime.monotonic()) * 1_000
        if 0 < early_ms < wait_ms:
            if await self._woken(early_ms) or self._hinted:
                return
            wait_ms -= early_ms
        if not await self._woken(wait_ms):
            self._more_ready = True

    async def _woken(self, within_ms: float) -> bool:
        try:
            async with asyncio.timeout(within_ms / 1_000):
                await self._wake.wait()
        except TimeoutError:
            return False
        return True

    def _claim_failed(self, error: StoreError) -> None:
        # Once for each trouble, not once a second for as long as it lasts.
        if error.message != self._trouble:
            log.warning("claims fail; they are tried again", error=error.message)
        self._trouble = error.message

    def _claim_worked(self) -> None:
        if self._trouble:
            log.info("claims work again")
        self._trouble = ""

    async def _claim(self) -> int:
        """Claim once; return how long there is nothing to do, in milliseconds."""
        groups = self._groups() if self._more_ready else []
        request = ClaimRequest(
            wants=tuple(want for want, _ in groups), hold_ms=self._timing.hold_ms
        )
        claimed = await self._store.claim(request)
        self._clock.tell(claimed.now_us)
        if self._stopping:
            return 0
        self._take_due(claimed.due)
        self._pace_hints(found=bool(claimed.due) or any(claimed.ready))
        more = False
        for (want, sessions), steps in zip(groups, claimed.ready, strict=True):
            full = len(steps) >= want.limit
            more = more or full
            self._note_backlog(want, full=full)
            for step in steps:
                self._lease(step, sessions, want.queues[0])
        if groups:
            self._more_ready = more
        if len(claimed.due) >= request.due_limit or (more and self._shares.any):
            return 0
        poll_ms = self._timing.poll_ms
        return poll_ms if claimed.next_due_ms < 0 else min(poll_ms, max(1, claimed.next_due_ms))

    def _take_due(self, due: Sequence[Due]) -> None:
        """Give timers to their runs; leases that are over after a look at their last words."""
        over: dict[RunKey, list[Due]] = {}
        for one in due:
            key = (one.tenant_id, one.run_id)
            if one.kind is DueKind.TIMER:
                self._post(key, TimerDue(name=one.name))
            else:
                over.setdefault(key, []).append(one)
        for key, leases in over.items():
            self._runtime.spawn(self._expire(key, leases), name="expire")

    async def _expire(self, key: RunKey, leases: Sequence[Due]) -> None:
        try:
            expired = await expired_of(self._store, *key, leases)
        except StoreError as error:
            # The claim returns them again when its hold is over.
            log.warning("expired leases are left for now", run_id=key[1], error=error.message)
            return
        if not self._stopping:
            for one in expired:
                self._post(key, one)

    def _pace_hints(self, *, found: bool) -> None:
        if found:
            self._hint_pause_s = HINT_PAUSE_SECONDS
            return
        self._hints_count_from = self._runtime.monotonic() + self._hint_pause_s
        self._hint_pause_s = min(2 * self._hint_pause_s, HINT_PAUSE_SECONDS_MAX)

    def _note_backlog(self, want: Want, *, full: bool) -> None:
        for name in want.queues:
            queue = (want.tenant_id, name)
            if full:
                self._backlog.setdefault(queue, self._runtime.monotonic())
            else:
                self._backlog.pop(queue, None)

    def _groups(self) -> list[tuple[Want, list[WorkerConnection]]]:
        """Return one want for all workers that take the same."""
        alike: dict[tuple[object, ...], list[WorkerConnection]] = {}
        for session in self._sessions:
            if session.credits > 0:
                p = session.port.presence
                alike.setdefault((p.tenant_id, p.queues, p.kinds, p.roles), []).append(session)
        groups: list[tuple[Want, list[WorkerConnection]]] = []
        for sessions in alike.values():
            p = sessions[0].port.presence
            want = Want(
                tenant_id=p.tenant_id,
                queues=p.queues,
                kinds=p.kinds,
                roles=p.roles,
                limit=sum(session.credits for session in sessions),
            )
            groups.append((want, sessions))
        # Of a limited queue no more is asked for than there is room for.
        asked = self._shares.ask([want for want, _ in groups])
        return [(want, groups[position][1]) for want, position in asked]

    def _lease(self, step: ReadyStep, sessions: Sequence[WorkerConnection], queue: str) -> None:
        free = [one for one in sessions if one.credits > 0 and not one.closed]
        if not free:
            self._more_ready = True
            return
        session = max(free, key=lambda one: one.credits)
        take = self._take(session, step.execution_id)
        # A limited queue is asked for by itself, so that the step is known to be of it.
        if self._shares.limits(queue):
            self._take_share(take, step.tenant_id, queue, step.run_id)
        reply = self._runs.post((step.tenant_id, step.run_id), take)

        def settle(_: asyncio.Future[Reply]) -> None:
            # What was handed out is granted no more; all else, whatever the reply, gives its
            # credit back: the lease may have ended in the very commit that took it.
            self.refused([take.token])

        reply.add_done_callback(settle)

    def _post(self, key: RunKey, one: Signal) -> None:
        reply = self._runs.post(key, one)

        def note(done: asyncio.Future[Reply]) -> None:
            error = None if done.cancelled() else done.exception()
            if isinstance(error, StepwellError):
                log.warning("something due was left", run_id=key[1], error=error.message)

        reply.add_done_callback(note)
