"""One server and one worker as processes, on a private socket and an agent with gates, to be killed at will."""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path

from stepwell_client import Client
from tests.chaos.world.programs import Program, wait_for


class Place:
    """A store, a socket and a state folder: everything that outlives the processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # A socket's path has hardly a hundred bytes, so it is not below pytest's folder.
        self._short = tempfile.TemporaryDirectory(prefix="stepwell-system-")
        self.socket = Path(self._short.name) / "run" / "s.sock"
        self.server: Program | None = None
        self.worker: Program | None = None
        self.environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith("STEPWELL_")},
            "XDG_STATE_HOME": str(folder / "state"),
            "STEPWELL_EXECUTOR__LEASE_MS": "2000",
            "STEPWELL_EXECUTOR__POLL_MS": "200",
            "SYSTEM_GATES": str(folder / "gates"),
        }
        (folder / "gates").mkdir(exist_ok=True)

    @property
    def store_url(self) -> str:
        return f"sqlite:///{self.folder / 'system.db'}"

    @property
    def target(self) -> str:
        return f"unix:{self.socket}"

    @property
    def token_file(self) -> Path:
        return self.folder / "state/stepwell/token"

    def client(self) -> Client:
        return Client(self.target, token_file=self.token_file)

    def _spawn(self, name: str, *arguments: str) -> Program:
        program = Program(name, self.folder, ["-m", "stepwell", *arguments], self.environment)
        program.start()
        return program

    async def start_server(self) -> None:
        """Start it, and wait until it serves."""
        where = ["--store", self.store_url, "--socket", str(self.socket)]
        self.server = self._spawn("server", "serve", *where)
        await asyncio.to_thread(wait_for, self.server, "listens on")

    def start_worker(self, agent: str, *options: str) -> None:
        """Start it; it connects by itself."""
        where = ["--target", self.target, "--token-file", str(self.token_file)]
        self.worker = self._spawn("worker", "worker", agent, *where, *options)

    def kill_server(self) -> None:
        if self.server is not None:
            self.server.kill()

    def kill_worker(self) -> None:
        if self.worker is not None:
            self.worker.kill()

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()[-4_000:]

    def close(self) -> None:
        self.kill_worker()
        self.kill_server()
        self._short.cleanup()
