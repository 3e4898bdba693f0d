"""Forks of a thread: the messages are copied by several commits, and whatever stops in between, a second call ends it."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell.app.threads import delete_thread, fork_thread, read_thread, start_in_thread
from stepwell.core.loop.occurrences import StartInThread
from stepwell.core.loop.thread_occurrences import ForkThread, WriteToThread
from stepwell.core.records import limits
from stepwell.core.records.errors import FailedPrecondition, NotFound, StoreUnavailable
from stepwell.core.records.journal import value_bytes
from stepwell.core.records.model import RunSpec
from stepwell.core.records.threads import key_of
from stepwell.engine.executor import Executor
from stepwell.engine.thread_reader import read_messages, read_state
from tests.unit.core.loop_world import chain
from tests.unit.engine.executor_world import TENANT, Rigged, executor_world
from tests.unit.engine.test_executor_threads import THREAD, run_id, said

FORK = key_of(TENANT, "t2")


def fork(at: int | None = None, request_id: str = "") -> ForkThread:
    return ForkThread(
        thread_id="t2", forked_from="t1", at=at, request_id=request_id, fingerprint="f"
    )


async def write(executor: Executor, thread: str, *texts: str, state: str = "") -> None:
    written = WriteToThread(thread_id=thread, write=said(*texts, state=state))
    await executor.send(*key_of(TENANT, thread), written)


async def fill(executor: Executor, count: int = 120) -> None:
    """Write messages, a commit each hundred at most, and a state, to the thread that is forked."""
    for first in range(0, count, 100):
        numbers = range(first, min(count, first + 100))
        await write(executor, "t1", *[f"{number + 1}" for number in numbers])
    await write(executor, "t1", state='"now"')


async def refuses_all_else(executor: Executor) -> None:
    """Check that no reader takes a part for the whole, and that nothing comes between the messages."""
    spec = RunSpec(tenant_id=TENANT, run_id=run_id(2), thread_id="t2", request_fingerprint="2")
    written = WriteToThread(thread_id="t2", write=said("between", state="2"))
    assert (await executor.send(*FORK, written)).reason == "THREAD_INCOMPLETE"
    onward = ForkThread(thread_id="t3", forked_from="t2")
    for refused in (
        start_in_thread(executor, StartInThread(spec=spec, plan=tuple(chain("a")))),
        read_thread(executor.store, *FORK, "t2"),
        fork_thread(executor, TENANT, onward),
    ):
        with pytest.raises(FailedPrecondition) as refusal:
            await refused
        assert refusal.value.reason == "THREAD_INCOMPLETE"
    assert (await executor.send(*FORK, fork(7))).reason == "THREAD_EXISTS"


@pytest.mark.parametrize("writes", range(5))
async def test_fork_that_stops_after_some_writes_is_completed_by_the_next(writes: int) -> None:
    async with executor_world() as world:
        left, stopped = writes, False

        async def first(method: str, *args: Any, **kwargs: Any) -> None:
            nonlocal left, stopped
            if armed and method == "commit":
                left -= 1
                stopped |= left < 0
            if stopped and method not in ("subscribe", "close"):
                raise StoreUnavailable("it is down")

        armed = False
        executor = world.executor(Rigged(world.store, first))
        await fill(executor)
        armed = True
        try:
            await fork_thread(executor, TENANT, fork(request_id="r1"))
        except StoreUnavailable:
            assert stopped
        assert stopped is (writes < 4)
        await executor.close()
        world.executors.remove(executor)

        other = world.executor()
        if 1 <= writes < 4:
            await refuses_all_else(other)
        await write(other, "t1", "later")
        run, changed = await fork_thread(other, TENANT, fork(request_id="r1"))
        assert changed is (writes == 0)
        count = 121 if writes == 0 else 120
        assert (run.thread.messages, run.thread.forked_at) == (count, count)
        assert (run.thread.joined, run.thread.forked_from) == (0, "t1")
        copied, _ = await read_messages(world.store, FORK, 1, 200)
        own, _ = await read_messages(world.store, THREAD, 1, count)
        assert copied == own
        assert await read_state(world.store, FORK) == (1, said(state='"now"').state)


async def test_fork_whose_request_had_no_id_is_completed_by_an_equal_one() -> None:
    async with executor_world() as world:
        executor = world.executor()
        await fill(executor)
        await executor.send(*FORK, fork(60))
        run, changed = await fork_thread(executor, TENANT, fork(60))
        assert (run.thread.messages, run.thread.state, changed) == (60, 0, False)
        with pytest.raises(FailedPrecondition) as refusal:
            await fork_thread(executor, TENANT, fork(60))
        assert refusal.value.reason == "THREAD_EXISTS"


async def test_fork_that_lost_its_parent_stays_incomplete_until_it_is_deleted() -> None:
    async with executor_world() as world:
        executor = world.executor()
        await fill(executor)
        await executor.send(*FORK, fork(60))
        assert await delete_thread(executor, TENANT, "t1", force=False)
        with pytest.raises(NotFound) as refusal:
            await fork_thread(executor, TENANT, fork(60))
        assert refusal.value.reason == "THREAD_NOT_FOUND"
        assert await delete_thread(executor, TENANT, "t2", force=False)


async def test_large_messages_are_copied_by_commits_of_a_bounded_size() -> None:
    async with executor_world() as world:
        largest = 0

        async def first(method: str, *args: Any, **kwargs: Any) -> None:
            nonlocal largest
            if method == "commit":
                sizes = [sum(value_bytes(e.entry) for e in one.entries) for one in args[0]]
                largest = max(largest, *sizes)

        executor = world.executor(Rigged(world.store, first))
        large = "x" * (limits.PAYLOAD_BYTES_MAX // 2)
        for _ in range(5):
            await write(executor, "t1", large)
        largest = 0
        run, _ = await fork_thread(executor, TENANT, fork())
        assert run.thread.messages == 5
        assert run.thread.bytes == 5 * len(large)
        assert len(large) <= largest <= 1024 * 1024
