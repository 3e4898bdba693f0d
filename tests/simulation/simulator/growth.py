"""Gives the tasks that a simulated task adds to its plan, and groups of tasks."""

from __future__ import annotations

import zlib

from msgspec.structs import replace

from stepwell.core.records.model import TaskSpec
from tests.simulation.simulator.rng import Rng


def added_by(
    grown: TaskSpec, depth: int, instead: tuple[TaskSpec, ...] = ()
) -> tuple[TaskSpec, ...]:
    """Return the tasks that a task adds, by its name; a third of the tasks add others `instead`, if there are any."""
    name = grown.task_id
    draw = zlib.crc32(name.encode())
    if instead and draw % 3 == 0:
        return instead
    behaviours = (f"grow:{depth - 1}" if depth > 1 else "", ("slow", "flaky:1", "")[draw % 3])
    first, second = (
        replace(grown, task_id=f"{name}.{n}", depends_on=(name,) * n, type=one)
        for n, one in enumerate(behaviours)
    )
    last = replace(grown, task_id=f"{name}.2", depends_on=(first.task_id, second.task_id), type="")
    # Several tasks add the one that they all find, which is there once.
    return first, second, last, replace(grown, task_id="found", depends_on=(), type="")


def group(rng: Rng, like: TaskSpec) -> tuple[TaskSpec, ...]:
    """Return the tasks of a group, of which one may fail for good."""
    last = rng.pick(["reject", "slow"])
    behaviours = [rng.pick(["", "slow", "flaky:1"]) for _ in range(rng.between(2, 4))]
    return tuple(
        replace(like, task_id=f"m{n}", type=one, group="m")
        for n, one in enumerate([last, *behaviours])
    )


def gathering(rng: Rng, spec: TaskSpec) -> TaskSpec:
    """Return a task that gathers the group as well: some of it are enough, and one failure is tolerated."""
    return replace(spec, gathers="m", at_least=rng.between(0, 2), failures_max=1)
