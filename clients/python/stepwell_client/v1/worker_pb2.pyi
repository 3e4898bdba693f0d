import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from stepwell_client.v1 import limits_pb2 as _limits_pb2
from stepwell_client.v1 import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class LeaseStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LEASE_STATUS_UNSPECIFIED: _ClassVar[LeaseStatus]
    LEASE_STATUS_LIVE: _ClassVar[LeaseStatus]
    LEASE_STATUS_LOST: _ClassVar[LeaseStatus]

class AckStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ACK_STATUS_UNSPECIFIED: _ClassVar[AckStatus]
    ACK_STATUS_ACCEPTED: _ClassVar[AckStatus]
    ACK_STATUS_LEASE_LOST: _ClassVar[AckStatus]
    ACK_STATUS_REJECTED: _ClassVar[AckStatus]

class WorkEndReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    WORK_END_REASON_UNSPECIFIED: _ClassVar[WorkEndReason]
    WORK_END_REASON_REPLACED: _ClassVar[WorkEndReason]
    WORK_END_REASON_DRAINING: _ClassVar[WorkEndReason]

class EntryStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ENTRY_STATUS_UNSPECIFIED: _ClassVar[EntryStatus]
    ENTRY_STATUS_ACCEPTED: _ClassVar[EntryStatus]
    ENTRY_STATUS_MISMATCH: _ClassVar[EntryStatus]
    ENTRY_STATUS_REJECTED: _ClassVar[EntryStatus]
LEASE_STATUS_UNSPECIFIED: LeaseStatus
LEASE_STATUS_LIVE: LeaseStatus
LEASE_STATUS_LOST: LeaseStatus
ACK_STATUS_UNSPECIFIED: AckStatus
ACK_STATUS_ACCEPTED: AckStatus
ACK_STATUS_LEASE_LOST: AckStatus
ACK_STATUS_REJECTED: AckStatus
WORK_END_REASON_UNSPECIFIED: WorkEndReason
WORK_END_REASON_REPLACED: WorkEndReason
WORK_END_REASON_DRAINING: WorkEndReason
ENTRY_STATUS_UNSPECIFIED: EntryStatus
ENTRY_STATUS_ACCEPTED: EntryStatus
ENTRY_STATUS_MISMATCH: EntryStatus
ENTRY_STATUS_REJECTED: EntryStatus

class WorkRequest(_message.Message):
    __slots__ = ("hello", "credits", "outcomes", "begins", "draining", "journal_writes")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    CREDITS_FIELD_NUMBER: _ClassVar[int]
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    BEGINS_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    JOURNAL_WRITES_FIELD_NUMBER: _ClassVar[int]
    hello: Hello
    credits: int
    outcomes: _containers.RepeatedCompositeFieldContainer[Outcome]
    begins: _containers.RepeatedCompositeFieldContainer[Begin]
    draining: bool
    journal_writes: _containers.RepeatedCompositeFieldContainer[JournalWrite]
    def __init__(self, hello: _Optional[_Union[Hello, _Mapping]] = ..., credits: _Optional[int] = ..., outcomes: _Optional[_Iterable[_Union[Outcome, _Mapping]]] = ..., begins: _Optional[_Iterable[_Union[Begin, _Mapping]]] = ..., draining: bool = ..., journal_writes: _Optional[_Iterable[_Union[JournalWrite, _Mapping]]] = ...) -> None: ...

class WorkResponse(_message.Message):
    __slots__ = ("welcome", "assignments", "cancellations", "acks", "end", "journal_acks", "ended_calls")
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    ASSIGNMENTS_FIELD_NUMBER: _ClassVar[int]
    CANCELLATIONS_FIELD_NUMBER: _ClassVar[int]
    ACKS_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    JOURNAL_ACKS_FIELD_NUMBER: _ClassVar[int]
    ENDED_CALLS_FIELD_NUMBER: _ClassVar[int]
    welcome: Welcome
    assignments: _containers.RepeatedCompositeFieldContainer[Assignment]
    cancellations: _containers.RepeatedCompositeFieldContainer[Cancellation]
    acks: _containers.RepeatedCompositeFieldContainer[Ack]
    end: WorkEnd
    journal_acks: _containers.RepeatedCompositeFieldContainer[JournalAck]
    ended_calls: _containers.RepeatedCompositeFieldContainer[EndedCall]
    def __init__(self, welcome: _Optional[_Union[Welcome, _Mapping]] = ..., assignments: _Optional[_Iterable[_Union[Assignment, _Mapping]]] = ..., cancellations: _Optional[_Iterable[_Union[Cancellation, _Mapping]]] = ..., acks: _Optional[_Iterable[_Union[Ack, _Mapping]]] = ..., end: _Optional[_Union[WorkEnd, _Mapping]] = ..., journal_acks: _Optional[_Iterable[_Union[JournalAck, _Mapping]]] = ..., ended_calls: _Optional[_Iterable[_Union[EndedCall, _Mapping]]] = ...) -> None: ...

class EndedCall(_message.Message):
    __slots__ = ("lease", "entry")
    LEASE_FIELD_NUMBER: _ClassVar[int]
    ENTRY_FIELD_NUMBER: _ClassVar[int]
    lease: Lease
    entry: _types_pb2.JournalEntry
    def __init__(self, lease: _Optional[_Union[Lease, _Mapping]] = ..., entry: _Optional[_Union[_types_pb2.JournalEntry, _Mapping]] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("worker_id", "instance_id", "queues", "tasks", "kinds", "stages", "held", "version", "input_schema", "protocol_revision", "features")
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    STAGES_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    INPUT_SCHEMA_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_REVISION_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    worker_id: str
    instance_id: str
    queues: _containers.RepeatedScalarFieldContainer[str]
    tasks: _containers.RepeatedCompositeFieldContainer[_types_pb2.TaskPattern]
    kinds: _containers.RepeatedScalarFieldContainer[_types_pb2.StepKind]
    stages: _containers.RepeatedScalarFieldContainer[_types_pb2.StepKind]
    held: _containers.RepeatedCompositeFieldContainer[Lease]
    version: str
    input_schema: str
    protocol_revision: int
    features: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, worker_id: _Optional[str] = ..., instance_id: _Optional[str] = ..., queues: _Optional[_Iterable[str]] = ..., tasks: _Optional[_Iterable[_Union[_types_pb2.TaskPattern, _Mapping]]] = ..., kinds: _Optional[_Iterable[_Union[_types_pb2.StepKind, str]]] = ..., stages: _Optional[_Iterable[_Union[_types_pb2.StepKind, str]]] = ..., held: _Optional[_Iterable[_Union[Lease, _Mapping]]] = ..., version: _Optional[str] = ..., input_schema: _Optional[str] = ..., protocol_revision: _Optional[int] = ..., features: _Optional[_Iterable[str]] = ...) -> None: ...

class Lease(_message.Message):
    __slots__ = ("run_id", "execution_id", "token")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_ID_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    execution_id: str
    token: str
    def __init__(self, run_id: _Optional[str] = ..., execution_id: _Optional[str] = ..., token: _Optional[str] = ...) -> None: ...

class Welcome(_message.Message):
    __slots__ = ("lease_duration", "heartbeat_interval", "server_version", "replica_id", "held", "protocol_revision", "features")
    LEASE_DURATION_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_INTERVAL_FIELD_NUMBER: _ClassVar[int]
    SERVER_VERSION_FIELD_NUMBER: _ClassVar[int]
    REPLICA_ID_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_REVISION_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    lease_duration: _duration_pb2.Duration
    heartbeat_interval: _duration_pb2.Duration
    server_version: str
    replica_id: str
    held: _containers.RepeatedCompositeFieldContainer[LeaseState]
    protocol_revision: int
    features: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, lease_duration: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., heartbeat_interval: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., server_version: _Optional[str] = ..., replica_id: _Optional[str] = ..., held: _Optional[_Iterable[_Union[LeaseState, _Mapping]]] = ..., protocol_revision: _Optional[int] = ..., features: _Optional[_Iterable[str]] = ...) -> None: ...

class LeaseState(_message.Message):
    __slots__ = ("lease", "status", "cancel_requested")
    LEASE_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    CANCEL_REQUESTED_FIELD_NUMBER: _ClassVar[int]
    lease: Lease
    status: LeaseStatus
    cancel_requested: bool
    def __init__(self, lease: _Optional[_Union[Lease, _Mapping]] = ..., status: _Optional[_Union[LeaseStatus, str]] = ..., cancel_requested: bool = ...) -> None: ...

class Assignment(_message.Message):
    __slots__ = ("run", "execution", "lease", "task", "run_input", "results", "lease_duration", "limit", "previous_progress", "previous_session", "previous_failure", "answer", "idempotency_key", "remaining_budget", "previous_messages", "conversation", "answered", "unknown_execution_id", "results_before", "journal", "tries_from", "signals", "more_signals")
    RUN_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    RUN_INPUT_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    LEASE_DURATION_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_PROGRESS_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_SESSION_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_FAILURE_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    IDEMPOTENCY_KEY_FIELD_NUMBER: _ClassVar[int]
    REMAINING_BUDGET_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_FIELD_NUMBER: _ClassVar[int]
    ANSWERED_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_EXECUTION_ID_FIELD_NUMBER: _ClassVar[int]
    RESULTS_BEFORE_FIELD_NUMBER: _ClassVar[int]
    JOURNAL_FIELD_NUMBER: _ClassVar[int]
    TRIES_FROM_FIELD_NUMBER: _ClassVar[int]
    SIGNALS_FIELD_NUMBER: _ClassVar[int]
    MORE_SIGNALS_FIELD_NUMBER: _ClassVar[int]
    run: AssignedRun
    execution: AssignedExecution
    lease: Lease
    task: _types_pb2.TaskSpec
    run_input: _types_pb2.Payload
    results: _containers.RepeatedCompositeFieldContainer[DependencyResult]
    lease_duration: _duration_pb2.Duration
    limit: _duration_pb2.Duration
    previous_progress: _types_pb2.Payload
    previous_session: _types_pb2.Session
    previous_failure: _types_pb2.Failure
    answer: _types_pb2.Payload
    idempotency_key: str
    remaining_budget: _types_pb2.Budget
    previous_messages: _containers.RepeatedCompositeFieldContainer[_types_pb2.Message]
    conversation: int
    answered: _types_pb2.Question
    unknown_execution_id: str
    results_before: int
    journal: JournalPage
    tries_from: int
    signals: _containers.RepeatedCompositeFieldContainer[_types_pb2.KeptSignal]
    more_signals: bool
    def __init__(self, run: _Optional[_Union[AssignedRun, _Mapping]] = ..., execution: _Optional[_Union[AssignedExecution, _Mapping]] = ..., lease: _Optional[_Union[Lease, _Mapping]] = ..., task: _Optional[_Union[_types_pb2.TaskSpec, _Mapping]] = ..., run_input: _Optional[_Union[_types_pb2.Payload, _Mapping]] = ..., results: _Optional[_Iterable[_Union[DependencyResult, _Mapping]]] = ..., lease_duration: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., limit: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., previous_progress: _Optional[_Union[_types_pb2.Payload, _Mapping]] = ..., previous_session: _Optional[_Union[_types_pb2.Session, _Mapping]] = ..., previous_failure: _Optional[_Union[_types_pb2.Failure, _Mapping]] = ..., answer: _Optional[_Union[_types_pb2.Payload, _Mapping]] = ..., idempotency_key: _Optional[str] = ..., remaining_budget: _Optional[_Union[_types_pb2.Budget, _Mapping]] = ..., previous_messages: _Optional[_Iterable[_Union[_types_pb2.Message, _Mapping]]] = ..., conversation: _Optional[int] = ..., answered: _Optional[_Union[_types_pb2.Question, _Mapping]] = ..., unknown_execution_id: _Optional[str] = ..., results_before: _Optional[int] = ..., journal: _Optional[_Union[JournalPage, _Mapping]] = ..., tries_from: _Optional[int] = ..., signals: _Optional[_Iterable[_Union[_types_pb2.KeptSignal, _Mapping]]] = ..., more_signals: bool = ...) -> None: ...

class JournalPage(_message.Message):
    __slots__ = ("entries", "next_page_token")
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    entries: _containers.RepeatedCompositeFieldContainer[HeldEntry]
    next_page_token: str
    def __init__(self, entries: _Optional[_Iterable[_Union[HeldEntry, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class HeldEntry(_message.Message):
    __slots__ = ("entry", "remaining")
    ENTRY_FIELD_NUMBER: _ClassVar[int]
    REMAINING_FIELD_NUMBER: _ClassVar[int]
    entry: _types_pb2.JournalEntry
    remaining: _duration_pb2.Duration
    def __init__(self, entry: _Optional[_Union[_types_pb2.JournalEntry, _Mapping]] = ..., remaining: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class AssignedRun(_message.Message):
    __slots__ = ("tenant_id", "run_id", "goal", "labels", "max_iterations", "iteration", "plan_revision", "reason", "thread_id")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    GOAL_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    MAX_ITERATIONS_FIELD_NUMBER: _ClassVar[int]
    ITERATION_FIELD_NUMBER: _ClassVar[int]
    PLAN_REVISION_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    THREAD_ID_FIELD_NUMBER: _ClassVar[int]
    tenant_id: str
    run_id: str
    goal: str
    labels: _containers.ScalarMap[str, str]
    max_iterations: int
    iteration: int
    plan_revision: int
    reason: str
    thread_id: str
    def __init__(self, tenant_id: _Optional[str] = ..., run_id: _Optional[str] = ..., goal: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., max_iterations: _Optional[int] = ..., iteration: _Optional[int] = ..., plan_revision: _Optional[int] = ..., reason: _Optional[str] = ..., thread_id: _Optional[str] = ...) -> None: ...

class AssignedExecution(_message.Message):
    __slots__ = ("execution_id", "kind", "task_id", "iteration", "attempt")
    EXECUTION_ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    ITERATION_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    execution_id: str
    kind: _types_pb2.StepKind
    task_id: str
    iteration: int
    attempt: int
    def __init__(self, execution_id: _Optional[str] = ..., kind: _Optional[_Union[_types_pb2.StepKind, str]] = ..., task_id: _Optional[str] = ..., iteration: _Optional[int] = ..., attempt: _Optional[int] = ...) -> None: ...

class DependencyResult(_message.Message):
    __slots__ = ("task_id", "execution_id", "payload", "by_reference", "failure", "skipped", "run_id")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_ID_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    BY_REFERENCE_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    execution_id: str
    payload: _types_pb2.Payload
    by_reference: bool
    failure: _types_pb2.Failure
    skipped: bool
    run_id: str
    def __init__(self, task_id: _Optional[str] = ..., execution_id: _Optional[str] = ..., payload: _Optional[_Union[_types_pb2.Payload, _Mapping]] = ..., by_reference: bool = ..., failure: _Optional[_Union[_types_pb2.Failure, _Mapping]] = ..., skipped: bool = ..., run_id: _Optional[str] = ...) -> None: ...

class Cancellation(_message.Message):
    __slots__ = ("lease", "reason")
    LEASE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    lease: Lease
    reason: str
    def __init__(self, lease: _Optional[_Union[Lease, _Mapping]] = ..., reason: _Optional[str] = ...) -> None: ...

class Outcome(_message.Message):
    __slots__ = ("delivery_id", "lease", "usage", "session", "prompt", "response", "messages", "planned", "completed", "reflected", "failed", "needs_answer", "released", "reconciled", "suspended", "unknown_call", "progress", "messages_after", "thread")
    class Planned(_message.Message):
        __slots__ = ("plan", "reason")
        PLAN_FIELD_NUMBER: _ClassVar[int]
        REASON_FIELD_NUMBER: _ClassVar[int]
        plan: _types_pb2.PlanDraft
        reason: str
        def __init__(self, plan: _Optional[_Union[_types_pb2.PlanDraft, _Mapping]] = ..., reason: _Optional[str] = ...) -> None: ...
    class Completed(_message.Message):
        __slots__ = ("result", "more")
        RESULT_FIELD_NUMBER: _ClassVar[int]
        MORE_FIELD_NUMBER: _ClassVar[int]
        result: _types_pb2.Payload
        more: _types_pb2.PlanDraft
        def __init__(self, result: _Optional[_Union[_types_pb2.Payload, _Mapping]] = ..., more: _Optional[_Union[_types_pb2.PlanDraft, _Mapping]] = ...) -> None: ...
    class Reflected(_message.Message):
        __slots__ = ("decision", "plan", "reason")
        DECISION_FIELD_NUMBER: _ClassVar[int]
        PLAN_FIELD_NUMBER: _ClassVar[int]
        REASON_FIELD_NUMBER: _ClassVar[int]
        decision: _types_pb2.Decision
        plan: _types_pb2.PlanDraft
        reason: str
        def __init__(self, decision: _Optional[_Union[_types_pb2.Decision, str]] = ..., plan: _Optional[_Union[_types_pb2.PlanDraft, _Mapping]] = ..., reason: _Optional[str] = ...) -> None: ...
    class Failed(_message.Message):
        __slots__ = ("failure",)
        FAILURE_FIELD_NUMBER: _ClassVar[int]
        failure: _types_pb2.Failure
        def __init__(self, failure: _Optional[_Union[_types_pb2.Failure, _Mapping]] = ...) -> None: ...
    class NeedsAnswer(_message.Message):
        __slots__ = ("kind", "prompt", "schema", "choices", "expires", "on_expiry", "token_sha256")
        KIND_FIELD_NUMBER: _ClassVar[int]
        PROMPT_FIELD_NUMBER: _ClassVar[int]
        SCHEMA_FIELD_NUMBER: _ClassVar[int]
        CHOICES_FIELD_NUMBER: _ClassVar[int]
        EXPIRES_FIELD_NUMBER: _ClassVar[int]
        ON_EXPIRY_FIELD_NUMBER: _ClassVar[int]
        TOKEN_SHA256_FIELD_NUMBER: _ClassVar[int]
        kind: _types_pb2.QuestionKind
        prompt: str
        schema: str
        choices: _containers.RepeatedScalarFieldContainer[str]
        expires: _duration_pb2.Duration
        on_expiry: _types_pb2.ExpiryAction
        token_sha256: str
        def __init__(self, kind: _Optional[_Union[_types_pb2.QuestionKind, str]] = ..., prompt: _Optional[str] = ..., schema: _Optional[str] = ..., choices: _Optional[_Iterable[str]] = ..., expires: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., on_expiry: _Optional[_Union[_types_pb2.ExpiryAction, str]] = ..., token_sha256: _Optional[str] = ...) -> None: ...
    class Released(_message.Message):
        __slots__ = ("reason",)
        REASON_FIELD_NUMBER: _ClassVar[int]
        reason: str
        def __init__(self, reason: _Optional[str] = ...) -> None: ...
    class Suspended(_message.Message):
        __slots__ = ("waits", "more")
        WAITS_FIELD_NUMBER: _ClassVar[int]
        MORE_FIELD_NUMBER: _ClassVar[int]
        waits: _containers.RepeatedCompositeFieldContainer[Outcome.SuspendedCall]
        more: bool
        def __init__(self, waits: _Optional[_Iterable[_Union[Outcome.SuspendedCall, _Mapping]]] = ..., more: bool = ...) -> None: ...
    class SuspendedCall(_message.Message):
        __slots__ = ("call", "sleep", "ask", "budget", "signal", "child", "child_signal", "arguments")
        CALL_FIELD_NUMBER: _ClassVar[int]
        SLEEP_FIELD_NUMBER: _ClassVar[int]
        ASK_FIELD_NUMBER: _ClassVar[int]
        BUDGET_FIELD_NUMBER: _ClassVar[int]
        SIGNAL_FIELD_NUMBER: _ClassVar[int]
        CHILD_FIELD_NUMBER: _ClassVar[int]
        CHILD_SIGNAL_FIELD_NUMBER: _ClassVar[int]
        ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
        call: str
        sleep: Outcome.Sleep
        ask: Outcome.NeedsAnswer
        budget: Outcome.BudgetSpent
        signal: Outcome.AwaitSignal
        child: Outcome.AwaitChild
        child_signal: Outcome.SignalChild
        arguments: str
        def __init__(self, call: _Optional[str] = ..., sleep: _Optional[_Union[Outcome.Sleep, _Mapping]] = ..., ask: _Optional[_Union[Outcome.NeedsAnswer, _Mapping]] = ..., budget: _Optional[_Union[Outcome.BudgetSpent, _Mapping]] = ..., signal: _Optional[_Union[Outcome.AwaitSignal, _Mapping]] = ..., child: _Optional[_Union[Outcome.AwaitChild, _Mapping]] = ..., child_signal: _Optional[_Union[Outcome.SignalChild, _Mapping]] = ..., arguments: _Optional[str] = ...) -> None: ...
    class Sleep(_message.Message):
        __slots__ = ("remaining",)
        REMAINING_FIELD_NUMBER: _ClassVar[int]
        remaining: _duration_pb2.Duration
        def __init__(self, remaining: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...
    class BudgetSpent(_message.Message):
        __slots__ = ()
        def __init__(self) -> None: ...
    class AwaitSignal(_message.Message):
        __slots__ = ("name", "expires", "at_once")
        NAME_FIELD_NUMBER: _ClassVar[int]
        EXPIRES_FIELD_NUMBER: _ClassVar[int]
        AT_ONCE_FIELD_NUMBER: _ClassVar[int]
        name: str
        expires: _duration_pb2.Duration
        at_once: bool
        def __init__(self, name: _Optional[str] = ..., expires: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., at_once: bool = ...) -> None: ...
    class AwaitChild(_message.Message):
        __slots__ = ("pipeline_id", "queue", "goal", "input", "labels", "max_iterations", "budget", "plan", "leave", "cancel", "follow_pauses", "reflect_on")
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
        INPUT_FIELD_NUMBER: _ClassVar[int]
        LABELS_FIELD_NUMBER: _ClassVar[int]
        MAX_ITERATIONS_FIELD_NUMBER: _ClassVar[int]
        BUDGET_FIELD_NUMBER: _ClassVar[int]
        PLAN_FIELD_NUMBER: _ClassVar[int]
        LEAVE_FIELD_NUMBER: _ClassVar[int]
        CANCEL_FIELD_NUMBER: _ClassVar[int]
        FOLLOW_PAUSES_FIELD_NUMBER: _ClassVar[int]
        REFLECT_ON_FIELD_NUMBER: _ClassVar[int]
        pipeline_id: str
        queue: str
        goal: str
        input: _types_pb2.Payload
        labels: _containers.ScalarMap[str, str]
        max_iterations: int
        budget: _types_pb2.Budget
        plan: _types_pb2.PlanDraft
        leave: bool
        cancel: bool
        follow_pauses: bool
        reflect_on: _containers.RepeatedScalarFieldContainer[str]
        def __init__(self, pipeline_id: _Optional[str] = ..., queue: _Optional[str] = ..., goal: _Optional[str] = ..., input: _Optional[_Union[_types_pb2.Payload, _Mapping]] = ..., labels: _Optional[_Mapping[str, str]] = ..., max_iterations: _Optional[int] = ..., budget: _Optional[_Union[_types_pb2.Budget, _Mapping]] = ..., plan: _Optional[_Union[_types_pb2.PlanDraft, _Mapping]] = ..., leave: bool = ..., cancel: bool = ..., follow_pauses: bool = ..., reflect_on: _Optional[_Iterable[str]] = ...) -> None: ...
    class SignalChild(_message.Message):
        __slots__ = ("child", "name", "value")
        CHILD_FIELD_NUMBER: _ClassVar[int]
        NAME_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        child: str
        name: str
        value: _types_pb2.Payload
        def __init__(self, child: _Optional[str] = ..., name: _Optional[str] = ..., value: _Optional[_Union[_types_pb2.Payload, _Mapping]] = ...) -> None: ...
    class UnknownCall(_message.Message):
        __slots__ = ("call", "reason")
        CALL_FIELD_NUMBER: _ClassVar[int]
        REASON_FIELD_NUMBER: _ClassVar[int]
        call: str
        reason: str
        def __init__(self, call: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...
    class Reconciled(_message.Message):
        __slots__ = ("finding", "result", "reason")
        FINDING_FIELD_NUMBER: _ClassVar[int]
        RESULT_FIELD_NUMBER: _ClassVar[int]
        REASON_FIELD_NUMBER: _ClassVar[int]
        finding: _types_pb2.Finding
        result: _types_pb2.Payload
        reason: str
        def __init__(self, finding: _Optional[_Union[_types_pb2.Finding, str]] = ..., result: _Optional[_Union[_types_pb2.Payload, _Mapping]] = ..., reason: _Optional[str] = ...) -> None: ...
    DELIVERY_ID_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    PLANNED_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_FIELD_NUMBER: _ClassVar[int]
    REFLECTED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    NEEDS_ANSWER_FIELD_NUMBER: _ClassVar[int]
    RELEASED_FIELD_NUMBER: _ClassVar[int]
    RECONCILED_FIELD_NUMBER: _ClassVar[int]
    SUSPENDED_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_CALL_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_AFTER_FIELD_NUMBER: _ClassVar[int]
    THREAD_FIELD_NUMBER: _ClassVar[int]
    delivery_id: str
    lease: Lease
    usage: _types_pb2.Usage
    session: _types_pb2.Session
    prompt: str
    response: str
    messages: _containers.RepeatedCompositeFieldContainer[_types_pb2.Message]
    planned: Outcome.Planned
    completed: Outcome.Completed
    reflected: Outcome.Reflected
    failed: Outcome.Failed
    needs_answer: Outcome.NeedsAnswer
    released: Outcome.Released
    reconciled: Outcome.Reconciled
    suspended: Outcome.Suspended
    unknown_call: Outcome.UnknownCall
    progress: _types_pb2.Payload
    messages_after: int
    thread: ThreadWrite
    def __init__(self, delivery_id: _Optional[str] = ..., lease: _Optional[_Union[Lease, _Mapping]] = ..., usage: _Optional[_Union[_types_pb2.Usage, _Mapping]] = ..., session: _Optional[_Union[_types_pb2.Session, _Mapping]] = ..., prompt: _Optional[str] = ..., response: _Optional[str] = ..., messages: _Optional[_Iterable[_Union[_types_pb2.Message, _Mapping]]] = ..., planned: _Optional[_Union[Outcome.Planned, _Mapping]] = ..., completed: _Optional[_Union[Outcome.Completed, _Mapping]] = ..., reflected: _Optional[_Union[Outcome.Reflected, _Mapping]] = ..., failed: _Optional[_Union[Outcome.Failed, _Mapping]] = ..., needs_answer: _Optional[_Union[Outcome.NeedsAnswer, _Mapping]] = ..., released: _Optional[_Union[Outcome.Released, _Mapping]] = ..., reconciled: _Optional[_Union[Outcome.Reconciled, _Mapping]] = ..., suspended: _Optional[_Union[Outcome.Suspended, _Mapping]] = ..., unknown_call: _Optional[_Union[Outcome.UnknownCall, _Mapping]] = ..., progress: _Optional[_Union[_types_pb2.Payload, _Mapping]] = ..., messages_after: _Optional[int] = ..., thread: _Optional[_Union[ThreadWrite, _Mapping]] = ...) -> None: ...

class ThreadWrite(_message.Message):
    __slots__ = ("messages", "state")
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[_types_pb2.ThreadMessageDraft]
    state: _types_pb2.Payload
    def __init__(self, messages: _Optional[_Iterable[_Union[_types_pb2.ThreadMessageDraft, _Mapping]]] = ..., state: _Optional[_Union[_types_pb2.Payload, _Mapping]] = ...) -> None: ...

class Begin(_message.Message):
    __slots__ = ("delivery_id", "lease")
    DELIVERY_ID_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    delivery_id: str
    lease: Lease
    def __init__(self, delivery_id: _Optional[str] = ..., lease: _Optional[_Union[Lease, _Mapping]] = ...) -> None: ...

class Ack(_message.Message):
    __slots__ = ("delivery_id", "lease", "status", "failure")
    DELIVERY_ID_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    delivery_id: str
    lease: Lease
    status: AckStatus
    failure: _types_pb2.Failure
    def __init__(self, delivery_id: _Optional[str] = ..., lease: _Optional[_Union[Lease, _Mapping]] = ..., status: _Optional[_Union[AckStatus, str]] = ..., failure: _Optional[_Union[_types_pb2.Failure, _Mapping]] = ...) -> None: ...

class WorkEnd(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: WorkEndReason
    def __init__(self, reason: _Optional[_Union[WorkEndReason, str]] = ...) -> None: ...

class ReportOutcomesRequest(_message.Message):
    __slots__ = ("outcomes",)
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    outcomes: _containers.RepeatedCompositeFieldContainer[Outcome]
    def __init__(self, outcomes: _Optional[_Iterable[_Union[Outcome, _Mapping]]] = ...) -> None: ...

class ReportOutcomesResponse(_message.Message):
    __slots__ = ("acks",)
    ACKS_FIELD_NUMBER: _ClassVar[int]
    acks: _containers.RepeatedCompositeFieldContainer[Ack]
    def __init__(self, acks: _Optional[_Iterable[_Union[Ack, _Mapping]]] = ...) -> None: ...

class HeartbeatRequest(_message.Message):
    __slots__ = ("heartbeats",)
    HEARTBEATS_FIELD_NUMBER: _ClassVar[int]
    heartbeats: _containers.RepeatedCompositeFieldContainer[LeaseHeartbeat]
    def __init__(self, heartbeats: _Optional[_Iterable[_Union[LeaseHeartbeat, _Mapping]]] = ...) -> None: ...

class LeaseHeartbeat(_message.Message):
    __slots__ = ("lease", "progress", "session", "idle")
    LEASE_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    IDLE_FIELD_NUMBER: _ClassVar[int]
    lease: Lease
    progress: _types_pb2.Payload
    session: _types_pb2.Session
    idle: _duration_pb2.Duration
    def __init__(self, lease: _Optional[_Union[Lease, _Mapping]] = ..., progress: _Optional[_Union[_types_pb2.Payload, _Mapping]] = ..., session: _Optional[_Union[_types_pb2.Session, _Mapping]] = ..., idle: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class HeartbeatResponse(_message.Message):
    __slots__ = ("leases",)
    LEASES_FIELD_NUMBER: _ClassVar[int]
    leases: _containers.RepeatedCompositeFieldContainer[LeaseState]
    def __init__(self, leases: _Optional[_Iterable[_Union[LeaseState, _Mapping]]] = ...) -> None: ...

class AppendOutputRequest(_message.Message):
    __slots__ = ("appended",)
    APPENDED_FIELD_NUMBER: _ClassVar[int]
    appended: _containers.RepeatedCompositeFieldContainer[Appended]
    def __init__(self, appended: _Optional[_Iterable[_Union[Appended, _Mapping]]] = ...) -> None: ...

class Appended(_message.Message):
    __slots__ = ("lease", "logs", "messages", "after")
    LEASE_FIELD_NUMBER: _ClassVar[int]
    LOGS_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    lease: Lease
    logs: _containers.RepeatedCompositeFieldContainer[LogLine]
    messages: _containers.RepeatedCompositeFieldContainer[_types_pb2.Message]
    after: int
    def __init__(self, lease: _Optional[_Union[Lease, _Mapping]] = ..., logs: _Optional[_Iterable[_Union[LogLine, _Mapping]]] = ..., messages: _Optional[_Iterable[_Union[_types_pb2.Message, _Mapping]]] = ..., after: _Optional[int] = ...) -> None: ...

class LogLine(_message.Message):
    __slots__ = ("text", "level", "kind", "age")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    AGE_FIELD_NUMBER: _ClassVar[int]
    text: str
    level: str
    kind: _types_pb2.LogKind
    age: _duration_pb2.Duration
    def __init__(self, text: _Optional[str] = ..., level: _Optional[str] = ..., kind: _Optional[_Union[_types_pb2.LogKind, str]] = ..., age: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class AppendOutputResponse(_message.Message):
    __slots__ = ("leases",)
    LEASES_FIELD_NUMBER: _ClassVar[int]
    leases: _containers.RepeatedCompositeFieldContainer[LeaseState]
    def __init__(self, leases: _Optional[_Iterable[_Union[LeaseState, _Mapping]]] = ...) -> None: ...

class ReadResultsRequest(_message.Message):
    __slots__ = ("lease", "task_ids", "page_token")
    LEASE_FIELD_NUMBER: _ClassVar[int]
    TASK_IDS_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    lease: Lease
    task_ids: _containers.RepeatedScalarFieldContainer[str]
    page_token: str
    def __init__(self, lease: _Optional[_Union[Lease, _Mapping]] = ..., task_ids: _Optional[_Iterable[str]] = ..., page_token: _Optional[str] = ...) -> None: ...

class ReadResultsResponse(_message.Message):
    __slots__ = ("lease", "results", "next_page_token")
    LEASE_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    lease: LeaseState
    results: _containers.RepeatedCompositeFieldContainer[DependencyResult]
    next_page_token: str
    def __init__(self, lease: _Optional[_Union[LeaseState, _Mapping]] = ..., results: _Optional[_Iterable[_Union[DependencyResult, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class JournalWrite(_message.Message):
    __slots__ = ("delivery_id", "lease", "entries", "forget", "forget_number", "open", "open_number", "known")
    DELIVERY_ID_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    FORGET_FIELD_NUMBER: _ClassVar[int]
    FORGET_NUMBER_FIELD_NUMBER: _ClassVar[int]
    OPEN_FIELD_NUMBER: _ClassVar[int]
    OPEN_NUMBER_FIELD_NUMBER: _ClassVar[int]
    KNOWN_FIELD_NUMBER: _ClassVar[int]
    delivery_id: str
    lease: Lease
    entries: _containers.RepeatedCompositeFieldContainer[_types_pb2.JournalEntry]
    forget: _containers.RepeatedScalarFieldContainer[str]
    forget_number: int
    open: _containers.RepeatedCompositeFieldContainer[Outcome.SuspendedCall]
    open_number: int
    known: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, delivery_id: _Optional[str] = ..., lease: _Optional[_Union[Lease, _Mapping]] = ..., entries: _Optional[_Iterable[_Union[_types_pb2.JournalEntry, _Mapping]]] = ..., forget: _Optional[_Iterable[str]] = ..., forget_number: _Optional[int] = ..., open: _Optional[_Iterable[_Union[Outcome.SuspendedCall, _Mapping]]] = ..., open_number: _Optional[int] = ..., known: _Optional[_Iterable[str]] = ...) -> None: ...

class EntryState(_message.Message):
    __slots__ = ("status", "failure", "remaining")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    REMAINING_FIELD_NUMBER: _ClassVar[int]
    status: EntryStatus
    failure: _types_pb2.Failure
    remaining: _duration_pb2.Duration
    def __init__(self, status: _Optional[_Union[EntryStatus, str]] = ..., failure: _Optional[_Union[_types_pb2.Failure, _Mapping]] = ..., remaining: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class JournalAck(_message.Message):
    __slots__ = ("delivery_id", "lease", "entries", "remaining_budget", "budget_spent", "failure", "children")
    class ChildrenEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    DELIVERY_ID_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    REMAINING_BUDGET_FIELD_NUMBER: _ClassVar[int]
    BUDGET_SPENT_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    CHILDREN_FIELD_NUMBER: _ClassVar[int]
    delivery_id: str
    lease: LeaseState
    entries: _containers.RepeatedCompositeFieldContainer[EntryState]
    remaining_budget: _types_pb2.Budget
    budget_spent: bool
    failure: _types_pb2.Failure
    children: _containers.ScalarMap[str, str]
    def __init__(self, delivery_id: _Optional[str] = ..., lease: _Optional[_Union[LeaseState, _Mapping]] = ..., entries: _Optional[_Iterable[_Union[EntryState, _Mapping]]] = ..., remaining_budget: _Optional[_Union[_types_pb2.Budget, _Mapping]] = ..., budget_spent: bool = ..., failure: _Optional[_Union[_types_pb2.Failure, _Mapping]] = ..., children: _Optional[_Mapping[str, str]] = ...) -> None: ...

class WriteJournalRequest(_message.Message):
    __slots__ = ("writes",)
    WRITES_FIELD_NUMBER: _ClassVar[int]
    writes: _containers.RepeatedCompositeFieldContainer[JournalWrite]
    def __init__(self, writes: _Optional[_Iterable[_Union[JournalWrite, _Mapping]]] = ...) -> None: ...

class WriteJournalResponse(_message.Message):
    __slots__ = ("acks",)
    ACKS_FIELD_NUMBER: _ClassVar[int]
    acks: _containers.RepeatedCompositeFieldContainer[JournalAck]
    def __init__(self, acks: _Optional[_Iterable[_Union[JournalAck, _Mapping]]] = ...) -> None: ...

class ReadJournalRequest(_message.Message):
    __slots__ = ("lease", "page_token")
    LEASE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    lease: Lease
    page_token: str
    def __init__(self, lease: _Optional[_Union[Lease, _Mapping]] = ..., page_token: _Optional[str] = ...) -> None: ...

class ReadJournalResponse(_message.Message):
    __slots__ = ("lease", "page")
    LEASE_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    lease: LeaseState
    page: JournalPage
    def __init__(self, lease: _Optional[_Union[LeaseState, _Mapping]] = ..., page: _Optional[_Union[JournalPage, _Mapping]] = ...) -> None: ...

class ReadThreadRequest(_message.Message):
    __slots__ = ("lease", "last", "to", "first", "state")
    LEASE_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    lease: Lease
    last: int
    to: int
    first: int
    state: bool
    def __init__(self, lease: _Optional[_Union[Lease, _Mapping]] = ..., last: _Optional[int] = ..., to: _Optional[int] = ..., first: _Optional[int] = ..., state: bool = ...) -> None: ...

class ReadThreadResponse(_message.Message):
    __slots__ = ("lease", "messages", "to", "next", "state_version", "state")
    LEASE_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    STATE_VERSION_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    lease: LeaseState
    messages: _containers.RepeatedCompositeFieldContainer[_types_pb2.ThreadMessage]
    to: int
    next: int
    state_version: int
    state: _types_pb2.Payload
    def __init__(self, lease: _Optional[_Union[LeaseState, _Mapping]] = ..., messages: _Optional[_Iterable[_Union[_types_pb2.ThreadMessage, _Mapping]]] = ..., to: _Optional[int] = ..., next: _Optional[int] = ..., state_version: _Optional[int] = ..., state: _Optional[_Union[_types_pb2.Payload, _Mapping]] = ...) -> None: ...
