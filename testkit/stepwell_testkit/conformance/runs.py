"""The list of runs."""

from __future__ import annotations

from msgspec.structs import replace

from stepwell.core.port import Commit, RunQuery, Store
from stepwell.core.records.model import RunSpec
from stepwell.core.records.states import BlockedKind
from stepwell_testkit.conformance import ask
from stepwell_testkit.conformance import builders as b
from stepwell_testkit.conformance.catalog import promises
from stepwell_testkit.conformance.harness import Cases, StoreFactory, keeps


class TestRuns(Cases):
    """The list of runs."""

    @promises("RunQuery", "Over its pages each run that was there all along comes once.")
    @promises("RunQuery", "Newest first, by time of creation.")
    async def test_each_run_comes_once_over_all_pages(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        names = [f"run-{(at * 7) % 25}" for at in range(25)]
        for name in names:
            await _create(store, open_store, name)
        for limit in (1, 4, 25, 26):
            query = RunQuery(tenant_id=b.TENANT, limit=limit)
            assert await _all_runs(store, query) == names[::-1], limit

    @promises("RunQuery", "Over its pages each run that was there all along comes once.")
    async def test_runs_created_and_deleted_between_pages_disturb_no_other(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        for at in range(9):
            await _create(store, open_store, f"old-{at}")
        query = RunQuery(tenant_id=b.TENANT, limit=2)
        found: list[str] = []
        victims = ["old-7", "old-5", "old-0"]
        while True:
            page = await store.page(query)
            found += [run.spec.run_id for run in page.items]
            if not page.cursor:
                break
            query = replace(query, cursor=page.cursor)
            await _create(store, open_store, f"new-{len(found)}")
            if victims and keeps("delete"):
                await store.delete_run(b.TENANT, victims.pop(0), version=1)
        stayed = ["old-8", "old-6", "old-4", "old-3", "old-2", "old-1"]
        assert [name for name in found if name in stayed] == stayed
        assert len(set(found)) == len(found)


class TestFilters(Cases):
    """The list of some runs."""

    @promises("RunQuery", "An empty filter matches all.")
    @promises("RunQuery.parent_run_id", "Forks of this run.")
    @promises("RunQuery.run_id_prefix", "Runs whose id begins with this.")
    async def test_a_filter_shows_only_what_it_matches(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        spec = RunSpec(tenant_id=b.TENANT, run_id="")
        specs = {
            "plain": spec,
            "pipeline": replace(spec, pipeline_id="p"),
            "queue": replace(spec, queue="q"),
            "executor": replace(spec, executor_id="e"),
            "fork-plain": replace(spec, parent_run_id="plain", family_id="plain"),
            "fork-of-fork-plain": replace(spec, parent_run_id="fork-plain", family_id="plain"),
        }
        for name, each in specs.items():
            await _create(store, open_store, name, spec=replace(each, run_id=name))
        query = RunQuery(tenant_id=b.TENANT)
        assert await ask.run_ids(store, replace(query, pipeline_id="p")) == ["pipeline"]
        assert await ask.run_ids(store, replace(query, queue="q")) == ["queue"]
        assert await ask.run_ids(store, replace(query, executor_id="e")) == ["executor"]
        assert await ask.run_ids(store, replace(query, executor_id="e", queue="q")) == []
        assert await ask.run_ids(store, replace(query, parent_run_id="plain")) == ["fork-plain"]
        found = await ask.run_ids(store, replace(query, parent_run_id="fork-plain"))
        assert found == ["fork-of-fork-plain"]
        assert await ask.run_ids(store, replace(query, parent_run_id="queue")) == []
        assert await ask.run_ids(store, query) == list(reversed(specs))
        assert await ask.run_ids(store, replace(query, run_id_prefix="fork-of")) == [
            "fork-of-fork-plain"
        ]
        forks = replace(query, run_id_prefix="fork")
        assert await ask.run_ids(store, forks) == ["fork-of-fork-plain", "fork-plain"]
        first = await store.page(replace(forks, limit=1))
        assert await ask.run_ids(store, replace(forks, cursor=first.cursor)) == ["fork-plain"]
        assert await ask.run_ids(store, replace(forks, parent_run_id="plain")) == ["fork-plain"]
        assert await ask.run_ids(store, replace(query, run_id_prefix="pl", queue="q")) == []

    @promises("RunQuery.blocked_on", "As the rows have it: WORKER for WORKER and CAPACITY.")
    async def test_runs_are_found_by_what_they_wait_for(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        for kind in (BlockedKind.NONE, BlockedKind.WORKER, BlockedKind.QUESTION):
            commit = await _create(store, open_store, kind)
            blocked = replace(commit.run, blocked_on=kind)
            await ask.must(store, b.step(commit, run=blocked))
        query = RunQuery(tenant_id=b.TENANT)
        found = await ask.run_ids(store, replace(query, blocked_on=(BlockedKind.WORKER,)))
        assert found == ["WORKER"]
        both = (BlockedKind.QUESTION, BlockedKind.WORKER)
        assert await ask.run_ids(store, replace(query, blocked_on=both)) == ["QUESTION", "WORKER"]

    @promises("RunQuery.labels", "All of them must match.")
    async def test_all_labels_must_match(self, store: Store, open_store: StoreFactory) -> None:
        labels = {
            "none": {},
            "one": {"team": "x"},
            "both": {"team": "x", "env": "prod"},
            "other": {"team": "y", "env": "prod"},
            "odd": {"te.am": 'x"', "$[0]": "%_", "": ""},
        }
        for name, each in labels.items():
            spec = RunSpec(tenant_id=b.TENANT, run_id=name, labels=each)
            await _create(store, open_store, name, spec=spec)
        query = RunQuery(tenant_id=b.TENANT)
        assert await ask.run_ids(store, replace(query, labels={"team": "x"})) == ["both", "one"]
        both = {"env": "prod", "team": "x"}
        assert await ask.run_ids(store, replace(query, labels=both)) == ["both"]
        assert await ask.run_ids(store, replace(query, labels={"team": "%"})) == []
        for key, value in labels["odd"].items():
            assert await ask.run_ids(store, replace(query, labels={key: value})) == ["odd"]
        assert await ask.run_ids(store, replace(query, labels={"te": "x"})) == []

    @promises("RunQuery.labels", "All of them must match.")
    async def test_runs_are_found_by_changed_labels(self, store: Store) -> None:
        spec = RunSpec(tenant_id=b.TENANT, run_id=b.RUN, labels={"up": "a"})
        first = await ask.must(store, b.created(spec=spec))
        run = replace(first.run, spec=replace(spec, labels={"up": "b"}))
        await ask.must(store, replace(b.step(first, run=run), changes_spec=True))
        query = RunQuery(tenant_id=b.TENANT)
        assert await ask.run_ids(store, replace(query, labels={"up": "a"})) == []
        assert await ask.run_ids(store, replace(query, labels={"up": "b"})) == [b.RUN]


async def _create(
    store: Store, factory: StoreFactory, run_id: str, *, spec: RunSpec | None = None
) -> Commit:
    """Create a run a moment after the previous one, also according to its row."""
    await factory.advance(10)
    now_us = (await ask.claimed(store, due_limit=0)).now_us
    return await ask.must(store, b.created(run_id, spec=spec, created_us=now_us))


async def _all_runs(store: Store, query: RunQuery) -> list[str]:
    found: list[str] = []
    while True:
        page = await store.page(query)
        assert len(page.items) <= query.limit
        found += [run.spec.run_id for run in page.items]
        if not page.cursor:
            return found
        query = replace(query, cursor=page.cursor)
