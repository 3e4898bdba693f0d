"""Makes calls for both clients, with retries, request ids and pages.

Each call is written once, as an async method. `Client` sends requests with await. `SyncClient`
sends them in the caller's thread, so that its coroutines never suspend. Commands have a request id,
so they may be repeated: a second request finds what the first has done. They are repeated for the
client's `reconnect_seconds` while no server answers. Reads are repeated a few times only. So is a
purge, because its second answer would omit what the first removed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar

from google.protobuf.message import Message

from stepwell_client.calls.cursors import Cursor
from stepwell_client.calls.requests import CommandOptions
from stepwell_client.errors import DeadlineExceeded, Unauthenticated, Unavailable
from stepwell_client.link.connect import Connection
from stepwell_client.link.outages import Retries
from stepwell_client.link.runtime import Runtime

CALL_SECONDS = 30.0
RECONNECT_SECONDS = 60.0
"""The default time that a watch, a wait, a start or a command tries to reach a server."""

T = TypeVar("T")


class Calls(ABC):
    """The unary calls of the Orchestrator service, over a connection or in this process."""

    @abstractmethod
    async def call(self, method: str, request: Any) -> Any:
        """Make a call. Raises StepwellClientError."""
        ...

    @abstractmethod
    async def change(self, method: str, request: Any) -> Any:
        """Make a call that changes something, with a request id, so that it may be repeated. Raises StepwellClientError."""
        ...

    async def pages(
        self,
        method: str,
        request: Any,
        field: str,
        convert: Callable[[Any], T],
    ) -> AsyncIterator[T]:
        """Yield the items of a listing as records, page by page; each page's token is put into the request."""
        while True:
            page = await self.call(method, request)
            for item in getattr(page, field):
                yield convert(item)
            request.page_token = page.next_page_token
            if not request.page_token:
                return


class Caller(Calls):
    """A connection to the Orchestrator service, and how calls are made over it."""

    def __init__(
        self, connection: Connection, runtime: Runtime, *, reconnect_seconds: float | None
    ) -> None:
        self.connection = connection
        self.runtime = runtime
        self.retries = Retries(runtime, connection, reconnect_seconds=reconnect_seconds)

    @abstractmethod
    async def _send(self, method: str, request: Message, timeout_seconds: float) -> Any:
        """Make one unary call. Raises StepwellClientError."""
        ...

    @abstractmethod
    def open_stream(self, cursor: Cursor[Any, Any, Any], timeout_seconds: float | None) -> Any:
        """Open the next stream of a watch, and return the call."""
        ...

    @abstractmethod
    async def next_message(self, call: Any) -> Any:
        """Return the next message of a stream, or None at its end."""
        ...

    @abstractmethod
    async def sleep(self, seconds: float) -> None:
        """Wait some seconds."""
        ...

    async def call(
        self,
        method: str,
        request: Message,
        *,
        seconds: float = CALL_SECONDS,
        repeat: bool = True,
        patience_seconds: float | None = 0.0,
    ) -> Any:
        """Make a call; with `repeat`, repeat it a few times while the server is UNAVAILABLE.

        With `patience_seconds`, repeat it for that long (None: without limit) and log the outage.
        """
        outage = self.retries.outage(patience_seconds)
        renewed = False
        while True:
            try:
                return await self._send(method, request, seconds)
            except Unavailable as error:
                if not repeat or (isinstance(error, DeadlineExceeded) and patience_seconds == 0):
                    raise
                pause = outage.pause(error)
            except Unauthenticated:
                if renewed or not self.connection.access.reload():
                    raise
                renewed = True
                continue
            await self.sleep(pause)

    async def command(self, method: str, request: Any, run_id: str, options: CommandOptions) -> Any:
        """Make a command's call, repeated while no server answers, as long as the client has patience."""
        request.run_id = run_id
        for name, value in options.items():
            setattr(request, name, value)
        return await self.change(method, request)

    async def change(self, method: str, request: Any) -> Any:
        request.request_id = request.request_id or self.runtime.new_id()
        return await self.call(method, request, patience_seconds=self.retries.reconnect_seconds)
