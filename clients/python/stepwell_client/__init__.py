"""Client and agent library for Stepwell: start and watch runs, or serve steps as a worker.

`Client` and `SyncClient` talk to the Orchestrator service, with the same words; what they return are frozen
records. `Agent` collects functions, and `Worker` serves them. `RunView` folds a run's events into its rows.

What is needed less often stands in rooms of its own: `stepwell_client.errors` has every error, `stepwell_client.enums`
every state and kind, `stepwell_client.records` every record. `stepwell_client.internal` has the parts that servers and
command lines build on.
"""

from __future__ import annotations

from stepwell_client.agent.agent import Agent
from stepwell_client.agent.children import Child, ChildFailed
from stepwell_client.agent.contexts import (
    PlanContext,
    ReconcileContext,
    ReflectContext,
    StepContext,
    SynthesizeContext,
    TaskContext,
    current_step,
)
from stepwell_client.agent.journal.open_question import OpenQuestion
from stepwell_client.calls.blocking import SyncWatch
from stepwell_client.calls.client import Client
from stepwell_client.calls.run_handle import RunHandle
from stepwell_client.calls.streams import Watch
from stepwell_client.calls.sync import (
    SyncClient,
    SyncRunHandle,
)
from stepwell_client.enums import (
    BlockedKind,
    Effect,
    EventType,
    ExecutionStatus,
    ForkMode,
    LogKind,
    OnFailure,
    QuestionKind,
    RunStatus,
    StepKind,
    TaskStatus,
)
from stepwell_client.errors import (
    FailedPrecondition,
    InvalidRequest,
    JournalError,
    NotFound,
    PermissionDenied,
    RunFailed,
    StepwellClientError,
    Unauthenticated,
    Unavailable,
)
from stepwell_client.link.connect import (
    DEFAULT_TARGET,
    Security,
)
from stepwell_client.records import (
    Budget,
    Checkpoint,
    ChildRun,
    ConnectedWorker,
    Continue,
    Done,
    Event,
    Execution,
    Failure,
    Finish,
    ForkCheck,
    Grow,
    JournalEntry,
    LogEntry,
    Message,
    NeedsAnswer,
    NonRetryable,
    NotDone,
    Payload,
    Plan,
    PlanRevision,
    Question,
    QueueList,
    Release,
    Replan,
    Result,
    Retry,
    Run,
    RunResults,
    RunTask,
    RunUpdate,
    ServerInfo,
    Task,
    Transcript,
    Undecided,
    decode,
    encode,
)
from stepwell_client.records.run_view import RunView
from stepwell_client.token_file import default_token_file
from stepwell_client.worker.serve import serve
from stepwell_client.worker.worker import Worker

__all__ = [
    "DEFAULT_TARGET",
    "Agent",
    "BlockedKind",
    "Budget",
    "Checkpoint",
    "Child",
    "ChildFailed",
    "ChildRun",
    "Client",
    "ConnectedWorker",
    "Continue",
    "Done",
    "Effect",
    "Event",
    "EventType",
    "Execution",
    "ExecutionStatus",
    "FailedPrecondition",
    "Failure",
    "Finish",
    "ForkCheck",
    "ForkMode",
    "Grow",
    "InvalidRequest",
    "JournalEntry",
    "JournalError",
    "LogEntry",
    "LogKind",
    "Message",
    "NeedsAnswer",
    "NonRetryable",
    "NotDone",
    "NotFound",
    "OnFailure",
    "OpenQuestion",
    "Payload",
    "PermissionDenied",
    "Plan",
    "PlanContext",
    "PlanRevision",
    "Question",
    "QuestionKind",
    "QueueList",
    "ReconcileContext",
    "ReflectContext",
    "Release",
    "Replan",
    "Result",
    "Retry",
    "Run",
    "RunFailed",
    "RunHandle",
    "RunResults",
    "RunStatus",
    "RunTask",
    "RunUpdate",
    "RunView",
    "Security",
    "ServerInfo",
    "StepContext",
    "StepKind",
    "StepwellClientError",
    "SyncClient",
    "SyncRunHandle",
    "SyncWatch",
    "SynthesizeContext",
    "Task",
    "TaskContext",
    "TaskStatus",
    "Transcript",
    "Unauthenticated",
    "Unavailable",
    "Undecided",
    "Watch",
    "Worker",
    "current_step",
    "decode",
    "default_token_file",
    "encode",
    "serve",
]
