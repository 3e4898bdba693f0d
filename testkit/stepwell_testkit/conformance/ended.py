"""Ended runs by the moment of their end, for retention."""
# ruff: noqa: N802 - invariants keep their names

from __future__ import annotations

from msgspec.structs import replace

from stepwell.core.port import Commit, EndedQuery, EndedRun, Store
from stepwell.core.records.model import RunSpec
from stepwell.core.records.states import RunStatus
from stepwell_testkit.conformance import ask
from stepwell_testkit.conformance import builders as b
from stepwell_testkit.conformance.catalog import promises
from stepwell_testkit.conformance.harness import Cases, StoreFactory
from stepwell_testkit.conformance.tenants import NAMES

ENDS = (RunStatus.SUCCEEDED, RunStatus.FAILED, RunStatus.CANCELLED)
ANY = EndedQuery(statuses=ENDS)


class TestEnded(Cases):
    """Runs that have ended, the earliest ended first."""

    @promises("Query", "A page holds at most `limit` rows.")
    @promises("EndedQuery", "Its page has no cursor.")
    @promises("EndedQuery", "Its cost doesn't grow with the runs that don't match, but")
    async def test_no_more_than_the_limit_are_found_among_many_that_do_not_match(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        await ask.must(store, *(b.created(f"live-{at}") for at in range(300)))
        ends = [
            await _end(store, open_store, await ask.must(store, b.created(f"r{at}")))
            for at in range(12)
        ]
        for limit in (1, 5, 11, 12, 13):
            page = await store.page(replace(ANY, limit=limit))
            assert (list(page.items), page.cursor) == (ends[:limit], ""), limit

    @promises("EndedQuery.statuses", "Ends; at least one.")
    @promises("EndedQuery.pipeline_id", "Only this pipeline's.", "Empty: every pipeline's.")
    @promises("EndedQuery.tenant_id", "Empty: of every tenant.")
    async def test_only_those_that_match_are_found(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        ends: dict[tuple[str, str, RunStatus], str] = {}
        for tenant in ("a", "b"):
            for pipeline_id in ("", "p", "q"):
                for status in ENDS:
                    run_id = f"{tenant}-{pipeline_id}-{status}"
                    head = await _create(store, run_id, tenant, pipeline_id)
                    await _end(store, open_store, head, status)
                    ends[tenant, pipeline_id, status] = run_id
                await _create(store, f"{tenant}-{pipeline_id}-live", tenant, pipeline_id)
        for tenant in ("", "a", "b", "c"):
            for pipeline_id in ("", "p", "q", "x"):
                for statuses in (ENDS[:1], ENDS[1:], ENDS[::2], ENDS[::-1]):
                    query = EndedQuery(tenant_id=tenant, pipeline_id=pipeline_id, statuses=statuses)
                    found = [one.run_id for one in (await store.page(query)).items]
                    assert found == [
                        run_id
                        for (of_tenant, of_pipeline, status), run_id in ends.items()
                        if tenant in {"", of_tenant}
                        and pipeline_id in {"", of_pipeline}
                        and status in statuses
                    ], query

    @promises("EndedQuery.older_ms", "They ended at least so long ago, by the store's clock")
    async def test_C3_age_is_measured_by_the_store_clock(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        ends: list[EndedRun] = []
        for name in ("first", "second"):
            ends.append(await _end(store, open_store, await ask.must(store, b.created(name))))
            await open_store.advance(60_000)
        # A store can't know of time that passed unseen before a clock was set back.
        await ask.now_us(store)
        await open_store.step_wall(-3_600_000)
        for older_ms, many in ((0, 2), (30_000, 2), (90_000, 1), (200_000, 0), (2**53, 0)):
            found = (await store.page(replace(ANY, older_ms=older_ms))).items
            assert list(found) == ends[:many], older_ms
        await open_store.advance(60_000)
        assert list((await store.page(replace(ANY, older_ms=90_000))).items) == ends

    @promises("EndedQuery.older_ms", "and the run's `ended_us`.")
    @promises("EndedRun", "")
    async def test_a_run_is_found_as_it_is_now(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        first = await ask.must(store, b.created())
        other = await _end(store, open_store, await ask.must(store, b.created("other")))
        failed = await _end(store, open_store, first, RunStatus.FAILED)
        assert list((await store.page(ANY)).items) == [other, failed]
        # As after RUN_RESUMED: it continues, and ends again.
        second = replace(first, version=2, run=replace(first.run, last_event=2))
        third = await ask.must(store, b.step(second, status=RunStatus.RUNNING))
        assert list((await store.page(ANY)).items) == [other]
        again = await _end(store, open_store, third)
        assert (again.version, again.status) == (4, RunStatus.SUCCEEDED)
        assert list((await store.page(ANY)).items) == [other, again]
        # A commit that changes other fields of an ended run.
        run = replace(third.run, last_event=4, ended_us=again.ended_us)
        fourth = replace(third, version=4, run=run)
        await ask.must(store, b.step(fourth, status=RunStatus.SUCCEEDED, reason="changed"))
        assert list((await store.page(ANY)).items) == [other, replace(again, version=5)]

    @promises("EndedQuery", "Those that ended first before the others.")
    async def test_an_ended_run_that_was_deleted_is_not_found(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        ends = [
            await _end(store, open_store, await ask.must(store, b.created(name)))
            for name in ("r1", "r2", "r3")
        ]
        assert await store.delete_run(b.TENANT, "r2", version=ends[1].version)
        for _ in range(2):
            assert list((await store.page(ANY)).items) == [ends[0], ends[2]]
            store = await open_store.reopen(store)

    @promises("EndedQuery", "Ended runs without forks, to be deleted.")
    async def test_ended_run_is_found_once_its_forks_are_gone(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        heads = [await ask.must(store, b.created(name)) for name in ("r", "other")]
        heads += [await ask.must(store, b.fork(name, parent="r")) for name in ("f-r", "g-r")]
        await ask.must(store, b.fork("h-r", parent="g-r"))
        parent, *others, middle = [await _end(store, open_store, head) for head in heads]
        assert list((await store.page(ANY)).items) == others
        assert list((await store.page(replace(ANY, limit=1))).items) == others[:1]
        for name, version, found in (
            ("h-r", 1, [*others, middle]),
            ("g-r", 2, others),
            ("f-r", 2, [parent, others[0]]),
        ):
            assert await store.delete_run(b.TENANT, name, version=version)
            assert list((await store.page(ANY)).items) == found
            store = await open_store.reopen(store)

    @promises("Names", "by names that match `NAME_PATTERN`, of at most 128 characters.")
    async def test_T4_ended_runs_of_hostile_names_are_found_by_them(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        ends = [
            await _end(store, open_store, await _create(store, name, name, name))
            for name in NAMES.values()
        ]
        assert list((await store.page(ANY)).items) == ends
        for name, end in zip(NAMES.values(), ends, strict=True):
            query = replace(ANY, tenant_id=name, pipeline_id=name)
            assert list((await store.page(query)).items) == [end]


async def _create(store: Store, run_id: str, tenant: str, pipeline_id: str) -> Commit:
    spec = RunSpec(tenant_id=tenant, run_id=run_id, pipeline_id=pipeline_id)
    return await ask.must(store, b.created(run_id, tenant=tenant, spec=spec))


async def _end(
    store: Store,
    factory: StoreFactory,
    head: Commit,
    status: RunStatus = RunStatus.SUCCEEDED,
) -> EndedRun:
    """End a run a moment after the previous one, and return its expected entry."""
    await factory.advance(10)
    ended_us = await ask.now_us(store)
    run = replace(head.run, ended_us=ended_us)
    commit = await ask.must(store, b.step(head, run=run, status=status))
    return EndedRun(
        tenant_id=commit.tenant_id,
        run_id=commit.run_id,
        version=commit.version,
        status=status,
        ended_us=ended_us,
    )
