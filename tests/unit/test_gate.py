"""Calls that end while the gate writes: no error of theirs is left unread, and none is logged."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncGenerator, Mapping
from typing import Any, NamedTuple

import grpc
import grpc.aio
import pytest

from stepwell.core.port import Principal
from stepwell.rpc import scopes
from stepwell.rpc.gate import Gate, GateLimits
from stepwell.rpc.metrics import RpcMetrics
from stepwell.runtime import SystemRuntime
from stepwell_client.v1 import orchestrator_pb2 as opb
from tests.support.logs import capture_logs

METHOD = "/stepwell.v1.Orchestrator/WatchRuns"


class Anybody:
    """Lets everybody in, with every scope."""

    def authenticate(self, metadata: Mapping[str, str]) -> Principal:
        return Principal("test", "tenant", frozenset(scopes.SCOPES.values()))


class Details(NamedTuple):
    method: str
    invocation_metadata: tuple[tuple[str, str], ...] = ()


class Torn:
    """A call whose client goes while a message is on its way: it is cancelled, and the write fails."""

    def __init__(self) -> None:
        self.call: asyncio.Task[None] | None = None

    async def write(self, _message: Any) -> None:
        # In this order and without a pause: who waits for the write wakes up to find it done.
        assert self.call is not None
        self.call.cancel()
        raise ConnectionError("the write failed")

    def cancelled(self) -> bool:
        return True


async def _answers(_request: Any, _context: Any) -> AsyncGenerator[Any]:
    yield opb.WatchRunsResponse()


async def behind_gate(method: Any) -> Any:
    """Return a method as a gate hands it to gRPC."""
    gate = Gate(Anybody(), SystemRuntime(), RpcMetrics(), GateLimits())

    async def handler_of(_details: Any) -> Any:
        return method

    details: Any = Details(METHOD)
    return await gate.intercept_service(handler_of, details)


async def test_R1_write_failing_during_cancel_leaves_no_unread_error() -> None:
    errors: list[str] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, said: errors.append(f"{said['message']}: {said}"))
    read: Any = opb.WatchRunsRequest.FromString
    handler = await behind_gate(grpc.unary_stream_rpc_method_handler(_answers, read))
    torn = Torn()
    call = torn.call = asyncio.ensure_future(handler.unary_stream(b"", torn))
    with pytest.raises(asyncio.CancelledError):
        await call

    # Its done callbacks hold the task; once they have run and it is collected, asyncio complains.
    await asyncio.sleep(0)
    gc.collect()
    assert errors == []


class Over:
    """A call that has just ended: nothing can be sent on it, and its context doesn't know that yet."""

    async def send_initial_metadata(self, _metadata: Any) -> None:
        raise grpc.aio.InternalError('Failed "ExecuteBatch": (SendInitialMetadataOperation)')

    async def write(self, _message: Any) -> None:
        raise grpc.aio.InternalError('Failed "ExecuteBatch": (SendMessageOperation)')

    def done(self) -> bool:
        return False

    def cancelled(self) -> bool:
        return False


async def _opens(_request: Any, context: Any) -> AsyncGenerator[Any]:
    await context.send_initial_metadata(())
    yield opb.WatchRunsResponse()


async def _answers_once(_request: Any, context: Any) -> Any:
    await context.send_initial_metadata(())


@pytest.mark.parametrize("inner", [_answers, _opens, _answers_once])
async def test_call_that_has_ended_before_it_is_written_to_is_no_error(inner: Any) -> None:
    is_stream = inner is not _answers_once
    kind = "unary_stream" if is_stream else "unary_unary"
    make = getattr(grpc, f"{kind}_rpc_method_handler")
    handler = await behind_gate(make(inner, opb.WatchRunsRequest.FromString))
    with capture_logs() as logs, pytest.raises(asyncio.CancelledError):
        await getattr(handler, kind)(b"", Over())
    assert logs == []
