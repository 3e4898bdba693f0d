"""Chains of commits on a store, opened as a server would, with an eye on passwords in errors and logs."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any
from urllib.parse import quote

import asyncpg
import pytest

from stepwell.core.port import Commit, CommitResult, FeedQuery, Store
from stepwell.core.records.errors import OutcomeUnknown, StoreError, StoreUnavailable
from stepwell.core.records.states import Verdict
from stepwell.runtime import SystemRuntime
from stepwell.store.opener import open_store
from stepwell_testkit.conformance.builders import TENANT, created, step
from tests.simulation.simulator.violation import holds
from tests.support.backends.postgres import Postgres
from tests.support.backends.postgres_client import OwnPostgres
from tests.support.logs import capture_logs
from tests.support.patience import PATIENCE_S, PAUSE_S, insisting

STORES = 3
"""Open stores of one load."""
SECRET = "hunter2/of@ours:%"

Server = Postgres | OwnPostgres


@asynccontextmanager
async def opened(url: str, *, patient: bool = False) -> AsyncIterator[Store]:
    """An open store, closed at the end; `patient`: its limits are such that a busy machine may miss them."""

    async def ask() -> Store:
        return await open_store(url, runtime=SystemRuntime())

    store = await (insisting(ask) if patient else ask())
    try:
        yield store
    finally:
        await store.close()


async def refused(url: str, kind: type[StoreError]) -> str:
    """Why the store can't be opened: in one line, and without the password wherever one looks."""
    with pytest.raises(kind) as caught:
        async with opened(url):
            pass
    assert type(caught.value) is kind, caught.value
    see_no_secret(caught.value)
    assert "\n" not in caught.value.message
    return caught.value.message


def see_no_secret(error: BaseException) -> None:
    """The password is in no error of the chain, nor in what a log makes of it."""
    text = "".join(traceback.format_exception(error)) + repr(error)
    assert_no_secret(text)


def assert_no_secret(text: str) -> None:
    for form in (SECRET, quote(SECRET, safe=""), quote(SECRET)):
        assert form not in text


@contextmanager
def logs_without_secrets(caplog: pytest.LogCaptureFixture) -> Iterator[list[Any]]:
    """Capture the logs, ours and those of libraries; afterwards no password is in them."""
    caplog.set_level("DEBUG")
    with capture_logs() as lines:
        yield lines
    assert_no_secret(repr(lines) + caplog.text)


class Chain:
    """A run with one author: each commit is sent until it has a verdict, and what was acknowledged is kept."""

    def __init__(self, run_id: str, tenant: str = TENANT) -> None:
        self.first = created(run_id, tenant=tenant)
        self.acknowledged: Commit | None = None
        self.errors: list[StoreError] = []

    @property
    def key(self) -> tuple[str, str]:
        return self.first.tenant_id, self.first.run_id

    def next(self) -> Commit:
        """Return the next commit."""
        before = self.acknowledged
        return self.first if before is None else step(before)

    async def grow(self, store: Store, count: int = 1) -> None:
        """Commit so many more."""
        for _ in range(count):
            commit = self.next()
            result = await self.settle(store, commit)
            holds(result.verdict is Verdict.COMMITTED, "S3", commit.commit_id, result.verdict)
            self.acknowledged = commit

    async def settle(self, store: Store, commit: Commit) -> CommitResult:
        """Send the same commit until it has a verdict."""
        while True:
            try:
                (result,) = await store.commit([commit])
                return result
            except (OutcomeUnknown, StoreUnavailable) as error:
                see_no_secret(error)
                self.errors.append(error)
            await asyncio.sleep(PAUSE_S)

    @property
    def version(self) -> int:
        return self.acknowledged.version if self.acknowledged is not None else 0


async def chains_are_whole(store: Store, chains: Sequence[Chain]) -> None:
    """Each run is at its acknowledged version, and the feed names each of its commits, in their order."""
    wanted = {chain.first.run_id: list(range(1, chain.version + 1)) for chain in chains}
    for chain in chains:
        name = chain.first.run_id
        read = partial(store.read_events, *chain.key, after=0, limit=1_000)
        page = await insisting(read)
        assert page is not None, f"S3: {name}"
        numbers = [(event.number, event.version) for event in page.events]
        assert numbers == [(n, n) for n in wanted[name]], f"S3, E1: {name}"
        run = await insisting(partial(store.get_run, *chain.key))
        assert run is not None, f"S3: {name}"
        assert run.version == chain.version, f"S1: {name}"
    named: dict[str, list[int]] = {name: [] for name in wanted}
    cursor = ""
    async with asyncio.timeout(PATIENCE_S):
        while sum(map(len, named.values())) < sum(map(len, wanted.values())):
            page = await store.page(FeedQuery(cursor=cursor))
            cursor = page.cursor
            for entry in page.items:
                named[entry.run_id].append(entry.version)
            if not page.items:
                await asyncio.sleep(PAUSE_S)
    assert named == wanted, "E1"


async def once(action: Callable[[], Any]) -> Any:
    """Do what blocks on a thread of its own."""
    return await asyncio.to_thread(action)


@asynccontextmanager
async def session(server: Server, database: str) -> AsyncIterator[Any]:
    """A connection past the store, as an operator's or another program's."""
    connection: Any = await asyncpg.connect(
        host=server.admin_host,
        port=server.port,
        user=server.user,
        password=server.password,
        database=database,
        ssl=False,
    )
    try:
        yield connection
    finally:
        await connection.close()
