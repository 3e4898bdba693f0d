"""Forks: which may be created, and what a deleted run leaves to its family."""
# ruff: noqa: N802 - invariants keep their names

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from stepwell.core.port import (
    INPUT_KEY,
    Commit,
    ExecutionQuery,
    LogQuery,
    MessageQuery,
    Store,
    TaskQuery,
)
from stepwell.core.records.model import Outcome, Payload, RunSpec
from stepwell.core.records.states import Verdict
from stepwell_testkit.conformance import ask
from stepwell_testkit.conformance import builders as b
from stepwell_testkit.conformance.catalog import promises
from stepwell_testkit.conformance.harness import Cases, StoreFactory, keeps

HOUR_MS = 3_600 * 1_000
ROUNDS = 8
"""Rounds of cases that depend on chance."""


class TestForks(Cases):
    """A fork is created only into a family that exists."""

    @promises("commit", "A run that is created with a `spec.parent_run_id` answers CONFLICT")
    async def test_fork_of_an_existing_run_is_created(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        await ask.must(store, b.created())
        fork = await ask.must(store, b.fork("fork"))
        of_fork = await ask.must(store, b.fork("fork-of-the-fork", parent="fork", family=b.RUN))
        store = await open_store.reopen(store)
        for commit in (fork, of_fork):
            assert await store.get_run(b.TENANT, commit.run_id) == commit.run
            # The same commit again is no second creation.
            assert await ask.verdicts(store, commit) == [Verdict.COMMITTED]
            await ask.must(store, b.step(commit))

    @promises("commit", "where no run of its family is there any more")
    @promises("commit", "A commit that was refused left nothing behind and never will.")
    async def test_S5_a_fork_of_a_missing_run_is_refused(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        orphans = [b.fork("f1"), b.fork("f2", parent="missing", family="nobody")]
        for _ in range(2):
            for orphan in orphans:
                assert await ask.verdicts(store, orphan) == [Verdict.CONFLICT]
                assert await store.get_run(b.TENANT, orphan.run_id) is None
            assert await ask.run_ids(store) == []
            store = await open_store.reopen(store)
        # It never existed, so its id is free, and its parent may still be created.
        await ask.must(store, b.created("f2"))
        await ask.must(store, b.created())
        await ask.must(store, orphans[0])

    @promises("commit", "(the parent itself, or one whose `family_id`, or whose own id, is its")
    async def test_any_run_of_the_family_will_do(self, store: Store) -> None:
        await ask.must(store, b.created("first"))
        await ask.must(store, b.fork("second", parent="first"))
        created = [
            b.fork("by-the-first", parent="gone", family="first"),
            b.fork("by-its-parent", parent="second", family="of-another-name"),
            b.fork("by-a-brother", parent="gone", family="of-another-name"),
        ]
        for commit in created:
            await ask.must(store, commit)

    @promises("commit", "A run that is created with a `spec.parent_run_id` answers CONFLICT")
    @promises("Names", "one tenant's id under another tenant is a missing run.")
    async def test_T2_a_parent_in_another_tenant_is_a_missing_one(self, store: Store) -> None:
        await ask.must(store, b.created(tenant="b"))
        assert await ask.verdicts(store, b.fork("fork", tenant="a")) == [Verdict.CONFLICT]
        await ask.must(store, b.fork("fork", tenant="b"))
        assert await ask.verdicts(store, b.fork("fork", tenant="a")) == [Verdict.CONFLICT]


class TestFamilies(Cases):
    """Families: the results of a deleted run's executions stay with its family."""

    @promises("delete_run", "As long as another run of its family is there")
    async def test_what_a_deleted_parent_left_is_read_as_long_as_a_fork_is_there(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        outcome = await _parent(store)
        await ask.must(store, b.fork("fork"))
        if keeps("logs"):
            await store.append_logs(b.TENANT, b.RUN, [b.line("x")])
        assert await store.delete_run(b.TENANT, b.RUN, version=2)
        await open_store.advance(60_000)
        for _ in range(2):
            assert await _left(store) == [outcome]
            assert await store.get_run(b.TENANT, b.RUN) is None
            assert await store.load(b.TENANT, b.RUN) is None
            assert await store.read_plan(b.TENANT, b.RUN, 1) is None
            assert await store.read_events(b.TENANT, b.RUN, after=0, limit=10) is None
            assert list(await store.read_payloads(b.TENANT, b.RUN, [INPUT_KEY])) == []
            assert list(await store.read_questions(b.TENANT, b.RUN, ["q"])) == []
            assert (await store.page(TaskQuery(tenant_id=b.TENANT, run_id=b.RUN))).items == ()
            assert (await store.page(ExecutionQuery(tenant_id=b.TENANT, run_id=b.RUN))).items == ()
            assert (await store.page(MessageQuery(tenant_id=b.TENANT, run_id=b.RUN))).items == ()
            assert (
                not keeps("logs")
                or (await store.page(LogQuery(tenant_id=b.TENANT, run_id=b.RUN))).items == ()
            )
            assert await ask.run_ids(store) == ["fork"]
            assert not await store.delete_run(b.TENANT, b.RUN, version=2)
            store = await open_store.reopen(store)

    @promises("delete_run", "with the last of the family it is removed.")
    async def test_the_last_of_a_family_takes_what_all_left(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        outcome = await _parent(store)
        for name, parent in (("child", b.RUN), ("grandchild", "child")):
            left = b.outcome(name.encode())
            await ask.must(store, b.fork(name, parent=parent, family=b.RUN, outcomes=[left]))
        assert await store.delete_run(b.TENANT, "child", version=1)
        assert await store.delete_run(b.TENANT, b.RUN, version=2)
        for _ in range(2):
            assert await _left(store) == [outcome]
            assert [left.result for left in await _left(store, "child")] == [Payload(data=b"child")]
            store = await open_store.reopen(store)
        assert await store.delete_run(b.TENANT, "grandchild", version=1)
        for _ in range(2):
            for name in (b.RUN, "child", "grandchild"):
                assert await _left(store, name) == [], name
            store = await open_store.reopen(store)

    @promises("delete_run", "As long as another run of its family is there")
    async def test_deleted_fork_keeps_results_that_its_parent_needs(self, store: Store) -> None:
        await _parent(store)
        await ask.must(store, b.fork("fork", outcomes=[b.outcome(b"fork")]))
        assert await store.delete_run(b.TENANT, "fork", version=1)
        assert [left.result for left in await _left(store, "fork")] == [Payload(data=b"fork")]
        assert await store.delete_run(b.TENANT, b.RUN, version=2)
        assert await _left(store, "fork") == []
        assert await _left(store) == []

    @promises("delete_run", "a run without one is its own.")
    async def test_a_run_of_another_family_keeps_nothing(self, store: Store) -> None:
        await _parent(store)
        await ask.must(store, b.created("stranger"), b.created("other"))
        await ask.must(store, b.fork("fork-of-the-other", parent="other"))
        labelled = RunSpec(tenant_id=b.TENANT, run_id="alike", pipeline_id=b.RUN, goal=b.RUN)
        await ask.must(store, b.created("alike", spec=labelled))
        assert await store.delete_run(b.TENANT, b.RUN, version=2)
        assert await _left(store) == []

    @promises("delete_run", "The family of a run are those with its `spec.family_id`")
    @promises("Names", "one tenant's id under another tenant is a missing run.")
    async def test_T1_two_tenants_with_equal_ids_have_two_families(self, store: Store) -> None:
        for tenant in ("a", "b"):
            await _parent(store, tenant=tenant)
            await ask.must(store, b.fork("fork", tenant=tenant))
        assert await store.delete_run("a", b.RUN, version=2)
        assert await store.delete_run("a", "fork", version=1)
        assert await _left(store, tenant="a") == []
        assert await store.delete_run("b", b.RUN, version=2)
        assert [left.result for left in await _left(store, tenant="b")] == [Payload(data=b"b")]
        assert await store.delete_run("b", "fork", version=1)
        assert await _left(store, tenant="b") == []

    @promises("commit", "where no run of its family is there any more")
    async def test_a_fork_after_its_whole_family_was_deleted_is_refused(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        await _parent(store)
        brother = await ask.must(store, b.fork("brother"))
        assert await store.delete_run(b.TENANT, b.RUN, version=2)
        # Its parent is gone, but a run of the family exists.
        late = await ask.must(store, b.fork("late"))
        assert await _left(store) != []
        assert await store.delete_run(b.TENANT, "brother", version=1)
        assert await store.delete_run(b.TENANT, "late", version=1)
        for _ in range(2):
            for orphan in (b.fork("too-late"), brother, late, replace(late, commit_id="again")):
                assert await ask.verdicts(store, orphan) == [Verdict.CONFLICT]
            assert await ask.run_ids(store) == []
            store = await open_store.reopen(store)
            await open_store.advance(HOUR_MS / 4)

    @promises("commit", "A run that is created with a `spec.parent_run_id` answers CONFLICT")
    async def test_only_a_birth_asks_for_the_family(self, store: Store) -> None:
        await _parent(store)
        fork = await ask.must(store, b.fork("fork"))
        assert await store.delete_run(b.TENANT, b.RUN, version=2)
        step = await ask.must(store, b.step(fork))
        # An applied creation is confirmed again, whichever runs exist.
        assert await ask.verdicts(store, fork, step) == [Verdict.COMMITTED] * 2

    @promises("delete_run", "and the id is refused, too;")
    async def test_S7_an_id_is_nobody_else_s_as_long_as_results_are_kept_under_it(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        outcome = await _parent(store)
        await ask.must(store, b.fork("fork"))
        assert await store.delete_run(b.TENANT, b.RUN, version=2)
        await open_store.advance(3 * HOUR_MS)
        other = b.created(commit_id="another", outcomes=[b.outcome(b"another's")])
        for _ in range(2):
            assert await ask.verdicts(store, other) == [Verdict.CONFLICT]
            assert await _left(store) == [outcome]
            store = await open_store.reopen(store)

    @promises("delete_run", "with the last of the family it is removed.")
    async def test_the_last_two_of_a_family_deleted_at_once_leave_nothing(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        door = await open_store.join(store)
        for at in range(ROUNDS):
            await _parent(store, f"p{at}")
            await ask.must(store, b.fork(f"f{at}", parent=f"p{at}"))
            deleted = await asyncio.gather(
                store.delete_run(b.TENANT, f"p{at}", version=2),
                door.delete_run(b.TENANT, f"f{at}", version=1),
            )
            assert deleted == [True, True]
            assert await _left(store, f"p{at}") == []

    @promises("commit", "where no run of its family is there any more")
    async def test_S5_fork_during_its_family_end_finds_all_or_is_refused(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        door = await open_store.join(store)
        for at in range(ROUNDS):
            outcome = await _parent(store, f"p{at}")
            fork = b.fork(f"f{at}", parent=f"p{at}")
            (result,), deleted = await asyncio.gather(
                door.commit([fork]), store.delete_run(b.TENANT, f"p{at}", version=2)
            )
            assert deleted
            created = result.verdict is Verdict.COMMITTED
            assert created or result.verdict is Verdict.CONFLICT
            assert (await store.get_run(b.TENANT, f"f{at}") is not None) is created
            assert await _left(store, f"p{at}") == ([outcome] if created else [])

    @promises("Names", "by names that match `NAME_PATTERN`, of at most 128 characters.")
    async def test_T4_families_of_hostile_names_are_kept_apart(self, store: Store) -> None:
        names = ["a:b", "a", "b:c", "A", "a/b", "a..", "a@b", "a+b", "0", "x" * 126]
        for name in names:
            await _parent(store, name, tenant=name)
            await ask.must(store, b.fork(f"{name}:b", parent=name, tenant=name))
        for at, name in enumerate(names):
            assert await store.delete_run(name, name, version=2)
            assert len(await _left(store, name, tenant=name)) == 1, name
            assert await store.delete_run(name, f"{name}:b", version=1)
            assert await _left(store, name, tenant=name) == [], name
            for other in names[at + 1 :]:
                assert len(await _left(store, other, tenant=other)) == 1, (name, other)


async def _parent(store: Store, run_id: str = b.RUN, *, tenant: str = b.TENANT) -> Outcome:
    """Create a run with a row of each kind, and return its execution's outcome."""
    outcome = Outcome(
        execution_id=b.STEP, result=Payload(data=tenant.encode()), prompt="p", response="r"
    )
    first: Commit = b.created(
        run_id,
        tenant=tenant,
        input=Payload(data=b"in"),
        plan=b.plan("a"),
        tasks=[b.task("a")],
        executions=[b.leased()],
        leases=[b.lease()],
        timers=[b.timer(1)],
    )
    second = b.step(
        first,
        executions=[b.ended()],
        outcomes=[outcome],
        questions=[b.question("q")],
        messages=[b.message("hello")],
    )
    await ask.must(store, first, second)
    return outcome


async def _left(store: Store, run_id: str = b.RUN, *, tenant: str = b.TENANT) -> list[Outcome]:
    """Return what can be read of a run's one outcome, in both ways of reading it."""
    found = await ask.outcomes(store, ["unknown", b.STEP], run_id, tenant=tenant)
    stored = await store.read_payloads(tenant, run_id, ["unknown", b.STEP])
    assert [one.payload for one in stored] == [left.result for left in found]
    return found
