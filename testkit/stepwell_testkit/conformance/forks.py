"""Forks: a run is created with a parent that is there, and a run that has forks isn't deleted."""
# ruff: noqa: N802 - invariants keep their names

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from stepwell.core.port import INPUT_KEY, Store
from stepwell.core.records.model import Payload
from stepwell.core.records.states import Verdict
from stepwell_testkit.conformance import ask
from stepwell_testkit.conformance import builders as b
from stepwell_testkit.conformance.catalog import promises
from stepwell_testkit.conformance.harness import Cases, StoreFactory

HOUR_MS = 3_600 * 1_000
ROUNDS = 8
"""Rounds of the cases that leave something to chance."""
FORK = "fork-1"
"""Ends as the usual run's id does."""


class TestForks(Cases):
    """A fork is created from a run that is there."""

    @promises("commit", "answers CONFLICT to its first commit where that run")
    @promises("Names", "A fork's id ends as its parent's does (`id_ending`)")
    async def test_fork_of_an_existing_run_is_created(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        await ask.must(store, b.created())
        fork = await ask.must(store, b.fork(FORK))
        of_fork = await ask.must(store, b.fork("fork-of-fork-1", parent=FORK))
        store = await open_store.reopen(store)
        for commit in (fork, of_fork):
            assert await store.get_run(b.TENANT, commit.run_id) == commit.run
            # The same commit again is no second birth.
            assert await ask.verdicts(store, commit) == [Verdict.COMMITTED]
            await ask.must(store, b.step(commit))

    @promises("commit", "A fork, which is a run with a `spec.parent_run_id`, answers CONFLICT")
    @promises("commit", "A commit that was refused left nothing behind and never will.")
    async def test_S5_a_fork_of_a_missing_run_is_refused(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        orphan = b.fork(FORK)
        for _ in range(2):
            assert await ask.verdicts(store, orphan) == [Verdict.CONFLICT]
            assert await store.get_run(b.TENANT, FORK) is None
            assert await ask.run_ids(store) == []
            store = await open_store.reopen(store)
        # It was never there: its id is free, and its parent may come yet.
        await ask.must(store, b.created(FORK))
        await ask.must(store, b.created())
        await ask.must(store, b.fork("another-1"))

    @promises("commit", "A fork, which is a run with a `spec.parent_run_id`, answers CONFLICT")
    @promises("Names", "one tenant's id under another tenant is a missing run.")
    async def test_T2_a_parent_in_another_tenant_is_a_missing_one(self, store: Store) -> None:
        await ask.must(store, b.created(tenant="b"))
        assert await ask.verdicts(store, b.fork(FORK, tenant="a")) == [Verdict.CONFLICT]
        await ask.must(store, b.fork(FORK, tenant="b"))
        assert await ask.verdicts(store, b.fork(FORK, tenant="a")) == [Verdict.CONFLICT]


class TestForksAndDelete(Cases):
    """A run is deleted after its forks."""

    @promises("delete_run", "if it is at `version` and has no forks.")
    @promises("delete_run", "they refer to its results")
    async def test_run_with_forks_is_not_deleted(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        outcome = b.outcome(b"kept")
        first = b.created(input=Payload(data=b"in"), executions=[b.leased()], leases=[b.lease()])
        second = b.step(first, executions=[b.ended()], outcomes=[outcome])
        await ask.must(store, first, second, b.created("stranger-1"))
        for name, parent in ((FORK, b.RUN), ("other-1", b.RUN), ("fork-of-fork-1", FORK)):
            await ask.must(store, b.fork(name, parent=parent))
        for _ in range(2):
            for name, version in ((b.RUN, 2), (FORK, 1)):
                assert not await store.delete_run(b.TENANT, name, version=version)
                assert await store.get_run(b.TENANT, name) is not None
            assert await ask.outcomes(store, [b.STEP]) == [outcome]
            assert len(await store.read_payloads(b.TENANT, b.RUN, [INPUT_KEY])) == 1
            store = await open_store.reopen(store)
        # A fork goes as any run does, and no other run than a fork is in the way.
        for name in ("fork-of-fork-1", FORK, "other-1"):
            assert await store.delete_run(b.TENANT, name, version=1)
        assert await store.delete_run(b.TENANT, b.RUN, version=2)
        assert await ask.outcomes(store, [b.STEP]) == []
        assert await ask.run_ids(store) == ["stranger-1"]

    @promises("commit", "answers CONFLICT to its first commit where that run")
    async def test_a_fork_of_a_deleted_run_is_refused(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        await ask.must(store, b.created())
        brother = await ask.must(store, b.fork("brother-1"))
        assert await store.delete_run(b.TENANT, "brother-1", version=1)
        assert await store.delete_run(b.TENANT, b.RUN, version=1)
        for _ in range(2):
            for orphan in (b.fork(FORK), brother, replace(brother, commit_id="again")):
                assert await ask.verdicts(store, orphan) == [Verdict.CONFLICT]
            assert await ask.run_ids(store) == []
            store = await open_store.reopen(store)
            await open_store.advance(HOUR_MS / 4)

    @promises("delete_run", "Its forks are the runs that are there with its id")
    @promises("Names", "one tenant's id under another tenant is a missing run.")
    async def test_T1_a_fork_in_another_tenant_keeps_no_run(self, store: Store) -> None:
        for tenant in ("a", "b"):
            await ask.must(store, b.created(tenant=tenant))
        await ask.must(store, b.fork(FORK, tenant="a"))
        assert not await store.delete_run("a", b.RUN, version=1)
        assert await store.delete_run("b", b.RUN, version=1)

    @promises("commit", "a run has either been deleted before its fork is created, or isn't")
    async def test_S5_fork_and_deletion_at_once_end_in_one_of_two_ways(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        door = await open_store.join(store)
        for at in range(ROUNDS):
            await ask.must(store, b.created(f"p{at}"))
            fork = b.fork(f"f-p{at}", parent=f"p{at}")
            (result,), deleted = await asyncio.gather(
                door.commit([fork]), store.delete_run(b.TENANT, f"p{at}", version=1)
            )
            expected = Verdict.CONFLICT if deleted else Verdict.COMMITTED
            assert result.verdict is expected
            assert (await store.get_run(b.TENANT, fork.run_id) is None) is deleted
            assert (await store.get_run(b.TENANT, f"p{at}") is None) is deleted

    @promises("Names", "by names that match `NAME_PATTERN`, of at most 128 characters.")
    async def test_T4_forks_of_hostile_names_are_kept_apart(self, store: Store) -> None:
        names = ["a:b", "a", "b:c", "A", "a/b", "a..", "a@b", "a+b", "0", "x" * 126]
        for name in names:
            await ask.must(store, b.created(name, tenant=name))
            await ask.must(store, b.fork(f"b-{name}", parent=name, tenant=name))
        for at, name in enumerate(names):
            for other in names[at:]:
                assert not await store.delete_run(other, other, version=1), (name, other)
            assert await store.delete_run(name, f"b-{name}", version=1)
            assert await store.delete_run(name, name, version=1)
