"""Reads large results, which come by reference where a response lists them."""

from __future__ import annotations

from collections.abc import Sequence

from stepwell_client.calls.base import Caller
from stepwell_client.errors import ServerError
from stepwell_client.records.payloads import Payload
from stepwell_client.records.reading import read
from stepwell_client.v1 import orchestrator_pb2 as pb

FETCH_IDS_MAX = 4
"""Results by reference that are asked for together: the most that surely fit into one message."""


async def read_payloads(
    caller: Caller, run_id: str, execution_ids: Sequence[str]
) -> dict[str, Payload]:
    """Return the bytes of results by execution id, whatever their total size.

    Raises:
        ServerError: the server sends a result neither with others nor by itself.
    """
    payloads: dict[str, Payload] = {}
    starts = range(0, len(execution_ids), FETCH_IDS_MAX)
    groups = [list(execution_ids[n : n + FETCH_IDS_MAX]) for n in starts]
    while groups:
        ids = groups.pop()
        request = pb.ListResultsRequest(run_id=run_id, execution_ids=ids)
        page: pb.ListResultsResponse = await caller.call("ListResults", request)
        absent = [item.execution_id for item in page.results if item.by_reference]
        if absent and len(ids) == 1:
            raise ServerError(f"the result of execution {ids[0]} doesn't come by itself either")
        groups += [[execution_id] for execution_id in absent]
        for item in page.results:
            if item.HasField("payload"):
                payloads[item.execution_id] = read(item.payload, Payload)
    return payloads
