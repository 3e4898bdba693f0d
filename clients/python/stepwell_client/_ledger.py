"""What a worker holds: steps that run, outcomes and begins that wait for their acknowledgement.

No network and no event loop here: a stream asks for the next request and hands in what came. Nothing
is forgotten before it is acknowledged, so a new stream simply begins with all that is here.
"""

from __future__ import annotations

import asyncio
from collections import deque

from stepwell_client._limits import BATCH_BYTES_MAX, CONCURRENCY_MAX, ITEMS_PER_MESSAGE_MAX
from stepwell_client.v1 import types_pb2, worker_pb2

Key = tuple[str, str]
"""Run and execution."""


class Held:
    """A lease and the step that it is for."""

    __slots__ = (
        "abandoned",
        "begin",
        "interval",
        "key",
        "lost",
        "news",
        "next_beat",
        "progress",
        "reported",
        "session",
        "task",
        "token",
    )

    def __init__(self, key: Key, token: str, *, interval: float, now: float) -> None:
        self.key = key
        self.token = token
        self.task: asyncio.Task[None] | None = None
        self.begin: asyncio.Future[bool] | None = None
        """Whether the begin was accepted; None: the step is not AT_MOST_ONCE, or hasn't begun."""
        self.abandoned = False
        """Nobody waits for an outcome."""
        self.reported = False
        """Its outcome is settled, though its function may still run."""
        self.lost = False
        """The lease is gone, so it needs no heartbeats."""
        self.interval = interval
        self.next_beat = now + interval
        self.progress: types_pb2.Payload | None = None
        self.session: types_pb2.Session | None = None
        self.news = False
        """Progress or session have not been sent yet."""


class Pending:
    """An outcome that isn't acknowledged."""

    __slots__ = ("held", "outcome", "size")

    def __init__(self, held: Held, outcome: worker_pb2.Outcome) -> None:
        self.held = held
        self.outcome = outcome
        self.size = outcome.ByteSize() + 8


class Ledger:
    """The books of one worker."""

    def __init__(self, concurrency: int) -> None:
        self.concurrency = concurrency
        self.draining = False
        self.running: dict[Key, Held] = {}
        self.pending: dict[str, Pending] = {}
        self._begins: dict[str, tuple[worker_pb2.Begin, Held]] = {}
        self._unsent: deque[str] = deque()
        self._unsent_begins: deque[str] = deque()
        self._credits_out = 0
        self._numbers = 0

    def new_stream(self) -> None:
        """Begin again: no credit is granted yet, and all that isn't acknowledged is to be sent."""
        self._credits_out = 0
        self._unsent = deque(self.pending)
        self._unsent_begins = deque(self._begins)

    def held_leases(self) -> list[worker_pb2.HeldLease]:
        """Return what a Hello lists: the leases that are worked on or have an outcome."""
        return [
            worker_pb2.HeldLease(
                run_id=held.key[0], execution_id=held.key[1], lease_token=held.token
            )
            for held in self.leases()[:ITEMS_PER_MESSAGE_MAX]
        ]

    def leases(self) -> list[Held]:
        """Return the leases that are to live on. Another thread may ask."""
        held = [each for each in list(self.running.values()) if not each.reported]
        held += [pending.held for pending in list(self.pending.values())]
        return [each for each in held if not (each.abandoned or each.lost)]

    def take(self, held: Held) -> bool:
        """Count an assignment; False: the step runs here already, and nothing is to be done."""
        self._credits_out = max(0, self._credits_out - 1)
        if held.key in self.running:
            return False
        self.running[held.key] = held
        return True

    def finish(self, held: Held, outcome: worker_pb2.Outcome | None) -> None:
        """Count a step that has ended. Without an outcome, or abandoned, nothing is reported."""
        self.running.pop(held.key, None)
        if outcome is not None and not (held.abandoned or held.reported):
            self.report(held, outcome)
        if held.begin is not None and not held.begin.done():
            # It never started: a begin that hasn't left yet must not say that it did.
            waiting = self._begins
            self._begins = {key: entry for key, entry in waiting.items() if entry[1] is not held}

    def report(self, held: Held, outcome: worker_pb2.Outcome) -> None:
        """Keep an outcome until it is acknowledged, and have it sent."""
        held.reported = True
        outcome.delivery_id = self._next_id("o")
        self.pending[outcome.delivery_id] = Pending(held, outcome)
        self._unsent.append(outcome.delivery_id)

    def begin(self, held: Held, answered: asyncio.Future[bool]) -> None:
        """Have a begin sent, and keep it until it is acknowledged."""
        held.begin = answered
        message = worker_pb2.Begin(
            delivery_id=self._next_id("b"),
            run_id=held.key[0],
            execution_id=held.key[1],
            lease_token=held.token,
        )
        self._begins[message.delivery_id] = (message, held)
        self._unsent_begins.append(message.delivery_id)

    def settle(self, ack: worker_pb2.Ack) -> Held | None:
        """Take an acknowledgement in; None: it came before, or is for nothing of ours."""
        waiting = self._begins.pop(ack.delivery_id, None)
        if waiting is not None:
            answered = waiting[1].begin
            if answered is not None and not answered.done():
                answered.set_result(ack.status == worker_pb2.ACK_STATUS_ACCEPTED)
            return waiting[1]
        pending = self.pending.pop(ack.delivery_id, None)
        return pending.held if pending is not None else None

    def next_request(self) -> worker_pb2.WorkRequest | None:
        """Return all that is to be said now, as far as it fits one message; None: nothing."""
        outcomes = self._next_outcomes(self._unsent)
        begins = self._next_begins()
        grant = self._grant()
        if not (outcomes or begins or grant):
            return None
        self._credits_out += grant
        return worker_pb2.WorkRequest(credits=grant, outcomes=outcomes, begins=begins)

    def complete_requests(self) -> list[worker_pb2.CompleteRequest]:
        """Return all outcomes that aren't acknowledged, for the way without a stream."""
        ids = deque(self.pending)
        requests: list[worker_pb2.CompleteRequest] = []
        while outcomes := self._next_outcomes(ids):
            requests.append(worker_pb2.CompleteRequest(outcomes=outcomes))
        return requests

    def _next_outcomes(self, ids: deque[str]) -> list[worker_pb2.Outcome]:
        found: list[worker_pb2.Outcome] = []
        size = 0
        while ids and len(found) < ITEMS_PER_MESSAGE_MAX:
            pending = self.pending.get(ids[0])
            if pending is not None:
                size += pending.size
                if found and size > BATCH_BYTES_MAX:
                    break
                found.append(pending.outcome)
            ids.popleft()
        return found

    def _next_begins(self) -> list[worker_pb2.Begin]:
        found: list[worker_pb2.Begin] = []
        while self._unsent_begins and len(found) < ITEMS_PER_MESSAGE_MAX:
            entry = self._begins.get(self._unsent_begins.popleft())
            if entry is not None:
                found.append(entry[0])
        return found

    def _grant(self) -> int:
        # Outcomes that pile up unacknowledged stop new work: all that is held fits a Hello.
        if self.draining or len(self.pending) >= CONCURRENCY_MAX:
            return 0
        return max(0, self.concurrency - len(self.running) - self._credits_out)

    def _next_id(self, prefix: str) -> str:
        self._numbers += 1
        return f"{prefix}{self._numbers}"
