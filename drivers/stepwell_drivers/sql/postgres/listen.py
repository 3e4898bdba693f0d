"""The connection that listens for notifications. Notifications are hints: missed ones can be read
from the rows.

The connection is reopened when it is lost; it is then reported that anything may have changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from stepwell.core.port import Runtime
from stepwell.logger import get_logger
from stepwell_drivers.sql.postgres.errors import trouble_of
from stepwell_drivers.sql.postgres.hosts import Hosts

log = get_logger(__name__)

PING_S = 15.0
"""The interval of pings on a silent connection, because nothing reports a cut cable."""
ANSWER_S = 5.0
"""The time in which an answer must come, or else the connection counts as lost."""
WAIT_S = 0.1
WAIT_S_MAX = 10.0
DOUBLED_MAX = 10


class Listener:
    """Listens to one channel until it is closed. Used on the event loop alone."""

    def __init__(
        self,
        connect: dict[str, Any],
        channel: str,
        runtime: Runtime,
        on_notice: Callable[[str], None],
        on_gap: Callable[[], None],
        *,
        ping_s: float = PING_S,
    ) -> None:
        """Make a listener that is not connected yet.

        Args:
            connect: keyword arguments of `asyncpg.connect`.
            channel: any text of up to 63 bytes; it is quoted here.
            runtime: for waits.
            on_notice: called with the payload of each notification.
            on_gap: called when it listens again after a gap.
            ping_s: how often a silent connection is pinged.
        """
        self._hosts = Hosts(connect)
        self._channel = channel
        self._runtime = runtime
        self._on_notice = on_notice
        self._on_gap = on_gap
        self._ping_s = ping_s
        self._following: asyncio.Task[None] | None = None
        self.listening = asyncio.Event()
        """Set while it listens."""

    def start(self) -> None:
        """Start listening; neither waits nor fails."""
        if self._following is None:
            self._following = self._runtime.spawn(self._follow(), name="stepwell-listen")

    async def close(self) -> None:
        """Stop listening. Safe to call twice."""
        if self._following is not None:
            self._following.cancel()
            await asyncio.wait((self._following,))
            self.listening.clear()

    async def _follow(self) -> None:
        """Connect and listen, again whenever that ends. Never ends by itself."""
        gap, failures = False, 0
        while True:
            why: BaseException | None = None
            connection: Any = None
            try:
                connection = await self._hosts.connect()
                why = await self._listen(connection, gap=gap)
            except Exception as error:  # noqa: BLE001 - a hint's way may not take the store down
                why = error
            finally:
                if connection is not None:
                    connection.terminate()
            if self.listening.is_set():
                failures = 0
            if self.listening.is_set() or not gap:
                self._log_lost(why)
            self.listening.clear()
            gap = True
            ceiling = min(WAIT_S_MAX, WAIT_S * 2 ** min(failures, DOUBLED_MAX))
            failures += 1
            await self._runtime.sleep(ceiling * self._runtime.random())

    async def _listen(self, connection: Any, *, gap: bool) -> BaseException | None:
        """Listen until the connection ends; return the reason, if known."""
        ended = asyncio.Event()

        def on_end(_connection: Any) -> None:
            ended.set()

        connection.add_termination_listener(on_end)
        why = await self._answered(connection, connection.add_listener(self._channel, self._on))
        if why is not None:
            return why
        self.listening.set()
        if gap:
            log.info("listening to the database again", channel=self._channel)
            self._call(self._on_gap)
        while why is None and not ended.is_set():
            try:
                async with asyncio.timeout(self._ping_s):
                    await ended.wait()
            except TimeoutError:
                why = await self._answered(connection, connection.execute("SELECT 1"))
        return why

    async def _answered(
        self, connection: Any, question: Coroutine[Any, Any, Any]
    ) -> BaseException | None:
        """Wait for an answer; return the error that prevented it.

        asyncpg's own time-out would first ask the silent server for a cancellation, so the
        connection is closed instead.
        """
        asking = self._runtime.spawn(question, name="stepwell-listen-ask")
        asking.add_done_callback(_retrieve)
        done, _ = await asyncio.wait((asking,), timeout=ANSWER_S)
        if not done:
            connection.terminate()
            return TimeoutError()
        return asking.exception()

    def _on(self, _connection: Any, _pid: int, _channel: str, payload: object) -> None:
        self._call(self._on_notice, str(payload))

    def _call(self, function: Callable[..., None], *arguments: str) -> None:
        try:
            function(*arguments)
        except Exception:
            log.exception("a hint could not be passed on", channel=self._channel)

    def _log_lost(self, why: BaseException | None) -> None:
        reason = "it was closed" if why is None else trouble_of(why).error.message
        log.warning(
            "not listening to the database",
            channel=self._channel,
            why=reason,
            todo="nothing: it comes back by itself, and changes are looked for meanwhile",
        )


def _retrieve(asked: asyncio.Task[Any]) -> None:
    """Retrieve an answer that nobody awaits any more, so that its error is not logged as unhandled."""
    if not asked.cancelled():
        asked.exception()
