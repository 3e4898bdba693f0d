"""A program's knowledge of its runs, which keeps its next calls relevant and legal.

It comes from applied commits, never from a driver, so that the same calls mean the same on every
driver.
"""

from __future__ import annotations

from typing import NamedTuple

from stepwell.core.port import NOBODY, Commit, Due, ReadyStep, Renewal, Reservation
from stepwell.core.records.states import DueKind, ExecutionStatus
from stepwell_testkit.conformance.drawn.names import tenants_of

Key = tuple[str, str]
Place = tuple[str, str, str]
"""Tenant, pipeline and idempotency key."""
_LEASABLE = frozenset({ExecutionStatus.LEASED, ExecutionStatus.UNKNOWN_OUTCOME})


class LeaseGrant(NamedTuple):
    """A lease that a commit granted."""

    key: Key
    execution_id: str
    token: str


class Sent(NamedTuple):
    """A commit with what it builds on."""

    commit: Commit
    base: str
    """The `commit_id` of the version before, or ""."""


class Known:
    """The commits of a program, and the moments at which their timers and leases are due."""

    def __init__(self, number: int) -> None:
        self.tenants = tenants_of(number)
        self.now_ms = 0
        self.heads: dict[Key, Commit] = {}
        self.deleted: set[Key] = set()
        self.reached: dict[Key, int] = {}
        """The highest version that each run ever had."""
        self.sent: list[Sent] = []
        self.granted: list[LeaseGrant] = []
        self.live: dict[tuple[Key, str], LeaseGrant] = {}
        """The leases that are valid now."""
        self.recorded: dict[str, int] = {}
        """The number of journal entries that a lease recorded, by its token."""
        self.tasks: dict[Key, dict[str, int]] = {}
        self.plans: dict[Key, int] = {}
        self.results: dict[Key, set[str]] = {}
        self.reserved: dict[Place, Reservation] = {}
        """The reservation of each reserved idempotency key."""
        self.held: dict[Key, set[Place]] = {}
        """The idempotency keys that tasks of each run ever held."""
        self.ranks: dict[tuple[str, str, str], tuple[int, int]] = {}
        """Each READY execution's rank, by priority and then by moment."""
        self.moments: dict[tuple[str, str, str, str], int] = {}
        """The end of each timer and each lease, in milliseconds; a timer's token is empty."""
        self.limits: dict[str, int] = {}
        """The limit of renewals, by token."""
        self._numbers = 0

    def number(self) -> int:
        """Return the next of this program's numbers."""
        self._numbers += 1
        return self._numbers

    def key(self, tenant: int, run: str) -> Key:
        """Return the names of a run of one of the two tenants."""
        return self.tenants[tenant], run

    def may_send(self, sent: Sent) -> bool:
        """Return whether an earlier commit may be sent again now.

        A commit that would be applied on another version than it was made for would leave a gap in
        the event numbers, so no executor sends it.
        """
        head = self.heads.get((sent.commit.tenant_id, sent.commit.run_id))
        at = head.version if head is not None else 0
        return at != sent.commit.version - 1 or sent.base == (head.commit_id if head else "")

    def learn(self, commit: Commit) -> None:
        """Take over a commit that was just applied."""
        key = (commit.tenant_id, commit.run_id)
        if commit.version <= self.reached.get(key, 0):
            return
        self.heads[key] = commit
        self.reached[key] = commit.version
        self.held.setdefault(key, set()).update(
            (key[0], commit.run.spec.pipeline_id, task.held_key) for task in commit.tasks
        )
        tasks = self.tasks.setdefault(key, {})
        tasks.update({task.task_id: task.revision for task in commit.tasks})
        if commit.plan is not None:
            self.plans[key] = commit.plan.revision
        results = self.results.setdefault(key, set())
        results |= {outcome.execution_id for outcome in commit.outcomes}
        for execution in commit.executions:
            if execution.status not in _LEASABLE:
                self.live.pop((key, execution.execution_id), None)
            if execution.status is ExecutionStatus.READY:
                place = (-execution.priority, self.now_ms + execution.delay_ms)
                self.ranks[*key, execution.execution_id] = place
        for timer in commit.timers:
            self.moments[*key, timer.name, ""] = self.now_ms + timer.delay_ms
        for lease in commit.leases:
            limit_ms = self.now_ms + lease.limit_ms if lease.limit_ms else 0
            self.limits[lease.token] = limit_ms
            self._moves(key, lease.execution_id, lease.token, lease.lease_ms)
            grant = LeaseGrant(key, lease.execution_id, lease.token)
            self.granted.append(grant)
            self.live[key, lease.execution_id] = grant

    def swapped(self, place: Place, stands: Reservation) -> None:
        """Take over the reservation of an idempotency key."""
        self.reserved[place] = stands
        if stands == NOBODY:
            del self.reserved[place]

    def not_held(self, key: Key) -> list[Place]:
        """Return the keys that a run has reserved and that none of its tasks ever held."""
        held = self.held.get(key, set())
        return [
            place
            for place, one in self.reserved.items()
            if (place[0], one.run_id) == key and place not in held
        ]

    def renewed(self, beat: Renewal) -> None:
        """Take over a heartbeat that was just accepted."""
        self._moves((beat.tenant_id, beat.run_id), beat.execution_id, beat.token, beat.lease_ms)

    def _moves(self, key: Key, name: str, token: str, lease_ms: int) -> None:
        until_ms, limit_ms = self.now_ms + lease_ms, self.limits[token]
        self.moments[*key, name, token] = min(until_ms, limit_ms) if limit_ms else until_ms

    def delete(self, key: Key) -> None:
        """Forget a run that was deleted."""
        del self.heads[key]
        for place, one in list(self.reserved.items()):
            if (place[0], one.run_id) == key:
                del self.reserved[place]
        self.live = {name: grant for name, grant in self.live.items() if grant.key != key}
        self.deleted.add(key)

    def place_of(self, step: ReadyStep) -> tuple[int, int]:
        """Return the rank of a ready step; equal ranks come in any order."""
        return self.ranks[step.tenant_id, step.run_id, step.execution_id]

    def moment_of(self, due: Due) -> int:
        """Return since when an item is due."""
        token = "" if due.kind is DueKind.TIMER else due.token
        return self.moments[due.tenant_id, due.run_id, due.name, token]
