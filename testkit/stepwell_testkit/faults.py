"""A store that fails as real stores do: it refuses calls, times out after doing them, is slow, does
them twice, or is cut off.

The faults are drawn from the runtime's random numbers, so a seeded runtime repeats them. The inner
store always gets legal calls, and the caller always gets answers that the port allows.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from enum import StrEnum
from functools import partial
from typing import Any, NamedTuple, TypeVar

from stepwell.core.port import Commit, Hint, Runtime, Store
from stepwell.core.records.errors import OutcomeUnknown, StoreError, StoreUnavailable
from stepwell_testkit.proxy import StoreProxy

T = TypeVar("T")

_MAY_BE_UNKNOWN = frozenset({"commit", "write_journal"})


class Mode(StrEnum):
    """A kind of fault."""

    REFUSE = "refuse"
    """StoreUnavailable; nothing was done."""
    TIME_OUT = "time_out"
    """The call is done (commits also partly or not at all), and OutcomeUnknown is raised.

    Methods other than commit and `write_journal` raise StoreUnavailable, because they may be
    repeated without harm.
    """
    DELAY = "delay"
    """A delay before the call, or after it."""
    TWICE = "twice"
    """The call is done twice, as by a network that repeats messages; the second answer counts."""
    CUT = "cut"
    """The connection breaks during the call: the caller notices at once, or gives up after a while.

    The call is lost on its way, is aborted, or continues unseen and may be done after a repetition.
    Hints are lost until the connection is back, and then anything may have changed.
    """


class Faults(NamedTuple):
    """The probability of each kind of fault, from 0 to 1; together at most 1."""

    refuse: float = 0.0
    time_out: float = 0.0
    delay: float = 0.0
    twice: float = 0.0
    cut: float = 0.0
    delay_ms_max: int = 50
    silence_ms: int = 0
    """The time after which a caller gives up if its connection was cut silently, as half of them are; 0: none."""
    lost_hints: float = 0.0
    """The share of hints that are lost."""
    methods: frozenset[str] = frozenset()
    """The affected methods; empty: all but `describe`."""


class FaultyStore(StoreProxy):
    """Another store, with faults. `faults` may be changed at any time."""

    def __init__(self, inner: Store, runtime: Runtime, faults: Faults | None = None) -> None:
        super().__init__(inner)
        self._runtime = runtime
        self.faults = faults or Faults()
        self.dead = False
        self._stuck = False
        """True if the store is killed or frozen, so that no call continues."""
        self.seen: Counter[str] = Counter()
        """Counts of each mode by method: `commit:time_out`."""
        self._awake = asyncio.Event()
        self._awake.set()
        self._stops: list[Callable[[], None]] = []
        self._notified: list[Hint] = []
        self._cuts = 0
        """The number of connections that are broken now."""

    @property
    def faults(self) -> Faults:
        """The current probabilities."""
        return self._faults

    @faults.setter
    def faults(self, faults: Faults) -> None:
        self._faults = faults
        # In order, and only modes with a probability, because each call iterates over them.
        shares = ((mode, float(getattr(faults, mode))) for mode in Mode)
        self._shares = tuple((mode, share) for mode, share in shares if share)

    def kill(self) -> None:
        """From now on no call reaches the store or returns, as if its process were gone."""
        self.dead = self._stuck = True
        for stop in self._stops:
            stop()

    def freeze(self) -> None:
        """Hold every call until `thaw`, as a stopped process or a stuck connection does."""
        self._stuck = True
        self._awake.clear()

    def thaw(self) -> None:
        """Continue the held calls."""
        self._stuck = self.dead
        self._awake.set()

    def subscribe(self, hint: Hint) -> Callable[[], None]:
        def notified(tenant_id: str, run_id: str, version: int) -> None:
            lost = self._faults.lost_hints
            if lost and self._runtime.random() < lost:
                self.seen["hint:lost"] += 1
            elif self._cuts:
                self.seen["hint:cut"] += 1
            elif not self.dead:
                hint(tenant_id, run_id, version)

        stop_inner = self.inner.subscribe(notified)
        self._notified.append(notified)

        def stop() -> None:
            stop_inner()
            if notified in self._notified:
                self._notified.remove(notified)

        self._stops.append(stop)
        return stop

    async def _commit_some(self, commits: Sequence[Commit]) -> None:
        """Apply all, none, or some of the commits."""
        draw = self._runtime.random()
        if draw < 0.5:
            self.seen["commit:unknown_applied"] += 1
            await self.inner.commit(commits)
        elif draw < 0.75:
            self.seen["commit:unknown_not_applied"] += 1
        else:
            some = [commit for commit in commits if self._runtime.random() < 0.5]
            self.seen["commit:unknown_in_part"] += 1
            if some:
                await self.inner.commit(some)

    async def call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Pass the call on, unless a fault is drawn for it."""
        if self._stuck:
            await self._held()
        mode = self._drawn(method)
        if mode is not None:
            return await self._suffer(mode, method, *args, **kwargs)
        result = await super().call(method, *args, **kwargs)
        if self._stuck:
            await self._held()
        return result

    async def _suffer(self, mode: Mode, method: str, *args: Any, **kwargs: Any) -> Any:
        await self._begin(mode, method)
        pass_on = partial(super().call, method, *args, **kwargs)
        unknown = OutcomeUnknown if method in _MAY_BE_UNKNOWN else StoreUnavailable
        if mode is Mode.TIME_OUT:
            await (self._commit_some(*args, **kwargs) if method == "commit" else pass_on())
            raise unknown("no answer came in time")
        if mode is Mode.CUT:
            await self._cut(method, pass_on)
            raise unknown("the connection was cut")
        return await self._do(mode, pass_on)

    async def _cut(self, method: str, call: Callable[[], Awaitable[object]]) -> None:
        """Lose the request, abort it, or let it continue; and receive nothing for a while."""
        self._cuts += 1
        self._runtime.spawn(self._reconnect(), name="reconnect")
        await self._break_off(method, call)
        if self.faults.silence_ms and self._runtime.random() < 0.5:
            self.seen[f"{method}:cut_unheard"] += 1
            await self._runtime.sleep(self.faults.silence_ms / 1_000)

    async def _break_off(self, method: str, call: Callable[[], Awaitable[object]]) -> None:
        draw = self._runtime.random()
        if draw < 0.25:
            self.seen[f"{method}:cut_before"] += 1
            return
        going = self._runtime.spawn(self._go_on(call), name="behind its back")
        if draw < 0.5:
            self.seen[f"{method}:cut_off"] += 1
            await self._runtime.sleep(0)
            going.cancel()
        else:
            self.seen[f"{method}:cut_after"] += 1

    async def _go_on(self, call: Callable[[], Awaitable[object]]) -> None:
        # Nobody is left to be told of an error.
        with suppress(StoreError):
            await call()
            if self._runtime.random() < 0.5:
                # A proxy on the way may send it again, later.
                await self._wait()
                await call()

    async def _reconnect(self) -> None:
        await self._wait()
        self._cuts -= 1
        if self._cuts == 0:
            for notified in tuple(self._notified):
                notified("", "", 0)

    async def _do(self, mode: Mode | None, call: Callable[[], Awaitable[T]]) -> T:
        if mode is Mode.TWICE:
            await call()
        result = await call()
        if mode is Mode.DELAY:
            await self._wait()
        if self._stuck:
            await self._held()
        return result

    async def _begin(self, mode: Mode, method: str) -> None:
        self.seen[f"{method}:{mode}"] += 1
        if mode is Mode.REFUSE:
            raise StoreUnavailable("it refused")
        if mode is Mode.DELAY:
            await self._wait()

    async def _held(self) -> None:
        await self._awake.wait()
        if self.dead:
            # The caller is dead, too; nothing ever returns.
            await asyncio.get_running_loop().create_future()

    def _drawn(self, method: str) -> Mode | None:
        methods = self._faults.methods
        if method not in methods if methods else method == "describe":
            return None
        draw = self._runtime.random()
        for mode, share in self._shares:
            if draw < share:
                return mode
            draw -= share
        return None

    async def _wait(self) -> None:
        await self._runtime.sleep(self._runtime.random() * self.faults.delay_ms_max / 1_000)
