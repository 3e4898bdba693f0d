"""All that a memory store keeps, and how a commit changes it.

A commit is checked completely before its first change and applied without a pause on one event
loop, which makes it atomic.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Sequence

from stepwell.core.port import (
    Commit,
    CommitResult,
    EndedQuery,
    EndedRun,
    EntryAck,
    EntryWrite,
    FeedEntry,
    FeedQuery,
    Fence,
    JournalAck,
    JournalWrite,
    Lease,
    LeaseQuery,
    Page,
    Presence,
    Renewal,
    Runtime,
    Timer,
    WorkerLease,
)
from stepwell.core.records.errors import InvalidArgument
from stepwell.core.records.journal import Entry
from stepwell.core.records.model import Execution, LogEntry, Question
from stepwell.core.records.states import OPEN, ExecutionStatus, Verdict
from stepwell_drivers.clock import StoreClock
from stepwell_drivers.hints import HintBus
from stepwell_drivers.journals import summed
from stepwell_drivers.memory.agenda import Agenda, Deadline, Ready
from stepwell_drivers.memory.indexes import EndedRuns, Keys, OpenQuestions
from stepwell_drivers.memory.logs import LogBook
from stepwell_drivers.memory.rows import ExecutionRow, RunRows, newest_before
from stepwell_drivers.memory.rows import Lease as LeaseRow

_TOMBSTONE_US = 3_600 * 1_000_000
_LEASABLE = frozenset({ExecutionStatus.LEASED, ExecutionStatus.UNKNOWN_OUTCOME})


class Tenant:
    """The lists of one tenant."""

    __slots__ = (
        "births",
        "feed",
        "keys",
        "leased",
        "next_birth",
        "next_question",
        "open_questions",
        "presence",
    )

    def __init__(self) -> None:
        self.births: list[RunRows] = []
        """Oldest first."""
        self.next_birth = 1
        self.feed: list[int] = []
        """Places in the feed."""
        self.presence: dict[tuple[str, str], tuple[Presence, int]] = {}
        """Presence by (worker, instance), with the time at which it expires."""
        self.leased: dict[str, dict[tuple[str, str], LeaseRow]] = {}
        """Leases by worker, then by (run, execution)."""
        self.next_question = 1
        self.open_questions = OpenQuestions()
        self.keys = Keys()


class State:
    """The data of a store, independent of the stores that are open on it."""

    def __init__(self, runtime: Runtime) -> None:
        self.clock = StoreClock(runtime)
        self.store_id = runtime.new_id()
        self.doors = 0
        self.hints = HintBus()
        self.agenda = Agenda()
        self.runs: dict[tuple[str, str], RunRows] = {}
        self.tenants: dict[str, Tenant] = {}
        self._forks: Counter[tuple[str, str]] = Counter()
        """The number of each run's forks."""
        self._ended = EndedRuns()
        self._log_book = LogBook()
        self._tombstones: dict[tuple[str, str], int] = {}
        self._expiring_tombstones: deque[tuple[int, tuple[str, str], int]] = deque()
        """Each tombstone's end, its run, and the feed position of the run's deletion."""
        self._feed: list[FeedEntry | None] = []

    # --- commits ---

    def commit(self, commit: Commit) -> CommitResult:
        """Apply one commit, or refuse it and change nothing."""
        now_us = self.clock.now_us()
        key = (commit.tenant_id, commit.run_id)
        rows = self.runs.get(key)
        if rows is not None and self._was_applied(rows, commit):
            return CommitResult(verdict=Verdict.COMMITTED, now_us=now_us)
        stored = rows.version if rows is not None else 0
        if stored != commit.version - 1 or self._has_tombstone(key, now_us):
            return CommitResult(verdict=Verdict.CONFLICT, now_us=now_us)
        follows_another = rows is not None and commit.follows not in ("", rows.commit_ids[-1])
        if follows_another or (rows is None and self._is_orphan(commit)):
            return CommitResult(verdict=Verdict.CONFLICT, now_us=now_us)
        for fence in commit.fences:
            if self._lease_of(rows, fence.execution_id, fence.token) is None:
                return CommitResult(verdict=Verdict.LEASE_LOST, now_us=now_us)
        if rows is not None and not self._knows_all(rows, commit.fences):
            return CommitResult(verdict=Verdict.CONFLICT, now_us=now_us)
        self._apply(commit, rows if rows is not None else self._new_rows(commit), now_us)
        return CommitResult(verdict=Verdict.COMMITTED, now_us=now_us)

    def _knows_all(self, rows: RunRows, fences: Sequence[Fence]) -> bool:
        """Return whether each fence counts all entries that were recorded under its lease."""
        for fence in fences:
            lease = self._lease_of(rows, fence.execution_id, fence.token)
            if lease is not None and 0 <= fence.recorded != lease.recorded.entries:
                return False
        return True

    @staticmethod
    def _was_applied(rows: RunRows, commit: Commit) -> bool:
        return (
            1 <= commit.version <= rows.version
            and rows.commit_ids[commit.version - 1] == commit.commit_id
        )

    def _has_tombstone(self, key: tuple[str, str], now_us: int) -> bool:
        while self._expiring_tombstones and self._expiring_tombstones[0][0] <= now_us:
            until_us, old, place = self._expiring_tombstones.popleft()
            self._feed[place] = None
            if self._tombstones.get(old) == until_us:
                del self._tombstones[old]
        return key in self._tombstones

    def _is_orphan(self, commit: Commit) -> bool:
        """Say whether it is a fork's birth, and the parent isn't there."""
        parent = (commit.tenant_id, commit.run.spec.parent_run_id)
        return bool(parent[1]) and parent not in self.runs

    def _new_rows(self, commit: Commit) -> RunRows:
        tenant = self.tenants.setdefault(commit.tenant_id, Tenant())
        rows = RunRows(commit.tenant_id, commit.run_id, tenant.next_birth, commit.run)
        rows.input = commit.input
        tenant.next_birth += 1
        tenant.births.append(rows)
        self.runs[commit.tenant_id, commit.run_id] = rows
        self._count_fork(rows, 1)
        return rows

    def _count_fork(self, rows: RunRows, number: int) -> None:
        if rows.run.spec.parent_run_id:
            self._forks[rows.tenant_id, rows.run.spec.parent_run_id] += number

    def _apply(self, commit: Commit, rows: RunRows, now_us: int) -> None:
        rows.version = commit.version
        rows.commit_ids.append(commit.commit_id)
        if commit.version > 1:
            self._ended.drop(rows.tenant_id, rows.run_id, rows.run)
        rows.run = commit.run
        self._ended.put(rows.tenant_id, rows.run_id, rows.run)
        if commit.plan is not None:
            rows.put_plan(commit.plan)
        for task in commit.tasks:
            rows.put_task(task)
        for execution in commit.executions:
            self._put_execution(rows, execution, now_us)
        for lease in commit.leases:
            self._put_lease(rows, lease, now_us)
        for outcome in commit.outcomes:
            # Only the first outcome of an execution counts.
            rows.outcomes.setdefault(outcome.execution_id, outcome)
        for timer in commit.timers:
            self._put_timer(rows, timer, now_us)
        for question in commit.questions:
            self._put_question(rows, question)
        for write in commit.forgotten:
            rows.journals.forget(write)
        for write in commit.entries:
            rows.journals.put(write, version=rows.version, now_us=now_us)
        rows.put_events(commit.events)
        for message in commit.messages:
            rows.put_message(message)
        if commit.checkpoint is not None:
            rows.put_checkpoint(commit.checkpoint)
        if commit.request is not None:
            rows.requests.append((rows.version, commit.request))
        rows.feed_places.append(self._put_in_feed(rows))

    def _put_in_feed(self, rows: RunRows, *, deleted: bool = False) -> int:
        """Add a run's last commit, or its deletion, to the feed; return the position."""
        place = len(self._feed)
        self.tenants[rows.tenant_id].feed.append(place)
        self._feed.append(
            FeedEntry(
                tenant_id=rows.tenant_id, run_id=rows.run_id, version=rows.version, deleted=deleted
            )
        )
        return place

    def _put_execution(self, rows: RunRows, execution: Execution, now_us: int) -> None:
        name = execution.execution_id
        row = rows.executions.pop(name, None)
        if row is None:
            row = ExecutionRow(execution, len(rows.births))
            rows.births.append(name)
            rows.births_of_task.setdefault(execution.task_id, []).append(name)
        # Moved to the end as the last changed: `load` reads deltas from the end.
        rows.executions[name] = row
        row.execution = execution
        row.changed = rows.version
        if row.ready is not None:
            self.agenda.drop(row.ready)
            row.ready = None
        if execution.status not in _LEASABLE:
            self._end_lease(rows, row)
        elif row.lease is not None:
            self.agenda.drop(row.lease.deadline)
            if execution.status is ExecutionStatus.LEASED:
                row.lease.deadline.held_until_us = 0
                self.agenda.add(row.lease.deadline, now_us)
        if execution.status in OPEN:
            rows.open[name] = row
        else:
            rows.open.pop(name, None)
        if execution.status is ExecutionStatus.READY:
            row.ready = Ready(
                rows,
                name,
                now_us + execution.delay_ms * 1_000,
                execution.queue,
                (execution.kind, execution.type, execution.role, execution.pin),
                execution.priority,
            )
            self.agenda.add(row.ready, now_us)

    def _put_lease(self, rows: RunRows, lease: Lease, now_us: int) -> None:
        row = rows.executions.get(lease.execution_id)
        if row is None or row.execution.status is not ExecutionStatus.LEASED:
            return
        self._end_lease(rows, row)
        row.changed = rows.version
        limit_us = now_us + lease.limit_ms * 1_000 if lease.limit_ms > 0 else 0
        deadline = Deadline(
            rows,
            lease.execution_id,
            _capped(now_us + lease.lease_ms * 1_000, limit_us),
            token=lease.token,
            limit_us=limit_us,
        )
        row.lease = LeaseRow(lease.token, lease.worker_id, lease.instance_id, deadline)
        self.agenda.add(deadline, now_us)
        leased = self.tenants[rows.tenant_id].leased.setdefault(lease.worker_id, {})
        leased[rows.run_id, lease.execution_id] = row.lease

    def _end_lease(self, rows: RunRows, row: ExecutionRow) -> None:
        lease = row.lease
        if lease is None:
            return
        self.agenda.drop(lease.deadline)
        row.lease = None
        workers = self.tenants[rows.tenant_id].leased
        leased = workers[lease.worker_id]
        del leased[rows.run_id, row.execution.execution_id]
        if not leased:
            del workers[lease.worker_id]

    def _put_question(self, rows: RunRows, question: Question) -> None:
        tenant = self.tenants[rows.tenant_id]
        row = rows.put_question(question, tenant.next_question)
        tenant.next_question += 1
        tenant.open_questions.put(row.birth, rows.run_id, question)

    def _put_timer(self, rows: RunRows, timer: Timer, now_us: int) -> None:
        old = rows.timers.pop(timer.name, None)
        if old is not None:
            self.agenda.drop(old)
        if timer.delay_ms >= 0:
            new = Deadline(rows, timer.name, now_us + timer.delay_ms * 1_000)
            rows.timers[timer.name] = new
            self.agenda.add(new, now_us)

    @staticmethod
    def _lease_of(rows: RunRows | None, execution_id: str, token: str) -> LeaseRow | None:
        row = rows.executions.get(execution_id) if rows is not None else None
        lease = row.lease if row is not None else None
        return lease if lease is not None and lease.token == token else None

    # --- writes outside of versions ---

    def renew(self, renewal: Renewal) -> bool:
        """Move a lease's deadline, if the token matches."""
        rows = self.runs.get((renewal.tenant_id, renewal.run_id))
        lease = self._lease_of(rows, renewal.execution_id, renewal.token)
        if rows is None or lease is None:
            return False
        now_us = self.clock.now_us()
        deadline = lease.deadline
        when_us = _capped(now_us + renewal.lease_ms * 1_000, deadline.limit_us)
        if rows.is_leased(renewal.execution_id):
            self.agenda.move(deadline, when_us, now_us)
        else:
            deadline.when_us = when_us
        if renewal.progress is not None:
            lease.progress = renewal.progress
        if renewal.session.backend or renewal.session.session_id:
            lease.session = renewal.session
        return True

    def write_journal(self, write: JournalWrite) -> JournalAck:
        """Keep journal entries, if the token matches the lease's."""
        now_us = self.clock.now_us()
        rows = self.runs.get((write.tenant_id, write.run_id))
        lease = self._lease_of(rows, write.execution_id, write.token)
        if rows is None or lease is None or not rows.is_leased(write.execution_id):
            return JournalAck(live=False, now_us=now_us)
        execution = rows.executions[write.execution_id].execution
        if write.forget_number < execution.forget_number:
            return JournalAck(live=True, late=True, now_us=now_us)
        written: list[EntryAck] = []
        new: list[Entry] = []
        for entry in write.entries:
            answer, is_new = rows.journals.put(
                EntryWrite(journal=write.journal, generation=write.generation, entry=entry),
                version=rows.version,
                now_us=now_us,
                execution_id=write.execution_id,
            )
            written.append(answer)
            if is_new:
                new.append(entry)
        lease.recorded = summed(lease.recorded, new)
        return JournalAck(live=True, written=tuple(written), totals=lease.recorded, now_us=now_us)

    def put_presence(self, presence: Presence, ttl_ms: int) -> None:
        """Remember a worker for `ttl_ms`."""
        tenant = self.tenants.setdefault(presence.tenant_id, Tenant())
        until_us = self.clock.now_us() + ttl_ms * 1_000
        tenant.presence[presence.worker_id, presence.instance_id] = (presence, until_us)

    def presences(self, tenant_id: str) -> tuple[Presence, ...]:
        """Return the presences that have not expired, and drop the others."""
        tenant = self.tenants.get(tenant_id)
        if tenant is None:
            return ()
        now_us = self.clock.now_us()
        for key in [key for key, (_, until_us) in tenant.presence.items() if until_us <= now_us]:
            del tenant.presence[key]
        return tuple(presence for presence, _ in tenant.presence.values())

    def leases(self, query: LeaseQuery) -> list[WorkerLease]:
        """Return the leases that workers hold."""
        tenant = self.tenants.get(query.tenant_id)
        leased = tenant.leased if tenant is not None else {}
        return [
            WorkerLease(
                run_id=run_id,
                execution_id=execution_id,
                token=lease.token,
                instance_id=lease.instance_id,
                worker_id=worker_id,
                progress=lease.progress if query.run_id else None,
            )
            for worker_id in ([query.worker_id] if query.worker_id else leased)
            for (run_id, execution_id), lease in leased.get(worker_id, {}).items()
            if query.run_id in ("", run_id)
        ]

    def append_logs(self, tenant_id: str, run_id: str, entries: Sequence[LogEntry]) -> bool:
        """Append to a run's log; return False if the run doesn't exist."""
        rows = self.runs.get((tenant_id, run_id))
        if rows is None:
            return False
        self._log_book.append(rows.log, entries, self.clock.now_us())
        return True

    def purge_logs(self, older_ms: int, limit: int) -> int:
        """Remove log entries that were appended at least `older_ms` ago; return how many."""
        until_us = self.clock.now_us() - max(older_ms, 0) * 1_000
        return self._log_book.purge(until_us, max(limit, 1))

    def delete(self, tenant_id: str, run_id: str, version: int) -> bool:
        """Remove a run if it is at this version and has no forks, and leave a tombstone."""
        key = (tenant_id, run_id)
        rows = self.runs.get(key)
        if rows is None or rows.version != version or self._forks[key]:
            return False
        for row in rows.open.values():
            self._end_lease(rows, row)
            if row.ready is not None:
                self.agenda.drop(row.ready)
        for timer in rows.timers.values():
            self.agenda.drop(timer)
        for place in rows.feed_places:
            self._feed[place] = None
        tenant = self.tenants[tenant_id]
        for question in rows.questions.values():
            tenant.open_questions.drop(question.birth)
        tenant.keys.free(run_id)
        tenant.births.pop(newest_before(tenant.births, rows.birth))
        rows.log.clear()
        self._ended.drop(tenant_id, run_id, rows.run)
        self._count_fork(rows, -1)
        del self.runs[key], self._forks[key]
        until_us = self.clock.now_us() + _TOMBSTONE_US
        self._tombstones[key] = until_us
        self._expiring_tombstones.append((until_us, key, self._put_in_feed(rows, deleted=True)))
        return True

    # --- searches across runs ---

    def ended(self, query: EndedQuery) -> list[EndedRun]:
        """Return ended runs without forks, the earliest ended first."""
        ended = self._ended.find(query, self.clock.now_us(), self._forks)
        found = [self.runs[key] for key in ended]
        return [
            EndedRun(
                tenant_id=rows.tenant_id,
                run_id=rows.run_id,
                version=rows.version,
                status=rows.run.status,
                ended_us=rows.run.ended_us,
            )
            for rows in found
        ]

    # --- the feed ---

    def feed(self, query: FeedQuery) -> Page[FeedEntry]:
        """Return commits from a cursor on; a cursor is a position in this store's feed."""
        end = len(self._feed)
        start = self._place_of(query.cursor)
        if query.tenant_id:
            tenant = self.tenants.get(query.tenant_id)
            places = tenant.feed if tenant is not None else []
            first = bisect_left(places, start)
        else:
            places = range(end)
            first = start
        entries: list[FeedEntry] = []
        for index in range(first, len(places)):
            if len(entries) >= max(query.limit, 1):
                end = places[index]
                break
            entry = self._feed[places[index]]
            if entry is not None:
                entries.append(entry)
        return Page(items=tuple(entries), cursor=f"{self.store_id}.{end}")

    def _place_of(self, cursor: str) -> int:
        if cursor in {"", "now"}:
            return len(self._feed) if cursor else 0
        store_id, _, place = cursor.rpartition(".")
        if store_id == self.store_id and _is_number(place) and int(place) <= len(self._feed):
            return int(place)
        raise InvalidArgument("the feed cursor is none of this store's")


def _capped(us: int, limit_us: int) -> int:
    return min(us, limit_us) if limit_us else us


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 20
