"""Log lines and chunks of steps: bounded, in order, sent at once, kept before their outcome."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import grpc
import pytest

from stepwell.core.records.limits import LOG_BYTES_PER_EXECUTION_MAX, LOG_TEXT_BYTES_MAX
from stepwell_client import Agent, Client, TaskContext, Unavailable
from stepwell_client.internal import AgentRunner
from stepwell_client.v1 import types_pb2, worker_pb2
from stepwell_client.worker.log_buffer import LogBuffer
from tests.service.client.fakes import End, FakeServer, working
from tests.support.patience import PATIENCE_S, until
from tests.support.steps import RUN_ID, FakeServices, assignment

KEY = (RUN_ID, "e1")
LINE, CHUNK, CUT = types_pb2.LOG_KIND_LINE, types_pb2.LOG_KIND_CHUNK, types_pb2.LOG_KIND_CUT


# --- the buffer --------------------------------------------------------------------------------------


def write(buffer: LogBuffer, text: str, *, key: Any = KEY, chunk: bool = False) -> bool:
    return buffer.write(key, "token", text, "INFO", chunk=chunk)


def drained(buffer: LogBuffer) -> list[worker_pb2.LogLine]:
    """All that is in it, batch by batch, as though each were kept at once."""
    found: list[worker_pb2.LogLine] = []
    while (request := buffer.next_batch()) is not None:
        found += [line for appended in request.appended for line in appended.logs]
        buffer.batch_done(request)
    return found


def test_an_entry_says_how_old_it_is_also_when_it_is_sent_again() -> None:
    times = iter([10.0, 12.0])
    buffer = LogBuffer(lambda: next(times))
    write(buffer, "written at 10")
    request = buffer.next_batch()
    assert request is not None
    (line,) = request.appended[0].logs
    assert line.age.ToMilliseconds() == 2_000
    buffer.add_age(request, 3.5)
    assert line.age.ToMilliseconds() == 5_500
    # It is quiet only when that is done.
    assert not buffer.is_quiet(KEY)
    assert buffer.batch_done(request) == [KEY]
    assert buffer.is_quiet(KEY)


def test_chunks_that_wait_become_one_entry_as_long_as_it_may_be() -> None:
    buffer = LogBuffer(lambda: 0.0)
    for piece in ("a", "b", "é" * 30_001):
        write(buffer, piece, chunk=True)
    write(buffer, "line")
    write(buffer, "d", chunk=True)
    *pieces, line, last = drained(buffer)
    assert "".join(one.text for one in pieces) == "ab" + "é" * 30_001
    assert {one.kind for one in pieces} == {CHUNK}
    assert all(len(one.text.encode()) <= LOG_TEXT_BYTES_MAX for one in pieces)
    assert [(one.kind, one.text) for one in (line, last)] == [(LINE, "line"), (CHUNK, "d")]


def test_a_long_line_is_cut_and_says_so() -> None:
    buffer = LogBuffer(lambda: 0.0)
    write(buffer, "x" * 100_000)
    (line,) = drained(buffer)
    assert len(line.text) <= LOG_TEXT_BYTES_MAX
    text, mark = line.text.split(" … ")
    assert mark == f"[cut: {100_000 - len(text):,} bytes left out]"


def test_entry_without_room_is_replaced_by_a_cut_notice() -> None:
    buffer = LogBuffer(lambda: 0.0)
    kept = sum(write(buffer, "x" * 10_000) for _ in range(200))
    assert 0 < kept < 200
    lines = drained(buffer)
    assert len(lines) == kept + 1
    assert lines[-1].kind == CUT
    assert lines[-1].text.startswith(
        f"[cut: {200 - kept} entries of {10_000 * (200 - kept):,} byte"
    )
    # There is room again.
    assert write(buffer, "later")
    assert [line.text for line in drained(buffer)] == ["later"]


def test_a_flood_takes_bounded_memory_and_no_room_from_another() -> None:
    buffer = LogBuffer(lambda: 0.0)
    for number in range(100):
        for _ in range(200):
            write(buffer, "x" * 10_000, key=(RUN_ID, f"e{number}"))
    assert buffer._size <= 16 * 1024 * 1024
    buffer = LogBuffer(lambda: 0.0)
    for _ in range(1_000):
        write(buffer, "x" * 10_000)
    assert write(buffer, "heard", key=(RUN_ID, "e2"))
    request = buffer.next_batch()
    assert request is not None
    texts = {one.lease.execution_id: len(one.logs) for one in request.appended}
    assert texts["e1"] > 0
    assert texts["e2"] == 1


def test_entries_beyond_the_share_stay_local_but_for_the_first() -> None:
    buffer = LogBuffer(lambda: 0.0)
    size = 0
    for _ in range(1_000):
        write(buffer, "x" * 10_000)
        size += sum(len(line.text) + 64 for line in drained(buffer))
    assert LOG_BYTES_PER_EXECUTION_MAX < size <= LOG_BYTES_PER_EXECUTION_MAX + 10_064


def test_a_closed_execution_keeps_nothing() -> None:
    buffer = LogBuffer(lambda: 0.0)
    write(buffer, "x")
    buffer.close(KEY)
    assert not write(buffer, "y")
    assert buffer.next_batch() is None
    buffer.remove(KEY)
    assert buffer._size == 0


def test_threads_lose_nothing_and_each_keeps_its_order() -> None:
    buffer = LogBuffer(lambda: 0.0)

    def work(name: str) -> None:
        for number in range(300):
            write(buffer, f"{name} {number}")

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = [line.text for line in drained(buffer)]
    for name in "abcd":
        own = [text for text in found if text.startswith(name)]
        assert own == [f"{name} {number}" for number in range(300)]
    assert buffer.next_batch() is None
    assert buffer.is_quiet(KEY)


# --- a worker ----------------------------------------------------------------------------------------


async def test_lines_are_sent_while_the_step_keeps_the_event_loop_busy(
    server: FakeServer, client: Client
) -> None:
    free = threading.Event()

    async def work(ctx: TaskContext) -> None:
        ctx.log("one")
        # In the way of the worker's event loop, but not of the server's answers to its thread.
        free.wait(0.2)

    async with working(server, client, work) as (stream, _):
        outcome = await stream.outcome()
        assert server.workers.lines() == ["one"]
        await stream.ack(outcome)


async def test_the_outcome_leaves_after_the_last_line_is_kept(
    server: FakeServer, client: Client
) -> None:
    server.workers.append_gate.clear()
    written = asyncio.Event()

    async def work(ctx: TaskContext) -> None:
        for number in range(10):
            ctx.log(number)
        written.set()

    async with working(server, client, work) as (stream, worker):
        # Writing waits for nobody.
        await asyncio.wait_for(written.wait(), PATIENCE_S)
        await until(lambda: server.workers.append_calls == 1)
        assert worker.in_flight == 1
        server.workers.append_gate.set()
        outcome = await stream.outcome()
        assert server.workers.lines() == [str(number) for number in range(10)]
        # The first left by itself; the others, which came meanwhile, together.
        assert server.workers.append_calls <= 3
        await stream.ack(outcome)


@pytest.mark.parametrize(
    ("refusals", "kept"),
    [([grpc.StatusCode.UNAVAILABLE] * 3, ["a line"]), ([grpc.StatusCode.UNIMPLEMENTED], [])],
    ids=["asked again", "keeps no logs"],
)
async def test_refused_log_costs_at_most_the_log(
    server: FakeServer, client: Client, refusals: list[grpc.StatusCode], kept: list[str]
) -> None:
    server.workers.append_refusals.extend(End(code) for code in refusals)

    def work(ctx: TaskContext) -> int:
        ctx.log("a line")
        return 1

    async with working(server, client, work) as (stream, _):
        outcome = await stream.outcome()
        assert outcome.HasField("completed")
        await stream.ack(outcome)
    assert server.workers.lines() == kept


async def test_a_lost_lease_stops_the_step_and_its_log(server: FakeServer, client: Client) -> None:
    stopped = asyncio.Event()
    server.workers.lease_state["e1"] = {"status": worker_pb2.LEASE_STATUS_LOST}

    async def work(ctx: TaskContext) -> None:
        ctx.log("one")
        try:
            await asyncio.Event().wait()
        finally:
            ctx.log("two")
            stopped.set()

    async with working(server, client, work) as (stream, _):
        await asyncio.wait_for(stopped.wait(), PATIENCE_S)
        await stream.granted(2)
    assert server.workers.lines() == ["one"]


# --- a step ------------------------------------------------------------------------------------------


async def run(function: Any, services: FakeServices, **given: Any) -> worker_pb2.Outcome:
    agent = Agent()
    agent.task(function)
    return await AgentRunner(agent).run(assignment(**given), services)


async def test_an_outcome_waits_for_its_steps_log() -> None:
    async def streams(ctx: TaskContext) -> None:
        ctx.stream("a")

    async def logs(ctx: TaskContext) -> None:
        ctx.logger.info("%d", 1)

    services = FakeServices()
    await run(streams, services)
    await run(logs, services)
    assert services.written == [("a", "INFO", True), ("1", "INFO", False)]
    assert services.flushes == 2


async def test_messages_that_could_not_be_saved_go_with_the_outcome() -> None:
    async def talks(ctx: TaskContext) -> None:
        ctx.append("user", "one")
        with pytest.raises(Unavailable):
            await ctx.save_messages()

    services = FakeServices(refuse_save=Unavailable("not now"))
    outcome = await run(talks, services)
    assert [one.content for one in outcome.messages] == ["one"]
    assert outcome.messages_after == 0


async def test_a_conversation_is_that_of_the_tasks_definition() -> None:
    def said(number: int, content: str) -> types_pb2.Message:
        return types_pb2.Message(number=number, role="user", content=content)

    async def reads(ctx: TaskContext) -> list[str]:
        return [one.content async for one in ctx.conversation()]

    old = [said(1, "old 1"), said(2, "old 2"), said(3, "old 3")]
    new = [said(1, "new 1"), said(2, "new 2")]
    services = FakeServices(conversation=[*old, *new])
    outcome = await run(reads, services, previous_messages=[new[1]], conversation=2)
    assert outcome.completed.result.data == b'["new 1","new 2"]'


@pytest.mark.parametrize("role", ["", "x" * 129])
async def test_a_role_that_is_none_is_the_functions_own_error(role: str) -> None:
    async def talks(ctx: TaskContext) -> None:
        ctx.append(role, "x")

    assert (await run(talks, FakeServices())).failed.failure.kind == "ValueError"
