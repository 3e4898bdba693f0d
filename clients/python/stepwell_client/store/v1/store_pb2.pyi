import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from stepwell_client.v1 import limits_pb2 as _limits_pb2
from stepwell_client.v1 import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Verdict(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    VERDICT_UNSPECIFIED: _ClassVar[Verdict]
    VERDICT_COMMITTED: _ClassVar[Verdict]
    VERDICT_CONFLICT: _ClassVar[Verdict]
    VERDICT_LEASE_LOST: _ClassVar[Verdict]

class DueKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DUE_KIND_UNSPECIFIED: _ClassVar[DueKind]
    DUE_KIND_LEASE_EXPIRED: _ClassVar[DueKind]
    DUE_KIND_ATTEMPT_TIMED_OUT: _ClassVar[DueKind]
    DUE_KIND_TIMER: _ClassVar[DueKind]
VERDICT_UNSPECIFIED: Verdict
VERDICT_COMMITTED: Verdict
VERDICT_CONFLICT: Verdict
VERDICT_LEASE_LOST: Verdict
DUE_KIND_UNSPECIFIED: DueKind
DUE_KIND_LEASE_EXPIRED: DueKind
DUE_KIND_ATTEMPT_TIMED_OUT: DueKind
DUE_KIND_TIMER: DueKind

class RunSpec(_message.Message):
    __slots__ = ("tenant_id", "run_id", "pipeline_id", "queue", "goal", "labels", "executor_id", "max_iterations", "max_parallel", "priority", "budget", "step_retry", "step_timeout", "start_delay", "request_fingerprint", "parent_run_id", "parent_version", "family_id", "no_progress_limit", "worker_version", "child_of", "reflect_on", "thread_id", "is_thread")
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
    REQUEST_FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    PARENT_RUN_ID_FIELD_NUMBER: _ClassVar[int]
    PARENT_VERSION_FIELD_NUMBER: _ClassVar[int]
    FAMILY_ID_FIELD_NUMBER: _ClassVar[int]
    NO_PROGRESS_LIMIT_FIELD_NUMBER: _ClassVar[int]
    WORKER_VERSION_FIELD_NUMBER: _ClassVar[int]
    CHILD_OF_FIELD_NUMBER: _ClassVar[int]
    REFLECT_ON_FIELD_NUMBER: _ClassVar[int]
    THREAD_ID_FIELD_NUMBER: _ClassVar[int]
    IS_THREAD_FIELD_NUMBER: _ClassVar[int]
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
    budget: _types_pb2.Budget
    step_retry: _types_pb2.RetryPolicy
    step_timeout: _duration_pb2.Duration
    start_delay: _duration_pb2.Duration
    request_fingerprint: str
    parent_run_id: str
    parent_version: int
    family_id: str
    no_progress_limit: int
    worker_version: _types_pb2.WorkerVersion
    child_of: _types_pb2.ChildOf
    reflect_on: _containers.RepeatedScalarFieldContainer[str]
    thread_id: str
    is_thread: bool
    def __init__(self, tenant_id: _Optional[str] = ..., run_id: _Optional[str] = ..., pipeline_id: _Optional[str] = ..., queue: _Optional[str] = ..., goal: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., executor_id: _Optional[str] = ..., max_iterations: _Optional[int] = ..., max_parallel: _Optional[int] = ..., priority: _Optional[int] = ..., budget: _Optional[_Union[_types_pb2.Budget, _Mapping]] = ..., step_retry: _Optional[_Union[_types_pb2.RetryPolicy, _Mapping]] = ..., step_timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., start_delay: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., request_fingerprint: _Optional[str] = ..., parent_run_id: _Optional[str] = ..., parent_version: _Optional[int] = ..., family_id: _Optional[str] = ..., no_progress_limit: _Optional[int] = ..., worker_version: _Optional[_Union[_types_pb2.WorkerVersion, _Mapping]] = ..., child_of: _Optional[_Union[_types_pb2.ChildOf, _Mapping]] = ..., reflect_on: _Optional[_Iterable[str]] = ..., thread_id: _Optional[str] = ..., is_thread: bool = ...) -> None: ...

class Tally(_message.Message):
    __slots__ = ("tasks", "digest", "fingerprint", "alike", "iterations_before", "wall_over", "before", "turns")
    TASKS_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    ALIKE_FIELD_NUMBER: _ClassVar[int]
    ITERATIONS_BEFORE_FIELD_NUMBER: _ClassVar[int]
    WALL_OVER_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    TURNS_FIELD_NUMBER: _ClassVar[int]
    tasks: int
    digest: int
    fingerprint: str
    alike: int
    iterations_before: int
    wall_over: _duration_pb2.Duration
    before: str
    turns: int
    def __init__(self, tasks: _Optional[int] = ..., digest: _Optional[int] = ..., fingerprint: _Optional[str] = ..., alike: _Optional[int] = ..., iterations_before: _Optional[int] = ..., wall_over: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., before: _Optional[str] = ..., turns: _Optional[int] = ...) -> None: ...

class Losses(_message.Message):
    __slots__ = ("count", "allowance", "gone")
    COUNT_FIELD_NUMBER: _ClassVar[int]
    ALLOWANCE_FIELD_NUMBER: _ClassVar[int]
    GONE_FIELD_NUMBER: _ClassVar[int]
    count: int
    allowance: int
    gone: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, count: _Optional[int] = ..., allowance: _Optional[int] = ..., gone: _Optional[_Iterable[str]] = ...) -> None: ...

class Previous(_message.Message):
    __slots__ = ("execution_id", "session", "progress", "failure")
    EXECUTION_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    execution_id: str
    session: _types_pb2.Session
    progress: _types_pb2.Payload
    failure: _types_pb2.Failure
    def __init__(self, execution_id: _Optional[str] = ..., session: _Optional[_Union[_types_pb2.Session, _Mapping]] = ..., progress: _Optional[_Union[_types_pb2.Payload, _Mapping]] = ..., failure: _Optional[_Union[_types_pb2.Failure, _Mapping]] = ...) -> None: ...

class JournalSource(_message.Message):
    __slots__ = ("run_id", "journal", "generation", "version")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    JOURNAL_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    journal: str
    generation: int
    version: int
    def __init__(self, run_id: _Optional[str] = ..., journal: _Optional[str] = ..., generation: _Optional[int] = ..., version: _Optional[int] = ...) -> None: ...

class Journal(_message.Message):
    __slots__ = ("generation", "entries", "bytes", "sources", "tries_from", "answered")
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    TRIES_FROM_FIELD_NUMBER: _ClassVar[int]
    ANSWERED_FIELD_NUMBER: _ClassVar[int]
    generation: int
    entries: int
    bytes: int
    sources: _containers.RepeatedCompositeFieldContainer[JournalSource]
    tries_from: int
    answered: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, generation: _Optional[int] = ..., entries: _Optional[int] = ..., bytes: _Optional[int] = ..., sources: _Optional[_Iterable[_Union[JournalSource, _Mapping]]] = ..., tries_from: _Optional[int] = ..., answered: _Optional[_Iterable[str]] = ...) -> None: ...

class Run(_message.Message):
    __slots__ = ("spec", "version", "last_event", "status", "phase", "iteration", "plan_revision", "stages", "stages_fixed", "allowance", "step_attempt", "step_spent", "counts", "usage", "budget", "blocked_on", "blocked_since_time", "pause_reason", "finish_reason", "reason", "failure", "result_id", "created_time", "started_time", "ended_time", "attempts", "tally", "stopping", "previous", "step_losses", "actor", "on_behalf_of", "blocked_run_id", "step_journal", "step_waits", "signals", "letters", "children", "waits_for_thread", "thread")
    SPEC_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    LAST_EVENT_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    ITERATION_FIELD_NUMBER: _ClassVar[int]
    PLAN_REVISION_FIELD_NUMBER: _ClassVar[int]
    STAGES_FIELD_NUMBER: _ClassVar[int]
    STAGES_FIXED_FIELD_NUMBER: _ClassVar[int]
    ALLOWANCE_FIELD_NUMBER: _ClassVar[int]
    STEP_ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    STEP_SPENT_FIELD_NUMBER: _ClassVar[int]
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
    TALLY_FIELD_NUMBER: _ClassVar[int]
    STOPPING_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_FIELD_NUMBER: _ClassVar[int]
    STEP_LOSSES_FIELD_NUMBER: _ClassVar[int]
    ACTOR_FIELD_NUMBER: _ClassVar[int]
    ON_BEHALF_OF_FIELD_NUMBER: _ClassVar[int]
    BLOCKED_RUN_ID_FIELD_NUMBER: _ClassVar[int]
    STEP_JOURNAL_FIELD_NUMBER: _ClassVar[int]
    STEP_WAITS_FIELD_NUMBER: _ClassVar[int]
    SIGNALS_FIELD_NUMBER: _ClassVar[int]
    LETTERS_FIELD_NUMBER: _ClassVar[int]
    CHILDREN_FIELD_NUMBER: _ClassVar[int]
    WAITS_FOR_THREAD_FIELD_NUMBER: _ClassVar[int]
    THREAD_FIELD_NUMBER: _ClassVar[int]
    spec: RunSpec
    version: int
    last_event: int
    status: _types_pb2.RunStatus
    phase: _types_pb2.Phase
    iteration: int
    plan_revision: int
    stages: _containers.RepeatedScalarFieldContainer[_types_pb2.StepKind]
    stages_fixed: bool
    allowance: int
    step_attempt: int
    step_spent: int
    counts: _types_pb2.Counts
    usage: _types_pb2.Usage
    budget: _types_pb2.Budget
    blocked_on: _types_pb2.BlockedKind
    blocked_since_time: _timestamp_pb2.Timestamp
    pause_reason: _types_pb2.PauseReason
    finish_reason: _types_pb2.FinishReason
    reason: str
    failure: _types_pb2.Failure
    result_id: str
    created_time: _timestamp_pb2.Timestamp
    started_time: _timestamp_pb2.Timestamp
    ended_time: _timestamp_pb2.Timestamp
    attempts: _types_pb2.AttemptCounts
    tally: Tally
    stopping: bool
    previous: Previous
    step_losses: Losses
    actor: str
    on_behalf_of: str
    blocked_run_id: str
    step_journal: Journal
    step_waits: _containers.RepeatedCompositeFieldContainer[_types_pb2.Wait]
    signals: Signals
    letters: Letters
    children: int
    waits_for_thread: bool
    thread: Thread
    def __init__(self, spec: _Optional[_Union[RunSpec, _Mapping]] = ..., version: _Optional[int] = ..., last_event: _Optional[int] = ..., status: _Optional[_Union[_types_pb2.RunStatus, str]] = ..., phase: _Optional[_Union[_types_pb2.Phase, str]] = ..., iteration: _Optional[int] = ..., plan_revision: _Optional[int] = ..., stages: _Optional[_Iterable[_Union[_types_pb2.StepKind, str]]] = ..., stages_fixed: bool = ..., allowance: _Optional[int] = ..., step_attempt: _Optional[int] = ..., step_spent: _Optional[int] = ..., counts: _Optional[_Union[_types_pb2.Counts, _Mapping]] = ..., usage: _Optional[_Union[_types_pb2.Usage, _Mapping]] = ..., budget: _Optional[_Union[_types_pb2.Budget, _Mapping]] = ..., blocked_on: _Optional[_Union[_types_pb2.BlockedKind, str]] = ..., blocked_since_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., pause_reason: _Optional[_Union[_types_pb2.PauseReason, str]] = ..., finish_reason: _Optional[_Union[_types_pb2.FinishReason, str]] = ..., reason: _Optional[str] = ..., failure: _Optional[_Union[_types_pb2.Failure, _Mapping]] = ..., result_id: _Optional[str] = ..., created_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., started_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., ended_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., attempts: _Optional[_Union[_types_pb2.AttemptCounts, _Mapping]] = ..., tally: _Optional[_Union[Tally, _Mapping]] = ..., stopping: bool = ..., previous: _Optional[_Union[Previous, _Mapping]] = ..., step_losses: _Optional[_Union[Losses, _Mapping]] = ..., actor: _Optional[str] = ..., on_behalf_of: _Optional[str] = ..., blocked_run_id: _Optional[str] = ..., step_journal: _Optional[_Union[Journal, _Mapping]] = ..., step_waits: _Optional[_Iterable[_Union[_types_pb2.Wait, _Mapping]]] = ..., signals: _Optional[_Union[Signals, _Mapping]] = ..., letters: _Optional[_Union[Letters, _Mapping]] = ..., children: _Optional[int] = ..., waits_for_thread: bool = ..., thread: _Optional[_Union[Thread, _Mapping]] = ...) -> None: ...

class Thread(_message.Message):
    __slots__ = ("working", "joined", "messages", "bytes", "state", "taken", "forked_from", "forked_at", "labels")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    WORKING_FIELD_NUMBER: _ClassVar[int]
    JOINED_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    TAKEN_FIELD_NUMBER: _ClassVar[int]
    FORKED_FROM_FIELD_NUMBER: _ClassVar[int]
    FORKED_AT_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    working: str
    joined: int
    messages: int
    bytes: int
    state: int
    taken: int
    forked_from: str
    forked_at: int
    labels: _containers.ScalarMap[str, str]
    def __init__(self, working: _Optional[str] = ..., joined: _Optional[int] = ..., messages: _Optional[int] = ..., bytes: _Optional[int] = ..., state: _Optional[int] = ..., taken: _Optional[int] = ..., forked_from: _Optional[str] = ..., forked_at: _Optional[int] = ..., labels: _Optional[_Mapping[str, str]] = ...) -> None: ...

class Letters(_message.Message):
    __slots__ = ("first", "next", "unwritten")
    FIRST_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    UNWRITTEN_FIELD_NUMBER: _ClassVar[int]
    first: int
    next: int
    unwritten: _containers.RepeatedCompositeFieldContainer[UnwrittenLetters]
    def __init__(self, first: _Optional[int] = ..., next: _Optional[int] = ..., unwritten: _Optional[_Iterable[_Union[UnwrittenLetters, _Mapping]]] = ...) -> None: ...

class UnwrittenLetters(_message.Message):
    __slots__ = ("kind", "task_ids", "until_time", "after")
    KIND_FIELD_NUMBER: _ClassVar[int]
    TASK_IDS_FIELD_NUMBER: _ClassVar[int]
    UNTIL_TIME_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    kind: str
    task_ids: _containers.RepeatedScalarFieldContainer[str]
    until_time: _timestamp_pb2.Timestamp
    after: str
    def __init__(self, kind: _Optional[str] = ..., task_ids: _Optional[_Iterable[str]] = ..., until_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., after: _Optional[str] = ...) -> None: ...

class Signals(_message.Message):
    __slots__ = ("kept", "bytes", "last", "taken", "shown", "steering", "early", "reflections")
    class TakenEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    KEPT_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    TAKEN_FIELD_NUMBER: _ClassVar[int]
    SHOWN_FIELD_NUMBER: _ClassVar[int]
    STEERING_FIELD_NUMBER: _ClassVar[int]
    EARLY_FIELD_NUMBER: _ClassVar[int]
    REFLECTIONS_FIELD_NUMBER: _ClassVar[int]
    kept: int
    bytes: int
    last: int
    taken: _containers.ScalarMap[str, int]
    shown: int
    steering: int
    early: bool
    reflections: int
    def __init__(self, kept: _Optional[int] = ..., bytes: _Optional[int] = ..., last: _Optional[int] = ..., taken: _Optional[_Mapping[str, int]] = ..., shown: _Optional[int] = ..., steering: _Optional[int] = ..., early: bool = ..., reflections: _Optional[int] = ...) -> None: ...

class Task(_message.Message):
    __slots__ = ("task_id", "revision", "status", "attempts", "spent", "allowance", "result_id", "failure", "question_id", "started_time", "ended_time", "result_run_id", "deduplicated_from", "messages", "previous", "reconciles", "reconciles_spent", "losses", "reconcile_losses", "held_key", "key_run_id", "journal", "waits")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    SPENT_FIELD_NUMBER: _ClassVar[int]
    ALLOWANCE_FIELD_NUMBER: _ClassVar[int]
    RESULT_ID_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    QUESTION_ID_FIELD_NUMBER: _ClassVar[int]
    STARTED_TIME_FIELD_NUMBER: _ClassVar[int]
    ENDED_TIME_FIELD_NUMBER: _ClassVar[int]
    RESULT_RUN_ID_FIELD_NUMBER: _ClassVar[int]
    DEDUPLICATED_FROM_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_FIELD_NUMBER: _ClassVar[int]
    RECONCILES_FIELD_NUMBER: _ClassVar[int]
    RECONCILES_SPENT_FIELD_NUMBER: _ClassVar[int]
    LOSSES_FIELD_NUMBER: _ClassVar[int]
    RECONCILE_LOSSES_FIELD_NUMBER: _ClassVar[int]
    HELD_KEY_FIELD_NUMBER: _ClassVar[int]
    KEY_RUN_ID_FIELD_NUMBER: _ClassVar[int]
    JOURNAL_FIELD_NUMBER: _ClassVar[int]
    WAITS_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    revision: int
    status: _types_pb2.TaskStatus
    attempts: int
    spent: int
    allowance: int
    result_id: str
    failure: _types_pb2.Failure
    question_id: str
    started_time: _timestamp_pb2.Timestamp
    ended_time: _timestamp_pb2.Timestamp
    result_run_id: str
    deduplicated_from: str
    messages: int
    previous: Previous
    reconciles: int
    reconciles_spent: int
    losses: Losses
    reconcile_losses: Losses
    held_key: str
    key_run_id: str
    journal: Journal
    waits: _containers.RepeatedCompositeFieldContainer[_types_pb2.Wait]
    def __init__(self, task_id: _Optional[str] = ..., revision: _Optional[int] = ..., status: _Optional[_Union[_types_pb2.TaskStatus, str]] = ..., attempts: _Optional[int] = ..., spent: _Optional[int] = ..., allowance: _Optional[int] = ..., result_id: _Optional[str] = ..., failure: _Optional[_Union[_types_pb2.Failure, _Mapping]] = ..., question_id: _Optional[str] = ..., started_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., ended_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., result_run_id: _Optional[str] = ..., deduplicated_from: _Optional[str] = ..., messages: _Optional[int] = ..., previous: _Optional[_Union[Previous, _Mapping]] = ..., reconciles: _Optional[int] = ..., reconciles_spent: _Optional[int] = ..., losses: _Optional[_Union[Losses, _Mapping]] = ..., reconcile_losses: _Optional[_Union[Losses, _Mapping]] = ..., held_key: _Optional[str] = ..., key_run_id: _Optional[str] = ..., journal: _Optional[_Union[Journal, _Mapping]] = ..., waits: _Optional[_Iterable[_Union[_types_pb2.Wait, _Mapping]]] = ...) -> None: ...

class Execution(_message.Message):
    __slots__ = ("execution_id", "kind", "task_id", "iteration", "attempt", "queue", "role", "priority", "status", "delay", "worker_id", "begun", "failure", "usage", "session", "has_result", "offered_time", "leased_time", "ended_time", "messages_after", "messages", "unknown_time", "type", "pin", "journal_entries", "unknown_call", "forget_number", "open_number")
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
    PIN_FIELD_NUMBER: _ClassVar[int]
    JOURNAL_ENTRIES_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_CALL_FIELD_NUMBER: _ClassVar[int]
    FORGET_NUMBER_FIELD_NUMBER: _ClassVar[int]
    OPEN_NUMBER_FIELD_NUMBER: _ClassVar[int]
    execution_id: str
    kind: _types_pb2.StepKind
    task_id: str
    iteration: int
    attempt: int
    queue: str
    role: str
    priority: int
    status: _types_pb2.ExecutionStatus
    delay: _duration_pb2.Duration
    worker_id: str
    begun: bool
    failure: _types_pb2.Failure
    usage: _types_pb2.Usage
    session: _types_pb2.Session
    has_result: bool
    offered_time: _timestamp_pb2.Timestamp
    leased_time: _timestamp_pb2.Timestamp
    ended_time: _timestamp_pb2.Timestamp
    messages_after: int
    messages: int
    unknown_time: _timestamp_pb2.Timestamp
    type: str
    pin: str
    journal_entries: int
    unknown_call: str
    forget_number: int
    open_number: int
    def __init__(self, execution_id: _Optional[str] = ..., kind: _Optional[_Union[_types_pb2.StepKind, str]] = ..., task_id: _Optional[str] = ..., iteration: _Optional[int] = ..., attempt: _Optional[int] = ..., queue: _Optional[str] = ..., role: _Optional[str] = ..., priority: _Optional[int] = ..., status: _Optional[_Union[_types_pb2.ExecutionStatus, str]] = ..., delay: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., worker_id: _Optional[str] = ..., begun: bool = ..., failure: _Optional[_Union[_types_pb2.Failure, _Mapping]] = ..., usage: _Optional[_Union[_types_pb2.Usage, _Mapping]] = ..., session: _Optional[_Union[_types_pb2.Session, _Mapping]] = ..., has_result: bool = ..., offered_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., leased_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., ended_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., messages_after: _Optional[int] = ..., messages: _Optional[int] = ..., unknown_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., type: _Optional[str] = ..., pin: _Optional[str] = ..., journal_entries: _Optional[int] = ..., unknown_call: _Optional[str] = ..., forget_number: _Optional[int] = ..., open_number: _Optional[int] = ...) -> None: ...

class RunChange(_message.Message):
    __slots__ = ("status", "phase", "iteration", "plan_revision", "stages", "stages_fixed", "allowance", "step_attempt", "step_spent", "counts", "usage", "budget", "blocked_on", "blocked_since_time", "pause_reason", "finish_reason", "reason", "failure", "result_id", "created_time", "started_time", "ended_time", "attempts", "tally", "stopping", "previous", "step_losses", "actor", "on_behalf_of", "blocked_run_id", "step_journal", "step_waits", "signals", "letters", "children", "waits_for_thread", "thread")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    ITERATION_FIELD_NUMBER: _ClassVar[int]
    PLAN_REVISION_FIELD_NUMBER: _ClassVar[int]
    STAGES_FIELD_NUMBER: _ClassVar[int]
    STAGES_FIXED_FIELD_NUMBER: _ClassVar[int]
    ALLOWANCE_FIELD_NUMBER: _ClassVar[int]
    STEP_ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    STEP_SPENT_FIELD_NUMBER: _ClassVar[int]
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
    TALLY_FIELD_NUMBER: _ClassVar[int]
    STOPPING_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_FIELD_NUMBER: _ClassVar[int]
    STEP_LOSSES_FIELD_NUMBER: _ClassVar[int]
    ACTOR_FIELD_NUMBER: _ClassVar[int]
    ON_BEHALF_OF_FIELD_NUMBER: _ClassVar[int]
    BLOCKED_RUN_ID_FIELD_NUMBER: _ClassVar[int]
    STEP_JOURNAL_FIELD_NUMBER: _ClassVar[int]
    STEP_WAITS_FIELD_NUMBER: _ClassVar[int]
    SIGNALS_FIELD_NUMBER: _ClassVar[int]
    LETTERS_FIELD_NUMBER: _ClassVar[int]
    CHILDREN_FIELD_NUMBER: _ClassVar[int]
    WAITS_FOR_THREAD_FIELD_NUMBER: _ClassVar[int]
    THREAD_FIELD_NUMBER: _ClassVar[int]
    status: _types_pb2.RunStatus
    phase: _types_pb2.Phase
    iteration: int
    plan_revision: int
    stages: _types_pb2.Stages
    stages_fixed: bool
    allowance: int
    step_attempt: int
    step_spent: int
    counts: _types_pb2.Counts
    usage: _types_pb2.Usage
    budget: _types_pb2.Budget
    blocked_on: _types_pb2.BlockedKind
    blocked_since_time: _timestamp_pb2.Timestamp
    pause_reason: _types_pb2.PauseReason
    finish_reason: _types_pb2.FinishReason
    reason: str
    failure: _types_pb2.Failure
    result_id: str
    created_time: _timestamp_pb2.Timestamp
    started_time: _timestamp_pb2.Timestamp
    ended_time: _timestamp_pb2.Timestamp
    attempts: _types_pb2.AttemptCounts
    tally: Tally
    stopping: bool
    previous: Previous
    step_losses: Losses
    actor: str
    on_behalf_of: str
    blocked_run_id: str
    step_journal: Journal
    step_waits: _types_pb2.Waits
    signals: Signals
    letters: Letters
    children: int
    waits_for_thread: bool
    thread: Thread
    def __init__(self, status: _Optional[_Union[_types_pb2.RunStatus, str]] = ..., phase: _Optional[_Union[_types_pb2.Phase, str]] = ..., iteration: _Optional[int] = ..., plan_revision: _Optional[int] = ..., stages: _Optional[_Union[_types_pb2.Stages, _Mapping]] = ..., stages_fixed: bool = ..., allowance: _Optional[int] = ..., step_attempt: _Optional[int] = ..., step_spent: _Optional[int] = ..., counts: _Optional[_Union[_types_pb2.Counts, _Mapping]] = ..., usage: _Optional[_Union[_types_pb2.Usage, _Mapping]] = ..., budget: _Optional[_Union[_types_pb2.Budget, _Mapping]] = ..., blocked_on: _Optional[_Union[_types_pb2.BlockedKind, str]] = ..., blocked_since_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., pause_reason: _Optional[_Union[_types_pb2.PauseReason, str]] = ..., finish_reason: _Optional[_Union[_types_pb2.FinishReason, str]] = ..., reason: _Optional[str] = ..., failure: _Optional[_Union[_types_pb2.Failure, _Mapping]] = ..., result_id: _Optional[str] = ..., created_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., started_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., ended_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., attempts: _Optional[_Union[_types_pb2.AttemptCounts, _Mapping]] = ..., tally: _Optional[_Union[Tally, _Mapping]] = ..., stopping: bool = ..., previous: _Optional[_Union[Previous, _Mapping]] = ..., step_losses: _Optional[_Union[Losses, _Mapping]] = ..., actor: _Optional[str] = ..., on_behalf_of: _Optional[str] = ..., blocked_run_id: _Optional[str] = ..., step_journal: _Optional[_Union[Journal, _Mapping]] = ..., step_waits: _Optional[_Union[_types_pb2.Waits, _Mapping]] = ..., signals: _Optional[_Union[Signals, _Mapping]] = ..., letters: _Optional[_Union[Letters, _Mapping]] = ..., children: _Optional[int] = ..., waits_for_thread: bool = ..., thread: _Optional[_Union[Thread, _Mapping]] = ...) -> None: ...

class TaskChange(_message.Message):
    __slots__ = ("task_id", "revision", "status", "attempts", "spent", "allowance", "result_id", "failure", "question_id", "started_time", "ended_time", "result_run_id", "deduplicated_from", "messages", "previous", "reconciles", "reconciles_spent", "losses", "reconcile_losses", "held_key", "key_run_id", "journal", "waits")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    SPENT_FIELD_NUMBER: _ClassVar[int]
    ALLOWANCE_FIELD_NUMBER: _ClassVar[int]
    RESULT_ID_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    QUESTION_ID_FIELD_NUMBER: _ClassVar[int]
    STARTED_TIME_FIELD_NUMBER: _ClassVar[int]
    ENDED_TIME_FIELD_NUMBER: _ClassVar[int]
    RESULT_RUN_ID_FIELD_NUMBER: _ClassVar[int]
    DEDUPLICATED_FROM_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_FIELD_NUMBER: _ClassVar[int]
    RECONCILES_FIELD_NUMBER: _ClassVar[int]
    RECONCILES_SPENT_FIELD_NUMBER: _ClassVar[int]
    LOSSES_FIELD_NUMBER: _ClassVar[int]
    RECONCILE_LOSSES_FIELD_NUMBER: _ClassVar[int]
    HELD_KEY_FIELD_NUMBER: _ClassVar[int]
    KEY_RUN_ID_FIELD_NUMBER: _ClassVar[int]
    JOURNAL_FIELD_NUMBER: _ClassVar[int]
    WAITS_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    revision: int
    status: _types_pb2.TaskStatus
    attempts: int
    spent: int
    allowance: int
    result_id: str
    failure: _types_pb2.Failure
    question_id: str
    started_time: _timestamp_pb2.Timestamp
    ended_time: _timestamp_pb2.Timestamp
    result_run_id: str
    deduplicated_from: str
    messages: int
    previous: Previous
    reconciles: int
    reconciles_spent: int
    losses: Losses
    reconcile_losses: Losses
    held_key: str
    key_run_id: str
    journal: Journal
    waits: _types_pb2.Waits
    def __init__(self, task_id: _Optional[str] = ..., revision: _Optional[int] = ..., status: _Optional[_Union[_types_pb2.TaskStatus, str]] = ..., attempts: _Optional[int] = ..., spent: _Optional[int] = ..., allowance: _Optional[int] = ..., result_id: _Optional[str] = ..., failure: _Optional[_Union[_types_pb2.Failure, _Mapping]] = ..., question_id: _Optional[str] = ..., started_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., ended_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., result_run_id: _Optional[str] = ..., deduplicated_from: _Optional[str] = ..., messages: _Optional[int] = ..., previous: _Optional[_Union[Previous, _Mapping]] = ..., reconciles: _Optional[int] = ..., reconciles_spent: _Optional[int] = ..., losses: _Optional[_Union[Losses, _Mapping]] = ..., reconcile_losses: _Optional[_Union[Losses, _Mapping]] = ..., held_key: _Optional[str] = ..., key_run_id: _Optional[str] = ..., journal: _Optional[_Union[Journal, _Mapping]] = ..., waits: _Optional[_Union[_types_pb2.Waits, _Mapping]] = ...) -> None: ...

class ExecutionChange(_message.Message):
    __slots__ = ("execution_id", "kind", "task_id", "iteration", "attempt", "queue", "role", "priority", "status", "delay", "worker_id", "begun", "failure", "usage", "session", "has_result", "offered_time", "leased_time", "ended_time", "messages_after", "messages", "unknown_time", "type", "pin", "journal_entries", "unknown_call", "forget_number", "open_number")
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
    PIN_FIELD_NUMBER: _ClassVar[int]
    JOURNAL_ENTRIES_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_CALL_FIELD_NUMBER: _ClassVar[int]
    FORGET_NUMBER_FIELD_NUMBER: _ClassVar[int]
    OPEN_NUMBER_FIELD_NUMBER: _ClassVar[int]
    execution_id: str
    kind: _types_pb2.StepKind
    task_id: str
    iteration: int
    attempt: int
    queue: str
    role: str
    priority: int
    status: _types_pb2.ExecutionStatus
    delay: _duration_pb2.Duration
    worker_id: str
    begun: bool
    failure: _types_pb2.Failure
    usage: _types_pb2.Usage
    session: _types_pb2.Session
    has_result: bool
    offered_time: _timestamp_pb2.Timestamp
    leased_time: _timestamp_pb2.Timestamp
    ended_time: _timestamp_pb2.Timestamp
    messages_after: int
    messages: int
    unknown_time: _timestamp_pb2.Timestamp
    type: str
    pin: str
    journal_entries: int
    unknown_call: str
    forget_number: int
    open_number: int
    def __init__(self, execution_id: _Optional[str] = ..., kind: _Optional[_Union[_types_pb2.StepKind, str]] = ..., task_id: _Optional[str] = ..., iteration: _Optional[int] = ..., attempt: _Optional[int] = ..., queue: _Optional[str] = ..., role: _Optional[str] = ..., priority: _Optional[int] = ..., status: _Optional[_Union[_types_pb2.ExecutionStatus, str]] = ..., delay: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., worker_id: _Optional[str] = ..., begun: bool = ..., failure: _Optional[_Union[_types_pb2.Failure, _Mapping]] = ..., usage: _Optional[_Union[_types_pb2.Usage, _Mapping]] = ..., session: _Optional[_Union[_types_pb2.Session, _Mapping]] = ..., has_result: bool = ..., offered_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., leased_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., ended_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., messages_after: _Optional[int] = ..., messages: _Optional[int] = ..., unknown_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., type: _Optional[str] = ..., pin: _Optional[str] = ..., journal_entries: _Optional[int] = ..., unknown_call: _Optional[str] = ..., forget_number: _Optional[int] = ..., open_number: _Optional[int] = ...) -> None: ...

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
    type: _types_pb2.EventType
    time: _timestamp_pb2.Timestamp
    task_id: str
    execution_id: str
    question_id: str
    message: str
    run: RunChange
    tasks: _containers.RepeatedCompositeFieldContainer[TaskChange]
    executions: _containers.RepeatedCompositeFieldContainer[ExecutionChange]
    questions: _containers.RepeatedCompositeFieldContainer[_types_pb2.Question]
    plan_revision: int
    actor: str
    on_behalf_of: str
    def __init__(self, number: _Optional[int] = ..., version: _Optional[int] = ..., type: _Optional[_Union[_types_pb2.EventType, str]] = ..., time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., task_id: _Optional[str] = ..., execution_id: _Optional[str] = ..., question_id: _Optional[str] = ..., message: _Optional[str] = ..., run: _Optional[_Union[RunChange, _Mapping]] = ..., tasks: _Optional[_Iterable[_Union[TaskChange, _Mapping]]] = ..., executions: _Optional[_Iterable[_Union[ExecutionChange, _Mapping]]] = ..., questions: _Optional[_Iterable[_Union[_types_pb2.Question, _Mapping]]] = ..., plan_revision: _Optional[int] = ..., actor: _Optional[str] = ..., on_behalf_of: _Optional[str] = ...) -> None: ...

class Commit(_message.Message):
    __slots__ = ("commit_id", "tenant_id", "run_id", "version", "run", "input", "plan", "tasks", "executions", "outcomes", "leases", "fences", "timers", "questions", "events", "messages", "request", "follows", "checkpoint", "entries", "forgotten", "changes_spec")
    COMMIT_ID_FIELD_NUMBER: _ClassVar[int]
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    INPUT_FIELD_NUMBER: _ClassVar[int]
    PLAN_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    EXECUTIONS_FIELD_NUMBER: _ClassVar[int]
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    LEASES_FIELD_NUMBER: _ClassVar[int]
    FENCES_FIELD_NUMBER: _ClassVar[int]
    TIMERS_FIELD_NUMBER: _ClassVar[int]
    QUESTIONS_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    FOLLOWS_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    FORGOTTEN_FIELD_NUMBER: _ClassVar[int]
    CHANGES_SPEC_FIELD_NUMBER: _ClassVar[int]
    commit_id: str
    tenant_id: str
    run_id: str
    version: int
    run: Run
    input: _types_pb2.Payload
    plan: _types_pb2.Plan
    tasks: _containers.RepeatedCompositeFieldContainer[Task]
    executions: _containers.RepeatedCompositeFieldContainer[Execution]
    outcomes: _containers.RepeatedCompositeFieldContainer[StoredOutcome]
    leases: _containers.RepeatedCompositeFieldContainer[Lease]
    fences: _containers.RepeatedCompositeFieldContainer[Fence]
    timers: _containers.RepeatedCompositeFieldContainer[Timer]
    questions: _containers.RepeatedCompositeFieldContainer[_types_pb2.Question]
    events: _containers.RepeatedCompositeFieldContainer[Event]
    messages: _containers.RepeatedCompositeFieldContainer[_types_pb2.Message]
    request: RequestRecord
    follows: str
    checkpoint: StoredCheckpoint
    entries: _containers.RepeatedCompositeFieldContainer[EntryWrite]
    forgotten: _containers.RepeatedCompositeFieldContainer[EntryWrite]
    changes_spec: bool
    def __init__(self, commit_id: _Optional[str] = ..., tenant_id: _Optional[str] = ..., run_id: _Optional[str] = ..., version: _Optional[int] = ..., run: _Optional[_Union[Run, _Mapping]] = ..., input: _Optional[_Union[_types_pb2.Payload, _Mapping]] = ..., plan: _Optional[_Union[_types_pb2.Plan, _Mapping]] = ..., tasks: _Optional[_Iterable[_Union[Task, _Mapping]]] = ..., executions: _Optional[_Iterable[_Union[Execution, _Mapping]]] = ..., outcomes: _Optional[_Iterable[_Union[StoredOutcome, _Mapping]]] = ..., leases: _Optional[_Iterable[_Union[Lease, _Mapping]]] = ..., fences: _Optional[_Iterable[_Union[Fence, _Mapping]]] = ..., timers: _Optional[_Iterable[_Union[Timer, _Mapping]]] = ..., questions: _Optional[_Iterable[_Union[_types_pb2.Question, _Mapping]]] = ..., events: _Optional[_Iterable[_Union[Event, _Mapping]]] = ..., messages: _Optional[_Iterable[_Union[_types_pb2.Message, _Mapping]]] = ..., request: _Optional[_Union[RequestRecord, _Mapping]] = ..., follows: _Optional[str] = ..., checkpoint: _Optional[_Union[StoredCheckpoint, _Mapping]] = ..., entries: _Optional[_Iterable[_Union[EntryWrite, _Mapping]]] = ..., forgotten: _Optional[_Iterable[_Union[EntryWrite, _Mapping]]] = ..., changes_spec: bool = ...) -> None: ...

class EntryWrite(_message.Message):
    __slots__ = ("journal", "generation", "entry")
    JOURNAL_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    ENTRY_FIELD_NUMBER: _ClassVar[int]
    journal: str
    generation: int
    entry: _types_pb2.JournalEntry
    def __init__(self, journal: _Optional[str] = ..., generation: _Optional[int] = ..., entry: _Optional[_Union[_types_pb2.JournalEntry, _Mapping]] = ...) -> None: ...

class JournalTotals(_message.Message):
    __slots__ = ("entries", "bytes", "usage", "messages")
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    entries: int
    bytes: int
    usage: _types_pb2.Usage
    messages: int
    def __init__(self, entries: _Optional[int] = ..., bytes: _Optional[int] = ..., usage: _Optional[_Union[_types_pb2.Usage, _Mapping]] = ..., messages: _Optional[int] = ...) -> None: ...

class JournalWrite(_message.Message):
    __slots__ = ("tenant_id", "run_id", "execution_id", "token", "journal", "generation", "entries", "forget_number")
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_ID_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    JOURNAL_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    FORGET_NUMBER_FIELD_NUMBER: _ClassVar[int]
    tenant_id: str
    run_id: str
    execution_id: str
    token: str
    journal: str
    generation: int
    entries: _containers.RepeatedCompositeFieldContainer[_types_pb2.JournalEntry]
    forget_number: int
    def __init__(self, tenant_id: _Optional[str] = ..., run_id: _Optional[str] = ..., execution_id: _Optional[str] = ..., token: _Optional[str] = ..., journal: _Optional[str] = ..., generation: _Optional[int] = ..., entries: _Optional[_Iterable[_Union[_types_pb2.JournalEntry, _Mapping]]] = ..., forget_number: _Optional[int] = ...) -> None: ...

class EntryAck(_message.Message):
    __slots__ = ("accepted", "until_time")
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    UNTIL_TIME_FIELD_NUMBER: _ClassVar[int]
    accepted: bool
    until_time: _timestamp_pb2.Timestamp
    def __init__(self, accepted: bool = ..., until_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class JournalAck(_message.Message):
    __slots__ = ("live", "written", "totals", "now_time", "late")
    LIVE_FIELD_NUMBER: _ClassVar[int]
    WRITTEN_FIELD_NUMBER: _ClassVar[int]
    TOTALS_FIELD_NUMBER: _ClassVar[int]
    NOW_TIME_FIELD_NUMBER: _ClassVar[int]
    LATE_FIELD_NUMBER: _ClassVar[int]
    live: bool
    written: _containers.RepeatedCompositeFieldContainer[EntryAck]
    totals: JournalTotals
    now_time: _timestamp_pb2.Timestamp
    late: bool
    def __init__(self, live: bool = ..., written: _Optional[_Iterable[_Union[EntryAck, _Mapping]]] = ..., totals: _Optional[_Union[JournalTotals, _Mapping]] = ..., now_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., late: bool = ...) -> None: ...

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

class StoredOutcome(_message.Message):
    __slots__ = ("execution_id", "result", "prompt", "response", "receipt")
    EXECUTION_ID_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    RECEIPT_FIELD_NUMBER: _ClassVar[int]
    execution_id: str
    result: _types_pb2.Payload
    prompt: str
    response: str
    receipt: str
    def __init__(self, execution_id: _Optional[str] = ..., result: _Optional[_Union[_types_pb2.Payload, _Mapping]] = ..., prompt: _Optional[str] = ..., response: _Optional[str] = ..., receipt: _Optional[str] = ...) -> None: ...

class StoredCheckpoint(_message.Message):
    __slots__ = ("version", "iteration", "created_time", "state", "base")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    ITERATION_FIELD_NUMBER: _ClassVar[int]
    CREATED_TIME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    BASE_FIELD_NUMBER: _ClassVar[int]
    version: int
    iteration: int
    created_time: _timestamp_pb2.Timestamp
    state: CheckpointState
    base: bytes
    def __init__(self, version: _Optional[int] = ..., iteration: _Optional[int] = ..., created_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., state: _Optional[_Union[CheckpointState, _Mapping]] = ..., base: _Optional[bytes] = ...) -> None: ...

class CheckpointState(_message.Message):
    __slots__ = ("last_event", "events", "run", "since", "base_event")
    LAST_EVENT_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    BASE_EVENT_FIELD_NUMBER: _ClassVar[int]
    last_event: int
    events: _containers.RepeatedCompositeFieldContainer[NamedEvent]
    run: RunChange
    since: Growth
    base_event: int
    def __init__(self, last_event: _Optional[int] = ..., events: _Optional[_Iterable[_Union[NamedEvent, _Mapping]]] = ..., run: _Optional[_Union[RunChange, _Mapping]] = ..., since: _Optional[_Union[Growth, _Mapping]] = ..., base_event: _Optional[int] = ...) -> None: ...

class NamedEvent(_message.Message):
    __slots__ = ("number", "type", "message")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    number: int
    type: _types_pb2.EventType
    message: str
    def __init__(self, number: _Optional[int] = ..., type: _Optional[_Union[_types_pb2.EventType, str]] = ..., message: _Optional[str] = ...) -> None: ...

class Growth(_message.Message):
    __slots__ = ("version", "counts", "attempts", "usage")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    version: int
    counts: _types_pb2.Counts
    attempts: _types_pb2.AttemptCounts
    usage: _types_pb2.Usage
    def __init__(self, version: _Optional[int] = ..., counts: _Optional[_Union[_types_pb2.Counts, _Mapping]] = ..., attempts: _Optional[_Union[_types_pb2.AttemptCounts, _Mapping]] = ..., usage: _Optional[_Union[_types_pb2.Usage, _Mapping]] = ...) -> None: ...

class Lease(_message.Message):
    __slots__ = ("execution_id", "token", "worker_id", "instance_id", "lease", "limit")
    EXECUTION_ID_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    execution_id: str
    token: str
    worker_id: str
    instance_id: str
    lease: _duration_pb2.Duration
    limit: _duration_pb2.Duration
    def __init__(self, execution_id: _Optional[str] = ..., token: _Optional[str] = ..., worker_id: _Optional[str] = ..., instance_id: _Optional[str] = ..., lease: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., limit: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class Fence(_message.Message):
    __slots__ = ("execution_id", "token", "recorded")
    EXECUTION_ID_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    RECORDED_FIELD_NUMBER: _ClassVar[int]
    execution_id: str
    token: str
    recorded: int
    def __init__(self, execution_id: _Optional[str] = ..., token: _Optional[str] = ..., recorded: _Optional[int] = ...) -> None: ...

class Timer(_message.Message):
    __slots__ = ("name", "delay")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DELAY_FIELD_NUMBER: _ClassVar[int]
    name: str
    delay: _duration_pb2.Duration
    def __init__(self, name: _Optional[str] = ..., delay: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class RequestRecord(_message.Message):
    __slots__ = ("request_id", "fingerprint", "version")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    fingerprint: str
    version: int
    def __init__(self, request_id: _Optional[str] = ..., fingerprint: _Optional[str] = ..., version: _Optional[int] = ...) -> None: ...

class CommitResult(_message.Message):
    __slots__ = ("verdict", "now_time")
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    NOW_TIME_FIELD_NUMBER: _ClassVar[int]
    verdict: Verdict
    now_time: _timestamp_pb2.Timestamp
    def __init__(self, verdict: _Optional[_Union[Verdict, str]] = ..., now_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class Renewal(_message.Message):
    __slots__ = ("tenant_id", "run_id", "execution_id", "token", "lease", "progress", "session")
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_ID_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    tenant_id: str
    run_id: str
    execution_id: str
    token: str
    lease: _duration_pb2.Duration
    progress: _types_pb2.Payload
    session: _types_pb2.Session
    def __init__(self, tenant_id: _Optional[str] = ..., run_id: _Optional[str] = ..., execution_id: _Optional[str] = ..., token: _Optional[str] = ..., lease: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., progress: _Optional[_Union[_types_pb2.Payload, _Mapping]] = ..., session: _Optional[_Union[_types_pb2.Session, _Mapping]] = ...) -> None: ...

class Want(_message.Message):
    __slots__ = ("tenant_id", "queues", "kinds", "tasks", "limit", "version")
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    tenant_id: str
    queues: _containers.RepeatedScalarFieldContainer[str]
    kinds: _containers.RepeatedScalarFieldContainer[_types_pb2.StepKind]
    tasks: _containers.RepeatedCompositeFieldContainer[_types_pb2.TaskPattern]
    limit: int
    version: str
    def __init__(self, tenant_id: _Optional[str] = ..., queues: _Optional[_Iterable[str]] = ..., kinds: _Optional[_Iterable[_Union[_types_pb2.StepKind, str]]] = ..., tasks: _Optional[_Iterable[_Union[_types_pb2.TaskPattern, _Mapping]]] = ..., limit: _Optional[int] = ..., version: _Optional[str] = ...) -> None: ...

class Claim(_message.Message):
    __slots__ = ("wants", "due_limit", "hold")
    WANTS_FIELD_NUMBER: _ClassVar[int]
    DUE_LIMIT_FIELD_NUMBER: _ClassVar[int]
    HOLD_FIELD_NUMBER: _ClassVar[int]
    wants: _containers.RepeatedCompositeFieldContainer[Want]
    due_limit: int
    hold: _duration_pb2.Duration
    def __init__(self, wants: _Optional[_Iterable[_Union[Want, _Mapping]]] = ..., due_limit: _Optional[int] = ..., hold: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class ReadyStep(_message.Message):
    __slots__ = ("tenant_id", "run_id", "execution_id", "version", "waited")
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    WAITED_FIELD_NUMBER: _ClassVar[int]
    tenant_id: str
    run_id: str
    execution_id: str
    version: int
    waited: _duration_pb2.Duration
    def __init__(self, tenant_id: _Optional[str] = ..., run_id: _Optional[str] = ..., execution_id: _Optional[str] = ..., version: _Optional[int] = ..., waited: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class ReadySteps(_message.Message):
    __slots__ = ("steps",)
    STEPS_FIELD_NUMBER: _ClassVar[int]
    steps: _containers.RepeatedCompositeFieldContainer[ReadyStep]
    def __init__(self, steps: _Optional[_Iterable[_Union[ReadyStep, _Mapping]]] = ...) -> None: ...

class Due(_message.Message):
    __slots__ = ("tenant_id", "run_id", "kind", "name", "token", "version")
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    tenant_id: str
    run_id: str
    kind: DueKind
    name: str
    token: str
    version: int
    def __init__(self, tenant_id: _Optional[str] = ..., run_id: _Optional[str] = ..., kind: _Optional[_Union[DueKind, str]] = ..., name: _Optional[str] = ..., token: _Optional[str] = ..., version: _Optional[int] = ...) -> None: ...

class Claimed(_message.Message):
    __slots__ = ("ready", "due", "next_due", "now_time")
    READY_FIELD_NUMBER: _ClassVar[int]
    DUE_FIELD_NUMBER: _ClassVar[int]
    NEXT_DUE_FIELD_NUMBER: _ClassVar[int]
    NOW_TIME_FIELD_NUMBER: _ClassVar[int]
    ready: _containers.RepeatedCompositeFieldContainer[ReadySteps]
    due: _containers.RepeatedCompositeFieldContainer[Due]
    next_due: _duration_pb2.Duration
    now_time: _timestamp_pb2.Timestamp
    def __init__(self, ready: _Optional[_Iterable[_Union[ReadySteps, _Mapping]]] = ..., due: _Optional[_Iterable[_Union[Due, _Mapping]]] = ..., next_due: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., now_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class OpenExecution(_message.Message):
    __slots__ = ("execution", "token", "worker_id", "instance_id", "progress", "session", "recorded")
    EXECUTION_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    RECORDED_FIELD_NUMBER: _ClassVar[int]
    execution: Execution
    token: str
    worker_id: str
    instance_id: str
    progress: _types_pb2.Payload
    session: _types_pb2.Session
    recorded: JournalTotals
    def __init__(self, execution: _Optional[_Union[Execution, _Mapping]] = ..., token: _Optional[str] = ..., worker_id: _Optional[str] = ..., instance_id: _Optional[str] = ..., progress: _Optional[_Union[_types_pb2.Payload, _Mapping]] = ..., session: _Optional[_Union[_types_pb2.Session, _Mapping]] = ..., recorded: _Optional[_Union[JournalTotals, _Mapping]] = ...) -> None: ...

class Loaded(_message.Message):
    __slots__ = ("run", "plans", "tasks", "executions", "questions", "requests", "complete", "now_time", "commit_id", "since_id", "checkpoint")
    RUN_FIELD_NUMBER: _ClassVar[int]
    PLANS_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    EXECUTIONS_FIELD_NUMBER: _ClassVar[int]
    QUESTIONS_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    NOW_TIME_FIELD_NUMBER: _ClassVar[int]
    COMMIT_ID_FIELD_NUMBER: _ClassVar[int]
    SINCE_ID_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    run: Run
    plans: _containers.RepeatedCompositeFieldContainer[_types_pb2.Plan]
    tasks: _containers.RepeatedCompositeFieldContainer[Task]
    executions: _containers.RepeatedCompositeFieldContainer[OpenExecution]
    questions: _containers.RepeatedCompositeFieldContainer[_types_pb2.Question]
    requests: _containers.RepeatedCompositeFieldContainer[RequestRecord]
    complete: bool
    now_time: _timestamp_pb2.Timestamp
    commit_id: str
    since_id: str
    checkpoint: StoredCheckpoint
    def __init__(self, run: _Optional[_Union[Run, _Mapping]] = ..., plans: _Optional[_Iterable[_Union[_types_pb2.Plan, _Mapping]]] = ..., tasks: _Optional[_Iterable[_Union[Task, _Mapping]]] = ..., executions: _Optional[_Iterable[_Union[OpenExecution, _Mapping]]] = ..., questions: _Optional[_Iterable[_Union[_types_pb2.Question, _Mapping]]] = ..., requests: _Optional[_Iterable[_Union[RequestRecord, _Mapping]]] = ..., complete: bool = ..., now_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., commit_id: _Optional[str] = ..., since_id: _Optional[str] = ..., checkpoint: _Optional[_Union[StoredCheckpoint, _Mapping]] = ...) -> None: ...

class StoredPayload(_message.Message):
    __slots__ = ("key", "payload", "prompt", "response", "receipt")
    KEY_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    RECEIPT_FIELD_NUMBER: _ClassVar[int]
    key: str
    payload: _types_pb2.Payload
    prompt: str
    response: str
    receipt: str
    def __init__(self, key: _Optional[str] = ..., payload: _Optional[_Union[_types_pb2.Payload, _Mapping]] = ..., prompt: _Optional[str] = ..., response: _Optional[str] = ..., receipt: _Optional[str] = ...) -> None: ...

class EventPage(_message.Message):
    __slots__ = ("events", "oldest", "latest", "ended")
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    OLDEST_FIELD_NUMBER: _ClassVar[int]
    LATEST_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    events: _containers.RepeatedCompositeFieldContainer[Event]
    oldest: int
    latest: int
    ended: bool
    def __init__(self, events: _Optional[_Iterable[_Union[Event, _Mapping]]] = ..., oldest: _Optional[int] = ..., latest: _Optional[int] = ..., ended: bool = ...) -> None: ...

class LogsOfExecution(_message.Message):
    __slots__ = ("tenant_id", "run_id", "execution_id", "kind")
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    tenant_id: str
    run_id: str
    execution_id: str
    kind: _types_pb2.LogKind
    def __init__(self, tenant_id: _Optional[str] = ..., run_id: _Optional[str] = ..., execution_id: _Optional[str] = ..., kind: _Optional[_Union[_types_pb2.LogKind, str]] = ...) -> None: ...

class OldLogs(_message.Message):
    __slots__ = ("older", "limit")
    OLDER_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    older: _duration_pb2.Duration
    limit: int
    def __init__(self, older: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., limit: _Optional[int] = ...) -> None: ...

class RunQuery(_message.Message):
    __slots__ = ("tenant_id", "statuses", "pipeline_id", "queue", "executor_id", "labels", "blocked_on", "cursor", "limit", "parent_run_id", "run_id_prefix")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    STATUSES_FIELD_NUMBER: _ClassVar[int]
    PIPELINE_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    EXECUTOR_ID_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    BLOCKED_ON_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    PARENT_RUN_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_PREFIX_FIELD_NUMBER: _ClassVar[int]
    tenant_id: str
    statuses: _containers.RepeatedScalarFieldContainer[_types_pb2.RunStatus]
    pipeline_id: str
    queue: str
    executor_id: str
    labels: _containers.ScalarMap[str, str]
    blocked_on: _containers.RepeatedScalarFieldContainer[_types_pb2.BlockedKind]
    cursor: str
    limit: int
    parent_run_id: str
    run_id_prefix: str
    def __init__(self, tenant_id: _Optional[str] = ..., statuses: _Optional[_Iterable[_Union[_types_pb2.RunStatus, str]]] = ..., pipeline_id: _Optional[str] = ..., queue: _Optional[str] = ..., executor_id: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., blocked_on: _Optional[_Iterable[_Union[_types_pb2.BlockedKind, str]]] = ..., cursor: _Optional[str] = ..., limit: _Optional[int] = ..., parent_run_id: _Optional[str] = ..., run_id_prefix: _Optional[str] = ...) -> None: ...

class TaskQuery(_message.Message):
    __slots__ = ("tenant_id", "run_id", "cursor", "limit")
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    tenant_id: str
    run_id: str
    cursor: str
    limit: int
    def __init__(self, tenant_id: _Optional[str] = ..., run_id: _Optional[str] = ..., cursor: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class ExecutionQuery(_message.Message):
    __slots__ = ("tenant_id", "run_id", "task_id", "cursor", "limit")
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    tenant_id: str
    run_id: str
    task_id: str
    cursor: str
    limit: int
    def __init__(self, tenant_id: _Optional[str] = ..., run_id: _Optional[str] = ..., task_id: _Optional[str] = ..., cursor: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class MessageQuery(_message.Message):
    __slots__ = ("tenant_id", "run_id", "task_id", "cursor", "limit")
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    tenant_id: str
    run_id: str
    task_id: str
    cursor: str
    limit: int
    def __init__(self, tenant_id: _Optional[str] = ..., run_id: _Optional[str] = ..., task_id: _Optional[str] = ..., cursor: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class CheckpointQuery(_message.Message):
    __slots__ = ("tenant_id", "run_id", "cursor", "limit")
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    tenant_id: str
    run_id: str
    cursor: str
    limit: int
    def __init__(self, tenant_id: _Optional[str] = ..., run_id: _Optional[str] = ..., cursor: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class LogQuery(_message.Message):
    __slots__ = ("tenant_id", "run_id", "execution_id", "cursor", "limit")
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_ID_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    tenant_id: str
    run_id: str
    execution_id: str
    cursor: str
    limit: int
    def __init__(self, tenant_id: _Optional[str] = ..., run_id: _Optional[str] = ..., execution_id: _Optional[str] = ..., cursor: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class JournalQuery(_message.Message):
    __slots__ = ("tenant_id", "run_id", "journal", "generation", "execution_id", "version", "names_only", "cursor", "limit", "bytes_limit")
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    JOURNAL_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    NAMES_ONLY_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    BYTES_LIMIT_FIELD_NUMBER: _ClassVar[int]
    tenant_id: str
    run_id: str
    journal: str
    generation: int
    execution_id: str
    version: int
    names_only: bool
    cursor: str
    limit: int
    bytes_limit: int
    def __init__(self, tenant_id: _Optional[str] = ..., run_id: _Optional[str] = ..., journal: _Optional[str] = ..., generation: _Optional[int] = ..., execution_id: _Optional[str] = ..., version: _Optional[int] = ..., names_only: bool = ..., cursor: _Optional[str] = ..., limit: _Optional[int] = ..., bytes_limit: _Optional[int] = ...) -> None: ...

class QuestionQuery(_message.Message):
    __slots__ = ("tenant_id", "run_id", "cursor", "limit")
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    tenant_id: str
    run_id: str
    cursor: str
    limit: int
    def __init__(self, tenant_id: _Optional[str] = ..., run_id: _Optional[str] = ..., cursor: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class FoundQuestion(_message.Message):
    __slots__ = ("run_id", "question")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    question: _types_pb2.Question
    def __init__(self, run_id: _Optional[str] = ..., question: _Optional[_Union[_types_pb2.Question, _Mapping]] = ...) -> None: ...

class Reservation(_message.Message):
    __slots__ = ("run_id", "commit_id")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    COMMIT_ID_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    commit_id: str
    def __init__(self, run_id: _Optional[str] = ..., commit_id: _Optional[str] = ...) -> None: ...

class KeySwap(_message.Message):
    __slots__ = ("key", "before", "after")
    KEY_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    key: str
    before: Reservation
    after: Reservation
    def __init__(self, key: _Optional[str] = ..., before: _Optional[_Union[Reservation, _Mapping]] = ..., after: _Optional[_Union[Reservation, _Mapping]] = ...) -> None: ...

class EndedQuery(_message.Message):
    __slots__ = ("tenant_id", "statuses", "older", "pipeline_id", "limit")
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    STATUSES_FIELD_NUMBER: _ClassVar[int]
    OLDER_FIELD_NUMBER: _ClassVar[int]
    PIPELINE_ID_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    tenant_id: str
    statuses: _containers.RepeatedScalarFieldContainer[_types_pb2.RunStatus]
    older: _duration_pb2.Duration
    pipeline_id: str
    limit: int
    def __init__(self, tenant_id: _Optional[str] = ..., statuses: _Optional[_Iterable[_Union[_types_pb2.RunStatus, str]]] = ..., older: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., pipeline_id: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class EndedRun(_message.Message):
    __slots__ = ("tenant_id", "run_id", "version", "status", "ended_time")
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    ENDED_TIME_FIELD_NUMBER: _ClassVar[int]
    tenant_id: str
    run_id: str
    version: int
    status: _types_pb2.RunStatus
    ended_time: _timestamp_pb2.Timestamp
    def __init__(self, tenant_id: _Optional[str] = ..., run_id: _Optional[str] = ..., version: _Optional[int] = ..., status: _Optional[_Union[_types_pb2.RunStatus, str]] = ..., ended_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class FeedEntry(_message.Message):
    __slots__ = ("tenant_id", "run_id", "version", "deleted")
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    DELETED_FIELD_NUMBER: _ClassVar[int]
    tenant_id: str
    run_id: str
    version: int
    deleted: bool
    def __init__(self, tenant_id: _Optional[str] = ..., run_id: _Optional[str] = ..., version: _Optional[int] = ..., deleted: bool = ...) -> None: ...

class FeedQuery(_message.Message):
    __slots__ = ("tenant_id", "cursor", "limit")
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    tenant_id: str
    cursor: str
    limit: int
    def __init__(self, tenant_id: _Optional[str] = ..., cursor: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class PresenceQuery(_message.Message):
    __slots__ = ("tenant_id",)
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    tenant_id: str
    def __init__(self, tenant_id: _Optional[str] = ...) -> None: ...

class LeaseQuery(_message.Message):
    __slots__ = ("tenant_id", "worker_id", "run_id")
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    tenant_id: str
    worker_id: str
    run_id: str
    def __init__(self, tenant_id: _Optional[str] = ..., worker_id: _Optional[str] = ..., run_id: _Optional[str] = ...) -> None: ...

class Presence(_message.Message):
    __slots__ = ("tenant_id", "worker_id", "instance_id", "replica_id", "queues", "tasks", "kinds", "credits", "version", "subject", "connected_time", "draining", "lapses")
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    REPLICA_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    CREDITS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    CONNECTED_TIME_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    LAPSES_FIELD_NUMBER: _ClassVar[int]
    tenant_id: str
    worker_id: str
    instance_id: str
    replica_id: str
    queues: _containers.RepeatedScalarFieldContainer[str]
    tasks: _containers.RepeatedCompositeFieldContainer[_types_pb2.TaskPattern]
    kinds: _containers.RepeatedScalarFieldContainer[_types_pb2.StepKind]
    credits: int
    version: str
    subject: str
    connected_time: _timestamp_pb2.Timestamp
    draining: bool
    lapses: int
    def __init__(self, tenant_id: _Optional[str] = ..., worker_id: _Optional[str] = ..., instance_id: _Optional[str] = ..., replica_id: _Optional[str] = ..., queues: _Optional[_Iterable[str]] = ..., tasks: _Optional[_Iterable[_Union[_types_pb2.TaskPattern, _Mapping]]] = ..., kinds: _Optional[_Iterable[_Union[_types_pb2.StepKind, str]]] = ..., credits: _Optional[int] = ..., version: _Optional[str] = ..., subject: _Optional[str] = ..., connected_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., draining: bool = ..., lapses: _Optional[int] = ...) -> None: ...

class WorkerLease(_message.Message):
    __slots__ = ("run_id", "execution_id", "token", "instance_id", "worker_id", "progress")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_ID_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    execution_id: str
    token: str
    instance_id: str
    worker_id: str
    progress: _types_pb2.Payload
    def __init__(self, run_id: _Optional[str] = ..., execution_id: _Optional[str] = ..., token: _Optional[str] = ..., instance_id: _Optional[str] = ..., worker_id: _Optional[str] = ..., progress: _Optional[_Union[_types_pb2.Payload, _Mapping]] = ...) -> None: ...

class Hint(_message.Message):
    __slots__ = ("tenant_id", "run_id", "version")
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    tenant_id: str
    run_id: str
    version: int
    def __init__(self, tenant_id: _Optional[str] = ..., run_id: _Optional[str] = ..., version: _Optional[int] = ...) -> None: ...

class CommitRequest(_message.Message):
    __slots__ = ("commits",)
    COMMITS_FIELD_NUMBER: _ClassVar[int]
    commits: _containers.RepeatedCompositeFieldContainer[Commit]
    def __init__(self, commits: _Optional[_Iterable[_Union[Commit, _Mapping]]] = ...) -> None: ...

class CommitResponse(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[CommitResult]
    def __init__(self, results: _Optional[_Iterable[_Union[CommitResult, _Mapping]]] = ...) -> None: ...

class RenewRequest(_message.Message):
    __slots__ = ("renewals",)
    RENEWALS_FIELD_NUMBER: _ClassVar[int]
    renewals: _containers.RepeatedCompositeFieldContainer[Renewal]
    def __init__(self, renewals: _Optional[_Iterable[_Union[Renewal, _Mapping]]] = ...) -> None: ...

class RenewResponse(_message.Message):
    __slots__ = ("held",)
    HELD_FIELD_NUMBER: _ClassVar[int]
    held: _containers.RepeatedScalarFieldContainer[bool]
    def __init__(self, held: _Optional[_Iterable[bool]] = ...) -> None: ...

class PutPresenceRequest(_message.Message):
    __slots__ = ("presences", "ttl")
    PRESENCES_FIELD_NUMBER: _ClassVar[int]
    TTL_FIELD_NUMBER: _ClassVar[int]
    presences: _containers.RepeatedCompositeFieldContainer[Presence]
    ttl: _duration_pb2.Duration
    def __init__(self, presences: _Optional[_Iterable[_Union[Presence, _Mapping]]] = ..., ttl: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class PutPresenceResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class AppendLogsRequest(_message.Message):
    __slots__ = ("tenant_id", "run_id", "entries")
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    tenant_id: str
    run_id: str
    entries: _containers.RepeatedCompositeFieldContainer[_types_pb2.LogEntry]
    def __init__(self, tenant_id: _Optional[str] = ..., run_id: _Optional[str] = ..., entries: _Optional[_Iterable[_Union[_types_pb2.LogEntry, _Mapping]]] = ...) -> None: ...

class AppendLogsResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DeleteRunRequest(_message.Message):
    __slots__ = ("tenant_id", "run_id", "version")
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    tenant_id: str
    run_id: str
    version: int
    def __init__(self, tenant_id: _Optional[str] = ..., run_id: _Optional[str] = ..., version: _Optional[int] = ...) -> None: ...

class DeleteRunResponse(_message.Message):
    __slots__ = ("deleted",)
    DELETED_FIELD_NUMBER: _ClassVar[int]
    deleted: bool
    def __init__(self, deleted: bool = ...) -> None: ...

class ClaimRequest(_message.Message):
    __slots__ = ("claim",)
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    claim: Claim
    def __init__(self, claim: _Optional[_Union[Claim, _Mapping]] = ...) -> None: ...

class ClaimResponse(_message.Message):
    __slots__ = ("claimed",)
    CLAIMED_FIELD_NUMBER: _ClassVar[int]
    claimed: Claimed
    def __init__(self, claimed: _Optional[_Union[Claimed, _Mapping]] = ...) -> None: ...

class GetRunRequest(_message.Message):
    __slots__ = ("tenant_id", "run_id")
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    tenant_id: str
    run_id: str
    def __init__(self, tenant_id: _Optional[str] = ..., run_id: _Optional[str] = ...) -> None: ...

class GetRunResponse(_message.Message):
    __slots__ = ("run",)
    RUN_FIELD_NUMBER: _ClassVar[int]
    run: Run
    def __init__(self, run: _Optional[_Union[Run, _Mapping]] = ...) -> None: ...

class LoadRequest(_message.Message):
    __slots__ = ("tenant_id", "run_id", "since")
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    tenant_id: str
    run_id: str
    since: int
    def __init__(self, tenant_id: _Optional[str] = ..., run_id: _Optional[str] = ..., since: _Optional[int] = ...) -> None: ...

class LoadResponse(_message.Message):
    __slots__ = ("loaded",)
    LOADED_FIELD_NUMBER: _ClassVar[int]
    loaded: Loaded
    def __init__(self, loaded: _Optional[_Union[Loaded, _Mapping]] = ...) -> None: ...

class ReadPayloadsRequest(_message.Message):
    __slots__ = ("tenant_id", "run_id", "keys", "texts")
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    TEXTS_FIELD_NUMBER: _ClassVar[int]
    tenant_id: str
    run_id: str
    keys: _containers.RepeatedScalarFieldContainer[str]
    texts: bool
    def __init__(self, tenant_id: _Optional[str] = ..., run_id: _Optional[str] = ..., keys: _Optional[_Iterable[str]] = ..., texts: bool = ...) -> None: ...

class ReadPayloadsResponse(_message.Message):
    __slots__ = ("payloads",)
    PAYLOADS_FIELD_NUMBER: _ClassVar[int]
    payloads: _containers.RepeatedCompositeFieldContainer[StoredPayload]
    def __init__(self, payloads: _Optional[_Iterable[_Union[StoredPayload, _Mapping]]] = ...) -> None: ...

class ReadPlanRequest(_message.Message):
    __slots__ = ("tenant_id", "run_id", "revision")
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    tenant_id: str
    run_id: str
    revision: int
    def __init__(self, tenant_id: _Optional[str] = ..., run_id: _Optional[str] = ..., revision: _Optional[int] = ...) -> None: ...

class ReadPlanResponse(_message.Message):
    __slots__ = ("plan",)
    PLAN_FIELD_NUMBER: _ClassVar[int]
    plan: _types_pb2.Plan
    def __init__(self, plan: _Optional[_Union[_types_pb2.Plan, _Mapping]] = ...) -> None: ...

class ReadBaseRequest(_message.Message):
    __slots__ = ("tenant_id", "run_id", "version")
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    tenant_id: str
    run_id: str
    version: int
    def __init__(self, tenant_id: _Optional[str] = ..., run_id: _Optional[str] = ..., version: _Optional[int] = ...) -> None: ...

class ReadBaseResponse(_message.Message):
    __slots__ = ("checkpoint",)
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    checkpoint: StoredCheckpoint
    def __init__(self, checkpoint: _Optional[_Union[StoredCheckpoint, _Mapping]] = ...) -> None: ...

class ReadEventsRequest(_message.Message):
    __slots__ = ("tenant_id", "run_id", "after", "limit")
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    tenant_id: str
    run_id: str
    after: int
    limit: int
    def __init__(self, tenant_id: _Optional[str] = ..., run_id: _Optional[str] = ..., after: _Optional[int] = ..., limit: _Optional[int] = ...) -> None: ...

class ReadEventsResponse(_message.Message):
    __slots__ = ("page",)
    PAGE_FIELD_NUMBER: _ClassVar[int]
    page: EventPage
    def __init__(self, page: _Optional[_Union[EventPage, _Mapping]] = ...) -> None: ...

class RemoveLogsRequest(_message.Message):
    __slots__ = ("of_execution", "old")
    OF_EXECUTION_FIELD_NUMBER: _ClassVar[int]
    OLD_FIELD_NUMBER: _ClassVar[int]
    of_execution: LogsOfExecution
    old: OldLogs
    def __init__(self, of_execution: _Optional[_Union[LogsOfExecution, _Mapping]] = ..., old: _Optional[_Union[OldLogs, _Mapping]] = ...) -> None: ...

class RemoveLogsResponse(_message.Message):
    __slots__ = ("removed",)
    REMOVED_FIELD_NUMBER: _ClassVar[int]
    removed: int
    def __init__(self, removed: _Optional[int] = ...) -> None: ...

class PageRequest(_message.Message):
    __slots__ = ("runs", "tasks", "executions", "messages", "logs", "questions", "ended", "presences", "leases", "feed", "checkpoints", "journal")
    RUNS_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    EXECUTIONS_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    LOGS_FIELD_NUMBER: _ClassVar[int]
    QUESTIONS_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    PRESENCES_FIELD_NUMBER: _ClassVar[int]
    LEASES_FIELD_NUMBER: _ClassVar[int]
    FEED_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINTS_FIELD_NUMBER: _ClassVar[int]
    JOURNAL_FIELD_NUMBER: _ClassVar[int]
    runs: RunQuery
    tasks: TaskQuery
    executions: ExecutionQuery
    messages: MessageQuery
    logs: LogQuery
    questions: QuestionQuery
    ended: EndedQuery
    presences: PresenceQuery
    leases: LeaseQuery
    feed: FeedQuery
    checkpoints: CheckpointQuery
    journal: JournalQuery
    def __init__(self, runs: _Optional[_Union[RunQuery, _Mapping]] = ..., tasks: _Optional[_Union[TaskQuery, _Mapping]] = ..., executions: _Optional[_Union[ExecutionQuery, _Mapping]] = ..., messages: _Optional[_Union[MessageQuery, _Mapping]] = ..., logs: _Optional[_Union[LogQuery, _Mapping]] = ..., questions: _Optional[_Union[QuestionQuery, _Mapping]] = ..., ended: _Optional[_Union[EndedQuery, _Mapping]] = ..., presences: _Optional[_Union[PresenceQuery, _Mapping]] = ..., leases: _Optional[_Union[LeaseQuery, _Mapping]] = ..., feed: _Optional[_Union[FeedQuery, _Mapping]] = ..., checkpoints: _Optional[_Union[CheckpointQuery, _Mapping]] = ..., journal: _Optional[_Union[JournalQuery, _Mapping]] = ...) -> None: ...

class PageResponse(_message.Message):
    __slots__ = ("runs", "tasks", "executions", "messages", "logs", "questions", "ended", "presences", "leases", "feed", "cursor", "checkpoints", "journal")
    RUNS_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    EXECUTIONS_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    LOGS_FIELD_NUMBER: _ClassVar[int]
    QUESTIONS_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    PRESENCES_FIELD_NUMBER: _ClassVar[int]
    LEASES_FIELD_NUMBER: _ClassVar[int]
    FEED_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINTS_FIELD_NUMBER: _ClassVar[int]
    JOURNAL_FIELD_NUMBER: _ClassVar[int]
    runs: _containers.RepeatedCompositeFieldContainer[Run]
    tasks: _containers.RepeatedCompositeFieldContainer[Task]
    executions: _containers.RepeatedCompositeFieldContainer[Execution]
    messages: _containers.RepeatedCompositeFieldContainer[_types_pb2.Message]
    logs: _containers.RepeatedCompositeFieldContainer[_types_pb2.LogEntry]
    questions: _containers.RepeatedCompositeFieldContainer[FoundQuestion]
    ended: _containers.RepeatedCompositeFieldContainer[EndedRun]
    presences: _containers.RepeatedCompositeFieldContainer[Presence]
    leases: _containers.RepeatedCompositeFieldContainer[WorkerLease]
    feed: _containers.RepeatedCompositeFieldContainer[FeedEntry]
    cursor: str
    checkpoints: _containers.RepeatedCompositeFieldContainer[StoredCheckpoint]
    journal: _containers.RepeatedCompositeFieldContainer[_types_pb2.StoredEntry]
    def __init__(self, runs: _Optional[_Iterable[_Union[Run, _Mapping]]] = ..., tasks: _Optional[_Iterable[_Union[Task, _Mapping]]] = ..., executions: _Optional[_Iterable[_Union[Execution, _Mapping]]] = ..., messages: _Optional[_Iterable[_Union[_types_pb2.Message, _Mapping]]] = ..., logs: _Optional[_Iterable[_Union[_types_pb2.LogEntry, _Mapping]]] = ..., questions: _Optional[_Iterable[_Union[FoundQuestion, _Mapping]]] = ..., ended: _Optional[_Iterable[_Union[EndedRun, _Mapping]]] = ..., presences: _Optional[_Iterable[_Union[Presence, _Mapping]]] = ..., leases: _Optional[_Iterable[_Union[WorkerLease, _Mapping]]] = ..., feed: _Optional[_Iterable[_Union[FeedEntry, _Mapping]]] = ..., cursor: _Optional[str] = ..., checkpoints: _Optional[_Iterable[_Union[StoredCheckpoint, _Mapping]]] = ..., journal: _Optional[_Iterable[_Union[_types_pb2.StoredEntry, _Mapping]]] = ...) -> None: ...

class SubscribeRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SubscribeResponse(_message.Message):
    __slots__ = ("hints",)
    HINTS_FIELD_NUMBER: _ClassVar[int]
    hints: _containers.RepeatedCompositeFieldContainer[Hint]
    def __init__(self, hints: _Optional[_Iterable[_Union[Hint, _Mapping]]] = ...) -> None: ...

class DescribeRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DescribeResponse(_message.Message):
    __slots__ = ("info",)
    INFO_FIELD_NUMBER: _ClassVar[int]
    info: _types_pb2.StoreInfo
    def __init__(self, info: _Optional[_Union[_types_pb2.StoreInfo, _Mapping]] = ...) -> None: ...

class ReadQuestionsRequest(_message.Message):
    __slots__ = ("tenant_id", "run_id", "question_ids")
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    QUESTION_IDS_FIELD_NUMBER: _ClassVar[int]
    tenant_id: str
    run_id: str
    question_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, tenant_id: _Optional[str] = ..., run_id: _Optional[str] = ..., question_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class ReadQuestionsResponse(_message.Message):
    __slots__ = ("questions",)
    QUESTIONS_FIELD_NUMBER: _ClassVar[int]
    questions: _containers.RepeatedCompositeFieldContainer[_types_pb2.Question]
    def __init__(self, questions: _Optional[_Iterable[_Union[_types_pb2.Question, _Mapping]]] = ...) -> None: ...

class SwapKeysRequest(_message.Message):
    __slots__ = ("tenant_id", "pipeline_id", "swaps")
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    PIPELINE_ID_FIELD_NUMBER: _ClassVar[int]
    SWAPS_FIELD_NUMBER: _ClassVar[int]
    tenant_id: str
    pipeline_id: str
    swaps: _containers.RepeatedCompositeFieldContainer[KeySwap]
    def __init__(self, tenant_id: _Optional[str] = ..., pipeline_id: _Optional[str] = ..., swaps: _Optional[_Iterable[_Union[KeySwap, _Mapping]]] = ...) -> None: ...

class SwapKeysResponse(_message.Message):
    __slots__ = ("reservations",)
    RESERVATIONS_FIELD_NUMBER: _ClassVar[int]
    reservations: _containers.RepeatedCompositeFieldContainer[Reservation]
    def __init__(self, reservations: _Optional[_Iterable[_Union[Reservation, _Mapping]]] = ...) -> None: ...
