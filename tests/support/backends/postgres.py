"""A Postgres server of our own: 18, or 17 with TLS."""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
import uuid
from collections.abc import Mapping
from pathlib import Path

from tests.support.backends.binaries import postgres_bin, postgres_user
from tests.support.backends.child import (
    Child,
    NotStarted,
    becoming,
    drop_folder,
    memory_folder,
    new_folder,
)
from tests.support.backends.postgres_client import ROLE, PostgresClient
from tests.support.backends.server import Server
from tests.support.backends.tls import Certificates

# What a test server can do without: little memory, no work that nobody asked for.
QUIET: dict[str, str] = {
    "shared_buffers": "32MB",
    "autovacuum_naptime": "1h",
    # In the data folder instead of /dev/shm: it goes with the folder, and containers have little.
    "dynamic_shared_memory_type": "mmap",
    "max_wal_size": "1GB",
    "log_min_messages": "warning",
    "logging_collector": "off",
    # Nobody is asked for a password there, so nobody else may come in.
    "unix_socket_permissions": "0700",
}

_initialised: dict[int, Path] = {}


def give_to_postgres(path: Path) -> None:
    """Gives a file or folder to whom Postgres runs as."""
    user = postgres_user()
    if user is not None:
        entry = pwd.getpwnam(user)
        os.chown(path, entry.pw_uid, entry.pw_gid)


def run_tool(version: int, name: str, *arguments: str | Path) -> None:
    """Runs one of Postgres' programs as its user; what it said is in the error."""
    done = subprocess.run(
        [*becoming(postgres_user()), postgres_bin(version) / name, *arguments],
        cwd="/",
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise NotStarted(f"{name} ended with {done.returncode}:\n{done.stdout}{done.stderr}")


def _initialised_data(version: int) -> Path:
    """A data folder just made, to be copied: a tenth of the time of another `initdb`."""
    if version not in _initialised:
        folder = new_folder(f"pg{version}-init", memory_folder())
        give_to_postgres(folder)
        run_tool(
            version,
            "initdb",
            *("-D", folder / "data", "--username", ROLE, "--auth", "trust", "--no-sync"),
            *("--encoding", "UTF8", "--locale", "C", "--no-instructions"),
        )
        _initialised[version] = folder / "data"
    return _initialised[version]


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _copy(source: Path, target: Path) -> None:
    """`cp -a` keeps owners and modes; what is only zeros takes no room, nor time."""
    subprocess.run(["cp", "-a", "--reflink=auto", "--sparse=always", source, target], check=True)


class Postgres(PostgresClient, Server):
    """One server in a folder of its own, on a private socket and a loopback port.

    `password` is asked for over TCP (scram-sha-256); without one anybody is let in. Over the
    private socket nobody is asked. With `tls` (17 only) TCP is refused without it. `settings` are
    the server's own; `inside` is the folder for its folder, on another disk maybe. Without
    `fsync` it needs none, and lives in memory where there is room.
    """

    # A fast shutdown: open transactions are rolled back.
    stop_signal = signal.SIGINT
    port_taken = "could not bind"

    def __init__(
        self,
        version: int = 18,
        *,
        fsync: bool = True,
        synchronous_commit: str = "on",
        max_connections: int = 100,
        password: str | None = None,
        tls: bool = False,
        settings: Mapping[str, str] | None = None,
        inside: Path | None = None,
        standby_of: Postgres | None = None,
    ) -> None:
        Server.__init__(
            self,
            f"pg{version}",
            inside=inside or (None if fsync else memory_folder()),
            settings={
                **QUIET,
                "fsync": "on" if fsync else "off",
                "synchronous_commit": synchronous_commit,
                "max_connections": str(max_connections),
                **(settings or {}),
            },
        )
        self.version = version
        self.password = password
        self.data = self.folder / "data"
        self.certificates: Certificates | None = None
        self.host = "127.0.0.1"
        self.admin_host = str(self.folder)
        self.proof = ""
        # A standby has its roles from the server that it follows.
        self._password_set = standby_of is not None
        give_to_postgres(self.folder)
        if standby_of is None:
            _copy(_initialised_data(version), self.data)
        else:
            run_tool(
                version,
                "pg_basebackup",
                *("-h", standby_of.folder, "-p", str(standby_of.port), "-U", ROLE),
                *("-D", self.data, "-R", "--checkpoint=fast", "--no-sync"),
            )
        if tls:
            self._set_up_tls()
        self._write_access("hostssl" if tls else "host")

    def _set_up_tls(self) -> None:
        self.certificates = Certificates(self.folder / "tls")
        self.tls = self.certificates.client_context()
        give_to_postgres(self.certificates.key)
        self.settings |= {
            "ssl": "on",
            "ssl_cert_file": str(self.certificates.certificate),
            "ssl_key_file": str(self.certificates.key),
        }

    def _write_access(self, host: str) -> None:
        method = "trust" if self.password is None else "scram-sha-256"
        (self.data / "pg_hba.conf").write_text(
            "local all all trust\n"
            "local replication all trust\n"
            f"{host} all all 127.0.0.1/32 {method}\n"
        )

    def _write_settings(self) -> None:
        lines = [f"{key} = {_literal(value)}\n" for key, value in self.settings.items()]
        (self.data / "postgresql.conf").write_text("".join(lines))

    def _launch(self) -> Child:
        self._write_settings()
        # What a killed one left says that it is ready, and the pid may be somebody else's by now.
        (self.data / "postmaster.pid").unlink(missing_ok=True)
        self.proof = f"stepwell-{uuid.uuid4().hex}"
        return Child(
            [
                str(postgres_bin(self.version) / "postgres"),
                *("-D", str(self.data), "-p", str(self.port), "-k", str(self.folder)),
                *("-c", "listen_addresses=127.0.0.1", "-c", f"cluster_name={self.proof}"),
            ],
            folder=self.folder,
            log=self.log,
            user=postgres_user(),
        )

    def _ready(self) -> bool:
        """The eighth line of the pid file is the postmaster's own word on its state."""
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
        except OSError:
            return False
        return len(lines) > 7 and lines[7].strip() in ("ready", "standby")

    def prove(self) -> None:
        """Both ways in lead to this very process: it knows its folder and this start's word."""
        if not self._password_set and self.password is not None:
            self.execute(f"ALTER ROLE {ROLE} PASSWORD {_literal(self.password)}")
            self._password_set = True
        for host in (self.admin_host, self.host):
            rows = self.fetch(
                "SELECT current_setting('data_directory'), current_setting('cluster_name')",
                host=host,
            )
            found = tuple(rows[0])
            if found != (str(self.data), self.proof):
                raise NotStarted(f"another Postgres answers at {host}:{self.port}: {found}")

    def standby(self, **settings: str) -> Postgres:
        """A second server that follows this one and takes no writes; not started yet."""
        return Postgres(
            self.version,
            password=self.password,
            fsync=self.settings["fsync"] == "on",
            max_connections=int(self.settings["max_connections"]),
            settings=settings,
            standby_of=self,
        )

    def configure(self, **settings: str) -> None:
        """Changes settings that need no restart; new connections see them."""
        self.settings |= settings
        self._write_settings()
        self.execute("SELECT pg_reload_conf()")


def forget_initialised() -> None:
    """Drops what was kept to be copied."""
    while _initialised:
        drop_folder(_initialised.popitem()[1].parent)
