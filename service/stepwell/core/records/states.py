"""States, kinds and reasons: every enumeration that a record can hold.

The values are the names. The database holds them, the CLI prints them and, after the enumeration's own
prefix, the protocol sends them.
"""

from __future__ import annotations

from enum import StrEnum


class RunStatus(StrEnum):
    """The status of a run. The last three are final, except that a resume leaves FAILED."""

    QUEUED = "QUEUED"
    """The run was started; none of its steps has been leased yet."""
    RUNNING = "RUNNING"
    """Steps of the run are leased, or ready for a worker."""
    WAITING = "WAITING"
    """No step is leased or ready; the run waits for an answer, for an unknown outcome to be
    settled, for the end of a sleep, or for another run's idempotency key."""
    PAUSED = "PAUSED"
    """The run accepts deliveries of work in flight and dispatches nothing."""
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


class Phase(StrEnum):
    """The phase of the loop that a run is in. DONE if and only if the run SUCCEEDED."""

    PLANNING = "PLANNING"
    EXECUTING = "EXECUTING"
    REFLECTING = "REFLECTING"
    SYNTHESIZING = "SYNTHESIZING"
    DONE = "DONE"


class VersionMatch(StrEnum):
    """Comparison of a run's pin with the versions of workers."""

    ANY = "ANY"
    EXACT = "EXACT"
    AT_LEAST = "AT_LEAST"


class StepKind(StrEnum):
    """The kind of a step that a worker does."""

    PLAN = "PLAN"
    TASK = "TASK"
    REFLECT = "REFLECT"
    SYNTHESIZE = "SYNTHESIZE"
    RECONCILE = "RECONCILE"
    """Check whether an AT_MOST_ONCE task, whose worker was lost after it began, took effect."""


class TaskStatus(StrEnum):
    """The status of a task. The last four are settled."""

    PENDING = "PENDING"
    """The task waits for its dependencies or for a place within `max_parallel`."""
    READY = "READY"
    """An execution of the task waits for a worker, or for its back-off to end."""
    RUNNING = "RUNNING"
    BLOCKED = "BLOCKED"
    """The task waits for an answer, for the end of a sleep, for a budget, or for an unknown outcome to be settled."""
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    SKIPPED = "SKIPPED"
    """A failed dependency's policy skips the task, or a person skipped it."""
    CANCELLED = "CANCELLED"


class ExecutionStatus(StrEnum):
    """The status of one attempt at a step. READY, LEASED and UNKNOWN_OUTCOME are open."""

    READY = "READY"
    LEASED = "LEASED"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    TIMED_OUT = "TIMED_OUT"
    LOST = "LOST"
    """The lease expired without a delivery."""
    RELEASED = "RELEASED"
    """The step was handed back, or withdrawn before a worker had it; spends no attempt."""
    CANCELLED = "CANCELLED"
    NEEDS_ANSWER = "NEEDS_ANSWER"
    UNKNOWN_OUTCOME = "UNKNOWN_OUTCOME"
    """An AT_MOST_ONCE step was begun and its worker lost; a late delivery may still settle it. Or
    the outcome of an AT_MOST_ONCE call within the step is unknown."""
    SUSPENDED = "SUSPENDED"
    """The step was handed back to wait for a person, a time or a budget; spends no attempt."""


class QuestionStatus(StrEnum):
    """The status of a question."""

    OPEN = "OPEN"
    ANSWERED = "ANSWERED"
    EXPIRED = "EXPIRED"
    CANCELLED = "CANCELLED"


class QuestionKind(StrEnum):
    """The kind of answer that a question asks for."""

    APPROVAL = "APPROVAL"
    VALUE = "VALUE"
    CHOICE = "CHOICE"
    AUTH = "AUTH"
    SIGNAL = "SIGNAL"
    """The next signal of the name that is its prompt; no person answers it."""
    CHILD = "CHILD"
    """The end of the child run that its prompt names; no person answers it."""


class ExpiryAction(StrEnum):
    """The consequence of a question that expires unanswered."""

    WAIT = "WAIT"
    DENY = "DENY"
    FAIL = "FAIL"
    PAUSE = "PAUSE"


class OnFailure(StrEnum):
    """The consequence of a task's failure for its run, once its attempts are spent."""

    FAIL_RUN = "FAIL_RUN"
    SKIP_DEPENDENTS = "SKIP_DEPENDENTS"
    CONTINUE = "CONTINUE"
    """Dependents run and receive the failure instead of a result."""


class Effect(StrEnum):
    """The nature of a step's effect: whether the step may run again after its worker was lost."""

    IDEMPOTENT = "IDEMPOTENT"
    AT_MOST_ONCE = "AT_MOST_ONCE"


class Decision(StrEnum):
    """The decision of a reflection."""

    FINISH = "FINISH"
    CONTINUE = "CONTINUE"
    """Continue with the plan that came with the decision."""
    REPLAN = "REPLAN"


class Finding(StrEnum):
    """The finding of a RECONCILE step, or of a person, on an unknown outcome."""

    DONE = "DONE"
    """The effect took place: the task is completed, with the result that came with the finding."""
    NOT_DONE = "NOT_DONE"
    """The effect did not take place: the task runs again, and no attempt is spent."""
    UNDECIDED = "UNDECIDED"
    """The outcome can't be known: the task waits for a late delivery or for a person."""


class ForkMode(StrEnum):
    """The changes that a fork may make."""

    STRICT = "STRICT"
    """The plan is the one in force at that version."""
    PATCH = "PATCH"
    """Changed tasks and their dependents run again; unchanged completed tasks carry over."""


class LogKind(StrEnum):
    """The kind of an entry in a run's log."""

    LINE = "LINE"
    CHUNK = "CHUNK"
    """A piece of the step's result."""
    CUT = "CUT"
    """A note in place of entries that were left out."""


class PlanTrigger(StrEnum):
    """The cause of a plan revision."""

    PLANNED = "PLANNED"
    CONTINUED = "CONTINUED"
    REPLANNED = "REPLANNED"
    """A reflection, or a person's answer, asked for another plan."""
    CALLER = "CALLER"
    """The plan came with the start of the run."""
    FORK = "FORK"
    TASK = "TASK"
    """A task's outcome added tasks to the plan in force."""


class BlockedKind(StrEnum):
    """The reason why an unfinished run waits. NONE: a worker has a step, or the run has ended."""

    NONE = "NONE"
    WORKER = "WORKER"
    """A step is ready and no connected worker of its queue and version does it."""
    CAPACITY = "CAPACITY"
    """A step is ready and every worker that does it is busy."""
    QUESTION = "QUESTION"
    BUDGET = "BUDGET"
    TIMER = "TIMER"
    """Every ready step waits for a back-off or a start delay, and every suspended step for a sleep."""
    PAUSED = "PAUSED"
    UNKNOWN_OUTCOME = "UNKNOWN_OUTCOME"
    KEY = "KEY"
    """Another run has the idempotency key of every task that could run."""
    SIGNAL = "SIGNAL"
    CHILD = "CHILD"
    THREAD = "THREAD"
    """Another run of its thread works, or goes first."""


class OnBusy(StrEnum):
    """The fate of a run that is started in a thread in which one works."""

    ENQUEUE = "ENQUEUE"
    """It waits until the runs before it have ended."""
    REJECT = "REJECT"
    """It isn't started."""
    INTERRUPT = "INTERRUPT"
    """The run that works is cancelled, as are others that wait to replace it; this one comes next."""
    STEER = "STEER"
    """It becomes a signal to the run that works."""


class PauseReason(StrEnum):
    """The reason why a run is PAUSED. NONE: it isn't."""

    NONE = "NONE"
    REQUESTED = "REQUESTED"
    BUDGET_EXHAUSTED = "BUDGET_EXHAUSTED"
    NO_PROGRESS = "NO_PROGRESS"
    QUESTION_EXPIRED = "QUESTION_EXPIRED"
    PARENT = "PARENT"
    """Its parent is paused, and it follows the parent's pauses."""


class JournalMark(StrEnum):
    """The kind of a journal entry."""

    END = "END"
    """The call is done; the entry has its value."""
    BEGIN = "BEGIN"
    """The function of an AT_MOST_ONCE call is about to run."""
    TRY = "TRY"
    """The function raised; the entry has the failure."""
    WAIT = "WAIT"
    """A sleep began."""


class WaitKind(StrEnum):
    """The thing that a suspended step waits for."""

    SLEEP = "SLEEP"
    QUESTION = "QUESTION"
    BUDGET = "BUDGET"
    SIGNAL = "SIGNAL"
    CHILD = "CHILD"


class FinishReason(StrEnum):
    """The reason why a run stopped iterating. NONE: it hasn't."""

    NONE = "NONE"
    FINISHED = "FINISHED"
    """A reflection decided so, or the run has no reflection."""
    MAX_ITERATIONS = "MAX_ITERATIONS"
    STOPPED = "STOPPED"
    """A person asked the run to stop after the iteration in progress."""


class Verdict(StrEnum):
    """The store's certain answer to one commit."""

    COMMITTED = "COMMITTED"
    CONFLICT = "CONFLICT"
    """The run is not at the version before this one, or was deleted, or exists already."""
    LEASE_LOST = "LEASE_LOST"
    """A lease token among the commit's fences is no longer the execution's."""


class Durability(StrEnum):
    """The failures that an acknowledged commit survives, weakest class first."""

    VOLATILE = "VOLATILE"
    """None: the commit is lost with the process."""
    PROCESS = "PROCESS"
    """`kill -9` of every process of Stepwell and of the store."""
    POWER = "POWER"
    """A power cut: the commit was fsynced."""
    NODE = "NODE"
    """The loss of the machine: another one has the commit, too."""


class DueKind(StrEnum):
    """The kind of thing that came due by the store's clock."""

    LEASE_EXPIRED = "LEASE_EXPIRED"
    """No heartbeat came within the lease."""
    ATTEMPT_TIMED_OUT = "ATTEMPT_TIMED_OUT"
    """The attempt's time-out passed, with or without heartbeats."""
    TIMER = "TIMER"


class EventType(StrEnum):
    """The type of an event, in the past tense. `types.proto` documents the fields of each."""

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
    GROUP_GATHERED = "GROUP_GATHERED"
    TASK_RETRY_REQUESTED = "TASK_RETRY_REQUESTED"
    TASK_RETRY_SCHEDULED = "TASK_RETRY_SCHEDULED"
    STEP_RETRY_SCHEDULED = "STEP_RETRY_SCHEDULED"
    STEP_POISONED = "STEP_POISONED"
    STEP_SUSPENDED = "STEP_SUSPENDED"
    STEP_WOKEN = "STEP_WOKEN"
    JOURNAL_RENEWED = "JOURNAL_RENEWED"
    JOURNAL_FORGOTTEN = "JOURNAL_FORGOTTEN"
    WAIT_OPENED = "WAIT_OPENED"
    WAIT_EXPIRED = "WAIT_EXPIRED"
    SIGNAL_RECEIVED = "SIGNAL_RECEIVED"
    SIGNAL_TAKEN = "SIGNAL_TAKEN"
    CHILD_ENDED = "CHILD_ENDED"
    LETTERS_DELIVERED = "LETTERS_DELIVERED"
    PLACE_CHANGED = "PLACE_CHANGED"
    RUN_JOINED = "RUN_JOINED"
    RUN_LEFT = "RUN_LEFT"
    RUN_LET_GO = "RUN_LET_GO"
    RUN_STEERED = "RUN_STEERED"
    THREAD_WRITTEN = "THREAD_WRITTEN"
    REFLECTION_ACCEPTED = "REFLECTION_ACCEPTED"
    ITERATION_COMPLETED = "ITERATION_COMPLETED"
    QUESTION_ASKED = "QUESTION_ASKED"
    QUESTION_ANSWERED = "QUESTION_ANSWERED"
    QUESTION_EXPIRED = "QUESTION_EXPIRED"
    REPLAN_REQUESTED = "REPLAN_REQUESTED"
    STOP_REQUESTED = "STOP_REQUESTED"
    BUDGET_RAISED = "BUDGET_RAISED"
    RUN_BLOCKED = "RUN_BLOCKED"
    """The run is blocked on another thing than before, and nothing else happened."""
    RUN_PAUSED = "RUN_PAUSED"
    RUN_RESUMED = "RUN_RESUMED"
    RUN_SUCCEEDED = "RUN_SUCCEEDED"
    RUN_FAILED = "RUN_FAILED"
    RUN_CANCELLED = "RUN_CANCELLED"


NO_PERSON = frozenset({QuestionKind.SIGNAL, QuestionKind.CHILD})
"""Kinds of questions that are waits of calls, and are never shown where people answer."""

ENDED = frozenset({RunStatus.SUCCEEDED, RunStatus.FAILED, RunStatus.CANCELLED})
"""Statuses of runs that have ended."""

SETTLED = frozenset(
    {TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.SKIPPED, TaskStatus.CANCELLED}
)
"""Statuses of settled tasks."""

IN_FLIGHT = frozenset({TaskStatus.READY, TaskStatus.RUNNING, TaskStatus.BLOCKED})
"""Statuses of tasks that were offered and are not settled."""

OPEN = frozenset({ExecutionStatus.READY, ExecutionStatus.LEASED, ExecutionStatus.UNKNOWN_OUTCOME})
"""Statuses of executions that have not ended."""
