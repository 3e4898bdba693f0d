"""Obstacles to opening a Postgres store are reported in one line that says what to do, without the password."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest

from stepwell.cli.exits import Exit
from stepwell.core.port import FeedQuery
from stepwell.core.records.errors import StoreRefused, StoreUnavailable
from tests.chaos.load.chains import (
    SECRET,
    Server,
    assert_no_secret,
    opened,
    refused,
    session,
)
from tests.service.cli.world import Terminal
from tests.support.backends.pgbouncer import PgBouncer
from tests.support.backends.postgres import Postgres
from tests.support.patience import PATIENCE_S

WAYS: tuple[dict[str, Any], ...] = ({}, {"migrate": "false"})

REFUSALS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "wrong password": ("check the user and the password", "", {"password": SECRET + "x"}),
    "unknown user": ("check the user", "", {"user": "nobody-at-all"}),
    "missing database": ('"no_such_database" does not exist', "no_such_database", {}),
    "no schema to be made": ("stepwell migrate", "", {"migrate": "false"}),
}
"""The words, the database if it is another, and the options of the URL; by name."""


@pytest.mark.parametrize("name", REFUSALS)
async def test_store_that_cannot_be_opened_says_why(
    name: str, own: Postgres, database: str
) -> None:
    words, other, options = REFUSALS[name]
    assert words in await refused(own.url(other or database, **options), StoreRefused)


# --- nobody there ---


async def test_host_that_says_nothing_is_given_up_in_time() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"postgresql://u@127.0.0.1:{silent.getsockname()[1]}/d?connect_timeout_ms=200"
        assert "didn't answer in time" in await refused(url, StoreUnavailable)


# --- the wrong kind of server ---


async def test_standby_is_refused_and_its_primary_is_used(own: Postgres, database: str) -> None:
    with own.standby() as standby:
        message = await refused(standby.url(database), StoreRefused)
        assert "is a standby" in message
        assert "name the primary" in message
        both = f"host=127.0.0.1:{standby.port}&host=127.0.0.1:{own.port}"
        url = own.url(database).replace(f"@127.0.0.1:{own.port}", "@") + f"?{both}"
        async with opened(url) as store:
            assert (await store.describe()).driver == "postgresql"
        neither = url.replace(f"&host=127.0.0.1:{own.port}", f",127.0.0.1:{standby.port}")
        assert "takes writes" in await refused(neither, StoreUnavailable)


async def test_user_without_rights_is_refused_until_they_are_granted(
    own: Postgres, database: str
) -> None:
    own.execute("DROP ROLE IF EXISTS guest")
    own.execute("CREATE ROLE guest LOGIN PASSWORD 'x'")
    message = await refused(own.url(database, user="guest", password="x"), StoreRefused)
    assert "permission denied" in message
    assert "stepwell migrate" in message
    async with opened(own.url(database)):
        pass
    # The schema is there, and still nothing may be read.
    for options in WAYS:
        url = own.url(database, user="guest", password="x", **options)
        assert "permission denied" in await refused(url, StoreRefused)
    # As docs/operating.md has it.
    for grant in (
        "GRANT USAGE ON SCHEMA stepwell TO guest",
        "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA stepwell TO guest",
        "GRANT SELECT, UPDATE, USAGE ON ALL SEQUENCES IN SCHEMA stepwell TO guest",
    ):
        own.execute(grant, database=database)
    async with opened(own.url(database, user="guest", password="x", migrate="false")) as store:
        assert await store.get_run("t", "r") is None
        assert (await store.page(FeedQuery())).items == ()


async def test_pooler_that_was_not_named_is_refused(bouncer: PgBouncer, database: str) -> None:
    assert "?pooler=transaction" in await refused(bouncer.url(database), StoreRefused)


# --- schemas ---


async def test_schema_of_somebody_else_is_refused(server: Server, database: str) -> None:
    server.execute("CREATE TABLE public.events (id int)", database=database)

    assert "no store" in await refused(server.url(database, schema="public"), StoreRefused)
    async with (
        opened(server.url(database, schema="one")) as one,
        opened(server.url(database, schema="two")) as two,
    ):
        assert (await one.describe()).store_id != (await two.describe()).store_id


async def test_stores_opened_and_migrated_at_once_are_made_once(
    server: Server, database: str, tmp_path: Path
) -> None:
    url = server.url(database)
    terminal = Terminal(tmp_path)
    processes = [terminal.spawn("migrate", "--store", url) for _ in range(4)]
    lines = [
        "".join(await asyncio.to_thread(process.communicate, timeout=PATIENCE_S))
        for process in processes
    ]

    assert [process.returncode for process in processes] == [0] * 4, lines
    assert_no_secret("".join(lines))
    assert all("→" in line or "up to date" in line for line in lines)
    rows = server.fetch("SELECT version_num FROM stepwell.alembic_version", database=database)
    assert len(rows) == 1

    again = server.url(database, schema="other")

    async def open_once() -> str:
        async with opened(again) as store:
            return (await store.describe()).store_id

    assert len({*await asyncio.gather(*(open_once() for _ in range(4)))}) == 1


async def test_opening_waits_for_no_stranger_that_locks_tables(
    server: Server, database: str
) -> None:
    async with opened(server.url(database)):
        pass
    async with session(server, database) as stranger, stranger.transaction():
        await stranger.execute("SELECT count(*) FROM stepwell.runs")
        async with asyncio.timeout(PATIENCE_S), opened(server.url(database)):
            pass


# --- the program ---


@pytest.mark.parametrize("command", ["serve --port 0 --store", "store --port 0 --driver"])
async def test_program_ends_with_a_line_that_says_why(
    command: str, own: Postgres, database: str, tmp_path: Path
) -> None:
    wrong = own.url(database, password=SECRET + "x")
    answer = await asyncio.to_thread(Terminal(tmp_path).apart, *command.split(), wrong)

    assert answer.code == Exit.USAGE
    *before, last = answer.err.splitlines()
    assert last.startswith("error: "), answer.err
    assert "check the user and the password" in last
    assert all("made a token, by which commands log in" in line for line in before), answer.err
    assert_no_secret(answer.out + answer.err)
