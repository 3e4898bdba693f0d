"""Time: nothing is early, only the store's clock decides, and no clock orders anything."""
# ruff: noqa: N802 - invariants keep their names, and these tokens open nothing

from __future__ import annotations

from msgspec.structs import replace

from stepwell.core.port import Due, FeedEntry, FeedQuery, Store
from stepwell.core.records.states import DueKind
from stepwell_testkit.conformance import ask
from stepwell_testkit.conformance import builders as b
from stepwell_testkit.conformance.catalog import promises
from stepwell_testkit.conformance.harness import Cases, StoreFactory, keeps

DAY_MS = 24 * 3_600 * 1_000


class TestDue(Cases):
    """Timers, delays and expired leases come when they are due."""

    @promises(
        "claim", "Never early: nothing is returned before its delay is over by the store's clock."
    )
    @promises("Timer.delay_ms", "After the commit; below 0: the timer is removed.")
    @promises("Due.name", "The execution's id, or the timer's name.")
    async def test_C2_a_timer_is_never_early(self, store: Store, open_store: StoreFactory) -> None:
        await ask.must(store, b.created(timers=[b.timer(10_000, "wake")]))
        await open_store.advance(10_000 - open_store.grain_ms)
        assert await ask.due_now(store) == []
        await open_store.advance(open_store.grain_ms)
        assert await ask.due_now(store) == [
            Due(tenant_id=b.TENANT, run_id=b.RUN, kind=DueKind.TIMER, name="wake", version=1)
        ]

    @promises(
        "Timer.name", "Unique within the run; a second one of the same name replaces the first."
    )
    async def test_a_second_timer_of_a_name_replaces_the_first(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        first = await ask.must(store, b.created(timers=[b.timer(1_000)]))
        await ask.must(store, b.step(first, timers=[b.timer(5_000)]))
        await open_store.advance(4_000)
        assert await ask.due_now(store) == []
        await open_store.advance(1_000)
        assert await ask.due_names(store) == ["timer"]

    @promises("Due.version", "The run's version when this was read.")
    async def test_what_is_due_tells_the_version_of_its_run(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        first = await ask.must(store, b.created(timers=[b.timer(1_000)]))
        await ask.must(store, b.step(first))
        await open_store.advance(1_000)
        assert [due.version for due in await ask.due_now(store)] == [2]

    @promises("claim", "at most `due_limit`, of every tenant.")
    @promises("Claim.due_limit", "The most expired leases and timers to return.")
    async def test_no_more_than_the_limit_is_due_at_once(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        await ask.must(store, b.created(timers=[b.timer(at, str(at)) for at in range(1, 6)]))
        await open_store.advance(1_000)
        assert await ask.due_now(store, limit=0) == []
        assert [due.name for due in await ask.due_now(store, limit=2)] == ["1", "2"]
        assert [due.name for due in await ask.due_now(store, limit=2)] == ["3", "4"]
        assert [due.name for due in await ask.due_now(store, limit=2)] == ["5"]

    @promises("Claimed.next_due_ms", "-1: nothing.")
    async def test_an_empty_store_knows_of_nothing_that_comes_due(self, store: Store) -> None:
        assert (await ask.claimed(store, b.want())).next_due_ms == -1

    @promises("Claimed.next_due_ms", "Until the next thing comes due that isn't now")
    async def test_a_claim_tells_when_to_look_again(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        cases = [
            b.created("timer", timers=[b.timer(40_000)]),
            b.created_leased("lease", lease_ms=20_000),
            b.created("delay", executions=[b.ready(delay_ms=10_000)]),
        ]
        for commit, until_ms in zip(cases, (40_000, 20_000, 10_000), strict=True):
            await ask.must(store, commit)
            next_due_ms = (await ask.claimed(store, b.want())).next_due_ms
            assert until_ms - 1_000 < next_due_ms <= until_ms
        await open_store.advance(5_000)
        assert 4_000 < (await ask.claimed(store, b.want())).next_due_ms <= 5_000

    @promises("claim", "expired leases of LEASED executions, and timers that ran out")
    async def test_L2_what_came_due_while_the_store_was_closed_is_due(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        await ask.must(
            store,
            b.created_leased("l", lease_ms=1_000),
            b.created("t", timers=[b.timer(1_000)], executions=[b.ready(delay_ms=1_000)]),
        )
        store = await open_store.reopen(store)
        await open_store.advance(1_000)
        answer = await ask.claimed(store, b.want())
        assert (len(answer.ready[0]), len(answer.due)) == (1, 2)


class TestClocks(Cases):
    """Only the store's clock decides, and it never goes back."""

    @promises("Time", "Durations come in, moments go out, and only the store compares them.")
    @promises("Time", "No caller's clock decides what is due.")
    async def test_C1_moments_in_rows_decide_nothing(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        far = b.EPOCH_US * 2
        for name, us in (("past", 1), ("future", far)):
            execution = replace(b.ready(name, delay_ms=5_000), offered_us=us, leased_us=us)
            commit = b.created(name, executions=[execution], timers=[b.timer(5_000)])
            await ask.must(store, replace(commit, run=replace(commit.run, created_us=us)))
        assert await ask.ready_ids(store) == []
        assert await ask.due_now(store) == []
        await open_store.advance(5_000)
        assert sorted(await ask.ready_ids(store)) == ["future", "past"]
        assert len(await ask.due_now(store)) == 2

    @promises("Time", "A store has one clock.")
    @promises("Time", "No caller's clock decides what is due.")
    async def test_C1_C2_a_wall_clock_that_leaps_makes_nothing_due(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        await ask.must(
            store,
            b.created_leased("l", lease_ms=10_000),
            b.created("t", timers=[b.timer(10_000)], executions=[b.ready(delay_ms=10_000)]),
        )
        for leap_ms in (DAY_MS, -2 * DAY_MS):
            await open_store.step_wall(leap_ms)
            answer = await ask.claimed(store, b.want())
            assert (answer.ready, answer.due) == (((),), ())
        await open_store.advance(10_000)
        answer = await ask.claimed(store, b.want())
        assert (len(answer.ready[0]), len(answer.due)) == (1, 2)

    @promises("Time", "A store has one clock.")
    async def test_C1_the_stores_time_never_goes_back(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        before = (await ask.claimed(store)).now_us
        await ask.must(store, b.created())
        for leap_ms in (-DAY_MS, 100, -DAY_MS):
            await open_store.step_wall(leap_ms)
            now = (await ask.claimed(store)).now_us
            assert now >= before
            before = now

    @promises("Time", "A store has one clock.")
    async def test_C1_C2_a_wall_clock_set_back_over_a_restart_stops_no_timer(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        commit = await ask.must(store, b.created_leased(lease_ms=10_000))
        before = (await store.commit([b.step(commit)]))[0].now_us
        await open_store.step_wall(-DAY_MS)
        store = await open_store.reopen(store)
        assert (await ask.claimed(store)).now_us >= before
        await open_store.advance(10_000)
        assert await ask.due_names(store) == [b.STEP]

    @promises("FeedQuery", "A page's cursor is always set: go on from there.")
    @promises("EventPage.latest", "The number of the run's last event.")
    async def test_C3_no_clock_orders_events_or_commits(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        commit = await ask.must(store, b.created("run-0"))
        other = await ask.must(store, b.created("run-9"))
        for at in range(5):
            await open_store.step_wall(-3_600_000)
            commit = b.step(commit)
            stamped = tuple(replace(event, time_us=1_000 - at) for event in commit.events)
            await ask.must(store, replace(commit, events=stamped))
            other = await ask.must(store, b.step(other))
        page = await store.read_events(b.TENANT, "run-0", after=0, limit=100)
        assert page is not None
        assert [event.number for event in page.events] == [1, 2, 3, 4, 5, 6]
        assert page.latest == 6
        expected = [("run-0" if at % 2 == 0 else "run-9", at // 2 + 1) for at in range(12)]
        if keeps("feed"):
            assert list((await store.page(FeedQuery())).items) == [
                FeedEntry(tenant_id=b.TENANT, run_id=run_id, version=version)
                for run_id, version in expected
            ]
