"""Failed, lost and late attempts."""

from __future__ import annotations

import pytest

from stepwell.core.loop.advance import advance
from stepwell.core.loop.signals import (
    Answer,
    Begin,
    Completed,
    Context,
    Delivery,
    Failed,
    GrantLease,
    LeaseExpired,
    NeedsInput,
    Released,
    TimerDue,
)
from stepwell.core.records.model import Failure, Message, Payload, RetryPolicy, Session, TaskSpec
from stepwell.core.records.states import (
    Effect,
    ExecutionStatus,
    ExpiryAction,
    OnFailure,
    RunStatus,
    TaskStatus,
)
from tests.unit.loop_world import World, chain, committed

ONCE = RetryPolicy(max_attempts=1)


def test_S9_a_retry_is_a_new_attempt_after_its_back_off() -> None:
    world = World()
    retry = RetryPolicy(initial_backoff_ms=1_000, jitter=0.0)
    world.start(plan=chain("a", retry=retry))
    world.fail("a")
    assert world.ready() == ["task:a#2"]
    assert world.held("task:a#2").execution.delay_ms == 1_000
    world.fail("a")
    assert world.held("task:a#3").execution.delay_ms == 2_000


def test_S12_a_task_has_no_more_attempts_than_its_policy_gives() -> None:
    world = World()
    world.start(plan=chain("a", retry=RetryPolicy(max_attempts=2)))
    world.fail("a")
    world.fail("a")
    assert world.run.status is RunStatus.FAILED


@pytest.mark.parametrize("failure", [Failure(kind="Fatal"), Failure(kind="Other", retryable=False)])
def test_failure_without_retry_fails_at_once(failure: Failure) -> None:
    world = World()
    world.start(plan=chain("a", retry=RetryPolicy(non_retryable_kinds=("Fatal",))))
    world.deliver("task:a#1", Failed(failure=failure))
    assert world.task("a").status is TaskStatus.FAILED
    assert world.task("a").failure == failure


def test_a_failed_task_fails_the_run_and_revokes_what_is_in_flight() -> None:
    world = World()
    world.start(plan=[TaskSpec(task_id="a", retry=ONCE), TaskSpec(task_id="b")])
    token = world.lease("task:b#1")
    world.fail("a")
    assert world.run.status is RunStatus.FAILED
    assert world.task("b").status is TaskStatus.PENDING
    assert world.executions["task:b#1"].status is ExecutionStatus.CANCELLED
    late = Delivery(execution_id="task:b#1", token=token, result=Completed())
    assert world.do(late)[0].status == "LEASE_LOST"


def test_a_lease_that_ends_in_the_transition_that_takes_it_is_none() -> None:
    world = World()
    world.start(plan=[*chain("a", retry=ONCE), *chain("b")])
    token = world.lease("task:a#1")
    take = GrantLease(execution_id="task:b#1", token="t", worker_id="w")
    inputs = (take, LeaseExpired(execution_id="task:a#1", token=token))
    assert committed(advance(world.state, inputs, Context())).leases == ()
    world.do(*inputs)
    assert world.run.status is RunStatus.FAILED
    assert world.executions["task:b#1"].status is ExecutionStatus.CANCELLED


def test_skip_dependents_skips_all_that_build_on_it() -> None:
    world = World()
    plan = chain("a", "b", "c", retry=ONCE, on_failure=OnFailure.SKIP_DEPENDENTS)
    world.start(plan=[*plan, TaskSpec(task_id="d")])
    world.fail("a")
    assert [world.task(t).status for t in "abc"] == [
        TaskStatus.FAILED,
        TaskStatus.SKIPPED,
        TaskStatus.SKIPPED,
    ]
    world.complete("d")
    assert world.run.status is RunStatus.SUCCEEDED


def test_continue_runs_the_dependents_of_a_failed_task() -> None:
    world = World()
    world.start(plan=chain("a", "b", retry=ONCE, on_failure=OnFailure.CONTINUE))
    world.fail("a")
    assert world.ready() == ["task:b#1"]


def test_S8_an_outcome_with_another_token_changes_nothing() -> None:
    world = World()
    world.start(plan=chain("a"))
    world.lease("task:a#1")
    version = world.run.version
    stale = Delivery(execution_id="task:a#1", token="another", result=Completed())
    assert world.do(stale)[0].status == "LEASE_LOST"
    assert world.run.version == version


def test_S7_a_second_outcome_is_refused() -> None:
    world = World()
    world.start(plan=chain("a", "b"))
    token = world.lease("task:a#1")
    done = Delivery(execution_id="task:a#1", token=token, result=Completed())
    assert [reply.status for reply in world.do(done, done)] == ["ACCEPTED", "LEASE_LOST"]


def test_a_lost_lease_spends_an_attempt() -> None:
    world = World()
    world.start(plan=chain("a"))
    token = world.lease("task:a#1")
    world.do(LeaseExpired(execution_id="task:a#1", token=token))
    assert world.executions["task:a#1"].status is ExecutionStatus.LOST
    assert world.task("a").spent == 1
    assert world.ready() == ["task:a#2"]


def test_an_expiry_of_a_lease_that_is_another_s_by_now_changes_nothing() -> None:
    world = World()
    world.start(plan=chain("a"))
    token = world.lease("task:a#1")
    assert world.do(LeaseExpired(execution_id="task:a#1", token="old"))[0].status == "UNCHANGED"
    assert world.held("task:a#1").token == token


def test_S13_a_poison_task_ends_within_its_attempts() -> None:
    world = World()
    world.start(plan=chain("a"))
    for attempt in (1, 2, 3):
        token = world.lease(f"task:a#{attempt}")
        world.do(LeaseExpired(execution_id=f"task:a#{attempt}", token=token))
    assert world.run.status is RunStatus.FAILED
    assert world.run.failure.kind == "LOST"


def test_S12_a_release_spends_no_attempt() -> None:
    world = World()
    world.start(plan=chain("a"))
    for attempt in range(1, 6):
        world.deliver(f"task:a#{attempt}", Released(reason="draining"))
    assert world.task("a").spent == 0
    assert world.ready() == ["task:a#6"]


def test_an_attempt_over_its_time_out_is_retried() -> None:
    world = World()
    world.start(plan=chain("a"))
    token = world.lease("task:a#1")
    world.do(LeaseExpired(execution_id="task:a#1", token=token, timed_out=True))
    assert world.executions["task:a#1"].status is ExecutionStatus.TIMED_OUT
    assert world.ready() == ["task:a#2"]


def test_a_total_time_out_ends_the_task_whatever_it_does() -> None:
    world = World()
    world.start(plan=chain("a", total_timeout_ms=5_000, on_failure=OnFailure.CONTINUE))
    assert world.timers == {"total:a": 5_000}
    world.lease("task:a#1")
    world.do(TimerDue(name="total:a"))
    assert world.task("a").failure.kind == "TOTAL_TIMEOUT"
    assert world.run.status is RunStatus.SUCCEEDED


def test_the_task_s_time_outs_are_its_lease_s() -> None:
    world = World()
    world.start(plan=chain("a", heartbeat_timeout_ms=700, attempt_timeout_ms=9_000))
    from stepwell.core.loop.advance import advance
    from stepwell.core.loop.signals import Context

    signals = [world.take("task:a#1")]
    lease = committed(advance(world.state, signals, Context(lease_ms=30_000))).leases[0]
    assert (lease.lease_ms, lease.limit_ms) == (700, 9_000)


def at_most_once() -> World:
    world = World()
    world.start(plan=chain("pay", effect=Effect.AT_MOST_ONCE))
    return world


def test_an_at_most_once_step_lost_before_it_began_runs_again() -> None:
    world = at_most_once()
    token = world.lease("task:pay#1")
    world.do(LeaseExpired(execution_id="task:pay#1", token=token))
    assert world.ready() == ["task:pay#2"]


def test_an_at_most_once_step_lost_after_it_began_is_not_run_again() -> None:
    world = at_most_once()
    token = world.lease("task:pay#1")
    assert world.do(Begin(execution_id="task:pay#1", token=token))[0].status == "ACCEPTED"
    world.do(LeaseExpired(execution_id="task:pay#1", token=token))
    assert world.executions["task:pay#1"].status is ExecutionStatus.UNKNOWN_OUTCOME
    assert (world.run.status, world.run.blocked_on) == (RunStatus.WAITING, "UNKNOWN_OUTCOME")
    assert world.ready() == []


def test_a_late_outcome_settles_an_unknown_one() -> None:
    world = at_most_once()
    token = world.lease("task:pay#1")
    world.do(Begin(execution_id="task:pay#1", token=token))
    world.do(LeaseExpired(execution_id="task:pay#1", token=token))
    late = Delivery(execution_id="task:pay#1", token=token, result=Completed())
    assert world.do(late)[0].status == "ACCEPTED"
    assert world.run.status is RunStatus.SUCCEEDED


def test_a_run_that_only_waits_for_a_back_off_says_so_until_it_is_over() -> None:
    world = World()
    world.start(plan=chain("a", retry=RetryPolicy(initial_backoff_ms=1_000, jitter=0.0)))
    world.fail("a")
    assert world.run.blocked_on == "TIMER"
    assert world.timers == {"blocked": 1_000}
    world.do(TimerDue(name="blocked"))
    assert world.run.blocked_on == "WORKER"
    assert world.timers == {}


def test_a_question_blocks_its_task_and_its_answer_lets_it_go_on() -> None:
    world = World()
    world.start(plan=chain("a"))
    world.deliver("task:a#1", NeedsInput(prompt="May I?"))
    assert (world.run.status, world.run.blocked_on) == (RunStatus.WAITING, "INPUT")
    reply = world.do(Answer(input_id="input:task:a#1", payload=Payload(data=b"yes")))[0]
    assert reply.status == "ACCEPTED"
    assert world.ready() == ["task:a#2"]
    assert world.task("a").spent == 0
    again = world.do(Answer(input_id="input:task:a#1", payload=Payload(data=b"no")))[0]
    assert again.reason == "INPUT_NOT_OPEN"


@pytest.mark.parametrize(
    ("action", "status"),
    [
        (ExpiryAction.WAIT, RunStatus.WAITING),
        (ExpiryAction.DENY, RunStatus.FAILED),
        (ExpiryAction.FAIL, RunStatus.FAILED),
        (ExpiryAction.PAUSE, RunStatus.PAUSED),
    ],
)
def test_an_unanswered_question_does_what_it_asked_for(
    action: ExpiryAction, status: RunStatus
) -> None:
    world = World()
    world.start(plan=chain("a"))
    world.deliver("task:a#1", NeedsInput(prompt="?", expires_ms=10, on_expiry=action))
    world.do(TimerDue(name="input:input:task:a#1"))
    assert world.run.status is status


def test_messages_belong_to_the_execution_that_brought_them_whatever_they_say() -> None:
    world = World()
    world.start(plan=chain("a"))
    from stepwell.core.loop.advance import advance
    from stepwell.core.loop.signals import Context

    token = world.lease("task:a#1")
    delivery = Delivery(
        execution_id="task:a#1",
        token=token,
        result=Completed(),
        session=Session(backend="cli", session_id="s"),
        messages=(Message(role="user", content="hi", task_id="another"),),
    )
    message = committed(advance(world.state, [delivery], Context())).messages[0]
    assert (message.task_id, message.execution_id) == ("a", "task:a#1")
    assert message.session.session_id == "s"
