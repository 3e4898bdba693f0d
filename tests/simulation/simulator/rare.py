"""The rare things that many seeds must meet, told from what the store applied and what claims returned.

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
    StepKind,
    TaskStatus,
)
from tests.simulation.simulator.book import Applied, Book

RunKey = tuple[str, str]

STORE_WORDS = {
    "commit:unknown_applied": "unknown commit that was applied",
    "commit:unknown_not_applied": "unknown commit that was not applied",
    "hint:lost": "notification lost",
}
"""What the faulty store counts, and what the list calls it."""
IN_ONE_BATCH = "plan decided with outcomes of leased tasks"
DEFINED_ANEW = "leased task defined anew"
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
        EventType.INPUT_REQUESTED,
        EventType.INPUT_ANSWERED,
        EventType.MESSAGES_APPENDED,
    }
)


class Rare:
    """Counts them."""

    def __init__(self, seen: Counter[str]) -> None:
        self._seen = seen
        self.is_alive: Callable[[str, str], bool] = lambda _tenant_id, _instance_id: True
        """Tells whether an instance of a tenant's worker still runs."""
        self._winners: set[str] = set()
        self._scans: dict[tuple[RunKey, str], set[str]] = {}

    def refused(self, book: Book, door: str, version: int) -> None:
        """Note a commit that met a conflict."""
        if not 0 < version <= book.version:
            return
        winner = book.applied[version - 1].door
        if winner != door and winner not in self._winners:
            self._winners.add(winner)
            self._seen["conflict won by each of two replicas"] += len(self._winners) == 2

    def scanned(self, key: RunKey, execution_id: str, door: str) -> None:
        """Note that a replica was told of an execution whose lease is over."""
        doors = self._scans.setdefault((key, execution_id), set())
        if door not in doors:
            doors.add(door)
            self._seen["two replicas scanned one orphan"] += len(doors) == 2

    def committed(self, book: Book, applied: Applied) -> None:
        """Note what a commit tells, before the book takes it over."""
        seen = self._seen
        for event in applied.commit.events:
            if event.type is EventType.RUN_CANCELLED:
                self._cancelled(book)
            elif event.type in _COUNTED:
                seen[str(event.type)] += 1
            if event.type is EventType.LEASE_LOST:
                self._lost(book, applied, event)
            elif event.type is EventType.RUN_RESUMED:
                seen["resume of a resumed run"] += book.resumes > 0
        if applied.commit.plan is not None:
            self._planned(book, applied)
        for task in applied.commit.tasks:
            spec = book.specs.get(task.task_id)
            if spec is not None and spec.type == "poison" and task.status is TaskStatus.FAILED:
                seen["poison quarantine"] += 1

    def _cancelled(self, book: Book) -> None:
        run, seen = book.run, self._seen
        if run is None:
            return
        leased = book.leased()
        seen["cancel during a lease"] += bool(leased)
        seen["cancel during reflection"] += run.phase is Phase.REFLECTING
        settled = [task.status in SETTLED for task in book.tasks.values()]
        seen["cancel after the last task"] += bool(settled) and all(settled)

    def _lost(self, book: Book, applied: Applied, event: Event) -> None:
        lease = book.leases.get(event.execution_id)
        deadline = book.deadlines.get(event.execution_id)
        if lease is None or deadline is None or applied.now_us < deadline.from_us:
            return
        alive = self.is_alive(book.key[0], lease.instance_id)
        self._seen[f"lease expired with a {'live' if alive else 'dead'} worker"] += 1

    def _planned(self, book: Book, applied: Applied) -> None:
        commit = applied.commit
        leased = {one.execution_id: one for one in book.leased() if one.kind is StepKind.TASK}
        ended = {one.execution_id: one.status for one in commit.executions}
        fences = {fence.execution_id for fence in commit.fences}
        told = [name for name in leased if name in fences and ended.get(name) in _TOLD]
        self._seen[IN_ONE_BATCH] += bool(told)
        tasks = {one.task_id for one in leased.values()}
        assert commit.plan is not None
        for spec in commit.plan.tasks:
            anew = spec.task_id in tasks and book.specs[spec.task_id] != spec
            self._seen[DEFINED_ANEW] += anew


_TOLD = frozenset({ExecutionStatus.COMPLETED, ExecutionStatus.FAILED, ExecutionStatus.NEEDS_INPUT})
