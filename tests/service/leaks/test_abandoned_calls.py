"""R1: calls that are cancelled, timed out, dropped, or cut off with their channel.

Thousands of them, of every RPC. Compared is what the process holds when it is quiet again with what it held
after the first few hundred: no more tasks, streams, workers, watchers or database connections; descriptors
and threads but for a few of gRPC's own; and memory by no more than so much a call.
"""

from __future__ import annotations

import asyncio
import gc
import os
import re
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import grpc
import grpc.aio
import pytest

from stepwell.rpc.server import Server
from tests.service.conftest import ME
from tests.service.leaks.bench import METHODS, Asked, Bench, serving
from tests.service.leaks.requests import asked, furnish
from tests.service.zombies.world import PLACES
from tests.support.backends.shared import postgres_server, redis_server
from tests.support.methods import path_of
from tests.support.patience import PATIENCE_S
from tests.support.proofs import record
from tests.support.proofs.sizes import size

SEED = int(os.environ.get("STEPWELL_LEAK_SEED", "20261122"))
PERCENT = {"memory": 30, "sqlite": 20, "postgres": 20, "redis": 20, "remote": 10}
TOGETHER = 60
WARM_UP = 120
GROWTH_BYTES = 48 * 1024 * 1024
GROWTH_BYTES_PER_CALL = 2_048
POSTGRES_CONNECTIONS = 10
"""The connections that a store may have open: its pool, and one each for heartbeats and listening."""
SLACK = {"fds": 4, "threads": 4}
"""gRPC's own pools of pollers and timers grow and shrink by themselves; a leak of calls is thousands."""
POOLED = frozenset(
    {*(f"stepwell-redis-{of}" for of in ("read", "watch", "flush")), "stepwell-postgres-watch"}
)
"""Tasks of a pool's connections: what bounds them are the connections, which are counted by themselves."""
_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|\d+")


class Caller:
    """Makes calls and does not see them through."""

    def __init__(self, target: str, rnd: Random, asked: dict[str, list[Asked]]) -> None:
        self._target = target
        self._rnd = rnd
        self._asked = asked
        self._turn = 0
        self.done: Counter[str] = Counter()

    async def some(self, many: int) -> None:
        """Make so many calls over one channel, and close it in the middle of the last of them."""
        options = [("grpc.use_local_subchannel_pool", 1)]
        async with grpc.aio.insecure_channel(self._target, options=options) as channel:
            await channel.channel_ready()
            calls = [asyncio.create_task(self._one(channel)) for _ in range(many)]
            with suppress(TimeoutError):
                async with asyncio.timeout(self._rnd.uniform(0.005, 0.1)):
                    await asyncio.gather(*calls, return_exceptions=True)
        for call in calls:
            call.cancel()
        ends = await asyncio.gather(*calls, return_exceptions=True)
        # The last one is gRPC's word for a write after the deadline.
        expected = (
            asyncio.CancelledError,
            grpc.aio.AioRpcError,
            grpc.aio.UsageError,
            asyncio.InvalidStateError,
        )
        for end in ends:
            if end is not None and not isinstance(end, expected):
                raise end

    async def _one(self, channel: grpc.aio.Channel) -> None:
        # In turns, so that each has its share.
        method = list(METHODS)[self._turn % len(METHODS)]
        self._turn += 1
        asked = self._rnd.choice(self._asked[method])
        kind, path = METHODS[method], path_of(method)
        timeout = self._rnd.choice((0.001, 0.01, None, None))
        if kind.client_streaming:
            call: Any = channel.stream_stream(path)(metadata=ME, timeout=timeout)
            for request in asked.requests:
                await call.write(request.SerializeToString())
        else:
            make = channel.unary_stream if kind.server_streaming else channel.unary_unary
            data = asked.requests[0].SerializeToString()
            call = make(path)(data, metadata=ME, timeout=timeout)
        await self._leave(call, streams=kind.server_streaming)

    async def _leave(self, call: Any, *, streams: bool) -> None:
        way = self._rnd.choice(("at once", "soon", "later", "dropped"))
        self.done[way] += 1
        if way == "at once":
            call.cancel()
        elif way == "soon":
            await asyncio.sleep(self._rnd.uniform(0.0, 0.004))
            call.cancel()
        elif way == "later" and streams:
            await call.read()
            call.cancel()
        elif way == "later":
            await call
        # Dropped: nobody looks at it any more, and the channel's end is its own.


def counter_of(kind: str, url: str) -> Callable[[], int]:
    """Return what counts the connections to the database; a pool that isn't full yet counts as full."""
    if kind == "postgres":
        name = url.rpartition("/")[2].partition("?")[0]
        counted = "SELECT count(*) FROM pg_stat_activity WHERE datname = $1"
        return lambda: max(postgres_server().fetch(counted, name)[0][0], POSTGRES_CONNECTIONS)
    if kind == "redis":
        return lambda: len(redis_server("redis").execute("CLIENT", "LIST").splitlines())
    return lambda: 0


def held(server: Server, connections: Callable[[], int]) -> Counter[str]:
    """Return how much this process holds of what a call may leave behind: tasks by name, ids left out."""
    gc.collect()
    me = asyncio.current_task()
    tasks = [task.get_name() for task in asyncio.all_tasks() if task is not me]
    found = Counter("task " + _ID.sub("…", name) for name in tasks if name not in POOLED)
    found["fds"] = sum(1 for _ in Path("/proc/self/fd").iterdir())
    found["threads"] = threading.active_count()
    found["connections"] = connections()
    found["streams"] = sum(
        int(sample.value)
        for metric in server.metrics.registry.collect()
        if metric.name == "stepwell_rpc_streams"
        for sample in metric.samples
    )
    found["workers"] = len(server.deps.executor.connected)
    found["subscriptions"] = server.deps.notifier.subscribers
    return found


def excess(now: Counter[str], before: Counter[str]) -> dict[str, tuple[int, int]]:
    """Return what is held that wasn't before: how many there were, and are."""
    return {
        name: (before[name], count)
        for name, count in now.items()
        if count > before[name] + SLACK.get(name, 0)
    }


def memory_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


async def quiet(look: Callable[[], Counter[str]], before: Counter[str] | None) -> Counter[str]:
    """Wait until nothing is held that wasn't before, or, the first time, until nothing changes."""
    end = time.monotonic() + PATIENCE_S
    while True:
        now = look()
        await asyncio.sleep(0.3)
        again = look()
        over = excess(again, before or now)
        if not over and (before or not excess(now, again)) and not again["streams"]:
            return again
        assert time.monotonic() < end, f"R1: {over or again}"


@pytest.mark.proof
@pytest.mark.usefixtures("backends")
@pytest.mark.parametrize("kind", PERCENT)
async def test_R1_abandoned_calls_leave_nothing_behind(kind: str, tmp_path: Path) -> None:
    print(f"seed {SEED}; again with STEPWELL_LEAK_SEED={SEED}")
    since = time.monotonic()
    many = size("calls") * PERCENT[kind] // 100
    async with PLACES[kind](tmp_path) as url, serving(url, tmp_path) as server:
        bench = Bench(server)
        await furnish(bench)
        calls = {name: [await asked(bench, name) for _ in range(2)] for name in METHODS}
        caller = Caller(server.addresses[0], Random(f"{SEED}/{kind}"), calls)
        connections = counter_of(kind, url)
        # What is opened, imported and started once is there then.
        for _ in range(WARM_UP // TOGETHER):
            await caller.some(TOGETHER)
        before = await quiet(lambda: held(server, connections), None)
        began = memory_bytes()
        caller.done.clear()
        while (left := many - caller.done.total()) > 0:
            await caller.some(min(TOGETHER, left))
        await quiet(lambda: held(server, connections), before)
        grown = memory_bytes() - began
        assert grown <= GROWTH_BYTES + GROWTH_BYTES_PER_CALL * many, f"R1: {grown:,} bytes more"
    print(f"{kind}: {dict(caller.done)}, {grown / 1e6:.1f} MB more")
    record.keep(
        record.Record(
            proof=f"abandoned calls, {kind}",
            command="make proof ARGS='-k abandoned_calls'",
            figures={"calls": caller.done.total(), "RPCs": len(METHODS)},
            seconds=time.monotonic() - since,
            seed=str(SEED),
        )
    )
