"""Occurrences, which go into `advance`: commands of people, deliveries of workers, expiries, and leases."""

from __future__ import annotations

from stepwell.core.loop.called import Called, Command
from stepwell.core.loop.thread_occurrences import (
    ChangePlace,
    CopyMessages,
    ForkThread,
    LetGo,
    RunLeft,
    RunWrites,
    WriteToThread,
)
from stepwell.core.port import EntryWrite
from stepwell.core.records.model import (
    Budget,
    ExpiryAction,
    Failure,
    Message,
    Payload,
    Question,
    QuestionKind,
    Record,
    Run,
    RunSpec,
    Session,
    Task,
    TaskSpec,
    Usage,
)
from stepwell.core.records.states import Decision, Finding, OnBusy, StepKind
from stepwell.core.records.threads import ThreadWrite

# --- commands --------------------------------------------------------------------------------------


class Start(Called, frozen=True, kw_only=True):
    """Create a run; with a plan, it begins in EXECUTING and has these stages."""

    spec: RunSpec
    input: Payload | None = None
    plan: tuple[TaskSpec, ...] | None = None
    stages: tuple[StepKind, ...] = ()
    waits_for_thread: bool = False
    """It does nothing before `LetGo`."""


class StartInThread(Called, frozen=True, kw_only=True):
    """Start a run in a thread, which is made where it is missing; a command to the thread."""

    spec: RunSpec
    """That of the run. Its fingerprint is never empty."""
    input: Payload | None = None
    plan: tuple[TaskSpec, ...] | None = None
    stages: tuple[StepKind, ...] = ()
    on_busy: OnBusy = OnBusy.ENQUEUE
    fork: Fork | None = None
    """The run is this fork, whose input is here, and which has no `plan` and no `stages` here."""


class Fork(Called, frozen=True, kw_only=True):
    """Create a run from a version of another run, with what it carries over.

    `core.fork` makes this command; `spec` names the parent, its version and the family.
    """

    spec: RunSpec
    run: Run
    """The run at its creation: phase, iteration, stages and attempt numbers; nothing is open."""
    plan: tuple[TaskSpec, ...] = ()
    """Empty: the parent had no plan, and the fork begins by planning."""
    tasks: tuple[Task, ...] = ()
    """Tasks that are carried over or whose numbers continue; the plan's other tasks start from the beginning."""
    questions: tuple[Question, ...] = ()
    """Answered questions whose task has yet to receive the answer."""
    signals: tuple[EntryWrite, ...] = ()
    """Signals that the parent kept at that version and still keeps, oldest first."""
    input: Payload | None = None
    waits_for_thread: bool = False
    """As in `Start`."""


class Cancel(Command, frozen=True, kw_only=True):
    """Cancel the run for good."""


class Pause(Command, frozen=True, kw_only=True):
    """Dispatch nothing more; work in flight may end."""

    parent: str = ""
    """The run that says so by a letter, because it is paused itself."""
    letter: int = 0
    """The number of that letter, which a second delivery repeats."""


class Resume(Command, frozen=True, kw_only=True):
    """Continue from the last checkpoint."""

    retry_failed: bool = True
    parent: str = ""
    """The run that says so by a letter, because it goes on itself."""
    letter: int = 0
    """The number of that letter, which a second delivery repeats."""


class Answer(Command, frozen=True, kw_only=True):
    """Answer a question."""

    question_id: str
    payload: Payload
    """The answer, which the caller has checked against the question's schema."""
    answered_by: str = ""
    replan: bool = False
    """Plan again before anything else is dispatched; work in flight may end."""


class Stop(Command, frozen=True, kw_only=True):
    """End the run after the iteration in progress, as if it were the last."""


class SendSignal(Command, frozen=True, kw_only=True):
    """Send the run a signal, for a call that waits for its name, or will."""

    name: str
    value: Payload | None = None
    sender: str = ""
    """The run, or the thread, that sends it by a letter."""
    letter: int = 0
    """The number of that letter, which a second delivery repeats."""


class RaiseBudget(Command, frozen=True, kw_only=True):
    """Raise the limits of the run's budget."""

    budget: Budget
    """The new limits; 0 leaves a limit unchanged. No limit may become lower."""
    resume: bool = True
    """Continue, if the run is PAUSED for its budget and the new limits suffice."""


class RetryTask(Command, frozen=True, kw_only=True):
    """Run a FAILED or SKIPPED task again, or end the back-off that a task waits for."""

    task_id: str
    fresh: bool = False
    """Begin a new generation of its journal."""


class SkipTask(Command, frozen=True, kw_only=True):
    """Settle a task as SKIPPED, whatever it is doing; its dependents run without its result."""

    task_id: str
    skip_dependents: bool = False
    """Skip its dependents at any distance, too."""


class Resolve(Command, frozen=True, kw_only=True):
    """Settle an unknown outcome with a person's finding."""

    execution_id: str
    finding: Finding
    result: Payload | None = None
    """With DONE."""
    failure: Failure = Failure()
    """With DONE, if not empty: the effect took place, but the task failed."""
    call: str = ""
    """The call within the step whose outcome is unknown; `result` is then its value. Empty: the task's own effect."""
    begun: tuple[EntryWrite, ...] = ()
    """With NOT_DONE: the call's BEGINs without END and TRY, as the caller read them from the store."""


# --- deliveries ------------------------------------------------------------------------------------


class Planned(Record, tag=True, frozen=True, kw_only=True):
    """The result of a PLAN step: the plan."""

    tasks: tuple[TaskSpec, ...]
    reason: str = ""


class Completed(Record, tag=True, frozen=True, kw_only=True):
    """The result of a TASK or SYNTHESIZE step; a TASK's may bring tasks to add to the plan in force."""

    result: Payload | None = None
    tasks: tuple[TaskSpec, ...] = ()


class Reflected(Record, tag=True, frozen=True, kw_only=True):
    """The result of a REFLECT step: the decision; CONTINUE comes with a plan."""

    decision: Decision
    tasks: tuple[TaskSpec, ...] = ()
    reason: str = ""


class Failed(Record, tag=True, frozen=True, kw_only=True):
    """The failure of any step."""

    failure: Failure


class NeedsAnswer(Record, tag=True, frozen=True, kw_only=True):
    """A TASK step's question to a person; the task waits for the answer."""

    prompt: str
    kind: QuestionKind = QuestionKind.VALUE
    schema: str = ""
    choices: tuple[str, ...] = ()
    expires_ms: int = 0
    on_expiry: ExpiryAction = ExpiryAction.WAIT
    token_sha256: str = ""
    """The hash, in hex, of the token by which the question can be answered; empty: it has none."""


class Released(Record, tag=True, frozen=True, kw_only=True):
    """A step of any kind is handed back undone, for another worker; spends no attempt."""

    reason: str = ""


class Sleep(Record, tag=True, frozen=True, kw_only=True):
    """A call waits for the end of a sleep, which a WAIT entry began, or of the pause before its next try."""

    remaining_ms: int = 0


class BudgetSpent(Record, tag=True, frozen=True, kw_only=True):
    """A call waits for a higher budget, because the run's is spent."""


class AwaitSignal(Record, tag=True, frozen=True, kw_only=True):
    """A call waits for the next signal of a name."""

    name: str
    expires_ms: int = 0
    at_once: bool = False
    """The call ends at once, also if no signal is kept."""


class AwaitChild(Record, tag=True, frozen=True, kw_only=True):
    """A call waits for the end of a child run, which is started where the call has none yet."""

    pipeline_id: str = ""
    queue: str = ""
    """Empty: the parent's."""
    goal: str = ""
    input: Payload | None = None
    labels: dict[str, str] = {}
    max_iterations: int = 0
    """0: the default."""
    budget: Budget = Budget()
    """Its limits; tokens and cost are taken from the parent's. 0: all that is left there."""
    tasks: tuple[TaskSpec, ...] = ()
    """The child's plan; empty: it plans."""
    leave: bool = False
    """The child goes on after its step's end."""
    cancel: bool = False
    """Nothing is started; the child that the call has is cancelled."""
    follow_pauses: bool = False
    """The child is paused when its parent is, and goes on with it."""
    reflect_on: tuple[str, ...] = ()
    """Names of signals that make it reflect before its tasks are settled."""


class SignalChild(Record, tag=True, frozen=True, kw_only=True):
    """A call waits until a child run has a signal, which is sent once."""

    child: str
    """The call of the child."""
    name: str
    value: Payload | None = None


class SuspendedCall(Record, frozen=True, kw_only=True):
    """A waiting call, by its key in the step's journal. An answer, a signal, or a child's end becomes its value."""

    call: str
    wait: Sleep | NeedsAnswer | BudgetSpent | AwaitSignal | AwaitChild | SignalChild
    arguments: str = ""
    """The digest of what it waits for, for the entry with its value."""


class Suspended(Record, tag=True, frozen=True, kw_only=True):
    """A step is handed back because only waits are left of it; spends no attempt."""

    waits: tuple[SuspendedCall, ...]
    more: bool = False
    """More calls wait than these: the end of any that was opened wakes the step."""


class UnknownCall(Record, tag=True, frozen=True, kw_only=True):
    """A step ends because the outcome of an AT_MOST_ONCE call is unknown; spends no attempt."""

    call: str
    """The call's key in the step's journal."""
    reason: str = ""


class Reconciled(Record, tag=True, frozen=True, kw_only=True):
    """The result of a RECONCILE step: its finding on the task's unknown outcome."""

    finding: Finding
    result: Payload | None = None
    """With DONE."""
    reason: str = ""


Result = (
    Planned
    | Completed
    | Reflected
    | Failed
    | NeedsAnswer
    | Released
    | Reconciled
    | Suspended
    | UnknownCall
)


class Delivery(Record, frozen=True, kw_only=True):
    """A worker's report on an execution that it holds: its result, usage and messages."""

    execution_id: str
    token: str
    result: Result
    usage: Usage = Usage()
    session: Session = Session()
    progress: Payload | None = None
    """The last reported progress, for the next attempt, if the step is not done."""
    prompt: str = ""
    response: str = ""
    messages: tuple[Message, ...] = ()
    """New messages of the conversation."""
    messages_after: int = 0
    """The number of earlier messages. Messages that the run already has are not appended again."""
    thread: ThreadWrite | None = None
    """With a result that completes the step: what it writes to the run's thread."""


class AppendMessages(Record, frozen=True, kw_only=True):
    """Append messages to a task's conversation while its execution is still running."""

    execution_id: str
    token: str
    messages: tuple[Message, ...]
    after: int = 0
    """The number of messages that this execution has appended before."""


class Forget(Record, frozen=True, kw_only=True):
    """Drop calls from the journal of a step that is still running.

    Their messages are dropped, too, unless the conversation already has them; their usage still
    counts.
    """

    execution_id: str
    token: str
    number: int
    """A number that grows with each such message of the execution; a repeated message does nothing."""
    calls: tuple[str, ...]
    """The calls' keys in the step's journal, each once."""
    entries: tuple[EntryWrite, ...] = ()
    """The calls' entries in the journal's generation, as the caller read them from the store."""


class Open(Record, frozen=True, kw_only=True):
    """Open calls that wait while their step runs."""

    execution_id: str
    token: str
    number: int
    """A number that grows with each such message of the execution; a repeated message does nothing."""
    calls: tuple[SuspendedCall, ...]
    known: tuple[str, ...] = ()
    """Calls of whose ends the attempt knows."""


class Begin(Record, frozen=True, kw_only=True):
    """Note that the worker of an AT_MOST_ONCE step is about to cause its effect."""

    execution_id: str
    token: str


# --- the store's clock, and leases -----------------------------------------------------------------


class LeaseExpired(Record, frozen=True, kw_only=True):
    """End a lease: it expired by the store's clock, or a newer instance of its worker connected."""

    execution_id: str
    token: str
    timed_out: bool = False
    """True: the attempt's time-out passed; False: heartbeats were missing."""
    reason: str = ""
    """The reason why the lease has ended, if it is neither of these."""
    undelivered: bool = False
    """The assignment never reached its worker, so no attempt is spent unless it was begun."""
    progress: Payload | None = None
    """Progress of the last heartbeat, for the next attempt."""
    session: Session = Session()
    connected: frozenset[str] = frozenset()
    """The tenant's connected worker instances, by name (`losses.name_of`), which the step did not kill."""
    blameless: bool = False
    """The worker held another step that is suspected of killing it, so this loss is not counted."""
    waited: bool = False
    """The worker was waited for after the lease had expired, so instances missing in `connected` didn't come back."""


class TimerDue(Record, frozen=True, kw_only=True):
    """A timer of the run came due by the store's clock."""

    name: str


class ChildEnds(Record, frozen=True, kw_only=True):
    """A child run has ended, or could not be started: end the call that waits for it."""

    question_id: str
    run_id: str
    """The child."""
    status: str
    """The child's status, for people."""
    value: Payload
    """The child's end as the call's value (`children.ChildEnd`)."""
    usage: Usage = Usage()


class SignalSent(Record, frozen=True, kw_only=True):
    """The outcome of a letter with a signal, for the call that waits for it."""

    question_id: str
    failure: Failure = Failure()
    """Why its receiver did not take it, or an empty one."""


class LettersDelivered(Record, frozen=True, kw_only=True):
    """Letters of the run are with their receivers, or have none: they are kept no longer."""

    last: int
    """The number of the last one; all before it are delivered, too."""
    signals: tuple[SignalSent, ...] = ()
    """The outcomes of those with signals."""


class GrantLease(Record, frozen=True, kw_only=True):
    """Lease a READY execution to a worker."""

    execution_id: str
    token: str
    """Empty: the slot that was meant for it is not free."""
    worker_id: str
    instance_id: str = ""
    stages: tuple[StepKind, ...] = ()
    alone: bool = False
    """The worker holds and gets nothing else, as a suspect step requires."""
    connected: frozenset[str] = frozenset()
    """Connected worker instances, as with a lost lease: the step is not suspected because of them."""


AnyCommand = (
    Cancel
    | Pause
    | Resume
    | Answer
    | Stop
    | SendSignal
    | WriteToThread
    | ForkThread
    | RaiseBudget
    | RetryTask
    | SkipTask
    | Resolve
)
Occurrence = (
    Start
    | StartInThread
    | Fork
    | AnyCommand
    | Delivery
    | AppendMessages
    | Begin
    | Forget
    | Open
    | LeaseExpired
    | TimerDue
    | ChildEnds
    | LetGo
    | RunLeft
    | RunWrites
    | CopyMessages
    | LettersDelivered
    | ChangePlace
    | GrantLease
)
