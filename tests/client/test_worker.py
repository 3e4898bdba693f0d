"""The worker against a scripted server: leases, credits, acknowledgements, reconnects, drains."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent import futures
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from tests.client.fakes import (
    RUN_ID,
    TOKEN,
    End,
    FakeServer,
    FastRuntime,
    Stream,
    ack_of,
    assignment,
    span,
)

from stepwell_client import (
    Agent,
    Client,
    Misconfigured,
    PermissionDenied,
    TaskContext,
    Unauthenticated,
    Worker,
    WorkerReplaced,
    decode,
)
from stepwell_client.v1 import orchestrator_pb2, types_pb2, worker_pb2, worker_pb2_grpc


@pytest.fixture
def agent() -> Agent:
    made = Agent("tester")

    @made.task("double")
    async def double(ctx: TaskContext, number: int) -> int:
        return 2 * number

    return made


@asynccontextmanager
async def serving(agent: Agent, client: Client, **options: Any) -> AsyncIterator[Worker]:
    """A worker whose run() is ended by the test's end."""
    worker = Worker(agent, client, **options)
    task = asyncio.ensure_future(worker.run())
    try:
        yield worker
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def welcomed(server: FakeServer, **terms: Any) -> Stream:
    stream = await server.workers.stream()
    await stream.welcome(**terms)
    return stream


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.005)


async def test_it_says_who_it_is_and_what_it_does(
    server: FakeServer, client: Client, agent: Agent
) -> None:
    agent.task(role="painter")(lambda ctx: None)
    agent.reflect(lambda ctx: None)

    async with serving(agent, client, worker_id="w", queues=["q"]) as worker:
        hello = (await server.workers.stream()).hello

    assert (hello.worker_id, hello.instance_id) == ("w", worker.instance_id)
    assert (list(hello.queues), list(hello.roles)) == (["q"], ["painter"])
    assert list(hello.kinds) == [types_pb2.STEP_KIND_TASK, types_pb2.STEP_KIND_REFLECT]
    assert list(hello.stages) == [types_pb2.STEP_KIND_REFLECT]
    assert server.workers.metadata[0]["authorization"] == f"Bearer {TOKEN}"


async def test_a_step_is_done_and_the_credit_comes_back_with_its_outcome(
    server: FakeServer, client: Client, agent: Agent
) -> None:
    async with serving(agent, client, concurrency=3):
        stream = await welcomed(server)
        await stream.granted(3)

        await stream.send(assignments=[assignment(type="double", input=21)])
        request = await stream.read()

    assert decode(request.outcomes[0].completed.result) == 42
    assert request.outcomes[0].lease_token == "token-e1"
    assert request.credits == 1


async def test_no_more_credits_than_places_are_ever_out(
    server: FakeServer, client: Client
) -> None:
    agent, gate = Agent(), asyncio.Event()

    @agent.task
    async def wait(ctx: TaskContext) -> None:
        await gate.wait()

    async with serving(agent, client, concurrency=2) as worker:
        stream = await welcomed(server)
        await stream.granted(2)
        await stream.send(assignments=[assignment("e1"), assignment("e2")])
        await until(lambda: worker.in_flight == 2)
        gate.set()
        await stream.granted(4)

    assert stream.credits == 4
    assert [request.credits for request in stream.requests][0] == 2


async def test_an_outcome_without_acknowledgement_is_sent_again_with_the_same_id(
    server: FakeServer, client: Client, agent: Agent
) -> None:
    async with serving(agent, client) as worker:
        first = await welcomed(server)
        await first.send(assignments=[assignment(type="double", input=1)])
        sent = await first.outcome()
        first.end(grpc.StatusCode.UNAVAILABLE)

        second = await welcomed(server)
        again = await second.outcome()
        await second.ack(again)
        await second.ack(again)  # A second acknowledgement means nothing.
        await until(lambda: not worker._ledger.pending)

    assert again == sent
    assert [held.lease_token for held in second.hello.held] == ["token-e1"]
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
    agent, gate = Agent(), asyncio.Event()

    @agent.task
    async def wait(ctx: TaskContext) -> str:
        await gate.wait()
        return "done"

    async with serving(agent, client, concurrency=2) as worker:
        first = await welcomed(server)
        await first.send(assignments=[assignment()])
        await until(lambda: worker.in_flight == 1)
        ended = end(first)
        if ended is not None:
            await ended

        second = await welcomed(server)
        await second.granted(1)
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
        found = {(await stream.outcome()).execution_id, (await stream.outcome()).execution_id}

    assert calls == ["e1", "e2"]
    assert found == {"e1", "e2"}


async def test_without_a_stream_outcomes_go_by_complete(
    server: FakeServer, client: Client, agent: Agent
) -> None:
    async with serving(agent, client) as worker:
        stream = await welcomed(server)
        await stream.send(assignments=[assignment(type="double", input=1)])
        sent = await stream.outcome()
        server.workers.completes = True
        server.workers.refusals.extend([End(grpc.StatusCode.UNAVAILABLE)] * 3)
        stream.end(grpc.StatusCode.UNAVAILABLE)
        await until(lambda: not worker._ledger.pending)

    assert server.workers.completed == [sent]


@pytest.mark.parametrize(
    "status", [worker_pb2.ACK_STATUS_LEASE_LOST, worker_pb2.ACK_STATUS_REJECTED]
)
async def test_a_refused_outcome_is_dropped_with_a_word_in_the_log(
    server: FakeServer,
    client: Client,
    agent: Agent,
    status: worker_pb2.AckStatus,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving(agent, client) as worker:
        stream = await welcomed(server)
        await stream.send(assignments=[assignment(type="double", input=4_711)])
        await stream.ack(await stream.outcome(), status)
        await until(lambda: not worker._ledger.pending)

    assert "execution e1" in caplog.text
    assert "4711" not in caplog.text
    assert "token-e1" not in caplog.text


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
async def test_what_no_repetition_mends_ends_run(
    server: FakeServer,
    client: Client,
    agent: Agent,
    code: grpc.StatusCode,
    error: type[Exception],
) -> None:
    server.workers.refusals.append(End(code, "no"))

    with pytest.raises(error):
        await asyncio.wait_for(Worker(agent, client).run(), 5)


async def test_a_pushed_cancellation_cancels_the_step_and_nothing_is_reported(
    server: FakeServer, client: Client
) -> None:
    agent, cancelled = Agent(), asyncio.Event()

    @agent.task
    async def wait(ctx: TaskContext) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    async with serving(agent, client, concurrency=1) as worker:
        stream = await welcomed(server)
        await stream.granted(1)
        await stream.send(assignments=[assignment()])
        await until(lambda: worker.in_flight == 1)
        await stream.send(
            cancellations=[worker_pb2.Cancellation(run_id=RUN_ID, execution_id="e1")]
        )
        await asyncio.wait_for(cancelled.wait(), 5)
        await stream.granted(2)

    assert not stream.outcomes


async def test_a_heartbeat_answered_lost_cancels_the_step(
    server: FakeServer, client: Client
) -> None:
    agent, cancelled = Agent(), asyncio.Event()

    @agent.task
    async def wait(ctx: TaskContext) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    server.workers.lease_state["e1"] = {"status": worker_pb2.LEASE_STATUS_LOST}
    async with serving(agent, client):
        stream = await welcomed(server, interval=0.02)
        await stream.send(assignments=[assignment()])
        await asyncio.wait_for(cancelled.wait(), 5)


async def test_a_lease_that_a_reconnect_finds_lost_is_stopped(
    server: FakeServer, client: Client
) -> None:
    agent, cancelled = Agent(), asyncio.Event()

    @agent.task
    async def wait(ctx: TaskContext) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    async with serving(agent, client) as worker:
        first = await welcomed(server)
        await first.send(assignments=[assignment()])
        await until(lambda: worker.in_flight == 1)
        first.end()
        lost = worker_pb2.LeaseState(
            run_id=RUN_ID, execution_id="e1", status=worker_pb2.LEASE_STATUS_LOST
        )
        await welcomed(server, held=[lost])
        await asyncio.wait_for(cancelled.wait(), 5)


async def test_progress_and_session_travel_with_the_next_heartbeat_once(
    server: FakeServer, client: Client
) -> None:
    agent = Agent()

    @agent.task
    async def work(ctx: TaskContext) -> None:
        ctx.session("claude", "s-1")
        ctx.heartbeat({"done": 3})
        await asyncio.Event().wait()

    async with serving(agent, client):
        stream = await welcomed(server, interval=0.04)
        await stream.send(assignments=[assignment()])
        await until(lambda: len(server.workers.heartbeats) >= 3)

    told = [beat for beat in server.workers.heartbeats if beat.HasField("progress")]
    assert [decode(beat.progress) for beat in told] == [{"done": 3}]
    assert told[0].session.session_id == "s-1"
    assert {beat.lease_token for beat in server.workers.heartbeats} == {"token-e1"}


async def test_a_short_lease_is_kept_alive_by_its_own_measure(
    server: FakeServer, client: Client
) -> None:
    agent = Agent()

    @agent.task
    async def wait(ctx: TaskContext) -> None:
        await asyncio.Event().wait()

    async with serving(agent, client):
        stream = await welcomed(server, interval=60)
        await stream.send(assignments=[assignment(lease=0.09)])
        await until(lambda: len(server.workers.heartbeats) >= 3)


async def test_drain_finishes_what_runs_and_waits_for_the_acknowledgement(
    server: FakeServer, client: Client
) -> None:
    agent, gate = Agent(), asyncio.Event()

    @agent.task
    async def wait(ctx: TaskContext) -> str:
        await gate.wait()
        return "done"

    worker = Worker(agent, client, concurrency=2)
    running = asyncio.ensure_future(worker.run())
    stream = await welcomed(server)
    await stream.granted(2)
    await stream.send(assignments=[assignment()])
    await until(lambda: worker.in_flight == 1)

    draining = asyncio.ensure_future(worker.drain(5))
    await asyncio.sleep(0)
    await stream.send(assignments=[assignment("late")])
    late = await stream.outcome()
    gate.set()
    done = await stream.outcome()
    assert not draining.done()
    await stream.send(acks=[ack_of(late), ack_of(done)])
    await asyncio.wait_for(draining, 5)
    await running

    assert late.HasField("released")
    assert decode(done.completed.result) == "done"
    assert stream.credits == 2


async def test_drain_hands_back_what_does_not_finish_in_time(
    server: FakeServer, client: Client
) -> None:
    agent, gate = Agent(), threading.Event()

    @agent.task("async")
    async def wait(ctx: TaskContext) -> None:
        await asyncio.Event().wait()

    @agent.task("sync")
    def block(ctx: TaskContext) -> None:
        gate.wait(5)

    worker = Worker(agent, client)
    running = asyncio.ensure_future(worker.run())
    stream = await welcomed(server)
    await stream.send(assignments=[assignment("e1", type="async"), assignment("e2", type="sync")])
    await until(lambda: worker.in_flight == 2)
    draining = asyncio.ensure_future(worker.drain(0.01))
    found = [await stream.outcome(), await stream.outcome()]
    await stream.send(acks=[ack_of(item) for item in found])
    await asyncio.wait_for(draining, 5)
    gate.set()
    await running

    assert {(item.execution_id, item.WhichOneof("result")) for item in found} == {
        ("e1", "released"),
        ("e2", "released"),
    }


async def test_a_cancelled_worker_hands_back_what_it_holds(
    server: FakeServer, client: Client
) -> None:
    agent = Agent()

    @agent.task
    async def wait(ctx: TaskContext) -> None:
        await asyncio.Event().wait()

    server.workers.completes = True
    async with serving(agent, client) as worker:
        stream = await welcomed(server)
        await stream.send(assignments=[assignment()])
        await until(lambda: worker.in_flight == 1)

    assert [item.WhichOneof("result") for item in server.workers.completed] == ["released"]


async def test_as_a_context_it_serves_and_then_drains(
    server: FakeServer, client: Client, agent: Agent
) -> None:
    async with Worker(agent, client) as worker:
        stream = await welcomed(server)
        await worker.connected()
        await stream.send(assignments=[assignment(type="double", input=1)])
        await stream.ack(await stream.outcome())
        await until(lambda: not worker._ledger.pending)

    assert worker.in_flight == 0


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
        await stream.send(assignments=[assignment(key, input=size) for key, size in sizes.items()])
        found = {}
        while len(found) < 3:
            outcome = await stream.outcome()
            found[outcome.execution_id] = outcome

    failure = found["e1"].failed.failure
    assert (failure.kind, failure.retryable) == ("RESULT_TOO_LARGE", False)
    assert "1,048,577" in failure.message
    assert found["e2"].HasField("completed")
    assert found["e3"].HasField("completed")


async def test_large_outcomes_are_spread_over_messages(
    server: FakeServer, client: Client
) -> None:
    agent, gate = Agent(), asyncio.Event()

    @agent.task
    async def work(ctx: TaskContext) -> bytes:
        await gate.wait()
        return bytes(900_000)

    async with serving(agent, client):
        stream = await welcomed(server)
        await stream.send(assignments=[assignment(f"e{n}") for n in range(8)])
        await asyncio.sleep(0.05)
        gate.set()
        found = {(await stream.outcome()).execution_id for _ in range(8)}

    assert len(found) == 8
    assert max(request.ByteSize() for request in stream.requests) < 4 * 1024 * 1024


async def test_an_at_most_once_step_starts_when_its_begin_is_acknowledged(
    server: FakeServer, client: Client
) -> None:
    agent, started = Agent(), asyncio.Event()

    @agent.task
    async def pay(ctx: TaskContext) -> str:
        started.set()
        return "paid"

    async with serving(agent, client):
        first = await welcomed(server)
        await first.send(assignments=[assignment(effect=types_pb2.EFFECT_AT_MOST_ONCE)])
        begin = await first.begin()
        first.end()
        second = await welcomed(server)
        again = await second.begin()
        assert not started.is_set()
        await second.ack(again)
        outcome = await second.outcome()

    assert begin == again
    assert begin.lease_token == "token-e1"
    assert decode(outcome.completed.result) == "paid"


async def test_an_at_most_once_step_whose_begin_is_refused_never_starts(
    server: FakeServer, client: Client
) -> None:
    agent, started = Agent(), asyncio.Event()

    @agent.task
    async def pay(ctx: TaskContext) -> None:
        started.set()

    async with serving(agent, client) as worker:
        stream = await welcomed(server)
        await stream.send(assignments=[assignment(effect=types_pb2.EFFECT_AT_MOST_ONCE)])
        await stream.ack(await stream.begin(), worker_pb2.ACK_STATUS_LEASE_LOST)
        await until(lambda: worker.in_flight == 0)

    assert not started.is_set()
    assert not stream.outcomes


async def test_a_begun_at_most_once_step_goes_on_though_its_lease_is_lost(
    server: FakeServer, client: Client
) -> None:
    agent, gate = Agent(), asyncio.Event()

    @agent.task
    async def pay(ctx: TaskContext) -> str:
        await gate.wait()
        return "paid"

    server.workers.lease_state["e1"] = {"status": worker_pb2.LEASE_STATUS_LOST}
    async with serving(agent, client):
        stream = await welcomed(server, interval=0.02)
        await stream.send(assignments=[assignment(effect=types_pb2.EFFECT_AT_MOST_ONCE)])
        await stream.ack(await stream.begin())
        await asyncio.wait_for(server.workers.beat.wait(), 5)
        await asyncio.sleep(0.03)
        gate.set()
        outcome = await stream.outcome()

    assert decode(outcome.completed.result) == "paid"
    assert len(server.workers.heartbeats) == 1


async def test_sync_functions_run_side_by_side_in_threads(
    server: FakeServer, client: Client
) -> None:
    agent, barrier = Agent(), threading.Barrier(4)

    @agent.task
    def work(ctx: TaskContext) -> str:
        barrier.wait(5)
        return threading.current_thread().name

    async with serving(agent, client):
        stream = await welcomed(server)
        await stream.send(assignments=[assignment(f"e{n}") for n in range(4)])
        names = {decode((await stream.outcome()).completed.result) for _ in range(4)}

    assert len(names) == 4
    assert threading.current_thread().name not in names


async def test_results_by_reference_are_fetched_before_the_function_is_called(
    server: FakeServer, client: Client
) -> None:
    agent = Agent()

    @agent.task
    async def work(ctx: TaskContext) -> int:
        return ctx.results["a"] + ctx.results["b"]

    server.runs.answers["GetResultsRequest"] = lambda request: orchestrator_pb2.GetResultsResponse(
        results=[
            orchestrator_pb2.Result(execution_id=each, payload=types_pb2.Payload(data=b"40"))
            for each in request.execution_ids
        ]
    )
    results = [
        worker_pb2.DependencyResult(
            task_id="a", execution_id="x1", payload=types_pb2.Payload(data=b"2")
        ),
        worker_pb2.DependencyResult(task_id="b", execution_id="x2", by_reference=True),
    ]
    async with serving(agent, client):
        stream = await welcomed(server)
        await stream.send(assignments=[assignment(results=results)])
        outcome = await stream.outcome()

    assert decode(outcome.completed.result) == 42


async def test_a_token_that_a_restarted_server_minted_anew_is_read_again(
    server: FakeServer, agent: Agent, tmp_path: Any
) -> None:
    file = tmp_path / "token"
    file.write_text("old\n")
    async with Client(server.target, token_file=file, runtime=FastRuntime()) as client:
        file.write_text("new\n")
        server.workers.refusals.append(End(grpc.StatusCode.UNAUTHENTICATED))
        async with serving(agent, client):
            await welcomed(server)

    tokens = [metadata["authorization"] for metadata in server.workers.metadata]
    assert tokens == ["Bearer old", "Bearer new"]


class BlockingServicer(worker_pb2_grpc.WorkerServicer):
    """Synchronous, in threads of its own: a busy event loop doesn't stop it."""

    def __init__(self) -> None:
        self.beats: list[float] = []
        self.done = threading.Event()

    def Work(self, request_iterator: Any, context: Any) -> Any:  # noqa: N802 - gRPC's name
        next(request_iterator)
        yield worker_pb2.WorkResponse(
            welcome=worker_pb2.Welcome(lease=span(0.2), heartbeat_interval=span(0.03))
        )
        yield worker_pb2.WorkResponse(assignments=[assignment(lease=0.2)])
        for request in request_iterator:
            if request.outcomes:
                self.done.set()
                yield worker_pb2.WorkResponse(acks=[ack_of(item) for item in request.outcomes])

    def Heartbeat(self, request: Any, context: Any) -> worker_pb2.HeartbeatResponse:  # noqa: N802 - gRPC's name
        self.beats.append(time.monotonic())
        return worker_pb2.HeartbeatResponse()


async def test_heartbeats_go_on_while_the_event_loop_is_blocked() -> None:
    servicer = BlockingServicer()
    server = grpc.server(futures.ThreadPoolExecutor(4), options=[("grpc.so_reuseport", 0)])
    worker_pb2_grpc.add_WorkerServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    agent, blocked = Agent(), []

    @agent.task
    async def rude(ctx: TaskContext) -> None:
        blocked.append(time.monotonic())
        time.sleep(0.4)
        blocked.append(time.monotonic())

    try:
        async with (
            Client(f"127.0.0.1:{port}", token="", runtime=FastRuntime()) as client,
            serving(agent, client),
        ):
            await until(servicer.done.is_set)
    finally:
        server.stop(0).wait()

    began, ended = blocked
    assert len([beat for beat in servicer.beats if began < beat < ended]) >= 4


def test_what_can_not_work_is_refused_at_once(agent: Agent) -> None:
    with pytest.raises(Misconfigured, match="concurrency"):
        Worker(agent, "127.0.0.1:1", concurrency=0)
    with pytest.raises(Misconfigured, match="no functions"):
        Worker(Agent("empty"), "127.0.0.1:1")


def test_the_default_id_is_a_name_that_the_protocol_takes(agent: Agent) -> None:
    worker = Worker(named_agent("my agent!"), Client("127.0.0.1:1", token=""))

    assert worker.worker_id.startswith("my-agent-@")


def named_agent(name: str) -> Agent:
    made = Agent(name)
    made.task(lambda ctx: None)
    return made


