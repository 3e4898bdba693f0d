"""Writes the messages of a stream, and cuts it off if its reader reads no more.

A message is written by a plain await. One watchdog a stream looks after its writes: it wakes up no more often
than a write may be blocked, however many messages there are.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, TypeAlias, cast

import grpc

from stepwell.core.port import Runtime
from stepwell.rpc import status

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
# In quotes, as what is generic in the stubs isn't at run time.

_NOT_READ = "the stream was not read"


class _Writes:
    """The writes of one stream, as its watchdog sees them."""

    __slots__ = ("cut", "ended", "since", "stalled")

    def __init__(self) -> None:
        self.since = 0.0
        """The monotonic time at which the write under way began; 0: there is none."""
        self.stalled = False
        """A write was blocked for too long: there are no more messages but a last one."""
        self.ended = asyncio.Event()
        """That write has ended."""
        self.cut = False
        """The watchdog has cancelled the write."""

    def cut_off(self, stream: asyncio.Task[Any]) -> None:
        """Cancel the write, unless it has ended."""
        if not self.ended.is_set():
            self.cut = True
            stream.cancel()


class StreamWriter:
    """Writes messages for all streams of a server."""

    def __init__(self, runtime: Runtime, *, stall_ms: int) -> None:
        """`stall_ms`: for how long a write may be blocked."""
        self._runtime = runtime
        self._patience_s = stall_ms / 1_000

    async def write(self, messages: AsyncGenerator[Any], context: Context) -> None:
        """Write the messages of a method; raise SlowConsumer within it if they are not read."""
        stream = cast("asyncio.Task[Any]", asyncio.current_task())
        writes, message, end = _Writes(), None, None
        watchdog = self._runtime.spawn(self._watch(writes, messages, stream), name="watchdog")
        try:
            async for message in messages:
                writes.since = self._runtime.monotonic()
                await context.write(message)
                writes.since = 0.0
                if writes.stalled:
                    # The method may yield one last message, for a reader that woke up after all.
                    writes.ended.set()
                    end = await watchdog
                    break
        except asyncio.CancelledError:
            if not writes.cut or stream.uncancel():
                raise
            end = await watchdog
        finally:
            await _end(watchdog)
            # An exception that leaves here keeps this frame. If the frame kept the task, which keeps the
            # exception, then they and the message would live until the garbage collector comes.
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
        """Wait until a write is blocked for too long, and let the method end.

        Returns its last message, once the write has ended after all. Where there is none, or the write goes on
        for as long again, it cuts the stream off and returns the error that the stream ends with, if any.
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
