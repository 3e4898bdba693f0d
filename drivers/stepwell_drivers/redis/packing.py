"""Packs a commit for the script: one MessagePack map, followed by the rows that it refers to by number.

`commit.lua` knows the parts by their names here. Names of the store are escaped where they go into keys and indexes,
durations are in microseconds, and numbers that may exceed 53 bits are digits. Rows are arguments of their
own because the MessagePack of scripts knows no bytes.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from stepwell.core.port import Commit, Lease
from stepwell.core.records import limits
from stepwell.core.records.model import Execution, Outcome, Run
from stepwell.core.records.states import ExecutionStatus, InputStatus
from stepwell_drivers.redis.keys import SEPARATOR, escape, unescape
from stepwell_drivers.redis.rows import (
    NOT_KEPT,
    SEQ_CHARS,
    encoded,
    not_kept,
    outcome_rows,
    run_row,
)

CHANGED_NAMES_MAX = 1_000
"""A commit that changed more rows doesn't list them: a replica that is behind reads everything."""
DELAY_MS_MAX = 9 * 10**12
_MOMENT_MAX = 10**16 - 1
_FORKS = "\x02"
"""Separates tenant and parent: sorts after all entries of the tenant alone."""
_ASKED, _ENDED = "\x03", "\x04"
"""First characters of the other lists' entries; no name begins so."""
_LARGEST = 2**63 - 1
_STATES = {
    ExecutionStatus.READY: "R",
    ExecutionStatus.LEASED: "L",
    ExecutionStatus.UNKNOWN_OUTCOME: "U",
}
_CLOSED = "C"


def micros(ms: int) -> int:
    """Return a duration in microseconds."""
    return min(ms, DELAY_MS_MAX) * 1_000


class RowBuffer:
    """Rows that are sent after the parts that refer to them, numbered from 1."""

    def __init__(self) -> None:
        self.rows: list[bytes] = []

    def row(self, value: object) -> int:
        """Append a value, encoded; return its number."""
        self.rows.append(encoded(value))
        return len(self.rows)

    def bytes(self, row: bytes) -> int:
        """Append bytes; return their number."""
        self.rows.append(row)
        return len(self.rows)


def pack(commit: Commit) -> list[bytes]:
    """Return a commit as arguments.

    Raises:
        InvalidArgument: a part of it can't be stored.
    """
    try:
        return _pack(commit)
    except NOT_KEPT as error:
        raise not_kept(error) from None


def _pack(commit: Commit) -> list[bytes]:
    buffer = RowBuffer()
    row = buffer.row
    tenant_id = commit.tenant_id
    parts: dict[str, Any] = {
        "version": commit.version,
        "id": _named(commit.commit_id),
        "changed": row(_changed(commit)),
        "line": _line(commit.run),
        "sets": _sets(commit, buffer),
        "tasks": _tasks(commit, buffer),
        "order": _order(commit),
        "executions": [
            _execution(tenant_id, number, execution, row(execution))
            for number, execution in enumerate(commit.executions)
        ],
        "leases": [_lease(commit, lease) for lease in commit.leases],
        "fences": [part for fence in commit.fences for part in (fence.execution_id, fence.token)],
        "outcomes": [part for outcome in commit.outcomes for part in _outcome(outcome, buffer)],
        "timers": [
            part for timer in commit.timers for part in (escape(timer.name), micros(timer.delay_ms))
        ],
        "inputs": [
            part
            for asked in commit.inputs
            for part in (asked.input_id, asked.status is InputStatus.OPEN, row(asked))
        ],
        "events": [part for event in commit.events for part in (event.number, row(event))],
        "messages": [
            part for message in commit.messages for part in (escape(message.task_id), row(message))
        ],
        "request": commit.request is not None and (row(commit.request), limits.REQUESTS_KEPT_MAX),
        "birth": _birth(commit),
        "listed": _checkpoint_orders(commit),
        "held": [
            SEPARATOR.join(map(escape, (tenant_id, commit.run.spec.pipeline_id, task.held_key)))
            for task in commit.tasks
            if task.held_key
        ],
        "pipeline": escape(commit.run.spec.pipeline_id),
        "follows": _named(commit.follows) if commit.follows else "",
    }
    return [encoded({**parts, "rows": len(buffer.rows)}), *buffer.rows]


def _named(commit_id: str) -> str:
    """Return a commit's id as it is recorded: with its length, because it is any text."""
    return f"{len(commit_id.encode())}:{commit_id}"


def _line(run: Run) -> str:
    """Return the fields that lists filter by before they read a run's row, with the end of an ended run."""
    line = f"{run.status} {run.blocked_on}"
    return f"{line} {min(max(run.ended_us, 0), _MOMENT_MAX):016d}" if run.ended else line


def _changed(commit: Commit) -> Any:
    """Return the keys of the rows that a commit changes, or False: too many."""
    if len(commit.tasks) + len(commit.executions) + len(commit.inputs) > CHANGED_NAMES_MAX:
        return False
    executions = [execution.execution_id for execution in commit.executions]
    executions += [lease.execution_id for lease in commit.leases]
    return (
        [] if commit.plan is None else [str(commit.plan.revision)],
        [task.task_id for task in commit.tasks],
        list(dict.fromkeys(executions)),
        [request.input_id for request in commit.inputs],
        commit.request is not None,
    )


def _sets(commit: Commit, buffer: RowBuffer) -> list[str | int]:
    """Return rows that are written unchanged: field, number, field, number …"""
    rows: list[str | int] = ["run", buffer.bytes(run_row(commit.run))]
    if commit.version == 1:
        rows += ("spec", buffer.row(commit.run.spec))
    if commit.input is not None:
        rows += ("input", buffer.row(commit.input))
    if commit.plan is not None:
        rows += (f"p:{commit.plan.revision}", buffer.row(commit.plan))
    if (checkpoint := commit.checkpoint) is not None:
        place = checkpoint_place(checkpoint.version)
        rows += (f"h:{place}", buffer.row(replace(checkpoint, base=b"")))
        if checkpoint.base:
            rows += (f"g:{place}", buffer.bytes(checkpoint.base))
    return rows


def _checkpoint_orders(commit: Commit) -> list[str]:
    """Return the entries of the commit's checkpoint in the run's orders: of all, and of those with a base."""
    checkpoint = commit.checkpoint
    if checkpoint is None:
        return []
    place = checkpoint_place(checkpoint.version)
    return [f"h{place}", f"g{place}"] if checkpoint.base else [f"h{place}"]


def checkpoint_place(version: int) -> str:
    """Return a version as digits whose order as text is that of the numbers."""
    return f"{min(version, 10**SEQ_CHARS - 1):0{SEQ_CHARS}d}"


def _order(commit: Commit) -> Any:
    plan = commit.plan
    return plan is not None and (plan.revision, [spec.task_id for spec in plan.tasks])


def _tasks(commit: Commit, buffer: RowBuffer) -> list[Any]:
    plan = commit.plan
    revision = -1 if plan is None else plan.revision
    places = {} if plan is None else {spec.task_id: at for at, spec in enumerate(plan.tasks)}
    parts: list[Any] = []
    for task in commit.tasks:
        place = places.get(task.task_id, -1) if task.revision == revision else -1
        parts += (task.task_id, task.revision, place, buffer.row(task))
    return parts


def _execution(tenant_id: str, number: int, execution: Execution, row: int) -> tuple[Any, ...]:
    state = _STATES.get(execution.status, _CLOSED)
    ready = state == "R"
    return (
        execution.execution_id,
        escape(execution.execution_id),
        state,
        row,
        escape(execution.task_id),
        lane(tenant_id, execution) if ready else "",
        f"{_LARGEST - execution.priority:020d}" if ready else "",
        micros(execution.delay_ms),
        number % 100_000,
    )


def lane(tenant_id: str, execution: Execution) -> str:
    """Return the lane of a ready step: those of a queue stand together."""
    routed = (execution.kind, execution.role, execution.type, execution.pin)
    return SEPARATOR.join((queue_lanes(tenant_id, execution.queue), *map(escape, routed)))


def queue_lanes(tenant_id: str, queue: str) -> str:
    """Return what the lanes of a queue begin with."""
    return SEPARATOR.join((escape(tenant_id), escape(queue)))


def _lease(commit: Commit, lease: Lease) -> tuple[Any, ...]:
    holder = (
        *(commit.tenant_id, lease.worker_id, commit.run_id),
        *(lease.execution_id, lease.instance_id, lease.token),
    )
    return (
        lease.execution_id,
        escape(lease.execution_id),
        lease.token,
        micros(lease.lease_ms),
        micros(lease.limit_ms),
        SEPARATOR.join(map(escape, holder)),
    )


def holder_of(holder: str) -> list[str]:
    """Return tenant, worker, run, execution, instance and token of an index entry."""
    return [unescape(part) for part in holder.split(SEPARATOR)]


def _outcome(outcome: Outcome, buffer: RowBuffer) -> tuple[Any, ...]:
    row, result = outcome_rows(outcome)
    return (
        outcome.execution_id,
        buffer.bytes(row),
        result is not None and buffer.bytes(result),
    )


def _birth(commit: Commit) -> Any:
    """Return the prefixes and suffixes of a new run's entries in the tenant's and the parent's lists, and its
    family.
    """
    if commit.version != 1:
        return False
    spec = commit.run.spec
    listed = (commit.run_id, spec.pipeline_id, spec.queue, spec.executor_id)
    return (
        births_of(commit.tenant_id),
        SEPARATOR.join(map(escape, listed)),
        spec.parent_run_id != "" and births_of(commit.tenant_id, spec.parent_run_id),
        spec.family_id != "" and escape(spec.family_id),
    )


def births_of(tenant_id: str, parent_run_id: str = "") -> str:
    """Return the prefix of creation times: of all runs of a tenant, or of one run's forks."""
    parent = f"{_FORKS}{escape(parent_run_id)}" if parent_run_id else ""
    return f"{escape(tenant_id)}{parent}{SEPARATOR}"


def asked_of(tenant_id: str) -> str:
    """Return the prefix of the creation times of a tenant's open input requests."""
    return f"{_ASKED}{escape(tenant_id)}{SEPARATOR}"


def ended_in(tenant_id: str, pipeline_id: str, status: str) -> str:
    """Return the prefix of the times of runs that ended so; an empty name matches any."""
    names = (escape(tenant_id), escape(pipeline_id), status)
    return f"{_ENDED}{''.join(name + SEPARATOR for name in names)}"
