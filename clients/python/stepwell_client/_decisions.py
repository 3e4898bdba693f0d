"""What an agent's function may answer besides a value: reflections return it, any step may raise it.

Returned by a reflection: Finish, Continue, Replan; by a reconcile function: Done, NotDone, Undecided. Raised by any step: Failure (and NonRetryable, a
Failure that is not tried again) and Release; by a task also NeedsInput. Any other exception is a
failure too, of the kind that its class is named.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stepwell_client._enums import ExpiryAction, InputKind, wire
from stepwell_client._payloads import encode
from stepwell_client._plans import Planned, Span, draft, duration
from stepwell_client.v1 import types_pb2, worker_pb2


@dataclass(frozen=True, slots=True)
class Finish:
    """Stop iterating: on to the synthesis, or to the end."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class Continue:
    """Go on with another plan."""

    plan: Planned
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Replan:
    """Have the plan function asked again; it finds the reason in `ctx.reason`."""

    reason: str = ""


Decision = Finish | Continue | Replan


def reflected(decision: Decision) -> worker_pb2.Outcome.Reflected:
    """Return a reflection's decision as a message. Raises TypeError where it is none."""
    made = worker_pb2.Outcome.Reflected
    if isinstance(decision, Finish):
        return made(decision=types_pb2.DECISION_FINISH, reason=decision.reason)
    if isinstance(decision, Replan):
        return made(decision=types_pb2.DECISION_REPLAN, reason=decision.reason)
    if isinstance(decision, Continue):  # pyright: ignore[reportUnnecessaryIsInstance] - an agent's author may have no type checker
        from_plan = draft(decision.plan)
        return made(decision=types_pb2.DECISION_CONTINUE, plan=from_plan, reason=decision.reason)
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
    """The effect did not take place: the task is run again, and no attempt is spent."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class Undecided:
    """It can't be told whether the effect took place: a late outcome or a person will say."""

    reason: str = ""


FoundOut = Done | NotDone | Undecided


def reconciled(found: FoundOut) -> worker_pb2.Outcome.Reconciled:
    """Return what was found out about a task as a message. Raises TypeError where it is nothing."""
    made = worker_pb2.Outcome.Reconciled
    if isinstance(found, Done):
        result = encode(found.value)
        return made(finding=types_pb2.FINDING_DONE, result=result, reason=found.reason)
    if isinstance(found, NotDone):
        return made(finding=types_pb2.FINDING_NOT_DONE, reason=found.reason)
    if isinstance(found, Undecided):  # pyright: ignore[reportUnnecessaryIsInstance] - an agent's author may have no type checker
        return made(finding=types_pb2.FINDING_UNDECIDED, reason=found.reason)
    raise TypeError(
        f"a reconcile function returns Done, NotDone or Undecided, and this one returned a "
        f"{type(found).__qualname__}"
    )


class Failure(Exception):
    """The attempt failed. Retry policies match `kind`."""

    def __init__(
        self, message: str, *, kind: str = "", retryable: bool | None = None, details: str = ""
    ) -> None:
        super().__init__(message)
        self.message = message
        self.kind = kind or type(self).__name__
        self.retryable = retryable
        self.details = details


class NonRetryable(Failure):
    """The attempt failed, and no other would do better."""

    def __init__(self, message: str, *, kind: str = "", details: str = "") -> None:
        super().__init__(message, kind=kind, retryable=False, details=details)


class NeedsInput(Exception):
    """A person must be asked. The task runs again with the answer in `ctx.answer()`."""

    def __init__(
        self,
        prompt: str,
        *,
        kind: InputKind = InputKind.INPUT,
        schema: str | Mapping[str, Any] = "",
        choices: Sequence[str] = (),
        expires: Span | None = None,
        on_expiry: ExpiryAction = ExpiryAction.WAIT,
    ) -> None:
        """`schema`: a JSON schema for the answer, as text or as a dict; empty: anything."""
        super().__init__(prompt)
        self.prompt = prompt
        self.kind = kind
        self.schema = schema if isinstance(schema, str) else json.dumps(schema)
        self.choices = choices
        self.expires = expires
        self.on_expiry = on_expiry

    def outcome(self) -> worker_pb2.Outcome.NeedsInput:
        return worker_pb2.Outcome.NeedsInput(
            kind=wire(self.kind),
            prompt=self.prompt,
            schema=self.schema,
            choices=self.choices,
            expires=duration(self.expires),
            on_expiry=wire(self.on_expiry),
        )


class Release(Exception):
    """Hand the step back undone, to be done by another worker. It spends no attempt."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
