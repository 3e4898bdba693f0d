"""Requests with text that is no UTF-8: the field is named, and the items beside it are read."""

from __future__ import annotations

from typing import TypeVar

import pytest
from google.protobuf.message import Message

from stepwell.core.records.errors import InvalidArgument
from stepwell.core.records.limits import VIOLATIONS_MAX
from stepwell.wire.undecodable import read_rest
from stepwell_client.v1 import types_pb2
from stepwell_client.v1 import worker_pb2 as pb
from stepwell_client.v1.orchestrator_pb2 import StartRunRequest

HALF_A_PAIR = b"\xed\xa0\xbd"
LEASE = {"run_id": "r", "execution_id": "e", "token": "t"}

Item = TypeVar("Item", pb.Outcome, pb.Begin)


def leased(item: Item, **ids: str) -> Item:
    """Return the item with the ids of a lease."""
    item.delivery_id = "d"
    for name, value in (LEASE | ids).items():
        setattr(item.lease, name, value)
    return item


def raw_of(message: Message) -> bytes:
    """Return the message's bytes with half of a surrogate pair in the place of each question mark."""
    # The same length, so that the lengths around it stay.
    return message.SerializeToString().replace(b"???", HALF_A_PAIR)


def test_other_items_of_an_undecodable_one_s_message_are_read() -> None:
    good = leased(pb.Outcome(usage=types_pb2.Usage(input_tokens=1)))
    spoken = types_pb2.Message(role="user", content="???")
    bad = leased(pb.Outcome(messages=[types_pb2.Message(role="user"), spoken], prompt="???"))
    begin = leased(pb.Begin())

    read = read_rest(
        pb.WorkRequest, raw_of(pb.WorkRequest(credits=3, outcomes=[bad, good], begins=[begin]))
    )

    assert (read.credits, read.outcomes[1], list(read.begins)) == (3, good, [begin])
    assert (read.outcomes[0].delivery_id, read.outcomes[0].lease) == ("d", good.lease)
    failure = read.outcomes[0].failed.failure
    assert failure.kind == "INVALID_OUTCOME"
    assert [one.field for one in failure.violations] == ["prompt", "messages[1].content"]


def test_undecodable_id_is_left_out_of_its_item() -> None:
    request = pb.WorkRequest(
        outcomes=[leased(pb.Outcome(), run_id="???")],
        begins=[leased(pb.Begin(), token="???")],
    )

    read = read_rest(pb.WorkRequest, raw_of(request))

    assert (read.outcomes[0].lease.run_id, read.outcomes[0].lease.execution_id) == ("", "e")
    assert (read.begins[0].lease.token, read.begins[0].lease.run_id) == ("", "r")


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (pb.WorkRequest(hello=pb.Hello(queues=["a", "???"])), "hello.queues[1]"),
        (
            pb.AppendOutputRequest(appended=[pb.Appended(lease=pb.Lease(run_id="???"))]),
            "appended[0].lease.run_id",
        ),
        (StartRunRequest(labels={"a": "???"}), "labels[0].value"),
        (StartRunRequest(labels={"???": "b"}), "labels[0].key"),
    ],
    ids=["hello", "no item by itself", "a map's value", "a map's key"],
)
def test_undecodable_text_outside_of_items_is_refused(request_: Message, field: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        read_rest(type(request_), raw_of(request_))

    assert [one.field for one in caught.value.violations] == [field]


def test_search_for_undecodable_text_has_an_end() -> None:
    many = [pb.Appended(lease=pb.Lease(run_id="a"))] * 30_000
    request = pb.AppendOutputRequest(appended=[*many, pb.Appended(lease=pb.Lease(run_id="???"))])

    with pytest.raises(
        InvalidArgument, match=r"appended\[16666\].lease.run_id: no UTF-8, here or behind it"
    ):
        read_rest(type(request), raw_of(request))


def test_undecodable_fields_are_not_all_listed() -> None:
    bad = leased(pb.Outcome(messages=[types_pb2.Message(content="???")] * 500))

    read = read_rest(pb.WorkRequest, raw_of(pb.WorkRequest(outcomes=[bad])))

    assert len(read.outcomes[0].failed.failure.violations) == VIOLATIONS_MAX
