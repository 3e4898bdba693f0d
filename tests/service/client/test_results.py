"""Results that a step reads: waited for as long as its lease lives, and for no longer."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest

from stepwell_client import Client, TaskContext, decode
from stepwell_client.v1 import worker_pb2
from tests.service.client.fakes import End, FakeServer, working
from tests.support.patience import until
from tests.support.steps import shown


def reads_both(is_async: bool) -> Any:
    async def load(ctx: TaskContext) -> list[Any]:
        return [(await ctx.load("a"))["a"], (await ctx.load("b"))["b"]]

    def read(ctx: TaskContext) -> list[Any]:
        return [ctx.results["a"], ctx.results["b"]]

    return load if is_async else read


UNREAD = shown("a", "b", by_reference=True)


@pytest.mark.parametrize("is_async", [True, False])
async def test_read_waits_for_a_server_that_is_away(
    server: FakeServer, client: Client, is_async: bool
) -> None:
    server.workers.results = shown("a", "b")
    server.workers.read_refusals.extend(End(grpc.StatusCode.UNAVAILABLE) for _ in range(20))
    async with working(server, client, reads_both(is_async), results=UNREAD) as (stream, _):
        outcome = await stream.outcome()

    assert decode(outcome.completed.result) == ["a", "b"]
    assert server.workers.reads == [["a"]] * 21 + [["b"]]


@pytest.mark.parametrize("is_async", [True, False])
async def test_read_ends_with_its_lease_and_reports_nothing(
    server: FakeServer, client: Client, is_async: bool
) -> None:
    server.workers.lease_state["e1"] = {"status": worker_pb2.LEASE_STATUS_LOST}
    async with working(server, client, reads_both(is_async), results=UNREAD, interval=0.02) as (
        stream,
        worker,
    ):
        await until(lambda: bool(server.workers.reads))
        await until(lambda: worker.in_flight == 0)
        await asyncio.sleep(0)
        assert not stream.outcomes
