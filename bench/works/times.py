"""Times between steps, from what a worker has seen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from bench.processes import Step


def turnarounds(steps: Iterable[Step], prefix: str = "") -> list[float]:
    """Return the seconds from each step's outcome to the start of the next of the same run, sorted.

    The durable commit, the next lease and both ways are in between. With `prefix` only steps whose ids begin so.
    """
    by_run: dict[str, list[Step]] = {}
    for step in steps:
        if step.task_id.startswith(prefix):
            by_run.setdefault(step.run_id, []).append(step)
    return sorted(
        after.begun - before.ended
        for own in by_run.values()
        for before, after in pairwise(sorted(own, key=lambda step: step.begun))
    )


def share(times: Sequence[float], part: float) -> float:
    """Return the time that this part of all sorted times keeps within."""
    return times[min(len(times) - 1, int(len(times) * part))]
