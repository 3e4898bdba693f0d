"""Opens a store: checks the server and its durability, migrates the schema, then opens the links."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from sqlalchemy.util.concurrency import greenlet_spawn

from stepwell.core.port import Claim, Claimed, Runtime, Store, StoreInfo
from stepwell.core.records.errors import StepwellError, StoreRefused
from stepwell_drivers.hints import HintBus, RunKey
from stepwell_drivers.sql.dialect import Link
from stepwell_drivers.sql.migrate import HEAD, check, identify, is_behind, warn_if_newer
from stepwell_drivers.sql.postgres import claims
from stepwell_drivers.sql.postgres.clock import database_clock
from stepwell_drivers.sql.postgres.commits import CALL, NOTHING
from stepwell_drivers.sql.postgres.errors import refusal_of
from stepwell_drivers.sql.postgres.failure_log import Alarm
from stepwell_drivers.sql.postgres.links import WRITE, Connector, Links, PostgresLink
from stepwell_drivers.sql.postgres.listen import Listener
from stepwell_drivers.sql.postgres.notices import Notices
from stepwell_drivers.sql.postgres.readers import Readers
from stepwell_drivers.sql.postgres.schema_setup import make
from stepwell_drivers.sql.postgres.server_settings import (
    FACTS,
    Facts,
    Worth,
    warn_if_weak,
    worth_of,
)
from stepwell_drivers.sql.postgres.server_settings import check as check_facts
from stepwell_drivers.sql.postgres.url import PostgresUrl, parse
from stepwell_drivers.sql.postgres.writer import Writer
from stepwell_drivers.sql.store import SqlStore, changed_by
from stepwell_drivers.sql.writes import Work, sweep

GROUPS_MAX = 3
"""The most groups of commits at once, if the pool has room for as many reads."""
CALLED_AHEAD = 2
"""Links that are prepared for commits at the start; more would slow down a server that is starting."""
SWEEP_SECONDS = 60.0
PATIENTLY = "SET LOCAL statement_timeout = 0; COMMIT"


class _Server(NamedTuple):
    """The server that answered, with its store."""

    link: PostgresLink
    schema: str
    """The schema's version."""
    store_id: str
    facts: Facts
    worth: Worth


async def open_store(url: str, *, runtime: Runtime) -> Store:
    """Open the store that the URL names; create it if the schema is missing or empty.

    Raises:
        StoreRefused: the database can't hold a store, or this program doesn't know its schema.
        StoreUnavailable: no server answers.
    """
    place = parse(url)
    connector = Connector(place)
    try:
        found = await _find(connector, runtime)
    except Exception as error:
        raise refusal_of(error, place.shown) from error
    warn_if_weak(found.worth, place.shown)
    return _Parts(place, connector, found, runtime).store()


async def _find(connector: Connector, runtime: Runtime) -> _Server:
    """Connect, check the server, and migrate the schema."""
    link = await connector.connect()
    try:
        await link.begin(WRITE)
        facts = Facts.of((await link.driver_connection.fetch(FACTS))[0])
        check_facts(facts, connector.url.shown)
        version = await greenlet_spawn(check, link)
        await link.end("COMMIT")
        if is_behind(version):
            _may_make(connector.url, version)
            await make(connector, runtime)
            version = HEAD
        warn_if_newer(version, connector.url.shown)
        await link.begin(WRITE)
        store_id = await greenlet_spawn(_identify, link, runtime.new_id())
        await link.end("COMMIT")
        return _Server(link, version or HEAD, store_id, facts, worth_of(facts))
    except BaseException:
        link.cut()
        raise


def _may_make(place: PostgresUrl, version: str | None) -> None:
    if not place.migrate:
        raise StoreRefused(
            f"{place.shown} has schema {version or 'none'}, and this program needs {HEAD}; run"
            " `stepwell migrate --store URL`, or start without ?migrate=false"
        )


def _identify(link: Link, store_id: str) -> str:
    return identify(link, store_id=store_id, now_us=database_clock(link))["store_id"]


class _Parts:
    """Builds a store from its parts."""

    def __init__(
        self, place: PostgresUrl, connector: Connector, found: _Server, runtime: Runtime
    ) -> None:
        groups = min(GROUPS_MAX, max(1, place.pool_size // 2))
        self._runtime = runtime
        self._found = found
        self._hints = HintBus()
        self._links = [
            Links(connector, size, runtime) for size in (groups, place.pool_size - groups, 1)
        ]
        writing, reading, beating = self._links
        self._writing = writing
        reading.add(found.link)
        self._readers = Readers(reading, runtime)
        channel = f"stepwell.{found.store_id}"
        self._notices = Notices(self._readers, channel, runtime, self._hints.publish)
        self._listener: Listener | None = None
        if place.listen_connect is not None:
            self._listener = Listener(
                place.listen_connect, channel, runtime, self._notices.receive, self._notices.missed
            )
        alarm = Alarm(place.shown, runtime)
        self._writer = Writer(
            writing,
            groups_max=groups,
            runtime=runtime,
            after=self._after,
            alarm=alarm.ring,
            # No time-out may end the wait for another machine, because the server would then report
            # success.
            committing=PATIENTLY if found.facts.waits_for_standby else "COMMIT",
        )
        self._beats = Writer(
            beating, groups_max=1, runtime=runtime, after=self._after_beats, alarm=alarm.ring
        )
        self._swept = runtime.monotonic()
        self._calling_ahead: asyncio.Task[None] | None = None

    def store(self) -> SqlStore:
        """Return the started store."""
        if self._listener is not None:
            self._listener.start()
        if not self._writing.pooler:
            work = self._writing.call_ahead(CALLED_AHEAD, CALL, NOTHING)
            self._calling_ahead = self._runtime.spawn(work, name="stepwell-postgres-ahead")
        return SqlStore(
            writer=self._writer,
            beats=self._beats,
            readers=self._readers,
            claim=self._claim,
            hints=self._hints,
            clock=database_clock,
            runtime=self._runtime,
            info=StoreInfo(
                driver="postgresql",
                durability=self._found.worth.durability,
                detail=self._found.worth.detail,
                schema_version=self._found.schema,
                store_id=self._found.store_id,
            ),
            shut=self._shut,
        )

    async def _claim(self, claim: Claim) -> Claimed:
        return await self._readers.update(claims.claim, claim)

    def _after(self, done: Sequence[tuple[Work, Any]]) -> None:
        """Publish committed changes: to this process at once, to other replicas soon."""
        runs: Mapping[RunKey, int] = changed_by(done)
        self._hints.publish(runs)
        self._notices.publish(runs)

    def _after_beats(self, done: Sequence[tuple[Work, Any]]) -> None:
        """Remove expired rows now and then; only connected workers leave any."""
        del done
        now = self._runtime.monotonic()
        if now - self._swept >= SWEEP_SECONDS:
            self._swept = now
            self._runtime.spawn(self._sweep(), name="stepwell-postgres-sweep")

    async def _sweep(self) -> None:
        # The next attempt is in a minute.
        with suppress(StepwellError):
            await self._readers.update(_sweep)

    async def _shut(self) -> None:
        if self._calling_ahead is not None:
            self._calling_ahead.cancel()
            await asyncio.wait((self._calling_ahead,))
        await self._writer.close()
        await self._beats.close()
        await self._notices.close()
        if self._listener is not None:
            await self._listener.close()
        for links in self._links:
            await links.close()


def _sweep(link: Link) -> None:
    sweep(link, database_clock(link))
