"""Heartbeats of a worker, sent from the transport's background.

Over gRPC that is a thread, because neither a blocked event loop nor a broken stream may cost a
lease. The code here doesn't need the event loop: it reads the worker's state, calls Heartbeat, and
notifies the event loop only of changes.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Iterator

from stepwell_client.errors import StepwellClientError
from stepwell_client.link.outages import Notices
from stepwell_client.records.limits import BATCH_BYTES_MAX, ITEMS_PER_MESSAGE_MAX
from stepwell_client.v1 import types_pb2, worker_pb2
from stepwell_client.worker.lease_table import ACTIVE_AT, BEAT_AT
from stepwell_client.worker.state import StepLease, WorkerState
from stepwell_client.worker.transport import Transport

LEASE_SECONDS = 30.0
"""The lease's length if the server sends none."""
CALL_SECONDS_MAX = 10.0

_log = logging.getLogger("stepwell_client.worker")


class Heartbeats:
    """Renews a worker's leases from the first welcome to `stop`."""

    def __init__(
        self,
        state: WorkerState,
        transport: Transport,
        on_change: Callable[[worker_pb2.LeaseState], None],
        *,
        name: str,
    ) -> None:
        """`on_change` is called in the background, with states that are LOST or cancelled."""
        self._state = state
        self._target = transport.target
        self._progress_seconds = transport.progress_seconds
        self._runtime = transport.runtime
        self._on_change = on_change
        self._background = transport.background(f"{name}-heartbeats")
        self._keeper = transport.keeper()
        self._lock = threading.Lock()
        """Held while a lease's unreported data is changed or taken."""
        self._lease = LEASE_SECONDS
        self._interval = LEASE_SECONDS / 3
        self._started = False
        self._failing_since: float | None = None
        self._notices = Notices(0.0)

    def stop(self) -> None:
        """Stop; wait at most half a second for a running call."""
        self._background.stop()
        if self._keeper is not None:
            self._keeper.stop()

    def set_terms(self, lease_seconds: float, interval_seconds: float) -> None:
        """Set the lease's length and the interval, as sent by the server, and begin."""
        self._lease = lease_seconds or LEASE_SECONDS
        self._interval = interval_seconds or self._lease / 3
        if self._started:
            self._background.wake()
        else:
            self._started = True
            self._background.start(self._run)

    def interval(self, lease_seconds: float, idle_seconds: float = 0.0) -> float:
        """Return how often a lease of this length, with this idle time-out, needs a heartbeat."""
        own = (lease_seconds or self._lease) / 3
        own = min(own, idle_seconds or own)
        if own < self._interval:
            self._background.wake()  # Otherwise it would sleep for the common interval.
            return own
        return self._interval

    def report(
        self,
        lease: StepLease,
        progress: types_pb2.Payload | None,
        session: types_pb2.Session | None,
    ) -> None:
        """Queue progress or session for an early heartbeat. Any thread may call."""
        with self._lock:
            lease.progress = progress or lease.progress
            lease.session = session or lease.session
            if lease.unsent:
                return
            lease.unsent = True
            now = self._runtime.monotonic()
            lease.next_beat = min(lease.next_beat, now + self._progress_wait(lease))
        self._background.wake()

    def _progress_wait(self, lease: StepLease) -> float:
        return min(self._progress_seconds, lease.interval / 2)

    def note_activity(self, lease: StepLease) -> None:
        """Note activity of a step's function. Any thread may call."""
        lease.active_at = self._runtime.monotonic()
        if (kept := lease.kept) is not None:
            kept(ACTIVE_AT, lease.active_at)

    def keep(self, lease: StepLease, message: worker_pb2.Lease) -> None:
        """Have the worker's keeper renew a new lease, as the server sent it, whenever this process doesn't."""
        if self._keeper is not None:
            lease.kept = self._keeper.add(
                message.SerializeToString(),
                now=lease.active_at,
                interval=lease.interval,
                idle_timeout=lease.idle_timeout,
            )

    async def _run(self) -> None:
        goes_on = True
        while goes_on:
            if self._keeper is not None:
                self._keeper.watch()
            await self._beat()
            now = self._runtime.monotonic()
            next_beat = min(
                (lease.next_beat for lease in self._state.leases()), default=now + self._interval
            )
            goes_on = await self._background.wait(max(0.005, min(next_beat - now, self._interval)))

    async def _beat(self) -> None:
        # Leases that are due a little later are included, so that many leases take one message.
        now = self._runtime.monotonic()
        leases = self._state.leases()
        due = [lease for lease in leases if lease.next_beat <= now]
        if due:
            due = [lease for lease in leases if lease.next_beat <= now + lease.interval / 4]
        for batch in self._batches(due):
            try:
                await self._send(batch)
                self._failing_since = None
            except StepwellClientError as error:
                self._warn(len(batch), error)
                self._postpone(batch)
            except Exception:  # noqa: BLE001 - heartbeats go on for as long as there are leases
                _log.exception("heartbeats of %d lease(s) failed", len(batch))
                self._postpone(batch)

    def _warn(self, count: int, error: StepwellClientError) -> None:
        """Log that heartbeats failed: the first time, then ever more rarely until one succeeds."""
        now = self._runtime.monotonic()
        if self._failing_since is None:
            self._failing_since, self._notices = now, Notices(0.0)
        if self._notices.due(now - self._failing_since):
            # For a server that stands still this is the first sign; the connection's keepalive
            # takes longer.
            cause = error.explain(self._target)
            _log.warning("heartbeats of %d lease(s) failed: %s", count, cause)

    def _postpone(self, batch: list[tuple[StepLease, worker_pb2.LeaseHeartbeat]]) -> None:
        """Schedule a failed heartbeat again soon, at a random moment."""
        now = self._runtime.monotonic()
        for lease, message in batch:
            wait = min(1.0, lease.interval / 4) * (0.5 + self._runtime.random() / 2)
            lease.next_beat = now + wait
            lease.unsent = (
                lease.unsent or message.HasField("progress") or message.HasField("session")
            )

    def _batches(
        self, due: list[StepLease]
    ) -> Iterator[list[tuple[StepLease, worker_pb2.LeaseHeartbeat]]]:
        batch: list[tuple[StepLease, worker_pb2.LeaseHeartbeat]] = []
        size = 0
        for lease in due:
            message = self._message(lease)
            size += message.ByteSize()
            if batch and (size > BATCH_BYTES_MAX or len(batch) >= ITEMS_PER_MESSAGE_MAX):
                yield batch
                batch, size = [], message.ByteSize()
            batch.append((lease, message))
        if batch:
            yield batch

    def _message(self, lease: StepLease) -> worker_pb2.LeaseHeartbeat:
        with self._lock:
            unsent, lease.unsent = lease.unsent, False
            message = worker_pb2.LeaseHeartbeat(
                lease=lease.message,
                progress=lease.progress if unsent else None,
                session=lease.session if unsent else None,
            )
        if lease.idle_timeout:
            idle = self._runtime.monotonic() - lease.active_at
            message.idle.FromMilliseconds(math.ceil(idle * 1_000))
        return message

    async def _send(self, batch: list[tuple[StepLease, worker_pb2.LeaseHeartbeat]]) -> None:
        sent = self._runtime.monotonic()
        shortest = min(lease.interval for lease, _ in batch)
        response = await self._background.heartbeat(
            worker_pb2.HeartbeatRequest(heartbeats=[message for _, message in batch]),
            min(CALL_SECONDS_MAX, max(1.0, shortest)),
        )
        with self._lock:
            for lease, _ in batch:
                wait = self._progress_wait(lease) if lease.unsent else lease.interval
                lease.next_beat = lease.beat_after(sent, wait)
                if (kept := lease.kept) is not None:
                    kept(BEAT_AT, sent)
        by_key = {lease.key: lease for lease, _ in batch}
        for state in response.leases:
            is_lost = state.status == worker_pb2.LEASE_STATUS_LOST
            lease = by_key.get((state.lease.run_id, state.lease.execution_id))
            if is_lost and lease is not None:
                lease.lost = True  # At once: the event loop may be busy for another interval.
            if is_lost or state.cancel_requested:
                self._on_change(state)
