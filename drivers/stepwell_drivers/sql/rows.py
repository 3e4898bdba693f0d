"""The rows of a group of commits: a list of tuples for each kind of write, with fixed columns.

`batch.py` collects `Rows`, and a database's writer writes them. The constants are the columns of
the tuples, in order. `schema.py` explains each column.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from stepwell_drivers.sql.columns import Values

RUN_MOVING = (
    *("version", "commit_id", "last_event", "status", "phase", "blocked_on", "ended_us"),
    "state",
)
"""The columns of a run that each commit writes."""
RUN_NEW = (
    *("run_key", "tenant_id", "run_id", "pipeline_id", "queue", "executor_id"),
    *("parent_run_id", "uuid"),
    *RUN_MOVING,
)
"""The columns of a new run."""
RUN_MOVED = ("run_key", *RUN_MOVING)
RUN_SPEC = ("run_key", "priority", "spec", "input_params", "input_media_type", "input")
PLAN = ("run_key", "revision", "version", "task_count", "created_us", "trigger", "plan")
TASK_SPEC = ("run_key", "task_id", "revision", "position", "version", "number", "spec")
TASK = ("run_key", "task_id", "revision", "status", "version", "state")
LEASE = ("token", "worker_id", "instance_id", "deadline_us", "limit_us")
EXECUTION = (
    *("run_key", "execution_id", "task_id", "status", "version", "body", "tenant_id"),
    *("queue", "kind", "role", "type", "pin", "priority", "available_us"),
    *LEASE,
)
OUTCOME = (
    *("run_key", "execution_id", "result_media_type", "result"),
    *("prompt", "response", "receipt"),
)
TIMER = ("run_key", "name", "version", "due_us")
COMMIT = (
    *("run_key", "tenant_id", "version", "commit_id", "committed_us", "last_event"),
    *("events", "changed"),
)
QUESTION = ("run_key", "question_id", "status", "tenant_id", "body")
CHECKPOINT = ("run_key", "version", "cycle", "created_us", "state", "base")
REQUEST = ("run_key", "committed_version", "body")
SESSION = ("run_key", "backend", "session_id", "task_id", "execution_id")
MESSAGE = ("run_key", "task_id", "role", "body")
JOURNAL_WRITE = (
    *("run_key", "is_forgotten", "journal", "step", "generation", "name", "key", "mark", "number"),
    *("at_most_once", "version", "sleep_us", "words", "body", "value_media_type", "value"),
)


@dataclass(slots=True)
class Rows:
    """The writes of a group. No two rows of a list have the same key, and no two lists the same
    row.

    `runs` must be written first, then the other lists in any order.
    """

    runs: list[Values] = field(default_factory=list[Values])
    """INSERT of RUN_NEW; a row that conflicts with another, by its name or its UUID, is left out."""
    run_specs: list[Values] = field(default_factory=list[Values])
    """INSERT of RUN_SPEC, of a run that is there UPDATE of its `spec`."""
    moved_runs: list[Values] = field(default_factory=list[Values])
    """UPDATE of RUN_MOVED by `run_key`."""
    plans: list[Values] = field(default_factory=list[Values])
    """INSERT of PLAN, or UPDATE of the one with that `run_key` and `revision`."""
    task_specs: list[Values] = field(default_factory=list[Values])
    """INSERT of TASK_SPEC, or UPDATE of the one with that `run_key` and `task_id`, except `number`."""
    tasks: list[Values] = field(default_factory=list[Values])
    """INSERT of TASK, or UPDATE of the one with that `run_key` and `task_id`.

    Only where `task_specs` has that task with that revision (after the list before); of the others the definition
    is to be written first (`batch.unplanned`).
    """
    dropped_tasks: list[Values] = field(default_factory=list[Values])
    """DELETE from `task_rows` by `run_key` and `task_id`: tasks that a new plan redefines, if they exist."""
    executions: list[Values] = field(default_factory=list[Values])
    """INSERT of EXECUTION, or UPDATE of the one with that `run_key` and `execution_id`.

    All other columns become NULL, and `held_until_us` 0. But a row that is LEASED or
    UNKNOWN_OUTCOME without a token (no new lease) keeps the columns of LEASE and of heartbeats.
    """
    outcomes: list[Values] = field(default_factory=list[Values])
    """INSERT of OUTCOME, unless the execution has one already."""
    timers: list[Values] = field(default_factory=list[Values])
    """INSERT of TIMER, or UPDATE of the one with that `run_key` and `name`; `held_until_us` becomes 0."""
    dropped_timers: list[Values] = field(default_factory=list[Values])
    """DELETE from `timers` by `run_key` and `name`."""
    questions: list[Values] = field(default_factory=list[Values])
    """INSERT of QUESTION, or UPDATE of the one with that `run_key` and `question_id`."""
    messages: list[Values] = field(default_factory=list[Values])
    """INSERT of MESSAGE."""
    requests: list[Values] = field(default_factory=list[Values])
    """INSERT of REQUEST."""
    sessions: list[Values] = field(default_factory=list[Values])
    """INSERT of SESSION, or UPDATE of the one with that `run_key`, `backend` and `session_id`."""
    checkpoints: list[Values] = field(default_factory=list[Values])
    """INSERT of CHECKPOINT."""
    commits: list[Values] = field(default_factory=list[Values])
    """INSERT of COMMIT."""
    journal_writes: list[Values] = field(default_factory=list[Values])
    """DELETE of forgotten journal entries; INSERT of the others unless their names are taken, in order."""
