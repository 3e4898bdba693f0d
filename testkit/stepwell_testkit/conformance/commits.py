"""Commits: applied completely or not at all, one after another, each with a certain answer."""
# ruff: noqa: N802 - invariants keep their names, and these tokens open nothing

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from stepwell.core.port import (
    INPUT_KEY,
    Commit,
    ExecutionQuery,
    FeedEntry,
    FeedQuery,
    MessageQuery,
    Store,
    TaskQuery,
)
from stepwell.core.records.family import ChildOf
from stepwell.core.records.model import Payload, Run, RunSpec
from stepwell.core.records.states import (
    ExecutionStatus,
    RunStatus,
    Verdict,
)
from stepwell_testkit.conformance import ask
from stepwell_testkit.conformance import builders as b
from stepwell_testkit.conformance.catalog import promises
from stepwell_testkit.conformance.harness import Cases, StoreFactory, keeps

COMMITTED, CONFLICT, LEASE_LOST = Verdict.COMMITTED, Verdict.CONFLICT, Verdict.LEASE_LOST


def _everything(before: Commit) -> Commit:
    """Return a commit with a row of every kind."""
    full = b.step(
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
        questions=[b.question("full")],
        messages=[b.message("full")],
        request=b.request("full", 2),
        events=3,
    )
    return b.named(full, b"full")


def _fed(run: Run) -> tuple[FeedEntry, ...]:
    """Return a run's feed entries, for drivers without a feed."""
    return tuple(
        FeedEntry(tenant_id=b.TENANT, run_id=b.RUN, version=version)
        for version in range(1, run.version + 1)
    )


async def _traces(store: Store) -> list[str]:
    """Return the kinds of rows of `_everything` that can be read."""
    found: list[str] = []

    def note(kind: str, there: object) -> None:
        if there:
            found.append(kind)

    rows = await ask.loaded(store)
    note("run", rows.run.reason == "full" or rows.run.status is RunStatus.RUNNING)
    note("plan", rows.plans or await store.read_plan(b.TENANT, b.RUN, 1))
    note(
        "tasks", rows.tasks or (await store.page(TaskQuery(tenant_id=b.TENANT, run_id=b.RUN))).items
    )
    note(
        "executions",
        rows.executions
        or (await store.page(ExecutionQuery(tenant_id=b.TENANT, run_id=b.RUN))).items,
    )
    note("questions", rows.questions)
    note("request", rows.requests)
    note("checkpoint", rows.checkpoint)
    note("base", await store.read_base(b.TENANT, b.RUN, version=2))
    note("outcome", await store.read_payloads(b.TENANT, b.RUN, ["task:z#1"], texts=True))
    note("payload", await store.read_payloads(b.TENANT, b.RUN, ["task:z#1"]))
    page = await store.read_events(b.TENANT, b.RUN, after=1, limit=100)
    note("events", page is None or page.events)
    note("messages", (await store.page(MessageQuery(tenant_id=b.TENANT, run_id=b.RUN))).items)
    fed = (await store.page(FeedQuery())).items if keeps("feed") else _fed(rows.run)
    note("feed", FeedEntry(tenant_id=b.TENANT, run_id=b.RUN, version=2) in fed)
    claimed = await ask.claimed(store, b.want(), hold_ms=0)
    note("ready", claimed.ready[0])
    note("due", claimed.due)
    note("lease", any(await store.renew([b.renewal()])))
    return found


_KINDS = (
    *("run", "plan", "tasks", "executions", "questions", "request", "checkpoint", "base"),
    *("outcome", "payload", "events", "messages", "feed", "ready", "due", "lease"),
)


class TestCommits(Cases):
    """Verdicts and effects of `commit`."""

    @promises("commit", "or it was made by another commit than the one that this one `follows`")
    @promises("Commit.follows", "empty: it isn't known.")
    @promises(
        "Commit.follows",
        "A store that lost what it had acknowledged may have another one there by now.",
    )
    async def test_S2_a_commit_that_follows_another_than_the_stored_one_conflicts(
        self, store: Store
    ) -> None:
        first = await ask.must(store, b.created(commit_id="made"))
        strange = replace(b.step(first, commit_id="x"), follows="lost")
        assert await ask.verdicts(store, strange) == [CONFLICT]
        second = replace(b.step(first, commit_id="second"), follows="made")
        third = replace(b.step(second, commit_id="third"), follows="second")
        # Also within one call; and a repeated commit stays COMMITTED.
        assert await ask.verdicts(store, second, third, second) == [COMMITTED] * 3
        twin = replace(b.step(third, commit_id="y"), follows="secon")
        assert await ask.verdicts(store, twin) == [CONFLICT]
        assert await ask.verdicts(store, b.step(third)) == [COMMITTED]

    @promises("commit", "Apply each commit wholly or not at all")
    async def test_S1_a_commit_brings_rows_of_every_kind_together(self, store: Store) -> None:
        first = await ask.must(store, b.created())
        await ask.must(store, _everything(first))
        assert await _traces(store) == list(_KINDS)

    @promises("commit", "A commit that was refused left nothing behind and never will.")
    async def test_S1_S5_a_conflicting_commit_leaves_nothing_behind(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        first = await ask.must(store, b.created())
        refused = replace(_everything(first), version=3)
        assert await ask.verdicts(store, refused) == [CONFLICT]
        assert await _traces(store) == []
        store = await open_store.reopen(store)
        assert await _traces(store) == []

    @promises("commit", "A commit that was refused left nothing behind and never will.")
    async def test_S5_refused_commit_never_appears_later(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        first = await ask.must(store, b.created())
        second = b.step(first)
        ahead = b.step(second, reason="refused")
        assert await ask.verdicts(store, ahead) == [CONFLICT]
        await ask.must(store, second)
        await ask.must(store, b.created("another"))
        await open_store.advance(60_000)
        assert await ask.version_of(store) == 2
        store = await open_store.reopen(store)
        assert await ask.version_of(store) == 2

    @promises("commit", "CONFLICT: the run's stored version is not `version - 1`")
    @promises("Commit.version", "The one it makes: the stored one plus 1; 1 for a new run.")
    async def test_S2_versions_follow_one_another_without_gap(self, store: Store) -> None:
        first = b.created()
        assert await ask.verdicts(store, b.step(first)) == [CONFLICT]
        await ask.must(store, first)
        assert await ask.verdicts(store, replace(first, commit_id="again")) == [CONFLICT]
        assert await ask.verdicts(store, b.step(first, version=3)) == [CONFLICT]
        await ask.must(store, b.step(first))
        assert await ask.version_of(store) == 2

    @promises("commit", "CONFLICT: the run's stored version is not `version - 1`")
    async def test_S2_of_many_racing_commits_exactly_one_wins(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        doors = [store, await open_store.join(store)]
        commit = await ask.must(store, b.created())
        for round_ in range(5):
            rivals = [
                b.step(commit, commit_id=f"{round_}/{at}", reason=str(at)) for at in range(10)
            ]
            answers = await asyncio.gather(
                *(ask.verdicts(doors[at % 2], rival) for at, rival in enumerate(rivals))
            )
            won = [at for at, answer in enumerate(answers) if answer == [COMMITTED]]
            assert len(won) == 1
            assert (await ask.loaded(store)).run.reason == str(won[0])
            commit = rivals[won[0]]

    @promises("commit", "One result per commit, in order.")
    async def test_an_empty_group_answers_nothing(self, store: Store) -> None:
        assert await ask.verdicts(store) == []

    @promises("commit", "Several commits of one run in one call are applied in the order given.")
    async def test_S2_a_chain_in_one_call_is_applied_in_its_order(self, store: Store) -> None:
        chain = [b.created()]
        for _ in range(9):
            chain.append(b.step(chain[-1], reason=str(len(chain))))
        await ask.must(store, *chain)
        assert (await ask.loaded(store)).run.reason == "9"

    @promises("CommitResult.now_us", "The store's time of the verdict.")
    @promises("Time", "A store has one clock.")
    async def test_every_verdict_carries_the_stores_time(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        first = b.created()
        before = (await store.commit([first]))[0].now_us
        assert before > 0
        await open_store.advance(1_500)
        refused, applied = await store.commit([replace(first, commit_id="x"), b.step(first)])
        assert refused.now_us >= before + 1_500_000
        assert applied.now_us >= before + 1_500_000
        assert (await ask.loaded(store)).now_us >= applied.now_us

    @promises("commit", "Apply each commit wholly or not at all")
    async def test_a_large_group_is_applied_whole(self, store: Store) -> None:
        group = [b.created(f"run-{at}", executions=[b.ready()]) for at in range(256)]
        assert await ask.verdicts(store, *group) == [COMMITTED] * 256
        assert len(await ask.ready_steps(store, b.want(limit=1_000))) == 256


class TestRows(Cases):
    """Rows are complete, and the last row of a key is read."""

    @promises("Commit", "an UNKNOWN_OUTCOME one keeps its lease, which expires no more.")
    async def test_an_unknown_outcome_keeps_its_lease_and_expires_no_more(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        first = await ask.must(store, b.created_leased(lease_ms=1_000))
        unknown = b.ended(status=ExecutionStatus.UNKNOWN_OUTCOME)
        second = await ask.must(store, b.step(first, executions=[unknown]))
        await open_store.advance(60_000)
        assert await ask.due_now(store) == []
        rows = await ask.loaded(store)
        assert [(row.execution, row.token) for row in rows.executions] == [(unknown, "t1")]
        await ask.must(store, b.step(second, executions=[b.ended()], fences=[b.fence()]))

    @promises("Commit.input", "The run's input; with version 1 only.")
    async def test_the_input_that_came_with_the_birth_stays(self, store: Store) -> None:
        first = await ask.must(store, b.created(input=Payload(data=b"in")))
        await ask.must(store, b.step(first))
        found = await store.read_payloads(b.TENANT, b.RUN, [INPUT_KEY])
        assert [stored.payload for stored in found] == [Payload(data=b"in")]

    @promises("Commit.changes_spec", "The run's `spec` replaces the stored one, of which only")
    async def test_a_changed_specification_is_read_and_the_input_stays(self, store: Store) -> None:
        child_of = ChildOf(run_id="parent", root_run_id="parent", depth=1)
        spec = RunSpec(tenant_id=b.TENANT, run_id=b.RUN, goal="go", child_of=child_of)
        first = await ask.must(store, b.created(spec=spec, input=Payload(data=b"in")))
        changed = replace(spec, labels={"a": "b"}, child_of=ChildOf())
        moving = b.step(first, run=replace(first.run, spec=changed))
        second = await ask.must(store, replace(moving, changes_spec=True))
        await ask.must(store, b.step(second))
        run = await store.get_run(b.TENANT, b.RUN)
        assert run is not None
        assert run.spec == changed
        for since in (0, 1, 2):
            assert (await ask.loaded(store, since=since)).run.spec == changed, since
        found = await store.read_payloads(b.TENANT, b.RUN, [INPUT_KEY])
        assert [stored.payload for stored in found] == [Payload(data=b"in")]

    @promises("Commit.outcomes", "Each is written once: of one execution the first that was")
    async def test_S7_of_two_outcomes_of_one_execution_the_first_stays(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        first = await ask.must(store, b.created())
        second = await ask.must(store, b.step(first, outcomes=[b.outcome(b"first")]))
        third = b.step(second, outcomes=[b.outcome(b"second")])
        await ask.must(store, third)
        # Also within one call.
        one = b.step(third, outcomes=[b.outcome(b"one", "other")])
        await ask.must(store, one, b.step(one, outcomes=[b.outcome(b"two", "other")]))
        for _ in range(2):
            assert await ask.outcomes(store, [b.STEP, "other"]) == [
                b.outcome(b"first"),
                b.outcome(b"one", "other"),
            ]
            kept = await store.read_payloads(b.TENANT, b.RUN, [b.STEP, "other"])
            assert [ask.data_of(stored) for stored in kept] == [b"first", b"one"]
            store = await open_store.reopen(store)
