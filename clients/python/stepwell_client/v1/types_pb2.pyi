import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from stepwell_client.v1 import limits_pb2 as _limits_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RunStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RUN_STATUS_UNSPECIFIED: _ClassVar[RunStatus]
    RUN_STATUS_QUEUED: _ClassVar[RunStatus]
    RUN_STATUS_RUNNING: _ClassVar[RunStatus]
    RUN_STATUS_WAITING: _ClassVar[RunStatus]
    RUN_STATUS_PAUSED: _ClassVar[RunStatus]
    RUN_STATUS_SUCCEEDED: _ClassVar[RunStatus]
    RUN_STATUS_FAILED: _ClassVar[RunStatus]
    RUN_STATUS_CANCELLED: _ClassVar[RunStatus]

class Phase(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PHASE_UNSPECIFIED: _ClassVar[Phase]
    PHASE_PLANNING: _ClassVar[Phase]
    PHASE_EXECUTING: _ClassVar[Phase]
    PHASE_REFLECTING: _ClassVar[Phase]
    PHASE_SYNTHESIZING: _ClassVar[Phase]
    PHASE_DONE: _ClassVar[Phase]

class StepKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STEP_KIND_UNSPECIFIED: _ClassVar[StepKind]
    STEP_KIND_PLAN: _ClassVar[StepKind]
    STEP_KIND_TASK: _ClassVar[StepKind]
    STEP_KIND_REFLECT: _ClassVar[StepKind]
    STEP_KIND_SYNTHESIZE: _ClassVar[StepKind]
    STEP_KIND_RECONCILE: _ClassVar[StepKind]

class TaskStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TASK_STATUS_UNSPECIFIED: _ClassVar[TaskStatus]
    TASK_STATUS_PENDING: _ClassVar[TaskStatus]
    TASK_STATUS_READY: _ClassVar[TaskStatus]
    TASK_STATUS_RUNNING: _ClassVar[TaskStatus]
    TASK_STATUS_BLOCKED: _ClassVar[TaskStatus]
    TASK_STATUS_COMPLETED: _ClassVar[TaskStatus]
    TASK_STATUS_FAILED: _ClassVar[TaskStatus]
    TASK_STATUS_SKIPPED: _ClassVar[TaskStatus]
    TASK_STATUS_CANCELLED: _ClassVar[TaskStatus]

class ExecutionStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EXECUTION_STATUS_UNSPECIFIED: _ClassVar[ExecutionStatus]
    EXECUTION_STATUS_READY: _ClassVar[ExecutionStatus]
    EXECUTION_STATUS_LEASED: _ClassVar[ExecutionStatus]
    EXECUTION_STATUS_COMPLETED: _ClassVar[ExecutionStatus]
    EXECUTION_STATUS_FAILED: _ClassVar[ExecutionStatus]
    EXECUTION_STATUS_TIMED_OUT: _ClassVar[ExecutionStatus]
    EXECUTION_STATUS_LOST: _ClassVar[ExecutionStatus]
    EXECUTION_STATUS_RELEASED: _ClassVar[ExecutionStatus]
    EXECUTION_STATUS_CANCELLED: _ClassVar[ExecutionStatus]
    EXECUTION_STATUS_NEEDS_ANSWER: _ClassVar[ExecutionStatus]
    EXECUTION_STATUS_UNKNOWN_OUTCOME: _ClassVar[ExecutionStatus]
    EXECUTION_STATUS_SUSPENDED: _ClassVar[ExecutionStatus]

class QuestionStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    QUESTION_STATUS_UNSPECIFIED: _ClassVar[QuestionStatus]
    QUESTION_STATUS_OPEN: _ClassVar[QuestionStatus]
    QUESTION_STATUS_ANSWERED: _ClassVar[QuestionStatus]
    QUESTION_STATUS_EXPIRED: _ClassVar[QuestionStatus]
    QUESTION_STATUS_CANCELLED: _ClassVar[QuestionStatus]

class QuestionKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    QUESTION_KIND_UNSPECIFIED: _ClassVar[QuestionKind]
    QUESTION_KIND_APPROVAL: _ClassVar[QuestionKind]
    QUESTION_KIND_VALUE: _ClassVar[QuestionKind]
    QUESTION_KIND_CHOICE: _ClassVar[QuestionKind]
    QUESTION_KIND_AUTH: _ClassVar[QuestionKind]
    QUESTION_KIND_SIGNAL: _ClassVar[QuestionKind]
    QUESTION_KIND_CHILD: _ClassVar[QuestionKind]

class ExpiryAction(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EXPIRY_ACTION_UNSPECIFIED: _ClassVar[ExpiryAction]
    EXPIRY_ACTION_WAIT: _ClassVar[ExpiryAction]
    EXPIRY_ACTION_DENY: _ClassVar[ExpiryAction]
    EXPIRY_ACTION_FAIL: _ClassVar[ExpiryAction]
    EXPIRY_ACTION_PAUSE: _ClassVar[ExpiryAction]

class OnFailure(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ON_FAILURE_UNSPECIFIED: _ClassVar[OnFailure]
    ON_FAILURE_FAIL_RUN: _ClassVar[OnFailure]
    ON_FAILURE_SKIP_DEPENDENTS: _ClassVar[OnFailure]
    ON_FAILURE_CONTINUE: _ClassVar[OnFailure]

class Effect(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EFFECT_UNSPECIFIED: _ClassVar[Effect]
    EFFECT_IDEMPOTENT: _ClassVar[Effect]
    EFFECT_AT_MOST_ONCE: _ClassVar[Effect]

class Decision(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DECISION_UNSPECIFIED: _ClassVar[Decision]
    DECISION_FINISH: _ClassVar[Decision]
    DECISION_CONTINUE: _ClassVar[Decision]
    DECISION_REPLAN: _ClassVar[Decision]

class Finding(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FINDING_UNSPECIFIED: _ClassVar[Finding]
    FINDING_DONE: _ClassVar[Finding]
    FINDING_NOT_DONE: _ClassVar[Finding]
    FINDING_UNDECIDED: _ClassVar[Finding]

class ForkMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FORK_MODE_UNSPECIFIED: _ClassVar[ForkMode]
    FORK_MODE_STRICT: _ClassVar[ForkMode]
    FORK_MODE_PATCH: _ClassVar[ForkMode]

class LogKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LOG_KIND_UNSPECIFIED: _ClassVar[LogKind]
    LOG_KIND_LINE: _ClassVar[LogKind]
    LOG_KIND_CHUNK: _ClassVar[LogKind]
    LOG_KIND_CUT: _ClassVar[LogKind]

class PlanTrigger(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PLAN_TRIGGER_UNSPECIFIED: _ClassVar[PlanTrigger]
    PLAN_TRIGGER_PLANNED: _ClassVar[PlanTrigger]
    PLAN_TRIGGER_CONTINUED: _ClassVar[PlanTrigger]
    PLAN_TRIGGER_REPLANNED: _ClassVar[PlanTrigger]
    PLAN_TRIGGER_CALLER: _ClassVar[PlanTrigger]
    PLAN_TRIGGER_FORK: _ClassVar[PlanTrigger]
    PLAN_TRIGGER_TASK: _ClassVar[PlanTrigger]

class BlockedKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    BLOCKED_KIND_UNSPECIFIED: _ClassVar[BlockedKind]
    BLOCKED_KIND_NONE: _ClassVar[BlockedKind]
    BLOCKED_KIND_WORKER: _ClassVar[BlockedKind]
    BLOCKED_KIND_CAPACITY: _ClassVar[BlockedKind]
    BLOCKED_KIND_QUESTION: _ClassVar[BlockedKind]
    BLOCKED_KIND_BUDGET: _ClassVar[BlockedKind]
    BLOCKED_KIND_TIMER: _ClassVar[BlockedKind]
    BLOCKED_KIND_PAUSED: _ClassVar[BlockedKind]
    BLOCKED_KIND_UNKNOWN_OUTCOME: _ClassVar[BlockedKind]
    BLOCKED_KIND_KEY: _ClassVar[BlockedKind]
    BLOCKED_KIND_SIGNAL: _ClassVar[BlockedKind]
    BLOCKED_KIND_CHILD: _ClassVar[BlockedKind]
    BLOCKED_KIND_THREAD: _ClassVar[BlockedKind]

class PauseReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PAUSE_REASON_UNSPECIFIED: _ClassVar[PauseReason]
    PAUSE_REASON_NONE: _ClassVar[PauseReason]
    PAUSE_REASON_REQUESTED: _ClassVar[PauseReason]
    PAUSE_REASON_BUDGET_EXHAUSTED: _ClassVar[PauseReason]
    PAUSE_REASON_NO_PROGRESS: _ClassVar[PauseReason]
    PAUSE_REASON_QUESTION_EXPIRED: _ClassVar[PauseReason]
    PAUSE_REASON_PARENT: _ClassVar[PauseReason]

class FinishReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FINISH_REASON_UNSPECIFIED: _ClassVar[FinishReason]
    FINISH_REASON_NONE: _ClassVar[FinishReason]
    FINISH_REASON_FINISHED: _ClassVar[FinishReason]
    FINISH_REASON_MAX_ITERATIONS: _ClassVar[FinishReason]
    FINISH_REASON_STOPPED: _ClassVar[FinishReason]

class View(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    VIEW_UNSPECIFIED: _ClassVar[View]
    VIEW_BASIC: _ClassVar[View]
    VIEW_FULL: _ClassVar[View]

class Durability(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DURABILITY_UNSPECIFIED: _ClassVar[Durability]
    DURABILITY_VOLATILE: _ClassVar[Durability]
    DURABILITY_PROCESS: _ClassVar[Durability]
    DURABILITY_POWER: _ClassVar[Durability]
    DURABILITY_NODE: _ClassVar[Durability]

class EventType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EVENT_TYPE_UNSPECIFIED: _ClassVar[EventType]
    EVENT_TYPE_RUN_STARTED: _ClassVar[EventType]
    EVENT_TYPE_EXECUTION_LEASED: _ClassVar[EventType]
    EVENT_TYPE_EXECUTION_BEGUN: _ClassVar[EventType]
    EVENT_TYPE_EXECUTION_RELEASED: _ClassVar[EventType]
    EVENT_TYPE_EXECUTION_FAILED: _ClassVar[EventType]
    EVENT_TYPE_EXECUTION_TIMED_OUT: _ClassVar[EventType]
    EVENT_TYPE_LEASE_LOST: _ClassVar[EventType]
    EVENT_TYPE_OUTCOME_UNKNOWN: _ClassVar[EventType]
    EVENT_TYPE_PLAN_ACCEPTED: _ClassVar[EventType]
    EVENT_TYPE_PLAN_REJECTED: _ClassVar[EventType]
    EVENT_TYPE_TASK_COMPLETED: _ClassVar[EventType]
    EVENT_TYPE_TASK_FAILED: _ClassVar[EventType]
    EVENT_TYPE_TASK_RETRY_SCHEDULED: _ClassVar[EventType]
    EVENT_TYPE_STEP_RETRY_SCHEDULED: _ClassVar[EventType]
    EVENT_TYPE_REFLECTION_ACCEPTED: _ClassVar[EventType]
    EVENT_TYPE_ITERATION_COMPLETED: _ClassVar[EventType]
    EVENT_TYPE_QUESTION_ASKED: _ClassVar[EventType]
    EVENT_TYPE_QUESTION_ANSWERED: _ClassVar[EventType]
    EVENT_TYPE_QUESTION_EXPIRED: _ClassVar[EventType]
    EVENT_TYPE_BUDGET_RAISED: _ClassVar[EventType]
    EVENT_TYPE_RUN_PAUSED: _ClassVar[EventType]
    EVENT_TYPE_RUN_RESUMED: _ClassVar[EventType]
    EVENT_TYPE_RUN_SUCCEEDED: _ClassVar[EventType]
    EVENT_TYPE_RUN_FAILED: _ClassVar[EventType]
    EVENT_TYPE_RUN_CANCELLED: _ClassVar[EventType]
    EVENT_TYPE_RUN_BLOCKED: _ClassVar[EventType]
    EVENT_TYPE_RUN_FORKED: _ClassVar[EventType]
    EVENT_TYPE_OUTCOME_RESOLVED: _ClassVar[EventType]
    EVENT_TYPE_MESSAGES_APPENDED: _ClassVar[EventType]
    EVENT_TYPE_TASK_DEDUPLICATED: _ClassVar[EventType]
    EVENT_TYPE_TASK_SKIPPED: _ClassVar[EventType]
    EVENT_TYPE_TASK_RETRY_REQUESTED: _ClassVar[EventType]
    EVENT_TYPE_REPLAN_REQUESTED: _ClassVar[EventType]
    EVENT_TYPE_STOP_REQUESTED: _ClassVar[EventType]
    EVENT_TYPE_STEP_POISONED: _ClassVar[EventType]
    EVENT_TYPE_STEP_SUSPENDED: _ClassVar[EventType]
    EVENT_TYPE_STEP_WOKEN: _ClassVar[EventType]
    EVENT_TYPE_JOURNAL_RENEWED: _ClassVar[EventType]
    EVENT_TYPE_JOURNAL_FORGOTTEN: _ClassVar[EventType]
    EVENT_TYPE_WAIT_OPENED: _ClassVar[EventType]
    EVENT_TYPE_WAIT_EXPIRED: _ClassVar[EventType]
    EVENT_TYPE_SIGNAL_RECEIVED: _ClassVar[EventType]
    EVENT_TYPE_SIGNAL_TAKEN: _ClassVar[EventType]
    EVENT_TYPE_CHILD_ENDED: _ClassVar[EventType]
    EVENT_TYPE_LETTERS_DELIVERED: _ClassVar[EventType]
    EVENT_TYPE_RUN_JOINED: _ClassVar[EventType]
    EVENT_TYPE_RUN_LEFT: _ClassVar[EventType]
    EVENT_TYPE_RUN_LET_GO: _ClassVar[EventType]
    EVENT_TYPE_RUN_STEERED: _ClassVar[EventType]
    EVENT_TYPE_THREAD_WRITTEN: _ClassVar[EventType]
    EVENT_TYPE_PLACE_CHANGED: _ClassVar[EventType]
    EVENT_TYPE_GROUP_GATHERED: _ClassVar[EventType]

class VersionMatch(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    VERSION_MATCH_UNSPECIFIED: _ClassVar[VersionMatch]
    VERSION_MATCH_ANY: _ClassVar[VersionMatch]
    VERSION_MATCH_EXACT: _ClassVar[VersionMatch]
    VERSION_MATCH_AT_LEAST: _ClassVar[VersionMatch]

class JournalMark(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    JOURNAL_MARK_UNSPECIFIED: _ClassVar[JournalMark]
    JOURNAL_MARK_END: _ClassVar[JournalMark]
    JOURNAL_MARK_BEGIN: _ClassVar[JournalMark]
    JOURNAL_MARK_TRY: _ClassVar[JournalMark]
    JOURNAL_MARK_WAIT: _ClassVar[JournalMark]

class WaitKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    WAIT_KIND_UNSPECIFIED: _ClassVar[WaitKind]
    WAIT_KIND_SLEEP: _ClassVar[WaitKind]
    WAIT_KIND_QUESTION: _ClassVar[WaitKind]
    WAIT_KIND_BUDGET: _ClassVar[WaitKind]
    WAIT_KIND_SIGNAL: _ClassVar[WaitKind]
    WAIT_KIND_CHILD: _ClassVar[WaitKind]
RUN_STATUS_UNSPECIFIED: RunStatus
RUN_STATUS_QUEUED: RunStatus
RUN_STATUS_RUNNING: RunStatus
RUN_STATUS_WAITING: RunStatus
RUN_STATUS_PAUSED: RunStatus
RUN_STATUS_SUCCEEDED: RunStatus
RUN_STATUS_FAILED: RunStatus
RUN_STATUS_CANCELLED: RunStatus
PHASE_UNSPECIFIED: Phase
PHASE_PLANNING: Phase
PHASE_EXECUTING: Phase
PHASE_REFLECTING: Phase
PHASE_SYNTHESIZING: Phase
PHASE_DONE: Phase
STEP_KIND_UNSPECIFIED: StepKind
STEP_KIND_PLAN: StepKind
STEP_KIND_TASK: StepKind
STEP_KIND_REFLECT: StepKind
STEP_KIND_SYNTHESIZE: StepKind
STEP_KIND_RECONCILE: StepKind
TASK_STATUS_UNSPECIFIED: TaskStatus
TASK_STATUS_PENDING: TaskStatus
TASK_STATUS_READY: TaskStatus
TASK_STATUS_RUNNING: TaskStatus
TASK_STATUS_BLOCKED: TaskStatus
TASK_STATUS_COMPLETED: TaskStatus
TASK_STATUS_FAILED: TaskStatus
TASK_STATUS_SKIPPED: TaskStatus
TASK_STATUS_CANCELLED: TaskStatus
EXECUTION_STATUS_UNSPECIFIED: ExecutionStatus
EXECUTION_STATUS_READY: ExecutionStatus
EXECUTION_STATUS_LEASED: ExecutionStatus
EXECUTION_STATUS_COMPLETED: ExecutionStatus
EXECUTION_STATUS_FAILED: ExecutionStatus
EXECUTION_STATUS_TIMED_OUT: ExecutionStatus
EXECUTION_STATUS_LOST: ExecutionStatus
EXECUTION_STATUS_RELEASED: ExecutionStatus
EXECUTION_STATUS_CANCELLED: ExecutionStatus
EXECUTION_STATUS_NEEDS_ANSWER: ExecutionStatus
EXECUTION_STATUS_UNKNOWN_OUTCOME: ExecutionStatus
EXECUTION_STATUS_SUSPENDED: ExecutionStatus
QUESTION_STATUS_UNSPECIFIED: QuestionStatus
QUESTION_STATUS_OPEN: QuestionStatus
QUESTION_STATUS_ANSWERED: QuestionStatus
QUESTION_STATUS_EXPIRED: QuestionStatus
QUESTION_STATUS_CANCELLED: QuestionStatus
QUESTION_KIND_UNSPECIFIED: QuestionKind
QUESTION_KIND_APPROVAL: QuestionKind
QUESTION_KIND_VALUE: QuestionKind
QUESTION_KIND_CHOICE: QuestionKind
QUESTION_KIND_AUTH: QuestionKind
QUESTION_KIND_SIGNAL: QuestionKind
QUESTION_KIND_CHILD: QuestionKind
EXPIRY_ACTION_UNSPECIFIED: ExpiryAction
EXPIRY_ACTION_WAIT: ExpiryAction
EXPIRY_ACTION_DENY: ExpiryAction
EXPIRY_ACTION_FAIL: ExpiryAction
EXPIRY_ACTION_PAUSE: ExpiryAction
ON_FAILURE_UNSPECIFIED: OnFailure
ON_FAILURE_FAIL_RUN: OnFailure
ON_FAILURE_SKIP_DEPENDENTS: OnFailure
ON_FAILURE_CONTINUE: OnFailure
EFFECT_UNSPECIFIED: Effect
EFFECT_IDEMPOTENT: Effect
EFFECT_AT_MOST_ONCE: Effect
DECISION_UNSPECIFIED: Decision
DECISION_FINISH: Decision
DECISION_CONTINUE: Decision
DECISION_REPLAN: Decision
FINDING_UNSPECIFIED: Finding
FINDING_DONE: Finding
FINDING_NOT_DONE: Finding
FINDING_UNDECIDED: Finding
FORK_MODE_UNSPECIFIED: ForkMode
FORK_MODE_STRICT: ForkMode
FORK_MODE_PATCH: ForkMode
LOG_KIND_UNSPECIFIED: LogKind
LOG_KIND_LINE: LogKind
LOG_KIND_CHUNK: LogKind
LOG_KIND_CUT: LogKind
PLAN_TRIGGER_UNSPECIFIED: PlanTrigger
PLAN_TRIGGER_PLANNED: PlanTrigger
PLAN_TRIGGER_CONTINUED: PlanTrigger
PLAN_TRIGGER_REPLANNED: PlanTrigger
PLAN_TRIGGER_CALLER: PlanTrigger
PLAN_TRIGGER_FORK: PlanTrigger
PLAN_TRIGGER_TASK: PlanTrigger
BLOCKED_KIND_UNSPECIFIED: BlockedKind
BLOCKED_KIND_NONE: BlockedKind
BLOCKED_KIND_WORKER: BlockedKind
BLOCKED_KIND_CAPACITY: BlockedKind
BLOCKED_KIND_QUESTION: BlockedKind
BLOCKED_KIND_BUDGET: BlockedKind
BLOCKED_KIND_TIMER: BlockedKind
BLOCKED_KIND_PAUSED: BlockedKind
BLOCKED_KIND_UNKNOWN_OUTCOME: BlockedKind
BLOCKED_KIND_KEY: BlockedKind
BLOCKED_KIND_SIGNAL: BlockedKind
BLOCKED_KIND_CHILD: BlockedKind
BLOCKED_KIND_THREAD: BlockedKind
PAUSE_REASON_UNSPECIFIED: PauseReason
PAUSE_REASON_NONE: PauseReason
PAUSE_REASON_REQUESTED: PauseReason
PAUSE_REASON_BUDGET_EXHAUSTED: PauseReason
PAUSE_REASON_NO_PROGRESS: PauseReason
PAUSE_REASON_QUESTION_EXPIRED: PauseReason
PAUSE_REASON_PARENT: PauseReason
FINISH_REASON_UNSPECIFIED: FinishReason
FINISH_REASON_NONE: FinishReason
FINISH_REASON_FINISHED: FinishReason
FINISH_REASON_MAX_ITERATIONS: FinishReason
FINISH_REASON_STOPPED: FinishReason
VIEW_UNSPECIFIED: View
VIEW_BASIC: View
VIEW_FULL: View
DURABILITY_UNSPECIFIED: Durability
DURABILITY_VOLATILE: Durability
DURABILITY_PROCESS: Durability
DURABILITY_POWER: Durability
DURABILITY_NODE: Durability
EVENT_TYPE_UNSPECIFIED: EventType
EVENT_TYPE_RUN_STARTED: EventType
EVENT_TYPE_EXECUTION_LEASED: EventType
EVENT_TYPE_EXECUTION_BEGUN: EventType
EVENT_TYPE_EXECUTION_RELEASED: EventType
EVENT_TYPE_EXECUTION_FAILED: EventType
EVENT_TYPE_EXECUTION_TIMED_OUT: EventType
EVENT_TYPE_LEASE_LOST: EventType
EVENT_TYPE_OUTCOME_UNKNOWN: EventType
EVENT_TYPE_PLAN_ACCEPTED: EventType
EVENT_TYPE_PLAN_REJECTED: EventType
EVENT_TYPE_TASK_COMPLETED: EventType
EVENT_TYPE_TASK_FAILED: EventType
EVENT_TYPE_TASK_RETRY_SCHEDULED: EventType
EVENT_TYPE_STEP_RETRY_SCHEDULED: EventType
EVENT_TYPE_REFLECTION_ACCEPTED: EventType
EVENT_TYPE_ITERATION_COMPLETED: EventType
EVENT_TYPE_QUESTION_ASKED: EventType
EVENT_TYPE_QUESTION_ANSWERED: EventType
EVENT_TYPE_QUESTION_EXPIRED: EventType
EVENT_TYPE_BUDGET_RAISED: EventType
EVENT_TYPE_RUN_PAUSED: EventType
EVENT_TYPE_RUN_RESUMED: EventType
EVENT_TYPE_RUN_SUCCEEDED: EventType
EVENT_TYPE_RUN_FAILED: EventType
EVENT_TYPE_RUN_CANCELLED: EventType
EVENT_TYPE_RUN_BLOCKED: EventType
EVENT_TYPE_RUN_FORKED: EventType
EVENT_TYPE_OUTCOME_RESOLVED: EventType
EVENT_TYPE_MESSAGES_APPENDED: EventType
EVENT_TYPE_TASK_DEDUPLICATED: EventType
EVENT_TYPE_TASK_SKIPPED: EventType
EVENT_TYPE_TASK_RETRY_REQUESTED: EventType
EVENT_TYPE_REPLAN_REQUESTED: EventType
EVENT_TYPE_STOP_REQUESTED: EventType
EVENT_TYPE_STEP_POISONED: EventType
EVENT_TYPE_STEP_SUSPENDED: EventType
EVENT_TYPE_STEP_WOKEN: EventType
EVENT_TYPE_JOURNAL_RENEWED: EventType
EVENT_TYPE_JOURNAL_FORGOTTEN: EventType
EVENT_TYPE_WAIT_OPENED: EventType
EVENT_TYPE_WAIT_EXPIRED: EventType
EVENT_TYPE_SIGNAL_RECEIVED: EventType
EVENT_TYPE_SIGNAL_TAKEN: EventType
EVENT_TYPE_CHILD_ENDED: EventType
EVENT_TYPE_LETTERS_DELIVERED: EventType
EVENT_TYPE_RUN_JOINED: EventType
EVENT_TYPE_RUN_LEFT: EventType
EVENT_TYPE_RUN_LET_GO: EventType
EVENT_TYPE_RUN_STEERED: EventType
EVENT_TYPE_THREAD_WRITTEN: EventType
EVENT_TYPE_PLACE_CHANGED: EventType
EVENT_TYPE_GROUP_GATHERED: EventType
VERSION_MATCH_UNSPECIFIED: VersionMatch
VERSION_MATCH_ANY: VersionMatch
VERSION_MATCH_EXACT: VersionMatch
VERSION_MATCH_AT_LEAST: VersionMatch
JOURNAL_MARK_UNSPECIFIED: JournalMark
JOURNAL_MARK_END: JournalMark
JOURNAL_MARK_BEGIN: JournalMark
JOURNAL_MARK_TRY: JournalMark
JOURNAL_MARK_WAIT: JournalMark
WAIT_KIND_UNSPECIFIED: WaitKind
WAIT_KIND_SLEEP: WaitKind
WAIT_KIND_QUESTION: WaitKind
WAIT_KIND_BUDGET: WaitKind
WAIT_KIND_SIGNAL: WaitKind
WAIT_KIND_CHILD: WaitKind

class Payload(_message.Message):
    __slots__ = ("data", "media_type")
    DATA_FIELD_NUMBER: _ClassVar[int]
    MEDIA_TYPE_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    media_type: str
    def __init__(self, data: _Optional[bytes] = ..., media_type: _Optional[str] = ...) -> None: ...

class Violation(_message.Message):
    __slots__ = ("field", "description")
    FIELD_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    field: str
    description: str
    def __init__(self, field: _Optional[str] = ..., description: _Optional[str] = ...) -> None: ...

class Failure(_message.Message):
    __slots__ = ("kind", "message", "details", "retryable", "violations", "retry_after")
    KIND_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    DETAILS_FIELD_NUMBER: _ClassVar[int]
    RETRYABLE_FIELD_NUMBER: _ClassVar[int]
    VIOLATIONS_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_FIELD_NUMBER: _ClassVar[int]
    kind: str
    message: str
    details: str
    retryable: bool
    violations: _containers.RepeatedCompositeFieldContainer[Violation]
    retry_after: _duration_pb2.Duration
    def __init__(self, kind: _Optional[str] = ..., message: _Optional[str] = ..., details: _Optional[str] = ..., retryable: bool = ..., violations: _Optional[_Iterable[_Union[Violation, _Mapping]]] = ..., retry_after: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class Usage(_message.Message):
    __slots__ = ("input_tokens", "output_tokens", "cost_micros", "model")
    INPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    COST_MICROS_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    input_tokens: int
    output_tokens: int
    cost_micros: int
    model: str
    def __init__(self, input_tokens: _Optional[int] = ..., output_tokens: _Optional[int] = ..., cost_micros: _Optional[int] = ..., model: _Optional[str] = ...) -> None: ...

class Budget(_message.Message):
    __slots__ = ("input_tokens", "output_tokens", "cost_micros", "tasks", "wall", "iterations")
    INPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    COST_MICROS_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    WALL_FIELD_NUMBER: _ClassVar[int]
    ITERATIONS_FIELD_NUMBER: _ClassVar[int]
    input_tokens: int
    output_tokens: int
    cost_micros: int
    tasks: int
    wall: _duration_pb2.Duration
    iterations: int
    def __init__(self, input_tokens: _Optional[int] = ..., output_tokens: _Optional[int] = ..., cost_micros: _Optional[int] = ..., tasks: _Optional[int] = ..., wall: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., iterations: _Optional[int] = ...) -> None: ...

class RetryPolicy(_message.Message):
    __slots__ = ("max_attempts", "initial_backoff", "backoff_multiplier", "max_backoff", "jitter", "non_retryable_kinds", "max_losses")
    MAX_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    INITIAL_BACKOFF_FIELD_NUMBER: _ClassVar[int]
    BACKOFF_MULTIPLIER_FIELD_NUMBER: _ClassVar[int]
    MAX_BACKOFF_FIELD_NUMBER: _ClassVar[int]
    JITTER_FIELD_NUMBER: _ClassVar[int]
    NON_RETRYABLE_KINDS_FIELD_NUMBER: _ClassVar[int]
    MAX_LOSSES_FIELD_NUMBER: _ClassVar[int]
    max_attempts: int
    initial_backoff: _duration_pb2.Duration
    backoff_multiplier: float
    max_backoff: _duration_pb2.Duration
    jitter: float
    non_retryable_kinds: _containers.RepeatedScalarFieldContainer[str]
    max_losses: int
    def __init__(self, max_attempts: _Optional[int] = ..., initial_backoff: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., backoff_multiplier: _Optional[float] = ..., max_backoff: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., jitter: _Optional[float] = ..., non_retryable_kinds: _Optional[_Iterable[str]] = ..., max_losses: _Optional[int] = ...) -> None: ...

class Session(_message.Message):
    __slots__ = ("backend", "session_id")
    BACKEND_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    backend: str
    session_id: str
    def __init__(self, backend: _Optional[str] = ..., session_id: _Optional[str] = ...) -> None: ...

class TaskPattern(_message.Message):
    __slots__ = ("kind", "type", "role")
    KIND_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    kind: StepKind
    type: str
    role: str
    def __init__(self, kind: _Optional[_Union[StepKind, str]] = ..., type: _Optional[str] = ..., role: _Optional[str] = ...) -> None: ...

class WorkerVersion(_message.Message):
    __slots__ = ("match", "version")
    MATCH_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    match: VersionMatch
    version: str
    def __init__(self, match: _Optional[_Union[VersionMatch, str]] = ..., version: _Optional[str] = ...) -> None: ...

class TaskSpec(_message.Message):
    __slots__ = ("task_id", "type", "title", "prompt", "role", "depends_on", "input", "retry", "attempt_timeout", "heartbeat_timeout", "total_timeout", "on_failure", "effect", "idempotency_key", "reconcile", "idle_timeout", "child", "after_growth", "group", "gathers", "at_least", "failures_max")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    DEPENDS_ON_FIELD_NUMBER: _ClassVar[int]
    INPUT_FIELD_NUMBER: _ClassVar[int]
    RETRY_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    TOTAL_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    ON_FAILURE_FIELD_NUMBER: _ClassVar[int]
    EFFECT_FIELD_NUMBER: _ClassVar[int]
    IDEMPOTENCY_KEY_FIELD_NUMBER: _ClassVar[int]
    RECONCILE_FIELD_NUMBER: _ClassVar[int]
    IDLE_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    CHILD_FIELD_NUMBER: _ClassVar[int]
    AFTER_GROWTH_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    GATHERS_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_FIELD_NUMBER: _ClassVar[int]
    FAILURES_MAX_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    type: str
    title: str
    prompt: str
    role: str
    depends_on: _containers.RepeatedScalarFieldContainer[str]
    input: Payload
    retry: RetryPolicy
    attempt_timeout: _duration_pb2.Duration
    heartbeat_timeout: _duration_pb2.Duration
    total_timeout: _duration_pb2.Duration
    on_failure: OnFailure
    effect: Effect
    idempotency_key: str
    reconcile: bool
    idle_timeout: _duration_pb2.Duration
    child: ChildRun
    after_growth: bool
    group: str
    gathers: str
    at_least: int
    failures_max: int
    def __init__(self, task_id: _Optional[str] = ..., type: _Optional[str] = ..., title: _Optional[str] = ..., prompt: _Optional[str] = ..., role: _Optional[str] = ..., depends_on: _Optional[_Iterable[str]] = ..., input: _Optional[_Union[Payload, _Mapping]] = ..., retry: _Optional[_Union[RetryPolicy, _Mapping]] = ..., attempt_timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., heartbeat_timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., total_timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., on_failure: _Optional[_Union[OnFailure, str]] = ..., effect: _Optional[_Union[Effect, str]] = ..., idempotency_key: _Optional[str] = ..., reconcile: bool = ..., idle_timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., child: _Optional[_Union[ChildRun, _Mapping]] = ..., after_growth: bool = ..., group: _Optional[str] = ..., gathers: _Optional[str] = ..., at_least: _Optional[int] = ..., failures_max: _Optional[int] = ...) -> None: ...

class ChildRun(_message.Message):
    __slots__ = ("pipeline_id", "queue", "goal", "labels", "max_iterations", "budget", "follow_pauses", "reflect_on", "plan")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    PIPELINE_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    GOAL_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    MAX_ITERATIONS_FIELD_NUMBER: _ClassVar[int]
    BUDGET_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_PAUSES_FIELD_NUMBER: _ClassVar[int]
    REFLECT_ON_FIELD_NUMBER: _ClassVar[int]
    PLAN_FIELD_NUMBER: _ClassVar[int]
    pipeline_id: str
    queue: str
    goal: str
    labels: _containers.ScalarMap[str, str]
    max_iterations: int
    budget: Budget
    follow_pauses: bool
    reflect_on: _containers.RepeatedScalarFieldContainer[str]
    plan: PlanDraft
    def __init__(self, pipeline_id: _Optional[str] = ..., queue: _Optional[str] = ..., goal: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., max_iterations: _Optional[int] = ..., budget: _Optional[_Union[Budget, _Mapping]] = ..., follow_pauses: bool = ..., reflect_on: _Optional[_Iterable[str]] = ..., plan: _Optional[_Union[PlanDraft, _Mapping]] = ...) -> None: ...

class PlanDraft(_message.Message):
    __slots__ = ("tasks",)
    TASKS_FIELD_NUMBER: _ClassVar[int]
    tasks: _containers.RepeatedCompositeFieldContainer[TaskSpec]
    def __init__(self, tasks: _Optional[_Iterable[_Union[TaskSpec, _Mapping]]] = ...) -> None: ...

class Plan(_message.Message):
    __slots__ = ("revision", "parent_revision", "trigger", "reason", "fingerprint", "iteration", "tasks", "created_time", "carried")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    PARENT_REVISION_FIELD_NUMBER: _ClassVar[int]
    TRIGGER_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    ITERATION_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    CREATED_TIME_FIELD_NUMBER: _ClassVar[int]
    CARRIED_FIELD_NUMBER: _ClassVar[int]
    revision: int
    parent_revision: int
    trigger: PlanTrigger
    reason: str
    fingerprint: str
    iteration: int
    tasks: _containers.RepeatedCompositeFieldContainer[TaskSpec]
    created_time: _timestamp_pb2.Timestamp
    carried: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, revision: _Optional[int] = ..., parent_revision: _Optional[int] = ..., trigger: _Optional[_Union[PlanTrigger, str]] = ..., reason: _Optional[str] = ..., fingerprint: _Optional[str] = ..., iteration: _Optional[int] = ..., tasks: _Optional[_Iterable[_Union[TaskSpec, _Mapping]]] = ..., created_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., carried: _Optional[_Iterable[str]] = ...) -> None: ...

class RunSpec(_message.Message):
    __slots__ = ("tenant_id", "run_id", "pipeline_id", "queue", "goal", "labels", "executor_id", "max_iterations", "max_parallel", "priority", "budget", "step_retry", "step_timeout", "start_delay", "parent_run_id", "parent_version", "family_id", "no_progress_limit", "worker_version", "child_of", "thread_id")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    PIPELINE_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    GOAL_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    EXECUTOR_ID_FIELD_NUMBER: _ClassVar[int]
    MAX_ITERATIONS_FIELD_NUMBER: _ClassVar[int]
    MAX_PARALLEL_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    BUDGET_FIELD_NUMBER: _ClassVar[int]
    STEP_RETRY_FIELD_NUMBER: _ClassVar[int]
    STEP_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    START_DELAY_FIELD_NUMBER: _ClassVar[int]
    PARENT_RUN_ID_FIELD_NUMBER: _ClassVar[int]
    PARENT_VERSION_FIELD_NUMBER: _ClassVar[int]
    FAMILY_ID_FIELD_NUMBER: _ClassVar[int]
    NO_PROGRESS_LIMIT_FIELD_NUMBER: _ClassVar[int]
    WORKER_VERSION_FIELD_NUMBER: _ClassVar[int]
    CHILD_OF_FIELD_NUMBER: _ClassVar[int]
    THREAD_ID_FIELD_NUMBER: _ClassVar[int]
    tenant_id: str
    run_id: str
    pipeline_id: str
    queue: str
    goal: str
    labels: _containers.ScalarMap[str, str]
    executor_id: str
    max_iterations: int
    max_parallel: int
    priority: int
    budget: Budget
    step_retry: RetryPolicy
    step_timeout: _duration_pb2.Duration
    start_delay: _duration_pb2.Duration
    parent_run_id: str
    parent_version: int
    family_id: str
    no_progress_limit: int
    worker_version: WorkerVersion
    child_of: ChildOf
    thread_id: str
    def __init__(self, tenant_id: _Optional[str] = ..., run_id: _Optional[str] = ..., pipeline_id: _Optional[str] = ..., queue: _Optional[str] = ..., goal: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., executor_id: _Optional[str] = ..., max_iterations: _Optional[int] = ..., max_parallel: _Optional[int] = ..., priority: _Optional[int] = ..., budget: _Optional[_Union[Budget, _Mapping]] = ..., step_retry: _Optional[_Union[RetryPolicy, _Mapping]] = ..., step_timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., start_delay: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., parent_run_id: _Optional[str] = ..., parent_version: _Optional[int] = ..., family_id: _Optional[str] = ..., no_progress_limit: _Optional[int] = ..., worker_version: _Optional[_Union[WorkerVersion, _Mapping]] = ..., child_of: _Optional[_Union[ChildOf, _Mapping]] = ..., thread_id: _Optional[str] = ...) -> None: ...

class ChildOf(_message.Message):
    __slots__ = ("run_id", "task_id", "question_id", "root_run_id", "depth")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    QUESTION_ID_FIELD_NUMBER: _ClassVar[int]
    ROOT_RUN_ID_FIELD_NUMBER: _ClassVar[int]
    DEPTH_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    task_id: str
    question_id: str
    root_run_id: str
    depth: int
    def __init__(self, run_id: _Optional[str] = ..., task_id: _Optional[str] = ..., question_id: _Optional[str] = ..., root_run_id: _Optional[str] = ..., depth: _Optional[int] = ...) -> None: ...

class Counts(_message.Message):
    __slots__ = ("total", "completed", "failed", "skipped", "cancelled")
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    total: int
    completed: int
    failed: int
    skipped: int
    cancelled: int
    def __init__(self, total: _Optional[int] = ..., completed: _Optional[int] = ..., failed: _Optional[int] = ..., skipped: _Optional[int] = ..., cancelled: _Optional[int] = ...) -> None: ...

class AttemptCounts(_message.Message):
    __slots__ = ("completed", "failed", "timed_out", "lost", "released", "cancelled", "needs_answer", "suspended")
    COMPLETED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    TIMED_OUT_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    RELEASED_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    NEEDS_ANSWER_FIELD_NUMBER: _ClassVar[int]
    SUSPENDED_FIELD_NUMBER: _ClassVar[int]
    completed: int
    failed: int
    timed_out: int
    lost: int
    released: int
    cancelled: int
    needs_answer: int
    suspended: int
    def __init__(self, completed: _Optional[int] = ..., failed: _Optional[int] = ..., timed_out: _Optional[int] = ..., lost: _Optional[int] = ..., released: _Optional[int] = ..., cancelled: _Optional[int] = ..., needs_answer: _Optional[int] = ..., suspended: _Optional[int] = ...) -> None: ...

class WaitingStep(_message.Message):
    __slots__ = ("queue", "kind", "type", "role", "worker_version", "alone")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    WORKER_VERSION_FIELD_NUMBER: _ClassVar[int]
    ALONE_FIELD_NUMBER: _ClassVar[int]
    queue: str
    kind: StepKind
    type: str
    role: str
    worker_version: WorkerVersion
    alone: bool
    def __init__(self, queue: _Optional[str] = ..., kind: _Optional[_Union[StepKind, str]] = ..., type: _Optional[str] = ..., role: _Optional[str] = ..., worker_version: _Optional[_Union[WorkerVersion, _Mapping]] = ..., alone: bool = ...) -> None: ...

class Run(_message.Message):
    __slots__ = ("spec", "version", "last_event", "status", "phase", "iteration", "plan_revision", "stages", "step_attempt", "counts", "usage", "budget", "blocked_on", "blocked_since_time", "pause_reason", "finish_reason", "reason", "failure", "result_id", "created_time", "started_time", "ended_time", "attempts", "tasks_used", "iterations_before", "stopping", "actor", "on_behalf_of", "waiting_for", "blocked_run_id", "step_waits", "children")
    SPEC_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    LAST_EVENT_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    ITERATION_FIELD_NUMBER: _ClassVar[int]
    PLAN_REVISION_FIELD_NUMBER: _ClassVar[int]
    STAGES_FIELD_NUMBER: _ClassVar[int]
    STEP_ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    BUDGET_FIELD_NUMBER: _ClassVar[int]
    BLOCKED_ON_FIELD_NUMBER: _ClassVar[int]
    BLOCKED_SINCE_TIME_FIELD_NUMBER: _ClassVar[int]
    PAUSE_REASON_FIELD_NUMBER: _ClassVar[int]
    FINISH_REASON_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    RESULT_ID_FIELD_NUMBER: _ClassVar[int]
    CREATED_TIME_FIELD_NUMBER: _ClassVar[int]
    STARTED_TIME_FIELD_NUMBER: _ClassVar[int]
    ENDED_TIME_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    TASKS_USED_FIELD_NUMBER: _ClassVar[int]
    ITERATIONS_BEFORE_FIELD_NUMBER: _ClassVar[int]
    STOPPING_FIELD_NUMBER: _ClassVar[int]
    ACTOR_FIELD_NUMBER: _ClassVar[int]
    ON_BEHALF_OF_FIELD_NUMBER: _ClassVar[int]
    WAITING_FOR_FIELD_NUMBER: _ClassVar[int]
    BLOCKED_RUN_ID_FIELD_NUMBER: _ClassVar[int]
    STEP_WAITS_FIELD_NUMBER: _ClassVar[int]
    CHILDREN_FIELD_NUMBER: _ClassVar[int]
    spec: RunSpec
    version: int
    last_event: int
    status: RunStatus
    phase: Phase
    iteration: int
    plan_revision: int
    stages: _containers.RepeatedScalarFieldContainer[StepKind]
    step_attempt: int
    counts: Counts
    usage: Usage
    budget: Budget
    blocked_on: BlockedKind
    blocked_since_time: _timestamp_pb2.Timestamp
    pause_reason: PauseReason
    finish_reason: FinishReason
    reason: str
    failure: Failure
    result_id: str
    created_time: _timestamp_pb2.Timestamp
    started_time: _timestamp_pb2.Timestamp
    ended_time: _timestamp_pb2.Timestamp
    attempts: AttemptCounts
    tasks_used: int
    iterations_before: int
    stopping: bool
    actor: str
    on_behalf_of: str
    waiting_for: WaitingStep
    blocked_run_id: str
    step_waits: _containers.RepeatedCompositeFieldContainer[Wait]
    children: int
    def __init__(self, spec: _Optional[_Union[RunSpec, _Mapping]] = ..., version: _Optional[int] = ..., last_event: _Optional[int] = ..., status: _Optional[_Union[RunStatus, str]] = ..., phase: _Optional[_Union[Phase, str]] = ..., iteration: _Optional[int] = ..., plan_revision: _Optional[int] = ..., stages: _Optional[_Iterable[_Union[StepKind, str]]] = ..., step_attempt: _Optional[int] = ..., counts: _Optional[_Union[Counts, _Mapping]] = ..., usage: _Optional[_Union[Usage, _Mapping]] = ..., budget: _Optional[_Union[Budget, _Mapping]] = ..., blocked_on: _Optional[_Union[BlockedKind, str]] = ..., blocked_since_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., pause_reason: _Optional[_Union[PauseReason, str]] = ..., finish_reason: _Optional[_Union[FinishReason, str]] = ..., reason: _Optional[str] = ..., failure: _Optional[_Union[Failure, _Mapping]] = ..., result_id: _Optional[str] = ..., created_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., started_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., ended_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., attempts: _Optional[_Union[AttemptCounts, _Mapping]] = ..., tasks_used: _Optional[int] = ..., iterations_before: _Optional[int] = ..., stopping: bool = ..., actor: _Optional[str] = ..., on_behalf_of: _Optional[str] = ..., waiting_for: _Optional[_Union[WaitingStep, _Mapping]] = ..., blocked_run_id: _Optional[str] = ..., step_waits: _Optional[_Iterable[_Union[Wait, _Mapping]]] = ..., children: _Optional[int] = ...) -> None: ...

class Task(_message.Message):
    __slots__ = ("task_id", "revision", "status", "attempts", "result_id", "failure", "question_id", "started_time", "ended_time", "result_run_id", "deduplicated_from", "messages", "key_run_id", "progress", "journal_entries", "waits")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    RESULT_ID_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    QUESTION_ID_FIELD_NUMBER: _ClassVar[int]
    STARTED_TIME_FIELD_NUMBER: _ClassVar[int]
    ENDED_TIME_FIELD_NUMBER: _ClassVar[int]
    RESULT_RUN_ID_FIELD_NUMBER: _ClassVar[int]
    DEDUPLICATED_FROM_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    KEY_RUN_ID_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    JOURNAL_ENTRIES_FIELD_NUMBER: _ClassVar[int]
    WAITS_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    revision: int
    status: TaskStatus
    attempts: int
    result_id: str
    failure: Failure
    question_id: str
    started_time: _timestamp_pb2.Timestamp
    ended_time: _timestamp_pb2.Timestamp
    result_run_id: str
    deduplicated_from: str
    messages: int
    key_run_id: str
    progress: Payload
    journal_entries: int
    waits: _containers.RepeatedCompositeFieldContainer[Wait]
    def __init__(self, task_id: _Optional[str] = ..., revision: _Optional[int] = ..., status: _Optional[_Union[TaskStatus, str]] = ..., attempts: _Optional[int] = ..., result_id: _Optional[str] = ..., failure: _Optional[_Union[Failure, _Mapping]] = ..., question_id: _Optional[str] = ..., started_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., ended_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., result_run_id: _Optional[str] = ..., deduplicated_from: _Optional[str] = ..., messages: _Optional[int] = ..., key_run_id: _Optional[str] = ..., progress: _Optional[_Union[Payload, _Mapping]] = ..., journal_entries: _Optional[int] = ..., waits: _Optional[_Iterable[_Union[Wait, _Mapping]]] = ...) -> None: ...

class Execution(_message.Message):
    __slots__ = ("execution_id", "kind", "task_id", "iteration", "attempt", "queue", "role", "priority", "status", "delay", "worker_id", "begun", "failure", "usage", "session", "has_result", "offered_time", "leased_time", "ended_time", "messages_after", "messages", "unknown_time", "type", "journal_entries", "unknown_call")
    EXECUTION_ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    ITERATION_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    DELAY_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    BEGUN_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    HAS_RESULT_FIELD_NUMBER: _ClassVar[int]
    OFFERED_TIME_FIELD_NUMBER: _ClassVar[int]
    LEASED_TIME_FIELD_NUMBER: _ClassVar[int]
    ENDED_TIME_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_AFTER_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_TIME_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    JOURNAL_ENTRIES_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_CALL_FIELD_NUMBER: _ClassVar[int]
    execution_id: str
    kind: StepKind
    task_id: str
    iteration: int
    attempt: int
    queue: str
    role: str
    priority: int
    status: ExecutionStatus
    delay: _duration_pb2.Duration
    worker_id: str
    begun: bool
    failure: Failure
    usage: Usage
    session: Session
    has_result: bool
    offered_time: _timestamp_pb2.Timestamp
    leased_time: _timestamp_pb2.Timestamp
    ended_time: _timestamp_pb2.Timestamp
    messages_after: int
    messages: int
    unknown_time: _timestamp_pb2.Timestamp
    type: str
    journal_entries: int
    unknown_call: str
    def __init__(self, execution_id: _Optional[str] = ..., kind: _Optional[_Union[StepKind, str]] = ..., task_id: _Optional[str] = ..., iteration: _Optional[int] = ..., attempt: _Optional[int] = ..., queue: _Optional[str] = ..., role: _Optional[str] = ..., priority: _Optional[int] = ..., status: _Optional[_Union[ExecutionStatus, str]] = ..., delay: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., worker_id: _Optional[str] = ..., begun: bool = ..., failure: _Optional[_Union[Failure, _Mapping]] = ..., usage: _Optional[_Union[Usage, _Mapping]] = ..., session: _Optional[_Union[Session, _Mapping]] = ..., has_result: bool = ..., offered_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., leased_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., ended_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., messages_after: _Optional[int] = ..., messages: _Optional[int] = ..., unknown_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., type: _Optional[str] = ..., journal_entries: _Optional[int] = ..., unknown_call: _Optional[str] = ...) -> None: ...

class Question(_message.Message):
    __slots__ = ("question_id", "task_id", "execution_id", "kind", "prompt", "schema", "choices", "status", "expires", "on_expiry", "answer", "answered_by", "created_time", "ended_time", "call", "arguments", "leave", "budget", "follow_pauses")
    QUESTION_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    CHOICES_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_FIELD_NUMBER: _ClassVar[int]
    ON_EXPIRY_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    ANSWERED_BY_FIELD_NUMBER: _ClassVar[int]
    CREATED_TIME_FIELD_NUMBER: _ClassVar[int]
    ENDED_TIME_FIELD_NUMBER: _ClassVar[int]
    CALL_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    LEAVE_FIELD_NUMBER: _ClassVar[int]
    BUDGET_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_PAUSES_FIELD_NUMBER: _ClassVar[int]
    question_id: str
    task_id: str
    execution_id: str
    kind: QuestionKind
    prompt: str
    schema: str
    choices: _containers.RepeatedScalarFieldContainer[str]
    status: QuestionStatus
    expires: _duration_pb2.Duration
    on_expiry: ExpiryAction
    answer: Payload
    answered_by: str
    created_time: _timestamp_pb2.Timestamp
    ended_time: _timestamp_pb2.Timestamp
    call: str
    arguments: str
    leave: bool
    budget: Budget
    follow_pauses: bool
    def __init__(self, question_id: _Optional[str] = ..., task_id: _Optional[str] = ..., execution_id: _Optional[str] = ..., kind: _Optional[_Union[QuestionKind, str]] = ..., prompt: _Optional[str] = ..., schema: _Optional[str] = ..., choices: _Optional[_Iterable[str]] = ..., status: _Optional[_Union[QuestionStatus, str]] = ..., expires: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., on_expiry: _Optional[_Union[ExpiryAction, str]] = ..., answer: _Optional[_Union[Payload, _Mapping]] = ..., answered_by: _Optional[str] = ..., created_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., ended_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., call: _Optional[str] = ..., arguments: _Optional[str] = ..., leave: bool = ..., budget: _Optional[_Union[Budget, _Mapping]] = ..., follow_pauses: bool = ...) -> None: ...

class JournalEntry(_message.Message):
    __slots__ = ("key", "mark", "number", "name", "arguments", "effect", "value", "failure", "attempt", "usage", "messages", "took", "sleep")
    KEY_FIELD_NUMBER: _ClassVar[int]
    MARK_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    EFFECT_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    TOOK_FIELD_NUMBER: _ClassVar[int]
    SLEEP_FIELD_NUMBER: _ClassVar[int]
    key: str
    mark: JournalMark
    number: int
    name: str
    arguments: str
    effect: Effect
    value: Payload
    failure: Failure
    attempt: int
    usage: Usage
    messages: _containers.RepeatedCompositeFieldContainer[Message]
    took: _duration_pb2.Duration
    sleep: _duration_pb2.Duration
    def __init__(self, key: _Optional[str] = ..., mark: _Optional[_Union[JournalMark, str]] = ..., number: _Optional[int] = ..., name: _Optional[str] = ..., arguments: _Optional[str] = ..., effect: _Optional[_Union[Effect, str]] = ..., value: _Optional[_Union[Payload, _Mapping]] = ..., failure: _Optional[_Union[Failure, _Mapping]] = ..., attempt: _Optional[int] = ..., usage: _Optional[_Union[Usage, _Mapping]] = ..., messages: _Optional[_Iterable[_Union[Message, _Mapping]]] = ..., took: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., sleep: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class KeptSignal(_message.Message):
    __slots__ = ("number", "name", "value", "size", "actor", "on_behalf_of", "sent_time")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    ACTOR_FIELD_NUMBER: _ClassVar[int]
    ON_BEHALF_OF_FIELD_NUMBER: _ClassVar[int]
    SENT_TIME_FIELD_NUMBER: _ClassVar[int]
    number: int
    name: str
    value: Payload
    size: int
    actor: str
    on_behalf_of: str
    sent_time: _timestamp_pb2.Timestamp
    def __init__(self, number: _Optional[int] = ..., name: _Optional[str] = ..., value: _Optional[_Union[Payload, _Mapping]] = ..., size: _Optional[int] = ..., actor: _Optional[str] = ..., on_behalf_of: _Optional[str] = ..., sent_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class Thread(_message.Message):
    __slots__ = ("thread_id", "working_run_id", "waiting", "messages", "messages_bytes", "state_version", "state", "starts", "created_time", "forked_from", "forked_at", "labels")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    THREAD_ID_FIELD_NUMBER: _ClassVar[int]
    WORKING_RUN_ID_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_BYTES_FIELD_NUMBER: _ClassVar[int]
    STATE_VERSION_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    STARTS_FIELD_NUMBER: _ClassVar[int]
    CREATED_TIME_FIELD_NUMBER: _ClassVar[int]
    FORKED_FROM_FIELD_NUMBER: _ClassVar[int]
    FORKED_AT_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    thread_id: str
    working_run_id: str
    waiting: int
    messages: int
    messages_bytes: int
    state_version: int
    state: Payload
    starts: int
    created_time: _timestamp_pb2.Timestamp
    forked_from: str
    forked_at: int
    labels: _containers.ScalarMap[str, str]
    def __init__(self, thread_id: _Optional[str] = ..., working_run_id: _Optional[str] = ..., waiting: _Optional[int] = ..., messages: _Optional[int] = ..., messages_bytes: _Optional[int] = ..., state_version: _Optional[int] = ..., state: _Optional[_Union[Payload, _Mapping]] = ..., starts: _Optional[int] = ..., created_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., forked_from: _Optional[str] = ..., forked_at: _Optional[int] = ..., labels: _Optional[_Mapping[str, str]] = ...) -> None: ...

class ThreadMessage(_message.Message):
    __slots__ = ("number", "role", "content", "run_id", "time")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    number: int
    role: str
    content: Payload
    run_id: str
    time: _timestamp_pb2.Timestamp
    def __init__(self, number: _Optional[int] = ..., role: _Optional[str] = ..., content: _Optional[_Union[Payload, _Mapping]] = ..., run_id: _Optional[str] = ..., time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ThreadMessageDraft(_message.Message):
    __slots__ = ("role", "content")
    ROLE_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    role: str
    content: Payload
    def __init__(self, role: _Optional[str] = ..., content: _Optional[_Union[Payload, _Mapping]] = ...) -> None: ...

class StoredEntry(_message.Message):
    __slots__ = ("entry", "journal", "generation", "execution_id", "version", "written_time", "until_time", "size")
    ENTRY_FIELD_NUMBER: _ClassVar[int]
    JOURNAL_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    WRITTEN_TIME_FIELD_NUMBER: _ClassVar[int]
    UNTIL_TIME_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    entry: JournalEntry
    journal: str
    generation: int
    execution_id: str
    version: int
    written_time: _timestamp_pb2.Timestamp
    until_time: _timestamp_pb2.Timestamp
    size: int
    def __init__(self, entry: _Optional[_Union[JournalEntry, _Mapping]] = ..., journal: _Optional[str] = ..., generation: _Optional[int] = ..., execution_id: _Optional[str] = ..., version: _Optional[int] = ..., written_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., until_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., size: _Optional[int] = ...) -> None: ...

class Wait(_message.Message):
    __slots__ = ("call", "kind", "question_id")
    CALL_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    QUESTION_ID_FIELD_NUMBER: _ClassVar[int]
    call: str
    kind: WaitKind
    question_id: str
    def __init__(self, call: _Optional[str] = ..., kind: _Optional[_Union[WaitKind, str]] = ..., question_id: _Optional[str] = ...) -> None: ...

class Waits(_message.Message):
    __slots__ = ("waits",)
    WAITS_FIELD_NUMBER: _ClassVar[int]
    waits: _containers.RepeatedCompositeFieldContainer[Wait]
    def __init__(self, waits: _Optional[_Iterable[_Union[Wait, _Mapping]]] = ...) -> None: ...

class Message(_message.Message):
    __slots__ = ("role", "content", "task_id", "execution_id", "session", "number")
    ROLE_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    role: str
    content: str
    task_id: str
    execution_id: str
    session: Session
    number: int
    def __init__(self, role: _Optional[str] = ..., content: _Optional[str] = ..., task_id: _Optional[str] = ..., execution_id: _Optional[str] = ..., session: _Optional[_Union[Session, _Mapping]] = ..., number: _Optional[int] = ...) -> None: ...

class LogEntry(_message.Message):
    __slots__ = ("execution_id", "text", "level", "written_time", "kind")
    EXECUTION_ID_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    WRITTEN_TIME_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    execution_id: str
    text: str
    level: str
    written_time: _timestamp_pb2.Timestamp
    kind: LogKind
    def __init__(self, execution_id: _Optional[str] = ..., text: _Optional[str] = ..., level: _Optional[str] = ..., written_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., kind: _Optional[_Union[LogKind, str]] = ...) -> None: ...

class Stages(_message.Message):
    __slots__ = ("stages",)
    STAGES_FIELD_NUMBER: _ClassVar[int]
    stages: _containers.RepeatedScalarFieldContainer[StepKind]
    def __init__(self, stages: _Optional[_Iterable[_Union[StepKind, str]]] = ...) -> None: ...

class RunChange(_message.Message):
    __slots__ = ("status", "phase", "iteration", "plan_revision", "stages", "step_attempt", "counts", "usage", "budget", "blocked_on", "blocked_since_time", "pause_reason", "finish_reason", "reason", "failure", "result_id", "created_time", "started_time", "ended_time", "attempts", "tasks_used", "iterations_before", "stopping", "actor", "on_behalf_of", "blocked_run_id", "step_waits", "children")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    ITERATION_FIELD_NUMBER: _ClassVar[int]
    PLAN_REVISION_FIELD_NUMBER: _ClassVar[int]
    STAGES_FIELD_NUMBER: _ClassVar[int]
    STEP_ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    BUDGET_FIELD_NUMBER: _ClassVar[int]
    BLOCKED_ON_FIELD_NUMBER: _ClassVar[int]
    BLOCKED_SINCE_TIME_FIELD_NUMBER: _ClassVar[int]
    PAUSE_REASON_FIELD_NUMBER: _ClassVar[int]
    FINISH_REASON_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    RESULT_ID_FIELD_NUMBER: _ClassVar[int]
    CREATED_TIME_FIELD_NUMBER: _ClassVar[int]
    STARTED_TIME_FIELD_NUMBER: _ClassVar[int]
    ENDED_TIME_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    TASKS_USED_FIELD_NUMBER: _ClassVar[int]
    ITERATIONS_BEFORE_FIELD_NUMBER: _ClassVar[int]
    STOPPING_FIELD_NUMBER: _ClassVar[int]
    ACTOR_FIELD_NUMBER: _ClassVar[int]
    ON_BEHALF_OF_FIELD_NUMBER: _ClassVar[int]
    BLOCKED_RUN_ID_FIELD_NUMBER: _ClassVar[int]
    STEP_WAITS_FIELD_NUMBER: _ClassVar[int]
    CHILDREN_FIELD_NUMBER: _ClassVar[int]
    status: RunStatus
    phase: Phase
    iteration: int
    plan_revision: int
    stages: Stages
    step_attempt: int
    counts: Counts
    usage: Usage
    budget: Budget
    blocked_on: BlockedKind
    blocked_since_time: _timestamp_pb2.Timestamp
    pause_reason: PauseReason
    finish_reason: FinishReason
    reason: str
    failure: Failure
    result_id: str
    created_time: _timestamp_pb2.Timestamp
    started_time: _timestamp_pb2.Timestamp
    ended_time: _timestamp_pb2.Timestamp
    attempts: AttemptCounts
    tasks_used: int
    iterations_before: int
    stopping: bool
    actor: str
    on_behalf_of: str
    blocked_run_id: str
    step_waits: Waits
    children: int
    def __init__(self, status: _Optional[_Union[RunStatus, str]] = ..., phase: _Optional[_Union[Phase, str]] = ..., iteration: _Optional[int] = ..., plan_revision: _Optional[int] = ..., stages: _Optional[_Union[Stages, _Mapping]] = ..., step_attempt: _Optional[int] = ..., counts: _Optional[_Union[Counts, _Mapping]] = ..., usage: _Optional[_Union[Usage, _Mapping]] = ..., budget: _Optional[_Union[Budget, _Mapping]] = ..., blocked_on: _Optional[_Union[BlockedKind, str]] = ..., blocked_since_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., pause_reason: _Optional[_Union[PauseReason, str]] = ..., finish_reason: _Optional[_Union[FinishReason, str]] = ..., reason: _Optional[str] = ..., failure: _Optional[_Union[Failure, _Mapping]] = ..., result_id: _Optional[str] = ..., created_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., started_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., ended_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., attempts: _Optional[_Union[AttemptCounts, _Mapping]] = ..., tasks_used: _Optional[int] = ..., iterations_before: _Optional[int] = ..., stopping: bool = ..., actor: _Optional[str] = ..., on_behalf_of: _Optional[str] = ..., blocked_run_id: _Optional[str] = ..., step_waits: _Optional[_Union[Waits, _Mapping]] = ..., children: _Optional[int] = ...) -> None: ...

class TaskChange(_message.Message):
    __slots__ = ("task_id", "revision", "status", "attempts", "result_id", "failure", "question_id", "started_time", "ended_time", "result_run_id", "deduplicated_from", "messages", "key_run_id", "journal_entries", "waits")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    RESULT_ID_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    QUESTION_ID_FIELD_NUMBER: _ClassVar[int]
    STARTED_TIME_FIELD_NUMBER: _ClassVar[int]
    ENDED_TIME_FIELD_NUMBER: _ClassVar[int]
    RESULT_RUN_ID_FIELD_NUMBER: _ClassVar[int]
    DEDUPLICATED_FROM_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    KEY_RUN_ID_FIELD_NUMBER: _ClassVar[int]
    JOURNAL_ENTRIES_FIELD_NUMBER: _ClassVar[int]
    WAITS_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    revision: int
    status: TaskStatus
    attempts: int
    result_id: str
    failure: Failure
    question_id: str
    started_time: _timestamp_pb2.Timestamp
    ended_time: _timestamp_pb2.Timestamp
    result_run_id: str
    deduplicated_from: str
    messages: int
    key_run_id: str
    journal_entries: int
    waits: Waits
    def __init__(self, task_id: _Optional[str] = ..., revision: _Optional[int] = ..., status: _Optional[_Union[TaskStatus, str]] = ..., attempts: _Optional[int] = ..., result_id: _Optional[str] = ..., failure: _Optional[_Union[Failure, _Mapping]] = ..., question_id: _Optional[str] = ..., started_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., ended_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., result_run_id: _Optional[str] = ..., deduplicated_from: _Optional[str] = ..., messages: _Optional[int] = ..., key_run_id: _Optional[str] = ..., journal_entries: _Optional[int] = ..., waits: _Optional[_Union[Waits, _Mapping]] = ...) -> None: ...

class ExecutionChange(_message.Message):
    __slots__ = ("execution_id", "kind", "task_id", "iteration", "attempt", "queue", "role", "priority", "status", "delay", "worker_id", "begun", "failure", "usage", "session", "has_result", "offered_time", "leased_time", "ended_time", "messages_after", "messages", "unknown_time", "type", "journal_entries", "unknown_call")
    EXECUTION_ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    ITERATION_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    DELAY_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    BEGUN_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    HAS_RESULT_FIELD_NUMBER: _ClassVar[int]
    OFFERED_TIME_FIELD_NUMBER: _ClassVar[int]
    LEASED_TIME_FIELD_NUMBER: _ClassVar[int]
    ENDED_TIME_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_AFTER_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_TIME_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    JOURNAL_ENTRIES_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_CALL_FIELD_NUMBER: _ClassVar[int]
    execution_id: str
    kind: StepKind
    task_id: str
    iteration: int
    attempt: int
    queue: str
    role: str
    priority: int
    status: ExecutionStatus
    delay: _duration_pb2.Duration
    worker_id: str
    begun: bool
    failure: Failure
    usage: Usage
    session: Session
    has_result: bool
    offered_time: _timestamp_pb2.Timestamp
    leased_time: _timestamp_pb2.Timestamp
    ended_time: _timestamp_pb2.Timestamp
    messages_after: int
    messages: int
    unknown_time: _timestamp_pb2.Timestamp
    type: str
    journal_entries: int
    unknown_call: str
    def __init__(self, execution_id: _Optional[str] = ..., kind: _Optional[_Union[StepKind, str]] = ..., task_id: _Optional[str] = ..., iteration: _Optional[int] = ..., attempt: _Optional[int] = ..., queue: _Optional[str] = ..., role: _Optional[str] = ..., priority: _Optional[int] = ..., status: _Optional[_Union[ExecutionStatus, str]] = ..., delay: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., worker_id: _Optional[str] = ..., begun: bool = ..., failure: _Optional[_Union[Failure, _Mapping]] = ..., usage: _Optional[_Union[Usage, _Mapping]] = ..., session: _Optional[_Union[Session, _Mapping]] = ..., has_result: bool = ..., offered_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., leased_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., ended_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., messages_after: _Optional[int] = ..., messages: _Optional[int] = ..., unknown_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., type: _Optional[str] = ..., journal_entries: _Optional[int] = ..., unknown_call: _Optional[str] = ...) -> None: ...

class Event(_message.Message):
    __slots__ = ("number", "version", "type", "time", "task_id", "execution_id", "question_id", "message", "run", "tasks", "executions", "questions", "plan_revision", "actor", "on_behalf_of")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_ID_FIELD_NUMBER: _ClassVar[int]
    QUESTION_ID_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    EXECUTIONS_FIELD_NUMBER: _ClassVar[int]
    QUESTIONS_FIELD_NUMBER: _ClassVar[int]
    PLAN_REVISION_FIELD_NUMBER: _ClassVar[int]
    ACTOR_FIELD_NUMBER: _ClassVar[int]
    ON_BEHALF_OF_FIELD_NUMBER: _ClassVar[int]
    number: int
    version: int
    type: EventType
    time: _timestamp_pb2.Timestamp
    task_id: str
    execution_id: str
    question_id: str
    message: str
    run: RunChange
    tasks: _containers.RepeatedCompositeFieldContainer[TaskChange]
    executions: _containers.RepeatedCompositeFieldContainer[ExecutionChange]
    questions: _containers.RepeatedCompositeFieldContainer[Question]
    plan_revision: int
    actor: str
    on_behalf_of: str
    def __init__(self, number: _Optional[int] = ..., version: _Optional[int] = ..., type: _Optional[_Union[EventType, str]] = ..., time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., task_id: _Optional[str] = ..., execution_id: _Optional[str] = ..., question_id: _Optional[str] = ..., message: _Optional[str] = ..., run: _Optional[_Union[RunChange, _Mapping]] = ..., tasks: _Optional[_Iterable[_Union[TaskChange, _Mapping]]] = ..., executions: _Optional[_Iterable[_Union[ExecutionChange, _Mapping]]] = ..., questions: _Optional[_Iterable[_Union[Question, _Mapping]]] = ..., plan_revision: _Optional[int] = ..., actor: _Optional[str] = ..., on_behalf_of: _Optional[str] = ...) -> None: ...

class StoreInfo(_message.Message):
    __slots__ = ("driver", "durability", "detail", "schema_version", "store_id")
    DRIVER_FIELD_NUMBER: _ClassVar[int]
    DURABILITY_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_VERSION_FIELD_NUMBER: _ClassVar[int]
    STORE_ID_FIELD_NUMBER: _ClassVar[int]
    driver: str
    durability: Durability
    detail: str
    schema_version: str
    store_id: str
    def __init__(self, driver: _Optional[str] = ..., durability: _Optional[_Union[Durability, str]] = ..., detail: _Optional[str] = ..., schema_version: _Optional[str] = ..., store_id: _Optional[str] = ...) -> None: ...
