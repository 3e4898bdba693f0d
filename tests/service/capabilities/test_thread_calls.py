"""Threads from outside their runs: they are read, listed, written to and deleted, each within its tenant."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stepwell_client import (
    EventType,
    FailedPrecondition,
    NotFound,
    RunStatus,
    SyncClient,
    Task,
)
from stepwell_client.errors import InvalidRequest, RequestIdReused, VersionChanged
from tests.service.capabilities.conftest import Served
from tests.service.conftest import token
from tests.support.patience import until

PLAN = [Task("answer", "answer")]


async def test_messages_and_state_of_a_thread_are_written_and_read_on_every_store(
    served_everywhere: Served,
) -> None:
    client = served_everywhere.client
    thread = client.thread("t1")
    with pytest.raises(NotFound) as missing:
        await thread.get()
    assert missing.value.reason == "THREAD_NOT_FOUND"
    for number in range(1, 61):
        assert (await thread.append("user", {"n": number})).messages == number
    made = await thread.set_state({"topic": "bees"}, expected_version=0)
    assert made.state_version == 1
    with pytest.raises(VersionChanged, match="version 1"):
        await thread.set_state("other", expected_version=0)
    await thread.set_state({"topic": "ants"}, expected_version=1)
    found = await thread.get()
    assert (found.id, found.messages, found.state_version) == ("t1", 60, 2)
    assert (found.state, found.working_run_id, found.waiting) == ({"topic": "ants"}, "", 0)

    async def numbers(**options: Any) -> list[int]:
        return [one.number async for one in thread.messages(page_size=7, **options)]

    assert await numbers() == list(range(1, 61))
    assert await numbers(last=50) == list(range(11, 61))
    assert await numbers(last=50, after=55) == list(range(56, 61))
    assert await numbers(last=5, after=10) == list(range(56, 61))
    assert await numbers(after=60) == []
    (last,) = [one async for one in thread.messages(last=1)]
    assert (last.role, last.content, last.run_id) == ("user", {"n": 60}, "")
    assert last.time is not None


async def test_request_that_writes_to_a_thread_is_carried_out_once(served: Served) -> None:
    thread = served.client.thread("t1")
    for _ in range(2):
        assert (await thread.append("user", "hello", request_id="r1")).messages == 1
        assert (await thread.set_state(None, request_id="r2")).state_version == 1
    with pytest.raises(RequestIdReused):
        await thread.append("user", "bye", request_id="r1")
    for wrong in ({"role": ""}, {"role": "user", "content": "x" * (1024 * 1024)}):
        with pytest.raises(InvalidRequest, match="messages"):
            await thread.append(**{"content": "x", **wrong})
    with pytest.raises(InvalidRequest, match="state"):
        await thread.set_state("x" * (64 * 1024))
    assert (await thread.get()).messages == 1


async def test_thread_is_forked_at_a_message_and_goes_on_by_itself(
    served_everywhere: Served,
) -> None:
    client = served_everywhere.client
    await client.start("x", queue="none", plan=PLAN, thread="t1")
    thread = client.thread("t1")
    for number in range(1, 71):
        await thread.append("user", {"n": number})
    await thread.set_state("old")
    await thread.set_state("now")
    forked = await thread.fork("t2", at=60)
    assert (forked.id, forked.messages, forked.state_version) == ("t2", 60, 0)
    assert (forked.forked_from, forked.forked_at, forked.starts) == ("t1", 60, 0)
    whole = await thread.fork("t3", request_id="r3")
    assert (whole.messages, whole.working_run_id, whole.waiting) == (70, "", 0)
    assert (await client.thread("t3").get()).state == "now"
    assert (await client.thread("t2").append("user", "other")).messages == 61
    assert (await thread.append("user", "own")).messages == 71

    async def all_of(name: str) -> list[Any]:
        said = [one async for one in client.thread(name).messages()]
        return [(one.number, one.role, one.content, one.run_id, one.time) for one in said]

    own = await all_of("t1")
    assert (await all_of("t2"))[:60] == own[:60]
    assert await all_of("t3") == own[:70]
    # The same request again answers with the thread as it is, whatever its parent has by now.
    assert (await thread.fork("t3", request_id="r3")).messages == 70
    refusals = {
        "THREAD_EXISTS": thread.fork("t2", at=60),
        "MESSAGE_NOT_FOUND": thread.fork("t4", at=72),
        "THREAD_NOT_FOUND": client.thread("none").fork("t4"),
        "REQUEST_ID_REUSED": thread.fork("t3", at=1, request_id="r3"),
    }
    for reason, call in refusals.items():
        with pytest.raises((FailedPrecondition, NotFound, RequestIdReused)) as refusal:
            await call
        assert refusal.value.reason == reason
    assert {one.id for one in [one async for one in client.threads()]} == {"t1", "t2", "t3"}
    assert await client.thread("t3").delete()
    with pytest.raises(FailedPrecondition) as gone:
        await thread.fork("t3")
    assert gone.value.reason == "THREAD_DELETED"


async def test_threads_are_listed_with_the_runs_that_work_and_wait(served: Served) -> None:
    client = served.client
    first, _ = [await client.start("x", queue="none", plan=PLAN, thread="t1") for _ in range(2)]
    await client.thread("t2").append("user", "hello")
    listed = [one async for one in client.threads(page_size=1)]
    assert {one.id: (one.working_run_id, one.waiting) for one in listed} == {
        "t2": ("", 0),
        "t1": (first.id, 1),
    }
    stranger = served.new_client("foreign")
    assert [one async for one in stranger.threads()] == []
    with pytest.raises(NotFound):
        await stranger.thread("t1").get()
    assert not await stranger.thread("t1").delete(force=True)
    await stranger.thread("t1").append("user", "what a stranger wrote")
    assert (await client.thread("t1").get()).messages == 0

    def blocking() -> None:
        with SyncClient(served.target, token=token("all")) as sync:
            thread = sync.thread("t2")
            thread.append("assistant", 1)
            thread.set_state(2)
            assert [one.role for one in thread.messages()] == ["user", "assistant"]
            assert thread.get().state == 2
            assert {one.id for one in sync.threads()} == {"t1", "t2"}
            assert thread.fork("t3", at=1).messages == 1
            assert sync.thread("t3").delete()
            assert thread.delete()
            assert not thread.delete()

    await asyncio.to_thread(blocking)


async def test_thread_is_deleted_with_its_runs_and_if_it_is_busy_by_force(
    served_everywhere: Served,
) -> None:
    client = served_everywhere.client
    runs = [await client.start("x", queue="none", plan=PLAN, thread="t1") for _ in range(3)]
    await client.start("more", queue="none", thread="t1", on_busy="steer")
    other = await client.start("y", queue="none", thread="t2")
    thread = client.thread("t1")
    await thread.append("user", "hello")
    with pytest.raises(FailedPrecondition, match=runs[0].id) as busy:
        await thread.delete()
    assert busy.value.reason == "THREAD_BUSY"
    assert await thread.delete(force=True)
    assert not await thread.delete(force=True)
    assert [one.id async for one in client.runs()] == [other.id]
    with pytest.raises(NotFound):
        await thread.get()
    for again in (thread.append("user", "x"), client.start("x", thread="t1")):
        with pytest.raises(FailedPrecondition) as gone:
            await again
        assert gone.value.reason == "THREAD_DELETED"


async def test_thread_whose_run_has_a_fork_is_deleted_after_the_fork(served: Served) -> None:
    client = served.client
    runs = [await client.start("x", queue="none", plan=PLAN, thread="t1") for _ in range(2)]
    fork = await runs[0].fork()
    for force in (False, True):
        with pytest.raises(FailedPrecondition) as refusal:
            await client.thread("t1").delete(force=force)
        assert refusal.value.reason == ("RUN_HAS_FORKS" if force else "THREAD_BUSY")
    assert (await runs[0].get()).status is RunStatus.QUEUED
    for one in (*runs, fork):
        await one.cancel()

    async def idle() -> bool:
        return (await client.thread("t1").get()).working_run_id == ""

    await until(idle)
    await fork.delete()
    assert await client.thread("t1").delete()


async def test_watch_of_a_thread_has_the_events_of_its_runs_once(
    served: Served,
) -> None:
    client = served.client
    first = await client.start("x", queue="none", plan=PLAN, thread="t1")
    other = await client.start("y", queue="none", plan=PLAN, thread="t2")
    second = await client.start("x", queue="none", plan=PLAN, thread="t1")
    for run in (other, first, second):
        await run.cancel()
    numbers: dict[str, list[int]] = {}
    cancelled = set[str]()
    async with client.watch(thread="t1") as watch:
        async for update in watch:
            seen = numbers.setdefault(update.run_id, [])
            seen += [event.number for event in update.events]
            if any(one.type == EventType.RUN_CANCELLED for one in update.events):
                cancelled.add(update.run_id)
            if len(cancelled) == 2:
                break
    assert numbers.keys() == {first.id, second.id}
    for seen in numbers.values():
        assert seen == list(range(1, len(seen) + 1))
    with pytest.raises(InvalidRequest, match="root_run_id"):
        await anext(aiter(client.watch(thread="t1", root_run_id=first.id)))
