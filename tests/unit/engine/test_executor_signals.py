"""Kept signals that the engine reads for a call: the first of its name, however many others the run keeps."""

from __future__ import annotations

import asyncio
from typing import Any

from stepwell.core.loop.occurrences import AwaitSignal, SendSignal, SuspendedCall
from stepwell.core.port import Assignment, JournalQuery
from stepwell.core.records.journal_answers import JournalAnswer
from stepwell.core.records.model import Payload
from stepwell.engine.executor import Executor
from stepwell.engine.journal_writer import NewEntries
from tests.support.patience import PATIENCE_S
from tests.unit.core.loop_world import chain
from tests.unit.engine.executor_world import RUN, TENANT, ExecutorWorld, FakeWorker, Rigged


class Counting(Rigged):
    """A store that counts the entries of each page of a journal that is read."""

    def __init__(self, world: ExecutorWorld) -> None:
        super().__init__(world.store)
        self.pages: list[int] = []

    async def call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        answer = await super().call(method, *args, **kwargs)
        if method == "page" and isinstance(args[0], JournalQuery):
            self.pages.append(len(answer.items))
        return answer


async def send(executor: Executor, name: str, text: str) -> None:
    command = SendSignal(name=name, value=Payload(data=text.encode()), actor="caller")
    assert (await executor.send(TENANT, RUN, command)).status == "ACCEPTED"


async def receive(
    executor: Executor, worker: FakeWorker, got: Assignment, name: str, number: int
) -> bytes | None:
    """Open a call that waits for a signal; return its value."""
    call = SuspendedCall(call=f"k{number}", wait=AwaitSignal(name=name))
    answered: asyncio.Future[JournalAnswer | Exception] = asyncio.get_running_loop().create_future()
    one = NewEntries(
        RUN, got.execution.execution_id, got.token, (), opens=(call,), open_number=number
    )
    executor.write_journal(TENANT, one, answered.set_result)
    async with asyncio.timeout(PATIENCE_S):
        await answered
        _, entry = await worker.ended_calls.get()
    assert entry.key == call.call
    return entry.value.data if entry.value is not None else None


async def test_receive_reads_one_page_with_one_signal(world: ExecutorWorld) -> None:
    store = Counting(world)
    executor, worker = await world.serving(store=store)
    await world.start(executor, chain("a"))
    got = await worker.next()
    for number in range(50):
        await send(executor, "other", str(number))
        await send(executor, "note", str(number))
    store.pages.clear()
    values = [await receive(executor, worker, got, "note", number) for number in range(1, 11)]
    assert values == [str(number).encode() for number in range(10)]
    assert store.pages == [1] * 10
