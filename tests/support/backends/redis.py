"""A Redis 8.2 or Valkey 9 server of our own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.support.backends import ports, redis_log
from tests.support.backends.binaries import redis_program
from tests.support.backends.child import Child, NotStarted
from tests.support.backends.redis_client import WARDEN, WARDEN_PASSWORD, RedisClient
from tests.support.backends.server import Server


def _quoted(value: str) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


class Redis(RedisClient, Server):
    """One server in a folder of its own, on a private socket and a loopback port.

    `kind` is `redis` or `valkey`. `appendfsync` is `always`, `everysec`, `no`, or `None` for a
    server that keeps nothing. `users` are ACL rules by name. Neither build knows TLS: `Proxy` with
    certificates, in front of it, does. `settings` are the server's own; `inside` is the folder
    for its folder, on another disk maybe.

    A log that it refuses is mended at the next start, as its operator would.
    """

    port_taken = "ddress already in use"

    def __init__(
        self,
        kind: str = "redis",
        *,
        appendfsync: str | None = "always",
        maxmemory: str | None = None,
        maxmemory_policy: str = "noeviction",
        password: str | None = None,
        users: Mapping[str, str] | None = None,
        replica_of: Redis | None = None,
        cluster: bool = False,
        settings: Mapping[str, str] | None = None,
        inside: Path | None = None,
    ) -> None:
        Server.__init__(
            self,
            kind,
            inside=inside,
            settings={
                "save": "",
                "appendonly": "no" if appendfsync is None else "yes",
                "appendfsync": appendfsync or "no",
                **redis_log.SETTINGS,
                "maxmemory": maxmemory or "0",
                "maxmemory-policy": maxmemory_policy,
                # The log is rewritten, by a copy of the process, when a test asks for it.
                "auto-aof-rewrite-percentage": "0",
                "repl-diskless-sync-delay": "0",
                "enable-debug-command": "yes",
                **(settings or {}),
            },
        )
        self.kind = kind
        self.password = password
        self.socket = self.folder / "s"
        self.users = dict(users or {})
        self.cluster = cluster
        self.primary = replica_of
        self.bus_port = ports.reserve() if cluster else 0
        self.run_id = ""
        self.mended = 0

    def _lines(self) -> Iterator[str]:
        """Its configuration, rewritten at each start."""
        yield f"dir {self.folder}"
        yield f"unixsocket {self.socket}"
        yield "unixsocketperm 700"
        yield "bind 127.0.0.1"
        yield "protected-mode no"
        yield f"port {self.port}"
        if self.cluster:
            yield "cluster-enabled yes"
            yield f"cluster-port {self.bus_port}"
        if self.primary is not None:
            yield f"replicaof 127.0.0.1 {self.primary.port}"
        if self.primary is not None or self.cluster:
            yield f"masteruser {WARDEN}"
            yield f"masterauth {WARDEN_PASSWORD}"
        yield f"user {WARDEN} on >{WARDEN_PASSWORD} ~* &* +@all"
        if self.password is not None:
            yield f"requirepass {_quoted(self.password)}"
        for name, rules in self.users.items():
            yield f"user {name} {rules}"
        for key, value in self.settings.items():
            yield f"{key} {_quoted(value)}"

    def _launch(self) -> Child:
        configuration = self.folder / "redis.conf"
        configuration.write_text("".join(line + "\n" for line in self._lines()))
        # A killed server leaves its socket, at which nobody answers.
        self.socket.unlink(missing_ok=True)
        return Child(
            [str(redis_program(self.kind)), str(configuration)], folder=self.folder, log=self.log
        )

    def start(self) -> Self:
        try:
            return super().start()
        except NotStarted as error:
            if not redis_log.refuses(error):
                raise
        redis_log.mend(self.kind, self.folder)
        self.mended += 1
        return super().start()

    def _ready(self) -> bool:
        """Return true if it serves: while it loads its data it answers with an error."""
        if not self.socket.exists():
            return False
        try:
            with self.admin() as client:
                # Who waits looks again; by itself the client would, for seconds, at one that has ended.
                client.set_retry(Retry(NoBackoff(), 0))
                return bool(client.ping())
        except redis.ConnectionError:
            return False

    def _move(self) -> None:
        super()._move()
        ports.release(self.bus_port)
        self.bus_port = ports.reserve() if self.cluster else 0

    def prove(self) -> None:
        """Both ways in lead to this very process: it says its pid, and its run's name."""
        for client_at in (self.admin, self.admin_over_tcp):
            with client_at() as client:
                info: dict[str, Any] = client.info("server")
            if info["process_id"] != self.pid or info["tcp_port"] != self.port:
                raise NotStarted(f"another server answers at port {self.port}: {info}")
            self.run_id = info["run_id"]

    def close(self) -> None:
        super().close()
        ports.release(self.bus_port)

    def configure(self, **settings: str) -> None:
        """CONFIG SET now and after the next start; `_` stands for `-`."""
        changed = {key.replace("_", "-"): value for key, value in settings.items()}
        with self.admin() as client:
            for key, value in changed.items():
                client.config_set(key, value)
        self.settings |= changed

    def replica(self, **settings: str) -> Redis:
        """A second server that follows this one; not started yet."""
        return Redis(
            self.kind,
            password=self.password,
            appendfsync=self.settings["appendfsync"],
            replica_of=self,
            settings=settings,
        )

    def cut_off(self) -> None:
        """As a replica it gets nothing any more, and its primary goes on alone."""
        self.execute("CONFIG", "SET", "masteruser", "nobody")
        self.execute("CLIENT", "KILL", "TYPE", "master")

    def let_follow(self) -> None:
        """It may follow again, whom it did or another."""
        self.execute("CONFIG", "SET", "masteruser", WARDEN)

    @contextlib.contextmanager
    def admin(self) -> Iterator[redis.Redis]:
        client = redis.Redis(
            unix_socket_path=str(self.socket),
            username=WARDEN,
            password=WARDEN_PASSWORD,
            decode_responses=True,
        )
        with contextlib.closing(client):
            yield client

    @contextlib.contextmanager
    def admin_over_tcp(self) -> Iterator[redis.Redis]:
        client = redis.Redis(
            port=self.port,
            username=WARDEN,
            password=WARDEN_PASSWORD,
            decode_responses=True,
        )
        with contextlib.closing(client):
            yield client
