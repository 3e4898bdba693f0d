"""R2: three replicas are restarted one after another under load, again and again: nobody notices but by a word.

Each gets SIGTERM with leases out, watches, waits and commands under way. It ends in time and with
code 0. Its watchers are sent elsewhere, no stream ends with an error, no lease is lost, and
everything acknowledged is there. Seed: `STEPWELL_DRAIN_SEED=…`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import Random
from uuid import uuid4

import pytest

from stepwell.core.port import LeaseQuery
from stepwell.core.records.states import EventType
from stepwell_client import Client, FailedPrecondition, Unavailable
from tests.chaos.load.follower import Follower
from tests.chaos.load.manual_worker import ManualWorker
from tests.chaos.load.runs import checked, ended, graph, met, started, wide
from tests.chaos.oracle.history import TENANT, Findings
from tests.chaos.world.cluster import NAMES, Cluster, cluster_on
from tests.support.proofs import record
from tests.support.proofs.sizes import Scale, scale, size

SEED = int(os.environ.get("STEPWELL_DRAIN_SEED", "20261122"))
WORKERS = ("w1", "w2", "w3")
DRAIN_MS = 10_000
GRACE_S = DRAIN_MS / 1_000 + 2.0
"""The time that the replica allows itself, and a little for its last messages and its end."""
KINDS = ("redis",) if scale() is Scale.TEST else ("grpc", "postgres", "redis", "redis_cluster")
RESTARTS_EACH = 6
"""One life of the cluster; more of them are as many parts."""
FORBIDDEN = ("cut off", "ended without a word", "SLOW_CONSUMER", "PURGED", "lease lost")


class Commander:
    """Pauses and resumes runs all the while, and remembers what was acknowledged."""

    def __init__(self, client: Client, rnd: Random) -> None:
        self._client = client
        self._rnd = rnd
        self.runs: list[str] = []
        self.acknowledged: Counter[tuple[str, EventType]] = Counter()

    async def command(self) -> None:
        """Go on until cancelled; what a cancelled command did is not asked about."""
        while True:
            await asyncio.sleep(self._rnd.uniform(0.01, 0.1))
            if not self.runs:
                continue
            run_id = self._rnd.choice(self.runs[-4:])
            try:
                run = self._client.run(run_id)
                await run.pause(request_id=str(uuid4()))
                self.acknowledged[run_id, EventType.RUN_PAUSED] += run.changed
                await run.resume(request_id=str(uuid4()))
                self.acknowledged[run_id, EventType.RUN_RESUMED] += run.changed
            except FailedPrecondition:
                # A run that has ended meanwhile can't be paused, and nothing is lost by that.
                pass
            except Unavailable as error:
                # All its tries met a replica that was about to end: it answered with that reason.
                if error.reason != "DRAINING":
                    raise

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.command())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            for run_id in self.runs:
                # One may have been left paused.
                with suppress(FailedPrecondition):
                    await self._client.run(run_id).resume()

    def check(self, findings: Findings) -> int:
        """Each acknowledged command is in its run's log; returns how many those are."""
        for (run_id, kind), count in self.acknowledged.items():
            logged = sum(event.type is kind for event in findings.books[run_id].events)
            assert logged >= count, f"R2: {run_id} has {logged} {kind}, acknowledged {count}"
        return self.acknowledged.total()


async def leases_out(cluster: Cluster) -> int:
    """Return how many leases the workers have now."""
    store = await cluster.store()
    try:
        return sum(
            [
                len((await store.page(LeaseQuery(tenant_id=TENANT, worker_id=worker))).items)
                for worker in WORKERS
            ]
        )
    finally:
        await store.close()


async def drain(cluster: Cluster, name: str) -> float:
    """SIGTERM a replica, wait for its end, and start it again; returns how many seconds the end took."""
    since = time.monotonic()
    cluster.replicas[name].signal(signal.SIGTERM)
    code = await asyncio.to_thread(cluster.replicas[name].wait)
    took = time.monotonic() - since
    assert code == 0, cluster.replicas[name].log[-4_000:]
    assert took <= GRACE_S, f"R2: {name} took {took:.1f} s to end"
    assert "not all work came to its end" not in cluster.replicas[name].log, "R2"
    await cluster.start(name)
    return took


@pytest.mark.proof
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("part", range(-(-size("restarts") // RESTARTS_EACH)))
async def test_R2_rolling_restarts_under_load_lose_nothing_acknowledged(
    kind: str, part: int, tmp_path: Path
) -> None:
    print(f"seed {SEED}; again with STEPWELL_DRAIN_SEED={SEED}")
    rnd = Random(f"{SEED}/{kind}/{part}")
    restarts = min(RESTARTS_EACH, size("restarts") - part * RESTARTS_EACH)
    out: list[int] = []
    took: list[float] = []
    with cluster_on(kind, tmp_path) as cluster:
        # So long that none runs out merely because this machine is busy.
        await cluster.start(STEPWELL_EXECUTOR__LEASE_MS="20000", STEPWELL_DRAIN_MS=str(DRAIN_MS))
        for worker, home in zip(WORKERS, NAMES, strict=True):
            await cluster.work(worker, home, *(name for name in NAMES if name != home))
        await cluster.working(*WORKERS)
        manual = ManualWorker(cluster, rnd)
        followers: list[Follower] = []
        async with cluster.client("r3", "r1", "r2") as client, manual:
            commander = Commander(client, rnd)
            # Some steps are out over all of it: whoever has them reports at the end, elsewhere.
            long = await started(client, wide(len(WORKERS), "gated"))
            # Others may have ended before their replica does: these are sent elsewhere for sure.
            stay = [Follower(cluster, long, rnd, moves=0, at=name) for name in NAMES]
            followers += [one.start() for one in stay]
            async with commander.at_work():
                for turn in range(restarts):
                    name = NAMES[turn % len(NAMES)]
                    run_id = await started(client, graph(rnd, 15))
                    commander.runs.append(run_id)
                    # The one stays for as long as it is let; the other moves about.
                    followers.append(Follower(cluster, run_id, rnd, moves=0, at=name).start())
                    followers.append(Follower(cluster, run_id, rnd).start())
                    await asyncio.sleep(rnd.uniform(0.05, 0.3))
                    out.append(await leases_out(cluster))
                    took.append(await drain(cluster, name))
            cluster.open_gate()
            await ended(client, [long, *commander.runs])
        findings = await checked(cluster, followers, manual.acknowledged)
        commands = commander.check(findings)
    assert all(out), "no lease was out"
    if scale() is not Scale.TEST:
        # A few restarts may all miss it.
        met(findings.seen, "DRAINING", "replica changed")
    assert not [name for name in FORBIDDEN if findings.seen[name]]
    figures = {
        "restarts": restarts,
        "acknowledged commands checked": commands,
        "acknowledged outcomes checked": findings.seen["acknowledged outcome checked"],
        "watches sent elsewhere": findings.seen["DRAINING"],
        "slowest end, ms": int(max(took) * 1_000),
    }
    print(figures)
    kept = {name: n for name, n in figures.items() if not name.startswith("slowest")}
    happened = {"drain with leases out": sum(map(bool, out))}
    record.note(f"rolling restarts, {kind}", kept, happened, SEED)
