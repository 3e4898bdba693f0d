"""Commits: applied wholly or not at all, one after another, each answered for certain."""
# ruff: noqa: N802 - invariants keep their names

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from msgspec.structs import replace

from stepwell.core.model import Payload
from stepwell.core.ports import INPUT_KEY, Commit, FeedEntry, Store
from stepwell.core.states import ExecutionStatus, InputStatus, RunStatus, TaskStatus, Verdict
from stepwell.runtime import SystemRuntime
from stepwell.testing.conformance import builders as b
from stepwell.testing.conformance.catalog import promises
from stepwell.testing.conformance.harness import Cases, StoreFactory

COMMITTED, CONFLICT, LEASE_LOST = Verdict.COMMITTED, Verdict.CONFLICT, Verdict.LEASE_LOST


def _everything(before: Commit) -> Commit:
    """Return a commit with a row of every kind."""
    return b.step(
        before,
        commit_id="full",
        status=RunStatus.RUNNING,
        reason="full",
        plan=b.plan("a", "b"),
        tasks=[b.task("a"), b.task("b")],
        executions=[b.ready("task:b#1", task_id="b"), b.leased()],
        leases=[b.lease()],
        outcomes=[b.outcome(b"full", "task:z#1")],
        timers=[b.timer(0, "full")],
        inputs=[b.question("full")],
        messages=[b.message("full")],
        request=b.request("full", 2),
        events=3,
    )


async def _traces(store: Store) -> list[str]:
    """Return which kinds of rows of `_everything` can be read."""
    found: list[str] = []

    def note(kind: str, there: object) -> None:
        if there:
            found.append(kind)

    rows = await b.loaded(store)
    note("run", rows.run.reason == "full" or rows.run.status is RunStatus.RUNNING)
    note("plan", rows.plans or await store.read_plan(b.TENANT, b.RUN, 1))
    note("tasks", rows.tasks or (await store.list_tasks(b.TENANT, b.RUN)).tasks)
    note(
        "executions",
        rows.executions or (await store.list_executions(b.TENANT, b.RUN)).executions,
    )
    note("inputs", rows.inputs)
    note("request", rows.requests)
    note("outcome", await store.read_outcomes(b.TENANT, b.RUN, ["task:z#1"]))
    note("payload", await store.read_payloads(b.TENANT, b.RUN, ["task:z#1"]))
    page = await store.read_events(b.TENANT, b.RUN, after=1, limit=100)
    note("events", page is None or page.events)
    note("messages", (await store.read_messages(b.TENANT, b.RUN)).messages)
    feed = await store.feed()
    note("feed", FeedEntry(tenant_id=b.TENANT, run_id=b.RUN, version=2) in feed.entries)
    claimed = await b.claimed(store, b.want(), hold_ms=0)
    note("ready", claimed.ready[0])
    note("due", claimed.due)
    note("lease", any(await store.renew([b.renewal()])))
    return found


_KINDS = (
    *("run", "plan", "tasks", "executions", "inputs", "request", "outcome", "payload", "events"),
    *("messages", "feed", "ready", "due", "lease"),
)


class TestCommits(Cases):
    """What `commit` says and does."""

    @promises("commit", "Apply each commit wholly or not at all")
    async def test_S1_a_commit_brings_rows_of_every_kind_together(self, store: Store) -> None:
        first = await b.must(store, b.born())
        await b.must(store, _everything(first))
        assert await _traces(store) == list(_KINDS)

    @promises("commit", "A commit that was refused left nothing behind and never will.")
    async def test_S1_S5_a_conflicting_commit_leaves_nothing_behind(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        first = await b.must(store, b.born())
        refused = replace(_everything(first), version=3)
        assert await b.verdicts(store, refused) == [CONFLICT]
        assert await _traces(store) == []
        store = await open_store.reopen(store)
        assert await _traces(store) == []

    @promises("commit", "A commit that was refused left nothing behind and never will.")
    async def test_S1_S5_a_fenced_out_commit_leaves_nothing_behind(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        first = await b.must(store, b.born())
        refused = replace(_everything(first), fences=(b.fence(token="none"),))
        assert await b.verdicts(store, refused) == [LEASE_LOST]
        assert await _traces(store) == []
        store = await open_store.reopen(store)
        assert await _traces(store) == []

    @promises("commit", "A commit that was refused left nothing behind and never will.")
    async def test_S5_a_refused_commit_may_be_sent_for_another_version(self, store: Store) -> None:
        first = await b.must(store, b.born())
        ahead = b.step(first, version=3, commit_id="mine")
        assert await b.verdicts(store, ahead) == [CONFLICT]
        await b.must(store, b.step(first, commit_id="other"))
        await b.must(store, replace(ahead, commit_id="mine"))

    @promises("commit", "COMMITTED: it is in every later read, by any caller")
    async def test_S2_S3_an_acknowledged_commit_is_in_every_later_read(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        door = await open_store.join(store)
        commit = await b.must(store, b.born())
        for version in range(2, 12):
            commit = await b.must(store, b.step(commit))
            assert await b.version_of(door) == version
            assert (await b.loaded(door)).run.version == version

    @promises("commit", "CONFLICT: the run's stored version is not `version - 1`")
    @promises("Commit.version", "The one it makes: the stored one plus 1; 1 for a run that is born.")
    async def test_S2_versions_follow_one_another_without_gap(self, store: Store) -> None:
        first = b.born()
        assert await b.verdicts(store, b.step(first)) == [CONFLICT]
        await b.must(store, first)
        assert await b.verdicts(store, replace(first, commit_id="again")) == [CONFLICT]
        assert await b.verdicts(store, b.step(first, version=3)) == [CONFLICT]
        await b.must(store, b.step(first))
        assert await b.version_of(store) == 2

    @promises("commit", "(a run that isn't there has version 0")
    async def test_S2_a_run_that_is_not_there_takes_only_version_1(self, store: Store) -> None:
        for version in (0, 2, 3):
            commit = replace(b.born(), version=version)
            assert await b.verdicts(store, commit) == [CONFLICT]
        assert await store.get_run(b.TENANT, b.RUN) is None

    @promises("commit", "CONFLICT: the run's stored version is not `version - 1`")
    async def test_S2_of_two_commits_on_one_version_one_wins(self, store: Store) -> None:
        first = await b.must(store, b.born())
        one = b.step(first, commit_id="one", reason="one")
        two = b.step(first, commit_id="two", reason="two")
        assert await b.verdicts(store, one, two) == [COMMITTED, CONFLICT]
        assert (await b.loaded(store)).run.reason == "one"

    @promises("commit", "CONFLICT: the run's stored version is not `version - 1`")
    async def test_S2_of_many_racing_commits_exactly_one_wins(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        doors = [store, await open_store.join(store)]
        commit = await b.must(store, b.born())
        for round_ in range(5):
            rivals = [
                b.step(commit, commit_id=f"{round_}/{at}", reason=str(at)) for at in range(10)
            ]
            answers = await asyncio.gather(
                *(b.verdicts(doors[at % 2], rival) for at, rival in enumerate(rivals))
            )
            won = [at for at, answer in enumerate(answers) if answer == [COMMITTED]]
            assert len(won) == 1
            assert (await b.loaded(store)).run.reason == str(won[0])
            commit = rivals[won[0]]

    @promises("commit", "One result per commit, in order.")
    async def test_a_group_answers_one_verdict_a_commit_in_order(self, store: Store) -> None:
        await b.must(store, b.born("there"))
        group = [
            b.born("new-1"),
            b.step(b.born("missing")),
            b.step(b.born("there")),
            replace(b.born("there"), commit_id="rival"),
            b.born("new-2"),
        ]
        expected = [COMMITTED, CONFLICT, COMMITTED, CONFLICT, COMMITTED]
        assert await b.verdicts(store, *group) == expected

    @promises("commit", "One result per commit, in order.")
    async def test_an_empty_group_answers_nothing(self, store: Store) -> None:
        assert await b.verdicts(store) == []

    @promises("commit", "Apply each commit wholly or not at all")
    async def test_a_refused_commit_keeps_none_of_its_group_back(self, store: Store) -> None:
        fenced = replace(b.born("fenced"), fences=(b.fence(),))
        answers = await b.verdicts(store, b.born("before"), fenced, b.born("after"))
        assert answers == [COMMITTED, LEASE_LOST, COMMITTED]
        assert await store.get_run(b.TENANT, "fenced") is None
        assert await b.version_of(store, "before") == await b.version_of(store, "after") == 1

    @promises("commit", "Several commits of one run in one call are taken in the order given.")
    async def test_S2_a_chain_in_one_call_is_applied_in_its_order(self, store: Store) -> None:
        chain = [b.born()]
        for _ in range(9):
            chain.append(b.step(chain[-1], reason=str(len(chain))))
        await b.must(store, *chain)
        assert (await b.loaded(store)).run.reason == "9"

    @promises("commit", "Several commits of one run in one call are taken in the order given.")
    async def test_S2_a_chain_in_the_wrong_order_is_refused_where_it_breaks(
        self, store: Store
    ) -> None:
        first = b.born()
        second = b.step(first)
        third = b.step(second)
        assert await b.verdicts(store, first, third, second) == [COMMITTED, CONFLICT, COMMITTED]
        assert await b.version_of(store) == 2

    @promises("commit", "Several commits of one run in one call are taken in the order given.")
    async def test_S8_a_chain_in_one_call_sees_the_leases_of_its_own_start(
        self, store: Store
    ) -> None:
        first = b.born_leased()
        second = b.step(first, executions=[b.ended()], fences=[b.fence()])
        third = b.step(second, fences=[b.fence()])
        assert await b.verdicts(store, first, second, third) == [COMMITTED, COMMITTED, LEASE_LOST]

    @promises("CommitResult.now_us", "The store's time when it said so.")
    @promises("Time", "A store has one clock.")
    async def test_every_verdict_carries_the_stores_time(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        first = b.born()
        before = (await store.commit([first]))[0].now_us
        assert before > 0
        await open_store.advance(1_500)
        refused, applied = await store.commit([replace(first, commit_id="x"), b.step(first)])
        assert refused.now_us >= before + 1_500_000
        assert applied.now_us >= before + 1_500_000
        assert (await b.loaded(store)).now_us >= applied.now_us

    @promises("commit", "Apply each commit wholly or not at all")
    async def test_a_large_group_is_applied_whole(self, store: Store) -> None:
        group = [b.born(f"run-{at}", executions=[b.ready()]) for at in range(256)]
        assert await b.verdicts(store, *group) == [COMMITTED] * 256
        assert len(await b.ready_steps(store, b.want(limit=1_000))) == 256


class TestSentAgain(Cases):
    """An outcome that was not heard is asked for by sending the same commit again."""

    @promises("commit", "A commit whose `(run, version, commit_id)` was applied before")
    @promises("commit", "OutcomeUnknown: each of them may or may not have been")
    @promises("Errors", "`commit` may also raise `OutcomeUnknown`.")
    async def test_S4_a_commit_sent_again_answers_committed(self, store: Store) -> None:
        first = await b.must(store, b.born())
        assert await b.verdicts(store, first) == [COMMITTED]
        assert await b.version_of(store) == 1

    @promises("commit", "it answers COMMITTED, at any later version, as long as the run is there.")
    @promises("Commit.commit_id", "Unique; kept as long as the run.")
    async def test_S4_a_commit_sent_again_at_any_later_version_answers_committed(
        self, store: Store
    ) -> None:
        chain = [await b.must(store, b.born())]
        for _ in range(20):
            chain.append(await b.must(store, b.step(chain[-1])))
        for commit in chain:
            assert await b.verdicts(store, commit) == [COMMITTED]
        assert await b.version_of(store) == 21

    @promises("commit", "was applied before is not applied again")
    async def test_S4_a_commit_sent_again_changes_nothing(self, store: Store) -> None:
        first = await b.must(store, b.born())
        second = b.step(
            first,
            reason="old",
            messages=[b.message("once")],
            executions=[b.ready()],
            outcomes=[b.outcome()],
            events=2,
        )
        await b.must(store, second)
        third = await b.must(store, b.step(second, reason="new", executions=[b.ended()]))
        await b.must(store, second)
        rows = await b.loaded(store)
        assert (rows.run.version, rows.run.reason) == (third.version, "new")
        assert rows.executions == ()
        assert len((await store.read_messages(b.TENANT, b.RUN)).messages) == 1
        assert len((await store.feed()).entries) == 3
        page = await store.read_events(b.TENANT, b.RUN, after=0, limit=100)
        assert page is not None
        assert [event.number for event in page.events] == [1, 2, 3, 4]
        assert await b.ready_ids(store) == []

    @promises("commit", "A commit whose `(run, version, commit_id)` was applied before")
    async def test_S4_a_commit_twice_in_one_call_is_applied_once(self, store: Store) -> None:
        first = b.born()
        second = b.step(first, messages=[b.message("once")])
        await b.must(store, first, first, second, first, second)
        assert len((await store.read_messages(b.TENANT, b.RUN)).messages) == 1

    @promises("commit", "OutcomeUnknown: each of them may or may not have been")
    @promises("commit", "A commit whose `(run, version, commit_id)` was applied before")
    async def test_S4_a_commit_is_recognised_after_a_restart(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        first = await b.must(store, b.born())
        second = await b.must(store, b.step(first))
        store = await open_store.reopen(store)
        assert await b.verdicts(store, first, second) == [COMMITTED, COMMITTED]
        assert await b.verdicts(store, replace(second, commit_id="other")) == [CONFLICT]

    @promises("commit", "A commit whose `(run, version, commit_id)` was applied before")
    async def test_S4_a_fenced_commit_sent_again_still_answers_committed(
        self, store: Store
    ) -> None:
        first = await b.must(store, b.born_leased())
        done = b.step(first, executions=[b.ended()], fences=[b.fence()])
        await b.must(store, done)
        assert await b.verdicts(store, done) == [COMMITTED]

    @promises("commit", "A commit whose `(run, version, commit_id)` was applied before")
    async def test_S4_the_same_commit_id_of_another_run_or_version_means_nothing(
        self, store: Store
    ) -> None:
        first = await b.must(store, b.born(commit_id="same"))
        await b.must(store, b.born("run-2", commit_id="same"))
        await b.must(store, b.step(first, commit_id="same"))
        assert await b.version_of(store) == 2

    @promises("commit", "The version is looked at before the fences.")
    async def test_a_commit_that_is_late_and_fenced_out_is_told_of_the_version(
        self, store: Store
    ) -> None:
        first = await b.must(store, b.born_leased())
        await b.must(store, b.step(first))
        late = b.step(first, commit_id="late", fences=[b.fence(token="wrong")])
        assert await b.verdicts(store, late) == [CONFLICT]

    @promises("commit", "StoreUnavailable: nothing of it was applied.")
    @promises("Errors", "Every method may raise `StoreUnavailable` (nothing was done).")
    async def test_S4_a_commit_abandoned_by_its_caller_is_applied_once_or_not_at_all(
        self, store: Store
    ) -> None:
        commit = await b.must(store, b.born())
        for at in range(10):
            following = b.step(commit, commit_id=f"c{at}", messages=[b.message(str(at))])
            asked = SystemRuntime().spawn(store.commit([following]), name="abandoned")
            await SystemRuntime().sleep(0 if at % 2 else 0.001)
            asked.cancel()
            await asyncio.gather(asked, return_exceptions=True)
            commit = await b.must(store, following)
        messages = (await store.read_messages(b.TENANT, b.RUN)).messages
        assert [message.content for message in messages] == [str(at) for at in range(10)]


class TestAtomic(Cases):
    """No reader ever sees a part of a commit."""

    @promises("load", "Return the rows that the loop needs, all of one version.")
    @promises("commit", "Apply each commit wholly or not at all")
    async def test_S1_a_reader_beside_a_writer_sees_rows_of_one_version(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        door = await open_store.join(store)
        await b.must(store, _marked(b.born(), "1"))
        stop = asyncio.Event()
        writer = SystemRuntime().spawn(_write_marks(store, stop), name="writer")
        for _ in range(60):
            rows = await b.loaded(door)
            marks = {task.result_id for task in rows.tasks}
            marks |= {open_.execution.worker_id for open_ in rows.executions}
            marks |= {question.prompt for question in rows.inputs}
            assert marks == {str(rows.run.version)}
            await SystemRuntime().sleep(0)
        stop.set()
        await writer

    @promises("commit", "COMMITTED: it is in every later read, by any caller")
    async def test_E4_a_visible_event_or_feed_entry_implies_the_version(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        door = await open_store.join(store)
        await b.must(store, _marked(b.born(), "1"))
        stop = asyncio.Event()
        writer = SystemRuntime().spawn(_write_marks(store, stop), name="writer")
        for _ in range(40):
            page = await door.read_events(b.TENANT, b.RUN, after=0, limit=100_000)
            assert page is not None
            seen = max(event.version for event in page.events)
            assert await b.version_of(store) >= seen
            fed = max(entry.version for entry in (await door.feed(limit=100_000)).entries)
            assert await b.version_of(store) >= fed
            await SystemRuntime().sleep(0)
        stop.set()
        await writer


def _marked(commit: Commit, mark: str) -> Commit:
    return replace(
        commit,
        tasks=tuple(replace(b.task(name), result_id=mark) for name in ("a", "b", "c")),
        executions=(replace(b.ready(), worker_id=mark),),
        inputs=(replace(b.question("q"), prompt=mark),),
    )


async def _write_marks(store: Store, stop: asyncio.Event) -> None:
    commit = b.born()
    while not stop.is_set():
        commit = b.step(commit)
        await b.must(store, _marked(commit, str(commit.version)))
        await SystemRuntime().sleep(0)


class TestRows(Cases):
    """Rows are whole, and the last one of a key is the one that is read."""

    @promises("Commit", "Rows are whole and replace those of the same key")
    async def test_a_row_replaces_the_one_of_its_key(self, store: Store) -> None:
        first = await b.must(
            store,
            b.born(plan=b.plan("a"), tasks=[b.task("a")], executions=[b.ready(priority=3)]),
        )
        second = b.step(
            first,
            tasks=[replace(b.task("a", TaskStatus.FAILED), failure=b.failure("no"))],
            executions=[b.leased()],
            leases=[b.lease()],
            inputs=[b.question("q")],
        )
        await b.must(store, second)
        await b.must(store, b.step(second, inputs=[b.question("q", InputStatus.ANSWERED)]))
        rows = await b.loaded(store)
        assert rows.tasks == second.tasks
        assert [row.execution for row in rows.executions] == list(second.executions)
        assert rows.inputs == ()

    @promises("Commit", "the tasks that a new plan brings stand among `tasks` too")
    async def test_a_plan_alone_makes_no_task_rows(self, store: Store) -> None:
        await b.must(store, b.born(plan=b.plan("a", "b"), tasks=[b.task("a")]))
        assert [task.task_id for task in (await b.loaded(store)).tasks] == ["a"]

    @promises("Commit", "An execution that isn't LEASED or UNKNOWN_OUTCOME has no lease any more")
    async def test_S10_an_execution_that_ends_has_no_lease_any_more(self, store: Store) -> None:
        statuses: Sequence[ExecutionStatus] = [
            status
            for status in ExecutionStatus
            if status not in {ExecutionStatus.LEASED, ExecutionStatus.UNKNOWN_OUTCOME}
        ]
        for status in statuses:
            run_id = f"run-{status}"
            first = await b.must(store, b.born_leased(run_id))
            after = await b.must(store, b.step(first, executions=[b.ended(status=status)]))
            assert list(await store.renew([b.renewal(run_id)])) == [False], status
            fenced = b.step(after, fences=[b.fence()])
            assert await b.verdicts(store, fenced) == [LEASE_LOST], status

    @promises("Commit", "an UNKNOWN_OUTCOME one keeps its lease, which expires no more.")
    async def test_an_unknown_outcome_keeps_its_lease_and_expires_no_more(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        first = await b.must(store, b.born_leased(lease_ms=1_000))
        unknown = b.ended(status=ExecutionStatus.UNKNOWN_OUTCOME)
        second = await b.must(store, b.step(first, executions=[unknown]))
        await open_store.advance(60_000)
        assert await b.due_now(store) == []
        rows = await b.loaded(store)
        assert [(row.execution, row.token) for row in rows.executions] == [(unknown, "t1")]
        await b.must(store, b.step(second, executions=[b.ended()], fences=[b.fence()]))

    @promises("Commit.input", "The run's input; with version 1 only.")
    async def test_the_input_that_came_with_the_birth_stays(self, store: Store) -> None:
        first = await b.must(store, b.born(input=Payload(data=b"in")))
        await b.must(store, b.step(first))
        found = await store.read_payloads(b.TENANT, b.RUN, [INPUT_KEY])
        assert [stored.payload for stored in found] == [Payload(data=b"in")]
