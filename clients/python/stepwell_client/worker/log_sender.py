"""The thread that sends log entries: at once, and while a message is on its way the next one grows.

Like the heartbeats' thread it needs nothing of the event loop, and it shares their connection: entries of a
function that keeps the event loop busy are sent all the same.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable

import grpc

from stepwell_client.link.backoff import LOGS
from stepwell_client.link.connect import Connection
from stepwell_client.link.runtime import Runtime
from stepwell_client.v1 import worker_pb2, worker_pb2_grpc
from stepwell_client.worker.log_buffer import ExecutionKey, LogBuffer

CALL_SECONDS = 10.0
FLUSH_SECONDS = 10.0
"""The longest that an outcome waits for its step's last log entries to be stored."""

_log = logging.getLogger("stepwell_client.worker")

_RETRIED = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.UNKNOWN,
    grpc.StatusCode.CANCELLED,
)


class LogSender:
    """Sends log entries, from the first one to `stop`."""

    def __init__(
        self,
        channel: Callable[[], grpc.Channel],
        connection: Connection,
        runtime: Runtime,
        on_change: Callable[[worker_pb2.LeaseState], None],
        *,
        name: str,
    ) -> None:
        """`on_change` is called in the thread, with states that are LOST."""
        self._channel_of = channel
        self._connection = connection
        self._runtime = runtime
        self._on_change = on_change
        self._name = name
        self._buffer = LogBuffer(runtime.monotonic)
        self._wake = threading.Condition()
        self._waiting: dict[
            ExecutionKey, list[tuple[asyncio.AbstractEventLoop, asyncio.Event]]
        ] = {}
        self._thread: threading.Thread | None = None
        self._stopped = False

    def write(self, key: ExecutionKey, token: str, text: str, level: str, *, chunk: bool) -> None:
        """Queue a line or a chunk. Any thread may call; never waits."""
        if self._buffer.write(key, token, text, level, chunk=chunk):
            with self._wake:
                if self._thread is None and not self._stopped:
                    self._thread = threading.Thread(
                        target=self._run, name=f"{self._name}-logs", daemon=True
                    )
                    self._thread.start()
                self._wake.notify()

    async def flush(self, key: ExecutionKey) -> None:
        """Wait until all entries of an execution are stored, but at most FLUSH_SECONDS."""
        quiet = asyncio.Event()
        waiter = (asyncio.get_running_loop(), quiet)
        with self._wake:
            if self._stopped or self._buffer.is_quiet(key):
                return
            self._waiting.setdefault(key, []).append(waiter)
            self._wake.notify()
        try:
            async with asyncio.timeout(FLUSH_SECONDS):
                await quiet.wait()
        except TimeoutError:
            _log.warning("the last log entries of %s could not be sent in time", key[1])
        finally:
            with self._wake:
                waiting = self._waiting.get(key, [])
                if waiter in waiting:
                    waiting.remove(waiter)
                if not waiting:
                    self._waiting.pop(key, None)

    def remove(self, key: ExecutionKey) -> None:
        """Remove an execution that has ended."""
        self._buffer.remove(key)

    def close(self, key: ExecutionKey) -> None:
        """Drop an execution's entries: its lease is lost."""
        self._buffer.close(key)
        self._notify([key])

    def stop(self) -> None:
        """End the thread; entries that aren't sent by then are lost."""
        with self._wake:
            self._stopped = True
            self._wake.notify()
            waiting = list(self._waiting)
        self._notify(waiting)
        if self._thread is not None:
            self._thread.join(timeout=0.5)

    def _run(self) -> None:
        while True:
            request = self._buffer.next_batch()
            if request is None:
                with self._wake:
                    if self._stopped:
                        return
                    if not self._buffer.has_entries:
                        self._wake.wait()
                continue
            if not self._send(request):
                return
            self._notify(self._buffer.batch_done(request))

    def _send(self, request: worker_pb2.AppendRequest) -> bool:
        """Send until the batch is stored, or can't be; False: the worker stops."""
        failures = 0
        renewed = False
        sent = self._runtime.monotonic()
        while not self._stopped:
            try:
                stub = worker_pb2_grpc.WorkerStub(self._channel_of())
                response = stub.Append(
                    request, timeout=CALL_SECONDS, metadata=self._connection.access.metadata
                )
            except grpc.RpcError as error:
                code = error.code() if isinstance(error, grpc.Call) else None
                if code is grpc.StatusCode.UNAUTHENTICATED and not renewed:
                    renewed = self._connection.access.reload()
                    if renewed:
                        continue
                if code not in _RETRIED:
                    _log.warning("log entries are left out: the server answers %s", code)
                    return True
                failures += 1
                self._pause(failures)
                now = self._runtime.monotonic()
                self._buffer.add_age(request, now - sent)
                sent = now
            except ValueError:  # The channel was closed meanwhile.
                return False
            else:
                for state in response.leases:
                    if state.status == worker_pb2.LEASE_STATUS_LOST:
                        self._buffer.close((state.run_id, state.execution_id))
                        self._on_change(state)
                return True
        return False

    def _pause(self, failures: int) -> None:
        seconds = LOGS.seconds(self._runtime, failures)
        with self._wake:
            if not self._stopped:
                # A notification of new entries only makes the wait shorter.
                self._wake.wait(max(0.01, seconds))

    def _notify(self, keys: list[ExecutionKey]) -> None:
        """Wake the flushes that wait for these executions."""
        with self._wake:
            waiters = [one for key in keys for one in self._waiting.get(key, ())]
        for loop, quiet in waiters:
            try:
                loop.call_soon_threadsafe(quiet.set)
            except RuntimeError:  # It is closed: nobody waits any more.
                continue
