"""Records of a run: frozen values that the loop makes, the store keeps and the wire carries.

Names end with their units: `_us` is a moment in microseconds since 1970 (0: not yet), `_ms` a
duration in milliseconds (0: none or no limit). An empty string is "none". Only payloads may be null
(`Payload | None`), because empty bytes are a value.

A record never changes; `msgspec.structs.replace` makes the next one. The rules of `core/loop`
decide which record may follow which.
"""

from __future__ import annotations

from stepwell.core.records.counts import AttemptCounts, Counts, Tally
from stepwell.core.records.family import ChildOf, Letters, Signals, Thread
from stepwell.core.records.record import Record, StoredRecord
from stepwell.core.records.routing import WorkerVersion
from stepwell.core.records.states import (
    BlockedKind,
    ExecutionStatus,
    ExpiryAction,
    FinishReason,
    LogKind,
    PauseReason,
    Phase,
    PlanTrigger,
    QuestionKind,
    QuestionStatus,
    RunStatus,
    StepKind,
    TaskStatus,
)
from stepwell.core.records.step_journal import Journal, Wait
from stepwell.core.records.task_spec import Budget, Payload, RetryPolicy, TaskSpec

SUSPECT_LOSSES = 2
"""A step is suspect after it lost this many workers that did not come back."""


class Violation(Record, frozen=True, kw_only=True):
    """One invalid field of a worker's or caller's message."""

    field: str
    description: str


class Failure(Record, frozen=True, kw_only=True):
    """The failure of an attempt, a task or a run. Data, not an error of the service."""

    kind: str = ""
    """A stable word, such as an exception's class name; retry policies match it. Empty: none."""
    message: str = ""
    details: str = ""
    """For example a traceback."""
    retryable: bool = True
    violations: tuple[Violation, ...] = ()
    retry_after_ms: int = 0
    """The next attempt comes no sooner than this, even if the policy's back-off is shorter."""


class Usage(Record, frozen=True, kw_only=True):
    """Consumption of tokens and money. Counted once per attempt."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost_micros: int = 0
    """Millionths of the user's currency unit."""
    model: str = ""
    """The model, or models, of an attempt; a sum has none."""

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cost_micros=self.cost_micros + other.cost_micros,
        )


class Losses(Record, frozen=True, kw_only=True):
    """The lost attempts at one step, in one allowance."""

    count: int = 0
    allowance: int = 0
    """The allowance that `count` counts in. 0: there was no loss yet."""
    gone: tuple[str, ...] = ()
    """Worker instances (`worker_id instance_id`, each once) that were lost with an attempt and did
    not come back, as of the last loss or lease."""

    @property
    def suspect(self) -> bool:
        """True if the step may be what kills its workers, so that it runs only on a worker that holds nothing else."""
        return len(self.gone) >= SUSPECT_LOSSES


class Session(Record, frozen=True, kw_only=True):
    """An agent's own conversation: the backend's name, and its id there."""

    backend: str = ""
    session_id: str = ""


class Previous(Record, frozen=True, kw_only=True):
    """The carryover from a step's earlier attempts to its next one.

    An attempt that was handed back without a report leaves it unchanged.
    """

    execution_id: str = ""
    """The last attempt. Empty: there was none, or it left nothing."""
    session: Session = Session()
    """The agent's own conversation, for the next attempt to continue."""
    progress: Payload | None = None
    """The last reported progress."""
    failure: Failure = Failure()
    """The failure or loss of that attempt; empty if it was handed back, or asked a person."""


class Plan(Record, frozen=True, kw_only=True):
    """An immutable, numbered revision of a run's task graph."""

    revision: int
    parent_revision: int = 0
    trigger: PlanTrigger = PlanTrigger.PLANNED
    reason: str = ""
    fingerprint: str = ""
    """SHA-256 over the canonical task list: equal plans have equal fingerprints."""
    iteration: int = 1
    tasks: tuple[TaskSpec, ...] = ()
    carried: tuple[str, ...] = ()
    """Ids of its tasks that the run already had with an equal definition, and that carry over."""
    created_us: int = 0


class RunSpec(Record, frozen=True, kw_only=True):
    """The arguments that a run was started with. Immutable."""

    tenant_id: str
    run_id: str
    pipeline_id: str = ""
    queue: str = "default"
    goal: str = ""
    labels: dict[str, str] = {}
    executor_id: str = ""
    """The caller that started the run."""
    max_iterations: int = 10
    max_parallel: int = 32
    priority: int = 0
    """Steps of higher priority are leased first within a queue."""
    budget: Budget = Budget()
    step_retry: RetryPolicy = RetryPolicy()
    """Retries of PLAN, REFLECT, SYNTHESIZE and RECONCILE; tasks have their own."""
    step_timeout_ms: int = 0
    start_delay_ms: int = 0
    request_fingerprint: str = ""
    """Fingerprint of the StartRun request, to distinguish its repetition from another request."""
    parent_run_id: str = ""
    """The run that this one was forked from."""
    parent_version: int = 0
    family_id: str = ""
    """The first run of its line of forks. Empty: it is no fork."""
    no_progress_limit: int = 0
    """The run pauses after this many iterations with equal plans and results; 0: never."""
    worker_version: WorkerVersion = WorkerVersion()
    """Only workers of this version are assigned its steps."""
    child_of: ChildOf = ChildOf()
    """The run that started it, if one did."""
    reflect_on: tuple[str, ...] = ()
    """Names of signals that make the run reflect before its tasks are settled."""
    thread_id: str = ""
    """The thread that it is a run of, or that it is."""
    is_thread: bool = False
    """It is no run but a thread, in a tenant of threads (`threads.py`)."""


class Run(StoredRecord, frozen=True, kw_only=True):
    """One durable execution of the loop. `spec` is written once; the rest moves with `version`."""

    spec: RunSpec
    version: int = 0
    """The number of its last commit; 0: there was none."""
    last_event: int = 0
    """The number of its last event."""
    status: RunStatus = RunStatus.QUEUED
    phase: Phase = Phase.PLANNING
    iteration: int = 1
    plan_revision: int = 0
    """The revision of the plan in force; 0: none yet."""
    stages: tuple[StepKind, ...] = ()
    """The stages, of REFLECT and SYNTHESIZE, that the run has."""
    stages_fixed: bool = False
    allowance: int = 1
    """The current allowance of attempts, from 1; resumes and retries of failures open the next one."""
    step_attempt: int = 0
    """The highest attempt number used for the current PLAN, REFLECT or SYNTHESIZE step."""
    step_spent: int = 0
    """Failed attempts at that step in this allowance."""
    step_losses: Losses = Losses()
    """Lost attempts at that step."""
    counts: Counts = Counts()
    attempts: AttemptCounts = AttemptCounts()
    """Numbers of its ended executions."""
    usage: Usage = Usage()
    budget: Budget = Budget()
    tally: Tally = Tally()
    stopping: bool = False
    """True if the run ends after the iteration in progress."""
    previous: Previous = Previous()
    """Carryover between the attempts at the current PLAN, REFLECT or SYNTHESIZE step."""
    step_journal: Journal = Journal()
    """That step's journal."""
    step_waits: tuple[Wait, ...] = ()
    """The waits of that step while it is suspended."""
    signals: Signals = Signals()
    """The signals that it keeps."""
    letters: Letters = Letters()
    """Its letters to other runs."""
    children: int = 0
    """The number of child runs that it has started."""
    waits_for_thread: bool = False
    """True if it does nothing until its thread lets it go."""
    thread: Thread = Thread()
    """The counts of a thread."""
    actor: str = ""
    """The caller of the last command that changed the run, by its credential."""
    on_behalf_of: str = ""
    """The name on whose behalf that caller acted; empty if none was given."""
    blocked_on: BlockedKind = BlockedKind.NONE
    """In stored runs WORKER includes CAPACITY, which readers distinguish by the workers' presence."""
    blocked_since_us: int = 0
    blocked_run_id: str = ""
    """With `blocked_on` KEY: the run that has the key (of the first waiting task). Empty: unknown."""
    pause_reason: PauseReason = PauseReason.NONE
    finish_reason: FinishReason = FinishReason.NONE
    reason: str = ""
    """The reason given with the last reflection, pause, resume or cancel."""
    failure: Failure = Failure()
    result_id: str = ""
    """The SYNTHESIZE execution whose result is the run's; empty: the run has its tasks' results."""
    created_us: int = 0
    started_us: int = 0
    """The moment of the first lease."""
    ended_us: int = 0

    @property
    def ended(self) -> bool:
        """True if the run has ended: its status is final, or FAILED."""
        return self.status in _ENDED


_ENDED = frozenset({RunStatus.SUCCEEDED, RunStatus.FAILED, RunStatus.CANCELLED})


class Task(StoredRecord, frozen=True, kw_only=True):
    """The state of a task. The plan of `revision` has its definition."""

    task_id: str
    revision: int
    """The plan revision that defined it."""
    status: TaskStatus = TaskStatus.PENDING
    attempts: int = 0
    """The highest attempt number used. Numbers are never reused."""
    spent: int = 0
    """Failed attempts in the allowance `allowance`."""
    allowance: int = 0
    """The allowance that `spent` counts in. 0: the task was not offered since it was defined."""
    losses: Losses = Losses()
    """Lost attempts."""
    result_id: str = ""
    """The execution whose result is the task's."""
    result_run_id: str = ""
    """The run of the family that has this execution. Empty: this run."""
    deduplicated_from: str = ""
    """If deduplicated: the `run_id/execution_id` whose result was reused. Empty: the task ran."""
    held_key: str = ""
    """The planner's idempotency key that it holds from its first lease until it is settled, and
    while it is COMPLETED. Empty: none."""
    key_run_id: str = ""
    """While it waits for its idempotency key: the run that has the key. Empty: it doesn't wait."""
    failure: Failure = Failure()
    question_id: str = ""
    """The task's last question, whose answer its attempts receive."""
    messages: int = 0
    """Number of messages in its conversation."""
    previous: Previous = Previous()
    """Carryover from its earlier attempts to the next one."""
    journal: Journal = Journal()
    waits: tuple[Wait, ...] = ()
    """Its waits while it is suspended."""
    reconciles: int = 0
    """The highest number of its RECONCILE steps. Numbers are never reused."""
    reconciles_spent: int = 0
    """RECONCILE steps that failed for this unknown outcome; -1: it is left to a person."""
    reconcile_losses: Losses = Losses()
    """RECONCILE steps that were lost for this unknown outcome."""
    started_us: int = 0
    ended_us: int = 0


class Execution(StoredRecord, frozen=True, kw_only=True):
    """One attempt at a step: in the queue while READY, and later in the history."""

    execution_id: str
    """Within its run: `task:ID#ATTEMPT`, `reconcile:ID#NUMBER`, `plan:ITERATION#ATTEMPT`, and so on."""
    kind: StepKind
    task_id: str = ""
    """The task of a TASK or RECONCILE step."""
    iteration: int = 1
    attempt: int = 1
    queue: str = ""
    type: str = ""
    """Its task's type."""
    role: str = ""
    pin: str = ""
    """The versions of workers that may do it, see `routing.pin_of`."""
    priority: int = 0
    status: ExecutionStatus = ExecutionStatus.READY
    delay_ms: int = 0
    """The back-off from its commit until it may be leased; the store adds it to its time."""
    worker_id: str = ""
    begun: bool = False
    """True if its worker has reported that the AT_MOST_ONCE effect begins."""
    failure: Failure = Failure()
    usage: Usage = Usage()
    session: Session = Session()
    has_result: bool = False
    """True if the store has a result under this id."""
    messages_after: int = 0
    """The number of earlier messages in the task's conversation."""
    messages: int = 0
    """The number of messages that it appended, numbered from `messages_after` + 1 on."""
    unknown_us: int = 0
    """The moment at which its outcome became unknown."""
    unknown_call: str = ""
    """With UNKNOWN_OUTCOME: the call within the step whose outcome is unknown. Empty: the task's own effect."""
    journal_entries: int = 0
    """Number of journal entries that it wrote, once it ended."""
    forget_number: int = 0
    """The number of its worker's last message that dropped calls from the journal; it only grows. A
    repetition of that message does nothing, and neither do entries that were sent before it."""
    open_number: int = 0
    """The number of its worker's last message that opened calls; a repetition of that message does nothing."""
    offered_us: int = 0
    leased_us: int = 0
    ended_us: int = 0


class Question(StoredRecord, frozen=True, kw_only=True):
    """A question to a person; or what a call waits for instead, of the kinds SIGNAL and CHILD."""

    question_id: str
    task_id: str
    execution_id: str = ""
    kind: QuestionKind = QuestionKind.VALUE
    prompt: str = ""
    schema: str = ""
    """A JSON schema for the answer; empty: anything."""
    choices: tuple[str, ...] = ()
    status: QuestionStatus = QuestionStatus.OPEN
    expires_ms: int = 0
    on_expiry: ExpiryAction = ExpiryAction.WAIT
    answer: Payload | None = None
    answered_by: str = ""
    call: str = ""
    """The asking call's key in its step's journal; the answer becomes its value. Empty: the attempt ended by asking."""
    arguments: str = ""
    """With `call`: the digest of the question, for the entry with the answer."""
    leave: bool = False
    """With CHILD: the child goes on after its step's end."""
    budget: Budget = Budget()
    """With CHILD: the part of the run's budget that is the child's."""
    follow_pauses: bool = False
    """With CHILD: the child is paused when the run is, and goes on with it."""
    created_us: int = 0
    ended_us: int = 0


class Outcome(Record, frozen=True, kw_only=True):
    """The result, prompt and response of one execution. EntryAck once."""

    execution_id: str
    result: Payload | None = None
    prompt: str = ""
    """The agent's prompt to its model."""
    response: str = ""
    """The model's response."""
    receipt: str = ""
    """Recognizes a repeated outcome (`core/loop/receipts.py`). In no event and no answer to a client."""


class Message(Record, frozen=True, kw_only=True):
    """One message of a task's conversation."""

    role: str
    content: str
    task_id: str = ""
    execution_id: str = ""
    """The attempt that appended it."""
    number: int = 0
    """1, 2, 3 … without gaps within its task's conversation; 0: its step has no conversation."""
    session: Session = Session()


class LogEntry(Record, frozen=True, kw_only=True):
    """A log entry of a worker: a line, or a piece of its result."""

    execution_id: str
    text: str
    level: str = "INFO"
    kind: LogKind = LogKind.LINE
    written_us: int = 0


class RequestRecord(Record, frozen=True, kw_only=True):
    """An executed command, to recognize its repetition."""

    request_id: str
    fingerprint: str
    version: int
    """The version whose commit executed it."""
