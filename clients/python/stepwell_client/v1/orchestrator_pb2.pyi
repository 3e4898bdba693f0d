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

class OnBusy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ON_BUSY_UNSPECIFIED: _ClassVar[OnBusy]
    ON_BUSY_ENQUEUE: _ClassVar[OnBusy]
    ON_BUSY_REJECT: _ClassVar[OnBusy]
    ON_BUSY_INTERRUPT: _ClassVar[OnBusy]
    ON_BUSY_STEER: _ClassVar[OnBusy]

class WatchEndReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    WATCH_END_REASON_UNSPECIFIED: _ClassVar[WatchEndReason]
    WATCH_END_REASON_FINISHED: _ClassVar[WatchEndReason]
    WATCH_END_REASON_DRAINING: _ClassVar[WatchEndReason]
    WATCH_END_REASON_SLOW_CONSUMER: _ClassVar[WatchEndReason]
    WATCH_END_REASON_PURGED: _ClassVar[WatchEndReason]

class ForkViolationKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FORK_VIOLATION_KIND_UNSPECIFIED: _ClassVar[ForkViolationKind]
    FORK_VIOLATION_KIND_TASK_REMOVED: _ClassVar[ForkViolationKind]
    FORK_VIOLATION_KIND_TASK_ADDED: _ClassVar[ForkViolationKind]
    FORK_VIOLATION_KIND_DEFINITION_CHANGED: _ClassVar[ForkViolationKind]
    FORK_VIOLATION_KIND_DEPENDENCY_CHANGED: _ClassVar[ForkViolationKind]
    FORK_VIOLATION_KIND_EFFECT_REPEATED: _ClassVar[ForkViolationKind]
    FORK_VIOLATION_KIND_ROLE_MISSING: _ClassVar[ForkViolationKind]
    FORK_VIOLATION_KIND_PLAN_MISSING: _ClassVar[ForkViolationKind]
ON_BUSY_UNSPECIFIED: OnBusy
ON_BUSY_ENQUEUE: OnBusy
ON_BUSY_REJECT: OnBusy
ON_BUSY_INTERRUPT: OnBusy
ON_BUSY_STEER: OnBusy
WATCH_END_REASON_UNSPECIFIED: WatchEndReason
WATCH_END_REASON_FINISHED: WatchEndReason
WATCH_END_REASON_DRAINING: WatchEndReason
WATCH_END_REASON_SLOW_CONSUMER: WatchEndReason
WATCH_END_REASON_PURGED: WatchEndReason
FORK_VIOLATION_KIND_UNSPECIFIED: ForkViolationKind
FORK_VIOLATION_KIND_TASK_REMOVED: ForkViolationKind
FORK_VIOLATION_KIND_TASK_ADDED: ForkViolationKind
FORK_VIOLATION_KIND_DEFINITION_CHANGED: ForkViolationKind
FORK_VIOLATION_KIND_DEPENDENCY_CHANGED: ForkViolationKind
FORK_VIOLATION_KIND_EFFECT_REPEATED: ForkViolationKind
FORK_VIOLATION_KIND_ROLE_MISSING: ForkViolationKind
FORK_VIOLATION_KIND_PLAN_MISSING: ForkViolationKind

class StartRunRequest(_message.Message):
    __slots__ = ("pipeline_id", "queue", "goal", "input", "labels", "on_behalf_of", "max_iterations", "no_progress_limit", "max_parallel", "priority", "budget", "step_retry", "step_timeout", "start_delay", "plan", "stages", "request_id", "validate_only", "worker_version", "reflect_on", "thread_id", "on_busy")
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
    ON_BEHALF_OF_FIELD_NUMBER: _ClassVar[int]
    MAX_ITERATIONS_FIELD_NUMBER: _ClassVar[int]
    NO_PROGRESS_LIMIT_FIELD_NUMBER: _ClassVar[int]
    MAX_PARALLEL_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    BUDGET_FIELD_NUMBER: _ClassVar[int]
    STEP_RETRY_FIELD_NUMBER: _ClassVar[int]
    STEP_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    START_DELAY_FIELD_NUMBER: _ClassVar[int]
    PLAN_FIELD_NUMBER: _ClassVar[int]
    STAGES_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    WORKER_VERSION_FIELD_NUMBER: _ClassVar[int]
    REFLECT_ON_FIELD_NUMBER: _ClassVar[int]
    THREAD_ID_FIELD_NUMBER: _ClassVar[int]
    ON_BUSY_FIELD_NUMBER: _ClassVar[int]
    pipeline_id: str
    queue: str
    goal: str
    input: _types_pb2.Payload
    labels: _containers.ScalarMap[str, str]
    on_behalf_of: str
    max_iterations: int
    no_progress_limit: int
    max_parallel: int
    priority: int
    budget: _types_pb2.Budget
    step_retry: _types_pb2.RetryPolicy
    step_timeout: _duration_pb2.Duration
    start_delay: _duration_pb2.Duration
    plan: _types_pb2.PlanDraft
    stages: _containers.RepeatedScalarFieldContainer[_types_pb2.StepKind]
    request_id: str
    validate_only: bool
    worker_version: _types_pb2.WorkerVersion
    reflect_on: _containers.RepeatedScalarFieldContainer[str]
    thread_id: str
    on_busy: OnBusy
    def __init__(self, pipeline_id: _Optional[str] = ..., queue: _Optional[str] = ..., goal: _Optional[str] = ..., input: _Optional[_Union[_types_pb2.Payload, _Mapping]] = ..., labels: _Optional[_Mapping[str, str]] = ..., on_behalf_of: _Optional[str] = ..., max_iterations: _Optional[int] = ..., no_progress_limit: _Optional[int] = ..., max_parallel: _Optional[int] = ..., priority: _Optional[int] = ..., budget: _Optional[_Union[_types_pb2.Budget, _Mapping]] = ..., step_retry: _Optional[_Union[_types_pb2.RetryPolicy, _Mapping]] = ..., step_timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., start_delay: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., plan: _Optional[_Union[_types_pb2.PlanDraft, _Mapping]] = ..., stages: _Optional[_Iterable[_Union[_types_pb2.StepKind, str]]] = ..., request_id: _Optional[str] = ..., validate_only: bool = ..., worker_version: _Optional[_Union[_types_pb2.WorkerVersion, _Mapping]] = ..., reflect_on: _Optional[_Iterable[str]] = ..., thread_id: _Optional[str] = ..., on_busy: _Optional[_Union[OnBusy, str]] = ...) -> None: ...

class StartRunResponse(_message.Message):
    __slots__ = ("run", "created", "steered")
    RUN_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    STEERED_FIELD_NUMBER: _ClassVar[int]
    run: _types_pb2.Run
    created: bool
    steered: bool
    def __init__(self, run: _Optional[_Union[_types_pb2.Run, _Mapping]] = ..., created: bool = ..., steered: bool = ...) -> None: ...

class GetRunRequest(_message.Message):
    __slots__ = ("run_id", "version")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    version: int
    def __init__(self, run_id: _Optional[str] = ..., version: _Optional[int] = ...) -> None: ...

class GetRunResponse(_message.Message):
    __slots__ = ("run",)
    RUN_FIELD_NUMBER: _ClassVar[int]
    run: _types_pb2.Run
    def __init__(self, run: _Optional[_Union[_types_pb2.Run, _Mapping]] = ...) -> None: ...

class ListRunsRequest(_message.Message):
    __slots__ = ("statuses", "pipeline_id", "queue", "executor_id", "labels", "blocked_on", "page_size", "page_token", "parent_run_id", "run_id_prefix", "child_of", "root_run_id")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    STATUSES_FIELD_NUMBER: _ClassVar[int]
    PIPELINE_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    EXECUTOR_ID_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    BLOCKED_ON_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    PARENT_RUN_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_PREFIX_FIELD_NUMBER: _ClassVar[int]
    CHILD_OF_FIELD_NUMBER: _ClassVar[int]
    ROOT_RUN_ID_FIELD_NUMBER: _ClassVar[int]
    statuses: _containers.RepeatedScalarFieldContainer[_types_pb2.RunStatus]
    pipeline_id: str
    queue: str
    executor_id: str
    labels: _containers.ScalarMap[str, str]
    blocked_on: _containers.RepeatedScalarFieldContainer[_types_pb2.BlockedKind]
    page_size: int
    page_token: str
    parent_run_id: str
    run_id_prefix: str
    child_of: str
    root_run_id: str
    def __init__(self, statuses: _Optional[_Iterable[_Union[_types_pb2.RunStatus, str]]] = ..., pipeline_id: _Optional[str] = ..., queue: _Optional[str] = ..., executor_id: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., blocked_on: _Optional[_Iterable[_Union[_types_pb2.BlockedKind, str]]] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., parent_run_id: _Optional[str] = ..., run_id_prefix: _Optional[str] = ..., child_of: _Optional[str] = ..., root_run_id: _Optional[str] = ...) -> None: ...

class ListRunsResponse(_message.Message):
    __slots__ = ("runs", "next_page_token")
    RUNS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    runs: _containers.RepeatedCompositeFieldContainer[_types_pb2.Run]
    next_page_token: str
    def __init__(self, runs: _Optional[_Iterable[_Union[_types_pb2.Run, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class ListTasksRequest(_message.Message):
    __slots__ = ("run_id", "page_size", "page_token", "view", "version")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    VIEW_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    page_size: int
    page_token: str
    view: _types_pb2.View
    version: int
    def __init__(self, run_id: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., view: _Optional[_Union[_types_pb2.View, str]] = ..., version: _Optional[int] = ...) -> None: ...

class ListTasksResponse(_message.Message):
    __slots__ = ("tasks", "next_page_token")
    TASKS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    tasks: _containers.RepeatedCompositeFieldContainer[TaskEntry]
    next_page_token: str
    def __init__(self, tasks: _Optional[_Iterable[_Union[TaskEntry, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class TaskEntry(_message.Message):
    __slots__ = ("task", "spec")
    TASK_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    task: _types_pb2.Task
    spec: _types_pb2.TaskSpec
    def __init__(self, task: _Optional[_Union[_types_pb2.Task, _Mapping]] = ..., spec: _Optional[_Union[_types_pb2.TaskSpec, _Mapping]] = ...) -> None: ...

class ListExecutionsRequest(_message.Message):
    __slots__ = ("run_id", "task_id", "page_size", "page_token")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    task_id: str
    page_size: int
    page_token: str
    def __init__(self, run_id: _Optional[str] = ..., task_id: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListExecutionsResponse(_message.Message):
    __slots__ = ("executions", "next_page_token")
    EXECUTIONS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    executions: _containers.RepeatedCompositeFieldContainer[_types_pb2.Execution]
    next_page_token: str
    def __init__(self, executions: _Optional[_Iterable[_Union[_types_pb2.Execution, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class ListResultsRequest(_message.Message):
    __slots__ = ("run_id", "task_ids", "execution_ids", "page_size", "page_token")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_IDS_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_IDS_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    task_ids: _containers.RepeatedScalarFieldContainer[str]
    execution_ids: _containers.RepeatedScalarFieldContainer[str]
    page_size: int
    page_token: str
    def __init__(self, run_id: _Optional[str] = ..., task_ids: _Optional[_Iterable[str]] = ..., execution_ids: _Optional[_Iterable[str]] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListResultsResponse(_message.Message):
    __slots__ = ("run_result", "results", "next_page_token")
    RUN_RESULT_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    run_result: Result
    results: _containers.RepeatedCompositeFieldContainer[Result]
    next_page_token: str
    def __init__(self, run_result: _Optional[_Union[Result, _Mapping]] = ..., results: _Optional[_Iterable[_Union[Result, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class Result(_message.Message):
    __slots__ = ("task_id", "execution_id", "status", "payload", "by_reference", "failure", "run_id")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_ID_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    BY_REFERENCE_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    execution_id: str
    status: _types_pb2.TaskStatus
    payload: _types_pb2.Payload
    by_reference: bool
    failure: _types_pb2.Failure
    run_id: str
    def __init__(self, task_id: _Optional[str] = ..., execution_id: _Optional[str] = ..., status: _Optional[_Union[_types_pb2.TaskStatus, str]] = ..., payload: _Optional[_Union[_types_pb2.Payload, _Mapping]] = ..., by_reference: bool = ..., failure: _Optional[_Union[_types_pb2.Failure, _Mapping]] = ..., run_id: _Optional[str] = ...) -> None: ...

class WaitRunRequest(_message.Message):
    __slots__ = ("run_id", "timeout")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    timeout: _duration_pb2.Duration
    def __init__(self, run_id: _Optional[str] = ..., timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class WaitRunResponse(_message.Message):
    __slots__ = ("run", "ended")
    RUN_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    run: _types_pb2.Run
    ended: bool
    def __init__(self, run: _Optional[_Union[_types_pb2.Run, _Mapping]] = ..., ended: bool = ...) -> None: ...

class WatchRunRequest(_message.Message):
    __slots__ = ("run_id", "resume_token", "types", "task_ids", "progress_interval")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    RESUME_TOKEN_FIELD_NUMBER: _ClassVar[int]
    TYPES_FIELD_NUMBER: _ClassVar[int]
    TASK_IDS_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_INTERVAL_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    resume_token: str
    types: _containers.RepeatedScalarFieldContainer[_types_pb2.EventType]
    task_ids: _containers.RepeatedScalarFieldContainer[str]
    progress_interval: _duration_pb2.Duration
    def __init__(self, run_id: _Optional[str] = ..., resume_token: _Optional[str] = ..., types: _Optional[_Iterable[_Union[_types_pb2.EventType, str]]] = ..., task_ids: _Optional[_Iterable[str]] = ..., progress_interval: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class WatchRunResponse(_message.Message):
    __slots__ = ("events", "progress", "end")
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    events: EventBatch
    progress: WatchProgress
    end: WatchEnd
    def __init__(self, events: _Optional[_Union[EventBatch, _Mapping]] = ..., progress: _Optional[_Union[WatchProgress, _Mapping]] = ..., end: _Optional[_Union[WatchEnd, _Mapping]] = ...) -> None: ...

class EventBatch(_message.Message):
    __slots__ = ("events", "resume_token")
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    RESUME_TOKEN_FIELD_NUMBER: _ClassVar[int]
    events: _containers.RepeatedCompositeFieldContainer[_types_pb2.Event]
    resume_token: str
    def __init__(self, events: _Optional[_Iterable[_Union[_types_pb2.Event, _Mapping]]] = ..., resume_token: _Optional[str] = ...) -> None: ...

class WatchProgress(_message.Message):
    __slots__ = ("resume_token",)
    RESUME_TOKEN_FIELD_NUMBER: _ClassVar[int]
    resume_token: str
    def __init__(self, resume_token: _Optional[str] = ...) -> None: ...

class WatchEnd(_message.Message):
    __slots__ = ("reason", "run", "resume_token")
    REASON_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    RESUME_TOKEN_FIELD_NUMBER: _ClassVar[int]
    reason: WatchEndReason
    run: _types_pb2.Run
    resume_token: str
    def __init__(self, reason: _Optional[_Union[WatchEndReason, str]] = ..., run: _Optional[_Union[_types_pb2.Run, _Mapping]] = ..., resume_token: _Optional[str] = ...) -> None: ...

class WatchRunsRequest(_message.Message):
    __slots__ = ("resume_token", "pipeline_id", "statuses", "labels", "progress_interval", "root_run_id", "thread_id", "after_message", "chunks")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    RESUME_TOKEN_FIELD_NUMBER: _ClassVar[int]
    PIPELINE_ID_FIELD_NUMBER: _ClassVar[int]
    STATUSES_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_INTERVAL_FIELD_NUMBER: _ClassVar[int]
    ROOT_RUN_ID_FIELD_NUMBER: _ClassVar[int]
    THREAD_ID_FIELD_NUMBER: _ClassVar[int]
    AFTER_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    CHUNKS_FIELD_NUMBER: _ClassVar[int]
    resume_token: str
    pipeline_id: str
    statuses: _containers.RepeatedScalarFieldContainer[_types_pb2.RunStatus]
    labels: _containers.ScalarMap[str, str]
    progress_interval: _duration_pb2.Duration
    root_run_id: str
    thread_id: str
    after_message: int
    chunks: bool
    def __init__(self, resume_token: _Optional[str] = ..., pipeline_id: _Optional[str] = ..., statuses: _Optional[_Iterable[_Union[_types_pb2.RunStatus, str]]] = ..., labels: _Optional[_Mapping[str, str]] = ..., progress_interval: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., root_run_id: _Optional[str] = ..., thread_id: _Optional[str] = ..., after_message: _Optional[int] = ..., chunks: bool = ...) -> None: ...

class WatchRunsResponse(_message.Message):
    __slots__ = ("updates", "progress", "end")
    UPDATES_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    updates: RunUpdateBatch
    progress: RunsProgress
    end: WatchEnd
    def __init__(self, updates: _Optional[_Union[RunUpdateBatch, _Mapping]] = ..., progress: _Optional[_Union[RunsProgress, _Mapping]] = ..., end: _Optional[_Union[WatchEnd, _Mapping]] = ...) -> None: ...

class RunUpdateBatch(_message.Message):
    __slots__ = ("updates", "resume_token")
    UPDATES_FIELD_NUMBER: _ClassVar[int]
    RESUME_TOKEN_FIELD_NUMBER: _ClassVar[int]
    updates: _containers.RepeatedCompositeFieldContainer[RunUpdate]
    resume_token: str
    def __init__(self, updates: _Optional[_Iterable[_Union[RunUpdate, _Mapping]]] = ..., resume_token: _Optional[str] = ...) -> None: ...

class RunUpdate(_message.Message):
    __slots__ = ("run", "version", "run_id", "deleted", "events", "messages", "chunks")
    RUN_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    DELETED_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    CHUNKS_FIELD_NUMBER: _ClassVar[int]
    run: _types_pb2.Run
    version: int
    run_id: str
    deleted: bool
    events: _containers.RepeatedCompositeFieldContainer[_types_pb2.Event]
    messages: _containers.RepeatedCompositeFieldContainer[_types_pb2.ThreadMessage]
    chunks: _containers.RepeatedCompositeFieldContainer[_types_pb2.LogEntry]
    def __init__(self, run: _Optional[_Union[_types_pb2.Run, _Mapping]] = ..., version: _Optional[int] = ..., run_id: _Optional[str] = ..., deleted: bool = ..., events: _Optional[_Iterable[_Union[_types_pb2.Event, _Mapping]]] = ..., messages: _Optional[_Iterable[_Union[_types_pb2.ThreadMessage, _Mapping]]] = ..., chunks: _Optional[_Iterable[_Union[_types_pb2.LogEntry, _Mapping]]] = ...) -> None: ...

class RunsProgress(_message.Message):
    __slots__ = ("resume_token",)
    RESUME_TOKEN_FIELD_NUMBER: _ClassVar[int]
    resume_token: str
    def __init__(self, resume_token: _Optional[str] = ...) -> None: ...

class ResumeRunRequest(_message.Message):
    __slots__ = ("run_id", "leave_failed", "reason", "request_id", "validate_only", "on_behalf_of", "expected_version")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    LEAVE_FAILED_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    ON_BEHALF_OF_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_VERSION_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    leave_failed: bool
    reason: str
    request_id: str
    validate_only: bool
    on_behalf_of: str
    expected_version: int
    def __init__(self, run_id: _Optional[str] = ..., leave_failed: bool = ..., reason: _Optional[str] = ..., request_id: _Optional[str] = ..., validate_only: bool = ..., on_behalf_of: _Optional[str] = ..., expected_version: _Optional[int] = ...) -> None: ...

class ResumeRunResponse(_message.Message):
    __slots__ = ("run", "changed")
    RUN_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    run: _types_pb2.Run
    changed: bool
    def __init__(self, run: _Optional[_Union[_types_pb2.Run, _Mapping]] = ..., changed: bool = ...) -> None: ...

class PauseRunRequest(_message.Message):
    __slots__ = ("run_id", "reason", "request_id", "on_behalf_of", "expected_version", "validate_only")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ON_BEHALF_OF_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_VERSION_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    reason: str
    request_id: str
    on_behalf_of: str
    expected_version: int
    validate_only: bool
    def __init__(self, run_id: _Optional[str] = ..., reason: _Optional[str] = ..., request_id: _Optional[str] = ..., on_behalf_of: _Optional[str] = ..., expected_version: _Optional[int] = ..., validate_only: bool = ...) -> None: ...

class PauseRunResponse(_message.Message):
    __slots__ = ("run", "changed")
    RUN_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    run: _types_pb2.Run
    changed: bool
    def __init__(self, run: _Optional[_Union[_types_pb2.Run, _Mapping]] = ..., changed: bool = ...) -> None: ...

class CancelRunRequest(_message.Message):
    __slots__ = ("run_id", "reason", "request_id", "on_behalf_of", "expected_version", "validate_only")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ON_BEHALF_OF_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_VERSION_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    reason: str
    request_id: str
    on_behalf_of: str
    expected_version: int
    validate_only: bool
    def __init__(self, run_id: _Optional[str] = ..., reason: _Optional[str] = ..., request_id: _Optional[str] = ..., on_behalf_of: _Optional[str] = ..., expected_version: _Optional[int] = ..., validate_only: bool = ...) -> None: ...

class CancelRunResponse(_message.Message):
    __slots__ = ("run", "changed")
    RUN_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    run: _types_pb2.Run
    changed: bool
    def __init__(self, run: _Optional[_Union[_types_pb2.Run, _Mapping]] = ..., changed: bool = ...) -> None: ...

class DeleteRunRequest(_message.Message):
    __slots__ = ("run_id", "on_behalf_of", "expected_version", "validate_only")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    ON_BEHALF_OF_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_VERSION_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    on_behalf_of: str
    expected_version: int
    validate_only: bool
    def __init__(self, run_id: _Optional[str] = ..., on_behalf_of: _Optional[str] = ..., expected_version: _Optional[int] = ..., validate_only: bool = ...) -> None: ...

class DeleteRunResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetServerInfoRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetServerInfoResponse(_message.Message):
    __slots__ = ("version", "store", "limits", "subject", "tenant_id", "scopes", "replica_id", "server_time", "console_address", "protocol_revision", "features")
    class LimitsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    VERSION_FIELD_NUMBER: _ClassVar[int]
    STORE_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    SCOPES_FIELD_NUMBER: _ClassVar[int]
    REPLICA_ID_FIELD_NUMBER: _ClassVar[int]
    SERVER_TIME_FIELD_NUMBER: _ClassVar[int]
    CONSOLE_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_REVISION_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    version: str
    store: _types_pb2.StoreInfo
    limits: _containers.ScalarMap[str, int]
    subject: str
    tenant_id: str
    scopes: _containers.RepeatedScalarFieldContainer[str]
    replica_id: str
    server_time: _timestamp_pb2.Timestamp
    console_address: str
    protocol_revision: int
    features: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, version: _Optional[str] = ..., store: _Optional[_Union[_types_pb2.StoreInfo, _Mapping]] = ..., limits: _Optional[_Mapping[str, int]] = ..., subject: _Optional[str] = ..., tenant_id: _Optional[str] = ..., scopes: _Optional[_Iterable[str]] = ..., replica_id: _Optional[str] = ..., server_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., console_address: _Optional[str] = ..., protocol_revision: _Optional[int] = ..., features: _Optional[_Iterable[str]] = ...) -> None: ...

class ForkRunRequest(_message.Message):
    __slots__ = ("run_id", "version", "mode", "plan", "goal", "input", "replan", "max_iterations", "max_parallel", "priority", "budget", "labels", "queue", "on_behalf_of", "request_id", "validate_only", "worker_version", "thread_id", "on_busy", "reflect_on")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    PLAN_FIELD_NUMBER: _ClassVar[int]
    GOAL_FIELD_NUMBER: _ClassVar[int]
    INPUT_FIELD_NUMBER: _ClassVar[int]
    REPLAN_FIELD_NUMBER: _ClassVar[int]
    MAX_ITERATIONS_FIELD_NUMBER: _ClassVar[int]
    MAX_PARALLEL_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    BUDGET_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    ON_BEHALF_OF_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    WORKER_VERSION_FIELD_NUMBER: _ClassVar[int]
    THREAD_ID_FIELD_NUMBER: _ClassVar[int]
    ON_BUSY_FIELD_NUMBER: _ClassVar[int]
    REFLECT_ON_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    version: int
    mode: _types_pb2.ForkMode
    plan: _types_pb2.PlanDraft
    goal: str
    input: _types_pb2.Payload
    replan: bool
    max_iterations: int
    max_parallel: int
    priority: int
    budget: _types_pb2.Budget
    labels: _containers.ScalarMap[str, str]
    queue: str
    on_behalf_of: str
    request_id: str
    validate_only: bool
    worker_version: _types_pb2.WorkerVersion
    thread_id: str
    on_busy: OnBusy
    reflect_on: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, run_id: _Optional[str] = ..., version: _Optional[int] = ..., mode: _Optional[_Union[_types_pb2.ForkMode, str]] = ..., plan: _Optional[_Union[_types_pb2.PlanDraft, _Mapping]] = ..., goal: _Optional[str] = ..., input: _Optional[_Union[_types_pb2.Payload, _Mapping]] = ..., replan: bool = ..., max_iterations: _Optional[int] = ..., max_parallel: _Optional[int] = ..., priority: _Optional[int] = ..., budget: _Optional[_Union[_types_pb2.Budget, _Mapping]] = ..., labels: _Optional[_Mapping[str, str]] = ..., queue: _Optional[str] = ..., on_behalf_of: _Optional[str] = ..., request_id: _Optional[str] = ..., validate_only: bool = ..., worker_version: _Optional[_Union[_types_pb2.WorkerVersion, _Mapping]] = ..., thread_id: _Optional[str] = ..., on_busy: _Optional[_Union[OnBusy, str]] = ..., reflect_on: _Optional[_Iterable[str]] = ...) -> None: ...

class ForkViolation(_message.Message):
    __slots__ = ("kind", "task_id", "field", "description")
    KIND_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    FIELD_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    kind: ForkViolationKind
    task_id: str
    field: str
    description: str
    def __init__(self, kind: _Optional[_Union[ForkViolationKind, str]] = ..., task_id: _Optional[str] = ..., field: _Optional[str] = ..., description: _Optional[str] = ...) -> None: ...

class ForkRunResponse(_message.Message):
    __slots__ = ("run", "created", "violations", "kept_task_ids", "rerun_task_ids", "pending_task_ids", "warnings", "kept", "rerun", "pending")
    RUN_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    VIOLATIONS_FIELD_NUMBER: _ClassVar[int]
    KEPT_TASK_IDS_FIELD_NUMBER: _ClassVar[int]
    RERUN_TASK_IDS_FIELD_NUMBER: _ClassVar[int]
    PENDING_TASK_IDS_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    RERUN_FIELD_NUMBER: _ClassVar[int]
    PENDING_FIELD_NUMBER: _ClassVar[int]
    run: _types_pb2.Run
    created: bool
    violations: _containers.RepeatedCompositeFieldContainer[ForkViolation]
    kept_task_ids: _containers.RepeatedScalarFieldContainer[str]
    rerun_task_ids: _containers.RepeatedScalarFieldContainer[str]
    pending_task_ids: _containers.RepeatedScalarFieldContainer[str]
    warnings: _containers.RepeatedScalarFieldContainer[str]
    kept: int
    rerun: int
    pending: int
    def __init__(self, run: _Optional[_Union[_types_pb2.Run, _Mapping]] = ..., created: bool = ..., violations: _Optional[_Iterable[_Union[ForkViolation, _Mapping]]] = ..., kept_task_ids: _Optional[_Iterable[str]] = ..., rerun_task_ids: _Optional[_Iterable[str]] = ..., pending_task_ids: _Optional[_Iterable[str]] = ..., warnings: _Optional[_Iterable[str]] = ..., kept: _Optional[int] = ..., rerun: _Optional[int] = ..., pending: _Optional[int] = ...) -> None: ...

class ListPlansRequest(_message.Message):
    __slots__ = ("run_id", "page_size", "page_token", "view")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    VIEW_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    page_size: int
    page_token: str
    view: _types_pb2.View
    def __init__(self, run_id: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., view: _Optional[_Union[_types_pb2.View, str]] = ...) -> None: ...

class ListPlansResponse(_message.Message):
    __slots__ = ("plans", "next_page_token")
    PLANS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    plans: _containers.RepeatedCompositeFieldContainer[_types_pb2.Plan]
    next_page_token: str
    def __init__(self, plans: _Optional[_Iterable[_Union[_types_pb2.Plan, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class ListCheckpointsRequest(_message.Message):
    __slots__ = ("run_id", "page_size", "page_token")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    page_size: int
    page_token: str
    def __init__(self, run_id: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListCheckpointsResponse(_message.Message):
    __slots__ = ("checkpoints", "next_page_token")
    CHECKPOINTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    checkpoints: _containers.RepeatedCompositeFieldContainer[Checkpoint]
    next_page_token: str
    def __init__(self, checkpoints: _Optional[_Iterable[_Union[Checkpoint, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class Checkpoint(_message.Message):
    __slots__ = ("type", "version", "event", "time", "message", "run")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    type: _types_pb2.EventType
    version: int
    event: int
    time: _timestamp_pb2.Timestamp
    message: str
    run: _types_pb2.Run
    def __init__(self, type: _Optional[_Union[_types_pb2.EventType, str]] = ..., version: _Optional[int] = ..., event: _Optional[int] = ..., time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., message: _Optional[str] = ..., run: _Optional[_Union[_types_pb2.Run, _Mapping]] = ...) -> None: ...

class ListQuestionsRequest(_message.Message):
    __slots__ = ("run_id", "page_size", "page_token")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    page_size: int
    page_token: str
    def __init__(self, run_id: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListQuestionsResponse(_message.Message):
    __slots__ = ("questions", "next_page_token")
    QUESTIONS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    questions: _containers.RepeatedCompositeFieldContainer[RunQuestion]
    next_page_token: str
    def __init__(self, questions: _Optional[_Iterable[_Union[RunQuestion, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class RunQuestion(_message.Message):
    __slots__ = ("run_id", "question")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    question: _types_pb2.Question
    def __init__(self, run_id: _Optional[str] = ..., question: _Optional[_Union[_types_pb2.Question, _Mapping]] = ...) -> None: ...

class AnswerQuestionRequest(_message.Message):
    __slots__ = ("run_id", "question_id", "answer", "on_behalf_of", "replan", "reason", "request_id", "expected_version", "validate_only")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    QUESTION_ID_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    ON_BEHALF_OF_FIELD_NUMBER: _ClassVar[int]
    REPLAN_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_VERSION_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    question_id: str
    answer: _types_pb2.Payload
    on_behalf_of: str
    replan: bool
    reason: str
    request_id: str
    expected_version: int
    validate_only: bool
    def __init__(self, run_id: _Optional[str] = ..., question_id: _Optional[str] = ..., answer: _Optional[_Union[_types_pb2.Payload, _Mapping]] = ..., on_behalf_of: _Optional[str] = ..., replan: bool = ..., reason: _Optional[str] = ..., request_id: _Optional[str] = ..., expected_version: _Optional[int] = ..., validate_only: bool = ...) -> None: ...

class AnswerQuestionResponse(_message.Message):
    __slots__ = ("run", "question", "changed")
    RUN_FIELD_NUMBER: _ClassVar[int]
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    run: _types_pb2.Run
    question: _types_pb2.Question
    changed: bool
    def __init__(self, run: _Optional[_Union[_types_pb2.Run, _Mapping]] = ..., question: _Optional[_Union[_types_pb2.Question, _Mapping]] = ..., changed: bool = ...) -> None: ...

class AnswerByTokenRequest(_message.Message):
    __slots__ = ("token", "answer")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    token: str
    answer: _types_pb2.Payload
    def __init__(self, token: _Optional[str] = ..., answer: _Optional[_Union[_types_pb2.Payload, _Mapping]] = ...) -> None: ...

class AnswerByTokenResponse(_message.Message):
    __slots__ = ("changed",)
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    changed: bool
    def __init__(self, changed: bool = ...) -> None: ...

class RaiseBudgetRequest(_message.Message):
    __slots__ = ("run_id", "budget", "stay_paused", "reason", "request_id", "on_behalf_of", "expected_version", "validate_only")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    BUDGET_FIELD_NUMBER: _ClassVar[int]
    STAY_PAUSED_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ON_BEHALF_OF_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_VERSION_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    budget: _types_pb2.Budget
    stay_paused: bool
    reason: str
    request_id: str
    on_behalf_of: str
    expected_version: int
    validate_only: bool
    def __init__(self, run_id: _Optional[str] = ..., budget: _Optional[_Union[_types_pb2.Budget, _Mapping]] = ..., stay_paused: bool = ..., reason: _Optional[str] = ..., request_id: _Optional[str] = ..., on_behalf_of: _Optional[str] = ..., expected_version: _Optional[int] = ..., validate_only: bool = ...) -> None: ...

class RaiseBudgetResponse(_message.Message):
    __slots__ = ("run", "changed")
    RUN_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    run: _types_pb2.Run
    changed: bool
    def __init__(self, run: _Optional[_Union[_types_pb2.Run, _Mapping]] = ..., changed: bool = ...) -> None: ...

class ResolveExecutionRequest(_message.Message):
    __slots__ = ("run_id", "execution_id", "finding", "result", "failure", "reason", "request_id", "on_behalf_of", "call", "expected_version", "validate_only")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_ID_FIELD_NUMBER: _ClassVar[int]
    FINDING_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ON_BEHALF_OF_FIELD_NUMBER: _ClassVar[int]
    CALL_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_VERSION_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    execution_id: str
    finding: _types_pb2.Finding
    result: _types_pb2.Payload
    failure: _types_pb2.Failure
    reason: str
    request_id: str
    on_behalf_of: str
    call: str
    expected_version: int
    validate_only: bool
    def __init__(self, run_id: _Optional[str] = ..., execution_id: _Optional[str] = ..., finding: _Optional[_Union[_types_pb2.Finding, str]] = ..., result: _Optional[_Union[_types_pb2.Payload, _Mapping]] = ..., failure: _Optional[_Union[_types_pb2.Failure, _Mapping]] = ..., reason: _Optional[str] = ..., request_id: _Optional[str] = ..., on_behalf_of: _Optional[str] = ..., call: _Optional[str] = ..., expected_version: _Optional[int] = ..., validate_only: bool = ...) -> None: ...

class ResolveExecutionResponse(_message.Message):
    __slots__ = ("run", "changed")
    RUN_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    run: _types_pb2.Run
    changed: bool
    def __init__(self, run: _Optional[_Union[_types_pb2.Run, _Mapping]] = ..., changed: bool = ...) -> None: ...

class RetryTaskRequest(_message.Message):
    __slots__ = ("run_id", "task_id", "reason", "request_id", "on_behalf_of", "fresh", "expected_version", "validate_only")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ON_BEHALF_OF_FIELD_NUMBER: _ClassVar[int]
    FRESH_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_VERSION_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    task_id: str
    reason: str
    request_id: str
    on_behalf_of: str
    fresh: bool
    expected_version: int
    validate_only: bool
    def __init__(self, run_id: _Optional[str] = ..., task_id: _Optional[str] = ..., reason: _Optional[str] = ..., request_id: _Optional[str] = ..., on_behalf_of: _Optional[str] = ..., fresh: bool = ..., expected_version: _Optional[int] = ..., validate_only: bool = ...) -> None: ...

class RetryTaskResponse(_message.Message):
    __slots__ = ("run", "changed")
    RUN_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    run: _types_pb2.Run
    changed: bool
    def __init__(self, run: _Optional[_Union[_types_pb2.Run, _Mapping]] = ..., changed: bool = ...) -> None: ...

class SkipTaskRequest(_message.Message):
    __slots__ = ("run_id", "task_id", "skip_dependents", "reason", "request_id", "on_behalf_of", "expected_version", "validate_only")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    SKIP_DEPENDENTS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ON_BEHALF_OF_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_VERSION_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    task_id: str
    skip_dependents: bool
    reason: str
    request_id: str
    on_behalf_of: str
    expected_version: int
    validate_only: bool
    def __init__(self, run_id: _Optional[str] = ..., task_id: _Optional[str] = ..., skip_dependents: bool = ..., reason: _Optional[str] = ..., request_id: _Optional[str] = ..., on_behalf_of: _Optional[str] = ..., expected_version: _Optional[int] = ..., validate_only: bool = ...) -> None: ...

class SkipTaskResponse(_message.Message):
    __slots__ = ("run", "changed")
    RUN_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    run: _types_pb2.Run
    changed: bool
    def __init__(self, run: _Optional[_Union[_types_pb2.Run, _Mapping]] = ..., changed: bool = ...) -> None: ...

class StopRunRequest(_message.Message):
    __slots__ = ("run_id", "reason", "request_id", "on_behalf_of", "expected_version", "validate_only")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ON_BEHALF_OF_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_VERSION_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    reason: str
    request_id: str
    on_behalf_of: str
    expected_version: int
    validate_only: bool
    def __init__(self, run_id: _Optional[str] = ..., reason: _Optional[str] = ..., request_id: _Optional[str] = ..., on_behalf_of: _Optional[str] = ..., expected_version: _Optional[int] = ..., validate_only: bool = ...) -> None: ...

class StopRunResponse(_message.Message):
    __slots__ = ("run", "changed")
    RUN_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    run: _types_pb2.Run
    changed: bool
    def __init__(self, run: _Optional[_Union[_types_pb2.Run, _Mapping]] = ..., changed: bool = ...) -> None: ...

class SendSignalRequest(_message.Message):
    __slots__ = ("run_id", "name", "value", "reason", "request_id", "on_behalf_of", "expected_version", "validate_only")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ON_BEHALF_OF_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_VERSION_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    name: str
    value: _types_pb2.Payload
    reason: str
    request_id: str
    on_behalf_of: str
    expected_version: int
    validate_only: bool
    def __init__(self, run_id: _Optional[str] = ..., name: _Optional[str] = ..., value: _Optional[_Union[_types_pb2.Payload, _Mapping]] = ..., reason: _Optional[str] = ..., request_id: _Optional[str] = ..., on_behalf_of: _Optional[str] = ..., expected_version: _Optional[int] = ..., validate_only: bool = ...) -> None: ...

class SendSignalResponse(_message.Message):
    __slots__ = ("run", "changed")
    RUN_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    run: _types_pb2.Run
    changed: bool
    def __init__(self, run: _Optional[_Union[_types_pb2.Run, _Mapping]] = ..., changed: bool = ...) -> None: ...

class ListSignalsRequest(_message.Message):
    __slots__ = ("run_id", "view", "page_size", "page_token")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    VIEW_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    view: _types_pb2.View
    page_size: int
    page_token: str
    def __init__(self, run_id: _Optional[str] = ..., view: _Optional[_Union[_types_pb2.View, str]] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListSignalsResponse(_message.Message):
    __slots__ = ("signals", "next_page_token")
    SIGNALS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    signals: _containers.RepeatedCompositeFieldContainer[_types_pb2.KeptSignal]
    next_page_token: str
    def __init__(self, signals: _Optional[_Iterable[_Union[_types_pb2.KeptSignal, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class GetThreadRequest(_message.Message):
    __slots__ = ("thread_id",)
    THREAD_ID_FIELD_NUMBER: _ClassVar[int]
    thread_id: str
    def __init__(self, thread_id: _Optional[str] = ...) -> None: ...

class GetThreadResponse(_message.Message):
    __slots__ = ("thread",)
    THREAD_FIELD_NUMBER: _ClassVar[int]
    thread: _types_pb2.Thread
    def __init__(self, thread: _Optional[_Union[_types_pb2.Thread, _Mapping]] = ...) -> None: ...

class ListThreadsRequest(_message.Message):
    __slots__ = ("page_size", "page_token", "labels")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    labels: _containers.ScalarMap[str, str]
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ...) -> None: ...

class ListThreadsResponse(_message.Message):
    __slots__ = ("threads", "next_page_token")
    THREADS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    threads: _containers.RepeatedCompositeFieldContainer[_types_pb2.Thread]
    next_page_token: str
    def __init__(self, threads: _Optional[_Iterable[_Union[_types_pb2.Thread, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class ListThreadMessagesRequest(_message.Message):
    __slots__ = ("thread_id", "after", "last", "page_size", "page_token")
    THREAD_ID_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    thread_id: str
    after: int
    last: int
    page_size: int
    page_token: str
    def __init__(self, thread_id: _Optional[str] = ..., after: _Optional[int] = ..., last: _Optional[int] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListThreadMessagesResponse(_message.Message):
    __slots__ = ("messages", "next_page_token")
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[_types_pb2.ThreadMessage]
    next_page_token: str
    def __init__(self, messages: _Optional[_Iterable[_Union[_types_pb2.ThreadMessage, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class AppendToThreadRequest(_message.Message):
    __slots__ = ("thread_id", "messages", "request_id", "on_behalf_of")
    THREAD_ID_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ON_BEHALF_OF_FIELD_NUMBER: _ClassVar[int]
    thread_id: str
    messages: _containers.RepeatedCompositeFieldContainer[_types_pb2.ThreadMessageDraft]
    request_id: str
    on_behalf_of: str
    def __init__(self, thread_id: _Optional[str] = ..., messages: _Optional[_Iterable[_Union[_types_pb2.ThreadMessageDraft, _Mapping]]] = ..., request_id: _Optional[str] = ..., on_behalf_of: _Optional[str] = ...) -> None: ...

class AppendToThreadResponse(_message.Message):
    __slots__ = ("thread", "changed")
    THREAD_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    thread: _types_pb2.Thread
    changed: bool
    def __init__(self, thread: _Optional[_Union[_types_pb2.Thread, _Mapping]] = ..., changed: bool = ...) -> None: ...

class SetThreadStateRequest(_message.Message):
    __slots__ = ("thread_id", "state", "expected_version", "request_id", "on_behalf_of")
    THREAD_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_VERSION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ON_BEHALF_OF_FIELD_NUMBER: _ClassVar[int]
    thread_id: str
    state: _types_pb2.Payload
    expected_version: int
    request_id: str
    on_behalf_of: str
    def __init__(self, thread_id: _Optional[str] = ..., state: _Optional[_Union[_types_pb2.Payload, _Mapping]] = ..., expected_version: _Optional[int] = ..., request_id: _Optional[str] = ..., on_behalf_of: _Optional[str] = ...) -> None: ...

class SetThreadStateResponse(_message.Message):
    __slots__ = ("thread", "changed")
    THREAD_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    thread: _types_pb2.Thread
    changed: bool
    def __init__(self, thread: _Optional[_Union[_types_pb2.Thread, _Mapping]] = ..., changed: bool = ...) -> None: ...

class SetThreadLabelsRequest(_message.Message):
    __slots__ = ("thread_id", "labels", "request_id", "on_behalf_of")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    THREAD_ID_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ON_BEHALF_OF_FIELD_NUMBER: _ClassVar[int]
    thread_id: str
    labels: _containers.ScalarMap[str, str]
    request_id: str
    on_behalf_of: str
    def __init__(self, thread_id: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., request_id: _Optional[str] = ..., on_behalf_of: _Optional[str] = ...) -> None: ...

class SetThreadLabelsResponse(_message.Message):
    __slots__ = ("thread", "changed")
    THREAD_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    thread: _types_pb2.Thread
    changed: bool
    def __init__(self, thread: _Optional[_Union[_types_pb2.Thread, _Mapping]] = ..., changed: bool = ...) -> None: ...

class ForkThreadRequest(_message.Message):
    __slots__ = ("thread_id", "new_thread_id", "at", "request_id", "on_behalf_of")
    THREAD_ID_FIELD_NUMBER: _ClassVar[int]
    NEW_THREAD_ID_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ON_BEHALF_OF_FIELD_NUMBER: _ClassVar[int]
    thread_id: str
    new_thread_id: str
    at: int
    request_id: str
    on_behalf_of: str
    def __init__(self, thread_id: _Optional[str] = ..., new_thread_id: _Optional[str] = ..., at: _Optional[int] = ..., request_id: _Optional[str] = ..., on_behalf_of: _Optional[str] = ...) -> None: ...

class ForkThreadResponse(_message.Message):
    __slots__ = ("thread", "changed")
    THREAD_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    thread: _types_pb2.Thread
    changed: bool
    def __init__(self, thread: _Optional[_Union[_types_pb2.Thread, _Mapping]] = ..., changed: bool = ...) -> None: ...

class DeleteThreadRequest(_message.Message):
    __slots__ = ("thread_id", "force", "on_behalf_of")
    THREAD_ID_FIELD_NUMBER: _ClassVar[int]
    FORCE_FIELD_NUMBER: _ClassVar[int]
    ON_BEHALF_OF_FIELD_NUMBER: _ClassVar[int]
    thread_id: str
    force: bool
    on_behalf_of: str
    def __init__(self, thread_id: _Optional[str] = ..., force: bool = ..., on_behalf_of: _Optional[str] = ...) -> None: ...

class DeleteThreadResponse(_message.Message):
    __slots__ = ("deleted",)
    DELETED_FIELD_NUMBER: _ClassVar[int]
    deleted: bool
    def __init__(self, deleted: bool = ...) -> None: ...

class WatchLogsRequest(_message.Message):
    __slots__ = ("run_id", "execution_id", "task_id", "resume_token", "follow", "kinds", "progress_interval")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    RESUME_TOKEN_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_INTERVAL_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    execution_id: str
    task_id: str
    resume_token: str
    follow: bool
    kinds: _containers.RepeatedScalarFieldContainer[_types_pb2.LogKind]
    progress_interval: _duration_pb2.Duration
    def __init__(self, run_id: _Optional[str] = ..., execution_id: _Optional[str] = ..., task_id: _Optional[str] = ..., resume_token: _Optional[str] = ..., follow: bool = ..., kinds: _Optional[_Iterable[_Union[_types_pb2.LogKind, str]]] = ..., progress_interval: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class WatchLogsResponse(_message.Message):
    __slots__ = ("entries", "progress", "end")
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    entries: LogBatch
    progress: LogProgress
    end: LogEnd
    def __init__(self, entries: _Optional[_Union[LogBatch, _Mapping]] = ..., progress: _Optional[_Union[LogProgress, _Mapping]] = ..., end: _Optional[_Union[LogEnd, _Mapping]] = ...) -> None: ...

class LogBatch(_message.Message):
    __slots__ = ("entries", "resume_token")
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    RESUME_TOKEN_FIELD_NUMBER: _ClassVar[int]
    entries: _containers.RepeatedCompositeFieldContainer[_types_pb2.LogEntry]
    resume_token: str
    def __init__(self, entries: _Optional[_Iterable[_Union[_types_pb2.LogEntry, _Mapping]]] = ..., resume_token: _Optional[str] = ...) -> None: ...

class LogProgress(_message.Message):
    __slots__ = ("resume_token",)
    RESUME_TOKEN_FIELD_NUMBER: _ClassVar[int]
    resume_token: str
    def __init__(self, resume_token: _Optional[str] = ...) -> None: ...

class LogEnd(_message.Message):
    __slots__ = ("reason", "resume_token")
    REASON_FIELD_NUMBER: _ClassVar[int]
    RESUME_TOKEN_FIELD_NUMBER: _ClassVar[int]
    reason: WatchEndReason
    resume_token: str
    def __init__(self, reason: _Optional[_Union[WatchEndReason, str]] = ..., resume_token: _Optional[str] = ...) -> None: ...

class ListJournalRequest(_message.Message):
    __slots__ = ("run_id", "task_id", "journal", "execution_id", "view", "page_size", "page_token")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    JOURNAL_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_ID_FIELD_NUMBER: _ClassVar[int]
    VIEW_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    task_id: str
    journal: str
    execution_id: str
    view: _types_pb2.View
    page_size: int
    page_token: str
    def __init__(self, run_id: _Optional[str] = ..., task_id: _Optional[str] = ..., journal: _Optional[str] = ..., execution_id: _Optional[str] = ..., view: _Optional[_Union[_types_pb2.View, str]] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListJournalResponse(_message.Message):
    __slots__ = ("entries", "next_page_token", "resume_token")
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    RESUME_TOKEN_FIELD_NUMBER: _ClassVar[int]
    entries: _containers.RepeatedCompositeFieldContainer[_types_pb2.StoredEntry]
    next_page_token: str
    resume_token: str
    def __init__(self, entries: _Optional[_Iterable[_Union[_types_pb2.StoredEntry, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., resume_token: _Optional[str] = ...) -> None: ...

class ReadTranscriptRequest(_message.Message):
    __slots__ = ("run_id", "execution_id", "page_size", "page_token")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_ID_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    execution_id: str
    page_size: int
    page_token: str
    def __init__(self, run_id: _Optional[str] = ..., execution_id: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ReadTranscriptResponse(_message.Message):
    __slots__ = ("prompt", "response", "next_page_token")
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    prompt: bytes
    response: bytes
    next_page_token: str
    def __init__(self, prompt: _Optional[bytes] = ..., response: _Optional[bytes] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class ListMessagesRequest(_message.Message):
    __slots__ = ("run_id", "task_id", "page_size", "page_token")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    task_id: str
    page_size: int
    page_token: str
    def __init__(self, run_id: _Optional[str] = ..., task_id: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListMessagesResponse(_message.Message):
    __slots__ = ("messages", "next_page_token")
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[_types_pb2.Message]
    next_page_token: str
    def __init__(self, messages: _Optional[_Iterable[_Union[_types_pb2.Message, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class PurgeRunsRequest(_message.Message):
    __slots__ = ("statuses", "older_than", "pipeline_id", "max_runs", "validate_only", "on_behalf_of")
    STATUSES_FIELD_NUMBER: _ClassVar[int]
    OLDER_THAN_FIELD_NUMBER: _ClassVar[int]
    PIPELINE_ID_FIELD_NUMBER: _ClassVar[int]
    MAX_RUNS_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    ON_BEHALF_OF_FIELD_NUMBER: _ClassVar[int]
    statuses: _containers.RepeatedScalarFieldContainer[_types_pb2.RunStatus]
    older_than: _duration_pb2.Duration
    pipeline_id: str
    max_runs: int
    validate_only: bool
    on_behalf_of: str
    def __init__(self, statuses: _Optional[_Iterable[_Union[_types_pb2.RunStatus, str]]] = ..., older_than: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., pipeline_id: _Optional[str] = ..., max_runs: _Optional[int] = ..., validate_only: bool = ..., on_behalf_of: _Optional[str] = ...) -> None: ...

class PurgeRunsResponse(_message.Message):
    __slots__ = ("run_ids", "complete")
    RUN_IDS_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    run_ids: _containers.RepeatedScalarFieldContainer[str]
    complete: bool
    def __init__(self, run_ids: _Optional[_Iterable[str]] = ..., complete: bool = ...) -> None: ...

class ListWorkersRequest(_message.Message):
    __slots__ = ("queue", "page_size", "page_token", "view", "run_id")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    VIEW_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    queue: str
    page_size: int
    page_token: str
    view: _types_pb2.View
    run_id: str
    def __init__(self, queue: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., view: _Optional[_Union[_types_pb2.View, str]] = ..., run_id: _Optional[str] = ...) -> None: ...

class ListWorkersResponse(_message.Message):
    __slots__ = ("workers", "next_page_token", "replica_id")
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    REPLICA_ID_FIELD_NUMBER: _ClassVar[int]
    workers: _containers.RepeatedCompositeFieldContainer[ConnectedWorker]
    next_page_token: str
    replica_id: str
    def __init__(self, workers: _Optional[_Iterable[_Union[ConnectedWorker, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., replica_id: _Optional[str] = ...) -> None: ...

class ConnectedWorker(_message.Message):
    __slots__ = ("worker_id", "instance_id", "replica_id", "subject", "queues", "kinds", "tasks", "version", "connected_time", "free_slots", "held_count", "held", "draining", "lapses", "input_schema")
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    REPLICA_ID_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    CONNECTED_TIME_FIELD_NUMBER: _ClassVar[int]
    FREE_SLOTS_FIELD_NUMBER: _ClassVar[int]
    HELD_COUNT_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    LAPSES_FIELD_NUMBER: _ClassVar[int]
    INPUT_SCHEMA_FIELD_NUMBER: _ClassVar[int]
    worker_id: str
    instance_id: str
    replica_id: str
    subject: str
    queues: _containers.RepeatedScalarFieldContainer[str]
    kinds: _containers.RepeatedScalarFieldContainer[_types_pb2.StepKind]
    tasks: _containers.RepeatedCompositeFieldContainer[_types_pb2.TaskPattern]
    version: str
    connected_time: _timestamp_pb2.Timestamp
    free_slots: int
    held_count: int
    held: _containers.RepeatedCompositeFieldContainer[HeldStep]
    draining: bool
    lapses: int
    input_schema: str
    def __init__(self, worker_id: _Optional[str] = ..., instance_id: _Optional[str] = ..., replica_id: _Optional[str] = ..., subject: _Optional[str] = ..., queues: _Optional[_Iterable[str]] = ..., kinds: _Optional[_Iterable[_Union[_types_pb2.StepKind, str]]] = ..., tasks: _Optional[_Iterable[_Union[_types_pb2.TaskPattern, _Mapping]]] = ..., version: _Optional[str] = ..., connected_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., free_slots: _Optional[int] = ..., held_count: _Optional[int] = ..., held: _Optional[_Iterable[_Union[HeldStep, _Mapping]]] = ..., draining: bool = ..., lapses: _Optional[int] = ..., input_schema: _Optional[str] = ...) -> None: ...

class HeldStep(_message.Message):
    __slots__ = ("run_id", "execution_id", "progress")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_ID_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    execution_id: str
    progress: _types_pb2.Payload
    def __init__(self, run_id: _Optional[str] = ..., execution_id: _Optional[str] = ..., progress: _Optional[_Union[_types_pb2.Payload, _Mapping]] = ...) -> None: ...

class ListQueuesRequest(_message.Message):
    __slots__ = ("page_size", "page_token")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListQueuesResponse(_message.Message):
    __slots__ = ("queues", "next_page_token", "complete", "replica_id")
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    REPLICA_ID_FIELD_NUMBER: _ClassVar[int]
    queues: _containers.RepeatedCompositeFieldContainer[Queue]
    next_page_token: str
    complete: bool
    replica_id: str
    def __init__(self, queues: _Optional[_Iterable[_Union[Queue, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., complete: bool = ..., replica_id: _Optional[str] = ...) -> None: ...

class Queue(_message.Message):
    __slots__ = ("name", "limit", "in_use", "waiting_runs", "waiting_since_time", "workers")
    NAME_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    IN_USE_FIELD_NUMBER: _ClassVar[int]
    WAITING_RUNS_FIELD_NUMBER: _ClassVar[int]
    WAITING_SINCE_TIME_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    name: str
    limit: int
    in_use: int
    waiting_runs: int
    waiting_since_time: _timestamp_pb2.Timestamp
    workers: int
    def __init__(self, name: _Optional[str] = ..., limit: _Optional[int] = ..., in_use: _Optional[int] = ..., waiting_runs: _Optional[int] = ..., waiting_since_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., workers: _Optional[int] = ...) -> None: ...
