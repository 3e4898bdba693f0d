"""The words of Stepwell: every state, kind and reason that a record can name.

The values are the names. They are what the database holds, what the CLI prints and, behind the
enum's own prefix, what the protocol sends.
"""

from __future__ import annotations

from enum import StrEnum


class RunStatus(StrEnum):
    """Where a run stands. The last three are ends; only FAILED can be left, by a resume."""

    QUEUED = "QUEUED"
    """Started; no step of it has been leased yet."""
    RUNNING = "RUNNING"
    """Steps of it are leased, or ready for a worker."""
    WAITING = "WAITING"
    """Nothing is leased or ready; it waits for an input or for an unknown outcome to be settled."""
    PAUSED = "PAUSED"
    """It accepts outcomes of work in flight and dispatches nothing."""
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


class Phase(StrEnum):
    """Where in the loop a run is. DONE if and only if the run SUCCEEDED."""

    PLANNING = "PLANNING"
    EXECUTING = "EXECUTING"
    REFLECTING = "REFLECTING"
    SYNTHESIZING = "SYNTHESIZING"
    DONE = "DONE"


class StepKind(StrEnum):
    """What a worker is asked to do."""

    PLAN = "PLAN"
    TASK = "TASK"
    REFLECT = "REFLECT"
    SYNTHESIZE = "SYNTHESIZE"
    RECONCILE = "RECONCILE"
    """Find out what became of an AT_MOST_ONCE task whose worker was lost after it began."""


class TaskStatus(StrEnum):
    """Where a task stands. The last four are settled."""

    PENDING = "PENDING"
    """It waits for its dependencies or for a place among `max_parallel`."""
    READY = "READY"
    """Offered: an execution of it waits for a worker, or for its back-off to end."""
    RUNNING = "RUNNING"
    BLOCKED = "BLOCKED"
    """It waits for an input, or for an unknown outcome to be settled."""
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    SKIPPED = "SKIPPED"
    """A task that it depends on failed, and that task's policy skips its dependents."""
    CANCELLED = "CANCELLED"


class ExecutionStatus(StrEnum):
    """Where one attempt at a step stands. READY, LEASED and UNKNOWN_OUTCOME are open."""

    READY = "READY"
    LEASED = "LEASED"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    TIMED_OUT = "TIMED_OUT"
    LOST = "LOST"
    """Its lease expired without an outcome."""
    RELEASED = "RELEASED"
    """Handed back, or withdrawn before a worker had it; spends no attempt."""
    CANCELLED = "CANCELLED"
    NEEDS_INPUT = "NEEDS_INPUT"
    UNKNOWN_OUTCOME = "UNKNOWN_OUTCOME"
    """An AT_MOST_ONCE step was begun and then lost; a late outcome may still settle it."""


class InputStatus(StrEnum):
    """Where an input request stands."""

    OPEN = "OPEN"
    ANSWERED = "ANSWERED"
    EXPIRED = "EXPIRED"
    CANCELLED = "CANCELLED"


class InputKind(StrEnum):
    """What a person is asked for."""

    APPROVAL = "APPROVAL"
    INPUT = "INPUT"
    CHOICE = "CHOICE"
    AUTH = "AUTH"


class ExpiryAction(StrEnum):
    """What happens when an input request expires unanswered."""

    WAIT = "WAIT"
    DENY = "DENY"
    FAIL = "FAIL"
    PAUSE = "PAUSE"


class OnFailure(StrEnum):
    """What a task's failure means to its run, once its attempts are spent."""

    FAIL_RUN = "FAIL_RUN"
    SKIP_DEPENDENTS = "SKIP_DEPENDENTS"
    CONTINUE = "CONTINUE"
    """Dependents run and are shown the failure instead of a result."""


class Effect(StrEnum):
    """Whether a step may be run again after its worker was lost."""

    IDEMPOTENT = "IDEMPOTENT"
    AT_MOST_ONCE = "AT_MOST_ONCE"


class Decision(StrEnum):
    """What a reflection decided."""

    FINISH = "FINISH"
    CONTINUE = "CONTINUE"
    """Go on with the plan that came with the decision."""
    REPLAN = "REPLAN"


class Finding(StrEnum):
    """What a reconcile handler, or a person, found out about an unknown outcome."""

    DONE = "DONE"
    """The effect took place: the task is completed, with the result that came with the finding."""
    NOT_DONE = "NOT_DONE"
    """It did not: the task is run again, and no attempt is spent."""
    UNDECIDED = "UNDECIDED"
    """It can't be told: the task waits for a late outcome or for a person."""


class ForkMode(StrEnum):
    """What a fork may change."""

    STRICT = "STRICT"
    """The plan is the one in force at that version."""
    PATCH = "PATCH"
    """Changed tasks run again, and what is built on them; unchanged completed ones are kept."""


class LogKind(StrEnum):
    """What an entry of a run's log is."""

    LINE = "LINE"
    CHUNK = "CHUNK"
    """A piece of what the step is producing; gone once its execution has COMPLETED."""
    CUT = "CUT"
    """Stands where something was left out, and says what."""


class PlanTrigger(StrEnum):
    """Why a plan revision was made."""

    PLANNED = "PLANNED"
    CONTINUED = "CONTINUED"
    REPLANNED = "REPLANNED"
    """After a reflection, or an answer of a person, that asked for it."""
    CALLER = "CALLER"
    """It came with the start of the run."""
    FORK = "FORK"


class BlockedKind(StrEnum):
    """What an unfinished run waits for. NONE: a worker has a step of it, or it has ended."""

    NONE = "NONE"
    WORKER = "WORKER"
    """A step is ready and no connected worker serves its queue and role."""
    CAPACITY = "CAPACITY"
    """A step is ready and every worker that serves its queue and role is busy."""
    INPUT = "INPUT"
    BUDGET = "BUDGET"
    TIMER = "TIMER"
    """Every ready step waits for a back-off or a start delay to end."""
    PAUSED = "PAUSED"
    UNKNOWN_OUTCOME = "UNKNOWN_OUTCOME"


class PauseReason(StrEnum):
    """Why a run is PAUSED. NONE: it isn't."""

    NONE = "NONE"
    REQUESTED = "REQUESTED"
    BUDGET_EXHAUSTED = "BUDGET_EXHAUSTED"
    NO_PROGRESS = "NO_PROGRESS"
    INPUT_EXPIRED = "INPUT_EXPIRED"


class FinishReason(StrEnum):
    """Why a run stopped iterating. NONE: it hasn't."""

    NONE = "NONE"
    FINISHED = "FINISHED"
    """Reflection said finish, or the run has no reflection."""
    MAX_ITERATIONS = "MAX_ITERATIONS"
    STOPPED = "STOPPED"
    """It was asked to stop after the iteration in progress."""


class Verdict(StrEnum):
    """What a store says of one commit, for certain."""

    COMMITTED = "COMMITTED"
    CONFLICT = "CONFLICT"
    """The run is not at the version before this one (or was deleted, or exists)."""
    LEASE_LOST = "LEASE_LOST"
    """A lease token that the commit fences on is no longer the execution's."""


class Durability(StrEnum):
    """What an acknowledged commit survives, weakest first."""

    VOLATILE = "VOLATILE"
    """Nothing: it is gone with the process."""
    PROCESS = "PROCESS"
    """`kill -9` of every process of ours and of the store."""
    POWER = "POWER"
    """A power cut: it was fsynced."""
    NODE = "NODE"
    """The loss of the machine: it is on another one too."""


class DueKind(StrEnum):
    """What the store's clock decided."""

    LEASE_EXPIRED = "LEASE_EXPIRED"
    """No heartbeat came within the lease."""
    ATTEMPT_TIMED_OUT = "ATTEMPT_TIMED_OUT"
    """The attempt's own time is over, heartbeats or not."""
    TIMER = "TIMER"


class EventType(StrEnum):
    """What happened to a run, in the past tense. `types.proto` says what each one carries."""

    RUN_STARTED = "RUN_STARTED"
    RUN_FORKED = "RUN_FORKED"
    EXECUTION_LEASED = "EXECUTION_LEASED"
    EXECUTION_BEGUN = "EXECUTION_BEGUN"
    EXECUTION_RELEASED = "EXECUTION_RELEASED"
    EXECUTION_FAILED = "EXECUTION_FAILED"
    EXECUTION_TIMED_OUT = "EXECUTION_TIMED_OUT"
    LEASE_LOST = "LEASE_LOST"
    OUTCOME_UNKNOWN = "OUTCOME_UNKNOWN"
    OUTCOME_RESOLVED = "OUTCOME_RESOLVED"
    MESSAGES_APPENDED = "MESSAGES_APPENDED"
    PLAN_ACCEPTED = "PLAN_ACCEPTED"
    PLAN_REJECTED = "PLAN_REJECTED"
    TASK_COMPLETED = "TASK_COMPLETED"
    TASK_FAILED = "TASK_FAILED"
    TASK_DEDUPLICATED = "TASK_DEDUPLICATED"
    TASK_SKIPPED = "TASK_SKIPPED"
    TASK_RETRY_REQUESTED = "TASK_RETRY_REQUESTED"
    TASK_RETRY_SCHEDULED = "TASK_RETRY_SCHEDULED"
    STEP_RETRY_SCHEDULED = "STEP_RETRY_SCHEDULED"
    REFLECTION_ACCEPTED = "REFLECTION_ACCEPTED"
    ITERATION_COMPLETED = "ITERATION_COMPLETED"
    INPUT_REQUESTED = "INPUT_REQUESTED"
    INPUT_ANSWERED = "INPUT_ANSWERED"
    INPUT_EXPIRED = "INPUT_EXPIRED"
    REPLAN_REQUESTED = "REPLAN_REQUESTED"
    STOP_REQUESTED = "STOP_REQUESTED"
    BUDGET_RAISED = "BUDGET_RAISED"
    RUN_BLOCKED = "RUN_BLOCKED"
    """What the run waits for is another thing than before, and nothing else happened."""
    RUN_PAUSED = "RUN_PAUSED"
    RUN_RESUMED = "RUN_RESUMED"
    RUN_SUCCEEDED = "RUN_SUCCEEDED"
    RUN_FAILED = "RUN_FAILED"
    RUN_CANCELLED = "RUN_CANCELLED"


ENDED = frozenset({RunStatus.SUCCEEDED, RunStatus.FAILED, RunStatus.CANCELLED})
"""Run statuses that are ends."""

SETTLED = frozenset(
    {TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.SKIPPED, TaskStatus.CANCELLED}
)
"""Task statuses that count as settled."""

IN_FLIGHT = frozenset({TaskStatus.READY, TaskStatus.RUNNING, TaskStatus.BLOCKED})
"""Statuses of a task that was offered and has not come to an end."""

OPEN = frozenset({ExecutionStatus.READY, ExecutionStatus.LEASED, ExecutionStatus.UNKNOWN_OUTCOME})
"""Execution statuses from which an execution can still move."""
