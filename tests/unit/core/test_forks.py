"""Forks: results that are kept, tasks that run again, and plans that don't fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from stepwell.core.fork.fork import Base, base_of, fork_id
from stepwell.core.fork.inherit import Changes
from stepwell.core.loop.occurrences import (
    Cancel,
    Completed,
    NeedsAnswer,
    Pause,
    Planned,
    Reflected,
    SkipTask,
)
from stepwell.core.loop.state import RunState
from stepwell.core.records.errors import FailedPrecondition, InvalidArgument
from stepwell.core.records.fold import fold
from stepwell.core.records.model import Failure, Payload, Previous, Session, TaskSpec, Usage
from stepwell.core.records.states import Decision, Effect, ForkMode, OnFailure, StepKind
from tests.unit.core.loop_world import BOTH, ONCE, World, chain, planned, task, tasks

PARENT = "11111111-2222-4333-8444-555555555555"
PASSED_OVER: dict[str, Any] = {"retry": ONCE, "on_failure": OnFailure.CONTINUE}
REPLAN = Changes(replan=True)


def base(
    parent: World, version: int = 0, *, changes: Changes | None = None, **spec: object
) -> Base:
    version = version or parent.run.version
    events = [event for event in parent.events if event.version <= version]
    rows = fold(parent.run.spec, parent.plans, events)
    own = {"run_id": "fork", "parent_run_id": PARENT, "parent_version": version}
    whole = replace(parent.run.spec, **{**own, "family_id": PARENT, **spec})
    return base_of(whole, rows, parent.plans, changes or Changes())


def fork(
    parent: World, version: int = 0, *, changes: Changes | None = None, **spec: object
) -> World:
    """Start a fork of a run as it stood; the world checks it as it checks every run."""
    made = base(parent, version, changes=changes, **spec)
    assert made.misfits == ()
    world = World()
    world.state = RunState.empty("tenant", "fork")
    assert world.do(made.fork)[0].status == "ACCEPTED"
    return world


def patch(*plan: TaskSpec, roles: frozenset[str] | None = None) -> Changes:
    return Changes(mode=ForkMode.PATCH, plan=plan, roles=roles)


def misfits(parent: World, version: int = 0, **changes: Any) -> list[tuple[str, str, str]]:
    made = base(parent, version, changes=Changes(**changes))
    return [(str(one.kind), one.task_id, one.field) for one in made.misfits]


def finished(*plan: TaskSpec, **spec: Any) -> World:
    world = planned(*plan, **spec)
    world.complete(*(one.task_id for one in plan))
    world.deliver("reflect:1#1", Reflected(decision=Decision.FINISH))
    world.deliver("synthesize:1#1", Completed(result=Payload(data=b"42")))
    return world


# --- as it stood -----------------------------------------------------------------------------------


def test_fork_keeps_completed_results_by_reference_and_runs_the_rest() -> None:
    parent = planned(*chain("a", "b", "c"))
    parent.complete("a")
    assert base(parent)[2:5] == (("a",), (), ("b", "c")), "kept, run again, still to do"
    world = fork(parent)

    kept = world.task("a")
    assert (kept.status, kept.result_id, kept.result_run_id) == ("COMPLETED", "task:a#1", PARENT)
    assert world.ready() == ["task:b#2"]
    assert world.run.counts.completed == 1
    assert world.plans[1].trigger == "FORK"
    assert world.kinds()[:3] == ["RUN_STARTED", "PLAN_ACCEPTED", "RUN_FORKED"]
    assert world.events[2].message == f"forked from {PARENT} at version {parent.run.version}"
    world.complete("b")
    # Of a fork's fork each result names the run where it is.
    again = base(world, parent_run_id="child")
    of = {one.task_id: (one.result_id, one.result_run_id) for one in again.fork.tasks}
    assert (of["a"], of["b"]) == (("task:a#1", PARENT), ("task:b#2", "child"))
    world.complete("c")
    assert world.run.phase == "REFLECTING"


def test_a_fork_of_every_version_of_a_run_goes_on_to_its_end() -> None:
    parent = finished(*chain("a", "b"), task("x"))
    for version in range(1, parent.run.version + 1):
        world = fork(parent, version, changes=Changes(replan=version < 4))
        while not world.run.ended:
            step = (world.ready() + world.leased())[0]
            if step.startswith("plan"):
                world.deliver(step, Planned(tasks=tuple(chain("a", "b"))))
            elif step.startswith("reflect"):
                world.deliver(step, Reflected(decision=Decision.FINISH))
            else:
                world.deliver(step, Completed())
        assert world.run.status == "SUCCEEDED"


def test_fork_begins_anew_with_sessions_usage_and_attempts() -> None:
    parent = planned(*tasks("a", "b", "asks"))
    parent.deliver("task:a#1", Completed(), usage=Usage(cost_micros=5))
    parent.fail("b")
    session = Session(backend="cli", session_id="s1")
    parent.deliver("task:asks#1", NeedsAnswer(prompt="?"), session=session)
    world = fork(parent)

    assert (world.run.usage, world.run.attempts.completed) == (Usage(), 0)
    assert (world.task("b").attempts, world.task("b").spent) == (3, 0)
    assert (world.task("asks").previous, world.task("asks").messages) == (Previous(), 0)
    assert "task:asks#2" in world.ready()


@pytest.mark.parametrize(
    ("stages", "phase"),
    [(BOTH, "SYNTHESIZING"), ((StepKind.REFLECT,), "REFLECTING"), ((), "DONE")],
)
def test_a_fork_of_a_run_that_is_done_does_its_last_stage_again(
    stages: tuple[StepKind, ...], phase: str
) -> None:
    parent = World()
    parent.start(plan=chain("a"), stages=stages)
    parent.complete("a")
    if StepKind.REFLECT in stages:
        parent.deliver("reflect:1#1", Reflected(decision=Decision.FINISH))
    if StepKind.SYNTHESIZE in stages:
        parent.deliver("synthesize:1#1", Completed())
    assert parent.run.status == "SUCCEEDED"
    world = fork(parent)

    assert world.run.phase == phase
    assert world.run.ended is (phase == "DONE")
    if phase == "SYNTHESIZING":
        assert world.run.finish_reason == "FINISHED"


def cut_off_reflecting() -> World:
    parent = planned(task("a"))
    parent.complete("a")
    parent.lease("reflect:1#1")
    return parent


def cancelled() -> World:
    parent = planned(*tasks("a", "b"))
    parent.complete("a")
    parent.do(Cancel(reason="wrong"))
    return parent


def failed() -> World:
    parent = planned(task("a", retry=ONCE), task("b", "a"))
    parent.fail("a")
    assert parent.run.status == "FAILED"
    return parent


def skipped_by_a_person() -> World:
    parent = planned(*tasks("a", "b"))
    parent.do(SkipTask(task_id="a"))
    return parent


@pytest.mark.parametrize(
    ("made", "ready", "statuses"),
    [
        (cut_off_reflecting, ["reflect:1#2"], {"a": "COMPLETED"}),
        (cancelled, ["task:b#2"], {"a": "COMPLETED", "b": "READY"}),
        (failed, ["task:a#2"], {"a": "READY", "b": "PENDING"}),
        (skipped_by_a_person, ["task:b#2"], {"a": "SKIPPED", "b": "READY"}),
    ],
)
def test_fork_runs_what_was_cut_off_and_keeps_what_was_decided(
    made: Callable[[], World], ready: list[str], statuses: dict[str, str]
) -> None:
    world = fork(made())
    assert (world.ready(), world.statuses()) == (ready, statuses)
    assert world.run.reason == ""


@pytest.mark.parametrize(
    ("on_failure", "ready"),
    [(OnFailure.SKIP_DEPENDENTS, "reflect:1#2"), (OnFailure.CONTINUE, "task:b#2")],
)
def test_a_failure_that_was_passed_over_stays(on_failure: OnFailure, ready: str) -> None:
    parent = planned(task("a", retry=ONCE, on_failure=on_failure), task("b", "a"))
    parent.fail("a", message="no")
    world = fork(parent)

    assert world.task("a").status == "FAILED"
    assert world.task("a").failure == Failure(kind="Boom", message="no")
    assert world.run.counts.failed == 1
    assert world.ready() == [ready]


def test_fork_leaves_out_dropped_tasks_and_keeps_settled_ones() -> None:
    parent = planned(*tasks("ask", "dropped", "done"))
    parent.complete("done")
    parent.answer(parent.ask("ask"), replan=True)
    parent.deliver("plan:2#1", Planned(tasks=tasks("new")))
    world = fork(parent)

    assert [one.task_id for one in world.plans[1].tasks] == ["done", "new"]
    assert world.task("done").status == "COMPLETED"


def test_fork_keeps_unused_answers_and_drops_open_questions() -> None:
    parent = planned(*tasks("a", "b"), max_parallel=2)
    asked = parent.ask("a")
    parent.ask("b")
    parent.do(Pause())
    parent.answer(asked, answered_by="ann")
    assert [one.question_id for one in base(parent).fork.questions] == [asked]
    world = fork(parent)

    assert (world.task("a").question_id, world.task("b").question_id) == (asked, "")
    assert world.ready() == ["task:a#2", "task:b#2"]


# --- planning again -----------------------------------------------------------------------------


def test_a_fork_may_plan_again_in_another_iteration() -> None:
    world = fork(finished(*chain("a", "b")), changes=REPLAN)

    assert (world.run.phase, world.run.iteration) == ("PLANNING", 2)
    assert world.ready() == ["plan:2#1"]
    world.deliver("plan:2#1", Planned(tasks=(*chain("a", "b"), task("c", "b"))))
    assert world.plans[2].carried == ("a", "b")
    assert world.ready() == ["task:c#1"]


def test_a_fork_may_not_plan_again_after_the_last_iteration() -> None:
    parent = finished(task("a"), max_iterations=1)
    with pytest.raises(FailedPrecondition) as caught:
        base(parent, changes=REPLAN)
    assert caught.value.reason == "LAST_ITERATION"
    assert fork(parent, changes=REPLAN, max_iterations=2).run.iteration == 2


def test_a_fork_may_not_allow_fewer_iterations_than_there_were() -> None:
    parent = planned(task("a"))
    parent.complete("a")
    parent.deliver("reflect:1#1", Reflected(decision=Decision.REPLAN))
    assert fork(parent, max_iterations=2).run.iteration == 2
    with pytest.raises(FailedPrecondition, match="begins in iteration 2 of 1"):
        base(parent, max_iterations=1)


def test_a_fork_of_a_run_without_a_plan_wants_one_or_asks_for_one() -> None:
    parent = World()
    parent.start()
    assert misfits(parent) == [("PLAN_MISSING", "", "plan")]
    assert fork(parent, changes=REPLAN).ready() == ["plan:1#2"]
    assert fork(parent, changes=patch(task("a"))).ready() == ["task:a#1"]


# --- STRICT -------------------------------------------------------------------------------------


def test_strict_takes_the_plan_in_force_and_executes_it() -> None:
    world = fork(finished(*chain("a", "b")), changes=Changes(plan=tuple(chain("a", "b"))))

    assert world.run.phase == "REFLECTING"
    assert world.run.counts.completed == 2


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        ([task("a")], ["TASK_REMOVED b plan.tasks"]),
        ([*chain("a", "b"), task("c")], ["TASK_ADDED c plan.tasks[2]"]),
        ([task("a"), task("b", "a", role="x")], ["DEFINITION_CHANGED b plan.tasks[1].role"]),
        ([task("a"), task("b")], ["DEPENDENCY_CHANGED b plan.tasks[1].depends_on"]),
        (
            [task("a"), task("b", attempt_timeout_ms=5)],
            [
                "DEPENDENCY_CHANGED b plan.tasks[1].depends_on",
                "DEFINITION_CHANGED b plan.tasks[1].attempt_timeout",
            ],
        ),
    ],
)
def test_strict_says_what_is_another_plan(plan: list[TaskSpec], expected: list[str]) -> None:
    found = misfits(finished(*chain("a", "b")), plan=tuple(plan))
    assert [" ".join(one) for one in found] == expected


# --- PATCH --------------------------------------------------------------------------------------


def test_patch_runs_changed_tasks_again_and_what_is_built_on_them() -> None:
    parent = finished(*chain("a", "b", "c"), *chain("x", "y"))
    changed = patch(task("a"), task("b", "a", prompt="new"), task("c", "b"), *chain("x", "y"))
    made = base(parent, changes=changed)
    assert (made.kept, made.rerun) == (("a", "x", "y"), ("b", "c"))
    world = fork(parent, changes=changed)

    assert (world.run.phase, world.ready()) == ("EXECUTING", ["task:b#2"])


def test_patch_drops_adds_and_refuses_an_unsound_plan() -> None:
    parent = finished(*chain("a", "b"))
    world = fork(parent, changes=patch(task("a"), task("n", "a")))
    assert [one.task_id for one in world.plans[1].tasks] == ["a", "n"]
    assert world.ready() == ["task:n#1"]
    with pytest.raises(InvalidArgument) as caught:
        base(parent, changes=patch(task("a"), task("n", "b")))
    assert caught.value.reason == "PLAN_INVALID"
    assert caught.value.violations[0].field == "plan.tasks[1].depends_on[0]"


def test_patch_may_build_on_tasks_outside_the_current_plan() -> None:
    parent = planned(task("old"))
    parent.complete("old")
    more = Reflected(decision=Decision.CONTINUE, tasks=(task("a", "old"),))
    parent.deliver("reflect:1#1", more)
    parent.complete("a")
    world = fork(parent, changes=patch(task("b", "old")))

    assert [one.task_id for one in world.plans[1].tasks] == ["old", "b"]
    assert world.ready() == ["task:b#1"]


def test_patch_refuses_to_repeat_an_effect() -> None:
    pay = task("pay", "a", effect=Effect.AT_MOST_ONCE)
    parent = finished(task("a"), pay)
    changed = task("a", prompt="otherwise")
    refused = misfits(parent, mode=ForkMode.PATCH, plan=(changed, pay))
    assert refused == [("EFFECT_REPEATED", "pay", "plan.tasks[1]")]
    allowed = base(parent, changes=patch(changed, task("pay", "a")))
    assert (allowed.misfits, allowed.rerun) == ((), ("a", "pay"))


@pytest.mark.parametrize("end", ["leased", "lost", "cancelled"])
def test_an_effect_whose_outcome_is_unknown_is_not_repeated_under_any_mode(end: str) -> None:
    parent = planned(task("pay", effect=Effect.AT_MOST_ONCE))
    parent.begin("task:pay#1")
    if end == "lost":
        parent.expire("task:pay#1")
    elif end == "cancelled":
        parent.do(Cancel())

    repeated = [("EFFECT_REPEATED", "pay", "")]
    assert misfits(parent) == repeated
    before_it_began = parent.run.version - 1 if end == "leased" else 0
    assert misfits(parent, before_it_began) == ([] if end == "leased" else repeated)


def test_a_role_that_no_connected_worker_fills_is_missed() -> None:
    parent = planned(task("a", role="writer"), task("b", role="reader"))
    parent.complete("a")
    readers = frozenset({"reader"})
    for roles in (readers, frozenset({"*"}), None):
        assert misfits(parent, roles=roles) == []
    assert misfits(parent, roles=frozenset()) == [("ROLE_MISSING", "b", "")]
    again = (task("a", role="writer", prompt="otherwise"), task("b", role="reader"))
    missed = misfits(parent, mode=ForkMode.PATCH, plan=again, roles=readers)
    assert missed == [("ROLE_MISSING", "a", "plan.tasks[0].role")]


# --- the rest -----------------------------------------------------------------------------------


def test_a_forks_id_ends_as_its_parents() -> None:
    fresh = "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee"
    assert fork_id(PARENT, fresh) == "aaaaaaaa-bbbb-4ccc-8ddd-555555555555"


def test_the_same_fork_again_finds_it_and_another_request_does_not() -> None:
    made = base(planned(task("a")), request_fingerprint="1").fork
    world = World()
    world.state = RunState.empty("tenant", "fork")
    world.do(made)
    assert world.do(made)[0].status == "UNCHANGED"
    other = replace(made, spec=replace(made.spec, request_fingerprint="2"))
    assert world.do(other)[0].reason == "REQUEST_ID_REUSED"


def test_kept_failures_and_answers_have_limits() -> None:
    """All of it stands in one event, and a message of a watch holds whole commits."""
    bad = tasks(*(f"bad{n}" for n in range(12)), **PASSED_OVER)
    asks = tasks(*(f"ask{n}" for n in range(4)))
    parent = planned(*bad, *asks, max_parallel=32)
    for one in bad:
        parent.fail(one.task_id, message="m" * 500, details="d" * 60_000)
    asked = [parent.ask(one.task_id) for one in asks]
    parent.do(Pause())
    for question_id in asked:
        parent.answer(question_id, payload=Payload(data=b"x" * 200_000))
    world = fork(parent)

    failures = [world.task(one.task_id).failure for one in bad]
    assert [bool(failure.details) for failure in failures] == [True] * 8 + [False] * 4
    assert {failure.kind for failure in failures} == {"Boom"}
    assert len(failures[-1].message) == 200
    assert [bool(world.task(one.task_id).question_id) for one in asks] == [True, True, False, False]
