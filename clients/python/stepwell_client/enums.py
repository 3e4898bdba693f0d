"""The protocol's enums, with their numbers on the wire.

A field of a message compares equal with its member (`message.status == RunStatus.SUCCEEDED`), and
`RunStatus(message.status)` prints as its name. A number that only a newer server knows is also
accepted; its name is the number.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Self

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


class Word(IntEnum):
    """The base of the enums: a number that prints as its name."""

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        """Return a member for a number that only a newer server knows, without listing it among the members."""
        if not isinstance(value, int):
            return None
        made = int.__new__(cls, value)
        made._name_, made._value_ = str(value), value
        return made

    def __str__(self) -> str:
        return self.name

    def __format__(self, spec: str) -> str:
        return format(self.name, spec)


class RunStatus(Word):
    """Status of a run. The last three are ends; only FAILED can be left, by `resume`."""

    UNSPECIFIED = 0
    QUEUED = 1
    RUNNING = 2
    WAITING = 3
    PAUSED = 4
    SUCCEEDED = 5
    FAILED = 6
    CANCELLED = 7


class Phase(Word):
    """Phase of the loop."""

    UNSPECIFIED = 0
    PLANNING = 1
    EXECUTING = 2
    REFLECTING = 3
    SYNTHESIZING = 4
    DONE = 5


class StepKind(Word):
    """Kind of step. REFLECT and SYNTHESIZE are the stages that a run may have."""

    UNSPECIFIED = 0
    PLAN = 1
    TASK = 2
    REFLECT = 3
    SYNTHESIZE = 4
    RECONCILE = 5


class TaskStatus(Word):
    """Status of a task. The last four are settled."""

    UNSPECIFIED = 0
    PENDING = 1
    READY = 2
    RUNNING = 3
    BLOCKED = 4
    COMPLETED = 5
    FAILED = 6
    SKIPPED = 7
    CANCELLED = 8


class ExecutionStatus(Word):
    """Status of one attempt at a step."""

    UNSPECIFIED = 0
    READY = 1
    LEASED = 2
    COMPLETED = 3
    FAILED = 4
    TIMED_OUT = 5
    LOST = 6
    RELEASED = 7
    CANCELLED = 8
    NEEDS_ANSWER = 9
    UNKNOWN_OUTCOME = 10
    SUSPENDED = 11


class BlockedKind(Word):
    """The reason why an unfinished run waits."""

    UNSPECIFIED = 0
    NONE = 1
    WORKER = 2
    CAPACITY = 3
    QUESTION = 4
    BUDGET = 5
    TIMER = 6
    PAUSED = 7
    UNKNOWN_OUTCOME = 8
    KEY = 9


class PauseReason(Word):
    """The cause of a pause."""

    UNSPECIFIED = 0
    NONE = 1
    REQUESTED = 2
    BUDGET_EXHAUSTED = 3
    NO_PROGRESS = 4
    QUESTION_EXPIRED = 5


class FinishReason(Word):
    """The reason why the last iteration was the last."""

    UNSPECIFIED = 0
    NONE = 1
    FINISHED = 2
    MAX_ITERATIONS = 3
    STOPPED = 4


class Finding(Word):
    """Finding about an unknown outcome."""

    UNSPECIFIED = 0
    DONE = 1
    NOT_DONE = 2
    UNDECIDED = 3


class ForkMode(Word):
    """Degree to which a fork may change the plan."""

    UNSPECIFIED = 0
    STRICT = 1
    PATCH = 2


class LogKind(Word):
    """Kind of an entry of a run's log."""

    UNSPECIFIED = 0
    LINE = 1
    CHUNK = 2
    CUT = 3


class EventType(Word):
    """Type of an event. `types.proto` lists the fields that go with each type."""

    UNSPECIFIED = 0
    RUN_STARTED = 1
    EXECUTION_LEASED = 2
    EXECUTION_BEGUN = 3
    EXECUTION_RELEASED = 4
    EXECUTION_FAILED = 5
    EXECUTION_TIMED_OUT = 6
    LEASE_LOST = 7
    OUTCOME_UNKNOWN = 8
    PLAN_ACCEPTED = 9
    PLAN_REJECTED = 10
    TASK_COMPLETED = 11
    TASK_FAILED = 12
    TASK_RETRY_SCHEDULED = 13
    STEP_RETRY_SCHEDULED = 14
    REFLECTION_ACCEPTED = 15
    ITERATION_COMPLETED = 16
    QUESTION_ASKED = 17
    QUESTION_ANSWERED = 18
    QUESTION_EXPIRED = 19
    BUDGET_RAISED = 20
    RUN_PAUSED = 21
    RUN_RESUMED = 22
    RUN_SUCCEEDED = 23
    RUN_FAILED = 24
    RUN_CANCELLED = 25
    RUN_BLOCKED = 26
    RUN_FORKED = 27
    OUTCOME_RESOLVED = 28
    MESSAGES_APPENDED = 29
    TASK_DEDUPLICATED = 30
    TASK_SKIPPED = 31
    TASK_RETRY_REQUESTED = 32
    REPLAN_REQUESTED = 33
    STOP_REQUESTED = 34
    STEP_POISONED = 35
    STEP_SUSPENDED = 36
    STEP_WOKEN = 37
    JOURNAL_RENEWED = 38
    JOURNAL_FORGOTTEN = 39


class OnFailure(Word):
    """Consequence of a task's failure for its run, once its attempts are spent."""

    UNSPECIFIED = 0
    FAIL_RUN = 1
    SKIP_DEPENDENTS = 2
    CONTINUE = 3


class Effect(Word):
    """The rule for running a step again after its worker was lost."""

    UNSPECIFIED = 0
    IDEMPOTENT = 1
    AT_MOST_ONCE = 2


class QuestionStatus(Word):
    """Status of a question. Only an OPEN question can be answered."""

    UNSPECIFIED = 0
    OPEN = 1
    ANSWERED = 2
    EXPIRED = 3
    CANCELLED = 4


class QuestionKind(Word):
    """Kind of answer that a question wants."""

    UNSPECIFIED = 0
    APPROVAL = 1
    VALUE = 2
    CHOICE = 3
    AUTH = 4


class PlanTrigger(Word):
    """The origin of a revision of a run's plan."""

    UNSPECIFIED = 0
    PLANNED = 1
    CONTINUED = 2
    REPLANNED = 3
    CALLER = 4
    FORK = 5


class ForkViolationKind(Word):
    """The way in which a fork doesn't fit its run."""

    UNSPECIFIED = 0
    TASK_REMOVED = 1
    TASK_ADDED = 2
    DEFINITION_CHANGED = 3
    DEPENDENCY_CHANGED = 4
    EFFECT_REPEATED = 5
    ROLE_MISSING = 6
    PLAN_MISSING = 7


class JournalMark(Word):
    """The part of a call within a step that an entry of a journal records."""

    UNSPECIFIED = 0
    END = 1
    BEGIN = 2
    TRY = 3
    WAIT = 4


class WaitKind(Word):
    """The thing that a suspended step waits for."""

    UNSPECIFIED = 0
    SLEEP = 1
    QUESTION = 2
    BUDGET = 3


class ExpiryAction(Word):
    """Consequence of a question that expires unanswered."""

    UNSPECIFIED = 0
    WAIT = 1
    DENY = 2
    FAIL = 3
    PAUSE = 4


class Durability(Word):
    """The failures that an acknowledged commit survives, weakest first."""

    UNSPECIFIED = 0
    VOLATILE = 1
    PROCESS = 2
    POWER = 3
    NODE = 4


ENDED = frozenset({RunStatus.SUCCEEDED, RunStatus.FAILED, RunStatus.CANCELLED})
"""The statuses that end a run."""


def to_wire(value: int) -> Any:
    """Return an enum's number typed for the generated messages, which accept only their own classes."""
    return int(value)
