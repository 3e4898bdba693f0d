"""`postgresql://` and `redis://` URLs: meaning, refusals, and passwords that never show."""

from __future__ import annotations

import copy
import pickle
import ssl
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell.core.records.errors import StoreRefused
from stepwell.core.records.states import Durability
from stepwell.store.opener import mask_url
from stepwell_drivers.redis.url import Address
from stepwell_drivers.redis.url import parse as parse_redis
from stepwell_drivers.sql.postgres.url import PARAMETERS, SOCKETS, parse
from tests.support.backends.tls import Certificates

SECRET = "hunter2hunter2"
BASE = f"postgresql://ann:{SECRET}@db.example.com/loops"
LISTEN = quote(f"postgresql://bob:{SECRET}@127.0.0.1:5433/loops?sslmode=disable", safe="")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("tls") / "made")


def refused(url: str) -> str:
    with pytest.raises(StoreRefused) as caught:
        (parse_redis if url.startswith(("redis", "valkey")) else parse)(url)
    chain = [caught.value, caught.value.__cause__]
    assert not any(SECRET in f"{one} {one!r}" for one in chain)
    assert caught.value.__cause__ is None or caught.value.__suppress_context__
    return caught.value.message


# --- what is meant ---


def test_the_parts_of_a_url_are_what_asyncpg_is_given() -> None:
    found = parse("postgresql://ann%40x:p%3Aq%2F@DB.example.com:6000/my%20loops")
    connect = found.connect
    assert (connect["host"], connect["port"]) == (["db.example.com"], [6000])
    assert (connect["user"], connect["database"]) == ("ann@x", "my loops")
    assert connect["password"]() == "p:q/"
    assert (connect["timeout"], connect["target_session_attrs"]) == (10.0, "any")
    assert found.schema == "stepwell"
    assert (found.pool_size, found.pooler, found.migrate) == (8, False, True)


TIMEOUTS = {
    "application_name": "stepwell",
    "statement_timeout": "7000",
    "lock_timeout": "300",
    "idle_in_transaction_session_timeout": "10000",
}


def test_timeouts_are_the_sessions_own_but_for_who_listens() -> None:
    found = parse(f"{BASE}?statement_timeout_ms=7000&lock_timeout_ms=300")
    assert found.connect["server_settings"] == TIMEOUTS
    assert found.listen_connect is not None
    assert found.listen_connect["host"] == found.connect["host"]
    assert set(found.listen_connect["server_settings"]) == {"application_name"}


def test_behind_a_pooler_no_session_is_relied_on() -> None:
    found = parse(f"{BASE}?pooler=transaction")
    assert found.pooler
    assert found.listen_connect is None
    assert found.connect["statement_cache_size"] == 0
    assert set(found.connect["server_settings"]) == {"application_name"}
    assert found.statement_timeout_ms > 0
    direct = parse(f"{BASE}?pooler=transaction&listen_url={LISTEN}").listen_connect
    assert direct is not None
    assert (direct["user"], direct["port"], direct["ssl"]) == ("bob", [5433], False)
    assert "statement_cache_size" not in direct


@pytest.mark.parametrize(
    ("url", "hosts", "ports", "attributes"),
    [
        ("postgresql:///d", list(SOCKETS), [5432] * 3, "any"),
        ("postgresql://u@/d?host=/run/pg&port=6001", ["/run/pg"], [6001], "any"),
        ("postgresql://u@/d?host=/run/pg:6001", ["/run/pg"], [6001], "any"),
        ("postgresql://u@%2Frun%2Fpg:6001/d", ["/run/pg"], [6001], "any"),
        ("postgresql://u@[2001:DB8::1]:77/d", ["2001:db8::1"], [77], "any"),
        ("postgresql://u@a:1,b/d?port=9", ["a", "b"], [1, 9], "read-write"),
        ("postgresql://u@/d?host=a:1&host=b:2", ["a", "b"], [1, 2], "read-write"),
        ("postgresql://u@a/d?host=b:2,c", ["a", "b", "c"], [5432, 2, 5432], "read-write"),
    ],
)
def test_hosts(url: str, hosts: list[str], ports: list[int], attributes: str) -> None:
    connect = parse(url).connect
    assert (connect["host"], connect["port"]) == (hosts, ports)
    assert connect["target_session_attrs"] == attributes


def test_a_password_may_stand_in_a_file_that_is_closed_to_others(tmp_path: Path) -> None:
    file = tmp_path / "pass"
    url = f"postgresql://u@h/d?passfile={file}"
    assert "passfile can't be read" in refused(url)
    file.touch(mode=0o644)
    assert "chmod 600" in refused(url)
    file.chmod(0o600)
    connect = parse(url).connect
    assert connect["passfile"] == str(file)
    assert "password" not in connect
    assert "a password and a passfile" in refused(f"{BASE}?passfile={file}")


def test_the_parts_of_a_redis_url_are_taken_as_they_are() -> None:
    short = parse_redis("redis://localhost")
    assert short.seeds == (Address("localhost", 6379),)
    assert (short.is_cluster, short.tls, short.database) == (False, None, 0)
    assert (short.prefix, short.partitions, short.wait) == ("stepwell", 0, 0)
    assert short.credentials.password is None
    place = parse_redis(
        "redis://me:a%2Fb%40c@[::1]:7000/3?prefix=x.y&partitions=5&wait=2&wait_ms=70"
        "&timeout_ms=900&connections=9&durability=power"
    )
    assert (place.seeds, place.name) == ((Address("::1", 7000),), "[::1]:7000")
    assert (place.credentials.user, place.credentials.password) == ("me", "a/b@c")
    assert (place.database, place.prefix, place.partitions) == (3, "x.y", 5)
    assert (place.wait, place.wait_ms, place.timeout_ms, place.connections) == (2, 70, 900, 9)
    assert place.durability is Durability.POWER
    cluster = parse_redis("redis+cluster://:pw@a:1,b:2,c")
    assert cluster.is_cluster
    assert cluster.seeds == (Address("a", 1), Address("b", 2), Address("c", 6379))


@pytest.mark.parametrize("password", ["a?b", "a/b", "a@b", "a?b/c@d"])
def test_a_password_that_was_not_encoded_is_taken_up_to_the_last_at(password: str) -> None:
    assert parse_redis(f"redis://:{password}@host:1").credentials.password == password


# --- TLS ---


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("postgresql://u@127.0.0.1/d", "prefer"),
        ("postgresql://u@localhost,[::1]/d", "prefer"),
        ("postgresql:///d", "prefer"),
        ("postgresql://u@h/d?sslmode=prefer", "prefer"),
        ("postgresql://u@h/d?sslmode=allow", "allow"),
        ("postgresql://u@h/d?sslmode=disable", False),
    ],
)
def test_modes_that_may_go_without(url: str, expected: object) -> None:
    assert parse(url).connect["ssl"] == expected


@pytest.mark.parametrize(
    ("query", "verify", "hostname"),
    [
        ("", ssl.CERT_NONE, False),
        ("?sslmode=require", ssl.CERT_NONE, False),
        ("?sslmode=require&sslrootcert={0}", ssl.CERT_REQUIRED, False),
        ("?sslmode=verify-ca&sslrootcert={0}", ssl.CERT_REQUIRED, False),
        ("?sslmode=verify-full&sslrootcert={0}", ssl.CERT_REQUIRED, True),
        ("?sslmode=verify-full&sslrootcert=system", ssl.CERT_REQUIRED, True),
        ("?sslmode=verify-full", ssl.CERT_REQUIRED, True),
        ("?sslmode=verify-full&sslcert={1}&sslkey={2}", ssl.CERT_REQUIRED, True),
    ],
)
def test_modes_that_encrypt(
    query: str, verify: ssl.VerifyMode, hostname: bool, files: Certificates
) -> None:
    context = parse(BASE + query.format(files.authority, files.certificate, files.key)).connect[
        "ssl"
    ]
    assert isinstance(context, ssl.SSLContext)
    assert (context.verify_mode, context.check_hostname) == (verify, hostname)
    assert context.minimum_version >= ssl.TLSVersion.TLSv1_2


@pytest.mark.parametrize(
    ("url", "checks"),
    [("rediss://localhost", True), ("rediss+cluster://localhost?ssl_cert_reqs=none", False)],
)
def test_a_secure_redis_url_checks_who_answers(url: str, *, checks: bool) -> None:
    tls = parse_redis(url).tls
    assert tls is not None
    assert tls.check_hostname is checks


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("?sslmode=on", "sslmode must be one of disable, allow"),
        ("?sslrootcert={0}", "sslmode=verify-full"),
        ("?sslmode=prefer&sslrootcert={0}", "sslrootcert does nothing"),
        ("?sslmode=disable&sslcert={0}", "sslcert does nothing"),
        ("?sslmode=require&sslkey={0}", "name that with sslcert"),
        ("?sslmode=verify-full&sslrootcert=/no/such", "sslrootcert can't be read: No such file"),
        ("?sslmode=verify-full&sslrootcert={1}", "sslrootcert can't be read"),
        ("?sslmode=verify-full&sslcert={0}&sslkey=/no/such", "sslcert and sslkey can't be used"),
        ("?sslmode=verify-full&sslcert={0}", "sslcert and sslkey can't be used"),
    ],
)
def test_files_that_say_nothing_are_refused(query: str, words: str, files: Certificates) -> None:
    assert words in refused(BASE + query.format(files.authority, files.key))


# --- what is refused ---

POSTGRES = [
    (f"postgres://u:{SECRET}@h/d", "write postgresql://"),
    (f"postgresql+asyncpg://u:{SECRET}@h/d", "write postgresql://"),
    (f"postgresql:u:{SECRET}@h/d", "write postgresql://"),
    (f"postgresql://u:{SECRET}@h", "names no database"),
    (f"postgresql://u:{SECRET}@h/", "names no database"),
    # A password with bare characters falls into other parts of the URL.
    (f"postgresql://u:x/{SECRET}@h/d", "percent-encode"),
    (f"postgresql://u:1/{SECRET}@h/d", "percent-encode"),
    (f"postgresql://u:{SECRET}?x@h/d", "percent-encode"),
    (f"postgresql://u:x?{SECRET}@h/d=1", "percent-encode"),
    (f"postgresql://u:1?{SECRET}@h=1", "names no database"),
    (f"postgresql://u:x#{SECRET}@h/d", "percent-encode"),
    (f"postgresql://u@h:{SECRET}/d", "percent-encode"),
    ("postgresql://u@h:0/d", "port"),
    ("postgresql://u@h:65536/d", "port"),
    ("postgresql://u@h:¹/d", "port"),
    ("postgresql://u@h;x/d", "malformed"),
    ("postgresql://u@[::1/d", "malformed"),
    ("postgresql://u@h,/d", "malformed"),
    ("postgresql://u@/d?host=", "malformed"),
    ("postgresql://u%00@h/d", "NUL"),
    ("postgresql://u@h/d%00", "NUL"),
    ("postgresql://u@h/d?passfile=%00", "NUL"),
    ("postgresql://u@h/d#x", "#"),
    ("postgresql://u@h/d?" + "&".join(f"host=h{n}" for n in range(17)), "more than 16"),
]
PARAMETER = [
    ("pool_size=1", "pool_size must be a number from 2 to 100"),
    ("pool_size=101", "pool_size must be"),
    ("pool_size=", "pool_size must be"),
    ("pool_size=٣", "pool_size must be"),
    ("port=0", "port must be"),
    ("connect_timeout_ms=99", "connect_timeout_ms must be a number from 100"),
    ("statement_timeout_ms=0", "statement_timeout_ms must be"),
    ("lock_timeout_ms=0", "lock_timeout_ms must be"),
    ("lock_timeout_ms=5000&statement_timeout_ms=5000", "less than statement_timeout_ms"),
    ("idle_in_transaction_timeout_ms=0", "idle_in_transaction_timeout_ms must be"),
    ("migrate=no", "migrate must be true or false"),
    ("pooler=session", "pooler must be transaction"),
    ("pooler=", "pooler must be transaction"),
    ("schema=", "schema must be"),
    ("schema=Big", "schema must be"),
    ("schema=pg_x", "schema must be"),
    ("schema=information_schema", "schema must be"),
    ('schema=a"b', "schema must be"),
    ("schema=" + "a" * 64, "schema must be"),
    ("schema=a&schema=b", "schema is given twice"),
    ("fsync=off", "unknown URL parameter 'fsync'; allowed: connect_timeout_ms, host"),
    ("options=-c%20fsync=off", "unknown URL parameter 'options'"),
    (f"password={SECRET}", "before the @"),
    (f"{SECRET}=1", "parameter that isn't known"),
    ("listen_url=127.0.0.1", "listen_url must be a postgresql:// URL"),
    ("listen_url=postgresql%3A%2F%2Fh%3Ax%2Fd", "listen_url: "),
    ("listen_url=postgresql%3A%2F%2Fh%2Fd%3Fschema%3Dx", "listen_url: unknown URL parameter"),
    ("listen_url=postgresql%3A%2F%2Fh%2Fd%3Flisten_url%3Dx", "listen_url: unknown"),
]
REDIS = [
    ("redis:/localhost", "no URL of a Redis"),
    ("valkey://localhost", "no URL of a Redis"),
    ("redis://", "names no host"),
    (f"redis://:{SECRET}@", "names no host"),
    (f"redis://:{SECRET}@host:0", "names no host"),
    (f"redis://:{SECRET}@host:99999", "names no host"),
    (f"redis://:{SECRET}@host,other", "too many hosts"),
    (f"redis://:{SECRET}@host/x", "the database's number"),
    (f"redis+cluster://:{SECRET}@host/1", "database 0 alone"),
    (f"redis://host?password={SECRET}", "is not known"),
    ("redis://host?wait=1&wait=2", "given twice"),
    ("redis://host?wait", "name=value"),
    ("redis://host?wait=-1", "wait must be a number"),
    ("redis://host?partitions=65", "from 1 to 64"),
    ("redis://host?prefix={x}", "prefix must be"),
    ("redis://host?durability=always", "durability must be one of"),
    ("redis://host?ssl_ca_certs=/x", "starts with rediss"),
    ("rediss://host?ssl_ca_certs=/nowhere/at/all", "TLS files can't be read"),
    ("rediss://host?ssl_cert_reqs=optional", "required or none"),
    (f"redis://host#{SECRET}", "no URL of a Redis"),
]


@pytest.mark.parametrize(
    ("url", "words"),
    [*POSTGRES, *((f"{BASE}?{query}", words) for query, words in PARAMETER), *REDIS],
)
def test_wrong_url_is_refused_with_a_reason(url: str, words: str) -> None:
    assert words in refused(url)


# --- secrets ---


def test_no_repr_shows_the_password() -> None:
    found = parse(f"{BASE}?listen_url={LISTEN}")
    values: list[Any] = [*found, *found.connect.values(), *(found.listen_connect or {}).values()]
    redis = parse_redis(f"redis://me:{SECRET}@host")
    for one in (found, found._asdict(), tuple(found), values, *values, redis):
        assert SECRET not in f"{one!r} {one}"
    assert found.shown == "postgresql://ann@db.example.com:5432/loops"
    assert f"{found!r}" == f"PostgresUrl('{found.shown}')"
    assert SECRET not in mask_url(f"{BASE}?pooler=transaction&listen_url={LISTEN}")


@pytest.mark.parametrize("act", [pickle.dumps, copy.copy])
def test_a_password_is_not_pickled_or_copied(act: Any) -> None:
    with pytest.raises(TypeError):
        act(parse(BASE).connect["password"])


@given(
    st.text(min_size=1, max_size=20).filter(lambda text: "\0" not in text),
    st.sampled_from(["{}", "?{}=1", "?schema={}", "?host={}", "/{}", "{}@h/d", ":{}", "?{}"]),
)
def test_any_text_is_read_or_refused(text: str, form: str) -> None:
    try:
        found = parse("postgresql://u@h/d" + form.format(text))
    except StoreRefused:
        return
    assert found.shown.isascii()


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1))
def test_a_percent_encoded_password_comes_out_as_it_was(text: str) -> None:
    found = parse(f"postgresql://{quote(text, safe='')}:{quote(text, safe='')}@h/d")
    assert found.connect["password"]() == text
    assert found.connect["user"] == text


def test_all_parameters_are_known_to_the_documentation() -> None:
    page = Path(__file__).resolve().parents[3] / "docs" / "operating.md"
    text = page.read_text(encoding="utf-8")
    assert [name for name in PARAMETERS if f"`{name}`" not in text] == []
