"""Makes the commit that a `Change` stands for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from msgspec.structs import replace

from stepwell.core.port import Commit, Fence, Lease
from stepwell.core.records.checkpoints import Checkpoint, CheckpointState, NamedEvent
from stepwell.core.records.events import Event, RunChange
from stepwell.core.records.model import (
    Execution,
    Failure,
    Outcome,
    Plan,
    RequestRecord,
    Run,
    RunSpec,
    Task,
    TaskSpec,
)
from stepwell.core.records.states import (
    BlockedKind,
    EventType,
    ExecutionStatus,
    RunStatus,
    TaskStatus,
)
from stepwell.core.records.texts import id_ending
from stepwell_testkit.conformance.drawn.calls import Base, Change, Check, Row
from stepwell_testkit.conformance.drawn.known import Key, Known, LeaseGrant, Sent
from stepwell_testkit.conformance.drawn.names import (
    EPOCH_US,
    EXECUTIONS,
    EXECUTORS,
    KEYS,
    LABELS,
    PAYLOADS,
    PIPELINES,
    QUEUES,
    TASKS,
    TEXTS,
)

T = TypeVar("T")
ENDS = (RunStatus.SUCCEEDED, RunStatus.FAILED, RunStatus.CANCELLED)
LIVE = 3
"""Checks with a lower number mean a valid lease, if there is one."""


def pick(choices: Sequence[T], index: int) -> T:
    """Return one of the choices for any number."""
    return choices[index % len(choices)]


def commit_of(change: Change, known: Known) -> Commit | None:
    """Return the commit that a change stands for now, or None."""
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
    if change.parent != key[1] and id_ending(change.parent) == id_ending(key[1]):
        spec = replace(spec, parent_run_id=change.parent, parent_version=1)
    # Runs are listed by creation time, so no two of a program have the same.
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
    rows = {row.named: row for row in change.executions}
    # An execution's outcome is written once.
    there = known.results.get(key, set())
    results = [row for name, row in rows.items() if row.result and name.execution_id not in there]
    number = known.number()
    return replace(
        commit,
        run=replace(
            commit.run,
            last_event=commit.run.last_event + change.events,
            status=change.status,
            # Before any store's clock began, and no two of a program at once.
            ended_us=1_000_000 + number if change.status in ENDS else 0,
            reason=pick(TEXTS, change.text),
            blocked_on=pick(list(BlockedKind), change.text),
            result_id=commit.commit_id,
        ),
        plan=plan,
        tasks=_tasks(change, plan, known.tasks.get(key, {})),
        executions=tuple(_execution(row, commit) for row in rows.values()),
        outcomes=tuple(_outcome(row, change.text) for row in results),
        leases=tuple(
            _lease(row, known)
            for row in rows.values()
            if row.status is ExecutionStatus.LEASED and row.lease_ms
        ),
        fences=_fences(change, key, known),
        entries=change.entries,
        forgotten=change.forgotten,
        timers=tuple({timer.name: timer for timer in change.timers}.values()),
        questions=change.questions,
        messages=tuple(
            replace(message, content=f"{number} {message.content}") for message in change.messages
        ),
        events=_events(commit, change.events),
        request=_request(number, commit.version) if change.request else None,
        checkpoint=_checkpoint(change, commit.version) if change.checkpoint else None,
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


def _checkpoint(change: Change, version: int) -> Checkpoint:
    base = change.checkpoint - 1
    event = NamedEvent(
        number=version, type=pick(list(EventType), version), message=pick(TEXTS, change.text)
    )
    return Checkpoint(
        version=version,
        iteration=change.text,
        created_us=EPOCH_US + version,
        state=CheckpointState(
            last_event=version,
            events=(event,) * change.checkpoint,
            run=RunChange(reason=pick(TEXTS, change.text)),
            base_event=base,
        ),
        base=b"\x00\xff base" * base,
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
    for task, status in change.tasks if revisions else ():
        name = pick(sorted(revisions), task)
        rows[name] = Task(
            task_id=name,
            revision=revisions[name],
            status=status,
            attempts=list(TaskStatus).index(status),
            result_id=pick(TEXTS, change.text),
            held_key=pick(("", *KEYS), change.text),
        )
    return tuple(rows.values())


def _execution(row: Row, commit: Commit) -> Execution:
    return Execution(
        execution_id=row.named.execution_id,
        kind=row.named.kind,
        task_id=row.named.task_id,
        status=row.status,
        queue=row.queue,
        type=row.type,
        role=row.role,
        pin=row.pin,
        priority=row.priority,
        delay_ms=row.delay_ms,
        worker_id=row.worker_id,
        has_result=row.result > 0,
        failure=Failure(kind="Word", message=commit.commit_id),
        # It only grows, as if a worker dropped calls now and then.
        forget_number=commit.version // 3,
    )


def _outcome(row: Row, text: int) -> Outcome:
    return Outcome(
        execution_id=row.named.execution_id,
        result=pick(PAYLOADS, row.result - 1),
        prompt=pick(TEXTS, text),
        response=pick(TEXTS, text + row.result),
    )


def _lease(row: Row, known: Known) -> Lease:
    return Lease(
        execution_id=row.named.execution_id,
        token=f"token-{known.tenants[0]}-{known.number()}",
        worker_id=row.worker_id,
        instance_id=f"instance-{row.limit_ms}",
        lease_ms=row.lease_ms,
        limit_ms=row.limit_ms,
    )


def lease_of(check: Check, known: Known, key: Key | None = None) -> LeaseGrant | None:
    """Return the lease that a check means: a valid lease, any granted lease, or a lease with a false token."""
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
            recorded = -1
            if check.recorded is not None:
                recorded = known.recorded.get(one.token, 0) + check.recorded
            fences.append(Fence(execution_id=one.execution_id, token=one.token, recorded=recorded))
        elif not check.right:
            fences.append(Fence(execution_id=EXECUTIONS[0].execution_id, token="of none"))  # noqa: S106 - it opens nothing
    return tuple(fences)
