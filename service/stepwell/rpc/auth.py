"""Authenticates callers by tokens, which are kept as hashes only.

The first start writes a token into a file that only the server's user can read, so that the service
is protected and clients on the same machine need no configuration.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from stepwell.config import AuthSettings, SettingsRefused, StaticToken
from stepwell.core.port import Principal, Runtime
from stepwell.core.records.aggregates import TENANT_ENDINGS, is_kept_apart
from stepwell.core.records.errors import Unauthenticated
from stepwell.core.records.limits import NAME_CHARS_MAX
from stepwell.logger import get_logger
from stepwell.rpc import scopes

log = get_logger(__name__)

METADATA_KEY = "authorization"
MINTED_TENANT = "default"
MINTED_SUBJECT = "local"
_SCHEME = "bearer"
_TOKEN_CHARS_MIN = 16
_TOKEN_CHARS_MAX = 4_096
_SHA256_HEX = re.compile(r"^[0-9a-fA-F]{64}$")
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class Credential(NamedTuple):
    """A token's hash, and the caller that the token proves."""

    digest: bytes
    principal: Principal
    expires_us: int = 0
    """0: never."""


class TokenAuthenticator:
    """The `Authenticator` port over a fixed set of tokens."""

    def __init__(self, credentials: Iterable[Credential], runtime: Runtime) -> None:
        self._credentials = tuple(credentials)
        self._runtime = runtime

    def authenticate(self, metadata: Mapping[str, str]) -> Principal:
        """Return the caller. All hashes are compared, each in constant time.

        Raises:
            Unauthenticated: the token is missing, invalid or expired.
        """
        return self.credential(bearer_token(metadata)).principal

    def credential(self, token: str) -> Credential:
        """Return the credential of a token.

        Raises:
            Unauthenticated: the token is invalid or expired.
        """
        digest = digest_of(token)
        matching: Credential | None = None
        for credential in self._credentials:
            if hmac.compare_digest(credential.digest, digest):
                matching = credential
        if matching is None or 0 < matching.expires_us <= self._runtime.now_us():
            raise Unauthenticated("the token is not valid here, or not any more")
        return matching

    def current(self) -> Iterator[Credential]:
        """Yield the credentials that have not expired."""
        now_us = self._runtime.now_us()
        return (one for one in self._credentials if not 0 < one.expires_us <= now_us)


def texts_of(metadata: Iterable[tuple[str, str | bytes]]) -> dict[str, str]:
    """Return the texts of a call's metadata by their keys.

    Raises:
        Unauthenticated: the call has more than one `authorization`, and a proxy in front may have checked another
            one than would count here.
    """
    texts: dict[str, str] = {}
    for key, value in metadata:
        if key == METADATA_KEY and key in texts:
            raise Unauthenticated("`authorization` came more than once; send one token")
        if isinstance(value, str):
            texts[key] = value
    return texts


def bearer_token(metadata: Mapping[str, str]) -> str:
    """Return the token of a call.

    Raises:
        Unauthenticated: the call has none.
    """
    scheme, _, token = metadata.get(METADATA_KEY, "").partition(" ")
    if scheme.lower() != _SCHEME or not token:
        raise Unauthenticated("no token came; send it as metadata `authorization: Bearer TOKEN`")
    return token


def open_authenticator(settings: AuthSettings, runtime: Runtime) -> TokenAuthenticator:
    """Return the authenticator that the settings describe; mints the token file if need be.

    Raises:
        SettingsRefused: a file is readable by others, a scope is unknown, or there would be no
            callers.
    """
    credentials = [_credential_of(one) for one in settings.tokens]
    if settings.mint:
        token = mint(settings.token_file, runtime)
        minted = Principal(MINTED_SUBJECT, MINTED_TENANT, scopes.ALL)
        credentials.append(Credential(digest_of(token), minted))
    if not credentials:
        raise SettingsRefused("auth.mint is off and auth.tokens is empty: nobody could call")
    return TokenAuthenticator(credentials, runtime)


def mint(
    path: Path, runtime: Runtime, event: str = "made a token, by which commands log in"
) -> str:
    """Return the token in the file, which the first start creates atomically.

    Raises:
        SettingsRefused: the file or its folder belongs to another user, or others can access it.
    """
    _make_folder(path.parent)
    if not path.is_symlink() and not path.exists():
        draft = path.with_name(f".{path.name}.{runtime.new_id()}")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        file = os.open(draft, flags, 0o600)
        try:
            os.fchmod(file, 0o600)
            os.write(file, f"stw_{runtime.new_token()}{runtime.new_token()}\n".encode())
            os.fsync(file)
            with suppress(FileExistsError):
                # If two servers start at once, one links first, and both then read the same token.
                os.link(draft, path)
                log.info(event, file=str(path))
        finally:
            os.close(file)
            draft.unlink()
    return read_token(path)


def read_token(path: Path) -> str:
    """Return the token in a file that others can't access.

    Raises:
        SettingsRefused: others can access the file, or it is missing or holds no token.
    """
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        why = error.strerror or str(error)
        raise SettingsRefused(f"the token file {path} can't be read: {why}") from None
    try:
        status = os.fstat(file)
        _refuse_open(path, status, "600", is_kind=stat.S_ISREG(status.st_mode))
        text = os.read(file, _TOKEN_CHARS_MAX + 2).decode("ascii", "replace").strip()
    finally:
        os.close(file)
    if not _TOKEN_CHARS_MIN <= len(text) <= _TOKEN_CHARS_MAX or not text.isprintable():
        raise SettingsRefused(
            f"the token file {path} holds no token of {_TOKEN_CHARS_MIN} to {_TOKEN_CHARS_MAX}"
            " characters; remove it, and a new one is made"
        )
    return text


def _make_folder(folder: Path) -> None:
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        status = folder.stat()
    except OSError as error:
        why = error.strerror or str(error)
        raise SettingsRefused(
            f"the folder {folder} can't be made: {why}; name another place in auth.token_file, or, with"
            " auth.mint = false and a console, in console.key_file"
        ) from None
    _refuse_open(folder, status, "700", is_kind=stat.S_ISDIR(status.st_mode))


def _refuse_open(path: Path, status: os.stat_result, mode: str, *, is_kind: bool) -> None:
    """Raise if the file is of the wrong kind, another user's, or accessible to others."""
    if not is_kind:
        raise SettingsRefused(f"{path} is not what it should be; move it away")
    if status.st_uid != os.geteuid():
        raise SettingsRefused(
            f"{path} belongs to user {status.st_uid} and this is user {os.geteuid()};"
            f" chown it, or name another place in auth.token_file"
        )
    if status.st_mode & _OTHERS:
        raise SettingsRefused(
            f"{path} has mode {stat.S_IMODE(status.st_mode):o}, so others can reach it;"
            f" run: chmod {mode} {path}"
        )


def _credential_of(one: StaticToken) -> Credential:
    unknown = one.scopes - scopes.ALL
    if unknown:
        raise SettingsRefused(
            f"auth.tokens: no scope {', '.join(sorted(unknown))};"
            f" there are {', '.join(sorted(scopes.ALL))}"
        )
    most = NAME_CHARS_MAX - max(map(len, TENANT_ENDINGS))
    if is_kept_apart(one.tenant) or len(one.tenant) > most:
        raise SettingsRefused(
            f"auth.tokens: tenant {one.tenant!r}: a tenant's name has at most {most} characters,"
            f" and doesn't end with {' or '.join(TENANT_ENDINGS)}, under which its threads and schedules are kept"
        )
    if one.token_file is not None:
        digest = digest_of(read_token(one.token_file))
    else:
        text = one.token_sha256.get_secret_value() if one.token_sha256 is not None else ""
        if not _SHA256_HEX.match(text):
            raise SettingsRefused("auth.tokens: token_sha256 is 64 hex digits")
        digest = bytes.fromhex(text)
    subject = one.name or f"token-{digest.hex()[:8]}"
    return Credential(digest, Principal(subject, one.tenant, one.scopes), one.expires_us)


def digest_of(token: str) -> bytes:
    """Return a token's hash."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
