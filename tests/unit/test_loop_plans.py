"""A new plan while tasks of the old one are in flight: carried over, started again, dropped."""

from __future__ import annotations

from msgspec.structs import replace

from stepwell.core.loop.signals import (
    Answer,
    Completed,
    Delivery,
    LeaseExpired,
    NeedsInput,
    Planned,
    Reflected,
)
from stepwell.core.records.model import AttemptCounts, Payload, TaskSpec
from stepwell.core.records.states import (
    Decision,
    InputStatus,
    OnFailure,
    Phase,
    RunStatus,
    TaskStatus,
)
from tests.unit.loop_world import World

NO = Payload(data=b"false")


def flat(*ids: str, **fields: object) -> tuple[TaskSpec, ...]:
    return tuple(replace(TaskSpec(task_id=task_id), **fields) for task_id in ids)


def replanning(*in_flight: str, **fields: object) -> tuple[World, dict[str, str]]:
    """A run that plans again by an answer to task `ask`, while these are leased; and their tokens."""
    world = World()
    world.start()
    world.deliver("plan:1#1", Planned(tasks=flat("ask", *in_flight, **fields)))
    tokens = {task_id: world.lease(f"task:{task_id}#1") for task_id in in_flight}
    world.deliver("task:ask#1", NeedsInput(prompt="this way?"))
    answer = Answer(input_id="input:task:ask#1", payload=NO, replan=True)
    assert world.do(answer)[0].status == "ACCEPTED"
    assert world.run.phase is Phase.PLANNING
    assert world.ready() == ["plan:2#1"]
    return world, tokens


def late(world: World, task_id: str, token: str) -> str:
    delivery = Delivery(execution_id=f"task:{task_id}#1", token=token, result=Completed())
    before = world.run
    status = world.do(delivery)[0].status
    if status == "LEASE_LOST":
        assert world.run == before, "a refused outcome left something behind"
    return status


def test_a_plan_names_what_it_carries_over() -> None:
    world = World()
    world.start()
    world.deliver("plan:1#1", Planned(tasks=flat("a", "b")))
    world.complete("a", "b")
    again = (*flat("a"), *flat("b", prompt="otherwise"), *flat("c"))
    world.deliver("reflect:1#1", Reflected(decision=Decision.CONTINUE, tasks=again))

    assert world.plans[1].carried == ()
    assert world.plans[2].carried == ("a",)
    assert (world.plans[2].parent_revision, world.plans[2].trigger) == (1, "CONTINUED")
    assert world.plans[2].fingerprint != world.plans[1].fingerprint


def test_a_result_for_a_task_that_was_carried_over_counts() -> None:
    world, tokens = replanning("kept")
    world.deliver("plan:2#1", Planned(tasks=flat("kept", "new")))

    assert world.plans[2].trigger == "REPLANNED"
    assert world.task("kept").status is TaskStatus.RUNNING
    assert late(world, "kept", tokens["kept"]) == "ACCEPTED"
    assert world.task("kept").status is TaskStatus.COMPLETED
    assert world.ready() == ["task:new#1"]


def test_a_result_that_comes_while_it_is_planned_again_counts() -> None:
    world, tokens = replanning("kept")

    assert late(world, "kept", tokens["kept"]) == "ACCEPTED"
    world.deliver("plan:2#1", Planned(tasks=flat("kept", "new")))
    assert world.task("kept").result_id == "task:kept#1"
    assert world.ready() == ["task:new#1"]


def test_a_plan_that_drops_a_running_task_takes_it_from_its_worker() -> None:
    world, tokens = replanning("dropped", total_timeout_ms=1_000)
    assert "total:dropped" in world.timers
    world.deliver("plan:2#1", Planned(tasks=flat("new")))

    assert world.task("dropped").status is TaskStatus.CANCELLED
    assert world.executions["task:dropped#1"].status == "CANCELLED"
    assert "total:dropped" not in world.timers
    assert late(world, "dropped", tokens["dropped"]) == "LEASE_LOST"
    assert world.ready() == ["task:new#1"]
    world.complete("new")
    assert world.run.phase is Phase.REFLECTING


def test_dropping_a_task_notifies_its_worker() -> None:
    world, _ = replanning("dropped")
    token = world.lease("plan:2#1")
    revoked = world.revoked_by(
        Delivery(execution_id="plan:2#1", token=token, result=Planned(tasks=flat("new")))
    )

    assert revoked == {"task:dropped#1": "a new plan has no such task any more"}


def test_a_running_task_that_is_defined_otherwise_starts_again() -> None:
    world, tokens = replanning("changed")
    world.deliver("plan:2#1", Planned(tasks=flat("changed", prompt="otherwise")))

    assert world.ready() == ["task:changed#2"]
    assert world.task("changed").revision == 2
    assert late(world, "changed", tokens["changed"]) == "LEASE_LOST"
    world.complete("changed")
    assert world.task("changed").result_id == "task:changed#2"


def test_dropping_a_task_closes_its_question() -> None:
    world = World()
    world.start()
    world.deliver("plan:1#1", Planned(tasks=flat("ask", "other")))
    world.deliver("task:ask#1", NeedsInput(prompt="this way?"))
    world.deliver("task:other#1", NeedsInput(prompt="that way?", expires_ms=1_000))
    world.do(Answer(input_id="input:task:ask#1", payload=NO, replan=True))
    assert "input:input:task:other#1" in world.timers
    world.deliver("plan:2#1", Planned(tasks=flat("new")))

    assert not world.state.inputs
    assert "input:input:task:other#1" not in world.timers
    asked = [one for event in world.events for one in event.inputs if one.task_id == "other"]
    assert asked[-1].status is InputStatus.CANCELLED


def test_a_task_that_was_dropped_starts_anew_when_a_later_plan_names_it() -> None:
    world, _ = replanning("back")
    world.deliver("plan:2#1", Planned(tasks=flat("other")))
    assert world.task("back").status is TaskStatus.CANCELLED
    world.complete("other")
    again = (*flat("other"), *flat("back"))
    world.deliver("reflect:2#1", Reflected(decision=Decision.CONTINUE, tasks=again))

    assert world.plans[3].carried == ("other",)
    assert world.ready() == ["task:back#2"]


def test_attempts_are_counted_by_how_they_ended() -> None:
    world, _ = replanning("dropped")
    world.deliver("plan:2#1", Planned(tasks=flat("a", "b")))
    world.fail("a", retryable=False)

    assert world.run.status is RunStatus.FAILED
    assert world.run.attempts == AttemptCounts(completed=2, failed=1, needs_input=1, cancelled=2)


# --- a plan that changes what carried tasks wait for ------------------------------------------------


def built(*below: TaskSpec, **first: object) -> tuple[TaskSpec, ...]:
    return (*flat("first", **first), *below)


def test_task_settled_in_a_plans_commit_counts_for_the_new_graph() -> None:
    world, tokens = replanning("first")
    last = TaskSpec(task_id="last", depends_on=("first", "second"))
    plan = Planned(tasks=(*flat("first", "second"), last))
    planner = world.lease("plan:2#1")
    first = Delivery(execution_id="task:first#1", token=tokens["first"], result=Completed())
    world.do(first, Delivery(execution_id="plan:2#1", token=planner, result=plan))

    assert world.ready() == ["task:second#1"]


def test_waiting_task_waits_for_dependencies_a_plan_adds() -> None:
    below = TaskSpec(task_id="below", depends_on=("first",))
    world = World()
    world.start()
    world.deliver("plan:1#1", Planned(tasks=(*flat("ask"), *built(below))))
    token = world.lease("task:first#1")
    world.deliver("task:ask#1", NeedsInput(prompt="this way?"))
    world.do(Answer(input_id="input:task:ask#1", payload=NO, replan=True))
    planner = world.lease("plan:2#1")
    first = Delivery(execution_id="task:first#1", token=token, result=Completed())
    wider = replace(below, depends_on=("first", "second"))
    plan = Planned(tasks=(*flat("first", "second"), wider))
    world.do(first, Delivery(execution_id="plan:2#1", token=planner, result=plan))

    assert world.ready() == ["task:second#1"]


def carried_over_what_is_done_again(**below: object) -> World:
    """A run whose task `below` is leased and carried over, while `first` is to be done otherwise."""
    spec = replace(TaskSpec(task_id="below", depends_on=("first",)), **below)
    world = World()
    world.start()
    world.deliver("plan:1#1", Planned(tasks=(*flat("ask"), *built(spec))))
    world.complete("first")
    world.lease("task:below#1")
    world.deliver("task:ask#1", NeedsInput(prompt="this way?"))
    world.do(Answer(input_id="input:task:ask#1", payload=NO, replan=True))
    plan = built(spec, prompt="otherwise", on_failure=OnFailure.SKIP_DEPENDENTS)
    world.deliver("plan:2#1", Planned(tasks=plan))
    assert world.leased() == ["task:below#1"]
    assert world.ready() == ["task:first#2"]
    return world


def test_a_lost_attempt_waits_for_what_the_plan_defined_anew_above_it() -> None:
    world = carried_over_what_is_done_again()
    token = world.held("task:below#1").token
    world.do(LeaseExpired(execution_id="task:below#1", token=token))
    assert world.ready() == ["task:first#2"]

    world.complete("first")
    assert world.ready() == ["task:below#2"]


def test_the_total_time_out_of_a_skipped_task_runs_no_longer() -> None:
    world = carried_over_what_is_done_again(total_timeout_ms=60_000)
    token = world.held("task:below#1").token
    world.do(LeaseExpired(execution_id="task:below#1", token=token))
    assert "total:below" in world.timers
    world.fail("first", retryable=False)

    assert world.task("below").status is TaskStatus.SKIPPED
    assert world.timers == {}
