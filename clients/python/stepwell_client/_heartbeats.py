"""Heartbeats from a thread of their own, over a connection of their own.

An agent's function that keeps the event loop busy must not cost its lease, and a stream that is down
must not either. So the thread needs nothing of the event loop: it reads the ledger, calls Heartbeat
synchronously, and tells the event loop only what changes something.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator

import grpc

from stepwell_client._connect import Connection
from stepwell_client._ledger import Held, Ledger
from stepwell_client._limits import BATCH_BYTES_MAX, ITEMS_PER_MESSAGE_MAX
from stepwell_client._runtime import Runtime
from stepwell_client.v1 import types_pb2, worker_pb2, worker_pb2_grpc

LEASE_SECONDS = 30.0
"""Where the server doesn't say."""
NEWS_SECONDS = 1.0
"""Progress goes out at most this late, though the next heartbeat may be further off."""
CALL_SECONDS_MAX = 10.0

_log = logging.getLogger("stepwell_client.worker")


class Heartbeats:
    """Keeps the leases of a ledger alive from `start` to `stop`."""

    def __init__(
        self,
        ledger: Ledger,
        connection: Connection,
        runtime: Runtime,
        on_change: Callable[[worker_pb2.LeaseState], None],
        *,
        name: str,
    ) -> None:
        """`on_change` is called in the thread, with states that are LOST or cancelled."""
        self._ledger = ledger
        self._connection = connection
        self._runtime = runtime
        self._on_change = on_change
        self._wake = threading.Condition()
        self._stopped = False
        self._channel: grpc.Channel | None = None
        self._thread = threading.Thread(target=self._work, name=f"{name}-heartbeats", daemon=True)
        self._lease = LEASE_SECONDS
        self._interval = LEASE_SECONDS / 3

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the thread; one in the middle of a call is not waited for longer than half a second."""
        with self._wake:
            self._stopped = True
            self._wake.notify()
        if self._channel is not None:
            self._channel.close()
        if self._thread.is_alive():
            self._thread.join(timeout=0.5)

    def set_terms(self, lease_seconds: float, interval_seconds: float) -> None:
        """Take the server's terms."""
        self._lease = lease_seconds or LEASE_SECONDS
        self._interval = interval_seconds or self._lease / 3
        self._hasten()

    def interval(self, lease_seconds: float) -> float:
        """Return how often a lease of this length needs a heartbeat."""
        own = (lease_seconds or self._lease) / 3
        if own < self._interval:
            self._hasten()  # The thread sleeps by the common interval.
            return own
        return self._interval

    def tell(
        self, held: Held, progress: types_pb2.Payload | None, session: types_pb2.Session | None
    ) -> None:
        """Have progress or session sent soon. Any thread may call."""
        with self._wake:
            held.progress = progress or held.progress
            held.session = session or held.session
            if not held.news:
                held.news = True
                now = self._runtime.monotonic()
                held.next_beat = min(held.next_beat, now + min(NEWS_SECONDS, held.interval / 2))
                self._wake.notify()

    def channel(self) -> grpc.Channel:
        """Return the connection that is the heartbeats' own. Any thread may ask."""
        with self._wake:
            if self._channel is None:
                self._channel = self._connection.sync_channel()
            return self._channel

    def _hasten(self) -> None:
        with self._wake:
            self._wake.notify()

    def _work(self) -> None:
        try:
            self._run()
        finally:
            if self._channel is not None:
                self._channel.close()

    def _run(self) -> None:
        while True:
            self._beat()
            with self._wake:
                if self._stopped:
                    return
                now = self._runtime.monotonic()
                next_beat = min(
                    (held.next_beat for held in self._ledger.leases()), default=now + self._interval
                )
                self._wake.wait(max(0.005, min(next_beat - now, self._interval)))
                if self._stopped:
                    return

    def _beat(self) -> None:
        # What is due a little later goes along: many leases make one message.
        now = self._runtime.monotonic()
        leases = self._ledger.leases()
        due = [held for held in leases if held.next_beat <= now]
        if due:
            due = [held for held in leases if held.next_beat <= now + held.interval / 4]
        for batch in self._batches(due):
            try:
                self._send(batch)
            except grpc.RpcError as error:
                code = error.code() if isinstance(error, grpc.Call) else None
                _log.warning("heartbeats of %d leases failed: %s", len(batch), code)
                self._postpone(batch)
            except ValueError:  # The channel was closed meanwhile.
                return
            except Exception:  # noqa: BLE001 - the thread must live as long as there are leases
                _log.exception("heartbeats of %d leases failed", len(batch))
                self._postpone(batch)

    def _postpone(self, batch: list[tuple[Held, worker_pb2.LeaseHeartbeat]]) -> None:
        """Try a failed heartbeat again soon, at a random moment."""
        now = self._runtime.monotonic()
        for held, message in batch:
            wait = min(1.0, held.interval / 4) * (0.5 + self._runtime.random() / 2)
            held.next_beat = now + wait
            held.news = held.news or message.HasField("progress") or message.HasField("session")

    def _batches(self, due: list[Held]) -> Iterator[list[tuple[Held, worker_pb2.LeaseHeartbeat]]]:
        batch: list[tuple[Held, worker_pb2.LeaseHeartbeat]] = []
        size = 0
        for held in due:
            message = self._message(held)
            size += message.ByteSize()
            if batch and (size > BATCH_BYTES_MAX or len(batch) >= ITEMS_PER_MESSAGE_MAX):
                yield batch
                batch, size = [], message.ByteSize()
            batch.append((held, message))
        if batch:
            yield batch

    def _message(self, held: Held) -> worker_pb2.LeaseHeartbeat:
        with self._wake:
            news, held.news = held.news, False
            return worker_pb2.LeaseHeartbeat(
                run_id=held.key[0],
                execution_id=held.key[1],
                lease_token=held.token,
                progress=held.progress if news else None,
                session=held.session if news else None,
            )

    def _send(self, batch: list[tuple[Held, worker_pb2.LeaseHeartbeat]]) -> None:
        stub = worker_pb2_grpc.WorkerStub(self.channel())
        sent = self._runtime.monotonic()
        shortest = min(held.interval for held, _ in batch)
        response = stub.Heartbeat(
            worker_pb2.HeartbeatRequest(heartbeats=[message for _, message in batch]),
            timeout=min(CALL_SECONDS_MAX, max(1.0, shortest)),
            metadata=self._connection.access.metadata,
        )
        with self._wake:
            for held, _ in batch:
                wait = min(NEWS_SECONDS, held.interval / 2) if held.news else held.interval
                held.next_beat = sent + wait
        for state in response.leases:
            if state.status == worker_pb2.LEASE_STATUS_LOST or state.cancel_requested:
                self._on_change(state)
