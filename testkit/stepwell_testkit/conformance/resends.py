"""A repeated commit is applied once; concurrent readers see a commit completely."""
# ruff: noqa: N802, S106 - invariants keep their names, and these tokens open nothing

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from stepwell.core.port import Commit, FeedQuery, MessageQuery, Store
from stepwell.core.records.states import Verdict
from stepwell.runtime import SystemRuntime
from stepwell_testkit.conformance import ask
from stepwell_testkit.conformance import builders as b
from stepwell_testkit.conformance.catalog import promises
from stepwell_testkit.conformance.harness import Cases, StoreFactory, keeps

COMMITTED, CONFLICT, LEASE_LOST = Verdict.COMMITTED, Verdict.CONFLICT, Verdict.LEASE_LOST


class TestSentAgain(Cases):
    """An unknown outcome is resolved by sending the same commit again."""

    @promises("commit", "A commit whose `(run, version, commit_id)` was applied before")
    @promises("commit", "OutcomeUnknown: each of them may or may not have been")
    @promises("Errors", "`commit` and `write_journal` may also raise `OutcomeUnknown`.")
    async def test_S4_a_commit_sent_again_answers_committed(self, store: Store) -> None:
        first = await ask.must(store, b.created())
        assert await ask.verdicts(store, first) == [COMMITTED]
        assert await ask.version_of(store) == 1

    @promises("commit", "it answers COMMITTED, at any later version, as long as the run is there.")
    @promises("Commit.commit_id", "Unique; kept as long as the run.")
    async def test_S4_a_commit_sent_again_at_any_later_version_answers_committed(
        self, store: Store
    ) -> None:
        chain = [await ask.must(store, b.created())]
        for _ in range(20):
            chain.append(await ask.must(store, b.step(chain[-1])))
        for commit in chain:
            assert await ask.verdicts(store, commit) == [COMMITTED]
        assert await ask.version_of(store) == 21

    @promises("commit", "was applied before is not applied again")
    async def test_S4_a_commit_sent_again_changes_nothing(self, store: Store) -> None:
        first = await ask.must(store, b.created())
        second = b.step(
            first,
            reason="old",
            messages=[b.message("once")],
            executions=[b.ready()],
            outcomes=[b.outcome()],
            events=2,
        )
        await ask.must(store, second)
        third = await ask.must(store, b.step(second, reason="new", executions=[b.ended()]))
        await ask.must(store, second)
        rows = await ask.loaded(store)
        assert (rows.run.version, rows.run.reason) == (third.version, "new")
        assert rows.executions == ()
        assert len((await store.page(MessageQuery(tenant_id=b.TENANT, run_id=b.RUN))).items) == 1
        assert not keeps("feed") or len((await store.page(FeedQuery())).items) == 3
        page = await store.read_events(b.TENANT, b.RUN, after=0, limit=100)
        assert page is not None
        assert [event.number for event in page.events] == [1, 2, 3, 4]
        assert await ask.ready_ids(store) == []

    @promises("commit", "The version is checked before the fences")
    async def test_late_and_fenced_commit_answers_conflict(self, store: Store) -> None:
        first = await ask.must(store, b.created_leased())
        await ask.must(store, b.step(first))
        late = b.step(first, commit_id="late", fences=[b.fence(token="wrong")])
        assert await ask.verdicts(store, late) == [CONFLICT]

    @promises("commit", "StoreUnavailable: nothing of it was applied.")
    @promises("Errors", "Every method may raise `StoreUnavailable` (nothing was done).")
    async def test_S4_a_commit_abandoned_by_its_caller_is_applied_once_or_not_at_all(
        self, store: Store
    ) -> None:
        commit = await ask.must(store, b.created())
        for at in range(10):
            following = b.step(commit, commit_id=f"c{at}", messages=[b.message(str(at))])
            asked = SystemRuntime().spawn(store.commit([following]), name="abandoned")
            await SystemRuntime().sleep(0 if at % 2 else 0.001)
            asked.cancel()
            await asyncio.gather(asked, return_exceptions=True)
            commit = await ask.must(store, following)
        messages = (await store.page(MessageQuery(tenant_id=b.TENANT, run_id=b.RUN))).items
        assert [message.content for message in messages] == [str(at) for at in range(10)]


class TestAtomic(Cases):
    """No reader ever sees a part of a commit."""

    @promises("load", "Return the rows that the loop needs, all of one version.")
    @promises("commit", "Apply each commit wholly or not at all")
    async def test_S1_reader_during_writes_sees_rows_of_one_version(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        door = await open_store.join(store)
        await ask.must(store, _marked(b.created(), "1"))
        stop = asyncio.Event()
        writer = SystemRuntime().spawn(_write_marks(store, stop), name="writer")
        for _ in range(60):
            rows = await ask.loaded(door)
            marks = {task.result_id for task in rows.tasks}
            marks |= {open_.execution.worker_id for open_ in rows.executions}
            marks |= {question.prompt for question in rows.questions}
            assert marks == {str(rows.run.version)}
            await SystemRuntime().sleep(0)
        stop.set()
        await writer

    @promises("commit", "COMMITTED: it is in every later read, by any caller")
    async def test_E4_a_visible_event_or_feed_entry_implies_the_version(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        door = await open_store.join(store)
        await ask.must(store, _marked(b.created(), "1"))
        stop = asyncio.Event()
        writer = SystemRuntime().spawn(_write_marks(store, stop), name="writer")
        for _ in range(40):
            page = await door.read_events(b.TENANT, b.RUN, after=0, limit=100_000)
            assert page is not None
            seen = max(event.version for event in page.events)
            assert await ask.version_of(store) >= seen
            if keeps("feed"):
                fed = max(
                    entry.version for entry in (await door.page(FeedQuery(limit=100_000))).items
                )
                assert await ask.version_of(store) >= fed
            await SystemRuntime().sleep(0)
        stop.set()
        await writer


def _marked(commit: Commit, mark: str) -> Commit:
    return replace(
        commit,
        tasks=tuple(replace(b.task(name), result_id=mark) for name in ("a", "b", "c")),
        executions=(replace(b.ready(), worker_id=mark),),
        questions=(replace(b.question("q"), prompt=mark),),
    )


async def _write_marks(store: Store, stop: asyncio.Event) -> None:
    commit = b.created()
    while not stop.is_set():
        commit = b.step(commit)
        await ask.must(store, _marked(commit, str(commit.version)))
        await SystemRuntime().sleep(0)
