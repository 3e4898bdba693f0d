"""Threads from outside their runs: they are read, listed, written to and deleted, each within its tenant."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import cycle
from typing import Any

import pytest

from stepwell.config import WatchSettings
from stepwell_client import (
    Agent,
    Client,
    EventType,
    FailedPrecondition,
    NotFound,
    RunStatus,
    SyncClient,
    Task,
    TaskContext,
)
from stepwell_client.errors import InvalidRequest, RequestIdReused, VersionChanged
from stepwell_client.records import ThreadMessage
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


async def test_threads_are_found_by_their_labels_on_every_store(served_everywhere: Served) -> None:
    client = served_everywhere.client
    for thread_id, user in (("t1", "ann"), ("t2", "bob"), ("t3", "ann")):
        await client.thread(thread_id).append("user", "hello")
        labelled = await client.thread(thread_id).set_labels({"user": user, "kind": "chat"})
        assert labelled.labels == {"user": user, "kind": "chat"}
    assert (await client.thread("t1").fork("t4")).labels == {"user": "ann", "kind": "chat"}

    async def found(**labels: str) -> list[str]:
        return [one.id async for one in client.threads(labels=labels, page_size=2)]

    assert await found(user="ann", kind="chat") == ["t4", "t3", "t1"]
    assert await found(user="eve") == []
    await client.thread("t3").set_labels({"user": "bob"})
    assert await found(user="bob") == ["t3", "t2"]
    with pytest.raises(InvalidRequest, match=r"labels\[stepwell.x\]"):
        await client.thread("t3").set_labels({"stepwell.x": ""})


async def test_request_that_writes_to_a_thread_is_carried_out_once(served: Served) -> None:
    thread = served.client.thread("t1")
    for _ in range(2):
        assert (await thread.append("user", "hello", request_id="r1")).messages == 1
        assert (await thread.set_state(None, request_id="r2")).state_version == 1
        await thread.set_labels({"a": "b"}, request_id="r3")
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
    empty = await thread.fork("t0", at=0)
    assert (empty.messages, empty.state_version, empty.forked_from) == (0, 0, "t1")
    assert await client.thread("t0").delete()
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


agent = Agent("talk")


@agent.task("answer")
def answer(ctx: TaskContext) -> None:
    assert ctx.thread is not None
    ctx.thread.append("user", ctx.goal)
    ctx.thread.append("assistant", ctx.goal.upper())


class Listener:
    """A reader of a thread's messages that goes on at another client after each message of its stream."""

    def __init__(self, clients: Sequence[Client], *, chunks: bool = False) -> None:
        self.clients = cycle(clients)
        self.streamed: dict[str, list[str]] | None = {} if chunks else None
        self.cursor = ""
        self.messages: list[ThreadMessage] = []

    async def listen(self, last: int) -> None:
        """Read until message `last` has come."""
        while not self.messages or self.messages[-1].number < last:
            chunks = self.streamed is not None
            client = next(self.clients)
            async with client.watch(self.cursor, thread="t1", chunks=chunks) as watch:
                async for update in watch:
                    assert bool(update.run_id) is not bool(update.messages)
                    if update.chunks:
                        assert self.streamed is not None
                        texts = [one.text for one in update.chunks]
                        self.streamed.setdefault(update.run_id, []).extend(texts)
                    self.messages += update.messages
                    if watch.position != self.cursor:
                        self.cursor = watch.position
                        break


async def test_watch_of_a_thread_has_each_message_once_over_replicas_and_a_restart(
    served_everywhere: Served,
) -> None:
    served = served_everywhere
    clients = [served.client]
    if served.store_kind != "sqlite":
        # A message of its streams holds a few of the thread's.
        other = await served.replica(watch=WatchSettings(message_bytes_max=1_024))
        clients.append(served.new_client(target=other.addresses[0]))
    await served.client.thread("t2").append("user", "of another thread")
    listener = Listener(clients)
    listening = asyncio.create_task(listener.listen(16))
    async with served.worker(agent):
        run = await clients[-1].start("hello", plan=PLAN, thread="t1")
        await run.result()
        for number, client in zip(range(12), cycle(clients), strict=False):
            await client.thread("t1").append("user", {"n": number, "text": "x" * 200})
        await (await clients[-1].start("bye", plan=PLAN, thread="t1")).result()
        await listening
    await served.restart()
    await served.client.thread("t1").append("user", "after a restart")
    listener.clients = cycle([served.client])
    await listener.listen(17)

    assert listener.messages == [one async for one in served.client.thread("t1").messages()]
    assert [one.number for one in listener.messages] == list(range(1, 18))
    by_run = [one.content for one in listener.messages if one.run_id == run.id]
    assert by_run == ["hello", "HELLO"]


async def test_watch_of_a_thread_has_each_chunk_of_its_runs_once_on_every_store(
    served_everywhere: Served,
) -> None:
    served, talk = served_everywhere, Agent("talk")
    clients = [served.client]
    if served.store_kind != "sqlite":
        clients.append(served.new_client(target=(await served.replica()).addresses[0]))
    listener = Listener(clients, chunks=True)
    streamed: dict[str, list[str]] = {}
    listener.streamed = streamed

    async def seen(run_id: str, count: int) -> None:
        await until(lambda: len("".join(streamed.get(run_id, ())).split()) == count)

    @talk.task("answer")
    async def stream(ctx: TaskContext) -> None:
        assert ctx.thread is not None
        for number in range(4):
            ctx.stream(f"{number} ")
            if number < 3:  # It waits until a watcher has it; the last one comes with the end.
                await seen(ctx.run_id, number + 1)
        ctx.log("a line is no chunk")
        ctx.thread.append("assistant", ctx.goal)

    runs = [
        await served.client.start(goal, plan=[Task("answer", "answer")], thread="t1")
        for goal in ("hello", "bye")
    ]
    listening = asyncio.create_task(listener.listen(2))
    async with served.worker(talk):
        for run in runs:
            await run.result()
        await listening

    assert {run_id: "".join(texts) for run_id, texts in streamed.items()} == {
        run.id: "0 1 2 3 " for run in runs
    }
    assert [one.run_id for one in listener.messages] == [run.id for run in runs]
    with pytest.raises(InvalidRequest, match="chunks"):
        await anext(aiter(served.client.watch(chunks=True)))


async def test_watch_of_a_thread_begins_after_the_message_that_it_is_given(served: Served) -> None:
    client, thread = served.client, served.client.thread("t1")
    for number in range(1, 6):
        await thread.append("user", number)

    async def first(cursor: str = "", **options: Any) -> int:
        async with client.watch(cursor, thread="t1", **options) as watch:
            async for update in watch:
                return update.messages[0].number
        raise AssertionError

    assert await first() == 1
    assert await first(after_message=3) == 4
    assert await first("now", after_message=0) == 1
    async with client.watch("now", thread="t1", progress_interval=1.0) as watch:
        coming = asyncio.ensure_future(anext(aiter(watch)))
        await until(lambda: watch.position != "now")
        cursor = watch.position
        await thread.append("user", 6)
        assert [one.content for one in (await coming).messages] == [6]
    # A token has its own place among the messages; one of another watch has none.
    assert await first(cursor, after_message=1) == 6
    async with client.watch("now") as watch:
        coming = asyncio.ensure_future(anext(aiter(watch)))
        await until(lambda: watch.position != "now")
        cursor = watch.position
        coming.cancel()
    assert await first(cursor, after_message=2) == 3
    for name in ("t1", ""):
        with pytest.raises(InvalidRequest, match="after_message"):
            await anext(aiter(client.watch(thread=name, after_message=7)))
    for forged in ("[1]", '["", null]', '["", [-1, 0, "", ""]]', r'["", [0, 0, "\u0000", ""]]'):
        with pytest.raises(InvalidRequest, match="resume_token"):
            await anext(aiter(client.watch(forged, thread="t1")))


async def test_watch_of_a_thread_says_that_it_was_deleted_and_goes_on(served: Served) -> None:
    client = served.client
    run = await client.start("x", queue="none", plan=PLAN, thread="t1")
    await client.thread("t1").append("user", "hello")
    deleted: list[str] = []
    position = ""
    async with client.watch(thread="t1") as watch:
        async for update in watch:
            if update.messages:
                position = watch.position
                await client.thread("t1").delete(force=True)
            if update.deleted:
                deleted.append(update.run_id)
            if update.deleted and not update.run_id:
                break
    assert deleted == [run.id, ""]
    # So is one that was away meanwhile, once.
    deleted.clear()
    async with client.watch(position, thread="t1") as watch:
        async for update in watch:
            deleted += [update.run_id] if update.deleted else []
            if "" in deleted:
                position = watch.position
                break
    later = await client.start("later", queue="none", thread="t2")
    async with client.watch(position, thread="t1") as watch:
        coming = asyncio.ensure_future(anext(aiter(watch)))
        await later.cancel()
        await later.delete()
        update = await coming
        assert (update.run_id, update.deleted) == (later.id, True)
