"""Metrics:

RPCs by method and code, the executor's counts, the event loop's lag. Our own interceptor feeds
them, because the ready-made ones don't support `grpc.aio`. A thread serves the page on loopback, if
the settings ask for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping

import grpc
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from stepwell.core.port import Runtime
from stepwell.core.records.errors import StepwellError
from stepwell.core.records.states import BlockedKind
from stepwell.engine.executor import Executor
from stepwell.rpc.status import code_of

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)
LAG_LOOK_MS = 500


class Meter:
    """The metrics of one method, whose labels are resolved once instead of at every call."""

    def __init__(self, metrics: RpcMetrics, method: str, *, stream: bool) -> None:
        self._metrics = metrics
        self._method = method
        self._seconds = None if stream else metrics.seconds.labels(method)
        self._open = metrics.streams.labels(method) if stream else None

    def begun(self) -> None:
        """Count a newly opened stream."""
        if self._open is not None:
            self._open.inc()

    def done(self, code: grpc.StatusCode, seconds: float) -> None:
        """Note the end of a call."""
        self._metrics.code(self._method, code)
        if self._open is not None:
            self._open.dec()
        if self._seconds is not None:
            self._seconds.observe(seconds)


class RpcMetrics:
    """Metrics in a separate registry, so that two servers in one process don't conflict."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._calls = Counter(
            "stepwell_rpc", "Calls that ended.", ("method", "code"), registry=self.registry
        )
        self.seconds = Histogram(
            "stepwell_rpc_seconds",
            "Time to answer a unary call.",
            ("method",),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.streams = Gauge(
            "stepwell_rpc_streams", "Streams that are open.", ("method",), registry=self.registry
        )
        self._lag = Gauge(
            "stepwell_loop_lag_seconds",
            "How late the event loop was the last time it was looked at.",
            registry=self.registry,
        )
        self._children: dict[tuple[str, grpc.StatusCode], Counter] = {}

    def meter(self, method: str, *, stream: bool = False) -> Meter:
        """Return the meter of a method."""
        return Meter(self, method, stream=stream)

    def code(self, method: str, code: grpc.StatusCode) -> None:
        """Count a call's end."""
        child = self._children.get((method, code))
        if child is None:
            child = self._children[method, code] = self._calls.labels(method, code.name)
        child.inc()

    def refused(self, method: str, error: StepwellError) -> None:
        """Count a call that the gate refused."""
        self.code(method, code_of(error))

    def observe_executor(self, executor: Executor) -> None:
        """Show the executor's counts, read when the page is read."""
        self.registry.register(_ExecutorCounts(executor))

    def observe_sweeper(self, removed: Callable[[], Mapping[str, int]]) -> None:
        """Show what retention has removed, read when the page is read."""
        self.registry.register(_SweeperCounts(removed))

    async def watch_lag(self, runtime: Runtime) -> None:
        """Measure how late the event loop runs due callbacks, as long as it runs."""
        while True:
            since = runtime.monotonic()
            await runtime.sleep(LAG_LOOK_MS / 1_000)
            self._lag.set(max(0.0, runtime.monotonic() - since - LAG_LOOK_MS / 1_000))


class _ExecutorCounts(Collector):
    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    def collect(self) -> Iterator[Metric]:
        counts = CounterMetricFamily(
            "stepwell_executor", "What the executor has done.", labels=("what",)
        )
        for name, count in self._executor.stats.items():
            counts.add_metric((name,), count)
        yield counts
        workers = GaugeMetricFamily("stepwell_workers", "Workers connected to this replica.")
        workers.add_metric((), len(self._executor.connected))
        yield workers
        runs = GaugeMetricFamily(
            "stepwell_runs",
            "Unfinished runs that this replica holds, by what they wait for; NONE: at work.",
            labels=("blocked_on",),
        )
        waiting = self._executor.blocked_counts()
        for kind in BlockedKind:
            runs.add_metric((kind.value,), waiting.get(kind, 0))
        yield runs


class _SweeperCounts(Collector):
    def __init__(self, removed: Callable[[], Mapping[str, int]]) -> None:
        self._removed = removed

    def collect(self) -> Iterator[Metric]:
        counts = CounterMetricFamily(
            "stepwell_removed", "What retention has removed.", labels=("what",)
        )
        for name, count in self._removed().items():
            counts.add_metric((name,), count)
        yield counts


class MetricsPage:
    """`/metrics` on loopback."""

    def __init__(self, registry: CollectorRegistry, port: int) -> None:
        self._server, self._thread = start_http_server(port, addr="127.0.0.1", registry=registry)
        self.port = int(self._server.server_port)

    async def close(self) -> None:
        """Stop serving the page."""
        await asyncio.to_thread(self._server.shutdown)
        self._server.server_close()
        await asyncio.to_thread(self._thread.join)
