"""E9: a watcher that doesn't read costs its server a few megabytes at the most, and delays nobody.

Measured on the server's process, over a run whose events are as large as they can be: were its log kept for
a stalled watcher, or a page of it, each would cost tens of megabytes.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from stepwell_client import Client, Plan, Retry, Task
from stepwell_client.v1 import orchestrator_pb2, orchestrator_pb2_grpc
from tests.chaos.load.runs import checked
from tests.chaos.world.agent import BULKY_ATTEMPTS, BULKY_CHARS
from tests.chaos.world.cluster import Cluster, cluster_on
from tests.chaos.world.programs import Program
from tests.support.patience import PATIENCE_S
from tests.support.proofs import record

MIB = 1024 * 1024
STALLED = 8
COST_MAX_BYTES = 8 * MIB
STALL_MS = 10_000
"""The stall limit; a watcher that reads everything needs most of it."""
TASKS = 8
MANUAL = [("grpc.http2.lookahead_bytes", 1_024), ("grpc.http2.bdp_probe", 0)]
"""Options of a channel that takes from the network only what is read."""


def memory_bytes(program: Program) -> int:
    """Return what a process has in memory, of its own."""
    for line in Path(f"/proc/{program.pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise LookupError(program.name)


async def _long_run(client: Client) -> str:
    """Return a run with as much to be watched as there is room for in a few hundred events."""
    often = Retry(max_attempts=BULKY_ATTEMPTS, initial_backoff=0.01, max_backoff=0.01)
    plan = Plan([Task(f"t{n}", type="bulky", retry=often) for n in range(TASKS)])
    handle = await client.start("much", plan=plan)
    await handle.wait(timeout_seconds=PATIENCE_S)
    return handle.id


async def _read_all(cluster: Cluster, run_id: str) -> int:
    """Read it as one who reads as fast as it comes; returns its bytes."""
    stub = orchestrator_pb2_grpc.OrchestratorStub(cluster.channel("r1"))
    request = orchestrator_pb2.WatchRunRequest(run_id=run_id)
    call = stub.WatchRun(request, metadata=cluster.metadata)
    return sum([message.ByteSize() async for message in call])


async def _stalled(cluster: Cluster, run_id: str) -> tuple[grpc.aio.Channel, Any]:
    """Begin to read, and read no more."""
    channel = grpc.aio.insecure_channel(cluster.target("r1"), options=MANUAL)
    stub = orchestrator_pb2_grpc.OrchestratorStub(channel)
    request = orchestrator_pb2.WatchRunRequest(run_id=run_id)
    call = stub.WatchRun(request, metadata=cluster.metadata)
    await call.read()
    return channel, call


async def _end_of(call: Any) -> str:
    """Read what is left, and return what it ended with."""
    try:
        while isinstance(message := await call.read(), orchestrator_pb2.WatchRunResponse):
            if message.HasField("end"):
                return orchestrator_pb2.WatchEndReason.Name(message.end.reason)
    except grpc.aio.AioRpcError as error:
        return error.details() or error.code().name
    return "nothing"


@pytest.mark.proof(meets=["watcher dropped for slowness"])
async def test_E9_stalled_watcher_costs_a_few_megabytes_and_delays_nobody(tmp_path: Path) -> None:
    with cluster_on("sqlite", tmp_path) as cluster:
        await cluster.start(STEPWELL_WATCH__STALL_MS=str(STALL_MS))
        await cluster.work("w1", "r1", concurrency=TASKS)
        async with cluster.client() as client:
            run_id = await _long_run(client)
            # The first to read it all makes the room that any reader needs, once.
            size = await _read_all(cluster, run_id)
            assert size > TASKS * (BULKY_ATTEMPTS - 1) * BULKY_CHARS
            before = memory_bytes(cluster.replicas["r1"])
            stalled = [await _stalled(cluster, run_id) for _ in range(STALLED)]
            peak = memory_bytes(cluster.replicas["r1"])
            async with asyncio.timeout(STALL_MS / 1_000 * 0.8):
                # While they lie there, somebody else reads all of it.
                assert await _read_all(cluster, run_id) == size
            peak = max(peak, memory_bytes(cluster.replicas["r1"]))
            await asyncio.sleep(STALL_MS / 1_000 * 1.3)
            ends = [await _end_of(call) for _, call in stalled]
            for channel, _ in stalled:
                await channel.close()
        await checked(cluster)
    cost = (peak - before) // STALLED
    print(f"{size // MIB} MiB to read; {cost // 1024} KiB for each of {STALLED} who don't; {ends}")
    assert cost <= COST_MAX_BYTES, "E9"
    slow = [end for end in ends if "SLOW_CONSUMER" in end or "not read" in end]
    assert len(slow) == STALLED, ends
    figures = {"stalled": STALLED, "KiB for each": cost // 1024, "MiB to read": size // MIB}
    record.note("stalled watchers", figures, {"watcher dropped for slowness": len(slow)})
