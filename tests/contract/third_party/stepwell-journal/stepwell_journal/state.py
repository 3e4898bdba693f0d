"""The state of a journal, in memory. `apply` alone changes it, live and when the file is read again.

So an entry holds all that its effect depends on, the store's time too: the second reading can come to
nothing else than the first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import msgspec

from stepwell.core.port import (
    NOBODY,
    Claim,
    Claimed,
    Commit,
    Due,
    FeedEntry,
    KeySwap,
    Lease,
    ReadyStep,
    Renewal,
    Reservation,
    Want,
)
from stepwell.core.records.checkpoints import Checkpoint
from stepwell.core.records.events import Event
from stepwell.core.records.limits import REQUESTS_KEPT_MAX
from stepwell.core.records.model import (
    Execution,
    Message,
    Outcome,
    Payload,
    Plan,
    Question,
    RequestRecord,
    Run,
    Session,
    Task,
)
from stepwell.core.records.states import DueKind, ExecutionStatus, Verdict

TOMBSTONE_US = 2 * 3_600 * 1_000_000

RunKey = tuple[str, str]
"""Tenant and run."""
Key = tuple[str, str, str]
"""Tenant, run and the name of an execution or a timer; or tenant, pipeline and an idempotency key."""


# --- entries ---


class Committed(msgspec.Struct, frozen=True, tag="c"):
    """Commits that were accepted together, each of another run."""

    now_us: int
    commits: tuple[Commit, ...]


class Renewed(msgspec.Struct, frozen=True, tag="r"):
    """Heartbeats whose tokens were right."""

    now_us: int
    renewals: tuple[Renewal, ...]


class Swapped(msgspec.Struct, frozen=True, tag="s"):
    """Idempotency keys of a tenant and pipeline under which something else stands now."""

    now_us: int
    tenant_id: str
    pipeline_id: str
    stands: dict[str, Reservation]


class Deleted(msgspec.Struct, frozen=True, tag="d"):
    """A run that is no more."""

    now_us: int
    tenant_id: str
    run_id: str


Entry = Committed | Renewed | Swapped | Deleted

encoded = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(Entry)


def decoded(body: bytes) -> Entry:
    """Return the entry that was encoded so."""
    return _decoder.decode(body)


# --- rows ---


@dataclass(eq=False, slots=True)
class Item:
    """A ready execution, a lease or a timer: it waits for its moment, and for the end of a hold."""

    when_us: int
    order: int
    limit_us: int = 0
    lease: Lease | None = None
    progress: Payload | None = None
    session: Session = field(default_factory=Session)
    held_until_us: int = 0

    @property
    def free_us(self) -> int:
        """From when on a claim may return it."""
        return max(self.when_us, self.held_until_us)


@dataclass(eq=False, slots=True)
class Rows:
    """All that is kept of one run."""

    birth: int
    run: Run
    input: Payload | None
    commit_ids: list[str] = field(default_factory=list[str])
    """The commit ids of versions 1, 2, 3 …"""
    plans: dict[int, Plan] = field(default_factory=dict[int, Plan])
    tasks: dict[str, Task] = field(default_factory=dict[str, Task])
    executions: dict[str, Execution] = field(default_factory=dict[str, Execution])
    """In the order of their birth: a dictionary keeps a key's first place."""
    questions: dict[str, Question] = field(default_factory=dict[str, Question])
    asked: dict[str, int] = field(default_factory=dict[str, int])
    """The moment when each question was created: a number that no other has."""
    outcomes: dict[str, Outcome] = field(default_factory=dict[str, Outcome])
    checkpoints: list[Checkpoint] = field(default_factory=list[Checkpoint])
    events: list[Event] = field(default_factory=list[Event])
    messages: list[Message] = field(default_factory=list[Message])
    requests: deque[RequestRecord] = field(default_factory=lambda: deque(maxlen=REQUESTS_KEPT_MAX))

    def ordered_tasks(self) -> list[Task]:
        """Return the tasks in the order of revision, then of their plan."""
        places = {
            (plan.revision, spec.task_id): at
            for plan in self.plans.values()
            for at, spec in enumerate(plan.tasks)
        }
        last = len(places)
        return sorted(
            self.tasks.values(),
            key=lambda it: (it.revision, places.get((it.revision, it.task_id), last), it.task_id),
        )


class State:
    """Every run, what is ready, what comes due, and the feed."""

    def __init__(self) -> None:
        self.now_us = 0
        """When the last entry was written."""
        self.runs: dict[RunKey, Rows] = {}
        self.feed: list[FeedEntry | None] = []
        """None where a deleted run's commit stood: a cursor is a place, and places stay."""
        self.ready: dict[Key, Item] = {}
        self.leases: dict[Key, Item] = {}
        self.timers: dict[Key, Item] = {}
        self.reserved: dict[Key, Reservation] = {}
        """Reservations by tenant, pipeline and idempotency key; nobody's are not there."""
        self._tombstones: dict[RunKey, int] = {}
        self._order = 0

    # --- deciding ---

    def verdict(self, commit: Commit, now_us: int) -> Verdict | None:
        """Return the verdict on a commit, or None if it may be applied. Changes nothing."""
        key = (commit.tenant_id, commit.run_id)
        rows = self.runs.get(key)
        ids = rows.commit_ids if rows is not None else []
        if 1 <= commit.version <= len(ids) and ids[commit.version - 1] == commit.commit_id:
            return Verdict.COMMITTED
        tombstoned = self._tombstones.get(key, 0) > now_us
        moved = commit.version != len(ids) + 1 or (ids and commit.follows not in ("", ids[-1]))
        if moved or tombstoned:
            return Verdict.CONFLICT
        parent_id = commit.run.spec.parent_run_id
        if commit.version == 1 and parent_id and (key[0], parent_id) not in self.runs:
            return Verdict.CONFLICT
        if all(self.holds(*key, fence.execution_id, fence.token) for fence in commit.fences):
            return None
        return Verdict.LEASE_LOST

    def parents(self) -> set[RunKey]:
        """Return the runs that have forks."""
        return {(key[0], rows.run.spec.parent_run_id) for key, rows in self.runs.items()}

    def holds(self, tenant_id: str, run_id: str, execution_id: str, token: str) -> bool:
        """Return whether the token is that of the execution's lease, expired or not."""
        item = self.leases.get((tenant_id, run_id, execution_id))
        return item is not None and item.lease is not None and item.lease.token == token

    # --- applying ---

    def apply(self, entry: Entry) -> None:
        """Do what an entry says. It was decided before it was written, and is not judged again."""
        self.now_us = max(self.now_us, entry.now_us)
        match entry:
            case Committed():
                for commit in entry.commits:
                    self._commit(commit, entry.now_us)
            case Renewed():
                for renewal in entry.renewals:
                    self._renew(renewal, entry.now_us)
            case Swapped():
                self._swap(entry)
            case Deleted():
                self._delete((entry.tenant_id, entry.run_id), entry.now_us)

    def _commit(self, commit: Commit, now_us: int) -> None:
        run = (commit.tenant_id, commit.run_id)
        if run not in self.runs:
            self._order += 1
            self.runs[run] = Rows(birth=self._order, run=commit.run, input=commit.input)
        rows = self.runs[run]
        rows.run = commit.run
        rows.commit_ids.append(commit.commit_id)
        if commit.plan is not None:
            rows.plans[commit.plan.revision] = commit.plan
        rows.tasks.update((task.task_id, task) for task in commit.tasks)
        for question in commit.questions:
            rows.questions[question.question_id] = question
            self._order += 1
            rows.asked.setdefault(question.question_id, self._order)
        rows.events += commit.events
        rows.messages += commit.messages
        if commit.checkpoint is not None:
            rows.checkpoints.append(commit.checkpoint)
        if commit.request is not None:
            rows.requests.append(commit.request)
        for outcome in commit.outcomes:
            # The first result of an execution is its result.
            rows.outcomes.setdefault(outcome.execution_id, outcome)
        for execution in commit.executions:
            self._put_execution((*run, execution.execution_id), rows, execution, now_us)
        for lease in commit.leases:
            self._put_lease((*run, lease.execution_id), rows, lease, now_us)
        for timer in commit.timers:
            self.timers.pop((*run, timer.name), None)
            if timer.delay_ms >= 0:
                self.timers[*run, timer.name] = self._item(now_us, timer.delay_ms)
        self.feed.append(FeedEntry(tenant_id=run[0], run_id=run[1], version=commit.version))

    def _put_execution(self, key: Key, rows: Rows, execution: Execution, now_us: int) -> None:
        rows.executions[execution.execution_id] = execution
        self.ready.pop(key, None)
        if execution.status is ExecutionStatus.READY:
            self.ready[key] = self._item(now_us, execution.delay_ms)
        if execution.status not in {ExecutionStatus.LEASED, ExecutionStatus.UNKNOWN_OUTCOME}:
            self.leases.pop(key, None)
        elif key in self.leases:
            # The hold of an earlier claim ends with the commit that it led to.
            self.leases[key].held_until_us = 0

    def _put_lease(self, key: Key, rows: Rows, lease: Lease, now_us: int) -> None:
        execution = rows.executions.get(lease.execution_id)
        if execution is not None and execution.status is ExecutionStatus.LEASED:
            limit_us = now_us + lease.limit_ms * 1_000 if lease.limit_ms > 0 else 0
            item = self._item(now_us, lease.lease_ms)
            item.when_us = min(item.when_us, limit_us or item.when_us)
            item.limit_us, item.lease = limit_us, lease
            self.leases[key] = item

    def _renew(self, renewal: Renewal, now_us: int) -> None:
        item = self.leases[renewal.tenant_id, renewal.run_id, renewal.execution_id]
        until_us = now_us + renewal.lease_ms * 1_000
        item.when_us = min(until_us, item.limit_us or until_us)
        item.held_until_us = 0
        if renewal.progress is not None:
            item.progress = renewal.progress
        if renewal.session != Session():
            item.session = renewal.session

    def swapped(
        self, tenant_id: str, pipeline_id: str, swaps: Sequence[KeySwap]
    ) -> list[Reservation]:
        """Return what stands after each of these swaps. Changes nothing."""
        stands: list[Reservation] = []
        last: dict[str, Reservation] = {}
        for swap in swaps:
            kept = self.reserved.get((tenant_id, pipeline_id, swap.key), NOBODY)
            now = last.get(swap.key, kept)
            last[swap.key] = swap.after if now == swap.before else now
            stands.append(last[swap.key])
        return stands

    def _swap(self, entry: Swapped) -> None:
        for key, one in entry.stands.items():
            self.reserved[entry.tenant_id, entry.pipeline_id, key] = one
            if one == NOBODY:
                del self.reserved[entry.tenant_id, entry.pipeline_id, key]

    def _delete(self, run: RunKey, now_us: int) -> None:
        rows = self.runs.pop(run)
        self._tombstones[run] = now_us + TOMBSTONE_US
        for key in [key for key, one in self.reserved.items() if (key[0], one.run_id) == run]:
            del self.reserved[key]
        for at, entry in enumerate(self.feed):
            if entry is not None and (entry.tenant_id, entry.run_id) == run:
                self.feed[at] = None
        entry = FeedEntry(tenant_id=run[0], run_id=run[1], version=rows.run.version, deleted=True)
        self.feed.append(entry)
        for items in (self.ready, self.leases, self.timers):
            for key in [key for key in items if key[:2] == run]:
                del items[key]

    def _item(self, now_us: int, delay_ms: int) -> Item:
        self._order += 1
        return Item(now_us + delay_ms * 1_000, self._order)

    # --- claiming ---

    def claim(self, claim: Claim, now_us: int) -> Claimed:
        """Return what may be done now, and hold it. A look at everything that waits."""
        taken: set[Item] = set()
        ready = tuple(self._ready_for(want, now_us, taken) for want in claim.wants)
        due = [(key, item) for key, item in self._due_items() if item.free_us <= now_us]
        due.sort(key=lambda it: (it[1].when_us, it[1].order))
        del due[claim.due_limit :]
        taken.update(item for _, item in due)
        for item in taken:
            item.held_until_us = now_us + claim.hold_ms * 1_000
        waiting = [item for _, item in self._due_items()] + list(self.ready.values())
        moments = [item.free_us for item in waiting if item.free_us > now_us]
        return Claimed(
            ready=ready,
            due=tuple(self._due(*it) for it in due),
            # Rounded up: looked at a moment too soon, it would not be due yet.
            next_due_ms=-((now_us - min(moments)) // 1_000) if moments else -1,
            now_us=now_us,
        )

    def _ready_for(self, want: Want, now_us: int, taken: set[Item]) -> tuple[ReadyStep, ...]:
        found: list[tuple[int, int, int, Key, Item]] = []
        for key, item in self.ready.items():
            execution = self.runs[key[:2]].executions[key[2]]
            if (
                item.free_us <= now_us
                and item not in taken
                and key[0] == want.tenant_id
                and execution.queue in want.queues
                and want.takes(execution.kind, execution.type, execution.role, execution.pin)
            ):
                found.append((-execution.priority, item.when_us, item.order, key, item))
        found.sort(key=lambda it: it[:3])
        del found[want.limit :]
        taken.update(item for *_, item in found)
        return tuple(
            ReadyStep(
                tenant_id=key[0],
                run_id=key[1],
                execution_id=key[2],
                version=len(self.runs[key[:2]].commit_ids),
                waited_ms=(now_us - item.when_us) // 1_000,
            )
            for *_, key, item in found
        )

    def _due_items(self) -> Iterable[tuple[Key, Item]]:
        yield from self.timers.items()
        for key, item in self.leases.items():
            # That of an UNKNOWN_OUTCOME is kept and expires no more.
            if self.runs[key[:2]].executions[key[2]].status is ExecutionStatus.LEASED:
                yield key, item

    def _due(self, key: Key, item: Item) -> Due:
        kind = DueKind.TIMER
        if item.lease is not None:
            at_limit = 0 < item.limit_us <= item.when_us
            kind = DueKind.ATTEMPT_TIMED_OUT if at_limit else DueKind.LEASE_EXPIRED
        return Due(
            tenant_id=key[0],
            run_id=key[1],
            kind=kind,
            name=key[2],
            token=item.lease.token if item.lease is not None else "",
            version=len(self.runs[key[:2]].commit_ids),
        )
