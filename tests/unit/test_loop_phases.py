"""The way of a run through its phases."""

from __future__ import annotations

import pytest

from stepwell.core.loop.signals import Completed, Failed, Planned, Reflected
from stepwell.core.loop.table import PHASE_MOVES, IllegalMove, Trigger, next_phase
from stepwell.core.records.model import Failure, Payload, RetryPolicy, TaskSpec, Usage
from stepwell.core.records.states import (
    Decision,
    FinishReason,
    Phase,
    RunStatus,
    StepKind,
    TaskStatus,
)
from tests.unit.loop_world import BOTH, World, chain


def planned(*ids: str) -> Planned:
    return Planned(tasks=tuple(chain(*ids)))


def test_a_run_plans_executes_reflects_and_synthesizes() -> None:
    world = World()
    world.start()
    assert (world.run.status, world.run.phase) == (RunStatus.QUEUED, Phase.PLANNING)
    world.deliver("plan:1#1", planned("a", "b"))
    assert (world.run.status, world.run.phase) == (RunStatus.RUNNING, Phase.EXECUTING)
    world.complete("a", "b")
    assert world.run.phase is Phase.REFLECTING
    world.deliver("reflect:1#1", Reflected(decision=Decision.FINISH))
    assert world.run.phase is Phase.SYNTHESIZING
    world.deliver("synthesize:1#1", Completed(result=Payload(data=b"42")))
    assert (world.run.status, world.run.phase) == (RunStatus.SUCCEEDED, Phase.DONE)
    assert world.run.result_id == "synthesize:1#1"
    assert world.run.finish_reason is FinishReason.FINISHED
    assert world.kinds() == [
        "RUN_STARTED",
        "EXECUTION_LEASED",
        "PLAN_ACCEPTED",
        "EXECUTION_LEASED",
        "TASK_COMPLETED",
        "EXECUTION_LEASED",
        "TASK_COMPLETED",
        "EXECUTION_LEASED",
        "REFLECTION_ACCEPTED",
        "ITERATION_COMPLETED",
        "EXECUTION_LEASED",
        "RUN_SUCCEEDED",
    ]


def test_a_run_without_stages_ends_with_its_tasks() -> None:
    world = World()
    world.start()
    world.lease("plan:1#1", stages=())
    world.deliver("plan:1#1", planned("a"))
    world.complete("a")
    assert world.run.status is RunStatus.SUCCEEDED
    assert world.run.result_id == ""


def test_the_planning_worker_fixes_the_stages() -> None:
    world = World()
    world.start()
    world.lease("plan:1#1", stages=(StepKind.SYNTHESIZE,))
    world.deliver("plan:1#1", planned("a"))
    assert world.run.stages == (StepKind.SYNTHESIZE,)
    world.complete("a")
    assert world.run.phase is Phase.SYNTHESIZING


def test_a_run_started_with_a_plan_has_no_plan_step() -> None:
    world = World()
    world.start(plan=chain("a"))
    assert world.run.phase is Phase.EXECUTING
    assert world.ready() == ["task:a#1"]
    world.complete("a")
    assert world.run.status is RunStatus.SUCCEEDED


def test_an_invalid_plan_of_the_caller_starts_nothing() -> None:
    world = World()
    reply = world.start(plan=[TaskSpec(task_id="a", depends_on=("x",))])
    assert (reply.status, reply.reason) == ("REFUSED", "PLAN_INVALID")
    assert reply.violations[0].field == "plan.tasks[0].depends_on[0]"
    assert world.run.version == 0


def test_an_invalid_plan_fails_the_attempt_and_is_retried() -> None:
    world = World()
    world.start()
    reply = world.deliver("plan:1#1", Planned(tasks=()))
    assert (reply.status, reply.reason) == ("REJECTED", "PLAN_INVALID")
    assert "PLAN_REJECTED" in world.kinds()
    assert world.ready() == ["plan:1#2"]
    assert world.run.status is RunStatus.RUNNING


def test_tasks_run_in_parallel_up_to_the_limit() -> None:
    world = World()
    world.start(plan=[TaskSpec(task_id=f"t{n}") for n in range(5)], max_parallel=2)
    assert world.ready() == ["task:t0#1", "task:t1#1"]
    world.complete("t0")
    assert world.ready() == ["task:t1#1", "task:t2#1"]


def test_a_task_waits_for_all_its_dependencies() -> None:
    world = World()
    diamond = [
        TaskSpec(task_id="top"),
        TaskSpec(task_id="left", depends_on=("top",)),
        TaskSpec(task_id="right", depends_on=("top",)),
        TaskSpec(task_id="bottom", depends_on=("left", "right")),
    ]
    world.start(plan=diamond)
    world.complete("top", "left")
    assert world.task("bottom").status is TaskStatus.PENDING
    world.complete("right")
    assert world.ready() == ["task:bottom#1"]


def test_continue_goes_on_with_the_plan_that_came_along() -> None:
    world = World()
    world.start()
    world.deliver("plan:1#1", planned("a"))
    world.complete("a")
    more = (TaskSpec(task_id="b", depends_on=("a",)),)
    world.deliver("reflect:1#1", Reflected(decision=Decision.CONTINUE, tasks=more))
    assert (world.run.phase, world.run.iteration, world.run.plan_revision) == (
        Phase.EXECUTING,
        2,
        2,
    )
    assert world.ready() == ["task:b#1"]
    assert world.task("a").status is TaskStatus.COMPLETED


def test_a_task_carried_over_unchanged_is_not_run_again_and_a_changed_one_is() -> None:
    world = World()
    world.start()
    world.deliver("plan:1#1", Planned(tasks=(TaskSpec(task_id="a"), TaskSpec(task_id="b"))))
    world.complete("a", "b")
    again = (TaskSpec(task_id="a"), TaskSpec(task_id="b", prompt="otherwise"))
    world.deliver("reflect:1#1", Reflected(decision=Decision.CONTINUE, tasks=again))
    assert world.ready() == ["task:b#2"]
    assert world.task("a").result_id == "task:a#1"


def test_replan_plans_again() -> None:
    world = World()
    world.start()
    world.deliver("plan:1#1", planned("a"))
    world.complete("a")
    world.deliver("reflect:1#1", Reflected(decision=Decision.REPLAN, reason="not enough"))
    assert (world.run.phase, world.run.iteration) == (Phase.PLANNING, 2)
    assert world.ready() == ["plan:2#1"]
    assert world.run.reason == "not enough"


@pytest.mark.parametrize("decision", [Decision.CONTINUE, Decision.REPLAN])
def test_the_last_iteration_ends_whatever_reflection_says(decision: Decision) -> None:
    world = World()
    world.start(max_iterations=1)
    world.deliver("plan:1#1", planned("a"))
    world.complete("a")
    world.deliver("reflect:1#1", Reflected(decision=decision, tasks=(TaskSpec(task_id="b"),)))
    assert world.run.phase is Phase.SYNTHESIZING
    assert world.run.finish_reason is FinishReason.MAX_ITERATIONS


def test_an_outcome_of_another_kind_of_step_fails_the_attempt() -> None:
    world = World()
    world.start(plan=chain("a"), stages=BOTH)
    reply = world.deliver("task:a#1", Reflected(decision=Decision.FINISH))
    assert (reply.status, reply.reason) == ("REJECTED", "INVALID_OUTCOME")
    assert world.ready() == ["task:a#2"]


def test_a_step_out_of_attempts_fails_the_run_in_its_phase() -> None:
    world = World()
    world.start(step_retry=RetryPolicy(max_attempts=1))
    world.deliver("plan:1#1", Failed(failure=Failure(kind="Boom", message="no model")))
    assert (world.run.status, world.run.phase) == (RunStatus.FAILED, Phase.PLANNING)
    assert world.run.failure.message == "no model"


def test_usage_counts_once_per_attempt() -> None:
    world = World()
    world.start(plan=chain("a"))
    world.deliver(
        "task:a#1", Failed(failure=Failure(kind="x")), usage=Usage(input_tokens=5, cost_micros=2)
    )
    world.deliver("task:a#2", Completed(), usage=Usage(input_tokens=7))
    assert world.run.usage == Usage(input_tokens=12, cost_micros=2)


def test_an_eager_lease_is_in_the_transition_that_made_its_step_ready() -> None:
    world = World()
    world.start(plan=chain("a", "b"))
    token = world.lease("task:a#1")
    version = world.run.version
    from stepwell.core.loop.signals import Delivery

    done = Delivery(execution_id="task:a#1", token=token, result=Completed())
    world.do(done, eager=True)
    assert world.run.version == version + 1
    assert world.leased() == ["task:b#1"]


def test_a_start_delay_holds_the_first_steps_back() -> None:
    world = World()
    world.start(plan=chain("a"), start_delay_ms=500)
    assert world.held("task:a#1").execution.delay_ms == 500
    assert world.run.blocked_on == "TIMER"


def test_every_phase_move_is_in_the_table_and_no_other_is_made() -> None:
    for phase in Phase:
        for trigger in Trigger:
            if (phase, trigger) in PHASE_MOVES:
                assert next_phase(phase, trigger) is PHASE_MOVES[phase, trigger]
            else:
                with pytest.raises(IllegalMove):
                    next_phase(phase, trigger)
