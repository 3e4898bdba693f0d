"""Commands that change a run on its way: retry and skip a task, stop after the iteration."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell.core.loop.signals import (
    Begin,
    Cancel,
    Completed,
    Delivery,
    LeaseExpired,
    NeedsInput,
    Pause,
    Planned,
    Reflected,
    Resume,
    RetryTask,
    SkipTask,
    Stop,
)
from stepwell.core.records.model import RetryPolicy, TaskSpec
from stepwell.core.records.states import (
    Decision,
    Effect,
    ExecutionStatus,
    InputStatus,
    OnFailure,
    RunStatus,
    StepKind,
    TaskStatus,
)
from tests.unit.loop_world import World, chain

ONCE = RetryPolicy(max_attempts=1)
SKIPS = {"retry": ONCE, "on_failure": OnFailure.SKIP_DEPENDENTS}
PASSES = {"retry": ONCE, "on_failure": OnFailure.CONTINUE}


def statuses(world: World) -> dict[str, str]:
    return {task_id: str(task.status) for task_id, task in world.state.tasks.items()}


# --- skip -----------------------------------------------------------------------------------------


def test_task_skipped_by_a_person_stays_skipped() -> None:
    world = World()
    world.start(plan=[TaskSpec(task_id="out"), TaskSpec(task_id="fails", retry=ONCE)])
    world.do(SkipTask(task_id="out"))
    world.do(Pause())
    world.do(Resume())
    assert world.ready() == ["task:fails#2"]

    world.fail("fails")
    assert world.run.status is RunStatus.FAILED
    world.do(Resume())
    assert world.ready() == ["task:fails#3"]
    assert world.task("out").status is TaskStatus.SKIPPED


def test_a_failure_that_a_later_plan_left_out_stays_over_a_pause() -> None:
    world = World()
    world.start(
        plan=[TaskSpec(task_id="a", **SKIPS), TaskSpec(task_id="b")], stages=(StepKind.REFLECT,)
    )
    world.fail("a")
    world.complete("b")
    new = (TaskSpec(task_id="c"),)
    world.deliver("reflect:1#1", Reflected(decision=Decision.CONTINUE, tasks=new))
    world.do(Pause())
    world.do(Resume())

    assert statuses(world) == {"a": "FAILED", "b": "COMPLETED", "c": "READY"}


def test_skipping_a_running_task_notifies_its_worker_and_refuses_its_outcome() -> None:
    world = World()
    world.start(plan=chain("a", "b"))
    token = world.lease("task:a#1")
    skip = SkipTask(task_id="a", reason="gone")
    assert world.revoked_by(skip) == {"task:a#1": "the task was skipped"}
    assert world.do(skip)[0].status == "ACCEPTED"
    assert world.executions["task:a#1"].status is ExecutionStatus.CANCELLED
    late = Delivery(execution_id="task:a#1", token=token, result=Completed())
    assert world.do(late)[0].status == "LEASE_LOST"
    assert statuses(world) == {"a": "SKIPPED", "b": "READY"}
    assert world.events[-1].type == "TASK_SKIPPED"
    assert world.events[-1].message == "gone"


def test_dependents_are_skipped_too_where_that_is_asked() -> None:
    world = World()
    world.start(plan=[*chain("a", "b", "c"), TaskSpec(task_id="d")])
    world.do(SkipTask(task_id="a", skip_dependents=True))
    assert statuses(world) == {"a": "SKIPPED", "b": "SKIPPED", "c": "SKIPPED", "d": "READY"}
    world.complete("d")
    assert world.run.status is RunStatus.SUCCEEDED


def test_a_task_that_asks_a_person_asks_no_more() -> None:
    world = World()
    world.start(plan=chain("a", "b"))
    world.deliver("task:a#1", NeedsInput(prompt="?", expires_ms=5))
    world.do(SkipTask(task_id="a"))
    assert world.state.inputs == {}
    assert world.timers == {}
    assert world.events[-1].inputs[0].status is InputStatus.CANCELLED
    assert statuses(world) == {"a": "SKIPPED", "b": "READY"}


def test_a_task_whose_outcome_is_unknown_can_be_skipped() -> None:
    world = World()
    world.start(plan=[TaskSpec(task_id="a", effect=Effect.AT_MOST_ONCE)])
    token = world.lease("task:a#1")
    world.do(Begin(execution_id="task:a#1", token=token))
    world.do(LeaseExpired(execution_id="task:a#1", token=token))
    world.do(SkipTask(task_id="a"))
    assert world.run.status is RunStatus.SUCCEEDED


def test_a_pending_task_of_a_paused_run_is_skipped_and_the_run_stays_paused() -> None:
    world = World()
    world.start(plan=chain("a", "b"))
    world.do(Pause())
    world.do(SkipTask(task_id="a"))
    assert world.run.status is RunStatus.PAUSED
    assert statuses(world) == {"a": "SKIPPED", "b": "PENDING"}
    world.do(SkipTask(task_id="b"))
    assert world.run.status is RunStatus.SUCCEEDED


def test_only_what_is_not_settled_is_skipped() -> None:
    world = World()
    world.start(plan=[TaskSpec(task_id="a"), TaskSpec(task_id="b"), TaskSpec(task_id="c")])
    world.complete("a")
    assert world.do(SkipTask(task_id="a"))[0].reason == "TASK_STATUS"
    assert world.do(SkipTask(task_id="nobody"))[0].reason == "TASK_NOT_FOUND"
    world.do(SkipTask(task_id="b"))
    assert world.do(SkipTask(task_id="b"))[0].status == "UNCHANGED"
    world.do(Cancel())
    assert world.do(SkipTask(task_id="c"))[0].reason == "RUN_ENDED"


# --- retry ----------------------------------------------------------------------------------------


def failed(**fields: Any) -> World:
    """Return a run in which `a` failed and was passed over, while `other` still runs."""
    world = World()
    first, *rest = chain("a", "b", "c")
    whole = [TaskSpec(task_id="a", **fields), *rest, TaskSpec(task_id="other")]
    assert first.task_id == "a"
    world.start(plan=whole)
    world.fail("a")
    return world


def test_a_failed_task_and_what_was_skipped_because_of_it_run_again() -> None:
    world = failed(**SKIPS)
    assert statuses(world) == {"a": "FAILED", "b": "SKIPPED", "c": "SKIPPED", "other": "READY"}
    assert world.do(RetryTask(task_id="a", reason="now it is there"))[0].status == "ACCEPTED"
    assert statuses(world) == {"a": "READY", "b": "PENDING", "c": "PENDING", "other": "READY"}
    assert world.task("a").failure.kind == ""
    world.complete("a", "b", "c", "other")
    assert world.run.status is RunStatus.SUCCEEDED


def test_a_retry_opens_a_new_allowance_and_the_numbers_go_on() -> None:
    twice = RetryPolicy(max_attempts=2, initial_backoff_ms=0)
    world = failed(retry=twice, on_failure=OnFailure.SKIP_DEPENDENTS)
    world.fail("a")
    assert world.task("a").status is TaskStatus.FAILED
    world.do(RetryTask(task_id="a"))
    world.fail("a")
    assert world.task("a").status is TaskStatus.READY, "it has two attempts again"
    assert world.task("a").attempts == 4


def test_a_failure_that_something_was_built_on_stays() -> None:
    world = failed(**PASSES)
    assert statuses(world)["b"] == "READY"
    assert world.do(RetryTask(task_id="a"))[0].reason == "TASK_BUILT_ON"


def test_a_failure_that_is_reflected_on_stays() -> None:
    world = World()
    spec = TaskSpec(task_id="a", retry=ONCE, on_failure=OnFailure.CONTINUE)
    world.start(plan=[spec], stages=(StepKind.REFLECT,))
    world.fail("a")
    assert world.run.phase == "REFLECTING"
    assert world.do(RetryTask(task_id="a"))[0].reason == "TASK_BUILT_ON"
    other = Reflected(decision=Decision.CONTINUE, tasks=(TaskSpec(task_id="b"),))
    world.deliver("reflect:1#1", other)
    assert world.do(RetryTask(task_id="a"))[0].reason == "TASK_BUILT_ON"


def test_task_skipped_by_another_failure_stays_skipped() -> None:
    bad = {"retry": ONCE, "on_failure": OnFailure.SKIP_DEPENDENTS}
    world = World()
    world.start(
        plan=[
            TaskSpec(task_id="a", **bad),
            TaskSpec(task_id="x", **bad),
            TaskSpec(task_id="b", depends_on=("a",)),
            TaskSpec(task_id="both", depends_on=("b", "x")),
            TaskSpec(task_id="other"),
        ]
    )
    world.fail("a")
    world.fail("x")
    world.do(RetryTask(task_id="a"))
    assert statuses(world)["b"] == "PENDING"
    assert statuses(world)["both"] == "SKIPPED"
    world.do(RetryTask(task_id="x"))
    assert statuses(world)["both"] == "PENDING"


def test_skipped_task_runs_after_a_retry() -> None:
    world = World()
    world.start(plan=[*chain("a", "b"), TaskSpec(task_id="other")])
    world.do(SkipTask(task_id="a", skip_dependents=True))
    world.do(RetryTask(task_id="a"))
    assert statuses(world) == {"a": "READY", "b": "PENDING", "other": "READY"}


def test_a_task_that_waits_for_its_back_off_is_offered_at_once() -> None:
    world = World()
    slow = RetryPolicy(max_attempts=3, initial_backoff_ms=60_000, jitter=0.0)
    world.start(plan=[TaskSpec(task_id="a", retry=slow)])
    world.fail("a")
    assert world.run.blocked_on == "TIMER"
    assert world.do(RetryTask(task_id="a"))[0].status == "ACCEPTED"
    assert world.executions["task:a#2"].status is ExecutionStatus.RELEASED
    assert world.ready() == ["task:a#3"]
    assert world.executions["task:a#3"].delay_ms == 0
    assert world.run.blocked_on == "WORKER"
    assert world.timers == {}
    assert world.task("a").spent == 1
    assert world.do(RetryTask(task_id="a"))[0].reason == "TASK_STATUS"


def test_a_retry_on_a_paused_run_is_offered_by_the_resume() -> None:
    world = failed(**SKIPS)
    world.do(Pause())
    world.do(RetryTask(task_id="a"))
    assert statuses(world)["a"] == "PENDING"
    assert world.do(RetryTask(task_id="a"))[0].reason == "TASK_STATUS"
    world.do(Resume())
    assert "task:a#2" in world.ready()


def test_done_running_or_missing_task_cannot_be_retried() -> None:
    world = World()
    world.start(plan=[TaskSpec(task_id="a"), TaskSpec(task_id="b"), TaskSpec(task_id="c")])
    world.complete("a")
    world.lease("task:b#1")
    for task_id in "abc":
        assert world.do(RetryTask(task_id=task_id))[0].reason == "TASK_STATUS"
    assert world.do(RetryTask(task_id="nobody"))[0].reason == "TASK_NOT_FOUND"


@pytest.mark.parametrize("command", [Cancel(), None])
def test_a_run_that_ended_retries_nothing_and_says_what_to_do(command: Cancel | None) -> None:
    world = World()
    world.start(plan=[TaskSpec(task_id="a", retry=ONCE)])
    if command is not None:
        world.do(command)
    else:
        world.fail("a")
    reply = world.do(RetryTask(task_id="a"))[0]
    assert reply.reason == "RUN_ENDED"
    assert ("fork" if command is not None else "resume") in reply.message


# --- stop -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("decision", [Decision.CONTINUE, Decision.REPLAN])
def test_a_stopped_run_ends_after_its_iteration_with_its_answer(decision: Decision) -> None:
    world = World()
    world.start()
    assert world.do(Stop(reason="good enough"))[0].status == "ACCEPTED"
    assert world.do(Stop())[0].status == "UNCHANGED"
    world.deliver("plan:1#1", Planned(tasks=tuple(chain("a", "b"))))
    world.complete("a", "b")
    more = Reflected(decision=decision, tasks=tuple(chain("c")))
    world.deliver("reflect:1#1", more)
    assert world.run.phase == "SYNTHESIZING"
    assert world.run.finish_reason == "STOPPED"
    world.deliver("synthesize:1#1", Completed())
    assert world.run.status is RunStatus.SUCCEEDED
    assert world.do(Stop())[0].reason == "RUN_ENDED"


def test_a_reflection_that_finishes_a_stopped_run_has_finished_it() -> None:
    world = World()
    world.start(plan=chain("a"), stages=(StepKind.REFLECT,))
    world.complete("a")
    world.do(Stop())
    world.deliver("reflect:1#1", Reflected(decision=Decision.FINISH))
    assert world.run.finish_reason == "FINISHED"


def test_a_run_without_reflection_goes_on_to_its_end() -> None:
    world = World()
    world.start(plan=chain("a", "b"))
    world.do(Pause())
    world.do(Stop())
    world.do(Resume())
    world.complete("a", "b")
    assert world.run.status is RunStatus.SUCCEEDED
    assert world.run.finish_reason == "FINISHED"
