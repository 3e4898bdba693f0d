"""Reads in Postgres: each is one snapshot on its own link, in a task that its caller can't cancel.

A cancelled read would leave its link in an unknown state, so it is finished even if its caller is
gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from sqlalchemy.util.concurrency import greenlet_spawn

from stepwell.core.port import Runtime
from stepwell.core.records.errors import StoreUnavailable
from stepwell_drivers.sql.dialect import Link
from stepwell_drivers.sql.postgres.errors import trouble_of
from stepwell_drivers.sql.postgres.links import READ, WRITE, Links, PostgresLink

TRIES_MAX = 4
RETRY_S = 0.02
"""The upper bound of the first random wait; it doubles."""

P = ParamSpec("P")
T = TypeVar("T")


class Readers:
    """Runs short transactions, and retries them if that can help."""

    def __init__(self, links: Links, runtime: Runtime) -> None:
        self._links = links
        self._runtime = runtime

    async def run(
        self, read: Callable[Concatenate[Link, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a read in a snapshot, and return its result."""
        return await self.transact(READ, read, *args, **kwargs)

    async def ask(
        self, read: Callable[Concatenate[Link, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a read that is one statement, without the two round trips of a transaction."""
        return await self.transact(READ if self._links.pooler else "", read, *args, **kwargs)

    async def update(
        self, claim: Callable[Concatenate[Link, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Change rows that may be lost in a crash (holds), without waiting for a disk."""
        return await self.transact(
            f"{WRITE}; SET LOCAL synchronous_commit = off", claim, *args, **kwargs
        )

    async def execute(self, sql: str, *values: str) -> None:
        """Run one statement once, in its own transaction."""
        async with self._links.one() as link:
            try:
                if self._links.pooler:
                    # Without BEGIN the statement might be prepared on one server connection and run
                    # on another.
                    await link.begin(WRITE)
                await link.driver_connection.execute(sql, *values)
                if self._links.pooler:
                    await link.end("COMMIT")
            except BaseException:
                link.cut()
                raise

    async def transact(
        self,
        how: str,
        work: Callable[Concatenate[Link, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Run `work` in a transaction that begins with `how`, or without one if that is empty."""

        async def tries() -> T:
            for left in reversed(range(TRIES_MAX)):
                try:
                    return await self._once(how, lambda link: work(link, *args, **kwargs))
                except _Stale:
                    # The link died while it was idle: try another.
                    continue
                except Exception as error:
                    trouble = trouble_of(error)
                    if not left or not trouble.retry:
                        raise trouble.error from error
                await self._runtime.sleep(
                    self._runtime.random() * RETRY_S * 2 ** (TRIES_MAX - left)
                )
            raise StoreUnavailable("the connections to the database were lost again and again")

        return await asyncio.shield(self._runtime.spawn(tries(), name="stepwell-postgres-read"))

    async def _once(self, how: str, work: Callable[[Link], T]) -> T:
        async with self._links.one() as link:
            stale = link.used
            try:
                alone = not how and not link.replan
                if not alone:
                    await link.begin(how or READ)
                    stale = False
                answer = await greenlet_spawn(work, link)
                if not alone:
                    await link.end("COMMIT")
            except BaseException as error:
                if await roll_back(link, error):
                    self._links.drop_idle()
                    if stale and isinstance(error, Exception):
                        raise _Stale from error
                raise
            return answer


class _Stale(Exception):
    """The link was dead before anything was sent."""


async def roll_back(link: PostgresLink, error: BaseException) -> bool:
    """Roll back a failed transaction; return whether the link is broken."""
    broken = isinstance(error, asyncio.CancelledError) or trouble_of(error).fatal
    if not broken and link.driver_connection.is_in_transaction():
        try:
            await link.end("ROLLBACK")
        except Exception:  # noqa: BLE001 - the error that led here is the one to report
            broken = True
    if broken:
        link.cut()
    return broken
