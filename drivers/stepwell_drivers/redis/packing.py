"""Packs a commit for its script, with rows that are written unchanged.

`commit.lua` knows the parts by their order here, and fields and bodies by number, from 1. Names are
escaped where they go into keys and indexes, durations are in microseconds, and numbers that may
exceed 53 bits are sent as digits. Rows are separate arguments, because MessagePack in scripts has
no bytes type.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from msgspec.structs import replace

from stepwell.core.port import Commit, EntryWrite, Fence, Lease
from stepwell.core.records import limits
from stepwell.core.records.journal import Entry, words_bytes
from stepwell.core.records.model import Execution
from stepwell.core.records.states import Effect, ExecutionStatus, JournalMark, QuestionStatus
from stepwell_drivers.redis.keys import SEPARATOR, escape, worker_leases
from stepwell_drivers.redis.rows import (
    NOT_KEPT,
    SEQ_CHARS,
    USAGE_HALF,
    body_of,
    encoded,
    not_kept,
    outcome_rows,
    run_row,
)

CHANGED_NAMES_MAX = 1_000
"""A commit that changed more rows than this doesn't list them, so a replica that is behind reads everything."""
DELAY_MS_MAX = 9 * 10**12
_MOMENT_MAX = 10**16 - 1
_FORKS = "\x02"
"""Separates tenant and parent in a fork's list entry; sorts after all entries of the tenant alone."""
_ASKED, _ENDED = "\x03", "\x04"
"""First characters of the other lists' entries; no name begins with them."""
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
        return self.bytes(encoded(value))

    def bytes(self, row: bytes) -> int:
        """Append bytes; return their number."""
        self.rows.append(row)
        return len(self.rows)


class Packed(NamedTuple):
    """A commit as the script takes it."""

    parts: tuple[Any, ...]
    """Its parts, which follow the number of its run and its place in the group."""
    arguments: list[bytes]


def pack(commit: Commit) -> Packed:
    """Return a commit as the script takes it.

    Raises:
        InvalidArgument: a part of it can't be stored.
    """
    try:
        return _Packing(commit).packed()
    except NOT_KEPT as error:
        raise not_kept(error) from None


class _Packing:
    """The commit that is being packed."""

    __slots__ = ("_bodies", "_commit", "_members", "_plain", "_reads")

    def __init__(self, commit: Commit) -> None:
        self._commit = commit
        self._reads = {"x": 1}
        """The numbers of the fields that the script reads; the first is the head of the run's executions."""
        self._plain: list[bytes] = []
        """Fields that are written unchanged, each followed by its value."""
        self._bodies = [_line(commit).encode(), _record(commit)]
        """Values that the script prefixes, or writes conditionally; the first two are the run's
        line and the commit's record."""
        self._members: list[str] = []
        """New entries of the run's orders."""

    def packed(self) -> Packed:
        """Return all parts and arguments."""
        commit = self._commit
        self._run()
        parts = (
            commit.version,
            commit.commit_id,
            commit.follows,
            commit.run.ended,
            self._executions(),
            [part for fence in commit.fences for part in self._fence(fence)],
            self._outcomes(),
            self._tasks(),
            self._rest(),
        )
        counts = (len(self._reads), len(self._plain), len(self._bodies))
        reads = map(str.encode, self._reads)
        return Packed((*counts, *parts), [*reads, *self._plain, *self._bodies])

    def _read(self, field: str) -> int:
        return self._reads.setdefault(field, len(self._reads) + 1)

    def _body(self, body: bytes) -> int:
        self._bodies.append(body)
        return len(self._bodies)

    def _write(self, field: str, value: bytes) -> None:
        self._plain += (field.encode(), value)

    def _run(self) -> None:
        """Pack the rows of which a commit has at most one."""
        commit = self._commit
        self._write("run", run_row(commit.run))
        if commit.version == 1 or commit.changes_spec:
            self._write("spec", encoded(commit.run.spec))
        if commit.input is not None:
            self._write("input", encoded(commit.input))
        if (plan := commit.plan) is not None:
            self._write(f"p:{plan.revision}", encoded(plan))
            self._write(f"po:{plan.revision}", encoded([spec.task_id for spec in plan.tasks]))
            self._members.append(f"p{ordered(plan.revision)}")
        if commit.request is not None:
            self._write(f"q:{commit.version}", encoded(commit.request))
            self._members.append(f"q{ordered(commit.version)}")
        if (checkpoint := commit.checkpoint) is not None:
            place = ordered(checkpoint.version)
            self._write(f"h:{place}", encoded(replace(checkpoint, base=b"")))
            self._members.append(f"h{place}")
            if checkpoint.base:
                self._write(f"g:{place}", checkpoint.base)
                self._members.append(f"g{place}")

    def _tasks(self) -> list[int]:
        """Pack the tasks; return those that may be missing in all plans, each with its revision."""
        commit = self._commit
        for task in commit.tasks:
            self._plain += (f"t:{task.task_id}".encode(), body_of(task))
            if task.held_key:
                # Kept for the run's deletion: reservations lie in other partitions.
                names = (commit.tenant_id, commit.run.spec.pipeline_id, task.held_key)
                self._members.append(f"d{SEPARATOR.join(map(escape, names))}")
        # Tasks normally come with a plan. Those of a fork, from its parent's plans, come with its
        # first commit.
        if commit.plan is None and commit.version > 1:
            return []
        planned = self._planned()
        return [
            part
            for task in commit.tasks
            if (task.task_id, task.revision) not in planned
            for part in (self._read(f"t:{task.task_id}"), task.revision)
        ]

    def _planned(self) -> set[tuple[str, int]]:
        """Return the tasks of the commit's plan, with its revision."""
        plan = self._commit.plan
        return set() if plan is None else {(spec.task_id, plan.revision) for spec in plan.tasks}

    def _executions(self) -> list[tuple[Any, ...]]:
        leases = {lease.execution_id: lease for lease in self._commit.leases}
        found = [
            self._execution(number, execution, leases.pop(execution.execution_id, None))
            for number, execution in enumerate(self._commit.executions)
        ]
        for lease in leases.values():
            field = self._read(f"e:{lease.execution_id}")
            parts = (field, escape(lease.execution_id), "", 0, 0, False, self._lease(lease), 0)
            found.append(parts)
        return found

    def _execution(self, number: int, execution: Execution, lease: Lease | None) -> tuple[Any, ...]:
        state = _STATES.get(execution.status, _CLOSED)
        return (
            self._read(f"e:{execution.execution_id}"),
            escape(execution.execution_id),
            state,
            self._body(body_of(execution)),
            self._read(f"k:{execution.task_id}") if execution.task_id else 0,
            state == "R" and self._place(number, execution),
            state == "L" and lease is not None and self._lease(lease),
            execution.forget_number,
        )

    def _place(self, number: int, execution: Execution) -> tuple[str, int, str]:
        """Return the text before and after the moment in a ready step's place, and its delay."""
        rank = f"{_LARGEST - execution.priority:020d}"
        before = f"{lane(self._commit.tenant_id, execution)}{SEPARATOR}{rank}"
        return (before, micros(execution.delay_ms), f"{number % 100_000:05d}")

    def _lease(self, lease: Lease) -> tuple[str, int, int, str]:
        who = worker_leases(self._commit.tenant_id, lease.worker_id) + escape(lease.instance_id)
        return (lease.token, micros(lease.lease_ms), micros(lease.limit_ms), who)

    def _fence(self, fence: Fence) -> tuple[int, str, Any]:
        recorded: Any = max(fence.recorded, -1)
        if recorded > 0:
            recorded = (recorded, self._read(f"lr:{fence.execution_id}"))
        return (self._read(f"e:{fence.execution_id}"), fence.token, recorded)

    def _outcomes(self) -> list[int]:
        parts: list[int] = []
        for outcome in self._commit.outcomes:
            row, texts = outcome_rows(outcome)
            parts += (self._read(f"u:{outcome.execution_id}"), self._body(encoded(row)))
            parts.append(0 if texts is None else self._body(encoded(texts)))
        return parts

    def _rest(self) -> Any:
        """Return the parts that few commits have, or False."""
        commit, members = self._commit, self._members
        for at, message in enumerate(commit.messages):
            place = _within(commit.version, at)
            self._write(f"m:{place}", encoded(message))
            members += (f"y{place}", f"j{escape(message.task_id)}{SEPARATOR}{place}")
        journal = bool(commit.entries or commit.forgotten) and self._journal()
        if not (commit.version == 1 or members or commit.timers or commit.questions or journal):
            return False
        return {
            "journal": journal,
            "birth": _birth(commit),
            "members": members,
            "timers": [
                (self._read(f"w:{escape(one.name)}"), escape(one.name), micros(one.delay_ms))
                for one in commit.timers
            ],
            "questions": [
                (
                    *(self._read(f"i:{asked.question_id}"), asked.status is QuestionStatus.OPEN),
                    *(self._body(body_of(asked)), _within(commit.version, at)),
                )
                for at, asked in enumerate(commit.questions)
            ],
            "requests_max": limits.REQUESTS_KEPT_MAX if commit.request is not None else 0,
        }

    def _journal(self) -> tuple[Any, ...]:
        """Return the journal entries to forget and to write, and the number of the first body among the latter."""
        first = len(self._bodies) + 1
        writes = [packed_entry(one, self._bodies) for one in self._commit.entries]
        forgotten = [
            (str(one.generation), entry_name(one.journal, one.entry))
            for one in self._commit.forgotten
        ]
        return (forgotten, writes, first)


def entry_name(journal: str, entry: Entry) -> str:
    """Return the name of a journal entry within its run, without the generation."""
    return f"{journal}\0{entry.key}\0{entry.mark}\0{entry.number}"


def packed_entry(write: EntryWrite, bodies: list[bytes]) -> tuple[Any, ...]:
    """Return the fields of a journal entry that scripts read; append the entry and its value's bytes to `bodies`."""
    entry, value, usage = write.entry, write.entry.value, write.entry.usage
    data = b"" if value is None else value.data
    if value is not None and data:
        entry = replace(entry, value=replace(value, data=b""))
    bodies += (encoded(entry), data)
    spent = (usage.input_tokens, usage.output_tokens, usage.cost_micros)
    return (
        *(write.journal, str(write.generation), entry_name(write.journal, entry)),
        entry.effect is Effect.AT_MOST_ONCE,
        micros(entry.sleep_ms) if entry.mark is JournalMark.WAIT else -1,
        *(len(data), words_bytes(entry), len(entry.messages)),
        any(spent) and [half for number in spent for half in divmod(number, USAGE_HALF)],
    )


def _line(commit: Commit) -> str:
    """Return the run's line in the partition's book, with the fields that lists filter by before
    they read the run's row.
    """
    run = commit.run
    ended = f"{min(max(run.ended_us, 0), _MOMENT_MAX):016d}" if run.ended else "-"
    numbers = (str(commit.version), str(run.last_event))
    return " ".join((*numbers, run.status, run.blocked_on, ended, commit.commit_id))


def _record(commit: Commit) -> bytes:
    """Return the record of a commit: its id, the keys of the rows that it changed, and its events."""
    commit_id, changed = commit.commit_id.encode(), encoded(_changed(commit))
    counts = (commit.run.last_event, len(commit.events), len(commit_id), len(changed))
    return b"%d %d %d %d %b%b%b" % (*counts, commit_id, changed, encoded(commit.events))


def _changed(commit: Commit) -> Any:
    """Return the keys of the rows that a commit changes, or False if there are too many."""
    if len(commit.tasks) + len(commit.executions) + len(commit.questions) > CHANGED_NAMES_MAX:
        return False
    executions = {execution.execution_id: True for execution in commit.executions}
    for lease in commit.leases:
        executions[lease.execution_id] = True
    return (
        [] if commit.plan is None else [str(commit.plan.revision)],
        [task.task_id for task in commit.tasks],
        list(executions),
        [question.question_id for question in commit.questions],
        commit.request is not None,
    )


def ordered(number: int) -> str:
    """Return a number as digits whose order as text is the order of the numbers."""
    return f"{min(number, 10**SEQ_CHARS - 1):0{SEQ_CHARS}d}"


def _within(version: int, at: int) -> str:
    """Return the place of a commit's item among all items that the run's commits bring."""
    return f"{version:010d}{at:06d}"


def lane(tenant_id: str, execution: Execution) -> str:
    """Return the lane of a ready step; the lanes of a queue are adjacent."""
    routed = (execution.kind, execution.role, execution.type, execution.pin)
    return SEPARATOR.join((queue_lanes(tenant_id, execution.queue), *map(escape, routed)))


def queue_lanes(tenant_id: str, queue: str) -> str:
    """Return the prefix of a queue's lanes."""
    return SEPARATOR.join((escape(tenant_id), escape(queue)))


def _birth(commit: Commit) -> Any:
    """Return the prefixes and the suffix of a new run's entries in the tenant's and the parent's
    lists, and the book's field of the parent, which is there as long as the parent is.
    """
    if commit.version != 1:
        return False
    spec = commit.run.spec
    listed = (commit.run_id, spec.pipeline_id, spec.queue, spec.executor_id)
    return (
        births_of(commit.tenant_id),
        SEPARATOR.join(map(escape, listed)),
        spec.parent_run_id != "" and births_of(commit.tenant_id, spec.parent_run_id),
        spec.parent_run_id != "" and f"v{escape(commit.tenant_id)}:{escape(spec.parent_run_id)}",
    )


def births_of(tenant_id: str, parent_run_id: str = "") -> str:
    """Return the prefix of the list of a tenant's runs, or of one run's forks."""
    parent = f"{_FORKS}{escape(parent_run_id)}" if parent_run_id else ""
    return f"{escape(tenant_id)}{parent}{SEPARATOR}"


def asked_of(tenant_id: str) -> str:
    """Return the prefix of the list of a tenant's open questions."""
    return f"{_ASKED}{escape(tenant_id)}{SEPARATOR}"


def ended_in(tenant_id: str, pipeline_id: str, status: str) -> str:
    """Return the prefix of the list of runs that ended with a status; an empty name matches any."""
    names = (escape(tenant_id), escape(pipeline_id), status)
    return f"{_ENDED}{''.join(name + SEPARATOR for name in names)}"
