"""Questions about journals that the engine asks of the store: they find all that is needed, and read little else."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from stepwell.core.loop.occurrences import (
    AwaitSignal,
    Failed,
    Released,
    RetryTask,
    SendSignal,
    Suspended,
    SuspendedCall,
)
from stepwell.core.port import Assignment, JournalQuery, MessageQuery
from stepwell.core.records.journal import Entry
from stepwell.core.records.journal_answers import JournalAnswer
from stepwell.core.records.model import Failure, Message, Payload
from stepwell.core.records.states import Effect
from stepwell.engine.executor import Executor
from stepwell.engine.journal_writer import NewEntries
from tests.support.patience import PATIENCE_S
from tests.unit.core.loop_world import chain
from tests.unit.engine.executor_world import (
    RUN,
    TENANT,
    ExecutorWorld,
    FakeWorker,
    Rigged,
    Slow,
    until,
)


class Watched(Rigged):
    """A store that keeps the questions about journals."""

    def __init__(self, world: ExecutorWorld) -> None:
        self.asked: list[JournalQuery] = []
        self.once_read: Callable[[], Awaitable[None]] | None = None
        """Called the first time that all of an attempt's entries are read."""

        async def note(method: str, *args: Any, **_: Any) -> None:
            if method == "page" and isinstance(args[0], JournalQuery):
                self.asked.append(args[0])

        super().__init__(world.store, note)

    async def call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        answer = await super().call(method, *args, **kwargs)
        is_read = method == "page" and getattr(args[0], "execution_id", "")
        if is_read and self.once_read is not None:
            once_read, self.once_read = self.once_read, None
            await once_read()
        return answer


async def serving(world: ExecutorWorld) -> tuple[Watched, Executor, FakeWorker, Assignment]:
    """Return a worker that has the task of a run, with the store of its executor."""
    store = Watched(world)
    executor, worker = await world.serving(store=store)
    await world.start(executor, chain("a"))
    return store, executor, worker, await worker.next()


async def answer_to(
    executor: Executor, got: Assignment, entries: Sequence[Entry] = (), forget: Sequence[str] = ()
) -> JournalAnswer:
    """Write entries, or drop calls, and return the answer."""
    answered: asyncio.Future[JournalAnswer | Exception] = asyncio.get_running_loop().create_future()
    one = NewEntries(RUN, got.execution.execution_id, got.token, entries, forget, int(bool(forget)))
    executor.write_journal(TENANT, one, answered.set_result)
    async with asyncio.timeout(PATIENCE_S):
        answer = await answered
    assert isinstance(answer, JournalAnswer)
    return answer


async def write(
    executor: Executor, got: Assignment, entries: Sequence[Entry] = (), forget: Sequence[str] = ()
) -> None:
    """Write entries, or drop calls, and wait for the answer."""
    assert (await answer_to(executor, got, entries, forget)).live


async def test_calls_that_are_dropped_together_are_looked_for_once(world: ExecutorWorld) -> None:
    store, executor, _, got = await serving(world)
    calls = [f"k{number}" for number in range(20)]
    await write(executor, got, [Entry(key=call) for call in (*calls, "kept")])
    await write(executor, got, forget=calls)

    # The second question finds the end.
    assert len(store.asked) == 2
    page = await store.page(JournalQuery(tenant_id=TENANT, run_id=RUN))
    assert [one.entry.key for one in page.items] == ["kept"]


async def test_messages_of_entries_are_looked_for_in_their_step_alone(world: ExecutorWorld) -> None:
    store, executor, worker, got = await serving(world)
    said = Message(role="assistant", content="hello")
    await write(executor, got, [Entry(key="k", messages=(said,))])
    await worker.deliver(got, Released(reason="later"))

    asked = {(one.journal, one.execution_id) for one in store.asked}
    assert asked == {("task:a@1", "task:a#1")}


async def test_messages_of_an_entry_that_comes_once_they_are_read_are_appended(
    world: ExecutorWorld,
) -> None:
    def saying(text: str) -> Entry:
        return Entry(key=text, messages=(Message(role="assistant", content=text),))

    store, executor, worker, got = await serving(world)
    await write(executor, got, [saying("first")])
    store.once_read = partial(write, executor, got, [saying("second")])
    await worker.deliver(got, Released(reason="later"))

    page = await store.page(MessageQuery(tenant_id=TENANT, run_id=RUN))
    assert [one.content for one in page.items] == ["first", "second"]


@pytest.mark.parametrize("replicas", [1, 2])
async def test_a_copy_that_is_written_after_its_call_was_dropped_is_refused(
    world: ExecutorWorld, replicas: int
) -> None:
    slow = Slow(world.store, "write_journal")
    slow.go_on.set()
    executor, worker = await world.serving(store=slow)
    other = executor if replicas == 1 else world.executor(store=slow)
    await world.start(executor, chain("a"))
    got = await worker.next()
    await write(executor, got, [Entry(key="k")])

    slow.go_on.clear()
    copy = asyncio.ensure_future(answer_to(executor, got, [Entry(key="k")]))
    await until(lambda: slow.waiting == 2)
    drop = asyncio.ensure_future(answer_to(other, got, forget=["k"]))
    # The commit is done: what it is answered with waits, too.
    await until(lambda: slow.waiting == 3)
    slow.go_on.set()
    (late,) = (await copy).entries

    assert isinstance(late, Failure)
    assert late.kind == "JOURNAL_WRITE_LATE"
    assert (await drop).failure is None
    page = await world.store.page(JournalQuery(tenant_id=TENANT, run_id=RUN))
    assert page.items == ()


async def test_entries_whose_step_ends_while_its_journal_is_read_lose_their_lease(
    world: ExecutorWorld,
) -> None:
    slow = Slow(world.store, "page")
    slow.go_on.set()
    executor, worker = await world.serving(store=slow)
    await world.start(executor, chain("a"))
    got = await worker.next()
    slow.go_on.clear()
    before = slow.waiting

    # An END without its BEGIN: the store is asked for that.
    end = Entry(key="k", effect=Effect.AT_MOST_ONCE)
    answer = asyncio.ensure_future(answer_to(executor, got, [end]))
    await until(lambda: slow.waiting > before)
    await worker.deliver(got, Released(reason="later"))
    slow.go_on.set()

    assert not (await answer).live


async def test_a_tasks_journal_is_named_without_loading_a_run_whose_plan_is_known(
    world: ExecutorWorld,
) -> None:
    store, executor, _, _ = await serving(world)
    store.calls.clear()
    run = await world.run()

    assert await executor.journals.name_of(run, "a") == "task:a@1"
    assert await executor.journals.name_of(run, "none") == ""
    assert store.calls["load"] == 0


async def test_a_tasks_journal_is_named_by_the_plan_in_the_store(world: ExecutorWorld) -> None:
    store, executor, _, _ = await serving(world)
    run = replace(await world.run(), plan_revision=2)
    store.calls.clear()

    await executor.journals.name_of(run, "a")
    assert store.calls["load"] == 1


def keys_in(assignment: Assignment) -> list[str]:
    """Return the calls of the journal that a worker is given with a step."""
    assert assignment.journal is not None
    return [one.entry.key for one in assignment.journal.entries]


async def suspended(
    world: ExecutorWorld, store: Rigged
) -> tuple[FakeWorker, Callable[[], Awaitable[object]]]:
    """Return a worker that has suspended a step with an entry, and what sends the signal for it."""
    executor, worker = await world.serving(credits=2, store=store)
    await world.start(executor, chain("a"))
    got = await worker.next()
    await write(executor, got, [Entry(key="before")])
    wait = SuspendedCall(call="signal", wait=AwaitSignal(name="go"))
    await worker.deliver(got, Suspended(waits=(wait,)))

    def send() -> Awaitable[object]:
        return executor.send(TENANT, RUN, SendSignal(name="go", value=Payload(data=b"1")))

    return worker, send


async def test_the_journal_of_a_woken_step_is_read_while_the_commit_is_made(
    world: ExecutorWorld,
) -> None:
    order: list[str] = []

    async def note(method: str, *_: Any, **__: Any) -> None:
        order.append(method)

    worker, send = await suspended(world, Rigged(world.store, note))
    order.clear()
    await send()
    assert keys_in(await worker.next()) == ["before", "signal"]
    assert [one for one in order if one in ("page", "commit")] == ["page", "commit"]


async def test_a_journal_that_is_read_after_the_commit_has_each_entry_once(
    world: ExecutorWorld,
) -> None:
    store = Slow(world.store, "page")
    store.go_on.set()
    worker, send = await suspended(world, store)
    store.go_on.clear()
    await send()
    store.go_on.set()
    assert keys_in(await worker.next()) == ["before", "signal"]


async def test_the_journal_of_a_running_attempt_is_read_after_its_end(world: ExecutorWorld) -> None:
    order: list[str] = []

    async def note(method: str, *_: Any, **__: Any) -> None:
        order.append(method)

    executor, worker = await world.serving(credits=3, store=Rigged(world.store, note))
    await world.start(executor, chain("a"))
    got = await worker.next()
    await write(executor, got, [Entry(key="one")])
    await worker.deliver(got, Released(reason="later"))
    got = await worker.next()
    await write(executor, got, [Entry(key="two")])
    order.clear()
    await worker.deliver(got, Released(reason="later"))
    assert keys_in(await worker.next()) == ["one", "two"]
    assert order.index("commit") < len(order) - 1 - order[::-1].index("page")


async def test_a_step_that_begins_afresh_is_given_nothing_of_its_journal(
    world: ExecutorWorld,
) -> None:
    executor, worker = await world.serving(credits=2)
    await world.start(executor, chain("a"))
    got = await worker.next()
    await write(executor, got, [Entry(key="before")])
    await worker.deliver(got, Failed(failure=Failure(kind="Boom")))
    again = RetryTask(task_id="a", fresh=True)
    assert (await executor.send(TENANT, RUN, again)).status == "ACCEPTED"
    assert keys_in(await worker.next()) == []
