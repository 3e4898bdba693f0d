"""A worker's journal writes against a scripted server: their way over streams, without one, and their end."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest

from stepwell_client import Client, Effect, TaskContext, decode, encode
from stepwell_client.errors import LeaseLost
from stepwell_client.v1 import types_pb2, worker_pb2
from tests.service.client.fakes import (
    End,
    FakeServer,
    recorded_of,
    welcomed,
    working,
)
from tests.support.patience import until


def double(number: int) -> int:
    return 2 * number


async def adouble(number: int) -> int:
    return 2 * number


async def branches(ctx: TaskContext) -> list[int]:
    return await asyncio.gather(*(ctx.call("double", adouble, number) for number in range(3)))


async def test_entries_of_one_turn_go_in_one_message(server: FakeServer, client: Client) -> None:
    async with working(server, client, branches) as (stream, _):
        writes = [await stream.write() for _ in range(3)]
        messages = [one for one in stream.requests if one.journal_writes]
        assert len(messages) == 1
        assert {one.lease.token for one in writes} == {"token-e1"}
        assert len({one.delivery_id for one in writes}) == 3
        # The step ends no sooner than all are acknowledged.
        await stream.send(journal_acks=[recorded_of(one) for one in writes[:2]])
        assert not stream.outcomes
        await stream.send(journal_acks=[recorded_of(writes[2])])
        outcome = await stream.outcome()
    assert decode(outcome.completed.result) == [0, 2, 4]


async def test_the_unacknowledged_is_sent_again_over_the_next_stream(
    server: FakeServer, client: Client
) -> None:
    async with working(server, client, branches) as (stream, _):
        first = [await stream.write() for _ in range(3)]
        await stream.send(journal_acks=[recorded_of(first[0])])
        stream.end()
        again = await welcomed(server)
        second = [await again.write() for _ in range(2)]
        assert second == first[1:]
        await again.send(journal_acks=[recorded_of(one) for one in second])
        assert (await again.outcome()).HasField("completed")


async def test_recordings_go_by_unary_calls_where_no_stream_opens(
    server: FakeServer, client: Client
) -> None:
    async with working(server, client, branches) as (stream, _):
        writes = [await stream.write() for _ in range(3)]
        server.workers.completes = True
        server.workers.refusals.extend(
            End(grpc.StatusCode.UNAVAILABLE, "no stream") for _ in range(4)
        )
        stream.end()
        await until(lambda: bool(server.workers.completed))
    assert server.workers.recorded == writes
    assert server.workers.completed[0].HasField("completed")


async def test_what_no_message_can_carry_fails_its_step_and_not_the_stream(
    server: FakeServer, client: Client
) -> None:
    async def work(ctx: TaskContext) -> None:
        await ctx.forget("x" * (4 << 20))

    async with working(server, client, work) as (stream, _):
        failure = (await stream.outcome()).failed.failure
    assert (failure.kind, failure.retryable) == ("RESULT_TOO_LARGE", False)


@pytest.mark.parametrize("has_ended", [False, True])
async def test_drain_releases_no_step_whose_at_most_once_call_is_under_way(
    server: FakeServer, client: Client, has_ended: bool
) -> None:
    paying, paid, ended = asyncio.Event(), asyncio.Event(), list[str]()

    async def pay() -> None:
        paying.set()
        await paid.wait()

    async def work(ctx: TaskContext) -> None:
        try:
            await ctx.call("pay", pay, effect=Effect.AT_MOST_ONCE)
            ended.append("call")
            await asyncio.Event().wait()
        finally:
            ended.append("step")

    async with working(server, client, work) as (stream, worker):
        await stream.send(journal_acks=[recorded_of(await stream.write())])
        await paying.wait()
        if has_ended:
            paid.set()
            await stream.send(journal_acks=[recorded_of(await stream.write())])
            await until(lambda: ended == ["call"])
        draining = asyncio.ensure_future(worker.drain(0))
        if has_ended:
            outcome = await stream.outcome()
            assert outcome.HasField("released")
            await stream.ack(outcome)
        await draining
        await stream.read_rest()
    assert ended[-1] == "step"
    assert not stream.outcomes


async def test_a_lost_lease_ends_the_step_without_an_outcome(
    server: FakeServer, client: Client
) -> None:
    seen: list[Any] = []

    async def work(ctx: TaskContext) -> None:
        try:
            await ctx.call("double", double, 2)
        except LeaseLost:
            seen.append(ctx.cancelled)
            raise

    async with working(server, client, work) as (stream, worker):
        write = await stream.write()
        lost = recorded_of(write, worker_pb2.LEASE_STATUS_LOST)
        await stream.send(journal_acks=[lost])
        await until(lambda: worker.in_flight == 0)
    assert seen == [True]
    assert not stream.outcomes


async def test_a_cancelled_step_gives_up_what_it_was_recording(
    server: FakeServer, client: Client
) -> None:
    seen: list[str] = []

    def work(ctx: TaskContext) -> None:
        try:
            ctx.call_sync("double", double, 2)
        except BaseException as error:
            seen.append(type(error).__name__)
            raise

    async with working(server, client, work) as (stream, worker):
        write = await stream.write()
        await stream.send(
            cancellations=[
                worker_pb2.Cancellation(
                    lease=worker_pb2.Lease(run_id=write.lease.run_id, execution_id="e1"),
                    reason="over",
                )
            ]
        )
        await until(lambda: worker.in_flight == 0)
    assert seen == ["LeaseLost"]


async def test_a_journal_without_room_in_the_assignment_is_read_by_pages(
    server: FakeServer, client: Client
) -> None:
    def held(key: str) -> worker_pb2.HeldEntry:
        entry = types_pb2.JournalEntry(
            key=key, mark=types_pb2.JOURNAL_MARK_END, value=encode(key.upper())
        )
        return worker_pb2.HeldEntry(entry=entry)

    server.workers.journal = [
        worker_pb2.JournalPage(entries=[held("b")], next_page_token="2"),
        worker_pb2.JournalPage(entries=[held("c")]),
    ]
    server.workers.read_refusals.append(End(grpc.StatusCode.UNAVAILABLE, "a moment"))

    async def work(ctx: TaskContext) -> list[Any]:
        return [await ctx.call("double", double, 1, key=key, as_=str) for key in "abc"]

    page = worker_pb2.JournalPage(entries=[held("a")], next_page_token="1")
    async with working(server, client, work, journal=page) as (stream, _):
        outcome = await stream.outcome()
    assert decode(outcome.completed.result) == ["A", "B", "C"]
    assert server.workers.cursors == ["1", "1", "2"]
