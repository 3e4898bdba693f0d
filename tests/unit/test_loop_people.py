"""People in the loop: questions, answers, what happens without one, and another plan by an answer."""

from __future__ import annotations

import random
from typing import Any

import pytest
from msgspec.structs import replace

from stepwell.core.loop.signals import (
    Answer,
    Cancel,
    Completed,
    Delivery,
    Failed,
    LeaseExpired,
    NeedsInput,
    Pause,
    Planned,
    Released,
    Reply,
    Resume,
    TimerDue,
)
from stepwell.core.records.model import Failure, Payload, RetryPolicy, TaskSpec
from stepwell.core.records.states import (
    EventType,
    ExecutionStatus,
    ExpiryAction,
    InputStatus,
    OnFailure,
    PauseReason,
    Phase,
    RunStatus,
    TaskStatus,
)
from tests.unit.loop_world import World, chain

YES = Payload(data=b"true")
ONCE = RetryPolicy(max_attempts=1)


def asking(*task_ids: str, **spec: Any) -> World:
    """Return a run of independent tasks whose first one has asked."""
    world = World()
    world.start(plan=[TaskSpec(task_id=one) for one in task_ids], **spec)
    ask(world, task_ids[0])
    return world


def ask(world: World, task_id: str, **fields: object) -> str:
    """Have a task's attempt ask; returns the request's id."""
    execution_id = f"task:{task_id}#{world.task(task_id).attempts}"
    result = replace(NeedsInput(prompt=f"{task_id}?"), **fields)
    assert world.deliver(execution_id, result).status == "ACCEPTED"
    return f"input:{execution_id}"


def answer(world: World, input_id: str, **fields: object) -> Reply:
    return world.do(replace(Answer(input_id=input_id, payload=YES), **fields))[0]


def input_of(world: World, input_id: str) -> InputStatus:
    """Return how a request stands, by the last event that has it."""
    found = [one for event in world.events for one in event.inputs if one.input_id == input_id]
    return found[-1].status


# --- asking and answering ----------------------------------------------------------------------------


def test_each_of_ten_parallel_questions_gets_its_own_answer() -> None:
    names = [f"t{n}" for n in range(10)]
    world = World()
    world.start(plan=[TaskSpec(task_id=one) for one in names])
    asked = {ask(world, one): one for one in names}
    assert len(asked) == 10
    assert world.run.status is RunStatus.WAITING
    order = list(asked)
    random.Random(4).shuffle(order)
    for input_id in order:
        answer(world, input_id, payload=Payload(data=asked[input_id].encode()))
        assert world.ready()[-1] == f"task:{asked[input_id]}#2"
    given = {one.task_id: one.answer for event in world.events for one in event.inputs}
    assert given == {one: Payload(data=one.encode()) for one in names}
    assert all(world.task(one).input_id == f"input:task:{one}#1" for one in names)


def test_a_task_that_asks_again_makes_another_request() -> None:
    world = asking("a")
    answer(world, "input:task:a#1")
    assert ask(world, "a") == "input:task:a#2"
    assert world.task("a").input_id == "input:task:a#2"
    assert answer(world, "input:task:a#1").reason == "INPUT_NOT_OPEN"
    assert answer(world, "input:task:a#2").status == "ACCEPTED"


def test_answer_stays_for_every_later_attempt() -> None:
    world = World()
    world.start(plan=[TaskSpec(task_id="a", retry=replace(ONCE, max_attempts=2))])
    input_id = ask(world, "a")
    answer(world, input_id)
    world.fail("a")
    assert world.task("a").input_id == input_id
    world.fail("a")
    assert world.run.status is RunStatus.FAILED
    world.do(Resume())
    assert world.ready() == ["task:a#4"]
    assert world.task("a").input_id == input_id


def test_a_request_is_cancelled_with_its_run_and_can_not_be_answered() -> None:
    world = asking("a")
    world.do(Cancel())
    assert input_of(world, "input:task:a#1") is InputStatus.CANCELLED
    assert answer(world, "input:task:a#1").reason == "INPUT_NOT_OPEN"


# --- expiry --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("paused", [False, True])
@pytest.mark.parametrize(("action", "kind"), [("DENY", "DENIED"), ("FAIL", "INPUT_EXPIRED")])
def test_an_expired_question_fails_its_task_also_while_the_run_is_paused(
    action: str, kind: str, paused: bool
) -> None:
    world = World()
    world.start(plan=chain("a", "b", on_failure=OnFailure.SKIP_DEPENDENTS))
    input_id = ask(world, "a", expires_ms=10, on_expiry=ExpiryAction(action))
    if paused:
        world.do(Pause())
    world.do(TimerDue(name=f"input:{input_id}"))
    assert world.task("a").failure.kind == kind
    assert world.task("a").input_id == ""
    assert world.task("b").status is TaskStatus.SKIPPED
    assert input_of(world, input_id) is InputStatus.EXPIRED
    assert answer(world, input_id).reason == "INPUT_NOT_OPEN"
    assert not world.timers


def test_resume_after_an_expired_question_leaves_it_open() -> None:
    world = World()
    world.start(plan=[TaskSpec(task_id="a"), TaskSpec(task_id="b")])
    input_id = ask(world, "a", expires_ms=10, on_expiry=ExpiryAction.PAUSE)
    world.do(TimerDue(name=f"input:{input_id}"))
    assert (world.run.status, world.run.pause_reason) == (
        RunStatus.PAUSED,
        PauseReason.INPUT_EXPIRED,
    )
    assert world.executions["task:b#1"].status is ExecutionStatus.RELEASED
    world.do(Resume())
    assert world.ready() == ["task:b#2"]
    assert input_of(world, input_id) is InputStatus.OPEN
    assert answer(world, input_id).status == "ACCEPTED"
    assert sorted(world.ready()) == ["task:a#2", "task:b#2"]


def test_answer_to_a_paused_run_is_used_at_the_resume() -> None:
    world = World()
    world.start(plan=[TaskSpec(task_id="a")])
    input_id = ask(world, "a", expires_ms=10, on_expiry=ExpiryAction.PAUSE)
    world.do(TimerDue(name=f"input:{input_id}"))
    answer(world, input_id)
    assert world.run.status is RunStatus.PAUSED
    assert world.ready() == []
    world.do(Resume())
    assert world.ready() == ["task:a#2"]


def test_a_pause_by_expiry_leaves_a_run_that_is_paused_already_as_it_is() -> None:
    world = asking("a")
    world.do(Pause(reason="look"))
    world.do(TimerDue(name="input:input:task:a#1"))
    assert (world.run.pause_reason, world.run.reason) == (PauseReason.REQUESTED, "look")


def test_a_question_that_waits_for_ever_stays_open_when_its_time_is_over() -> None:
    world = World()
    world.start(plan=[TaskSpec(task_id="a")])
    input_id = ask(world, "a", expires_ms=10, on_expiry=ExpiryAction.WAIT)
    world.do(TimerDue(name=f"input:{input_id}"))
    assert world.kinds()[-1] == EventType.INPUT_EXPIRED
    assert not world.timers
    assert answer(world, input_id).status == "ACCEPTED"


# --- another plan --------------------------------------------------------------------------------------


def replanning(*task_ids: str, leased: tuple[str, ...] = (), **spec: Any) -> World:
    """Return a run whose first task asked and was answered with a wish for another plan."""
    world = asking(*task_ids, **spec)
    for task_id in leased:
        world.lease(f"task:{task_id}#1")
    assert answer(world, f"input:task:{task_ids[0]}#1", replan=True, reason="no").status == (
        "ACCEPTED"
    )
    return world


def test_an_answer_may_ask_for_a_plan_before_anything_else_is_dispatched() -> None:
    world = replanning("a", "b", "c", "d", leased=("b", "c"))
    assert (world.run.phase, world.run.iteration) == (Phase.PLANNING, 2)
    assert world.run.reason == "no"
    assert world.ready() == ["plan:2#1"]
    assert world.leased() == ["task:b#1", "task:c#1"]
    assert world.executions["task:d#1"].status is ExecutionStatus.RELEASED
    assert (world.task("d").status, world.task("d").spent) == (TaskStatus.PENDING, 0)
    assert world.kinds()[-2:] == [EventType.INPUT_ANSWERED, EventType.REPLAN_REQUESTED]


def test_work_in_flight_counts_during_planning_and_dropped_tasks_close() -> None:
    world = replanning("a", "kept", "dropped", "done", leased=("kept", "dropped", "done"))
    token = world.held("task:dropped#1").token
    world.complete("done")
    assert world.ready() == ["plan:2#1"]
    plan = (TaskSpec(task_id="a"), TaskSpec(task_id="kept"), TaskSpec(task_id="done"))
    assert world.deliver("plan:2#1", Planned(tasks=(*plan, TaskSpec(task_id="new")))).status == (
        "ACCEPTED"
    )
    assert world.leased() == ["task:kept#1"]
    assert sorted(world.ready()) == ["task:a#2", "task:new#1"]
    assert world.task("a").input_id == "input:task:a#1"
    late = Delivery(execution_id="task:dropped#1", token=token, result=Completed())
    version = world.run.version
    assert world.do(late)[0].status == "LEASE_LOST"
    assert world.run.version == version
    world.complete("kept", "a", "new")
    assert world.run.status is RunStatus.SUCCEEDED
    assert world.task("dropped").status is TaskStatus.CANCELLED


@pytest.mark.parametrize("how", ["fails", "is released", "asks", "is lost"])
def test_nothing_is_offered_again_while_a_plan_is_made(how: str) -> None:
    world = replanning("a", "b", leased=("b",))
    if how == "fails":
        world.fail("b")
    elif how == "is released":
        world.deliver("task:b#1", Released())
    elif how == "is lost":
        world.do(LeaseExpired(execution_id="task:b#1", token=world.held("task:b#1").token))
    else:
        ask(world, "b")
        assert world.task("b").status is TaskStatus.BLOCKED
        answer(world, "input:task:b#1")
    assert world.task("b").status is TaskStatus.PENDING
    assert world.ready() == ["plan:2#1"]
    world.deliver("plan:2#1", Planned(tasks=(TaskSpec(task_id="a"), TaskSpec(task_id="b"))))
    assert sorted(world.ready()) == ["task:a#2", "task:b#2"]


def test_a_question_of_a_dropped_task_is_cancelled() -> None:
    world = World()
    world.start(plan=[TaskSpec(task_id="a"), TaskSpec(task_id="b")])
    first, second = ask(world, "a"), ask(world, "b", expires_ms=10)
    answer(world, first, replan=True)
    world.deliver("plan:2#1", Planned(tasks=(TaskSpec(task_id="a"),)))
    assert input_of(world, second) is InputStatus.CANCELLED
    assert answer(world, second).reason == "INPUT_NOT_OPEN"
    assert not world.timers


def test_the_planner_finds_a_place_among_max_parallel() -> None:
    world = World()
    world.start(plan=[TaskSpec(task_id=one) for one in "abc"], max_parallel=2)
    input_id = ask(world, "a")
    world.lease("task:b#1")
    world.lease("task:c#1")
    answer(world, input_id, replan=True)
    assert world.ready() == []
    world.complete("b")
    assert world.ready() == ["plan:2#1"]


def test_plan_of_a_paused_run_waits_for_the_resume_and_has_its_reason() -> None:
    world = asking("a", "b")
    world.do(Pause(reason="look"))
    answer(world, "input:task:a#1", replan=True, reason="another way")
    assert world.run.phase is Phase.PLANNING
    assert world.ready() == []
    world.do(Resume())
    assert world.ready() == ["plan:2#1"]
    assert world.run.reason == "another way"


def test_a_second_wish_for_a_plan_has_the_planner_begin_anew() -> None:
    world = World()
    world.start(plan=[TaskSpec(task_id="a"), TaskSpec(task_id="b")])
    first, second = ask(world, "a"), ask(world, "b")
    answer(world, first, replan=True, reason="no network")
    world.lease("plan:2#1")
    answer(world, second, replan=True, reason="no disk")
    assert world.executions["plan:2#1"].status is ExecutionStatus.CANCELLED
    assert world.ready() == ["plan:2#2"]
    assert world.run.reason == "no network\nno disk"
    assert (world.run.iteration, world.run.step_spent) == (2, 0)


def test_no_plan_is_made_in_the_last_iteration_and_nothing_is_answered() -> None:
    world = asking("a", max_iterations=1)
    version = world.run.version
    assert answer(world, "input:task:a#1", replan=True).reason == "LAST_ITERATION"
    assert world.run.version == version
    assert answer(world, "input:task:a#1").status == "ACCEPTED"


def test_a_run_that_failed_while_a_plan_was_made_goes_on_with_the_plan() -> None:
    world = World()
    world.start(plan=[TaskSpec(task_id="a"), TaskSpec(task_id="b", retry=ONCE)])
    input_id = ask(world, "a")
    world.lease("task:b#1")
    answer(world, input_id, replan=True, reason="why")
    world.deliver("task:b#1", Failed(failure=Failure(kind="Boom")))
    assert world.run.status is RunStatus.FAILED
    world.do(Resume())
    assert world.ready() == ["plan:2#2"]
    assert world.run.reason == "why"
    assert world.task("b").status is TaskStatus.PENDING
    world.deliver("plan:2#2", Planned(tasks=(TaskSpec(task_id="a"), TaskSpec(task_id="b"))))
    assert sorted(world.ready()) == ["task:a#2", "task:b#2"]
