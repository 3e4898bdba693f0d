"""Commands on a run: cancel, pause, resume."""

from __future__ import annotations

from stepwell.core.loop.signals import Cancel, Completed, Delivery, Pause, Resume
from stepwell.core.records.model import RetryPolicy, TaskSpec
from stepwell.core.records.states import ExecutionStatus, OnFailure, Phase, RunStatus, TaskStatus
from tests.unit.loop_world import World, chain

ONCE = RetryPolicy(max_attempts=1)


def running() -> World:
    world = World()
    world.start(plan=[TaskSpec(task_id="a"), TaskSpec(task_id="b"), TaskSpec(task_id="c")])
    world.lease("task:a#1")
    return world


def test_S14_cancel_closes_everything_and_late_outcomes_are_refused() -> None:
    world = running()
    token = world.held("task:a#1").token
    assert world.do(Cancel(reason="enough"))[0].status == "ACCEPTED"
    assert world.run.status is RunStatus.CANCELLED
    assert all(t.status is TaskStatus.CANCELLED for t in world.state.tasks.values())
    assert all(t.ended_us for t in world.state.tasks.values())
    late = Delivery(execution_id="task:a#1", token=token, result=Completed())
    assert world.do(late)[0].status == "LEASE_LOST"
    assert world.do(Cancel())[0].status == "UNCHANGED"


def test_a_run_that_ended_can_not_be_cancelled_or_paused() -> None:
    world = World()
    world.start(plan=chain("a"))
    world.complete("a")
    assert world.do(Cancel())[0].reason == "RUN_ENDED"
    assert world.do(Pause())[0].reason == "RUN_ENDED"


def test_pause_withdraws_what_is_ready_and_lets_what_is_leased_end() -> None:
    world = running()
    world.do(Pause(reason="look"))
    assert world.run.status is RunStatus.PAUSED
    assert world.run.blocked_on == "PAUSED"
    assert world.ready() == []
    assert world.leased() == ["task:a#1"]
    assert world.executions["task:b#1"].status is ExecutionStatus.RELEASED
    world.complete("a")
    assert world.run.status is RunStatus.PAUSED
    assert world.ready() == []


def test_resume_goes_on_where_the_pause_was() -> None:
    world = running()
    world.do(Pause())
    world.complete("a")
    world.do(Resume())
    assert world.run.status is RunStatus.RUNNING
    assert world.ready() == ["task:b#2", "task:c#2"]
    assert world.task("b").spent == 0


def test_S19_resume_of_a_live_run_changes_nothing() -> None:
    world = running()
    version = world.run.version
    assert world.do(Resume())[0].status == "UNCHANGED"
    assert world.run.version == version


def test_resume_of_a_failed_run_runs_the_failed_and_interrupted_tasks_only() -> None:
    world = World()
    done, bad, cut = (TaskSpec(task_id=t, retry=ONCE) for t in ("done", "bad", "cut"))
    world.start(plan=[done, bad, cut])
    world.complete("done")
    world.lease("task:cut#1")
    world.fail("bad")
    assert world.run.status is RunStatus.FAILED
    world.do(Resume())
    assert world.run.status is RunStatus.RUNNING
    assert sorted(world.ready()) == ["task:bad#2", "task:cut#2"]
    assert world.task("done").attempts == 1
    assert world.run.allowance == 2
    world.complete("bad", "cut")
    assert world.run.status is RunStatus.SUCCEEDED


def test_resume_brings_skipped_tasks_back_with_what_made_them_skip() -> None:
    world = World()
    plan = chain("a", "b", retry=ONCE, on_failure=OnFailure.SKIP_DEPENDENTS)
    world.start(plan=[*plan, TaskSpec(task_id="z")])
    world.fail("a")
    world.do(Pause())
    world.do(Resume())
    assert world.task("b").status is TaskStatus.PENDING
    assert "task:a#2" in world.ready()


def test_resume_without_retry_leaves_failures_as_they_are() -> None:
    world = World()
    world.start(plan=[TaskSpec(task_id="a", retry=ONCE), TaskSpec(task_id="b")])
    world.fail("a")
    world.do(Resume(retry_failed=False))
    assert world.task("a").status is TaskStatus.FAILED
    world.complete("b")
    assert world.run.status is RunStatus.SUCCEEDED


def test_a_resumed_run_may_fail_and_be_resumed_again() -> None:
    world = World()
    world.start(step_retry=ONCE)
    from stepwell.core.loop.signals import Failed, Planned
    from stepwell.core.records.model import Failure

    world.deliver("plan:1#1", Failed(failure=Failure(kind="x")))
    world.do(Resume())
    world.deliver("plan:1#2", Failed(failure=Failure(kind="x")))
    assert (world.run.status, world.run.phase) == (RunStatus.FAILED, Phase.PLANNING)
    world.do(Resume())
    world.deliver("plan:1#3", Planned(tasks=tuple(chain("a"))))
    assert world.run.phase is Phase.EXECUTING


def test_a_cancelled_run_is_not_resumed() -> None:
    world = running()
    world.do(Cancel())
    reply = world.do(Resume())[0]
    assert reply.reason == "RUN_CANCELLED"
    assert "fork" in reply.message


def test_S16_a_command_sent_again_is_carried_out_once() -> None:
    world = running()
    pause = Pause(request_id="r", fingerprint="f")
    assert world.do(pause)[0].status == "ACCEPTED"
    world.do(Resume())
    version = world.run.version
    assert world.do(pause)[0].status == "UNCHANGED"
    assert world.run.version == version
    other = world.do(Cancel(request_id="r", fingerprint="g"))[0]
    assert other.reason == "REQUEST_ID_REUSED"
    assert world.run.status is RunStatus.RUNNING
