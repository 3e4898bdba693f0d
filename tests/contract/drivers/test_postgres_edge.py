"""Listening, a server's facts and TLS, with real servers."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from stepwell.core.port import Presence, Store
from stepwell.core.records.errors import (
    InvalidArgument,
    StoreError,
    StoreFull,
    StoreRefused,
    StoreUnavailable,
)
from stepwell.core.records.states import Durability
from stepwell.runtime import SystemRuntime
from stepwell_drivers.sql.postgres import open_store
from stepwell_drivers.sql.postgres.errors import refusal_of
from stepwell_drivers.sql.postgres.failure_log import Alarm
from stepwell_drivers.sql.postgres.listen import Listener
from stepwell_drivers.sql.postgres.server_settings import (
    FACTS,
    Facts,
    check,
    warn_if_weak,
    worth_of,
)
from stepwell_drivers.sql.postgres.url import parse
from stepwell_testkit.runtime import ManualRuntime
from tests.support.backends.postgres import Postgres
from tests.support.backends.shared import postgres_server
from tests.support.logs import capture_logs

WAIT_S = 30.0
PRESENCE = Presence(tenant_id="", worker_id="replica", instance_id="i", replica_id="r")
SHOWN = "postgresql://db:5432/loops"
# Quoted wrongly it would end the command, or be another name.
CHANNEL = 'hints "; DROP TABLE x; -- Ä'


@pytest.fixture(scope="module")
def server(backends: None) -> Any:
    return postgres_server(18)


@pytest.fixture(scope="module")
def tls_server(backends: None) -> Any:
    found = postgres_server(17, tls=True, password="p@ss/word?")
    if not isinstance(found, Postgres):
        pytest.skip("needs a server of its own, with TLS")
    return found


class Ear:
    """A listener, and what it was told."""

    def __init__(self, url: str, **options: Any) -> None:
        self.words: asyncio.Queue[str] = asyncio.Queue()
        self.gaps: asyncio.Queue[None] = asyncio.Queue()
        connect = parse(url).listen_connect
        assert connect is not None
        self.listener = Listener(
            connect,
            CHANNEL,
            SystemRuntime(),
            self.words.put_nowait,
            lambda: self.gaps.put_nowait(None),
            **options,
        )


@asynccontextmanager
async def listening(url: str, **options: Any) -> AsyncIterator[Ear]:
    ear = Ear(url, **options)
    ear.listener.start()
    try:
        async with asyncio.timeout(WAIT_S):
            await ear.listener.listening.wait()
            yield ear
    finally:
        await ear.listener.close()


async def until(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110 - nobody tells of it
        await asyncio.sleep(0.01)


def notify(server: Any, words: str) -> None:
    server.execute("SELECT pg_notify($1, $2)", CHANNEL, words)


def listeners(server: Any) -> int:
    """Return how many there are, with those that were let go and have not ended yet."""
    sql = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'stepwell'"
    return int(server.fetch(sql)[0][0])


# --- listening ---


@pytest.mark.usefixtures("backends")
async def test_a_silent_server_is_noticed_and_one_line_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answer_s = "stepwell_drivers.sql.postgres.listen.ANSWER_S"
    with Postgres(18) as server:
        async with listening(server.url(connect_timeout_ms="200"), ping_s=0.05) as ear:
            with capture_logs() as logs:
                monkeypatch.setattr(answer_s, 0.2)
                server.freeze()
                await until(lambda: not ear.listener.listening.is_set())
                # From here on a slow answer is no silence.
                monkeypatch.setattr(answer_s, WAIT_S)
                server.thaw()
                await ear.gaps.get()
                await asyncio.to_thread(notify, server, "thawed")
                assert await ear.words.get() == "thawed"
    said = [(line["log_level"], line["event"]) for line in logs]
    assert said.count(("warning", "not listening to the database")) == 1
    assert ("info", "listening to the database again") in said


async def test_an_ear_that_fails_goes_on_listening(server: Any) -> None:
    received: asyncio.Queue[str] = asyncio.Queue()

    def receive(word: str) -> None:
        received.put_nowait(word)
        raise RuntimeError("deaf")

    connect = parse(server.url()).listen_connect
    assert connect is not None
    listener = Listener(connect, CHANNEL, SystemRuntime(), receive, lambda: None)
    listener.start()
    try:
        with capture_logs() as logs:
            async with asyncio.timeout(WAIT_S):
                await listener.listening.wait()
                await asyncio.to_thread(notify, server, "one")
                await asyncio.to_thread(notify, server, "two")
                assert [await received.get(), await received.get()] == ["one", "two"]
        assert [line["log_level"] for line in logs] == ["error", "error"]
    finally:
        await listener.close()


async def test_closing_leaves_no_connection_and_no_task(server: Any) -> None:
    async with listening(server.url()) as ear:
        pass
    await ear.listener.close()
    before = {task.get_name() for task in asyncio.all_tasks()}
    assert "stepwell-listen" not in before
    async with asyncio.timeout(WAIT_S):
        await until(lambda: not listeners(server))


# --- facts ---


async def facts_of(url: str) -> Facts:
    connection: Any = await asyncpg.connect(**parse(url).connect)
    try:
        return Facts.of(await connection.fetchrow(FACTS))
    finally:
        await connection.close()


@pytest.mark.usefixtures("backends")
@pytest.mark.parametrize("version", [17, 18])
async def test_durability_follows_the_servers_settings(version: int) -> None:
    server = postgres_server(version)
    database = server.new_database()
    try:
        facts = await facts_of(server.url(database))
        check(facts, SHOWN)
        worth = worth_of(facts)
        assert worth.durability is Durability.POWER
        assert worth.detail.endswith("fsync=on, full_page_writes=on, synchronous_commit=on")
        server.execute(f'ALTER DATABASE "{database}" SET synchronous_commit = off')
        assert worth_of(await facts_of(server.url(database))).durability is Durability.VOLATILE
        server.execute(f'ALTER DATABASE "{database}" SET default_transaction_read_only = on')
        with pytest.raises(StoreRefused, match="default_transaction_read_only is on"):
            check(await facts_of(server.url(database)), SHOWN)
    finally:
        server.drop_database(database)


SOUND = Facts(
    version_num=180006,
    version="18.6",
    in_recovery=False,
    read_only=False,
    fsync=True,
    full_page_writes=True,
    synchronous_commit="on",
    synchronous_standby_names="",
    encoding="UTF8",
    schema="absent",
)


@pytest.mark.parametrize(
    ("changed", "durability", "words"),
    [
        ({}, Durability.POWER, "fsync=on"),
        ({"synchronous_commit": "local"}, Durability.POWER, "local"),
        ({"synchronous_commit": "off"}, Durability.VOLATILE, "crashes"),
        ({"synchronous_commit": "off", "fsync": False}, Durability.VOLATILE, "crashes"),
        ({"fsync": False}, Durability.PROCESS, "power cut"),
        ({"full_page_writes": False}, Durability.PROCESS, "half-written"),
        ({"synchronous_standby_names": "*"}, Durability.NODE, "standby"),
        (
            {"synchronous_standby_names": "*", "synchronous_commit": "remote_apply"},
            Durability.NODE,
            "standby",
        ),
        (
            {"synchronous_standby_names": "*", "synchronous_commit": "local"},
            Durability.POWER,
            "local",
        ),
        ({"synchronous_standby_names": "*", "fsync": False}, Durability.PROCESS, "power cut"),
    ],
)
def test_each_setting_has_its_worth(
    changed: dict[str, Any], durability: Durability, words: str
) -> None:
    with capture_logs() as logs:
        worth = worth_of(SOUND._replace(**changed))
        warn_if_weak(worth, SHOWN)

    assert worth.durability is durability
    assert words in worth.detail
    weak = durability in (Durability.VOLATILE, Durability.PROCESS)
    assert [line["log_level"] for line in logs] == (["warning"] if weak else [])
    assert all(line["todo"] for line in logs)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"version_num": 120020, "version": "12.20"}, "Postgres 12.20; a store needs 13"),
        ({"in_recovery": True, "read_only": True}, "is a standby"),
        ({"schema": "false"}, "GRANT USAGE ON SCHEMA"),
        ({"encoding": "SQL_ASCII"}, "ENCODING 'UTF8'"),
    ],
)
def test_unusable_server_is_refused(changed: dict[str, Any], words: str) -> None:
    with pytest.raises(StoreRefused, match=words):
        check(SOUND._replace(**changed), SHOWN)


# --- the alarm ---


def test_an_alarm_is_said_once_a_minute_for_each_reason() -> None:
    runtime = ManualRuntime()
    alarm = Alarm(SHOWN, runtime)
    with capture_logs() as logs:
        for _ in range(3):
            alarm.ring(StoreFull("make room"))
        alarm.ring(StoreUnavailable("down"))
        alarm.ring(InvalidArgument("the caller's own mistake"))
        runtime.advance(60_000)
        alarm.ring(StoreFull("make room"))

    assert [(line["reason"], line["unsaid"]) for line in logs] == [
        ("STORE_FULL", 0),
        ("STORE_UNAVAILABLE", 0),
        ("STORE_FULL", 2),
    ]
    assert logs[0]["why"] == "make room"


# --- TLS ---


async def opened(url: str) -> str:
    """Return the version of TLS, or in which words it was refused."""
    place = parse(url)
    try:
        connection: Any = await asyncpg.connect(**place.connect)
    except Exception as error:
        found = refusal_of(error, place.shown)
        assert isinstance(found, StoreError)
        assert "p@ss/word?" not in f"{found} {found!r}"
        return found.message
    try:
        sql = "SELECT coalesce(version, 'plain') FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
        return str(await connection.fetchval(sql))
    finally:
        await connection.close()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "TLSv1.3"),
        ({"sslmode": "verify-full", "sslrootcert": "AUTHORITY"}, "TLSv1.3"),
        ({"sslmode": "verify-full"}, "name its authority with sslrootcert"),
        ({"sslmode": "disable"}, "pg_hba.conf"),
    ],
)
async def test_a_server_with_tls(
    options: dict[str, str], expected: str, tls_server: Postgres
) -> None:
    assert tls_server.certificates is not None
    authority = str(tls_server.certificates.authority)
    given: dict[str, Any] = {
        name: value.replace("AUTHORITY", authority) for name, value in options.items()
    }

    assert expected in await opened(tls_server.url(**given))


async def test_a_password_from_a_file_or_the_environment(
    tls_server: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = tls_server.url().replace(":p%40ss%2Fword%3F@", "@")
    file = tmp_path / "pass"
    file.touch(mode=0o600)
    file.write_text("*:*:*:*:p@ss/word?\n")

    assert await opened(f"{url}?passfile={file}") == "TLSv1.3"
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "none"))
    assert "check the user and the password" in await opened(url)
    monkeypatch.setenv("PGPASSWORD", "p@ss/word?")
    assert await opened(url) == "TLSv1.3"


async def test_changed_password_of_a_passfile_is_used_by_new_connections(
    tls_server: Postgres, tmp_path: Path
) -> None:
    admin: Any = await asyncpg.connect(**parse(tls_server.url()).connect)
    file = tmp_path / "pass"

    async def change(password: str) -> None:
        await admin.execute(f"ALTER ROLE rotating PASSWORD '{password}'")
        await admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'rotating'"
        )

    def write(password: str) -> None:
        draft = tmp_path / "draft"
        draft.touch(mode=0o600)
        draft.write_text(f"*:*:*:*:{password}\n")
        draft.rename(file)

    async def outcome(store: Store, *, wanted: str = "") -> None:
        """Write until it succeeds, or fails with these words."""
        async with asyncio.timeout(WAIT_S):
            while True:
                try:
                    await store.put_presence([PRESENCE], ttl_ms=1_000)
                    said = ""
                except StoreError as error:
                    said = error.message
                if said == wanted or (wanted and wanted in said):
                    return
                await asyncio.sleep(0.05)

    await admin.execute("CREATE ROLE rotating SUPERUSER LOGIN PASSWORD 'one'")
    write("one")
    url = re.sub("//[^@]+@", "//rotating@", tls_server.url())
    store = await open_store(f"{url}?passfile={file}&schema=rotating", runtime=SystemRuntime())
    try:
        await outcome(store)
        await change("two")
        await outcome(store, wanted="password authentication failed")
        write("two")
        await outcome(store)
    finally:
        await store.close()
        await admin.execute("DROP SCHEMA rotating CASCADE")
        await admin.execute("DROP ROLE rotating")
        await admin.close()


async def test_a_certificate_of_another_name_is_refused(tls_server: Postgres) -> None:
    assert tls_server.certificates is not None
    authority = str(tls_server.certificates.authority)
    url = tls_server.url(sslmode="verify-full", sslrootcert=authority)

    # The same address in a form that is not the certificate's.
    assert "the host as the certificate names it" in await opened(url.replace("127.0.0.1", "127.1"))


async def test_server_without_tls_is_refused_where_tls_is_wanted(server: Any) -> None:
    assert "?sslmode=disable" in await opened(server.url(sslmode="require"))
    assert await opened(server.url(sslmode="prefer")) == "plain"
