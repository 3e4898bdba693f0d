"""Sessions of the console: keys that end with their token, and codes that log in once."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import Any

import pytest

from stepwell.console.sessions import CODES_MAX, KEY_S, Sessions
from stepwell.core.port import Principal
from stepwell.core.records.errors import Unauthenticated
from stepwell.rpc.auth import Credential, TokenAuthenticator
from stepwell_testkit.environment.runtime import SkippingRuntime

SECRET = b"of the server"
ANA, BEN = "token-of-ana", "token-of-ben"


def credential(token: str, *, expires_us: int = 0) -> Credential:
    principal = Principal(token, f"tenant-{token}", frozenset({"run:read"}))
    return Credential(hashlib.sha256(token.encode()).digest(), principal, expires_us)


class Server:
    """A server's sessions; each start makes new ones over the same secret and clock."""

    def __init__(
        self,
        *credentials: Credential,
        secret: bytes = SECRET,
        runtime: SkippingRuntime | None = None,
    ) -> None:
        self.runtime = runtime or SkippingRuntime()
        tokens = TokenAuthenticator(credentials, self.runtime)
        self.sessions = Sessions(tokens, secret, self.runtime)

    def begin(self, token: str) -> dict[str, Any]:
        return self.sessions.begin(self.sessions.credential(bearer(token)))

    def subject(self, key: str) -> str:
        return self.sessions.authenticate(bearer(key)).subject

    def refuses(self, key: str) -> bool:
        with pytest.raises(Unauthenticated):
            self.sessions.authenticate(bearer(key))
        return True


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def test_key_stands_for_its_token_and_says_for_whom() -> None:
    server = Server(credential(ANA), credential(BEN))
    session = server.begin(BEN)
    assert server.subject(session["key"]) == BEN
    assert (session["tenant"], session["subject"]) == ("tenant-token-of-ben", BEN)
    assert session["scopes"] == ["run:read"]
    assert server.subject(ANA) == ANA, "a token is taken, too"


def test_key_is_valid_after_a_restart_and_ends_with_its_token() -> None:
    before = Server(credential(ANA), credential(BEN))
    key = before.begin(ANA)["key"]
    assert Server(credential(BEN), credential(ANA)).subject(key) == ANA
    assert Server(credential(BEN)).refuses(key)
    assert Server(credential(ANA), secret=b"another").refuses(key)


def test_key_ends_after_its_hours() -> None:
    server = Server(credential(ANA))
    session = server.begin(ANA)
    ends = datetime.fromisoformat(session["expires"])
    assert 0 <= KEY_S - (ends - datetime.now(UTC)).total_seconds() < 60
    server.runtime.skip((KEY_S - 60) * 1_000)
    assert server.subject(session["key"]) == ANA
    server.runtime.skip(60_000)
    assert server.refuses(session["key"])


def test_key_of_a_token_that_expires_ends_with_it() -> None:
    runtime = SkippingRuntime()
    expires_us = runtime.now_us() + 60_000_000
    server = Server(credential(ANA, expires_us=expires_us), runtime=runtime)
    session = server.begin(ANA)
    ends = datetime.fromisoformat(session["expires"])
    assert abs(ends.timestamp() - expires_us / 1_000_000) < 1
    runtime.skip(60_000)
    assert server.refuses(session["key"])


@pytest.mark.parametrize("change", ["time", "signature", "short", "no hex", "empty"])
def test_changed_key_is_refused(change: str) -> None:
    server = Server(credential(ANA))
    key: str = server.begin(ANA)["key"]
    changed = {
        "time": "stws_" + "0007" + key[9:],
        "signature": key[:-1] + ("0" if key[-1] != "0" else "1"),
        "short": key[:-2],
        "no hex": "stws_" + "x" * (len(key) - 5),
        "empty": "stws_",
    }
    assert server.refuses(changed[change])


def test_key_begins_no_session_and_makes_no_code() -> None:
    server = Server(credential(ANA))
    key = server.begin(ANA)["key"]
    with pytest.raises(Unauthenticated):
        server.sessions.credential(bearer(key))


def test_code_logs_in_once() -> None:
    server = Server(credential(ANA))
    code = server.sessions.new_code(credential(ANA))["code"]
    assert server.sessions.waits(code)
    assert server.subject(server.sessions.redeem(code)["key"]) == ANA
    assert not server.sessions.waits(code)
    with pytest.raises(Unauthenticated, match="stepwell console"):
        server.sessions.redeem(code)


def test_code_ends_after_a_minute() -> None:
    server = Server(credential(ANA))
    code = server.sessions.new_code(credential(ANA))["code"]
    server.runtime.skip(60_000)
    assert not server.sessions.waits(code)
    with pytest.raises(Unauthenticated):
        server.sessions.redeem(code)


def test_code_of_an_expired_token_logs_nobody_in() -> None:
    runtime = SkippingRuntime()
    mine = credential(ANA, expires_us=runtime.now_us() + 10_000_000)
    server = Server(mine, runtime=runtime)
    code = server.sessions.new_code(mine)["code"]
    runtime.skip(10_000)
    with pytest.raises(Unauthenticated):
        server.sessions.redeem(code)


def test_one_code_too_many_ends_the_oldest() -> None:
    server = Server(credential(ANA))
    codes = [server.sessions.new_code(credential(ANA))["code"] for _ in range(CODES_MAX + 1)]
    assert not server.sessions.waits(codes[0])
    assert all(server.sessions.waits(code) for code in codes[1:])
