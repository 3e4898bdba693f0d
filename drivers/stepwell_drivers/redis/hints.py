"""Hints by publish and subscribe: one channel for each store, one message for each turn of the
event loop.

A hint is published after its commit, so that the change can be read by then. Subscribers of this
process are notified at once, so its own messages are dropped when the server sends them back. A
lost connection may have lost hints, so every subscriber is then told that anything may have
changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import cast

import msgspec

from stepwell.core.port import Hint
from stepwell.core.records.errors import StoreError
from stepwell_drivers.hints import ANYTHING, HintBus, RunKey, newest
from stepwell_drivers.redis.base import Base
from stepwell_drivers.redis.network import Ask
from stepwell_drivers.redis.wire import Command, Lost, Refused, Reply

QUIET_SECONDS = 10.0
"""The server is pinged after this much silence."""
RUNS_MAX = 1_000
"""A message about more runs names none of them: anything may have changed."""

_message = msgspec.msgpack.Decoder(tuple[str, list[tuple[str, str, int]]]).decode


class RedisHints:
    """Publishes this process's changes, and passes on those of all processes."""

    def __init__(self, base: Base) -> None:
        self._base = base
        self._hints = HintBus()
        self._name = base.network.runtime.new_id()
        self._listening: asyncio.Task[None] | None = None
        self._publishing: asyncio.Task[None] | None = None
        self._queued: dict[RunKey, int] = {}
        self._listens = 0
        """1 while this process listens on the channel."""
        self._closed = False

    def subscribe(self, hint: Hint) -> Callable[[], None]:
        """Call `hint` on every change from now on; return a function that unsubscribes."""
        stop = self._hints.subscribe(hint)
        if self._listening is None and not self._closed:
            self._listening = self._base.network.runtime.spawn(
                self._listen(), name="stepwell-redis-hints"
            )
        return stop

    def publish(self, runs: Mapping[RunKey, int], *, listeners: int = -1) -> None:
        """Notify this process's subscribers soon, and other processes once the previous message was
        sent.

        `listeners` is the number of subscribers at the server where the change was made; below 0:
        unknown.
        """
        if not runs or self._closed:
            return
        self._hints.publish(runs)
        if 0 <= listeners <= self._listens and not self._base.network.place.is_cluster:
            return  # Nobody but this process listens.
        for key, version in runs.items():
            self._queued[key] = max(version, self._queued.get(key, 0))
        if self._publishing is None:
            self._publishing = self._base.network.runtime.spawn(
                self._publish(), name="stepwell-redis-publish"
            )

    async def _publish(self) -> None:
        try:
            while self._queued and not self._closed:
                runs, self._queued = self._queued, {}
                if len(runs) > RUNS_MAX:
                    runs = ANYTHING
                named = [(tenant, run, version) for (tenant, run), version in runs.items()]
                message = msgspec.msgpack.encode((self._name, named))
                sent = ("PUBLISH", self._base.channel, message)
                # Any node will do: a cluster passes messages on to all.
                slot = self._base.keys.partitions[0].slot
                await self._base.network.ask(Ask(slot, sent))
        except StoreError:
            self._queued.clear()  # Hints may be lost, because their readers poll.
        finally:
            self._publishing = None

    async def _listen(self) -> None:
        """Listen, and reconnect whenever the connection is lost. Never ends by itself."""
        network, failures = self._base.network, 0
        while True:
            # Another server each time, in case one is gone.
            servers = network.servers()
            address = servers[failures % len(servers)]
            received = asyncio.Event()

            def on_message(reply: Reply, received: asyncio.Event = received) -> None:
                received.set()
                self._take(reply)

            try:
                connection = await network.listen(address, on_message)
            except (Lost, Refused):
                failures += 1
                await network.runtime.sleep(network.backoff(failures))
                continue
            try:
                connection.send(("SUBSCRIBE", self._base.channel))
                await _until_silent(connection.lost, connection.send, received)
                failures = 0 if received.is_set() else failures + 1
            finally:
                self._listens = 0
                await connection.close()
            await network.runtime.sleep(network.backoff(failures + 1))

    def _take(self, reply: Reply) -> None:
        parts = cast("list[bytes]", reply) if isinstance(reply, list) else []
        if len(parts) != 3:
            return
        kind, _, body = parts
        if kind == b"subscribe":
            # Hints from before this point may have been missed.
            self._listens = 1
            self._hints.publish(ANYTHING)
        elif kind == b"message":
            try:
                name, named = _message(body)
            except msgspec.DecodeError:
                return  # Not a message of ours.
            if name != self._name:
                self._hints.publish(newest(named))

    async def close(self) -> None:
        """Stop listening and publishing. Safe to call twice."""
        publishing = self._publishing
        if publishing is not None and not self._closed:
            # Publish the last commits, unless that takes long.
            await asyncio.wait((publishing,), timeout=1.0)
        self._closed = True
        self._hints.clear()
        for task in (self._listening, self._publishing):
            if task is not None and not task.done():
                task.cancel()
                await asyncio.wait((task,))


async def _until_silent(
    lost: asyncio.Future[None], send: Callable[[Command], None], received: asyncio.Event
) -> None:
    """Wait until the connection ends or its server stops answering pings."""
    while not lost.done():
        received.clear()
        send(("PING",))
        await asyncio.wait((lost,), timeout=QUIET_SECONDS)
        if not received.is_set():
            return
