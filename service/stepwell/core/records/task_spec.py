"""Records of a task, as planned: its payload, its retries, and the child run that it may be."""

from __future__ import annotations

from msgspec.structs import force_setattr

from stepwell.core.records.record import Record
from stepwell.core.records.states import Effect, OnFailure, StepKind
from stepwell.core.records.step_journal import journal_of

MAX_LOSSES = 10
"""Lost attempts at a step that are repeated, if its retry policy sets no number."""


class Payload(Record, frozen=True, kw_only=True):
    """A user's bytes with their media type. The hot path never parses them."""

    data: bytes = b""
    media_type: str = "application/json"

    def __repr__(self) -> str:
        """Return its size and media type; the bytes appear in no log."""
        return f"Payload({len(self.data)} bytes, {self.media_type})"


class RetryPolicy(Record, frozen=True, kw_only=True):
    """The number of attempts at a step, and the waits between them."""

    max_attempts: int = 3
    """Failed attempts, per allowance; 1: no retry."""
    initial_backoff_ms: int = 1_000
    backoff_multiplier: float = 2.0
    max_backoff_ms: int = 60_000
    jitter: float = 1.0
    """The random part of each back-off: 1.0 is full jitter, 0.0 none."""
    non_retryable_kinds: tuple[str, ...] = ()
    max_losses: int = -1
    """Lost attempts that are repeated, per allowance. Below 0 becomes the default: 10, or 0 with `max_attempts` 1."""

    def __post_init__(self) -> None:
        """Set the default, which depends on `max_attempts`."""
        if self.max_losses < 0:
            force_setattr(self, "max_losses", MAX_LOSSES if self.max_attempts > 1 else 0)


class Budget(Record, frozen=True, kw_only=True):
    """Limits of a run's consumption. 0: no limit."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost_micros: int = 0
    tasks: int = 0
    """Tasks that may be offered, over all plans; further attempts at a task don't count."""
    wall_ms: int = 0
    """Time since the first lease, including pauses."""
    iterations: int = 0
    """Iterations that may begin. This limit pauses a run; `max_iterations` ends it."""


class ChildRun(Record, frozen=True, kw_only=True):
    """A run that a task is, in place of a function of a worker."""

    pipeline_id: str = ""
    """Empty: the parent's."""
    queue: str = ""
    """Empty: the parent's."""
    goal: str = ""
    """Empty: the task's prompt or, without one, the parent's goal."""
    labels: dict[str, str] = {}
    max_iterations: int = 0
    """0: the default."""
    budget: Budget = Budget()
    """Its limits; tokens and cost are taken from the parent's. 0: all that is left there."""
    follow_pauses: bool = False
    """It is paused when its parent is, and goes on with it."""
    reflect_on: tuple[str, ...] = ()
    """Names of signals that make it reflect before its tasks are settled. Not together with `tasks`."""
    tasks: tuple[TaskSpec, ...] = ()
    """Its plan; empty: it plans."""


class TaskSpec(Record, frozen=True, kw_only=True):
    """A node of a plan, as planned. Immutable within its plan revision."""

    task_id: str
    type: str = ""
    title: str = ""
    prompt: str = ""
    role: str = ""
    """The role that the task's worker must have; empty: any worker of the queue."""
    depends_on: tuple[str, ...] = ()
    input: Payload | None = None
    retry: RetryPolicy = RetryPolicy()
    attempt_timeout_ms: int = 0
    heartbeat_timeout_ms: int = 0
    """The lease's length for this task; 0: the server's."""
    idle_timeout_ms: int = 0
    """The longest that its function may show no activity (heartbeat of its own, chunk or log line). 0: no limit."""
    total_timeout_ms: int = 0
    """The time from the first offer to the end of the last attempt, including back-offs."""
    on_failure: OnFailure = OnFailure.FAIL_RUN
    effect: Effect = Effect.IDEMPOTENT
    idempotency_key: str = ""
    """Empty: a key of its own (`idempotency.key_of`). Otherwise only one of the tasks with this key
    runs, see TASK_DEDUPLICATED.
    """
    reconcile: bool = False
    """A RECONCILE step checks the task's effect when its outcome is unknown."""
    child: ChildRun | None = None
    """The child run that the task is; None: workers run it."""
    after_growth: bool = False
    """The task also depends on the tasks that its dependencies add with their outcomes."""
    group: str = ""
    """The group that the task is one of; empty: none."""
    gathers: str = ""
    """The group on whose tasks it depends; empty: none. `loop.gathering` has the rule."""
    at_least: int = 0
    """Tasks of the gathered group that are enough; 0: all of them are waited for."""
    failures_max: int = 0
    """FAILED tasks of that group that are tolerated; 0: none or, with `at_least`, all but those that it needs."""

    def key_in(self, run_id: str, revision: int) -> str:
        """Return the idempotency key of its steps, if this plan revision of the run defined it."""
        if self.idempotency_key:
            return self.idempotency_key
        return f"{run_id}/{journal_of(StepKind.TASK, self.task_id, revision, 0)}"
