"""Journals inside steps: what a worker records under its lease, and what the next attempt finds."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from stepwell.core.records import limits
from stepwell_client.v1 import types_pb2
from stepwell_client.v1 import worker_pb2 as wpb
from tests.service.conftest import (
    NO_RUN,
    Client,
    RawWorker,
    lease_of,
    outcome,
    refusal,
)

LIVE, LOST = wpb.LEASE_STATUS_LIVE, wpb.LEASE_STATUS_LOST
KEPT, MISMATCH = wpb.ENTRY_STATUS_ACCEPTED, wpb.ENTRY_STATUS_MISMATCH
REJECTED = wpb.ENTRY_STATUS_REJECTED
END, BEGIN = types_pb2.JOURNAL_MARK_END, types_pb2.JOURNAL_MARK_BEGIN
TRY, WAIT = types_pb2.JOURNAL_MARK_TRY, types_pb2.JOURNAL_MARK_WAIT
ONCE = types_pb2.EFFECT_AT_MOST_ONCE
RELEASED = wpb.Outcome.Released(reason="try elsewhere")
MIB = 1024 * 1024


def entry(key: str, value: bytes | None = b'"v"', **fields: Any) -> types_pb2.JournalEntry:
    if value is not None:
        fields["value"] = types_pb2.Payload(data=value)
    return types_pb2.JournalEntry(key=key, **fields)


def begin(key: str, number: int = 1) -> types_pb2.JournalEntry:
    return entry(key, None, mark=BEGIN, number=number, effect=ONCE)


def journal_write(got: wpb.Assignment, *entries: types_pb2.JournalEntry, **fields: Any) -> Any:
    return wpb.JournalWrite(**{**lease_of(got), "entries": entries, **fields})


async def write(
    client: Client, got: wpb.Assignment, *entries: Any, **fields: Any
) -> wpb.JournalAck:
    answer = await client.ask("WriteJournal", writes=[journal_write(got, *entries, **fields)])
    return answer.acks[0]


def statuses(recorded: wpb.JournalAck) -> list[Any]:
    return [one.status for one in recorded.entries]


def keys(assignment: wpb.Assignment) -> list[str]:
    return [one.entry.key for one in assignment.journal.entries]


async def again(worker: RawWorker, got: wpb.Assignment) -> wpb.Assignment:
    """Hand a step back, and return the next attempt at it."""
    await worker.send(outcome(got, released=RELEASED), grant=1)
    return await worker.assignment()


async def listed(client: Client, run_id: str, **fields: Any) -> list[Any]:
    return list((await client.ask("ListJournal", run_id=run_id, **fields)).entries)


async def test_J1_acknowledged_entries_are_in_the_next_attempt(client: Client) -> None:
    await client.start_tasks("a", queue="q")
    async with client.worker(queues=["q"]) as worker:
        got = await worker.assignment()
        assert (got.HasField("journal"), got.tries_from) == (False, 0)
        assert statuses(await write(client, got, entry("one"), entry("two", b""))) == [KEPT, KEPT]
        failure = types_pb2.Failure(kind="Boom", message="no", retryable=True)
        tried = entry("three", None, mark=TRY, number=1, attempt=1, failure=failure)
        assert statuses(await write(client, got, tried)) == [KEPT]
        got = await again(worker, got)

    held = got.journal.entries
    assert (keys(got), got.journal.next_page_token, got.tries_from) == (
        ["one", "two", "three"],
        "",
        1,
    )
    assert (held[0].entry.value.data, held[1].entry.HasField("value")) == (b'"v"', True)
    assert held[2].entry.failure == failure


async def test_recordings_on_the_stream_are_answered_there(client: Client) -> None:
    await client.start_tasks("a", "b", queue="q", max_parallel=2)
    async with client.worker(queues=["q"]) as worker:
        got = [await worker.assignment() for _ in range(2)]
        sent = [
            journal_write(one, entry("k"), delivery_id=f"r{place}") for place, one in enumerate(got)
        ]
        await worker.call.write(wpb.WorkRequest(journal_writes=sent))
        answers = [await worker.recorded() for _ in got]

    assert {one.delivery_id for one in answers} == {"r0", "r1"}
    assert {one.lease.status for one in answers} == {LIVE}
    assert [statuses(one) for one in answers] == [[KEPT], [KEPT]]


async def test_J2_first_value_stays_and_the_same_one_is_accepted_again(client: Client) -> None:
    await client.start_tasks("a", queue="q")
    async with client.worker(queues=["q"]) as worker:
        got = await worker.assignment()
        assert statuses(await write(client, got, entry("k"))) == [KEPT]
        resent = await write(client, got, entry("k"), entry("k", b'"other"'), entry("l"))
    assert statuses(resent) == [KEPT, MISMATCH, KEPT]
    assert resent.entries[1].failure.kind == "JOURNAL_MISMATCH"


async def test_J4_stale_lease_writes_nothing(client: Client) -> None:
    run = await client.start_tasks("a", queue="q")
    run_id = run.spec.run_id
    async with client.worker(queues=["q"]) as worker:
        stale = await worker.assignment()
        got = await again(worker, stale)
        lost = await write(client, stale, entry("late"))
        forged = await write(client, got, entry("forged"), **lease_of(got, token="f" * 32))
        nobody = await write(client, got, entry("x"), **lease_of(got, run_id=NO_RUN))
        await client.ask("CancelRun", run_id=run_id)
        cancelled = await write(client, got, entry("late"))

    for one in (lost, forged, nobody, cancelled):
        assert (one.lease.status, list(one.entries)) == (LOST, [])
    assert [one.lease.cancel_requested for one in (lost, forged, nobody, cancelled)] == [
        *(False, False, False),
        True,
    ]
    assert await listed(client, run_id) == []


async def test_entry_that_breaks_a_limit_is_refused_alone(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await client.start_tasks("a", queue="q")
    async with client.worker(queues=["q"]) as worker:
        got = await worker.assignment()
        large = entry("large", bytes(MIB + 1))
        answer = await write(client, got, entry("one"), large, entry(""), entry("two"))
        assert statuses(answer) == [KEPT, REJECTED, REJECTED, KEPT]
        assert answer.entries[1].failure.violations[0].field == "value.data"
        monkeypatch.setattr(limits, "JOURNAL_ENTRIES_MAX", 3)
        full = await write(client, got, entry("three"), entry("four"))
        assert statuses(full) == [KEPT, REJECTED]
        assert full.entries[1].failure.kind == "JOURNAL_FULL"
        got = await again(worker, got)
        assert statuses(await write(client, got, entry("five"))) == [REJECTED]
        unnamed = await write(
            client, got, entry("k"), lease={"run_id": run.spec.run_id, "token": "t"}
        )
        assert (unnamed.lease.status, list(unnamed.entries)) == (LOST, [])
        many = [journal_write(got, *[entry("k")] * 501)] * 2
        refused = await refusal(client.ask("WriteJournal", writes=many))
        assert refused.fields == ["writes"]


def saying(key: str, *lengths: int) -> types_pb2.JournalEntry:
    said = [types_pb2.Message(role="assistant", content="x" * length) for length in lengths]
    return entry(key, messages=said)


async def test_messages_of_entries_have_a_limit_and_count_in_the_journal(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    await client.start_tasks("a", queue="q")
    async with client.worker(queues=["q"]) as worker:
        got = await worker.assignment()
        large = saying("large", 130_000, 130_000, 10_000)
        answer = await write(client, got, saying("one", 60_000), large)
        assert statuses(answer) == [KEPT, REJECTED]
        assert answer.entries[1].failure.violations[0].field == "messages"
        monkeypatch.setattr(limits, "JOURNAL_BYTES_MAX", 100_000)
        # What went before counts too, in this attempt and in the next one.
        full = await write(client, got, saying("two", 60_000), entry("three"))
        assert statuses(full) == [REJECTED, KEPT]
        got = await again(worker, got)
        failed = types_pb2.Failure(kind="Boom", details="x" * 60_000)
        tried = entry("four", None, mark=TRY, number=1, attempt=2, failure=failed)
        full = await write(client, got, tried, saying("two", 60_000), entry("five"))
        assert statuses(full) == [REJECTED, REJECTED, KEPT]


async def test_long_journal_is_read_by_pages(client: Client) -> None:
    run = await client.start_tasks("a", queue="q")
    async with client.worker(queues=["q"]) as worker:
        got = await worker.assignment()
        for number in range(3):
            await write(client, got, entry(f"large{number}", bytes(600_000)))
        for number in range(2):
            await write(client, got, *(entry(f"small{number}.{n}") for n in range(600)))
        got = await again(worker, got)
        names, page = keys(got), got.journal
        assert 1 <= len(names) < 3
        while page.next_page_token:
            answer = await client.ask(
                "ReadJournal", **lease_of(got), page_token=page.next_page_token
            )
            assert answer.lease.status == LIVE
            page = answer.page
            names += [one.entry.key for one in page.entries]
        assert len(names) == len(set(names)) == 1_203
        stale = await client.ask("ReadJournal", **lease_of(got, token="f" * 32))
        assert (stale.lease.status, list(stale.page.entries)) == (LOST, [])
        refused = await refusal(client.ask("ReadJournal", **lease_of(got), page_token="nonsense"))
        assert refused.fields == ["page_token"]

    found, token = 0, ""
    while True:
        part = await client.ask(
            "ListJournal",
            run_id=run.spec.run_id,
            page_size=500,
            page_token=token,
            view=types_pb2.VIEW_FULL,
        )
        found += len(part.entries)
        token = part.next_page_token
        if not token:
            break
    assert found == 1_203


async def test_M1_large_failures_of_tries_are_cut_so_that_a_page_fits(client: Client) -> None:
    await client.start_tasks("a", queue="q")
    failure = types_pb2.Failure(kind="Boom", message="m" * 60_000, details="d" * 60_000)
    tried = partial(entry, value=None, mark=TRY, failure=failure, attempt=1)
    async with client.worker(queues=["q"]) as worker:
        got = await worker.assignment()
        for number in range(1, 41):
            assert statuses(await write(client, got, tried("k", number=number))) == [KEPT]
        await write(client, got, entry("large", bytes(MIB)))
        got = await again(worker, got)
        assert got.ByteSize() < limits.SEND_BYTES_MAX
        page, found = got.journal, len(got.journal.entries)
        assert all(len(one.entry.failure.message) < 2_048 for one in page.entries)
        while page.next_page_token:
            page = (
                await client.ask("ReadJournal", **lease_of(got), page_token=page.next_page_token)
            ).page
            found += len(page.entries)
    assert found == 41


async def forget(
    client: Client, got: wpb.Assignment, *calls: str, number: int = 1
) -> wpb.JournalAck:
    return await write(client, got, forget=calls, forget_number=number)


async def test_forgotten_call_is_gone_and_one_that_has_begun_stays(client: Client) -> None:
    await client.start_tasks("a", queue="q")
    async with client.worker(queues=["q"]) as worker:
        got = await worker.assignment()
        await write(client, got, entry("k"), entry("l"), begin("pay"))
        refused = await forget(client, got, "l", "pay")
        dropped = await forget(client, got, "k", "none", "k")
        assert (dropped.lease.status, statuses(dropped)) == (LIVE, [])
        assert not dropped.HasField("failure")
        anew = await write(client, got, entry("k", b'"new"'), forget_number=1)
        assert statuses(anew) == [KEPT]
        got = await again(worker, got)
    assert (refused.lease.status, refused.failure.kind) == (LIVE, "CALL_BEGUN")
    assert {(one.entry.key, one.entry.value.data) for one in got.journal.entries} == {
        ("pay", b""),
        ("l", b'"v"'),
        ("k", b'"new"'),
    }


@pytest.mark.parametrize(
    ("calls", "number", "field"),
    [(["k"] * 101, 1, "forget"), (["k"], 0, "forget_number"), (["k"], -1, "forget_number")],
    ids=["too-many", "unnumbered", "negative"],
)
async def test_forget_that_breaks_a_limit_is_refused_in_its_answer(
    client: Client, calls: list[str], number: int, field: str
) -> None:
    run = await client.start_tasks("a", queue="q")
    async with client.worker(queues=["q"]) as worker:
        got = await worker.assignment()
        await write(client, got, entry("k"))
        refused = await forget(client, got, *calls, number=number)
    assert (refused.lease.status, statuses(refused)) == (LIVE, [])
    assert (refused.failure.kind, refused.failure.retryable) == ("INVALID_ENTRY", False)
    assert {one.field for one in refused.failure.violations} == {field}
    assert len(await listed(client, run.spec.run_id)) == 1


async def test_recording_that_drops_calls_and_has_entries_changes_nothing(client: Client) -> None:
    run = await client.start_tasks("a", queue="q")
    async with client.worker(queues=["q"]) as worker:
        got = await worker.assignment()
        await write(client, got, entry("k"))
        both = await write(
            client, got, entry("k", b'"new"'), entry("l"), forget=["k"], forget_number=1
        )
    assert statuses(both) == [REJECTED, REJECTED]
    (fault,) = both.entries[0].failure.violations
    assert (fault.field, "one of the two" in fault.description) == ("forget", True)
    (kept,) = await listed(client, run.spec.run_id, view=types_pb2.VIEW_FULL)
    assert (kept.entry.key, kept.entry.value.data) == ("k", b'"v"')


@pytest.mark.parametrize("later", [False, True])
async def test_messages_of_a_forgotten_call_go_unless_the_conversation_has_them(
    client: Client, later: bool
) -> None:
    run = await client.start_tasks("a", queue="q")
    used = types_pb2.Usage(input_tokens=7)
    said = partial(types_pb2.Message, role="assistant")
    async with client.worker(queues=["q"]) as worker:
        got = await worker.assignment()
        await write(client, got, entry("k", usage=used, messages=[said(content="of k")]))
        await write(client, got, entry("l", messages=[said(content="of l")]))
        if later:
            got = await again(worker, got)
        await forget(client, got, "k")
        await worker.complete(got)
    run = await client.wait(run.spec.run_id)
    messages = (await client.ask("ListMessages", run_id=run.spec.run_id)).messages
    assert run.usage.input_tokens == 7
    assert [one.content for one in messages] == (["of k", "of l"] if later else ["of l"])
