"""Finds the tasks that can be offered, while a transition settles tasks and puts plans in force."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping

from stepwell.core.loop.state import RunState, count_groups, is_under_way
from stepwell.core.records.graph import Graph
from stepwell.core.records.model import Task
from stepwell.core.records.states import IN_FLIGHT, SETTLED, TaskStatus


class Runnable:
    """The PENDING tasks whose dependencies are settled and whose idempotency key no other task is using."""

    def __init__(self, state: RunState, tasks: Mapping[str, Task]) -> None:
        """`tasks` are the rows that the transition has changed so far."""
        self._state = state
        self._tasks = tasks
        self._graph = state.graph
        self._base: Mapping[str, int] = state.waiting
        """The number of unsettled dependencies of each task, as of the state or the newest plan."""
        self._waiting: dict[str, int] = {}
        """The changed numbers of unsettled dependencies, by task."""
        self._before: Iterator[str] = iter(state.runnable)
        self._fresh: deque[str] = deque()
        """Tasks that may have become runnable."""
        self._in_groups: Mapping[str, Mapping[TaskStatus, int]] = state.groups
        self._moved: dict[str, Counter[TaskStatus]] = {}
        """The changes of `_in_groups`, by the task that gathers the group."""
        self._groups: dict[str, None] = {}
        """Tasks whose group may have come to something."""

    def waiting(self, task_id: str) -> int:
        """Return how many of a task's dependencies aren't settled."""
        count = self._waiting.get(task_id)
        return self._base.get(task_id, 0) if count is None else count

    def pop(self) -> str | None:
        """Return the next runnable task, each task once; None if none is left."""
        for task_id in self._before:
            if self._is_runnable(task_id):
                return task_id
        while self._fresh:
            task_id = self._fresh.popleft()
            if self._is_runnable(task_id):
                return task_id
        return None

    def task_moved(self, task_id: str, before: TaskStatus, after: TaskStatus) -> None:
        """Note a task's new status, which may make it or other tasks runnable."""
        is_settled = after in SETTLED
        if is_settled is not (before in SETTLED):
            self._count_for_dependents(task_id, -1 if is_settled else 1)
        if (gatherer := self._graph.gatherers.get(task_id)) is not None:
            moved = self._moved.setdefault(gatherer, Counter())
            moved[before] -= 1
            moved[after] += 1
        if after is TaskStatus.PENDING and self.waiting(task_id) == 0:
            self._fresh.append(task_id)
        if self._graph.keys and (is_settled or (before in IN_FLIGHT and after not in IN_FLIGHT)):
            self._fresh.extend(self._graph.same_key(task_id))

    def plan_changed(self, graph: Graph, settled: set[str]) -> None:
        """Count the dependencies again, by the graph of a new plan."""
        self._graph = graph
        self._base = graph.unsettled(settled)
        # Tasks that this transition settled before were counted for the old graph.
        self._waiting.clear()
        self._in_groups = count_groups(graph, self._status_of)
        self._moved.clear()
        self._groups.update(dict.fromkeys(self._in_groups))

    def begin_anew(self, task_ids: Iterable[str]) -> None:
        """Look for runnable tasks among these only, in order."""
        self._before = iter(())
        counts = {**self._base, **self._waiting} if self._waiting else self._base
        self._fresh = deque([one for one in task_ids if not counts[one]])

    def pop_group(self) -> str | None:
        """Return the next task whose group may have come to something, in order; None if none is left."""
        first = next(iter(self._groups), None)
        if first is not None:
            del self._groups[first]
        return first

    def group_counts(self, task_id: str) -> Counter[TaskStatus]:
        """Return how many tasks of the group that a task gathers have each status."""
        counts = Counter(self._in_groups[task_id])
        counts.update(self._moved.get(task_id, {}))
        return counts

    def _is_runnable(self, task_id: str) -> bool:
        if self._status_of(task_id) is not TaskStatus.PENDING or self.waiting(task_id):
            return False
        if not self._graph.keys:
            return True
        return not any(is_under_way(self._row(one)) for one in self._graph.same_key(task_id))

    def _row(self, task_id: str) -> Task:
        row = self._tasks.get(task_id)
        return row if row is not None else self._state.tasks[task_id]

    def _status_of(self, task_id: str) -> TaskStatus:
        return self._row(task_id).status

    def _count_for_dependents(self, task_id: str, step: int) -> None:
        """Add `step` to the unsettled dependencies of each of the task's dependents."""
        for dependent in self._graph.dependents.get(task_id, ()):
            count = self.waiting(dependent) + step
            self._waiting[dependent] = count
            if dependent in self._in_groups:
                self._groups[dependent] = None
            if count == 0:
                self._fresh.append(dependent)
