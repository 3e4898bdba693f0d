"""Many calls at once are served, or refused with a reason; a worker's reports are never refused."""

from __future__ import annotations

import asyncio
from collections import Counter

import grpc

from stepwell.config import GrpcSettings
from stepwell.core.records.model import Run
from tests.service.conftest import Client, World, refusal


async def test_burst_of_2500_calls_on_one_connection_is_served(client: Client) -> None:
    async def ask() -> str:
        try:
            await client.ask("GetServerInfo")
        except grpc.aio.AioRpcError as error:
            return f"{error.code()} {error.details()}"
        return "served"

    assert Counter(await asyncio.gather(*[ask() for _ in range(2_500)])) == {"served": 2_500}


async def test_stream_beyond_the_limit_is_refused_with_a_reason(world: World) -> None:
    server = await world.server(grpc=GrpcSettings(port=0, streams_max=1_000))
    client = await world.client(server)
    run = await client.start_tasks("a", queue="q")
    async with client.worker(queues=["q"]) as worker:
        got = await worker.assignment()
        watches = [client.watch(run.spec.run_id) for _ in range(999)]
        await asyncio.gather(*[watch.read() for watch in watches])

        for call in (client.watch(run.spec.run_id), client.wait(run.spec.run_id)):
            error = await refusal(call)
            assert error.code is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert error.reason == "TOO_MANY_CALLS"
            assert error.retry
        # Short calls have places of their own.
        assert await client.get(run.spec.run_id)
        watches.pop().cancel()
        assert (await worker.complete(got)).status
        assert (await client.wait(run.spec.run_id)).ended_time


async def test_short_call_beyond_the_limit_is_refused_but_a_report_is_not(world: World) -> None:
    server = await world.server(grpc=GrpcSettings(port=0, calls_max=1))
    client = await world.client(server)
    entered, leave = asyncio.Event(), asyncio.Event()
    get_run = server.store.get_run

    async def slow(tenant_id: str, run_id: str) -> Run | None:
        entered.set()
        await leave.wait()
        return await get_run(tenant_id, run_id)

    server.store.get_run = slow
    run = await client.start_tasks("a", queue="q")
    asked = asyncio.ensure_future(client.get(run.spec.run_id))
    await entered.wait()

    assert (await refusal(client.ask("GetServerInfo"))).reason == "TOO_MANY_CALLS"
    for report in ("Heartbeat", "ReportOutcomes", "AppendOutput"):
        await client.ask(report)
    leave.set()
    assert await asked
