"""The starters: a named server is used and left alone, and nothing outlives the process that started it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from unittest import SkipTest

import pytest

from tests.support.backends.child import until
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

OWNER = """
import json, sys
from tests.support.backends.postgres import Postgres
from tests.support.backends.redis import Redis
servers = [Postgres(fsync=False).start(), Redis("redis").start()]
print(json.dumps([[one.pid, str(one.folder)] for one in servers]), flush=True)
sys.stdin.read()
"""


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


def test_nothing_is_left_when_the_owner_is_killed() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", OWNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        servers = json.loads(owner.stdout.readline())
        folders = [Path(folder) for _, folder in servers]
        # The servers, their children, and the watchdog itself.
        pids = [pid for each, _ in servers for pid in (each, *children(each))]
        pids += children(owner.pid)
        owner.send_signal(signal.SIGKILL)
        assert until(lambda: not any(map(is_alive, pids)), PATIENCE_S)
        assert until(lambda: not any(folder.exists() for folder in folders), PATIENCE_S)
