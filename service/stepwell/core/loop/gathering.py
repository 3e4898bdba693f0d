"""Groups: what a task that gathers a group waits for, and the failures of the group that it tolerates.

A gathering task depends on its group's tasks. Once enough of these have completed, the rest is SKIPPED, and nothing is
left that the task waits for; if too many have failed, the task is FAILED with the kind GROUP_FAILED. The failure of
a group's task by itself fails no run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from enum import Enum, auto

from stepwell.core.loop.closing import fail_task, skip, skip_dependents
from stepwell.core.loop.draft import Draft
from stepwell.core.records.graph import Graph
from stepwell.core.records.model import Execution, Failure, TaskSpec
from stepwell.core.records.states import SETTLED, EventType, TaskStatus

GROUP_FAILED = "GROUP_FAILED"
"""The failure kind of a task too many of whose group have failed."""


class Verdict(Enum):
    """State of a group that decides the task that gathers it."""

    ENOUGH = auto()
    TOO_MANY_FAILED = auto()
    TOO_FEW_LEFT = auto()


def verdict(
    spec: TaskSpec, counts: Counter[TaskStatus], *, may_grow: bool = False
) -> Verdict | None:
    """Return what the group that a task gathers has come to, by its tasks' statuses, or None if it is undecided.

    `may_grow` says that the task still waits for others, which may add to the group.
    """
    needed, completed = spec.at_least, counts[TaskStatus.COMPLETED]
    if needed and completed >= needed:
        return Verdict.ENOUGH
    has_limit = not needed or spec.failures_max
    if has_limit and counts[TaskStatus.FAILED] > spec.failures_max:
        return Verdict.TOO_MANY_FAILED
    too_few = needed and not may_grow and completed + unsettled_in(counts) < needed
    return Verdict.TOO_FEW_LEFT if too_few else None


def unsettled_in(counts: Counter[TaskStatus]) -> int:
    """Return how many of these tasks aren't settled."""
    return sum(many for status, many in counts.items() if status not in SETTLED)


def stopped(graph: Graph, task_id: str, status_of: Callable[[str], TaskStatus]) -> Iterator[str]:
    """Yield the tasks of a group because of which the task that gathers it is FAILED: those without a result."""
    spec = graph.specs[task_id]
    if not spec.gathers or status_of(task_id) is not TaskStatus.FAILED:
        return
    members = [(one, status_of(one)) for one in graph.members(spec)]
    if verdict(spec, Counter(status for _, status in members)) in _FAILED:
        yield from (one for one, status in members if status in _WITHOUT_RESULT)


_FAILED = (Verdict.TOO_MANY_FAILED, Verdict.TOO_FEW_LEFT)
_WITHOUT_RESULT = (TaskStatus.FAILED, TaskStatus.SKIPPED)


def judge(draft: Draft) -> None:
    """Decide the groups whose tasks have moved: skip the rest of one, or fail the task that gathers it."""
    while not draft.run.ended and (task_id := draft.groups.pop_group()) is not None:
        if draft.task(task_id).status is not TaskStatus.PENDING or not draft.is_planned(task_id):
            continue
        spec, counts = draft.spec(task_id), draft.groups.group_counts(task_id)
        unsettled = unsettled_in(counts)
        came = verdict(spec, counts, may_grow=draft.waiting(task_id) > unsettled)
        if came is Verdict.ENOUGH and unsettled:
            completed = counts[TaskStatus.COMPLETED]
            why = f"{completed} of {spec.gathers!r} completed, {unsettled} skipped"
            draft.event(EventType.GROUP_GATHERED, task_id=task_id, message=why)
        elif came in _FAILED:
            failure = Failure(kind=GROUP_FAILED, message=_why(spec, counts), retryable=False)
            fail_task(draft, task_id, failure)
        if came is not None and not draft.run.ended:
            _skip_rest(draft, spec)


def _why(spec: TaskSpec, counts: Counter[TaskStatus]) -> str:
    failed, completed = counts[TaskStatus.FAILED], counts[TaskStatus.COMPLETED]
    skipped, left = counts[TaskStatus.SKIPPED], unsettled_in(counts)
    rule = f"at least {spec.at_least} must complete" if spec.at_least else "all must complete"
    tolerated = f", and {spec.failures_max} may fail" if spec.failures_max else ""
    return (
        f"of the group {spec.gathers!r} {rule}{tolerated}: {completed} completed, {failed} failed, {skipped} were"
        f" skipped, {left} were left"
    )


def _skip_rest(draft: Draft, gatherer: TaskSpec) -> None:
    """Skip, within the current event, the group's tasks that aren't settled, and what depends on them."""
    members = draft.graph.members(gatherer)
    rest = [one for one in members if draft.task(one).status not in SETTLED]
    executions: dict[str, list[Execution]] = {one: [] for one in rest}
    for execution in tuple(draft.open_executions()):
        if execution.task_id in executions:
            executions[execution.task_id].append(execution)
    for one in rest:
        if draft.task(one).status not in SETTLED:
            skip(draft, one, executions[one])
            skip_dependents(draft, one)
