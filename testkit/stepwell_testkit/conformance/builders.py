"""Builders of a store's arguments, so that a test reads like a sentence.

`created()` makes a run's first commit and `step(before, …)` the one that follows another: versions,
event numbers and commit ids have defaults that can be overridden.
"""
# ruff: noqa: S107 - these tokens open nothing

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from stepwell.core.port import (
    Commit,
    EntryWrite,
    Fence,
    JournalWrite,
    Lease,
    Presence,
    Renewal,
    Timer,
    Want,
)
from stepwell.core.records.checkpoints import Checkpoint, CheckpointState, NamedEvent
from stepwell.core.records.events import Event
from stepwell.core.records.journal import Entry
from stepwell.core.records.model import (
    Execution,
    Failure,
    LogEntry,
    Message,
    Outcome,
    Payload,
    Plan,
    Question,
    RequestRecord,
    Run,
    RunSpec,
    Session,
    Task,
    TaskSpec,
)
from stepwell.core.records.routing import TaskPattern
from stepwell.core.records.states import (
    Effect,
    EventType,
    ExecutionStatus,
    JournalMark,
    LogKind,
    QuestionStatus,
    RunStatus,
    StepKind,
    TaskStatus,
)
from stepwell.core.records.texts import id_ending

TENANT = "acme"
RUN = "run-1"
STEP = "task:a#1"
"""The execution that most tests are about."""
JOURNAL = "task:a@1"
"""The journal of its step."""
ALL_KINDS = tuple(StepKind)
EPOCH_US = 1_700_000_000_000_000


def created(
    run_id: str = RUN,
    *,
    tenant: str = TENANT,
    spec: RunSpec | None = None,
    commit_id: str = "",
    input: Payload | None = None,  # noqa: A002 - the name that Commit has for it
    plan: Plan | None = None,
    tasks: Sequence[Task] = (),
    executions: Sequence[Execution] = (),
    outcomes: Sequence[Outcome] = (),
    leases: Sequence[Lease] = (),
    timers: Sequence[Timer] = (),
    questions: Sequence[Question] = (),
    events: int = 1,
    status: RunStatus = RunStatus.QUEUED,
    created_us: int = EPOCH_US,
) -> Commit:
    """Return the commit that creates a run."""
    spec = spec or RunSpec(tenant_id=tenant, run_id=run_id)
    run = Run(spec=spec, version=1, last_event=events, status=status, created_us=created_us)
    return Commit(
        commit_id=commit_id or f"{run_id}@1",
        tenant_id=tenant,
        run_id=run_id,
        version=1,
        run=run,
        input=input,
        plan=plan,
        tasks=tuple(tasks),
        executions=tuple(executions),
        outcomes=tuple(outcomes),
        leases=tuple(leases),
        timers=tuple(timers),
        questions=tuple(questions),
        events=events_of(1, first=1, many=events),
    )


def step(
    before: Commit,
    *,
    version: int = 0,
    commit_id: str = "",
    run: Run | None = None,
    status: RunStatus | None = None,
    reason: str | None = None,
    plan: Plan | None = None,
    tasks: Sequence[Task] = (),
    executions: Sequence[Execution] = (),
    outcomes: Sequence[Outcome] = (),
    leases: Sequence[Lease] = (),
    fences: Sequence[Fence] = (),
    timers: Sequence[Timer] = (),
    questions: Sequence[Question] = (),
    messages: Sequence[Message] = (),
    request: RequestRecord | None = None,
    events: int = 1,
) -> Commit:
    """Return the commit that follows another of the same run."""
    version = version or before.version + 1
    run = run or before.run
    run = replace(
        run,
        version=version,
        last_event=before.run.last_event + events,
        status=run.status if status is None else status,
        reason=run.reason if reason is None else reason,
    )
    return Commit(
        commit_id=commit_id or f"{before.run_id}@{version}",
        tenant_id=before.tenant_id,
        run_id=before.run_id,
        version=version,
        run=run,
        plan=plan,
        tasks=tuple(tasks),
        executions=tuple(executions),
        outcomes=tuple(outcomes),
        leases=tuple(leases),
        fences=tuple(fences),
        timers=tuple(timers),
        questions=tuple(questions),
        messages=tuple(messages),
        request=request,
        events=events_of(version, first=before.run.last_event + 1, many=events),
    )


def fork(
    run_id: str,
    *,
    parent: str = RUN,
    tenant: str = TENANT,
    commit_id: str = "",
    outcomes: Sequence[Outcome] = (),
) -> Commit:
    """Return the first commit of a fork."""
    assert id_ending(run_id) == id_ending(parent), "a fork's id ends as its parent's does"
    spec = RunSpec(
        tenant_id=tenant,
        run_id=run_id,
        parent_run_id=parent,
        parent_version=1,
        family_id=parent,
    )
    return created(run_id, tenant=tenant, spec=spec, commit_id=commit_id, outcomes=outcomes)


def named(commit: Commit, base: bytes = b"") -> Commit:
    """Return a commit with a named checkpoint, which has a base if bytes are given."""
    event = NamedEvent(number=commit.run.last_event, type=EventType.PLAN_ACCEPTED)
    state = CheckpointState(last_event=commit.run.last_event, events=(event,))
    return replace(
        commit,
        checkpoint=Checkpoint(version=commit.version, iteration=1, state=state, base=base),
    )


def events_of(version: int, *, first: int, many: int) -> tuple[Event, ...]:
    """Return that many events of one commit."""
    return tuple(
        Event(number=number, version=version, type=EventType.EXECUTION_LEASED, time_us=EPOCH_US)
        for number in range(first, first + many)
    )


def plan(*task_ids: str, revision: int = 1, prompt: str = "") -> Plan:
    """Return a plan of independent tasks."""
    specs = tuple(TaskSpec(task_id=task_id, prompt=prompt) for task_id in task_ids)
    return Plan(revision=revision, parent_revision=revision - 1, tasks=specs)


def task(task_id: str, status: TaskStatus = TaskStatus.READY, *, revision: int = 1) -> Task:
    """Return a task's row."""
    return Task(task_id=task_id, revision=revision, status=status)


def ready(
    execution_id: str = STEP,
    *,
    delay_ms: int = 0,
    queue: str = "default",
    type: str = "",  # noqa: A002 - the field's name
    role: str = "",
    pin: str = "",
    priority: int = 0,
    kind: StepKind = StepKind.TASK,
    task_id: str = "a",
) -> Execution:
    """Return an execution that waits for a worker."""
    return Execution(
        execution_id=execution_id,
        kind=kind,
        task_id=task_id if kind is StepKind.TASK else "",
        queue=queue,
        type=type,
        role=role,
        pin=pin,
        priority=priority,
        delay_ms=delay_ms,
    )


def leased(execution_id: str = STEP, *, task_id: str = "a", queue: str = "default") -> Execution:
    """Return an execution that a worker has leased; the commit has the lease separately."""
    return replace(
        ready(execution_id, task_id=task_id, queue=queue),
        status=ExecutionStatus.LEASED,
        worker_id="worker-1",
    )


def ended(
    execution_id: str = STEP,
    status: ExecutionStatus = ExecutionStatus.COMPLETED,
    *,
    task_id: str = "a",
) -> Execution:
    """Return an execution that has ended (or is UNKNOWN_OUTCOME)."""
    return replace(leased(execution_id, task_id=task_id), status=status)


def lease(
    execution_id: str = STEP, *, token: str = "t1", lease_ms: int = 10_000, limit_ms: int = 0
) -> Lease:
    """Return a lease for worker-1."""
    return Lease(
        execution_id=execution_id,
        token=token,
        worker_id="worker-1",
        instance_id="instance-1",
        lease_ms=lease_ms,
        limit_ms=limit_ms,
    )


def created_leased(
    run_id: str = RUN,
    *,
    tenant: str = TENANT,
    token: str = "t1",
    lease_ms: int = 10_000,
    limit_ms: int = 0,
) -> Commit:
    """Return the first commit of a run whose one step is leased at once."""
    return created(
        run_id,
        tenant=tenant,
        executions=[leased()],
        leases=[lease(token=token, lease_ms=lease_ms, limit_ms=limit_ms)],
        status=RunStatus.RUNNING,
    )


def fence(execution_id: str = STEP, *, token: str = "t1", recorded: int = -1) -> Fence:
    """Return a fence: the demand that the lease is still this one."""
    return Fence(execution_id=execution_id, token=token, recorded=recorded)


def renewal(
    run_id: str = RUN,
    *,
    tenant: str = TENANT,
    execution_id: str = STEP,
    token: str = "t1",
    lease_ms: int = 10_000,
    progress: Payload | None = None,
    session: Session | None = None,
) -> Renewal:
    """Return a heartbeat."""
    return Renewal(
        tenant_id=tenant,
        run_id=run_id,
        execution_id=execution_id,
        token=token,
        lease_ms=lease_ms,
        progress=progress,
        session=session or Session(),
    )


def entry(key: str = "call#1", data: bytes | None = b"{}", *, number: int = 0) -> Entry:
    """Return the END of a call with these bytes."""
    value = Payload(data=data) if data is not None else None
    return Entry(key=key, number=number, name="call", value=value)


def mark(mark: JournalMark, key: str = "call#1", *, number: int = 1) -> Entry:
    """Return an entry of an AT_MOST_ONCE call."""
    return Entry(key=key, mark=mark, number=number, effect=Effect.AT_MOST_ONCE)


def journal_write(
    *entries: Entry,
    run_id: str = RUN,
    tenant: str = TENANT,
    execution_id: str = STEP,
    token: str = "t1",
    journal: str = JOURNAL,
    generation: int = 1,
    forget_number: int = 0,
) -> JournalWrite:
    """Return entries that a worker writes under a lease."""
    return JournalWrite(
        tenant_id=tenant,
        run_id=run_id,
        execution_id=execution_id,
        token=token,
        journal=journal,
        generation=generation,
        entries=entries,
        forget_number=forget_number,
    )


def entry_write(entry: Entry, *, journal: str = JOURNAL, generation: int = 1) -> EntryWrite:
    """Return an entry that a commit writes or forgets."""
    return EntryWrite(journal=journal, generation=generation, entry=entry)


def timer(delay_ms: int, name: str = "timer") -> Timer:
    """Return a timer."""
    return Timer(name=name, delay_ms=delay_ms)


def outcome(data: bytes = b"{}", execution_id: str = STEP) -> Outcome:
    """Return an outcome with these result bytes."""
    receipt = f"of {execution_id}"
    return Outcome(execution_id=execution_id, result=Payload(data=data), receipt=receipt)


def question(
    question_id: str, status: QuestionStatus = QuestionStatus.OPEN, *, created_us: int = 0
) -> Question:
    """Return a question."""
    return Question(
        question_id=question_id, task_id="a", prompt="sure?", status=status, created_us=created_us
    )


def message(text: str, *, task_id: str = "a") -> Message:
    """Return a message of a task's conversation."""
    return Message(role="assistant", content=text, task_id=task_id, execution_id=STEP)


def line(text: str, execution_id: str = STEP, kind: LogKind = LogKind.LINE) -> LogEntry:
    """Return a log entry of a worker, by default a line."""
    return LogEntry(execution_id=execution_id, text=text, kind=kind)


def request(request_id: str, version: int) -> RequestRecord:
    """Return the record of an executed command."""
    return RequestRecord(request_id=request_id, fingerprint=f"of {request_id}", version=version)


def failure(message: str) -> Failure:
    """Return a failure."""
    return Failure(kind="ValueError", message=message)


def presence(
    worker_id: str = "worker-1", *, tenant: str = TENANT, instance_id: str = "instance-1"
) -> Presence:
    """Return a connected worker."""
    return Presence(
        tenant_id=tenant,
        worker_id=worker_id,
        instance_id=instance_id,
        replica_id="replica-1",
        queues=("default",),
        tasks=(TaskPattern(type="write", role="*"), TaskPattern(kind=StepKind.RECONCILE)),
        version="1.4.2",
        kinds=(StepKind.TASK, StepKind.PLAN),
        credits=3,
        subject="worker-key",
        connected_us=1_700_000_000_000_000,
        draining=True,
        lapses=2,
    )


def want(
    *,
    tenant: str = TENANT,
    queues: Sequence[str] = ("default",),
    kinds: Sequence[StepKind] = ALL_KINDS,
    tasks: Sequence[TaskPattern] = (),
    version: str = "",
    limit: int = 100,
) -> Want:
    """Return the steps that a worker wants."""
    return Want(
        tenant_id=tenant,
        queues=tuple(queues),
        kinds=tuple(kinds),
        tasks=tuple(tasks),
        version=version,
        limit=limit,
    )
