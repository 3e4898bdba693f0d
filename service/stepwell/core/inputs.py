"""What goes into `advance` and what comes out of it.

Inputs are commands of people, deliveries of workers, decisions of the store's clock, and leases.
A `Transition` is the answer: the rows that change, the events, and one reply per input.
"""

from __future__ import annotations

from enum import StrEnum

from stepwell.core.model import (
    Event,
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
from stepwell.core.ports import Commit, Fence, Lease, Timer
from stepwell.core.states import Decision, StepKind

# --- commands --------------------------------------------------------------------------------------


class Start(Record, frozen=True, kw_only=True):
    """Bring a run to life; with a plan it begins in EXECUTING and has these stages."""

    spec: RunSpec
    input: Payload | None = None
    plan: tuple[TaskSpec, ...] | None = None
    stages: tuple[StepKind, ...] = ()


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
    answered_by: str = ""


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


Result = Planned | Completed | Reflected | Failed | NeedsInput | Released


class Delivery(Record, frozen=True, kw_only=True):
    """What a worker says became of an execution that it holds."""

    execution_id: str
    token: str
    result: Result
    usage: Usage = Usage()
    session: Session = Session()
    prompt: str = ""
    response: str = ""
    messages: tuple[Message, ...] = ()


class Begin(Record, frozen=True, kw_only=True):
    """The worker of an AT_MOST_ONCE step is about to cause its effect."""

    execution_id: str
    token: str


# --- the store's clock, and leases -----------------------------------------------------------------


class Expired(Record, frozen=True, kw_only=True):
    """This lease is over: the store's clock says so, or a newer instance of its worker is here."""

    execution_id: str
    token: str
    timed_out: bool = False
    """The attempt's own time is over; otherwise no heartbeat came."""
    reason: str = ""
    """Why it is over, where that is neither."""


class TimerDue(Record, frozen=True, kw_only=True):
    """The store says that this timer ran out."""

    name: str


class TakeLease(Record, frozen=True, kw_only=True):
    """Lease a READY execution to a worker."""

    execution_id: str
    token: str
    worker_id: str
    instance_id: str = ""
    stages: tuple[StepKind, ...] = ()


AnyCommand = Cancel | Pause | Resume | Answer
Input = Start | AnyCommand | Delivery | Begin | Expired | TimerDue | TakeLease


class Context(Record, frozen=True, kw_only=True):
    """What the loop may know of the world."""

    now_us: int = 0
    """The store's time, for the moments that people read; it decides nothing."""
    seed: int = 0
    """Jitter is drawn from it."""
    lease_ms: int = 30_000
    """The length of a lease where its task doesn't say."""


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
    request: RequestRecord | None = None
    offered: tuple[str, ...] = ()
    """Executions that are READY now and may be leased at once, in the order of the offer."""
    revoked: tuple[Revoked, ...] = ()

    @property
    def changes_something(self) -> bool:
        """Whether there is anything to commit."""
        return bool(self.events)

    def commit(self, commit_id: str) -> Commit:
        """Return the value to be given to the store."""
        spec = self.run.spec
        return Commit(
            commit_id=commit_id,
            tenant_id=spec.tenant_id,
            run_id=spec.run_id,
            version=self.run.version,
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
            request=self.request,
        )
