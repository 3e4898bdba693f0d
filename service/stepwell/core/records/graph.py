"""Task graphs: checks plans, finds dependents, and compares plans by fingerprint."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice

from msgspec.structs import replace

from stepwell.core.records import canonical, limits
from stepwell.core.records.model import TaskSpec, Violation
from stepwell.core.records.task_spec import ChildRun

_TASK_ID = re.compile(limits.TASK_ID_PATTERN)
_PLAIN = TaskSpec(task_id="plain")


class Graph:
    """The specs of a run's tasks and, for each, the tasks that depend on it.

    `keys` has the tasks of each idempotency key that a planner gave, `gathering` the tasks that gather a group, and
    `gatherers`, by a task's id, the one that gathers its group.
    """

    __slots__ = ("dependents", "gatherers", "gathering", "keys", "specs")

    def __init__(self, specs: Mapping[str, TaskSpec]) -> None:
        self.specs = dict(specs)
        self.dependents: dict[str, list[str]] = {}
        self.keys: dict[str, list[str]] = {}
        self.gathering: list[str] = []
        self.gatherers: dict[str, str] = {}
        dependents = self.dependents
        for task_id, spec in self.specs.items():
            if spec.idempotency_key:
                self.keys.setdefault(spec.idempotency_key, []).append(task_id)
            for dependency in spec.depends_on:
                if dependency in dependents:
                    dependents[dependency].append(task_id)
                else:
                    dependents[dependency] = [task_id]
            if spec.gathers:
                self.gathering.append(task_id)
                self.gatherers.update((one, task_id) for one in self.members(spec))

    def members(self, gatherer: TaskSpec) -> Iterator[str]:
        """Yield the tasks of the group that a task gathers."""
        for one in gatherer.depends_on:
            if (spec := self.specs.get(one)) is not None and spec.group == gatherer.gathers:
                yield one

    def with_plan(self, tasks: Iterable[TaskSpec]) -> Graph:
        """Return the graph with a newer plan's tasks, which replace older ones of the same id."""
        newer = {spec.task_id: spec for spec in tasks}
        if self.specs.keys().isdisjoint(newer):
            return Graph({**self.specs, **newer})
        kept = {task_id: spec for task_id, spec in self.specs.items() if task_id not in newer}
        return Graph({**kept, **newer})

    def unsettled(self, settled: set[str]) -> dict[str, int]:
        """Return, for each task, how many of its dependencies are not among the settled tasks."""
        counts = {task_id: len(spec.depends_on) for task_id, spec in self.specs.items()}
        if settled:
            for task_id, spec in self.specs.items():
                if named := spec.depends_on:
                    counts[task_id] -= len(settled.intersection(named))
        return counts

    def same_key(self, task_id: str) -> Iterator[str]:
        """Yield the other tasks of this task's idempotency key; none if its planner set no key."""
        key = self.specs[task_id].idempotency_key
        if key:
            yield from (other for other in self.keys[key] if other != task_id)

    def downstream(self, task_id: str) -> list[str]:
        """Return all tasks that depend on `task_id`, directly or not and other than by its group, nearest first."""
        below: dict[str, None] = {}
        queue = self.direct_dependents(task_id)
        for dependent in queue:
            if dependent not in below:
                below[dependent] = None
                queue.extend(self.direct_dependents(dependent))
        return list(below)

    def direct_dependents(self, task_id: str) -> list[str]:
        """Return the tasks that depend on `task_id` itself, without the one that gathers its group."""
        gatherer = self.gatherers.get(task_id)
        return [one for one in self.dependents.get(task_id, ()) if one != gatherer]


def fingerprint(tasks: Sequence[TaskSpec]) -> str:
    """Return the SHA-256 of the canonical task list, in hex."""
    return hashlib.sha256(canonical.bytes_of(tuple(tasks))).hexdigest()


def gathered(tasks: Sequence[TaskSpec]) -> Sequence[TaskSpec]:
    """Return a plan in which tasks that gather a group depend on all of its tasks."""
    if not any(one.gathers for one in tasks):
        return tasks
    groups: dict[str, list[str]] = {}
    for one in tasks:
        if one.group:
            groups.setdefault(one.group, []).append(one.task_id)
    return [after(one, groups.get(one.gathers, ())) if one.gathers else one for one in tasks]


def after(spec: TaskSpec, names: Iterable[str]) -> TaskSpec:
    """Return a task that also depends on these."""
    before = {*spec.depends_on, spec.task_id}
    more = [one for one in dict.fromkeys(names) if one not in before]
    return replace(spec, depends_on=(*spec.depends_on, *more)) if more else spec


def violations_of(
    tasks: Sequence[TaskSpec],
    is_settled: Callable[[str], bool] = lambda _: False,
    *,
    path: str = "plan",
    depth: int = 0,
) -> tuple[Violation, ...]:
    """Return the violations of a plan, at most `VIOLATIONS_MAX`; none if it is valid.

    `is_settled` tells the run's settled tasks of earlier revisions: a plan may depend on them without
    naming them again. Paths start with `path`: `plan.tasks[3].depends_on[0]`. `depth`: the runs above, of which this is
    the plan of a child.
    """
    found: list[Violation] = []

    def report(field: str, description: str) -> None:
        if len(found) < limits.VIOLATIONS_MAX:
            found.append(Violation(field=f"{path}.{field}", description=description))

    if not tasks:
        report("tasks", "A plan has at least one task.")
    if len(tasks) > limits.PLAN_TASKS_MAX:
        report(
            "tasks", f"{len(tasks)} tasks; a plan has at most {limits.PLAN_TASKS_MAX}. Split it."
        )
        return tuple(found)
    positions = _positions(tasks, report)
    _check_groups(tasks, report)
    tasks = gathered(tasks)
    _check_keys(tasks, report)
    _check_children(tasks, report, depth)
    # Without a dependency on a later task there can be no cycle.
    if _check_dependencies(tasks, positions, is_settled, report) and not found:
        _check_cycles(tasks, positions, report)
    return tuple(found)


def _positions(tasks: Sequence[TaskSpec], report: Callable[[str, str], None]) -> dict[str, int]:
    positions: dict[str, int] = {}
    is_id, known, chars_max = _TASK_ID.fullmatch, positions.setdefault, limits.TASK_ID_CHARS_MAX
    for index, task in enumerate(tasks):
        task_id = task.task_id
        if not is_id(task_id) or len(task_id) > chars_max:
            report(
                f"tasks[{index}].task_id",
                f"A task id has 1 to {limits.TASK_ID_CHARS_MAX} letters, digits or . _ : / @ + - "
                "and starts with a letter or digit.",
            )
        first = known(task_id, index)
        if first != index:
            report(
                f"tasks[{index}].task_id",
                f"{task_id!r} is the id of tasks[{first}] too; ids are unique within a plan.",
            )
    return positions


def _check_dependencies(
    tasks: Sequence[TaskSpec],
    positions: Mapping[str, int],
    is_settled: Callable[[str], bool],
    report: Callable[[str, str], None],
) -> bool:
    """Report invalid dependencies; return whether any is on a later task of the plan."""
    has_later = False
    for index, task in enumerate(tasks):
        named = task.depends_on
        if not named:
            continue
        again = _named_before(named) if len(named) > 1 else ()
        for place, dependency in enumerate(named):
            fault, position = "", positions.get(dependency)
            if dependency == task.task_id:
                fault = "can't depend on itself."
            elif position is None and not is_settled(dependency):
                fault = "is no task of this plan and no settled one before it."
            elif place in again:
                fault = "is named twice."
            elif position is not None and position > index:
                has_later = True
            if fault:
                report(f"tasks[{index}].depends_on[{place}]", f"{dependency!r} {fault}")
    return has_later


def _named_before(names: Sequence[str]) -> Collection[int]:
    """Return the indexes of names that occur at an earlier index."""
    if len(set(names)) == len(names):
        return ()
    first = {name: place for place, name in reversed(list(enumerate(names)))}
    return {place for place, name in enumerate(names) if first[name] != place}


def _check_keys(tasks: Sequence[TaskSpec], report: Callable[[str, str], None]) -> None:
    counts = Counter([task.idempotency_key for task in tasks if task.idempotency_key])
    for key, count in counts.items():
        if count > limits.TASKS_PER_KEY_MAX:
            places = (n for n, task in enumerate(tasks) if task.idempotency_key == key)
            report(
                f"tasks[{next(islice(places, limits.TASKS_PER_KEY_MAX, None))}].idempotency_key",
                f"{key!r} is the key of more than {limits.TASKS_PER_KEY_MAX} tasks of this plan. "
                "One of them is enough: the others would take its result.",
            )


def _check_groups(tasks: Sequence[TaskSpec], report: Callable[[str, str], None]) -> None:
    gatherers: dict[str, int] = {}
    groups: set[str] | None = None
    for index, task in enumerate(tasks):
        path = f"tasks[{index}]"
        if not task.gathers:
            for name in ("at_least", "failures_max"):
                if getattr(task, name):
                    report(
                        f"{path}.{name}",
                        "It is about the group that a task gathers: set `gathers`.",
                    )
            continue
        first = gatherers.setdefault(task.gathers, index)
        if first != index:
            report(
                f"{path}.gathers",
                f"tasks[{first}] gathers the group {task.gathers!r} too; one task gathers a group.",
            )
        if task.group == task.gathers:
            report(f"{path}.group", "A task can't be one of the group that it gathers.")
        groups = {one.group for one in tasks} if groups is None else groups
        if task.gathers not in groups and not task.depends_on:
            report(
                f"{path}.gathers",
                f"No task is of the group {task.gathers!r}, and this one depends on none that could add one.",
            )


_OF_A_WORKER = ("type", "role", "heartbeat_timeout_ms", "idle_timeout_ms", "effect", "reconcile")
"""Fields of a task that are about its worker, which a child run has none of."""


def _check_children(
    tasks: Sequence[TaskSpec], report: Callable[[str, str], None], depth: int
) -> None:
    for index, task in enumerate(tasks):
        if task.child is None:
            continue
        for name in (*_OF_A_WORKER, "idempotency_key"):
            if getattr(task, name) != getattr(_PLAIN, name):
                report(
                    f"tasks[{index}].{name.removesuffix('_ms')}",
                    "A task that is a child run has none: no worker gets it.",
                )
        if task.child.tasks:
            _check_child_plan(task.child, f"tasks[{index}].child", report, depth + 1)


def _check_child_plan(
    child: ChildRun, path: str, report: Callable[[str, str], None], depth: int
) -> None:
    if child.reflect_on:
        report(f"{path}.reflect_on", "A child run with a plan has no reflection.")
    if depth > limits.CHILD_DEPTH_MAX:
        report(f"{path}.plan", f"More than {limits.CHILD_DEPTH_MAX} runs would be above its tasks.")
        return
    for one in violations_of(child.tasks, path=f"{path}.plan", depth=depth):
        report(one.field, one.description)


def _check_cycles(
    tasks: Sequence[TaskSpec], positions: Mapping[str, int], report: Callable[[str, str], None]
) -> None:
    """Report one cycle, if there is any: Kahn's algorithm can't remove the tasks of a cycle."""
    waiting = {t.task_id: sum(1 for d in t.depends_on if d in positions) for t in tasks}
    dependents = Graph({t.task_id: t for t in tasks}).dependents
    free = [task_id for task_id, count in waiting.items() if count == 0]
    for task_id in free:
        for dependent in dependents.get(task_id, ()):
            waiting[dependent] -= 1
            if waiting[dependent] == 0:
                free.append(dependent)
    if len(free) == len(tasks):
        return
    stuck = {task_id for task_id, count in waiting.items() if count > 0}
    cycle = _one_cycle(tasks, positions, stuck)
    index = positions[cycle[0]]
    place = tasks[index].depends_on.index(cycle[1 % len(cycle)])
    words = " -> ".join([*cycle[:10], *(["…"] if len(cycle) > 10 else []), cycle[0]])
    report(f"tasks[{index}].depends_on[{place}]", f"A cycle: {words}. Take one dependency away.")


def _one_cycle(
    tasks: Sequence[TaskSpec], positions: Mapping[str, int], stuck: Collection[str]
) -> list[str]:
    """Return a cycle: follow dependencies among the stuck tasks until one repeats."""
    here = min(stuck, key=lambda task_id: positions[task_id])
    trail: dict[str, int] = {}
    while here not in trail:
        trail[here] = len(trail)
        here = next(d for d in tasks[positions[here]].depends_on if d in stuck)
    return list(trail)[trail[here] :]
