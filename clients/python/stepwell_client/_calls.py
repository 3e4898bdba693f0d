"""The base of the calls: retries, request ids and pages, for both clients.

Each call is written once, as an async method. `Client` sends requests with await. `SyncClient` sends them
in the caller's thread, so that its calls never wait for an event loop and run to their end at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar

from google.protobuf.message import Message

from stepwell_client._backoff import CALLS
from stepwell_client._connect import Access, Connection
from stepwell_client._errors import DeadlineExceeded, Unauthenticated, Unavailable
from stepwell_client._runtime import Runtime

CALL_SECONDS = 30.0
RECONNECT_SECONDS = 60.0
"""The time that a watch or a wait, once it has worked, tries to reach a lost server."""

T = TypeVar("T")


class Retries:
    """The decisions about calling again: when to give up, how long to pause, which token to use."""

    def __init__(
        self, runtime: Runtime, access: Access, *, reconnect_seconds: float | None
    ) -> None:
        """`reconnect_seconds`: see RECONNECT_SECONDS. None: never give up."""
        self.runtime = runtime
        self.access = access
        self._reconnect_seconds = reconnect_seconds

    def pause_seconds(self, failures: int) -> float:
        """Return how many seconds to wait after so many failures in a row."""
        return CALLS.seconds(self.runtime, failures)

    def gives_up(self, lost_since: float) -> bool:
        """Return whether a server that was lost at that moment has been tried for long enough."""
        span = self._reconnect_seconds
        return span is not None and self.runtime.monotonic() - lost_since >= span


class CallsBase(ABC):
    """A connection to the Orchestrator service, and how calls are made over it."""

    def __init__(
        self, connection: Connection, runtime: Runtime, *, reconnect_seconds: float | None
    ) -> None:
        self.connection = connection
        self.runtime = runtime
        self._retries = Retries(runtime, connection.access, reconnect_seconds=reconnect_seconds)

    @abstractmethod
    async def _send(self, method: str, request: Message, timeout_seconds: float) -> Any:
        """Make one unary call. Raises StepwellClientError."""
        ...

    @abstractmethod
    async def _sleep(self, seconds: float) -> None: ...

    async def _call(
        self, method: str, request: Message, *, seconds: float = CALL_SECONDS, repeat: bool = True
    ) -> Any:
        """Make a call; with `repeat` again, a few times, while the server is UNAVAILABLE."""
        failures = 0
        renewed = False
        while True:
            try:
                return await self._send(method, request, seconds)
            except DeadlineExceeded:
                raise
            except Unavailable:
                failures += 1
                if not repeat or failures >= CALLS.attempts_max:
                    raise
            except Unauthenticated:
                if renewed or not self.connection.access.reload():
                    raise
                renewed = True
                continue
            await self._sleep(self._retries.pause_seconds(failures))

    async def _pages(
        self, method: str, request: Callable[[str], Message], field: str
    ) -> AsyncIterator[Any]:
        """Yield the items of a listing, page by page; `request` makes the request for a page token."""
        token = ""
        while True:
            page = await self._call(method, request(token))
            for item in getattr(page, field):
                yield item
            token = page.next_page_token
            if not token:
                return

    def _request_id(self, given: str) -> str:
        """Return the request id of a command, made once, so that repetitions are the same request."""
        return given or self.runtime.new_id()
