"""The waits of a step, which is suspended when only waits are left.

A branch that waits for long is held here. While a call of another branch runs, the step keeps its
worker. Once only waits are left, all of them go into one outcome, and each branch is ended by
Suspended. Work outside of calls isn't seen here, so a short time must pass in quiet first.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager, suppress

from stepwell_client.agent.activities import Activities, Activity
from stepwell_client.agent.failures import find_in
from stepwell_client.agent.journal.journal import WAITS_BYTES_MAX, WAITS_MAX
from stepwell_client.agent.step_output import AttemptRecord
from stepwell_client.errors import JournalError, LeaseLost, Suspended
from stepwell_client.link.runtime import Runtime
from stepwell_client.v1 import worker_pb2

SHORT_SECONDS = 2.0
"""The longest sleep that is waited for in place."""
QUIET_SECONDS = 0.1
"""The time without beginnings and ends before a step is suspended."""

_log = logging.getLogger("stepwell_client.execution")


class Wait:
    """One long wait of a step."""

    __slots__ = ("future", "is_pause", "key", "opens", "until", "was_opened")

    def __init__(
        self,
        key: str,
        *,
        until: float = math.inf,
        opens: worker_pb2.Outcome.SuspendedCall | None = None,
        is_pause: bool = False,
    ) -> None:
        self.key = key
        self.until = until
        """The end of a sleep, by the runtime's clock; infinite if it isn't a sleep."""
        self.opens = opens
        """The thing that it waits for from outside: an answer, a signal, a child run. A wait without this and without an end is
        for the budget."""
        self.was_opened = False
        """True if the server has been told of it, and tells its end."""
        self.is_pause = is_pause
        """True for the pause before a call's next try: for pauses alone the step keeps its worker."""
        self.future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def message(self, now: float) -> worker_pb2.Outcome.SuspendedCall:
        """Return the wait as a part of an outcome."""
        if self.opens is not None:
            return self.opens
        call = worker_pb2.Outcome.SuspendedCall(call=self.key)
        if math.isinf(self.until):
            call.budget.SetInParent()
        else:
            call.sleep.remaining.FromMilliseconds(math.ceil(max(0.0, self.until - now) * 1_000))
        return call


class Waits:
    """The waits of one attempt at a step."""

    def __init__(self, record: AttemptRecord, activities: Activities, runtime: Runtime) -> None:
        self.suspension: worker_pb2.Outcome.Suspended | None = None
        """The outcome of the attempt once it is suspended."""
        self._record = record
        self._activities = activities
        self._runtime = runtime
        self._open: dict[str, tuple[Wait, Activity | None]] = {}
        self._ended: Callable[[], BaseException] | None = None
        self._watching = False

    def check(self) -> None:
        """Raise if the step goes no further: Suspended, LeaseLost, or the reason given to `end`."""
        if self._record.suspended:
            raise Suspended
        if self._record.cancelled:
            raise LeaseLost("the step is not wanted any more")
        if self._ended is not None:
            raise self._ended()

    async def rest(self, seconds: float, within: Activity | None) -> None:
        """Wait in place."""
        activity = Activity(within)
        self._activities.begin(activity)
        try:
            await self._runtime.sleep(seconds)
        finally:
            self.over(activity)
        self.check()

    async def pause(self, key: str, seconds: float, activity: Activity | None) -> None:
        """Wait before the next try of a call. Its `activity` doesn't count as work meanwhile,
        unless the wait is short.

        Raises Suspended if the step is handed back for other branches' waits.
        """
        wait = Wait(key, until=self._runtime.monotonic() + seconds, is_pause=True)
        sleep = self._runtime.spawn(self._runtime.sleep(seconds), name="pause of a call")
        with self._opened(wait, activity if seconds > SHORT_SECONDS else None):
            try:
                await asyncio.wait((sleep, wait.future), return_when=asyncio.FIRST_COMPLETED)
            finally:
                sleep.cancel()
        self.check()

    async def wait(self, wait: Wait, within: Activity | None) -> None:
        """Return when the wait is over while the step still runs.

        Raises Suspended if the step is handed back meanwhile.
        """
        left = None if math.isinf(wait.until) else wait.until - self._runtime.monotonic()
        with self._opened(wait, within), suppress(TimeoutError):
            async with asyncio.timeout(left):
                await wait.future
        self.check()

    @contextmanager
    def _opened(self, wait: Wait, within: Activity | None) -> Generator[None]:
        self._open[wait.key] = (wait, within)
        if within is not None:
            within.children += 1
        self._moved()
        try:
            yield
        finally:
            del self._open[wait.key]
            if within is not None:
                within.children -= 1
            self._moved()

    def over(self, activity: Activity) -> None:
        """Note that an activity has ended, after which only waits may be left."""
        self._activities.end(activity)
        self._watch()

    def budget_raised(self) -> None:
        """Continue the calls that wait for a budget."""
        for wait, _ in self._open.values():
            if wait.opens is None and math.isinf(wait.until) and not wait.future.done():
                wait.future.set_result(None)

    def call_ended(self, key: str) -> None:
        """Continue a call that waits for something from outside: its end is in the journal."""
        wait, _ = self._open.get(key, (None, None))
        if wait is not None and wait.opens is not None and not wait.future.done():
            wait.future.set_result(None)

    def begin(self) -> None:
        """Continue the calls that wait for a budget, because the step begins and can no longer be handed back.

        Raises JournalError if a branch waits for something else.
        """
        for wait, _ in self._open.values():
            if not wait.is_pause and (wait.opens is not None or wait.until < math.inf):
                raise JournalError(
                    f"ctx.begin while another branch of the task waits at {wait.key!r}: the task would be "
                    "handed back while nobody knows what became of it. Begin after that"
                )
        self.budget_raised()

    def end(self, reason: Callable[[], BaseException]) -> None:
        """End all waits, and let nothing of the step begin any more: everything raises what `reason` makes."""
        self._ended = self._ended or reason
        self._raise(reason)

    def _moved(self) -> None:
        self._activities.moves += 1
        self._watch()

    def _watch(self) -> None:
        if not (self._watching or self._record.suspended or self._ended) and self._may_suspend:
            self._watching = True
            self._runtime.spawn(self._suspend_in_quiet(), name="waits of a step")

    @property
    def _may_suspend(self) -> bool:
        # Calls that waited for the budget when their task began are open until they continue.
        waits = any(not wait.is_pause for wait, _ in self._open.values())
        return waits and not self._record.begun

    async def _suspend_in_quiet(self) -> None:
        """Suspend the step after a quiet time; a later beginning or end starts the time again."""
        moves = -1
        while moves != self._activities.moves:
            moves = self._activities.moves
            await self._runtime.sleep(QUIET_SECONDS)
        self._watching = False
        if self._activities.work or self._ended is not None or not self._may_suspend:
            return
        now = self._runtime.monotonic()
        waits = [wait for wait, _ in self._open.values()]
        if min(wait.until for wait in waits) - now > SHORT_SECONDS:
            listed = _with_room(waits, now)
            more = len(listed) < len(waits)
            self.suspension = worker_pb2.Outcome.Suspended(waits=listed, more=more)
            self._record.suspended = True
            self._raise(Suspended)

    def _raise(self, reason: Callable[[], BaseException]) -> None:
        for wait, _ in self._open.values():
            if not wait.future.done():
                wait.future.set_exception(reason())
                # Its task may also be cancelled, and never read the exception.
                wait.future.exception()


def _with_room(waits: Collection[Wait], now: float) -> list[worker_pb2.Outcome.SuspendedCall]:
    """Return the waits that fit into a suspension, as parts of its outcome.

    The sleep that ends first comes first, as it wakes the step for all sleeps, and one budget wait,
    as it stands for all. What the server doesn't know of follows in the order of keys, so that a later attempt
    doesn't leave out an open question; then what it has opened, as its end wakes the step in any case.
    """
    sleeps = sorted((one for one in waits if one.until < math.inf), key=lambda one: one.until)
    questions = sorted(
        (one for one in waits if one.opens is not None), key=lambda one: (one.was_opened, one.key)
    )
    budgets = [one for one in waits if one.opens is None and one.until == math.inf]
    ordered = [*sleeps[:1], *budgets[:1], *questions, *sleeps[1:], *budgets[1:]]
    found: list[worker_pb2.Outcome.SuspendedCall] = []
    size = 0
    for one in ordered[:WAITS_MAX]:
        message = one.message(now)
        size += message.ByteSize()
        if found and size > WAITS_BYTES_MAX:
            break
        found.append(message)
    return found


def note_swallowed(what: str, error: BaseException | None) -> None:
    """Log that a function of a suspended step ended otherwise than by Suspended."""
    if isinstance(error, asyncio.CancelledError) or find_in(error, Suspended) is not None:
        return
    ended = "returned" if error is None else f"raised {type(error).__name__}"
    _log.warning(
        "%s caught Suspended and %s: the step is suspended all the same; let Suspended through",
        what,
        ended,
    )
