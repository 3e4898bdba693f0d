"""Events and the feed: every commit once, whole, in order, from any cursor."""
# ruff: noqa: N802 - invariants keep their names, and these tokens open nothing

from __future__ import annotations

import asyncio

import pytest

from stepwell.core.port import Commit, EventPage, FeedEntry, FeedQuery, Store
from stepwell.core.records.errors import InvalidArgument
from stepwell.core.records.states import RunStatus
from stepwell.runtime import SystemRuntime
from stepwell_testkit.conformance import ask
from stepwell_testkit.conformance import builders as b
from stepwell_testkit.conformance.catalog import promises
from stepwell_testkit.conformance.harness import Cases, StoreFactory


async def _page(store: Store, after: int, limit: int = 100, run_id: str = b.RUN) -> EventPage:
    page = await store.read_events(b.TENANT, run_id, after=after, limit=limit)
    assert page is not None
    return page


async def _numbers(store: Store, after: int, limit: int = 100) -> list[int]:
    return [event.number for event in (await _page(store, after, limit)).events]


async def _sizes(store: Store, *sizes: int) -> Commit:
    """Commit a run whose commits have this many events each."""
    commit = await ask.must(store, b.created(events=sizes[0]))
    for size in sizes[1:]:
        commit = await ask.must(store, b.step(commit, events=size))
    return commit


class TestEvents(Cases):
    """The events of a run."""

    @promises("read_events", "stops before the commit that would take it over `limit` events.")
    @promises("read_events", "Never a part of a commit")
    @promises("EventPage", "Whole commits' events, in order.")
    async def test_E8_a_page_ends_where_a_commit_ends(self, store: Store) -> None:
        await _sizes(store, 2, 3, 1, 4)
        expected = {2: [1, 2], 3: [1, 2], 4: [1, 2], 5: [1, 2, 3, 4, 5], 9: list(range(1, 7))}
        for limit, numbers in expected.items():
            assert await _numbers(store, 0, limit) == numbers, limit
        assert await _numbers(store, 0, 10) == list(range(1, 11))
        assert await _numbers(store, 2, 3) == [3, 4, 5]
        assert await _numbers(store, 2, 7) == [3, 4, 5, 6]

    @promises("read_events", "At least one whole commit where there is one")
    async def test_E8_a_commit_larger_than_the_limit_comes_whole(self, store: Store) -> None:
        await _sizes(store, 1, 512, 5)
        assert await _numbers(store, 1, 10) == list(range(2, 514))
        assert await _numbers(store, 1, 1) == list(range(2, 514))
        assert await _numbers(store, 513, 1) == list(range(514, 519))

    @promises("read_events", "`after` beyond the last: an empty page.")
    @promises("EventPage.latest", "The number of the run's last event.")
    @promises("EventPage.oldest", "The number of the first event that is kept.")
    async def test_a_read_beyond_the_last_event_is_an_empty_page(self, store: Store) -> None:
        await _sizes(store, 1, 3)
        for after in (4, 5, 1_000_000):
            page = await _page(store, after)
            assert (page.events, page.oldest, page.latest) == ((), 1, 4)

    @promises("EventPage.ended", "The run's status is an end")
    async def test_a_failed_run_that_goes_on_has_not_ended(self, store: Store) -> None:
        commit = await ask.must(store, b.step(await _sizes(store, 1), status=RunStatus.FAILED))
        assert (await _page(store, 0)).ended
        await ask.must(store, b.step(commit, status=RunStatus.RUNNING))
        assert not (await _page(store, 0)).ended

    @promises("read_events", "Return the events numbered above `after`")
    async def test_E1_E3_reader_during_writes_misses_and_repeats_nothing(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        door = await open_store.join(store)
        commit = await ask.must(store, b.created())
        numbers: list[int] = []
        for at in range(30):
            commit = b.step(commit, events=at % 4)
            writing = SystemRuntime().spawn(ask.must(store, commit), name="writer")
            page = await _page(door, len(numbers), limit=5)
            numbers += [event.number for event in page.events]
            await writing
        while len(numbers) < commit.run.last_event:
            numbers += await _numbers(door, len(numbers), limit=5)
        assert numbers == list(range(1, commit.run.last_event + 1))


async def _drain(
    store: Store, cursor: str = "", tenant: str = "", limit: int = 1_000
) -> list[FeedEntry]:
    found: list[FeedEntry] = []
    while True:
        page = await store.page(FeedQuery(tenant_id=tenant, cursor=cursor, limit=limit))
        assert len(page.items) <= limit
        assert page.cursor
        if not page.items:
            return found
        found += page.items
        cursor = page.cursor


def _entry(run_id: str, version: int, tenant: str = b.TENANT) -> FeedEntry:
    return FeedEntry(tenant_id=tenant, run_id=run_id, version=version)


async def _version(store: Store, run_id: str) -> int:
    run = await store.get_run(b.TENANT, run_id)
    return 0 if run is None else run.version


class TestFeed(Cases):
    """The feed of commits over all runs."""

    @promises("FeedQuery", "Each once since the cursor, in the store's own order")
    @promises("FeedQuery", '"" is the beginning')
    async def test_E1_the_feed_names_every_commit_once_in_order(self, store: Store) -> None:
        one = await ask.must(store, b.created("one"))
        two = await ask.must(store, b.created("two"))
        await ask.must(store, b.step(one))
        await ask.must(store, b.step(two))
        expected = [_entry("one", 1), _entry("two", 1), _entry("one", 2), _entry("two", 2)]
        assert await _drain(store) == expected
        for limit in (1, 3, 4):
            assert await _drain(store, limit=limit) == expected

    @promises("FeedQuery", "Commits of one run come in the order of their versions.")
    async def test_E1_commits_of_one_run_come_in_the_order_of_their_versions(
        self, store: Store
    ) -> None:
        chains = {name: [b.created(name)] for name in ("a", "b", "c")}
        for chain in chains.values():
            for _ in range(9):
                chain.append(b.step(chain[-1]))
        await ask.must(store, *(commit for chain in chains.values() for commit in chain))
        entries = await _drain(store, limit=7)
        for name in chains:
            versions = [entry.version for entry in entries if entry.run_id == name]
            assert versions == list(range(1, 11))

    @promises("FeedQuery.tenant_id", "Empty: of every tenant.")
    async def test_a_feed_is_of_one_tenant_or_of_all(self, store: Store) -> None:
        expected = [_entry(f"r{at}", 1, f"tenant-{at % 2}") for at in range(10)]
        for entry in expected:
            await ask.must(store, b.created(entry.run_id, tenant=entry.tenant_id))
        assert await _drain(store) == expected
        for limit in (1, 2, 100):
            assert await _drain(store, tenant="tenant-1", limit=limit) == expected[1::2]
        assert await _drain(store, tenant="tenant-9") == []

    @promises("FeedQuery", "Those of deleted runs may be left out.")
    async def test_a_deleted_run_hides_no_other_from_the_feed(self, store: Store) -> None:
        for at in range(6):
            await ask.must(store, b.created(f"r{at}"))
        page = await store.page(FeedQuery(limit=2))
        for at in (1, 2, 3):
            assert await store.delete_run(b.TENANT, f"r{at}", version=1)
        await ask.must(store, b.created("r6"))
        kept = {"r4", "r5", "r6"}
        for limit in (1, 2, 10):
            found = await _drain(store, page.cursor, limit=limit)
            assert [entry.run_id for entry in found if entry.run_id in kept] == sorted(kept)
            assert len(found) == len(set(found))

    @promises(
        "FeedQuery", "A run's deletion is named after its commits, once, and for at least an hour."
    )
    @promises("FeedEntry.version", "of a deletion, the last one that the run had")
    async def test_E1_a_deletion_is_named_once_after_the_runs_commits(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        first = await ask.must(store, b.created())
        cursor = (await store.page(FeedQuery())).cursor
        await ask.must(store, b.step(first))
        assert not await store.delete_run(b.TENANT, b.RUN, version=1)
        assert await store.delete_run(b.TENANT, b.RUN, version=2)
        assert not await store.delete_run(b.TENANT, b.RUN, version=2)
        await open_store.advance(59 * 60_000)
        await ask.must(store, b.created("later"))
        deletion = FeedEntry(tenant_id=b.TENANT, run_id=b.RUN, version=2, deleted=True)
        for tenant in ("", b.TENANT):
            for since in ("", cursor):
                found = await _drain(store, since, tenant, limit=1)
                assert [entry for entry in found if entry.deleted] == [deletion]
                assert found[-2:] == [deletion, _entry("later", 1)]
        assert await _drain(store, tenant="another") == []

    @promises("Errors", "A cursor that no store made raises `InvalidArgument`.")
    async def test_a_cursor_of_another_store_is_refused(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        await ask.must(store, b.created())
        other = await open_store.open()
        await ask.must(other, b.created())
        foreign = (await other.page(FeedQuery())).cursor
        for cursor in (foreign, "nonsense", "0", "-1", "now ", "1e9", "\x00", "x" * 10_000):
            with pytest.raises(InvalidArgument):
                await store.page(FeedQuery(cursor=cursor))
        await other.close()

    @promises(
        "FeedQuery", "Nothing is ever skipped: a commit that becomes visible comes after every"
    )
    async def test_E1_E3_feed_during_writes_skips_nothing(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        doors = [store, await open_store.join(store)]
        stop = asyncio.Event()

        async def write(at: int) -> int:
            commit = await ask.must(doors[at % 2], b.created(f"w{at}"))
            while not stop.is_set():
                commit = await ask.must(doors[at % 2], b.step(commit))
                await SystemRuntime().sleep(0)
            return commit.version

        writers = [SystemRuntime().spawn(write(at), name=f"writer {at}") for at in range(6)]
        cursor, found = "", list[FeedEntry]()
        ends = list[tuple[str, list[int]]]()
        for turn in range(40):
            if turn % 8 == 0:
                end = (await doors[1].page(FeedQuery(cursor="now"))).cursor
                # What can be read by now may precede that cursor; everything else comes after it.
                ends.append((end, [await _version(doors[0], f"w{at}") for at in range(6)]))
            page = await doors[1].page(FeedQuery(cursor=cursor, limit=17))
            found += page.items
            cursor = page.cursor
            await SystemRuntime().sleep(0)
        stop.set()
        versions = await asyncio.gather(*writers)
        found += await _drain(store, cursor)
        for at, version in enumerate(versions):
            seen = [entry.version for entry in found if entry.run_id == f"w{at}"]
            assert seen == list(range(1, version + 1))
        for end, reached in ends:
            after = set(await _drain(store, end))
            for at, version in enumerate(versions):
                later = {_entry(f"w{at}", one) for one in range(reached[at] + 1, version + 1)}
                assert later <= after, "skipped by a feed from now on"
