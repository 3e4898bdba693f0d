"""Sends log entries at once; those written while a message is in flight go into the next one.

It works in the transport's background, like heartbeats, so that entries are sent even if a function
blocks the event loop.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable

from stepwell_client.errors import StepwellClientError
from stepwell_client.link.backoff import LOGS
from stepwell_client.v1 import worker_pb2
from stepwell_client.worker.log_buffer import ExecutionKey, LogBuffer
from stepwell_client.worker.transport import Transport

CALL_SECONDS = 10.0
FLUSH_SECONDS = 10.0
"""The longest that an outcome waits until its step's last log entries are stored."""

_log = logging.getLogger("stepwell_client.worker")


class LogSender:
    """Sends log entries until it is stopped."""

    def __init__(
        self,
        transport: Transport,
        on_change: Callable[[worker_pb2.LeaseState], None],
        *,
        name: str,
    ) -> None:
        """`on_change` is called in the background, with states that are LOST."""
        self._transport = transport
        self._runtime = transport.runtime
        self._on_change = on_change
        self._background = transport.background(f"{name}-logs")
        self._buffer = LogBuffer(transport.runtime.monotonic)
        self._lock = threading.Lock()
        self._waiting: dict[
            ExecutionKey, list[tuple[asyncio.AbstractEventLoop, asyncio.Event]]
        ] = {}
        self._started = False
        self._stopped = False

    def write(self, key: ExecutionKey, token: str, text: str, level: str, *, chunk: bool) -> None:
        """Queue a line or a chunk. Any thread may call. Never waits."""
        if self._buffer.write(key, token, text, level, chunk=chunk):
            with self._lock:
                is_first = not (self._started or self._stopped)
                self._started = True
            if is_first:
                self._background.start(self._run)
            self._background.wake()

    async def flush(self, key: ExecutionKey) -> None:
        """Wait until all entries of an execution are stored, but at most FLUSH_SECONDS."""
        quiet = asyncio.Event()
        waiter = (asyncio.get_running_loop(), quiet)
        with self._lock:
            if self._stopped or self._buffer.is_quiet(key):
                return
            self._waiting.setdefault(key, []).append(waiter)
        self._background.wake()
        try:
            async with asyncio.timeout(FLUSH_SECONDS):
                await quiet.wait()
        except TimeoutError:
            _log.warning("the last log entries of %s could not be sent in time", key[1])
        finally:
            with self._lock:
                waiting = self._waiting.get(key, [])
                if waiter in waiting:
                    waiting.remove(waiter)
                if not waiting:
                    self._waiting.pop(key, None)

    def remove(self, key: ExecutionKey) -> None:
        """Remove an execution that has ended."""
        self._buffer.remove(key)

    def close(self, key: ExecutionKey) -> None:
        """Drop the entries of an execution whose lease is lost."""
        self._buffer.close(key)
        self._notify([key])

    def stop(self) -> None:
        """Stop; entries that are not sent yet are lost."""
        with self._lock:
            self._stopped = True
            waiting = list(self._waiting)
        self._notify(waiting)
        self._background.stop()

    async def _run(self) -> None:
        while not self._stopped:
            request = self._buffer.next_batch()
            if request is None:
                if not await self._background.wait(None):
                    return
            elif await self._send(request):
                self._notify(self._buffer.batch_done(request))

    async def _send(self, request: worker_pb2.AppendOutputRequest) -> bool:
        """Send a batch until it is stored, or can't be; return False if the worker stops."""
        failures = 0
        sent = self._runtime.monotonic()
        while not self._stopped:
            try:
                response = await self._background.append(request, CALL_SECONDS)
            except StepwellClientError as error:
                failures += 1
                if not self._transport.may_return(error):
                    _log.warning("log entries are left out: the server answers %s", error.reason)
                    return True
                await self._background.wait(max(0.01, LOGS.seconds(self._runtime, failures)))
                now = self._runtime.monotonic()
                self._buffer.add_age(request, now - sent)
                sent = now
            else:
                for state in response.leases:
                    if state.status == worker_pb2.LEASE_STATUS_LOST:
                        self._buffer.close((state.lease.run_id, state.lease.execution_id))
                        self._on_change(state)
                return True
        return False

    def _notify(self, keys: list[ExecutionKey]) -> None:
        """Wake the flushes that wait for these executions."""
        with self._lock:
            waiters = [one for key in keys for one in self._waiting.get(key, ())]
        for loop, quiet in waiters:
            try:
                loop.call_soon_threadsafe(quiet.set)
            except RuntimeError:  # The event loop is closed, so nobody waits.
                continue
