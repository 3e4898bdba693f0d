"""Parses `postgresql://` URLs.

Every refusal says what to do. No refusal repeats a part of the URL that could belong to an
unencoded password. The password becomes a callable (asyncpg takes one), so that no `repr` shows it.
Without a host, this machine's usual sockets are tried. TLS is the default for other machines;
`?sslmode=disable` declares the network as trusted.
"""

from __future__ import annotations

import re
import stat
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, quote, unquote

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from stepwell.core.records.errors import StoreRefused
from stepwell_drivers.sql.postgres.tls import Tls, context_of

SCHEMA = "stepwell"
"""The default schema, because other programs may also have tables named `events` and `tasks`."""
SCHEMA_CHARS_MAX = 63
PORT = 5_432
SOCKETS = ("/run/postgresql", "/var/run/postgresql", "/tmp")  # noqa: S108 - where servers have them
HOSTS_MAX = 16
PARAMETERS_MAX = 64
APPLICATION = "stepwell"

_FORMS = (
    "write postgresql://USER:PASSWORD@HOST:PORT/DATABASE, and percent-encode what isn't a letter or"
    " a digit in the user and the password"
)
_AUTHORITY = re.compile(r"(postgresql://(?:[^/?#]*@)?)([^/?#]*)(.*)", re.DOTALL)
_HOST = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9._-]{0,251}[A-Za-z0-9_])?")
_IPV6 = re.compile(r"[0-9A-Fa-f:.]+(%[A-Za-z0-9._-]+)?")
_PLACE = re.compile(r"(?P<host>\[[^\]]*\]|[^:]*)(?::(?P<port>[0-9]{1,5}))?")
_FOLDER = re.compile(r"(?P<host>/[^\0:]*)(?::(?P<port>[0-9]{1,5}))?")
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]*")


class _Number(NamedTuple):
    """A parameter that is a number."""

    default: int
    least: int
    most: int


_NUMBERS: dict[str, _Number] = {
    "connect_timeout_ms": _Number(10_000, 100, 120_000),
    "idle_in_transaction_timeout_ms": _Number(10_000, 1_000, 600_000),
    "lock_timeout_ms": _Number(2_000, 10, 60_000),
    # At least two: heartbeats use one.
    "pool_size": _Number(8, 2, 100),
    # The default for hosts without a port.
    "port": _Number(PORT, 1, 65_535),
    "statement_timeout_ms": _Number(15_000, 100, 600_000),
}
_CONNECTION = (
    "connect_timeout_ms",
    "host",
    "passfile",
    "port",
    "sslcert",
    "sslkey",
    "sslmode",
    "sslrootcert",
)
"""Parameters that a `listen_url` may have too."""
_STORE = (
    "idle_in_transaction_timeout_ms",
    "listen_url",
    "lock_timeout_ms",
    "migrate",
    "pool_size",
    "pooler",
    "schema",
    "statement_timeout_ms",
)
PARAMETERS = tuple(sorted(_CONNECTION + _STORE))
"""All parameters that may follow the `?`. Postgres' own settings could disable what the store promises."""


class Secret:
    """A password for asyncpg to call for; `repr` doesn't show it."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def __call__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return "Secret('***')"

    def __reduce__(self) -> str:
        raise TypeError("a password is not to be pickled or copied")


class PostgresUrl(NamedTuple):
    """A database that may hold a store, and how to connect to it."""

    connect: dict[str, Any]
    """Keyword arguments of `asyncpg.connect`."""
    schema: str
    pool_size: int
    """The most connections, besides those for heartbeats and for listening."""
    pooler: bool
    """True behind PgBouncer in transaction mode, where nothing outlasts a transaction."""
    listen_connect: dict[str, Any] | None
    """The same for the listening connection; None: poll the rows instead."""
    migrate: bool
    """False: the schema is checked and not changed."""
    statement_timeout_ms: int
    lock_timeout_ms: int
    idle_in_transaction_timeout_ms: int
    shown: str
    """The URL for people: user, hosts and database, without anything that could be a secret."""

    def __repr__(self) -> str:
        return f"PostgresUrl({self.shown!r})"


class _Server(NamedTuple):
    """A host, or the folder of a socket, and a port."""

    host: str
    port: int

    @property
    def is_local(self) -> bool:
        octets = self.host.split(".")
        loopback = len(octets) == 4 and octets[0] == "127" and all(map(str.isdecimal, octets))
        return self.host.startswith("/") or loopback or self.host in {"localhost", "::1"}

    @property
    def shown(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else quote(self.host, safe="/")
        return f"{host}:{self.port}"


class _Parts(NamedTuple):
    """The parts of a URL, with each parameter once."""

    url: URL
    servers: tuple[_Server, ...]
    given: dict[str, str]


def parse(url: str) -> PostgresUrl:
    """Return the database that the URL names.

    Raises:
        StoreRefused: the URL names no database, or asks for something that the store can't do.
    """
    parts = _take_apart(url, PARAMETERS)
    given = parts.given
    pooler = _choice(given, "pooler", ("", "transaction")) == "transaction"
    statement_ms = _number(given, "statement_timeout_ms")
    lock_ms = _number(given, "lock_timeout_ms")
    idle_ms = _number(given, "idle_in_transaction_timeout_ms")
    if lock_ms >= statement_ms:
        raise StoreRefused("lock_timeout_ms must be less than statement_timeout_ms")
    schema = _schema(given.get("schema", SCHEMA))
    connect = _connect_arguments(parts)
    listen: dict[str, Any] | None = None
    if "listen_url" in given:
        listen = _connect_arguments(_listen_parts(given["listen_url"]))
    elif not pooler:
        listen = dict(connect)
    if pooler:
        # A statement that was prepared on one server connection is unknown on the next.
        connect["statement_cache_size"] = 0
    else:
        connect["server_settings"] = connect["server_settings"] | {
            "statement_timeout": str(statement_ms),
            "lock_timeout": str(lock_ms),
            "idle_in_transaction_session_timeout": str(idle_ms),
        }
    return PostgresUrl(
        connect=connect,
        schema=schema,
        pool_size=_number(given, "pool_size"),
        pooler=pooler,
        listen_connect=listen,
        migrate=_choice(given, "migrate", ("true", "false")) == "true",
        statement_timeout_ms=statement_ms,
        lock_timeout_ms=lock_ms,
        idle_in_transaction_timeout_ms=idle_ms,
        shown=_shown(parts, schema),
    )


# --- taking a URL apart ---


def _take_apart(url: str, allowed: tuple[str, ...], what: str = "") -> _Parts:
    """Return the URL's parts; `what` names the URL in messages if it isn't the store's own."""
    found = _AUTHORITY.fullmatch(url)
    if found is None:
        raise StoreRefused(f"{what}this is no URL of a Postgres database; {_FORMS}")
    before, places, behind = found.groups()
    if "#" in behind:
        raise StoreRefused(f"{what}a # has no meaning in this URL; {_FORMS}")
    path, _, query = behind.partition("?")
    if "@" in path or path.count("/") > 1:
        raise StoreRefused(f"{what}there is an @ or a / where the database's name is; {_FORMS}")
    try:
        # make_url accepts one host only, and drops empty parameters.
        parts = make_url(before + path)
        decoded = [part or "" for part in (parts.username, parts.password, parts.database)]
        # A + is a +, as in libpq's URLs.
        pairs = parse_qsl(
            query.replace("+", "%2B"),
            keep_blank_values=True,
            strict_parsing=bool(query),
            errors="strict",
            max_num_fields=PARAMETERS_MAX,
        )
        "".join([*decoded, places]).encode()
    except (ArgumentError, ValueError):
        raise StoreRefused(f"{what}this is no URL of a Postgres database; {_FORMS}") from None
    if any("\0" in part for part in decoded):
        raise StoreRefused(f"{what}user, password and database have no NUL character")
    if not parts.database:
        raise StoreRefused(f"{what}the URL names no database; {_FORMS}")
    given, hosts = _parameters(pairs, allowed, what)
    named = [unquote(one) for one in places.split(",")] if places else []
    port = _number(given, "port")
    servers = tuple(_server(one, port, what) for one in (*named, *hosts))
    if len(servers) > HOSTS_MAX:
        raise StoreRefused(f"{what}more than {HOSTS_MAX} hosts are named")
    return _Parts(parts, servers or tuple(_Server(one, port) for one in SOCKETS), given)


def _listen_parts(url: str) -> _Parts:
    if not url.startswith("postgresql://"):
        raise StoreRefused(
            "listen_url must be a postgresql:// URL of its own, percent-encoded as a whole, that"
            " leads to the server past the pooler"
        )
    return _take_apart(url, _CONNECTION, "listen_url: ")


def _parameters(
    pairs: list[tuple[str, str]], allowed: tuple[str, ...], what: str
) -> tuple[dict[str, str], list[str]]:
    """Return the parameters by name, and the hosts among them; only `host` may be repeated."""
    given: dict[str, str] = {}
    hosts: list[str] = []
    for name, value in pairs:
        if name not in allowed:
            raise StoreRefused(f"{what}{_why_not(name)}; allowed: {', '.join(allowed)}")
        if "\0" in value:
            raise StoreRefused(f"{what}the URL parameter {name} holds a NUL character")
        if name == "host":
            hosts += value.split(",")
        elif name in given:
            raise StoreRefused(f"{what}the URL parameter {name} is given twice")
        else:
            given[name] = value
    return given, hosts


def _why_not(name: str) -> str:
    """Return why a parameter is refused, without an odd name, which may be the rest of a password."""
    if not re.fullmatch(r"[A-Za-z_]{1,40}", name):
        return "the URL has a parameter that isn't known"
    if name == "password":
        return (
            "a password doesn't stand behind the ?; write it before the @, in a passfile, or in"
            " PGPASSWORD"
        )
    return f"unknown URL parameter {name!r}"


def _server(text: str, port: int, what: str) -> _Server:
    """Return the host and port of a piece of the URL: `HOST`, `HOST:PORT`, `/FOLDER:PORT`."""
    found = (_FOLDER if text.startswith("/") else _PLACE).fullmatch(text)
    number = int(found["port"] or port) if found is not None else 0
    if found is None or not 0 < number <= 65_535:
        raise StoreRefused(f"{what}a host or its port is malformed; {_FORMS}")
    host = found["host"]
    if host.startswith("/"):
        return _Server(host, number)
    if host.startswith("[") and _IPV6.fullmatch(host[1:-1]):
        return _Server(host[1:-1].lower(), number)
    if _HOST.fullmatch(host):
        return _Server(host.lower(), number)
    raise StoreRefused(f"{what}a host or its port is malformed; {_FORMS}")


# --- what they mean ---


def _connect_arguments(parts: _Parts) -> dict[str, Any]:
    given, servers = parts.given, parts.servers
    mode = given.get("sslmode")
    if mode is None:
        if "sslrootcert" in given or "sslcert" in given:
            raise StoreRefused("sslrootcert and sslcert need an sslmode; write sslmode=verify-full")
        mode = "prefer" if all(one.is_local for one in servers) else "require"
    files = (given.get(name, "") for name in ("sslrootcert", "sslcert", "sslkey"))
    # Of several servers, use the one that accepts writes; a single server is checked later, with a
    # better message than asyncpg's.
    several = len(servers) > 1 and not all(one.host.startswith("/") for one in servers)
    arguments: dict[str, Any] = {
        "host": [one.host for one in servers],
        "port": [one.port for one in servers],
        "database": parts.url.database,
        "ssl": context_of(Tls(mode, *files)),
        "timeout": _number(given, "connect_timeout_ms") / 1_000,
        "server_settings": {"application_name": APPLICATION},
        "target_session_attrs": "read-write" if several else "any",
    }
    if parts.url.username:
        arguments["user"] = parts.url.username
    if parts.url.password:
        if "passfile" in given:
            raise StoreRefused("the URL has a password and a passfile; leave one of them out")
        arguments["password"] = Secret(str(parts.url.password))
    elif "passfile" in given:
        arguments["passfile"] = _passfile(given["passfile"])
    return arguments


def _passfile(name: str) -> str:
    """Return the file's path if asyncpg would read it: asyncpg silently ignores others."""
    path = Path(name).expanduser()
    try:
        mode = path.stat().st_mode
    except (OSError, RuntimeError) as error:
        raise StoreRefused(f"passfile can't be read: {type(error).__name__}") from None
    if not stat.S_ISREG(mode) or mode & 0o077:
        raise StoreRefused("passfile must be a regular file that is closed to others (chmod 600)")
    return str(path)


def _number(given: dict[str, str], name: str) -> int:
    number = _NUMBERS[name]
    value = given.get(name, str(number.default))
    if value.isascii() and value.isdecimal() and len(value) <= 6:
        found = int(value)
        if number.least <= found <= number.most:
            return found
    raise StoreRefused(f"{name} must be a number from {number.least} to {number.most}")


def _choice(given: dict[str, str], name: str, allowed: tuple[str, str]) -> str:
    """Return one of two words; the first is the default."""
    value = given.get(name, allowed[0])
    if name in given and (value not in allowed or not value):
        raise StoreRefused(f"{name} must be {' or '.join(one for one in allowed if one)}")
    return value


def _schema(name: str) -> str:
    reserved = name.startswith("pg_") or name == "information_schema"
    if _SCHEMA.fullmatch(name) and len(name) <= SCHEMA_CHARS_MAX and not reserved:
        return name
    raise StoreRefused(
        f"schema must be a name of small letters, digits and _, of at most {SCHEMA_CHARS_MAX}"
        " characters, that doesn't begin with a digit or pg_"
    )


def _shown(parts: _Parts, schema: str) -> str:
    user = f"{quote(parts.url.username, safe='')}@" if parts.url.username else ""
    places = ",".join(one.shown for one in parts.servers)
    query = f"?schema={schema}" if schema != SCHEMA else ""
    return f"postgresql://{user}{places}/{quote(parts.url.database or '', safe='')}{query}"
