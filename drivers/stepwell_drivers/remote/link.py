"""The connection to a Store service: calls with deadlines, retries, and an orderly close."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import TypeVar

from grpc import ChannelConnectivity
from grpc.aio import (
    AioRpcError,
    Channel,
    UnaryStreamCall,
    UnaryUnaryMultiCallable,
    insecure_channel,
    secure_channel,
)

from stepwell.core.port import Runtime
from stepwell.core.records.errors import StoreUnavailable
from stepwell.core.records.limits import STORE_MESSAGE_BYTES_MAX
from stepwell_client.store.v1 import store_pb2, store_pb2_grpc
from stepwell_drivers.remote.access import Access
from stepwell_drivers.remote.errors import Fault, fault_of
from stepwell_drivers.remote.url import Place

KEEPALIVE_MS = 20_000
KEEPALIVE_TIMEOUT_MS = 10_000
CONNECT_SECONDS = 5.0
CLOSE_SECONDS = 5.0
"""The time that running calls have to end when the store is closed; then they are cut off."""
TRIES = 5
BACKOFF_SECONDS = 0.1
BACKOFF_SECONDS_MAX = 1.0

Q = TypeVar("Q")
A = TypeVar("A")

_OPTIONS: list[tuple[str, int | str]] = [
    ("grpc.max_send_message_length", STORE_MESSAGE_BYTES_MAX),
    ("grpc.max_receive_message_length", STORE_MESSAGE_BYTES_MAX),
    ("grpc.keepalive_time_ms", KEEPALIVE_MS),
    ("grpc.keepalive_timeout_ms", KEEPALIVE_TIMEOUT_MS),
    # The time-out above is the kernel's. This one detects a frozen service whose kernel still
    # answers.
    ("grpc.http2.ping_timeout_ms", KEEPALIVE_TIMEOUT_MS),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 2_000),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    # This module retries instead, because it knows which calls may be repeated.
    ("grpc.enable_retries", 0),
    ("grpc.service_config_disable_resolution", 1),
    # Two stores of one process get two connections.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
    ("grpc.primary_user_agent", "stepwell-store"),
]


class Link:
    """A channel to one service, used on the running event loop only; replaced when TLS files have changed."""

    def __init__(self, place: Place, access: Access, runtime: Runtime) -> None:
        self.name = place.name
        self._timeout_s = place.timeout_ms / 1_000
        self._access = access
        self._runtime = runtime
        self._target = place.target
        self._tls = place.tls
        self._generation = 0
        self._channels: list[Channel] = []
        self._stub = self._open()
        self._under_way = 0
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._closing: asyncio.Future[None] | None = None

    @property
    def stub(self) -> store_pb2_grpc.StoreAsyncStub:
        """The service's methods, for one call."""
        if self._tls is not None:
            generation = self._tls.generation()
            if generation != self._generation:
                self._generation = generation
                self._stub = self._open()
        return self._stub

    def _open(self) -> store_pb2_grpc.StoreAsyncStub:
        """Open a channel. Running calls continue on the previous channel, which is kept until the
        next one is opened.
        """
        if self._tls is None:
            channel = insecure_channel(self._target, options=_OPTIONS)
        else:
            options = [*_OPTIONS, *self._tls.options()]
            channel = secure_channel(self._target, self._tls.credentials(), options=options)
        self._channels = [channel, *self._channels[:1]]
        return store_pb2_grpc.StoreStub(channel)

    @contextmanager
    def call(self) -> Generator[None]:
        """Delay the close of the connection while a call runs; refuse calls that begin after it.

        Raises:
            StoreUnavailable: the store was closed.
        """
        if self._closing is not None:
            raise StoreUnavailable("this store was closed")
        self._under_way += 1
        self._quiet.clear()
        try:
            yield
        finally:
            self._under_way -= 1
            if self._under_way == 0:
                self._quiet.set()

    async def ask(self, method: UnaryUnaryMultiCallable[Q, A], request: Q) -> A | Fault:
        """Call a method that may be repeated: a failed call is retried a little later."""
        for failures in range(1, TRIES):
            answer = await self._once(method, request)
            if not isinstance(answer, Fault) or not answer.again or self._closing is not None:
                return answer
            await self._runtime.sleep(self.backoff(failures))
        return await self._once(method, request)

    async def ask_once(self, method: UnaryUnaryMultiCallable[Q, A], request: Q) -> A | Fault:
        """Call once. Nothing is sent without a connection, so that a failure to connect is certain."""
        return await self._connect() or await self._once(method, request)

    def subscribe(
        self,
    ) -> UnaryStreamCall[store_pb2.SubscribeRequest, store_pb2.SubscribeResponse]:
        """Open the stream of hints, without a deadline. The caller cancels it."""
        request = store_pb2.SubscribeRequest()
        return self.stub.Subscribe(request, metadata=self._access.metadata)

    def fault_of(self, error: AioRpcError) -> Fault:
        """Classify a failed call."""
        return fault_of(error, name=self.name, token_source=self._access.source)

    def new_token(self) -> bool:
        """Read the token again after a refusal; return whether it has changed."""
        return self._access.reload()

    def backoff(self, failures: int) -> float:
        """Return how many seconds to wait after so many failures in a row, with full jitter."""
        longest = min(BACKOFF_SECONDS_MAX, BACKOFF_SECONDS * 2.0 ** min(failures - 1, 30))
        return self._runtime.random() * longest

    async def close(self) -> None:
        """Wait a while for running calls, then cut off the rest. Safe to call twice."""
        if self._closing is not None:
            await asyncio.shield(self._closing)
            return
        self._closing = asyncio.get_running_loop().create_future()
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_SECONDS):
                    await self._quiet.wait()
        finally:
            try:
                for channel in self._channels:
                    await channel.close()
            finally:
                self._closing.set_result(None)

    async def _once(self, method: UnaryUnaryMultiCallable[Q, A], request: Q) -> A | Fault:
        for may_reload in (True, False):
            try:
                return await method(
                    request, timeout=self._timeout_s, metadata=self._access.metadata
                )
            except AioRpcError as error:
                fault = self.fault_of(error)
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if self._closing is None or task is None or task.cancelling():
                    raise
                # Closing the connection cancelled the call, not this task.
                return Fault(StoreUnavailable("this store was closed"))
            if not (may_reload and fault.refused and self.new_token()):
                return fault
        raise AssertionError("not reached")

    async def _connect(self) -> Fault | None:
        """Wait for the connection; return a fault if there is none."""
        channel = self._channels[0]
        state = channel.get_state(try_to_connect=True)
        if state is ChannelConnectivity.READY:
            return None
        words = f"no Store service can be reached at {self.name}"
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                while state is not ChannelConnectivity.READY:
                    if state in _BROKEN:
                        return Fault(StoreUnavailable(words), certain=True, again=True)
                    await channel.wait_for_state_change(state)
                    state = channel.get_state(try_to_connect=True)
        except TimeoutError:
            return Fault(StoreUnavailable(words), certain=True, again=True)
        return None


_BROKEN = (ChannelConnectivity.TRANSIENT_FAILURE, ChannelConnectivity.SHUTDOWN)
