"""The worker against a scripted server: credits, acknowledgements, reconnects."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import grpc
import pytest

from stepwell_client import (
    Agent,
    Client,
    PermissionDenied,
    TaskContext,
    Unauthenticated,
    Worker,
    decode,
)
from stepwell_client.errors import Misconfigured, WorkerReplaced
from stepwell_client.v1 import types_pb2, worker_pb2
from tests.service.client.fakes import (
    TOKEN,
    End,
    FakeServer,
    FastRuntime,
    Stream,
    fake_server,
    serving,
    welcomed,
    working,
)
from tests.support.patience import PATIENCE_S, until
from tests.support.steps import assignment


async def test_it_says_who_it_is_and_what_it_does(
    server: FakeServer, client: Client, agent: Agent
) -> None:
    agent.task(role="painter")(lambda ctx: None)
    agent.reflect(lambda ctx: None)
    agent.plan(input_schema={"type": "object"})(lambda ctx: [])

    async with serving(agent, client, worker_id="w", queues=["q"], version="1.4") as worker:
        hello = (await server.workers.stream()).hello

    assert (hello.worker_id, hello.instance_id) == ("w", worker.instance_id)
    patterns = [(one.kind, one.type, one.role) for one in hello.tasks]
    assert (list(hello.queues), hello.version) == (["q"], "1.4")
    assert (types_pb2.STEP_KIND_TASK, "*", "painter") in patterns
    kinds = ("PLAN", "TASK", "REFLECT")
    assert list(hello.kinds) == [types_pb2.StepKind.Value(f"STEP_KIND_{kind}") for kind in kinds]
    assert hello.input_schema == '{"type":"object"}'
    assert list(hello.stages) == [types_pb2.STEP_KIND_REFLECT]
    assert server.workers.metadata[0]["authorization"] == f"Bearer {TOKEN}"


async def test_worker_that_is_drained_while_it_connects_ends_once_it_is_welcomed(
    server: FakeServer, client: Client, agent: Agent
) -> None:
    async with serving(agent, client) as worker:
        stream = await server.workers.stream()
        draining = asyncio.create_task(worker.drain(0))
        await asyncio.sleep(0)
        await stream.welcome()
        async with asyncio.timeout(PATIENCE_S):
            await draining


async def test_no_more_credits_than_places_are_ever_out(server: FakeServer, client: Client) -> None:
    agent, gate = Agent(), asyncio.Event()

    @agent.task
    async def wait(ctx: TaskContext) -> str:
        await gate.wait()
        return ctx.execution_id

    async with serving(agent, client, concurrency=2) as worker:
        stream = await welcomed(server)
        await stream.granted(2)
        await stream.send(assignments=[assignment("e1"), assignment("e2")])
        await until(lambda: worker.in_flight == 2)
        gate.set()
        outcomes = [await stream.outcome(), await stream.outcome()]
        await stream.granted(4)

    assert {one.lease.token for one in outcomes} == {"token-e1", "token-e2"}
    assert {decode(one.completed.result) for one in outcomes} == {"e1", "e2"}
    # A credit comes back with its outcome.
    assert all(one.credits == len(one.outcomes) for one in stream.requests[1:])
    assert (stream.credits, stream.requests[0].credits) == (4, 2)


async def test_empty_message_of_an_idle_stream_is_answered_by_one(
    server: FakeServer, client: Client, agent: Agent
) -> None:
    async with serving(agent, client):
        stream = await welcomed(server)
        await stream.granted(1)
        for _ in range(2):
            await stream.send()
            assert not (await stream.read()).ListFields()


async def test_an_outcome_without_acknowledgement_is_sent_again_with_the_same_id(
    server: FakeServer, client: Client, agent: Agent
) -> None:
    async with serving(agent, client) as worker:
        first = await welcomed(server)
        await first.send(assignments=[assignment(type_="double", given=1)])
        sent = await first.outcome()
        first.end(grpc.StatusCode.UNAVAILABLE)

        second = await welcomed(server)
        again = await second.outcome()
        await second.ack(again)
        await second.ack(again)  # A second acknowledgement means nothing.
        await until(lambda: not worker._state.pending)

    assert again == sent
    assert [held.token for held in second.hello.held] == ["token-e1"]
    assert second.hello.instance_id == first.hello.instance_id


@pytest.mark.parametrize(
    "end",
    [
        lambda stream: stream.end(),
        lambda stream: stream.end(grpc.StatusCode.CANCELLED),
        lambda stream: stream.end(grpc.StatusCode.INTERNAL),
        lambda stream: stream.send(
            end=worker_pb2.WorkEnd(reason=worker_pb2.WORK_END_REASON_DRAINING)
        ),
    ],
    ids=["end-of-file", "cancelled by the peer", "broken", "draining"],
)
async def test_it_comes_again_and_keeps_its_leases(
    server: FakeServer, client: Client, end: Callable[[Stream], Awaitable[None] | None]
) -> None:
    gate = asyncio.Event()

    async def wait(ctx: TaskContext) -> str:
        await gate.wait()
        return "done"

    async with working(server, client, wait) as (first, worker):
        await until(lambda: worker.in_flight == 1)
        ended = end(first)
        if ended is not None:
            await ended
        second = await welcomed(server)
        gate.set()
        outcome = await second.outcome()

    assert [held.execution_id for held in second.hello.held] == ["e1"]
    assert decode(outcome.completed.result) == "done"


async def test_the_same_assignment_again_is_not_done_twice(
    server: FakeServer, client: Client
) -> None:
    agent, calls, gate = Agent(), [], asyncio.Event()

    @agent.task
    async def wait(ctx: TaskContext) -> None:
        calls.append(ctx.execution_id)
        await gate.wait()

    async with serving(agent, client):
        stream = await welcomed(server)
        await stream.send(assignments=[assignment()])
        await stream.send(assignments=[assignment()])
        await stream.send(assignments=[assignment("e2")])
        await until(lambda: "e2" in calls)
        gate.set()
        found = {
            (await stream.outcome()).lease.execution_id,
            (await stream.outcome()).lease.execution_id,
        }

    assert calls == ["e1", "e2"]
    assert found == {"e1", "e2"}


async def test_without_a_stream_outcomes_go_by_complete(
    server: FakeServer, client: Client, agent: Agent
) -> None:
    async with serving(agent, client) as worker:
        stream = await welcomed(server)
        await stream.send(assignments=[assignment(type_="double", given=1)])
        sent = await stream.outcome()
        server.workers.completes = True
        server.workers.refusals.extend([End(grpc.StatusCode.UNAVAILABLE)] * 3)
        stream.end(grpc.StatusCode.UNAVAILABLE)
        await until(lambda: not worker._state.pending)

    assert server.workers.completed == [sent]


@pytest.mark.parametrize(
    "status", [worker_pb2.ACK_STATUS_LEASE_LOST, worker_pb2.ACK_STATUS_REJECTED]
)
async def test_refused_outcome_is_dropped_and_logged(
    server: FakeServer,
    client: Client,
    status: worker_pb2.AckStatus,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with working(server, client, lambda ctx: 4_711) as (stream, worker):
        await stream.ack(await stream.outcome(), status)
        await until(lambda: not worker._state.pending)

    assert "execution e1" in caplog.text
    assert "4711" not in caplog.text
    assert "token-e1" not in caplog.text


async def test_a_lost_server_is_logged_once_with_its_address(
    server: FakeServer, client: Client, agent: Agent, caplog: pytest.LogCaptureFixture
) -> None:
    server.workers.refusals.extend([End(grpc.StatusCode.UNAVAILABLE, "Connection refused")] * 20)
    async with serving(agent, client):
        await welcomed(server)

    logged = [line for line in caplog.messages if "connects again" in line]
    assert len(logged) == 1
    assert f"no server answers at {server.target};" in logged[0]


async def test_loss_is_logged_with_the_words_of_the_error_that_ended_the_stream(
    server: FakeServer, client: Client, agent: Agent, caplog: pytest.LogCaptureFixture
) -> None:
    server.workers.refusals.append(End(grpc.StatusCode.INTERNAL, "the stream was cut"))
    async with serving(agent, client):
        await welcomed(server)

    (logged,) = [line for line in caplog.messages if "connects again" in line]
    assert logged.endswith(f"{server.target}: the stream was cut")


async def test_R1_server_that_ends_each_stream_costs_few_lines(
    server: FakeServer, client: Client, agent: Agent, caplog: pytest.LogCaptureFixture
) -> None:
    """As one does that welcomes workers and can commit nothing: its disk is full."""
    caplog.set_level(logging.INFO, "stepwell_client")
    async with serving(agent, client):
        for _ in range(20):
            (await welcomed(server)).end(grpc.StatusCode.UNAVAILABLE)
        await welcomed(server)

    logged = [line for line in caplog.messages if "connects again" in line]
    assert len(logged) == 1
    served = [line for line in caplog.messages if "serves replica" in line]
    assert len(served) == 2


async def test_replaced_ends_run_with_an_error(
    server: FakeServer, client: Client, agent: Agent
) -> None:
    worker = Worker(agent, client, worker_id="w")
    task = asyncio.ensure_future(worker.run())
    stream = await welcomed(server)
    await stream.send(end=worker_pb2.WorkEnd(reason=worker_pb2.WORK_END_REASON_REPLACED))

    with pytest.raises(WorkerReplaced, match="two ids"):
        await task


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (grpc.StatusCode.UNAUTHENTICATED, Unauthenticated),
        (grpc.StatusCode.PERMISSION_DENIED, PermissionDenied),
    ],
)
async def test_permanent_error_ends_the_worker(
    server: FakeServer,
    client: Client,
    agent: Agent,
    code: grpc.StatusCode,
    error: type[Exception],
) -> None:
    server.workers.refusals.append(End(code, "no"))

    with pytest.raises(error):
        await asyncio.wait_for(Worker(agent, client).run(), PATIENCE_S)


async def test_an_oversize_result_fails_its_own_step_and_says_how_large_it_was(
    server: FakeServer, client: Client
) -> None:
    agent = Agent()

    @agent.task
    async def work(ctx: TaskContext, size: int) -> bytes:
        return bytes(size)

    async with serving(agent, client):
        stream = await welcomed(server)
        sizes = {"e1": 1_048_577, "e2": 1_048_576, "e3": 1}
        await stream.send(assignments=[assignment(key, given=size) for key, size in sizes.items()])
        found = {}
        while len(found) < 3:
            outcome = await stream.outcome()
            found[outcome.lease.execution_id] = outcome

    failure = found["e1"].failed.failure
    assert (failure.kind, failure.retryable) == ("RESULT_TOO_LARGE", False)
    assert "1,048,577" in failure.message
    assert found["e2"].HasField("completed")
    assert found["e3"].HasField("completed")


async def test_large_outcomes_are_spread_over_messages(server: FakeServer, client: Client) -> None:
    agent, gate, started = Agent(), asyncio.Event(), list[str]()

    @agent.task
    async def work(ctx: TaskContext) -> bytes:
        started.append(ctx.task_id)
        await gate.wait()
        return bytes(900_000)

    async with serving(agent, client):
        stream = await welcomed(server)
        await stream.send(assignments=[assignment(f"e{n}") for n in range(8)])
        await until(lambda: len(started) == 8)
        gate.set()
        found = {(await stream.outcome()).lease.execution_id for _ in range(8)}

    assert len(found) == 8
    assert max(request.ByteSize() for request in stream.requests) < 4 * 1024 * 1024


async def test_sync_functions_run_side_by_side_in_threads(
    server: FakeServer, client: Client
) -> None:
    agent, barrier = Agent(), threading.Barrier(4)

    @agent.task
    def work(ctx: TaskContext) -> str:
        barrier.wait(PATIENCE_S)
        return threading.current_thread().name

    async with serving(agent, client):
        stream = await welcomed(server)
        await stream.send(assignments=[assignment(f"e{n}") for n in range(4)])
        names = {decode((await stream.outcome()).completed.result) for _ in range(4)}

    assert len(names) == 4
    assert threading.current_thread().name not in names


async def test_a_token_that_a_restarted_server_minted_anew_is_read_again(
    server: FakeServer, agent: Agent, tmp_path: Any
) -> None:
    file = tmp_path / "token"
    file.write_text("old\n")
    async with Client(server.target, token_file=file, runtime=FastRuntime()) as client:
        file.write_text("new\n")
        server.workers.old_tokens.add("old")
        async with serving(agent, client):
            await welcomed(server)

    tokens = [metadata["authorization"] for metadata in server.workers.metadata]
    # gRPC may report a stream that ends at once as INTERNAL: the worker tries the old one once more then.
    assert (tokens[0], tokens[-1]) == ("Bearer old", "Bearer new")


async def test_worker_returns_as_soon_as_its_server_listens_again(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = FastRuntime()
    monkeypatch.setattr(runtime, "random", lambda: 1e9)
    async with AsyncExitStack() as stack:
        async with fake_server() as first:
            client = await stack.enter_async_context(
                Client(first.target, token=TOKEN, runtime=runtime)
            )
            await stack.enter_async_context(serving(agent, client))
            await welcomed(first)
        async with fake_server(int(first.target.rpartition(":")[2])) as second:
            await welcomed(second)


def test_unusable_options_are_refused_at_once(agent: Agent) -> None:
    with pytest.raises(Misconfigured, match="concurrency"):
        Worker(agent, "127.0.0.1:1", concurrency=0)
    with pytest.raises(Misconfigured, match="no functions"):
        Worker(Agent("empty"), "127.0.0.1:1")
