"""Addresses and commands of a Redis or Valkey server, be it ours or one's own."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any
from unittest import SkipTest
from urllib.parse import quote, urlsplit

import redis

# An administrator of our own, whatever the users of a test may do.
WARDEN = "stepwell-warden"
WARDEN_PASSWORD = "warden"


class RedisClient:
    """Addresses of one server, and single commands."""

    port: int
    password: str | None = None

    def url(
        self,
        database: int | None = None,
        *,
        user: str | None = None,
        password: str | None = None,
        port: int | None = None,
        scheme: str = "redis",
        **options: str,
    ) -> str:
        """Return its address over TCP; `port` may be a proxy's."""
        secret = self.password if password is None else password
        who = quote(user or "", safe="")
        who += f":{quote(secret, safe='')}" if secret is not None else ""
        query = "&".join(f"{key}={quote(value, safe='/')}" for key, value in options.items())
        path = "" if database is None else str(database)
        slash = "/" if path or query else ""
        address = f"{who and who + '@'}127.0.0.1:{port or self.port}"
        return f"{scheme}://{address}{slash}{path}{query and '?' + query}"

    def admin(self) -> contextlib.AbstractContextManager[redis.Redis]:
        """A client that may do all; closed at the end of the block."""
        raise NotImplementedError

    def execute(self, *command: str | int) -> Any:
        """One command's answer."""
        with self.admin() as client:
            return client.execute_command(*command)

    def flush(self) -> None:
        """Nothing is left: no keys, no scripts."""
        with self.admin() as client:
            client.flushall()
            client.script_flush()


class OwnRedis(RedisClient):
    """The one that `STEPWELL_TEST_REDIS_URL` names; not ours to stop.

    Test processes that run at once each take a database number of their own.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0")
        self._url = parts._replace(path=f"/{int(worker.removeprefix('gw'))}").geturl()
        self.port = parts.port or 6379
        self.password = parts.password

    def url(self, *_: object, **__: object) -> str:
        return self._url

    @contextlib.contextmanager
    def admin(self) -> Iterator[redis.Redis]:
        with contextlib.closing(redis.Redis.from_url(self._url, decode_responses=True)) as client:
            yield client

    def flush(self) -> None:
        with self.admin() as client:
            client.flushdb()
            client.script_flush()

    def close(self) -> None:
        """Leaves it running, and this process's database empty."""
        self.flush()

    def _not_ours(self, *_: object, **__: object) -> Any:
        raise SkipTest("STEPWELL_TEST_REDIS_URL names a server that is not ours to stop")

    stop = kill = restart = freeze = thaw = replica = configure = _not_ours

    def start(self) -> OwnRedis:
        return self
