"""Watches of both clients: items one by one, over as many streams as needed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

import grpc

from stepwell_client.calls.base import Caller
from stepwell_client.calls.cursors import Cursor
from stepwell_client.errors import StepwellClientError
from stepwell_client.link.status import from_rpc_error
from stepwell_client.records.messages_pb2 import Run
from stepwell_client.records.reading import read

Item = TypeVar("Item")
PositionT = TypeVar("PositionT")


class Watch(Generic[Item, PositionT]):
    """Events, updates or log entries, one by one, over as many streams as needed. Iterate it once.

    Leaving the loop ends the stream. Used as a context manager, the watch ends it reliably and at
    once.
    """

    def __init__(
        self,
        caller: Caller,
        cursor: Cursor[Any, Any, Any],
        convert: Callable[[Any], Item],
        timeout_seconds: float | None = None,
    ) -> None:
        """`convert` makes an item of a message. The watch ends after `timeout_seconds`."""
        self.cursor = cursor
        """The state of the watch: the position, and the time of the last message."""
        self._caller = caller
        self._convert = convert
        self._timeout_seconds = timeout_seconds
        self._call: Any = None
        self._closed = False

    @property
    def position(self) -> PositionT:
        """The position after the last item, from which another watch continues: as its `after`, or its `cursor`."""
        return self.cursor.position

    @property
    def run(self) -> Run | None:
        """The run after its end; None before it, and for watches of more than one run's events."""
        run = self.cursor.run
        return None if run is None else read(run, Run)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End the stream. A stream that is only dropped would stay on the server."""
        self.cancel()

    def cancel(self) -> None:
        """End the stream; with a synchronous client also from another thread."""
        self._closed = True
        call = self._call
        if call is not None:
            call.cancel()

    async def __aiter__(self) -> AsyncIterator[Item]:
        # A generator: when a loop is left, the interpreter closes the generator and thereby the
        # stream.
        cursor, caller = self.cursor, self._caller
        now = caller.runtime.monotonic
        limit = self._timeout_seconds
        until = None if limit is None else now() + limit
        while not cursor.over and not self._closed:
            left = None if until is None else until - now()
            if left is not None and left <= 0:
                return
            cursor.opened()
            loss: StepwellClientError | None = None
            call = self._call = caller.open_stream(cursor, left)
            try:
                # Another thread may have closed the watch while the stream was opened.
                while not (cursor.over or cursor.broken or self._closed):
                    message = await caller.next_message(call)
                    if message is None:
                        break
                    for item in cursor.accept(message):
                        yield self._convert(item)
            except grpc.RpcError as error:
                loss = from_rpc_error(error)
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if not self._closed or task is None or task.cancelling():
                    raise
            finally:
                self._call = None
                call.cancel()
            if cursor.over or self._closed or (until is not None and now() >= until):
                return
            await caller.sleep(cursor.lost(loss))
