"""The records of a run: frozen values that the loop makes, the store keeps and the wire carries.

Units stand last in names: `_us` is a moment in microseconds since 1970 (0: not yet), `_ms` a duration
in milliseconds (0: none or no limit). An empty string is "none"; there are no nulls but where bytes
may be absent (`Payload | None`), because empty bytes are a value.

A record never changes; `msgspec.structs.replace` makes the next one. Nothing here knows what may
happen next: that is `loop.py`'s.
"""

from __future__ import annotations

from msgspec import Struct

from stepwell.core.records.states import (
    BlockedKind,
    Effect,
    ExecutionStatus,
    ExpiryAction,
    FinishReason,
    InputKind,
    InputStatus,
    LogKind,
    OnFailure,
    PauseReason,
    Phase,
    PlanTrigger,
    RunStatus,
    StepKind,
    TaskStatus,
)


class Record(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The base of all records.

    The garbage collector doesn't look at them: a frozen value can't be part of a cycle, and a busy
    server has millions (a fifth of its CPU went there).
    """


class Payload(Record, frozen=True, kw_only=True):
    """Bytes of the user's, with their media type. Never looked into on the hot path."""

    data: bytes = b""
    media_type: str = "application/json"

    def __repr__(self) -> str:
        """Say how large it is and nothing of what is in it."""
        return f"Payload({len(self.data)} bytes, {self.media_type})"


class Violation(Record, frozen=True, kw_only=True):
    """What is wrong with one field of something that a worker or a caller sent."""

    field: str
    description: str


class Failure(Record, frozen=True, kw_only=True):
    """Why an attempt, a task or a run failed. Data, not an error of the service."""

    kind: str = ""
    """A stable word, such as an exception's class name; retry policies match it. Empty: none."""
    message: str = ""
    details: str = ""
    """A traceback, say."""
    retryable: bool = True
    violations: tuple[Violation, ...] = ()


class Usage(Record, frozen=True, kw_only=True):
    """What was used up. Counted once per attempt."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost_micros: int = 0
    """Millionths of the currency unit that the user bills in."""

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cost_micros=self.cost_micros + other.cost_micros,
        )


class Budget(Record, frozen=True, kw_only=True):
    """What a run may use up. 0: no limit."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost_micros: int = 0
    tasks: int = 0
    """Tasks that may be begun, over all plans; a second attempt is not another task."""
    wall_ms: int = 0
    """Since the first lease, pauses included."""
    iterations: int = 0
    """Iterations that may be begun. Unlike `max_iterations`, which ends a run, this one pauses it."""


class RetryPolicy(Record, frozen=True, kw_only=True):
    """How often and how late an attempt is made again."""

    max_attempts: int = 3
    """Failed and lost attempts together, per allowance; 1 means no retry."""
    initial_backoff_ms: int = 1_000
    backoff_multiplier: float = 2.0
    max_backoff_ms: int = 60_000
    jitter: float = 1.0
    """The part of each back-off that is drawn at random: 1.0 is full jitter, 0.0 none."""
    non_retryable_kinds: tuple[str, ...] = ()


class Session(Record, frozen=True, kw_only=True):
    """An agent's own conversation: the backend's name and the id that the backend knows it by."""

    backend: str = ""
    session_id: str = ""


class Previous(Record, frozen=True, kw_only=True):
    """What the attempts at a step so far leave to its next one, and to no other step.

    An attempt that was handed back and said nothing leaves it as it was.
    """

    execution_id: str = ""
    """The last attempt. Empty: there was none, or it left nothing."""
    session: Session = Session()
    """The agent's own conversation, to be gone on with."""
    progress: Payload | None = None
    """The last that was reported."""
    failure: Failure = Failure()
    """Why that attempt failed or was lost; empty: it was handed back, or asked a person."""


class TaskSpec(Record, frozen=True, kw_only=True):
    """A node of a plan, as planned. Immutable within its plan revision."""

    task_id: str
    type: str = ""
    title: str = ""
    prompt: str = ""
    role: str = ""
    """Only workers of this role get it; empty: any worker of the queue."""
    depends_on: tuple[str, ...] = ()
    input: Payload | None = None
    retry: RetryPolicy = RetryPolicy()
    attempt_timeout_ms: int = 0
    heartbeat_timeout_ms: int = 0
    """The lease's length for this task; 0: the server's."""
    total_timeout_ms: int = 0
    """From the first offer to the end of the last attempt, back-offs included."""
    on_failure: OnFailure = OnFailure.FAIL_RUN
    effect: Effect = Effect.IDEMPOTENT
    idempotency_key: str = ""
    """Empty: `run_id/task_id`. Given: tasks of the same key are done once, see TASK_DEDUPLICATED."""
    reconcile: bool = False
    """Whether a RECONCILE step is to find out what became of it once its outcome is unknown."""


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
    """Ids of its tasks that the run had before, defined alike: they stay as they stood."""
    created_us: int = 0


class RunSpec(Record, frozen=True, kw_only=True):
    """What a run was started with. Immutable."""

    tenant_id: str
    run_id: str
    pipeline_id: str = ""
    queue: str = "default"
    goal: str = ""
    labels: dict[str, str] = {}
    executor_id: str = ""
    """Who started it."""
    max_iterations: int = 10
    max_parallel: int = 32
    priority: int = 0
    """Higher goes first within a queue."""
    budget: Budget = Budget()
    step_retry: RetryPolicy = RetryPolicy()
    """For PLAN, REFLECT and SYNTHESIZE; tasks have their own."""
    step_timeout_ms: int = 0
    start_delay_ms: int = 0
    request_fingerprint: str = ""
    """Of the StartRun request, so that its repetition is told from another's."""
    parent_run_id: str = ""
    """The run that it was forked from."""
    parent_version: int = 0
    family_id: str = ""
    """The first run of the line of forks that it belongs to. Empty: it is no fork."""
    no_progress_limit: int = 0
    """After so many iterations with the same plan and the same results the run is paused; 0: never."""


class Counts(Record, frozen=True, kw_only=True):
    """How many tasks of the current plan, and of what was carried over to it, stand where."""

    total: int = 0
    completed: int = 0
    failed: int = 0
    skipped: int = 0
    cancelled: int = 0

    @property
    def unsettled(self) -> int:
        """Tasks that can still move."""
        return self.total - self.completed - self.failed - self.skipped - self.cancelled


class AttemptCounts(Record, frozen=True, kw_only=True):
    """How many executions of a run ended how, over all its steps."""

    completed: int = 0
    failed: int = 0
    timed_out: int = 0
    lost: int = 0
    released: int = 0
    cancelled: int = 0
    needs_input: int = 0


class Tally(Record, frozen=True, kw_only=True):
    """What the loop counts to see a budget's end, or that a run goes in circles."""

    tasks: int = 0
    """Tasks that were offered at least once, over all plans."""
    digest: int = 0
    """Of the results of this iteration, whatever their order. 63 bits."""
    fingerprint: str = ""
    """Of the last iteration that ended: its plan and its results."""
    alike: int = 0
    """Iterations in a row, up to that one, with this fingerprint; NO_PROGRESS begins them anew."""
    iterations_before: int = 0
    """Iterations that a fork's parent had begun before the one that the fork goes on with."""
    wall_over_ms: int = 0
    """The budget's wall time that is known to be over: the store's clock said so."""


class Run(Record, frozen=True, kw_only=True):
    """One durable execution of the loop. `spec` is written once; the rest moves with `version`."""

    spec: RunSpec
    version: int = 0
    """The number of its last commit; 0: not born."""
    last_event: int = 0
    """The number of its last event."""
    status: RunStatus = RunStatus.QUEUED
    phase: Phase = Phase.PLANNING
    iteration: int = 1
    plan_revision: int = 0
    """Of the plan in force; 0: none yet."""
    stages: tuple[StepKind, ...] = ()
    """Which of REFLECT and SYNTHESIZE the run has."""
    stages_fixed: bool = False
    allowance: int = 1
    """Counts from 1; a resume of a FAILED run opens the next."""
    step_attempt: int = 0
    """The highest attempt number used for the current PLAN, REFLECT or SYNTHESIZE step."""
    step_spent: int = 0
    """Its failed and lost attempts in this allowance."""
    counts: Counts = Counts()
    attempts: AttemptCounts = AttemptCounts()
    """Its executions that have ended, counted."""
    usage: Usage = Usage()
    budget: Budget = Budget()
    tally: Tally = Tally()
    stopping: bool = False
    """Whether it ends after the iteration in progress."""
    previous: Previous = Previous()
    """What the attempts at the current PLAN, REFLECT or SYNTHESIZE step leave to the next one."""
    blocked_on: BlockedKind = BlockedKind.NONE
    """As the loop knows it: WORKER also stands for CAPACITY, which a reader tells by presence."""
    blocked_since_us: int = 0
    pause_reason: PauseReason = PauseReason.NONE
    finish_reason: FinishReason = FinishReason.NONE
    reason: str = ""
    """The words that came with the last reflection, pause, resume or cancel."""
    failure: Failure = Failure()
    result_id: str = ""
    """The SYNTHESIZE execution whose result is the run's; empty: the tasks' results are."""
    created_us: int = 0
    started_us: int = 0
    """Of the first lease."""
    ended_us: int = 0

    @property
    def ended(self) -> bool:
        """Whether the status is an end."""
        return self.status in _ENDED


_ENDED = frozenset({RunStatus.SUCCEEDED, RunStatus.FAILED, RunStatus.CANCELLED})


class Task(Record, frozen=True, kw_only=True):
    """How a task stands. What it is stands in the plan of `revision`."""

    task_id: str
    revision: int
    """The plan revision that defined it."""
    status: TaskStatus = TaskStatus.PENDING
    attempts: int = 0
    """The highest attempt number used. Never reused, over all allowances."""
    spent: int = 0
    """Failed and lost attempts in the allowance `allowance`."""
    allowance: int = 0
    """0: it was not offered since it was defined."""
    result_id: str = ""
    """The execution whose result is the task's."""
    result_run_id: str = ""
    """The run of the family that this execution is of. Empty: this one."""
    deduplicated_from: str = ""
    """`run_id/execution_id` whose result was taken for its own idempotency key. Empty: it was done."""
    failure: Failure = Failure()
    input_id: str = ""
    """The input request that it asked last: the next attempt is given the answer."""
    messages: int = 0
    """How many messages its conversation has."""
    previous: Previous = Previous()
    """What its attempts so far leave to the next one."""
    reconciles: int = 0
    """The highest number used for its RECONCILE steps. Never reused."""
    reconciles_spent: int = 0
    """Those that failed or were lost since its outcome became unknown; -1: it is left to a person."""
    started_us: int = 0
    ended_us: int = 0


class Execution(Record, frozen=True, kw_only=True):
    """One attempt at a step: an entry of the queue while READY, of the history ever after."""

    execution_id: str
    """Within its run: `task:ID#ATTEMPT`, `reconcile:ID#NUMBER`, `plan:ITERATION#ATTEMPT`, and so on."""
    kind: StepKind
    task_id: str = ""
    """Of a TASK or RECONCILE."""
    iteration: int = 1
    attempt: int = 1
    queue: str = ""
    role: str = ""
    priority: int = 0
    status: ExecutionStatus = ExecutionStatus.READY
    delay_ms: int = 0
    """How long after its commit it may be leased (a back-off); the store stamps the moment."""
    worker_id: str = ""
    begun: bool = False
    """Its AT_MOST_ONCE worker has said so."""
    failure: Failure = Failure()
    usage: Usage = Usage()
    session: Session = Session()
    has_result: bool = False
    """Whether result bytes are kept under this id."""
    messages_after: int = 0
    """The task's conversation as this attempt found it: so many messages."""
    messages: int = 0
    """How many messages it appended: those numbered `messages_after` + 1 and on."""
    unknown_us: int = 0
    """When its outcome became unknown."""
    offered_us: int = 0
    leased_us: int = 0
    ended_us: int = 0


class InputRequest(Record, frozen=True, kw_only=True):
    """A question to a person."""

    input_id: str
    task_id: str
    execution_id: str = ""
    kind: InputKind = InputKind.INPUT
    prompt: str = ""
    schema: str = ""
    """A JSON schema for the answer; empty: anything."""
    choices: tuple[str, ...] = ()
    status: InputStatus = InputStatus.OPEN
    expires_ms: int = 0
    on_expiry: ExpiryAction = ExpiryAction.WAIT
    answer: Payload | None = None
    answered_by: str = ""
    created_us: int = 0
    ended_us: int = 0


class Outcome(Record, frozen=True, kw_only=True):
    """What one execution left behind, bytes and all. Written once, never rewritten."""

    execution_id: str
    result: Payload | None = None
    prompt: str = ""
    """What the agent asked its model."""
    response: str = ""
    """What the model said."""


class Message(Record, frozen=True, kw_only=True):
    """One message of a task's conversation."""

    role: str
    content: str
    task_id: str = ""
    execution_id: str = ""
    """The attempt that appended it."""
    number: int = 0
    """1, 2, 3 … without gaps within its task's conversation; 0 where no task has one."""
    session: Session = Session()


class LogEntry(Record, frozen=True, kw_only=True):
    """What a worker wrote while it worked: a line, or a piece of what it is producing."""

    execution_id: str
    text: str
    level: str = "INFO"
    kind: LogKind = LogKind.LINE
    written_us: int = 0


class RequestRecord(Record, frozen=True, kw_only=True):
    """A command that was carried out, so that its repetition is told from another's."""

    request_id: str
    fingerprint: str
    version: int
    """The commit that carried it out."""
