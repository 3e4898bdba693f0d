"""A deletion in Redis, when who deletes dies between two steps: nothing stays.

A deletion is several calls. Here the caller dies after each of them in turn, as after kill -9, and another one goes on.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from msgspec.structs import replace

from stepwell.core.fork.fork import fork_id
from stepwell.core.port import (
    FeedQuery,
    KeySwap,
    LogQuery,
    OldLogs,
    Reservation,
    Store,
)
from stepwell.core.records.states import Verdict
from stepwell.runtime import SystemRuntime
from stepwell_drivers.redis import scripts
from stepwell_drivers.redis.keys import Keys
from stepwell_drivers.redis.network import Ask, Network
from stepwell_drivers.redis.opening import opened
from stepwell_drivers.redis.scripts import Call
from stepwell_drivers.redis.store import RedisStore
from stepwell_drivers.redis.url import parse
from stepwell_testkit.conformance import ask
from stepwell_testkit.conformance import builders as b
from tests.contract.conformance.redis import BIRTH_US, WALL_CLOCK
from tests.support.backends.redis import Redis

_numbers = itertools.count(1)
STEPS_MAX = 40
PARTITIONS = 8


TOGETHER = (
    "0b4e8a52-5d3c-4c43-9a55-1f2e3d4c5b6a",
    "7c1d9e60-1111-4222-8333-1f2e3d4c5b6a",
    "9a2b3c4d-4444-4555-8666-1f2e3d4c5b6a",
)
"""A parent and two forks of it, as the service names them."""
PARENT, FORK, _ = TOGETHER


class Died(Exception):
    """The process is no more."""


class Mortal:
    """Lets a network's caller die before one of its calls."""

    def __init__(self, network: Network) -> None:
        self.left = -1
        """The calls that it lives for; below 0: as long as it likes."""
        self.held: tuple[asyncio.Event, asyncio.Event] | None = None
        """Instead of dying it tells the one and waits for the other, and lives on."""
        self.until = ""
        """Its end comes when it would call this script."""
        for name in ("ask", "ask_all", "commit_all"):
            setattr(network, name, self._mortal(getattr(network, name)))

    def _mortal(self, method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def call(asks: Any, **options: Any) -> Any:
            few: list[Ask] = [asks] if isinstance(asks, Ask) else asks
            names = {one.what.script.name for one in few if isinstance(one.what, Call)}
            if self.left == 0 or self.until in names:
                await self._end()
            self.left -= 1
            return await method(asks, **options)

        return call

    async def _end(self) -> None:
        if self.held is None:
            raise Died
        self.held[0].set()
        await self.held[1].wait()


@pytest.fixture(scope="module")
def server(backends: None) -> Iterator[Redis]:
    with Redis(appendfsync=None) as running:
        yield running


@pytest.fixture
def url(server: Redis) -> Iterator[str]:
    yield server.url(prefix=f"deletions.{next(_numbers)}", partitions=str(PARTITIONS))
    server.flush()


@asynccontextmanager
async def door(url: str) -> AsyncIterator[tuple[Store, Mortal]]:
    """An open store, and who may let it die."""
    of_it = await opened(parse(url), SystemRuntime())
    mortal = Mortal(of_it.base.network)
    store = RedisStore(of_it)
    try:
        await store.begin()
        yield store, mortal
    finally:
        await store.close()


async def dying_after(url: str, steps: int, act: Callable[[Store], Awaitable[object]]) -> bool:
    """Act, and die after so many calls; whether it came to its end before that."""
    async with door(url) as (store, mortal):
        mortal.left = steps
        with suppress(Died):
            await act(store)
            return True
    return False


async def parent_in(url: str) -> None:
    """Create a run that has a result, a log and idempotency keys."""
    reserved = Reservation(run_id=PARENT, commit_id="c")
    swaps = [KeySwap(key=f"key {at}", after=reserved) for at in range(3)]
    tasks = [replace(b.task(swap.key), held_key=swap.key) for swap in swaps]
    async with door(url) as (store, _):
        assert await store.swap_keys(b.TENANT, "", swaps) == [reserved] * 3
        first = b.created(PARENT, outcomes=[b.outcome(b"kept")], tasks=tasks)
        await ask.must(store, first, b.step(first))
        await store.append_logs(b.TENANT, PARENT, [b.line("x")])


def nothing_is_left(server: Redis) -> None:
    """No row, no entry of an index: but for tombstones, told deletions and the partitions' time."""
    with server.admin() as client:
        names: Any = client.keys("*")
        for name in names:
            kind = name.rpartition("}")[2].partition(":")[0]
            assert kind in {"meta", "book", "tombstones", "feed", "feed-of", "deletions-of"}, name
            if kind in {"feed", "feed-of"}:
                entries: Any = client.xrange(name)
                versions = [version for _, entry in entries for version in entry.values()]
                assert all(int(version) < 0 for version in versions), name
            if kind == "book":
                fields: Any = client.hkeys(name)
                assert all(field.startswith("#") for field in fields), (name, fields)


# --- where they lie ---


def test_fork_whose_id_ends_as_its_parents_is_in_its_partition() -> None:
    keys = Keys("p", 64)
    parent, *forks = [keys.of_run(b.TENANT, run_id).partition for run_id in TOGETHER]
    assert forks == [parent, parent]
    for run_id in ("name", "name-of-many-characters", "a:{b}", "-", ""):
        fork = fork_id(run_id, SystemRuntime().new_id())
        assert keys.of_run(b.TENANT, fork).partition == keys.of_run(b.TENANT, run_id).partition


async def test_uuids_are_shared_out_over_all_partitions() -> None:
    keys, runtime = Keys("p", 8), SystemRuntime()
    counts = [0] * 8
    for _ in range(4_000):
        counts[keys.of_run(b.TENANT, runtime.new_id()).partition.number] += 1
    assert min(counts) > 350


# --- who dies between two steps ---


async def test_deletion_cut_short_is_finished_by_the_next_store(server: Redis, url: str) -> None:
    for steps in range(STEPS_MAX):
        server.flush()
        await parent_in(url)
        done = await dying_after(
            url, steps, lambda store: store.delete_run(b.TENANT, PARENT, version=2)
        )
        async with door(url) as (store, _):
            if await store.get_run(b.TENANT, PARENT) is not None:
                assert steps == 0
                assert await store.delete_run(b.TENANT, PARENT, version=2)
            assert await ask.verdicts(store, b.fork(FORK, parent=PARENT)) == [Verdict.CONFLICT]
        nothing_is_left(server)
        if done:
            assert steps >= 3
            return
    pytest.fail("it never came to its end")


async def test_deletion_behind_its_own_repetition_removes_nothing(server: Redis, url: str) -> None:
    """Two finish the same one, as when a replica starts meanwhile; the slower one comes to it last."""
    for steps in range(1, 5):
        server.flush()
        await parent_in(url)
        async with door(url) as (slow, mortal):
            hold, go_on = asyncio.Event(), asyncio.Event()
            mortal.left, mortal.held = steps, (hold, go_on)
            deletion = asyncio.create_task(slow.delete_run(b.TENANT, PARENT, version=2))
            waits = asyncio.create_task(hold.wait())
            await asyncio.wait((deletion, waits), return_when=asyncio.FIRST_COMPLETED)
            async with door(url):
                pass
            go_on.set()
            assert await deletion
            waits.cancel()
        nothing_is_left(server)


# --- what Redis keeps ---


async def test_purge_costs_nothing_for_newer_logs(
    server: Redis, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scripts, "WALL_CLOCK", [WALL_CLOCK])
    books = [one.book for one in Keys(parse(url).prefix, PARTITIONS).partitions]
    costs: list[int] = []
    async with door(url) as (store, _):
        await ask.must(store, b.created("old"), b.created("new"), b.created("both"))
        for later_s, newer in enumerate((1, 2_000), start=1):
            for name in ("old", "both"):
                await store.append_logs(b.TENANT, name, [b.line("x")] * 10)
            for book in books:
                server.execute("HSET", book.decode(), "#wall", BIRTH_US + later_s * 1_000_000)
            for name in ("new", "both"):
                await store.append_logs(b.TENANT, name, [b.line("x")] * newer)
            with server.admin() as client:
                client.config_resetstat()
                assert await store.remove_logs(OldLogs(older_ms=500, limit=1_000)) == 20
                stats: dict[str, dict[str, int]] = client.info("commandstats")
            costs.append(sum(one["calls"] for one in stats.values()))
            for name in ("new", "both"):
                page = await store.page(LogQuery(tenant_id=b.TENANT, run_id=name, limit=5_000))
                assert len(page.items) == newer
            assert await store.remove_logs(OldLogs(older_ms=0, limit=10_000)) == 2 * newer
    assert costs[1] <= costs[0] + 10


# --- what is left ---


async def test_deletions_leave_the_feeds_with_their_tombstones(server: Redis, url: str) -> None:
    server.flush()
    async with door(url) as (store, _):
        for name in TOGETHER:
            await ask.must(store, b.created(name))
        for name in TOGETHER[:2]:
            assert await store.delete_run(b.TENANT, name, version=1)
        with server.admin() as client:
            (book,) = [
                name
                for name in client.keys("*}book")
                if client.hexists(name, f"v{b.TENANT}:{TOGETHER[2]}")
            ]
            client.hincrby(book, "#offset", 3 * 3_600 * 1_000_000)
        assert await store.delete_run(b.TENANT, TOGETHER[2], version=1)
        for tenant in ("", b.TENANT):
            page = await store.page(FeedQuery(tenant_id=tenant))
            assert [(entry.run_id, entry.deleted) for entry in page.items] == [(TOGETHER[2], True)]
