"""Connections to Postgres, as the SQL functions take them, in a pool.

A link is asyncpg's connection together with SQLAlchemy's dialect, which compiles the statements.
Session settings are made when a link is opened. Behind a pooler in transaction mode a session lasts
for one transaction, so they are made at the start of each.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
from sqlalchemy.dialects.postgresql.asyncpg import PGDialect_asyncpg
from sqlalchemy.engine import Dialect

from stepwell.core.port import Runtime
from stepwell.core.records.errors import StoreUnavailable
from stepwell_drivers.sql.postgres.hosts import Hosts
from stepwell_drivers.sql.postgres.url import PostgresUrl

STATEMENTS_KEPT = 512
"""Prepared statements that a connection keeps; the driver has about two hundred."""
MARGIN_MS = 2_000
"""The time beyond the server's own limits after which a silent transaction is cut off."""
LOOK_SECONDS = 0.5

RESTED_S = 0.1
"""A link that was idle for this long is checked before a write whose loss couldn't be detected."""
PLANS_S = 1.0
PLANS_S_MAX = 60.0
"""The time that a link keeps its query plans: a plan for nearly empty tables may use a wrong index later."""

WRITE = "BEGIN"
READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"

_PLANS = {
    # Every statement here looks rows up by index. Statistics lag behind a growing table, and a plan
    # made for an empty table would be kept, so sequential scans are disabled.
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "plan_cache_mode": "force_generic_plan",
    "jit": "off",
}
_dialect = PGDialect_asyncpg()


class PostgresLink:
    """One connection. Its holder begins and ends transactions on it."""

    def __init__(self, driver: asyncpg.Connection[Any], prefix: str) -> None:
        self.driver_connection = driver
        self.used = False
        """True after its use: it may have died since without being noticed."""
        self._left_at = 0.0
        self._has_rested = False
        self._plans_s = PLANS_S
        self._plans_until: float | None = None
        self.replan = False
        """True: the next transaction first discards the plans."""
        self._prefix = prefix

    @property
    def dialect(self) -> Dialect:
        return _dialect

    @property
    def connection(self) -> PostgresLink:
        """This link, which also holds the driver's connection."""
        return self

    @property
    def lost(self) -> bool:
        """True once the connection is closed."""
        return self.driver_connection.is_closed()

    def check_out(self, now: float) -> None:
        """Schedule DISCARD PLANS when its cached plans are stale."""
        self._has_rested = self.used and now - self._left_at >= RESTED_S
        if self._plans_until is None:
            self._plans_until = now + self._plans_s
        elif now >= self._plans_until:
            self._plans_s = min(2 * self._plans_s, PLANS_S_MAX)
            self._plans_until = now + self._plans_s
            self.replan = True

    async def begin(self, how: str) -> None:
        """Begin a transaction, in one round trip."""
        again, self.replan = ("; DISCARD PLANS" if self.replan else ""), False
        await self.driver_connection.execute(how + self._prefix + again)

    def leave(self, now: float) -> None:
        """Note that the holder returns the link."""
        self.used = True
        self._left_at = now

    async def get_ready(self) -> None:
        """Discard stale plans, and check that the server answers, before a statement that has no BEGIN."""
        if self.replan or self._has_rested:
            await self.driver_connection.execute("DISCARD PLANS" if self.replan else "SELECT 1")
            self.replan = False

    async def end(self, how: str) -> None:
        """End the transaction by COMMIT or ROLLBACK."""
        await self.driver_connection.execute(how)

    def cut(self) -> None:
        """Close the socket at once, even during a call."""
        self.driver_connection.terminate()


class Connector:
    """Opens links to one database."""

    def __init__(self, url: PostgresUrl) -> None:
        self.url = url
        settings = {"search_path": url.schema, **_PLANS}
        self._prefix = ""
        arguments = dict(url.connect)
        if url.pooler:
            settings |= {
                "statement_timeout": str(url.statement_timeout_ms),
                "lock_timeout": str(url.lock_timeout_ms),
                "idle_in_transaction_session_timeout": str(url.idle_in_transaction_timeout_ms),
            }
            self._prefix = "".join(
                f"; SET LOCAL {key} = {value}" for key, value in settings.items()
            )
        else:
            given = arguments.get("server_settings", {})
            arguments["server_settings"] = {**given, **settings}
            arguments["statement_cache_size"] = STATEMENTS_KEPT
            # Statements of any length are cached, without expiry.
            arguments["max_cacheable_statement_size"] = 0
            arguments["max_cached_statement_lifetime"] = 0
        self.hosts = Hosts(arguments)

    async def connect(self) -> PostgresLink:
        """Open a link.

        Raises:
            Exception: asyncpg's error.
        """
        return PostgresLink(await self.hosts.connect(), self._prefix)


class Links:
    """A pool of links: opened when needed, used by one caller at a time, in the order of requests."""

    def __init__(self, connector: Connector, size: int, runtime: Runtime) -> None:
        self._connector = connector
        self._runtime = runtime
        self._idle: deque[PostgresLink] = deque()
        self._free = asyncio.Semaphore(size)
        self._size = size
        self._used: dict[PostgresLink, float] = {}
        self._closed = False
        self._watching: asyncio.Task[None] | None = None
        url = connector.url
        self.pooler = url.pooler
        self._limit_s = (url.statement_timeout_ms + url.lock_timeout_ms + MARGIN_MS) / 1_000

    @asynccontextmanager
    async def one(self) -> AsyncGenerator[PostgresLink]:
        """Yield a link, whose transaction the caller ends or cuts off."""
        async with self._free:
            if self._closed:
                raise StoreUnavailable("this store was closed")
            link = self._take() or await self._connector.connect()
            now = self._runtime.monotonic()
            link.check_out(now)
            self._used[link] = now + self._limit_s
            self._watch()
            try:
                yield link
            finally:
                link.leave(self._runtime.monotonic())
                del self._used[link]
                if link.lost or self._closed:
                    link.cut()
                else:
                    self._idle.append(link)

    def _take(self) -> PostgresLink | None:
        while self._idle:
            # The link that was used last has warm caches.
            link = self._idle.pop()
            if not link.lost:
                return link
        return None

    async def call_ahead(self, many: int, sql: str, arguments: Sequence[Any]) -> None:
        """Make a call on `many` links at once, or on as many as are allowed, and drop results and
        errors.

        The first call on a link takes ten times as long as later ones, because asyncpg reads its
        types and the server plans its statements.
        """

        async def call() -> None:
            async with self.one() as link:
                try:
                    await link.driver_connection.fetch(sql, *arguments)
                except BaseException:
                    link.cut()
                    raise

        await asyncio.gather(
            *[call() for _ in range(min(many, self._size))], return_exceptions=True
        )

    def add(self, link: PostgresLink) -> None:
        """Put a link that was opened elsewhere into the pool."""
        self._idle.append(link)

    def drop_idle(self) -> None:
        """Close all idle links, after one was found broken."""
        while self._idle:
            self._idle.pop().cut()

    def _watch(self) -> None:
        if self._watching is None or self._watching.done():
            self._watching = self._runtime.spawn(
                self._cut_overdue(), name="stepwell-postgres-watch"
            )

    async def _cut_overdue(self) -> None:
        """Close the socket of a link that waits too long for a silent server, so that its holder gets an error."""
        while self._used:
            await self._runtime.sleep(LOOK_SECONDS)
            now = self._runtime.monotonic()
            for link, until in self._used.items():
                if until < now:
                    link.cut()

    async def close(self) -> None:
        """Close all links; callers that still hold one soon get an error."""
        self._closed = True
        if self._watching is not None:
            self._watching.cancel()
        while self._idle:
            link = self._idle.pop()
            try:
                async with asyncio.timeout(1.0):
                    await link.driver_connection.close()
            except Exception:  # noqa: BLE001 - it is gone either way
                link.cut()
