"""Parses `redis://` URLs. Every refusal says what to do.

No refusal repeats a part of the URL that could belong to an unencoded password. The password is
kept in an object whose `repr` hides it.
"""

from __future__ import annotations

import re
import ssl
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote

from stepwell.core.records.errors import StoreRefused
from stepwell.core.records.states import Durability

PORT = 6_379
SEEDS_MAX = 16
PREFIX = "stepwell"
PARTITIONS_MAX = 64
"""A feed cursor holds a position in each partition and must fit into a request."""
PARAMETERS = (
    "connections",
    "durability",
    "partitions",
    "prefix",
    "ssl_ca_certs",
    "ssl_cert_reqs",
    "ssl_certfile",
    "ssl_check_hostname",
    "ssl_keyfile",
    "timeout_ms",
    "wait",
    "wait_ms",
)
"""All parameters that may follow the `?`."""

_FORMS = (
    "write redis://USER:PASSWORD@HOST:PORT/DATABASE or redis+cluster://HOST:PORT,HOST:PORT (rediss…"
    " for TLS), and percent-encode what isn't a letter or a digit in the user and the password"
)
_SCHEMES = {
    "redis": (False, False),
    "rediss": (False, True),
    "redis+cluster": (True, False),
    "rediss+cluster": (True, True),
}
_PLACE = re.compile(
    r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,252}[A-Za-z0-9_])?)"
    r"(?::(?P<port>[0-9]{1,5}))?"
)
_PREFIX = re.compile(r"[A-Za-z0-9._-]{1,64}")


class _Number(NamedTuple):
    """A parameter that is a number."""

    default: int
    least: int
    most: int


_NUMBERS = {
    "connections": _Number(4, 1, 64),
    # 0: the store's own count, or the default for a new store.
    "partitions": _Number(0, 1, PARTITIONS_MAX),
    "timeout_ms": _Number(10_000, 100, 600_000),
    "wait": _Number(0, 0, 16),
    "wait_ms": _Number(5_000, 10, 600_000),
}


class Address(NamedTuple):
    """A server's host and port."""

    host: str
    port: int

    @property
    def name(self) -> str:
        """The name for people."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Credentials:
    """User and password; `repr` shows neither."""

    __slots__ = ("password", "user")

    def __init__(self, user: str, password: str | None) -> None:
        self.user = user
        self.password = password

    def __repr__(self) -> str:
        return "Credentials(***)"


class Place(NamedTuple):
    """A Redis, and how to connect to it."""

    seeds: tuple[Address, ...]
    """Any nodes of a cluster; otherwise the one server."""
    is_cluster: bool
    tls: ssl.SSLContext | None
    credentials: Credentials
    database: int
    prefix: str
    """All keys and channels start with it."""
    partitions: int
    """0: the count that the store was created with."""
    connections: int
    """The number of connections to each server."""
    timeout_ms: int
    """A server's silence for longer than this ends a connection."""
    wait: int
    """Replicas that must have a commit before it is acknowledged."""
    wait_ms: int
    durability: Durability | None
    """The class that the operator declares, for servers whose settings can't be read."""

    @property
    def name(self) -> str:
        """The name for people."""
        return ",".join(seed.name for seed in self.seeds)


def parse(url: str) -> Place:
    """Return the Redis that the URL names.

    Raises:
        StoreRefused: it names none, or has an unknown part.
    """
    scheme, separator, rest = url.partition("://")
    if not separator or scheme not in _SCHEMES or "#" in rest:
        raise StoreRefused(f"this is no URL of a Redis; {_FORMS}")
    is_cluster, with_tls = _SCHEMES[scheme]
    # A password may hold a bare `?` or `/`, so it ends at the last `@`.
    secret, at, behind = rest.rpartition("@")
    authority, mark, query = behind.partition("?")
    given = _parameters(query if mark else "")
    hosts, _, path = authority.partition("/")
    numbers = {name: _number(name, given) for name in _NUMBERS}
    return Place(
        seeds=_seeds(hosts, is_cluster=is_cluster),
        is_cluster=is_cluster,
        tls=_tls(given) if with_tls else _no_tls(given),
        credentials=_credentials(secret if at else ""),
        database=_database(path, is_cluster=is_cluster),
        prefix=_prefix(given.get("prefix", PREFIX)),
        durability=_durability(given.get("durability", "")),
        **numbers,
    )


def _parameters(query: str) -> dict[str, str]:
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query))
    except ValueError as error:
        raise StoreRefused("what stands behind the ? is not of the form name=value") from error
    given = dict(pairs)
    unknown = sorted(given.keys() - set(PARAMETERS))
    if unknown:
        allowed = ", ".join(PARAMETERS)
        # The name isn't repeated, because it may be the end of a password with a bare `?`.
        raise StoreRefused(f"a URL parameter is not known; allowed are: {allowed}")
    if len(given) != len(pairs):
        raise StoreRefused("a URL parameter is given twice")
    return given


def _number(name: str, given: dict[str, str]) -> int:
    default, least, most = _NUMBERS[name]
    text = given.get(name)
    if text is None:
        return default
    if text.isascii() and text.isdecimal() and len(text) < 9 and least <= int(text) <= most:
        return int(text)
    raise StoreRefused(f"{name} must be a number from {least} to {most}")


def _seeds(hosts: str, *, is_cluster: bool) -> tuple[Address, ...]:
    parts = hosts.split(",")
    if len(parts) > (SEEDS_MAX if is_cluster else 1):
        words = f"a cluster is named by at most {SEEDS_MAX} nodes, a single server by one"
        raise StoreRefused(f"the URL names too many hosts: {words}; {_FORMS}")
    found: list[Address] = []
    for part in parts:
        match = _PLACE.fullmatch(part)
        port = int(match["port"] or PORT) if match is not None else 0
        if match is None or not 0 < port < 65_536:
            raise StoreRefused(f"the URL names no host with a port; {_FORMS}")
        found.append(Address(match["host"].strip("[]"), port))
    return tuple(found)


def _credentials(secret: str) -> Credentials:
    user, colon, password = secret.partition(":")
    return Credentials(unquote(user), unquote(password) if colon else None)


def _database(path: str, *, is_cluster: bool) -> int:
    if not path:
        return 0
    if not (path.isascii() and path.isdecimal() and len(path) < 6):
        raise StoreRefused(f"behind the host stands the database's number and no more; {_FORMS}")
    if is_cluster and int(path):
        raise StoreRefused("a cluster has the database 0 alone; tell stores apart with ?prefix=")
    return int(path)


def _prefix(prefix: str) -> str:
    if _PREFIX.fullmatch(prefix):
        return prefix
    raise StoreRefused("the prefix must be 1 to 64 of the characters A-Z a-z 0-9 . _ -")


def _durability(word: str) -> Durability | None:
    if not word:
        return None
    known = {each.value.lower(): each for each in Durability}
    if word.lower() not in known:
        raise StoreRefused(f"durability must be one of {', '.join(known)}")
    return known[word.lower()]


def _no_tls(given: dict[str, str]) -> None:
    if any(name.startswith("ssl_") for name in given):
        raise StoreRefused("ssl_… parameters need a URL that starts with rediss")


def _tls(given: dict[str, str]) -> ssl.SSLContext:
    required = given.get("ssl_cert_reqs", "required")
    if required not in {"required", "none"}:
        raise StoreRefused("ssl_cert_reqs must be required or none")
    checked = given.get("ssl_check_hostname", "true").lower()
    if checked not in {"true", "false"}:
        raise StoreRefused("ssl_check_hostname must be true or false")
    try:
        context = ssl.create_default_context(cafile=given.get("ssl_ca_certs") or None)
        if given.get("ssl_certfile"):
            context.load_cert_chain(given["ssl_certfile"], given.get("ssl_keyfile") or None)
    except (OSError, ssl.SSLError) as error:
        words = f"the TLS files can't be read: {type(error).__name__}"
        raise StoreRefused(f"{words}; look at ssl_ca_certs, ssl_certfile and ssl_keyfile") from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if checked == "false" or required == "none":
        context.check_hostname = False
    if required == "none":
        context.verify_mode = ssl.CERT_NONE
    return context
