"""From a `Change` to the commit that it stands for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from msgspec.structs import replace

from stepwell.core.port import Commit, Fence, KeyedResult, Lease, Presence, Timer
from stepwell.core.records.events import Event
from stepwell.core.records.model import (
    Execution,
    Failure,
    InputRequest,
    Message,
    Outcome,
    Payload,
    Plan,
    RequestRecord,
    Run,
    RunSpec,
    Session,
    Task,
    TaskSpec,
)
from stepwell.core.records.states import (
    BlockedKind,
    EventType,
    ExecutionStatus,
    InputStatus,
    RunStatus,
    TaskStatus,
)
from tests.contract.differential.calls import Base, Change, Check, PresenceCall, RowOfExecution
from tests.contract.differential.known import Key, Known, LeaseGrant, Sent
from tests.contract.differential.names import (
    EPOCH_US,
    EXECUTIONS,
    EXECUTORS,
    HALF_MS,
    INPUTS,
    KEYS,
    KINDS,
    LABELS,
    PAYLOADS,
    PERIOD_MS,
    PIPELINES,
    QUEUES,
    ROLES,
    RUNS,
    TASKS,
    TEXTS,
    TIMERS,
    WORKERS,
)

T = TypeVar("T")
ENDS = (RunStatus.SUCCEEDED, RunStatus.FAILED, RunStatus.CANCELLED)
LIVE = 3
"""Checks of a lower number mean a lease that holds, if there is one."""


def pick(choices: Sequence[T], index: int) -> T:
    """Return one of the choices, whatever the number."""
    return choices[index % len(choices)]


def delay_of(halves: int) -> int:
    """Return 0, or a duration that ends between two moments at which a program looks."""
    return (halves // 2) * PERIOD_MS + HALF_MS if halves > 0 else 0


def commit_of(change: Change, known: Known) -> Commit | None:
    """Return the commit that a change stands for now; None: it stands for none."""
    if change.base is Base.AGAIN:
        sent = known.sent[-1 - change.back % len(known.sent)] if known.sent else None
        return sent.commit if sent is not None and known.may_send(sent) else None
    key = known.key(change.tenant, change.run)
    head = known.heads.get(key)
    commit_id = f"c{known.number()}{pick(TEXTS, change.text)}"
    if head is None or change.base is Base.CREATE:
        commit = _creation(change, key, commit_id, known)
    else:
        commit = _step(head, commit_id)
    commit = _with_rows(commit, change, known)
    if head is not None and change.base is Base.STALE:
        commit = replace(commit, version=max(head.version - change.back, 1))
    elif change.base is Base.AHEAD:
        commit = replace(commit, version=commit.version + 1 + change.back)
    base = head.commit_id if head is not None and commit.version == head.version + 1 else ""
    known.sent.append(Sent(commit, base))
    return commit


def _creation(change: Change, key: Key, commit_id: str, known: Known) -> Commit:
    spec = RunSpec(
        tenant_id=key[0],
        run_id=key[1],
        pipeline_id=pick(PIPELINES, change.kind),
        queue=pick(QUEUES, change.kind // 2),
        labels=pick(LABELS, change.kind),
        executor_id=pick(EXECUTORS, change.kind // 3),
        goal=pick(TEXTS, change.text),
    )
    parent = RUNS[change.parent - 1] if change.parent else ""
    if parent and parent != key[1]:
        family = known.families.get((key[0], parent), parent)
        spec = replace(spec, parent_run_id=parent, parent_version=1, family_id=family)
    # Runs are listed by the time of their birth: no two of a program have the same.
    created_us = EPOCH_US + len(known.sent) * 1_000
    return Commit(
        commit_id=commit_id,
        tenant_id=key[0],
        run_id=key[1],
        version=1,
        run=Run(spec=spec, version=1, created_us=created_us),
        input=pick(PAYLOADS, change.payload),
    )


def _step(head: Commit, commit_id: str) -> Commit:
    version = head.version + 1
    return Commit(
        commit_id=commit_id,
        tenant_id=head.tenant_id,
        run_id=head.run_id,
        version=version,
        run=replace(head.run, version=version),
    )


def _with_rows(commit: Commit, change: Change, known: Known) -> Commit:
    key = (commit.tenant_id, commit.run_id)
    plan = _plan(change, known.plans.get(key, 0) + 1) if change.plan else None
    rows = {row.name % len(EXECUTIONS): row for row in change.executions}
    leased = [row for row in rows.values() if _status(row) is ExecutionStatus.LEASED and row.lease]
    results = [row for row in rows.values() if row.result and _is_new(row, key, known)]
    number = known.number()
    status = pick(list(RunStatus), change.status)
    return replace(
        commit,
        run=replace(
            commit.run,
            last_event=commit.run.last_event + change.events,
            status=status,
            # Before the birth of any store's clock, and no two of a program at once.
            ended_us=1_000_000 + number if status in ENDS else 0,
            reason=pick(TEXTS, change.text),
            blocked_on=pick(list(BlockedKind), change.text),
            result_id=commit.commit_id,
        ),
        plan=plan,
        tasks=_tasks(change, plan, known.tasks.get(key, {})),
        executions=tuple(_execution(row, commit.commit_id) for row in rows.values()),
        outcomes=tuple(_outcome(row, change.text) for row in results),
        leases=tuple(_lease(row, known) for row in leased),
        fences=_fences(change, key, known),
        timers=tuple(
            Timer(name=name, delay_ms=delay_of(halves) if halves >= 0 else -1)
            for name, halves in {pick(TIMERS, n): h for n, h in change.timers}.items()
        ),
        inputs=tuple(_input(*one) for one in dict(change.inputs).items()),
        messages=tuple(_message(*one, number=number) for one in change.messages),
        keyed=tuple(
            KeyedResult(
                pipeline_id=commit.run.spec.pipeline_id,
                key=pick(KEYS, name),
                execution_id=pick(EXECUTIONS, execution).execution_id,
            )
            for name, execution in change.keyed
        ),
        events=_events(commit, change.events),
        request=_request(number, commit.version) if change.request else None,
    )


def _events(commit: Commit, many: int) -> tuple[Event, ...]:
    first = commit.run.last_event + 1
    return tuple(
        Event(
            number=number,
            version=commit.version,
            type=pick(list(EventType), number),
            time_us=EPOCH_US + number,
            message=pick(TEXTS, number),
        )
        for number in range(first, first + many)
    )


def _request(number: int, version: int) -> RequestRecord:
    name = f"request {number}"
    return RequestRecord(request_id=name, fingerprint=f"of {name}", version=version)


def _plan(change: Change, revision: int) -> Plan:
    names = TASKS[: change.plan] if change.text % 2 else TASKS[-change.plan :]
    specs = tuple(
        TaskSpec(
            task_id=name,
            prompt=pick(TEXTS, change.text + at),
            depends_on=names[:at],
            input=pick(PAYLOADS, change.payload + at),
        )
        for at, name in enumerate(names)
    )
    return Plan(revision=revision, parent_revision=revision - 1, tasks=specs)


def _tasks(change: Change, plan: Plan | None, there: dict[str, int]) -> tuple[Task, ...]:
    revisions = dict(there)
    rows: dict[str, Task] = {}
    for spec in plan.tasks if plan is not None else ():
        assert plan is not None
        revisions[spec.task_id] = plan.revision
        rows[spec.task_id] = Task(task_id=spec.task_id, revision=plan.revision)
    for part in change.tasks if revisions else ():
        name = pick(sorted(revisions), part.task)
        status = pick(list(TaskStatus), part.status)
        rows[name] = Task(
            task_id=name,
            revision=revisions[name],
            status=status,
            attempts=part.status,
            result_id=pick(TEXTS, change.text),
        )
    return tuple(rows.values())


def _status(row: RowOfExecution) -> ExecutionStatus:
    return pick(list(ExecutionStatus), row.status)


def _execution(row: RowOfExecution, commit_id: str) -> Execution:
    named = pick(EXECUTIONS, row.name)
    return Execution(
        execution_id=named.execution_id,
        kind=named.kind,
        task_id=named.task_id,
        status=_status(row),
        queue=pick(QUEUES, row.queue),
        role=pick(ROLES, row.role),
        priority=row.priority - 1,
        delay_ms=delay_of(row.delay),
        worker_id=pick(WORKERS, row.worker),
        has_result=row.result > 0,
        failure=Failure(kind="Word", message=commit_id),
    )


def _is_new(row: RowOfExecution, key: Key, known: Known) -> bool:
    """Outcomes are written once."""
    return pick(EXECUTIONS, row.name).execution_id not in known.results.get(key, ())


def _outcome(row: RowOfExecution, text: int) -> Outcome:
    return Outcome(
        execution_id=pick(EXECUTIONS, row.name).execution_id,
        result=pick(PAYLOADS, row.result - 1),
        prompt=pick(TEXTS, text),
        response=pick(TEXTS, text + row.result),
    )


def _lease(row: RowOfExecution, known: Known) -> Lease:
    return Lease(
        execution_id=pick(EXECUTIONS, row.name).execution_id,
        token=f"token-{known.tenants[0]}-{known.number()}",
        worker_id=pick(WORKERS, row.worker),
        instance_id=f"instance {row.limit}",
        lease_ms=delay_of(row.lease),
        limit_ms=delay_of(row.limit),
    )


def lease_of(check: Check, known: Known, key: Key | None = None) -> LeaseGrant | None:
    """Return the lease that a check means: one that holds, or any granted, or one with a false token."""
    live = [one for one in known.live.values() if key is None or one.key == key]
    granted = [one for one in known.granted if key is None or one.key == key]
    among = live if live and check.lease < LIVE else granted
    if not among:
        return None
    one = among[-1 - check.lease % len(among)]
    return one if check.right else one._replace(token=f"no {one.token}")


def _fences(change: Change, key: Key, known: Known) -> tuple[Fence, ...]:
    fences: list[Fence] = []
    for check in change.fences:
        one = lease_of(check, known, key)
        if one is not None:
            fences.append(Fence(execution_id=one.execution_id, token=one.token))
        elif not check.right:
            fences.append(Fence(execution_id=EXECUTIONS[0].execution_id, token="of none"))
    return tuple(fences)


def _input(name: int, status: int) -> InputRequest:
    input_id = pick(INPUTS, name)
    answered = pick(list(InputStatus), status) is InputStatus.ANSWERED
    return InputRequest(
        input_id=input_id,
        task_id=TASKS[0],
        prompt=f"about {input_id}",
        status=pick(list(InputStatus), status),
        answer=Payload(data=b"\x00yes") if answered else None,
    )


def presences_of(tenant_id: str, call: PresenceCall) -> list[Presence]:
    """Return the workers that a call names."""
    return [
        Presence(
            tenant_id=tenant_id,
            worker_id=pick(WORKERS, worker),
            instance_id=f"instance {worker // 2}",
            replica_id=pick(TEXTS, call.text),
            queues=(pick(QUEUES, worker),),
            roles=ROLES[: call.text % 3],
            kinds=KINDS[call.text % len(KINDS)],
            credits=call.text,
        )
        for worker in call.workers
    ]


def _message(task: int, text: int, *, number: int) -> Message:
    return Message(
        role="assistant",
        content=f"{number} {pick(TEXTS, text)}",
        task_id=pick(("", *TASKS), task),
        execution_id=EXECUTIONS[0].execution_id,
        session=Session(backend=pick(TEXTS, text), session_id="s"),
    )
