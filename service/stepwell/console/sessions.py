"""Sessions of the page: codes that log in once, and keys that replace a token for some hours.

A key is signed with the server's secret and the hash of its token. No sessions are stored: keys
stay valid after a restart, and end with their token. The hash alone is not enough to make a key.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from stepwell.core.port import Principal, Runtime
from stepwell.core.records.errors import Unauthenticated
from stepwell.rpc.auth import Credential, TokenAuthenticator, bearer_token

KEY_PREFIX = "stws_"
KEY_S = 12 * 3600
CODE_S = 60
CODES_MAX = 64
"""The most unused codes; a further one ends the oldest."""
_TIME_BYTES = 8
_NOT_VALID = "the session is over: log in again"


class Code(NamedTuple):
    """An unused code."""

    credential: Credential
    until: float
    """Its expiry on the monotonic clock."""


class Sessions:
    """The `Authenticator` of the console's port, which accepts sessions' keys and the server's tokens."""

    def __init__(self, tokens: TokenAuthenticator, secret: bytes, runtime: Runtime) -> None:
        """`secret` is the same after a restart."""
        self._tokens = tokens
        self._secret = secret
        self._runtime = runtime
        self._codes: dict[str, Code] = {}

    def authenticate(self, metadata: Mapping[str, str]) -> Principal:
        """Return the caller, by a session's key or a token.

        Raises:
            Unauthenticated: there is neither, or it is no longer valid.
        """
        token = bearer_token(metadata)
        if not token.startswith(KEY_PREFIX):
            return self._tokens.credential(token).principal
        try:
            raw = bytes.fromhex(token.removeprefix(KEY_PREFIX))
        except ValueError:
            raise Unauthenticated(_NOT_VALID) from None
        expires_us = int.from_bytes(raw[:_TIME_BYTES], "big")
        if expires_us > self._runtime.now_us():
            for credential in self._tokens.current():
                if hmac.compare_digest(raw, self._signed(credential, expires_us)):
                    return credential.principal
        raise Unauthenticated(_NOT_VALID)

    def begin(self, credential: Credential) -> dict[str, Any]:
        """Return a new key and its bearer, in the page's form."""
        expires_us = self._runtime.now_us() + KEY_S * 1_000_000
        if credential.expires_us:
            expires_us = min(expires_us, credential.expires_us)
        who = credential.principal
        return {
            "key": KEY_PREFIX + self._signed(credential, expires_us).hex(),
            "expires": _shown(expires_us),
            "tenant": who.tenant_id,
            "subject": who.subject,
            "scopes": sorted(who.scopes),
        }

    def credential(self, metadata: Mapping[str, str]) -> Credential:
        """Return the credential of the request's token. A key is no token, so it can't prolong itself.

        Raises:
            Unauthenticated: the token is missing or invalid.
        """
        return self._tokens.credential(bearer_token(metadata))

    # --- codes ------------------------------------------------------------------------------------

    def new_code(self, credential: Credential) -> dict[str, Any]:
        """Return a code that logs in once, within a minute."""
        now = self._runtime.monotonic()
        waiting = [(code, one) for code, one in self._codes.items() if one.until > now]
        self._codes = dict(waiting[-(CODES_MAX - 1) :])
        code = self._runtime.new_token()
        self._codes[code] = Code(credential, now + CODE_S)
        return {"code": code, "expires": _shown(self._runtime.now_us() + CODE_S * 1_000_000)}

    def waits(self, code: str) -> bool:
        """Return whether a code can still be used."""
        found = self._codes.get(code)
        return found is not None and found.until > self._runtime.monotonic()

    def redeem(self, code: str) -> dict[str, Any]:
        """Use a code, and return the result of `begin`.

        Raises:
            Unauthenticated: the code was used, has expired, or is not this server's.
        """
        found = self._codes.pop(code, None)
        is_valid = found is not None and found.until > self._runtime.monotonic()
        if not is_valid or found is None or found.credential not in self._tokens.current():
            raise Unauthenticated(
                "the code was used already, or is older than a minute; run: stepwell console"
            )
        return self.begin(found.credential)

    def _signed(self, credential: Credential, expires_us: int) -> bytes:
        time = expires_us.to_bytes(_TIME_BYTES, "big")
        own = hmac.digest(self._secret, credential.digest, hashlib.sha256)
        return time + hmac.digest(own, b"a key of the console" + time, hashlib.sha256)


def _shown(moment_us: int) -> str:
    """Return a moment in a form for JavaScript and people."""
    moment = datetime.fromtimestamp(moment_us / 1_000_000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
