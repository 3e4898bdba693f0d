"""Fences and leases: who may report an execution, and for how long."""
# ruff: noqa: N802, S106 - invariants keep their names, and these tokens open nothing

from __future__ import annotations

from msgspec.structs import replace

from stepwell.core.port import (
    ExecutionQuery,
    FeedQuery,
    LeaseQuery,
    LogQuery,
    MessageQuery,
    Renewal,
    Store,
    TaskQuery,
)
from stepwell.core.records.model import Payload, Session
from stepwell.core.records.states import DueKind, Verdict
from stepwell_testkit.conformance import ask
from stepwell_testkit.conformance import builders as b
from stepwell_testkit.conformance.catalog import promises
from stepwell_testkit.conformance.harness import Cases, StoreFactory, keeps

COMMITTED, CONFLICT, LEASE_LOST = Verdict.COMMITTED, Verdict.CONFLICT, Verdict.LEASE_LOST


class TestFences(Cases):
    """A commit names the leases on which it depends."""

    @promises("commit", "LEASE_LOST: a fence's token is not that of the execution's lease.")
    async def test_S8_the_holder_is_let_through(self, store: Store) -> None:
        first = await ask.must(store, b.created_leased())
        await ask.must(store, b.step(first, executions=[b.ended()], fences=[b.fence()]))

    @promises("commit", "LEASE_LOST: a fence's token is not that of the execution's lease.")
    async def test_S8_a_wrong_token_is_lease_lost(self, store: Store) -> None:
        first = await ask.must(store, b.created_leased(token="t1"))
        for token in ("t2", "", "T1", "t1 ", "t"):
            commit = b.step(first, commit_id=token, fences=[b.fence(token=token)])
            assert await ask.verdicts(store, commit) == [LEASE_LOST], token

    @promises("Commit", "Rows are whole and replace those of the same key")
    async def test_a_leased_row_written_again_keeps_its_lease(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        first = await ask.must(store, b.created_leased(lease_ms=1_000))
        begun = replace(b.leased(), begun=True)
        second = await ask.must(store, b.step(first, executions=[begun], fences=[b.fence()]))
        rows = await ask.loaded(store)
        assert [(row.execution, row.token) for row in rows.executions] == [(begun, "t1")]
        await open_store.advance(1_000)
        assert [due.token for due in await ask.due_now(store)] == ["t1"]
        await ask.must(store, b.step(second, fences=[b.fence()]))


class TestLeases(Cases):
    """A lease lasts as long as its heartbeats, up to its limit."""

    @promises("Lease.token", "In no event, read or log.")
    async def test_the_token_is_in_no_public_read(self, store: Store) -> None:
        await ask.must(store, b.created_leased(token="secret"))
        reads: list[object] = [
            await store.get_run(b.TENANT, b.RUN),
            await store.page(ExecutionQuery(tenant_id=b.TENANT, run_id=b.RUN)),
            await store.page(TaskQuery(tenant_id=b.TENANT, run_id=b.RUN)),
            await store.read_events(b.TENANT, b.RUN, after=0, limit=100),
            await store.page(MessageQuery(tenant_id=b.TENANT, run_id=b.RUN)),
            await store.describe(),
        ]
        if keeps("logs"):
            await store.append_logs(b.TENANT, b.RUN, [b.line("hello")])
            reads.append(await store.page(LogQuery(tenant_id=b.TENANT, run_id=b.RUN)))
        if keeps("feed"):
            reads.append(await store.page(FeedQuery()))
        assert "secret" not in repr(reads)

    @promises("Lease.lease_ms", "It expires this long after the commit, or after the last renewal.")
    @promises("Due.token", "The token of the lease that expired.")
    async def test_C2_a_lease_expires_after_its_time_and_not_before(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        await ask.must(store, b.created_leased(lease_ms=10_000))
        await open_store.advance(10_000 - open_store.grain_ms)
        assert await ask.due_now(store) == []
        await open_store.advance(open_store.grain_ms)
        (due,) = await ask.due_now(store)
        assert (due.kind, due.name, due.token) == (DueKind.LEASE_EXPIRED, b.STEP, "t1")
        assert (due.tenant_id, due.run_id, due.version) == (b.TENANT, b.RUN, 1)

    @promises("LeaseQuery", "Of all their instances", "one page holds all.")
    @promises("LeaseQuery.worker_id", "Only this worker's.")
    async def test_a_workers_leases_are_listed_over_all_its_runs(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        await ask.must(
            store, b.created_leased("one", token="x"), b.created_leased("two", token="y")
        )
        other = replace(b.lease("e2", token="z"), instance_id="instance-2")
        foreign = replace(b.lease("e3", token="w"), worker_id="worker-2")
        three = b.created(
            "three", executions=[b.leased("e2"), b.leased("e3")], leases=[other, foreign]
        )
        await ask.must(store, three, b.created_leased("four", tenant="other", token="v"))
        assert await _held(store) == [
            ("one", b.STEP, "x", "instance-1"),
            ("three", "e2", "z", "instance-2"),
            ("two", b.STEP, "y", "instance-1"),
        ]
        store = await open_store.reopen(store)
        assert len(await _held(store)) == 3
        assert [
            held.token
            for held in (
                await store.page(LeaseQuery(tenant_id="other", worker_id="worker-1"))
            ).items
        ] == ["v"]
        assert (
            list((await store.page(LeaseQuery(tenant_id=b.TENANT, worker_id="nobody"))).items) == []
        )

    @promises("LeaseQuery.worker_id", "Empty: any.")
    @promises("LeaseQuery.run_id", "Only this run's.", "Empty: any.")
    async def test_leases_of_a_tenant_and_of_a_run_are_listed_over_all_workers(
        self, store: Store
    ) -> None:
        leases = [
            replace(b.lease("e1", token="x"), worker_id="worker-2"),
            b.lease("e2", token="y"),
        ]
        run = b.created("one", executions=[b.leased("e1"), b.leased("e2")], leases=leases)
        foreign = b.created_leased("one", tenant="other", token="v")
        await ask.must(store, run, b.created_leased("two", token="z"), foreign)

        async def held(**names: str) -> list[tuple[str, str, str]]:
            page = await store.page(LeaseQuery(tenant_id=b.TENANT, **names))
            return sorted((it.run_id, it.execution_id, it.worker_id) for it in page.items)

        one = [("one", "e1", "worker-2"), ("one", "e2", "worker-1")]
        assert await held() == [*one, ("two", b.STEP, "worker-1")]
        assert await held(run_id="one") == one
        assert await held(run_id="one", worker_id="worker-1") == one[1:]
        assert await held(run_id="none") == []

    @promises("WorkerLease.progress", "The last that a heartbeat brought")
    @promises("WorkerLease.progress", "only where the query names a run.")
    async def test_leases_of_a_run_come_with_their_last_progress(self, store: Store) -> None:
        leases = [b.lease("e1", token="x"), b.lease("e2", token="y")]
        await ask.must(store, b.created(executions=[b.leased("e1"), b.leased("e2")], leases=leases))
        await store.renew([b.renewal(execution_id="e1", token="x", progress=Payload(data=b"half"))])

        async def progress(**names: str) -> list[Payload | None]:
            page = await store.page(LeaseQuery(tenant_id=b.TENANT, **names))
            return [it.progress for it in sorted(page.items, key=lambda it: it.execution_id)]

        assert await progress(run_id=b.RUN) == [Payload(data=b"half"), None]
        assert await progress() == [None, None]

    @promises("renew", "Move each lease's deadline to `lease_ms` from now")
    @promises("Renewal.lease_ms", "From now.")
    @promises("Lease.lease_ms", "or after the last renewal.")
    async def test_C2_a_renewal_moves_the_deadline(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        await ask.must(store, b.created_leased(lease_ms=10_000))
        for _ in range(5):
            await open_store.advance(9_000)
            assert list(await store.renew([b.renewal(lease_ms=10_000)])) == [True]
        await open_store.advance(10_000 - open_store.grain_ms)
        assert await ask.due_now(store) == []
        await open_store.advance(open_store.grain_ms)
        assert await ask.due_names(store) == [b.STEP]

    @promises("renew", "Move each lease's deadline to `lease_ms` from now")
    async def test_a_renewal_may_bring_the_deadline_nearer(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        await ask.must(store, b.created_leased(lease_ms=60_000))
        await store.renew([b.renewal(lease_ms=1_000)])
        await open_store.advance(1_000)
        assert await ask.due_names(store) == [b.STEP]

    @promises("renew", "never beyond its limit.")
    @promises("Lease.limit_ms", "No renewal moves it beyond this long after the commit")
    async def test_C2_no_renewal_moves_a_lease_beyond_its_limit(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        await ask.must(store, b.created_leased(lease_ms=10_000, limit_ms=15_000))
        await open_store.advance(9_000)
        assert list(await store.renew([b.renewal(lease_ms=10_000)])) == [True]
        await open_store.advance(6_000 - open_store.grain_ms)
        assert await ask.due_now(store) == []
        await open_store.advance(open_store.grain_ms)
        (due,) = await ask.due_now(store)
        assert (due.kind, due.token) == (DueKind.ATTEMPT_TIMED_OUT, "t1")

    @promises("Lease.limit_ms", "No renewal moves it beyond this long after the commit")
    async def test_a_lease_longer_than_its_limit_ends_at_its_limit(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        await ask.must(store, b.created_leased(lease_ms=60_000, limit_ms=5_000))
        await open_store.advance(5_000)
        assert [due.kind for due in await ask.due_now(store)] == [DueKind.ATTEMPT_TIMED_OUT]

    @promises("Lease.limit_ms", "0: no such end.", "A lease that ends there is due as")
    async def test_a_lease_that_ends_before_its_limit_expired_for_want_of_heartbeats(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        await ask.must(store, b.created_leased("limited", lease_ms=5_000, limit_ms=60_000))
        await ask.must(store, b.created_leased("endless", lease_ms=5_000))
        await open_store.advance(5_000)
        assert {due.kind for due in await ask.due_now(store)} == {DueKind.LEASE_EXPIRED}

    @promises("renew", "False: it isn't, and nothing changed.")
    async def test_S8_a_heartbeat_with_another_token_changes_nothing(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        await ask.must(store, b.created_leased(lease_ms=5_000))
        wrong = [
            b.renewal(token="t2", progress=Payload(data=b"x"), session=Session(session_id="s")),
            b.renewal(token="", progress=Payload(data=b"x")),
            b.renewal("run-2"),
            b.renewal(execution_id="task:b#1"),
        ]
        assert list(await store.renew(wrong)) == [False] * 4
        (row,) = (await ask.loaded(store)).executions
        assert (row.token, row.progress, row.session) == ("t1", None, Session())
        await open_store.advance(5_000)
        assert await ask.due_names(store) == [b.STEP]

    @promises("renew", "True: the token is that of the execution's lease, expired or not.")
    async def test_many_heartbeats_are_answered_in_their_order(self, store: Store) -> None:
        await ask.must(store, *(b.created_leased(f"run-{at}", token=f"t{at}") for at in range(10)))
        asked: list[Renewal] = [
            b.renewal(f"run-{at}", token=f"t{at if at % 3 else 'x'}") for at in range(10)
        ]
        assert list(await store.renew(asked)) == [bool(at % 3) for at in range(10)]
        assert list(await store.renew([])) == []

    @promises("renew", "Changes no version and makes no event.")
    async def test_a_heartbeat_changes_no_version_and_makes_no_event(self, store: Store) -> None:
        await ask.must(store, b.created_leased())
        await store.renew([b.renewal(progress=Payload(data=b"half"))])
        page = await store.read_events(b.TENANT, b.RUN, after=0, limit=100)
        assert page is not None
        assert (await ask.version_of(store), page.latest) == (1, 1)
        assert not keeps("feed") or len((await store.page(FeedQuery())).items) == 1

    @promises("Renewal.progress", "Replaces the lease's last progress; absent: that stays.")
    @promises("OpenExecution.progress", "The last that a heartbeat brought.")
    async def test_D2_the_last_progress_stays_until_another_comes(self, store: Store) -> None:
        await ask.must(store, b.created_leased())
        for progress, kept in (
            (Payload(data=b"1"), b"1"),
            (None, b"1"),
            (Payload(data=b"2"), b"2"),
            (Payload(data=b""), b""),
            (None, b""),
        ):
            await store.renew([b.renewal(progress=progress)])
            (row,) = (await ask.loaded(store)).executions
            assert row.progress is not None
            assert row.progress.data == kept

    @promises("Renewal.session", "Kept with the lease when it isn't empty.")
    async def test_a_session_is_kept_with_the_lease(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        await ask.must(store, b.created_leased())
        session = Session(backend="some-api", session_id="s-1")
        await store.renew([b.renewal(session=session)])
        await store.renew([b.renewal()])
        (row,) = (await ask.loaded(store)).executions
        assert row.session == session
        store = await open_store.reopen(store)
        (row,) = (await ask.loaded(store)).executions
        assert row.session == session

    @promises("Lease.token", "128 random bits; never repeats.")
    async def test_S9_a_new_lease_starts_without_the_progress_of_the_old_one(
        self, store: Store
    ) -> None:
        first = await ask.must(store, b.created_leased())
        await store.renew([b.renewal(progress=Payload(data=b"old"))])
        await ask.must(store, b.step(first, executions=[b.leased()], leases=[b.lease(token="t2")]))
        (row,) = (await ask.loaded(store)).executions
        assert (row.token, row.progress) == ("t2", None)


async def _held(store: Store) -> list[tuple[str, str, str, str]]:
    held = (await store.page(LeaseQuery(tenant_id=b.TENANT, worker_id="worker-1"))).items
    return sorted((it.run_id, it.execution_id, it.token, it.instance_id) for it in held)
