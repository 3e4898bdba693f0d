"""Forks: results that are kept, tasks that run again, and plans that don't fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from stepwell.core.fork.carry import Changes
from stepwell.core.fork.fork import Base, base_of, fork_id
from stepwell.core.loop.signals import (
    Answer,
    Begin,
    Cancel,
    Completed,
    LeaseExpired,
    NeedsInput,
    Pause,
    Planned,
    Reflected,
    SkipTask,
)
from stepwell.core.loop.state import RunState
from stepwell.core.records.errors import FailedPrecondition, InvalidArgument
from stepwell.core.records.fold import fold
from stepwell.core.records.model import (
    Failure,
    Payload,
    RetryPolicy,
    RunSpec,
    Session,
    TaskSpec,
    Usage,
)
from stepwell.core.records.states import (
    Decision,
    Effect,
    FinishReason,
    ForkMode,
    OnFailure,
    Phase,
    RunStatus,
    StepKind,
    TaskStatus,
)
from tests.unit.loop_world import World, chain

ONCE = RetryPolicy(max_attempts=1)
PARENT = "11111111-2222-4333-8444-555555555555"


def spec_of(parent: World, version: int, **fields: object) -> RunSpec:
    spec = replace(
        parent.run.spec,
        run_id="fork",
        parent_run_id=PARENT,
        parent_version=version,
        family_id=PARENT,
    )
    return replace(spec, **fields)


def base(
    parent: World, version: int = 0, *, changes: Changes | None = None, **spec: object
) -> Base:
    version = version or parent.run.version
    events = [event for event in parent.events if event.version <= version]
    rows = fold(parent.run.spec, parent.plans, events)
    return base_of(spec_of(parent, version, **spec), rows, parent.plans, changes or Changes())


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


def patch(*tasks: TaskSpec, roles: frozenset[str] | None = None) -> Changes:
    return Changes(mode=ForkMode.PATCH, plan=tasks, roles=roles)


def strict(*tasks: TaskSpec) -> Changes:
    return Changes(mode=ForkMode.STRICT, plan=tasks)


def kinds(made: Base) -> list[tuple[str, str, str]]:
    return [(str(one.kind), one.task_id, one.field) for one in made.misfits]


def planned(*tasks: TaskSpec, **spec: Any) -> World:
    world = World()
    world.start(**spec)
    world.deliver("plan:1#1", Planned(tasks=tasks))
    return world


def finished(*tasks: TaskSpec, **spec: Any) -> World:
    world = planned(*tasks, **spec)
    world.complete(*(task.task_id for task in tasks))
    world.deliver("reflect:1#1", Reflected(decision=Decision.FINISH))
    world.deliver("synthesize:1#1", Completed(result=Payload(data=b"42")))
    return world


def one(task_id: str, *depends_on: str, **fields: object) -> TaskSpec:
    return replace(TaskSpec(task_id=task_id, depends_on=depends_on), **fields)


# --- as it stood -----------------------------------------------------------------------------------


def test_fork_keeps_completed_results_by_reference_and_runs_the_rest() -> None:
    parent = planned(*chain("a", "b", "c"))
    parent.complete("a")
    world = fork(parent)

    kept = world.task("a")
    assert (kept.status, kept.result_id, kept.result_run_id) == ("COMPLETED", "task:a#1", PARENT)
    assert world.ready() == ["task:b#2"]
    assert world.run.counts.completed == 1
    assert world.plans[1].trigger == "FORK"
    assert world.kinds()[:3] == ["RUN_STARTED", "PLAN_ACCEPTED", "RUN_FORKED"]
    assert world.events[2].message == f"forked from {PARENT} at version {parent.run.version}"
    world.complete("b", "c")
    assert world.run.phase is Phase.REFLECTING


def test_a_fork_of_every_version_of_a_run_goes_on_to_its_end() -> None:
    parent = finished(*chain("a", "b"), one("x"))
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
        assert world.run.status is RunStatus.SUCCEEDED


def test_a_fork_of_a_fork_names_the_run_where_the_result_is() -> None:
    parent = planned(*chain("a", "b", "c"))
    parent.complete("a")
    child = fork(parent)
    child.complete("b")
    made = base(child, parent_run_id="child")

    of = {task.task_id: (task.result_id, task.result_run_id) for task in made.fork.tasks}
    assert of["a"] == ("task:a#1", PARENT)
    assert of["b"] == ("task:b#2", "child")


def test_a_fork_never_goes_on_with_the_parents_session() -> None:
    parent = planned(one("a"))
    session = Session(backend="cli", session_id="s1")
    parent.deliver("task:a#1", NeedsInput(prompt="?"), session=session)
    world = fork(parent)

    assert world.task("a").previous == parent.task("a").previous.__class__()
    assert world.task("a").messages == 0
    assert world.ready() == ["task:a#2"]


def test_a_fork_begins_anew_with_usage_budget_and_attempts() -> None:
    parent = planned(one("a"), one("b"))
    parent.deliver("task:a#1", Completed(), usage=Usage(cost_micros=5))
    parent.fail("b")
    world = fork(parent)

    assert (world.run.usage, world.run.attempts.completed) == (Usage(), 0)
    assert (world.task("b").attempts, world.task("b").spent) == (3, 0)


@pytest.mark.parametrize(
    ("stages", "phase"),
    [
        ((StepKind.REFLECT, StepKind.SYNTHESIZE), Phase.SYNTHESIZING),
        ((StepKind.REFLECT,), Phase.REFLECTING),
        ((), Phase.DONE),
    ],
)
def test_a_fork_of_a_run_that_is_done_does_its_last_stage_again(
    stages: tuple[StepKind, ...], phase: Phase
) -> None:
    parent = World()
    parent.start(plan=chain("a"), stages=stages)
    parent.complete("a")
    if StepKind.REFLECT in stages:
        parent.deliver("reflect:1#1", Reflected(decision=Decision.FINISH))
    if StepKind.SYNTHESIZE in stages:
        parent.deliver("synthesize:1#1", Completed())
    assert parent.run.status is RunStatus.SUCCEEDED
    world = fork(parent)

    assert world.run.phase is phase
    assert world.run.ended is (phase is Phase.DONE)
    if phase is Phase.SYNTHESIZING:
        assert world.run.finish_reason is FinishReason.FINISHED


def test_a_fork_in_the_middle_of_a_step_goes_on_with_its_numbers() -> None:
    parent = planned(one("a"))
    parent.complete("a")
    parent.lease("reflect:1#1")

    assert fork(parent).ready() == ["reflect:1#2"]


def test_a_fork_of_a_cancelled_run_runs_what_was_cancelled_with_it() -> None:
    parent = planned(one("a"), one("b"))
    parent.complete("a")
    parent.do(Cancel(reason="wrong"))
    world = fork(parent)

    assert world.ready() == ["task:b#2"]
    assert (world.run.status, world.run.reason) == (RunStatus.QUEUED, "")


def test_a_fork_of_a_failed_run_runs_what_failed_and_what_that_skipped() -> None:
    parent = planned(one("a", retry=ONCE, on_failure=OnFailure.SKIP_DEPENDENTS), one("b", "a"))
    parent.fail("a")
    assert parent.run.phase is Phase.REFLECTING
    before_reflecting = fork(parent)
    assert before_reflecting.ready() == ["reflect:1#2"]
    assert before_reflecting.task("a").status is TaskStatus.FAILED
    assert before_reflecting.task("a").failure.kind == "Boom"

    broken = planned(one("a", retry=ONCE), one("b", "a"))
    broken.fail("a")
    assert broken.run.status is RunStatus.FAILED
    assert fork(broken).ready() == ["task:a#2"]


def test_fork_keeps_tasks_skipped_by_a_person() -> None:
    parent = planned(one("a"), one("b"))
    parent.do(SkipTask(task_id="a"))
    world = fork(parent)

    assert world.task("a").status is TaskStatus.SKIPPED
    assert world.ready() == ["task:b#2"]


def test_a_failure_that_was_passed_over_stays() -> None:
    parent = planned(
        one("a", retry=ONCE, on_failure=OnFailure.CONTINUE), one("b", "a"), one("c", "b")
    )
    parent.fail("a")
    parent.complete("b")
    world = fork(parent)

    assert world.task("a").status is TaskStatus.FAILED
    assert world.run.counts.failed == 1
    assert world.ready() == ["task:c#2"]


def test_fork_leaves_out_dropped_tasks_and_keeps_settled_ones() -> None:
    parent = planned(one("ask"), one("dropped"), one("done"))
    parent.complete("done")
    parent.deliver("task:ask#1", NeedsInput(prompt="?"))
    parent.do(Answer(input_id="input:task:ask#1", payload=Payload(), replan=True))
    parent.deliver("plan:2#1", Planned(tasks=(one("new"),)))
    world = fork(parent)

    assert [task.task_id for task in world.plans[1].tasks] == ["done", "new"]
    assert world.task("done").status is TaskStatus.COMPLETED


def test_fork_keeps_unused_answers_and_drops_open_questions() -> None:
    parent = planned(one("a"), one("b"), max_parallel=2)
    parent.deliver("task:a#1", NeedsInput(prompt="?"))
    parent.deliver("task:b#1", NeedsInput(prompt="?"))
    parent.do(Pause())
    parent.do(Answer(input_id="input:task:a#1", payload=Payload(data=b"1"), answered_by="ann"))
    made = base(parent)
    assert [one.input_id for one in made.fork.inputs] == ["input:task:a#1"]
    world = fork(parent)

    assert world.task("a").input_id == "input:task:a#1"
    assert world.task("b").input_id == ""
    assert world.ready() == ["task:a#2", "task:b#2"]


# --- planning again -----------------------------------------------------------------------------


def test_a_fork_may_plan_again_in_another_iteration() -> None:
    parent = finished(*chain("a", "b"))
    world = fork(parent, changes=Changes(replan=True))

    assert (world.run.phase, world.run.iteration) == (Phase.PLANNING, 2)
    assert world.ready() == ["plan:2#1"]
    world.deliver("plan:2#1", Planned(tasks=(*chain("a", "b"), one("c", "b"))))
    assert world.plans[2].carried == ("a", "b")
    assert world.ready() == ["task:c#1"]


def test_a_fork_may_not_plan_again_after_the_last_iteration() -> None:
    parent = finished(one("a"), max_iterations=1)
    with pytest.raises(FailedPrecondition) as caught:
        base(parent, changes=Changes(replan=True))
    assert caught.value.reason == "LAST_ITERATION"
    assert fork(parent, changes=Changes(replan=True), max_iterations=2).run.iteration == 2


def test_a_fork_may_not_allow_fewer_iterations_than_there_were() -> None:
    parent = planned(one("a"))
    parent.complete("a")
    parent.deliver("reflect:1#1", Reflected(decision=Decision.REPLAN))
    assert fork(parent, max_iterations=2).run.iteration == 2
    with pytest.raises(FailedPrecondition, match="begins in iteration 2 of 1"):
        base(parent, max_iterations=1)


def test_a_fork_of_a_run_without_a_plan_wants_one_or_asks_for_one() -> None:
    parent = World()
    parent.start()
    assert kinds(base(parent)) == [("PLAN_MISSING", "", "plan")]
    assert fork(parent, changes=Changes(replan=True)).ready() == ["plan:1#2"]
    assert fork(parent, changes=patch(one("a"))).ready() == ["task:a#1"]


# --- STRICT -------------------------------------------------------------------------------------


def test_strict_takes_the_plan_in_force_and_executes_it() -> None:
    parent = finished(*chain("a", "b"))
    world = fork(parent, changes=strict(*chain("a", "b")))

    assert world.run.phase is Phase.REFLECTING
    assert world.run.counts.completed == 2


@pytest.mark.parametrize(
    ("tasks", "expected"),
    [
        ((one("a"),), [("TASK_REMOVED", "b", "plan.tasks")]),
        ((one("a"), one("b", "a"), one("c")), [("TASK_ADDED", "c", "plan.tasks[2]")]),
        (
            (one("a"), one("b", "a", role="x")),
            [("DEFINITION_CHANGED", "b", "plan.tasks[1].role")],
        ),
        ((one("a"), one("b")), [("DEPENDENCY_CHANGED", "b", "plan.tasks[1].depends_on")]),
        (
            (one("a"), one("b", attempt_timeout_ms=5)),
            [
                ("DEPENDENCY_CHANGED", "b", "plan.tasks[1].depends_on"),
                ("DEFINITION_CHANGED", "b", "plan.tasks[1].attempt_timeout"),
            ],
        ),
    ],
)
def test_strict_says_what_is_another_plan(
    tasks: Sequence[TaskSpec], expected: list[tuple[str, str, str]]
) -> None:
    parent = finished(*chain("a", "b"))
    assert kinds(base(parent, changes=strict(*tasks))) == expected


# --- PATCH --------------------------------------------------------------------------------------


def test_patch_runs_changed_tasks_again_and_what_is_built_on_them() -> None:
    parent = finished(*chain("a", "b", "c"), one("x"), one("y", "x"))
    changed = (one("a"), one("b", "a", prompt="otherwise"), one("c", "b"), one("x"), one("y", "x"))
    made = base(parent, changes=patch(*changed))
    assert made.kept == ("a", "x", "y")
    assert made.rerun == ("b", "c")
    world = fork(parent, changes=patch(*changed))

    assert world.run.phase is Phase.EXECUTING
    assert world.ready() == ["task:b#2"]


def test_patch_drops_adds_and_refuses_an_unsound_plan() -> None:
    parent = finished(*chain("a", "b"))
    world = fork(parent, changes=patch(one("a"), one("n", "a")))
    assert [task.task_id for task in world.plans[1].tasks] == ["a", "n"]
    assert world.ready() == ["task:n#1"]
    with pytest.raises(InvalidArgument) as caught:
        base(parent, changes=patch(one("a"), one("n", "b")))
    assert caught.value.reason == "PLAN_INVALID"
    assert caught.value.violations[0].field == "plan.tasks[1].depends_on[0]"


def test_patch_may_build_on_tasks_outside_the_current_plan() -> None:
    parent = planned(one("old"))
    parent.complete("old")
    parent.deliver("reflect:1#1", Reflected(decision=Decision.CONTINUE, tasks=(one("a", "old"),)))
    parent.complete("a")
    world = fork(parent, changes=patch(one("b", "old")))

    assert [task.task_id for task in world.plans[1].tasks] == ["old", "b"]
    assert world.ready() == ["task:b#1"]


def at_most_once(task_id: str, *depends_on: str, **fields: object) -> TaskSpec:
    return one(task_id, *depends_on, effect=Effect.AT_MOST_ONCE, **fields)


def test_patch_refuses_to_repeat_an_effect() -> None:
    parent = finished(one("a"), at_most_once("pay", "a"))
    changed = (one("a", prompt="otherwise"), at_most_once("pay", "a"))
    assert kinds(base(parent, changes=patch(*changed))) == [
        ("EFFECT_REPEATED", "pay", "plan.tasks[1]")
    ]
    allowed = base(parent, changes=patch(one("a", prompt="otherwise"), one("pay", "a")))
    assert allowed.misfits == ()
    assert allowed.rerun == ("a", "pay")


@pytest.mark.parametrize("end", ["leased", "lost", "cancelled"])
def test_an_effect_whose_outcome_is_unknown_is_not_repeated_under_any_mode(end: str) -> None:
    parent = planned(at_most_once("pay"))
    token = parent.lease("task:pay#1")
    parent.do(Begin(execution_id="task:pay#1", token=token))
    if end == "lost":
        parent.do(LeaseExpired(execution_id="task:pay#1", token=token))
    elif end == "cancelled":
        parent.do(Cancel())

    assert kinds(base(parent)) == [("EFFECT_REPEATED", "pay", "")]
    assert kinds(base(parent, parent.run.version - (end == "leased"))) == (
        [] if end == "leased" else [("EFFECT_REPEATED", "pay", "")]
    )


def test_a_role_that_no_connected_worker_fills_is_missed() -> None:
    parent = planned(one("a", role="writer"), one("b", role="reader"))
    parent.complete("a")
    readers = frozenset({"reader"})
    assert kinds(base(parent, changes=Changes(roles=readers))) == []
    assert kinds(base(parent, changes=Changes(roles=frozenset()))) == [("ROLE_MISSING", "b", "")]
    assert kinds(base(parent, changes=Changes(roles=frozenset({"*"})))) == []
    assert kinds(base(parent, changes=Changes(roles=None))) == []
    given = patch(
        one("a", role="writer", prompt="otherwise"), one("b", role="reader"), roles=readers
    )
    assert kinds(base(parent, changes=given)) == [("ROLE_MISSING", "a", "plan.tasks[0].role")]


# --- the rest -----------------------------------------------------------------------------------


def test_a_forks_id_ends_as_its_parents() -> None:
    fresh = "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee"
    assert fork_id(PARENT, fresh) == "aaaaaaaa-bbbb-4ccc-8ddd-555555555555"


def test_the_same_fork_again_finds_it_and_another_request_does_not() -> None:
    parent = planned(one("a"))
    made = base(parent, request_fingerprint="1")
    world = World()
    world.state = RunState.empty("tenant", "fork")
    world.do(made.fork)
    assert world.do(made.fork)[0].status == "UNCHANGED"
    other = replace(made.fork, spec=replace(made.fork.spec, request_fingerprint="2"))
    assert world.do(other)[0].reason == "REQUEST_ID_REUSED"


def test_kept_failure_keeps_its_message() -> None:
    parent = planned(one("a", retry=ONCE, on_failure=OnFailure.CONTINUE), one("b", "a"))
    parent.fail("a", message="no")
    world = fork(parent)
    assert world.task("a").failure == Failure(kind="Boom", message="no")


def test_kept_failures_and_answers_have_limits() -> None:
    """All of it stands in one event, and a message of a watch holds whole commits."""
    details = "d" * 60_000
    bad = [one(f"bad{n}", retry=ONCE, on_failure=OnFailure.CONTINUE) for n in range(12)]
    asks = [one(f"ask{n}") for n in range(4)]
    parent = planned(*bad, *asks, max_parallel=32)
    for task in bad:
        parent.fail(task.task_id, message="m" * 500, details=details)
    for task in asks:
        parent.deliver(f"task:{task.task_id}#1", NeedsInput(prompt="?"))
    parent.do(Pause())
    for task in asks:
        answer = Payload(data=b"x" * 200_000)
        parent.do(Answer(input_id=f"input:task:{task.task_id}#1", payload=answer))
    world = fork(parent)

    failures = [world.task(task.task_id).failure for task in bad]
    assert [bool(failure.details) for failure in failures] == [True] * 8 + [False] * 4
    assert {failure.kind for failure in failures} == {"Boom"}
    assert len(failures[-1].message) == 200
    assert [bool(world.task(task.task_id).input_id) for task in asks] == [True, True, False, False]
