"""Restores a run from a user's own stores.

These have the run's position, its tasks and their results, but not the loop's commits. The run is
therefore started again in memory, and every finished step is answered from the stores, which calls
neither a function nor a store. The agent does the first unfinished step and all later ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from msgspec import ValidationError, convert
from msgspec.structs import replace

from stepwell.app.start import MAX_ITERATIONS_DEFAULT
from stepwell.core.records.errors import RunNotFound
from stepwell.core.records.model import TaskSpec
from stepwell.core.records.states import OnFailure, Phase, TaskStatus
from stepwell.embedded.protocols import RESULT
from stepwell.embedded.stores import Stores, find_run, value_of
from stepwell.wire.records import to_message, to_record
from stepwell_client import StepKind, encode
from stepwell_client.v1 import types_pb2, worker_pb2

_COMPLETED, _FAILED = TaskStatus.COMPLETED.lower(), TaskStatus.FAILED.lower()


class Restored:
    """A run as stored, and the outcomes of its finished steps."""

    def __init__(
        self,
        run: object,
        rows: Sequence[object],
        results: Mapping[str, object],
        *,
        retry_failed: bool,
    ) -> None:
        """Read a run's record, its tasks' rows, and its results. Raises ValueError for unreadable ones."""
        self.goal = str(_get(run, "goal", ""))
        self.max_iterations = int(_get(run, "max_iterations", MAX_ITERATIONS_DEFAULT))
        self.phase = _phase(_get(run, "phase", Phase.PLANNING))
        self.iteration = int(_get(run, "iteration", 0))
        """From 0."""
        self.statuses: dict[str, str] = {}
        self.results = dict(results)
        self._retry_failed = retry_failed
        self._specs: dict[str, TaskSpec] = {}
        self._iterations: dict[str, int] = {}
        self._planned: list[int] = []
        """The iterations whose tasks exist. Tasks of other iterations were all replanned."""
        if self.phase is not Phase.PLANNING:
            self._read_plans(rows)

    @property
    def plans(self) -> int:
        """The number of plans with which it is restored."""
        return len(self._planned)

    @property
    def first_iteration(self) -> int:
        """The iteration, from 0, with which it begins in memory, so that the last plan keeps its number."""
        return max(0, self.iteration - max(0, self.plans - 1))

    def is_settled(self, task_id: str) -> bool:
        """Return whether the task isn't run again: it has a result, or its failure stays or didn't fail the run."""
        status = self.statuses.get(task_id)
        if status == _FAILED:
            return (
                not self._retry_failed or self._specs[task_id].on_failure is not OnFailure.FAIL_RUN
            )
        return status == _COMPLETED and task_id in self.results

    def outcome(self, assignment: worker_pb2.Assignment) -> worker_pb2.Outcome | None:
        """Return the outcome of a finished step, or None if it is unfinished."""
        execution = assignment.execution
        outcome = worker_pb2.Outcome(
            lease=assignment.lease,
        )
        number = execution.iteration - 1 - self.first_iteration
        if number >= self.plans:
            return None  # A task of a new plan is new, even with the name of an older task.
        last = number == self.plans - 1
        ended = self.phase in (Phase.SYNTHESIZING, Phase.DONE)
        if execution.kind == StepKind.PLAN and number == 0:
            outcome.planned.plan.CopyFrom(self._plan(0))
        elif execution.kind == StepKind.TASK and self.is_settled(assignment.task.task_id):
            self._settle(outcome, assignment.task.task_id)
        elif execution.kind == StepKind.REFLECT and not last:
            outcome.reflected.decision = types_pb2.DECISION_CONTINUE
            outcome.reflected.plan.CopyFrom(self._plan(number + 1))
        elif execution.kind == StepKind.REFLECT and ended:
            outcome.reflected.decision = types_pb2.DECISION_FINISH
        elif execution.kind == StepKind.SYNTHESIZE and self.phase is Phase.DONE:
            _complete(outcome, self.results.get(RESULT))
        else:
            return None
        return outcome

    # --- inside ---------------------------------------------------------------------------------------

    def _read_plans(self, rows: Sequence[object]) -> None:
        for row in rows:
            self._add(row)
        self._planned = sorted(set(self._iterations.values()))
        if not self._planned:
            raise ValueError(f"task_store has no rows of a run that run_store has in {self.phase}")
        if self._planned[-1] > self.iteration:
            # A plan was accepted, and the process ended before the record said so.
            self.phase, self.iteration = Phase.EXECUTING, self._planned[-1]

    def _add(self, row: object) -> None:
        task_id = str(_get(row, "id", "") or _get(row, "task_id", ""))
        iteration = int(_get(row, "iteration", self.iteration))
        named = ((name, _get(row, name, None)) for name in TaskSpec.__struct_fields__)
        fields = {name: value for name, value in named if value is not None}
        given = encode(fields.pop("input", None))
        try:
            fields |= {"task_id": task_id, "input": None}
            spec = convert(fields, TaskSpec, strict=False)
        except ValidationError as error:
            raise ValueError(
                f"task_store: the row of task {task_id!r} can't be read: {error}"
            ) from None
        if given is not None:
            spec = replace(spec, input=to_record(given))
        self._specs[task_id] = spec
        self._iterations[task_id] = iteration
        self.statuses[task_id] = str(_get(row, "status", "pending")).lower()

    def _plan(self, number: int) -> types_pb2.PlanDraft:
        """Return a plan: its tasks, and tasks of a later plan that they depend on.

        A replanned task is in the last plan only.
        """
        iteration = self._planned[number]
        names = [name for name, its in self._iterations.items() if its == iteration]
        known = set(names)
        for name in names:
            for needed in self._specs[name].depends_on:
                if needed not in known and self._iterations.get(needed, -1) > iteration:
                    known.add(needed)
                    names.append(needed)
        # A failure that stays fails the run, so the tasks that can still run come first.
        names.sort(key=lambda name: self.statuses[name] == _FAILED)
        return types_pb2.PlanDraft(tasks=[to_message(self._specs[name]) for name in names])

    def _settle(self, outcome: worker_pb2.Outcome, task_id: str) -> None:
        if self.statuses[task_id] == _COMPLETED:
            _complete(outcome, self.results[task_id])
            return
        failure = outcome.failed.failure
        failure.kind = "FAILED_BEFORE"
        failure.message = "it had failed for good when the run was interrupted"
        failure.retryable = False


async def restore(stores: Stores, run_id: str, *, retry_failed: bool) -> Restored:
    """Return the run as a user's own stores have it; `retry_failed` says whether failed tasks run again.

    Raises:
        RunNotFound: run_store has no such run.
        ValueError: a record can't be read.
    """
    run = await find_run(stores.runs, run_id)
    if run is None:
        raise RunNotFound(run_id)
    rows = await value_of(stores.tasks.get_tasks(run_id))
    results: Any = await value_of(stores.context.get_all_results(run_id)) or {}
    return Restored(run, rows or (), results, retry_failed=retry_failed)


def _get(record: object, name: str, default: Any) -> Any:
    """Return a field of a mapping or an object, with a default for missing and None."""
    row = cast("Mapping[str, Any]", record)
    found = row.get(name) if isinstance(record, Mapping) else getattr(record, name, None)
    return default if found is None else found


def _phase(given: object) -> Phase:
    """Return a phase from its name in any case, or from an enum's member."""
    word = str(getattr(given, "value", given)).upper()
    if word not in Phase.__members__:
        raise ValueError(f"run_store: the phase {given!r} is none of {', '.join(Phase)}")
    return Phase(word)


def _complete(outcome: worker_pb2.Outcome, result: object) -> None:
    payload = encode(result)
    outcome.completed.SetInParent()
    if payload is not None:
        outcome.completed.result.CopyFrom(payload)
