"""Results by idempotency key: which execution of which run completed a task."""
# ruff: noqa: N802 - invariants keep their names

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle, islice

from msgspec.structs import replace

from stepwell.core.port import FoundResult, Store
from stepwell.core.records.states import Verdict
from stepwell.runtime import SystemRuntime
from stepwell_testkit.conformance import ask
from stepwell_testkit.conformance import builders as b
from stepwell_testkit.conformance.catalog import promises
from stepwell_testkit.conformance.harness import Cases, StoreFactory
from stepwell_testkit.conformance.tenants import NAMES, TEXTS


class TestKeyed(Cases):
    """Results by idempotency key, over all runs."""

    @promises("find_keyed", "Return what was committed under these keys by runs that are there")
    @promises("find_keyed", "A key without any is left out.")
    async def test_results_come_in_the_order_of_their_keys(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        await ask.must(store, b.created("r1", keyed=[b.keyed("k1", "e1"), b.keyed("k2", "e2")]))
        await ask.must(store, b.created("r2", keyed=[b.keyed("k3", "e1")]))
        for _ in range(2):
            keys = ["k3", "unknown", "k1", "k2"]
            expected = [("k3", "r2", "e1"), ("k1", "r1", "e1"), ("k2", "r1", "e2")]
            assert await _found(store, keys, expected) == expected
            assert list(await store.find_keyed(b.TENANT, "", [])) == []
            assert list(await store.find_keyed(b.TENANT, "", ["unknown", "k", ""])) == []
            store = await open_store.reopen(store)

    @promises("Commit.keyed", "For `find_keyed`; of the same key the last one committed.")
    async def test_of_the_same_key_the_last_one_committed_is_found(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        first = await ask.must(store, b.created("r1", keyed=[b.keyed("k", "e1")]))
        assert await _found(store, ["k"], [("k", "r1", "e1")]) == [("k", "r1", "e1")]
        await open_store.advance(10)
        other = await ask.must(store, b.created("r2", keyed=[b.keyed("k", "e0")]))
        assert await _found(store, ["k"], [("k", "r2", "e0")]) == [("k", "r2", "e0")]
        await open_store.advance(10)
        await ask.must(store, b.step(first, keyed=[b.keyed("k", "e2")]))
        assert await _found(store, ["k"], [("k", "r1", "e2")]) == [("k", "r1", "e2")]
        await open_store.advance(10)
        # Sent again is not committed again.
        assert await ask.verdicts(store, other) == [Verdict.COMMITTED]
        await open_store.advance(10)
        assert await _found(store, ["k"], [("k", "r1", "e2")]) == [("k", "r1", "e2")]

    @promises("find_keyed", "A result that was committed a moment ago may be missed.")
    async def test_T1_a_key_is_of_its_tenant_and_pipeline_alone(self, store: Store) -> None:
        for tenant in ("a", "b"):
            for pipeline_id in ("", "p", "q"):
                run_id = f"{tenant}{pipeline_id}"
                one = b.keyed("k", pipeline_id=pipeline_id)
                await ask.must(store, b.created(run_id, tenant=tenant, keyed=[one]))
        for tenant in ("a", "b"):
            for pipeline_id in ("", "p", "q"):
                expected = [("k", f"{tenant}{pipeline_id}", b.STEP)]
                assert await _found(store, ["k"], expected, tenant, pipeline_id) == expected
            assert await _found(store, ["k"], [], tenant, "x") == []
        assert await _found(store, ["k"], [], "c") == []

    @promises("find_keyed", "by runs that are there")
    async def test_a_result_of_a_deleted_run_is_not_found(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        await ask.must(store, b.created("r1", keyed=[b.keyed("k", "e1"), b.keyed("l", "e2")]))
        await open_store.advance(10)
        second = b.created("r2", keyed=[b.keyed("k", "e3"), b.keyed("m", "e4")])
        await ask.must(store, second)
        expected = [("k", "r2", "e3"), ("l", "r1", "e2"), ("m", "r2", "e4")]
        assert await _found(store, ["k", "l", "m"], expected) == expected
        assert await store.delete_run(b.TENANT, "r2", version=1)
        expected = [("k", "r1", "e1"), ("l", "r1", "e2")]
        assert await _found(store, ["k", "l", "m"], expected) == expected
        assert await store.delete_run(b.TENANT, "r1", version=1)
        for _ in range(2):
            assert list(await store.find_keyed(b.TENANT, "", ["k", "l", "m"])) == []
            store = await open_store.reopen(store)

    @promises("commit", "A commit that was refused left nothing behind and never will.")
    async def test_S5_a_refused_commit_left_no_key(self, store: Store) -> None:
        first = await ask.must(store, b.created_leased())
        wrong = b.step(first, fences=[b.fence(token="t2")], keyed=[b.keyed("k")])  # noqa: S106 - opens nothing
        assert await ask.verdicts(store, wrong) == [Verdict.LEASE_LOST]
        late = b.step(first, version=3, keyed=[b.keyed("k")])
        assert await ask.verdicts(store, late) == [Verdict.CONFLICT]
        assert await _found(store, ["k"], []) == []

    @promises("Names", "Ids, keys and all other texts hold any characters but NUL")
    async def test_T4_hostile_keys_are_kept_apart(self, store: Store) -> None:
        keys = [*TEXTS.values(), "", "acme", "e\u0301 "]
        names = list(islice(cycle(["", *NAMES.values()]), len(keys)))
        commits = [
            b.created(f"{at}:b", keyed=[b.keyed(key, f"e{at}", pipeline_id=name)])
            for at, (key, name) in enumerate(zip(keys, names, strict=True))
        ]
        await ask.must(store, *commits)
        for name in dict.fromkeys(names):
            expected = [
                (key, f"{at}:b", f"e{at}") for at, key in enumerate(keys) if names[at] == name
            ]
            found = await _found(store, keys, expected, pipeline_id=name)
            assert found == expected
        # Pairs that read alike when they are joined.
        pairs = [("a:b", "c"), ("a", "b:c"), ("a", "b\x1fc"), ("a", "b\x01c")]
        keyed = [b.keyed(key, f"{at}", pipeline_id=name) for at, (name, key) in enumerate(pairs)]
        await ask.must(store, b.created("joined", tenant="joined", keyed=keyed))
        for at, (name, key) in enumerate(pairs):
            expected = [(key, "joined", f"{at}")]
            assert await _found(store, [key], expected, "joined", name) == expected

    @promises("find_keyed", "Return what was committed under these keys by runs that are there")
    async def test_many_keys_are_found_at_once(self, store: Store) -> None:
        names = [f"key {at}" for at in range(300)]
        first = b.created(keyed=[b.keyed(name, f"e {name}") for name in names])
        await ask.must(store, first, b.step(first, keyed=[replace(first.keyed[0], key="one more")]))
        keys = [*reversed(names), "one more"]
        expected = [(name, b.RUN, f"e {name}") for name in reversed(names)]
        expected.append(("one more", b.RUN, f"e {names[0]}"))
        assert await _found(store, keys, expected) == expected


async def _found(
    store: Store,
    keys: Sequence[str],
    expected: Sequence[tuple[str, str, str]],
    tenant: str = b.TENANT,
    pipeline_id: str = "",
) -> list[tuple[str, str, str]]:
    """Return what is found as (key, run, execution), after a while if it is not what is expected."""
    answered: list[tuple[str, str, str]] = []
    for _ in range(200):
        found: Sequence[FoundResult] = await store.find_keyed(tenant, pipeline_id, keys)
        answered = [(one.key, one.run_id, one.execution_id) for one in found]
        if answered == list(expected):
            break
        await SystemRuntime().sleep(0.01)
    return answered
