"""Heartbeats from a thread of their own, over a connection of their own.

Neither a function that keeps the event loop busy nor a stream that is down may cost a lease. So the
thread needs nothing of the event loop: it reads the worker's state, calls Heartbeat synchronously, and
notifies the event loop only of changes.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Iterator

import grpc

from stepwell_client.errors import StepwellClientError
from stepwell_client.link.connect import Connection, CurrentChannel
from stepwell_client.link.outages import Notices
from stepwell_client.link.runtime import Runtime
from stepwell_client.link.status import from_rpc_error
from stepwell_client.records.limits import BATCH_BYTES_MAX, ITEMS_PER_MESSAGE_MAX
from stepwell_client.v1 import types_pb2, worker_pb2, worker_pb2_grpc
from stepwell_client.worker.state import StepLease, WorkerState

LEASE_SECONDS = 30.0
"""The lease's length where the server sends none."""
PROGRESS_SECONDS = 1.0
"""The longest that progress waits for a heartbeat, though the interval may be longer."""
CALL_SECONDS_MAX = 10.0

_log = logging.getLogger("stepwell_client.worker")


class Heartbeats:
    """Renews a worker's leases from `start` to `stop`."""

    def __init__(
        self,
        state: WorkerState,
        connection: Connection,
        runtime: Runtime,
        on_change: Callable[[worker_pb2.LeaseState], None],
        *,
        name: str,
    ) -> None:
        """`on_change` is called in the thread, with states that are LOST or cancelled."""
        self._state = state
        self._connection = connection
        self._runtime = runtime
        self._on_change = on_change
        self._wake = threading.Condition()
        self._stopped = False
        self._channels = CurrentChannel(connection, connection.sync_channel)
        self._thread = threading.Thread(target=self._work, name=f"{name}-heartbeats", daemon=True)
        self._lease = LEASE_SECONDS
        self._interval = LEASE_SECONDS / 3
        self._failing_since: float | None = None
        self._notices = Notices(0.0)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the thread; wait at most half a second for a call in flight."""
        with self._wake:
            self._stopped = True
            self._wake.notify()
        self._close()
        if self._thread.is_alive():
            self._thread.join(timeout=0.5)

    def set_terms(self, lease_seconds: float, interval_seconds: float) -> None:
        """Set the lease's length and the interval that the server sent."""
        self._lease = lease_seconds or LEASE_SECONDS
        self._interval = interval_seconds or self._lease / 3
        self._wake_thread()

    def interval(self, lease_seconds: float, idle_seconds: float = 0.0) -> float:
        """Return how often a lease of this length, with this idle time-out, needs a heartbeat."""
        own = (lease_seconds or self._lease) / 3
        own = min(own, idle_seconds or own)
        if own < self._interval:
            self._wake_thread()  # The thread sleeps by the common interval.
            return own
        return self._interval

    def report(
        self,
        lease: StepLease,
        progress: types_pb2.Payload | None,
        session: types_pb2.Session | None,
    ) -> None:
        """Queue progress or session for an early heartbeat. Any thread may call."""
        with self._wake:
            lease.progress = progress or lease.progress
            lease.session = session or lease.session
            if not lease.unsent:
                lease.unsent = True
                now = self._runtime.monotonic()
                lease.next_beat = min(
                    lease.next_beat, now + min(PROGRESS_SECONDS, lease.interval / 2)
                )
                self._wake.notify()

    def note_activity(self, lease: StepLease) -> None:
        """Note that a step's function did something. Any thread may call."""
        lease.active_at = self._runtime.monotonic()

    def channel(self) -> grpc.Channel:
        """Return the heartbeats' own channel. Any thread may call."""
        return self._channels.get()

    def _close(self) -> None:
        for channel in self._channels.opened:
            channel.close()

    def _wake_thread(self) -> None:
        with self._wake:
            self._wake.notify()

    def _work(self) -> None:
        try:
            self._run()
        finally:
            self._close()

    def _run(self) -> None:
        while True:
            self._beat()
            with self._wake:
                if self._stopped:
                    return
                now = self._runtime.monotonic()
                next_beat = min(
                    (lease.next_beat for lease in self._state.leases()),
                    default=now + self._interval,
                )
                self._wake.wait(max(0.005, min(next_beat - now, self._interval)))
                if self._stopped:
                    return

    def _beat(self) -> None:
        # Leases that are due a little later go along, so that many make one message.
        now = self._runtime.monotonic()
        leases = self._state.leases()
        due = [lease for lease in leases if lease.next_beat <= now]
        if due:
            due = [lease for lease in leases if lease.next_beat <= now + lease.interval / 4]
        for batch in self._batches(due):
            try:
                self._send(batch)
                self._failing_since = None
            except grpc.RpcError as error:
                self._warn(len(batch), from_rpc_error(error))
                self._postpone(batch)
            except ValueError:  # The channel was closed meanwhile.
                return
            except Exception:  # noqa: BLE001 - the thread must live as long as there are leases
                _log.exception("heartbeats of %d lease(s) failed", len(batch))
                self._postpone(batch)

    def _warn(self, count: int, error: StepwellClientError) -> None:
        """Log that heartbeats failed: the first time, then ever more rarely until one succeeds."""
        now = self._runtime.monotonic()
        if self._failing_since is None:
            self._failing_since, self._notices = now, Notices(0.0)
        if self._notices.due(now - self._failing_since):
            # From a server that stands still this is the first sign: the connection's keepalive takes longer.
            cause = error.explain(self._connection.target)
            _log.warning("heartbeats of %d lease(s) failed: %s", count, cause)

    def _postpone(self, batch: list[tuple[StepLease, worker_pb2.LeaseHeartbeat]]) -> None:
        """Try a failed heartbeat again soon, at a random moment."""
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
        with self._wake:
            unsent, lease.unsent = lease.unsent, False
            message = worker_pb2.LeaseHeartbeat(
                run_id=lease.key[0],
                execution_id=lease.key[1],
                lease_token=lease.token,
                progress=lease.progress if unsent else None,
                session=lease.session if unsent else None,
            )
        if lease.idle_timeout:
            idle = self._runtime.monotonic() - lease.active_at
            message.idle.FromMilliseconds(math.ceil(idle * 1_000))
        return message

    def _send(self, batch: list[tuple[StepLease, worker_pb2.LeaseHeartbeat]]) -> None:
        stub = worker_pb2_grpc.WorkerStub(self.channel())
        sent = self._runtime.monotonic()
        shortest = min(lease.interval for lease, _ in batch)
        response = stub.Heartbeat(
            worker_pb2.HeartbeatRequest(heartbeats=[message for _, message in batch]),
            timeout=min(CALL_SECONDS_MAX, max(1.0, shortest)),
            metadata=self._connection.access.metadata,
        )
        with self._wake:
            for lease, _ in batch:
                wait = min(PROGRESS_SECONDS, lease.interval / 2) if lease.unsent else lease.interval
                lease.next_beat = lease.beat_after(sent, wait)
        for state in response.leases:
            if state.status == worker_pb2.LEASE_STATUS_LOST or state.cancel_requested:
                self._on_change(state)
