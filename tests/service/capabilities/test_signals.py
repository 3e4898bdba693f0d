"""Signals: sent by clients and the command line's RPC, received by steps, on memory, SQLite and where servers are."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stepwell.core.loop.signals import JOURNAL
from stepwell.core.port import JournalQuery
from stepwell_client import (
    Agent,
    FailedPrecondition,
    RunHandle,
    Task,
    TaskContext,
    encode,
)
from stepwell_client.enums import BlockedKind
from stepwell_client.errors import NoSignal, RunNotFound
from stepwell_client.v1 import orchestrator_pb2
from tests.service.capabilities.conftest import TENANT, Served
from tests.support.patience import until


def receiving() -> tuple[Agent, asyncio.Event, asyncio.Event]:
    """Return an agent whose tasks receive, and events that say that `busy` runs, and let it end."""
    agent, runs, ends = Agent("receiving"), asyncio.Event(), asyncio.Event()

    @agent.task("two")
    async def two(ctx: TaskContext) -> Any:
        return [await ctx.receive("note"), await ctx.receive("note", as_=int)]

    @agent.task("notes")
    async def notes(ctx: TaskContext) -> Any:
        return [await ctx.receive("note"), await ctx.receive("note")]

    @agent.task("late")
    async def late(ctx: TaskContext) -> str:
        try:
            return await ctx.receive("note", as_=str, timeout=0.05)
        except TimeoutError as error:
            return str(error)

    @agent.task("busy")
    async def busy(ctx: TaskContext) -> Any:
        async def work() -> None:
            runs.set()
            await ends.wait()

        async def wait() -> Any:
            got = await ctx.receive("note")
            ends.set()
            return [got, ctx.attempt]

        return (await asyncio.gather(wait(), ctx.call("work", work)))[0]

    @agent.task("gives-up")
    async def gives_up(ctx: TaskContext) -> Any:
        try:
            async with asyncio.timeout(0.05):
                await ctx.receive("note")
        except TimeoutError:
            runs.set()
        await ctx.call("wait", ends.wait)
        return await ctx.receive("note")

    return agent, runs, ends


def taking() -> tuple[Agent, asyncio.Event]:
    """Return an agent whose tasks take what is kept, and an event that says that one has done so."""
    agent, took = Agent("taking"), asyncio.Event()

    @agent.task("kept")
    async def kept(ctx: TaskContext) -> Any:
        found: list[Any] = []
        for _ in range(3):
            try:
                found.append(await ctx.receive_nowait("note"))
            except NoSignal as error:
                found.append(str(error))
        took.set()
        await ctx.receive("go")
        return [*found, ctx.attempt]

    @agent.task("each")
    async def each(ctx: TaskContext) -> Any:
        found: list[str] = []
        async for note in ctx.receive_each("note", as_=str):
            if note == "end":
                break
            found.append(note)
        return [*found, [one async for one in ctx.receive_each("note", timeout=0.05)]]

    return agent, took


async def blocked_on(run: RunHandle, kind: BlockedKind) -> None:
    async def is_there() -> bool:
        return (await run.get()).blocked_on == kind

    await until(is_there)


async def value_of(run: RunHandle) -> Any:
    return (await run.result())["a"]


async def test_signals_reach_the_calls_that_wait_in_their_order(served_everywhere: Served) -> None:
    run = await served_everywhere.client.start(plan=[Task("a", "two")])
    async with served_everywhere.worker(receiving()[0]):
        await blocked_on(run, BlockedKind.SIGNAL)
        await run.signal("other", "not this")
        await run.signal("note", {"text": "first"})
        await run.signal("note", 2)
        assert await value_of(run) == [{"text": "first"}, 2]


async def test_signal_that_comes_first_is_kept_for_the_call(served_everywhere: Served) -> None:
    run = await served_everywhere.client.start(plan=[Task("a", "two")])
    await run.signal("note", 1)
    await run.signal("note", 2)
    async with served_everywhere.worker(receiving()[0]):
        assert await value_of(run) == [1, 2]
    with pytest.raises(FailedPrecondition, match="run is over"):
        await run.signal("note", 3)


async def test_running_step_receives_without_being_suspended(served_everywhere: Served) -> None:
    agent, runs, _ = receiving()
    run = await served_everywhere.client.start(plan=[Task("a", "busy")])
    async with served_everywhere.worker(agent):
        await runs.wait()
        await run.signal("note", "now")
        assert await value_of(run) == ["now", 1]


async def test_receive_raises_where_no_signal_comes_in_time(served_everywhere: Served) -> None:
    run = await served_everywhere.client.start(plan=[Task("a", "late")])
    async with served_everywhere.worker(receiving()[0]):
        assert await value_of(run) == "no signal 'note' came within 0.05 s"


async def test_step_takes_what_is_kept_and_finds_the_same_again(served_everywhere: Served) -> None:
    agent, took = taking()
    run = await served_everywhere.client.start(plan=[Task("a", "kept")])
    await run.signal("note", 1)
    await run.signal("note", 2)
    async with served_everywhere.worker(agent):
        await took.wait()
        await blocked_on(run, BlockedKind.SIGNAL)
        await run.signal("note", "too late")
        await run.signal("go", None)
        assert await value_of(run) == [1, 2, "the run keeps no signal 'note'", 2]


async def test_loop_over_signals_ends_by_break_or_in_time(served_everywhere: Served) -> None:
    run = await served_everywhere.client.start(plan=[Task("a", "each")])
    for note in ("one", "two", "end", "three"):
        await run.signal("note", note)
    async with served_everywhere.worker(taking()[0]):
        assert await value_of(run) == ["one", "two", ["three"]]


async def test_fork_begins_with_the_signals_of_its_version(served_everywhere: Served) -> None:
    client = served_everywhere.client
    run = await client.start(plan=[Task("a", "two")])
    await run.signal("note", "first")
    await run.signal("other", "not this")
    version = (await run.signal("note", 2)).version
    await run.signal("note", "too late")
    fork = await run.fork(version=version)
    await fork.signal("note", 3)
    again = await fork.fork()
    async with served_everywhere.worker(receiving()[0]):
        assert await value_of(fork) == ["first", 2]
        assert await value_of(again) == ["first", 2]
        assert await value_of(run) == ["first", 2]


async def test_run_is_deleted_with_the_signals_that_it_keeps(served_everywhere: Served) -> None:
    served = served_everywhere
    run = await served.client.start(plan=[Task("a", "two")])
    await run.signal("note", 1)
    query = JournalQuery(tenant_id=TENANT, run_id=run.id, journal=JOURNAL)
    assert len((await served.store.page(query)).items) == 1
    await run.cancel()
    await run.delete()
    assert (await served.store.page(query)).items == ()
    with pytest.raises(RunNotFound):
        await run.signal("note", 2)


async def test_cancelled_call_takes_a_signal_until_its_step_ends(served: Served) -> None:
    agent, gave_up, ends = receiving()
    run = await served.client.start(plan=[Task("a", "gives-up")])
    async with served.worker(agent):
        await gave_up.wait()
        await run.signal("note", 1)
        ends.set()
        await run.signal("note", 2)
        assert await value_of(run) == 2


async def test_request_that_comes_again_sends_no_second_signal(served: Served) -> None:
    client = served.client
    run = await client.start(plan=[Task("a", "two")])
    request = orchestrator_pb2.SendSignalRequest(
        run_id=run.id, name="note", value=encode(1), request_id="once"
    )
    for changed in (True, False):
        response = await client.caller.call("SendSignal", request)
        assert response.changed is changed
    await run.cancel()
    assert not (await client.caller.call("SendSignal", request)).changed


async def test_kept_signals_are_listed_with_who_sent_them(served_everywhere: Served) -> None:
    client = served_everywhere.client
    run = await client.start(plan=[Task("a", "notes")])
    assert [one async for one in run.signals()] == []
    for number in range(3):
        await run.signal("note", {"n": number}, on_behalf_of="ann" if number else "")
    await run.signal("stop")
    fork = await run.fork()
    listed = [one async for one in run.signals()]
    assert [(one.number, one.name) for one in listed] == [
        *((number, "note") for number in (1, 2, 3)),
        (4, "stop"),
    ]
    assert [one.value.value for one in listed if one.value is not None] == [
        *({"n": n} for n in range(3)),
        None,
    ]
    sender = (await run.get()).actor
    assert [(one.actor, one.on_behalf_of) for one in listed] == [
        *((sender, by) for by in ("", "ann", "ann", "")),
    ]
    times = [one.sent_time for one in listed]
    assert None not in times
    assert times == sorted(times, key=str)
    assert [one async for one in fork.signals()] == listed
    async with served_everywhere.worker(receiving()[0]):
        assert await value_of(run) == [{"n": 0}, {"n": 1}]
    assert [one.number async for one in run.signals()] == [3, 4]


async def test_kept_signals_come_by_pages_without_values_unless_asked_for(
    served_everywhere: Served,
) -> None:
    client = served_everywhere.client
    run = await client.start(plan=[Task("a", "two")])
    for number in range(5):
        await run.signal(f"name-{number % 2}", number)
    request = orchestrator_pb2.ListSignalsRequest(run_id=run.id, page_size=2)
    pages: list[list[int]] = []
    while True:
        page = await client.caller.call("ListSignals", request)
        pages.append([one.number for one in page.signals])
        assert [(one.value.data, one.size) for one in page.signals] == [(b"", 1)] * len(pages[-1])
        request.page_token = page.next_page_token
        if not request.page_token:
            break
    assert pages == [[1, 2], [3, 4], [5]]
    assert [one.key async for one in run.journal()] == []
