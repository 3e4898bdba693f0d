"""Three replicas of the service, with workers and watchers, over stores whose servers die and are replaced."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from tests.chaos.conftest import SEED
from tests.chaos.faults.fail_overs import WAIT_MS, WAYS, fail_over
from tests.chaos.load.follower import Follower
from tests.chaos.load.manual_worker import ManualWorker
from tests.chaos.load.runs import checked, ended, graph, started
from tests.chaos.world.cluster import NAMES, Cluster
from tests.chaos.world.stores import Shared
from tests.support import watched
from tests.support.backends.cluster import RedisCluster
from tests.support.backends.postgres_pair import PostgresPair
from tests.support.proofs.record import note
from tests.support.proofs.sizes import size

FAIL_OVERS = size("fail-overs below the service")

pytestmark = [
    pytest.mark.proof,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not FAIL_OVERS, reason="a whole service is for a larger scale: make proof"),
]


async def test_S3_service_on_redis_cluster_with_wait_outlives_its_masters(
    cluster: RedisCluster, tmp_path: Path, rnd: Random
) -> None:
    def fail() -> str:
        way = rnd.choice(WAYS)
        fail_over(cluster, rnd, way)
        return way

    url = cluster.url(all_nodes=True, wait="1", wait_ms=WAIT_MS)
    # An event of one stream may be gone when the next goes on; the followers check that themselves.
    watched.log.streams = False
    what = "redis+cluster with wait=1"
    await serve_through(url, tmp_path, rnd, what, fail, watchers_may_lose=True)


async def test_S3_service_on_postgres_outlives_its_primaries(
    pair: PostgresPair, tmp_path: Path, rnd: Random
) -> None:
    def fail() -> str:
        pair.primary.kill()
        pair.retire(pair.promote())
        return "primary killed"

    url = pair.url(pair.primary.new_database())
    await serve_through(url, tmp_path, rnd, "postgres with a standby", fail)


async def serve_through(
    url: str,
    folder: Path,
    rnd: Random,
    what: str,
    blow: Callable[[], str],
    *,
    watchers_may_lose: bool = False,
) -> None:
    """Start runs, strike the store while they are at work, wait for all, and check the whole history.

    Redis shows what its replica doesn't have yet: `watchers_may_lose` it, if it was not acknowledged.
    """
    service = Cluster(folder, Shared(url))
    struck: Counter[str] = Counter()
    try:
        await service.start()
        for worker, home in zip(("w1", "w2", "w3"), NAMES, strict=True):
            await service.work(worker, home, *(name for name in NAMES if name != home))
        await service.working("w1", "w2", "w3")
        manual = ManualWorker(service, rnd)
        runs: list[str] = []
        followers: list[Follower] = []
        async with service.client() as client, manual:
            for _ in range(FAIL_OVERS):
                runs += [await started(client, graph(rnd, 25)) for _ in range(4)]
                followers += [
                    Follower(service, run_id, rnd, may_lose=watchers_may_lose).start()
                    for run_id in runs[-4:]
                ]
                await asyncio.sleep(rnd.uniform(0.0, 0.3))
                struck[await asyncio.to_thread(blow)] += 1
            await ended(client, runs, 120)
        findings = await checked(service, followers, manual.acknowledged)
    except BaseException:
        print(service.logs())
        raise
    finally:
        service.close()
    figures = {
        "blows": struck.total(),
        "runs": len(runs),
        "acknowledged outcomes": len(manual.acknowledged),
        "lost": 0,
    }
    note(f"the service over {what}", figures, struck + findings.seen, SEED)
