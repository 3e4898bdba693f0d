"""The network between replicas and everyone else, with the faults that gRPC over TCP has.

A unary call may lose its request or its answer, come twice, come late and so overtake others; its
caller learns nothing but a time-out. What a stream carries comes in order, but any message may be the
last: then the stream is broken, and each side finds that out by itself, later. A message for a worker
may come twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple, Protocol, TypeVar

from stepwell.core.errors import StepwellError
from stepwell.testing.simulator.chance import Chance
from stepwell.testing.simulator.runtime import SimRuntime

T = TypeVar("T")

CALL_TIMEOUT_S = 1.5


class Unreachable(Exception):
    """No answer came. It may or may not have been done."""


class Weather(NamedTuple):
    """How bad the network is."""

    loss: float = 0.0
    duplication: float = 0.0
    breaks: float = 0.0
    """Of stream messages, each of which may be its stream's last."""
    delay_ms_max: int = 5
    late: float = 0.0
    """Of messages that take up to twenty times as long."""


class Host(Protocol):
    """A process that can be called."""

    runtime: SimRuntime


class Network:
    """Carries calls and messages. `weather` may be changed at any time."""

    def __init__(self, runtime: SimRuntime, chance: Chance) -> None:
        self.runtime = runtime
        self.chance = chance
        self.weather = Weather()

    def delay_s(self) -> float:
        """Draw how long a message takes."""
        weather = self.weather
        ms = self.chance.random() * weather.delay_ms_max
        return (ms * 20 if self.chance.happens(weather.late) else ms) / 1_000

    async def call(
        self,
        host: Host,
        name: str,
        work: Callable[[], Coroutine[Any, Any, T]],
        *,
        may_repeat: bool = True,
    ) -> T:
        """Have `work` done in the host's process and return what comes of it.

        Raises:
            Unreachable: the request or the answer was lost, or the host is gone.
            StepwellError: what the host answered.
        """
        weather, chance = self.weather, self.chance
        await self.runtime.sleep(self.delay_s())
        if chance.happens(weather.loss) or host.runtime.dead:
            await self.runtime.sleep(CALL_TIMEOUT_S)
            raise Unreachable
        if may_repeat and chance.happens(weather.duplication):
            host.runtime.spawn(self._once_more(work), name=name)
        task = host.runtime.spawn(_answer(work), name=name)
        await asyncio.wait((task,), timeout=CALL_TIMEOUT_S)
        if not task.done() or task.cancelled() or chance.happens(weather.loss):
            raise Unreachable
        await self.runtime.sleep(self.delay_s())
        value, error = task.result()
        if error is not None:
            raise error
        return value  # pyright: ignore[reportReturnType] - there is one where there is no error

    async def _once_more(self, work: Callable[[], Coroutine[Any, Any, object]]) -> None:
        await self.runtime.sleep(self.delay_s())
        await _answer(work)


async def _answer(
    work: Callable[[], Coroutine[Any, Any, T]],
) -> tuple[T | None, StepwellError | None]:
    """An error of the service is an answer too; any other is a defect and goes its own way."""
    try:
        return await work(), None
    except StepwellError as error:
        return None, error


class Pipe:
    """One direction of a stream: messages in order, until it breaks."""

    def __init__(self, network: Network, on_break: Callable[[], None]) -> None:
        self._network = network
        self._on_break = on_break
        self._free_at = 0.0
        self.broken = False

    def send(self, act: Callable[[], None], *, may_repeat: bool = False) -> None:
        """Have `act` done at the other end, after all that was sent before."""
        network = self._network
        if self.broken:
            return
        if network.chance.happens(network.weather.breaks):
            self._on_break()
            return
        times = 2 if may_repeat and network.chance.happens(network.weather.duplication) else 1
        for _ in range(times):
            # A microsecond apart: timers of one moment come in no order.
            at = max(self._free_at + 1e-6, network.runtime.monotonic() + network.delay_s())
            self._free_at = at
            network.runtime.spawn(self._carry(at, act), name="message")

    async def _carry(self, at: float, act: Callable[[], None]) -> None:
        await self._network.runtime.sleep(at - self._network.runtime.monotonic())
        if not self.broken:
            act()


class Stream:
    """Both directions, and how each side learns that it is over."""

    def __init__(
        self,
        network: Network,
        *,
        worker_lost_it: Callable[[], None],
        replica_lost_it: Callable[[], None],
    ) -> None:
        self._network = network
        self._worker_lost_it = worker_lost_it
        self._replica_lost_it = replica_lost_it
        self.to_worker = Pipe(network, self.tear)
        self.to_replica = Pipe(network, self.tear)
        self.torn = False

    def tear(self) -> None:
        """Lose all that is under way; both sides notice within a keepalive's time."""
        if self.torn:
            return
        self.torn = True
        self.to_worker.broken = self.to_replica.broken = True
        for lost_it in (self._worker_lost_it, self._replica_lost_it):
            self._network.runtime.spawn(self._notice(lost_it), name="keepalive")

    async def _notice(self, lost_it: Callable[[], None]) -> None:
        worst_s = 1.0 if self._network.weather.loss else 0.05
        await self._network.runtime.sleep(self._network.chance.random() * worst_s)
        lost_it()
