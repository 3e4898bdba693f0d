"""A worker's state: running steps, and unacknowledged outcomes and begins.

It has no network and no event loop: a stream asks for the next request and reports
acknowledgements. Nothing is dropped before it is acknowledged, so a new stream begins with
everything here.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence

from stepwell_client.records.limits import BATCH_BYTES_MAX, CONCURRENCY_MAX, ITEMS_PER_MESSAGE_MAX
from stepwell_client.v1 import types_pb2, worker_pb2
from stepwell_client.worker.journal_writer import JournalWriter
from stepwell_client.worker.lease_table import BEAT_AT, NoteTime
from stepwell_client.worker.log_buffer import ExecutionKey


class StepLease:
    """A step that this worker runs or whose outcome it holds, with its lease."""

    __slots__ = (
        "abandoned",
        "active_at",
        "begin",
        "begun_calls",
        "ended_calls",
        "follower",
        "idle_timeout",
        "interval",
        "kept",
        "key",
        "lost",
        "next_beat",
        "progress",
        "reported",
        "returns",
        "session",
        "task",
        "token",
        "unsent",
    )

    def __init__(
        self,
        key: ExecutionKey,
        token: str,
        *,
        interval: float,
        now: float,
        idle_timeout: float = 0.0,
    ) -> None:
        self.key = key
        self.token = token
        self.task: asyncio.Task[None] | None = None
        self.begin: asyncio.Future[bool] | None = None
        """Resolves to whether the begin was accepted; None: not AT_MOST_ONCE, or not begun."""
        self.begun_calls: set[str] = set()
        """Keys of its AT_MOST_ONCE calls whose functions may be running."""
        self.ended_calls: list[types_pb2.JournalEntry] = []
        """ENDs of waiting calls that came before anything followed them."""
        self.follower: Callable[[types_pb2.JournalEntry], None] | None = None
        self.abandoned = False
        """True if nobody waits for an outcome."""
        self.reported = False
        """True if its outcome is decided, though its function may still run."""
        self.returns = False
        """True if it must be handed back once its function has stopped."""
        self.lost = False
        """True if the lease is lost, so it needs no heartbeats."""
        self.interval = interval
        self.active_at = now
        """The time of its function's last activity."""
        self.idle_timeout = idle_timeout
        """In seconds; 0: none."""
        self.next_beat = self.beat_after(now, interval)
        self.progress: types_pb2.Payload | None = None
        self.session: types_pb2.Session | None = None
        self.unsent = False
        """True if progress or session have changed and must be sent."""
        self.kept: NoteTime | None = None
        """Notes its times for the worker's keeper, if it has one."""

    @property
    def has_begun(self) -> bool:
        """True if some effect may still take place, so that the step must not run elsewhere."""
        return self.begin is not None or bool(self.begun_calls)

    @property
    def message(self) -> worker_pb2.Lease:
        """The lease, for the server."""
        return worker_pb2.Lease(run_id=self.key[0], execution_id=self.key[1], token=self.token)

    def outcome(self) -> worker_pb2.Outcome:
        """Return an empty outcome."""
        return worker_pb2.Outcome(lease=self.message)

    def released(self, reason: str) -> worker_pb2.Outcome:
        """Return a release, with the attempt's progress and session so far."""
        outcome = self.outcome()
        outcome.released.reason = reason
        if self.progress is not None:
            outcome.progress.CopyFrom(self.progress)
        if self.session is not None:
            outcome.session.CopyFrom(self.session)
        return outcome

    def follow(self, ended: Callable[[types_pb2.JournalEntry], None]) -> None:
        """Have `ended` called with the ENDs of calls that waited, those so far and those to come."""
        self.follower = ended
        came, self.ended_calls = self.ended_calls, []
        for entry in came:
            ended(entry)

    def call_ended(self, entry: types_pb2.JournalEntry) -> None:
        """Pass on the END of a call that waited."""
        if self.follower is None:
            self.ended_calls.append(entry)
        else:
            self.follower(entry)

    def let_go(self) -> None:
        """Have the keeper renew the lease no longer."""
        kept, self.kept = self.kept, None
        if kept is not None:
            kept(BEAT_AT, 0.0)

    def beat_after(self, now: float, wait: float) -> float:
        """Return the time of the next heartbeat: after `wait`, or when its function is idle for too long."""
        idle_at = self.active_at + self.idle_timeout
        return min(idle_at, now + wait) if self.idle_timeout and idle_at > now else now + wait


class PendingOutcome:
    """An outcome that isn't acknowledged yet."""

    __slots__ = ("lease", "outcome")

    def __init__(self, lease: StepLease, outcome: worker_pb2.Outcome) -> None:
        self.lease = lease
        self.outcome = outcome

    @property
    def size(self) -> int:
        """The outcome's size in a message, in bytes."""
        return self.outcome.ByteSize() + 8


class WorkerState:
    """The steps, outcomes, begins and credits of one worker."""

    def __init__(self, concurrency: int) -> None:
        self.concurrency = concurrency
        self.draining = False
        self.holds_back = False
        """True if no credit is granted until outcomes are acknowledged."""
        self.running: dict[ExecutionKey, StepLease] = {}
        self.pending: dict[str, PendingOutcome] = {}
        self.journal_writer = JournalWriter()
        self._begins: dict[str, tuple[worker_pb2.Begin, StepLease]] = {}
        self._unsent: deque[str] = deque()
        self._unsent_begins: deque[str] = deque()
        self._credits_out = 0
        self._drain_sent = False
        self._numbers = 0

    def new_stream(self) -> None:
        """Begin a new stream: no credit is granted, and everything unacknowledged must be sent."""
        self._credits_out = 0
        self._drain_sent = False
        self._unsent = deque(self.pending)
        self._unsent_begins = deque(self._begins)
        self.journal_writer.new_stream()

    def held_leases(self) -> list[worker_pb2.Lease]:
        """Return the leases for a Hello: those of running steps and of unacknowledged outcomes."""
        return [lease.message for lease in self.leases()[:ITEMS_PER_MESSAGE_MAX]]

    def leases(self) -> list[StepLease]:
        """Return the leases that need heartbeats. Another thread may call."""
        leases = [lease for lease in list(self.running.values()) if not lease.reported]
        leases += [pending.lease for pending in list(self.pending.values())]
        return [lease for lease in leases if not (lease.abandoned or lease.lost)]

    def accept(self, lease: StepLease) -> bool:
        """Add an assigned step; return False if it runs here already."""
        self._credits_out = max(0, self._credits_out - 1)
        if lease.key in self.running:
            return False
        self.running[lease.key] = lease
        return True

    def finish(self, lease: StepLease, outcome: worker_pb2.Outcome | None) -> None:
        """Remove a step that has ended. Without an outcome, or if abandoned, nothing is reported."""
        self.running.pop(lease.key, None)
        self.journal_writer.give_up(lease.key)
        if outcome is not None and not (lease.abandoned or lease.reported):
            self.report(lease, outcome)
        elif not lease.reported:
            lease.let_go()
        if lease.begin is not None and not lease.begin.done():
            # The step never started, so an unsent begin must not report that it did.
            waiting = self._begins
            self._begins = {key: entry for key, entry in waiting.items() if entry[1] is not lease}

    def report(self, lease: StepLease, outcome: worker_pb2.Outcome) -> None:
        """Queue an outcome, and keep it until it is acknowledged."""
        lease.reported = True
        outcome.delivery_id = self._next_id("o")
        self.pending[outcome.delivery_id] = PendingOutcome(lease, outcome)
        self._unsent.append(outcome.delivery_id)

    def begin(self, lease: StepLease, answered: asyncio.Future[bool]) -> None:
        """Queue a begin, and keep it until it is acknowledged, which resolves `answered`."""
        lease.begin = answered
        message = worker_pb2.Begin(
            delivery_id=self._next_id("b"),
            lease=lease.message,
        )
        self._begins[message.delivery_id] = (message, lease)
        self._unsent_begins.append(message.delivery_id)

    def settle(self, ack: worker_pb2.Ack) -> StepLease | None:
        """Apply an acknowledgement and return its step; None if it is a repetition, or for another worker."""
        waiting = self._begins.pop(ack.delivery_id, None)
        if waiting is not None:
            answered = waiting[1].begin
            if answered is not None and not answered.done():
                answered.set_result(ack.status == worker_pb2.ACK_STATUS_ACCEPTED)
            return waiting[1]
        pending = self.pending.pop(ack.delivery_id, None)
        if pending is None:
            return None
        pending.lease.let_go()
        return pending.lease

    def next_request(self) -> worker_pb2.WorkRequest | None:
        """Return a message with what is unsent, as far as it fits, or None."""
        grant = self._grant()
        draining = self.draining and not self._drain_sent
        has_writes = self.journal_writer.has_unsent
        if not (self._unsent or self._unsent_begins or has_writes or grant or draining):
            return None
        outcomes = self._next_outcomes(self._unsent)
        begins = self._next_begins()
        writes = self._next_writes(outcomes) if has_writes else ()
        if not (outcomes or begins or writes or grant or draining):
            return None
        self._credits_out += grant
        self._drain_sent = self._drain_sent or draining
        request = worker_pb2.WorkRequest(credits=grant, outcomes=outcomes)
        if begins or writes or draining:
            request.begins.extend(begins)
            request.journal_writes.extend(writes)
            request.draining = draining
        return request

    def end_calls(self, ended: Iterable[worker_pb2.EndedCall]) -> None:
        """Pass on the ENDs of waiting calls to their steps, as far as these run here."""
        for one in ended:
            lease = self.running.get((one.lease.run_id, one.lease.execution_id))
            if lease is not None:
                lease.call_ended(one.entry)

    def complete_requests(self) -> list[worker_pb2.ReportOutcomesRequest]:
        """Return all unacknowledged outcomes, for calls without a stream."""
        ids = deque(self.pending)
        requests: list[worker_pb2.ReportOutcomesRequest] = []
        while outcomes := self._next_outcomes(ids):
            requests.append(worker_pb2.ReportOutcomesRequest(outcomes=outcomes))
        return requests

    def _next_outcomes(self, ids: deque[str]) -> list[worker_pb2.Outcome]:
        outcomes: list[worker_pb2.Outcome] = []
        if len(ids) == 1:  # The common case needs no size check.
            pending = self.pending.get(ids.popleft())
            return [pending.outcome] if pending is not None else outcomes
        size = 0
        while ids and len(outcomes) < ITEMS_PER_MESSAGE_MAX:
            pending = self.pending.get(ids[0])
            if pending is not None:
                size += pending.size
                if outcomes and size > BATCH_BYTES_MAX:
                    break
                outcomes.append(pending.outcome)
            ids.popleft()
        return outcomes

    def _next_begins(self) -> list[worker_pb2.Begin]:
        begins: list[worker_pb2.Begin] = []
        while self._unsent_begins and len(begins) < ITEMS_PER_MESSAGE_MAX:
            entry = self._begins.get(self._unsent_begins.popleft())
            if entry is not None:
                begins.append(entry[0])
        return begins

    def _next_writes(
        self, outcomes: Sequence[worker_pb2.Outcome]
    ) -> Sequence[worker_pb2.JournalWrite]:
        return self.journal_writer.next_batch(
            sum(self.pending[one.delivery_id].size for one in outcomes)
        )

    def _grant(self) -> int:
        # Many unacknowledged outcomes stop new work, so that all leases fit into a Hello.
        self.holds_back = self.draining or len(self.pending) >= CONCURRENCY_MAX
        if self.holds_back:
            return 0
        return max(0, self.concurrency - len(self.running) - self._credits_out)

    def _next_id(self, prefix: str) -> str:
        self._numbers += 1
        return f"{prefix}{self._numbers}"
