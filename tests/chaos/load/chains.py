"""What the tests of Postgres' bad days share: stores, chains of commits, and an eye on secrets."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from urllib.parse import quote

import asyncpg
import pytest
from structlog.testing import capture_logs

from stepwell.core.port import Commit, CommitResult, Store
from stepwell.core.records.errors import OutcomeUnknown, StoreError, StoreUnavailable
from stepwell.core.records.states import Verdict
from stepwell.runtime import SystemRuntime
from stepwell.store.opener import open_store
from stepwell_testkit.conformance.builders import TENANT, born, step
from tests.support.backends.postgres import Postgres
from tests.support.backends.postgres_client import OwnPostgres
from tests.support.patience import insisting

WAIT_S = 60.0
"""Long, because a machine may be busy with other things; nothing waits for it to pass."""
PAUSE_S = 0.01
SECRET = "hunter2/of@ours:%"

Server = Postgres | OwnPostgres


@asynccontextmanager
async def opened(url: str, *, insist: bool = False) -> AsyncIterator[Store]:
    """An open store, closed at the end; `insist`: its limits are such that a busy machine may miss them."""

    async def ask() -> Store:
        return await open_store(url, runtime=SystemRuntime())

    store = await (insisting(ask) if insist else ask())
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
    """What is logged meanwhile, by us and by libraries; afterwards no password is in it."""
    caplog.set_level("DEBUG")
    with capture_logs() as lines:
        yield lines
    assert_no_secret(repr(lines) + caplog.text)


class Chain:
    """A run's commits, each sent until it has a verdict; what was acknowledged is remembered."""

    def __init__(self, run_id: str, tenant: str = TENANT) -> None:
        self.first = born(run_id, tenant=tenant)
        self.acknowledged: Commit | None = None
        self.unknown = 0
        self.unavailable = 0
        self.errors: list[StoreError] = []

    def next(self) -> Commit:
        return step(self.acknowledged) if self.acknowledged is not None else self.first

    async def grow(self, store: Store, count: int = 1) -> None:
        """Commit so many more."""
        for _ in range(count):
            commit = self.next()
            result = await self.settle(store, commit)
            assert result.verdict is Verdict.COMMITTED, result
            self.acknowledged = commit

    async def settle(self, store: Store, commit: Commit) -> CommitResult:
        """Send the same commit until it has a verdict."""
        while True:
            try:
                (result,) = await store.commit([commit])
                return result
            except OutcomeUnknown as error:
                self.unknown += 1
                self._note(error)
            except StoreUnavailable as error:
                self.unavailable += 1
                self._note(error)
            await asyncio.sleep(PAUSE_S)

    def _note(self, error: StoreError) -> None:
        see_no_secret(error)
        self.errors.append(error)

    @property
    def version(self) -> int:
        return self.acknowledged.version if self.acknowledged is not None else 0


async def chains_are_whole(store: Store, chains: Sequence[Chain]) -> None:
    """Each run is at its acknowledged version, and the feed names each of its commits once."""
    named: dict[str, list[int]] = {chain.first.run_id: [] for chain in chains}
    cursor = ""
    async with asyncio.timeout(WAIT_S):
        while sum(map(len, named.values())) < sum(chain.version for chain in chains):
            page = await store.feed(cursor=cursor)
            cursor = page.cursor
            for entry in page.entries:
                named[entry.run_id].append(entry.version)
            if not page.entries:
                await asyncio.sleep(PAUSE_S)
    for chain in chains:
        run = await store.get_run(chain.first.tenant_id, chain.first.run_id)
        assert run is not None
        assert run.version == chain.version
        assert named[chain.first.run_id] == list(range(1, chain.version + 1))
        assert await _versions_told(store, chain) == list(range(1, chain.version + 1))


async def _versions_told(store: Store, chain: Chain) -> list[int]:
    """Return those of all of a run's events, however long it had time to grow."""
    versions: list[int] = []
    after = 0
    while True:
        page = await store.read_events(
            chain.first.tenant_id, chain.first.run_id, after=after, limit=1_000
        )
        assert page is not None
        if not page.events:
            return versions
        versions += [event.version for event in page.events]
        after = page.events[-1].number


async def once(action: Callable[[], Any]) -> Any:
    """Do what blocks on a thread of its own."""
    return await asyncio.to_thread(action)


async def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds that nobody tells of."""
    async with asyncio.timeout(WAIT_S):
        while not holds():  # noqa: ASYNC110 - nobody tells of it
            await asyncio.sleep(PAUSE_S)


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
