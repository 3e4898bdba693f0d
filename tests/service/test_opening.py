"""Waits that a worker opens while its step runs, over the protocol: on memory and on SQLite."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from stepwell_client.v1 import types_pb2
from stepwell_client.v1 import worker_pb2 as wpb
from tests.service.conftest import Client, World, outcome
from tests.service.test_journal import LIVE, journal_write, keys, write

Call = wpb.Outcome.SuspendedCall
NOW = wpb.Outcome.NeedsAnswer(prompt="now?")


@pytest.fixture(params=["memory", "sqlite"])
async def client(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Client]:
    url = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/stepwell.db"
    async with AsyncExitStack() as stack:
        world = World(stack, tmp_path, url)
        yield await world.client(await world.server())


def note(call: str = "s", **fields: Any) -> Call:
    return Call(call=call, signal=wpb.Outcome.AwaitSignal(name="note", **fields), arguments="d")


async def test_answer_comes_over_the_stream_to_the_step_that_asked(client: Client) -> None:
    run = await client.start_tasks("a", queue="q")
    async with client.worker(queues=["q"]) as worker:
        got = await worker.assignment()
        sent = journal_write(
            got, open=[Call(call="k", ask=NOW, arguments="d")], open_number=1, delivery_id="r"
        )
        await worker.call.write(wpb.WorkRequest(journal_writes=[sent]))
        ack = await worker.recorded()
        assert (ack.delivery_id, ack.lease.status, ack.HasField("failure")) == ("r", LIVE, False)
        listed = await client.ask("ListQuestions", run_id=run.spec.run_id)
        (asked,) = listed.questions
        await client.ask(
            "AnswerQuestion",
            run_id=run.spec.run_id,
            question_id=asked.question.question_id,
            answer=types_pb2.Payload(data=b"true", media_type="application/json"),
        )
        ended = await worker.ended_call()
        assert ended.lease.execution_id == got.execution.execution_id
        assert not ended.lease.token
        assert (ended.entry.key, ended.entry.value.data) == ("k", b"true")
        again = wpb.Outcome.Released(reason="try elsewhere")
        await worker.send(outcome(got, released=again), grant=1)
        assert keys(await worker.assignment()) == ["k"]


async def test_signal_that_does_not_come_ends_the_call_of_a_running_step(client: Client) -> None:
    run = await client.start_tasks("a", queue="q")
    async with client.worker(queues=["q"]) as worker:
        got = await worker.assignment()
        wait = note()
        wait.signal.expires.FromMilliseconds(20)
        await write(client, got, open=[wait], open_number=1)
        assert (await worker.ended_call()).entry.failure.kind == "TIMEOUT"
    assert not (await client.ask("ListQuestions", run_id=run.spec.run_id)).questions


async def test_ends_are_named_by_one_commit_without_another_call(client: Client) -> None:
    run = await client.start_tasks("a", queue="q")
    async with client.worker(queues=["q"]) as worker:
        got = await worker.assignment()
        await write(client, got, open=[note()], open_number=1)
        before = (await client.ask("GetRun", run_id=run.spec.run_id)).run.version
        for _ in range(2):
            ack = await write(client, got, known=["s"], open_number=2)
            assert (ack.lease.status, ack.HasField("failure")) == (LIVE, False)
        assert (await client.ask("GetRun", run_id=run.spec.run_id)).run.version == before + 1


async def test_no_person_sees_or_answers_what_a_call_waits_for(client: Client) -> None:
    run = await client.start_tasks("a", queue="q")
    async with client.worker(queues=["q"]) as worker:
        got = await worker.assignment()
        await worker.send(outcome(got, suspended=wpb.Outcome.Suspended(waits=[note()])))
        await worker.ack()
    found = await client.ask("GetRun", run_id=run.spec.run_id)
    assert found.run.blocked_on == types_pb2.BLOCKED_KIND_SIGNAL
    for run_id in (run.spec.run_id, ""):
        assert not (await client.ask("ListQuestions", run_id=run_id)).questions


def asking(kind: int) -> Call:
    call = Call(call="k", ask=wpb.Outcome.NeedsAnswer(prompt="?"))
    call.ask.MergeFromString(bytes([8, kind]))
    return call


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"open": [note()]}, "open_number"),
        ({"open": [Call(call="k")], "open_number": 1}, "open[0]"),
        ({"open": [Call(call="k", budget={})], "open_number": 1}, "open[0]"),
        ({"open": [asking(5)], "open_number": 1}, "kind"),
        ({"open": [asking(99)], "open_number": 1}, "kind"),
        ({"open": [note()], "open_number": 1, "forget": ["l"], "forget_number": 1}, "open"),
        ({"open": [note()] * 101, "open_number": 1}, "open"),
    ],
)
async def test_opening_that_breaks_a_limit_is_refused_by_its_field(
    client: Client, fields: dict[str, Any], field: str
) -> None:
    await client.start_tasks("a", queue="q")
    async with client.worker(queues=["q"]) as worker:
        got = await worker.assignment()
        ack = await write(client, got, **fields)
    assert ack.lease.status == LIVE
    assert field in ack.failure.message
    assert ack.failure.kind == "INVALID_ENTRY"


async def test_question_of_a_kind_that_no_person_answers_fails_its_attempt(client: Client) -> None:
    await client.start_tasks("a", queue="q")
    async with client.worker(queues=["q"]) as worker:
        got = await worker.assignment()
        waits = [asking(5)]
        ack = await worker.report(outcome(got, suspended=wpb.Outcome.Suspended(waits=waits)))
    assert ack.status == wpb.ACK_STATUS_REJECTED
    assert ack.failure.kind == "INVALID_OUTCOME"
