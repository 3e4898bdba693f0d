"""Suspended steps in the loop: what they wait for, what wakes them, and what ends them while they wait."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from stepwell.core.loop.occurrences import (
    Answer,
    BudgetSpent,
    Cancel,
    Completed,
    Delivery,
    NeedsAnswer,
    Pause,
    Planned,
    RaiseBudget,
    Reconciled,
    Resume,
    RetryTask,
    SkipTask,
    Sleep,
    Suspended,
    SuspendedCall,
    TimerDue,
)
from stepwell.core.records.journal import Entry
from stepwell.core.records.limits import WAITS_MAX
from stepwell.core.records.model import Budget, Payload, Usage
from stepwell.core.records.states import (
    Effect,
    ExpiryAction,
    Finding,
    OnFailure,
)
from tests.unit.core.loop_world import AT_ONCE, ONCE, YES, World, planned, started, task

MINUTE = Sleep(remaining_ms=60_000)
NOW = NeedsAnswer(prompt="now?")
SLEEPING = "wait:task:a@1:nap"


def asking(**fields: object) -> World:
    """Return a run of two tasks whose first is suspended by two questions and a sleep."""
    world = started(task("a", **fields), "b")
    world.suspend("task:a#1", nap=MINUTE, one=NOW, two=NeedsAnswer(prompt="sure?"))
    return world


def kinds_of_last_commit(world: World) -> list[str]:
    return [str(one.type) for one in world.commits[-1].events]


def open_questions(world: World) -> dict[str, str]:
    return {one.call: one.question_id for one in world.state.questions.values()}


# --- suspending --------------------------------------------------------------------------------------


@pytest.mark.parametrize("wait", [MINUTE, NOW, BudgetSpent()])
@pytest.mark.parametrize("late", [False, True])
def test_an_at_most_once_task_that_has_begun_is_not_suspended(
    wait: Sleep | NeedsAnswer | BudgetSpent, late: bool
) -> None:
    world = started(task("a", effect=Effect.AT_MOST_ONCE, retry=AT_ONCE), "b")
    world.begin("task:a#1")
    if late:
        world.expire("task:a#1")
    reply = world.deliver("task:a#1", Suspended(waits=(SuspendedCall(call="k", wait=wait),)))

    assert (reply.status, reply.reason) == ("REJECTED", "INVALID_OUTCOME")
    assert "has begun" in reply.message
    assert (world.status_of("task:a#1"), world.task("a").status) == ("FAILED", "FAILED")
    assert (world.task("a").waits, world.state.questions) == ((), {})


def test_an_at_most_once_task_may_be_suspended_before_it_begins() -> None:
    world = started(task("a", effect=Effect.AT_MOST_ONCE), "b")
    world.suspend("task:a#1", k=NOW)

    assert world.status_of("task:a#1") == "SUSPENDED"


def test_the_calls_of_a_step_have_a_limited_number_of_open_questions() -> None:
    world = started(task("a", retry=AT_ONCE, on_failure=OnFailure.CONTINUE), "b")
    many = {f"k{number}": NOW for number in range(WAITS_MAX - 1)}
    world.suspend("task:a#1", now=Sleep(remaining_ms=0), **many)
    world.suspend("task:a#2", now=Sleep(remaining_ms=0), k0=NOW, last=NOW)
    assert len(world.state.questions) == WAITS_MAX

    more = SuspendedCall(call="more", wait=NOW)
    reply = world.deliver("task:a#3", Suspended(waits=(more,)))

    assert (reply.status, reply.reason) == ("REJECTED", "TOO_MANY_QUESTIONS")
    assert (world.task("a").status, world.state.questions) == ("FAILED", {})


def test_a_suspended_step_waits_by_one_commit_for_all_that_it_named() -> None:
    world = asking()

    assert kinds_of_last_commit(world) == ["STEP_SUSPENDED", "QUESTION_ASKED", "QUESTION_ASKED"]
    assert world.events[-3].message == "question, sleep: nap, one, two"
    assert world.status_of("task:a#1") == "SUSPENDED"
    assert (world.task("a").status, world.task("a").spent) == ("BLOCKED", 0)
    assert [(one.key, str(one.kind)) for one in world.task("a").waits] == [
        ("nap", "SLEEP"),
        ("one", "QUESTION"),
        ("two", "QUESTION"),
    ]
    assert [one.question_id for one in world.task("a").waits[1:]] == list(
        open_questions(world).values()
    )
    assert world.timers == {SLEEPING: 60_000}
    assert (world.run.attempts.suspended, world.run.attempts.released) == (1, 0)


def test_a_suspended_step_takes_no_place() -> None:
    world = started("a", "b", max_parallel=1)
    world.suspend("task:a#1", nap=MINUTE)

    assert world.ready() == ["task:b#1"]


@pytest.mark.parametrize(
    ("waits", "blocked"),
    [
        ({"one": NOW, "nap": MINUTE}, "QUESTION"),
        ({"nap": MINUTE}, "TIMER"),
        ({"nap": Sleep(remaining_ms=0)}, "WORKER"),
    ],
)
def test_a_run_says_what_its_suspended_step_waits_for(
    waits: dict[str, Sleep | NeedsAnswer], blocked: str
) -> None:
    world = started("a")
    world.suspend("task:a#1", **waits)

    assert str(world.run.blocked_on) == blocked
    assert str(world.run.status) == ("RUNNING" if blocked == "WORKER" else "WAITING")


def test_an_attempt_carries_its_progress_over_a_suspension() -> None:
    world = started("a")
    calls = (SuspendedCall(call="nap", wait=MINUTE),)
    world.deliver("task:a#1", Suspended(waits=calls), progress=YES)

    assert world.task("a").previous.progress == YES


def test_what_a_suspended_attempt_recorded_is_counted() -> None:
    world = started("a")
    world.record("task:a#1", usage=Usage(input_tokens=2))
    world.suspend("task:a#1", nap=MINUTE)

    assert (world.run.usage.input_tokens, world.task("a").journal.entries) == (2, 1)


def test_a_reconcile_step_cannot_be_suspended() -> None:
    world = started(task("a", effect=Effect.AT_MOST_ONCE, reconcile=True))
    world.begin("task:a#1")
    world.expire("task:a#1")
    calls = (SuspendedCall(call="nap", wait=MINUTE),)
    reply = world.deliver("reconcile:a#1", Suspended(waits=calls))

    assert (reply.status, reply.reason) == ("REJECTED", "INVALID_OUTCOME")
    assert world.deliver("reconcile:a#2", Reconciled(finding=Finding.DONE)).status == "ACCEPTED"


def test_one_call_waits_once() -> None:
    world = started("a")
    calls = (SuspendedCall(call="k", wait=NOW), SuspendedCall(call="k", wait=MINUTE))
    world.deliver("task:a#1", Suspended(waits=calls))

    assert [one.key for one in world.task("a").waits] == ["k"]
    assert list(open_questions(world)) == ["k"]


# --- waking ------------------------------------------------------------------------------------------


def test_the_first_answer_wakes_the_step_and_is_the_calls_value() -> None:
    world = asking()
    reply = world.answer(open_questions(world)["one"])

    assert reply.status == "ACCEPTED"
    assert kinds_of_last_commit(world) == ["QUESTION_ANSWERED", "STEP_WOKEN"]
    assert (world.events[-1].message, world.events[-1].execution_id) == ("one", "task:a#1")
    written = world.commits[-1].entries[0]
    assert (written.journal, written.generation) == ("task:a@1", 1)
    assert written.entry == Entry(key="one", name="ask", arguments="digest of one", value=YES)
    assert (world.task("a").waits, world.task("a").journal.entries) == ((), 1)
    assert world.ready() == ["task:b#1", "task:a#2"]
    assert world.timers == {}
    assert list(open_questions(world)) == ["two"]


def test_the_end_of_a_sleep_wakes_the_step() -> None:
    world = asking()
    world.do(TimerDue(name=SLEEPING))

    assert kinds_of_last_commit(world) == ["STEP_WOKEN"]
    assert world.events[-1].message == "nap"
    assert world.ready() == ["task:b#1", "task:a#2"]
    assert list(open_questions(world)) == ["one", "two"]


def test_a_sleep_of_another_step_wakes_only_that() -> None:
    world = started("a", "b")
    world.suspend("task:a#1", nap=MINUTE)
    world.suspend("task:b#1", nap=MINUTE)
    world.do(TimerDue(name="wait:task:b@1:nap"))

    assert world.ready() == ["task:b#2"]
    assert world.timers == {SLEEPING: 60_000}


def test_a_sleeps_timer_that_outlived_its_step_changes_nothing() -> None:
    world = asking()
    world.do(TimerDue(name=SLEEPING))
    before = world.run
    world.do(TimerDue(name=SLEEPING))

    assert world.run == before


def test_a_step_that_waits_again_keeps_the_questions_that_are_open() -> None:
    world = asking()
    before = open_questions(world)
    world.do(TimerDue(name=SLEEPING))
    world.suspend("task:a#2", one=NOW, two=NeedsAnswer(prompt="sure?"), three=NOW)

    assert {
        call: world.state.questions[k].execution_id for call, k in open_questions(world).items()
    } == {
        "one": "task:a#1",
        "two": "task:a#1",
        "three": "task:a#2",
    }
    assert {call: k for call, k in open_questions(world).items() if call in before} == before


def test_an_answer_that_came_while_an_attempt_ran_lets_its_wait_end_at_once() -> None:
    world = asking()
    world.do(TimerDue(name=SLEEPING))
    world.lease("task:a#2")
    world.answer(open_questions(world)["one"])
    assert world.task("a").status == "RUNNING"
    assert world.task("a").journal.answered == ("one",)

    world.suspend("task:a#2", one=NOW, two=NOW)

    assert world.ready() == ["task:b#1", "task:a#3"]
    assert list(open_questions(world)) == ["two"]
    assert world.task("a").journal.answered == ()


def test_an_answer_for_a_step_that_waits_for_a_worker_writes_the_value_only() -> None:
    world = asking()
    world.do(TimerDue(name=SLEEPING))
    world.answer(open_questions(world)["one"])

    assert kinds_of_last_commit(world) == ["QUESTION_ANSWERED"]
    assert world.task("a").journal.answered == ()
    assert world.commits[-1].entries[0].entry.key == "one"


def test_an_answer_to_a_call_is_no_answer_to_the_task() -> None:
    world = started("a")
    world.answer(world.ask("a"))
    world.suspend("task:a#2", one=NOW)
    world.answer(open_questions(world)["one"])

    assert world.task("a").question_id == "question:task:a#1"


# --- waiting for a budget ------------------------------------------------------------------------------


def test_a_step_without_a_budget_pauses_the_run_and_goes_on_with_one() -> None:
    world = started("a", budget=Budget(input_tokens=5))
    world.record("task:a#1", usage=Usage(input_tokens=5))
    world.suspend("task:a#1", k=BudgetSpent())
    assert (world.run.status, world.run.blocked_on) == ("PAUSED", "BUDGET")
    assert (world.task("a").status, world.task("a").waits) == ("PENDING", ())

    world.do(RaiseBudget(budget=Budget(input_tokens=9)))
    assert world.ready() == ["task:a#2"]


def test_a_step_waits_while_others_recorded_what_the_budget_has() -> None:
    world = started("a", "b", budget=Budget(input_tokens=5))
    world.record("task:b#1", usage=Usage(input_tokens=5))
    world.suspend("task:a#1", k=BudgetSpent())
    assert (world.run.status, world.task("a").status) == ("RUNNING", "BLOCKED")

    world.deliver("task:b#1", Completed())
    assert (world.run.status, world.task("a").status) == ("PAUSED", "PENDING")


def test_a_raised_budget_wakes_a_step_while_others_run() -> None:
    world = started("a", "b", budget=Budget(input_tokens=5))
    world.record("task:b#1", usage=Usage(input_tokens=5))
    world.suspend("task:a#1", k=BudgetSpent())
    world.do(RaiseBudget(budget=Budget(input_tokens=9)))

    assert kinds_of_last_commit(world) == ["BUDGET_RAISED", "STEP_WOKEN"]
    assert world.ready() == ["task:a#2"]


# --- questions without an answer -------------------------------------------------------------------------


def suspended_by(on_expiry: ExpiryAction, **fields: object) -> World:
    world = started(task("a", **fields), "b")
    question = NeedsAnswer(prompt="?", expires_ms=9, on_expiry=on_expiry)
    world.suspend("task:a#1", k=question, nap=MINUTE)
    return world


def expire(world: World) -> None:
    world.do(TimerDue(name=f"question:{open_questions(world)['k']}"))


@pytest.mark.parametrize(
    ("on_expiry", "kind"), [(ExpiryAction.DENY, "DENIED"), (ExpiryAction.FAIL, "QUESTION_EXPIRED")]
)
def test_a_question_of_a_call_that_expires_fails_the_task(
    on_expiry: ExpiryAction, kind: str
) -> None:
    world = suspended_by(on_expiry, on_failure=OnFailure.CONTINUE)
    expire(world)

    assert (world.task("a").status, world.task("a").failure.kind) == ("FAILED", kind)
    assert (world.task("a").waits, world.timers, world.state.questions) == ((), {}, {})


def test_a_question_that_expires_while_its_step_runs_ends_the_attempt() -> None:
    world = suspended_by(ExpiryAction.FAIL, on_failure=OnFailure.CONTINUE)
    world.do(TimerDue(name=SLEEPING))
    world.lease("task:a#2")
    expire(world)

    assert (world.status_of("task:a#2"), world.task("a").status) == ("CANCELLED", "FAILED")


def test_a_question_that_waits_for_ever_stays_open_after_its_expiry() -> None:
    world = suspended_by(ExpiryAction.WAIT)
    expire(world)

    assert list(open_questions(world)) == ["k"]
    assert world.task("a").status == "BLOCKED"


def test_a_question_may_pause_the_run_when_it_expires() -> None:
    world = suspended_by(ExpiryAction.PAUSE)
    expire(world)
    assert (world.run.status, world.run.pause_reason) == ("PAUSED", "QUESTION_EXPIRED")

    world.answer(open_questions(world)["k"])
    assert world.task("a").status == "PENDING"
    world.do(Resume())
    assert world.ready() == ["task:b#2", "task:a#2"]


# --- ends while a step waits -------------------------------------------------------------------------


ENDS: dict[str, tuple[Callable[[World], object], str]] = {
    "cancel": (lambda world: world.do(Cancel()), "CANCELLED"),
    "skip": (lambda world: world.do(SkipTask(task_id="a")), "SKIPPED"),
    "its time": (lambda world: world.do(TimerDue(name="total:a")), "FAILED"),
    "another failure": (lambda world: world.fail("b"), "PENDING"),
}


@pytest.mark.parametrize("end", ENDS)
def test_whatever_ends_a_suspended_step_ends_its_questions_and_its_waits(end: str) -> None:
    world = started(
        task("a", total_timeout_ms=99, on_failure=OnFailure.CONTINUE),
        task("b", retry=ONCE),
        "c",
    )
    world.suspend("task:a#1", nap=MINUTE, one=NOW)
    act, status = ENDS[end]
    act(world)

    assert (world.task("a").status, world.task("a").waits) == (status, ())
    assert not world.state.questions
    assert not [name for name in world.timers if name.startswith(("wait:", "question:"))]
    assert not world.state.suspended


def test_a_step_that_is_done_ends_the_questions_that_it_did_without() -> None:
    world = asking()
    world.do(TimerDue(name=SLEEPING))
    world.complete("a")

    assert not world.state.questions
    assert [one.status for one in world.commits[-1].questions] == ["CANCELLED", "CANCELLED"]


def test_a_new_generation_ends_the_questions_of_the_one_before() -> None:
    world = asking(retry=AT_ONCE)
    world.do(TimerDue(name=SLEEPING))
    world.record("task:a#2")
    world.fail("a", kind="INVALID_RESULT")

    assert not world.state.questions
    assert world.ready() == ["task:b#1", "task:a#3"]


def test_a_plan_ends_the_waits_of_what_it_drops_alone() -> None:
    world = planned(task("a"), task("b"), task("c"))
    for one in "ab":
        world.suspend(f"task:{one}#1", nap=MINUTE, k=NOW)
    world.answer(world.ask("c"), replan=True)
    world.deliver("plan:2#1", Planned(tasks=(task("a"), task("c"))))

    assert (world.task("a").status, world.task("b").status) == ("BLOCKED", "CANCELLED")
    assert (len(world.task("a").waits), world.task("b").waits) == (2, ())
    assert list(world.timers) == [SLEEPING]
    world.do(TimerDue(name=SLEEPING))
    assert "task:a#2" in world.ready()


def test_a_task_that_a_plan_defines_anew_waits_no_more() -> None:
    world = planned(task("a"), task("c"))
    world.suspend("task:a#1", nap=MINUTE, k=NOW)
    world.answer(world.ask("c"), replan=True)
    world.deliver("plan:2#1", Planned(tasks=(task("a", prompt="other"), task("c"))))

    assert (world.task("a").waits, world.timers) == ((), {})
    assert "task:a#2" in world.ready()


def test_a_paused_run_wakes_its_steps_and_offers_them_when_it_resumes() -> None:
    world = asking()
    world.do(Pause())
    assert world.task("a").status == "BLOCKED"

    world.do(TimerDue(name=SLEEPING))
    assert (world.task("a").status, world.ready()) == ("PENDING", [])
    world.do(Resume())
    assert world.ready() == ["task:b#2", "task:a#2"]


def test_a_suspended_task_cannot_be_retried() -> None:
    world = asking()

    assert world.do(RetryTask(task_id="a"))[0].reason == "TASK_STATUS"


def test_a_suspended_task_holds_its_idempotency_key() -> None:
    world = started(task("a", idempotency_key="k"), task("b", idempotency_key="k"))
    world.suspend("task:a#1", nap=MINUTE)
    assert world.ready() == []

    world.do(TimerDue(name=SLEEPING))
    assert world.ready() == ["task:a#2"]


def test_a_resent_suspension_finds_its_lease_over() -> None:
    world = started("a")
    token = world.lease("task:a#1")
    world.suspend("task:a#1", nap=MINUTE)
    calls = (SuspendedCall(call="nap", wait=MINUTE),)
    again = Delivery(execution_id="task:a#1", token=token, result=Suspended(waits=calls))

    assert world.do(again)[0].status == "LEASE_LOST"
    assert world.do(Answer(question_id="x", payload=Payload()))[0].reason == "QUESTION_NOT_OPEN"
