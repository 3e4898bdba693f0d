"""`stepwell migrate`: what it says and how it ends, for files and for stores without a schema."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from stepwell.cli.exits import Exit
from tests.service.cli.world import Row, Terminal

URL = "sqlite:///a.db"


@pytest.fixture
def terminal(tmp_path: Path) -> Terminal:
    return Terminal(tmp_path)


def test_a_file_is_made_then_it_is_up_to_date(terminal: Terminal) -> None:
    terminal.plays(
        "",
        Row(f"migrate --check --store {URL}", Exit.FAILED, err="run `stepwell migrate`"),
        Row(f"migrate --store {URL}", Exit.DONE, f"{URL}: schema nothing → "),
        Row(f"migrate --store {URL}", Exit.DONE, "up to date"),
        Row(f"migrate --store {URL} --check", Exit.DONE),
        Row("migrate --store memory://", Exit.DONE, "nothing to do"),
    )


def test_check_changes_nothing(terminal: Terminal, tmp_path: Path) -> None:
    assert terminal("migrate", "--check", "--store", URL).code == Exit.FAILED
    assert not (tmp_path / "a.db").exists()


def test_a_newer_schema_is_refused_and_left_alone(terminal: Terminal, tmp_path: Path) -> None:
    terminal("migrate", "--store", URL)
    with closing(sqlite3.connect(tmp_path / "a.db")) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
        connection.execute("UPDATE meta SET value = '9999' WHERE key = 'least_schema'")
    terminal.plays(
        "",
        Row(f"migrate --store {URL}", Exit.USAGE, err="9999"),
        Row(f"migrate --store {URL} --check", Exit.USAGE, err="9999"),
    )


def test_the_script_made_a_schema_that_is_up_to_date(terminal: Terminal, tmp_path: Path) -> None:
    answer = terminal("migrate", "--sql", "--store", URL)
    assert answer.code == Exit.DONE
    assert not (tmp_path / "a.db").exists()

    with closing(sqlite3.connect(tmp_path / "a.db")) as connection:
        connection.executescript(answer.out)

    terminal.plays(
        "",
        Row(f"migrate --store {URL} --check", Exit.DONE, "up to date"),
        Row("migrate --store memory:// --sql", Exit.DONE, "nothing to do"),
    )


@pytest.mark.parametrize("given", ["nothing://u:hunter2@x/y", "postgresql://u:hunter2@h", "file"])
def test_url_without_a_store_is_a_usage_error_without_the_password(
    terminal: Terminal, given: str
) -> None:
    answer = terminal("migrate", "--store", given)

    assert answer.code == Exit.USAGE
    assert "hunter2" not in answer.out + answer.err
