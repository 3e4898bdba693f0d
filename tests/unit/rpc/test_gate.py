"""The gate's own tasks: none of them is left with an error that nobody has looked at."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncGenerator, Coroutine, Mapping
from typing import Any, NamedTuple

import grpc
import pytest

from stepwell.core.port import Principal
from stepwell.core.records.errors import PermissionDenied
from stepwell.rpc import scopes
from stepwell.rpc.admission import Admission, GateLimits
from stepwell.rpc.gate import Gate
from stepwell.rpc.metrics import RpcMetrics
from stepwell.rpc.writing import StreamWriter
from stepwell.runtime import SystemRuntime
from stepwell_client.v1 import orchestrator_pb2 as opb

METHOD = "/stepwell.v1.Orchestrator/WatchRuns"


class Anybody:
    """Lets everybody in, with every scope."""

    def __init__(self, tenant: str = "tenant") -> None:
        self.tenant = tenant

    def authenticate(self, metadata: Mapping[str, str]) -> Principal:
        return Principal("test", self.tenant, frozenset(scopes.SCOPES.values()))


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


class Reader:
    """A call whose client reads everything at once."""

    def __init__(self) -> None:
        self.read = 0

    async def write(self, _message: Any) -> None:
        await asyncio.sleep(0)
        self.read += 1


async def _answers(_request: Any, _context: Any) -> AsyncGenerator[Any]:
    yield opb.WatchRunsResponse()


async def test_R1_write_failing_during_cancel_leaves_no_unread_error() -> None:
    errors: list[str] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, said: errors.append(f"{said['message']}: {said}"))
    gate = Gate(Anybody(), SystemRuntime(), RpcMetrics(), GateLimits())

    async def handler_of(_details: Any) -> Any:
        read: Any = opb.WatchRunsRequest.FromString
        return grpc.unary_stream_rpc_method_handler(_answers, read)

    details: Any = Details(METHOD)
    handler: Any = await gate.intercept_service(handler_of, details)
    torn = Torn()
    call = torn.call = asyncio.ensure_future(handler.unary_stream(b"", torn))
    with pytest.raises(asyncio.CancelledError):
        await call

    # Its done callbacks hold the task; once they have run and it is collected, asyncio complains.
    await asyncio.sleep(0)
    gc.collect()
    assert errors == []


async def test_stream_of_many_messages_costs_one_task(monkeypatch: pytest.MonkeyPatch) -> None:
    spawned: list[str] = []
    spawn = SystemRuntime.spawn

    def counted(self: SystemRuntime, work: Coroutine[Any, Any, Any], *, name: str) -> Any:
        spawned.append(name)
        return spawn(self, work, name=name)

    async def many() -> AsyncGenerator[Any]:
        for _ in range(100):
            yield opb.WatchRunsResponse()

    monkeypatch.setattr(SystemRuntime, "spawn", counted)
    reader: Any = Reader()
    await StreamWriter(SystemRuntime(), stall_ms=60_000).write(many(), reader)
    assert reader.read == 100
    assert spawned == ["watchdog"]
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize("tenant", ["acme/threads", "acme/schedules"])
def test_a_caller_of_a_tenant_of_the_service_itself_is_refused(
    tenant: str,
) -> None:
    admission = Admission(RpcMetrics(), GateLimits())
    admission.admit(METHOD, (), Anybody("acme"))
    with pytest.raises(PermissionDenied, match=tenant):
        admission.admit(METHOD, (), Anybody(tenant))
