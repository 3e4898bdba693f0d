"""The synchronous client against a scripted server, from a thread of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest

from stepwell_client import RunStatus, SyncClient, Task, Unavailable, decode
from stepwell_client.v1 import orchestrator_pb2 as opb
from stepwell_client.v1 import types_pb2
from tests.service.client.fakes import (
    TOKEN,
    End,
    FakeServer,
    FastRuntime,
    Script,
    a_run,
    events,
    watch_end,
)
from tests.support.patience import PATIENCE_S
from tests.support.steps import RUN_ID

FINISHED = opb.WATCH_END_REASON_FINISHED
LOST = End(grpc.StatusCode.UNAVAILABLE, "said the server")
CANCELLED = a_run(types_pb2.RUN_STATUS_CANCELLED)


@pytest.fixture
def client(server: FakeServer) -> Iterator[SyncClient]:
    with SyncClient(server.target, token=TOKEN, runtime=FastRuntime()) as made:
        yield made


async def test_start_shapes_the_same_request_as_the_other_client(
    server: FakeServer, client: SyncClient
) -> None:
    server.runs.answers["StartRunRequest"] = Script(
        opb.StartRunResponse(run=CANCELLED, created=True)
    )
    run = await asyncio.to_thread(client.start, "goal", input=[1], plan=[Task("a")])
    (request,) = server.runs.requests
    assert run.created
    assert decode(request.input) == [1]
    assert request.plan.tasks[0].task_id == "a"
    assert request.request_id
    assert server.runs.metadata[0]["authorization"] == f"Bearer {TOKEN}"


async def test_a_call_is_repeated_while_the_server_is_unavailable(
    server: FakeServer, client: SyncClient
) -> None:
    server.runs.answers["GetRunRequest"] = Script(LOST, opb.GetRunResponse(run=CANCELLED))
    assert (await asyncio.to_thread(client.get, RUN_ID)).status == RunStatus.CANCELLED


async def test_it_gives_up_after_five_attempts(server: FakeServer, client: SyncClient) -> None:
    server.runs.answers["GetRunRequest"] = Script(LOST)
    with pytest.raises(Unavailable, match="said the server"):
        await asyncio.to_thread(client.get, RUN_ID)
    assert len(server.runs.requests) == 5


@pytest.mark.parametrize(
    ("call", "request_", "response"),
    [
        (lambda c: c.cancel(RUN_ID), "CancelRun", opb.CancelRunResponse(run=CANCELLED)),
        (lambda c: c.delete(RUN_ID), "DeleteRun", opb.DeleteRunResponse()),
        (lambda c: c.wait(RUN_ID, 5), "WaitRun", opb.WaitRunResponse(run=CANCELLED, ended=True)),
        (lambda c: c.server_info(), "GetServerInfo", opb.GetServerInfoResponse(version="1")),
        (lambda c: list(c.list()), "ListRuns", opb.ListRunsResponse(runs=[CANCELLED])),
    ],
    ids=["cancel", "delete", "wait", "info", "list"],
)
async def test_other_calls_are_answered(
    server: FakeServer,
    client: SyncClient,
    call: Callable[[SyncClient], Any],
    request_: str,
    response: Any,
) -> None:
    server.runs.answers[f"{request_}Request"] = Script(response)
    await asyncio.to_thread(call, client)
    assert len(server.runs.requests) == 1


@pytest.mark.usefixtures("scripted_server")
async def test_a_watch_comes_again_without_gap_or_repeat(
    server: FakeServer, client: SyncClient
) -> None:
    server.runs.watches.extend(
        [
            [events(3, 4), LOST],
            [End(grpc.StatusCode.CANCELLED)],
            [events(4, 5), End()],
            [events(6), watch_end(FINISHED)],
        ]
    )

    def numbers() -> list[int]:
        return [event.number for event in client.watch(RUN_ID, after=2)]

    assert await asyncio.to_thread(numbers) == [3, 4, 5, 6]
    assert [request.after for request in server.runs.requests] == [2, 4, 4, 5]


async def test_leaving_the_loop_cancels_the_call(server: FakeServer, client: SyncClient) -> None:
    server.runs.watches.append([events(1)])

    def first() -> int:
        with client.watch(RUN_ID) as watch:
            return next(iter(watch)).number

    assert await asyncio.to_thread(first) == 1
    await asyncio.wait_for(server.runs.watch_cancelled.wait(), PATIENCE_S)
