"""A new plan while tasks of the old one are in flight: carried over, started again, dropped."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from stepwell.core.loop.occurrences import Completed, Delivery, NeedsAnswer, Planned, Reflected
from stepwell.core.records.model import AttemptCounts, TaskSpec
from stepwell.core.records.states import Decision, OnFailure
from tests.unit.core.loop_world import World, planned, task, tasks


def replanning(*in_flight: str, **fields: Any) -> tuple[World, dict[str, str]]:
    """A run that plans again by an answer to task `ask`, while these are leased; and their tokens."""
    world = planned(*tasks("ask", *in_flight, **fields))
    tokens = {task_id: world.lease(f"task:{task_id}#1") for task_id in in_flight}
    assert world.answer(world.ask("ask"), replan=True).status == "ACCEPTED"
    assert (world.run.phase, world.ready()) == ("PLANNING", ["plan:2#1"])
    return world, tokens


def plan_again(world: World, *plan: TaskSpec) -> None:
    assert world.deliver("plan:2#1", Planned(tasks=plan)).status == "ACCEPTED"


def test_a_plan_names_what_it_carries_over() -> None:
    world = planned(*tasks("a", "b"))
    world.complete("a", "b")
    again = (task("a"), task("b", prompt="otherwise"), task("c"))
    world.deliver("reflect:1#1", Reflected(decision=Decision.CONTINUE, tasks=again))

    assert (world.plans[1].carried, world.plans[2].carried) == ((), ("a",))
    assert (world.plans[2].parent_revision, world.plans[2].trigger) == (1, "CONTINUED")
    assert world.plans[2].fingerprint != world.plans[1].fingerprint
    assert world.ready() == ["task:b#2", "task:c#1"]
    assert world.task("a").result_id == "task:a#1"


def test_a_running_task_that_the_plan_keeps_runs_on() -> None:
    world, tokens = replanning("kept", "done")
    assert world.late("task:done#1", tokens["done"]) == "ACCEPTED"
    plan_again(world, *tasks("kept", "done", "new"))

    assert world.plans[2].trigger == "REPLANNED"
    assert world.task("kept").status == "RUNNING"
    assert world.late("task:kept#1", tokens["kept"]) == "ACCEPTED"
    assert world.statuses() == {
        "ask": "CANCELLED",
        "kept": "COMPLETED",
        "done": "COMPLETED",
        "new": "READY",
    }


def test_a_plan_that_drops_a_running_task_takes_it_from_its_worker() -> None:
    world, tokens = replanning("dropped", total_timeout_ms=1_000)
    assert "total:dropped" in world.timers
    plan = Planned(tasks=tasks("new"))
    token = world.lease("plan:2#1")
    revoked = world.revoked_by(Delivery(execution_id="plan:2#1", token=token, result=plan))
    assert revoked == {"task:dropped#1": "a new plan has no such task any more"}
    plan_again(world, *plan.tasks)

    assert world.task("dropped").status == "CANCELLED"
    assert world.status_of("task:dropped#1") == "CANCELLED"
    assert "total:dropped" not in world.timers
    assert world.late("task:dropped#1", tokens["dropped"]) == "LEASE_LOST"
    assert world.ready() == ["task:new#1"]
    world.complete("new")
    assert world.run.phase == "REFLECTING"


def test_a_running_task_that_is_defined_otherwise_starts_again() -> None:
    world, tokens = replanning("changed")
    plan_again(world, task("changed", prompt="otherwise"))

    assert world.ready() == ["task:changed#2"]
    assert world.task("changed").revision == 2
    assert world.late("task:changed#1", tokens["changed"]) == "LEASE_LOST"
    world.complete("changed")
    assert world.task("changed").result_id == "task:changed#2"


def test_dropping_a_task_closes_its_question() -> None:
    world = planned(*tasks("ask", "other"))
    asked, other = world.ask("ask"), world.ask("other", expires_ms=1_000)
    world.answer(asked, replan=True)
    assert f"question:{other}" in world.timers
    plan_again(world, task("new"))

    assert not world.state.questions
    assert f"question:{other}" not in world.timers
    closed = [one for event in world.events for one in event.questions if one.task_id == "other"]
    assert closed[-1].status == "CANCELLED"
    assert world.answer(other).reason == "QUESTION_NOT_OPEN"


def test_a_task_that_was_dropped_starts_anew_when_a_later_plan_names_it() -> None:
    world, _ = replanning("back")
    plan_again(world, task("other"))
    assert world.task("back").status == "CANCELLED"
    world.complete("other")
    again = Reflected(decision=Decision.CONTINUE, tasks=tasks("other", "back"))
    world.deliver("reflect:2#1", again)

    assert world.plans[3].carried == ("other",)
    assert world.ready() == ["task:back#2"]


def test_attempts_are_counted_by_how_they_ended() -> None:
    world, _ = replanning("dropped")
    plan_again(world, *tasks("a", "b"))
    world.fail("a", retryable=False)

    assert world.run.status == "FAILED"
    assert world.run.attempts == AttemptCounts(completed=2, failed=1, needs_answer=1, cancelled=2)


# --- a plan that changes what carried tasks wait for ------------------------------------------------


def test_task_settled_in_a_plans_commit_counts_for_the_new_graph() -> None:
    """A waiting task waits for what the plan adds, and not for what that very commit completes."""
    below = task("below", "first")
    world = planned(*tasks("ask", "first"), below)
    token = world.lease("task:first#1")
    world.answer(world.ask("ask"), replan=True)
    planner = world.lease("plan:2#1")
    wider = (replace(below, depends_on=("first", "second")), task("last", "first", "second"))
    plan = Planned(tasks=(*tasks("first", "second"), *wider))
    first = Delivery(execution_id="task:first#1", token=token, result=Completed())
    world.do(first, Delivery(execution_id="plan:2#1", token=planner, result=plan))

    assert world.ready() == ["task:second#1"]
    world.complete("second")
    assert world.ready() == ["task:below#1", "task:last#1"]


def carried_over_what_is_done_again(**fields: Any) -> World:
    """A run whose task `below` is leased and carried over, while `first` is to be done otherwise."""
    below = task("below", "first", **fields)
    world = planned(*tasks("ask", "first"), below)
    world.complete("first")
    world.lease("task:below#1")
    world.deliver("task:ask#1", NeedsAnswer(prompt="this way?"))
    world.answer("question:task:ask#1", replan=True)
    plan_again(world, task("first", prompt="new", on_failure=OnFailure.SKIP_DEPENDENTS), below)
    assert (world.leased(), world.ready()) == (["task:below#1"], ["task:first#2"])
    return world


def test_a_lost_attempt_waits_for_what_the_plan_defined_anew_above_it() -> None:
    world = carried_over_what_is_done_again()
    world.expire("task:below#1")
    assert world.ready() == ["task:first#2"]
    world.complete("first")
    assert world.ready() == ["task:below#2"]


def test_the_total_time_out_of_a_skipped_task_runs_no_longer() -> None:
    world = carried_over_what_is_done_again(total_timeout_ms=60_000)
    world.expire("task:below#1")
    assert "total:below" in world.timers
    world.fail("first", retryable=False)
    assert (world.task("below").status, world.timers) == ("SKIPPED", {})
