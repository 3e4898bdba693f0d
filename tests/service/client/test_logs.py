"""Reading logs and messages over servers that come and go."""

from __future__ import annotations

import grpc
import pytest

from stepwell_client import Client, LogKind, RunPurged
from stepwell_client.v1 import orchestrator_pb2, types_pb2
from tests.service.client.fakes import End, FakeServer
from tests.support.steps import RUN_ID

FINISHED = orchestrator_pb2.WATCH_END_REASON_FINISHED
DRAINING = orchestrator_pb2.WATCH_END_REASON_DRAINING
PURGED = orchestrator_pb2.WATCH_END_REASON_PURGED


def batch(cursor: str, *texts: str) -> orchestrator_pb2.ReadLogsResponse:
    entries = [types_pb2.LogEntry(execution_id="e1", text=text) for text in texts]
    found = orchestrator_pb2.LogBatch(entries=entries, cursor=cursor)
    return orchestrator_pb2.ReadLogsResponse(entries=found)


def at(cursor: str) -> orchestrator_pb2.ReadLogsResponse:
    return orchestrator_pb2.ReadLogsResponse(progress=orchestrator_pb2.LogProgress(cursor=cursor))


def end(
    reason: orchestrator_pb2.WatchEndReason, cursor: str = ""
) -> orchestrator_pb2.ReadLogsResponse:
    return orchestrator_pb2.ReadLogsResponse(
        end=orchestrator_pb2.LogEnd(reason=reason, cursor=cursor)
    )


SCRIPTS = [
    [batch("1", "one"), End()],
    [batch("2", "two"), at("3"), End(grpc.StatusCode.UNAVAILABLE)],
    [batch("4", "three"), end(DRAINING, "4")],
    [end(FINISHED, "5")],
]


async def test_a_log_over_lost_streams_goes_on_from_its_cursor(
    server: FakeServer, client: Client
) -> None:
    server.runs.watches.extend(SCRIPTS)
    log = client.logs(RUN_ID, follow=True, task_id="t", kinds=[LogKind.LINE])
    found = [entry.text async for entry in log]
    assert found == ["one", "two", "three"]
    assert [request.cursor for request in server.runs.requests] == ["", "1", "3", "4"]
    assert {request.follow for request in server.runs.requests} == {True}
    assert {tuple(request.kinds) for request in server.runs.requests} == {(1,)}
    assert log.cursor.cursor == "5"


async def test_the_log_of_a_run_that_was_deleted_raises(server: FakeServer, client: Client) -> None:
    server.runs.watches.append([batch("1", "one"), end(PURGED)])
    with pytest.raises(RunPurged):
        [entry async for entry in client.logs(RUN_ID, follow=True)]


async def test_messages_are_read_page_by_page(server: FakeServer, client: Client) -> None:
    def answer(
        request: orchestrator_pb2.GetMessagesRequest,
    ) -> orchestrator_pb2.GetMessagesResponse:
        message = types_pb2.Message(content=request.page_token or "first")
        following = {"": "second", "second": ""}[request.page_token]
        return orchestrator_pb2.GetMessagesResponse(messages=[message], next_page_token=following)

    server.runs.answers["GetMessagesRequest"] = answer
    found = [one.content async for one in client.messages(RUN_ID, task_id="t")]
    assert found == ["first", "second"]
    assert {request.task_id for request in server.runs.requests} == {"t"}
