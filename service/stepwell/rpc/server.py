"""One server: a store, an executor over it, the services, and their orderly shutdown.

    async with Server(settings) as server:
        print(server.addresses)

`Server(settings, services=…)` serves other services than the Orchestrator and the Worker; `extra`
adds to them. Drivers are found by the URL's scheme.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Self

import grpc
import grpc.aio
from grpc_health.v1 import health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2

from stepwell.app.retention import Retention, Sweeper
from stepwell.config import GrpcSettings, Settings, state_folder
from stepwell.core.port import Authenticator, Runtime, Store
from stepwell.core.records import limits
from stepwell.engine.executor import Executor, ExecutorConfig
from stepwell.logger import get_logger
from stepwell.rpc import orchestrator, scopes
from stepwell.rpc.admission import GateLimits
from stepwell.rpc.auth import open_authenticator
from stepwell.rpc.dependencies import Dependencies, Service, ServiceMaker
from stepwell.rpc.gate import Gate, Handler
from stepwell.rpc.health import Health
from stepwell.rpc.listen import bind
from stepwell.rpc.metrics import MetricsPage, RpcMetrics
from stepwell.rpc.version import server_version
from stepwell.rpc.worker.service import make_service as make_worker_service
from stepwell.runtime import SystemRuntime
from stepwell.store.opener import mask_url, open_store
from stepwell.watch.notifier import Notifier
from stepwell.watch.rings import Rings
from stepwell.wire.event_bytes import event_bytes

log = get_logger(__name__)

SERVICES: tuple[ServiceMaker, ...] = (orchestrator.make_service, make_worker_service)
_HEALTH = "grpc.health.v1.Health"
_CORE_SLACK = 4
"""gRPC's own limit is this many times ours; sizes in between are refused with a reason and details."""
_REPORTS_MAX = 2_000
"""Places on a connection for calls that the gate doesn't count."""
_PENDING_MAX = 100_000
_PENDING_SECONDS_MAX = 600
_LAST_WORDS_S = 1.0


class _Recorder(grpc.aio.Server):
    """Passes services on to a server and keeps their methods by name."""

    def __init__(self, server: grpc.aio.Server) -> None:
        self._server = server
        self.methods: dict[str, Handler] = {}

    def add_generic_rpc_handlers(
        self, generic_rpc_handlers: Iterable[grpc.GenericRpcHandler]
    ) -> None:
        self._server.add_generic_rpc_handlers(generic_rpc_handlers)

    def add_registered_method_handlers(
        self, service_name: str, method_handlers: Mapping[str, grpc.RpcMethodHandler[Any, Any]]
    ) -> None:
        self.methods |= {f"/{service_name}/{name}": one for name, one in method_handlers.items()}
        self._server.add_registered_method_handlers(service_name, method_handlers)

    def add_insecure_port(self, address: str) -> int:
        return self._server.add_insecure_port(address)

    def add_secure_port(self, address: str, server_credentials: grpc.ServerCredentials) -> int:
        return self._server.add_secure_port(address, server_credentials)

    async def start(self) -> None:
        await self._server.start()

    async def stop(self, grace: float | None) -> None:
        await self._server.stop(grace)

    async def wait_for_termination(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109 - grpc's own signature
        return await self._server.wait_for_termination(timeout)


class Server:
    """A server from its start to its end. Started once, stopped once."""

    def __init__(
        self,
        settings: Settings,
        *,
        services: Sequence[ServiceMaker] = SERVICES,
        extra: Sequence[ServiceMaker] = (),
        runtime: Runtime | None = None,
        store: Store | None = None,
        authenticator: Authenticator | None = None,
        receive_bytes_max: int = limits.RECEIVE_BYTES_MAX,
        executes: bool = True,
    ) -> None:
        """`store` is used instead of opening the settings' URL, and is also closed.

        `executes`: claim and lease steps, which a server of only the Store service doesn't.
        """
        self.settings = settings
        self._makers = (*services, *extra)
        self._runtime = runtime or SystemRuntime()
        self._given_store = store
        self._given_authenticator = authenticator
        self._receive_bytes_max = receive_bytes_max
        self._executes = executes
        self.addresses: tuple[str, ...] = ()
        """The addresses that clients dial, after the start: `127.0.0.1:7878`, `unix:/path`."""
        self.console_address = ""
        """The URL of the console that is served with it; set before the start."""
        self.methods: dict[str, Handler] = {}
        """The methods of all services by full name, without the gate; set by the start."""
        self.metrics_port = 0
        self._tasks: list[asyncio.Task[None]] = []
        self._services: list[Service] = []
        self._page: MetricsPage | None = None
        self._draining = False
        self._stopped = False

    # --- the start ----------------------------------------------------------------------------------

    async def start(self) -> tuple[str, ...]:
        """Open the store, listen, and begin to work; return the addresses.

        Raises:
            SettingsRefused: the settings can't be used; the message says what to do.
            StoreRefused: the store can't be opened.
        """
        settings, runtime = self.settings, self._runtime
        self.authenticator = self._given_authenticator or open_authenticator(settings.auth, runtime)
        url = settings.store.url.get_secret_value()
        if "url" not in settings.store.model_fields_set:
            state_folder().mkdir(mode=0o700, parents=True, exist_ok=True)
        self.store = self._given_store or await open_store(url, runtime=runtime)
        try:
            await self._compose()
        except BaseException:
            await self.store.close()
            raise
        log.info(
            "serving",
            version=server_version(),
            addresses=", ".join(self.addresses),
            store=mask_url(url),
            durability=str(self.deps.store_info.durability),
            replica=self.deps.executor.replica_id,
        )
        return self.addresses

    async def _compose(self) -> None:
        settings, runtime = self.settings, self._runtime
        executor = Executor(self.store, runtime, _executor_config(settings))
        rings = Rings(event_bytes, executor.committing, runtime)
        executor.observe(rings)
        self._notifier = Notifier(self.store, rings)
        self.deps = Dependencies(
            store=self.store,
            executor=executor,
            notifier=self._notifier,
            runtime=runtime,
            settings=settings,
            store_info=await self.store.describe(),
            console_address=self.console_address,
        )
        self.metrics = RpcMetrics()
        self.metrics.observe_executor(executor)
        self.gate_limits = GateLimits(
            settings.watch.stall_ms,
            self._receive_bytes_max,
            settings.grpc.calls_max,
            settings.grpc.streams_max,
        )
        self.gate = Gate(self.authenticator, runtime, self.metrics, self.gate_limits)
        self._server = grpc.aio.server(
            interceptors=(self.gate,),
            options=_options(settings.grpc, self._receive_bytes_max),
        )
        self._health = Health(
            self.store, runtime, executor.replica_id, interval_ms=settings.health_ms
        )
        self._add_services()
        self.addresses = bind(self._server, settings.grpc, self._runtime.now_us)
        if settings.metrics.port is not None:
            self._page = MetricsPage(self.metrics.registry, settings.metrics.port)
            self.metrics_port = self._page.port
        await self._server.start()
        sweeper = Sweeper(executor, runtime, Retention(**settings.retention.model_dump()))
        self.metrics.observe_sweeper(lambda: sweeper.removed)
        if self._executes:
            executor.start()
            self._tasks.append(runtime.spawn(sweeper.run(), name="sweep"))
        await self._health.check()
        self._tasks += [
            runtime.spawn(self._health.watch(), name="health"),
            runtime.spawn(self.metrics.watch_lag(runtime), name="loop lag"),
        ]

    def _add_services(self) -> None:
        recorder = _Recorder(self._server)
        self._services = [make(self.deps) for make in self._makers]
        for service in self._services:
            service.add_to(recorder)
        names = [service.name for service in self._services]
        self._health.cover(names)
        health_pb2_grpc.add_HealthServicer_to_server(self._health.servicer, recorder)
        _add_reflection((*names, _HEALTH, reflection.SERVICE_NAME), recorder)
        scopes.refuse_undeclared(recorder.methods)
        self.methods = recorder.methods

    # --- the end ------------------------------------------------------------------------------------

    async def drain(self) -> None:
        """End all work in order, so that nothing acknowledged is lost and every caller gets an answer.

        Health answers NOT_SERVING for `notice_ms`. Then new calls are refused, no more steps are
        leased, commits in progress are finished, and streams end, each with a message. What isn't
        done by `drain_ms` is cut off.
        """
        if self._draining:
            return
        self._draining = True
        log.info("draining")
        await self._health.leave()
        await self._runtime.sleep(self.settings.notice_ms / 1_000)
        self.gate.admission.draining = True
        try:
            async with asyncio.timeout(self.settings.drain_ms / 1_000):
                await self.deps.executor.drain()
                self._notifier.close()
                await self._end_streams()
        except TimeoutError:
            log.warning("not all work came to its end in time", drain_ms=self.settings.drain_ms)
        finally:
            self._notifier.close()

    async def _end_streams(self) -> None:
        ends: list[Awaitable[None]] = [
            service.end_streams() for service in self._services if service.end_streams is not None
        ]
        await asyncio.gather(*ends)

    async def stop(self) -> None:
        """Drain, then close everything. Safe to call twice."""
        if self._stopped:
            return
        self._stopped = True
        await self.drain()
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with suppress(asyncio.CancelledError):
                await task
        # The calls that still run are about to end: watches that write their last message.
        await self._server.stop(_LAST_WORDS_S)
        await self.deps.executor.close()
        await self.store.close()
        if self._page is not None:
            await self._page.close()
        log.info("stopped")

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.stop()


async def serve(settings: Settings, **how: Any) -> None:
    """Serve until SIGTERM or SIGINT, then drain. `how` are `Server`'s arguments."""
    server = Server(settings, **how)
    leave = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, leave.set)
    try:
        async with server:
            await leave.wait()
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


def _add_reflection(names: Iterable[str], server: grpc.aio.Server) -> None:
    """Add reflection in both versions: their messages are the same, but the library has only the older one."""
    reflection.enable_server_reflection(names, server)
    servicer: Any = reflection.aio.ReflectionServicer(names)
    handler = grpc.stream_stream_rpc_method_handler(
        servicer.ServerReflectionInfo,
        request_deserializer=reflection_pb2.ServerReflectionRequest.FromString,
        response_serializer=reflection_pb2.ServerReflectionResponse.SerializeToString,
    )
    methods = {"ServerReflectionInfo": handler}
    service = "grpc.reflection.v1.ServerReflection"
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, methods),))
    server.add_registered_method_handlers(service, methods)


def _executor_config(settings: Settings) -> ExecutorConfig:
    limits_of = tuple((name, queue.max_parallel) for name, queue in settings.queues.items())
    return ExecutorConfig(**settings.executor.model_dump(), queue_limits=limits_of)


def _options(settings: GrpcSettings, receive_bytes_max: int) -> list[tuple[str, Any]]:
    """Return the channel options, also those that equal gRPC's current defaults."""
    return [
        # With it, a second server would bind the same port and take half of the calls.
        ("grpc.so_reuseport", 0),
        ("grpc.max_receive_message_length", _CORE_SLACK * receive_bytes_max),
        # For one connection. More than the gate admits, because the gate gives a reason and gRPC
        # doesn't.
        ("grpc.max_concurrent_streams", settings.calls_max + settings.streams_max + _REPORTS_MAX),
        # Calls that wait for the event loop. The default drops calls at random from 1,000 on.
        ("grpc.server.max_pending_requests", _PENDING_MAX),
        ("grpc.server.max_pending_requests_hard_limit", _PENDING_MAX),
        # The default drops them after 30 s, also without a reason.
        ("grpc.server_max_unrequested_time_in_server", _PENDING_SECONDS_MAX),
        ("grpc.max_send_message_length", max(receive_bytes_max, limits.SEND_BYTES_MAX)),
        ("grpc.max_metadata_size", _CORE_SLACK * limits.METADATA_BYTES_MAX),
        ("grpc.absolute_max_metadata_size", _CORE_SLACK * limits.METADATA_BYTES_MAX),
        # Without keepalive a dead peer is noticed after minutes, if at all.
        ("grpc.keepalive_time_ms", settings.keepalive_ms),
        ("grpc.keepalive_timeout_ms", settings.keepalive_timeout_ms),
        # The time-out above is the kernel's. This one detects a frozen peer whose kernel still
        # answers.
        ("grpc.http2.ping_timeout_ms", settings.keepalive_timeout_ms),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        # Clients ping as often; the default would cut them off for that.
        ("grpc.http2.min_ping_interval_without_data_ms", settings.keepalive_ms // 2),
        ("grpc.http2.min_recv_ping_interval_without_data_ms", settings.keepalive_ms // 2),
    ]
