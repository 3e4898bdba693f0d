"""R1: calls that are cancelled, timed out, dropped, cut off with their channel or with their whole process.

Thousands of them, of every RPC. Compared is what the process holds when it is quiet again with what it held
after the first few hundred: no more tasks, streams, workers, watchers or database connections; descriptors
and threads but for a few of gRPC's own; and memory by no more than so much a call.
"""

from __future__ import annotations

import asyncio
import os
import sys
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

from tests.service.conftest import ME
from tests.service.leaks.baseline import Held, held
from tests.service.leaks.bench import METHODS, Asked, Bench, serving
from tests.service.leaks.requests import asked, furnish
from tests.service.leaks.vanishing import EACH
from tests.service.zombies.world import PLACES
from tests.support.backends.shared import postgres_server, redis_server
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
TOP = Path(__file__).parents[3]


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
        for end in ends:
            if end is not None and not isinstance(
                end, asyncio.CancelledError | grpc.aio.AioRpcError | grpc.aio.UsageError
            ):
                raise end

    async def _one(self, channel: grpc.aio.Channel) -> None:
        # In turns, so that each has its share.
        method = list(METHODS)[self._turn % len(METHODS)]
        self._turn += 1
        asked = self._rnd.choice(self._asked[method])
        kind, path = METHODS[method], f"/stepwell.v1.{method}"
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


async def vanish(target: str, run_id: str) -> int:
    """Kill a process that has streams open; returns how many calls of it there were."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.service.leaks.vanishing", target, run_id),
        stdout=asyncio.subprocess.PIPE,
        cwd=TOP,
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(60):
            assert await process.stdout.readline() == b"open\n"
    finally:
        process.kill()
        await process.communicate()
    return 4 * EACH


def counter_of(kind: str, url: str) -> Callable[[], int]:
    """Return what counts the connections to the database; a pool that isn't full yet counts as full."""
    if kind == "postgres":
        name = url.rpartition("/")[2].partition("?")[0]
        counted = "SELECT count(*) FROM pg_stat_activity WHERE datname = $1"
        return lambda: max(postgres_server().fetch(counted, name)[0][0], POSTGRES_CONNECTIONS)
    if kind == "redis":
        return lambda: len(redis_server("redis").execute("CLIENT", "LIST").splitlines())
    return lambda: 0


async def quiet(look: Callable[[], Held], before: Held | None) -> Held:
    """Wait until nothing is held that wasn't before, or, the first time, until nothing changes."""
    end = time.monotonic() + PATIENCE_S
    while True:
        now = look()
        await asyncio.sleep(0.3)
        again = look()
        over = again.excess(before or now)
        if not over and (before or not now.excess(again)) and not again.streams:
            return again
        assert time.monotonic() < end, f"R1: {over or again}"


@pytest.mark.proof
@pytest.mark.usefixtures("backends")
@pytest.mark.parametrize("kind", PERCENT)
async def test_R1_abandoned_calls_leave_nothing_behind(kind: str, tmp_path: Path) -> None:
    print(f"seed {SEED}; again with STEPWELL_LEAK_SEED={SEED}")
    since = time.monotonic()
    rnd = Random(f"{SEED}/{kind}")
    many = size("calls") * PERCENT[kind] // 100
    async with PLACES[kind](tmp_path) as url, serving(url, tmp_path) as server:
        bench = Bench(server)
        await furnish(bench)
        calls = {name: [await asked(bench, name) for _ in range(2)] for name in METHODS}
        caller = Caller(server.addresses[0], rnd, calls)
        connections = counter_of(kind, url)
        # What is opened, imported and started once is there then.
        for _ in range(WARM_UP // TOGETHER):
            await caller.some(TOGETHER)
        await vanish(server.addresses[0], bench.live)
        before = await quiet(lambda: held(server, connections), None)
        caller.done.clear()
        while (left := many - caller.done.total()) > 0:
            await caller.some(min(TOGETHER, left))
        gone = await vanish(server.addresses[0], bench.live)
        after = await quiet(lambda: held(server, connections), before)
        grown = after.rss_bytes - before.rss_bytes
        assert grown <= GROWTH_BYTES + GROWTH_BYTES_PER_CALL * many, f"R1: {grown:,} bytes more"
    print(f"{kind}: {dict(caller.done)}, {grown / 1e6:.1f} MB more, {after}")
    record.keep(
        record.Record(
            proof=f"abandoned calls, {kind}",
            command="make proof ARGS='-k abandoned_calls'",
            figures={
                "calls": caller.done.total(),
                "calls of killed clients": gone,
                "RPCs": len(METHODS),
            },
            seconds=time.monotonic() - since,
            seed=str(SEED),
        )
    )
