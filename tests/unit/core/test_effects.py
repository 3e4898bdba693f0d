"""AT_MOST_ONCE steps: the outcome of a step whose worker was lost, and who resolves it first."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell.core.loop.occurrences import (
    Begin,
    Cancel,
    Completed,
    Delivery,
    Failed,
    LeaseExpired,
    Pause,
    Reconciled,
    Resolve,
    Result,
    Resume,
    TimerDue,
)
from stepwell.core.records.model import Failure, Payload, RetryPolicy, Session
from stepwell.core.records.states import Effect, Finding, OnFailure
from tests.unit.core.loop_world import World, started, task

STEP = "task:charge#1"
LOOK = "reconcile:charge#1"
PAID = Completed(result=Payload(data=b'"paid"'))
FOUND = Reconciled(finding=Finding.DONE, result=PAID.result, reason="the bank has it")
NOT_FOUND = Reconciled(finding=Finding.NOT_DONE)
CANT_TELL = Reconciled(finding=Finding.UNDECIDED, reason="the bank is closed")
DECLINED = Failed(failure=Failure(kind="Declined", message="no money"))
NO_WAIT = RetryPolicy(max_attempts=2, max_losses=1, initial_backoff_ms=0)


def ready(*others: str, reconcile: bool = False, max_parallel: int = 8, **fields: Any) -> World:
    charge = task(
        "charge", retry=NO_WAIT, effect=Effect.AT_MOST_ONCE, reconcile=reconcile, **fields
    )
    return started(charge, *others, step_retry=NO_WAIT, max_parallel=max_parallel)


def unknown(*others: str, **fields: Any) -> tuple[World, str]:
    """Return a run whose task has an unknown outcome, and the lost lease's token."""
    world = ready(*others, **fields)
    token = world.begin(STEP)
    session = Session(backend="bank", session_id="s1")
    world.expire(STEP, progress=Payload(data=b"1"), session=session)
    assert world.status_of(STEP) == "UNKNOWN_OUTCOME"
    return world, token


def resolution(finding: Finding = Finding.DONE, **fields: Any) -> Resolve:
    return Resolve(execution_id=STEP, finding=finding, **fields)


def resolve(world: World, finding: Finding = Finding.DONE) -> str:
    """Resolve the unknown outcome; return the reason of a refusal."""
    return world.do(resolution(finding))[0].reason


# --- unknown, or not --------------------------------------------------------------------------------


def test_a_lost_worker_that_had_begun_leaves_the_outcome_unknown() -> None:
    world, _ = unknown()
    assert (world.run.status, world.run.blocked_on) == ("WAITING", "UNKNOWN_OUTCOME")
    assert world.ready() == []
    assert world.executions[STEP].unknown_us == world.now_us
    assert world.task("charge").previous.progress == Payload(data=b"1")


def test_lost_worker_that_had_not_begun_may_not_begin_any_more() -> None:
    world = ready()
    token = world.lease(STEP)
    world.expire(STEP)
    assert world.ready() == ["task:charge#2"]
    assert world.do(Begin(execution_id=STEP, token=token))[0].status == "LEASE_LOST"
    assert not world.executions[STEP].begun


def test_a_worker_that_has_begun_is_not_stopped_when_its_lease_is_lost() -> None:
    world = ready()
    token = world.begin(STEP)
    assert not world.revoked_by(LeaseExpired(execution_id=STEP, token=token))
    assert world.revoked_by(LeaseExpired(execution_id=STEP, token=token, timed_out=True))


def test_a_lease_that_never_came_is_released_unless_its_worker_began() -> None:
    world = ready()
    world.expire(STEP, reason="lost", undelivered=True)
    assert world.status_of(STEP) == "RELEASED"
    assert world.task("charge").spent == 0
    world = ready()
    world.begin(STEP)
    world.expire(STEP, reason="lost", undelivered=True)
    assert world.status_of(STEP) == "UNKNOWN_OUTCOME"


# --- who settles it: a late result, a person, a RECONCILE step ---------------------------------------


def settle(world: World, token: str, by: Result | Resolve) -> str:
    """Settle the unknown outcome: by a command, the step that looks, or else the lost worker."""
    if isinstance(by, Resolve):
        return world.do(by)[0].status
    if isinstance(by, Reconciled):
        return world.deliver(LOOK, by).status
    return world.late(STEP, token, by)


@pytest.mark.parametrize(
    ("by", "status", "task_status", "run_status"),
    [
        (PAID, "COMPLETED", "COMPLETED", "SUCCEEDED"),
        (DECLINED, "FAILED", "READY", "RUNNING"),
        (resolution(result=PAID.result, reason="seen"), "COMPLETED", "COMPLETED", "SUCCEEDED"),
        (resolution(Finding.NOT_DONE), "RELEASED", "READY", "RUNNING"),
        (resolution(failure=DECLINED.failure), "FAILED", "FAILED", "FAILED"),
        (FOUND, "COMPLETED", "COMPLETED", "SUCCEEDED"),
        (NOT_FOUND, "RELEASED", "READY", "RUNNING"),
    ],
    ids=["late", "late failure", "done", "not done", "failed", "found", "not found"],
)
def test_unknown_outcome_is_settled_once_by_whoever_says_first(
    by: Result | Resolve, status: str, task_status: str, run_status: str
) -> None:
    world, token = unknown(reconcile=True)
    assert settle(world, token, by) == "ACCEPTED"

    assert world.status_of(STEP) == status
    assert world.executions[STEP].has_result is (status == "COMPLETED")
    assert world.status_of(LOOK) == ("COMPLETED" if isinstance(by, Reconciled) else "CANCELLED")
    assert not world.executions[LOOK].has_result
    charge = world.task("charge")
    assert (charge.status, world.run.status) == (task_status, run_status)
    assert charge.result_id == (STEP if status == "COMPLETED" else "")
    assert charge.failure.kind == ("Declined" if task_status == "FAILED" else "")
    assert status != "RELEASED" or charge.spent == 0
    if task_status == "READY":
        assert world.ready() == ["task:charge#2"]
        assert charge.previous.session.session_id == "s1"
    late = by in (PAID, DECLINED)
    assert ("OUTCOME_RESOLVED" in world.kinds()) is not late
    assert world.late(STEP, token, PAID) == "LEASE_LOST"
    assert resolve(world) == "OUTCOME_NOT_UNKNOWN"


def test_outcome_of_a_running_step_cannot_be_resolved() -> None:
    world = ready()
    world.begin(STEP)
    assert resolve(world) == "OUTCOME_NOT_UNKNOWN"


@pytest.mark.parametrize("first", ["late", "look"])
def test_first_outcome_of_one_batch_settles_it(first: str) -> None:
    world, token = unknown(reconcile=True)
    by_late = Delivery(execution_id=STEP, token=token, result=PAID)
    by_look = Delivery(execution_id=LOOK, token=world.lease(LOOK), result=FOUND)
    replies = world.do(*((by_late, by_look) if first == "late" else (by_look, by_late)))
    assert [one.status for one in replies] == ["ACCEPTED", "LEASE_LOST"]
    done = [one for one in world.executions.values() if one.status == "COMPLETED"]
    assert [str(one.kind) for one in done].count("TASK") == 1


@pytest.mark.parametrize("leased", [False, True])
@pytest.mark.parametrize("by_person", [False, True])
def test_settled_outcome_closes_the_reconcile_step(*, leased: bool, by_person: bool) -> None:
    world, token = unknown(reconcile=True)
    look_token = world.lease(LOOK) if leased else ""
    late = Delivery(execution_id=STEP, token=token, result=PAID)
    settled = resolution() if by_person else late
    assert (LOOK in world.revoked_by(settled)) is leased
    world.do(settled)
    assert world.status_of(LOOK) == "CANCELLED"
    assert world.run.status == "SUCCEEDED"
    assert world.late(LOOK, look_token, FOUND) == "LEASE_LOST"


def test_a_paused_run_is_settled_and_dispatches_nothing() -> None:
    world, _ = unknown(reconcile=True)
    world.do(Pause())
    assert world.status_of(LOOK) == "RELEASED"
    assert world.task("charge").status == "BLOCKED"
    resolve(world, Finding.NOT_DONE)
    assert not world.ready()
    world.do(Resume())
    assert world.ready() == ["task:charge#2"]


# --- the RECONCILE step ------------------------------------------------------------------------------


def test_reconcile_step_is_offered_for_each_unknown_outcome() -> None:
    world, _ = unknown(reconcile=True)
    assert world.ready() == [LOOK]
    step = world.executions[LOOK]
    assert (step.kind, step.task_id) == ("RECONCILE", "charge")
    assert world.run.blocked_on == "WORKER"
    world.lease(LOOK)
    assert world.run.blocked_on == "NONE"
    assert world.task("charge").status == "BLOCKED"
    world.deliver(LOOK, NOT_FOUND)
    # The next time it is looked into under another number.
    world.begin("task:charge#2")
    world.expire("task:charge#2")
    assert world.ready() == ["reconcile:charge#2"]


def test_undecided_reconcile_leaves_it_to_a_person() -> None:
    world, _ = unknown(reconcile=True)
    world.deliver(LOOK, CANT_TELL)
    assert world.status_of(LOOK) == "COMPLETED"
    assert not world.ready()
    assert world.run.blocked_on == "UNKNOWN_OUTCOME"
    resolve(world)
    assert world.run.status == "SUCCEEDED"


@pytest.mark.parametrize("lost", [False, True])
def test_S12_reconcile_is_tried_again_and_then_left_to_a_person(*, lost: bool) -> None:
    world, _ = unknown(reconcile=True)
    world.deliver(LOOK, DECLINED)
    world.expire("reconcile:charge#2")
    assert world.task("charge").reconcile_losses.count == 1
    assert world.ready() == ["reconcile:charge#3"]
    if lost:
        world.expire("reconcile:charge#3")
    else:
        world.deliver("reconcile:charge#3", DECLINED)
    assert not world.ready()
    assert (world.run.status, world.run.blocked_on) == ("WAITING", "UNKNOWN_OUTCOME")
    assert world.task("charge").spent == 0
    world.do(Pause())
    world.do(Resume())
    assert not world.ready()


def test_released_or_misunderstood_reconcile_is_offered_again() -> None:
    world, _ = unknown(reconcile=True)
    world.expire(LOOK, reason="x", undelivered=True)
    assert world.ready() == ["reconcile:charge#2"]
    assert world.task("charge").reconciles_spent == 0
    world, _ = unknown(reconcile=True)
    assert world.deliver(LOOK, PAID).reason == "INVALID_OUTCOME"
    assert world.ready() == ["reconcile:charge#2"]
    assert world.status_of(STEP) == "UNKNOWN_OUTCOME"


def test_reconcile_takes_a_place_among_max_parallel() -> None:
    world, _ = unknown("other0", "other1", reconcile=True, max_parallel=1)
    # Its own place is free again, and finding out goes before what comes next.
    assert world.ready() == [LOOK]
    world.deliver(LOOK, CANT_TELL)
    assert world.ready() == ["task:other0#1"]


def test_cancel_and_total_time_out_close_both() -> None:
    world, token = unknown(reconcile=True)
    world.lease(LOOK)
    world.do(Cancel())
    assert (world.status_of(STEP), world.status_of(LOOK)) == ("CANCELLED", "CANCELLED")
    assert world.run.attempts.cancelled == 2
    assert world.late(STEP, token) == "LEASE_LOST"

    fields: dict[str, Any] = {"total_timeout_ms": 9_000, "on_failure": OnFailure.CONTINUE}
    world, _ = unknown(reconcile=True, **fields)
    world.do(TimerDue(name="total:charge"))
    assert world.status_of(LOOK) == "CANCELLED"
    assert world.task("charge").failure.kind == "TOTAL_TIMEOUT"


@pytest.mark.parametrize("lost_before", [False, True])
def test_a_run_that_fails_meanwhile_does_not_run_it_again(*, lost_before: bool) -> None:
    world = ready("other", reconcile=True)
    token = world.begin(STEP)
    if lost_before:
        world.expire(STEP)
    world.fail("other", retryable=False)
    assert world.run.status == "FAILED"
    assert world.status_of(STEP) == "UNKNOWN_OUTCOME"
    assert world.late(STEP, token) == "LEASE_LOST"
    assert resolve(world) == "RUN_ENDED"
    world.do(Resume())
    assert world.task("charge").status == "BLOCKED"
    assert "task:charge#2" not in world.ready()
    look = next(one for one in world.ready() if one.startswith("reconcile"))
    world.deliver(look, FOUND)
    world.complete("other")
    assert world.run.status == "SUCCEEDED"
