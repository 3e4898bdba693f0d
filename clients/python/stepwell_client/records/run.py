"""Records of runs, with their tasks, executions, plans, checkpoints and results."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, overload

from stepwell_client.enums import (
    ENDED,
    BlockedKind,
    EventType,
    ExecutionStatus,
    FinishReason,
    ForkViolationKind,
    PauseReason,
    Phase,
    PlanTrigger,
    RunStatus,
    StepKind,
    TaskStatus,
)
from stepwell_client.records.parts import (
    AttemptCounts,
    Counts,
    FailureRecord,
    Record,
    Session,
    Usage,
    Wait,
    WaitingStep,
)
from stepwell_client.records.payloads import Payload, decode
from stepwell_client.records.plans import Budget, Retry, Task
from stepwell_client.records.results import Results

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Run(Record):
    """A run, as of one of its commits."""

    id: str = ""
    """A UUID, or the name given to an embedded run."""
    status: RunStatus = RunStatus.UNSPECIFIED
    """The run's status."""
    goal: str = ""
    """The goal that it was started with."""
    tenant_id: str = field(default="", repr=False)
    """The tenant that it belongs to."""
    pipeline: str = ""
    """The kind of run that it is an instance of."""
    queue: str = field(default="", repr=False)
    """The queue where its steps wait for workers."""
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    """The labels that it was started with."""
    executor_id: str = field(default="", repr=False)
    """The name of whoever started it."""
    phase: Phase = Phase.UNSPECIFIED
    """The phase of the loop."""
    iteration: int = 0
    """The iteration, from 1."""
    plan_revision: int = 0
    """The revision of the plan in force; 0: there is none yet."""
    counts: Counts = field(default_factory=Counts)
    """Its tasks, counted by status."""
    blocked_on: BlockedKind = BlockedKind.UNSPECIFIED
    """The reason why it waits."""
    blocked_since_time: datetime.datetime | None = field(default=None, repr=False)
    """The time since when it waits."""
    blocked_run_id: str = ""
    """With `blocked_on` KEY: the run that holds the key."""
    waiting_for: WaitingStep | None = None
    """With `blocked_on` WORKER or CAPACITY: a step that no worker takes. Absent in lists."""
    pause_reason: PauseReason = PauseReason.UNSPECIFIED
    """The reason for its pause."""
    finish_reason: FinishReason = FinishReason.UNSPECIFIED
    """The reason why the last iteration was the last."""
    reason: str = ""
    """The text that came with the last reflection, pause, resume or cancel."""
    failure: FailureRecord | None = None
    """The failure of a FAILED run."""
    usage: Usage = field(default_factory=Usage)
    """The tokens and the cost that it has used."""
    budget: Budget = field(default_factory=Budget)
    """The limits in force."""
    attempts: AttemptCounts = field(default_factory=AttemptCounts, repr=False)
    """Its ended attempts, counted by status."""
    version: int = 0
    """The number of its last commit."""
    last_event: int = field(default=0, repr=False)
    """The number of its last event."""
    stages: tuple[StepKind, ...] = field(default=(), repr=False)
    """The stages, of REFLECT and SYNTHESIZE, that it has."""
    step_attempt: int = field(default=0, repr=False)
    """The highest attempt number of the current PLAN, REFLECT or SYNTHESIZE step."""
    step_waits: tuple[Wait, ...] = ()
    """The waits of this step while it is suspended."""
    tasks_used: int = field(default=0, repr=False)
    """The tasks that were offered at least once, over all plans: those that the budget's `tasks` counts."""
    iterations_before: int = field(default=0, repr=False)
    """A fork's parent's iterations, which the budget's `iterations` doesn't count."""
    stopping: bool = False
    """True: it ends after the iteration in progress."""
    result_id: str = field(default="", repr=False)
    """The SYNTHESIZE execution whose result is the run's. Empty: its tasks' results are the answer."""
    created_time: datetime.datetime | None = None
    """The time of its start."""
    started_time: datetime.datetime | None = field(default=None, repr=False)
    """The time when its first step was leased."""
    ended_time: datetime.datetime | None = None
    """The time of its end."""
    max_iterations: int = field(default=0, repr=False)
    """The most iterations, after which it ends whatever the reflection decides."""
    max_parallel: int = field(default=0, repr=False)
    """The most tasks that are offered or leased at once."""
    priority: int = 0
    """Within a queue, steps of a run with a higher priority go first."""
    no_progress_limit: int = field(default=0, repr=False)
    """It pauses after this many iterations with the same plan and results; 0: never."""
    worker_version: str = ""
    """The version that its workers must have: `1.4`, `>=1.4` or `any`. Empty: any."""
    step_retry: Retry | None = field(default=None, repr=False)
    """The retry policy of PLAN, REFLECT and SYNTHESIZE."""
    step_timeout: datetime.timedelta | None = field(default=None, repr=False)
    """The time limit of one attempt at PLAN, REFLECT or SYNTHESIZE."""
    start_delay: datetime.timedelta | None = field(default=None, repr=False)
    """The time from its start to the offer of its first step."""
    parent_run_id: str = ""
    """The run that it was forked from."""
    parent_version: int = 0
    """The version of that run."""
    family_id: str = field(default="", repr=False)
    """The first run of its line of forks. Empty: it is no fork."""
    actor: str = field(default="", repr=False)
    """The caller of the last command that changed it, by its credential."""
    on_behalf_of: str = field(default="", repr=False)
    """The name on whose behalf that caller acted."""

    @property
    def has_ended(self) -> bool:
        """True if the run has ended."""
        return self.status in ENDED

    @property
    def standstill(self) -> str:
        """The thing that it waits for and that needs somebody to act, with what to do; empty: none."""
        if self.status == RunStatus.PAUSED:
            return (
                f"is paused{f': {self.reason}' if self.reason else ''}; resume it, or stop waiting"
            )
        if self.blocked_on == BlockedKind.QUESTION:
            return "waits for an answer; `questions` has the question, `answer` answers it"
        if self.blocked_on == BlockedKind.UNKNOWN_OUTCOME:
            return "waits for somebody to `resolve` an execution whose outcome is unknown"
        if self.blocked_on == BlockedKind.KEY:
            key_of = self.blocked_run_id or "(not known)"
            return f"waits for an idempotency key that run {key_of!r} has"
        if self.blocked_on == BlockedKind.WORKER:
            return f"waits for a worker of queue {self.queue!r}; none is connected"
        return ""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RunTask(Record):
    """A task of a run: its definition, and its state."""

    id: str = ""
    """Unique within its plan."""
    status: TaskStatus = TaskStatus.UNSPECIFIED
    """The task's status."""
    definition: Task = field(default_factory=lambda: Task(""), repr=False)
    """The task as the plan defines it. In a list, its prompt and input may be left out: see `full_specs`."""
    revision: int = 0
    """The plan revision that defined it."""
    attempts: int = 0
    """The highest attempt number used."""
    failure: FailureRecord | None = None
    """The failure of a FAILED task."""
    result_id: str = field(default="", repr=False)
    """The execution whose result is the task's."""
    result_run_id: str = field(default="", repr=False)
    """The run of the family that this execution belongs to. Empty: this run."""
    question_id: str = ""
    """The last question that it asked."""
    progress: Payload | None = field(default=None, repr=False)
    """The last progress that its earlier attempts reported. No event carries it."""
    journal_entries: int = field(default=0, repr=False)
    """The number of entries that its journal has of attempts that have ended."""
    waits: tuple[Wait, ...] = ()
    """Its waits while it is suspended."""
    messages: int = field(default=0, repr=False)
    """The number of messages in its conversation."""
    started_time: datetime.datetime | None = field(default=None, repr=False)
    """The time when it was first leased."""
    ended_time: datetime.datetime | None = field(default=None, repr=False)
    """The time when it was settled."""
    deduplicated_from: str = ""
    """`run_id/execution_id` of the result that was reused for its idempotency key. Empty: it was done."""
    key_run_id: str = ""
    """While it waits for its idempotency key: the run that holds the key."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Execution(Record):
    """One attempt at a step."""

    id: str = ""
    """Unique within its run."""
    kind: StepKind = StepKind.UNSPECIFIED
    """The kind of step."""
    task_id: str = ""
    """The task of a TASK or RECONCILE."""
    iteration: int = 0
    """The iteration that it belongs to."""
    attempt: int = 0
    """The attempt's number, from 1 within its step; never reused."""
    status: ExecutionStatus = ExecutionStatus.UNSPECIFIED
    """The attempt's status."""
    type: str = ""
    """Its task's type."""
    role: str = ""
    """The role that its worker must have; empty: any worker of the queue."""
    queue: str = field(default="", repr=False)
    """The queue where it waits, or waited, for a worker."""
    priority: int = 0
    """Within a queue, a higher priority goes first."""
    delay: datetime.timedelta | None = None
    """The time from its commit until it may be leased: a back-off or a start delay."""
    worker_id: str = ""
    """The worker that has, or had, the lease."""
    begun: bool = field(default=False, repr=False)
    """True if its AT_MOST_ONCE worker has reported that it starts."""
    failure: FailureRecord | None = None
    """The cause of its failure."""
    usage: Usage = field(default_factory=Usage)
    """The tokens and the cost that it used."""
    session: Session | None = None
    """The agent's own conversation."""
    has_result: bool = field(default=False, repr=False)
    """True: result bytes are kept under this id."""
    unknown_call: str = ""
    """With UNKNOWN_OUTCOME: the call whose outcome is unknown. Empty: the task's own effect."""
    offered_time: datetime.datetime | None = field(default=None, repr=False)
    """The time when it was offered."""
    leased_time: datetime.datetime | None = field(default=None, repr=False)
    """The time when it was leased."""
    ended_time: datetime.datetime | None = field(default=None, repr=False)
    """The time when it ended."""
    unknown_time: datetime.datetime | None = field(default=None, repr=False)
    """The time when its outcome became unknown."""
    messages_after: int = field(default=0, repr=False)
    """The number of earlier messages in the task's conversation."""
    messages: int = field(default=0, repr=False)
    """The number of messages that it appended."""
    journal_entries: int = field(default=0, repr=False)
    """The number of journal entries that it wrote."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PlanRevision(Record):
    """A revision of a run's plan."""

    revision: int = 0
    """Counts from 1, without gaps."""
    parent_revision: int = field(default=0, repr=False)
    """The revision before it; 0: none."""
    trigger: PlanTrigger = PlanTrigger.UNSPECIFIED
    """The reason for a new revision."""
    reason: str = ""
    """The text that came with it."""
    iteration: int = 0
    """The iteration that it was made for."""
    tasks: tuple[Task, ...] = field(default=(), repr=False)
    """Its tasks, in the planner's order, if requested by `with_tasks`. They can start another run."""
    carried: tuple[str, ...] = field(default=(), repr=False)
    """Ids of its tasks that an earlier plan defined in the same way: their state was kept."""
    fingerprint: str = field(default="", repr=False)
    """SHA-256 of the canonical list of tasks: equal plans have equal fingerprints."""
    created_time: datetime.datetime | None = None
    """The time when it was accepted."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Checkpoint(Record):
    """A named point of a run's history."""

    type: EventType = EventType.UNSPECIFIED
    """The type of the event there."""
    version: int = 0
    """The run's version there."""
    event: int = field(default=0, repr=False)
    """The number of that event."""
    time: datetime.datetime | None = None
    """The time of the event."""
    message: str = ""
    """The text that came with the event."""
    run: Run = field(default_factory=Run, repr=False)
    """The run as of this version."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Result(Record):
    """The result of a task, or of an execution."""

    task_id: str = ""
    """The task; empty for PLAN, REFLECT and SYNTHESIZE."""
    execution_id: str = field(default="", repr=False)
    """The execution whose result it is; empty if there is none."""
    status: TaskStatus = TaskStatus.UNSPECIFIED
    """The task's status; UNSPECIFIED if there is no task."""
    payload: Payload | None = None
    """The bytes, or None."""
    failure: FailureRecord | None = None
    """The failure of a FAILED task."""
    run_id: str = field(default="", repr=False)
    """The run of the family that the execution belongs to. Empty: this run."""

    @property
    def value(self) -> Any:
        """The decoded value, or None."""
        return None if self.payload is None else self.payload.value


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ForkViolation(Record):
    """A way in which a fork doesn't fit its run."""

    kind: ForkViolationKind = ForkViolationKind.UNSPECIFIED
    """The kind of mistake."""
    task_id: str = ""
    """The task; empty if no task is at fault."""
    field: str = ""
    """The path from the request's root: `plan.tasks[3].role`."""
    description: str = ""
    """The mistake and its remedy."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ForkCheck(Record):
    """The effect that a fork would have."""

    run: Run | None = None
    """The fork as it would be. None if there are violations."""
    violations: tuple[ForkViolation, ...] = ()
    """The mistakes, at most 100."""
    kept: int = 0
    """The number of tasks whose results are kept."""
    rerun: int = 0
    """The number of tasks that were completed in the parent and run again in the fork."""
    pending: int = 0
    """The number of tasks that were not completed in the parent and run in the fork."""
    kept_task_ids: tuple[str, ...] = field(default=(), repr=False)
    """The tasks whose results are kept: the first 15,000, as in the lists below."""
    rerun_task_ids: tuple[str, ...] = field(default=(), repr=False)
    """The tasks that run again."""
    pending_task_ids: tuple[str, ...] = field(default=(), repr=False)
    """The tasks that are still to do."""
    warnings: tuple[str, ...] = ()
    """Effects of the fork that its caller may not expect."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RunUpdate(Record):
    """A change of a run, as `client.watch` yields it."""

    run_id: str = ""
    """The run."""
    run: Run | None = None
    """The run at this version or a newer one. None: it was deleted."""
    version: int = 0
    """The newest version that this update covers; for a deleted run, its last version."""
    deleted: bool = False
    """The run was deleted."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Purged(Record):
    """The runs that a purge removed."""

    run_ids: tuple[str, ...] = ()
    """The runs."""
    complete: bool = False
    """False: there may be more such runs."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Transcript(Record):
    """An execution's prompt and its model's response; empty if it recorded none."""

    prompt: str = ""
    """The prompt."""
    response: str = ""
    """The model's response."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RunResults(Record):
    """Results of a run and of its tasks."""

    run_result: Result | None = None
    """The run's own result; None: it has not SUCCEEDED, or its tasks' results are the answer."""
    results: tuple[Result, ...] = ()
    """Results of its tasks, or of the requested executions."""

    @property
    def tasks(self) -> Results:
        """The results of completed tasks, decoded, by id."""
        done = [one for one in self.results if one.status == TaskStatus.COMPLETED]
        return Results({one.task_id: one.payload and one.payload.message() for one in done})

    @overload
    def answer(self, kind: type[T]) -> T: ...
    @overload
    def answer(self, kind: Any = Any) -> Any: ...
    def answer(self, kind: Any = Any) -> Any:
        """Return the run's own result decoded as the type, or else a dict of its tasks' results."""
        if self.run_result is None:
            return dict(self.tasks)
        payload = self.run_result.payload
        return decode(None if payload is None else payload.message(), kind)
