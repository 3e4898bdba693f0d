"""The worker's leases: heartbeats, cancellations, AT_MOST_ONCE, hand-backs."""

from __future__ import annotations

import asyncio
import threading
from concurrent import futures
from typing import Any

import grpc

from stepwell_client import (
    Agent,
    Client,
    TaskContext,
    Worker,
    decode,
)
from stepwell_client.v1 import types_pb2, worker_pb2, worker_pb2_grpc
from tests.service.client.fakes import FakeServer, FastRuntime, ack_of
from tests.service.client.serving import serving, welcomed
from tests.support.patience import PATIENCE_S, until
from tests.support.steps import RUN_ID, assignment, span


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
        await stream.send(cancellations=[worker_pb2.Cancellation(run_id=RUN_ID, execution_id="e1")])
        await asyncio.wait_for(cancelled.wait(), PATIENCE_S)
        await stream.granted(2)

    assert not stream.outcomes


async def test_a_function_that_swallows_its_cancellation_is_not_reported_either(
    server: FakeServer, client: Client
) -> None:
    agent = Agent()

    @agent.task
    async def stubborn(ctx: TaskContext) -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "all the same"
        return ""

    async with serving(agent, client, concurrency=1) as worker:
        stream = await welcomed(server)
        await stream.granted(1)
        await stream.send(assignments=[assignment()])
        await until(lambda: worker.in_flight == 1)
        await stream.send(cancellations=[worker_pb2.Cancellation(run_id=RUN_ID, execution_id="e1")])
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
        await asyncio.wait_for(cancelled.wait(), PATIENCE_S)


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
        await asyncio.wait_for(cancelled.wait(), PATIENCE_S)


async def test_progress_and_session_travel_with_the_next_heartbeat_once(
    server: FakeServer, client: Client
) -> None:
    agent = Agent()

    @agent.task
    async def work(ctx: TaskContext) -> None:
        ctx.session("cli-agent", "s-1")
        ctx.heartbeat({"done": 3})
        await asyncio.Event().wait()

    async with serving(agent, client):
        stream = await welcomed(server, interval=0.04)
        await stream.send(assignments=[assignment()])
        await until(lambda: len(server.workers.heartbeats) >= 3)

    beats = [beat for beat in server.workers.heartbeats if beat.HasField("progress")]
    assert [decode(beat.progress) for beat in beats] == [{"done": 3}]
    assert beats[0].session.session_id == "s-1"
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

    draining = asyncio.ensure_future(worker.drain(PATIENCE_S))
    await asyncio.sleep(0)
    await stream.send(assignments=[assignment("late")])
    late = await stream.outcome()
    gate.set()
    done = await stream.outcome()
    assert not draining.done()
    await stream.send(acks=[ack_of(late), ack_of(done)])
    await asyncio.wait_for(draining, PATIENCE_S)
    await running

    assert late.HasField("released")
    assert decode(done.completed.result) == "done"
    assert stream.credits == 2


async def test_drain_releases_unfinished_steps(server: FakeServer, client: Client) -> None:
    agent, gate = Agent(), threading.Event()

    @agent.task("async")
    async def wait(ctx: TaskContext) -> None:
        await asyncio.Event().wait()

    @agent.task("sync")
    def block(ctx: TaskContext) -> None:
        gate.wait(PATIENCE_S)

    worker = Worker(agent, client)
    running = asyncio.ensure_future(worker.run())
    stream = await welcomed(server)
    await stream.send(assignments=[assignment("e1", type_="async"), assignment("e2", type_="sync")])
    await until(lambda: worker.in_flight == 2)
    draining = asyncio.ensure_future(worker.drain(0.01))
    found = [await stream.outcome(), await stream.outcome()]
    await stream.send(acks=[ack_of(item) for item in found])
    await asyncio.wait_for(draining, PATIENCE_S)
    gate.set()
    await running

    assert {(item.execution_id, item.WhichOneof("result")) for item in found} == {
        ("e1", "released"),
        ("e2", "released"),
    }


async def test_cancelled_worker_releases_its_steps(server: FakeServer, client: Client) -> None:
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
        await stream.send(assignments=[assignment(type_="double", given=1)])
        await stream.ack(await stream.outcome())
        await until(lambda: not worker._state.pending)

    assert worker.in_flight == 0


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
        await asyncio.wait_for(server.workers.beat.wait(), PATIENCE_S)
        # Another step's heartbeats go on meanwhile.
        await stream.send(assignments=[assignment("e2")])
        beats = server.workers.heartbeats
        await until(lambda: [one.execution_id for one in beats].count("e2") >= 2)
        gate.set()
        outcome = await stream.outcome()

    assert decode(outcome.completed.result) == "paid"
    assert [one.execution_id for one in beats].count("e1") == 1


class BlockingServicer(worker_pb2_grpc.WorkerServicer):
    """Synchronous, in threads of its own: a busy event loop doesn't stop it."""

    Complete: Any = None  # Not called.

    def __init__(self) -> None:
        self.blocked = threading.Event()
        self.beats = threading.Semaphore(0)
        """Those that came while the loop was blocked."""
        self.done = threading.Event()

    def Work(self, request_iterator: Any, context: Any) -> Any:
        next(request_iterator)
        yield worker_pb2.WorkResponse(
            welcome=worker_pb2.Welcome(lease=span(0.2), heartbeat_interval=span(0.03))
        )
        yield worker_pb2.WorkResponse(assignments=[assignment(lease=0.2)])
        for request in request_iterator:
            if request.outcomes:
                self.done.set()
                yield worker_pb2.WorkResponse(acks=[ack_of(item) for item in request.outcomes])

    def Heartbeat(self, request: Any, context: Any) -> worker_pb2.HeartbeatResponse:
        if self.blocked.is_set():
            self.beats.release()
        return worker_pb2.HeartbeatResponse()

    def Append(self, request: Any, context: Any) -> worker_pb2.AppendResponse:
        return worker_pb2.AppendResponse()


async def test_heartbeats_go_on_while_the_event_loop_is_blocked() -> None:
    servicer = BlockingServicer()
    server = grpc.server(futures.ThreadPoolExecutor(4), options=[("grpc.so_reuseport", 0)])
    worker_pb2_grpc.add_WorkerServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    agent, came = Agent(), list[bool]()

    @agent.task
    async def rude(ctx: TaskContext) -> None:
        servicer.blocked.set()
        # It blocks the event loop until they have come: that is the point.
        came.extend(servicer.beats.acquire(timeout=PATIENCE_S) for _ in range(5))
        servicer.blocked.clear()

    try:
        async with (
            Client(f"127.0.0.1:{port}", token="", runtime=FastRuntime()) as client,
            serving(agent, client),
        ):
            assert await asyncio.to_thread(servicer.done.wait, 30)
    finally:
        server.stop(0).wait()

    assert came == [True] * 5
