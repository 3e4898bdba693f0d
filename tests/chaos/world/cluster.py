"""Three replicas on one store, with their workers: all that a test starts, kills and looks into."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import grpc
import grpc.aio

from stepwell.core.port import Store
from stepwell.runtime import SystemRuntime
from stepwell.store.opener import open_store
from stepwell_client import Client
from tests.chaos.world import observed
from tests.chaos.world.agent import GATES
from tests.chaos.world.observed import Entry
from tests.chaos.world.programs import Port, Program, wait_for
from tests.chaos.world.stores import ALONE, STORES, Shared

NAMES = ("r1", "r2", "r3")
LEASE_MS = 2_000
POLL_MS = 1_000
"""As by default: what no hint tells is found after so long."""
APART = "apart"
"""A queue that the workers serve besides the default one."""

SETTINGS = {
    "STEPWELL_EXECUTOR__LEASE_MS": str(LEASE_MS),
    "STEPWELL_EXECUTOR__POLL_MS": str(POLL_MS),
}

_SOON = [
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 300),
]
"""A replica that is back is found again at once."""


class Cluster:
    """Replicas by name, and workers by theirs."""

    def __init__(self, folder: Path, shared: Shared, names: Sequence[str] = NAMES) -> None:
        self.folder = folder
        self.shared = shared
        self.names = names
        self.token_file = folder / "state/stepwell/token"
        self._ports = {name: Port() for name in names}
        self._diaries = {name: folder / f"{name}.diary" for name in names}
        self.replicas = {name: self._replica(name) for name in names}
        self.workers: dict[str, Program] = {}
        self._channels: dict[str, grpc.aio.Channel] = {}
        (folder / "gates").mkdir()

    def _replica(self, name: str) -> Program:
        port = str(self._ports[name].number)
        arguments = ["serve", "--store", self.shared.url, "--port", port]
        environment = {
            **SETTINGS,
            observed.DIARY: str(self._diaries[name]),
            observed.NAME: name,
        }
        module = ["-m", "tests.chaos.world.observed"]
        return Program(name, self.folder, [*module, *arguments], environment)

    # --- replicas ---------------------------------------------------------------------------------

    async def start(self, *names: str, **environment: str) -> None:
        """Start replicas, all of them where none is named, and wait until they serve."""
        chosen = [self.replicas[name] for name in names or self.names]
        for program in chosen:
            program.environment = {**program.environment, **environment}
            program.start()
        for program in chosen:
            await asyncio.to_thread(wait_for, program, "listens on")

    def kill(self, name: str) -> None:
        """SIGKILL a replica or a worker."""
        self.program(name).kill()

    def program(self, name: str) -> Program:
        """Return a replica or a worker."""
        return self.replicas.get(name) or self.workers[name]

    def target(self, *names: str) -> str:
        """Return an address: of one replica, or of several, the first of which is preferred."""
        addresses = [f"127.0.0.1:{self._ports[name].number}" for name in names or self.names]
        return f"ipv4:{','.join(addresses)}"

    def client(self, *names: str) -> Client:
        """Return a client of one replica, or of several."""
        return Client(self.target(*names), token_file=self.token_file)

    def channel(self, name: str) -> grpc.aio.Channel:
        """Return this loop's one channel to a replica, for all calls by hand."""
        if name not in self._channels:
            self._channels[name] = grpc.aio.insecure_channel(self.target(name), options=_SOON)
        return self._channels[name]

    async def hang_up(self) -> None:
        """Close what `channel` opened."""
        while self._channels:
            await self._channels.popitem()[1].close()

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        """Return the credential of a raw call."""
        return (("authorization", f"Bearer {self.token_file.read_text().strip()}"),)

    # --- workers ------------------------------------------------------------------------------------

    async def work(self, name: str, *at: str, concurrency: int = 4) -> None:
        """Start a worker at a replica, or at several in the order of its preference."""
        program = self.workers.get(name)
        if program is None:
            where = ["--target", self.target(*at), "--token-file", str(self.token_file)]
            how = ["--id", name, "--concurrency", str(concurrency)]
            how += ["--queue", "default", "--queue", APART]
            agent = "tests.chaos.world.agent:agent"
            environment = {GATES: str(self.folder / "gates")}
            arguments = ["-m", "stepwell", "worker", agent, *where, *how]
            program = self.workers[name] = Program(name, self.folder, arguments, environment)
        program.start()

    async def working(self, *names: str) -> None:
        """Wait until these workers have been welcomed."""
        for name in names:
            await asyncio.to_thread(wait_for, self.workers[name], "serves replica")

    def open_gate(self) -> None:
        """Let the tasks that wait for it go on."""
        (self.folder / "gates" / "gate").touch()

    def notes(self, name: str) -> list[str]:
        """Return the lines that tasks have written beside the gate."""
        path = self.folder / "gates" / name
        return path.read_text().splitlines() if path.exists() else []

    # --- what is left of it all -----------------------------------------------------------------------

    async def store(self) -> Store:
        """Open the store as one of them would. The caller closes it.

        A file is for one process: a replica that is alone with it is killed, and not begun again.
        """
        if len(self.names) == 1:
            self.replicas[self.names[0]].kill()
        if self.shared.settle is not None:
            await asyncio.to_thread(self.shared.settle)
        return await open_store(self.store_url, runtime=SystemRuntime())

    @property
    def store_url(self) -> str:
        url = self.shared.url
        return f"{url}?token_file={self.token_file}" if url.startswith("grpc://") else url

    def diary(self) -> list[Entry]:
        """Return what all replicas wrote down, in the order of time."""
        found = [e for path in self._diaries.values() if path.exists() for e in observed.read(path)]
        return sorted(found, key=lambda entry: entry.at)

    def logs(self) -> str:
        """Return the end of every log, for a test that failed."""
        programs = (*self.replicas.values(), *self.workers.values())
        return "\n".join(f"--- {one.name}\n{one.log[-1_500:]}" for one in programs)

    def close(self) -> None:
        for program in (*self.workers.values(), *self.replicas.values()):
            program.kill()
        for port in self._ports.values():
            port.close()


@contextmanager
def cluster_on(kind: str, folder: Path) -> Iterator[Cluster]:
    """Return a cluster on an empty store of this kind; its replicas are not started.

    A file has one replica.
    """
    with STORES[kind](folder) as shared:
        cluster = Cluster(folder, shared, NAMES[:1] if kind == ALONE else NAMES)
        try:
            yield cluster
        finally:
            cluster.close()
