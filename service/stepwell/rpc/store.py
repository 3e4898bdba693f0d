"""The Store service: any store's port as RPCs, by the table of its methods (`wire.store`).

The gate has checked the caller and the request's limits, and turns a store's errors into statuses.
A write in progress is finished even if its caller has gone, because the caller will send the same
commit again to learn the outcome.
"""
# ruff: noqa: N802, ARG001, ARG002 - methods have the protocol's names and arguments

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

from google.protobuf.message import Message

from stepwell.core.port import Runtime, Store
from stepwell.core.records.errors import ResourceExhausted
from stepwell.core.records.limits import STORE_MESSAGE_BYTES_MAX
from stepwell.rpc.dependencies import Context, Dependencies, Service
from stepwell.wire.records import to_message, to_record
from stepwell.wire.store import METHODS, UNTYPED, WRITES, Method
from stepwell_client.store.v1 import store_pb2 as pb
from stepwell_client.store.v1 import store_pb2_grpc

HINTS_MAX = 1_000
"""The most runs in one message of hints; with more, the message says that any run may have changed."""
ANSWER_BYTES_MAX = STORE_MESSAGE_BYTES_MAX - 64 * 1024
"""The largest answer, which leaves room for the rest of the message."""

SERVICE_NAME = "stepwell.store.v1.Store"

T = TypeVar("T")
M = TypeVar("M", bound=Message)


def make_service(deps: Dependencies) -> Service:
    """Return the service over a server's own store."""
    servicer = StoreService(deps.store, deps.runtime)
    return Service(
        SERVICE_NAME,
        partial(store_pb2_grpc.add_StoreServicer_to_server, servicer),
        end_streams=servicer.close,
    )


class StoreService(UNTYPED):
    """The servicer over one store. It doesn't close the store."""

    def __init__(self, store: Store, runtime: Runtime) -> None:
        self._store = store
        self._runtime = runtime
        self._writes: set[asyncio.Task[Any]] = set()
        self._subscribers: set[_Subscriber] = set()
        self._closed = False

    async def close(self) -> None:
        """End the streams of hints and wait for writes in progress. Safe to call twice."""
        self._closed = True
        for subscriber in self._subscribers:
            subscriber.end()
        if self._writes:
            await asyncio.wait(self._writes)

    async def _finish(self, write: Coroutine[Any, Any, T]) -> T:
        """Return a write's result; the write continues if its caller is cancelled."""
        task = self._runtime.spawn(write, name="stepwell-store-write")
        self._writes.add(task)
        task.add_done_callback(self._written)
        return await asyncio.shield(task)

    def _written(self, task: asyncio.Task[Any]) -> None:
        self._writes.discard(task)
        if not task.cancelled():
            task.exception()  # Retrieved, also if nobody waits for it any more.

    async def call(self, method: Method, request: Message) -> Message:
        """Execute a request."""
        asked = to_record(request)
        work = getattr(self._store, method.name)(**method.arguments_of(asked))
        result = await (self._finish(work) if method.name in WRITES else work)
        return _fitting(to_message(method.response_of(asked, result)))

    async def Subscribe(
        self, request: pb.SubscribeRequest, context: Context
    ) -> AsyncIterator[pb.SubscribeResponse]:
        subscriber = _Subscriber()
        stop = self._store.subscribe(subscriber.hint)
        self._subscribers.add(subscriber)
        try:
            if self._closed:
                return
            yield pb.SubscribeResponse()
            while (response := await subscriber.next()) is not None:
                yield response
        finally:
            self._subscribers.discard(subscriber)
            stop()


def _servicer_method(method: Method) -> Callable[..., Coroutine[Any, Any, Message]]:
    async def serve(self: StoreService, request: Message, context: Context) -> Message:
        return await self.call(method, request)

    return serve


for _method in METHODS.values():
    setattr(StoreService, _method.rpc, _servicer_method(_method))


class _Subscriber:
    """The hints of one stream; those that come during a write go into the next message."""

    def __init__(self) -> None:
        self._runs: dict[tuple[str, str], int] = {}
        self._wake = asyncio.Event()
        self._ended = False

    def hint(self, tenant_id: str, run_id: str, version: int) -> None:
        """Note that a run may have changed."""
        if len(self._runs) >= HINTS_MAX:
            self._runs = {("", ""): 0}
        elif ("", "") not in self._runs:
            key = (tenant_id, run_id)
            self._runs[key] = max(self._runs.get(key, 0), version)
        self._wake.set()

    def end(self) -> None:
        """End the stream."""
        self._ended = True
        self._wake.set()

    async def next(self) -> pb.SubscribeResponse | None:
        """Wait for hints and return all of them, or None at the end of the stream."""
        await self._wake.wait()
        if self._ended:
            return None
        self._wake.clear()
        response = pb.SubscribeResponse()
        for (tenant_id, run_id), version in self._runs.items():
            response.hints.add(tenant_id=tenant_id, run_id=run_id, version=version)
        self._runs.clear()
        return response


def _fitting(response: M) -> M:
    """Return the response if it fits into a message.

    Raises:
        ResourceExhausted: it doesn't fit, so the caller must ask for less at once.
    """
    size = response.ByteSize()
    if size > ANSWER_BYTES_MAX:
        raise ResourceExhausted(
            f"the answer has {size:,} bytes; limit: {ANSWER_BYTES_MAX:,}; ask for less at once",
            reason="RESPONSE_TOO_LARGE",
        )
    return response
