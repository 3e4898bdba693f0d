"""The circumstances of a decision: everything that it depends on besides the run and its occurrences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

from stepwell.core.port import JournalQuery
from stepwell.core.records.journal import StoredEntry
from stepwell.core.records.model import Payload, Record
from stepwell.core.records.routing import TaskPattern, does, fits
from stepwell.core.records.states import StepKind


class KeyState(StrEnum):
    """The state of an idempotency key of the tenant and pipeline, as read from the store."""

    FREE = "FREE"
    """No run has the key. It isn't reserved, so nothing may be leased under it."""
    OURS = "OURS"
    """The run has reserved the key, so this decision's commit may lease a task under it."""
    TAKEN = "TAKEN"
    """Another run is executing a task with the key, or is about to lease one."""
    DONE = "DONE"
    """Another run has completed a task with it."""
    UNKNOWN = "UNKNOWN"
    """The store could not be asked."""


class KeyFound(Record, frozen=True, kw_only=True):
    """The state found for one idempotency key."""

    state: KeyState
    run_id: str = ""
    """With TAKEN or DONE: the other run."""
    execution_id: str = ""
    """With DONE: the execution that completed the task."""
    result: Payload | None = None
    """With DONE: the result. Absent: it has no bytes."""


class FreeWorker(Record, frozen=True, kw_only=True):
    """A connected worker that serves the run's queue and has room for more steps."""

    worker_id: str
    instance_id: str = ""
    kinds: tuple[StepKind, ...]
    tasks: tuple[TaskPattern, ...] = ()
    version: str = ""
    stages: tuple[StepKind, ...] = ()
    """The stages (REFLECT, SYNTHESIZE) that its agent has; for a run without stages of its own."""
    credits: int = 1
    """The number of steps that it may be assigned now."""

    def takes(self, kind: StepKind, type_: str, role: str, pin: str) -> bool:
        """Return whether the worker does such steps."""
        return (
            kind in self.kinds
            and does(self.tasks, kind, type_, role)
            and (not pin or fits(pin, self.version))
        )


class Grants(Record, frozen=True, kw_only=True):
    """The leases that a decision may grant to free workers of this replica."""

    workers: tuple[FreeWorker, ...] = ()
    """Free workers, the next one first."""
    tokens: tuple[str, ...] = ()
    """Unused lease tokens, at least as many as there may be leases."""
    limit: int = 0
    """The queue's limit: each lease takes the slot of one that ends in the same commit. 0: no limit."""


class Context(Record, frozen=True, kw_only=True):
    """Everything that a decision depends on besides the run and its occurrences."""

    commit_id: str = ""
    """The id of the commit that the decision makes."""
    now_us: int = 0
    """The store's time, for moments that people read; no decision depends on it."""
    seed: int = 0
    """The seed of the jitter in back-offs."""
    lease_ms: int = 30_000
    """The length of a lease if its task sets none."""
    keys: dict[str, KeyFound] = {}
    """The state of each idempotency key; `Transition.asked_keys` has missing ones."""
    pages: Mapping[JournalQuery, Sequence[StoredEntry]] = {}
    """The first entries, up to its limit, of each question for journal entries; `Transition.asked_pages` has missing
    ones."""
    grants: Grants = Grants()
