"""Failed, lost and late attempts, and the back-off before the next one."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell.core.loop.advance import advance
from stepwell.core.loop.context import Context
from stepwell.core.loop.occurrences import (
    Completed,
    Delivery,
    Failed,
    GrantLease,
    LeaseExpired,
    Planned,
    Reflected,
    Released,
    Resume,
    TimerDue,
)
from stepwell.core.loop.retry import backoff_ms, chance_of
from stepwell.core.records.model import Failure, Message, RetryPolicy, Session
from stepwell.core.records.states import Decision, OnFailure
from tests.unit.core.loop_world import ONCE, World, chain, committed, started, task


def one(**fields: Any) -> World:
    return started(task("a", **fields))


# --- back-off ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "attempt", "chance", "wait"),
    [
        *(
            (RetryPolicy(initial_backoff_ms=100, max_backoff_ms=1_000, jitter=0.0), n, 0.5, wait)
            for n, wait in enumerate((100, 200, 400, 800, 1_000), start=1)
        ),
        *(
            (RetryPolicy(initial_backoff_ms=1_000), 1, chance, wait)
            for chance, wait in ((0.0, 0), (0.5, 500), (0.999, 999))
        ),
        (RetryPolicy(backoff_multiplier=1e9, max_backoff_ms=5_000, jitter=0.0), 1_000, 0.0, 5_000),
    ],
)
def test_back_off_doubles_up_to_its_maximum_and_jitter_shortens_it(
    policy: RetryPolicy, attempt: int, chance: float, wait: int
) -> None:
    assert backoff_ms(policy, attempt, chance) == wait


def test_the_same_seed_and_key_give_the_same_chance() -> None:
    assert chance_of(7, "a") == chance_of(7, "a") != chance_of(8, "a")
    assert 0 <= chance_of(7, "a") < 1


def test_S9_a_retry_is_a_new_attempt_after_its_back_off() -> None:
    world = one(retry=RetryPolicy(initial_backoff_ms=1_000, jitter=0.0))
    world.fail("a")
    assert world.ready() == ["task:a#2"]
    assert world.held("task:a#2").execution.delay_ms == 1_000
    # A run that waits for nothing else says so until it is over.
    assert (world.run.blocked_on, world.timers) == ("TIMER", {"blocked": 1_000})
    world.do(TimerDue(name="blocked"))
    assert (world.run.blocked_on, world.timers) == ("WORKER", {})
    world.fail("a")
    assert world.held("task:a#3").execution.delay_ms == 2_000


@pytest.mark.parametrize(("asked_ms", "waited_ms"), [(5_000, 5_000), (10, 1_000)])
def test_a_failure_may_ask_for_a_longer_wait(asked_ms: int, waited_ms: int) -> None:
    world = one(retry=RetryPolicy(initial_backoff_ms=1_000, jitter=0.0))
    world.deliver("task:a#1", Failed(failure=Failure(retry_after_ms=asked_ms)))
    assert world.held("task:a#2").execution.delay_ms == waited_ms


# --- failures ---------------------------------------------------------------------------------------


def test_S12_a_task_has_no_more_attempts_than_its_policy_gives() -> None:
    world = one(retry=RetryPolicy(max_attempts=2))
    world.fail("a")
    assert world.run.status == "RUNNING"
    world.fail("a")
    assert world.run.status == "FAILED"


@pytest.mark.parametrize("failure", [Failure(kind="Fatal"), Failure(kind="Other", retryable=False)])
def test_failure_without_retry_fails_at_once(failure: Failure) -> None:
    world = one(retry=RetryPolicy(non_retryable_kinds=("Fatal",)))
    world.deliver("task:a#1", Failed(failure=failure))
    assert (world.task("a").status, world.task("a").failure) == ("FAILED", failure)


def test_a_failed_task_fails_the_run_and_revokes_what_is_in_flight() -> None:
    world = started(task("a", retry=ONCE), "b")
    token = world.lease("task:b#1")
    world.fail("a")
    assert world.run.status == "FAILED"
    assert world.task("b").status == "PENDING"
    assert world.status_of("task:b#1") == "CANCELLED"
    assert world.late("task:b#1", token) == "LEASE_LOST"


def test_a_lease_that_ends_in_the_transition_that_takes_it_is_none() -> None:
    world = started(task("a", retry=ONCE), "b")
    token = world.lease("task:a#1")
    take = GrantLease(execution_id="task:b#1", token="t", worker_id="w")
    inputs = (take, LeaseExpired(execution_id="task:a#1", token=token))
    assert committed(world.advance(*inputs)).leases == ()
    world.do(*inputs)
    assert world.run.status == "FAILED"
    assert world.status_of("task:b#1") == "CANCELLED"


@pytest.mark.parametrize(
    ("on_failure", "b", "c"),
    [(OnFailure.SKIP_DEPENDENTS, "SKIPPED", "SKIPPED"), (OnFailure.CONTINUE, "READY", "PENDING")],
)
def test_dependents_of_a_failed_task_are_skipped_or_run(
    on_failure: OnFailure, b: str, c: str
) -> None:
    world = started(*chain("a", "b", "c", retry=ONCE, on_failure=on_failure), "d")
    world.fail("a")
    assert world.statuses() == {"a": "FAILED", "b": b, "c": c, "d": "READY"}
    world.complete(*(one for one in "bcd" if world.task(one).status != "SKIPPED"))
    assert world.run.status == "SUCCEEDED"


# --- lost, late and released ------------------------------------------------------------------------


def test_S8_an_outcome_with_another_token_changes_nothing() -> None:
    world = one()
    token = world.lease("task:a#1")
    assert world.late("task:a#1", "another") == "LEASE_LOST"
    stale = LeaseExpired(execution_id="task:a#1", token="another")
    assert world.do(stale)[0].status == "UNCHANGED"
    assert world.held("task:a#1").token == token


def test_S7_a_second_outcome_is_refused() -> None:
    world = started(*chain("a", "b"))
    token = world.lease("task:a#1")
    done = Delivery(execution_id="task:a#1", token=token, result=Completed())
    assert [reply.status for reply in world.do(done, done)] == ["ACCEPTED", "LEASE_LOST"]


@pytest.mark.parametrize(
    ("policy", "losses"),
    [
        (RetryPolicy(), 10),
        (RetryPolicy(max_attempts=1), 0),
        (RetryPolicy(max_attempts=1, max_losses=2), 2),
        (RetryPolicy(max_losses=0), 0),
    ],
)
def test_S12_losses_are_made_up_for_apart_from_failures(policy: RetryPolicy, losses: int) -> None:
    assert policy.max_losses == losses
    world = one(retry=policy)
    for _ in range(policy.max_attempts - 1):
        world.fail("a")
    for count in range(1, losses + 1):
        world.expire(world.ready()[0])
        assert world.task("a").losses.count == count
    world.expire(world.ready()[0])
    assert (world.run.status, world.run.failure.kind) == ("FAILED", "LOST")


def test_S12_time_outs_count_as_failures_and_losses_do_not() -> None:
    world = one(retry=RetryPolicy(max_attempts=2))
    world.expire("task:a#1")
    world.expire("task:a#2", timed_out=True)
    assert (world.task("a").losses.count, world.task("a").spent) == (1, 1)
    world.expire("task:a#3", timed_out=True)
    assert (world.run.status, world.run.failure.kind) == ("FAILED", "TIMED_OUT")


def test_losses_back_off_by_their_own_number() -> None:
    world = one(retry=RetryPolicy(initial_backoff_ms=1_000, jitter=0.0))
    world.fail("a")
    world.expire("task:a#2")
    assert world.held("task:a#3").execution.delay_ms == 1_000
    world.expire("task:a#3")
    assert world.held("task:a#4").execution.delay_ms == 2_000


@pytest.mark.parametrize("name", ["plan", "reflect", "synthesize"])
def test_S12_each_step_of_a_run_has_an_allowance_of_losses(name: str) -> None:
    world = World()
    world.start(step_retry=RetryPolicy(max_losses=1))
    results = {
        "plan": Planned(tasks=(task("a"),)),
        "task": Completed(),
        "reflect": Reflected(decision=Decision.FINISH),
        "synthesize": Completed(),
    }
    for kind, result in results.items():
        step = world.ready()[0]
        assert step.startswith(kind)
        world.expire(step)
        if kind == name:
            world.expire(world.ready()[0])
            break
        world.deliver(world.ready()[0], result)
    assert (world.run.status, world.run.step_losses.count) == ("FAILED", 2)
    world.do(Resume())
    # A resume opens a new allowance.
    world.expire(world.ready()[0])
    assert (world.run.status, world.run.step_losses.count) == ("RUNNING", 1)


def test_S12_a_release_spends_no_attempt() -> None:
    world = one()
    for attempt in range(1, 6):
        world.deliver(f"task:a#{attempt}", Released(reason="draining"))
    assert world.task("a").spent == 0
    assert world.ready() == ["task:a#6"]


def test_a_total_time_out_ends_the_task_whatever_it_does() -> None:
    world = one(total_timeout_ms=5_000, on_failure=OnFailure.CONTINUE)
    assert world.timers == {"total:a": 5_000}
    world.lease("task:a#1")
    world.do(TimerDue(name="total:a"))
    assert world.task("a").failure.kind == "TOTAL_TIMEOUT"
    assert world.run.status == "SUCCEEDED"


def test_total_time_out_of_a_task_not_read_yet_changes_nothing() -> None:
    world = World()
    world.start()
    transition = world.advance(TimerDue(name="total:a"))
    assert transition.commit is None


def test_the_task_s_time_outs_are_its_lease_s() -> None:
    world = one(heartbeat_timeout_ms=700, attempt_timeout_ms=9_000)
    context = Context(lease_ms=30_000)
    lease = committed(advance(world.state, [world.take("task:a#1")], context)).leases[0]
    assert (lease.lease_ms, lease.limit_ms) == (700, 9_000)


def test_messages_belong_to_the_execution_that_brought_them_whatever_they_say() -> None:
    world = one()
    delivery = Delivery(
        execution_id="task:a#1",
        token=world.lease("task:a#1"),
        result=Completed(),
        session=Session(backend="cli", session_id="s"),
        messages=(Message(role="user", content="hi", task_id="another"),),
    )
    message = committed(world.advance(delivery)).messages[0]
    assert (message.task_id, message.execution_id) == ("a", "task:a#1")
    assert message.session.session_id == "s"
