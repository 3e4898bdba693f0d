"""Child runs: runs that a step starts, and whose ends it waits for."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stepwell_client.agent.journal.journal_calls import Calls
from stepwell_client.agent.journal.keys import digest_of
from stepwell_client.enums import RunStatus
from stepwell_client.errors import JournalError
from stepwell_client.records.clean_text import storable
from stepwell_client.records.decisions import NonRetryable
from stepwell_client.records.payloads import decode, encode
from stepwell_client.records.plans import Budget, Task, plan_draft
from stepwell_client.v1 import types_pb2, worker_pb2

OnLoop = Callable[[Coroutine[Any, Any, Any]], Awaitable[Any]]


class ChildFailed(NonRetryable):
    """A child run has no result: it FAILED, was CANCELLED, or could not be started.

    A later attempt at the step finds the same end, so the step isn't retried for it.
    """

    def __init__(self, end: ChildEnd) -> None:
        why = ": ".join(one for one in (end.kind, end.message or end.reason) if one)
        super().__init__(
            f"child run {end.run_id} {end.status}: {why or 'no reason was given'}",
            kind="CHILD_FAILED",
        )
        self.end = end


@dataclass(frozen=True)
class ChildEnd:
    """The end of a child run."""

    run_id: str
    status: RunStatus
    reason: str = ""
    """The words that came with a cancellation, or with the last reflection."""
    kind: str = ""
    """The kind of its failure; empty if it has none."""
    message: str = ""
    """The failure's message."""


class Child:
    """A child run of a step, as `ctx.start_child` returns it. Its methods are awaited in the step's function."""

    def __init__(
        self, calls: Calls, call: worker_pb2.Outcome.SuspendedCall, on_loop: OnLoop
    ) -> None:
        self._calls = calls
        self._call = call
        self._on_loop = on_loop
        self._waiting = asyncio.Lock()

    async def result(self, as_: Any = Any) -> Any:
        """Return the child's result, decoded as `as_`: its synthesis' value or, without one, its tasks' values by id.

        The step is suspended once only waits are left of it, as for `ctx.ask`. Raises ChildFailed if the child has
        no result, JournalError if its results are too large to be brought along, and what `ctx.call` raises.
        """
        end = await self._end()
        found = _end_of(end)
        if found.status is not RunStatus.SUCCEEDED:
            raise ChildFailed(found)
        if end.get("too_large"):
            raise JournalError(
                f"the results of child run {found.run_id} are too large for its parent: keep them elsewhere, and "
                "return where they are"
            )
        if "tasks" in end:
            values = {name: decode(_payload(one), Any) for name, one in end["tasks"].items()}
            return decode(encode(values), as_)
        return decode(_payload(end.get("result")), as_)

    async def wait(self) -> ChildEnd:
        """Return the child's end, whatever it is. Raises what `ctx.call` raises."""
        return _end_of(await self._end())

    async def cancel(self) -> None:
        """Cancel the child, unless it has ended; `wait` then returns its end."""
        await self._on_loop(self._calls.cancel_child(self._call))

    async def _end(self) -> Mapping[str, Any]:
        async def find() -> types_pb2.JournalEntry:
            async with self._waiting:  # One wait for a call: it may be awaited in several places.
                return await self._calls.end_of(self._call)

        return json.loads((await self._on_loop(find())).value.data)


def child_call(
    goal: str,
    *,
    pipeline: str,
    queue: str,
    input: object,  # noqa: A002 - as in Client.start
    labels: Mapping[str, str] | None,
    max_iterations: int,
    budget: Budget | None,
    plan: Sequence[Task] | None,
    leave: bool,
) -> tuple[worker_pb2.Outcome.SuspendedCall, str]:
    """Return the call that starts a child, and the digest of its arguments."""
    wait = worker_pb2.Outcome.AwaitChild(
        pipeline_id=pipeline,
        queue=queue,
        goal=storable(goal),
        input=encode(input),
        labels=labels,
        max_iterations=max_iterations,
        budget=budget.message() if budget else None,
        plan=plan_draft(plan) if plan is not None else None,
        leave=leave,
    )
    identity = worker_pb2.Outcome.AwaitChild()
    identity.CopyFrom(wait)
    for name in ("labels", "budget"):  # They may depend on when the step runs.
        identity.ClearField(name)
    data = identity.SerializeToString(deterministic=True)
    digest = digest_of("child", base64.b64encode(data).decode())
    return worker_pb2.Outcome.SuspendedCall(child=wait), digest


def _payload(found: Mapping[str, str] | None) -> types_pb2.Payload | None:
    if found is None:
        return None
    data = base64.b64decode(found.get("data", ""))
    return types_pb2.Payload(data=data, media_type=found.get("media_type", "application/json"))


def _end_of(end: Mapping[str, Any]) -> ChildEnd:
    failure = end.get("failure", {})
    return ChildEnd(
        run_id=end["run_id"],
        status=RunStatus[end["status"]],
        reason=end.get("reason", ""),
        kind=failure.get("kind", ""),
        message=failure.get("message", ""),
    )
