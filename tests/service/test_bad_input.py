"""Bad input that the issue names: a clear error, and nothing lost. Workers' are in test_worker.py."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest

from stepwell_client.v1 import orchestrator_pb2 as opb
from stepwell_client.v1 import types_pb2
from tests.service.conftest import ME, NO_RUN, Client, World, bearer, refusal
from tests.support.patience import until

INVALID = grpc.StatusCode.INVALID_ARGUMENT


async def test_unknown_run(client: Client) -> None:
    for request in (
        client.runs.GetRun(opb.GetRunRequest(run_id=NO_RUN), metadata=ME),
        client.runs.CancelRun(opb.CancelRunRequest(run_id=NO_RUN), metadata=ME),
        client.watch(NO_RUN),
    ):
        error = await refusal(request)
        assert (error.code, error.reason) == (grpc.StatusCode.NOT_FOUND, "RUN_NOT_FOUND")
        assert error.metadata == {"run_id": NO_RUN}


@pytest.mark.parametrize(
    "run_id", ["", "1", "{x}", NO_RUN.replace("0", "G"), "../" * 12, NO_RUN + " ", "a" * 1024]
)
async def test_malformed_id(client: Client, run_id: str) -> None:
    error = await refusal(client.get(run_id))

    assert (error.code, error.reason, error.fields) == (INVALID, "INVALID_ARGUMENT", ["run_id"])


async def test_negative_page_size(client: Client) -> None:
    error = await refusal(client.runs.ListRuns(opb.ListRunsRequest(page_size=-1), metadata=ME))

    assert (error.code, error.fields) == (INVALID, ["page_size"])


async def _token(client: Client, metadata: Any = ME, **fields: Any) -> str:
    request = opb.ListRunsRequest(page_size=1, **fields)
    return (await client.runs.ListRuns(request, metadata=metadata)).next_page_token


async def test_token_of_another_query(client: Client) -> None:
    for metadata in (ME, ME, ME, bearer("foreign"), bearer("foreign")):
        await client.runs.StartRun(opb.StartRunRequest(goal="g"), metadata=metadata)
    mine = await _token(client)
    foreign = await _token(client, bearer("foreign"))
    run = await client.start_tasks("a", "b")
    tasks = await client.runs.ListTasks(
        opb.ListTasksRequest(run_id=run.spec.run_id, page_size=1), metadata=ME
    )

    assert (await client.runs.ListRuns(opb.ListRunsRequest(page_token=mine), metadata=ME)).runs
    for request in (
        opb.ListRunsRequest(page_token=mine, queue="q"),
        opb.ListRunsRequest(page_token=foreign),
        opb.ListRunsRequest(page_token=tasks.next_page_token),
        opb.ListRunsRequest(page_token=mine[:-2]),
        opb.ListRunsRequest(page_token=mine + "="),
        opb.ListRunsRequest(page_token="nonsense"),
        opb.ListRunsRequest(page_token="\N{SNOWMAN}"),
        opb.ListRunsRequest(page_token="A" * 1024),
    ):
        error = await refusal(client.runs.ListRuns(request, metadata=ME))
        assert (error.code, error.reason) == (INVALID, "PAGE_TOKEN_INVALID"), request
        assert error.fields == ["page_token"]


async def test_cursor_from_the_future(client: Client) -> None:
    run = await client.start_tasks("a")

    error = await refusal(client.watch(run.spec.run_id, after=10**12))

    assert (error.code, error.reason) == (INVALID, "CURSOR_IN_FUTURE")


async def test_a_goal_of_10_mb(client: Client) -> None:
    error = await refusal(client.start(goal="g" * 10_000_000))
    smaller = await refusal(client.start(goal="g" * 1_000_000))

    assert error.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert error.reason == "MESSAGE_TOO_LARGE"
    assert (smaller.code, smaller.fields) == (INVALID, ["goal"])


async def test_malformed_message_is_refused(client: Client) -> None:
    call = client.channel.unary_unary("/stepwell.v1.Orchestrator/GetRun")

    error = await refusal(call(b"\xff\xff\xff", metadata=ME))

    assert (error.code, error.reason) == (INVALID, "INVALID_ARGUMENT")


def _chain(count: int) -> list[types_pb2.TaskSpec]:
    return [
        types_pb2.TaskSpec(task_id=f"t{i}", depends_on=[f"t{i - 1}"] if i else [])
        for i in range(count)
    ]


async def test_every_fault_of_a_plan_is_listed_by_its_path(client: Client) -> None:
    tasks = [
        types_pb2.TaskSpec(task_id="a", depends_on=["a"]),
        types_pb2.TaskSpec(task_id="b", depends_on=["nobody"]),
        types_pb2.TaskSpec(task_id="b"),
    ]

    error = await refusal(client.start(plan=types_pb2.PlanDraft(tasks=tasks)))

    assert sorted(error.fields) == [
        "plan.tasks[0].depends_on[0]",
        "plan.tasks[1].depends_on[0]",
        "plan.tasks[2].task_id",
    ]


async def test_list_of_faults_is_of_bounded_size(client: Client) -> None:
    tasks = [types_pb2.TaskSpec(task_id=f"t{i}", title="x" * 2_000) for i in range(500)]

    error = await refusal(client.start(plan=types_pb2.PlanDraft(tasks=tasks)))

    assert error.code is INVALID
    assert error.fields[0] == "plan.tasks[0].title"
    assert "499 more" in error.message


async def test_an_unexpected_error_leaks_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = await world.server()
    client = await world.client(server)

    async def explode(*_args: object) -> None:
        raise ZeroDivisionError("a secret of the house")

    monkeypatch.setattr(server.store, "get_run", explode)
    error = await refusal(client.get(NO_RUN))

    assert (error.code, error.reason) == (grpc.StatusCode.INTERNAL, "INTERNAL")
    assert "secret" not in error.message
    assert error.metadata["error_id"] in error.message


async def test_a_client_that_goes_away_leaves_nothing_behind(client: Client) -> None:
    run = await client.start_tasks("a", queue="nobody")
    before = len(asyncio.all_tasks())
    calls = [client.watch(run.spec.run_id) for _ in range(20)]
    for call in calls:
        await call.read()
    for call in calls:
        call.cancel()

    await until(lambda: len(asyncio.all_tasks()) <= before + 3)
