"""A server on a disk whose syncs take long: only what has to be written waits."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from stepwell_client.v1 import worker_pb2 as wpb
from stepwell_drivers.sql.sqlite import engine
from tests.service.conftest import World, completed, lease_of
from tests.support.slow_disk import slow

SERVING = health_pb2.HealthCheckResponse.SERVING


async def test_slow_sync_holds_up_no_health_read_or_watch_and_loses_no_lease(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.url = f"sqlite:///{tmp_path / 'a.db'}"
    client = await world.client(await world.server())
    run = await client.start_tasks("a", "b")
    async with client.worker(grant=2) as worker:
        first, second = await worker.assignment(), await worker.assignment()
        before = await client.get(run.spec.run_id)
        with slow(monkeypatch, engine, "commit") as disk:
            await worker.send(completed(first))
            await disk.met()
            beat = wpb.LeaseHeartbeat(**lease_of(second))
            beaten = asyncio.ensure_future(client.ask("Heartbeat", heartbeats=[beat]))
            health: Any = health_pb2_grpc.HealthStub(client.channel)
            checked = await health.Check(health_pb2.HealthCheckRequest())
            assert checked.status == SERVING
            assert await client.get(run.spec.run_id) == before
            watch = client.watch(run.spec.run_id)
            seen = 0
            while seen < before.last_event:
                seen += len((await watch.read()).events.events)
            assert seen == before.last_event
            assert not beaten.done()
            disk.let_go()
            await worker.ack()
            assert (await beaten).leases[0].status == wpb.LEASE_STATUS_LIVE
        await worker.complete(second)
        assert (await client.wait(run.spec.run_id)).last_event > before.last_event
        watch.cancel()
