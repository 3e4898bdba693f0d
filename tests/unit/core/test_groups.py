"""A task gathers a group: enough results are enough, failures are tolerated or too many."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from stepwell.core.loop.occurrences import (
    Completed,
    Planned,
    Reflected,
    Resume,
    RetryTask,
)
from stepwell.core.records import graph
from stepwell.core.records.model import Payload, TaskSpec
from stepwell.core.records.states import Decision, OnFailure
from tests.unit.core.loop_world import ONCE, World, planned, task
from tests.unit.core.test_forks import base, fork, misfits, patch

IDS = ("a", "b", "c", "d")


def join(*depends_on: str, **rule: Any) -> TaskSpec:
    return task("join", *depends_on, gathers="g", **rule)


def members(*ids: str) -> tuple[TaskSpec, ...]:
    return tuple(task(one, group="g", retry=ONCE) for one in ids)


def group(*more: TaskSpec, ids: tuple[str, ...] = IDS, parallel: int = 10, **rule: Any) -> World:
    return planned(*members(*ids), join(**rule), *more, max_parallel=parallel)


def test_gathering_task_waits_for_all_of_its_group_and_is_shown_their_results() -> None:
    world = group()
    assert world.plans[1].tasks[4].depends_on == IDS
    world.complete("a", "b", "c")
    assert "task:join#1" not in world.ready()
    world.complete("d")
    assert world.ready() == ["task:join#1"]


def test_enough_results_of_a_group_skip_the_rest_whatever_it_is_doing() -> None:
    world = group(task("after-a", "a"), at_least=2, parallel=3)
    held = world.lease("task:b#1")
    world.complete("a", "c")

    assert world.statuses() == {
        **dict.fromkeys(("a", "c"), "COMPLETED"),
        **dict.fromkeys(("b", "d"), "SKIPPED"),
        **dict.fromkeys(("join", "after-a"), "READY"),
    }
    assert world.late("task:b#1", held) == "LEASE_LOST"
    (gathered,) = [one for one in world.events if one.type == "GROUP_GATHERED"]
    assert (gathered.task_id, gathered.message) == ("join", "2 of 'g' completed, 2 skipped")


def test_what_depends_on_the_rest_of_a_group_is_skipped_with_it() -> None:
    world = group(task("below-d", "d"), at_least=1, parallel=1)
    world.complete("a")

    assert world.task("below-d").status == "SKIPPED"
    assert world.ready() == ["task:join#1"]


@pytest.mark.parametrize(
    ("rule", "failures", "fails"),
    [
        ({}, 1, True),
        ({"failures_max": 2}, 2, False),
        ({"failures_max": 2}, 3, True),
        ({"at_least": 2}, 2, False),
        ({"at_least": 2}, 3, True),
        ({"at_least": 2, "failures_max": 1}, 1, False),
        ({"at_least": 2, "failures_max": 1}, 2, True),
    ],
)
def test_failures_of_a_group_are_tolerated_up_to_the_limits_of_its_rule(
    rule: dict[str, int], failures: int, fails: bool
) -> None:
    world = planned(*members(*IDS), join(**rule), max_parallel=10)
    for one in IDS[:failures]:
        assert world.run.status != "FAILED"
        world.fail(one)
    if fails:
        assert (world.run.status, world.run.failure.kind) == ("FAILED", "GROUP_FAILED")
        assert world.task("join").status == "FAILED"
        return
    world.complete(*IDS[failures:][: rule.get("at_least", 4)])
    assert world.ready() == ["task:join#1"]


def test_task_that_is_failed_by_its_group_skips_the_rest_where_the_run_goes_on() -> None:
    world = group(on_failure=OnFailure.CONTINUE)
    world.lease("task:d#1")
    world.fail("a")

    assert world.statuses() == {
        "a": "FAILED",
        **dict.fromkeys(("b", "c", "d"), "SKIPPED"),
        "join": "FAILED",
    }
    assert world.task("join").failure.message == (
        "of the group 'g' all must complete: 0 completed, 1 failed, 0 were skipped, 3 were left"
    )
    assert world.run.phase == "REFLECTING"


@pytest.mark.parametrize("by_resume", [True, False])
def test_group_that_failed_runs_again_with_the_task_that_gathers_it(by_resume: bool) -> None:
    policy = OnFailure.FAIL_RUN if by_resume else OnFailure.CONTINUE
    world = group(task("other"), failures_max=1, on_failure=policy)
    world.complete("a")
    world.fail("b")
    world.fail("c")
    (reply,) = world.do(Resume(retry_failed=True) if by_resume else RetryTask(task_id="join"))

    assert reply.status == "ACCEPTED"
    assert (world.task("a").status, world.task("join").status) == ("COMPLETED", "PENDING")
    world.complete("b", "c", "d")
    assert "task:join#1" in world.ready()


def test_resume_repeats_no_failure_that_a_group_tolerates() -> None:
    world = group(task("bad", retry=ONCE), failures_max=1)
    world.fail("a")
    world.fail("bad")
    world.do(Resume(retry_failed=True))

    assert world.task("a").status == "FAILED"
    assert world.task("bad").status == "READY"


def test_group_that_tasks_add_is_gathered_and_what_comes_too_late_is_skipped() -> None:
    world = planned(task("list"), join("list", at_least=2, on_failure=OnFailure.CONTINUE))
    assert world.ready() == ["task:list#1"]
    world.deliver("task:list#1", Completed(result=Payload(data=b""), tasks=members("a", "b")))
    assert world.plans[2].tasks[1].depends_on == ("list", "a", "b")
    world.complete("a")
    world.deliver("task:b#1", Completed(tasks=members("c")))
    assert world.task("c").status == "SKIPPED"
    assert world.ready() == ["task:join#1"]


@pytest.mark.parametrize(("at_least", "status"), [(0, "READY"), (1, "FAILED")])
def test_group_to_which_no_task_was_added_is_empty(at_least: int, status: str) -> None:
    world = planned(task("list"), join("list", at_least=at_least, on_failure=OnFailure.CONTINUE))
    world.complete("list")

    assert world.task("join").status == status


def test_later_plan_without_the_gathering_task_lets_a_failure_fail_the_run() -> None:
    world = group(failures_max=1)
    world.complete("b", "c", "d")
    world.fail("a")
    world.complete("join")
    world.deliver("reflect:1#1", Reflected(decision=Decision.REPLAN))
    world.deliver("plan:2#1", Planned(tasks=members("x", "y")))
    world.fail("x")

    assert world.run.status == "FAILED"


def test_fork_keeps_what_a_group_came_to_and_gathers_what_its_plan_names() -> None:
    plan = (*members(*IDS), join(at_least=2, failures_max=1))
    parent = planned(*plan)
    parent.fail("a")
    parent.complete("b")
    assert misfits(parent, plan=plan) == []
    world = fork(parent)
    assert world.task("a").status == "FAILED"
    world.complete("c")
    assert world.task("d").status == "SKIPPED"
    assert world.ready() == ["task:join#1"]
    more = (*members(*IDS, "e"), plan[4])
    assert base(parent, changes=patch(*more)).fork.plan[5].depends_on == (*IDS, "e")


@pytest.mark.parametrize(
    ("plan", "field"),
    [
        ((*members("a"), join(), replace(join(), task_id="two")), "plan.tasks[2].gathers"),
        ((*members("a"), replace(join(), group="g")), "plan.tasks[1].group"),
        ((*members("a"), task("two", gathers="other")), "plan.tasks[1].gathers"),
        ((task("a", at_least=1),), "plan.tasks[0].at_least"),
        ((task("a", failures_max=1),), "plan.tasks[0].failures_max"),
        ((task("a", "join", group="g"), join()), "plan.tasks[0].depends_on[0]"),
    ],
)
def test_invalid_group_is_named_by_its_field(plan: tuple[TaskSpec, ...], field: str) -> None:
    assert [one.field for one in graph.violations_of(plan)] == [field]
