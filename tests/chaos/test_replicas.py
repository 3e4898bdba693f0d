"""Three replicas on one store: what one of them does, all of them have; what one loses, none has lost.

After each test the whole history is checked: the diaries of the replicas, the answers that workers got, what
watchers saw, and a full dump of the store (`history.py`). A failure prints the seed; play it again with
`STEPWELL_KILL_SEED=… pytest tests/chaos/test_replicas.py -k …`. `test_kills.py` kills all of it at random moments.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random

import pytest

from stepwell.core.records.states import EventType
from stepwell_client import Plan, Retry, RunStatus, Task
from tests.chaos.load.follower import Follower
from tests.chaos.load.runs import checked, ended, graph, met, waited, wide
from tests.chaos.world.cluster import NAMES, POLL_MS, Cluster, cluster_on
from tests.support.proofs import record

SEED = int(os.environ.get("STEPWELL_KILL_SEED", "20261122"))


@pytest.fixture(params=["grpc", "postgres", "redis_cluster"])
async def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Cluster]:
    """A cluster of which nothing is started, on each store in its turn."""
    with cluster_on(request.param, tmp_path) as cluster:
        yield cluster


@pytest.fixture
def rnd() -> Random:
    print(f"seed {SEED}; again with STEPWELL_KILL_SEED={SEED}")
    return Random(SEED)


async def test_tasks_of_one_run_are_executed_through_different_replicas(
    cluster: Cluster, rnd: Random
) -> None:
    # r3 has no worker; watchers and clients use it all the same. One commit in ten gets no answer.
    # No lease is lost to a replica that merely stands still: it would have no part in what it holds.
    await cluster.start(REPLICA_LOST_ANSWERS="0.1", STEPWELL_EXECUTOR__LEASE_MS="20000")
    await cluster.work("w1", "r1")
    await cluster.work("w2", "r2")
    await cluster.working("w1", "w2")
    wides: list[str] = []
    followers: list[Follower] = []
    async with cluster.client("r3") as client:
        for _ in range(2):
            # Of two at once each worker might have one, and wait for the other there.
            wides.append((await client.start("spread", plan=wide(60, "together"))).id)
            runs = [wides[-1], (await client.start("spread", plan=graph(rnd, 40))).id]
            followers += [Follower(cluster, one, rnd).start() for one in runs for _ in range(2)]
            await ended(client, runs)
    findings = await checked(cluster, followers)
    for run_id in wides:
        doors = findings.doors(run_id, EventType.TASK_COMPLETED)
        assert len(doors) >= 2, f"only {doors} had a part in it"
    met(
        findings.seen,
        "conflict won by r1",
        "conflict won by r2",
        "unknown commit that was applied",
        "commit_id seen again",
        "left in mid-batch",
        "replica changed",
        "looked at another replica",
    )


async def test_E10_without_any_hint_watchers_lag_by_no_more_than_a_poll(
    cluster: Cluster, rnd: Random
) -> None:
    await cluster.start(REPLICA_DEAF="1")
    for worker, home in zip(("w1", "w2", "w3"), NAMES, strict=True):
        await cluster.work(worker, home)
    await cluster.working("w1", "w2", "w3")
    async with cluster.client("r1") as client:
        runs = [(await client.start("deaf", plan=graph(rnd, 12))).id for _ in range(3)]
        followers = [
            Follower(cluster, run_id, rnd, moves=moves, lies_down=False).start()
            for run_id in runs
            for moves in (0.7, 0.7, 0.0)
        ]
        await ended(client, runs)
    findings = await checked(cluster, followers)
    met(findings.seen, "notification lost", "left in mid-batch", "replica changed")
    committed_at = {
        (e.sent.run_id, e.sent.version): e.at for e in cluster.diary() if e.sent is not None
    }
    lags = [
        came_at - committed_at[one.run_id, event.version]
        for one in followers
        for event, came_at in zip(one.events, one.came_at, strict=True)
    ]
    print(f"{len(lags)} events, lag at most {max(lags):.2f} s")
    # The poll, and what a busy machine takes for the rest; without it they would never come.
    assert max(lags) <= POLL_MS / 1_000 + 4.0, "E10"


@pytest.mark.proof
async def test_resumed_run_is_resumed_again_by_another_replica(
    cluster: Cluster,
) -> None:
    # So long that no attempt is lost merely because its worker stands still: it has one each time.
    await cluster.start(STEPWELL_EXECUTOR__LEASE_MS="20000")
    await cluster.work("w1", "r2", "r3", "r1")
    async with cluster.client("r1", "r2", "r3") as client:
        plan = Plan([Task("fragile", type="fragile", retry=Retry(max_attempts=1))])
        handle = await client.start("again and again", plan=plan)
        for name in NAMES[:2]:
            assert (await waited(client, handle.id)).status == RunStatus.FAILED
            cluster.kill(name)
            await handle.resume(reason=f"{name} is no more")
        await ended(client, [handle.id])
    findings = await checked(cluster)
    book = findings.books[handle.id]
    assert book.resumes == 2
    assert [one.attempt for one in book.executions.values()] == [1, 2, 3], "S9"
    record.happened("resume of a resumed run")
