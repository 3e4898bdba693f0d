"""A torn transaction at the end of Redis' log: nothing of it has happened, and all after it stays."""

from __future__ import annotations

import pytest

from tests.support.backends.redis import Redis
from tests.support.backends.redis_log import log_of

HALF = ("SET", "half", "of it")
WHOLE = [("MULTI",), HALF, ("SET", "other", "half"), ("EXEC",)]


def spelled(*commands: tuple[str, ...]) -> bytes:
    """As they stand in the log."""
    return b"".join(
        b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w.encode()) for w in words)
        for words in commands
    )


ALL = spelled(*WHOLE)
IN_A_COMMAND = len(spelled(*WHOLE[:2])) + 20
TORN = {
    "between its commands": ALL[: len(spelled(*WHOLE[:2]))],
    "in a command": ALL[:IN_A_COMMAND],
    "in its end": ALL[:-4],
    "by a hole": ALL[:IN_A_COMMAND] + bytes(20) + ALL[IN_A_COMMAND + 20 :],
}


def tear(server: Redis, end: bytes) -> None:
    """Kill it in the middle of its last write."""
    server.kill()
    with log_of(server.folder).open("ab") as file:
        file.write(end)


def held(server: Redis) -> dict[str, str]:
    return {name: server.execute("GET", name) for name in server.execute("KEYS", "*")}


@pytest.mark.parametrize("kind", ["redis", "valkey"])
def test_S1_S3_torn_transaction_leaves_nothing_and_what_follows_stays(kind: str) -> None:
    with Redis(kind, appendfsync="always") as server:
        kept: dict[str, str] = {}
        for where, end in TORN.items():
            tear(server, end)
            server.start()
            assert server.mended == len(kept) + 1, where
            assert held(server) == kept
            server.execute("SET", where, "acknowledged")
            kept[where] = "acknowledged"
            server.kill()
            server.start()
            assert held(server) == kept, where


@pytest.mark.parametrize("kind", ["redis", "valkey"])
def test_hole_in_a_value_is_read_as_the_value(kind: str) -> None:
    """Why the power cuts under Redis leave no holes: the log has no checksums, and nobody can tell."""
    with Redis(kind, appendfsync="always") as server:
        whole = spelled(("MULTI",), ("SET", "name", "x" * 2_000), ("EXEC",))
        tear(server, whole.replace(b"x" * 512, bytes(512), 1))
        server.start()
        assert held(server) == {"name": "\0" * 512 + "x" * 1_488}


def test_redis_left_to_itself_does_half_a_transaction() -> None:
    """Why it isn't: a Redis with which this fails has been mended, and may take its log as it is."""
    with Redis(appendfsync="always", settings={"aof-load-truncated": "yes"}) as server:
        tear(server, TORN["in a command"])
        server.start()
        assert held(server) == {}
        server.execute("SET", "after", "acknowledged")
        server.restart(kill=True)
        assert held(server) == {}
        tear(server, TORN["in a command"])
        server.start()
        script = "for _, key in ipairs(KEYS) do redis.call('SET', key, 'acknowledged') end"
        server.execute("EVAL", script, 2, "after", "more")
        server.restart(kill=True)
        assert held(server) == {"half": "of it", "after": "acknowledged", "more": "acknowledged"}
