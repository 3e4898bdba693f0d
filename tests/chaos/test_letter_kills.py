"""Kills of replicas and workers while runs write to each other: child runs, their signals, and runs of threads.

The effects are noted outside of all that is killed. Each call of a child's or a thread's run is kept once,
each signal is received once and in order, and the runs of a thread work one after the other.

The seed is printed; `STEPWELL_KILL_SEED=… pytest tests/chaos/test_letter_kills.py` draws the same kills again.
"""

from __future__ import annotations

import asyncio
import os
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from stepwell_client import Client, RunStatus
from tests.chaos.faults.storm import Process
from tests.chaos.load.runs import ended, started, wide
from tests.chaos.oracle import journals
from tests.chaos.world.agent import CHILDREN, LETTERS, SIGNALS, STEERS
from tests.chaos.world.cluster import Cluster, cluster_on
from tests.chaos.world.stores import ALONE

SEED = int(os.environ.get("STEPWELL_KILL_SEED", "20261129"))
KILLS = 6
LEADS = 3
TURNS = 4
STEERED = ["steered", *(f"{n}" for n in range(STEERS + 2))]
"""The goals of a run that waits for signals, and of the starts that steer it, two more than it takes."""
WORKERS = ("w1", "w2")
PATIENCE_S = 90.0


@pytest.mark.timeout(240, method="thread")
@pytest.mark.parametrize("kind", [ALONE, "postgres", "redis_cluster"])
async def test_letters_are_taken_once_and_in_order_whatever_is_killed(
    tmp_path: Path, kind: str
) -> None:
    print(f"again with STEPWELL_KILL_SEED={SEED}")
    rnd = Random(f"{SEED} {kind}")
    with cluster_on(kind, tmp_path) as cluster:
        await cluster.start()
        for name in WORKERS:
            await cluster.work(name, *rnd.sample(cluster.names, len(cluster.names)))
        try:
            async with cluster.client() as client:
                await _play(cluster, client, rnd)
        except BaseException:
            print(cluster.logs())
            raise


async def _play(cluster: Cluster, client: Client, rnd: Random) -> None:
    async with asyncio.TaskGroup() as group:
        leads = group.create_task(_lead(client))
        queued = group.create_task(_queue(client))
        group.create_task(_steer(client))
        for _ in range(KILLS):
            await asyncio.sleep(rnd.uniform(0.0, 0.5))
            victim = Process(cluster, rnd.choice([*cluster.names, *WORKERS]))
            await victim.kill()
            await victim.revive()
    await ended(client, [*leads.result(), *queued.result()], PATIENCE_S)
    notes = cluster.notes(LETTERS)
    children = [await _check_lead(client, run_id) for run_id in leads.result()]
    _check_order(notes, queued.result())
    steered = await _check_steers(client)
    journals.check_notes(cluster.notes(LETTERS))
    expected = {
        *((run_id, f"work{n}") for some in children for run_id in some for n in range(SIGNALS)),
        *((run_id, key) for run_id in (*queued.result(), *steered) for key in ("first", "last")),
    }
    kept = {
        (run_id, key)
        for run_id, _, _, what, key, _ in _split(cluster.notes(LETTERS))
        if what == "kept"
    }
    assert kept == expected


async def _lead(client: Client) -> list[str]:
    return [await started(client, wide(1, "lead"), seconds=PATIENCE_S) for _ in range(LEADS)]


async def _queue(client: Client) -> list[str]:
    """Start runs in a thread, each once the one before is acknowledged."""
    plan = wide(1, "turn")
    return [
        await started(client, plan, f"{n}", thread="queued", seconds=PATIENCE_S)
        for n in range(TURNS)
    ]


async def _steer(client: Client) -> None:
    """Start a run that waits for signals, and steer it by more starts than it takes."""
    for goal in STEERED:
        await started(
            client,
            wide(1, "turn"),
            goal,
            thread="steered",
            on_busy="steer",
            seconds=PATIENCE_S,
        )


async def _check_lead(client: Client, run_id: str) -> list[str]:
    """Check that each child of a run received every signal once and in order; return the children."""
    result = await client.run(run_id).result()
    assert result == {"t0": [[*range(SIGNALS)]] * CHILDREN}
    children = [one async for one in client.runs(child_of=run_id)]
    assert [one.status for one in children] == [RunStatus.SUCCEEDED] * CHILDREN
    return [one.id for one in children]


def _split(notes: list[str]) -> list[list[str]]:
    return [line.split() for line in notes]


def _check_order(notes: list[str], runs: list[str]) -> None:
    """Check that no run of a thread did anything before the last call of the one before it was kept."""
    lines = _split(notes)
    for before, after in pairwise(runs):
        done = next(
            n for n, one in enumerate(lines) if one[0] == before and one[3:5] == ["kept", "last"]
        )
        begun = next(n for n, one in enumerate(lines) if one[0] == after)
        assert done < begun


async def _check_steers(client: Client) -> list[str]:
    """Check that each start of a thread was a run, or a signal that one received; return the thread's runs."""
    # It works after all that was started in the thread before.
    last = await started(client, wide(1, "turn"), "last", thread="steered", seconds=PATIENCE_S)
    await ended(client, [last], PATIENCE_S)
    goals: list[list[str]] = []
    runs: list[str] = []
    async for one in client.runs(labels={"stepwell.thread": "steered"}):
        assert one.status is RunStatus.SUCCEEDED
        runs.append(one.id)
        goals.append((await client.run(one.id).result())["t0"])
    taken = 1 + STEERS
    assert sorted(goals) == sorted([STEERED[:taken], *([one] for one in STEERED[taken:]), ["last"]])
    return runs
