"""Leases granted in the commit that makes a step ready: to which workers, and how many."""

from __future__ import annotations

from msgspec import UNSET

from stepwell.core.loop.advance import advance
from stepwell.core.loop.context import Context, FreeWorker, Grants
from stepwell.core.loop.occurrences import Completed, Delivery
from stepwell.core.loop.slots import freed_slots
from stepwell.core.loop.transition import Transition
from stepwell.core.records.routing import TaskPattern, WorkerVersion
from stepwell.core.records.states import ExecutionStatus, StepKind, VersionMatch
from tests.unit.core.loop_world import World, committed, started, task

TASK = (StepKind.TASK,)


def worker(name: str, *tasks: tuple[str, str], version: str = "", steps: int = 1) -> FreeWorker:
    """A free worker that does tasks."""
    patterns = tuple(TaskPattern(type=type_, role=role) for type_, role in tasks)
    return FreeWorker(worker_id=name, kinds=TASK, tasks=patterns, version=version, credits=steps)


def world_of(**roles: str) -> World:
    """A run whose task `first` is leased; the others, each with its role, depend on it."""
    world = started("first", *(task(name, "first", role=role) for name, role in roles.items()))
    world.lease("task:first#1")
    return world


def finish_first(world: World, grants: Grants) -> Transition:
    """Decide on the end of `first`, which makes the others ready."""
    token = world.held("task:first#1").token
    done = Delivery(execution_id="task:first#1", token=token, result=Completed())
    return advance(world.state, [done], Context(grants=grants))


def leases_of(transition: Transition) -> list[tuple[str, str, str]]:
    """Execution, worker and token of each lease."""
    leases = committed(transition).leases
    return [(one.execution_id, one.worker_id, one.token) for one in leases]


TOKENS = ("t1", "t2", "t3", "t4")


def test_free_workers_are_granted_leases_in_turns() -> None:
    world = world_of(a="", b="", c="")
    workers = (worker("one", steps=5), worker("two", steps=5))
    transition = finish_first(world, Grants(workers=workers, tokens=TOKENS))
    assert leases_of(transition) == [
        ("task:a#1", "one", "t1"),
        ("task:b#1", "two", "t2"),
        ("task:c#1", "one", "t3"),
    ]
    assert transition.offered == ()


def test_a_step_that_one_commit_offers_and_leases_is_created_leased() -> None:
    world = world_of(a="", b="")
    transition = finish_first(world, Grants(workers=(worker("one"),), tokens=TOKENS))
    completed, leased = committed(transition).events
    assert [(one.execution_id, one.status) for one in completed.executions] == [
        ("task:first#1", ExecutionStatus.COMPLETED)
    ]
    created = {one.execution_id: (one.kind, one.status) for one in leased.executions}
    assert created == {"task:a#1": (StepKind.TASK, "LEASED"), "task:b#1": (StepKind.TASK, UNSET)}
    moved = {one.task_id: (one.status, one.attempts, one.allowance) for one in leased.tasks}
    assert moved == {"a": ("RUNNING", 1, 1), "b": ("READY", 1, 1)}


def test_a_worker_is_granted_no_more_than_its_credits() -> None:
    world = world_of(a="", b="", c="")
    transition = finish_first(world, Grants(workers=(worker("one", steps=2),), tokens=TOKENS))
    assert [lease[0] for lease in leases_of(transition)] == ["task:a#1", "task:b#1"]
    assert transition.offered == ("task:c#1",)


def test_a_step_of_a_role_goes_to_a_worker_of_that_role() -> None:
    world = world_of(a="x", b="y")
    workers = (worker("none", ("*", "")), worker("x", ("*", "x")), worker("any"))
    transition = finish_first(world, Grants(workers=workers, tokens=TOKENS))
    assert leases_of(transition) == [("task:a#1", "x", "t1"), ("task:b#1", "any", "t2")]


def test_a_step_goes_only_where_its_type_is_done() -> None:
    world = started("first", task("a", "first", type="old"), task("b", "first", type="new"))
    world.lease("task:first#1")
    workers = (worker("old", ("old", ""), steps=5), worker("new", ("new", ""), ("old", "")))
    transition = finish_first(world, Grants(workers=workers, tokens=TOKENS))
    assert leases_of(transition) == [("task:a#1", "old", "t1"), ("task:b#1", "new", "t2")]


def test_steps_of_a_pinned_run_go_to_workers_of_that_version() -> None:
    pin = WorkerVersion(match=VersionMatch.AT_LEAST, version="1.10")
    world = started("first", task("a", "first"), worker_version=pin)
    world.lease("task:first#1")
    workers = tuple(worker(name, version=name) for name in ("1.9", "", "blue", "1.10"))
    transition = finish_first(world, Grants(workers=workers, tokens=TOKENS))
    assert [lease[1] for lease in leases_of(transition)] == ["1.10"]


def test_a_lease_in_a_limited_queue_takes_the_slot_of_one_that_ends() -> None:
    world = started("first", *(task(name, "first") for name in "abc"))
    world.lease("task:first#1", token="token@2")
    workers = (worker("one", steps=5),)
    lowered = Grants(workers=workers, tokens=TOKENS, limit=2)
    assert leases_of(finish_first(world, lowered)) == []
    transition = finish_first(world, Grants(workers=workers, tokens=TOKENS, limit=3))
    assert leases_of(transition) == [("task:a#1", "one", "t1@2")]
    assert transition.offered == ("task:b#1", "task:c#1")
    assert freed_slots(world.state, committed(transition)) == set()


def test_a_lease_in_a_limited_queue_waits_for_a_slot_if_none_ends() -> None:
    world = world_of(a="")
    grants = Grants(workers=(worker("one", steps=5),), tokens=TOKENS, limit=3)
    transition = finish_first(world, grants)
    assert (leases_of(transition), transition.offered) == ([], ("task:a#1",))


def test_without_tokens_nothing_is_granted() -> None:
    world = world_of(a="")
    transition = finish_first(world, Grants(workers=(worker("one"),)))
    assert leases_of(transition) == []
    assert transition.offered == ("task:a#1",)
