"""The look that is taken at each test's events goes red where a stream is broken, and only there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from stepwell_client.v1 import orchestrator_pb2 as pb
from stepwell_client.v1 import types_pb2
from tests.support import watched
from tests.support.watched import Log, Stream


@pytest.fixture
def log() -> Iterator[Log]:
    """A log that the test itself looks at; what was wrong in it is no fault of the test's."""
    yield watched.begin()
    watched.begin()


def events(*numbers: int, version: int = 0, ends: bool = False) -> pb.WatchRunResponse:
    """A message with these events, each of a version of its own unless one is given."""
    found = [types_pb2.Event(number=n, version=version or n) for n in numbers]
    if ends:
        found[-1].type = types_pb2.EVENT_TYPE_RUN_SUCCEEDED
    return pb.WatchRunResponse(events=pb.EventBatch(events=found, resume_token=str(numbers[-1])))


def progress(after: int) -> pb.WatchRunResponse:
    return pb.WatchRunResponse(progress=pb.WatchProgress(resume_token=str(after)))


def finished(last_event: int) -> pb.WatchRunResponse:
    run = types_pb2.Run(last_event=last_event)
    return pb.WatchRunResponse(end=pb.WatchEnd(reason=pb.WATCH_END_REASON_FINISHED, run=run))


def read(after: int, *messages: pb.WatchRunResponse, task_ids: tuple[str, ...] = ()) -> None:
    stream = Stream(
        pb.WatchRunRequest(run_id="r", resume_token=str(after), task_ids=task_ids), "me"
    )
    for message in messages:
        stream.take(message)


@pytest.mark.parametrize(
    ("name", "after", "messages"),
    [
        ("E3", 0, [events(2)]),
        ("E3", 4, [events(6)]),
        ("E3", 0, [events(1), events(3)]),
        ("E1", 0, [events(1), events(1)]),
        ("E1", 4, [events(4)]),
        ("E1", 0, [events(1, version=2), events(2, version=1)]),
        ("E1", 0, [finished(0), events(1)]),
        ("E7", 0, [events(1), progress(2)]),
        ("E7", 4, [progress(3)]),
        ("E8", 0, [events(1, version=1), events(2, version=1)]),
        ("S15", 0, [events(1, ends=True), events(2)]),
        ("S15", 0, [events(1), finished(2)]),
    ],
)
def test_broken_stream_is_named_by_its_invariant(
    log: Log, name: str, after: int, messages: list[pb.WatchRunResponse]
) -> None:
    read(after, *messages)

    assert name in {wrong.partition(":")[0] for wrong in log.wrong}


def test_E2_event_that_differs_between_watchers_is_reported(log: Log) -> None:
    read(0, events(1, version=1))
    read(0, events(1, version=2))

    assert [wrong.partition(":")[0] for wrong in log.wrong] == ["E2"]


def test_S15_event_after_the_end_is_reported_by_a_client(log: Log) -> None:
    story = watched.Story("r", 0, complete=True)
    for event in events(1, 2, ends=True).events.events:
        story.take(event)
    story.take(types_pb2.Event(number=3, version=3))

    assert log.wrong == ["S15: r: 3 came after its end"]
