"""Client and agent library for Stepwell: start and watch runs, or serve steps as a worker.

`Client` and `SyncClient` talk to the Orchestrator service. `Agent` collects functions, and `Worker`
serves them. `stepwell_client.execution` is the seam for whoever runs an agent's steps by other means;
`stepwell_client.v1` has the protocol's messages, which the clients return as they are.
"""

from __future__ import annotations

from stepwell_client._agent import Agent
from stepwell_client._client import Client, RunHandle, Watch
from stepwell_client._connect import DEFAULT_TARGET, default_token_file
from stepwell_client._context import (
    PlanContext,
    ReflectContext,
    Results,
    StepContext,
    SynthesizeContext,
    TaskContext,
)
from stepwell_client._decisions import (
    Continue,
    Failure,
    Finish,
    NeedsInput,
    NonRetryable,
    Release,
    Replan,
)
from stepwell_client._enums import (
    ENDED,
    BlockedKind,
    Durability,
    Effect,
    EventType,
    ExecutionStatus,
    ExpiryAction,
    FinishReason,
    InputKind,
    OnFailure,
    PauseReason,
    Phase,
    RunStatus,
    StepKind,
    TaskStatus,
    word,
)
from stepwell_client._errors import (
    CursorOutOfRange,
    DeadlineExceeded,
    DecodeError,
    FailedPrecondition,
    InvalidRequest,
    LeaseLost,
    Misconfigured,
    NotFound,
    PermissionDenied,
    RequestIdReused,
    ResourceExhausted,
    RunFailed,
    RunNotFound,
    RunPurged,
    ServerError,
    StepwellClientError,
    Unauthenticated,
    Unavailable,
    Violation,
    WorkerReplaced,
)
from stepwell_client._payloads import decode, encode
from stepwell_client._plans import Budget, Plan, Retry, Task
from stepwell_client._procedures import RunResults
from stepwell_client._serving import serve
from stepwell_client._sync import SyncClient, SyncWatch
from stepwell_client._worker import Worker

__all__ = [
    "DEFAULT_TARGET",
    "ENDED",
    "Agent",
    "BlockedKind",
    "Budget",
    "Client",
    "Continue",
    "CursorOutOfRange",
    "DeadlineExceeded",
    "DecodeError",
    "Durability",
    "Effect",
    "EventType",
    "ExecutionStatus",
    "ExpiryAction",
    "FailedPrecondition",
    "Failure",
    "Finish",
    "FinishReason",
    "InputKind",
    "InvalidRequest",
    "LeaseLost",
    "Misconfigured",
    "NeedsInput",
    "NonRetryable",
    "NotFound",
    "OnFailure",
    "PauseReason",
    "PermissionDenied",
    "Phase",
    "Plan",
    "PlanContext",
    "ReflectContext",
    "Release",
    "Replan",
    "RequestIdReused",
    "ResourceExhausted",
    "Results",
    "Retry",
    "RunFailed",
    "RunHandle",
    "RunNotFound",
    "RunPurged",
    "RunResults",
    "RunStatus",
    "ServerError",
    "StepContext",
    "StepKind",
    "StepwellClientError",
    "SyncClient",
    "SyncWatch",
    "SynthesizeContext",
    "Task",
    "TaskContext",
    "TaskStatus",
    "Unauthenticated",
    "Unavailable",
    "Violation",
    "Watch",
    "Worker",
    "WorkerReplaced",
    "decode",
    "default_token_file",
    "encode",
    "serve",
    "word",
]
