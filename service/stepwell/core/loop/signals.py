"""What goes into `advance` and what comes out of it.

Inputs are commands of people, deliveries of workers, decisions of the store's clock, and leases.
A `Transition` is the answer: the rows that change, the events, and one reply per input.
"""

from __future__ import annotations

from enum import StrEnum

from stepwell.core.port import Commit, Fence, KeyedResult, Lease, Timer
from stepwell.core.records.events import Event
from stepwell.core.records.model import (
    Budget,
    Execution,
    ExpiryAction,
    Failure,
    InputKind,
    InputRequest,
    Message,
    Outcome,
    Payload,
    Plan,
    Record,
    RequestRecord,
    Run,
    RunSpec,
    Session,
    Task,
    TaskSpec,
    Usage,
    Violation,
)
from stepwell.core.records.states import Decision, Finding, StepKind

# --- commands --------------------------------------------------------------------------------------


class Start(Record, frozen=True, kw_only=True):
    """Bring a run to life; with a plan it begins in EXECUTING and has these stages."""

    spec: RunSpec
    input: Payload | None = None
    plan: tuple[TaskSpec, ...] | None = None
    stages: tuple[StepKind, ...] = ()


class Fork(Record, frozen=True, kw_only=True):
    """Bring a run to life as another one stood at a version; what it keeps was worked out before.

    `forking.base_of` makes it; `spec` names the parent, its version and the family.
    """

    spec: RunSpec
    run: Run
    """As it will stand: phase, iteration, stages and numbers of attempts; nothing is open."""
    plan: tuple[TaskSpec, ...] = ()
    """Empty: the parent had none, and the fork begins by planning."""
    tasks: tuple[Task, ...] = ()
    """Those that are kept or whose numbers go on; the others of the plan start anew."""
    inputs: tuple[InputRequest, ...] = ()
    """Answered ones whose task has yet to be given the answer."""
    input: Payload | None = None


class Command(Record, frozen=True, kw_only=True):
    """What the commands to a living run share."""

    request_id: str = ""
    fingerprint: str = ""
    """Of the request; the same id with another one is an error."""
    reason: str = ""


class Cancel(Command, frozen=True, kw_only=True):
    """End the run; final."""


class Pause(Command, frozen=True, kw_only=True):
    """Dispatch nothing more; work in flight may end."""


class Resume(Command, frozen=True, kw_only=True):
    """Go on from the last checkpoint."""

    retry_failed: bool = True


class Answer(Command, frozen=True, kw_only=True):
    """Answer an input request."""

    input_id: str
    payload: Payload
    """Checked against the request's schema before it comes here."""
    answered_by: str = ""
    replan: bool = False
    """Plan again before anything else is dispatched; work in flight may end."""


class Stop(Command, frozen=True, kw_only=True):
    """End the run after the iteration in progress, as though it were the last."""


class RaiseBudget(Command, frozen=True, kw_only=True):
    """Allow the run more."""

    budget: Budget
    """The new limits; a 0 leaves the one that there is. None may be lower than it was."""
    resume: bool = True
    """Go on, if the run is PAUSED for its budget and that is enough."""


class RetryTask(Command, frozen=True, kw_only=True):
    """Run a settled task that did not complete again, or one that waits for a back-off now."""

    task_id: str


class SkipTask(Command, frozen=True, kw_only=True):
    """Settle a task as SKIPPED, whatever it is doing; what depends on it goes on without."""

    task_id: str
    skip_dependents: bool = False
    """Skip what depends on it, too, at any distance."""


class Resolve(Command, frozen=True, kw_only=True):
    """Settle an unknown outcome: what a person found out."""

    execution_id: str
    finding: Finding
    result: Payload | None = None
    """With DONE."""
    failure: Failure = Failure()
    """With DONE, where it isn't empty: the effect took place, and the task failed all the same."""


# --- deliveries ------------------------------------------------------------------------------------


class Planned(Record, tag=True, frozen=True, kw_only=True):
    """PLAN: here is the plan."""

    tasks: tuple[TaskSpec, ...]
    reason: str = ""


class Completed(Record, tag=True, frozen=True, kw_only=True):
    """TASK or SYNTHESIZE: here is the result."""

    result: Payload | None = None


class Reflected(Record, tag=True, frozen=True, kw_only=True):
    """REFLECT: here is the decision; CONTINUE comes with a plan."""

    decision: Decision
    tasks: tuple[TaskSpec, ...] = ()
    reason: str = ""


class Failed(Record, tag=True, frozen=True, kw_only=True):
    """Any step: it failed."""

    failure: Failure


class NeedsInput(Record, tag=True, frozen=True, kw_only=True):
    """TASK: a person has to say something first."""

    prompt: str
    kind: InputKind = InputKind.INPUT
    schema: str = ""
    choices: tuple[str, ...] = ()
    expires_ms: int = 0
    on_expiry: ExpiryAction = ExpiryAction.WAIT


class Released(Record, tag=True, frozen=True, kw_only=True):
    """Any step: not done, give it to someone else; spends no attempt."""

    reason: str = ""


class Reconciled(Record, tag=True, frozen=True, kw_only=True):
    """RECONCILE: this is what became of the task's unknown outcome."""

    finding: Finding
    result: Payload | None = None
    """With DONE."""
    reason: str = ""


Result = Planned | Completed | Reflected | Failed | NeedsInput | Released | Reconciled


class Delivery(Record, frozen=True, kw_only=True):
    """What a worker says became of an execution that it holds."""

    execution_id: str
    token: str
    result: Result
    usage: Usage = Usage()
    session: Session = Session()
    progress: Payload | None = None
    """The last that it reported, where the step is not done: for the next attempt."""
    streamed: bool = False
    """Whether chunks of it are in the log."""
    prompt: str = ""
    response: str = ""
    messages: tuple[Message, ...] = ()
    """Those that were not appended before by `AppendMessages`."""
    messages_after: int = 0
    """How many `AppendMessages` has appended: what of `messages` came already is not appended again."""


class AppendMessages(Record, frozen=True, kw_only=True):
    """The worker of an execution appends to its task's conversation before it has an outcome."""

    execution_id: str
    token: str
    messages: tuple[Message, ...]
    after: int = 0
    """How many this execution has appended before: what came already is not appended again."""


class Begin(Record, frozen=True, kw_only=True):
    """The worker of an AT_MOST_ONCE step is about to cause its effect."""

    execution_id: str
    token: str


# --- the store's clock, and leases -----------------------------------------------------------------


class LeaseExpired(Record, frozen=True, kw_only=True):
    """This lease is over: the store's clock says so, or a newer instance of its worker is here."""

    execution_id: str
    token: str
    timed_out: bool = False
    """The attempt's own time is over; otherwise no heartbeat came."""
    reason: str = ""
    """Why it is over, where that is neither."""
    undelivered: bool = False
    """It never reached its worker: no attempt is spent, unless the worker says that it began."""
    progress: Payload | None = None
    """The last that a heartbeat brought: for the next attempt."""
    session: Session = Session()


class TimerDue(Record, frozen=True, kw_only=True):
    """The store says that this timer ran out."""

    name: str


class GrantLease(Record, frozen=True, kw_only=True):
    """Lease a READY execution to a worker."""

    execution_id: str
    token: str
    worker_id: str
    instance_id: str = ""
    stages: tuple[StepKind, ...] = ()


AnyCommand = Cancel | Pause | Resume | Answer | Stop | RaiseBudget | RetryTask | SkipTask | Resolve
Signal = (
    Start
    | Fork
    | AnyCommand
    | Delivery
    | AppendMessages
    | Begin
    | LeaseExpired
    | TimerDue
    | GrantLease
)


class KnownResult(Record, frozen=True, kw_only=True):
    """What another run of the tenant and pipeline came to under an idempotency key."""

    run_id: str
    execution_id: str
    result: Payload | None = None


class Context(Record, frozen=True, kw_only=True):
    """What the loop may know of the world."""

    now_us: int = 0
    """The store's time, for the moments that people read; it decides nothing."""
    seed: int = 0
    """Jitter is drawn from it."""
    lease_ms: int = 30_000
    """The length of a lease where its task doesn't say."""
    known: dict[str, KnownResult | None] = {}
    """By idempotency key: what was found; None: it was looked for, and there is nothing."""


# --- what comes out --------------------------------------------------------------------------------


class ReplyStatus(StrEnum):
    """What became of one input."""

    ACCEPTED = "ACCEPTED"
    UNCHANGED = "UNCHANGED"
    """It was done before, or there was nothing to do."""
    LEASE_LOST = "LEASE_LOST"
    """The execution is not this worker's any more; the outcome changed nothing."""
    REJECTED = "REJECTED"
    """The outcome was not a valid one; it counts as a failed attempt."""
    REFUSED = "REFUSED"
    """The run is in no state for this command."""


class Reply(Record, frozen=True, kw_only=True):
    """The answer to one input, true once the transition is committed."""

    status: ReplyStatus = ReplyStatus.ACCEPTED
    reason: str = ""
    """A stable word where the status isn't ACCEPTED."""
    message: str = ""
    violations: tuple[Violation, ...] = ()
    run: Run | None = None
    """The run as a command left it; None: the command was refused, or a worker asked."""


class Revoked(Record, frozen=True, kw_only=True):
    """A lease that this transition takes from its worker."""

    execution_id: str
    worker_id: str
    reason: str


class Transition(Record, frozen=True, kw_only=True):
    """A delta of one run: what to commit, and what to do once that is acknowledged."""

    run: Run
    """As it will be; `run.version` is the version that the commit makes."""
    replies: tuple[Reply, ...] = ()
    input: Payload | None = None
    plan: Plan | None = None
    tasks: tuple[Task, ...] = ()
    executions: tuple[Execution, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    leases: tuple[Lease, ...] = ()
    fences: tuple[Fence, ...] = ()
    timers: tuple[Timer, ...] = ()
    inputs: tuple[InputRequest, ...] = ()
    events: tuple[Event, ...] = ()
    messages: tuple[Message, ...] = ()
    keyed: tuple[KeyedResult, ...] = ()
    request: RequestRecord | None = None
    unknown_keys: tuple[str, ...] = ()
    """Idempotency keys of offered tasks that `Context.known` has no word of: look for them first."""
    offered: tuple[str, ...] = ()
    """Executions that are READY now and may be leased at once, in the order of the offer."""
    revoked: tuple[Revoked, ...] = ()

    @property
    def changes_something(self) -> bool:
        """Whether there is anything to commit."""
        return bool(self.events)

    def commit(self, commit_id: str, *, follows: str = "") -> Commit:
        """Return the value to be given to the store, decided on what the commit `follows` had made."""
        spec = self.run.spec
        return Commit(
            commit_id=commit_id,
            tenant_id=spec.tenant_id,
            run_id=spec.run_id,
            version=self.run.version,
            follows=follows,
            run=self.run,
            input=self.input,
            plan=self.plan,
            tasks=self.tasks,
            executions=self.executions,
            outcomes=self.outcomes,
            leases=self.leases,
            fences=self.fences,
            timers=self.timers,
            inputs=self.inputs,
            events=self.events,
            messages=self.messages,
            keyed=self.keyed,
            request=self.request,
        )
