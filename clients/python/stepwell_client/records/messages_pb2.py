"""The records of the `stepwell.v1` protocol's messages, generated from proto/: never edited.

Absent values are None or empty. Enums are enums, points in time are datetimes in UTC, spans are timedeltas. A record's own
id is `id`; references to others are `task_id` and so on.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from google.protobuf.message import Message as ProtoMessage

from stepwell_client.enums import (
    BlockedKind,
    Durability,
    Effect,
    EventType,
    ExecutionStatus,
    ExpiryAction,
    FinishReason,
    ForkViolationKind,
    JournalMark,
    LogKind,
    PauseReason,
    Phase,
    PlanTrigger,
    QuestionKind,
    QuestionStatus,
    RunStatus,
    StepKind,
    TaskStatus,
    WaitKind,
)
from stepwell_client.errors import Violation
from stepwell_client.records.payloads import Payload
from stepwell_client.records.plans import Budget, ChildRun, Retry, Task
from stepwell_client.records.record import Record, ResultValue, RunProperties
from stepwell_client.v1 import orchestrator_pb2, types_pb2


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class FailureRecord(Record):
    """The failure of a run, a task, an attempt or a call. It is data, not an error of the service."""

    kind: str = ""
    """A stable word, such as an exception's class name, which retry policies match. Empty: there is no failure."""
    message: str = ""
    """The mistake in words."""
    details: str = field(default="", repr=False)
    """The traceback, or other details from the worker."""
    retryable: bool | None = None
    """False: there is no further attempt. None: there may be one."""
    violations: tuple[Violation, ...] = ()
    """The mistakes by field, if fields are at fault."""
    retry_after: datetime.timedelta | None = None
    """The shortest time until the next attempt, as an API's Retry-After asks; a longer back-off of the retry policy stays."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Usage(Record):
    """Used tokens and cost. Each attempt is counted once."""

    input_tokens: int = 0
    """Tokens that a model read."""
    output_tokens: int = 0
    """Tokens that a model wrote."""
    cost_micros: int = 0
    """Millionths of the currency unit that you bill in."""
    model: str = ""
    """The models that an attempt used. Empty for a run."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Counts(Record):
    """The tasks of a run's current plan, with those carried over to it, counted by their status."""

    total: int = 0
    """All tasks."""
    completed: int = 0
    """Tasks that are COMPLETED."""
    failed: int = 0
    """Tasks that are FAILED."""
    skipped: int = 0
    """Tasks that are SKIPPED."""
    cancelled: int = 0
    """Tasks that are CANCELLED."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class AttemptCounts(Record):
    """The ended attempts of a run, over all its steps, counted by their status."""

    completed: int = 0
    """Attempts that are COMPLETED."""
    failed: int = 0
    """Attempts that are FAILED."""
    timed_out: int = 0
    """Attempts that are TIMED_OUT."""
    lost: int = 0
    """Attempts that are LOST."""
    released: int = 0
    """Attempts that are RELEASED."""
    cancelled: int = 0
    """Attempts that are CANCELLED."""
    needs_answer: int = 0
    """Attempts that are NEEDS_ANSWER."""
    suspended: int = 0
    """Attempts that are SUSPENDED."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Session(Record):
    """The agent's own conversation with a backend."""

    backend: str = ""
    """The backend's name."""
    session_id: str = ""
    """The conversation's id there."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ChildOf(Record):
    """The place of a child run in its tree of runs."""

    run_id: str = ""
    """The run whose step started it."""
    task_id: str = ""
    """The task of that step. Empty: another kind of step."""
    question_id: str = ""
    """The question of that run that waits for the child's end."""
    root_run_id: str = ""
    """The run at the root of the tree, which no run started."""
    depth: int = 0
    """The number of runs above it, from 1."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Wait(Record):
    """A wait of a suspended step."""

    call: str = ""
    """The call that waits, by its key within the step's journal."""
    kind: WaitKind = WaitKind.UNSPECIFIED
    """The kind of thing."""
    question_id: str = ""
    """The question of a QUESTION, SIGNAL or CHILD."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class WaitingStep(Record):
    """A step that no connected worker does."""

    queue: str = ""
    """The queue that its worker must serve."""
    kind: StepKind = StepKind.UNSPECIFIED
    """The kind that its worker must do."""
    type: str = ""
    """The type of its task."""
    role: str = ""
    """The role of its task."""
    worker_version: str = ""
    """The version that its worker must have. Empty: any."""
    alone: bool = False
    """True if its worker must hold no other step, because this step may be what kills its workers."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TaskPattern(Record):
    """Steps that a worker does, by kind, type and role. PLAN, REFLECT and SYNTHESIZE have neither type nor role."""

    kind: StepKind = StepKind.TASK
    """TASK or RECONCILE. Unspecified: TASK."""
    type: str = ""
    """The type of the tasks; `*`: any; empty: tasks without a type."""
    role: str = ""
    """The role of the tasks; `*`: any; empty: tasks without a role."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Question(Record):
    """A question of a run to a person."""

    id: str = ""
    """The question's id, unique within its run."""
    run_id: str = ""
    """The run that asks."""
    task_id: str = ""
    """The task that asks. Empty: another kind of step asks."""
    execution_id: str = field(default="", repr=False)
    """The attempt that asked."""
    kind: QuestionKind = QuestionKind.UNSPECIFIED
    """The kind of answer."""
    prompt: str = ""
    """The question."""
    schema: str = ""
    """A JSON schema for the answer, as text. Empty: anything."""
    choices: tuple[str, ...] = ()
    """The choices."""
    status: QuestionStatus = QuestionStatus.UNSPECIFIED
    """The question's status."""
    expires: datetime.timedelta | None = None
    """The time from the question to its expiry. None: never."""
    on_expiry: ExpiryAction = ExpiryAction.UNSPECIFIED
    """The consequence of its expiry."""
    answer: Payload | None = None
    """The answer, once there is one."""
    answered_by: str = ""
    """The name of whoever answered."""
    created_time: datetime.datetime | None = field(default=None, repr=False)
    """The time when it was asked."""
    ended_time: datetime.datetime | None = None
    """The time when it was answered, or ended otherwise."""
    call: str = ""
    """The asking call, by its key within its step's journal. Empty: the attempt ended by asking."""
    arguments: str = field(default="", repr=False)
    """With `call`: the digest of the question, which the journal entry with the answer gets."""
    leave: bool = False
    """With CHILD: the child goes on after its step's end."""
    budget: Budget = field(default_factory=Budget)
    """With CHILD: the part of the run's budget that is the child's."""
    follow_pauses: bool = False
    """With CHILD: the child is paused when the run is, and goes on with it."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Event(Record):
    """An event of a run, with all that it changed. EventType says which fields belong to which type."""

    number: int = 0
    """1, 2, 3 … without gaps, per run."""
    version: int = field(default=0, repr=False)
    """The run's version whose commit contains it."""
    type: EventType = EventType.UNSPECIFIED
    """The type of the event."""
    time: datetime.datetime | None = None
    """The time, for people; events are ordered by number."""
    task_id: str = ""
    """The task that it is about; empty if none."""
    execution_id: str = ""
    """The execution that it is about; empty if none."""
    question_id: str = ""
    """The question that it is about; empty if none."""
    message: str = ""
    """A reason in words; empty if none."""
    run: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The changed fields of the run, by their names in `Run`. None: the field was cleared."""
    tasks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]], repr=False)
    """The changed fields of tasks, by task id, then by their names in `RunTask`."""
    executions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]], repr=False)
    """The changed fields of executions, by execution id, then by their names in `Execution`."""
    questions: tuple[Question, ...] = field(default=(), repr=False)
    """The changed questions, with all their fields."""
    plan_revision: int = 0
    """With PLAN_ACCEPTED: the revision of the plan whose tasks were added to the run's."""
    actor: str = ""
    """The caller whose command caused it, by the credential. Empty: no command did."""
    on_behalf_of: str = ""
    """The name on whose behalf that caller acted."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Message(Record):
    """A message of a task's conversation."""

    role: str = ""
    """The speaker: `user`, `assistant`, `tool` or what the agent calls them."""
    content: str = ""
    """The text."""
    task_id: str = ""
    """The task that it belongs to; the server sets it."""
    execution_id: str = field(default="", repr=False)
    """The attempt that appended it; the server sets it."""
    session: Session | None = field(default=None, repr=False)
    """The agent's own conversation that it belongs to."""
    number: int = 0
    """1, 2, 3 … without gaps within its task's conversation; the server sets it."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class LogEntry(Record):
    """A line, or a piece of output, that a step wrote."""

    text: str = ""
    """The line, or the piece."""
    kind: LogKind = LogKind.UNSPECIFIED
    """The kind of entry. Unspecified: LINE."""
    level: str = ""
    """DEBUG, INFO, WARNING, ERROR or what the worker calls them."""
    execution_id: str = ""
    """The attempt that wrote it."""
    written_time: datetime.datetime | None = None
    """The time when it was written, by the age that the worker gave."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class JournalEntry(Record):
    """An entry of a step's journal: what a call within the step recorded. No two entries of a journal have the same key,
    mark and number.
    """

    key: str = ""
    """The call's key within its step."""
    mark: JournalMark = JournalMark.UNSPECIFIED
    """The part of the call that it records. Unspecified: END."""
    number: int = 0
    """The run of the call's function, from 1 over all attempts; only in a BEGIN or a TRY, else 0."""
    name: str = ""
    """The call's name, for people."""
    journal: str = field(default="", repr=False)
    """The journal's name within its run: `task:ID@REVISION`, `plan@REVISION`, `reflect@ITERATION` or
    `synthesize@ITERATION`.
    """
    generation: int = field(default=0, repr=False)
    """The generation of the journal, from 1."""
    execution_id: str = field(default="", repr=False)
    """The attempt that wrote it. Empty: it came with an answer or a finding."""
    version: int = field(default=0, repr=False)
    """The run's version when it was written."""
    written_time: datetime.datetime | None = field(default=None, repr=False)
    """The time when it was written."""
    until_time: datetime.datetime | None = None
    """The end of the sleep of a WAIT."""
    size: int = 0
    """The size of the value in bytes, also if the value was left out."""
    arguments: str = field(default="", repr=False)
    """A digest of the call's arguments, which are compared when the call is made again."""
    effect: Effect = Effect.UNSPECIFIED
    """The rule for repeating the call when its outcome is unknown. Unspecified: IDEMPOTENT."""
    value: Payload | None = None
    """The value of an END. None: there are no bytes, which differs from empty ones, or they were not asked for."""
    failure: FailureRecord | None = None
    """The exception of a TRY."""
    attempt: int = 0
    """The attempt that made a TRY."""
    usage: Usage = field(default_factory=Usage)
    """The tokens and the cost of the call, without those of inner calls."""
    messages: tuple[Message, ...] = field(default=(), repr=False)
    """The messages that it adds to the task's conversation."""
    took: datetime.timedelta | None = None
    """The time that the function took."""
    sleep: datetime.timedelta | None = None
    """The length of the sleep of a WAIT."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class KeptSignal(Record):
    """A signal that a run keeps until a call takes it."""

    number: int = 0
    """The number among the signals that the run has kept, from 1."""
    name: str = ""
    """Its name."""
    value: Payload | None = None
    """Its value. None: it has none."""
    size: int = field(default=0, repr=False)
    """The size of the value in bytes, also if the bytes were left out."""
    actor: str = ""
    """The caller that sent it, by its credential."""
    on_behalf_of: str = ""
    """The name on whose behalf that caller acted."""
    sent_time: datetime.datetime | None = None
    """The time when it came."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Thread(Record):
    """A thread: a conversation over runs, of which exactly one works at a time."""

    id: str = ""
    """The caller's own name for it."""
    working_run_id: str = ""
    """The run that works. Empty: none does."""
    waiting: int = 0
    """The number of runs that wait for their turn."""
    messages: int = 0
    """The number of its messages, which is the number of the last one."""
    messages_bytes: int = 0
    """The size of the contents of its messages."""
    state_version: int = 0
    """The version of its state. 0: it was never set."""
    state: Any = None
    """Its state, as JSON has it. None in a list, and if it was never set."""
    starts: int = 0
    """The number of starts in it, with those that became signals to the run that worked."""
    created_time: datetime.datetime | None = None
    """The time of its first run, message or state."""
    forked_from: str = ""
    """The thread that it was forked from. Empty: none."""
    forked_at: int = 0
    """The number of the last message that it has from there. While `messages` is less, the fork isn't complete."""
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    """Labels, by which it can be found."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ThreadMessage(Record):
    """A message of a thread."""

    number: int = 0
    """1, 2, 3 … without gaps within its thread."""
    role: str = ""
    """The speaker: `user`, `assistant`, `tool` or what the agent calls them."""
    content: Any = None
    """The content, as JSON has it."""
    run_id: str = ""
    """The run that appended it. Empty: it came from outside."""
    time: datetime.datetime | None = None
    """The time when it was appended."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class StoreInfo(Record):
    """A server's store."""

    driver: str = ""
    """The driver's name, as in the URL's scheme."""
    durability: Durability = Durability.UNSPECIFIED
    """The failures that an acknowledged commit survives."""
    detail: str = ""
    """The reason for that class, in words: `WAL, synchronous=FULL`. It contains no secret."""
    schema_version: str = field(default="", repr=False)
    """The version of its schema."""
    store_id: str = field(default="", repr=False)
    """A random id from the store's creation, which tells stores apart."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ServerInfo(Record):
    """A server, and how it sees the caller."""

    version: str = ""
    """The service's version, as in `stepwell --version`."""
    protocol_revision: int = 0
    """The revision of the protocol that it speaks, from 1 on."""
    features: tuple[str, ...] = ()
    """The names of features beyond that revision. A peer ignores names that it doesn't know."""
    store: StoreInfo = field(default_factory=StoreInfo)
    """Its store."""
    limits: Mapping[str, int] = field(default_factory=dict[str, int], repr=False)
    """The limits of requests, by their names in lower case."""
    subject: str = ""
    """The caller, by its credential."""
    tenant_id: str = ""
    """The tenant whose runs the caller sees."""
    scopes: tuple[str, ...] = ()
    """The scopes of the caller."""
    replica_id: str = field(default="", repr=False)
    """The replica that answered."""
    server_time: datetime.datetime | None = field(default=None, repr=False)
    """The server's time."""
    console_address: str = ""
    """The URL of its web console on its own machine, such as `http://127.0.0.1:7880`. Empty: it has none."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class HeldStep(Record):
    """A step that a worker holds."""

    run_id: str = ""
    """The run."""
    execution_id: str = ""
    """The execution."""
    progress: Payload | None = None
    """The last progress that a heartbeat brought, if the request names a run. None: there was none."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ConnectedWorker(Record):
    """A connected worker, and the steps that it holds."""

    worker_id: str = ""
    """The worker's id, which it keeps after a restart."""
    instance_id: str = field(default="", repr=False)
    """The worker's instance, which changes with each start."""
    replica_id: str = field(default="", repr=False)
    """The replica that it is connected to."""
    subject: str = ""
    """The subject of its credential."""
    queues: tuple[str, ...] = ()
    """The queues that it serves."""
    kinds: tuple[StepKind, ...] = field(default=(), repr=False)
    """The kinds of step that it does."""
    tasks: tuple[TaskPattern, ...] = field(default=(), repr=False)
    """The TASK and RECONCILE steps that it does. Empty: all."""
    version: str = ""
    """The version of its agent."""
    connected_time: datetime.datetime | None = None
    """The time when it last connected to its replica. None: unknown."""
    free_slots: int = 0
    """The number of further steps that it can take now."""
    held_count: int = 0
    """The number of steps that it holds, including those of its older instances. With `run_id`: of that run."""
    held: tuple[HeldStep, ...] = field(default=(), repr=False)
    """The first 100 steps that it holds."""
    draining: bool = False
    """True if it takes no more steps, and ends when its running steps are done."""
    lapses: int = 0
    """The number of leases in a row that it let expire. Above 0 it was silent, and has completed nothing since."""
    input_schema: str = field(default="", repr=False)
    """The JSON schema of the inputs of the runs that it plans, in a FULL view and if the worker is connected to the
    answering replica. Empty: it gives none.
    """


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Queue(Record):
    """A queue of the caller's tenant."""

    name: str = ""
    """The queue's name."""
    limit: int | None = None
    """The most steps of the tenant that may run at once. None: as many as the workers take."""
    in_use: int = 0
    """Steps that connected workers hold."""
    waiting_runs: int = 0
    """The number of runs with a ready step and no running one."""
    waiting_since_time: datetime.datetime | None = None
    """The time since when the first of these runs waits. None: no run waits."""
    workers: int = 0
    """Connected workers that serve it."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Run(RunProperties, Record):
    """A run, as of one of its commits. `spec` never changes; the other fields change with `version`."""

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
    version: int = 0
    """The number of its last commit."""
    last_event: int = field(default=0, repr=False)
    """The number of its last event."""
    phase: Phase = Phase.UNSPECIFIED
    """The phase of the loop."""
    iteration: int = 0
    """The iteration, from 1."""
    plan_revision: int = 0
    """The revision of the plan in force; 0: there is none yet."""
    stages: tuple[StepKind, ...] = field(default=(), repr=False)
    """The stages, of REFLECT and SYNTHESIZE, that it has."""
    step_attempt: int = field(default=0, repr=False)
    """The highest attempt number of the current PLAN, REFLECT or SYNTHESIZE step."""
    counts: Counts = field(default_factory=Counts)
    """Its tasks, counted by status."""
    usage: Usage = field(default_factory=Usage)
    """The tokens and the cost that it has used."""
    budget: Budget = field(default_factory=Budget)
    """The limits in force."""
    blocked_on: BlockedKind = BlockedKind.UNSPECIFIED
    """The reason why it waits."""
    blocked_since_time: datetime.datetime | None = field(default=None, repr=False)
    """The time since when it waits."""
    pause_reason: PauseReason = PauseReason.UNSPECIFIED
    """The reason for its pause."""
    finish_reason: FinishReason = FinishReason.UNSPECIFIED
    """The reason why the last iteration was the last."""
    reason: str = ""
    """The text that came with the last reflection, pause, resume or cancel."""
    failure: FailureRecord | None = None
    """The failure of a FAILED run."""
    result_id: str = field(default="", repr=False)
    """The SYNTHESIZE execution whose result is the run's. Empty: its tasks' results are the answer."""
    created_time: datetime.datetime | None = None
    """The time of its start."""
    started_time: datetime.datetime | None = field(default=None, repr=False)
    """The time when its first step was leased."""
    ended_time: datetime.datetime | None = None
    """The time of its end."""
    attempts: AttemptCounts = field(default_factory=AttemptCounts, repr=False)
    """Its ended attempts, counted by status."""
    tasks_used: int = field(default=0, repr=False)
    """The tasks that were offered at least once, over all plans: those that the budget's `tasks` counts."""
    iterations_before: int = field(default=0, repr=False)
    """The iterations that a fork's parent had begun before the fork's first one: the budget's `iterations` doesn't count
    them.
    """
    stopping: bool = False
    """True: it ends after the iteration in progress."""
    actor: str = field(default="", repr=False)
    """The caller of the last command that changed it, by its credential."""
    on_behalf_of: str = field(default="", repr=False)
    """The name on whose behalf that caller acted."""
    waiting_for: WaitingStep | None = None
    """With `blocked_on` WORKER: a step that no connected worker does; of several, the first by kind and type. With
    CAPACITY: a step that needs a worker `alone`, if there is one. None in lists and in the Store service.
    """
    blocked_run_id: str = ""
    """With `blocked_on` KEY: the run that holds the key; of several, the first. Empty: the store could not be asked."""
    step_waits: tuple[Wait, ...] = ()
    """The waits of this step while it is suspended."""
    children: int = 0
    """The child runs that its steps have started, those that were deleted since among them."""
    executor_id: str = field(default="", repr=False)
    """The name of whoever started it."""
    max_iterations: int = field(default=0, repr=False)
    """The most iterations, after which it ends whatever the reflection decides."""
    max_parallel: int = field(default=0, repr=False)
    """The most tasks that are offered or leased at once."""
    priority: int = 0
    """Within a queue, steps of a run with a higher priority go first."""
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
    no_progress_limit: int = field(default=0, repr=False)
    """It pauses after this many iterations with the same plan and results; 0: never."""
    worker_version: str = ""
    """The version that its workers must have: `1.4`, `>=1.4` or `any`. Empty: any."""
    child_of: ChildOf | None = None
    """With a child run: the run that started it. None: no run did."""
    thread_id: str = ""
    """The thread that it is a run of. Empty: it belongs to none."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RunTask(Record):
    """The state of a task. The plan of `revision` has its definition."""

    id: str = ""
    """Unique within its plan."""
    status: TaskStatus = TaskStatus.UNSPECIFIED
    """The task's status."""
    definition: Task = field(default_factory=lambda: Task(""), repr=False)
    """The task as the plan defines it. In a list, its prompt and input may be left out: see `full_specs`."""
    revision: int = 0
    """The plan revision that defined it."""
    attempts: int = 0
    """The highest attempt number used. No number is used twice, over all allowances."""
    result_id: str = field(default="", repr=False)
    """The execution whose result is the task's."""
    failure: FailureRecord | None = None
    """The failure of a FAILED task."""
    question_id: str = ""
    """The last question that it asked: the next attempt gets the answer."""
    started_time: datetime.datetime | None = field(default=None, repr=False)
    """The time when it was first leased."""
    ended_time: datetime.datetime | None = field(default=None, repr=False)
    """The time when it was settled."""
    result_run_id: str = field(default="", repr=False)
    """The run of the family that this execution belongs to. Empty: this run."""
    deduplicated_from: str = ""
    """`run_id/execution_id` of the result that was reused for its idempotency key. Empty: it was done."""
    messages: int = field(default=0, repr=False)
    """The number of messages in its conversation."""
    key_run_id: str = ""
    """While it waits for its idempotency key: the run that holds the key."""
    progress: Payload | None = field(default=None, repr=False)
    """The last progress that its earlier attempts reported. No event carries it."""
    journal_entries: int = field(default=0, repr=False)
    """The number of entries that its journal has of attempts that have ended."""
    waits: tuple[Wait, ...] = ()
    """Its waits while it is suspended."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Execution(Record):
    """One attempt at a step. It stands in the queue while READY, and in the run's history from then on."""

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
    queue: str = field(default="", repr=False)
    """The queue where it waits, or waited, for a worker."""
    role: str = ""
    """The role that its worker must have; empty: any worker of the queue."""
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
    offered_time: datetime.datetime | None = field(default=None, repr=False)
    """The time when it was offered."""
    leased_time: datetime.datetime | None = field(default=None, repr=False)
    """The time when it was leased."""
    ended_time: datetime.datetime | None = field(default=None, repr=False)
    """The time when it ended."""
    messages_after: int = field(default=0, repr=False)
    """The number of earlier messages in the task's conversation."""
    messages: int = field(default=0, repr=False)
    """The number of messages that it appended, from number `messages_after` + 1 on."""
    unknown_time: datetime.datetime | None = field(default=None, repr=False)
    """The time when its outcome became unknown."""
    type: str = ""
    """Its task's type."""
    journal_entries: int = field(default=0, repr=False)
    """The number of journal entries that it wrote."""
    unknown_call: str = ""
    """With UNKNOWN_OUTCOME: the call whose outcome is unknown. Empty: the task's own effect."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PlanRevision(Record):
    """A revision of a run's plan. It never changes."""

    revision: int = 0
    """Counts from 1, without gaps."""
    parent_revision: int = field(default=0, repr=False)
    """The revision before it; 0: none."""
    trigger: PlanTrigger = PlanTrigger.UNSPECIFIED
    """The reason for a new revision."""
    reason: str = ""
    """The text that came with it."""
    fingerprint: str = field(default="", repr=False)
    """SHA-256 of the canonical list of tasks: equal plans have equal fingerprints."""
    iteration: int = 0
    """The iteration that it was made for."""
    tasks: tuple[Task, ...] = field(default=(), repr=False)
    """Its tasks, in the planner's order, in a FULL view. They can start another run."""
    created_time: datetime.datetime | None = None
    """The time when it was accepted."""
    carried: tuple[str, ...] = field(default=(), repr=False)
    """Ids of its tasks that an earlier plan defined in the same way: their state was kept."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Checkpoint(Record):
    """A named point of a run's history."""

    type: EventType = EventType.UNSPECIFIED
    """The type of the event there: RUN_STARTED, PLAN_ACCEPTED, ITERATION_COMPLETED, RUN_SUCCEEDED, RUN_FAILED,
    RUN_CANCELLED, RUN_RESUMED or RUN_FORKED.
    """
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
class Result(ResultValue, Record):
    """The result of a task, of an execution or of a run."""

    task_id: str = ""
    """The task; empty for PLAN, REFLECT and SYNTHESIZE."""
    execution_id: str = field(default="", repr=False)
    """The execution whose result it is; empty if there is none, as for a SKIPPED task."""
    status: TaskStatus = TaskStatus.UNSPECIFIED
    """The task's status; UNSPECIFIED if there is no task."""
    payload: Payload | None = None
    """The bytes. None: there are none, or they are `by_reference`."""
    failure: FailureRecord | None = None
    """The failure of a FAILED task."""
    run_id: str = field(default="", repr=False)
    """The run that owns `execution_id`, if a fork inherited the result. Empty: this run."""


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
    """The fork as of its first commit, or as it is now if the same request came before. With `validate_only`: as it would
    be. None with violations.
    """
    violations: tuple[ForkViolation, ...] = ()
    """With `validate_only`: the mistakes, at most 100."""
    kept_task_ids: tuple[str, ...] = field(default=(), repr=False)
    """The tasks whose results are kept: the first 15,000, as in the lists below."""
    rerun_task_ids: tuple[str, ...] = field(default=(), repr=False)
    """The tasks that run again."""
    pending_task_ids: tuple[str, ...] = field(default=(), repr=False)
    """The tasks that are still to do."""
    warnings: tuple[str, ...] = ()
    """Effects of the fork that its caller may not expect, in words, such as kept results that were made with another
    input.
    """
    kept: int = 0
    """The number of tasks whose results are kept."""
    rerun: int = 0
    """The number of tasks that were completed in the parent and run again in the fork."""
    pending: int = 0
    """The number of tasks that were not completed in the parent and run in the fork."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RunUpdate(Record):
    """A change of a run: its state after the change, or its deletion; or messages of the thread that is watched."""

    run_id: str = ""
    """The run. Empty: the update is about the thread that is watched."""
    run: Run | None = None
    """The run at this version or a newer one. None: it was deleted; or, in a watch of a tree or a thread, an earlier
    update of the message has it.
    """
    version: int = 0
    """The newest version that this update covers; for a deleted run, its last version."""
    deleted: bool = False
    """The run was deleted, or the thread."""
    events: tuple[Event, ...] = ()
    """In a watch of a tree or a thread: all events of the commit that made `version`."""
    messages: tuple[ThreadMessage, ...] = ()
    """In a watch of a thread, and with nothing else: further messages of it, in order."""
    chunks: tuple[LogEntry, ...] = ()
    """In a watch of a thread with `chunks`, and with nothing else: further chunks of the run's log, in order."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Purged(Record):
    """The runs that a purge removed."""

    run_ids: tuple[str, ...] = ()
    """The runs."""
    complete: bool = False
    """False: there may be more such runs."""


RECORDS: Mapping[type[ProtoMessage], type] = {
    types_pb2.AttemptCounts: AttemptCounts,
    types_pb2.Budget: Budget,
    orchestrator_pb2.Checkpoint: Checkpoint,
    types_pb2.ChildOf: ChildOf,
    types_pb2.ChildRun: ChildRun,
    orchestrator_pb2.ConnectedWorker: ConnectedWorker,
    types_pb2.Counts: Counts,
    types_pb2.Event: Event,
    types_pb2.Execution: Execution,
    types_pb2.ExecutionChange: Execution,
    types_pb2.Failure: FailureRecord,
    orchestrator_pb2.ForkRunResponse: ForkCheck,
    orchestrator_pb2.ForkViolation: ForkViolation,
    orchestrator_pb2.GetServerInfoResponse: ServerInfo,
    orchestrator_pb2.HeldStep: HeldStep,
    types_pb2.JournalEntry: JournalEntry,
    types_pb2.KeptSignal: KeptSignal,
    types_pb2.LogEntry: LogEntry,
    types_pb2.Message: Message,
    types_pb2.Payload: Payload,
    types_pb2.Plan: PlanRevision,
    orchestrator_pb2.PurgeRunsResponse: Purged,
    types_pb2.Question: Question,
    orchestrator_pb2.Queue: Queue,
    orchestrator_pb2.Result: Result,
    types_pb2.RetryPolicy: Retry,
    types_pb2.Run: Run,
    types_pb2.RunChange: Run,
    orchestrator_pb2.RunQuestion: Question,
    types_pb2.RunSpec: Run,
    orchestrator_pb2.RunUpdate: RunUpdate,
    types_pb2.Session: Session,
    types_pb2.StoreInfo: StoreInfo,
    types_pb2.StoredEntry: JournalEntry,
    types_pb2.Task: RunTask,
    types_pb2.TaskChange: RunTask,
    types_pb2.TaskPattern: TaskPattern,
    types_pb2.TaskSpec: Task,
    types_pb2.Thread: Thread,
    types_pb2.ThreadMessage: ThreadMessage,
    types_pb2.Usage: Usage,
    types_pb2.Wait: Wait,
    types_pb2.WaitingStep: WaitingStep,
}
"""The record of each message; a change of a row becomes some fields of its record."""
