"""Operations other than commits: worker presence, logs, deletion."""
# ruff: noqa: N802 - invariants keep their names, and these tokens open nothing

from __future__ import annotations

from msgspec.structs import replace

from stepwell.core.port import (
    INPUT_KEY,
    Commit,
    EndedQuery,
    ExecutionQuery,
    FeedQuery,
    LogQuery,
    MessageQuery,
    Page,
    Presence,
    PresenceQuery,
    QuestionQuery,
    Store,
    TaskQuery,
)
from stepwell.core.records.model import Payload
from stepwell.core.records.states import RunStatus, Verdict
from stepwell_testkit.conformance import ask
from stepwell_testkit.conformance import builders as b
from stepwell_testkit.conformance.catalog import promises
from stepwell_testkit.conformance.harness import Cases, StoreFactory, keeps

HOUR_MS = 3_600 * 1_000


class TestPresence(Cases):
    """Presence: a worker is listed until its entry expires."""

    @promises("put_presence", "Record that these workers are connected")
    @promises("PresenceQuery", "On any replica; one page holds all of them.")
    @promises("Presence.credits", "Free places when it was last reported.")
    @promises("Presence.subject", "Whose credential it has.")
    @promises("Presence.connected_us", "The moment when it connected, by the store's clock; 0:")
    @promises("Presence.connected_us", "it is not known.")
    @promises("Presence.draining", "It takes no more steps, and ends when those")
    @promises("Presence.draining", "that it has are done.")
    @promises("Presence.lapses", "Leases in a row that it let run out.")
    @promises("Presence.tasks", "The types and roles of its TASK and RECONCILE steps")
    @promises("Presence.tasks", "without a pattern, all.")
    async def test_connected_workers_are_listed_as_last_put(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        door = await open_store.join(store)
        put = [b.presence("w1"), replace(b.presence("w2"), replica_id="r2", credits=0)]
        await store.put_presence(put, ttl_ms=10_000)
        page = await door.page(PresenceQuery(tenant_id=b.TENANT))
        assert (sorted(page.items, key=_worker), page.cursor) == (put, "")

    @promises("put_presence", "`ttl_ms` 0 forgets it now.")
    async def test_worker_put_with_ttl_0_is_forgotten_at_once(self, store: Store) -> None:
        await store.put_presence([b.presence("w1"), b.presence("w2")], ttl_ms=10_000)
        await store.put_presence([b.presence("w1"), b.presence("unknown")], ttl_ms=0)
        assert [
            _worker(each) for each in (await store.page(PresenceQuery(tenant_id=b.TENANT))).items
        ] == ["w2"]

    @promises("put_presence", "Keyed by (tenant, worker, instance).")
    async def test_two_instances_of_a_worker_are_two(self, store: Store) -> None:
        one, two = b.presence(instance_id="i1"), b.presence(instance_id="i2")
        await store.put_presence([one, two, b.presence(tenant="other")], ttl_ms=10_000)
        assert len((await store.page(PresenceQuery(tenant_id=b.TENANT))).items) == 2
        await store.put_presence([one], ttl_ms=0)
        assert list((await store.page(PresenceQuery(tenant_id=b.TENANT))).items) == [two]
        assert len((await store.page(PresenceQuery(tenant_id="other"))).items) == 1

    @promises("put_presence", "One without a tenant is a replica's own, by which it judges")
    async def test_replica_s_own_presence_is_taken_where_commits_are(self, store: Store) -> None:
        await store.put_presence([b.presence(tenant="")], ttl_ms=10_000)


def _worker(presence: Presence) -> str:
    return presence.worker_id


class TestLogs(Cases):
    """Logs: entries that running workers append."""

    @promises("append_logs", "Append to a run's log, apart from its commits.")
    @promises("LogQuery", "In the order in which they were appended.")
    async def test_a_log_grows_apart_from_the_commits(self, store: Store) -> None:
        await ask.must(store, b.created())
        lines = [replace(b.line(str(at)), level="WARNING", written_us=at) for at in range(5)]
        await store.append_logs(b.TENANT, b.RUN, lines[:2])
        await store.append_logs(b.TENANT, b.RUN, [])
        await store.append_logs(b.TENANT, b.RUN, lines[2:])
        assert list((await store.page(LogQuery(tenant_id=b.TENANT, run_id=b.RUN))).items) == lines
        assert await ask.version_of(store) == 1
        assert not keeps("feed") or len((await store.page(FeedQuery())).items) == 1

    @promises("LogQuery.execution_id", "Only this execution's.", "Empty: every execution's.")
    async def test_a_log_of_one_execution(self, store: Store) -> None:
        await ask.must(store, b.created())
        lines = [b.line(str(at), f"e{at % 2}") for at in range(10)]
        await store.append_logs(b.TENANT, b.RUN, lines)
        for limit in (1, 2, 5, 100):
            assert await _log(store, limit, "e1") == ["1", "3", "5", "7", "9"], limit
            assert await _log(store, limit) == [str(at) for at in range(10)], limit
        assert await _log(store, 10, "e2") == []

    @promises("LogQuery", "A page's cursor is always set, also at the end")
    async def test_E3_a_log_is_read_on_from_its_end(self, store: Store) -> None:
        await ask.must(store, b.created())
        cursors = [
            (await store.page(LogQuery(tenant_id=b.TENANT, run_id=b.RUN, execution_id=name))).cursor
            for name in ("", "e1")
        ]
        assert all(cursors)
        for at in range(4):
            await store.append_logs(b.TENANT, b.RUN, [b.line(f"{at}", "e1"), b.line("x", "e2")])
            page = await store.page(
                LogQuery(tenant_id=b.TENANT, run_id=b.RUN, execution_id="e1", cursor=cursors[1])
            )
            assert [entry.text for entry in page.items] == [f"{at}"]
            cursors[1] = page.cursor
            page = await store.page(LogQuery(tenant_id=b.TENANT, run_id=b.RUN, cursor=cursors[0]))
            assert [entry.text for entry in page.items] == [f"{at}", "x"]
            cursors[0] = page.cursor


async def _log(store: Store, limit: int, execution_id: str = "") -> list[str]:
    found: list[str] = []
    cursor = ""
    while True:
        page = await store.page(
            LogQuery(
                tenant_id=b.TENANT,
                run_id=b.RUN,
                execution_id=execution_id,
                cursor=cursor,
                limit=limit,
            )
        )
        assert len(page.items) <= limit
        if not page.items:
            return found
        found += [entry.text for entry in page.items]
        cursor = page.cursor


class TestDelete(Cases):
    """A run is removed with all its data."""

    @promises("delete_run", "Remove a run with all that belongs to it, if it is at `version`")
    async def test_a_deleted_run_is_gone_with_all_that_belonged_to_it(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        await ask.must(store, *_full_run())
        assert await store.delete_run(b.TENANT, b.RUN, version=2)
        await open_store.advance(60_000)
        await _assert_gone(store)
        await _assert_gone(await open_store.reopen(store))

    @promises("delete_run", "Otherwise False.")
    async def test_a_run_at_another_version_is_not_deleted(self, store: Store) -> None:
        commit = await ask.must(store, b.created())
        for version in (0, 2, -1):
            assert not await store.delete_run(b.TENANT, b.RUN, version=version)
        assert not await store.delete_run(b.TENANT, "missing", version=1)
        assert not await store.delete_run(b.TENANT, "missing", version=0)
        await ask.must(store, b.step(commit))
        assert not await store.delete_run(b.TENANT, b.RUN, version=1)
        assert await ask.version_of(store) == 2
        assert await store.delete_run(b.TENANT, b.RUN, version=2)
        assert not await store.delete_run(b.TENANT, b.RUN, version=2)

    @promises("delete_run", "A tombstone refuses commits to this id for at least an hour.")
    @promises(
        "commit", "a deleted one has a tombstone for a while that refuses every version, 1 too"
    )
    async def test_S5_a_late_commit_does_not_raise_a_deleted_run(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        first = await ask.must(store, b.created())
        second = await ask.must(store, b.step(first))
        assert await store.delete_run(b.TENANT, b.RUN, version=2)
        again = replace(first, commit_id="again")
        for _ in range(2):
            for commit in (first, again, second, b.step(second)):
                assert await ask.verdicts(store, commit) == [Verdict.CONFLICT]
            assert await store.get_run(b.TENANT, b.RUN) is None
            store = await open_store.reopen(store)
            await open_store.advance(HOUR_MS - 60_000)
        await ask.must(store, b.created("other"))

    @promises("delete_run", "A tombstone refuses commits to this id for at least an hour.")
    async def test_T2_a_tombstone_is_of_its_tenant_alone(self, store: Store) -> None:
        await ask.must(store, b.created())
        assert await store.delete_run(b.TENANT, b.RUN, version=1)
        await ask.must(store, b.created(tenant="other"))

    @promises("delete_run", "Remove a run with all that belongs to it")
    async def test_deleting_a_run_leaves_its_neighbours_whole(self, store: Store) -> None:
        await ask.must(
            store, b.created("run-2", input=Payload(data=b"2"), executions=[b.ready("x")])
        )
        await ask.must(store, *_full_run())
        await store.delete_run(b.TENANT, b.RUN, version=2)
        assert await ask.run_ids(store) == ["run-2"]
        assert await ask.ready_ids(store) == ["x"]
        (found,) = await store.read_payloads(b.TENANT, "run-2", [INPUT_KEY])
        assert ask.data_of(found) == b"2"


def _full_run() -> tuple[Commit, Commit]:
    first = b.created(
        input=Payload(data=b"in"),
        plan=b.plan("a"),
        tasks=[b.task("a")],
        executions=[b.leased(), b.ready("r")],
        leases=[b.lease()],
        timers=[b.timer(1)],
    )
    second = b.step(
        first,
        executions=[b.ended("done")],
        outcomes=[b.outcome(b"bytes", "done")],
        messages=[b.message("hello")],
        questions=[b.question("q")],
        status=RunStatus.FAILED,
    )
    return first, second


async def _assert_gone(store: Store) -> None:
    assert await store.get_run(b.TENANT, b.RUN) is None
    assert await store.load(b.TENANT, b.RUN) is None
    assert await store.read_plan(b.TENANT, b.RUN, 1) is None
    assert await store.read_events(b.TENANT, b.RUN, after=0, limit=10) is None
    assert list(await store.read_payloads(b.TENANT, b.RUN, [INPUT_KEY, "done"])) == []
    assert list(await store.read_payloads(b.TENANT, b.RUN, ["done"], texts=True)) == []
    assert (await store.page(TaskQuery(tenant_id=b.TENANT, run_id=b.RUN))).items == ()
    assert (await store.page(ExecutionQuery(tenant_id=b.TENANT, run_id=b.RUN))).items == ()
    assert (await store.page(MessageQuery(tenant_id=b.TENANT, run_id=b.RUN))).items == ()
    assert (
        not keeps("logs")
        or (await store.page(LogQuery(tenant_id=b.TENANT, run_id=b.RUN))).items == ()
    )
    assert await ask.run_ids(store) == []
    assert await store.page(QuestionQuery(tenant_id=b.TENANT)) == Page()
    assert await store.page(QuestionQuery(tenant_id=b.TENANT, run_id=b.RUN)) == Page()
    assert list(await store.read_questions(b.TENANT, b.RUN, ["q"])) == []
    ended = EndedQuery(statuses=(RunStatus.FAILED,))
    assert not keeps("retention") or list((await store.page(ended)).items) == []
    answer = await ask.claimed(store, b.want())
    assert (answer.ready, answer.due) == (((),), ())
    assert list(await store.renew([b.renewal()])) == [False]
