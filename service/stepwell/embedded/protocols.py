"""The three stores of a run, as an orchestrator calls them; and two of ours that are all three.

An orchestrator with a `run_store`, a `task_store` and a `context_store` calls them in this order:

    create_run(run_id, goal, max_iterations)            once, before the first step
    update_loop_state(run_id, "EXECUTING", 0, None)     a plan was accepted
    update_loop_state(run_id, "EXECUTING", 0, task_id)  before each task
    save_result(run_id, task_id, result)                after it, before its row becomes "completed"
    update_loop_state(run_id, "REFLECTING", 0, None)    before each reflection
    save_result(run_id, "__result__", answer)           the run has SUCCEEDED
    update_loop_state(run_id, "DONE", 0, None)          and nothing follows

Iterations count from 0. Arguments are passed by position, so their names are the store's own.

`MemoryStore` and `SQLiteStore` are views of a driver's store: the loop commits every transition to it, and all that
the three protocols read comes from there. In stores of a user's own, the rows are what was written by these calls,
and nothing else is kept: how durable a run is, is theirs to say.
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
    """The task under way, the first of them; None: there is none."""
    status: str
    """The run's status in lower case: `running`, `waiting`, `succeeded` …"""


TaskRow = dict[str, Any]
"""A task: `id`, `status` and `iteration`, then the fields of its definition that were set, such as `type`, `title`,
`prompt`, `role`, `depends_on`, `input` (a value) and `retry`. JSON can hold all of it, where it can hold the input.

The status is `pending`, `running`, `blocked`, `completed`, `failed`, `skipped` or `cancelled`. The iteration is the
one that planned it, from 0.
"""


class RunStore(Protocol):
    """Keeps a record per run. Each method may be async; one that isn't is called on the caller's thread."""

    def create_run(self, run_id: str, goal: str, max_iterations: int, /) -> Any:
        """Keep a new run, in phase PLANNING and iteration 0."""
        ...

    def get_run(self, run_id: str, /) -> Any:
        """Return the run; None: there is none. A store may call the method `get` instead.

        What is read from it, as keys or as attributes: goal, max_iterations, phase, iteration.
        """
        ...

    def update_loop_state(
        self, run_id: str, phase: str, iteration: int, current_task_id: str | None, /
    ) -> Any:
        """Keep where the run is."""
        ...


class TaskStore(Protocol):
    """Keeps the tasks of each run, as rows with a status. Methods as in `RunStore`."""

    def save_tasks(self, run_id: str, tasks: Sequence[TaskRow], /) -> Any:
        """Keep these rows as the run's tasks, in this order, in place of those before: a plan was accepted.

        In one piece: after a crash either all of them are there or those before.
        """
        ...

    def update_task(self, run_id: str, task_id: str, status: str, /) -> Any:
        """Keep a task's new status."""
        ...

    def get_tasks(self, run_id: str, status: str | None = None, /) -> Any:
        """Return the rows, or those with this status, in their order."""
        ...


class ContextStore(Protocol):
    """Keeps the results of each run by task. Methods as in `RunStore`."""

    def save_result(self, run_id: str, task_id: str, result: Any, /) -> Any:
        """Keep what a task returned; a later one of the same task replaces it."""
        ...

    def get_all_results(self, run_id: str, /) -> Any:
        """Return a mapping of task ids to results."""
        ...
