"""Refusals of clients that have gone: nobody reads them, and they are no errors."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any, NamedTuple

import grpc
import grpc.aio
import pytest

from stepwell.core.records.errors import InvalidArgument
from stepwell.rpc.admission import GateLimits
from stepwell.rpc.gate import Gate
from stepwell.rpc.metrics import RpcMetrics
from stepwell.runtime import SystemRuntime
from stepwell_client.v1 import orchestrator_pb2 as opb
from tests.service.leaks.bench import Anybody


class Details(NamedTuple):
    method: str
    invocation_metadata: tuple[tuple[str, str], ...] = ()


class Gone:
    """A call whose client has gone when its refusal is sent."""

    def __init__(self) -> None:
        self.refused = 0

    async def abort(self, *_answer: object) -> None:
        self.refused += 1
        raise grpc.aio.InternalError('Failed "execute_batch"')


async def _refuse_many(_request: Any, _context: Any) -> AsyncGenerator[Any]:
    raise InvalidArgument("no such thing")
    yield


async def _refuse_one(_request: Any, _context: Any) -> Any:
    raise InvalidArgument("no such thing")


HANDLERS: dict[str, Any] = {
    "WatchRuns": grpc.unary_stream_rpc_method_handler(
        _refuse_many, opb.WatchRunsRequest.FromString
    ),
    "GetRun": grpc.unary_unary_rpc_method_handler(_refuse_one, opb.GetRunRequest.FromString),
}


@pytest.mark.parametrize("name", HANDLERS)
async def test_R1_refusal_of_a_client_that_has_gone_raises_nothing(name: str) -> None:
    """grpc.aio would log a traceback for each: anybody could fill the log."""
    gate = Gate(Anybody(), SystemRuntime(), RpcMetrics(), GateLimits())

    async def handler_of(_details: Any) -> Any:
        return HANDLERS[name]

    details: Any = Details(f"/stepwell.v1.Orchestrator/{name}")
    handler: Any = await gate.intercept_service(handler_of, details)
    gone = Gone()
    await (handler.unary_stream or handler.unary_unary)(b"", gone)
    assert gone.refused == 1
