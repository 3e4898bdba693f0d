"""AT_MOST_ONCE steps: what became of one whose worker was lost, and who says so first."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell.core.loop.signals import (
    Begin,
    Cancel,
    Completed,
    Delivery,
    Failed,
    LeaseExpired,
    Pause,
    Reconciled,
    Reply,
    Resolve,
    Result,
    Resume,
    TimerDue,
)
from stepwell.core.records.model import Failure, Payload, RetryPolicy, Session, TaskSpec
from stepwell.core.records.states import Effect, ExecutionStatus, Finding, OnFailure
from tests.unit.loop_world import World

ONCE = "task:charge#1"
LOOK = "reconcile:charge#1"
PAID = Payload(data=b'"paid"')
FOUND = Reconciled(finding=Finding.DONE, result=PAID, reason="the bank has it")
NOT_FOUND = Reconciled(finding=Finding.NOT_DONE)
CANT_TELL = Reconciled(finding=Finding.UNDECIDED, reason="the bank is closed")
NO_WAIT = RetryPolicy(max_attempts=2, initial_backoff_ms=0)


def charge(*, reconcile: bool = False, **fields: object) -> TaskSpec:
    fields |= {"effect": Effect.AT_MOST_ONCE, "reconcile": reconcile}
    return TaskSpec(task_id="charge", retry=NO_WAIT, **fields)  # pyright: ignore[reportArgumentType] - a test's shorthand


def begun(*, reconcile: bool = False, others: int = 0, **spec: Any) -> tuple[World, str]:
    """Return a run whose AT_MOST_ONCE task has begun, and its lease's token."""
    world = World()
    more = [TaskSpec(task_id=f"other{n}") for n in range(others)]
    world.start(plan=[charge(reconcile=reconcile), *more], step_retry=NO_WAIT, **spec)
    token = world.lease(ONCE)
    world.do(Begin(execution_id=ONCE, token=token))
    return world, token


def unknown(*, reconcile: bool = False, **spec: Any) -> tuple[World, str]:
    """Return a run of which nobody knows what became of its task."""
    world, token = begun(reconcile=reconcile, **spec)
    session = Session(backend="bank", session_id="s1")
    progress = Payload(data=b"1")
    world.do(LeaseExpired(execution_id=ONCE, token=token, progress=progress, session=session))
    assert status_of(world, ONCE) is ExecutionStatus.UNKNOWN_OUTCOME
    return world, token


def status_of(world: World, execution_id: str) -> ExecutionStatus:
    return world.executions[execution_id].status


def late(world: World, token: str, result: Result | None = None) -> Reply:
    result = result or Completed(result=PAID)
    return world.do(Delivery(execution_id=ONCE, token=token, result=result))[0]


def resolve(world: World, finding: Finding = Finding.DONE, **fields: object) -> Reply:
    command = Resolve(execution_id=ONCE, finding=finding, **fields)  # pyright: ignore[reportArgumentType] - a test's shorthand
    return world.do(command)[0]


# --- unknown -----------------------------------------------------------------------------------------


def test_a_lost_worker_that_had_begun_leaves_the_outcome_unknown() -> None:
    world, _ = unknown()
    assert world.run.status == "WAITING"
    assert world.run.blocked_on == "UNKNOWN_OUTCOME"
    assert world.executions[ONCE].unknown_us == world.now_us
    assert world.task("charge").previous.progress == Payload(data=b"1")


def test_a_lost_worker_that_had_not_begun_does_not() -> None:
    world = World()
    world.start(plan=[charge()])
    token = world.lease(ONCE)
    world.do(LeaseExpired(execution_id=ONCE, token=token))
    assert world.ready() == ["task:charge#2"]


def test_begin_after_the_lease_was_lost_is_refused() -> None:
    world = World()
    world.start(plan=[charge()])
    token = world.lease(ONCE)
    world.do(LeaseExpired(execution_id=ONCE, token=token))
    reply = world.do(Begin(execution_id=ONCE, token=token))[0]
    assert reply.status == "LEASE_LOST"
    assert not world.executions[ONCE].begun


def test_a_worker_that_has_begun_is_not_stopped_when_its_lease_is_lost() -> None:
    world, token = begun()
    transition = world.advance(LeaseExpired(execution_id=ONCE, token=token))
    assert not transition.revoked
    transition = world.advance(LeaseExpired(execution_id=ONCE, token=token, timed_out=True))
    assert transition.revoked


def test_a_lease_that_never_came_is_released_unless_its_worker_began() -> None:
    world = World()
    world.start(plan=[charge()])
    token = world.lease(ONCE)
    world.do(LeaseExpired(execution_id=ONCE, token=token, reason="lost", undelivered=True))
    assert status_of(world, ONCE) is ExecutionStatus.RELEASED
    assert world.task("charge").spent == 0
    world, token = begun()
    world.do(LeaseExpired(execution_id=ONCE, token=token, reason="lost", undelivered=True))
    assert status_of(world, ONCE) is ExecutionStatus.UNKNOWN_OUTCOME


def test_a_late_outcome_settles_it() -> None:
    world, token = unknown()
    assert late(world, token).status == "ACCEPTED"
    assert world.run.status == "SUCCEEDED"
    assert world.task("charge").result_id == ONCE


def test_a_late_failure_is_a_failed_attempt() -> None:
    world, token = unknown()
    late(world, token, Failed(failure=Failure(kind="Declined")))
    assert world.ready() == ["task:charge#2"]


# --- a person ------------------------------------------------------------------------------------------


def test_a_person_says_that_it_was_done() -> None:
    world, token = unknown()
    assert resolve(world, result=PAID, reason="I saw it").status == "ACCEPTED"
    assert world.run.status == "SUCCEEDED"
    assert world.executions[ONCE].has_result
    assert "OUTCOME_RESOLVED" in world.kinds()
    assert late(world, token).status == "LEASE_LOST"


def test_a_person_says_that_it_was_not_done() -> None:
    world, token = unknown()
    resolve(world, Finding.NOT_DONE)
    assert status_of(world, ONCE) is ExecutionStatus.RELEASED
    assert world.ready() == ["task:charge#2"]
    assert world.task("charge").spent == 0
    assert late(world, token).status == "LEASE_LOST"
    assert resolve(world).reason == "OUTCOME_NOT_UNKNOWN"


def test_a_person_says_that_it_failed_for_good() -> None:
    world, _ = unknown()
    resolve(world, failure=Failure(kind="Declined", message="no money"))
    assert world.task("charge").status == "FAILED"
    assert world.executions[ONCE].failure.kind == "Declined"
    assert world.run.status == "FAILED"


def test_known_outcome_cannot_be_resolved() -> None:
    world, token = begun()
    assert resolve(world).reason == "OUTCOME_NOT_UNKNOWN"
    late(world, token)
    assert resolve(world).reason == "OUTCOME_NOT_UNKNOWN"


def test_a_paused_run_is_settled_and_dispatches_nothing() -> None:
    world, _ = unknown(reconcile=True)
    world.do(Pause())
    assert status_of(world, LOOK) is ExecutionStatus.RELEASED
    assert world.task("charge").status == "BLOCKED"
    resolve(world, Finding.NOT_DONE)
    assert not world.ready()
    world.do(Resume())
    assert world.ready() == ["task:charge#2"]


# --- RECONCILE -------------------------------------------------------------------------------------------


def test_reconcile_step_is_offered_for_an_unknown_outcome() -> None:
    world, _ = unknown(reconcile=True)
    assert world.ready() == [LOOK]
    step = world.executions[LOOK]
    assert (step.kind, step.task_id) == ("RECONCILE", "charge")
    assert world.run.blocked_on == "WORKER"
    world.lease(LOOK)
    assert world.run.blocked_on == "NONE"
    assert world.task("charge").status == "BLOCKED"


def test_it_finds_that_it_was_done() -> None:
    world, token = unknown(reconcile=True)
    assert world.deliver(LOOK, FOUND).status == "ACCEPTED"
    assert world.task("charge").result_id == ONCE
    assert status_of(world, ONCE) is ExecutionStatus.COMPLETED
    assert status_of(world, LOOK) is ExecutionStatus.COMPLETED
    assert world.executions[ONCE].has_result
    assert not world.executions[LOOK].has_result
    assert world.run.status == "SUCCEEDED"
    assert late(world, token).status == "LEASE_LOST"


def test_it_finds_that_it_was_not_done() -> None:
    world, _ = unknown(reconcile=True)
    world.deliver(LOOK, NOT_FOUND)
    assert world.ready() == ["task:charge#2"]
    assert world.task("charge").spent == 0
    assert world.task("charge").previous.session.session_id == "s1"
    # The next time it is looked into under another number.
    token = world.lease("task:charge#2")
    world.do(Begin(execution_id="task:charge#2", token=token))
    world.do(LeaseExpired(execution_id="task:charge#2", token=token))
    assert world.ready() == ["reconcile:charge#2"]


def test_undecided_reconcile_leaves_it_to_a_person() -> None:
    world, _ = unknown(reconcile=True)
    world.deliver(LOOK, CANT_TELL)
    assert status_of(world, LOOK) is ExecutionStatus.COMPLETED
    assert not world.ready()
    assert world.run.blocked_on == "UNKNOWN_OUTCOME"
    resolve(world)
    assert world.run.status == "SUCCEEDED"


def test_it_is_tried_again_and_then_left_to_a_person() -> None:
    world, _ = unknown(reconcile=True)
    world.deliver(LOOK, Failed(failure=Failure(kind="Down")))
    assert world.ready() == ["reconcile:charge#2"]
    token = world.lease("reconcile:charge#2")
    world.do(LeaseExpired(execution_id="reconcile:charge#2", token=token))
    assert not world.ready()
    assert world.run.status == "WAITING"
    assert world.run.blocked_on == "UNKNOWN_OUTCOME"
    assert world.task("charge").spent == 0
    world.do(Pause())
    world.do(Resume())
    assert not world.ready()


def test_a_released_step_is_offered_again() -> None:
    world, _ = unknown(reconcile=True)
    token = world.lease(LOOK)
    world.do(LeaseExpired(execution_id=LOOK, token=token, reason="x", undelivered=True))
    assert world.ready() == ["reconcile:charge#2"]
    assert world.task("charge").reconciles_spent == 0


def test_a_wrong_outcome_of_it_is_a_failed_attempt() -> None:
    world, _ = unknown(reconcile=True)
    assert world.deliver(LOOK, Completed(result=PAID)).reason == "INVALID_OUTCOME"
    assert world.ready() == ["reconcile:charge#2"]
    assert status_of(world, ONCE) is ExecutionStatus.UNKNOWN_OUTCOME


@pytest.mark.parametrize("leased", [False, True])
def test_a_late_outcome_that_comes_first_closes_it(leased: bool) -> None:
    world, token = unknown(reconcile=True)
    look_token = world.lease(LOOK) if leased else ""
    settled = Delivery(execution_id=ONCE, token=token, result=Completed(result=PAID))
    revoked = [one.execution_id for one in world.advance(settled).revoked]
    assert (LOOK in revoked) is leased
    late(world, token)
    assert status_of(world, LOOK) is ExecutionStatus.CANCELLED
    assert world.run.status == "SUCCEEDED"
    reply = world.do(Delivery(execution_id=LOOK, token=look_token, result=FOUND))[0]
    assert reply.status == "LEASE_LOST"


def test_a_person_who_comes_first_closes_it() -> None:
    world, _ = unknown(reconcile=True)
    look_token = world.lease(LOOK)
    resolve(world, Finding.NOT_DONE)
    assert status_of(world, LOOK) is ExecutionStatus.CANCELLED
    reply = world.do(Delivery(execution_id=LOOK, token=look_token, result=FOUND))[0]
    assert reply.status == "LEASE_LOST"
    assert world.ready() == ["task:charge#2"]


def test_first_outcome_of_one_batch_settles_it() -> None:
    for first_is_late in (True, False):
        world, token = unknown(reconcile=True)
        look_token = world.lease(LOOK)
        by_late = Delivery(execution_id=ONCE, token=token, result=Completed(result=PAID))
        by_look = Delivery(execution_id=LOOK, token=look_token, result=FOUND)
        batch = (by_late, by_look) if first_is_late else (by_look, by_late)
        replies = world.do(*batch)
        assert [one.status for one in replies] == ["ACCEPTED", "LEASE_LOST"]
        completed = [one for one in world.executions.values() if one.task_id == "charge"]
        assert sum(one.status == "COMPLETED" and one.kind == "TASK" for one in completed) == 1


def test_it_takes_a_place_among_max_parallel() -> None:
    world, _ = unknown(reconcile=True, others=2, max_parallel=1)
    # Its own place is free again, and finding out goes before what comes next.
    assert world.ready() == [LOOK]
    world.deliver(LOOK, CANT_TELL)
    assert world.ready() == ["task:other0#1"]


def test_cancel_closes_both() -> None:
    world, token = unknown(reconcile=True)
    world.lease(LOOK)
    world.do(Cancel())
    assert status_of(world, ONCE) is ExecutionStatus.CANCELLED
    assert status_of(world, LOOK) is ExecutionStatus.CANCELLED
    assert world.run.attempts.cancelled == 2
    assert late(world, token).status == "LEASE_LOST"


def test_its_total_time_out_closes_both() -> None:
    world = World()
    world.start(
        plan=[charge(reconcile=True, total_timeout_ms=9_000, on_failure=OnFailure.CONTINUE)]
    )
    token = world.lease(ONCE)
    world.do(Begin(execution_id=ONCE, token=token))
    world.do(LeaseExpired(execution_id=ONCE, token=token))
    world.do(TimerDue(name="total:charge"))
    assert status_of(world, LOOK) is ExecutionStatus.CANCELLED
    assert world.task("charge").failure.kind == "TOTAL_TIMEOUT"


# --- a run that fails meanwhile ------------------------------------------------------------------------


@pytest.mark.parametrize("lost_before", [False, True])
def test_a_run_that_fails_does_not_run_it_again(lost_before: bool) -> None:
    world, token = begun(reconcile=True, others=1)
    if lost_before:
        world.do(LeaseExpired(execution_id=ONCE, token=token))
    world.deliver("task:other0#1", Failed(failure=Failure(kind="Bad", retryable=False)))
    assert world.run.status == "FAILED"
    assert status_of(world, ONCE) is ExecutionStatus.UNKNOWN_OUTCOME
    assert late(world, token).status == "LEASE_LOST"
    assert resolve(world).reason == "RUN_ENDED"
    world.do(Resume())
    assert world.task("charge").status == "BLOCKED"
    assert "task:charge#2" not in world.ready()
    look = next(one for one in world.ready() if one.startswith("reconcile"))
    world.deliver(look, FOUND)
    world.complete("other0")
    assert world.run.status == "SUCCEEDED"
