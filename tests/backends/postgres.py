"""A Postgres server of our own: 18, or 17 with TLS."""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import signal
import subprocess
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

import asyncpg

from tests.backends import ports
from tests.backends.apart import apart
from tests.backends.binaries import postgres_bin, postgres_user
from tests.backends.child import Child, NotStarted, drop_folder, new_folder
from tests.backends.tls import Certificates

ROLE = "stepwell"
START_TRIES_MAX = 5

# What a test server can do without: little memory, no work that nobody asked for.
QUIET: dict[str, str] = {
    "shared_buffers": "32MB",
    "autovacuum_naptime": "1h",
    # In the data folder instead of /dev/shm: it goes with the folder, and containers have little.
    "dynamic_shared_memory_type": "mmap",
    "max_wal_size": "1GB",
    "wal_init_zero": "off",
    "log_min_messages": "warning",
    "logging_collector": "off",
}

_initialised: dict[int, Path] = {}
_numbers = itertools.count(1)


def own(path: Path) -> None:
    """Gives a file or folder to whom Postgres runs as."""
    user = postgres_user()
    if user is not None:
        entry = pwd.getpwnam(user)
        os.chown(path, entry.pw_uid, entry.pw_gid)


def run_tool(version: int, name: str, *arguments: str | Path) -> None:
    """Runs one of Postgres' programs as its user; what it said is in the error."""
    user = postgres_user()
    done = subprocess.run(
        [postgres_bin(version) / name, *arguments],
        user=user,
        group=None if user is None else pwd.getpwnam(user).pw_gid,
        extra_groups=None if user is None else [],
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
        folder = new_folder(f"pg{version}-init")
        own(folder)
        run_tool(
            version,
            "initdb",
            *("-D", folder / "data", "--username", ROLE, "--auth", "trust", "--no-sync"),
            *("--encoding", "UTF8", "--locale", "C", "--no-instructions"),
        )
        _initialised[version] = folder / "data"
    return _initialised[version]


def _copy(source: Path, target: Path) -> None:
    """`cp -a` keeps owners and modes, and shares blocks where the file system can."""
    subprocess.run(["cp", "-a", "--reflink=auto", source, target], check=True)


class Postgres:
    """One server in a folder of its own, on a private socket and a loopback port.

    `password` is asked for over TCP (scram-sha-256); without one anybody is let in. Over the
    private socket nobody is asked. With `tls` (17 only) TCP is refused without it.
    """

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
        folder: Path | None = None,
        standby_of: Postgres | None = None,
    ) -> None:
        self.version = version
        self.password = password
        self.folder = new_folder(f"pg{version}") if folder is None else folder
        self.data = self.folder / "data"
        self.log = self.folder / "postgres.log"
        self.certificates: Certificates | None = None
        self.settings: dict[str, str] = {
            **QUIET,
            "fsync": "on" if fsync else "off",
            "synchronous_commit": synchronous_commit,
            "max_connections": str(max_connections),
            **(settings or {}),
        }
        self.port = ports.reserve()
        self.proof = ""
        self._child: Child | None = None
        own(self.folder)
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
        own(self.certificates.key)
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
        lines = [f"{key} = '{value}'\n" for key, value in self.settings.items()]
        (self.data / "postgresql.conf").write_text("".join(lines))

    # Its life

    @property
    def pid(self) -> int:
        return self._alive.pid

    @property
    def _alive(self) -> Child:
        assert self._child is not None, "not started"
        return self._child

    @property
    def running(self) -> bool:
        return self._child is not None and self._child.running

    def start(self) -> Self:
        """Starts it and proves that it is this one that answers; a second call does nothing."""
        if self.running:
            return self
        first = self._child is None
        for left in reversed(range(START_TRIES_MAX)):
            try:
                self._start_once()
                break
            except NotStarted as error:
                # Before anybody was told the port, another one is as good.
                if not first or not left or "could not bind" not in str(error):
                    raise
                ports.release(self.port)
                self.port = ports.reserve()
        if first and self.password is not None and not self.is_standby():
            self.execute(f"ALTER ROLE {ROLE} PASSWORD '{self.password}'")
        return self

    def _start_once(self) -> None:
        self._write_settings()
        (self.data / "postmaster.pid").unlink(missing_ok=True)
        self.proof = f"stepwell-{uuid.uuid4().hex}"
        self._child = Child(
            [
                str(postgres_bin(self.version) / "postgres"),
                *("-D", str(self.data), "-p", str(self.port), "-k", str(self.folder)),
                *("-c", "listen_addresses=127.0.0.1", "-c", f"cluster_name={self.proof}"),
            ],
            folder=self.folder,
            log=self.log,
            user=postgres_user(),
        )
        self._child.wait_until(self._says_ready, f"Postgres {self.version}")
        self.prove()

    def _says_ready(self) -> bool:
        """The eighth line of the pid file is the postmaster's own word on its state."""
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
        except OSError:
            return False
        return len(lines) > 7 and lines[7].strip() in ("ready", "standby")

    def prove(self) -> None:
        """Both ways in lead to this very process: it knows its folder and today's password."""
        for host in (str(self.folder), "127.0.0.1"):
            if host == "127.0.0.1" and (self.password is not None or self.certificates):
                continue
            rows = self.fetch(
                "SELECT current_setting('data_directory'), current_setting('cluster_name')",
                host=host,
            )
            found = tuple(rows[0])
            if found != (str(self.data), self.proof):
                raise NotStarted(f"another Postgres answers at {host}:{self.port}: {found}")

    def stop(self) -> None:
        """A fast shutdown: open transactions are rolled back, and all is flushed."""
        if self._child is not None:
            self._child.stop(signal.SIGINT)

    def kill(self) -> None:
        """SIGKILL to all of it at once; what was flushed is there after the next start."""
        self._alive.kill()

    def restart(self, *, kill: bool = False, settings: Mapping[str, str] | None = None) -> None:
        """Down and up again at the same place, with its data, and changed settings if given."""
        if kill:
            self.kill()
        else:
            self.stop()
        self.settings |= settings or {}
        self.start()

    def freeze(self) -> None:
        """SIGSTOP: connections stay open, new ones are taken by the kernel, nobody answers."""
        self._alive.freeze()

    def thaw(self) -> None:
        self._alive.thaw()

    def close(self) -> None:
        """Its end, with its folder and its port."""
        if self._child is not None:
            self._child.kill()
        drop_folder(self.folder)
        ports.release(self.port)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    # What is in it

    def url(
        self,
        database: str = "postgres",
        *,
        user: str = ROLE,
        password: str | None = None,
        socket: bool = False,
        port: int | None = None,
        scheme: str = "postgresql",
        **options: str,
    ) -> str:
        """How to reach a database: over TCP, or its private socket; `port` may be a proxy's."""
        secret = self.password if password is None else password
        who = quote(user, safe="") + ("" if secret is None else f":{quote(secret, safe='')}")
        if socket:
            options = {"host": str(self.folder), "port": str(port or self.port), **options}
        query = "&".join(f"{key}={quote(value)}" for key, value in options.items())
        where = "" if socket else f"127.0.0.1:{port or self.port}"
        return f"{scheme}://{who}@{where}/{quote(database)}" + (query and f"?{query}")

    def fetch(
        self, sql: str, *arguments: object, database: str = "postgres", host: str | None = None
    ) -> list[asyncpg.Record]:
        """Rows of one statement, over a connection of its own."""

        async def ask() -> list[asyncpg.Record]:
            connection: Any = await asyncpg.connect(
                host=host or str(self.folder),
                port=self.port,
                user=ROLE,
                database=database,
                ssl=False,
                timeout=30,
            )
            try:
                return await connection.fetch(sql, *arguments)
            finally:
                await connection.close()

        return apart(ask)

    def execute(self, sql: str, *arguments: object, database: str = "postgres") -> None:
        self.fetch(sql, *arguments, database=database)

    def new_database(self, *, template: str = "template0") -> str:
        """The name of a database just made; a template of one's own must have no connections."""
        name = f"test_{os.getpid()}_{next(_numbers)}"
        self.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
        return name

    def drop_database(self, name: str) -> None:
        """Connections that are left are cut."""
        self.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

    def is_standby(self) -> bool:
        return (self.data / "standby.signal").exists()

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
        shutil.rmtree(_initialised.popitem()[1].parent, ignore_errors=True)
