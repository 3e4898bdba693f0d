"""Decisions of an agent's function, returned or raised instead of a plain value.

A task may return Grow. A reflection returns Finish, Continue or Replan. A reconcile function returns Done, NotDone or
Undecided. Any step may raise Failure, NonRetryable (a Failure that is not retried) or Release; a
task also NeedsAnswer. Any other exception is also a failure, whose kind is the name of its class.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stepwell_client.enums import ExpiryAction, QuestionKind, to_wire
from stepwell_client.records.clean_text import storable
from stepwell_client.records.payloads import encode
from stepwell_client.records.plans import PlanLike, Span, duration, plan_draft
from stepwell_client.v1 import types_pb2, worker_pb2


@dataclass(frozen=True, slots=True)
class Finish:
    """Stop iterating: continue with the synthesis, or end."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class Continue:
    """Continue with another iteration's plan; without one, after a signal that came early, with the rest of the present plan."""

    plan: PlanLike = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Replan:
    """Run the plan function again, which reads the reason from `ctx.reason`."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class Grow:
    """A task's result, with tasks to add to the plan in force, in the same commit.

    They may depend on this task, on others of the plan and on one another. A task that the plan has with the same
    definition stays; one that it has with another definition makes the growth invalid, and the attempt fails as
    PLAN_INVALID. Tasks with `after_growth` that depend on this task, and have not begun, wait for what is added.
    """

    tasks: PlanLike
    result: object = None
    """Any value that a task may return."""


Decision = Finish | Continue | Replan


def reflected(decision: Decision) -> worker_pb2.Outcome.Reflected:
    """Return a reflection's decision as a message. Raises TypeError for anything else."""
    made = worker_pb2.Outcome.Reflected
    if isinstance(decision, Finish):
        return made(decision=types_pb2.DECISION_FINISH, reason=storable(decision.reason))
    if isinstance(decision, Replan):
        return made(decision=types_pb2.DECISION_REPLAN, reason=storable(decision.reason))
    if isinstance(decision, Continue):  # pyright: ignore[reportUnnecessaryIsInstance] - an agent's author may have no type checker
        draft = plan_draft(decision.plan)
        return made(
            decision=types_pb2.DECISION_CONTINUE, plan=draft, reason=storable(decision.reason)
        )
    raise TypeError(
        f"a reflection returns Finish, Continue or Replan, and this one returned a "
        f"{type(decision).__qualname__}"
    )


@dataclass(frozen=True, slots=True)
class Done:
    """The effect took place: the task is completed, with this result."""

    value: object = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class NotDone:
    """The effect did not take place: the task runs again, and no attempt is spent."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class Undecided:
    """The function can't find out whether the effect took place: a late outcome or a person decides."""

    reason: str = ""


ReconcileDecision = Done | NotDone | Undecided


def reconciled(decision: ReconcileDecision) -> worker_pb2.Outcome.Reconciled:
    """Return a reconcile function's decision as a message. Raises TypeError for anything else."""
    made = worker_pb2.Outcome.Reconciled
    if isinstance(decision, Done):
        result = encode(decision.value)
        return made(finding=types_pb2.FINDING_DONE, result=result, reason=storable(decision.reason))
    if isinstance(decision, NotDone):
        return made(finding=types_pb2.FINDING_NOT_DONE, reason=storable(decision.reason))
    if isinstance(decision, Undecided):  # pyright: ignore[reportUnnecessaryIsInstance] - an agent's author may have no type checker
        return made(finding=types_pb2.FINDING_UNDECIDED, reason=storable(decision.reason))
    raise TypeError(
        f"a reconcile function returns Done, NotDone or Undecided, and this one returned a "
        f"{type(decision).__qualname__}"
    )


class Failure(Exception):
    """The attempt failed. Retry policies match `kind`."""

    def __init__(
        self,
        message: str,
        *,
        kind: str = "",
        retryable: bool | None = None,
        details: str = "",
        retry_after: Span | None = None,
    ) -> None:
        """`retry_after`: seconds, or a timedelta; the next attempt comes no sooner, as with an API's Retry-After."""
        super().__init__(message)
        self.message = message
        self.kind = kind or type(self).__name__
        self.retryable = retryable
        self.details = details
        self.retry_after = duration(retry_after)
        if self.retry_after is not None and self.retry_after.ToMilliseconds() < 0:
            raise ValueError(f"retry_after is {retry_after}; it is a time from now on")


class NonRetryable(Failure):
    """The attempt failed, and another attempt would fail, too."""

    def __init__(self, message: str, *, kind: str = "", details: str = "") -> None:
        super().__init__(message, kind=kind, retryable=False, details=details)


class NeedsAnswer(Exception):
    """A task asks a person. The task runs again with the answer in `ctx.answer()`."""

    def __init__(
        self,
        prompt: str,
        *,
        kind: QuestionKind = QuestionKind.VALUE,
        schema: str | Mapping[str, Any] = "",
        choices: Sequence[str] = (),
        expires: Span | None = None,
        on_expiry: ExpiryAction = ExpiryAction.WAIT,
    ) -> None:
        """`schema`: a JSON schema for the answer, as text or as a dict; empty: any answer."""
        super().__init__(prompt)
        self.prompt = prompt
        self.kind = kind
        self.schema = schema if isinstance(schema, str) else json.dumps(schema)
        self.choices = choices
        self.expires = expires
        self.on_expiry = on_expiry

    def outcome(self) -> worker_pb2.Outcome.NeedsAnswer:
        return worker_pb2.Outcome.NeedsAnswer(
            kind=to_wire(self.kind),
            prompt=storable(self.prompt),
            schema=storable(self.schema),
            choices=self.choices,
            expires=duration(self.expires),
            on_expiry=to_wire(self.on_expiry),
        )


class Release(Exception):
    """Hands the step back undone, for another worker. No attempt is spent."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
