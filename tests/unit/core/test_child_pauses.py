"""Pauses of a run that its child runs follow, in the rules of the loop."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from stepwell.core.loop.letters import Letter, PauseRun, ResumeRun, StartRun
from stepwell.core.loop.occurrences import (
    Completed,
    Open,
    Pause,
    RaiseBudget,
    Resume,
    SuspendedCall,
)
from stepwell.core.records.family import ChildOf
from stepwell.core.records.model import Budget, TaskSpec, Usage
from stepwell.core.records.states import PauseReason, RunStatus
from stepwell.core.records.task_spec import ChildRun
from tests.unit.core.loop_world import World, task
from tests.unit.core.test_children import CHILD, child_of, parent, written

FOLLOWS = replace(CHILD, follow_pauses=True)
STOP, GO = Pause(parent="above", letter=2), Resume(parent="above", letter=3)


def pauses(world: World) -> list[Letter]:
    return [one for one in written(world) if isinstance(one, PauseRun | ResumeRun)]


def child() -> World:
    place = ChildOf(run_id="above", question_id="q", root_run_id="above", depth=1)
    return parent(child_of=place)


def test_a_pause_and_a_resume_are_letters_to_children_that_follow_alone() -> None:
    world = parent()
    world.suspend("task:a#1", kid=FOLLOWS, other=CHILD)
    kid = next(one.prompt for one in world.state.questions.values() if one.call == "kid")
    world.do(Pause())
    world.do(Pause())
    assert pauses(world) == [PauseRun(run_id=kid)]
    world.do(Resume())
    assert pauses(world) == [PauseRun(run_id=kid), ResumeRun(run_id=kid)]


def test_a_task_that_is_a_child_run_follows_if_its_plan_says_so() -> None:
    world = World()
    kid = TaskSpec(task_id="a", child=ChildRun(goal="find out", follow_pauses=True))
    world.start(plan=[kid])
    run_id = child_of(world).prompt
    world.do(Pause())
    assert pauses(world) == [PauseRun(run_id=run_id)]


def test_a_spent_budget_pauses_children_and_a_raise_lets_them_go_on() -> None:
    world = World()
    world.start(
        plan=[task("a"), task("b"), task("c")], budget=Budget(cost_micros=5), max_parallel=2
    )
    world.suspend("task:a#1", kid=FOLLOWS)
    kid = child_of(world).prompt
    world.deliver("task:b#1", Completed(), usage=Usage(cost_micros=5))
    assert world.run.pause_reason is PauseReason.BUDGET_EXHAUSTED
    assert pauses(world) == [PauseRun(run_id=kid)]
    world.do(RaiseBudget(budget=Budget(cost_micros=50)))
    assert pauses(world) == [PauseRun(run_id=kid), ResumeRun(run_id=kid)]


def test_a_child_that_starts_during_a_pause_is_paused_after_its_start() -> None:
    world = parent()
    token = world.lease("task:a#1")
    world.do(Pause())
    calls = (SuspendedCall(call="kid", wait=FOLLOWS),)
    world.do(Open(execution_id="task:a#1", token=token, number=1, calls=calls))
    started, paused = written(world)
    assert isinstance(started, StartRun)
    assert paused == PauseRun(run_id=started.spec.run_id)


def test_a_left_child_goes_on_when_its_step_ends_during_the_pause() -> None:
    world = parent()
    token = world.lease("task:a#1")
    calls = (SuspendedCall(call="kid", wait=replace(FOLLOWS, leave=True)),)
    world.do(Open(execution_id="task:a#1", token=token, number=1, calls=calls))
    kid = child_of(world).prompt
    world.do(Pause())
    world.complete("a")
    assert pauses(world) == [PauseRun(run_id=kid), ResumeRun(run_id=kid)]


def test_a_child_is_paused_by_its_parent_and_goes_on_with_it_once() -> None:
    world = child()
    assert world.do(STOP)[0].status == "ACCEPTED"
    assert (world.run.status, world.run.pause_reason) == (RunStatus.PAUSED, PauseReason.PARENT)
    assert world.ready() == []
    assert world.do(STOP)[0].status == "UNCHANGED"
    assert world.do(GO)[0].status == "ACCEPTED"
    assert world.ready() == ["task:a#2"]
    assert [one.status for one in world.do(STOP, GO)] == ["UNCHANGED", "UNCHANGED"]
    assert world.run.status is not RunStatus.PAUSED


@pytest.mark.parametrize("person_first", [True, False])
def test_a_child_that_a_person_has_paused_is_not_resumed_by_its_parent(person_first: bool) -> None:
    world = child()
    for one in (Pause(), STOP) if person_first else (STOP, Pause()):
        assert world.do(one)[0].status == "ACCEPTED"
    assert world.run.pause_reason is PauseReason.REQUESTED
    assert world.do(GO)[0].status == "UNCHANGED"
    assert world.run.status is RunStatus.PAUSED
    world.do(Resume())
    assert world.do(STOP)[0].status == "UNCHANGED"
    assert world.ready() != []
