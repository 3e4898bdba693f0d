"""Budgets: what is used up is seen before anything is dispatched, and only then."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from stepwell.core.loop.budgets import remaining, used_up
from stepwell.core.loop.occurrences import (
    Completed,
    Delivery,
    Failed,
    GrantLease,
    Pause,
    Planned,
    RaiseBudget,
    Reflected,
    Resume,
    TimerDue,
)
from stepwell.core.loop.transition import Reply
from stepwell.core.records.model import Budget, Failure, Run, RunSpec, Tally, TaskSpec, Usage
from stepwell.core.records.states import Decision, OnFailure, StepKind
from tests.unit.core.loop_world import ONCE, World, chain, started, task

WALL = "budget:wall:1000"


def limited(*plan: TaskSpec | str, max_parallel: int = 8, **budget: int) -> World:
    """Return a run of this plan, or of three tasks, with a budget."""
    return started(*(plan or "abc"), max_parallel=max_parallel, budget=Budget(**budget))


def use(world: World, task_id: str, **usage: int) -> None:
    attempt = world.task(task_id).attempts
    used = replace(Usage(), **usage)
    world.deliver(f"task:{task_id}#{attempt}", Completed(), usage=used)


def more(world: World, *, resume: bool = True, **budget: int) -> Reply:
    return world.do(RaiseBudget(budget=Budget(**budget), resume=resume))[0]


def paused(world: World) -> bool:
    return (world.run.status, world.run.pause_reason) == ("PAUSED", "BUDGET_EXHAUSTED")


# --- tokens and cost --------------------------------------------------------------------------------


@pytest.mark.parametrize("part", ["input_tokens", "output_tokens", "cost_micros"])
def test_usage_over_a_limit_withdraws_ready_tasks_and_lets_leased_ones_end(part: str) -> None:
    world = limited(**{part: 10})
    world.lease("task:b#1")
    use(world, "a", **{part: 12})
    assert paused(world)
    assert world.run.blocked_on == "BUDGET"
    assert world.events[-1].message.startswith(f"{part}: 12 of 10 used")
    assert (world.ready(), world.leased()) == ([], ["task:b#1"])
    use(world, "b", **{part: 1})
    assert world.statuses() == {"a": "COMPLETED", "b": "COMPLETED", "c": "PENDING"}
    assert paused(world)


def test_budget_used_exactly_is_used_up() -> None:
    world = limited(input_tokens=10)
    use(world, "a", input_tokens=9)
    assert world.run.status == "RUNNING"
    use(world, "b", input_tokens=1)
    assert paused(world)


def test_budget_is_exceeded_by_work_in_flight_only() -> None:
    world = limited(input_tokens=10)
    for task_id in "abc":
        world.lease(f"task:{task_id}#1")
    for task_id in "abc":
        assert world.run.status == "RUNNING", "there is nothing to hold back"
        use(world, task_id, input_tokens=9)
    assert (world.run.usage.input_tokens, world.run.status) == (27, "SUCCEEDED")


def test_failed_attempts_usage_counts_and_stops_retries() -> None:
    world = limited("a", cost_micros=5)
    failed = Failed(failure=Failure(kind="Boom"))
    world.deliver("task:a#1", failed, usage=Usage(cost_micros=5))
    assert paused(world)
    assert world.task("a").status == "PENDING"
    assert "task:a#2" not in world.executions


def test_usage_that_is_sent_twice_counts_once() -> None:
    world = limited(input_tokens=100)
    once, twice = (
        Delivery(
            execution_id=name,
            token=world.lease(name),
            result=Completed(),
            usage=Usage(input_tokens=7),
        )
        for name in ("task:a#1", "task:b#1")
    )
    assert world.do(once)[0].status == "ACCEPTED"
    assert world.do(once)[0].status == "LEASE_LOST"
    assert [reply.status for reply in world.do(twice, twice)] == ["ACCEPTED", "LEASE_LOST"]
    assert world.run.usage == Usage(input_tokens=14)


def test_nothing_is_leased_in_the_transition_that_uses_the_budget_up() -> None:
    world = limited(input_tokens=5)
    token, usage = world.lease("task:a#1"), Usage(input_tokens=5)
    done = Delivery(execution_id="task:a#1", token=token, result=Completed(), usage=usage)
    late = GrantLease(execution_id="task:b#1", token="late", worker_id="w")
    assert [reply.status for reply in world.do(done, late)] == ["ACCEPTED", "REFUSED"]
    assert world.leased() == []


# --- tasks and iterations ---------------------------------------------------------------------------


def test_last_task_of_a_budget_may_retry_and_the_next_is_not_offered() -> None:
    world = limited(tasks=2, max_parallel=1)
    world.complete("a")
    world.fail("b")
    assert world.run.status == "RUNNING"
    world.complete("b")
    assert paused(world)
    assert world.events[-1].message.startswith("tasks: 2 of 2 used")
    assert world.run.tally.tasks == 2


def test_a_task_is_counted_once_whatever_becomes_of_it() -> None:
    world = limited(tasks=3)
    world.do(Pause())
    world.do(Resume())
    assert world.run.tally.tasks == 3
    world.complete("a", "b", "c")
    assert world.run.status == "SUCCEEDED"

    passed_over = task("a", retry=ONCE, on_failure=OnFailure.CONTINUE)
    world = limited(passed_over, "b", tasks=1, max_parallel=1)
    world.fail("a")
    assert paused(world)
    assert world.run.tally.tasks == 1


def test_tasks_count_over_all_plans_and_redefined_ones_count_again() -> None:
    world = World()
    world.start(plan=[task("a")], stages=(StepKind.REFLECT,), budget=Budget(tasks=2))
    for prompt in ("again", "and again"):
        world.complete("a")
        again = Reflected(decision=Decision.CONTINUE, tasks=(task("a", prompt=prompt),))
        world.deliver(f"reflect:{world.run.iteration}#1", again)
    assert paused(world)
    assert world.run.tally.tasks == 2


def test_a_task_budget_waits_for_an_answer_that_lets_a_begun_task_go_on() -> None:
    world = limited(tasks=1, max_parallel=1)
    asked = world.ask("a")
    assert world.run.status == "WAITING"
    world.answer(asked)
    world.complete("a")
    assert paused(world)


def planned(**budget: int) -> World:
    world = World()
    world.start(budget=Budget(**budget))
    world.deliver("plan:1#1", Planned(tasks=(task("a"),)))
    world.complete("a")
    return world


def test_the_steps_that_are_no_tasks_run_when_tasks_are_used_up() -> None:
    world = planned(tasks=1)
    assert world.ready() == ["reflect:1#1"]
    world.deliver("reflect:1#1", Reflected(decision=Decision.FINISH))
    world.deliver("synthesize:1#1", Completed())
    assert world.run.status == "SUCCEEDED"


@pytest.mark.parametrize(
    ("decision", "next_step"), [(Decision.CONTINUE, "task:b#1"), (Decision.REPLAN, "plan:2#1")]
)
def test_iteration_beyond_the_budget_dispatches_nothing(decision: Decision, next_step: str) -> None:
    world = planned(iterations=1)
    world.deliver("reflect:1#1", Reflected(decision=decision, tasks=(task("b"),)))
    assert paused(world)
    assert world.run.iteration == 2
    assert world.events[-1].message.startswith("iterations: 1 of 1 used")
    assert more(world, iterations=2).status == "ACCEPTED"
    assert world.ready() == [next_step]


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


# --- wall time --------------------------------------------------------------------------------------


def test_wall_time_starts_at_the_first_lease_and_a_raise_extends_it() -> None:
    world = limited(wall_ms=1000)
    assert world.timers == {}
    world.lease("task:a#1")
    assert world.timers == {WALL: 1000}
    world.do(TimerDue(name=WALL))
    assert paused(world)
    assert (world.timers, world.leased()) == ({}, ["task:a#1"])
    assert "wall: the 1 s" in world.run.reason
    assert world.do(Resume())[0].reason == "BUDGET_EXHAUSTED"
    more(world, wall_ms=5000)
    assert world.run.status == "RUNNING"
    assert world.timers == {"budget:wall:5000": 4000}
    version = world.run.version
    world.do(TimerDue(name=WALL))
    assert world.run.version == version, "the older timer is ignored"


def test_the_wall_time_goes_on_after_a_failed_run_is_resumed() -> None:
    world = limited(task("a", retry=ONCE), wall_ms=60_000)
    world.fail("a")
    assert (world.run.status, world.timers) == ("FAILED", {})
    world.now_us += 10_000_000
    world.do(Resume())
    assert 49_000 < world.timers["budget:wall:60000"] < 50_000


def test_wall_time_over_during_a_pause_is_reported_at_the_resume() -> None:
    world = limited(wall_ms=1000)
    world.lease("task:a#1")
    world.do(Pause(reason="look"))
    world.do(TimerDue(name=WALL))
    assert (world.run.pause_reason, world.run.reason) == ("REQUESTED", "look")
    world.do(Resume())
    assert paused(world)


# --- raises and resumes -----------------------------------------------------------------------------


def test_a_resume_without_a_raise_is_refused_and_says_which_part() -> None:
    world = limited(input_tokens=1)
    use(world, "a", input_tokens=3)
    version = world.run.version
    reply = world.do(Resume())[0]
    assert reply.reason == "BUDGET_EXHAUSTED"
    assert "input_tokens: 3 of 1 used" in reply.message
    assert "raise the budget" in reply.message
    assert world.run.version == version


def test_a_failed_run_that_is_out_of_budget_is_paused_by_its_resume() -> None:
    world = limited(task("a", retry=ONCE), input_tokens=1)
    failed = Failed(failure=Failure(kind="Boom"))
    world.deliver("task:a#1", failed, usage=Usage(input_tokens=3))
    assert world.run.status == "FAILED"
    assert world.do(Resume())[0].status == "ACCEPTED"
    assert paused(world)
    more(world, input_tokens=10)
    assert world.ready() == ["task:a#2"]


def test_sufficient_raise_resumes_and_insufficient_one_names_the_rest() -> None:
    world = limited(input_tokens=1, output_tokens=1)
    use(world, "a", input_tokens=5, output_tokens=5)
    assert "input_tokens: 5 of 1 used, output_tokens: 5 of 1 used" in world.run.reason
    assert more(world, input_tokens=6, output_tokens=5).status == "ACCEPTED"
    assert paused(world)
    assert world.run.reason.startswith("output_tokens: 5 of 5 used")
    more(world, output_tokens=6)
    assert world.run.status == "RUNNING"
    assert world.kinds()[-2:] == ["BUDGET_RAISED", "RUN_RESUMED"]


def test_raise_may_leave_the_run_paused_until_a_resume() -> None:
    world = limited(input_tokens=1)
    use(world, "a", input_tokens=5)
    more(world, input_tokens=9, resume=False)
    assert world.run.status == "PAUSED"
    assert world.do(Resume())[0].status == "ACCEPTED"
    assert world.run.status == "RUNNING"


def test_a_raise_does_not_resume_what_a_person_paused() -> None:
    world = limited(input_tokens=1)
    world.do(Pause())
    more(world, input_tokens=9)
    assert world.run.pause_reason == "REQUESTED"


def test_a_budget_is_never_lowered_and_the_fields_are_named() -> None:
    world = limited(input_tokens=10, wall_ms=2000)
    reply = more(world, input_tokens=9, output_tokens=5, wall_ms=1000, tasks=0)
    assert reply.reason == "BUDGET_LOWERED"
    fields: dict[str, Any] = {one.field: one.description for one in reply.violations}
    assert set(fields) == {"budget.input_tokens", "budget.output_tokens", "budget.wall"}
    assert "the limit is 10" in fields["budget.input_tokens"]
    assert "there is no limit" in fields["budget.output_tokens"]
    assert world.run.budget == Budget(input_tokens=10, wall_ms=2000)


def test_a_raise_of_nothing_changes_nothing_and_an_ended_run_is_not_raised() -> None:
    world = limited(*chain("a"), input_tokens=10)
    assert more(world, input_tokens=10).status == "UNCHANGED"
    use(world, "a", input_tokens=100)
    assert world.run.status == "SUCCEEDED", "there was nothing left to dispatch"
    assert more(world, input_tokens=20).reason == "RUN_ENDED"


def test_remaining_budget_is_reported_by_part_and_never_as_0() -> None:
    world = limited(input_tokens=10, tasks=5, wall_ms=10_000, iterations=4)
    use(world, "a", input_tokens=9, output_tokens=4)
    left = remaining(world.run, world.run.started_us + 4_000_000)
    assert left == Budget(input_tokens=1, tasks=2, wall_ms=6_000, iterations=3)
    assert remaining(world.run, world.run.started_us + 40_000_000).wall_ms == 1
    assert remaining(limited().run, 0) == Budget()
