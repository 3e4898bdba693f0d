"""Checks of the results of each run against its workload, and of its poison."""

from __future__ import annotations

from stepwell.core.records.model import Payload, Task
from stepwell.core.records.states import SETTLED, RunStatus, StepKind, TaskStatus
from tests.simulation.simulator.run_model import RunModel
from tests.simulation.simulator.violation import holds
from tests.simulation.simulator.workloads import Workload, digest_of


def check(model: RunModel, workload: Workload, *, acted_on: bool) -> None:
    """Check a run, of which is known whether its caller has sent commands.

    Raises:
        InvariantViolation: something doesn't hold.
    """
    if workload.poison:
        _quarantined(model)
    if not acted_on:
        _as_uninterrupted(model)


def _quarantined(model: RunModel) -> None:
    """A step that kills its workers has come to its end within its budget, and so has its run (S13)."""
    run = model.run
    if run is None or run.status is RunStatus.PAUSED or run.waits_for_thread:
        return
    for spec in model.specs.values():
        if spec.type == "poison":
            task = model.tasks[spec.task_id]
            still = task.status in SETTLED or run.status is RunStatus.FAILED
            holds(still and run.ended, "S13", model.key, task.task_id, "is still", task.status)
            lost = model.lost[f"task:{task.task_id}", task.revision, run.allowance]
            holds(lost <= spec.retry.max_losses + 1, "S13", model.key, lost, "losses of poison")


def _as_uninterrupted(model: RunModel) -> None:
    """Check that each result is what the plan alone makes of it, whatever was lost on the way (S18)."""
    for task in model.tasks.values():
        if task.status is not TaskStatus.COMPLETED or task.deduplicated_from:
            continue
        outcome = model.outcomes.get(task.result_id)
        if outcome is None or model.executions[task.result_id].kind is not StepKind.TASK:
            continue
        tasks = model.plans[task.revision].tasks
        own = next(one for one in tasks if one.task_id == task.task_id)
        built_on = [model.tasks[name] for name in own.depends_on]
        if any(one.revision > task.revision for one in built_on):
            # A later plan redefined it after this one was done.
            continue
        made = digest_of(
            own.task_id + own.prompt, [(t.task_id, _result(model, t)) for t in built_on]
        )
        holds(outcome.result == made, "S18", model.key, task.task_id, "came to something else")


def _result(model: RunModel, task: Task) -> Payload | None:
    outcome = model.outcomes.get(task.result_id) if task.result_id else None
    return outcome.result if outcome is not None and task.status is TaskStatus.COMPLETED else None
