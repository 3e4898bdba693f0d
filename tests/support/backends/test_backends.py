"""The starters: each reaches its own server, which keeps its data, and ends with its owner."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import SkipTest

import pytest

from tests.support.backends import ports
from tests.support.backends.binaries import UNPRIVILEGED
from tests.support.backends.child import NotStarted, becoming, until
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
from tests.support.patience import PATIENCE_S

TOP = Path(__file__).parents[3]

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
        """Return true if all of it is gone, soon."""
        folders = [Path(folder) for folder in self.said["folders"]]
        return until(
            lambda: not any(map(is_alive, self.pids)) and not any(f.exists() for f in folders),
            PATIENCE_S,
        )


# Identity


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


def test_ports_are_not_given_out_twice() -> None:
    taken = [ports.reserve() for _ in range(20)]
    try:
        assert len(set(taken)) == 20
        assert not ports._take(taken[0])
    finally:
        for port in taken:
            ports.release(port)


# Its life


# Its ways in


# One's own


def test_named_server_is_used_and_not_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_missing_program_skips_unless_it_is_required(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(REQUIRE, "node")
    with pytest.raises(SkipTest, match="not here"):
        missing("pgbouncer", "not here")
    monkeypatch.setenv(REQUIRE, "node, pgbouncer")
    with pytest.raises(AssertionError, match="asks for pgbouncer"):
        missing("pgbouncer", "not here")


# Whoever runs it


def unprivileged() -> Sequence[str]:
    """Return the words before a command that an unprivileged user is to run."""
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


def test_nothing_is_left_when_the_owner_is_killed() -> None:
    owner = Owner()

    owner.process.send_signal(signal.SIGKILL)
    owner.process.communicate()

    assert len(owner.pids) > 6
    assert owner.nothing_left()
