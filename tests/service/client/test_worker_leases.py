"""The worker's leases: heartbeats, cancellations, AT_MOST_ONCE, hand-backs."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from concurrent import futures
from typing import Any

import grpc
import pytest

from stepwell_client import (
    Agent,
    Client,
    TaskContext,
    Worker,
    decode,
    serve,
)
from stepwell_client.v1 import types_pb2, worker_pb2, worker_pb2_grpc
from tests.service.client.fakes import (
    FakeServer,
    FastRuntime,
    ack_of,
    serving,
    welcomed,
    working,
)
from tests.support.patience import PATIENCE_S, until
from tests.support.steps import RUN_ID, assignment, span

AT_MOST_ONCE = types_pb2.EFFECT_AT_MOST_ONCE
CANCELLATION = worker_pb2.Cancellation(
    lease=worker_pb2.Lease(run_id=RUN_ID, execution_id="e1"),
)
LOST: dict[str, Any] = {"status": worker_pb2.LEASE_STATUS_LOST}


class Waiting:
    """A function that waits until it is cancelled, and may return all the same."""

    def __init__(self, *, stubborn: bool = False) -> None:
        self.cancelled = asyncio.Event()
        self._stubborn = stubborn

    async def __call__(self, ctx: TaskContext) -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            if not self._stubborn:
                raise
        return "all the same"

    async def was_cancelled(self) -> None:
        await asyncio.wait_for(self.cancelled.wait(), PATIENCE_S)


@pytest.mark.parametrize("stubborn", [False, True])
async def test_a_pushed_cancellation_cancels_the_step_and_nothing_is_reported(
    server: FakeServer, client: Client, stubborn: bool
) -> None:
    wait = Waiting(stubborn=stubborn)
    async with working(server, client, wait) as (stream, worker):
        await until(lambda: worker.in_flight == 1)
        await asyncio.sleep(0)
        await stream.send(cancellations=[CANCELLATION])
        await wait.was_cancelled()
        await stream.granted(2)

    assert not stream.outcomes


async def test_step_cancelled_by_the_message_that_brings_it_never_starts(
    server: FakeServer, client: Client, agent: Agent
) -> None:
    calls: list[str] = []

    @agent.task
    async def work(ctx: TaskContext) -> None:
        calls.append(ctx.execution_id)

    async with serving(agent, client, concurrency=1) as worker:
        stream = await welcomed(server)
        await stream.granted(1)
        await stream.send(assignments=[assignment()], cancellations=[CANCELLATION])
        # Its place is free again.
        await stream.granted(2)
        await stream.send(assignments=[assignment("e2")])
        assert (await stream.outcome()).lease.execution_id == "e2"
        assert worker.in_flight == 0

    assert calls == ["e2"]


async def test_a_heartbeat_answered_lost_cancels_the_step(
    server: FakeServer, client: Client
) -> None:
    wait = Waiting()
    server.workers.lease_state["e1"] = LOST
    async with working(server, client, wait, interval=0.02):
        await wait.was_cancelled()


async def test_a_lease_that_a_reconnect_finds_lost_is_stopped(
    server: FakeServer, client: Client
) -> None:
    wait = Waiting()
    async with working(server, client, wait) as (stream, worker):
        await until(lambda: worker.in_flight == 1)
        stream.end()
        await welcomed(
            server,
            held=[
                worker_pb2.LeaseState(
                    lease=worker_pb2.Lease(run_id=RUN_ID, execution_id="e1"), **LOST
                )
            ],
        )
        await wait.was_cancelled()


async def test_progress_and_session_travel_with_the_next_heartbeat_once(
    server: FakeServer, client: Client
) -> None:
    async def work(ctx: TaskContext) -> None:
        ctx.session("cli-agent", "s-1")
        ctx.heartbeat({"done": 3})
        ctx.heartbeat()
        await asyncio.Event().wait()

    beats = server.workers.heartbeats
    async with working(server, client, work, interval=0.04):
        await until(lambda: len(beats) >= 3)

    sent = [beat for beat in beats if beat.HasField("progress")]
    assert [decode(beat.progress) for beat in sent] == [{"done": 3}]
    assert sent[0].session.session_id == "s-1"
    assert {beat.lease.token for beat in beats} == {"token-e1"}


@pytest.mark.parametrize("active", ["heartbeat", "log", "stream", "call"])
async def test_heartbeats_report_how_long_a_function_has_done_nothing(
    server: FakeServer, client: Client, active: str
) -> None:
    go_on = asyncio.Event()

    async def work(ctx: TaskContext) -> None:
        await go_on.wait()
        if active == "call":  # What it records is activity, however long the server takes.
            await ctx.call("x", lambda: "x")
        {"heartbeat": ctx.heartbeat, "log": ctx.log, "stream": ctx.stream}[active]("x")
        await asyncio.Event().wait()

    beats = server.workers.heartbeats

    def idle() -> list[float]:
        return [beat.idle.ToMilliseconds() for beat in beats]

    async with working(server, client, work, interval=60, lease=60, idle=0.05):
        await until(lambda: len(beats) >= 3)
        assert idle()[0] >= 50
        assert idle() == sorted(idle()), "the library's own heartbeats are no activity"
        go_on.set()
        await until(lambda: idle() != sorted(idle()))


async def test_a_short_lease_is_kept_alive_by_its_own_measure(
    server: FakeServer, client: Client
) -> None:
    async with working(server, client, Waiting(), interval=60, lease=0.09):
        await until(lambda: len(server.workers.heartbeats) >= 3)


async def test_heartbeats_that_fail_are_logged_once_and_then_ever_more_rarely(
    server: FakeServer,
    client: Client,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    failed = 0

    def fail(_items: Any) -> None:
        nonlocal failed
        failed += 1
        raise RuntimeError("not now")

    async with working(server, client, Waiting(), interval=60, lease=0.3):
        monkeypatch.setattr(server.workers, "_states", fail)
        await until(lambda: failed >= 8)

    said = [one.getMessage() for one in caplog.records if "heartbeats of" in one.getMessage()]
    assert len(said) == 1
    assert said[0].startswith(f"heartbeats of 1 lease(s) failed: {server.target}: ")
    assert "not now" in said[0]


async def test_server_that_gives_no_answer_is_named_when_the_first_heartbeat_fails(
    server: FakeServer, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    server.workers.answers_heartbeats = False
    said = f"heartbeats of 1 lease(s) failed: {server.target} did not answer in time"
    async with working(server, client, Waiting(), interval=60, lease=0.3):
        await until(lambda: said in caplog.messages)


async def test_SIGTERM_lets_the_step_that_runs_end_and_then_ends_the_program(
    server: FakeServer, client: Client
) -> None:
    agent, begun, may_end = Agent(), asyncio.Event(), asyncio.Event()

    @agent.task
    async def slow(ctx: TaskContext) -> str:
        begun.set()
        await may_end.wait()
        return "whole"

    program = asyncio.ensure_future(serve(Worker(agent, client), grace_seconds=10))
    stream = await welcomed(server)
    await stream.send(assignments=[assignment()])
    await begun.wait()
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.sleep(0)
    assert not program.done()
    may_end.set()
    outcome = await stream.outcome()
    assert decode(outcome.completed.result) == "whole"
    await stream.ack(outcome)
    await asyncio.wait_for(program, PATIENCE_S)


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
    # Its credits are revoked before anything comes back.
    revoked = await stream.read()
    assert revoked.draining
    assert not revoked.outcomes
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

    assert {(item.lease.execution_id, item.WhichOneof("result")) for item in found} == {
        ("e1", "released"),
        ("e2", "released"),
    }


async def test_cancelled_worker_releases_its_steps(server: FakeServer, client: Client) -> None:
    server.workers.completes = True
    async with working(server, client, Waiting()) as (_, worker):
        await until(lambda: worker.in_flight == 1)

    assert [item.WhichOneof("result") for item in server.workers.completed] == ["released"]


async def test_an_at_most_once_step_starts_when_its_begin_is_acknowledged(
    server: FakeServer, client: Client
) -> None:
    started = asyncio.Event()

    async def pay(ctx: TaskContext) -> str:
        started.set()
        return "paid"

    async with working(server, client, pay, effect=AT_MOST_ONCE) as (first, _):
        begin = await first.begin()
        first.end()
        second = await welcomed(server)
        again = await second.begin()
        assert not started.is_set()
        await second.ack(again)
        outcome = await second.outcome()

    assert begin == again
    assert begin.lease.token == "token-e1"
    assert decode(outcome.completed.result) == "paid"


async def test_an_at_most_once_step_whose_begin_is_refused_never_starts(
    server: FakeServer, client: Client
) -> None:
    started: list[bool] = []

    def pay(ctx: TaskContext) -> None:
        started.append(True)

    async with working(server, client, pay, effect=AT_MOST_ONCE) as (stream, worker):
        await stream.ack(await stream.begin(), worker_pb2.ACK_STATUS_LEASE_LOST)
        await until(lambda: worker.in_flight == 0)

    assert not started
    assert not stream.outcomes


async def test_a_begun_at_most_once_step_goes_on_though_its_lease_is_lost(
    server: FakeServer, client: Client
) -> None:
    agent, gate = Agent(), asyncio.Event()

    @agent.task
    async def pay(ctx: TaskContext) -> str:
        await gate.wait()
        return "paid"

    server.workers.lease_state["e1"] = LOST
    async with serving(agent, client):
        stream = await welcomed(server, interval=0.02)
        await stream.send(assignments=[assignment(effect=AT_MOST_ONCE)])
        await stream.ack(await stream.begin())
        await asyncio.wait_for(server.workers.beat.wait(), PATIENCE_S)
        # Another step's heartbeats go on meanwhile.
        await stream.send(assignments=[assignment("e2")])
        beats = server.workers.heartbeats
        await until(lambda: [one.lease.execution_id for one in beats].count("e2") >= 2)
        gate.set()
        outcome = await stream.outcome()

    assert decode(outcome.completed.result) == "paid"
    assert [one.lease.execution_id for one in beats].count("e1") == 1


class BlockingServicer(worker_pb2_grpc.WorkerServicer):
    """Synchronous, in threads of its own: a busy event loop doesn't stop it."""

    ReportOutcomes: Any = None  # Not called.
    ReadResults: Any = None
    WriteJournal: Any = None
    ReadJournal: Any = None
    ReadThread: Any = None

    def __init__(self) -> None:
        self.blocked = threading.Event()
        self.beats = threading.Semaphore(0)
        """Heartbeats that came while the loop was blocked."""
        self.done = threading.Event()

    def Work(self, request_iterator: Any, context: Any) -> Any:
        next(request_iterator)
        yield worker_pb2.WorkResponse(
            welcome=worker_pb2.Welcome(lease_duration=span(0.2), heartbeat_interval=span(0.03))
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

    def AppendOutput(self, request: Any, context: Any) -> worker_pb2.AppendOutputResponse:
        return worker_pb2.AppendOutputResponse()


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
