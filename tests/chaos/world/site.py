"""One server on a store with its workers, each a process, and a proxy by which clients lose it while it lives."""

from __future__ import annotations

import asyncio
import urllib.request
from pathlib import Path
from typing import Any, Self

import grpc
import grpc.aio
from prometheus_client.parser import text_string_to_metric_families

from stepwell_client import Client
from tests.chaos.world.programs import Port, Program, wait_for
from tests.support.backends.proxy import Proxy

AGENT = "tests.chaos.world.growing_agent:agent"
RETENTION_MS = 3_000
SETTINGS = {
    "STEPWELL_EXECUTOR__LEASE_MS": "5000",
    "STEPWELL_EXECUTOR__PRESENCE_MS": "1000",
    # Small enough to be full soon, so that only other growth is measured afterwards.
    "STEPWELL_EXECUTOR__PAYLOAD_CACHE_BYTES_MAX": str(8 * 1024 * 1024),
    "STEPWELL_EXECUTOR__HOT_RUNS_MAX": "100",
    "STEPWELL_RETENTION__SUCCEEDED_MS": str(RETENTION_MS),
    "STEPWELL_RETENTION__FAILED_MS": str(RETENTION_MS),
    "STEPWELL_RETENTION__CANCELLED_MS": str(RETENTION_MS),
    "STEPWELL_RETENTION__LOGS_MS": str(RETENTION_MS),
    "STEPWELL_RETENTION__SWEEP_MS": "500",
    "STEPWELL_WATCH__STALL_MS": "1000",
    "STEPWELL_HEALTH_MS": "2000",
}


class Site:
    """A server, and workers by name; `steady` is the one that lives for as long as the server."""

    def __init__(self, folder: Path, url: str, file: Path | None = None) -> None:
        """`file`: the store's own, where it is SQLite's."""
        self.folder = folder
        self.url = url
        self.file = file
        self.token_file = folder / "state/stepwell/token"
        self._port = Port()
        self._metrics = Port()
        self.proxy = Proxy(self._port.number)
        arguments = ["serve", "--store", url, "--port", str(self._port.number)]
        arguments += ["--metrics-port", str(self._metrics.number)]
        self.server = Program("server", folder, ["-m", "stepwell", *arguments], SETTINGS)
        self.steady = self.worker("steady", "default", via=self.proxy.port, concurrency=16)
        self.programs = {"server": self.server, "steady": self.steady}

    async def __aenter__(self) -> Self:
        await self.proxy.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        for program in self.programs.values():
            program.kill()
        await self.proxy.close()
        self._port.close()
        self._metrics.close()

    def log_bytes(self) -> int:
        """Return the size of SQLite's write-ahead log; 0 where there is none."""
        if self.file is None:
            return 0
        log = self.file.with_name(self.file.name + "-wal")
        return log.stat().st_size if log.exists() else 0

    def streams(self) -> dict[str, float]:
        """Return how many streams of each method are open, as the server's page of metrics says."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._metrics.number}/metrics") as page:
            text = page.read().decode()
        return {
            sample.labels["method"]: sample.value
            for metric in text_string_to_metric_families(text)
            for sample in metric.samples
            if sample.name == "stepwell_rpc_streams"
        }

    @property
    def target(self) -> str:
        """The server's own address."""
        return f"127.0.0.1:{self._port.number}"

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        """The credential of a raw call."""
        return (("authorization", f"Bearer {self.token_file.read_text().strip()}"),)

    def client(self) -> Client:
        """Return a client that goes straight to the server."""
        return Client(self.target, token_file=self.token_file)

    def channel(self, **options: Any) -> grpc.aio.Channel:
        """Return a connection of its own; in the names of gRPC's options `__` stands for a dot."""
        given = [("grpc.use_local_subchannel_pool", 1), *options.items()]
        named = [(name.replace("__", "."), value) for name, value in given]
        return grpc.aio.insecure_channel(self.target, options=named)

    def worker(
        self, name: str, queue: str, *, via: int = 0, concurrency: int = 4, drain_s: float = 30.0
    ) -> Program:
        """Return a worker that is not started. `via`: the port of a proxy."""
        target = f"127.0.0.1:{via}" if via else self.target
        where = ["--target", target, "--token-file", str(self.token_file), "--queue", queue]
        how = ["--id", name, "--concurrency", str(concurrency), "--drain", str(drain_s)]
        program = Program(name, self.folder, ["-m", "stepwell", "worker", AGENT, *where, *how])
        if hasattr(self, "programs"):
            self.programs[name] = program
        return program

    async def start_server(self) -> None:
        """Start the server, and wait until it serves."""
        self.server.start()
        await asyncio.to_thread(wait_for, self.server, "listens on")

    async def start_steady(self) -> None:
        """Start the steady worker, and wait until it is welcome."""
        self.steady.start()
        await asyncio.to_thread(wait_for, self.steady, "serves replica")
