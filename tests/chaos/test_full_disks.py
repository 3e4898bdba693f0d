"""Full disks under a database: it is reported as one, nothing is half-written, and work goes on when there is room."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from stepwell.core.port import Commit, Store
from stepwell.core.records.errors import OutcomeUnknown, StoreFull, StoreUnavailable
from stepwell.core.records.model import Payload
from stepwell.core.records.states import Verdict
from stepwell_testkit.conformance import ask
from stepwell_testkit.conformance import builders as b
from tests.chaos.load.chains import SECRET, once, opened, see_no_secret
from tests.support.backends.child import until
from tests.support.backends.postgres import Postgres, give_to_postgres
from tests.support.backends.redis import Redis
from tests.support.backends.shared import postgres_server
from tests.support.backends.small_disk import small_disk
from tests.support.logs import capture_logs
from tests.support.patience import PATIENCE_S
from tests.support.proofs.record import happened

pytestmark = [pytest.mark.proof(meets=["disk full"]), pytest.mark.usefixtures("backends")]

MIB = 1024 * 1024
COMMIT_BYTES = 512 * 1024
SMALL_MIB, SERVER_MIB = 24, 160


class Place(NamedTuple):
    """A store on a small disk."""

    url: str
    ballast: Path
    """A file that takes the room; it is removed when the disk is to have some again."""
    ballast_bytes: Callable[[], int]
    """Its size, which is written once the store is open."""
    revive: Callable[[], object] | None = None
    """Brings a server up that ends of a full disk; None: it stays up, and says StoreFull."""


@contextmanager
def _postgres_tables() -> Iterator[Place]:
    """The tables' space is full, not the server's own."""
    server = postgres_server(18, password=SECRET)
    if not isinstance(server, Postgres):
        pytest.skip("needs a server of its own")
    name = server.new_name()
    with small_disk(server.folder, SMALL_MIB) as disk:
        tables = disk / "tables"
        tables.mkdir(mode=0o700)
        give_to_postgres(tables)
        server.execute(f"CREATE TABLESPACE \"{name}\" LOCATION '{tables}'")
        server.execute(f'CREATE DATABASE "{name}" TEMPLATE template0 TABLESPACE "{name}"')
        try:
            yield Place(server.url(name), disk / "ballast", lambda: 4 * MIB)
        finally:
            server.drop_database(name)
            server.execute(f'DROP TABLESPACE "{name}"')


@contextmanager
def _postgres_log() -> Iterator[Place]:
    """The server's log is full: it goes down in the middle of a commit."""
    with tempfile.TemporaryDirectory(prefix="full-") as short:
        Path(short).chmod(0o755)
        with small_disk(Path(short), SERVER_MIB) as disk:
            settings = {"max_wal_size": "64MB", "min_wal_size": "32MB"}
            with Postgres(18, password=SECRET, inside=disk, settings=settings) as server:
                url = server.url(server.new_database(), connect_timeout_ms="1000")
                yield Place(
                    url,
                    disk / "ballast",
                    lambda: shutil.disk_usage(disk).free - 24 * MIB,
                    lambda: server.restart(kill=True),
                )


@contextmanager
def _redis(appendfsync: str) -> Iterator[Place]:
    # A socket's path has hardly a hundred bytes, so it is not below pytest's folder.
    with (
        tempfile.TemporaryDirectory(prefix="full-") as short,
        small_disk(Path(short), 8) as disk,
        Redis(appendfsync=appendfsync, inside=disk) as server,
    ):

        def revive() -> None:
            # It can't take back what it did in memory, so it goes.
            assert until(lambda: not server.running, PATIENCE_S)
            server.start()

        ends = revive if appendfsync == "always" else None
        yield Place(server.url(), disk / "ballast", lambda: 4 * MIB, ends)


@contextmanager
def _sqlite() -> Iterator[Place]:
    with (
        tempfile.TemporaryDirectory(prefix="full-") as short,
        small_disk(Path(short), SMALL_MIB) as disk,
    ):
        yield Place(f"sqlite:///{disk / 'store.db'}", disk / "ballast", lambda: 4 * MIB)


PLACES = {
    "sqlite": _sqlite,
    "postgres, its tables": _postgres_tables,
    "postgres, its log": _postgres_log,
    "redis, everysec": lambda: _redis("everysec"),
    "redis, always": lambda: _redis("always"),
}


def large(number: int) -> Commit:
    data = number.to_bytes(4) + os.urandom(COMMIT_BYTES)
    return b.created(
        f"run-{number}", input=Payload(data=data, media_type="application/octet-stream")
    )


async def fill(store: Store, kept: list[Commit]) -> tuple[Commit, Exception]:
    """Commit until it fails; returns the commit that did, and its error."""
    while len(kept) < SERVER_MIB:
        commit = large(len(kept))
        try:
            await ask.must(store, commit)
        except (StoreUnavailable, OutcomeUnknown) as error:
            return commit, error
        kept.append(commit)
    raise AssertionError("it never was full")


@pytest.mark.parametrize("name", PLACES)
async def test_D3_D4_full_disk_loses_nothing_and_work_goes_on_with_room(name: str) -> None:
    kept: list[Commit] = []
    with PLACES[name]() as place:
        async with opened(place.url) as store:
            await ask.must(store, b.created("first"))
            await once(lambda: place.ballast.write_bytes(bytes(max(0, place.ballast_bytes()))))
            with capture_logs() as lines:
                last, error = await fill(store, kept)
            see_no_secret(error)
            if place.revive is None:
                assert isinstance(error, StoreFull), error
                assert error.reason == "STORE_FULL"
                logged = [line["event"] for line in lines]
                if name.startswith("postgres"):
                    assert "work goes on when there is space" in error.message
                    assert logged == ["the store could not write"]
                assert await ask.version_of(store, last.run_id) == 0, "S5"
            await once(place.ballast.unlink)
            if place.revive is not None:
                await once(place.revive)
            assert await verdict_of(store, last) is Verdict.COMMITTED, "S4"
            for commit in (*kept, last):
                (stored,) = await store.read_payloads(b.TENANT, commit.run_id, ["input"])
                assert stored.payload == commit.input, "S3"
    assert kept
    happened("disk full")


async def verdict_of(store: Store, commit: Commit) -> Verdict:
    """Send a commit until there is room for it: Redis checks that once a second."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                (result,) = await store.commit([commit])
                return result.verdict
            except (StoreUnavailable, OutcomeUnknown):
                await asyncio.sleep(0.1)
