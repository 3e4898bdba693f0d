"""E6: a run that retention has removed is reported as gone, by every replica and at any cursor, and never as empty."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

import grpc
import grpc.aio
import pytest

from stepwell_client import RunStatus
from stepwell_client.v1 import orchestrator_pb2, orchestrator_pb2_grpc
from tests.chaos.load.runs import graph
from tests.chaos.world.cluster import Cluster, cluster_on
from tests.support.patience import PATIENCE_S
from tests.support.proofs import record

GONE = "is gone"


async def _watch(cluster: Cluster, name: str, run_id: str, after: int) -> str:
    """Read to the end, and return how it ended."""
    stub = orchestrator_pb2_grpc.OrchestratorStub(cluster.channel(name))
    request = orchestrator_pb2.WatchRunRequest(run_id=run_id, after=after)
    call = stub.WatchRun(request, metadata=cluster.metadata)
    try:
        async for message in call:
            if message.HasField("end"):
                return orchestrator_pb2.WatchEndReason.Name(message.end.reason)
    except grpc.aio.AioRpcError as error:
        return GONE if error.code() is grpc.StatusCode.NOT_FOUND else error.code().name
    return "ended without a word"


@pytest.mark.proof
@pytest.mark.parametrize("kind", ["grpc", "postgres", "redis_cluster"])
async def test_E6_purged_run_is_gone_at_every_cursor_and_replica(tmp_path: Path, kind: str) -> None:
    with cluster_on(kind, tmp_path) as cluster:
        await cluster.start(
            # So long that whoever waits for the end sees it first.
            STEPWELL_RETENTION__SUCCEEDED_MS="3000",
            STEPWELL_RETENTION__SWEEP_MS="100",
        )
        await cluster.work("w1", "r1")
        async with cluster.client() as client:
            handle = await client.start("short", plan=graph(Random(1), 6))
            run = await handle.wait(timeout_seconds=PATIENCE_S)
            assert run.status == RunStatus.SUCCEEDED
        ends: list[str] = []
        async with asyncio.timeout(PATIENCE_S):
            while GONE not in ends:
                # Some come before the sweep and see all of it; nobody sees a part.
                looks = (_watch(cluster, name, handle.id, 3) for name in cluster.names)
                ends += await asyncio.gather(*looks)
        assert set(ends) <= {"WATCH_END_REASON_FINISHED", "WATCH_END_REASON_PURGED", GONE}
        for after in (0, 3, run.last_event, run.last_event + 7):
            for name in cluster.names:
                assert await _watch(cluster, name, handle.id, after) == GONE, "E6"
        await cluster.hang_up()
    record.happened("watched after a purge")
