"""Handlers behind the real gate, called without a network, so that a test holds each of their awaits in its hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import grpc
import grpc.aio
from google.protobuf.message import Message

from stepwell.config import ExecutorSettings
from stepwell.core.port import Principal
from stepwell.rpc import scopes, store
from stepwell.rpc.admission import GateLimits
from stepwell.rpc.gate import Gate
from stepwell.rpc.metrics import RpcMetrics
from stepwell.rpc.server import SERVICES, Server
from stepwell.runtime import SystemRuntime
from tests.service.conftest import settings_for
from tests.support.methods import SERVED, STORE, path_of
from tests.unit.engine.executor_world import TENANT, FakeWorker

EXECUTOR = ExecutorSettings(lease_ms=60_000, poll_ms=100, hold_ms=50, presence_ms=60_000)
METHODS = {**SERVED, **STORE}
"""Every RPC there is, from the descriptors."""


class Anybody:
    """Lets everybody in, with every scope."""

    def authenticate(self, metadata: Mapping[str, str]) -> Principal:
        return Principal("test", TENANT, frozenset(scopes.SCOPES.values()))


def serving(url: str, folder: Path, **groups: Any) -> Server:
    """Return a server of all three services, with leases that don't run out by themselves."""
    groups.setdefault("executor", EXECUTOR)
    settings = settings_for(url, folder, **groups)
    return Server(settings, extra=(store.make_service,), authenticator=Anybody())


class _Collected:
    """Stands where a gRPC server does, and keeps the methods that a service adds."""

    def __init__(self) -> None:
        self.handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {}

    def add_generic_rpc_handlers(self, generic_rpc_handlers: Any) -> None:
        """The same ones again, in an older form."""

    def add_registered_method_handlers(self, service_name: str, method_handlers: Any) -> None:
        for name, handler in method_handlers.items():
            self.handlers[f"/{service_name}/{name}"] = handler


class Context:
    """The context of a call, as its handler sees it."""

    def __init__(self) -> None:
        self.written: list[Any] = []
        self.code = grpc.StatusCode.OK

    async def write(self, message: Any) -> None:
        await asyncio.sleep(0)
        self.written.append(message)

    async def send_initial_metadata(self, _metadata: Any) -> None:
        await asyncio.sleep(0)

    async def abort(self, code: grpc.StatusCode, details: str = "", _trailing: Any = ()) -> None:
        self.code = code
        raise grpc.aio.AbortError(details)

    def peer(self) -> str:
        return f"unix:{fresh()}"  # One address makes few calls without a credential.

    def done(self) -> bool:
        return False

    def cancelled(self) -> bool:
        return False


class Asked(NamedTuple):
    """One call: what is sent, and what it is about."""

    requests: Sequence[Message]
    """One, but for a stream."""
    run_id: str = ""
    """The run that it changes."""
    again: frozenset[grpc.StatusCode] = frozenset({grpc.StatusCode.OK})
    """Codes that the same call may get that comes after it."""


class Bench:
    """A server's own parts, and every handler over them."""

    def __init__(self, server: Server, patience: GateLimits | None = None) -> None:
        self.server = server
        self.deps = server.deps
        self.store = server.store
        self.executor = server.deps.executor
        collected: Any = _Collected()
        for make in (*SERVICES, store.make_service):
            make(server.deps).add_to(collected)
        self._handlers = collected.handlers
        self._gate = Gate(Anybody(), SystemRuntime(), RpcMetrics(), patience or GateLimits())
        self.ended = ""
        """A run that is over, with a result, a message and a line of log."""
        self.live = ""
        """One that waits for a worker that never comes."""

    async def serve(self, method: str, requests: Sequence[Message], context: Context) -> Any:
        """Do what gRPC does for a call, in the task of whoever awaits this."""

        path = path_of(method)

        async def found(_details: Any) -> Any:
            return self._handlers[path]

        details: Any = _Details(path)
        handler: Any = await self._gate.intercept_service(found, details)
        if handler.unary_unary is not None:
            return await handler.unary_unary(requests[0].SerializeToString(), context)
        if handler.unary_stream is not None:
            return await handler.unary_stream(requests[0].SerializeToString(), context)
        return await handler.stream_stream(_each(requests), context)

    async def call(self, method: str, request: Message) -> Any:
        """Call and return the answer: one that must be taken."""
        return await self.serve(method, [request], Context())

    # --- what calls are about ---------------------------------------------------------------------

    async def worker(self, queue: str, *, instance_id: str = "one") -> FakeWorker:
        """Attach a worker to a queue, with one place."""
        made = FakeWorker(
            self.executor, worker_id=f"of-{queue}", queue=queue, instance_id=instance_id
        )
        await made.attach()
        return made

    async def leave(self, worker: FakeWorker) -> None:
        assert worker.session is not None
        await self.executor.detach(worker.session)


class _Details(NamedTuple):
    method: str
    invocation_metadata: Sequence[tuple[str, str]] = ()


async def _each(requests: Sequence[Message]) -> AsyncIterator[bytes]:
    """Send them and stay, as a worker does."""
    for request in requests:
        await asyncio.sleep(0)
        yield request.SerializeToString()
    await asyncio.Event().wait()


def fresh() -> str:
    """Return a name that nobody else has."""
    return str(uuid4())
