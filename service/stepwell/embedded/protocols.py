"""The three stores of a run, as an orchestrator calls them.

An orchestrator with a `run_store`, a `task_store` and a `context_store` calls them in this order:

    create_run(run_id, goal, max_iterations)            once, before the first step
    update_loop_state(run_id, "EXECUTING", 0, None)     a plan was accepted
    update_loop_state(run_id, "EXECUTING", 0, task_id)  before each task
    save_result(run_id, task_id, result)                after it, before its row becomes "completed"
    update_loop_state(run_id, "REFLECTING", 0, None)    before each reflection
    save_result(run_id, "__result__", answer)           the run has SUCCEEDED
    update_loop_state(run_id, "DONE", 0, None)          and nothing follows

Iterations count from 0.

Arguments are passed by position, so stores may name them freely. `MemoryStore` and `SQLiteStore`
implement all three as views of a driver's store: the loop commits every transition to it, and the
protocols' reads come from there. A user's own stores have only what these calls wrote, and decide
how durable a run is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypedDict

RESULT = "__result__"
"""The name under which a run's answer is saved among its results."""


class RunRow(TypedDict):
    """A run as `get_run` of our stores returns it."""

    run_id: str
    goal: str
    max_iterations: int
    phase: str
    """PLANNING, EXECUTING, REFLECTING, SYNTHESIZING or DONE."""
    iteration: int
    """From 0."""
    current_task_id: str | None
    """The first running task, or None."""
    status: str
    """The run's status in lower case: `running`, `waiting`, `succeeded` …"""


TaskRow = dict[str, Any]
"""A task: `id`, `status` and `iteration`, then the fields of its definition that were set, such as
`type`, `title`, `prompt`, `role`, `depends_on`, `input` (a value) and `retry`. It has a JSON form
if the input has one.

The status is `pending`, `running`, `blocked`, `completed`, `failed`, `skipped` or `cancelled`. The
iteration, from 0, is the one that planned the task.
"""


class RunStore(Protocol):
    """Keeps a record for each run. Each method may be async; others are called on the caller's thread."""

    def create_run(self, run_id: str, goal: str, max_iterations: int, /) -> Any:
        """Store a new run, in phase PLANNING and iteration 0."""
        ...

    def get_run(self, run_id: str, /) -> Any:
        """Return the run, or None. A store may name the method `get` instead.

        These keys or attributes are read: goal, max_iterations, phase, iteration.
        """
        ...

    def update_loop_state(
        self, run_id: str, phase: str, iteration: int, current_task_id: str | None, /
    ) -> Any:
        """Store the run's current phase, iteration and task."""
        ...


class TaskStore(Protocol):
    """Keeps the tasks of each run, as rows with a status. Methods may be async, as in `RunStore`."""

    def save_tasks(self, run_id: str, tasks: Sequence[TaskRow], /) -> Any:
        """Replace the run's tasks by these rows, in this order, because a plan was accepted.

        Do so atomically: after a crash there are either the new rows or the old ones.
        """
        ...

    def update_task(self, run_id: str, task_id: str, status: str, /) -> Any:
        """Store a task's new status."""
        ...

    def get_tasks(self, run_id: str, status: str | None = None, /) -> Any:
        """Return the rows, or those with this status, in their order."""
        ...


class ContextStore(Protocol):
    """Keeps the results of each run by task. Methods may be async, as in `RunStore`."""

    def save_result(self, run_id: str, task_id: str, result: Any, /) -> Any:
        """Store a task's result; a later result of the same task replaces it."""
        ...

    def get_all_results(self, run_id: str, /) -> Any:
        """Return a mapping of task ids to results."""
        ...
