"""The ports: what the engine needs of a store, a worker, an authenticator and a runtime.

`Store` is the only way to durable state and the contract between the loop and every driver. Each
sentence below has a conformance test. No rule of the loop stands here or in any driver: a store
compares versions and tokens, stamps times, keeps rows and reports what is due.

**Names.** A run is named by `(tenant_id, run_id)`, always both; one tenant's id under another
tenant is a missing run. Tenants, runs, queues, roles, workers, pipelines and executors are called
by names that match `NAME_PATTERN`, of at most 128 characters. Ids, keys and all other texts hold any
characters but NUL and halves of surrogate pairs. A fork's id ends as its parent's does (`id_ending`), by which a
store of several partitions keeps both in one.

**Errors.** Every method may raise `StoreUnavailable` (nothing was done). `commit` and
`write_journal` may also raise `OutcomeUnknown`. Nothing else is raised for a legal call; a driver translates its own errors. A
store that was closed is unavailable. A cursor that no store made raises `InvalidArgument`.

**Time.** A store has one clock. Durations come in, moments go out, and only the store compares
them. No caller's clock decides what is due.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from msgspec.structs import replace

from stepwell.core.records.checkpoints import Checkpoint
from stepwell.core.records.events import Event
from stepwell.core.records.journal import Entry, KeptSignal, StoredEntry, Totals
from stepwell.core.records.model import (
    Budget,
    Execution,
    Failure,
    LogEntry,
    Message,
    Outcome,
    Payload,
    Plan,
    Question,
    Record,
    RequestRecord,
    Run,
    Session,
    Task,
    TaskSpec,
)
from stepwell.core.records.routing import TaskPattern, does, fits
from stepwell.core.records.states import (
    BlockedKind,
    DueKind,
    Durability,
    LogKind,
    RunStatus,
    StepKind,
    Verdict,
)

INPUT_KEY = "input"
"""The payload key of a run's own input; every other key is an execution's id."""

T = TypeVar("T")
R = TypeVar("R")
"""A record of which there are pages."""

Hint = Callable[[str, str, int], None]
"""Called with a tenant, a run and the version that it has reached; see `Store.subscribe`."""


# --- writing -----------------------------------------------------------------------------------


class Lease(Record, frozen=True, kw_only=True):
    """A lease that its commit grants."""

    execution_id: str
    token: str
    """128 random bits; never repeats. In no event, read or log."""
    worker_id: str
    instance_id: str = ""
    lease_ms: int
    """It expires this long after the commit, or after the last renewal."""
    limit_ms: int = 0
    """No renewal moves it beyond this long after the commit; 0: no such end.

    A lease that ends there is due as ATTEMPT_TIMED_OUT, one that ends before as LEASE_EXPIRED.
    """


class Fence(Record, frozen=True, kw_only=True):
    """A lease that must still be the execution's for the commit to be applied."""

    execution_id: str
    token: str
    recorded: int = -1
    """The number of journal entries that must have been recorded under it, so that a commit that ends the
    lease knows all of them; below 0: any number."""


class Timer(Record, frozen=True, kw_only=True):
    """Something of the run that comes due by itself."""

    name: str
    """Unique within the run; a second one of the same name replaces the first."""
    delay_ms: int
    """After the commit; below 0: the timer is removed."""


class EntryWrite(Record, frozen=True, kw_only=True):
    """An entry of a journal, outside any lease."""

    journal: str
    generation: int
    entry: Entry


class Commit(Record, frozen=True, kw_only=True):
    """One step of one run's chain, as a value: all of it is applied, or nothing.

    Rows are whole and replace those of the same key; the tasks that a new plan brings stand among
    `tasks` too. An execution that isn't LEASED or UNKNOWN_OUTCOME has no lease any more, whoever
    had it; an UNKNOWN_OUTCOME one keeps its lease, which expires no more.
    """

    commit_id: str
    """Unique; kept as long as the run."""
    tenant_id: str
    run_id: str
    version: int
    """The one it makes: the stored one plus 1; 1 for a new run."""
    follows: str = ""
    """The `commit_id` of the version before, on which this was decided; empty: it isn't known.

    A store that lost what it had acknowledged may have another one there by now.
    """
    run: Run
    changes_spec: bool = False
    """The run's `spec` replaces the stored one, of which only `labels` and `child_of` may differ."""
    input: Payload | None = None
    """The run's input; with version 1 only."""
    plan: Plan | None = None
    tasks: tuple[Task, ...] = ()
    executions: tuple[Execution, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    """Each is written once: of one execution the first that was committed stays."""
    leases: tuple[Lease, ...] = ()
    fences: tuple[Fence, ...] = ()
    timers: tuple[Timer, ...] = ()
    questions: tuple[Question, ...] = ()
    events: tuple[Event, ...] = ()
    messages: tuple[Message, ...] = ()
    request: RequestRecord | None = None
    checkpoint: Checkpoint | None = None
    """The checkpoint of its version. None: the commit has no name."""
    entries: tuple[EntryWrite, ...] = ()
    """Journal entries that the commit itself writes, such as a person's answer; one of the same name stays."""
    forgotten: tuple[EntryWrite, ...] = ()
    """Journal entries to be removed, by their names, in the generation given, before `entries` are written."""


class CommitResult(Record, frozen=True, kw_only=True):
    """The verdict on one commit."""

    verdict: Verdict
    now_us: int = 0
    """The store's time of the verdict."""


class Renewal(Record, frozen=True, kw_only=True):
    """A heartbeat for one lease."""

    tenant_id: str
    run_id: str
    execution_id: str
    token: str
    lease_ms: int
    """From now."""
    progress: Payload | None = None
    """Replaces the lease's last progress; absent: that stays."""
    session: Session = Session()
    """Kept with the lease when it isn't empty."""


class JournalWrite(Record, frozen=True, kw_only=True):
    """Journal entries that a worker writes while it holds a lease."""

    tenant_id: str
    run_id: str
    execution_id: str
    token: str
    journal: str
    """The journal of the execution's step (`journal_of`)."""
    generation: int
    entries: tuple[Entry, ...]
    forget_number: int = 0
    """`Execution.forget_number` as the worker knew it when it sent this."""


class EntryAck(Record, frozen=True, kw_only=True):
    """The store's answer to one entry."""

    accepted: bool = True
    """It is kept, now or before. False: another one of the same name is, with other bytes; that one stays."""
    until_us: int = 0
    """The end of a WAIT's sleep, as it was stamped the first time."""


class JournalAck(Record, frozen=True, kw_only=True):
    """The store's answer to one journal write."""

    live: bool
    """False: the token isn't that of the execution's lease, and nothing was written."""
    late: bool = False
    """Calls were dropped since it was sent, and nothing was written."""
    written: tuple[EntryAck, ...] = ()
    """One for each entry, in order."""
    totals: Totals = Totals()
    """All that was recorded under this lease so far."""
    now_us: int = 0


class LogsOfExecution(Record, frozen=True, kw_only=True):
    """The log entries of one kind that an execution wrote, to be removed."""

    tenant_id: str
    run_id: str
    execution_id: str
    kind: LogKind


class OldLogs(Record, frozen=True, kw_only=True):
    """Log entries of any run that were appended longer ago, to be removed oldest first.

    Fewer removed than `limit`: there are no more.
    """

    older_ms: int
    """The least age of an entry, by the store's clock."""
    limit: int
    """About how many to remove at the most."""


# --- what is due ---------------------------------------------------------------------------------


class Want(Record, frozen=True, kw_only=True):
    """Steps that one worker, or several of the same kind, can run."""

    tenant_id: str
    queues: tuple[str, ...]
    kinds: tuple[StepKind, ...]
    tasks: tuple[TaskPattern, ...] = ()
    """The types and roles of its TASK and RECONCILE steps, where `*` is any; without a pattern, all."""
    version: str = ""
    """The worker's version; steps that are pinned to others don't match (`routing.fits`)."""
    limit: int = 1

    def takes(self, kind: StepKind, type_: str, role: str, pin: str) -> bool:
        """Return whether steps of this lane match, apart from tenant and queue."""
        return (
            kind in self.kinds and does(self.tasks, kind, type_, role) and fits(pin, self.version)
        )


class Claim(Record, frozen=True, kw_only=True):
    """A question for what may be done now."""

    wants: tuple[Want, ...] = ()
    due_limit: int = 256
    """The most expired leases and timers to return."""
    hold_ms: int = 2_000
    """For how long what is returned is not returned to anyone again."""


class ReadyStep(Record, frozen=True, kw_only=True):
    """An execution that may be leased now."""

    tenant_id: str
    run_id: str
    execution_id: str
    version: int
    """The run's version when this was read."""
    waited_ms: int = 0
    """Since it became available."""


class Due(Record, frozen=True, kw_only=True):
    """Something that the store's clock decided; what follows from it, the loop decides."""

    tenant_id: str
    run_id: str
    kind: DueKind
    name: str
    """The execution's id, or the timer's name."""
    token: str = ""
    """The token of the lease that expired."""
    version: int = 0
    """The run's version when this was read."""


class Claimed(Record, frozen=True, kw_only=True):
    """Ready steps and due items, held for the caller."""

    ready: tuple[tuple[ReadyStep, ...], ...] = ()
    """For each want, in the order of the request."""
    due: tuple[Due, ...] = ()
    next_due_ms: int = -1
    """Until the next thing comes due that isn't now, as far as the store knows; -1: nothing."""
    now_us: int = 0


# --- reading ---------------------------------------------------------------------------------------


class OpenExecution(Record, frozen=True, kw_only=True):
    """An execution with the lease that only the executor may know."""

    execution: Execution
    token: str = ""
    worker_id: str = ""
    instance_id: str = ""
    progress: Payload | None = None
    """The last that a heartbeat brought."""
    session: Session = Session()
    recorded: Totals = Totals()
    """Sums of the entries that were recorded under its lease so far."""


class Loaded(Record, frozen=True, kw_only=True):
    """A run's rows, or those that changed since a version."""

    run: Run
    plans: tuple[Plan, ...] = ()
    """Its plans, ordered by revision."""
    tasks: tuple[Task, ...] = ()
    executions: tuple[OpenExecution, ...] = ()
    """All that are open; with `since`, also those closed since, and in any case those that recorded something under
    their lease."""
    questions: tuple[Question, ...] = ()
    """All that are open; with `since`, also those ended since."""
    requests: tuple[RequestRecord, ...] = ()
    """The newest `REQUESTS_KEPT_MAX`, oldest first; with `since`, those made since."""
    checkpoint: Checkpoint | None = None
    """The newest one, without its base, also with `since`. None: the run has none."""
    complete: bool = True
    """False: only what changed since the version asked for."""
    commit_id: str = ""
    """The id of the commit that made the run's version."""
    since_id: str = ""
    """The id of the commit that made the version asked for, where not `complete`.

    A caller that knows that version under another id has what the store has lost, and loads everything.
    """
    now_us: int = 0


class StoredPayload(Record, frozen=True, kw_only=True):
    """A payload stored under one key of a run: its input, or what an execution left behind."""

    key: str
    payload: Payload | None = None
    """Absent: an execution that left no bytes."""
    prompt: str = ""
    """The agent's question to its model; read with `texts` only."""
    response: str = ""
    """The model's answer; read with `texts` only."""
    receipt: str = ""
    """The outcome's `receipt`; read with `texts` only."""


class EventPage(Record, frozen=True, kw_only=True):
    """Whole commits' events, in order."""

    events: tuple[Event, ...] = ()
    oldest: int = 1
    """The number of the first event that is kept."""
    latest: int = 0
    """The number of the run's last event."""
    ended: bool = False
    """The run's status is an end and `events` reaches its last event."""


# --- pages -----------------------------------------------------------------------------------------


class Query(Record, Generic[R], frozen=True, kw_only=True):
    """A question for `Store.page`; `R` is the record of one row, and each kind below is one question.

    `cursor` is that of the page before; empty: the first page. A page holds at most `limit` rows.
    """


class Page(Record, Generic[R], frozen=True, kw_only=True):
    """One page of the answer to a `Query`."""

    items: tuple[R, ...] = ()
    cursor: str = ""
    """For the next page; empty: this was the last."""


class RunQuery(Query[Run], frozen=True, kw_only=True):
    """Runs of a tenant.

    Newest first, by time of creation. An empty filter matches all. Over its pages each run that was
    there all along comes once.
    """

    tenant_id: str
    statuses: tuple[RunStatus, ...] = ()
    pipeline_id: str = ""
    queue: str = ""
    executor_id: str = ""
    labels: dict[str, str] = {}
    """All of them must match."""
    blocked_on: tuple[BlockedKind, ...] = ()
    """As the rows have it: WORKER for WORKER and CAPACITY."""
    parent_run_id: str = ""
    """Forks of this run."""
    run_id_prefix: str = ""
    """Runs whose id begins with this."""
    cursor: str = ""
    limit: int = 100


class TaskQuery(Query[Task], frozen=True, kw_only=True):
    """Tasks of a run; what each is to do stands in the plan of its revision.

    In the order of revision, then of their plan.
    """

    tenant_id: str
    run_id: str
    cursor: str = ""
    limit: int = 100


class ExecutionQuery(Query[Execution], frozen=True, kw_only=True):
    """Executions of a run. In the order in which they were created."""

    tenant_id: str
    run_id: str
    task_id: str = ""
    """Only this task's. Empty: every task's."""
    cursor: str = ""
    limit: int = 100


class MessageQuery(Query[Message], frozen=True, kw_only=True):
    """Messages of a run's conversation. In the order of its commits."""

    tenant_id: str
    run_id: str
    task_id: str = ""
    """Only this task's. Empty: every task's."""
    cursor: str = ""
    limit: int = 100


class CheckpointQuery(Query[Checkpoint], frozen=True, kw_only=True):
    """Checkpoints of a run, without their bases. In the order of their versions."""

    tenant_id: str
    run_id: str
    cursor: str = ""
    limit: int = 100


class LogQuery(Query[LogEntry], frozen=True, kw_only=True):
    """Entries of a run's log. In the order in which they were appended.

    A page's cursor is always set, also at the end: reading on from it later returns what was
    appended since.
    """

    tenant_id: str
    run_id: str
    execution_id: str = ""
    """Only this execution's. Empty: every execution's."""
    cursor: str = ""
    limit: int = 100


class JournalQuery(Query[StoredEntry], frozen=True, kw_only=True):
    """Entries of a run's journals. In the order in which they were written.

    A page's cursor is always set, also at the end: reading on from it later returns what was written since.
    A page has at least one entry where there is one, and ends before the one that would take its values, messages
    and failures (`entry_bytes`) over `bytes_limit`; values count where they come with their bytes.
    """

    tenant_id: str
    run_id: str
    journal: str = ""
    """Only this one. Empty: all of the run's."""
    generation: int = 0
    """Only this one, and what AT_MOST_ONCE calls left in those before. 0: every generation's."""
    execution_id: str = ""
    """Only those that this attempt wrote. Empty: everyone's."""
    version: int = 0
    """Only those written at this version of the run or before. 0: all."""
    names_only: bool = False
    """Values come without their bytes; `took_ms`, and their sizes as `StoredEntry.size`, all the same."""
    cursor: str = ""
    limit: int = 1_000
    bytes_limit: int = 1024 * 1024


class FoundQuestion(Record, frozen=True, kw_only=True):
    """A question and the run that asks."""

    run_id: str
    question: Question


class QuestionQuery(Query[FoundQuestion], frozen=True, kw_only=True):
    """Questions. Oldest first; over its pages each that was there all along comes once."""

    tenant_id: str
    run_id: str = ""
    """Only this run's, in every status. Empty: those of all the tenant's runs that are OPEN."""
    cursor: str = ""
    limit: int = 100


class EndedRun(Record, frozen=True, kw_only=True):
    """A run that has ended."""

    tenant_id: str
    run_id: str
    version: int
    status: RunStatus
    ended_us: int = 0


class EndedQuery(Query[EndedRun], frozen=True, kw_only=True):
    """Ended runs without forks, to be deleted.

    Those that ended first before the others. Its page has no cursor. Its cost doesn't grow with the
    runs that don't match, but for those that have forks, and those of other pipelines if it names no tenant.
    """

    tenant_id: str = ""
    """Empty: of every tenant."""
    statuses: tuple[RunStatus, ...] = ()
    """Ends; at least one."""
    older_ms: int = 0
    """They ended at least so long ago, by the store's clock and the run's `ended_us`."""
    pipeline_id: str = ""
    """Only this pipeline's. Empty: every pipeline's."""
    limit: int = 100


class Presence(Record, frozen=True, kw_only=True):
    """A worker that is connected somewhere."""

    tenant_id: str
    worker_id: str
    instance_id: str
    replica_id: str = ""
    queues: tuple[str, ...] = ()
    tasks: tuple[TaskPattern, ...] = ()
    """The types and roles of its TASK and RECONCILE steps; without a pattern, all."""
    kinds: tuple[StepKind, ...] = ()
    version: str = ""
    credits: int = 0
    """Free places when it was last reported."""
    subject: str = ""
    """Whose credential it has."""
    connected_us: int = 0
    """The moment when it connected, by the store's clock; 0: it is not known."""
    draining: bool = False
    """It takes no more steps, and ends when those that it has are done."""
    lapses: int = 0
    """Leases in a row that it let run out."""


class PresenceQuery(Query[Presence], frozen=True, kw_only=True):
    """Workers of a tenant that are connected. On any replica; one page holds all of them."""

    tenant_id: str


class WorkerLease(Record, frozen=True, kw_only=True):
    """A lease, and which worker holds it."""

    run_id: str
    execution_id: str
    token: str
    instance_id: str = ""
    worker_id: str = ""
    progress: Payload | None = None
    """The last that a heartbeat brought; only where the query names a run."""


class LeaseQuery(Query[WorkerLease], frozen=True, kw_only=True):
    """Leases that workers hold. Of all their instances, expired or not; one page holds all."""

    tenant_id: str
    worker_id: str = ""
    """Only this worker's. Empty: any."""
    run_id: str = ""
    """Only this run's. Empty: any."""


class FeedEntry(Record, frozen=True, kw_only=True):
    """One commit of one run, or its deletion."""

    tenant_id: str
    run_id: str
    version: int
    """The version that the commit made; of a deletion, the last one that the run had."""
    deleted: bool = False


class FeedQuery(Query[FeedEntry], frozen=True, kw_only=True):
    """Commits of all runs, or of a tenant's.

    Each once since the cursor, in the store's own order; "" is the beginning, "now" the end.
    Nothing is ever skipped: a commit that becomes visible comes after every cursor that was
    returned before it did. Commits of one run come in the order of their versions. Those of
    deleted runs may be left out. A run's deletion is named after its commits, once, and for at
    least an hour. A page's cursor is always set: go on from there.
    """

    tenant_id: str = ""
    """Empty: of every tenant."""
    cursor: str = ""
    limit: int = 1_000


class Reservation(Record, frozen=True, kw_only=True):
    """A run's claim to an idempotency key: it means to lease a task under it by its next commit.

    It stays while a task of that run holds the key (`Task.held_key`), and after it completed: then it
    leads to the result. What a reservation means at any other time, the loop finds from its run.
    """

    run_id: str = ""
    """Empty: nobody has reserved the key."""
    commit_id: str = ""
    """The run's commit on which it decided; only the very next commit can make the reservation a hold."""


NOBODY = Reservation()
"""Stands under a key that no run has reserved."""


class KeySwap(Record, frozen=True, kw_only=True):
    """A change of what stands under one idempotency key, if that is what its caller believes.

    With `before` and `after` both `NOBODY` it only looks.
    """

    key: str
    before: Reservation = NOBODY
    after: Reservation = NOBODY


class StoreInfo(Record, frozen=True, kw_only=True):
    """A store's identity and durability."""

    driver: str
    durability: Durability
    detail: str = ""
    """The reason for that class, in words: `WAL, synchronous=FULL`. No secret is in it."""
    schema_version: str = ""
    store_id: str = ""
    """Drawn when the store was created; no two stores have the same."""


class Store(Protocol):
    """The only way to durable state."""

    async def commit(self, commits: Sequence[Commit]) -> Sequence[CommitResult]:
        """Apply each commit wholly or not at all; make all that were applied durable together.

        One result per commit, in order. COMMITTED: it is in every later read, by any caller, as
        long as the store's durability class holds; it is reported only then. CONFLICT: the run's
        stored version is not `version - 1` (a missing run has version 0, a deleted one has a
        tombstone for a while that refuses every version, 1 too), or it was made by another commit
        than the one that this one `follows`; or a fence's lease has `recorded` another number of journal
        entries. LEASE_LOST: a fence's token is not that of the execution's lease. A commit that was
        refused left nothing behind and never will.

        The version is checked before the fences, and their tokens before what was recorded. A commit
        whose `(run, version, commit_id)` was applied before is not applied again: it answers COMMITTED,
        at any later version, as long as the run is there. Several commits of one run in one call are
        applied in the order given.

        A fork, which is a run with a `spec.parent_run_id`, answers CONFLICT to its first commit where that run
        isn't there: a run has either been deleted before its fork is created, or isn't deleted before it.

        An expired lease still fences in its holder's favour until another lease replaces it: expiry
        acts only through a commit.

        Raises:
            StoreUnavailable: nothing of it was applied.
            OutcomeUnknown: each of them may or may not have been; send the same ones again.
        """
        ...

    async def renew(self, renewals: Sequence[Renewal]) -> Sequence[bool]:
        """Move each lease's deadline to `lease_ms` from now, never beyond its limit.

        True: the token is that of the execution's lease, expired or not. False: it isn't, and
        nothing changed. Changes no version and makes no event.
        """
        ...

    async def write_journal(self, writes: Sequence[JournalWrite]) -> Sequence[JournalAck]:
        """Keep journal entries, each under its lease; make all that were kept durable together.

        One result per journal write, in order. The check of the token and the write are atomic against
        whatever ends the lease: an entry that was accepted is in every read after that, and is counted
        in the `recorded` of the lease. An expired lease still records in its holder's favour until a
        commit ends it; one that makes its outcome unknown does. Changes no version, makes no event and no feed
        entry, and moves no deadline.

        One whose `forget_number` is below that of its execution, as the last commit left it, writes
        nothing: it may be a copy, still on its way, of what was recorded and dropped since. That check
        and the write are atomic, too, against the commit that raises the number.

        An entry's name (`key`, `mark`, `number`) is unique in its journal and generation; that of an
        AT_MOST_ONCE call in all generations of its journal. The same entry again is accepted and written once.
        Another one under that name is not accepted, and stops none of the others. A new lease begins
        with nothing recorded.

        Raises:
            StoreUnavailable: nothing of it was written.
            OutcomeUnknown: each of them may or may not have been; send the same ones again.
        """
        ...

    async def put_presence(self, presences: Sequence[Presence], *, ttl_ms: int) -> None:
        """Record that these workers are connected; each is forgotten `ttl_ms` after the last time.

        `ttl_ms` 0 forgets it now. Keyed by (tenant, worker, instance). One without a tenant is a
        replica's own, by which it judges whether it is ready: it fails where a commit would.
        """
        ...

    async def append_logs(self, tenant_id: str, run_id: str, entries: Sequence[LogEntry]) -> None:
        """Append to a run's log, apart from its commits. For a run that isn't there: nothing."""
        ...

    async def delete_run(self, tenant_id: str, run_id: str, *, version: int) -> bool:
        """Remove a run with all that belongs to it, if it is at `version` and has no forks. Otherwise False.

        Its forks are the runs that are there with its id as their `spec.parent_run_id`: they refer to its results
        and journals. A tombstone refuses commits to this id for at least an hour.

        Of the keys that its tasks held (`Task.held_key`), `NOBODY` stands under each that it still has
        reserved when this returns; a crash in between may leave the reservation.
        """
        ...

    async def remove_logs(self, which: LogsOfExecution | OldLogs) -> int:
        """Remove log entries and return how many. Cursors stay good."""
        ...

    async def claim(self, claim: Claim) -> Claimed:
        """Return what may be done now, and hold it back from everyone for `hold_ms`. Changes no run.

        For each want: READY executions of its tenant and queues that it `takes`, whose delay is over,
        higher priority first, then the longest available; at most `limit`; none twice in one
        answer. Due: expired leases of LEASED executions, and timers that ran out, oldest first,
        at most `due_limit`, of every tenant. What is held comes back when the hold is over, unless
        a commit changed it; a commit that makes something ready or due again is not held up by an
        earlier hold.

        Never early: nothing is returned before its delay is over by the store's clock. A restart
        may forget holds, and nothing else.
        """
        ...

    async def get_run(self, tenant_id: str, run_id: str) -> Run | None:
        """Return the run's row as of the last commit, or None if there is no such run."""
        ...

    async def load(self, tenant_id: str, run_id: str, *, since: int = 0) -> Loaded | None:
        """Return the rows that the loop needs, all of one version. None: there is no such run.

        `since` > 0: only the rows that changed after that version (`complete` is False), or all of
        them, as the store likes. A `since` beyond the stored version answers with all of them.
        """
        ...

    async def read_payloads(
        self, tenant_id: str, run_id: str, keys: Sequence[str], *, texts: bool = False
    ) -> Sequence[StoredPayload]:
        """Return what is stored under these keys (`INPUT_KEY`, execution ids), in their order.

        Bytes come back as they were written, empty ones too. A key without bytes is left out; with
        `texts` an execution that left an outcome comes all the same, with prompt, response and receipt.
        """
        ...

    async def read_plan(self, tenant_id: str, run_id: str, revision: int) -> Plan | None:
        """Return one plan revision, or None if there is none."""
        ...

    async def read_base(self, tenant_id: str, run_id: str, *, version: int) -> Checkpoint | None:
        """Return the last checkpoint up to this version that has a base, with its base, or None if there is none."""
        ...

    async def read_events(
        self, tenant_id: str, run_id: str, *, after: int, limit: int
    ) -> EventPage | None:
        """Return the events numbered above `after`, or None if there is no such run.

        At least one whole commit where there is one; stops before the commit that would take it
        over `limit` events. Never a part of a commit, but for the rest of one that `after` lies
        within. `after` beyond the last: an empty page.
        """
        ...

    async def page(self, query: Query[R]) -> Page[R]:
        """Return the rows that a query asks for, a page at a time.

        Without any that matches, the page is empty.
        """
        ...

    async def read_questions(
        self, tenant_id: str, run_id: str, question_ids: Sequence[str]
    ) -> Sequence[Question]:
        """Return these questions, whatever their status, in their order; others are left out."""
        ...

    async def swap_keys(
        self, tenant_id: str, pipeline_id: str, swaps: Sequence[KeySwap]
    ) -> Sequence[Reservation]:
        """Compare and swap the reservations of idempotency keys; return what stands then, in order.

        Each key of a tenant and pipeline has one reservation, or `NOBODY`. Where `before` stands (all its
        fields equal), `after` stands from then on, and an `after` of `NOBODY` leaves nothing stored.
        Anything else that stands is left. Each swap is atomic by itself, several are not: each key may
        lie in a partition of its own. What was returned is as durable as a commit.

        Raises:
            StoreUnavailable: each of them may or may not have been done; the same ones may be sent again.
        """
        ...

    def subscribe(self, hint: Hint) -> Callable[[], None]:
        """Call `hint(tenant_id, run_id, version)` when a run may have changed; returns how to stop.

        The version is one that the run has reached; 0: not known, or something other than its commits
        has changed. Empty names: anything may have changed. Hints may be lost, repeated or late,
        are never the only source of anything, and are called on the event loop.
        """
        ...

    async def describe(self) -> StoreInfo:
        """Return what this store is and what it promises."""
        ...

    async def close(self) -> None:
        """Finish what was begun and release everything. Safe to call twice."""
        ...


# --- the other ports -----------------------------------------------------------------------------


class WorkerPort(Protocol):
    """A connected worker, as the executor sees it. None of its methods waits."""

    @property
    def presence(self) -> Presence:
        """The worker's identity, and what it accepts."""
        ...

    @property
    def stages(self) -> tuple[StepKind, ...]:
        """The stages (REFLECT, SYNTHESIZE) of its runs."""
        ...

    def assign(self, assignment: Assignment) -> None:
        """Hand it a leased step. Called after the commit."""
        ...

    def cancel(self, execution_id: str, run_id: str, reason: str) -> None:
        """Notify it that one of its executions is no longer wanted."""
        ...

    def ended(self, execution_id: str, run_id: str, entry: Entry) -> None:
        """Tell it the end of a call that waits while its step runs. Called after the commit."""
        ...

    def replaced(self) -> None:
        """Notify it that a newer instance of the same worker has connected; it is detached."""
        ...


class DependencyResult(Record, frozen=True, kw_only=True):
    """The end of a task that a step depends on (or reflects on)."""

    task_id: str
    execution_id: str = ""
    payload: Payload | None = None
    """Absent if there are no bytes, or they are sent by reference (`by_reference`)."""
    by_reference: bool = False
    """The bytes can be read by ReadResults."""
    failure: Failure | None = None
    skipped: bool = False
    run_id: str = ""
    """The run of the family that owns `execution_id`. Empty: this run."""


class AssignedRun(Record, frozen=True, kw_only=True):
    """A run as the worker of one of its steps sees it, as of the lease."""

    tenant_id: str
    run_id: str
    goal: str = ""
    labels: dict[str, str] = {}
    max_iterations: int = 0
    iteration: int = 0
    plan_revision: int = 0
    reason: str = ""
    """The reason of the last reflection."""
    thread_id: str = ""
    """The thread that it is a run of. Empty: none."""


class AssignedExecution(Record, frozen=True, kw_only=True):
    """An execution as its worker sees it."""

    execution_id: str
    kind: StepKind
    task_id: str = ""
    iteration: int = 1
    attempt: int = 1


class HeldEntry(Record, frozen=True, kw_only=True):
    """A journal entry, for the worker of its step."""

    entry: Entry
    remaining_ms: int = 0
    """The rest of a WAIT's sleep; 0 if it is over."""


class JournalPage(Record, frozen=True, kw_only=True):
    """A part of a step's journal, in the order of writing."""

    entries: tuple[HeldEntry, ...] = ()
    cursor: str = ""
    """The position after which there are more entries, or empty."""


class Assignment(Record, frozen=True, kw_only=True):
    """A leased step with everything that its worker needs."""

    run: AssignedRun
    execution: AssignedExecution
    token: str
    task: TaskSpec | None = None
    run_input: Payload | None = None
    results: tuple[DependencyResult, ...] = ()
    """The last of the results that the step is shown, as far as they fit."""
    results_before: int = 0
    """The number of tasks before them, which didn't fit; ReadResults lists them."""
    lease_ms: int = 0
    limit_ms: int = 0
    previous_progress: Payload | None = None
    """The last progress that earlier attempts reported."""
    previous_session: Session = Session()
    previous_failure: Failure | None = None
    previous_messages: tuple[Message, ...] = ()
    """The newest messages of the task's conversation, as far as they fit."""
    conversation: int = 0
    """The number of messages in the task's conversation; ListMessages returns those that are not in
    `previous_messages`."""
    answer: Payload | None = None
    """The answer to the question of the attempt before it."""
    answered: Question | None = None
    """That question, without its answer."""
    idempotency_key: str = ""
    unknown_execution_id: str = ""
    """With RECONCILE: the execution whose outcome is unknown."""
    remaining_budget: Budget = Budget()
    """The rest of the budget. 0: no limit, so a spent part is 1."""
    journal: JournalPage | None = None
    """The first part of the step's journal, or None if it is empty."""
    tries_from: int = 0
    """Tries in the journal count from this attempt on."""
    signals: tuple[KeptSignal, ...] = ()
    """Kept signals that a PLAN or REFLECT step is shown, oldest first."""
    more_signals: bool = False
    """The run keeps more than these."""


async def every_row(store: Store, query: Query[R]) -> AsyncIterator[R]:
    """Yield the rows that a query asks for, page after page."""
    while True:
        page = await store.page(query)
        for one in page.items:
            yield one
        if not page.items or not page.cursor:
            return
        query = replace(query, cursor=page.cursor)


class Principal(NamedTuple):
    """An authenticated caller."""

    subject: str
    tenant_id: str
    scopes: frozenset[str]


class Authenticator(Protocol):
    """Identifies callers."""

    def authenticate(self, metadata: Mapping[str, str]) -> Principal:
        """Return the caller.

        Raises:
            Unauthenticated: the credential is missing or invalid.
        """
        ...


class Runtime(Protocol):
    """Time, ids, random numbers and tasks: everything that a simulation must control."""

    def now_us(self) -> int:
        """Return the wall clock, for people and for a store without its own clock."""
        ...

    def monotonic(self) -> float:
        """Return seconds on a clock that only goes forward."""
        ...

    def new_id(self) -> str:
        """Return a fresh UUID, as text."""
        ...

    def new_token(self) -> str:
        """Return 128 fresh random bits in hex, from a source fit for secrets."""
        ...

    def random(self) -> float:
        """Return a number in [0, 1)."""
        ...

    def spawn(self, work: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
        """Run a coroutine in the background, strongly referenced until it ends."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...
