"""What keeps a Postgres store from being opened is told in one line that says what to do."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from stepwell.cli.exits import Exit
from stepwell.core.records.errors import StoreRefused, StoreUnavailable
from tests.chaos.load.chains import (
    SECRET,
    Server,
    assert_no_secret,
    logs_without_secrets,
    opened,
    refused,
    session,
)
from tests.service.cli.world import Terminal
from tests.support.backends import ports
from tests.support.backends.pgbouncer import PgBouncer
from tests.support.backends.postgres import Postgres
from tests.support.backends.shared import postgres_server, shared
from tests.support.patience import PATIENCE_S

pytestmark = pytest.mark.usefixtures("backends")

WAYS: tuple[dict[str, Any], ...] = ({}, {"migrate": "false"})


@pytest.fixture
def server() -> Server:
    return postgres_server(18, password=SECRET)


@pytest.fixture
def own(server: Server) -> Postgres:
    if not isinstance(server, Postgres):
        pytest.skip("needs a server of its own")
    return server


@pytest.fixture
def database(server: Server) -> Iterator[str]:
    name = server.new_database()
    yield name
    server.drop_database(name)


# --- nobody there, or nobody for us ---


async def test_a_wrong_password(own: Postgres, database: str) -> None:
    said = await refused(own.url(database, password=SECRET + "x"), StoreRefused)

    assert "password authentication failed" in said
    assert "check the user and the password" in said


async def test_a_user_that_is_not_there(server: Server, database: str) -> None:
    assert "check the user" in await refused(
        server.url(database, user="nobody-at-all"), StoreRefused
    )


async def test_a_port_where_nobody_listens() -> None:
    port = ports.reserve()
    url = f"postgresql://u:{quote(SECRET, safe='')}@127.0.0.1:{port}/d"
    try:
        said = await refused(url, StoreUnavailable)
    finally:
        ports.release(port)
    assert "nothing answers" in said
    assert f"127.0.0.1:{port}" in said


async def test_a_host_that_takes_connections_and_says_nothing() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"postgresql://u@127.0.0.1:{silent.getsockname()[1]}/d?connect_timeout_ms=200"
        assert "didn't answer in time" in await refused(url, StoreUnavailable)


async def test_a_host_whose_name_is_not_known() -> None:
    said = await refused("postgresql://u@no-such-host.invalid/d", StoreUnavailable)

    assert "name is not known" in said


async def test_a_missing_database(server: Server) -> None:
    said = await refused(server.url("no_such_database"), StoreRefused)

    assert "createdb" in said
    assert '"no_such_database" does not exist' in said


async def test_no_connection_left(own: Postgres, database: str) -> None:
    own.execute("DROP ROLE IF EXISTS lonely")
    own.execute("CREATE ROLE lonely LOGIN CONNECTION LIMIT 0 PASSWORD 'x'")
    said = await refused(own.url(database, user="lonely", password="x"), StoreUnavailable)

    assert "max_connections" in said


# --- the wrong kind of server ---


async def test_a_standby_is_read_only(own: Postgres, database: str) -> None:
    with own.standby() as standby:
        said = await refused(standby.url(database), StoreRefused)
        assert "is a standby" in said
        assert "name the primary" in said
        both = f"host=127.0.0.1:{standby.port}&host=127.0.0.1:{own.port}"
        url = own.url(database).replace(f"@127.0.0.1:{own.port}", "@") + f"?{both}"
        async with opened(url) as store:
            assert (await store.describe()).driver == "postgresql"
        neither = url.replace(f"&host=127.0.0.1:{own.port}", f",127.0.0.1:{standby.port}")
        assert "takes writes" in await refused(neither, StoreUnavailable)


async def test_a_database_that_is_read_only(server: Server, database: str) -> None:
    server.execute(f'ALTER DATABASE "{database}" SET default_transaction_read_only = on')

    said = await refused(server.url(database), StoreRefused)
    assert "default_transaction_read_only is on" in said


async def test_a_database_of_another_encoding(server: Server) -> None:
    name = server.new_name()
    server.execute(f"CREATE DATABASE \"{name}\" TEMPLATE template0 ENCODING 'LATIN1'")
    try:
        assert "ENCODING 'UTF8'" in await refused(server.url(name), StoreRefused)
    finally:
        server.drop_database(name)


async def test_a_user_who_may_make_nothing(own: Postgres, database: str) -> None:
    own.execute("DROP ROLE IF EXISTS guest")
    own.execute("CREATE ROLE guest LOGIN PASSWORD 'x'")
    said = await refused(own.url(database, user="guest", password="x"), StoreRefused)
    assert "permission denied" in said
    assert "stepwell migrate" in said
    async with opened(own.url(database)):
        pass
    # The schema is there, and still nothing may be read.
    for options in WAYS:
        found = own.url(database, user="guest", password="x", **options)
        assert "permission denied" in await refused(found, StoreRefused)
    url = own.url(database, user="guest", password="x", migrate="false")
    # As docs/operating.md has it.
    for grant in (
        "GRANT USAGE ON SCHEMA stepwell TO guest",
        "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA stepwell TO guest",
        "GRANT SELECT, UPDATE, USAGE ON ALL SEQUENCES IN SCHEMA stepwell TO guest",
    ):
        own.execute(grant, database=database)
    async with opened(url) as store:
        assert await store.get_run("t", "r") is None
        assert (await store.feed()).entries == ()


# --- schemas ---


async def test_a_store_that_is_not_to_be_made_here(server: Server, database: str) -> None:
    said = await refused(server.url(database, migrate="false"), StoreRefused)
    assert "stepwell migrate" in said
    async with opened(server.url(database)):
        pass
    async with opened(server.url(database, migrate="false")) as store:
        assert (await store.describe()).schema_version


async def test_a_check_tells_whether_there_is_something_to_do(
    server: Server, database: str, tmp_path: Path
) -> None:
    def migrate(*flags: str) -> int:
        return Terminal(tmp_path)("migrate", "--store", server.url(database), *flags).code

    codes = [await asyncio.to_thread(migrate, *flags) for flags in (["--check"], [], ["--check"])]

    assert codes == [Exit.FAILED, Exit.DONE, Exit.DONE]


async def test_a_newer_schema(server: Server, database: str, tmp_path: Path) -> None:
    async with opened(server.url(database)):
        pass
    server.execute("UPDATE stepwell.alembic_version SET version_num = '9999'", database=database)

    for options in WAYS:
        assert "schema 9999" in await refused(server.url(database, **options), StoreRefused)
    for flags in ((), ("--check",)):
        answer = await asyncio.to_thread(
            Terminal(tmp_path), "migrate", "--store", server.url(database), *flags
        )
        assert answer.code == Exit.USAGE
        assert "schema 9999" in answer.err
        assert_no_secret(answer.out + answer.err)


async def test_a_schema_that_is_somebody_elses(server: Server, database: str) -> None:
    server.execute("CREATE TABLE public.events (id int)", database=database)

    assert "no store" in await refused(server.url(database, schema="public"), StoreRefused)
    async with opened(server.url(database)):
        pass


async def test_several_stores_in_one_database(server: Server, database: str) -> None:
    async with (
        opened(server.url(database, schema="one")) as one,
        opened(server.url(database, schema="two")) as two,
    ):
        assert (await one.describe()).store_id != (await two.describe()).store_id


async def test_four_open_and_four_migrate_at_once(
    server: Server, database: str, tmp_path: Path
) -> None:
    url = server.url(database)
    terminal = Terminal(tmp_path)
    processes = [terminal.spawn("migrate", "--store", url) for _ in range(4)]
    said = [
        "".join(await asyncio.to_thread(process.communicate, timeout=PATIENCE_S))
        for process in processes
    ]

    assert [process.returncode for process in processes] == [0] * 4, said
    assert_no_secret("".join(said))
    assert all("→" in line or "up to date" in line for line in said)
    rows = server.fetch("SELECT version_num FROM stepwell.alembic_version", database=database)
    assert len(rows) == 1

    again = server.url(database, schema="other")

    async def open_once() -> str:
        async with opened(again) as store:
            return (await store.describe()).store_id

    assert len({*await asyncio.gather(*(open_once() for _ in range(4)))}) == 1


async def test_a_migration_waits_for_no_stranger_for_ever(server: Server, database: str) -> None:
    """Somebody who is idle in a transaction that locks our tables keeps nobody from opening."""
    async with opened(server.url(database)):
        pass
    async with session(server, database) as stranger, stranger.transaction():
        await stranger.execute("SELECT count(*) FROM stepwell.runs")
        async with asyncio.timeout(30), opened(server.url(database)):
            pass


# --- poolers ---


@pytest.fixture
def bouncer(own: Postgres) -> PgBouncer:
    return shared(PgBouncer, own)


async def test_a_pooler_that_was_not_named(bouncer: PgBouncer, database: str) -> None:
    assert "?pooler=transaction" in await refused(bouncer.url(database), StoreRefused)


# --- the program ---


@pytest.mark.parametrize("command", ["serve --port 0 --store", "store --port 0 --driver"])
async def test_the_program_ends_with_a_line_that_says_so(
    command: str, own: Postgres, database: str, tmp_path: Path
) -> None:
    wrong = own.url(database, password=SECRET + "x")
    answer = await asyncio.to_thread(Terminal(tmp_path).apart, *command.split(), wrong)

    assert answer.code == Exit.USAGE
    *before, last = answer.err.splitlines()
    assert last.startswith("error: "), answer.err
    assert "check the user and the password" in last
    assert all("minted a token" in line for line in before), answer.err
    assert_no_secret(answer.out + answer.err)


async def test_nothing_that_is_logged_while_opening_has_the_password(
    own: Postgres, database: str, caplog: pytest.LogCaptureFixture
) -> None:
    own.execute(f'ALTER DATABASE "{database}" SET synchronous_commit = off')
    with logs_without_secrets(caplog) as lines:
        async with opened(own.url(database)) as store:
            assert (await store.describe()).durability == "VOLATILE"
        await refused(own.url(database, password=SECRET + "x"), StoreRefused)
    warned: list[Any] = [line for line in lines if line["log_level"] == "warning"]
    assert [line["event"] for line in warned] == ["acknowledged commits may be lost"]
    assert "synchronous_commit" in warned[0]["todo"]
