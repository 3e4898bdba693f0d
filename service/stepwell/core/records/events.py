"""Events of a run, each with a complete delta of the rows that it changed.

A change has the changed fields of its row; unset fields are unchanged. Folding the events of a run
over its spec and plans gives its rows (`fold.py`).
"""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from stepwell.core.records.family import Letters, Thread
from stepwell.core.records.model import (
    AttemptCounts,
    Budget,
    Counts,
    Failure,
    Losses,
    Previous,
    Question,
    Record,
    Session,
    Signals,
    Tally,
    Usage,
)
from stepwell.core.records.states import (
    BlockedKind,
    EventType,
    ExecutionStatus,
    FinishReason,
    PauseReason,
    Phase,
    RunStatus,
    StepKind,
    TaskStatus,
)
from stepwell.core.records.step_journal import Journal, Wait

SHORT = {
    "type": "y",
    "time_us": "at",
    "task_id": "t",
    "execution_id": "x",
    "tasks": "T",
    "executions": "X",
    "status": "s",
    "kind": "k",
    "iteration": "i",
    "attempt": "a",
    "attempts": "A",
    "allowance": "g",
    "queue": "q",
    "worker_id": "w",
    "result_id": "r",
    "has_result": "h",
    "offered_us": "o",
    "leased_us": "l",
    "started_us": "b",
    "ended_us": "e",
}
"""The names of frequent fields in stored events, in `Event`, `TaskChange` and `ExecutionChange`. A
step's events have some forty names, which in full would be a quarter of their stored size.
"""


class RunChange(Record, frozen=True, kw_only=True):
    """The fields of a run that an event changed; unset fields are unchanged."""

    status: RunStatus | UnsetType = UNSET
    phase: Phase | UnsetType = UNSET
    iteration: int | UnsetType = UNSET
    plan_revision: int | UnsetType = UNSET
    stages: tuple[StepKind, ...] | UnsetType = UNSET
    stages_fixed: bool | UnsetType = UNSET
    allowance: int | UnsetType = UNSET
    step_attempt: int | UnsetType = UNSET
    step_spent: int | UnsetType = UNSET
    step_losses: Losses | UnsetType = UNSET
    counts: Counts | UnsetType = UNSET
    attempts: AttemptCounts | UnsetType = UNSET
    usage: Usage | UnsetType = UNSET
    budget: Budget | UnsetType = UNSET
    tally: Tally | UnsetType = UNSET
    stopping: bool | UnsetType = UNSET
    previous: Previous | UnsetType = UNSET
    step_journal: Journal | UnsetType = UNSET
    step_waits: tuple[Wait, ...] | UnsetType = UNSET
    signals: Signals | UnsetType = UNSET
    letters: Letters | UnsetType = UNSET
    children: int | UnsetType = UNSET
    waits_for_thread: bool | UnsetType = UNSET
    thread: Thread | UnsetType = UNSET
    actor: str | UnsetType = UNSET
    on_behalf_of: str | UnsetType = UNSET
    blocked_on: BlockedKind | UnsetType = UNSET
    blocked_since_us: int | UnsetType = UNSET
    blocked_run_id: str | UnsetType = UNSET
    pause_reason: PauseReason | UnsetType = UNSET
    finish_reason: FinishReason | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    failure: Failure | UnsetType = UNSET
    result_id: str | UnsetType = UNSET
    created_us: int | UnsetType = UNSET
    started_us: int | UnsetType = UNSET
    ended_us: int | UnsetType = UNSET


class TaskChange(Record, frozen=True, kw_only=True, rename=SHORT):
    """The fields of a task that an event changed. A task that the plan just brought starts PENDING."""

    task_id: str
    revision: int | UnsetType = UNSET
    status: TaskStatus | UnsetType = UNSET
    attempts: int | UnsetType = UNSET
    spent: int | UnsetType = UNSET
    allowance: int | UnsetType = UNSET
    losses: Losses | UnsetType = UNSET
    result_id: str | UnsetType = UNSET
    result_run_id: str | UnsetType = UNSET
    deduplicated_from: str | UnsetType = UNSET
    held_key: str | UnsetType = UNSET
    key_run_id: str | UnsetType = UNSET
    failure: Failure | UnsetType = UNSET
    question_id: str | UnsetType = UNSET
    messages: int | UnsetType = UNSET
    previous: Previous | UnsetType = UNSET
    journal: Journal | UnsetType = UNSET
    waits: tuple[Wait, ...] | UnsetType = UNSET
    reconciles: int | UnsetType = UNSET
    reconciles_spent: int | UnsetType = UNSET
    reconcile_losses: Losses | UnsetType = UNSET
    started_us: int | UnsetType = UNSET
    ended_us: int | UnsetType = UNSET


class ExecutionChange(Record, frozen=True, kw_only=True, rename=SHORT):
    """The fields of an execution that an event changed; `kind` is set in its first event."""

    execution_id: str
    kind: StepKind | UnsetType = UNSET
    task_id: str | UnsetType = UNSET
    iteration: int | UnsetType = UNSET
    attempt: int | UnsetType = UNSET
    queue: str | UnsetType = UNSET
    type: str | UnsetType = UNSET
    role: str | UnsetType = UNSET
    pin: str | UnsetType = UNSET
    priority: int | UnsetType = UNSET
    status: ExecutionStatus | UnsetType = UNSET
    delay_ms: int | UnsetType = UNSET
    worker_id: str | UnsetType = UNSET
    begun: bool | UnsetType = UNSET
    failure: Failure | UnsetType = UNSET
    usage: Usage | UnsetType = UNSET
    session: Session | UnsetType = UNSET
    has_result: bool | UnsetType = UNSET
    messages_after: int | UnsetType = UNSET
    messages: int | UnsetType = UNSET
    unknown_us: int | UnsetType = UNSET
    unknown_call: str | UnsetType = UNSET
    journal_entries: int | UnsetType = UNSET
    forget_number: int | UnsetType = UNSET
    open_number: int | UnsetType = UNSET
    offered_us: int | UnsetType = UNSET
    leased_us: int | UnsetType = UNSET
    ended_us: int | UnsetType = UNSET


class Event(Record, frozen=True, kw_only=True, rename=SHORT):
    """An event of a run: its type, and a complete delta of the rows that it changed.

    Folding the events 1..n of a run over its spec and plans gives its rows at that point.
    """

    number: int
    """1, 2, 3 … without gaps, per run."""
    version: int
    """The version that the event's commit made."""
    type: EventType
    time_us: int = 0
    """The moment, for people; events are ordered by number."""
    task_id: str = ""
    execution_id: str = ""
    question_id: str = ""
    message: str = ""
    """A reason for people, if there is one."""
    actor: str = ""
    """The caller of the command that made it, by its credential; empty: no command did."""
    on_behalf_of: str = ""
    """The name on whose behalf that caller acted; empty if none was given."""
    run: RunChange | UnsetType = UNSET
    tasks: tuple[TaskChange, ...] = ()
    executions: tuple[ExecutionChange, ...] = ()
    questions: tuple[Question, ...] = ()
    """Changed questions, with all their fields."""
    plan_revision: int = 0
    """PLAN_ACCEPTED: the revision of the plan whose tasks are added to the run's."""
