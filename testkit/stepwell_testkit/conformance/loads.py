"""Loads: everything that the loop needs of a run, or only the changes."""
# ruff: noqa: N802, S106 - invariants keep their names, and these tokens open nothing

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from stepwell.core.port import Commit, Loaded, OpenExecution, Store
from stepwell.core.records.limits import REQUESTS_KEPT_MAX
from stepwell.core.records.model import Payload, Plan, Question, RequestRecord, Task
from stepwell.core.records.states import OPEN, QuestionStatus, TaskStatus
from stepwell_testkit.conformance import ask
from stepwell_testkit.conformance import builders as b
from stepwell_testkit.conformance.catalog import promises
from stepwell_testkit.conformance.harness import Cases


class TestLoad(Cases):
    """A complete load."""

    @promises("load", "None: there is no such run.")
    async def test_a_missing_run_loads_as_none(self, store: Store) -> None:
        assert await store.load(b.TENANT, b.RUN) is None
        assert await store.load(b.TENANT, b.RUN, since=3) is None

    @promises("load", "Return the rows that the loop needs, all of one version.")
    @promises("Loaded.plans", "ordered by revision.")
    async def test_a_load_brings_all_rows_that_the_loop_needs(self, store: Store) -> None:
        first = b.created(plan=b.plan("a", "b"), tasks=[b.task("a"), b.task("b")])
        second = b.step(
            first,
            plan=b.plan("c", revision=2),
            tasks=[b.task("a", TaskStatus.COMPLETED), b.task("c", revision=2)],
            executions=[b.ready(), b.ended("task:b#1", task_id="b")],
            questions=[b.question("open"), b.question("over", QuestionStatus.ANSWERED)],
            request=b.request("r", 2),
        )
        await ask.must(store, first, second)
        rows = await ask.loaded(store)
        assert rows.complete
        assert rows.run == second.run
        assert rows.plans == (first.plan, second.plan)
        assert {row.task_id: row for row in rows.tasks} == {
            "a": second.tasks[0],
            "b": first.tasks[1],
            "c": second.tasks[1],
        }
        assert rows.requests == (second.request,)
        assert rows.now_us > 0

    @promises("Loaded.requests", "The newest `REQUESTS_KEPT_MAX`, oldest first")
    async def test_a_load_brings_the_newest_requests_oldest_first(self, store: Store) -> None:
        chain = [b.created()]
        for at in range(REQUESTS_KEPT_MAX + 10):
            chain.append(b.step(chain[-1], request=b.request(f"r{at}", at + 2)))
        await ask.must(store, *chain)
        kept = [request.request_id for request in (await ask.loaded(store)).requests]
        assert kept == [f"r{at}" for at in range(10, REQUESTS_KEPT_MAX + 10)]


class TestLoadSince(Cases):
    """A load of the changes after a version."""

    @promises(
        "load",
        "only the rows that changed after that version (`complete` is False), or all of them",
    )
    @promises("Loaded.complete", "False: only what changed since the version asked for.")
    @promises("Loaded.executions", "with `since`, also those closed since")
    @promises("Loaded.questions", "with `since`, also those ended since.")
    @promises("Loaded.requests", "with `since`, those made since.")
    async def test_a_cached_copy_is_brought_up_to_date_from_any_version(self, store: Store) -> None:
        chain = _history()
        copies = [_Copy()]
        for commit in chain:
            await ask.must(store, commit)
            copy = _Copy()
            copy.take(await ask.loaded(store))
            copies.append(copy)
        truth = copies[-1]
        for version, copy in enumerate(copies[1:], start=1):
            copy.take(await ask.loaded(store, since=version))
            assert copy == truth, f"from version {version}"

    @promises("Loaded.commit_id", "The id of the commit that made the run's version.")
    @promises(
        "Loaded.since_id",
        "The id of the commit that made the version asked for, where not `complete`.",
    )
    @promises(
        "Loaded.since_id",
        "A caller that knows that version under another id has what the store has lost, and loads everything.",
    )
    async def test_S2_a_load_names_the_commits_that_made_its_versions(self, store: Store) -> None:
        first = b.created(commit_id="first, of 2: a")
        second = b.step(first, commit_id="second")
        await ask.must(store, first, second, b.step(second, commit_id="third"))
        assert (await ask.loaded(store)).commit_id == "third"
        for since, commit_id in enumerate(("first, of 2: a", "second", "third"), start=1):
            rows = await ask.loaded(store, since=since)
            assert rows.commit_id == "third"
            assert rows.since_id == ("" if rows.complete else commit_id)
        assert (await ask.loaded(store, since=9)).since_id == ""

    @promises("load", "A `since` beyond the stored version answers with all of them.")
    async def test_a_load_since_the_future_brings_all(self, store: Store) -> None:
        await ask.must(store, b.created(tasks=[b.task("a")], executions=[b.ready()]))
        assert await _complete(store, since=2) == await _complete(store)
        assert await _complete(store, since=1_000_000) == await _complete(store)

    @promises("load", "only the rows that changed after that version (`complete` is False)")
    async def test_a_delta_is_not_the_whole_of_a_large_run(self, store: Store) -> None:
        names = [f"t{at}" for at in range(500)]
        first = b.created(plan=b.plan(*names), tasks=[b.task(name) for name in names])
        second = b.step(first, tasks=[b.task("t250", TaskStatus.COMPLETED)])
        await ask.must(store, first, second)
        rows = await ask.loaded(store, since=1)
        if not rows.complete:
            assert rows.tasks == second.tasks
            assert rows.plans == ()

    @promises("load", "only the rows that changed after that version")
    async def test_S10_a_lease_that_ended_is_in_no_delta(self, store: Store) -> None:
        first = await ask.must(store, b.created_leased())
        await ask.must(store, b.step(first, executions=[b.ended()], fences=[b.fence()]))
        rows = await ask.loaded(store, since=1)
        assert [row.token for row in rows.executions if row.token] == []


class _Copy:
    """A replica's copy of a run, as the executor keeps it."""

    def __init__(self) -> None:
        self.run: object = None
        self.plans: dict[int, Plan] = {}
        self.tasks: dict[str, Task] = {}
        self.executions: dict[str, OpenExecution] = {}
        self.questions: dict[str, Question] = {}
        self.requests: dict[str, RequestRecord] = {}

    def take(self, rows: Loaded) -> None:
        if rows.complete:
            self.__init__()
        self.run = rows.run
        self.plans.update({plan.revision: plan for plan in rows.plans})
        self.tasks.update({task.task_id: task for task in rows.tasks})
        self.executions.update({row.execution.execution_id: row for row in rows.executions})
        self.questions.update({question.question_id: question for question in rows.questions})
        self.requests.update({request.request_id: request for request in rows.requests})
        for name in [key for key, row in self.executions.items() if not _open(row)]:
            del self.executions[name]
        for name in [
            key for key, row in self.questions.items() if row.status != QuestionStatus.OPEN
        ]:
            del self.questions[name]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Copy) and vars(self) == vars(other)

    __hash__ = None  # pyright: ignore[reportAssignmentType] - it changes

    def __repr__(self) -> str:
        parts: Mapping[str, object] = vars(self)
        return f"_Copy({parts})"


def _open(row: OpenExecution) -> bool:
    return row.execution.status in OPEN


def _history() -> list[Commit]:
    """Return a run's commits that touch every kind of row more than once."""
    chain = [b.created(input=Payload(data=b"in"), executions=[b.ready("plan:1#1")])]

    def add(commit: Commit) -> None:
        chain.append(commit)

    add(b.step(chain[-1], executions=[b.leased("plan:1#1")], leases=[b.lease("plan:1#1")]))
    add(
        b.step(
            chain[-1],
            plan=b.plan("a", "b", "c"),
            tasks=[b.task("a"), b.task("b"), b.task("c")],
            executions=[b.ended("plan:1#1"), b.ready(), b.ready("task:b#1", task_id="b")],
        )
    )
    add(b.step(chain[-1], executions=[b.leased()], leases=[b.lease()], request=b.request("r1", 4)))
    add(b.step(chain[-1], tasks=[b.task("a", TaskStatus.BLOCKED)], questions=[b.question("q1")]))
    add(b.step(chain[-1], executions=[b.ended()], questions=[b.question("q2")]))
    add(
        b.step(
            chain[-1],
            questions=[b.question("q1", QuestionStatus.ANSWERED)],
            executions=[b.ready("task:a#2")],
            request=b.request("r2", 7),
        )
    )
    second = b.plan("c", "d", revision=2)
    add(b.step(chain[-1], plan=second, tasks=[b.task("c", revision=2), b.task("d", revision=2)]))
    add(
        b.step(
            chain[-1],
            executions=[replace(b.leased("task:b#1", task_id="b"), begun=True)],
            leases=[b.lease("task:b#1", token="t9")],
        )
    )
    add(b.step(chain[-1], reason="nothing but the run"))
    return chain


async def _complete(store: Store, since: int = 0) -> tuple[object, ...]:
    rows = await ask.loaded(store, since=since)
    assert rows.complete
    copy = _Copy()
    copy.take(rows)
    return tuple(vars(copy).values())
