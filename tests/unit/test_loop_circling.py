"""No progress: a run whose iterations end alike is paused and says so."""

from __future__ import annotations

import pytest

from stepwell.core.loop.signals import (
    Completed,
    Failed,
    Pause,
    Planned,
    Reflected,
    Resume,
    Stop,
)
from stepwell.core.records.model import Failure, Payload, RetryPolicy, TaskSpec
from stepwell.core.records.states import Decision, OnFailure, RunStatus, StepKind
from tests.unit.loop_world import World, chain

PLAN = tuple(chain("a", "b"))
REFLECT = (StepKind.REFLECT,)


def started(*, limit: int = 3, **spec: object) -> World:
    world = World()
    world.start(plan=PLAN, stages=REFLECT, no_progress_limit=limit, **{"max_iterations": 20} | spec)
    return world


def reflect(world: World, tasks: tuple[TaskSpec, ...] = PLAN) -> None:
    decided = Reflected(decision=Decision.CONTINUE, tasks=tasks)
    attempt = world.run.step_attempt
    assert world.deliver(f"reflect:{world.run.iteration}#{attempt}", decided).status == "ACCEPTED"


def stuck(world: World) -> bool:
    run = world.run
    return run.status is RunStatus.PAUSED and run.pause_reason == "NO_PROGRESS"


def test_a_plan_that_is_carried_on_with_nothing_left_to_do_is_a_circle() -> None:
    world = started()
    world.complete("a", "b")
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


def test_other_plans_or_other_results_are_progress() -> None:
    world = started(limit=2)
    world.complete("a", "b")
    for prompt in ("1", "2", "3"):
        reflect(world, tuple(chain("a", "b", prompt=prompt)))
        world.complete("a", "b")
    assert world.run.tally.repeats == 1
    assert world.run.status is RunStatus.RUNNING


def _outcome_of(world: World, order: str, data: bytes) -> int:
    for task_id in order:
        attempt = world.task(task_id).attempts
        world.deliver(f"task:{task_id}#{attempt}", Completed(result=Payload(data=data)))
    return world.run.tally.digest


def test_digest_depends_on_results_and_not_on_their_order() -> None:
    free = (TaskSpec(task_id="a"), TaskSpec(task_id="b"))
    digests: list[int] = []
    for order, data in (("ab", b"1"), ("ba", b"1"), ("ab", b"2")):
        world = World()
        world.start(plan=free, stages=REFLECT, no_progress_limit=3)
        digests.append(_outcome_of(world, order, data))
    assert digests[0] == digests[1] != digests[2]
    assert 0 <= digests[2] < 2**63


def test_the_kind_of_a_failure_is_part_of_what_a_task_came_to() -> None:
    spec = TaskSpec(task_id="a", retry=RetryPolicy(max_attempts=1), on_failure=OnFailure.CONTINUE)
    digests: list[int] = []
    for kind in ("Boom", "Bang", "Boom"):
        world = World()
        world.start(plan=[spec], stages=REFLECT, no_progress_limit=3)
        world.deliver("task:a#1", Failed(failure=Failure(kind=kind, message=str(len(digests)))))
        digests.append(world.run.tally.digest)
    assert digests[0] == digests[2] != digests[1]


def test_a_resume_lets_it_go_on_for_as_many_iterations_again() -> None:
    world = started(limit=2)
    world.complete("a", "b")
    reflect(world)
    reflect(world)
    assert stuck(world)
    assert world.do(Resume())[0].status == "ACCEPTED"
    reflect(world)
    assert world.run.status is RunStatus.RUNNING
    reflect(world)
    assert stuck(world)


@pytest.mark.parametrize("spec", [{"limit": 0}, {"limit": 3, "max_iterations": 3}])
def test_it_is_never_said_of_a_run_that_is_not_watched_or_ends_by_itself(
    spec: dict[str, int],
) -> None:
    world = started(**spec)
    world.complete("a", "b")
    for _ in range(3):
        if not world.run.ended:
            reflect(world)
    assert world.run.status in (RunStatus.SUCCEEDED, RunStatus.RUNNING)
    assert "RUN_PAUSED" not in world.kinds()


def test_paused_run_keeps_its_reason_and_stops_an_iteration_later() -> None:
    world = started(limit=1)
    world.complete("a", "b")
    world.lease("reflect:1#1")
    world.do(Pause())
    reflect(world)
    assert world.run.pause_reason == "REQUESTED"
    world.do(Resume())
    reflect(world)
    assert stuck(world)


def test_a_run_that_is_to_stop_ends_rather_than_being_paused() -> None:
    world = started(limit=1)
    world.complete("a", "b")
    world.do(Stop())
    reflect(world)
    assert world.run.status is RunStatus.SUCCEEDED
    assert world.run.finish_reason == "STOPPED"


def test_a_run_without_reflection_keeps_no_digest() -> None:
    world = World()
    world.start(plan=PLAN, no_progress_limit=3)
    world.complete("a", "b")
    assert world.run.tally.digest == 0
