"""Append over the wire: fenced by the lease, kept once, bounded; and reading what it kept."""

from __future__ import annotations

from typing import Any

from stepwell_client.v1 import orchestrator_pb2 as opb
from stepwell_client.v1 import types_pb2
from stepwell_client.v1 import worker_pb2 as wpb
from tests.service.conftest import ME, Client, lease_of

LIVE, LOST = wpb.LEASE_STATUS_LIVE, wpb.LEASE_STATUS_LOST


def appended(got: wpb.Assignment, *texts: str, **fields: object) -> wpb.Appended:
    logs = [wpb.LogLine(text=text) for text in texts]
    return wpb.Appended(**lease_of(got), logs=logs, **fields)  # pyright: ignore[reportArgumentType] - a test's shorthand


def said(*texts: str) -> list[types_pb2.Message]:
    return [types_pb2.Message(role="user", content=text) for text in texts]


async def append(client: Client, *items: wpb.Appended, metadata: Any = ME) -> list[int]:
    response = await client.ask("AppendOutput", appended=items, metadata=metadata)
    return [state.status for state in response.leases]


async def lines(client: Client, run_id: str, **fields: Any) -> list[types_pb2.LogEntry]:
    found: list[types_pb2.LogEntry] = []
    async for message in client.ask("WatchLogs", run_id=run_id, **fields):
        found += message.entries.entries
        if message.HasField("end"):
            assert message.end.reason == opb.WATCH_END_REASON_FINISHED
    return found


async def messages(client: Client, run_id: str, **fields: Any) -> opb.ListMessagesResponse:
    return await client.ask("ListMessages", run_id=run_id, **fields)


async def test_entries_are_kept_in_order_with_the_time_they_were_written(client: Client) -> None:
    await client.start_tasks("a", queue="q")
    async with client.worker(queues=["q"]) as worker:
        got = await worker.assignment()
        item = appended(got, "one", "two")
        item.logs[0].age.FromMilliseconds(5_000)
        item.logs[1].level, item.logs[1].kind = "WARNING", types_pb2.LOG_KIND_CHUNK
        assert await append(client, item) == [LIVE]
        one, two = await lines(client, got.run.run_id)
        assert (one.text, one.level, one.kind) == ("one", "INFO", types_pb2.LOG_KIND_LINE)
        assert (two.text, two.level, two.kind) == ("two", "WARNING", types_pb2.LOG_KIND_CHUNK)
        age = two.written_time.ToMilliseconds() - one.written_time.ToMilliseconds()
        assert 4_900 <= age <= 5_100
        only = await lines(client, got.run.run_id, kinds=[types_pb2.LOG_KIND_CHUNK])
        assert [entry.text for entry in only] == ["two"]
        await worker.complete(got)


async def test_messages_that_come_twice_are_kept_once(client: Client) -> None:
    await client.start_tasks("a", queue="q")
    async with client.worker(queues=["q"]) as worker:
        got = await worker.assignment()
        for _ in range(2):
            item = appended(got, messages=said("one", "two"))
            assert await append(client, item) == [LIVE]
        more = appended(got, messages=said("two", "three"), after=1)
        assert await append(client, more) == [LIVE]
        run_id = got.run.run_id
        page = await messages(client, run_id, task_id="a", page_size=2)
        assert [(one.number, one.content) for one in page.messages] == [(1, "one"), (2, "two")]
        rest = await messages(
            client, run_id, task_id="a", page_size=2, page_token=page.next_page_token
        )
        assert [(one.number, one.content) for one in rest.messages] == [(3, "three")]
        assert not rest.next_page_token
        assert not (await messages(client, run_id, task_id="b")).messages
        await worker.complete(got)


async def test_reader_without_follow_gets_the_end_of_the_log(
    client: Client,
) -> None:
    await client.start_tasks("a", queue="q")
    async with client.worker(queues=["q"]) as worker:
        got = await worker.assignment()
        await append(client, appended(got, *[str(number) for number in range(700)]))
        found = await lines(client, got.run.run_id)
        assert [entry.text for entry in found] == [str(number) for number in range(700)]
        await worker.complete(got)


async def test_a_follower_of_one_execution_ends_with_it(client: Client) -> None:
    await client.start_tasks("a", "b", queue="q")
    async with client.worker(queues=["q"]) as worker:
        got = await worker.assignment()
        await append(client, appended(got, "one"))
        request = opb.WatchLogsRequest(
            run_id=got.run.run_id, execution_id=got.execution.execution_id, follow=True
        )
        call: Any = client.runs.WatchLogs(request, metadata=ME)
        first = await call.read()
        assert [entry.text for entry in first.entries.entries] == ["one"]
        await worker.complete(got)
        last = first
        while not last.HasField("end"):
            last = await call.read()
        assert last.end.reason == opb.WATCH_END_REASON_FINISHED
        assert (await client.get(got.run.run_id)).status == types_pb2.RUN_STATUS_RUNNING
