"""S8: a worker's process that was stopped past its leases and then goes on is told that they are lost."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from stepwell_client.v1 import types_pb2
from tests.chaos.zombies.deaths import AT_ONCE, SHORT, take_over
from tests.chaos.zombies.rows import differences, rows_of
from tests.chaos.zombies.world import TENANT, world_on
from tests.support.proofs import record

TOP = Path(__file__).parents[3]
STEPS = 6


@pytest.mark.proof
@pytest.mark.parametrize("kind", ["sqlite", "redis"])
async def test_S8_a_worker_stopped_past_its_leases_changes_nothing_when_it_goes_on(
    kind: str, tmp_path: Path
) -> None:
    async with world_on(kind, tmp_path) as world:
        client = world.clients[0]
        specs = [
            types_pb2.TaskSpec(task_id=f"t{at}", retry=AT_ONCE, heartbeat_timeout=SHORT)
            for at in range(STEPS)
        ]
        plan = types_pb2.PlanDraft(tasks=specs)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.chaos.zombies.sleeper"),
            *(world.servers[0].addresses[0], "q", str(STEPS)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            cwd=TOP,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            run = await client.start(plan=plan, queue="q", max_parallel=STEPS)
            assert await process.stdout.readline() == b"leased\n"
            os.kill(process.pid, signal.SIGSTOP)
            async with world.clients[-1].worker("other", queues=["q"], grant=STEPS) as other:
                await take_over(other, STEPS)
            done = await client.wait(run.spec.run_id)
            assert done.status == types_pb2.RUN_STATUS_SUCCEEDED
            before = await rows_of(world.store, TENANT, workers=("stopped", "other"))
            process.stdin.write(b"go on\n")
            os.kill(process.pid, signal.SIGCONT)
            out, _ = await asyncio.wait_for(process.communicate(), 30)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        assert out.split() == [b"ACK_STATUS_LEASE_LOST"] * 2 * STEPS, "S8"
        after = await rows_of(world.store, TENANT, workers=("stopped", "other"))
        assert not differences(before, after), "S8"
    refused = {"stale result refused": 2 * STEPS, "lease expired with a live worker": STEPS}
    record.keep(
        record.Record(
            proof="zombies, stopped processes",
            command="make proof ARGS='-k stopped_past'",
            figures={"stale results refused": 2 * STEPS, "processes stopped": 1, "accepted": 0},
            happened=refused,
        )
    )
