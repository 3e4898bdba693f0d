"""Budgets: what is used up is seen before anything is dispatched, and only then."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from stepwell.core.loop.budgets import remaining, used_up
from stepwell.core.loop.signals import (
    Answer,
    Completed,
    Delivery,
    Failed,
    GrantLease,
    NeedsInput,
    Pause,
    Planned,
    RaiseBudget,
    Reflected,
    Resume,
    TimerDue,
)
from stepwell.core.records.model import (
    Budget,
    Failure,
    Payload,
    RetryPolicy,
    Run,
    RunSpec,
    Tally,
    TaskSpec,
    Usage,
)
from stepwell.core.records.states import Decision, OnFailure, RunStatus, StepKind, TaskStatus
from tests.unit.loop_world import World, chain

THREE = [TaskSpec(task_id=name) for name in "abc"]
WALL = "budget:wall:1000"


def started(budget: Budget, tasks: list[TaskSpec] | None = None, **spec: Any) -> World:
    world = World()
    world.start(plan=tasks or THREE, budget=budget, **spec)
    return world


def paused(world: World) -> bool:
    run = world.run
    return run.status is RunStatus.PAUSED and run.pause_reason == "BUDGET_EXHAUSTED"


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ("input_tokens", "input_tokens: 12 of 10 used"),
        ("output_tokens", "output_tokens: 12 of 10 used"),
        ("cost_micros", "cost_micros: 12 of 10 used"),
    ],
)
def test_usage_over_a_limit_withdraws_ready_tasks_and_lets_leased_ones_end(
    part: str, words: str
) -> None:
    world = started(Budget(**{part: 10}))
    world.lease("task:b#1")
    world.deliver("task:a#1", Completed(), usage=Usage(**{part: 12}))
    assert paused(world)
    assert world.run.blocked_on == "BUDGET"
    assert world.events[-1].message.startswith(words)
    assert world.ready() == []
    assert world.leased() == ["task:b#1"]
    world.deliver("task:b#1", Completed(), usage=Usage(**{part: 1}))
    assert world.task("b").status is TaskStatus.COMPLETED
    assert world.task("c").status is TaskStatus.PENDING
    assert paused(world)


def test_budget_used_exactly_is_used_up() -> None:
    world = started(Budget(input_tokens=10))
    world.deliver("task:a#1", Completed(), usage=Usage(input_tokens=9))
    assert world.run.status is RunStatus.RUNNING
    world.deliver("task:b#1", Completed(), usage=Usage(input_tokens=1))
    assert paused(world)


def test_a_run_that_has_nothing_left_to_dispatch_is_not_stopped_by_its_budget() -> None:
    world = started(Budget(input_tokens=10), chain("a", "b"))
    world.complete("a")
    world.deliver("task:b#1", Completed(), usage=Usage(input_tokens=100))
    assert world.run.status is RunStatus.SUCCEEDED


def test_work_in_flight_may_bring_a_paused_run_to_its_end() -> None:
    world = started(Budget(input_tokens=10), [TaskSpec(task_id="a"), TaskSpec(task_id="b")])
    world.lease("task:a#1")
    world.lease("task:b#1")
    world.deliver("task:a#1", Completed(), usage=Usage(input_tokens=100))
    assert world.run.status is RunStatus.RUNNING, "there is nothing to hold back"
    world.complete("b")
    assert world.run.status is RunStatus.SUCCEEDED


def test_failed_attempts_usage_counts_and_stops_retries() -> None:
    world = started(Budget(cost_micros=5), [TaskSpec(task_id="a")])
    failed = Failed(failure=Failure(kind="Boom"))
    world.deliver("task:a#1", failed, usage=Usage(cost_micros=5))
    assert paused(world)
    assert world.task("a").status is TaskStatus.PENDING
    assert "task:a#2" not in world.executions


def test_usage_that_is_sent_twice_counts_once() -> None:
    world = started(Budget(input_tokens=100))
    token = world.lease("task:a#1")
    once = Delivery(
        execution_id="task:a#1", token=token, result=Completed(), usage=Usage(input_tokens=7)
    )
    assert world.do(once)[0].status == "ACCEPTED"
    assert world.do(once)[0].status == "LEASE_LOST"
    token = world.lease("task:b#1")
    twice = Delivery(
        execution_id="task:b#1", token=token, result=Completed(), usage=Usage(input_tokens=7)
    )
    assert [reply.status for reply in world.do(twice, twice)] == ["ACCEPTED", "LEASE_LOST"]
    assert world.run.usage == Usage(input_tokens=14)


def test_nothing_is_leased_in_the_transition_that_uses_the_budget_up() -> None:
    world = started(Budget(input_tokens=5))
    token = world.lease("task:a#1")
    late = GrantLease(execution_id="task:b#1", token="late", worker_id="w")
    done = Delivery(
        execution_id="task:a#1", token=token, result=Completed(), usage=Usage(input_tokens=5)
    )
    assert [reply.status for reply in world.do(done, late)] == ["ACCEPTED", "REFUSED"]
    assert world.leased() == []


def test_last_task_of_a_budget_may_retry_and_the_next_is_not_offered() -> None:
    world = started(Budget(tasks=2), max_parallel=1)
    world.complete("a")
    world.fail("b")
    assert world.run.status is RunStatus.RUNNING
    world.complete("b")
    assert paused(world)
    assert world.events[-1].message.startswith("tasks: 2 of 2 used")
    assert world.run.tally.tasks == 2


def test_a_task_is_counted_once_whatever_becomes_of_it() -> None:
    world = started(Budget(tasks=3))
    world.do(Pause())
    world.do(Resume())
    assert world.run.tally.tasks == 3
    world.complete("a", "b", "c")
    assert world.run.status is RunStatus.SUCCEEDED


def test_tasks_count_over_all_plans_and_redefined_ones_count_again() -> None:
    world = World()
    both = (StepKind.REFLECT,)
    world.start(plan=[TaskSpec(task_id="a")], stages=both, budget=Budget(tasks=2))
    for prompt in ("again", "and again"):
        world.complete("a")
        tasks = (TaskSpec(task_id="a", prompt=prompt),)
        world.deliver(
            f"reflect:{world.run.iteration}#1",
            Reflected(decision=Decision.CONTINUE, tasks=tasks),
        )
    assert paused(world)
    assert world.run.tally.tasks == 2


def test_a_task_budget_waits_for_an_answer_that_lets_a_begun_task_go_on() -> None:
    world = started(Budget(tasks=1), max_parallel=1)
    world.deliver("task:a#1", NeedsInput(prompt="?"))
    assert world.run.status is RunStatus.WAITING
    world.do(Answer(input_id="input:task:a#1", payload=Payload(data=b"1")))
    world.complete("a")
    assert paused(world)


def test_the_steps_that_are_no_tasks_run_when_tasks_are_used_up() -> None:
    world = World()
    world.start(budget=Budget(tasks=1))
    world.deliver("plan:1#1", Planned(tasks=tuple(chain("a"))))
    world.complete("a")
    assert world.ready() == ["reflect:1#1"]
    world.deliver("reflect:1#1", Reflected(decision=Decision.FINISH))
    world.deliver("synthesize:1#1", Completed())
    assert world.run.status is RunStatus.SUCCEEDED


@pytest.mark.parametrize("decision", [Decision.CONTINUE, Decision.REPLAN])
def test_iteration_beyond_the_budget_dispatches_nothing(
    decision: Decision,
) -> None:
    world = World()
    world.start(budget=Budget(iterations=1))
    world.deliver("plan:1#1", Planned(tasks=tuple(chain("a"))))
    world.complete("a")
    world.deliver("reflect:1#1", Reflected(decision=decision, tasks=tuple(chain("b"))))
    assert paused(world)
    assert world.run.iteration == 2
    assert world.events[-1].message.startswith("iterations: 1 of 1 used")
    assert world.do(RaiseBudget(budget=Budget(iterations=2)))[0].status == "ACCEPTED"
    assert world.ready() == ["task:b#1" if decision is Decision.CONTINUE else "plan:2#1"]


def test_wall_time_starts_at_the_first_lease_and_pauses_the_run() -> None:
    world = started(Budget(wall_ms=1000))
    assert world.timers == {}
    world.lease("task:a#1")
    assert world.timers == {WALL: 1000}
    world.do(TimerDue(name=WALL))
    assert paused(world)
    assert world.timers == {}
    assert world.leased() == ["task:a#1"]
    assert "wall: the 1 s" in world.run.reason
    assert world.do(Resume())[0].reason == "BUDGET_EXHAUSTED"


def test_raise_extends_the_wall_time_and_ignores_the_older_timer() -> None:
    world = started(Budget(wall_ms=1000))
    world.lease("task:a#1")
    world.do(TimerDue(name=WALL))
    world.do(RaiseBudget(budget=Budget(wall_ms=5000)))
    assert world.run.status is RunStatus.RUNNING
    assert world.timers == {"budget:wall:5000": 4000}
    version = world.run.version
    world.do(TimerDue(name=WALL))
    assert world.run.version == version


def test_the_wall_time_goes_on_after_a_failed_run_is_resumed() -> None:
    once = RetryPolicy(max_attempts=1)
    world = started(Budget(wall_ms=60_000), [TaskSpec(task_id="a", retry=once)])
    world.fail("a")
    assert world.run.status is RunStatus.FAILED
    assert world.timers == {}
    world.now_us += 10_000_000
    world.do(Resume())
    assert 49_000 < world.timers["budget:wall:60000"] < 50_000


def test_wall_time_over_during_a_pause_is_reported_at_the_resume() -> None:
    world = started(Budget(wall_ms=1000))
    world.lease("task:a#1")
    world.do(Pause(reason="look"))
    world.do(TimerDue(name=WALL))
    assert world.run.pause_reason == "REQUESTED"
    assert world.run.reason == "look"
    world.do(Resume())
    assert paused(world)


def test_a_resume_without_a_raise_is_refused_and_says_which_part() -> None:
    world = started(Budget(input_tokens=1))
    world.deliver("task:a#1", Completed(), usage=Usage(input_tokens=3))
    version = world.run.version
    reply = world.do(Resume())[0]
    assert reply.reason == "BUDGET_EXHAUSTED"
    assert "input_tokens: 3 of 1 used" in reply.message
    assert "RaiseBudget" in reply.message
    assert world.run.version == version


def test_a_failed_run_that_is_out_of_budget_is_paused_by_its_resume() -> None:
    once = RetryPolicy(max_attempts=1)
    world = started(Budget(input_tokens=1), [TaskSpec(task_id="a", retry=once)])
    failed = Failed(failure=Failure(kind="Boom"))
    world.deliver("task:a#1", failed, usage=Usage(input_tokens=3))
    assert world.run.status is RunStatus.FAILED
    assert world.do(Resume())[0].status == "ACCEPTED"
    assert paused(world)
    world.do(RaiseBudget(budget=Budget(input_tokens=10)))
    assert world.ready() == ["task:a#2"]


def test_sufficient_raise_resumes_and_insufficient_one_names_the_rest() -> None:
    world = started(Budget(input_tokens=1))
    world.deliver("task:a#1", Completed(), usage=Usage(input_tokens=5))
    assert world.do(RaiseBudget(budget=Budget(input_tokens=5)))[0].status == "ACCEPTED"
    assert paused(world)
    assert world.run.reason.startswith("input_tokens: 5 of 5 used")
    world.do(RaiseBudget(budget=Budget(input_tokens=6)))
    assert world.run.status is RunStatus.RUNNING
    assert world.kinds()[-2:] == ["BUDGET_RAISED", "RUN_RESUMED"]


def test_raise_may_leave_the_run_paused_until_a_resume() -> None:
    world = started(Budget(input_tokens=1))
    world.deliver("task:a#1", Completed(), usage=Usage(input_tokens=5))
    world.do(RaiseBudget(budget=Budget(input_tokens=9), resume=False))
    assert world.run.status is RunStatus.PAUSED
    assert world.do(Resume())[0].status == "ACCEPTED"
    assert world.run.status is RunStatus.RUNNING


def test_a_raise_does_not_resume_what_a_person_paused() -> None:
    world = started(Budget(input_tokens=1))
    world.do(Pause())
    world.do(RaiseBudget(budget=Budget(input_tokens=9)))
    assert world.run.pause_reason == "REQUESTED"


def test_a_raise_of_one_part_leaves_a_run_paused_for_another() -> None:
    world = started(Budget(input_tokens=1, output_tokens=1))
    world.deliver("task:a#1", Completed(), usage=Usage(input_tokens=5, output_tokens=5))
    assert "input_tokens: 5 of 1 used, output_tokens: 5 of 1 used" in world.run.reason
    world.do(RaiseBudget(budget=Budget(input_tokens=9)))
    assert paused(world)
    assert "input_tokens" not in world.run.reason


def test_a_budget_is_never_lowered_and_the_fields_are_named() -> None:
    world = started(Budget(input_tokens=10, wall_ms=2000))
    lower = Budget(input_tokens=9, output_tokens=5, wall_ms=1000, tasks=0)
    reply = world.do(RaiseBudget(budget=lower))[0]
    assert reply.reason == "BUDGET_LOWERED"
    fields = {one.field: one.description for one in reply.violations}
    assert set(fields) == {"budget.input_tokens", "budget.output_tokens", "budget.wall"}
    assert "the limit is 10" in fields["budget.input_tokens"]
    assert "there is no limit" in fields["budget.output_tokens"]
    assert world.run.budget == Budget(input_tokens=10, wall_ms=2000)


def test_a_raise_of_nothing_changes_nothing_and_an_ended_run_is_not_raised() -> None:
    world = started(Budget(input_tokens=10), chain("a"))
    assert world.do(RaiseBudget(budget=Budget(input_tokens=10)))[0].status == "UNCHANGED"
    world.complete("a")
    assert world.do(RaiseBudget(budget=Budget(input_tokens=20)))[0].reason == "RUN_ENDED"


def test_remaining_budget_is_reported_by_part_and_never_as_0() -> None:
    budget = Budget(input_tokens=10, tasks=5, wall_ms=10_000, iterations=4)
    world = started(budget)
    world.deliver("task:a#1", Completed(), usage=Usage(input_tokens=9, output_tokens=4))
    left = remaining(world.run, world.run.started_us + 4_000_000)
    assert left == Budget(input_tokens=1, tasks=2, wall_ms=6_000, iterations=3)
    late = remaining(world.run, world.run.started_us + 40_000_000)
    assert late.wall_ms == 1
    assert remaining(started(Budget()).run, 0) == Budget()


def test_a_task_that_failed_and_was_passed_over_leaves_the_count_as_it_is() -> None:
    once = RetryPolicy(max_attempts=1)
    spec = TaskSpec(task_id="a", retry=once, on_failure=OnFailure.CONTINUE)
    world = started(Budget(tasks=1), [spec, TaskSpec(task_id="b")], max_parallel=1)
    world.fail("a")
    assert paused(world)
    assert world.run.tally.tasks == 1


def test_a_fork_counts_the_iterations_and_tasks_that_it_begins_itself() -> None:
    before = Run(
        spec=RunSpec(tenant_id="t", run_id="r"),
        budget=Budget(iterations=2, tasks=1),
        iteration=5,
        tally=Tally(iterations_before=4),
    )
    assert used_up(before) == ()
    assert remaining(before, 0) == Budget(iterations=1, tasks=1)
    (gone,) = used_up(replace(before, iteration=7))
    assert (gone.part, gone.limit, gone.used) == ("iterations", 2, 2)


def test_budget_is_exceeded_by_work_in_flight_only() -> None:
    world = started(Budget(input_tokens=10))
    for task_id in "abc":
        world.lease(f"task:{task_id}#1")
    for task_id in "abc":
        world.deliver(f"task:{task_id}#1", Completed(), usage=Usage(input_tokens=9))
    assert world.run.usage.input_tokens == 27
    assert world.run.status is RunStatus.SUCCEEDED
