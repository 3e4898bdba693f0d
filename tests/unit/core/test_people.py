"""People in the loop: questions, answers, what happens without one, and another plan by an answer."""

from __future__ import annotations

import random
from typing import Any

import pytest

from stepwell.core.loop.occurrences import (
    Cancel,
    Failed,
    Pause,
    Planned,
    Released,
    Resume,
    TimerDue,
)
from stepwell.core.records.model import Failure, Payload, RetryPolicy
from stepwell.core.records.states import ExpiryAction, OnFailure
from tests.unit.core.loop_world import ONCE, World, chain, started, task, tasks


def asking(*ids: str, **spec: Any) -> World:
    """Return a run of independent tasks whose first one has asked."""
    world = started(*ids, **spec)
    world.ask(ids[0])
    return world


def question_status(world: World, question_id: str) -> str:
    """Return how a request stands, by the last event that has it."""
    found = [
        one for event in world.events for one in event.questions if one.question_id == question_id
    ]
    return str(found[-1].status)


def time_out(world: World, question_id: str) -> None:
    world.do(TimerDue(name=f"question:{question_id}"))


# --- asking and answering ----------------------------------------------------------------------------


def test_a_question_blocks_its_task_and_its_answer_lets_it_go_on() -> None:
    world = asking("a")
    assert (world.run.status, world.run.blocked_on) == ("WAITING", "QUESTION")
    assert world.answer("question:task:a#1").status == "ACCEPTED"
    assert world.ready() == ["task:a#2"]
    assert world.task("a").spent == 0
    # One that asks again makes another request.
    assert world.ask("a") == "question:task:a#2"
    assert world.task("a").question_id == "question:task:a#2"
    assert world.answer("question:task:a#1").reason == "QUESTION_NOT_OPEN"
    assert world.answer("question:task:a#2").status == "ACCEPTED"


def test_each_of_ten_parallel_questions_gets_its_own_answer() -> None:
    names = [f"t{n}" for n in range(10)]
    world = started(*names)
    asked = {world.ask(one): one for one in names}
    assert world.run.status == "WAITING"
    order = list(asked)
    random.Random(4).shuffle(order)
    for question_id in order:
        world.answer(question_id, payload=Payload(data=asked[question_id].encode()))
        assert world.ready()[-1] == f"task:{asked[question_id]}#2"
    given = {one.task_id: one.answer for event in world.events for one in event.questions}
    assert given == {one: Payload(data=one.encode()) for one in names}
    assert all(world.task(one).question_id == f"question:task:{one}#1" for one in names)


def test_answer_stays_for_every_later_attempt() -> None:
    world = started(task("a", retry=RetryPolicy(max_attempts=2)))
    question_id = world.ask("a")
    world.answer(question_id)
    world.fail("a")
    assert world.task("a").question_id == question_id
    world.fail("a")
    assert world.run.status == "FAILED"
    world.do(Resume())
    assert world.ready() == ["task:a#4"]
    assert world.task("a").question_id == question_id


def test_a_request_is_cancelled_with_its_run_and_can_not_be_answered() -> None:
    world = asking("a")
    world.do(Cancel())
    assert question_status(world, "question:task:a#1") == "CANCELLED"
    assert world.answer("question:task:a#1").reason == "QUESTION_NOT_OPEN"


# --- expiry --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("paused", [False, True])
@pytest.mark.parametrize(("action", "kind"), [("DENY", "DENIED"), ("FAIL", "QUESTION_EXPIRED")])
def test_an_expired_question_fails_its_task_also_while_the_run_is_paused(
    action: str, kind: str, *, paused: bool
) -> None:
    world = started(*chain("a", "b", on_failure=OnFailure.SKIP_DEPENDENTS))
    question_id = world.ask("a", expires_ms=10, on_expiry=ExpiryAction(action))
    if paused:
        world.do(Pause())
    time_out(world, question_id)
    assert (world.task("a").failure.kind, world.task("a").question_id) == (kind, "")
    assert world.task("b").status == "SKIPPED"
    assert question_status(world, question_id) == "EXPIRED"
    assert world.answer(question_id).reason == "QUESTION_NOT_OPEN"
    assert not world.timers


def test_resume_after_an_expired_question_leaves_it_open() -> None:
    world = started("a", "b")
    question_id = world.ask("a", expires_ms=10, on_expiry=ExpiryAction.PAUSE)
    time_out(world, question_id)
    assert (world.run.status, world.run.pause_reason) == ("PAUSED", "QUESTION_EXPIRED")
    assert world.status_of("task:b#1") == "RELEASED"
    world.do(Resume())
    assert world.ready() == ["task:b#2"]
    assert question_status(world, question_id) == "OPEN"
    assert world.answer(question_id).status == "ACCEPTED"
    assert sorted(world.ready()) == ["task:a#2", "task:b#2"]


def test_answer_to_a_paused_run_is_used_at_the_resume() -> None:
    world = started("a")
    question_id = world.ask("a", expires_ms=10, on_expiry=ExpiryAction.PAUSE)
    time_out(world, question_id)
    world.answer(question_id)
    assert (world.run.status, world.ready()) == ("PAUSED", [])
    world.do(Resume())
    assert world.ready() == ["task:a#2"]


def test_a_pause_by_expiry_leaves_a_run_that_is_paused_already_as_it_is() -> None:
    world = started("a")
    question_id = world.ask("a", expires_ms=10, on_expiry=ExpiryAction.PAUSE)
    world.do(Pause(reason="look"))
    time_out(world, question_id)
    assert (world.run.pause_reason, world.run.reason) == ("REQUESTED", "look")


def test_a_question_that_waits_for_ever_stays_open_when_its_time_is_over() -> None:
    world = started("a")
    question_id = world.ask("a", expires_ms=10, on_expiry=ExpiryAction.WAIT)
    time_out(world, question_id)
    assert world.run.status == "WAITING"
    assert world.kinds()[-1] == "QUESTION_EXPIRED"
    assert not world.timers
    assert world.answer(question_id).status == "ACCEPTED"


# --- another plan --------------------------------------------------------------------------------------


def replanning(*ids: str, leased: tuple[str, ...] = ()) -> World:
    """Return a run whose first task asked and was answered with a wish for another plan."""
    world = asking(*ids)
    for task_id in leased:
        world.lease(f"task:{task_id}#1")
    reply = world.answer(f"question:task:{ids[0]}#1", replan=True, reason="no")
    assert reply.status == "ACCEPTED"
    return world


def test_an_answer_may_ask_for_a_plan_before_anything_else_is_dispatched() -> None:
    world = replanning("a", "b", "c", "d", leased=("b", "c"))
    assert (world.run.phase, world.run.iteration) == ("PLANNING", 2)
    assert world.run.reason == "no"
    assert world.ready() == ["plan:2#1"]
    assert world.leased() == ["task:b#1", "task:c#1"]
    assert world.status_of("task:d#1") == "RELEASED"
    assert (world.task("d").status, world.task("d").spent) == ("PENDING", 0)
    assert world.kinds()[-2:] == ["QUESTION_ANSWERED", "REPLAN_REQUESTED"]


def test_task_that_asked_for_a_plan_goes_on_in_it_with_its_answer() -> None:
    world = replanning("a", "done", leased=("done",))
    world.complete("done")
    assert world.ready() == ["plan:2#1"]
    world.deliver("plan:2#1", Planned(tasks=tasks("a", "done", "new")))
    assert sorted(world.ready()) == ["task:a#2", "task:new#1"]
    assert world.task("a").question_id == "question:task:a#1"
    world.complete("a", "new")
    assert world.run.status == "SUCCEEDED"


@pytest.mark.parametrize("how", ["fails", "is released", "asks", "is lost"])
def test_nothing_is_offered_again_while_a_plan_is_made(how: str) -> None:
    world = replanning("a", "b", leased=("b",))
    if how == "fails":
        world.fail("b")
    elif how == "is released":
        world.deliver("task:b#1", Released())
    elif how == "is lost":
        world.expire("task:b#1")
    else:
        asked = world.ask("b")
        assert world.task("b").status == "BLOCKED"
        world.answer(asked)
    assert world.task("b").status == "PENDING"
    assert world.ready() == ["plan:2#1"]
    world.deliver("plan:2#1", Planned(tasks=tasks("a", "b")))
    assert sorted(world.ready()) == ["task:a#2", "task:b#2"]


def test_the_planner_finds_a_place_among_max_parallel() -> None:
    world = asking("a", "b", "c", max_parallel=2)
    world.lease("task:b#1")
    world.lease("task:c#1")
    world.answer("question:task:a#1", replan=True)
    assert world.ready() == []
    world.complete("b")
    assert world.ready() == ["plan:2#1"]


def test_plan_of_a_paused_run_waits_for_the_resume_and_has_its_reason() -> None:
    world = asking("a", "b")
    world.do(Pause(reason="look"))
    world.answer("question:task:a#1", replan=True, reason="another way")
    assert (world.run.phase, world.ready()) == ("PLANNING", [])
    world.do(Resume())
    assert world.ready() == ["plan:2#1"]
    assert world.run.reason == "another way"


def test_a_second_wish_for_a_plan_has_the_planner_begin_anew() -> None:
    world = started("a", "b")
    first, second = world.ask("a"), world.ask("b")
    world.answer(first, replan=True, reason="no network")
    world.lease("plan:2#1")
    world.answer(second, replan=True, reason="no disk")
    assert world.status_of("plan:2#1") == "CANCELLED"
    assert world.ready() == ["plan:2#2"]
    assert world.run.reason == "no network\nno disk"
    assert (world.run.iteration, world.run.step_spent) == (2, 0)


def test_no_plan_is_made_in_the_last_iteration_and_nothing_is_answered() -> None:
    world = asking("a", max_iterations=1)
    version = world.run.version
    assert world.answer("question:task:a#1", replan=True).reason == "LAST_ITERATION"
    assert world.run.version == version
    assert world.answer("question:task:a#1").status == "ACCEPTED"


def test_a_run_that_failed_while_a_plan_was_made_goes_on_with_the_plan() -> None:
    world = started("a", task("b", retry=ONCE))
    asked = world.ask("a")
    world.lease("task:b#1")
    world.answer(asked, replan=True, reason="why")
    world.deliver("task:b#1", Failed(failure=Failure(kind="Boom")))
    assert world.run.status == "FAILED"
    world.do(Resume())
    assert world.ready() == ["plan:2#2"]
    assert world.run.reason == "why"
    assert world.task("b").status == "PENDING"
    world.deliver("plan:2#2", Planned(tasks=tasks("a", "b")))
    assert sorted(world.ready()) == ["task:a#2", "task:b#2"]
