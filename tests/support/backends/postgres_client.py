"""Addresses and databases of a Postgres server, be it ours or one's own."""

from __future__ import annotations

import ssl
import uuid
from typing import Any
from unittest import SkipTest
from urllib.parse import quote, unquote, urlsplit

import asyncpg

from tests.support.backends.apart import apart
from tests.support.patience import PATIENCE_S

ROLE = "stepwell"


class PostgresClient:
    """Addresses of one server, and plain calls over connections that last one statement."""

    host: str
    port: int
    user: str = ROLE
    password: str | None = None
    tls: ssl.SSLContext | bool = False
    # Where our own questions go: past passwords and TLS, if there is a way.
    admin_host: str

    def url(
        self,
        database: str = "postgres",
        *,
        user: str | None = None,
        password: str | None = None,
        socket: bool = False,
        port: int | None = None,
        scheme: str = "postgresql",
        **options: str,
    ) -> str:
        """Return the address of a database: over TCP, or its private socket; `port` may be a proxy's."""
        secret = self.password if password is None else password
        who = quote(user or self.user, safe="")
        who += "" if secret is None else f":{quote(secret, safe='')}"
        if socket:
            options = {"host": self.admin_host, "port": str(port or self.port), **options}
        query = "&".join(f"{key}={quote(value)}" for key, value in options.items())
        host = "127.0.0.1" if port else self.host
        where = "" if socket else f"{host}:{port or self.port}"
        return f"{scheme}://{who}@{where}/{quote(database)}" + (query and f"?{query}")

    def fetch(
        self, sql: str, *arguments: object, database: str = "postgres", host: str | None = None
    ) -> list[asyncpg.Record]:
        """Rows of one statement, over a connection of its own."""

        async def ask() -> list[asyncpg.Record]:
            connection: Any = await asyncpg.connect(
                host=host or self.admin_host,
                port=self.port,
                user=self.user,
                password=self.password,
                database=database,
                ssl=False if (host or self.admin_host).startswith("/") else self.tls,
                timeout=PATIENCE_S,
            )
            try:
                return await connection.fetch(sql, *arguments)
            finally:
                await connection.close()

        return apart(ask)

    def execute(self, sql: str, *arguments: object, database: str = "postgres") -> None:
        self.fetch(sql, *arguments, database=database)

    def new_name(self) -> str:
        """A name for a database or schema that nobody else has, in this process or another."""
        return f"test_{uuid.uuid4().hex[:12]}"

    def new_database(self, *, template: str = "template0") -> str:
        """The name of a database just made; a template of one's own must have no connections."""
        name = self.new_name()
        self.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
        return name

    def drop_database(self, name: str) -> None:
        """Connections that are left are cut."""
        self.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


class OwnPostgres(PostgresClient):
    """The one that `STEPWELL_TEST_POSTGRES_URL` names; it is not ours to stop."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.host = self.admin_host = parts.hostname or "127.0.0.1"
        self.port = parts.port or 5432
        self.user = unquote(parts.username or "postgres")
        self.password = unquote(parts.password) if parts.password is not None else None
        self._made: list[str] = []

    def new_database(self, *, template: str = "template0") -> str:
        self._made.append(super().new_database(template=template))
        return self._made[-1]

    def close(self) -> None:
        """Takes away the databases that were made in it."""
        while self._made:
            self.drop_database(self._made.pop())

    def _not_ours(self, *_: object, **__: object) -> Any:
        raise SkipTest("STEPWELL_TEST_POSTGRES_URL names a server that is not ours to stop")

    stop = kill = restart = freeze = thaw = standby = configure = _not_ours

    def start(self) -> OwnPostgres:
        return self
