"""A task's outcome adds tasks to the plan in force: carried over, waited for, refused."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from stepwell.core.loop.occurrences import (
    Completed,
    Delivery,
    Pause,
    Planned,
    Reflected,
    Resume,
)
from stepwell.core.records.model import Payload, TaskSpec
from stepwell.core.records.states import Decision
from tests.unit.core.loop_world import planned, task, tasks
from tests.unit.core.test_forks import base, fork, misfits, patch


def growth(*added: TaskSpec, result: bytes = b"1") -> Completed:
    return Completed(result=Payload(data=result), tasks=added)


def merge(*depends_on: str) -> TaskSpec:
    return replace(task("merge", *depends_on), after_growth=True)


def test_growth_is_a_revision_that_leaves_the_rest_of_the_plan_as_it_was() -> None:
    world = planned(*tasks("list", "other"), task("below", "list"))
    other = world.lease("task:other#1")
    before = len(world.commits)
    reply = world.deliver("task:list#1", growth(task("a", "list"), task("b", "a", "other")))

    assert (reply.status, len(world.commits)) == ("ACCEPTED", before + 2)  # the lease, the outcome
    plan = world.plans[2]
    assert [one.task_id for one in plan.tasks] == ["list", "other", "below", "a", "b"]
    assert (plan.parent_revision, plan.trigger, plan.reason) == (
        1,
        "TASK",
        "task list added 2 tasks",
    )
    assert (plan.carried, plan.iteration) == (("list", "other", "below"), 1)
    assert (world.run.plan_revision, world.run.counts.total) == (2, 5)
    assert world.run.phase == "EXECUTING"
    assert world.ready() == ["task:below#1", "task:a#1"]
    assert world.late("task:other#1", other) == "ACCEPTED"
    world.complete("a", "below")
    assert world.run.phase == "EXECUTING"
    world.complete("b")
    assert world.run.phase == "REFLECTING"


def test_dependent_after_growth_waits_for_what_is_added_and_for_what_that_adds() -> None:
    world = planned(task("list"), merge("list"))
    world.deliver("task:list#1", growth(*tasks("a", "b")))
    assert world.plans[2].tasks[1].depends_on == ("list", "a", "b")
    assert world.plans[2].carried == ("list",)
    world.deliver("task:a#1", growth(task("deeper")))
    world.complete("b")
    assert world.ready() == ["task:deeper#1"]
    world.complete("deeper")

    assert world.ready() == ["task:merge#1"]
    assert world.state.graph.specs["merge"].depends_on == ("list", "a", "b", "deeper")


@pytest.mark.parametrize(
    ("added", "field"),
    [
        ((task("new"), task("other", prompt="otherwise")), "more.tasks[1].task_id"),
        ((task("new"), task("new")), "more.tasks[1].task_id"),
        ((task("other"), task("new", "nowhere")), "more.tasks[1].depends_on[0]"),
        ((task("a", "b"), task("b", "a")), "more.tasks[0].depends_on[0]"),
        ((task("a", "merge"),), "plan.tasks[2].depends_on[1]"),
        (tasks(*(f"t{n}" for n in range(9_998))), "plan.tasks"),
        ((task("a", input=Payload(data=bytes(3 * 1024 * 1024))),), "more.tasks"),
    ],
)
def test_invalid_growth_ends_the_attempt_and_keeps_nothing_of_it(
    added: tuple[TaskSpec, ...], field: str
) -> None:
    world = planned(*tasks("list", "other"), merge("list"))
    reply = world.deliver("task:list#1", growth(*added))

    assert (reply.status, reply.reason) == ("REJECTED", "PLAN_INVALID")
    assert [one.field for one in reply.violations] == [field]
    assert world.executions["task:list#1"].failure.violations == reply.violations
    assert (world.status_of("task:list#1"), world.run.plan_revision) == ("FAILED", 1)
    assert world.task("list").result_id == ""
    assert world.deliver("task:list#2", growth(task("new"))).status == "ACCEPTED"
    assert world.task("list").status == "COMPLETED"


def test_outcome_with_growth_that_is_sent_again_adds_nothing_twice() -> None:
    world = planned(*tasks("list", "other"))
    token = world.lease("task:list#1")
    outcome = Delivery(execution_id="task:list#1", token=token, result=growth(task("a")))
    world.do(outcome)
    version = world.run.version
    world.do(outcome)

    assert (world.run.plan_revision, world.run.version) == (2, version)


def test_task_that_is_added_by_two_tasks_is_added_once() -> None:
    world = planned(*tasks("list", "search"), merge("list", "search"))
    world.deliver("task:list#1", growth(*tasks("a", "b")))
    world.complete("a")
    world.deliver("task:search#1", growth(*tasks("a", "b")))
    assert (world.run.plan_revision, world.task("search").status) == (2, "COMPLETED")
    world.deliver("task:b#1", growth(*tasks("a", "c")))

    assert world.plans[3].tasks[2].depends_on == ("list", "search", "a", "b", "c")
    assert (world.plans[3].reason, world.run.counts.total) == ("task b added 1 task", 6)
    assert (world.task("a").status, world.task("a").attempts) == ("COMPLETED", 1)


def test_growth_while_a_plan_is_made_holds_until_that_plan_is_in_force() -> None:
    world = planned(*tasks("ask", "list"))
    token = world.lease("task:list#1")
    world.answer(world.ask("ask"), replan=True)
    assert world.late("task:list#1", token, growth(*tasks("a", "b"))) == "ACCEPTED"
    assert (world.run.phase, world.ready()) == ("PLANNING", ["plan:2#1"])
    world.deliver("plan:2#1", Planned(tasks=tasks("list", "a")))

    assert (world.run.plan_revision, world.plans[3].carried) == (3, ("list", "a"))
    assert world.statuses() == {
        "ask": "CANCELLED",
        "list": "COMPLETED",
        "a": "READY",
        "b": "CANCELLED",
    }


def test_growth_of_a_paused_run_waits_for_its_resume() -> None:
    world = planned(*tasks("list", "other"))
    token = world.lease("task:list#1")
    world.do(Pause())
    assert world.late("task:list#1", token, growth(task("a"))) == "ACCEPTED"
    assert (world.run.status, world.ready()) == ("PAUSED", [])
    world.do(Resume())

    assert world.ready() == ["task:other#2", "task:a#1"]


def test_synthesis_that_adds_tasks_is_refused_by_name() -> None:
    world = planned(task("a"))
    world.complete("a")
    world.deliver("reflect:1#1", Reflected(decision=Decision.FINISH))
    reply = world.deliver("synthesize:1#1", growth(task("b")))

    assert (reply.reason, reply.message) == (
        "INVALID_OUTCOME",
        "only a task adds tasks to the plan",
    )


# --- forks -----------------------------------------------------------------------------------------


def test_fork_before_a_growth_grows_by_itself_and_one_after_it_keeps_the_tasks() -> None:
    parent = planned(task("list"), merge("list"))
    before = parent.run.version
    parent.deliver("task:list#1", growth(*tasks("a", "b")))
    after = parent.run.version
    parent.complete("a")
    assert base(parent, before)[2:5] == ((), (), ("list", "merge"))
    assert base(parent, after)[2:5] == (("list",), (), ("merge", "a", "b"))
    assert base(parent)[2:5] == (("list", "a"), (), ("merge", "b"))

    early, late = fork(parent, before), fork(parent)
    early.deliver(early.ready()[0], growth(task("other")))
    assert early.plans[2].tasks[1].depends_on == ("list", "other")
    assert [one.task_id for one in late.plans[1].tasks] == ["list", "merge", "a", "b"]
    late.deliver(late.ready()[0], growth(task("c")))
    assert late.plans[2].tasks[1].depends_on == ("list", "a", "b", "c")
    late.complete("c")
    assert late.ready() == ["task:merge#1"]


def test_fork_with_the_plan_before_a_growth_fits_as_patch_alone() -> None:
    plan = (task("list"), merge("list"))
    parent = planned(*plan)
    parent.deliver("task:list#1", growth(task("a")))
    parent.complete("a", "merge")

    assert misfits(parent, plan=plan) == [
        ("TASK_REMOVED", "a", "plan.tasks"),
        ("DEPENDENCY_CHANGED", "merge", "plan.tasks[1].depends_on"),
    ]
    assert base(parent, changes=patch(*plan))[2:5] == (("list",), ("merge",), ())
    anew = (task("list", prompt="anew"), parent.plans[2].tasks[1], task("a"))
    assert base(parent, changes=patch(*anew))[2:5] == (("a",), ("list", "merge"), ())
