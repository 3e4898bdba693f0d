"""No progress: a run whose iterations end alike is paused and says so."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell.core.loop.occurrences import (
    Completed,
    Failed,
    Pause,
    Planned,
    Reflected,
    Resume,
    Stop,
)
from stepwell.core.records.model import Failure, Payload, TaskSpec
from stepwell.core.records.states import Decision, OnFailure, StepKind
from tests.unit.core.loop_world import ONCE, World, chain, task

PLAN = tuple(chain("a", "b"))


def reflecting(*plan: TaskSpec, limit: int = 3, max_iterations: int = 20) -> World:
    world = World()
    stages = (StepKind.REFLECT,)
    limits: dict[str, Any] = {"no_progress_limit": limit, "max_iterations": max_iterations}
    world.start(plan=plan or PLAN, stages=stages, **limits)
    return world


def done(limit: int = 3, **spec: int) -> World:
    world = reflecting(limit=limit, **spec)
    world.complete("a", "b")
    return world


def reflect(world: World, tasks: tuple[TaskSpec, ...] = PLAN) -> None:
    decided = Reflected(decision=Decision.CONTINUE, tasks=tasks)
    attempt = world.run.step_attempt
    assert world.deliver(f"reflect:{world.run.iteration}#{attempt}", decided).status == "ACCEPTED"


def stuck(world: World) -> bool:
    return (world.run.status, world.run.pause_reason) == ("PAUSED", "NO_PROGRESS")


def test_a_plan_that_is_carried_on_with_nothing_left_to_do_is_a_circle() -> None:
    world = done()
    reflect(world)
    reflect(world)
    assert not stuck(world)
    reflect(world)
    assert stuck(world)
    assert world.run.iteration == 4
    assert world.events[-1].message.startswith("3 iterations in a row ended with the same plan")
    assert "revision 3" in world.run.reason
    assert world.run.blocked_on == "PAUSED"


def test_the_same_plan_by_planning_again_is_a_circle() -> None:
    world = World()
    world.start(no_progress_limit=2, max_iterations=9)
    for iteration in (1, 2):
        world.deliver(f"plan:{iteration}#1", Planned(tasks=PLAN))
        if iteration == 1:
            world.complete("a", "b")
        world.deliver(f"reflect:{iteration}#1", Reflected(decision=Decision.REPLAN))
    assert stuck(world)
    assert world.run.phase == "PLANNING"


def test_other_plans_are_progress() -> None:
    world = done(limit=2)
    for prompt in ("1", "2", "3"):
        reflect(world, tuple(chain("a", "b", prompt=prompt)))
        world.complete("a", "b")
    assert world.run.tally.repeats == 1
    assert world.run.status == "RUNNING"


def test_digest_depends_on_results_and_not_on_their_order() -> None:
    digests: list[int] = []
    for order, data in (("ab", b"1"), ("ba", b"1"), ("ab", b"2")):
        world = reflecting(task("a"), task("b"))
        for task_id in order:
            world.deliver(f"task:{task_id}#1", Completed(result=Payload(data=data)))
        digests.append(world.run.tally.digest)
    assert digests[0] == digests[1] != digests[2]
    assert 0 <= digests[2] < 2**63


def test_the_kind_of_a_failure_is_part_of_what_a_task_came_to() -> None:
    digests: list[int] = []
    for message, kind in enumerate(("Boom", "Bang", "Boom")):
        world = reflecting(task("a", retry=ONCE, on_failure=OnFailure.CONTINUE))
        world.deliver("task:a#1", Failed(failure=Failure(kind=kind, message=str(message))))
        digests.append(world.run.tally.digest)
    assert digests[0] == digests[2] != digests[1]


def test_a_resume_lets_it_go_on_for_as_many_iterations_again() -> None:
    world = done(limit=2)
    reflect(world)
    reflect(world)
    assert stuck(world)
    assert world.do(Resume())[0].status == "ACCEPTED"
    reflect(world)
    assert world.run.status == "RUNNING"
    reflect(world)
    assert stuck(world)


@pytest.mark.parametrize("spec", [{"limit": 0}, {"limit": 3, "max_iterations": 3}])
def test_it_is_never_said_of_a_run_that_is_not_watched_or_ends_by_itself(
    spec: dict[str, int],
) -> None:
    world = done(**spec)
    for _ in range(3):
        if not world.run.ended:
            reflect(world)
    assert world.run.status in ("SUCCEEDED", "RUNNING")
    assert "RUN_PAUSED" not in world.kinds()


def test_paused_run_keeps_its_reason_and_stops_an_iteration_later() -> None:
    world = done(limit=1)
    world.lease("reflect:1#1")
    world.do(Pause())
    reflect(world)
    assert world.run.pause_reason == "REQUESTED"
    world.do(Resume())
    reflect(world)
    assert stuck(world)


def test_a_run_that_is_to_stop_ends_rather_than_being_paused() -> None:
    world = done(limit=1)
    world.do(Stop())
    reflect(world)
    assert (world.run.status, world.run.finish_reason) == ("SUCCEEDED", "STOPPED")


def test_a_run_without_reflection_keeps_no_digest() -> None:
    world = World()
    world.start(plan=PLAN, no_progress_limit=3)
    world.complete("a", "b")
    assert world.run.tally.digest == 0


A_AND_B = (tuple(chain("a", "b", prompt="one")), tuple(chain("a", "b", prompt="two")))


def test_two_plans_that_take_turns_are_a_circle_once_both_came_up_to_the_limit() -> None:
    world = done(limit=3)
    for iteration in range(6):
        reflect(world, A_AND_B[iteration % 2])
        assert not stuck(world)
        world.complete("a", "b")
    reflect(world, A_AND_B[0])

    assert stuck(world)
    assert (world.run.iteration, world.run.tally.repeats) == (8, 1)
    assert world.events[-1].message.startswith("two plans took turns 3 times (the second is")
    world.do(Resume())
    world.complete("a", "b")
    reflect(world, A_AND_B[1])
    assert world.run.status == "RUNNING"


def test_two_plans_whose_tasks_carry_over_are_a_circle_a_round_later() -> None:
    plans = (PLAN, tuple(chain("x", "y")))
    world = done(limit=2)
    reflect(world, plans[1])
    world.complete("x", "y")
    reflect(world, plans[0])
    reflect(world, plans[1])
    assert not stuck(world)
    reflect(world, plans[0])

    assert stuck(world)
    assert world.run.iteration == 5


def test_other_results_of_two_plans_that_take_turns_are_progress() -> None:
    world = done(limit=2)
    for iteration in range(5):
        reflect(world, A_AND_B[iteration % 2])
        step = world.ready()[0]
        world.deliver(step, Completed(result=Payload(data=b"%d" % iteration)))
        world.complete("b")
    assert (world.run.status, world.run.tally.turns) == ("RUNNING", 0)


def test_added_tasks_are_progress_and_a_grown_plan_carried_on_is_none() -> None:
    world = reflecting(task("list"), limit=2)
    for name in ("list", "more"):
        world.deliver(f"task:{name}#1", Completed(tasks=(task(f"{name}-a"),)))
        world.complete(f"{name}-a")
        reflect(world, (task("more"),) if name == "list" else world.plans[4].tasks)
        assert not stuck(world)
    reflect(world, world.plans[4].tasks)

    assert stuck(world)
