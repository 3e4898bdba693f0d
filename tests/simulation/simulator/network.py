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

from stepwell.core.records.errors import StepwellError
from tests.simulation.simulator.rng import Rng
from tests.simulation.simulator.runtime import SimRuntime, wake

T = TypeVar("T")
_Answer = tuple[Any, StepwellError | None]

CALL_TIMEOUT_S = 1.5


class Unreachable(Exception):
    """No answer came. It may or may not have been done."""


class NetworkFaults(NamedTuple):
    """The rates and delays of network faults."""

    loss: float = 0.0
    duplication: float = 0.0
    breaks: float = 0.0
    """The share of stream messages that are their stream's last."""
    delay_ms_max: int = 5
    late: float = 0.0
    """The share of messages that take up to twenty times as long."""


class Host(Protocol):
    """A process that can be called."""

    runtime: SimRuntime
    awake: asyncio.Event
    """Not set: it stands still, and calls wait."""


class Network:
    """Carries calls and messages. `faults` may be changed at any time."""

    def __init__(self, runtime: SimRuntime, rng: Rng) -> None:
        self.runtime = runtime
        self.rng = rng
        self.faults = NetworkFaults()

    def delay_s(self) -> float:
        """Draw the delay of a message."""
        network_faults = self.faults
        ms = self.rng.random() * network_faults.delay_ms_max
        return (ms * 20 if self.rng.happens(network_faults.late) else ms) / 1_000

    async def call(
        self,
        host: Host,
        name: str,
        work: Callable[[], Coroutine[Any, Any, T]],
        *,
        may_repeat: bool = True,
    ) -> T:
        """Have `work` done in the host's process and return its result.

        Raises:
            Unreachable: the request or the answer was lost, or the host is gone.
            StepwellError: what the host answered.
        """
        over: asyncio.Future[_Answer | None] = self.runtime.loop.create_future()
        call = _Call(self, host, name, work, over)
        network_faults, rng = self.faults, self.rng
        there_s = self.delay_s()
        timer = self.runtime.later(there_s + CALL_TIMEOUT_S, wake, over)
        if not rng.happens(network_faults.loss):
            self.runtime.later(there_s, call.arrive)
            if may_repeat and rng.happens(network_faults.duplication):
                self.runtime.later(there_s + self.delay_s(), call.arrive_again)
        try:
            answer = await over
        finally:
            timer.cancel()
        if answer is None:
            raise Unreachable
        value, error = answer
        if error is not None:
            raise error
        return value


class _Call:
    """A call under way: no task of its own, as most of what happens in a simulation is calls."""

    def __init__(
        self,
        network: Network,
        host: Host,
        name: str,
        work: Callable[[], Coroutine[Any, Any, object]],
        over: asyncio.Future[_Answer | None],
    ) -> None:
        self._network = network
        self._host = host
        self._name = name
        self._work = work
        self._over = over
        # A call is for the process that it was sent to, and not for the one that was started after it.
        self._process = host.runtime

    def arrive(self) -> None:
        """Begin what was asked for, if anybody is there."""
        if not self._process.dead:
            task = self._process.spawn(_answer(self._host, self._work), name=self._name)
            task.add_done_callback(self._answered)

    def arrive_again(self) -> None:
        """Do it once more, without an answer."""
        if not self._process.dead:
            self._process.spawn(_answer(self._host, self._work), name=self._name)

    def _answered(self, task: asyncio.Task[_Answer]) -> None:
        network = self._network
        if task.cancelled() or self._over.done():
            return
        if (error := task.exception()) is not None:
            self._over.set_exception(error)
        elif network.rng.happens(network.faults.loss):
            # The connection breaks, and the caller notices at once.
            wake(self._over)
        else:
            network.runtime.later(network.delay_s(), self._report, task.result())

    def _report(self, answer: _Answer) -> None:
        if not self._over.done():
            self._over.set_result(answer)


async def _answer(host: Host, work: Callable[[], Coroutine[Any, Any, object]]) -> _Answer:
    """An error of the service is an answer too; any other is a defect and goes its own way."""
    if not host.awake.is_set():
        await host.awake.wait()
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
        if network.rng.happens(network.faults.breaks):
            self._on_break()
            return
        times = 2 if may_repeat and network.rng.happens(network.faults.duplication) else 1
        for _ in range(times):
            # Messages of one moment come in the order in which they were sent.
            self._free_at = max(self._free_at, network.runtime.monotonic() + network.delay_s())
            network.runtime.later(self._free_at - network.runtime.monotonic(), self._carry, act)

    def _carry(self, act: Callable[[], None]) -> None:
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
        worst_s = 1.0 if self._network.faults.loss else 0.05
        for lost_it in (self._worker_lost_it, self._replica_lost_it):
            self._network.runtime.later(self._network.rng.random() * worst_s, lost_it)
