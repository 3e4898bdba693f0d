"""Request ids: a command that is sent again changes nothing, however many came since and whichever replica has it."""

from __future__ import annotations

from stepwell.core.loop.occurrences import AnyCommand, Pause, Resume, SendSignal
from stepwell.core.loop.thread_occurrences import WriteToThread
from stepwell.core.loop.transition import Reply
from stepwell.core.records.limits import REQUESTS_KEPT_MAX
from stepwell.core.records.model import Payload
from stepwell.core.records.threads import ThreadMessageDraft, ThreadWrite, key_of
from stepwell.engine.executor import Executor
from stepwell.engine.key_types import RunKey
from tests.unit.core.loop_world import chain
from tests.unit.engine.executor_world import RUN, TENANT, ExecutorWorld
from tests.unit.engine.test_executor_signals import Counting

THREAD = key_of(TENANT, "t1")
MORE = REQUESTS_KEPT_MAX + 20


def signal(request_id: str, text: str = "yes") -> SendSignal:
    value = Payload(data=text.encode())
    return SendSignal(name="note", value=value, request_id=request_id, fingerprint=text)


def message(request_id: str, text: str = "yes") -> WriteToThread:
    content = Payload(data=text.encode())
    write = ThreadWrite(messages=(ThreadMessageDraft(role="user", content=content),))
    return WriteToThread(thread_id="t1", write=write, request_id=request_id, fingerprint=text)


async def sent(executor: Executor, key: RunKey, command: AnyCommand) -> tuple[str, str]:
    reply: Reply = await executor.send(*key, command)
    return reply.status, reply.reason


async def test_signal_or_message_sent_again_after_many_is_not_taken_again(
    world: ExecutorWorld,
) -> None:
    first, second = world.executor(), world.executor()
    await world.start(first, chain("a"))
    for make, key in ((signal, (TENANT, RUN)), (message, THREAD)):
        for number in range(MORE):
            assert await sent(first, key, make(f"r{number}")) == ("ACCEPTED", "")
        made = await world.store.get_run(*key)
        assert made is not None
        # One replica has the run in memory, and another one loads it.
        for executor in (first, second):
            for number in (0, 1, MORE - REQUESTS_KEPT_MAX - 1, MORE - REQUESTS_KEPT_MAX, MORE - 1):
                again = await sent(executor, key, make(f"r{number}"))
                assert again == ("UNCHANGED", ""), number
                other = await sent(executor, key, make(f"r{number}", "no"))
                assert other == ("REFUSED", "REQUEST_ID_REUSED"), number
        assert await world.store.get_run(*key) == made
    assert await sent(second, THREAD, message("new")) == ("ACCEPTED", "")


async def test_command_that_leaves_no_row_is_not_carried_out_again_after_many(
    world: ExecutorWorld,
) -> None:
    executor = world.executor()
    await world.start(executor, chain("a"))
    await sent(executor, (TENANT, RUN), Pause(request_id="pause", fingerprint="pause"))
    await sent(executor, (TENANT, RUN), Resume(request_id="resume", fingerprint="resume"))
    for number in range(MORE):
        await sent(executor, (TENANT, RUN), signal(f"r{number}"))
    again = await sent(executor, (TENANT, RUN), Pause(request_id="pause", fingerprint="pause"))
    assert (again, await world.status()) == (("UNCHANGED", ""), "QUEUED")


async def test_run_reads_old_request_ids_only_once_it_has_more_than_it_loads(
    world: ExecutorWorld,
) -> None:
    store = Counting(world)
    executor = world.executor(store)
    await world.start(executor, chain("a"))
    for number in range(REQUESTS_KEPT_MAX):
        await sent(executor, (TENANT, RUN), signal(f"r{number}"))
    await sent(executor, (TENANT, RUN), signal("r0"))
    assert store.pages == []
    await sent(executor, (TENANT, RUN), signal("new"))
    await sent(executor, (TENANT, RUN), signal("r1"))
    assert store.pages == [0]
    await sent(executor, (TENANT, RUN), signal("r0"))
    assert store.pages == [0, 1]
