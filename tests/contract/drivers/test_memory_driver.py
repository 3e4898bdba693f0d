"""The memory driver's own promises: shared names, refused URLs, a flat cost of claims."""

import pytest

from stepwell.core.port import FeedQuery, Store
from stepwell.core.records.errors import StoreRefused
from stepwell.core.records.routing import TaskPattern
from stepwell_drivers.memory import agenda as agenda_module
from stepwell_drivers.memory import open_store
from stepwell_testkit.conformance import ask
from stepwell_testkit.conformance import builders as b
from stepwell_testkit.runtime import ManualRuntime


async def _open(url: str = "memory://") -> Store:
    return await open_store(url, runtime=ManualRuntime(url))


async def test_each_open_without_a_name_is_a_new_empty_store() -> None:
    one, two = await _open(), await _open()
    await ask.must(one, b.created())
    assert await ask.version_of(two) == 0


async def test_a_name_is_one_store_until_the_last_closes_it() -> None:
    one, two = await _open("memory://shared"), await _open("memory://shared")
    await ask.must(one, b.created())
    await one.close()
    await one.close()
    assert await ask.version_of(two) == 1
    three = await _open("memory://shared")
    await two.close()
    assert await ask.version_of(three) == 1
    await three.close()
    again = await _open("memory://shared")
    assert await ask.version_of(again) == 0
    await again.close()


@pytest.mark.parametrize(
    "url", ["memory://?a=b", "memory://x?a=b", "memory://u:p@x", "mem://x", "memory:"]
)
async def test_anything_but_a_name_is_refused(url: str) -> None:
    with pytest.raises(StoreRefused, match="memory://NAME"):
        await _open(url)


async def test_claim_cost_is_independent_of_parked_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = await _open()
    for at in range(4_000):
        parked = [b.ready("x", delay_ms=10**7), b.ready("y", type="other")]
        await ask.must(store, b.created(f"p{at}", executions=parked, timers=[b.timer(10**7)]))
    await ask.must(store, b.created("wanted", executions=[b.ready()]))
    plain = b.want(tasks=[TaskPattern()])
    looked_at = 0
    real = agenda_module.LazyHeap.first

    def counted(heap: agenda_module.LazyHeap) -> object:
        nonlocal looked_at
        looked_at += 1
        return real(heap)

    monkeypatch.setattr(agenda_module.LazyHeap, "first", counted)
    assert [step.run_id for step in await ask.ready_steps(store, plain)] == ["wanted"]
    assert looked_at < 20


async def test_dead_entries_do_not_pile_up() -> None:
    runtime = ManualRuntime()
    store = await open_store("memory://", runtime=runtime)
    commit = await ask.must(store, b.created_leased(lease_ms=3_600_000))
    for at in range(5_000):
        lease = b.lease(token=str(at), lease_ms=3_600_000)
        commit = await ask.must(store, b.step(commit, executions=[b.leased()], leases=[lease]))
    asleep = store._kept.agenda._asleep  # pyright: ignore[reportAttributeAccessIssue] - the driver's own
    assert len(asleep._entries) < 200


async def test_a_deletion_leaves_the_feed_with_its_tombstone() -> None:
    runtime = ManualRuntime()
    store = await open_store("memory://", runtime=runtime)
    await ask.must(store, b.created("gone"))
    assert await store.delete_run(b.TENANT, "gone", version=1)
    assert [entry.deleted for entry in (await store.page(FeedQuery())).items] == [True]
    runtime.advance(2 * 3_600_000)
    await ask.must(store, b.created("gone"))
    assert [entry.deleted for entry in (await store.page(FeedQuery())).items] == [False]
