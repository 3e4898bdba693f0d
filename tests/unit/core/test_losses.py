"""Steps that may be what ends their workers: suspect after two losses, poison after a third alone."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell.core.loop.occurrences import Completed, Failed, LeaseExpired, Reflected, Resume
from stepwell.core.records.model import Failure, RetryPolicy
from stepwell.core.records.states import Decision
from tests.unit.core.loop_world import AT_ONCE, World, planned, started, task


def lose(
    world: World, instance_id: str, *, alone: bool = False, calls: int = 0, **fields: Any
) -> str:
    """Lose the next attempt with this worker instance, after so many calls; returns the reply's reason."""
    execution_id = world.ready()[0]
    token = world.lease(execution_id, instance_id=instance_id, alone=alone)
    for _ in range(calls):
        world.record(execution_id)
    lost = LeaseExpired(execution_id=execution_id, token=token, **fields)
    return world.do(lost)[0].reason


def is_suspect(world: World) -> bool:
    """Return whether the next attempt is refused to a worker that holds something else."""
    reply = world.do(world.take(world.ready()[0]))[0]
    assert reply.status in ("ACCEPTED", "REFUSED")
    return reply.reason == "SUSPECT"


def test_S13_third_worker_lost_with_a_suspect_step_shows_that_it_is_poison() -> None:
    world = started(task("a", retry=AT_ONCE))
    lose(world, "one")
    lose(world, "two")
    assert world.task("a").losses.gone == ("w one", "w two")
    assert is_suspect(world)
    assert lose(world, "three", alone=True, waited=True) == "POISON"
    assert world.kinds()[-4:] == ["LEASE_LOST", "STEP_POISONED", "TASK_FAILED", "RUN_FAILED"]
    assert (world.run.status, world.run.failure.kind) == ("FAILED", "POISON")
    world.do(Resume())
    assert not is_suspect(world), "a new allowance suspects nobody"


def test_S13_step_that_recorded_calls_before_each_loss_is_not_suspect() -> None:
    world = started(task("a", retry=AT_ONCE))
    for instance in ("one", "two", "three"):
        assert lose(world, instance, calls=1, waited=True) == ""
        assert world.task("a").losses.gone == (f"w {instance}",)
    lose(world, "four")
    assert lose(world, "five", alone=True, waited=True) == "POISON", "it recorded nothing any more"


def test_S13_a_suspect_s_lease_goes_on_until_its_worker_was_waited_for() -> None:
    world = started(task("a", retry=AT_ONCE))
    lose(world, "one")
    lose(world, "two")
    token = world.lease("task:a#3", instance_id="three", alone=True)
    expired = LeaseExpired(execution_id="task:a#3", token=token)
    reply = world.do(expired)[0]
    assert (reply.status, reply.reason) == ("UNCHANGED", "AWAITED")
    assert world.late("task:a#3", token, Completed()) == "ACCEPTED"


def test_S13_a_suspect_step_is_no_free_worker_s_by_itself() -> None:
    world = started(task("a", retry=AT_ONCE))
    lose(world, "one")
    execution_id = world.ready()[0]
    token = world.lease(execution_id, instance_id="two")
    world.do(LeaseExpired(execution_id=execution_id, token=token), eager=True)
    assert world.ready() == ["task:a#3"]


@pytest.mark.parametrize("again", ["one", "two"])
def test_workers_that_are_connected_again_raise_no_suspicion(again: str) -> None:
    world = started(task("a", retry=AT_ONCE))
    lose(world, "one")
    lose(world, "two", connected=frozenset({f"w {again}"}))
    assert world.task("a").losses.count == 2
    assert not is_suspect(world)


def test_worker_that_is_given_the_step_again_and_lost_again_is_one_worker() -> None:
    world = started(task("a", retry=AT_ONCE))
    lose(world, "one")
    lose(world, "one")
    assert world.task("a").losses.gone == ("w one",)
    assert not is_suspect(world)


def test_suspicion_ends_once_a_worker_of_it_is_connected_again() -> None:
    world = planned(task("a", retry=AT_ONCE), step_retry=AT_ONCE)
    for step in ("task:a", "reflect:1"):
        lose(world, "one")
        lose(world, "two")
        refused = world.take(f"{step}#3", connected=frozenset({"w three"}))
        assert world.do(refused)[0].reason == "SUSPECT"
        token = world.lease(f"{step}#3", connected=frozenset({"w one"}))
        losses = world.run.step_losses if step == "reflect:1" else world.task("a").losses
        assert (losses.count, losses.gone) == (2, ("w two",))
        if step == "task:a":
            world.late("task:a#3", token, Completed())


def test_suspect_step_may_fail_and_be_lost_with_a_worker_that_lives() -> None:
    world = started(task("a", retry=AT_ONCE))
    lose(world, "one")
    lose(world, "two")
    assert lose(world, "three", alone=True, connected=frozenset({"w three"})) == ""
    token = world.lease(world.ready()[0], instance_id="four", alone=True)
    assert world.late("task:a#4", token, Failed(failure=Failure(kind="Boom"))) == "ACCEPTED"
    assert world.run.status == "RUNNING"
    assert is_suspect(world)


@pytest.mark.parametrize(
    ("retry", "status"), [(AT_ONCE, "RUNNING"), (RetryPolicy(max_attempts=1), "FAILED")]
)
def test_blameless_loss_counts_for_nothing_but_repeats_no_step_that_runs_once(
    retry: RetryPolicy, status: str
) -> None:
    world = started(task("a", retry=retry))
    lose(world, "one", blameless=True)
    assert world.task("a").losses.count == 0
    assert world.run.status == status


def test_S13_a_reflection_can_be_poison_too() -> None:
    world = planned(task("a"), step_retry=AT_ONCE)
    world.complete("a")
    lose(world, "one")
    lose(world, "two")
    assert is_suspect(world)
    lose(world, "three", alone=True, waited=True)
    assert (world.run.failure.kind, world.kinds()[-2:]) == (
        "POISON",
        ["STEP_POISONED", "RUN_FAILED"],
    )


def test_suspicion_ends_with_its_step() -> None:
    world = planned(task("a"), step_retry=AT_ONCE)
    world.complete("a")
    lose(world, "one")
    lose(world, "two")
    token = world.lease("reflect:1#3", alone=True)
    world.late("reflect:1#3", token, Reflected(decision=Decision.FINISH))
    assert not is_suspect(world)
    assert world.deliver("synthesize:1#1", Completed()).status == "ACCEPTED"
