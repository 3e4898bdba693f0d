"""Rare events that many seeds must meet, counted from applied commits and the answers to claims.

Their names are those of the proof's list of what must happen, where it has one for them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from stepwell.core.records.events import Event
from stepwell.core.records.states import (
    SETTLED,
    EventType,
    ExecutionStatus,
    Phase,
    PlanTrigger,
    StepKind,
    TaskStatus,
)
from tests.simulation.simulator.run_model import Applied, RunModel

RunKey = tuple[str, str]

STORE_EVENTS = {
    "commit:unknown_applied": "unknown commit that was applied",
    "commit:unknown_not_applied": "unknown commit that was not applied",
    "hint:lost": "notification lost",
}
"""Counts of the faulty store, and their names in the list."""
IN_ONE_BATCH = "plan decided with outcomes of leased tasks"
DEFINED_ANEW = "leased task defined anew"
GROWN = "plan grown by a task"
GROWN_OVER_WORK = "plan grown while other tasks were leased"
_COUNTED = frozenset(
    {
        EventType.LEASE_LOST,
        EventType.EXECUTION_TIMED_OUT,
        EventType.EXECUTION_RELEASED,
        EventType.OUTCOME_UNKNOWN,
        EventType.OUTCOME_RESOLVED,
        EventType.TASK_DEDUPLICATED,
        EventType.PLAN_REJECTED,
        EventType.RUN_RESUMED,
        EventType.RUN_PAUSED,
        EventType.RUN_FAILED,
        EventType.QUESTION_ASKED,
        EventType.QUESTION_ANSWERED,
        EventType.MESSAGES_APPENDED,
        EventType.STEP_SUSPENDED,
        EventType.STEP_WOKEN,
        EventType.JOURNAL_RENEWED,
        EventType.JOURNAL_FORGOTTEN,
        EventType.SIGNAL_TAKEN,
        EventType.WAIT_OPENED,
        EventType.WAIT_EXPIRED,
        EventType.CHILD_ENDED,
        EventType.LETTERS_DELIVERED,
        EventType.RUN_LET_GO,
        EventType.RUN_STEERED,
        EventType.GROUP_GATHERED,
    }
)


class Rare:
    """Counts them."""

    def __init__(self, seen: Counter[str]) -> None:
        self._seen = seen
        self.is_alive: Callable[[str, str], bool] = lambda _tenant_id, _instance_id: True
        """Returns whether an instance of a tenant's worker still runs."""
        self._winners: set[str] = set()
        self._scans: dict[tuple[RunKey, str], set[str]] = {}

    def refused(self, model: RunModel, replica: str, version: int) -> None:
        """Note a commit that met a conflict."""
        if not 0 < version <= model.version:
            return
        winner = model.applied[version - 1].replica
        if winner != replica and winner not in self._winners:
            self._winners.add(winner)
            self._seen["conflict won by each of two replicas"] += len(self._winners) == 2

    def scanned(self, key: RunKey, execution_id: str, replica: str) -> None:
        """Count a claim that returned an execution whose lease is over."""
        replicas = self._scans.setdefault((key, execution_id), set())
        if replica not in replicas:
            replicas.add(replica)
            self._seen["two replicas scanned one orphan"] += len(replicas) == 2

    def committed(self, model: RunModel, applied: Applied) -> None:
        """Count the events of a commit, before the model applies it."""
        seen = self._seen
        for event in applied.commit.events:
            if event.type is EventType.RUN_CANCELLED:
                self._cancelled(model)
            elif event.type in _COUNTED:
                seen[str(event.type)] += 1
            if event.type is EventType.LEASE_LOST:
                self._lost(model, applied, event)
            elif event.type is EventType.RUN_RESUMED:
                seen["resume of a resumed run"] += model.resumes > 0
        if applied.commit.plan is not None:
            self._planned(model, applied)
        for task in applied.commit.tasks:
            spec = model.specs.get(task.task_id)
            if spec is not None and spec.type == "poison" and task.status is TaskStatus.FAILED:
                seen["poison quarantine"] += 1

    def _cancelled(self, model: RunModel) -> None:
        run, seen = model.run, self._seen
        if run is None:
            return
        leased = model.leased()
        seen["cancel during a lease"] += bool(leased)
        seen["cancel during reflection"] += run.phase is Phase.REFLECTING
        settled = [task.status in SETTLED for task in model.tasks.values()]
        seen["cancel after the last task"] += bool(settled) and all(settled)

    def _lost(self, model: RunModel, applied: Applied, event: Event) -> None:
        lease = model.leases.get(event.execution_id)
        deadline = model.deadlines.get(event.execution_id)
        if lease is None or deadline is None or applied.now_us < deadline.from_us:
            return
        alive = self.is_alive(model.key[0], lease.instance_id)
        self._seen[f"lease expired with a {'live' if alive else 'dead'} worker"] += 1

    def _planned(self, model: RunModel, applied: Applied) -> None:
        commit = applied.commit
        leased = {one.execution_id: one for one in model.leased() if one.kind is StepKind.TASK}
        ended = {one.execution_id: one.status for one in commit.executions}
        fences = {fence.execution_id for fence in commit.fences}
        reported = [name for name in leased if name in fences and ended.get(name) in _REPORTED]
        self._seen[IN_ONE_BATCH] += bool(reported)
        tasks = {one.task_id for one in leased.values()}
        assert commit.plan is not None
        grown = commit.plan.trigger is PlanTrigger.TASK
        self._seen[GROWN] += grown
        self._seen[GROWN_OVER_WORK] += grown and len(leased) > len(reported)
        for spec in commit.plan.tasks:
            anew = spec.task_id in tasks and model.specs[spec.task_id] != spec
            self._seen[DEFINED_ANEW] += anew


_REPORTED = frozenset(
    {ExecutionStatus.COMPLETED, ExecutionStatus.FAILED, ExecutionStatus.NEEDS_ANSWER}
)
