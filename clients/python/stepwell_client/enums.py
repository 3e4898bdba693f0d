"""The protocol's enums, with their numbers on the wire.

A field of a message compares equal with its member (`message.status == RunStatus.SUCCEEDED`), and
`RunStatus(message.status)` prints as its name. A number that only a newer server knows is also
accepted; its name is the number.
"""

from __future__ import annotations

from typing import Any

from stepwell_client.v1.enums_pb2 import (
    BlockedKind,
    Durability,
    Effect,
    EventType,
    ExecutionStatus,
    ExpiryAction,
    Finding,
    FinishReason,
    ForkMode,
    ForkViolationKind,
    JournalMark,
    LogKind,
    OnFailure,
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

__all__ = [
    "ENDED",
    "BlockedKind",
    "Durability",
    "Effect",
    "EventType",
    "ExecutionStatus",
    "ExpiryAction",
    "Finding",
    "FinishReason",
    "ForkMode",
    "ForkViolationKind",
    "JournalMark",
    "LogKind",
    "OnFailure",
    "PauseReason",
    "Phase",
    "PlanTrigger",
    "QuestionKind",
    "QuestionStatus",
    "RunStatus",
    "StepKind",
    "TaskStatus",
    "WaitKind",
]

ENDED = frozenset({RunStatus.SUCCEEDED, RunStatus.FAILED, RunStatus.CANCELLED})
"""The statuses that end a run."""


def to_wire(value: int) -> Any:
    """Return an enum's number typed for the generated messages, which accept only their own classes."""
    return int(value)
