"""The changes that an event of a draft collects, typed by row.

The fields are keyword arguments of `Draft.change_run` and so on. They are dictionaries instead of
records, because a draft makes several for each event and merges those of one row, which
dictionaries do cheaply. Names and types are those of the deltas in `records/events.py`.
"""

from __future__ import annotations

from typing import TypedDict

from msgspec import UNSET

from stepwell.core.records.events import Event, ExecutionChange, RunChange, TaskChange
from stepwell.core.records.family import Letters, Thread
from stepwell.core.records.model import (
    AttemptCounts,
    Budget,
    Counts,
    Failure,
    Losses,
    Previous,
    Question,
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


class RunFields(TypedDict, total=False):
    """Changed fields of a run."""

    status: RunStatus
    phase: Phase
    iteration: int
    plan_revision: int
    stages: tuple[StepKind, ...]
    stages_fixed: bool
    allowance: int
    step_attempt: int
    step_spent: int
    step_losses: Losses
    counts: Counts
    attempts: AttemptCounts
    usage: Usage
    budget: Budget
    tally: Tally
    stopping: bool
    previous: Previous
    step_journal: Journal
    step_waits: tuple[Wait, ...]
    signals: Signals
    letters: Letters
    children: int
    waits_for_thread: bool
    thread: Thread
    actor: str
    on_behalf_of: str
    blocked_on: BlockedKind
    blocked_since_us: int
    blocked_run_id: str
    pause_reason: PauseReason
    finish_reason: FinishReason
    reason: str
    failure: Failure
    result_id: str
    created_us: int
    started_us: int
    ended_us: int


class TaskFields(TypedDict, total=False):
    """Changed fields of a task."""

    revision: int
    status: TaskStatus
    attempts: int
    spent: int
    allowance: int
    losses: Losses
    result_id: str
    result_run_id: str
    deduplicated_from: str
    held_key: str
    key_run_id: str
    failure: Failure
    question_id: str
    messages: int
    previous: Previous
    journal: Journal
    waits: tuple[Wait, ...]
    reconciles: int
    reconciles_spent: int
    reconcile_losses: Losses
    started_us: int
    ended_us: int


class ReportFields(TypedDict, total=False):
    """Changed fields of an execution that come from its worker's report."""

    failure: Failure
    usage: Usage
    session: Session
    has_result: bool
    messages_after: int
    messages: int
    journal_entries: int


class ExecutionFields(ReportFields, total=False):
    """Changed fields of an execution."""

    task_id: str
    iteration: int
    attempt: int
    queue: str
    type: str
    role: str
    pin: str
    priority: int
    status: ExecutionStatus
    delay_ms: int
    worker_id: str
    begun: bool
    unknown_us: int
    unknown_call: str
    forget_number: int
    open_number: int
    offered_us: int
    leased_us: int
    ended_us: int


class ExecutionDelta(ExecutionFields, total=False):
    """An event's changes in an execution; the event that creates the execution has its kind."""

    kind: StepKind


class EventFields(TypedDict, total=False):
    """Fields of an event besides its number, its moment and its delta."""

    task_id: str
    execution_id: str
    question_id: str
    message: str
    actor: str
    on_behalf_of: str
    plan_revision: int


class EventDraft:
    """An event whose delta is still growing."""

    __slots__ = ("executions", "fields", "kind", "questions", "run", "tasks")

    def __init__(self, kind: EventType, fields: EventFields) -> None:
        self.kind = kind
        self.fields = fields
        self.run: RunFields = {}
        self.tasks: dict[str, TaskFields] = {}
        self.executions: dict[str, ExecutionDelta] = {}
        self.questions: dict[str, Question] = {}

    @property
    def is_empty(self) -> bool:
        """True if the delta is empty."""
        return not (self.run or self.tasks or self.executions or self.questions)

    def finish(self, number: int, version: int, time_us: int) -> Event:
        """Return the event."""
        return Event(
            number=number,
            version=version,
            type=self.kind,
            time_us=time_us,
            run=RunChange(**self.run) if self.run else UNSET,
            tasks=tuple([TaskChange(task_id=k, **v) for k, v in self.tasks.items()]),
            executions=tuple(
                [ExecutionChange(execution_id=k, **v) for k, v in self.executions.items()]
            ),
            questions=tuple(self.questions.values()),
            **self.fields,
        )
