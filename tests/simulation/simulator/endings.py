"""What became of each run, looked at by who knows what it was to do: its results, and its poison."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from stepwell.core.records.model import Payload, Task
from stepwell.core.records.states import SETTLED, RunStatus, StepKind, TaskStatus
from tests.simulation.simulator.book import Book
from tests.simulation.simulator.violation import holds
from tests.simulation.simulator.workloads import Workload, digest_of


class Ending(NamedTuple):
    """A run, and whether anything but its workers had a hand in it."""

    book: Book
    workload: Workload
    meddled: bool


def check(endings: Iterable[Ending]) -> None:
    """Check each of them.

    Raises:
        InvariantViolation: something doesn't hold.
    """
    for one in endings:
        if one.workload.poison:
            _quarantined(one.book)
        if not one.meddled:
            _as_uninterrupted(one.book)


def _quarantined(book: Book) -> None:
    """A step that kills its workers has come to its end within its budget, and so has its run (S13)."""
    run = book.run
    if run is None or run.status is RunStatus.PAUSED:
        return
    for spec in book.specs.values():
        if spec.type == "poison":
            task = book.tasks[spec.task_id]
            still = task.status in SETTLED or run.status is RunStatus.FAILED
            holds(still and run.ended, "S13", book.key, task.task_id, "is still", task.status)
            spent = book.spent[task.task_id, task.revision, run.allowance]
            holds(spent <= spec.retry.max_attempts, "S13", book.key, spent, "attempts at poison")


def _as_uninterrupted(book: Book) -> None:
    """What a task came to is what the plan alone makes of it, whatever was lost on the way (S18)."""
    for task in book.tasks.values():
        if task.status is not TaskStatus.COMPLETED or task.deduplicated_from:
            continue
        outcome = book.outcomes.get(task.result_id)
        if outcome is None or book.executions[task.result_id].kind is not StepKind.TASK:
            continue
        tasks = book.plans[task.revision].tasks
        own = next(one for one in tasks if one.task_id == task.task_id)
        built_on = [book.tasks[name] for name in own.depends_on]
        if any(one.revision > task.revision for one in built_on):
            # A later plan has defined it anew, after this one was done.
            continue
        made = digest_of(
            own.task_id + own.prompt, [(t.task_id, _result(book, t)) for t in built_on]
        )
        holds(outcome.result == made, "S18", book.key, task.task_id, "came to something else")


def _result(book: Book, task: Task) -> Payload | None:
    outcome = book.outcomes.get(task.result_id) if task.result_id else None
    return outcome.result if outcome is not None and task.status is TaskStatus.COMPLETED else None
