"""Chains of commits on a store, opened as a server would, with an eye on passwords in errors and logs."""

from __future__ import annotations

import asyncio
import traceback
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial
from itertools import cycle
from typing import Any, Self
from urllib.parse import quote

import asyncpg
import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from stepwell.core.port import Commit, CommitResult, FeedQuery, Store
from stepwell.core.records.errors import OutcomeUnknown, StoreError, StoreUnavailable
from stepwell.core.records.events import Event
from stepwell.core.records.states import Verdict
from stepwell.runtime import SystemRuntime
from stepwell.store.opener import open_store
from stepwell_testkit.conformance.builders import TENANT, created, step
from stepwell_testkit.proxy import StoreProxy
from tests.simulation.simulator.violation import holds
from tests.support.backends.postgres import Postgres
from tests.support.backends.postgres_client import OwnPostgres
from tests.support.patience import PATIENCE_S, PAUSE_S, insisting, until

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
    """A run with one author: each commit is sent until it has a verdict, and what was acknowledged is kept.

    With `may_lose` the store may have lost what it acknowledged; the author then goes on from what is left.
    """

    def __init__(self, run_id: str, tenant: str = TENANT, *, may_lose: bool = False) -> None:
        self.first = created(run_id, tenant=tenant)
        self.acknowledged: Commit | None = None
        self.receipts: list[tuple[int, str]] = []
        """Version and commit id of every commit that was acknowledged."""
        self.unknown = 0
        self.unavailable = 0
        self.errors: list[StoreError] = []
        self._may_lose = may_lose
        self._losses = 0

    @property
    def key(self) -> tuple[str, str]:
        return self.first.tenant_id, self.first.run_id

    def next(self) -> Commit:
        """Return the next commit; one that takes a lost one's place has another id, which its event shows."""
        before = self.acknowledged
        name = f"{self.first.run_id}@{self.version + 1}" + "+" * self._losses
        one = self.first if before is None else step(before, commit_id=name)
        if before is not None or self._losses:
            one = replace(one, commit_id=name)
        return replace(one, events=tuple(replace(e, message=one.commit_id) for e in one.events))

    async def grow(self, store: Store, count: int = 1) -> None:
        """Commit so many more."""
        for _ in range(count):
            commit = self.next()
            result = await self.settle(store, commit)
            if result.verdict is not Verdict.COMMITTED:
                holds(self._may_lose, "S3", f"{commit.commit_id} follows what was acknowledged")
                self._losses += 1
                run = await insisting(lambda: store.get_run(*self.key))
                at = None if run is None else replace(commit, version=run.version, run=run)
                self.acknowledged = at
                continue
            self.acknowledged = commit
            self.receipts.append((commit.version, commit.commit_id))

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

    async def events(self, store: Store) -> list[Event]:
        """Return the run's log, in which each version has one event."""
        events: list[Event] = []
        while True:
            read = partial(store.read_events, *self.key, after=len(events), limit=1_000)
            page = await insisting(read)
            if page is None or not page.events:
                break
            events += page.events
        numbers = [(event.number, event.version) for event in events]
        holds(numbers == [(n, n) for n in range(1, len(events) + 1)], "E1", f"{numbers}")
        run = await insisting(lambda: store.get_run(*self.key))
        holds((0 if run is None else run.version) == len(events), "S1", self.first.run_id)
        return events


async def chains_are_whole(store: Store, chains: Sequence[Chain]) -> None:
    """Each run is at its acknowledged version, and the feed names each of its commits, in their order."""
    for chain in chains:
        log = [(event.version, event.message) for event in await chain.events(store)]
        assert log == chain.receipts, f"S3: {chain.first.run_id}"
    named: dict[str, dict[int, None]] = {chain.first.run_id: {} for chain in chains}
    cursor = ""
    async with asyncio.timeout(PATIENCE_S):
        while sum(map(len, named.values())) < sum(chain.version for chain in chains):
            page = await store.page(FeedQuery(cursor=cursor))
            cursor = page.cursor
            for entry in page.items:
                # Behind a fail-over it may name one twice.
                named[entry.run_id].setdefault(entry.version)
            if not page.items:
                await asyncio.sleep(PAUSE_S)
    for chain in chains:
        assert [*named[chain.first.run_id]] == list(range(1, chain.version + 1)), "E1"


@asynccontextmanager
async def growing(store: Store, chains: Sequence[Chain]) -> AsyncIterator[None]:
    """Every chain grows meanwhile, and has its last verdict afterwards."""
    over = asyncio.Event()

    async def grow(chain: Chain) -> None:
        while not over.is_set():
            await chain.grow(store)
            # Everybody else's turn.
            await asyncio.sleep(PAUSE_S)

    async with asyncio.TaskGroup() as group:
        for chain in chains:
            group.create_task(grow(chain))
        try:
            yield
        finally:
            over.set()


async def grown_by(chains: Sequence[Chain], count: int) -> None:
    """Wait until so many more commits were acknowledged."""
    goal = sum(chain.version for chain in chains) + count
    await until(lambda: sum(chain.version for chain in chains) >= goal)


class AnyStore(StoreProxy):
    """Several stores on one place, each call through the next of them."""

    def __init__(self, stores: Sequence[Store]) -> None:
        self._turns = cycle(stores)

    @property
    def inner(self) -> Store:
        return next(self._turns)


class Load:
    """Chains that grow through several open stores for as long as the block lasts."""

    def __init__(self, url: str, runs: int, *, may_lose: bool = False) -> None:
        self._url = url
        self._may_lose = may_lose
        self._stack = AsyncExitStack()
        self._over = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self.stores: list[Store] = []
        self.chains = [Chain(f"run-{at}", may_lose=may_lose) for at in range(runs)]

    async def __aenter__(self) -> Self:
        for _ in range(STORES):
            opening = partial(self._stack.enter_async_context, opened(self._url, patient=True))
            self.stores.append(await opening())
        self._tasks = [asyncio.create_task(self._grow(chain)) for chain in self.chains]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._over.set()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._stack.aclose()

    async def _grow(self, chain: Chain) -> None:
        store = AnyStore(self.stores)
        while not self._over.is_set():
            await chain.grow(store)
            # Everybody else's turn.
            await asyncio.sleep(PAUSE_S)

    @property
    def acknowledged(self) -> int:
        """The number of commits that were acknowledged so far."""
        return sum(len(chain.receipts) for chain in self.chains)

    async def more(self, each: int) -> None:
        """Wait until every chain has had so many more acknowledged."""
        wanted = {chain: len(chain.receipts) + each for chain in self.chains}
        async with asyncio.timeout(PATIENCE_S):
            while any(len(chain.receipts) < count for chain, count in wanted.items()):
                for task in self._tasks:
                    if task.done():
                        task.result()
                await asyncio.sleep(PAUSE_S)

    async def check(self) -> int:
        """End the load; returns how many acknowledged commits are lost, which only `may_lose` allows.

        Raises:
            InvariantViolation: the store is not consistent, or not the same through each of them.
        """
        self._over.set()
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.gather(*self._tasks)
        lost = 0
        for chain in self.chains:
            logs = [await chain.events(store) for store in self.stores]
            holds(all(log == logs[0] for log in logs), "E2", chain.first.run_id)
            stored = {(event.version, event.message) for event in logs[0]}
            gone = [one for one in chain.receipts if one not in stored]
            holds(self._may_lose or not gone, "S3", f"{chain.first.run_id} lost {gone[:3]}")
            lost += len(gone)
        if not self._may_lose:
            await chains_are_whole(self.stores[0], self.chains)
        return lost

    @property
    def seen(self) -> Counter[str]:
        """Count what befell the commits on their way."""
        return Counter(
            {
                "unknown": sum(chain.unknown for chain in self.chains),
                "unavailable": sum(chain.unavailable for chain in self.chains),
            }
        )


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
