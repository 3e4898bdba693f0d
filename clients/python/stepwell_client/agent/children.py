"""Child runs: runs that a step starts, and whose ends it waits for."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict, Unpack

from stepwell_client.agent.journal.context import JournalContext
from stepwell_client.agent.journal.journal import WAITS_BYTES_MAX
from stepwell_client.agent.journal.journal_calls import Calls
from stepwell_client.agent.journal.keys import digest_of
from stepwell_client.enums import RunStatus
from stepwell_client.errors import JournalError
from stepwell_client.options import takes
from stepwell_client.records.clean_text import storable
from stepwell_client.records.decisions import NonRetryable
from stepwell_client.records.payloads import decode, encode
from stepwell_client.records.plans import Budget, Task, plan_draft
from stepwell_client.v1 import types_pb2, worker_pb2

OnLoop = Callable[[Coroutine[Any, Any, Any]], Awaitable[Any]]
InThread = Callable[[Callable[[], Coroutine[Any, Any, Any]]], Any]
_CHILD_BYTES_MAX = WAITS_BYTES_MAX - 1024
"""The most bytes of a child's goal, input, plan and options; the message that has them names the call, too."""


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
    """A child run of a step, as `ctx.start_child` returns it. Its methods are called in the step's function."""

    def __init__(
        self,
        calls: Calls,
        call: worker_pb2.Outcome.SuspendedCall,
        run_id: str,
        on_loop: OnLoop,
        in_thread: InThread,
    ) -> None:
        self.run_id = run_id
        """The child's id, the same in all attempts at the step: for logs and links."""
        self._calls = calls
        self._call = call
        self._on_loop = on_loop
        self._in_thread = in_thread
        self._waiting = asyncio.Lock()

    async def result(self, as_: Any = Any) -> Any:
        """Return the child's result, decoded as `as_`: its synthesis' value or, without one, its tasks' values by id.

        The step is suspended once only waits are left of it, as for `ctx.ask`. Raises ChildFailed if the child has
        no result, JournalError if its results are too large to be brought along, and what `ctx.call` raises.
        """
        return _result_of(await self._on_loop(self._end()), as_)

    def result_sync(self, as_: Any = Any) -> Any:
        """Return the child's result, from a thread; see `result`."""
        return _result_of(self._in_thread(self._end), as_)

    async def wait(self) -> ChildEnd:
        """Return the child's end, whatever it is. Raises what `ctx.call` raises."""
        return _end_of(await self._on_loop(self._end()))

    def wait_sync(self) -> ChildEnd:
        """Return the child's end, from a thread; see `wait`."""
        return _end_of(self._in_thread(self._end))

    async def signal(self, name: str, value: object = None, *, key: str | None = None) -> None:
        """Send the child a signal, once for all attempts at the step, and return when the child has it.

        A call is identified as `ctx.call` identifies one, by the child, the name and the value, or by `key`. Raises
        NonRetryable if the child can't take it: with kind CHILD_ENDED or RUN_ENDED it has ended, with SIGNALS_FULL it keeps
        too many; and what `ctx.receive` raises but TimeoutError.
        """
        payload = encode(value)
        await self._on_loop(self._calls.signal_child(self._call, self.run_id, name, payload, key))

    def signal_sync(self, name: str, value: object = None, *, key: str | None = None) -> None:
        """Send the child a signal, from a thread; see `signal`."""
        payload = encode(value)
        self._in_thread(
            lambda: self._calls.signal_child(self._call, self.run_id, name, payload, key)
        )

    async def cancel(self) -> None:
        """Cancel the child, unless it has ended; `wait` then returns its end."""
        await self._on_loop(self._calls.cancel_child(self._call))

    def cancel_sync(self) -> None:
        """Cancel the child, from a thread; see `cancel`."""
        self._in_thread(lambda: self._calls.cancel_child(self._call))

    async def _end(self) -> Mapping[str, Any]:
        async with self._waiting:  # One wait for a call: it may be awaited in several places.
            end = await self._calls.end_of(self._call)
        return json.loads(end.value.data)


class ChildOptions(TypedDict, total=False):
    """Options of a child run besides its goal."""

    pipeline: str
    """The kind of run; default: the parent's."""
    queue: str
    """The queue in which its steps wait for workers; default: the parent's."""
    input: object
    """The child's input, which each of its steps is shown."""
    plan: Sequence[Task] | None
    """Its plan; without one it plans."""
    labels: Mapping[str, str] | None
    """Labels by which it can be found; their names don't begin with `stepwell.`."""
    budget: Budget | None
    """The limits at which it pauses. Tokens and cost are taken from what is left of the parent's budget; default: all that
    is left there."""
    max_iterations: int
    """The most iterations; 0: the default of a run."""
    leave: bool
    """True: it goes on after the step's end. Else it is cancelled then."""
    follow_pauses: bool
    """True: it is paused when the parent is, and goes on with it, until the step ends. Else it goes on meanwhile."""
    reflect_on: Sequence[str]
    """Names of signals that make the child reflect at once, as for a start; not together with `plan`."""
    key: str | None
    """Identifies the call within the step, as for `call`."""


class ChildContext(JournalContext):
    """The part of a step's context that starts child runs. All methods may be used from the step's threads."""

    @takes(ChildOptions)
    async def start_child(self, goal: str = "", **options: Unpack[ChildOptions]) -> Child:
        """Start a run of which this step is the parent, and return it once the start is durable.

        A call is identified as `call` identifies one: every attempt at the step finds the same child. When the step
        ends, its children that haven't ended are cancelled, unless they were started with `leave`.

        Raises:
            NonRetryable: a limit, or an option that isn't valid; the kind is CHILD_TOO_DEEP, TOO_MANY_CHILDREN,
                CHILD_BUDGET, CHILD_TOO_LARGE, TOO_MANY_LETTERS, LABELS_INVALID, PLAN_INVALID or REFLECT_ON_INVALID.
            JournalError, JournalMismatch, Suspended, LeaseLost: as of `call`.
        """
        return await self._on_loop(self._start_child(_wait_of(goal, options), options.get("key")))

    @takes(ChildOptions)
    def start_child_sync(self, goal: str = "", **options: Unpack[ChildOptions]) -> Child:
        """Start a child run, from a thread; see `start_child`."""
        given = _wait_of(goal, options)
        return self._wait(lambda: self._start_child(given, options.get("key")))

    async def _start_child(self, given: worker_pb2.Outcome.AwaitChild, key: str | None) -> Child:
        if (size := given.ByteSize()) > _CHILD_BYTES_MAX:
            what = f"goal, input and plan have {size:,} bytes; {_CHILD_BYTES_MAX:,} are the most"
            raise NonRetryable(f"no child run can be started: {what}", kind="CHILD_TOO_LARGE")
        if given.HasField("plan") and not given.plan.tasks:
            what = "a plan has at least one task; without a plan the child plans"
            raise NonRetryable(f"no child run can be started: plan: {what}", kind="PLAN_INVALID")
        wait = worker_pb2.Outcome.SuspendedCall(child=given)
        run_id = await self._calls.start_child(_digest_of(given), key, wait)
        return Child(self._calls, wait, run_id, self._on_loop, self._wait)


def _wait_of(goal: str, options: ChildOptions) -> worker_pb2.Outcome.AwaitChild:
    """Return what a call that starts a child waits for."""
    budget, plan = options.get("budget"), options.get("plan")
    return worker_pb2.Outcome.AwaitChild(
        pipeline_id=options.get("pipeline", ""),
        queue=options.get("queue", ""),
        goal=storable(goal),
        input=encode(options.get("input")),
        labels=options.get("labels"),
        max_iterations=options.get("max_iterations", 0),
        budget=budget.message() if budget else None,
        plan=plan_draft(plan) if plan is not None else None,
        leave=options.get("leave", False),
        follow_pauses=options.get("follow_pauses", False),
        reflect_on=options.get("reflect_on", ()),
    )


def _digest_of(given: worker_pb2.Outcome.AwaitChild) -> str:
    identity = worker_pb2.Outcome.AwaitChild()
    identity.CopyFrom(given)
    for name in ("labels", "budget"):  # They may depend on when the step runs.
        identity.ClearField(name)
    data = identity.SerializeToString(deterministic=True)
    return digest_of("child", base64.b64encode(data).decode())


def _result_of(end: Mapping[str, Any], as_: Any) -> Any:
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
        # Without a type each value is as its task returned it, bytes included, which JSON has no form for.
        return values if as_ is Any else decode(encode(values), as_)
    return decode(_payload(end.get("result")), as_)


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
