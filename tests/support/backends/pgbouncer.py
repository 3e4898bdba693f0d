"""PgBouncer in front of a Postgres of ours: Debian's, in transaction mode."""

from __future__ import annotations

import signal
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from tests.support.backends.binaries import pgbouncer_program, postgres_bin, postgres_user
from tests.support.backends.child import Child, NotStarted
from tests.support.backends.postgres import Postgres, give_to_postgres
from tests.support.backends.postgres_client import ROLE, PostgresClient
from tests.support.backends.required import missing
from tests.support.backends.server import Server


class PgBouncer(PostgresClient, Server):
    """A pool of server connections, given to clients for one transaction each.

    It asks for the same password as the server behind it does; all of its databases are there.
    """

    # Ends at once; SIGINT would wait for clients.
    stop_signal = signal.SIGTERM
    port_taken = "cannot listen on"

    def __init__(
        self,
        server: Postgres,
        *,
        pool_mode: str = "transaction",
        pool_size: int = 20,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        program = pgbouncer_program()
        if program is None:
            missing("pgbouncer", "pgbouncer is not installed (Debian: apt-get install pgbouncer)")
        Server.__init__(
            self,
            "pgb",
            settings={
                "pool_mode": pool_mode,
                "default_pool_size": str(pool_size),
                "max_client_conn": "500",
                "server_round_robin": "1",
                "query_wait_timeout": "30",
                "log_connections": "0",
                "log_disconnections": "0",
                "stats_period": "3600",
                **(settings or {}),
            },
        )
        self.program = program
        self.server = server
        self.host = "127.0.0.1"
        self.admin_host = str(self.folder)
        self.password = server.password
        give_to_postgres(self.folder)

    def _launch(self) -> Child:
        kept = {
            "listen_addr": "127.0.0.1",
            "listen_port": str(self.port),
            "unix_socket_dir": str(self.folder),
            "unix_socket_mode": "0700",
            "auth_type": "trust" if self.password is None else "scram-sha-256",
            "auth_file": str(self.folder / "users.txt"),
            "admin_users": ROLE,
        }
        lines = [f"{key} = {value}\n" for key, value in (self.settings | kept).items()]
        behind = f"* = host={self.server.folder} port={self.server.port}\n"
        configuration = self.folder / "pgbouncer.ini"
        configuration.write_text(f"[databases]\n{behind}\n[pgbouncer]\n{''.join(lines)}")
        secret = (self.password or "").replace('"', '""')
        (self.folder / "users.txt").write_text(f'"{ROLE}" "{secret}"\n')
        # A killed one leaves its socket, at which nobody answers.
        self._socket.unlink(missing_ok=True)
        return Child(
            [self.program, str(configuration)],
            folder=self.folder,
            log=self.log,
            user=postgres_user(),
        )

    def _ready(self) -> bool:
        """Return true if its private socket takes connections."""
        with socket.socket(socket.AF_UNIX) as probe:
            return probe.connect_ex(str(self._socket)) == 0

    @property
    def _socket(self) -> Path:
        return self.folder / f".s.PGSQL.{self.port}"

    def prove(self) -> None:
        """It is ours, by its folder, and leads to our Postgres, by the word of its last start."""
        for host in (self.admin_host, self.host):
            folder = self.ask("SHOW CONFIG", host=host).get("unix_socket_dir")
            if folder != str(self.folder):
                raise NotStarted(f"another PgBouncer answers at {host}:{self.port}: {folder}")
        self.prove_server()

    def prove_server(self) -> None:
        """Raises `NotStarted` unless a query arrives at the Postgres that it was made for."""
        rows = self.fetch("SELECT current_setting('cluster_name')")
        if rows[0][0] != self.server.proof:
            raise NotStarted(f"it leads to another Postgres: {rows[0][0]}")

    def ask(self, command: str, *, host: str | None = None) -> dict[str, str]:
        """An answer of its own console, first column to second; asyncpg can't talk to it."""
        secret = "" if self.password is None else ":" + quote(self.password, safe="")
        at = quote(host or self.admin_host, safe="")
        done = subprocess.run(
            [
                str(postgres_bin(self.server.version) / "psql"),
                *("-XAtq", "-F", "\t", "-c", command),
                f"postgresql://{ROLE}{secret}@{at}:{self.port}/pgbouncer",
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise NotStarted(f"{command}: {done.stderr}")
        rows = [line.split("\t") for line in done.stdout.splitlines()]
        return {row[0]: row[1] if len(row) > 1 else "" for row in rows}
