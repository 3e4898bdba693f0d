"""Claims: the steps that may run now, for whom, in which order, and held from all other callers."""
# ruff: noqa: N802, S106 - invariants keep their names, and these tokens open nothing

from __future__ import annotations

import pytest

from stepwell.core.port import FeedQuery, Store
from stepwell.core.records.routing import TaskPattern, WorkerVersion, pin_of
from stepwell.core.records.states import RunStatus, StepKind, VersionMatch
from stepwell_testkit.conformance import ask
from stepwell_testkit.conformance import builders as b
from stepwell_testkit.conformance.catalog import promises
from stepwell_testkit.conformance.harness import Cases, StoreFactory, keeps


class TestReady(Cases):
    """The READY executions that a want gets."""

    @promises("claim", "For each want: READY executions of its tenant and queues that it `takes`")
    @promises("ReadyStep.version", "The run's version when this was read.")
    async def test_a_ready_execution_is_returned_with_its_run(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        first = await ask.must(store, b.created(executions=[b.ready()]))
        await ask.must(store, b.step(first))
        await open_store.advance(3_000)
        (found,) = await ask.ready_steps(store)
        assert (found.tenant_id, found.run_id, found.execution_id) == (b.TENANT, b.RUN, b.STEP)
        assert found.version == 2

    @promises("ReadyStep.waited_ms", "Since it became available.")
    async def test_a_ready_execution_tells_how_long_it_has_waited(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        await ask.must(store, b.created("now", executions=[b.ready()]))
        await ask.must(store, b.created("later", executions=[b.ready(delay_ms=2_000)]))
        await open_store.advance(5_000)
        waited = {found.run_id: found.waited_ms for found in await ask.ready_steps(store)}
        assert 5_000 <= waited["now"] < 6_000
        assert 3_000 <= waited["later"] < 4_000

    @promises("Want.tasks", "The types and roles of its TASK and RECONCILE steps, where `*` is any")
    @promises("Want.tasks", "without a pattern, all.")
    @pytest.mark.parametrize(
        ("patterns", "found"),
        [
            ((), "a a/x b b/x c/y plain reconcile"),
            ((("a", ""), ("c", "y")), "a c/y"),
            ((("*", "x"),), "a/x b/x"),
            ((("a", "*"),), "a a/x"),
            ((("*", "*"),), "a a/x b b/x c/y plain"),
            ((("", ""),), "plain"),
            ((("x", "a"), ("b/x", "")), ""),
        ],
    )
    async def test_steps_go_by_their_type_and_role(
        self, store: Store, patterns: tuple[tuple[str, str], ...], found: str
    ) -> None:
        pairs = [("a", ""), ("a", "x"), ("b", ""), ("b", "x"), ("c", "y")]
        executions = [
            b.ready(f"{type_}/{role}".rstrip("/"), type=type_, role=role) for type_, role in pairs
        ]
        executions += [b.ready("plain"), b.ready("reconcile", kind=StepKind.RECONCILE, type="a")]
        await ask.must(store, b.created(executions=executions))
        tasks = [TaskPattern(type=type_, role=role) for type_, role in patterns]
        assert sorted(await ask.ready_ids(store, b.want(tasks=tasks))) == found.split()

    @promises("Want.version", "The worker's version; steps that are pinned to others don't match")
    @pytest.mark.parametrize(
        ("version", "found"),
        [
            ("", "any"),
            ("blue", "=blue any"),
            ("1.9", ">=1.9 any"),
            ("1.10", "=1.10 >=1.10 >=1.9 any"),
            ("1.10.0.1", ">=1.10 >=1.9 any"),
            ("2", ">=1.10 >=1.9 >=2.0 any"),
        ],
    )
    async def test_pinned_steps_go_by_the_worker_s_version(
        self, store: Store, version: str, found: str
    ) -> None:
        wanted = [("=", VersionMatch.EXACT, name) for name in ("blue", "1.10")]
        wanted += [(">=", VersionMatch.AT_LEAST, name) for name in ("1.9", "1.10", "2.0")]
        executions = [
            b.ready(sign + name, pin=pin_of(WorkerVersion(match=match, version=name)))
            for sign, match, name in wanted
        ]
        await ask.must(store, b.created(executions=[*executions, b.ready("any")]))
        assert sorted(await ask.ready_ids(store, b.want(version=version))) == found.split()

    @promises("claim", "higher priority first, then the longest available")
    async def test_higher_priority_goes_first(self, store: Store, open_store: StoreFactory) -> None:
        for at, priority in enumerate((0, 5, -3, 100, 5)):
            name = f"p{priority}/{at}"
            await ask.must(store, b.created(name, executions=[b.ready(name, priority=priority)]))
            await open_store.advance(10)
        assert await ask.ready_ids(store) == ["p100/3", "p5/1", "p5/4", "p0/0", "p-3/2"]

    @promises("claim", "higher priority first, then the longest available")
    async def test_among_equals_the_longest_available_goes_first(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        for name, delay_ms in (("a", 3_000), ("b", 0), ("c", 1_000)):
            await ask.must(store, b.created(name, executions=[b.ready(name, delay_ms=delay_ms)]))
            await open_store.advance(10)
        await open_store.advance(5_000)
        assert await ask.ready_ids(store) == ["b", "c", "a"]

    @promises("claim", "Changes no run.")
    async def test_a_claim_changes_no_run(self, store: Store) -> None:
        first = await ask.must(store, b.created(executions=[b.ready()], timers=[b.timer(0)]))
        before = await ask.loaded(store)
        answer = await ask.claimed(store, b.want())
        assert (len(answer.ready[0]), len(answer.due)) == (1, 1)
        after = await ask.loaded(store)
        assert (after.run, after.executions) == (before.run, before.executions)
        assert not keeps("feed") or len((await store.page(FeedQuery())).items) == 1
        await ask.must(store, b.step(first))

    @promises("Claimed.ready", "For each want, in the order of the request.")
    async def test_a_claim_without_wants_looks_only_at_what_is_due(self, store: Store) -> None:
        await ask.must(store, b.created(executions=[b.ready()], timers=[b.timer(0)]))
        answer = await ask.claimed(store)
        assert (answer.ready, len(answer.due)) == ((), 1)
        assert await ask.ready_ids(store) == [b.STEP]

    @promises("claim", "For each want: READY executions")
    async def test_a_claim_finds_its_step_among_many_that_are_parked(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        for group in range(4):
            parked = [
                b.created(
                    f"parked-{group}-{at}",
                    executions=[b.ready("later", delay_ms=3_600_000)]
                    if at % 2
                    else [b.ready("away", queue="elsewhere")],
                    timers=[b.timer(3_600_000)],
                    status=RunStatus.WAITING,
                )
                for at in range(100)
            ]
            await ask.must(store, *parked)
        await ask.must(store, b.created("wanted", executions=[b.ready()]))
        await open_store.advance(10)
        assert [found.run_id for found in await ask.ready_steps(store)] == ["wanted"]
        assert await ask.due_now(store) == []


class TestHolds(Cases):
    """Holds: a returned item is not returned to any caller for a while."""

    @promises("claim", "Return what may be done now, and hold it back from everyone for `hold_ms`.")
    @promises("Claim.hold_ms", "For how long what is returned is not returned to anyone again.")
    async def test_what_was_returned_is_held_from_everyone(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        door = await open_store.join(store)
        await ask.must(store, b.created_leased("l", lease_ms=1), b.created(executions=[b.ready()]))
        await open_store.advance(1_000)
        answer = await ask.claimed(store, b.want(), hold_ms=5_000)
        assert (len(answer.ready[0]), len(answer.due)) == (1, 1)
        await open_store.advance(4_000)
        for other in (store, door):
            answer = await ask.claimed(other, b.want(), hold_ms=5_000)
            assert (answer.ready, answer.due) == (((),), ())

    @promises("claim", "unless a commit changed it")
    async def test_L3_what_a_commit_settled_does_not_come_back(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        first = await ask.must(store, b.created(executions=[b.ready()], timers=[b.timer(0)]))
        answer = await ask.claimed(store, b.want())
        assert (len(answer.ready[0]), len(answer.due)) == (1, 1)
        await ask.must(
            store,
            b.step(first, executions=[b.leased()], leases=[b.lease()], timers=[b.timer(-1)]),
        )
        await open_store.advance(5_000)
        answer = await ask.claimed(store, b.want())
        assert (answer.ready, answer.due) == (((),), ())

    @promises("claim", "a commit that makes something ready or due again is not held up")
    async def test_L3_a_lease_taken_again_is_not_held_up(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        first = await ask.must(store, b.created_leased(lease_ms=1_000))
        await open_store.advance(1_000)
        assert len(await ask.due_now(store, hold_ms=60_000)) == 1
        again = b.lease(token="t2", lease_ms=1_000)
        await ask.must(store, b.step(first, executions=[b.leased()], leases=[again]))
        await open_store.advance(1_000)
        assert [due.token for due in await ask.due_now(store)] == ["t2"]

    @promises("claim", "What is held comes back when the hold is over")
    async def test_L3_a_hold_is_of_one_item_and_not_of_its_run(self, store: Store) -> None:
        first = await ask.must(store, b.created(executions=[b.ready("e1")]))
        assert await ask.ready_ids(store) == ["e1"]
        await ask.must(store, b.step(first, executions=[b.ready("e2")]))
        assert await ask.ready_ids(store) == ["e2"]

    @promises("claim", "A restart may forget holds, and nothing else.")
    async def test_L2_a_claim_whose_answer_was_lost_loses_nothing_over_a_restart(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        await ask.must(store, b.created(executions=[b.ready()], timers=[b.timer(0)]))
        await ask.claimed(store, b.want(), hold_ms=2_000)
        store = await open_store.reopen(store)
        await open_store.advance(2_000)
        answer = await ask.claimed(store, b.want())
        assert (len(answer.ready[0]), len(answer.due)) == (1, 1)
