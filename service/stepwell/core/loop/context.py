"""The circumstances of a decision: all that it depends on besides the run and its signals."""

from __future__ import annotations

from enum import StrEnum

from stepwell.core.records.model import Message, Payload, Record
from stepwell.core.records.routing import TaskPattern, does, fits
from stepwell.core.records.states import StepKind


class KeyState(StrEnum):
    """The state of an idempotency key of the tenant and pipeline, as it was found."""

    FREE = "FREE"
    """No run has it. It isn't reserved, so nothing may be leased under it."""
    OURS = "OURS"
    """The run has reserved it: this decision's commit may lease a task under it."""
    TAKEN = "TAKEN"
    """Another run has a task under way with it, or is about to lease one."""
    DONE = "DONE"
    """Another run has completed a task with it."""
    UNKNOWN = "UNKNOWN"
    """The store could not be asked."""


class KeyFound(Record, frozen=True, kw_only=True):
    """The finding about one idempotency key."""

    state: KeyState
    run_id: str = ""
    """With TAKEN and DONE: the other run."""
    execution_id: str = ""
    """With DONE: the execution that completed the task."""
    result: Payload | None = None
    """With DONE: its result. Absent: it has no bytes."""


class FreeWorker(Record, frozen=True, kw_only=True):
    """A connected worker that serves the run's queue and has room for more steps."""

    worker_id: str
    instance_id: str = ""
    kinds: tuple[StepKind, ...]
    tasks: tuple[TaskPattern, ...] = ()
    version: str = ""
    stages: tuple[StepKind, ...] = ()
    """REFLECT and SYNTHESIZE, if its agent has them; for a run without stages of its own."""
    credits: int = 1
    """The number of steps it may be assigned now."""

    def takes(self, kind: StepKind, type_: str, role: str, pin: str) -> bool:
        """Return whether it does such steps."""
        return (
            kind in self.kinds
            and does(self.tasks, kind, type_, role)
            and (not pin or fits(pin, self.version))
        )


class Grants(Record, frozen=True, kw_only=True):
    """The leases that a decision may grant to workers which are free at this replica."""

    workers: tuple[FreeWorker, ...] = ()
    """Free workers, the next one first."""
    tokens: tuple[str, ...] = ()
    """Unused lease tokens, at least as many as may be granted."""
    room: int | None = None
    """The number of steps that a limit of the run's queue still allows; None: no limit."""
    counted: frozenset[str] = frozenset()
    """Executions of the run that count against that limit: each one that ends makes room."""


class Context(Record, frozen=True, kw_only=True):
    """All that a decision depends on besides the run and its signals."""

    commit_id: str = ""
    """The id of the commit that the decision makes."""
    now_us: int = 0
    """The store's time, for the moments that people read; it decides nothing."""
    seed: int = 0
    """The seed of the jitter in back-offs."""
    lease_ms: int = 30_000
    """The length of a lease if its task names none."""
    keys: dict[str, KeyFound] = {}
    """The findings by idempotency key; `Transition.asked_keys` has those that are missing."""
    messages: dict[tuple[str, int], tuple[Message, ...]] = {}
    """The messages of journal entries by the execution that recorded them, and the number of its entries that were known
    before they were read; `Transition.asked_messages` has those that are missing."""
    grants: Grants = Grants()
