"""Log entries of an embedded run's steps: gathered from any thread, stored while the steps go on.

The buffer is a worker's, emptied by a task of the event loop instead of by a thread that calls a server.
"""

from __future__ import annotations

import asyncio

from stepwell.core.loop.retry import backoff_ms
from stepwell.core.port import Runtime
from stepwell.core.records.errors import StoreError
from stepwell.core.records.model import LogEntry, RetryPolicy
from stepwell.core.records.states import LogKind
from stepwell.engine.appender import AppendBatch
from stepwell.engine.executor import Executor
from stepwell.logger import get_logger
from stepwell.wire.codec import get_ms
from stepwell_client.internal import ExecutionKey, LogBuffer
from stepwell_client.v1 import types_pb2, worker_pb2

log = get_logger(__name__)

FLUSH_SECONDS = 10.0
_AGAIN = RetryPolicy(initial_backoff_ms=20, max_backoff_ms=1_000)
_KINDS = {
    types_pb2.LOG_KIND_LINE: LogKind.LINE,
    types_pb2.LOG_KIND_CHUNK: LogKind.CHUNK,
    types_pb2.LOG_KIND_CUT: LogKind.CUT,
}


class Scribe:
    """Stores the log entries of steps, from the first one to `close`."""

    def __init__(self, executor: Executor, runtime: Runtime, tenant_id: str) -> None:
        self._executor = executor
        self._runtime = runtime
        self._tenant_id = tenant_id
        self._buffer = LogBuffer(runtime.monotonic)
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        self._kept = asyncio.Condition()
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    def write(self, key: ExecutionKey, token: str, text: str, level: str, *, chunk: bool) -> None:
        """Add an entry. Any thread may call; never waits."""
        if self._buffer.write(key, token, text, level, chunk=chunk):
            self._loop.call_soon_threadsafe(self._begin)

    async def flush(self, key: ExecutionKey) -> None:
        """Wait until all entries of an execution are stored, up to FLUSH_SECONDS."""
        self._begin()
        try:
            async with asyncio.timeout(FLUSH_SECONDS), self._kept:
                await self._kept.wait_for(lambda: self._closed or self._buffer.is_quiet(key))
        except TimeoutError:
            log.warning("the last log entries could not be kept in time", execution_id=key[1])

    def forget(self, key: ExecutionKey) -> None:
        """Drop an execution that has ended."""
        self._buffer.remove(key)

    async def close(self) -> None:
        """Stop; entries that aren't stored by then are lost."""
        self.stop()
        if self._task is not None:
            await asyncio.wait([self._task])

    def stop(self) -> None:
        """Stop without waiting for the task to end."""
        self._closed = True
        if self._task is not None:
            self._task.cancel()

    def _begin(self) -> None:
        if self._task is None and not self._closed:
            self._task = self._runtime.spawn(self._work(), name="logs")
        self._wake.set()

    async def _work(self) -> None:
        while True:
            self._wake.clear()
            request = self._buffer.next_batch()
            if request is None:
                await self._wake.wait()
                continue
            await self._keep(request)
            self._buffer.batch_done(request)
            async with self._kept:
                self._kept.notify_all()

    async def _keep(self, request: worker_pb2.AppendOutputRequest) -> None:
        """Store a batch, and try again until the store takes it."""
        now_us = self._executor.now_us()
        written = [_written(appended, now_us) for appended in request.appended]
        failures = 0
        while True:
            try:
                live = await self._executor.append(self._tenant_id, written)
            except StoreError as error:
                failures += 1
                log.warning("log entries were not taken; they are sent again", error=error.message)
                wait_ms = backoff_ms(_AGAIN, failures, self._runtime.random())
                await self._runtime.sleep(wait_ms / 1_000)
                continue
            for one, lives in zip(written, live, strict=True):
                if not lives:
                    self._buffer.close((one.run_id, one.execution_id))
            return


def _written(appended: worker_pb2.Appended, now_us: int) -> AppendBatch:
    return AppendBatch(
        run_id=appended.lease.run_id,
        execution_id=appended.lease.execution_id,
        token=appended.lease.token,
        entries=tuple(
            LogEntry(
                execution_id=appended.lease.execution_id,
                text=line.text,
                level=line.level,
                kind=_KINDS[line.kind],
                written_us=now_us - get_ms(line.age) * 1_000,
            )
            for line in appended.logs
        ),
    )
