"""Writes the messages of a stream, and cuts it off if its reader stops reading.

A message is written by a plain await. A watchdog for each stream checks its writes: it wakes up
once in the time that a write may be blocked, however many messages there are.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, TypeAlias, cast

import grpc

from stepwell.core.port import Runtime
from stepwell.rpc import status

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
# In quotes, because what is generic in the stubs isn't at run time.

_NOT_READ = "the stream was not read"


class _Writes:
    """The writes of one stream, for its watchdog."""

    __slots__ = ("cut", "ended", "since", "stalled")

    def __init__(self) -> None:
        self.since = 0.0
        """The monotonic time at which the current write began; 0: none is running."""
        self.stalled = False
        """True if a write was blocked for too long, so that only one last message follows."""
        self.ended = asyncio.Event()
        """Set when that write has ended."""
        self.cut = False
        """True if the watchdog has cancelled the write."""

    def cut_off(self, stream: asyncio.Task[Any]) -> None:
        """Cancel the write, unless it has ended."""
        if not self.ended.is_set():
            self.cut = True
            stream.cancel()


class StreamWriter:
    """Writes messages for all streams of a server."""

    def __init__(self, runtime: Runtime, *, stall_ms: int) -> None:
        """`stall_ms` is the longest that a write may be blocked."""
        self._runtime = runtime
        self._patience_s = stall_ms / 1_000

    async def write(self, messages: AsyncGenerator[Any], context: Context) -> None:
        """Write the messages of a method; raise SlowConsumer within the method if they are not read."""
        stream = cast("asyncio.Task[Any]", asyncio.current_task())
        writes, message, end = _Writes(), None, None
        watchdog = self._runtime.spawn(self._watch(writes, messages, stream), name="watchdog")
        try:
            async for message in messages:
                writes.since = self._runtime.monotonic()
                await context.write(message)
                writes.since = 0.0
                if writes.stalled:
                    # The method may yield one last message, for a reader that reads again after
                    # all.
                    writes.ended.set()
                    end = await watchdog
                    break
        except asyncio.CancelledError:
            if not writes.cut or stream.uncancel():
                raise
            end = await watchdog
        finally:
            await _end(watchdog)
            # An exception that leaves here keeps this frame. If the frame kept the task, which
            # keeps the exception, they and the message would live until the garbage collector runs.
            del watchdog, message, stream
        try:
            if isinstance(end, Exception):
                raise end
            if end is not None:
                await context.write(end)
        finally:
            del end  # For the same reason.

    async def _watch(
        self, writes: _Writes, messages: AsyncGenerator[Any], stream: asyncio.Task[Any]
    ) -> Any:
        """Wait until a write is blocked for too long, and end the method.

        Return the method's last message, once the write has ended after all. If there is none, or
        the write is blocked for as long again, cut the stream off and return the error with which
        it ends, if any.
        """
        patience = wait = self._patience_s
        while wait > 0:
            await self._runtime.sleep(wait)
            now = self._runtime.monotonic()
            wait = (writes.since or now) + patience - now
        writes.stalled = True
        try:
            last = await messages.athrow(status.SlowConsumer(_NOT_READ))
            async with asyncio.timeout(patience):
                await writes.ended.wait()
        except StopAsyncIteration:
            writes.cut_off(stream)
            return None
        except TimeoutError:
            writes.cut_off(stream)
            return status.SlowConsumer(_NOT_READ)
        except Exception as error:  # noqa: BLE001 - the stream ends with it, whatever it is
            writes.cut_off(stream)
            return error
        return last


async def _end(task: asyncio.Task[Any]) -> None:
    """Cancel a task that hasn't ended, and wait for its end."""
    if not task.done():
        task.cancel()
        await asyncio.wait((task,))
