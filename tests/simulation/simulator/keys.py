"""Idempotency keys over all runs (K1), by their commits alone.

Of two executions with one key in a tenant and pipeline at most one is under way: from the first lease of
its task to the task's end, or its run's. A completed one's result is the result of all.
"""

from __future__ import annotations

from collections import Counter

from stepwell.core.records.model import Outcome, Task
from stepwell.core.records.states import (
    ENDED,
    SETTLED,
    ExecutionStatus,
    StepKind,
    TaskStatus,
)
from tests.simulation.simulator.run_model import Applied, RunModel
from tests.simulation.simulator.violation import holds

Key = tuple[str, str, str]
"""Tenant, pipeline and key."""
Place = tuple[tuple[str, str], str, int]
"""A tenant's run, its task and the plan revision that defined that task."""
WAITED = "task waited for a key of another run"
TAKEN_OVER = "key given up by a run was taken by another"
REUSED = "result of another run was taken by its key"
SEEN = (WAITED, TAKEN_OVER, REUSED)
"""The counted things."""


class KeyModel:
    """The holder of each key, and the run whose result it stands for."""

    def __init__(self, seen: Counter[str]) -> None:
        self._seen = seen
        self._under_way: dict[Key, set[Place]] = {}
        self._done: dict[Key, dict[Place, Outcome]] = {}
        self._given_up: dict[Key, Place] = {}
        """The last holder of each key that ended without a result."""
        self._sources: set[tuple[Key, str]] = set()
        """Each key with each `run/execution` that completed a task under it."""

    def applied(self, model: RunModel, applied: Applied) -> None:
        """Take in a commit that the run's model has taken in already.

        Raises:
            InvariantViolation: two have a key, or one runs whose key's result is known.
        """
        if not any(spec.idempotency_key for spec in model.specs.values()):
            return
        for task in applied.commit.tasks:
            self._forget_old(model, task)
        # One commit may end a task and lease the next one of its key.
        self._release(model)
        rows = {one.execution_id: one for one in applied.commit.executions}
        for lease in applied.commit.leases:
            execution = rows[lease.execution_id]
            if execution.kind is StepKind.TASK:
                self._leased(model, applied, model.tasks[execution.task_id])
        # A commit may complete a task and settle others by its result.
        for task in sorted(applied.commit.tasks, key=lambda one: bool(one.deduplicated_from)):
            self._seen[WAITED] += bool(task.key_run_id)
            own = task.key_run_id == model.key[1]
            holds(not own, "K1", applied, task.task_id, "waits for a key of its own run")
            if task.status is TaskStatus.COMPLETED:
                self._completed(model, applied, task)

    def _leased(self, model: RunModel, applied: Applied, task: Task) -> None:
        key = _key_of(model, task)
        if key is None:
            return
        place = _place_of(model, task)
        there = self._under_way.setdefault(key, set())
        others = there - {place}
        holds(not others, "K1", applied, "leases", key, "which is under way in", others)
        if place not in there:
            # What holds its key may be completed by a late delivery before another attempt of it.
            done = self._done.get(key, {}).keys() - {place}
            holds(not done, "K1", applied, "leases", key, "which was completed by", done)
            given_up = self._given_up.pop(key, place)
            self._seen[TAKEN_OVER] += given_up[0] != place[0]
        there.add(place)

    def _completed(self, model: RunModel, applied: Applied, task: Task) -> None:
        key = _key_of(model, task)
        if key is None or task.result_run_id:
            return
        left = model.outcomes.get(task.result_id, Outcome(execution_id=""))
        outcome = Outcome(execution_id="", result=left.result)
        all_done = self._done.setdefault(key, {})
        others = {place: one for place, one in all_done.items() if one != outcome}
        holds(not others, "K1", applied, "another result of", key, "than that of", set(others))
        source = task.deduplicated_from
        if source:
            known = (key, source) in self._sources
            holds(known, "K1", applied, source, "was never done for", key)
            self._seen[REUSED] += source.partition("/")[0] != model.key[1]
        else:
            all_done[_place_of(model, task)] = outcome
            self._sources.add((key, f"{model.key[1]}/{task.result_id}"))

    def _forget_old(self, model: RunModel, task: Task) -> None:
        """Forget a task's state from before a plan redefined it."""
        for places in (*self._under_way.values(), *self._done.values()):
            for place in tuple(places):
                if place[:2] == (model.key, task.task_id) and place[2] != task.revision:
                    places.remove(place) if isinstance(places, set) else places.pop(place)

    def _release(self, model: RunModel) -> None:
        """Let those go that are settled, and at its run's end all but what may have taken effect."""
        run = model.run
        assert run is not None
        unknown = {
            one.task_id for one in model.open() if one.status is ExecutionStatus.UNKNOWN_OUTCOME
        }
        for key, there in self._under_way.items():
            for place in tuple(there):
                if place[0] != model.key:
                    continue
                task = model.tasks[place[1]]
                if task.status in SETTLED or (run.status in ENDED and place[1] not in unknown):
                    there.remove(place)
                    if task.status is not TaskStatus.COMPLETED:
                        self._given_up[key] = place


def _key_of(model: RunModel, task: Task) -> Key | None:
    tasks = model.plans[task.revision].tasks
    key = next(one for one in tasks if one.task_id == task.task_id).idempotency_key
    assert model.run is not None
    return (model.key[0], model.run.spec.pipeline_id, key) if key else None


def _place_of(model: RunModel, task: Task) -> Place:
    return (model.key, task.task_id, task.revision)
