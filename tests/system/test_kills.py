"""A hundred SIGKILLs of server and worker at random moments, with the acknowledgements kept outside.

The seed is printed; `STEPWELL_KILL_SEED=… pytest tests/system/test_kills.py` plays the same moments again
(as far as two processes on one machine can).
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from random import Random

import grpc
import grpc.aio
import pytest

from stepwell_client import Client, Plan, Retry, RunStatus, Task, Unavailable
from tests.system.processes import Place
from tests.system.witness import Witness

SEED = int(os.environ.get("STEPWELL_KILL_SEED", "20261121"))
KILLS_EACH = 50
"""In each of the two halves, which run side by side; together a hundred."""


def plan(rnd: Random) -> Plan:
    """A small random graph of tasks that never fail by themselves."""
    patient = Retry(max_attempts=100, initial_backoff=0.01, max_backoff=0.1)
    tasks: list[Task] = []
    for index in range(rnd.randint(4, 9)):
        earlier = [task.id for task in tasks]
        depends_on = rnd.sample(earlier, min(len(earlier), rnd.randint(0, 2)))
        tasks.append(Task(f"t{index}", type="count", depends_on=depends_on, retry=patient))
    return Plan(tasks)


async def killer(place: Place, rnd: Random, kills: int) -> dict[str, int]:
    """Kill the server or the worker, and start it again, so many times."""
    killed = {"server": 0, "worker": 0}
    for _ in range(kills):
        await asyncio.sleep(rnd.uniform(0.0, 0.4))
        if rnd.random() < 0.6:
            place.kill_server()
            killed["server"] += 1
            await place.start_server()
        else:
            place.kill_worker()
            killed["worker"] += 1
            place.start_worker("tests.system.quick:agent")
    return killed


async def starter(client: Client, rnd: Random, stop: asyncio.Event) -> list[str]:
    """Start runs until told to stop; only those whose start was acknowledged are returned."""
    acknowledged: list[str] = []
    while not stop.is_set():
        try:
            handle = await client.start("endure", plan=plan(rnd))
        except (Unavailable, grpc.RpcError):
            await asyncio.sleep(0.05)
            continue
        acknowledged.append(handle.id)
        await asyncio.sleep(rnd.uniform(0.05, 0.3))
    return acknowledged


@pytest.mark.timeout(400)
@pytest.mark.parametrize("half", [0, 1])
async def test_S3_nothing_acknowledged_is_lost_over_a_hundred_kills(
    tmp_path: Path, half: int
) -> None:
    print(f"seed {SEED}, half {half}")
    rnd = Random(SEED * 2 + half)
    place = Place(tmp_path)
    stop = asyncio.Event()
    try:
        await place.start_server()
        place.start_worker("tests.system.quick:agent")
        async with place.client() as client:
            witness = Witness(place)
            witnessing = asyncio.create_task(witness.work())
            starting = asyncio.create_task(starter(client, rnd, stop))
            killed = await killer(place, rnd, KILLS_EACH)
            stop.set()
            started = await starting
            for run_id in started:
                async with asyncio.timeout(60):
                    run = await client.wait(run_id)
                assert run.status == RunStatus.SUCCEEDED, (run.failure, place.log("server"))
            witnessing.cancel()
            await asyncio.gather(witnessing, return_exceptions=True)
            checked = await witness.check(client, started)
    finally:
        place.close()
    print(f"{killed}, {len(started)} runs, {checked} acknowledged outcomes checked")
    assert sum(killed.values()) == KILLS_EACH
    assert min(killed.values()) >= 10
    assert len(started) >= 20
    assert checked >= 20
