"""C1: clocks of servers, workers and stores jump by an hour and drift while runs go on.

Safety is looked at as after kills: the whole history of three replicas. In the end the clocks are right again
and every run ends: what a store stamped while its clock was ahead must not wait until it is that late.
Seed: `STEPWELL_CLOCK_SEED=…`.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from stepwell.core.port import LeaseQuery, Store
from tests.chaos.load.manual_worker import ManualWorker
from tests.chaos.load.runs import checked, ended, graph, met, started, wide
from tests.chaos.oracle.history import TENANT
from tests.chaos.world.clocked import STORE, WORKERS, Timepieces, clocked_cluster, start_by
from tests.chaos.world.cluster import Cluster
from tests.chaos.world.faked import HOUR_S
from tests.support.patience import PATIENCE_S
from tests.support.proofs import record
from tests.support.proofs.sizes import Scale, scale, size

SERVERS = ("postgres", "redis")
SEED = int(os.environ.get("STEPWELL_CLOCK_SEED", "20261122"))
KINDS = ("redis",) if scale() is Scale.TEST else SERVERS
"""The others read the wall clock once, when they are opened: see the conformance suite."""
OFFS_S = (-HOUR_S, 0.0, HOUR_S)
RATES = (1.0, 1.0, 0.9, 1.1)


async def jump(rnd: Random, times: Timepieces, store: Store, seen: Counter[str]) -> None:
    """Set one clock, the store's more often than any other."""
    name = rnd.choice((STORE, STORE, *times.all))
    clock = times[name]
    off_s = rnd.choice([off for off in OFFS_S if off != clock.off_s])
    back = name == STORE and off_s < clock.off_s
    if back:
        out = [
            len((await store.page(LeaseQuery(tenant_id=TENANT, worker_id=worker))).items)
            for worker in WORKERS
        ]
        seen["clock stepped back over a lease"] += bool(sum(out))
    clock.set(off_s, rate=rnd.choice(RATES))
    seen["jumps"] += 1


async def under_jumps(
    cluster: Cluster, times: Timepieces, rnd: Random, jumps: int
) -> tuple[list[str], Counter[str]]:
    """Start runs while clocks jump; returns them when the clocks are right again."""
    seen = Counter[str]()
    runs: list[str] = []
    store = await cluster.store()
    try:
        async with cluster.client() as client:
            # It lasts from the first jump to the last, so that a lease is out at nearly any moment.
            runs.append(await started(client, wide(2, "gated")))
            for _ in range(jumps):
                runs.append(await started(client, graph(rnd, 12)))
                await asyncio.sleep(rnd.uniform(0.05, 0.3))
                await jump(rnd, times, store, seen)
            times.set_right()
            cluster.open_gate()
            await ended(client, runs, PATIENCE_S)
    finally:
        await store.close()
    return runs, seen


@pytest.mark.proof
@pytest.mark.parametrize("kind", KINDS)
async def test_C1_no_clock_makes_two_results_accepted_and_all_runs_end(
    kind: str, tmp_path: Path
) -> None:
    print(f"seed {SEED}; again with STEPWELL_CLOCK_SEED={SEED}")
    rnd = Random(f"{SEED}/{kind}")
    with clocked_cluster(kind, tmp_path) as (cluster, times):
        await start_by(cluster, times)
        async with ManualWorker(cluster, rnd) as manual:
            runs, seen = await under_jumps(cluster, times, rnd, size("clock jumps"))
        findings = await checked(cluster, acknowledged=manual.acknowledged)
    if scale() is not Scale.TEST:
        # A few jumps may all miss it.
        met(seen, "clock stepped back over a lease")
    figures = {
        "jumps": seen["jumps"],
        "runs": len(runs),
        "leases lost to the clock": findings.seen["lease lost"],
        "accepted twice": 0,
    }
    print(kind, figures, dict(seen))
    record.note(f"clock jumps, {kind}", figures, seen, SEED)
