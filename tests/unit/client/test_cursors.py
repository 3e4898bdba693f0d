"""The position of a watch within a message: it passes its items with the last of them."""

from __future__ import annotations

from stepwell_client import EventType
from stepwell_client.calls.async_caller import AsyncCaller
from stepwell_client.calls.cursors import LogCursor, RunCursor, RunsCursor
from stepwell_client.link.connect import Connection
from stepwell_client.link.outages import Retries
from stepwell_client.v1 import orchestrator_pb2 as pb
from stepwell_client.v1 import types_pb2


def retries() -> Retries:
    return AsyncCaller(Connection("127.0.0.1:1", token="t"), None, reconnect_seconds=None).retries


def test_a_reader_that_stops_within_a_message_loses_none_of_its_updates() -> None:
    cursor = RunsCursor(retries(), "before", {})
    updates = [pb.RunUpdate(run_id=one) for one in "ab"]
    message = pb.WatchRunsResponse(updates=pb.RunUpdateBatch(updates=updates, resume_token="after"))

    taken = iter(cursor.accept(message))
    assert (next(taken).run_id, cursor.position) == ("a", "before")
    assert (next(taken).run_id, cursor.position) == ("b", "after")


def test_a_reader_that_stops_within_a_message_loses_none_of_its_log_entries() -> None:
    cursor = LogCursor(retries(), "run", "before", {}, follow=True)
    entries = [types_pb2.LogEntry(text=one) for one in "ab"]
    message = pb.WatchLogsResponse(entries=pb.LogBatch(entries=entries, resume_token="after"))

    taken = iter(cursor.accept(message))
    assert (next(taken).text, cursor.position) == ("a", "before")
    assert (next(taken).text, cursor.position) == ("b", "after")


def test_a_reader_that_stops_within_a_message_loses_none_of_its_events() -> None:
    cursor = RunCursor(retries(), "run", 4, {"types": [EventType.TASK_COMPLETED]})
    events = [types_pb2.Event(number=number) for number in (4, 6, 7)]
    message = pb.WatchRunResponse(events=pb.EventBatch(events=events, resume_token="9"))

    taken = iter(cursor.accept(message))
    assert (next(taken).number, cursor.position) == (6, 6)
    assert (next(taken).number, cursor.position) == (7, 9)
    assert not [*cursor.accept(message)]
