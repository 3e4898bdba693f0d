"""The way of a run through its phases."""

from __future__ import annotations

import pytest

from stepwell.core.loop.occurrences import (
    Completed,
    Delivery,
    Failed,
    Planned,
    Reflected,
    TimerDue,
)
from stepwell.core.loop.table import PHASE_MOVES, IllegalMove, Trigger, next_phase
from stepwell.core.records.model import Failure, Payload, RetryPolicy, Usage
from stepwell.core.records.states import Decision, Phase, StepKind
from tests.unit.core.loop_world import BOTH, ONCE, World, chain, planned, started, task, tasks


def test_a_run_plans_executes_reflects_and_synthesizes() -> None:
    world = World()
    world.start()
    assert (world.run.status, world.run.phase) == ("QUEUED", "PLANNING")
    world.deliver("plan:1#1", Planned(tasks=tuple(chain("a", "b"))))
    assert (world.run.status, world.run.phase) == ("RUNNING", "EXECUTING")
    world.complete("a", "b")
    assert world.run.phase == "REFLECTING"
    world.deliver("reflect:1#1", Reflected(decision=Decision.FINISH))
    assert world.run.phase == "SYNTHESIZING"
    world.deliver("synthesize:1#1", Completed(result=Payload(data=b"42")))
    assert (world.run.status, world.run.phase) == ("SUCCEEDED", "DONE")
    assert world.run.result_id == "synthesize:1#1"
    assert world.run.finish_reason == "FINISHED"
    assert [e.message for e in world.events if e.type == "REFLECTION_ACCEPTED"] == ["finish"]
    leased = "EXECUTION_LEASED"
    assert world.kinds() == [
        *("RUN_STARTED", leased, "PLAN_ACCEPTED"),
        *(leased, "TASK_COMPLETED", leased, "TASK_COMPLETED"),
        *(leased, "REFLECTION_ACCEPTED", "ITERATION_COMPLETED"),
        *(leased, "RUN_SUCCEEDED"),
    ]


@pytest.mark.parametrize(("stages", "phase"), [((), "DONE"), (BOTH[1:], "SYNTHESIZING")])
def test_the_planning_worker_fixes_the_stages(stages: tuple[StepKind, ...], phase: str) -> None:
    world = World()
    world.start()
    world.lease("plan:1#1", stages=stages)
    world.deliver("plan:1#1", Planned(tasks=tasks("a")))
    assert world.run.stages == stages
    world.complete("a")
    assert (world.run.phase, world.run.result_id) == (phase, "")


def test_a_run_started_with_a_plan_has_no_plan_step() -> None:
    world = started("a")
    assert world.run.phase == "EXECUTING"
    assert world.ready() == ["task:a#1"]
    world.complete("a")
    assert world.run.status == "SUCCEEDED"


def test_an_invalid_plan_of_the_caller_starts_nothing() -> None:
    world = World()
    reply = world.start(plan=[task("a", "x")])
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
    assert world.run.status == "RUNNING"


def test_an_invalid_plan_is_final_if_the_run_s_policy_says_so() -> None:
    world = World()
    world.start(step_retry=RetryPolicy(non_retryable_kinds=("PLAN_INVALID",)))
    world.deliver("plan:1#1", Planned(tasks=()))
    assert world.ready() == []
    assert world.run.status == "FAILED"


def test_tasks_run_in_parallel_up_to_the_limit() -> None:
    world = started("a", "b", "c", max_parallel=2)
    assert world.ready() == ["task:a#1", "task:b#1"]
    world.complete("a")
    assert world.ready() == ["task:b#1", "task:c#1"]


def test_a_task_waits_for_all_its_dependencies() -> None:
    branches = (task("left", "top"), task("right", "top"))
    world = started("top", *branches, task("bottom", "left", "right"))
    world.complete("top", "left")
    assert world.task("bottom").status == "PENDING"
    world.complete("right")
    assert world.ready() == ["task:bottom#1"]


def test_continue_goes_on_with_the_plan_that_came_along() -> None:
    world = planned(task("a"))
    world.complete("a")
    more = Reflected(decision=Decision.CONTINUE, tasks=(task("b", "a"),))
    world.deliver("reflect:1#1", more)
    assert (world.run.phase, world.run.iteration, world.run.plan_revision) == ("EXECUTING", 2, 2)
    assert world.ready() == ["task:b#1"]
    assert world.task("a").status == "COMPLETED"


def test_replan_plans_again() -> None:
    world = planned(task("a"))
    world.complete("a")
    world.deliver("reflect:1#1", Reflected(decision=Decision.REPLAN, reason="not enough"))
    assert (world.run.phase, world.run.iteration) == ("PLANNING", 2)
    assert world.ready() == ["plan:2#1"]
    assert world.run.reason == "not enough"


@pytest.mark.parametrize("decision", [Decision.CONTINUE, Decision.REPLAN])
def test_the_last_iteration_ends_whatever_reflection_says(decision: Decision) -> None:
    world = planned(task("a"), max_iterations=1)
    world.complete("a")
    world.deliver("reflect:1#1", Reflected(decision=decision, tasks=tasks("b")))
    assert (world.run.phase, world.run.finish_reason) == ("SYNTHESIZING", "MAX_ITERATIONS")


def test_an_outcome_of_another_kind_of_step_fails_the_attempt() -> None:
    world = started("a")
    reply = world.deliver("task:a#1", Reflected(decision=Decision.FINISH))
    assert (reply.status, reply.reason) == ("REJECTED", "INVALID_OUTCOME")
    assert world.ready() == ["task:a#2"]


def test_a_step_out_of_attempts_fails_the_run_in_its_phase() -> None:
    world = World()
    world.start(step_retry=ONCE)
    world.deliver("plan:1#1", Failed(failure=Failure(kind="Boom", message="no model")))
    assert (world.run.status, world.run.phase) == ("FAILED", "PLANNING")
    assert world.run.failure.message == "no model"


def test_usage_of_failed_and_completed_attempts_counts() -> None:
    world = started("a")
    failed = Failed(failure=Failure(kind="x"))
    world.deliver("task:a#1", failed, usage=Usage(input_tokens=5, cost_micros=2))
    world.deliver("task:a#2", Completed(), usage=Usage(input_tokens=7))
    assert world.run.usage == Usage(input_tokens=12, cost_micros=2)


def test_an_eager_lease_is_in_the_transition_that_made_its_step_ready() -> None:
    world = started(*chain("a", "b"))
    token = world.lease("task:a#1")
    version = world.run.version
    world.do(Delivery(execution_id="task:a#1", token=token, result=Completed()), eager=True)
    assert world.run.version == version + 1
    assert world.leased() == ["task:b#1"]


def test_a_start_delay_holds_the_first_steps_back() -> None:
    world = started("a", start_delay_ms=500)
    assert world.held("task:a#1").execution.delay_ms == 500
    assert world.run.blocked_on == "TIMER"


def test_a_wait_that_ends_with_a_lease_has_no_event_of_its_own() -> None:
    together, alone = started("a", start_delay_ms=500), started("a", start_delay_ms=500)
    together.do(TimerDue(name="blocked"), together.take("task:a#1"))
    assert together.kinds()[-2:] == ["PLAN_ACCEPTED", "EXECUTION_LEASED"]
    alone.do(TimerDue(name="blocked"))
    assert (alone.kinds()[-1], alone.run.blocked_on) == ("RUN_BLOCKED", "WORKER")


def test_a_move_that_is_not_in_the_table_is_refused() -> None:
    for phase in Phase:
        for trigger in set(Trigger) - {to for at, to in PHASE_MOVES if at is phase}:
            with pytest.raises(IllegalMove):
                next_phase(phase, trigger)
