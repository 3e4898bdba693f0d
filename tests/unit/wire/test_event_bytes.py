"""Events that were encoded one by one make the same message as all at once."""

from __future__ import annotations

import pytest

from stepwell.core.records.events import Event
from stepwell.core.records.states import EventType
from stepwell.wire.event_bytes import batch_bytes, event_bytes
from stepwell.wire.records import to_message
from stepwell_client.v1 import orchestrator_pb2 as pb


@pytest.mark.parametrize("size", [0, 1, 100, 127, 128, 20_000])
@pytest.mark.parametrize("after", [1, 127, 128, 2**40])
def test_batch_of_encoded_events_is_the_message_that_protobuf_makes(size: int, after: int) -> None:
    events = [
        Event(number=number, version=7, type=EventType.RUN_PAUSED, message="x" * size)
        for number in (1, 2, 300)
    ]
    whole = pb.WatchRunResponse(
        events=pb.EventBatch(events=map(to_message, events), resume_token=str(after))
    )

    assert batch_bytes(map(event_bytes, events), after) == whole.SerializeToString()
