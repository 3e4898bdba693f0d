"""Parses `grpc://` and `grpcs://` URLs of Store services.

No refusal repeats the URL, because it may hold a secret.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit

from stepwell.core.records.errors import StoreRefused
from stepwell_client.tls import ClientTls, FilesRefused

TIMEOUT_MS = 30_000
TIMEOUT_MS_MIN = 100
TIMEOUT_MS_MAX = 600_000
TLS_PARAMETERS = ("tls_ca", "tls_cert", "tls_key", "tls_name")
"""Parameters of `grpcs://` URLs; the environment (`STEPWELL_TLS_CA` and so on) supplies those that are missing."""
PARAMETERS = ("insecure_allow_remote", "timeout_ms", "token_file", *TLS_PARAMETERS)
"""All parameters that may follow the `?`."""
SOCKET_PATH_BYTES_MAX = 107
"""The longest path that Linux accepts; gRPC would cut a longer one, or refuse it without a clear message."""

_FORMS = "write grpcs://HOST:PORT, grpc://HOST:PORT, or grpc:///PATH for a Unix socket"
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\]")


class Place(NamedTuple):
    """A Store service, and how to connect to it."""

    target: str
    """The address as gRPC takes it."""
    name: str
    """For people: `HOST:PORT`, or the socket's path."""
    timeout_ms: int
    """The time that one call may take."""
    token_file: Path | None
    """The named token file, or None."""
    tls: ClientTls | None = None
    wants_token: bool = False
    """True if the service is on another machine, where only a token that was named for it may be sent."""


def parse(url: str, environ: Mapping[str, str] | None = None) -> Place:
    """Return the service that the URL names.

    Raises:
        StoreRefused: the URL names no service; or one on another machine without TLS and without
            `insecure_allow_remote`; or a TLS file can't be used.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise StoreRefused(f"this is no URL of a Store service; {_FORMS}") from error
    is_secure = parts.scheme == "grpcs"
    if not url.startswith(("grpc://", "grpcs://")) or parts.fragment:
        raise StoreRefused(f"this is no URL of a Store service; {_FORMS}")
    if "@" in parts.netloc:
        raise StoreRefused("a token does not stand in the URL; name its file with ?token_file=PATH")
    given = _parameters(parts.query)
    timeout_ms = _timeout_ms(given.get("timeout_ms", str(TIMEOUT_MS)))
    token_file = _path(given.get("token_file", ""))
    for parameter in TLS_PARAMETERS:
        if parameter in given and not (is_secure and parts.netloc):
            raise StoreRefused(f"{parameter} is for TLS, and so for grpcs://HOST:PORT")
    if not parts.netloc:
        path = _socket(parts.path)
        return Place(f"unix:{quote(path)}", path, timeout_ms, token_file)
    name = _address(parts, port)
    allowed = given.get("insecure_allow_remote", "false")
    if allowed not in {"true", "false"}:
        raise StoreRefused("insecure_allow_remote must be true or false")
    must_be_safe = allowed == "false" and not _is_local(name.rpartition(":")[0])
    if must_be_safe and not is_secure:
        raise StoreRefused(
            f"{name} is not on this machine, and a token and all rows would travel there in clear"
            " text; write grpcs:// for TLS, use a tunnel, or take the risk with"
            " ?insecure_allow_remote=true"
        )
    tls = _tls(given, os.environ if environ is None else environ) if is_secure else None
    return Place(f"dns:///{name}", name, timeout_ms, token_file, tls, must_be_safe)


def _tls(given: Mapping[str, str], environ: Mapping[str, str]) -> ClientTls:
    ca, cert, key, name = (
        given.get(one) or environ.get(f"STEPWELL_{one.upper()}", "") for one in TLS_PARAMETERS
    )
    try:
        return ClientTls(authority=_path(ca), certificate=_path(cert), key=_path(key), name=name)
    except FilesRefused as error:
        raise StoreRefused(f"TLS: {error}") from None


def _path(text: str) -> Path | None:
    return Path(text).expanduser() if text else None


def _address(parts: SplitResult, port: int | None) -> str:
    host = parts.netloc.rpartition(":")[0]
    if not _HOST.fullmatch(host) or not port:
        raise StoreRefused(f"the URL names no host with a port; {_FORMS}")
    if parts.path not in {"", "/"}:
        raise StoreRefused(f"behind host and port there is no path; {_FORMS}")
    return f"{host.lower()}:{port}"


def _socket(path: str) -> str:
    path = unquote(path)
    if path.strip("/") == "" or "\0" in path:
        raise StoreRefused(f"the URL names neither a host nor a socket; {_FORMS}")
    path = "/" + path.lstrip("/")
    if len(path.encode("utf-8", "surrogateescape")) > SOCKET_PATH_BYTES_MAX:
        raise StoreRefused(
            f"the socket's path is longer than {SOCKET_PATH_BYTES_MAX} bytes, more than the"
            " system takes; use a shorter one"
        )
    return path


def _parameters(query: str) -> dict[str, str]:
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query))
    except ValueError as error:
        raise StoreRefused("what stands behind the ? is not of the form name=value") from error
    given = dict(pairs)
    unknown = sorted(given.keys() - set(PARAMETERS))
    if unknown:
        allowed = ", ".join(PARAMETERS)
        raise StoreRefused(f"unknown URL parameter {unknown[0]!r}; allowed: {allowed}")
    if len(given) != len(pairs):
        raise StoreRefused("a URL parameter is given twice")
    return given


def _timeout_ms(value: str) -> int:
    if value.isascii() and value.isdecimal() and len(value) <= 6:
        timeout_ms = int(value)
        if TIMEOUT_MS_MIN <= timeout_ms <= TIMEOUT_MS_MAX:
            return timeout_ms
    raise StoreRefused(f"timeout_ms must be a number from {TIMEOUT_MS_MIN} to {TIMEOUT_MS_MAX}")


def _is_local(host: str) -> bool:
    octets = host.split(".")
    loopback = len(octets) == 4 and octets[0] == "127" and all(part.isdecimal() for part in octets)
    return loopback or host in {"localhost", "[::1]"}
