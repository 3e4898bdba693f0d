"""An asyncio event loop whose time is a number: when nothing can go on, it is simply later.

No thread, no socket, no waiting. `asyncio.timeout`, `sleep`, events and tasks work on it as on any
loop; what would need the world outside fails. A loop that has nothing scheduled has stalled, and one
that turns for ever without time passing spins: both raise instead of hanging.

It does in few lines what the standard library's loop does in many, because a simulation is little else
than turns of the loop. And it is strict about order: timers of one moment go off in the order in which
they were set.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextvars import copy_context
from heapq import heappop, heappush
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

SPINS_MAX = 20_000
"""Turns of the loop in one instant; more than any honest instant needs."""


class Stalled(Exception):
    """Nothing is ready and nothing is scheduled: all that still waits will wait for ever."""


class Spinning(Exception):
    """The loop turns and turns, and no time passes."""


class _Call(msgspec.Struct, eq=False):
    """Something to be called, now or later; cancelled, it is called never.

    A handle of asyncio in all that is used of one. It is no subclass: to make one of those takes
    four times as long, and a simulation makes one for each of its steps.
    """

    when_s: float
    callback: Any
    args: Any
    context: contextvars.Context
    is_cancelled: bool = False

    def cancel(self) -> None:
        """Let go of what it would have called."""
        self.is_cancelled = True
        self.callback = self.args = None

    def cancelled(self) -> bool:
        """Return whether it was cancelled."""
        return self.is_cancelled

    def when(self) -> float:
        """Return the moment it is for."""
        return self.when_s


_handle: Any = _Call


class VirtualLoop(asyncio.BaseEventLoop):
    """The event loop of a simulation. Its time starts at 0."""

    _ready: deque[_Call]
    _stopping: bool

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self._timers: list[tuple[float, int, _Call]] = []
        self._orders = 0
        self._spins = 0

    def time(self) -> float:
        """Return the seconds that have passed in the simulation."""
        return self.now

    # Never. Each future and each task asks, and nothing is false as fast as `bool` without an argument.
    get_debug = staticmethod(bool)  # pyright: ignore[reportAssignmentType] - called without one

    def call_soon(
        self,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        """Have it called in the next turn."""
        call = _handle(self.now, callback, args, copy_context() if context is None else context)
        self._ready.append(call)
        return call

    call_soon_threadsafe = call_soon
    """There is one thread. The parent's own puts another kind of call among those that are ready."""

    def call_later(
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """Have it called in so many seconds."""
        return self.call_at(self.now + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """Have it called at this moment."""
        call = _handle(when, callback, args, copy_context() if context is None else context)
        self._orders += 1
        heappush(self._timers, (when, self._orders, call))
        return call

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: object = None,
        context: contextvars.Context | None = None,
    ) -> asyncio.Task[T]:
        """Start a task."""
        return asyncio.Task(coro, loop=self, name=str(name), context=context)

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:
        """Refuse: a thread has no place in virtual time."""
        del executor, args
        raise RuntimeError(f"a simulation has no threads: {func!r}")

    def _run_once(self) -> None:
        """Take turns until the loop is to stop: everything that is ready, or else whatever is due next.

        The parent has one turn in here. All of them in one call are fewer calls.
        """
        ready, timers = self._ready, self._timers
        while True:
            if ready or self._stopping:
                self._spins += 1
                if self._spins > SPINS_MAX:
                    self._spins = 0
                    raise Spinning(f"{SPINS_MAX} turns at {self.now:.6f} s")
            else:
                self._let_time_pass()
            now = self.now
            while timers and timers[0][0] <= now:
                ready.append(heappop(timers)[2])
            for _ in range(len(ready)):
                call = ready.popleft()
                if call.is_cancelled:
                    continue
                args = call.args
                try:
                    # Nearly all have one argument, and to spread a tuple costs as much as the call.
                    if len(args) == 1:
                        call.context.run(call.callback, args[0])
                    else:
                        call.context.run(call.callback, *args)
                except (SystemExit, KeyboardInterrupt):
                    raise
                except BaseException as error:
                    context = {"message": f"a callback broke: {call!r}", "exception": error}
                    self.call_exception_handler(context)
            if self._stopping:
                return

    def _let_time_pass(self) -> None:
        timers = self._timers
        while timers and timers[0][2].is_cancelled:
            heappop(timers)
        if not timers:
            raise Stalled("nothing is scheduled any more")
        if timers[0][0] > self.now:
            self.now = timers[0][0]
            self._spins = 0

    def _write_to_self(self) -> None:
        """Do nothing: no thread waits for the loop."""
