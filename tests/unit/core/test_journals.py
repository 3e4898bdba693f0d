"""Journals in the loop: what a lease's entries add when it ends, generations, tries, and calls that are dropped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from stepwell.core.loop.occurrences import (
    AppendMessages,
    Cancel,
    Completed,
    Delivery,
    Failed,
    Forget,
    LeaseExpired,
    Planned,
    Reflected,
    Released,
    Resume,
    RetryTask,
    SkipTask,
    TimerDue,
)
from stepwell.core.loop.transition import Reply
from stepwell.core.port import EntryWrite
from stepwell.core.records.journal import Entry
from stepwell.core.records.model import Budget, Failure, Message, RetryPolicy, Usage
from stepwell.core.records.states import Decision, Effect, JournalMark, OnFailure, StepKind
from stepwell.core.records.step_journal import Journal, Source
from tests.unit.core.loop_world import (
    AT_ONCE,
    ONCE,
    World,
    at_step,
    committed,
    planned,
    started,
    task,
    tasks,
)

SEVEN = Usage(input_tokens=3, output_tokens=4)


def recorded(**spec: object) -> World:
    """Return a run whose one task has recorded two entries, one of them with usage and a message."""
    world = started(task("a", retry=AT_ONCE, **spec))
    world.record("task:a#1", size=10)
    world.record("task:a#1", size=5, usage=SEVEN, says=["hello"])
    return world


def entry(key: str, mark: JournalMark = JournalMark.END, number: int = 0) -> EntryWrite:
    journal = "task:a@1"
    written = Entry(key=key, mark=mark, number=number)
    return EntryWrite(journal=journal, generation=1, entry=written)


ENDS: dict[str, Callable[[World], object]] = {
    "completed": lambda world: world.complete("a"),
    "failed": lambda world: world.fail("a"),
    "released": lambda world: world.deliver("task:a#1", Released()),
    "lost": lambda world: world.expire("task:a#1"),
    "timed out": lambda world: world.expire("task:a#1", timed_out=True),
    "undelivered": lambda world: world.expire("task:a#1", undelivered=True),
    "skipped": lambda world: world.do(SkipTask(task_id="a")),
    "cancelled": lambda world: world.do(Cancel()),
    "out of time": lambda world: world.do(TimerDue(name="total:a")),
    "asking": lambda world: world.ask("a"),
}


@pytest.mark.parametrize("end", ENDS)
def test_whatever_ends_a_lease_counts_its_entries_once(end: str) -> None:
    world = recorded(total_timeout_ms=1_000)
    token = world.held("task:a#1").token

    ENDS[end](world)

    assert world.run.usage == SEVEN
    assert world.executions["task:a#1"].usage == SEVEN
    assert world.executions["task:a#1"].journal_entries == 2
    assert (world.task("a").journal.entries, world.task("a").journal.bytes) == (2, 15)
    assert [one.content for one in world.commits[-1].messages] == ["hello"]
    fences = {one.execution_id: one for one in world.commits[-1].fences}
    assert (fences["task:a#1"].token, fences["task:a#1"].recorded) == (token, 2)


def test_a_lease_without_entries_is_ended_by_a_commit_that_knows_of_none() -> None:
    world = started("a")
    world.complete("a")

    assert [one.recorded for one in world.commits[-1].fences] == [0]
    assert world.task("a").journal == Journal()


def test_what_a_delivery_reports_is_added_to_what_was_recorded() -> None:
    world = recorded()
    reported = Usage(input_tokens=1, model="m")
    said = (Message(role="assistant", content="bye"),)
    world.deliver("task:a#1", Completed(), usage=reported, messages=said)

    assert world.executions["task:a#1"].usage == Usage(input_tokens=4, output_tokens=4, model="m")
    assert world.run.usage == Usage(input_tokens=4, output_tokens=4)
    assert [(one.number, one.content) for one in world.commits[-1].messages] == [
        (1, "hello"),
        (2, "bye"),
    ]
    assert world.executions["task:a#1"].messages == world.task("a").messages == 2


def test_appended_messages_are_not_appended_again_with_those_of_entries() -> None:
    world = recorded()
    said = tuple(Message(role="assistant", content=text) for text in "xy")
    token = world.held("task:a#1").token
    world.do(AppendMessages(execution_id="task:a#1", token=token, messages=said[:1]))
    world.deliver("task:a#1", Completed(), messages=said)

    appended = [one for commit in world.commits for one in commit.messages]
    assert [(one.number, one.content) for one in appended] == [(1, "x"), (2, "hello"), (3, "y")]


def begun_and_recorded() -> tuple[World, str]:
    """Return a run whose AT_MOST_ONCE task has begun and recorded two entries with messages; and its token."""
    world = started(task("a", effect=Effect.AT_MOST_ONCE))
    token = world.begin("task:a#1")
    world.record("task:a#1", usage=SEVEN, says=["r1"])
    world.record("task:a#1", says=["r2"])
    return world, token


def late_ones(token: str, count: int) -> tuple[AppendMessages, Delivery]:
    """Return what a worker may send of its three messages when its lease is lost: the first ones, and all at its end."""
    said = tuple(Message(role="assistant", content=f"d{number}") for number in (1, 2, 3))
    some = AppendMessages(execution_id="task:a#1", token=token, messages=said[:count])
    result, usage = Completed(), Usage(input_tokens=5)
    end = Delivery(execution_id="task:a#1", token=token, result=result, usage=usage, messages=said)
    return some, end


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("appended", [0, 2])
def test_a_late_delivery_adds_all_of_its_own_to_what_was_recorded(
    appended: int, together: bool
) -> None:
    world, token = begun_and_recorded()
    some, end = late_ones(token, appended)
    occurrences = [LeaseExpired(execution_id="task:a#1", token=token), some, end]
    for batch in [occurrences] if together else [[one] for one in occurrences]:
        world.do(*batch)

    said = [one for commit in world.commits for one in commit.messages]
    contents = ["r1", "r2", "d1", "d2", "d3"]
    assert [(one.number, one.content) for one in said] == list(enumerate(contents, 1))
    assert world.executions["task:a#1"].usage == replace(SEVEN, input_tokens=8)
    assert world.run.usage == replace(SEVEN, input_tokens=8)


def test_messages_appended_before_the_lease_was_lost_are_not_appended_again() -> None:
    world, token = begun_and_recorded()
    some, end = late_ones(token, 2)
    world.do(some)
    world.do(LeaseExpired(execution_id="task:a#1", token=token))
    world.do(end)

    said = [one.content for commit in world.commits for one in commit.messages]
    assert said == ["d1", "d2", "r1", "r2", "d3"]


@pytest.mark.parametrize("late", ["messages", "delivery"])
def test_the_fence_of_a_lease_that_ends_stays_though_its_worker_sends_more(late: str) -> None:
    world, token = begun_and_recorded()
    some, end = late_ones(token, 1)
    world.do(
        LeaseExpired(execution_id="task:a#1", token=token), some if late == "messages" else end
    )

    assert [one.recorded for one in world.commits[-1].fences] == [2]


def test_a_commit_that_needs_messages_of_entries_asks_for_them() -> None:
    world = recorded()
    token = world.held("task:a#1").token

    transition = world.advance(Cancel())

    asked = [(one.journal, one.execution_id, one.limit) for one in transition.asked_pages]
    assert asked == [("task:a@1", "task:a#1", 2)]
    assert [one.token for one in committed(transition).fences] == [token]


@pytest.mark.parametrize("kind", [StepKind.PLAN, StepKind.REFLECT, StepKind.SYNTHESIZE])
def test_a_step_of_the_run_has_a_journal_until_another_begins(kind: StepKind) -> None:
    world = at_step(kind)
    step = f"{kind.lower()}:1#1"
    world.record(step, usage=SEVEN)
    world.expire(step)
    assert world.run.step_journal == Journal(entries=1, bytes=1)

    again = f"{kind.lower()}:1#2"
    world.record(again)
    done = {
        StepKind.PLAN: Planned(tasks=tasks("a")),
        StepKind.REFLECT: Reflected(decision=Decision.FINISH),
        StepKind.SYNTHESIZE: Completed(),
    }
    world.deliver(again, done[kind])

    assert world.run.step_journal == Journal()
    assert world.executions[again].journal_entries == 1


# --- tries -------------------------------------------------------------------------------------------


def test_tries_count_over_lost_attempts_and_anew_after_a_failed_one() -> None:
    world = recorded()
    world.expire("task:a#1")
    world.deliver("task:a#2", Released())
    assert world.task("a").journal.tries_from == 1

    world.fail("a")
    assert world.task("a").journal.tries_from == 4
    world.expire("task:a#4", timed_out=True)
    assert world.task("a").journal.tries_from == 5


def test_tries_count_anew_after_a_retry_and_after_a_resume() -> None:
    world = started(task("a", retry=ONCE, on_failure=OnFailure.CONTINUE), "b")
    world.record("task:a#1")
    world.expire("task:a#1")
    world.do(RetryTask(task_id="a"))
    assert world.task("a").journal.tries_from == 2

    world = started(task("a", retry=ONCE), "b")
    world.record("task:b#1")
    world.fail("a")
    assert world.run.status == "FAILED"
    world.do(Resume())
    assert world.task("b").journal.tries_from == 2


# --- generations -------------------------------------------------------------------------------------


def test_a_refused_plan_begins_the_planners_journal_anew() -> None:
    world = World()
    world.start(step_retry=AT_ONCE)
    world.record("plan:1#1")
    reply = world.deliver("plan:1#1", Planned(tasks=(task("a", "missing"),)))

    assert reply.reason == "PLAN_INVALID"
    assert world.run.step_journal == Journal(generation=2, tries_from=2)
    assert world.kinds()[-3:] == ["PLAN_REJECTED", "JOURNAL_RENEWED", "STEP_RETRY_SCHEDULED"]


@pytest.mark.parametrize("kind", ["INVALID_RESULT", "INVALID_OUTCOME", "PLAN_INVALID"])
def test_an_outcome_that_cannot_be_used_begins_the_journal_anew(kind: str) -> None:
    world = recorded()
    world.fail("a", kind=kind)

    assert world.task("a").journal == Journal(generation=2, tries_from=2)
    assert not world.task("a").journal.is_empty


def test_a_step_that_recorded_nothing_has_no_new_generation() -> None:
    world = started(task("a", retry=AT_ONCE))
    world.fail("a", kind="INVALID_RESULT")

    assert world.task("a").journal == Journal()
    assert "JOURNAL_RENEWED" not in world.kinds()


def test_a_failure_of_the_steps_own_keeps_the_journal() -> None:
    world = recorded()
    world.fail("a")

    assert world.task("a").journal == Journal(entries=2, bytes=15, tries_from=2)


def test_a_retry_keeps_the_journal_unless_it_is_to_begin_anew() -> None:
    policy = RetryPolicy(max_attempts=1)
    world = started(task("a", retry=policy, on_failure=OnFailure.CONTINUE), "b")
    world.record("task:a#1")
    world.fail("a")
    world.do(RetryTask(task_id="a"))
    assert world.task("a").journal == Journal(entries=1, bytes=1, tries_from=2)

    world.fail("a")
    world.do(RetryTask(task_id="a", fresh=True))
    assert world.task("a").journal == Journal(generation=2, tries_from=3)
    assert world.ready() == ["task:b#1", "task:a#3"]


def test_a_back_off_that_a_person_ends_may_begin_the_journal_anew() -> None:
    world = started(task("a", retry=RetryPolicy(jitter=0)))
    world.record("task:a#1")
    world.fail("a")
    world.do(RetryTask(task_id="a", fresh=True))

    assert world.task("a").journal.generation == 2
    assert world.ready() == ["task:a#3"]


def test_a_task_that_a_plan_defines_anew_has_another_journal() -> None:
    world = planned(task("a"), task("b"))
    world.record("task:a#1")
    world.expire("task:a#1")
    question_id = world.ask("b")
    world.answer(question_id, replan=True)
    world.deliver("plan:2#1", Planned(tasks=(task("a", prompt="other"), task("b"))))

    assert (world.task("a").revision, world.task("a").journal) == (2, Journal())


def test_a_planner_that_begins_anew_has_a_new_generation() -> None:
    world = planned(task("a"), task("b"))
    first, second = world.ask("a"), world.ask("b")
    world.answer(first, replan=True)
    world.record("plan:2#1")
    world.answer(second, replan=True)

    assert world.status_of("plan:2#1") == "CANCELLED"
    assert world.run.step_journal == Journal(generation=2)


def test_a_new_generation_reads_only_at_most_once_calls_of_its_sources() -> None:
    source = Source(run_id="parent", journal="task:a@1", generation=3, version=9)
    world = recorded()
    world.state.tasks["a"] = replace(world.task("a"), journal=Journal(sources=(source,)))
    token = world.held("task:a#1").token
    result = Failed(failure=Failure(kind="INVALID_RESULT"))
    end = Delivery(execution_id="task:a#1", token=token, result=result)

    after = committed(world.advance(end)).tasks[0].journal
    assert (after.generation, after.sources[0].generation) == (2, 4)


# --- dropped calls -----------------------------------------------------------------------------------


def forget(world: World, *entries: EntryWrite, number: int = 1, **fields: Any) -> Reply:
    token = fields.pop("token", None) or world.held("task:a#1").token
    calls = fields.pop("calls", None) or tuple(dict.fromkeys(one.entry.key for one in entries))
    one = Forget(execution_id="task:a#1", token=token, number=number, calls=calls, entries=entries)
    return world.do(one)[0]


def test_calls_are_dropped_by_one_commit() -> None:
    world = recorded()
    dropped = (entry("k"), entry("k", JournalMark.TRY, 1), entry("l"))
    before = len(world.commits)

    assert forget(world, *dropped).status == "ACCEPTED"
    assert len(world.commits) == before + 1
    assert world.commits[-1].forgotten == dropped
    events = [(one.type, one.message) for one in world.events[-2:]]
    assert events == [("JOURNAL_FORGOTTEN", "k"), ("JOURNAL_FORGOTTEN", "l")]
    assert world.commits[-1].fences[0].recorded == -1


def test_calls_are_not_dropped_where_one_has_begun() -> None:
    world = recorded()
    reply = forget(world, entry("l"), entry("k", JournalMark.BEGIN, 1), entry("k"))

    assert (reply.status, reply.reason) == ("REFUSED", "CALL_BEGUN")
    assert "'k'" in reply.message


def test_a_call_is_dropped_by_the_holder_of_the_lease_only() -> None:
    assert forget(recorded(), entry("k"), token="x").status == "LEASE_LOST"


@pytest.mark.parametrize("first", [(entry("k"),), ()], ids=["recorded", "not-recorded"])
def test_a_repeated_drop_leaves_what_was_recorded_since(first: tuple[EntryWrite, ...]) -> None:
    world = recorded()
    assert forget(world, *first, calls=("k",)).status == "ACCEPTED"
    before = len(world.commits)

    assert forget(world, entry("k")).status == "UNCHANGED"
    assert len(world.commits) == before
    assert forget(world, entry("k"), number=2).status == "ACCEPTED"
    assert world.commits[-1].forgotten == (entry("k"),)


def test_usage_of_entries_counts_towards_the_budget() -> None:
    world = started(task("a", retry=AT_ONCE), "b", budget=Budget(input_tokens=3), max_parallel=1)
    world.record("task:a#1", usage=SEVEN)
    world.expire("task:a#1")

    assert (world.run.status, world.run.pause_reason) == ("PAUSED", "BUDGET_EXHAUSTED")
