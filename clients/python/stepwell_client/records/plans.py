"""Plans, budgets and retry policies, as an agent or a caller writes them and as messages."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from google.protobuf import duration_pb2

from stepwell_client.enums import Effect, OnFailure, to_wire
from stepwell_client.records.clean_text import storable
from stepwell_client.records.payloads import encode
from stepwell_client.records.record import Record
from stepwell_client.v1 import types_pb2

Span = float | datetime.timedelta
"""A time span: seconds, or a timedelta. Exact to the millisecond."""


def duration(span: Span | None) -> duration_pb2.Duration | None:
    """Return a span as a message, or None for None."""
    if span is None:
        return None
    made = duration_pb2.Duration()
    put_duration(made, span)
    return made


def put_duration(message: duration_pb2.Duration, span: Span) -> None:
    """Write a span into a message."""
    message.FromMilliseconds(round(_seconds(span) * 1000))


def _seconds(span: Span) -> float:
    return span.total_seconds() if isinstance(span, datetime.timedelta) else float(span)


def seconds_of(span: duration_pb2.Duration) -> float:
    """Return a message's span in seconds."""
    return span.seconds + span.nanos / 1e9


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Retry(Record):
    """A retry policy, of a task or of a call within a step. The server fills in fields that are None.

    A call has the same defaults but no `max_losses`: it is repeated as long as its step is.
    """

    max_attempts: int | None = None
    """Failed attempts; 1 means no retry. The server's default: 3."""
    initial_backoff: Span | None = None
    """The back-off before the second attempt. The server's default: 1 s."""
    backoff_multiplier: float | None = None
    """The factor from each back-off to the next. The server's default: 2."""
    max_backoff: Span | None = None
    """The longest back-off. The server's default: 60 s."""
    jitter: float | None = None
    """The part of each back-off that is random. The server's default: 1, full jitter."""
    non_retryable_kinds: Sequence[str] = ()
    """Kinds of failure, such as names of exceptions, that are not retried."""
    max_losses: int | None = None
    """The number of attempts lost with their worker that are repeated. The server's default: 10, or
    0 with `max_attempts` 1."""

    def pause_seconds(self, failures: int, random: float) -> float:
        """Return the seconds to wait after `failures` failures of a call; `random` is from 0 to 1."""
        first = 1.0 if self.initial_backoff is None else _seconds(self.initial_backoff)
        cap = 60.0 if self.max_backoff is None else _seconds(self.max_backoff)
        factor = 2.0 if self.backoff_multiplier is None else self.backoff_multiplier
        jitter = 1.0 if self.jitter is None else self.jitter
        longest = min(cap, first * factor ** min(failures - 1, 100))
        return longest * (1.0 - jitter + jitter * random)

    def message(self) -> types_pb2.RetryPolicy:
        return types_pb2.RetryPolicy(
            max_attempts=self.max_attempts,
            initial_backoff=duration(self.initial_backoff),
            backoff_multiplier=self.backoff_multiplier,
            max_backoff=duration(self.max_backoff),
            jitter=self.jitter,
            non_retryable_kinds=self.non_retryable_kinds,
            max_losses=self.max_losses,
        )


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Budget(Record):
    """A run's limits. 0 or None: no limit."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost_micros: int = 0
    """Millionths of the currency unit that you bill in."""
    tasks: int = 0
    """Tasks, over all plans."""
    wall: Span | None = None
    """Time since the first lease, including pauses."""
    iterations: int = 0
    """Iterations; the run then pauses, while `max_iterations` ends it."""

    def message(self) -> types_pb2.Budget:
        return types_pb2.Budget(
            input_tokens=self.input_tokens,
            output_tokens=self.output_tokens,
            cost_micros=self.cost_micros,
            tasks=self.tasks,
            wall=duration(self.wall),
            iterations=self.iterations,
        )


@dataclass(frozen=True, slots=True, repr=False)
class ChildRun(Record):
    """A run that a task is, in place of a function. It plans with the planner of its queue's workers, or has a `plan`."""

    pipeline: str = ""
    """Empty: the parent's."""
    goal: str = ""
    """Empty: the task's prompt or, without one, the parent's goal."""
    queue: str = ""
    """Empty: the parent's."""
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    max_iterations: int = 0
    """0: the server's default."""
    budget: Budget = Budget()
    """Its limits; tokens and cost are taken from what is left of the parent's budget, all of it where they are 0."""
    follow_pauses: bool = False
    """True: it is paused when the parent is, and goes on with it. Else it goes on meanwhile."""
    reflect_on: Sequence[str] = ()
    """Names of signals that make it reflect at once. Not together with `plan`."""
    plan: Sequence[Task] | None = None
    """Its plan, of tasks that may be child runs, too; None: it plans."""

    def message(self) -> types_pb2.ChildRun:
        return types_pb2.ChildRun(
            pipeline_id=self.pipeline,
            goal=storable(self.goal),
            queue=self.queue,
            labels=self.labels,
            max_iterations=self.max_iterations,
            budget=self.budget.message(),
            follow_pauses=self.follow_pauses,
            reflect_on=self.reflect_on,
            plan=None if self.plan is None else plan_draft(self.plan),
        )


@dataclass(frozen=True, slots=True, repr=False)
class Task(Record):
    """A node of a plan."""

    id: str
    """Unique within the plan: letters, digits and `. _ : / @ + -`, at most 64."""
    type: str = ""
    """The type by which the agent's function is chosen; empty: by role, else the default function."""
    input: object = None
    """The task's input: JSON-like, bytes, a dataclass or a pydantic model."""
    depends_on: Sequence[str] = ()
    """Ids of tasks of this plan that must be settled first, and whose results this task is shown."""
    title: str = ""
    prompt: str = ""
    role: str = ""
    """Only workers of this role get it; empty: any worker of the queue."""
    retry: Retry | None = None
    attempt_timeout: Span | None = None
    """The time limit of one attempt, from its lease."""
    heartbeat_timeout: Span | None = None
    """The lease's length for this task; None: the server's."""
    idle_timeout: Span | None = None
    """The longest that its function may show no activity (`ctx.heartbeat`, chunk or log line); None: no limit."""
    total_timeout: Span | None = None
    """The time limit from the first offer to the end of the last attempt."""
    on_failure: OnFailure = OnFailure.FAIL_RUN
    effect: Effect = Effect.IDEMPOTENT
    idempotency_key: str = ""
    """A key for the systems that the task calls; empty: a key from the run, the task and its plan
    revision. A key of your own also reuses the result of another task with this key, in this run or
    another run of the pipeline."""
    reconcile: bool = False
    """Run the agent's reconcile function when its outcome is unknown."""
    run: ChildRun | None = None
    """The child run that the task is, in place of a function: its end is the task's, and its result the task's
    result. No worker gets the task, so it has no type, role, effect, key, heartbeat or idle time-out. A retry starts
    another child. The child's input is the task's or, where the task depends on others, `{"input": …, "results": {…},
    "failures": {…}}`, these two by task."""
    after_growth: bool = False
    """Depend also on the tasks that those of `depends_on`, and these in turn, add by `Grow`."""
    group: str = ""
    """A name for tasks that another one gathers."""
    gathers: str = ""
    """Depend on all tasks of this group, also on those that are added until the task is offered. A failure of one of them
    doesn't fail the run. Too many failures fail this task with the kind GROUP_FAILED, and its `on_failure` says what
    follows."""
    at_least: int = 0
    """So many completed tasks of the gathered group are enough: the rest of it is skipped, and its workers are notified.
    0: wait for all of them."""
    failures_max: int = 0
    """So many failed tasks of the gathered group are tolerated. 0: none or, with `at_least`, as many as leave enough."""

    def fill(self, spec: types_pb2.TaskSpec) -> None:
        """Write the task into an empty message; leave out the server's defaults."""
        spec.task_id = self.id
        if self.type:
            spec.type = self.type
        if self.title:
            spec.title = storable(self.title)
        if self.prompt:
            spec.prompt = storable(self.prompt)
        if self.role:
            spec.role = self.role
        if self.depends_on:
            spec.depends_on.extend(self.depends_on)
        if self.input is not None and (payload := encode(self.input)) is not None:
            spec.input.CopyFrom(payload)
        if self.retry is not None:
            spec.retry.CopyFrom(self.retry.message())
        spans = (
            self.attempt_timeout,
            self.heartbeat_timeout,
            self.idle_timeout,
            self.total_timeout,
        )
        if spans != _NO_SPANS:
            for name, span in zip(_SPANS, spans, strict=True):
                if span is not None:
                    put_duration(getattr(spec, name), span)
        self._fill_rules(spec)

    def _fill_rules(self, spec: types_pb2.TaskSpec) -> None:
        if self.on_failure != OnFailure.FAIL_RUN:
            spec.on_failure = to_wire(self.on_failure)
        if self.effect != Effect.IDEMPOTENT:
            spec.effect = to_wire(self.effect)
        if self.idempotency_key:
            spec.idempotency_key = self.idempotency_key
        if self.reconcile:
            spec.reconcile = True
        if self.after_growth:
            spec.after_growth = True
        if self.group:
            spec.group = self.group
        if self.gathers:
            spec.gathers = self.gathers
        if self.at_least:
            spec.at_least = self.at_least
        if self.failures_max:
            spec.failures_max = self.failures_max
        if self.run is not None:
            spec.child.CopyFrom(self.run.message())


_SPANS = ("attempt_timeout", "heartbeat_timeout", "idle_timeout", "total_timeout")
_NO_SPANS = (None, None, None, None)
"""The time-outs of most tasks, compared all at once."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A graph of tasks without cycles, and the reason for it."""

    tasks: Sequence[Task]
    reason: str = ""


PlanLike = Plan | Iterable[Task] | types_pb2.PlanDraft
"""Anything that is accepted as a plan: a Plan, plain tasks, or the message itself."""


def plan_draft(plan: PlanLike) -> types_pb2.PlanDraft:
    """Return a plan as a message. Raises TypeError for anything that isn't a plan."""
    if isinstance(plan, types_pb2.PlanDraft):
        return plan
    tasks = list(plan.tasks if isinstance(plan, Plan) else plan)
    others = [type(task).__qualname__ for task in tasks if not isinstance(task, Task)]  # pyright: ignore[reportUnnecessaryIsInstance] - an agent's author may have no type checker
    if others:
        raise TypeError(f"a plan consists of Task, and {others[0]} is none")
    draft = types_pb2.PlanDraft()
    for task in tasks:
        task.fill(draft.tasks.add())
    return draft
