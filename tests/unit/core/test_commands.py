"""Commands on a run: cancel, pause, resume, skip and retry a task, stop after the iteration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from stepwell.core.loop.occurrences import (
    Answer,
    AnyCommand,
    Cancel,
    Completed,
    Failed,
    Occurrence,
    Pause,
    Planned,
    RaiseBudget,
    Reflected,
    Resolve,
    Resume,
    RetryTask,
    SkipTask,
    Stop,
    TimerDue,
)
from stepwell.core.records.model import Budget, Failure, RetryPolicy
from stepwell.core.records.states import Decision, Effect, Finding, OnFailure, StepKind
from tests.unit.core.loop_world import ONCE, YES, World, chain, started, task, tasks

SKIPS: dict[str, Any] = {"retry": ONCE, "on_failure": OnFailure.SKIP_DEPENDENTS}
PASSES: dict[str, Any] = {"retry": ONCE, "on_failure": OnFailure.CONTINUE}


def skip(world: World, task_id: str, **fields: Any) -> str:
    """Skip a task; returns the reason of a refusal, or else the status."""
    reply = world.do(SkipTask(task_id=task_id, **fields))[0]
    return reply.reason or reply.status


def retry(world: World, task_id: str) -> str:
    """Retry a task; returns the reason of a refusal, or else the status."""
    reply = world.do(RetryTask(task_id=task_id))[0]
    return reply.reason or reply.status


COMMANDS: dict[str, Callable[[World], AnyCommand]] = {
    "cancel": lambda world: Cancel(),
    "pause": lambda world: Pause(),
    "stop": lambda world: Stop(),
    "budget": lambda world: RaiseBudget(budget=Budget(tasks=9)),
    "skip": lambda world: SkipTask(task_id="c"),
    "answer": lambda world: Answer(question_id="question:task:b#1", payload=YES, replan=True),
    "resolve": lambda world: Resolve(execution_id="task:a#1", finding=Finding.DONE),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_A1_all_events_of_a_command_name_its_caller_and_no_others_do(name: str) -> None:
    world = started(task("a", effect=Effect.AT_MOST_ONCE), "b", "c", budget=Budget(tasks=8))
    world.begin("task:a#1")
    world.expire("task:a#1")
    world.ask("b")
    before = len(world.events)
    assert {(e.actor, e.on_behalf_of) for e in world.events if e.actor} == {("caller", "")}
    command = COMMANDS[name](world)
    world.do(replace(command, actor="bot", on_behalf_of="ann"), eager=True)
    by = {
        (e.type, e.actor, e.on_behalf_of)
        for e in world.events[before:]
        if e.type != "EXECUTION_LEASED"
    }
    assert {one[1:] for one in by} == {("bot", "ann")}, by
    assert (world.run.actor, world.run.on_behalf_of) == ("bot", "ann")
    leased = [e.actor for e in world.events[before:] if e.type == "EXECUTION_LEASED"]
    assert set(leased) <= {""}
    seen = len(world.events)
    world.do(replace(Pause(), actor="other"))
    assert world.run.ended or {e.actor for e in world.events[seen:]} <= {"other"}


def test_A1_resume_retry_start_and_fork_name_their_callers() -> None:
    world = started(task("a", retry=ONCE, on_failure=OnFailure.SKIP_DEPENDENTS), "b")
    assert world.run.actor == world.events[0].actor == "caller"
    world.fail("a")
    assert world.events[-1].actor == ""
    for command in (RetryTask(task_id="a"), Pause(), Resume()):
        seen = len(world.events)
        world.do(replace(command, actor=type(command).__name__))
        assert {e.actor for e in world.events[seen:]} == {world.run.actor}
        assert world.run.actor == type(command).__name__


# --- cancel, pause, resume --------------------------------------------------------------------------


def running() -> World:
    """Return a run of three tasks, one of which is leased."""
    world = started("a", "b", "c")
    world.lease("task:a#1")
    return world


def test_S14_cancel_closes_everything_and_late_outcomes_are_refused() -> None:
    world = running()
    token = world.held("task:a#1").token
    assert world.do(Cancel(reason="enough"))[0].status == "ACCEPTED"
    assert world.run.status == "CANCELLED"
    assert set(world.statuses().values()) == {"CANCELLED"}
    assert all(one.ended_us for one in world.state.tasks.values())
    assert world.late("task:a#1", token) == "LEASE_LOST"
    assert world.do(Cancel())[0].status == "UNCHANGED"
    reply = world.do(Resume())[0]
    assert reply.reason == "RUN_CANCELLED"
    assert "fork" in reply.message


@pytest.mark.parametrize("command", [Cancel(), Pause(), Stop(), SkipTask(task_id="a")])
def test_a_run_that_ended_takes_no_command(command: Occurrence) -> None:
    world = started("a")
    world.complete("a")
    assert world.do(command)[0].reason == "RUN_ENDED"


def test_pause_lets_what_is_leased_end_and_resume_goes_on_where_it_was() -> None:
    world = running()
    world.do(Pause(reason="look"))
    assert (world.run.status, world.run.blocked_on) == ("PAUSED", "PAUSED")
    assert (world.ready(), world.leased()) == ([], ["task:a#1"])
    assert world.status_of("task:b#1") == "RELEASED"
    world.complete("a")
    assert (world.run.status, world.ready()) == ("PAUSED", [])
    world.do(Resume())
    assert world.run.status == "RUNNING"
    assert world.ready() == ["task:b#2", "task:c#2"]
    assert world.task("b").spent == 0


def test_S19_resume_of_a_live_run_changes_nothing() -> None:
    world = running()
    version = world.run.version
    assert world.do(Resume())[0].status == "UNCHANGED"
    assert world.run.version == version


def test_resume_of_a_failed_run_runs_the_failed_and_interrupted_tasks_only() -> None:
    world = started(*tasks("done", "bad", "cut", retry=ONCE))
    world.complete("done")
    world.lease("task:cut#1")
    world.fail("bad")
    assert world.run.status == "FAILED"
    world.do(Resume())
    assert world.run.status == "RUNNING"
    assert sorted(world.ready()) == ["task:bad#2", "task:cut#2"]
    assert world.task("done").attempts == 1
    assert world.run.allowance == 2
    world.complete("bad", "cut")
    assert world.run.status == "SUCCEEDED"


def test_resume_brings_skipped_tasks_back_with_what_made_them_skip() -> None:
    world = started(*chain("a", "b", **SKIPS), "z")
    world.fail("a")
    world.do(Pause())
    world.do(Resume())
    assert world.task("b").status == "PENDING"
    assert "task:a#2" in world.ready()


def test_resume_that_keeps_a_failure_runs_what_is_independent_and_fails_with_it() -> None:
    world = started(*chain("a", "b", "c", retry=ONCE), task("out", "a"), "free")
    skip(world, "out")
    world.fail("a", kind="Kept")
    world.do(Resume(retry_failed=False))
    stopped = {"a": "FAILED", "b": "SKIPPED", "c": "SKIPPED", "out": "SKIPPED"}
    assert world.statuses() == {**stopped, "free": "READY"}
    world.complete("free")
    assert (world.run.status, world.run.failure.kind) == ("FAILED", "Kept")
    world.do(Resume(retry_failed=False))
    assert (world.run.status, world.kinds()[-2:]) == ("FAILED", ["RUN_RESUMED", "RUN_FAILED"])
    world.do(Resume())
    assert (world.ready(), world.task("b").status) == (["task:a#2"], "PENDING")
    world.complete("a", "b", "c", "out")
    assert world.run.status == "SUCCEEDED"


def test_kept_failure_may_be_retried_while_the_others_run() -> None:
    world = started(*chain("a", "b", retry=ONCE), "free")
    world.fail("a")
    world.do(Resume(retry_failed=False))
    assert retry(world, "a") == "ACCEPTED"
    world.complete("free", "a", "b")
    assert world.run.status == "SUCCEEDED"


def test_what_a_person_skipped_stays_skipped_below_a_failure_that_is_retried() -> None:
    world = started(task("a", total_timeout_ms=1_000), task("out", "a"), task("b", "a"))
    skip(world, "out")
    for _ in range(2):
        world.do(TimerDue(name="total:a"))
        assert world.run.status == "FAILED"
        world.do(Resume())
        assert (world.task("out").status, world.task("b").status) == ("SKIPPED", "PENDING")


def test_failure_kept_while_a_plan_is_made_counts_if_the_plan_names_its_task() -> None:
    for named in (True, False):
        world = World()
        plan = [task("a", retry=ONCE), *tasks("asks", "free")]
        world.start(plan=plan, stages=(StepKind.REFLECT,))
        world.lease("task:a#1")
        world.answer(world.ask("asks"), replan=True)
        world.fail("a")
        assert (world.run.status, world.run.phase) == ("FAILED", "PLANNING")
        world.do(Resume(retry_failed=False))
        anew = (*plan, task("b", "a")) if named else tasks("free")
        assert world.deliver("plan:2#2", Planned(tasks=anew)).status == "ACCEPTED"
        assert not named or world.task("b").status == "SKIPPED"
        while world.ready():
            world.deliver(world.ready()[0], Completed())
            if world.run.phase != "EXECUTING":
                break
        assert world.run.status == ("FAILED" if named else "RUNNING")


def test_a_resumed_run_may_fail_and_be_resumed_again() -> None:
    world = World()
    world.start(step_retry=ONCE)
    for attempt in (1, 2):
        world.deliver(f"plan:1#{attempt}", Failed(failure=Failure(kind="x")))
        assert (world.run.status, world.run.phase) == ("FAILED", "PLANNING")
        world.do(Resume())
    world.deliver("plan:1#3", Planned(tasks=tasks("a")))
    assert world.run.phase == "EXECUTING"


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
    assert world.run.status == "RUNNING"


# --- skip -----------------------------------------------------------------------------------------


def test_task_skipped_by_a_person_stays_skipped() -> None:
    world = started("out", task("fails", retry=ONCE))
    skip(world, "out")
    world.do(Pause())
    world.do(Resume())
    assert world.ready() == ["task:fails#2"]
    world.fail("fails")
    assert world.run.status == "FAILED"
    world.do(Resume())
    assert world.ready() == ["task:fails#3"]
    assert world.task("out").status == "SKIPPED"


def test_a_failure_that_a_later_plan_left_out_stays_over_a_pause() -> None:
    world = World()
    world.start(plan=[task("a", **SKIPS), task("b")], stages=(StepKind.REFLECT,))
    world.fail("a")
    world.complete("b")
    world.deliver("reflect:1#1", Reflected(decision=Decision.CONTINUE, tasks=tasks("c")))
    world.do(Pause())
    world.do(Resume())
    assert world.statuses() == {"a": "FAILED", "b": "COMPLETED", "c": "READY"}


def test_skipping_a_running_task_notifies_its_worker_and_refuses_its_outcome() -> None:
    world = started(*chain("a", "b"))
    token = world.lease("task:a#1")
    one = SkipTask(task_id="a", reason="gone")
    assert world.revoked_by(one) == {"task:a#1": "the task was skipped"}
    assert world.do(one)[0].status == "ACCEPTED"
    assert world.status_of("task:a#1") == "CANCELLED"
    assert world.late("task:a#1", token) == "LEASE_LOST"
    assert world.statuses() == {"a": "SKIPPED", "b": "READY"}
    assert (world.events[-1].type, world.events[-1].message) == ("TASK_SKIPPED", "gone")


def test_dependents_are_skipped_too_where_that_is_asked() -> None:
    world = started(*chain("a", "b", "c"), "d")
    skip(world, "a", skip_dependents=True)
    assert world.statuses() == {"a": "SKIPPED", "b": "SKIPPED", "c": "SKIPPED", "d": "READY"}
    assert retry(world, "a") == "ACCEPTED"
    assert world.statuses() == {"a": "READY", "b": "PENDING", "c": "PENDING", "d": "READY"}
    skip(world, "a", skip_dependents=True)
    world.complete("d")
    assert world.run.status == "SUCCEEDED"


def test_skipped_task_asks_no_more_and_its_outcome_need_not_be_known() -> None:
    world = started(*chain("a", "b"))
    world.ask("a", expires_ms=5)
    skip(world, "a")
    assert (world.state.questions, world.timers) == ({}, {})
    assert world.events[-1].questions[0].status == "CANCELLED"
    assert world.statuses() == {"a": "SKIPPED", "b": "READY"}

    world = started(task("a", effect=Effect.AT_MOST_ONCE))
    world.begin("task:a#1")
    world.expire("task:a#1")
    skip(world, "a")
    assert world.run.status == "SUCCEEDED"


def test_a_pending_task_of_a_paused_run_is_skipped_and_the_run_stays_paused() -> None:
    world = started(*chain("a", "b"))
    world.do(Pause())
    skip(world, "a")
    assert world.run.status == "PAUSED"
    assert world.statuses() == {"a": "SKIPPED", "b": "PENDING"}
    skip(world, "b")
    assert world.run.status == "SUCCEEDED"


def test_only_what_is_not_settled_is_skipped() -> None:
    world = started("a", "b", "c")
    world.complete("a")
    assert skip(world, "a") == "TASK_STATUS"
    assert skip(world, "nobody") == "TASK_NOT_FOUND"
    assert [skip(world, "b"), skip(world, "b")] == ["ACCEPTED", "UNCHANGED"]


# --- retry ----------------------------------------------------------------------------------------


def failed(**fields: Any) -> World:
    """Return a run in which `a` failed and was passed over, while `other` still runs."""
    world = started(task("a", **fields), task("b", "a"), task("c", "b"), "other")
    world.fail("a")
    return world


def test_a_failed_task_and_what_was_skipped_because_of_it_run_again() -> None:
    world = failed(**SKIPS)
    skipped = {"a": "FAILED", "b": "SKIPPED", "c": "SKIPPED", "other": "READY"}
    assert world.statuses() == skipped
    assert retry(world, "a") == "ACCEPTED"
    assert world.statuses() == {"a": "READY", "b": "PENDING", "c": "PENDING", "other": "READY"}
    assert world.task("a").failure.kind == ""
    world.complete("a", "b", "c", "other")
    assert world.run.status == "SUCCEEDED"


def test_a_retry_opens_a_new_allowance_and_the_numbers_go_on() -> None:
    twice = RetryPolicy(max_attempts=2, initial_backoff_ms=0)
    world = failed(retry=twice, on_failure=OnFailure.SKIP_DEPENDENTS)
    world.fail("a")
    assert world.task("a").status == "FAILED"
    retry(world, "a")
    world.fail("a")
    assert world.task("a").status == "READY", "it has two attempts again"
    assert world.task("a").attempts == 4


def test_a_failure_that_something_was_built_on_stays() -> None:
    world = failed(**PASSES)
    assert world.task("b").status == "READY"
    assert retry(world, "a") == "TASK_BUILT_ON"

    world = World()
    world.start(plan=[task("a", **PASSES)], stages=(StepKind.REFLECT,))
    world.fail("a")
    assert world.run.phase == "REFLECTING"
    assert retry(world, "a") == "TASK_BUILT_ON"
    world.deliver("reflect:1#1", Reflected(decision=Decision.CONTINUE, tasks=tasks("b")))
    assert retry(world, "a") == "TASK_BUILT_ON"


def test_task_skipped_by_another_failure_stays_skipped() -> None:
    plan = (*tasks("a", "x", **SKIPS), task("b", "a"), task("both", "b", "x"))
    world = started(*plan, "other")
    world.fail("a")
    world.fail("x")
    retry(world, "a")
    assert (world.task("b").status, world.task("both").status) == ("PENDING", "SKIPPED")
    retry(world, "x")
    assert world.task("both").status == "PENDING"


def test_a_task_that_waits_for_its_back_off_is_offered_at_once() -> None:
    slow = RetryPolicy(max_attempts=3, initial_backoff_ms=60_000, jitter=0.0)
    world = started(task("a", retry=slow))
    world.fail("a")
    assert world.run.blocked_on == "TIMER"
    assert retry(world, "a") == "ACCEPTED"
    assert world.status_of("task:a#2") == "RELEASED"
    assert world.ready() == ["task:a#3"]
    assert world.executions["task:a#3"].delay_ms == 0
    assert (world.run.blocked_on, world.timers) == ("WORKER", {})
    assert world.task("a").spent == 1
    assert retry(world, "a") == "TASK_STATUS"


def test_a_retry_on_a_paused_run_is_offered_by_the_resume() -> None:
    world = failed(**SKIPS)
    world.do(Pause())
    retry(world, "a")
    assert world.task("a").status == "PENDING"
    assert retry(world, "a") == "TASK_STATUS"
    world.do(Resume())
    assert "task:a#2" in world.ready()


def test_done_running_or_missing_task_cannot_be_retried() -> None:
    world = started("a", "b", "c")
    world.complete("a")
    world.lease("task:b#1")
    assert [retry(world, task_id) for task_id in "abc"] == ["TASK_STATUS"] * 3
    assert retry(world, "nobody") == "TASK_NOT_FOUND"


@pytest.mark.parametrize("how", ["fork", "resume"])
def test_a_run_that_ended_retries_nothing_and_says_what_to_do(how: str) -> None:
    world = started(task("a", retry=ONCE))
    if how == "fork":
        world.do(Cancel())
    else:
        world.fail("a")
    reply = world.do(RetryTask(task_id="a"))[0]
    assert reply.reason == "RUN_ENDED"
    assert how in reply.message


# --- stop -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("decision", [Decision.CONTINUE, Decision.REPLAN])
def test_a_stopped_run_ends_after_its_iteration_with_its_answer(decision: Decision) -> None:
    world = World()
    world.start()
    assert world.do(Stop(reason="good enough"))[0].status == "ACCEPTED"
    assert world.do(Stop())[0].status == "UNCHANGED"
    world.deliver("plan:1#1", Planned(tasks=tuple(chain("a", "b"))))
    world.complete("a", "b")
    world.deliver("reflect:1#1", Reflected(decision=decision, tasks=tuple(chain("c"))))
    assert (world.run.phase, world.run.finish_reason) == ("SYNTHESIZING", "STOPPED")
    world.deliver("synthesize:1#1", Completed())
    assert world.run.status == "SUCCEEDED"


def test_stopped_run_that_ends_by_itself_has_finished() -> None:
    world = World()
    world.start(plan=chain("a"), stages=(StepKind.REFLECT,))
    world.complete("a")
    world.do(Stop())
    world.deliver("reflect:1#1", Reflected(decision=Decision.FINISH))
    assert world.run.finish_reason == "FINISHED"

    world = started(*chain("a", "b"))
    world.do(Pause())
    world.do(Stop())
    world.do(Resume())
    world.complete("a", "b")
    assert (world.run.status, world.run.finish_reason) == ("SUCCEEDED", "FINISHED")
