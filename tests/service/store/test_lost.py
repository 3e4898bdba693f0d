"""The `grpc://` driver when replies are lost, servers die and messages are too large."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from stepwell.core.port import EntryAck, FeedQuery, MessageQuery
from stepwell.core.records.errors import (
    InvalidArgument,
    OutcomeUnknown,
    StepwellError,
    StoreUnavailable,
)
from stepwell.core.records.model import Payload
from stepwell.rpc import store as store_rpc
from stepwell.runtime import SystemRuntime
from stepwell_drivers.remote import packing
from stepwell_testkit.conformance import builders as b
from stepwell_testkit.conformance.harness import soon
from stepwell_testkit.conformance.journal_writes import kept
from tests.service.store.conftest import COMMITTED, World, raises, until_there, verdicts
from tests.support.backends.proxy import Proxy
from tests.support.patience import insisting

# --- what is lost is said to be lost ----------------------------------------------------------------


async def test_S4_lost_reply_is_unknown_and_a_resend_resolves_it(
    world: World,
) -> None:
    async with Proxy(int(world.server.address.rpartition(":")[2])) as proxy:
        store = await world.open(port=proxy.port)

        async def cut() -> None:
            proxy.cut()

        world.store.after = cut
        with pytest.raises(OutcomeUnknown):
            await store.commit([b.created()])
        assert await world.behind.get_run(b.TENANT, b.RUN) is not None
        assert await until_there(store, b.created()) == [COMMITTED]
        assert len((await world.behind.page(FeedQuery())).items) == 1
        await store.close()


async def test_S4_a_commit_that_takes_too_long_is_unknown_and_goes_on(world: World) -> None:
    # The limit holds for opening, for the way to the server and for the last commit, too.
    store = await insisting(lambda: world.open("&timeout_ms=1500"))
    begun, slow = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        world.store.before = wait
        begun.set()
        await slow.wait()

    world.store.before = wait
    while not begun.is_set():
        with pytest.raises(OutcomeUnknown, match=world.server.address):
            await store.commit([b.created()])
    assert await world.behind.get_run(b.TENANT, b.RUN) is None
    slow.set()
    await world.server.service.close()
    assert await world.behind.get_run(b.TENANT, b.RUN) is not None
    world.store.before = None
    assert await until_there(store, b.created()) == [COMMITTED]


async def test_S4_lost_reply_to_a_recording_is_unknown_and_a_resend_resolves_it(
    world: World,
) -> None:
    async with Proxy(int(world.server.address.rpartition(":")[2])) as proxy:
        store = await world.open(port=proxy.port)
        await until_there(store, b.created_leased())

        async def cut() -> None:
            proxy.cut()

        world.store.after = cut
        with pytest.raises(OutcomeUnknown):
            await store.write_journal([b.journal_write(b.entry())])
        assert await kept(world.behind) == [b.entry()]
        (answer,) = await insisting(lambda: store.write_journal([b.journal_write(b.entry())]))
        assert (answer.written, answer.totals.entries) == ((EntryAck(),), 1)
        assert await kept(world.behind) == [b.entry()]
        await store.close()


@pytest.mark.parametrize("method", ["commit", "write_journal"])
@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (StoreUnavailable("the disk is full", reason="STORE_FULL"), StoreUnavailable),
        (OutcomeUnknown("the store failed while it committed"), OutcomeUnknown),
        (InvalidArgument("a row contradicts", reason="CONTRADICTION"), InvalidArgument),
        (cast("StepwellError", ZeroDivisionError("a driver's own fault")), OutcomeUnknown),
    ],
)
async def test_failure_of_a_write_is_the_stores(
    world: World, method: str, raised: StepwellError, expected: type[StepwellError]
) -> None:
    store = await world.open()
    world.store.before = raises(raised)
    written = b.created() if method == "commit" else b.journal_write(b.entry())
    with pytest.raises(expected) as caught:
        await getattr(store, method)([written])
    if isinstance(raised, StepwellError):
        assert (caught.value.reason, caught.value.message) == (raised.reason, raised.message)


async def test_a_server_that_is_down_is_unavailable_and_named(world: World) -> None:
    store = await world.open()
    await world.server.close()
    with pytest.raises(StoreUnavailable, match=world.server.address):
        await store.get_run(b.TENANT, b.RUN)
    with pytest.raises(StoreUnavailable, match=world.server.address):
        await store.commit([b.created()])
    with pytest.raises(StoreUnavailable, match=world.server.address):
        await world.open()
    await world.restart()
    assert await until_there(store, b.created()) == [COMMITTED]


async def test_reads_come_through_a_restart_of_the_service(world: World) -> None:
    store = await world.open()
    await store.commit([b.created()])
    for _ in range(3):
        await world.server.kill()
        reading = SystemRuntime().spawn(store.get_run(b.TENANT, b.RUN), name="reading")
        await world.restart()
        assert await reading is not None


async def test_a_delete_whose_answer_was_lost_is_looked_up(world: World) -> None:
    store = await world.open()
    await store.commit([b.created()])
    delete = world.behind.delete_run

    async def dying(tenant_id: str, run_id: str, *, version: int) -> bool:
        answer = await delete(tenant_id, run_id, version=version)
        await world.server.kill()
        return answer

    world.store.delete_run = dying
    deleting = SystemRuntime().spawn(store.delete_run(b.TENANT, b.RUN, version=1), name="delete")
    assert await soon(lambda: len(world.behind._kept.runs) == 0)  # type: ignore[attr-defined] - memory's
    await world.restart()
    assert await deleting is True


# --- too large for one message ----------------------------------------------------------------------


async def test_a_group_too_large_for_a_message_goes_in_several(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packing, "BYTES_MAX", 4_096)
    store = await world.open()
    many = [b.created(f"r{at}", input=Payload(data=bytes(1_000))) for at in range(50)]
    assert await verdicts(store, *many) == [COMMITTED] * 50
    with pytest.raises(InvalidArgument, match="more than a message") as large:
        await store.commit([b.created("big", input=Payload(data=bytes(5_000)))])
    assert large.value.reason == "TOO_LARGE"


async def test_S4_a_group_that_fails_half_way_is_unknown(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packing, "ITEMS_MAX", 1)
    store = await world.open()

    async def full_from_now_on() -> None:
        world.store.before = raises(StoreUnavailable("the disk is full", reason="STORE_FULL"))

    world.store.after = full_from_now_on
    with pytest.raises(OutcomeUnknown, match="full"):
        await store.commit([b.created("one"), b.created("two")])
    assert await verdicts(store, b.created("one"), b.created("two")) == [COMMITTED] * 2


async def test_S4_recordings_that_fail_half_way_are_unknown(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packing, "ITEMS_MAX", 1)
    store = await world.open()
    await until_there(store, b.created_leased())

    async def full_from_now_on() -> None:
        world.store.before = raises(StoreUnavailable("the disk is full", reason="STORE_FULL"))

    world.store.after = full_from_now_on
    writes = [b.journal_write(b.entry("a")), b.journal_write(b.entry("b"))]
    with pytest.raises(OutcomeUnknown, match="full"):
        await store.write_journal(writes)
    assert [one.totals.entries for one in await store.write_journal(writes)] == [1, 2]


async def test_answers_too_large_for_a_message_come_in_several(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_rpc, "ANSWER_BYTES_MAX", 4_096)
    store = await world.open()
    steps = [f"task:{at}#1" for at in range(20)]
    first = b.created(executions=[b.ended(step) for step in steps])
    created = await store.commit([first])
    assert created[0].verdict is COMMITTED
    outcomes = [b.outcome(bytes(1_000), step) for step in steps]
    messages = [b.message("x" * 1_000) for _ in range(20)]
    await store.commit([b.step(first, outcomes=outcomes, messages=messages)])
    assert [it.key for it in await store.read_payloads(b.TENANT, b.RUN, steps)] == steps
    found = await store.read_payloads(b.TENANT, b.RUN, steps, texts=True)
    assert [it.key for it in found] == steps
    seen, cursor = 0, ""
    while True:
        page = await store.page(
            MessageQuery(tenant_id=b.TENANT, run_id=b.RUN, cursor=cursor, limit=100)
        )
        seen, cursor = seen + len(page.items), page.cursor
        if not cursor:
            break
    assert seen == 20


async def test_answer_that_no_message_holds_is_refused(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await world.open()
    first = b.created(executions=[b.ended()])
    await store.commit([first])
    await store.commit([b.step(first, outcomes=[b.outcome(bytes(5_000))])])
    monkeypatch.setattr(store_rpc, "ANSWER_BYTES_MAX", 4_096)
    with pytest.raises(StepwellError) as refused:
        await store.read_payloads(b.TENANT, b.RUN, [b.STEP])
    assert refused.value.reason == "RESPONSE_TOO_LARGE"
