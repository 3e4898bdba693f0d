"""A run that goes round and round, for what costs more with each iteration."""

from __future__ import annotations

from stepwell.core.loop.occurrences import Reflected
from stepwell.core.records.states import Decision
from tests.unit.core.loop_world import World, planned, tasks


def circling(iterations: int) -> World:
    """Return a run in its iteration of this number; each has two tasks of its own."""
    world = planned(*tasks("a1", "b1"), max_iterations=iterations)
    for n in range(1, iterations):
        world.complete(f"a{n}", f"b{n}")
        more = tasks(f"a{n + 1}", f"b{n + 1}")
        decided = Reflected(decision=Decision.CONTINUE, tasks=more)
        assert world.deliver(f"reflect:{n}#1", decided).status == "ACCEPTED"
    return world
