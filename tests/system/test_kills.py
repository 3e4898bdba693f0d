"""A hundred SIGKILLs of server and worker at random moments, with the acknowledgements kept outside.

The seed is printed; `STEPWELL_KILL_SEED=… pytest tests/system/test_kills.py` plays the same moments again
(as far as two processes on one machine can).
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from stepwell_client import Client, ExecutionStatus, Plan, Retry, RunStatus, Task, word
from stepwell_client.v1 import types_pb2
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


async def kill(place: Place, rnd: Random) -> str:
    """Kill the server or the worker at a random moment, start it again, and say which it was."""
    await asyncio.sleep(rnd.uniform(0.0, 0.4))
    if rnd.random() < 0.6:
        place.kill_server()
        await place.start_server()
        return "server"
    place.kill_worker()
    place.start_worker("tests.system.quick:agent")
    return "worker"


async def attempts_agree(client: Client, run: types_pb2.Run) -> None:
    """The attempts that a run counted are those that its rows tell."""
    ends = Counter(
        [word(ExecutionStatus, one.status) async for one in client.executions(run.spec.run_id)]
    )
    fields = types_pb2.AttemptCounts.DESCRIPTOR.fields
    counted = {field.name.upper(): getattr(run.attempts, field.name) for field in fields}
    assert {name: count for name, count in counted.items() if count} == dict(ends)


@pytest.mark.timeout(400)
@pytest.mark.parametrize("half", [0, 1])
async def test_S3_nothing_acknowledged_is_lost_over_a_hundred_kills(
    tmp_path: Path, half: int
) -> None:
    print(f"seed {SEED}, half {half}")
    rnd = Random(SEED * 2 + half)
    place = Place(tmp_path)
    started: list[str] = []
    killed: Counter[str] = Counter()
    try:
        await place.start_server()
        place.start_worker("tests.system.quick:agent")
        async with place.client() as client:
            witness = Witness(place)
            witnessing = asyncio.create_task(witness.work())
            for _ in range(KILLS_EACH):
                # Acknowledged, so from here on it may not be lost.
                started.append((await client.start("endure", plan=plan(rnd))).id)
                killed[await kill(place, rnd)] += 1
            for run_id in started:
                async with asyncio.timeout(60):
                    run = await client.wait(run_id)
                assert run.status == RunStatus.SUCCEEDED, (run.failure, place.log("server"))
                await attempts_agree(client, run)
            witnessing.cancel()
            await asyncio.gather(witnessing, return_exceptions=True)
            checked = await witness.check(client, started)
    finally:
        place.close()
    print(f"{dict(killed)}, {len(started)} runs, {checked} acknowledged outcomes checked")
    assert sum(killed.values()) == KILLS_EACH
    assert min(killed.values()) >= 10
    assert checked >= 20
