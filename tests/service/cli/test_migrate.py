"""`stepwell migrate`: what it says and how it ends, for files and for stores without a schema."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from stepwell.cli.exits import Exit
from tests.service.cli.world import Terminal


@pytest.fixture
def terminal(tmp_path: Path) -> Terminal:
    return Terminal(tmp_path)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/a.db"


def test_a_file_is_made_then_it_is_up_to_date(terminal: Terminal, url: str) -> None:
    made = terminal("migrate", "--store", url)
    again = terminal("migrate", "--store", url)

    assert (made.code, again.code) == (Exit.DONE, Exit.DONE)
    assert made.out.startswith(f"{url}: schema nothing → ")
    assert "up to date" in again.out
    assert terminal("migrate", "--store", url, "--check").code == Exit.DONE


def test_check_reports_and_changes_nothing(terminal: Terminal, url: str, tmp_path: Path) -> None:
    answer = terminal("migrate", "--check", "--store", url)

    assert answer.code == Exit.FAILED
    assert "run `stepwell migrate`" in answer.err
    assert not (tmp_path / "a.db").exists()


def test_a_newer_schema_is_refused_and_left_alone(
    terminal: Terminal, url: str, tmp_path: Path
) -> None:
    terminal("migrate", "--store", url)
    with closing(sqlite3.connect(tmp_path / "a.db")) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    for flags in ((), ("--check",)):
        answer = terminal("migrate", "--store", url, *flags)
        assert answer.code == Exit.USAGE
        assert "9999" in answer.err


def test_a_store_without_a_schema_has_nothing_to_do(terminal: Terminal) -> None:
    answer = terminal("migrate", "--store", "memory://")

    assert answer.code == Exit.DONE
    assert "nothing to do" in answer.out


@pytest.mark.parametrize("given", ["nothing://u:hunter2@x/y", "postgresql://u:hunter2@h", "file"])
def test_url_without_a_store_is_a_usage_error_without_the_password(
    terminal: Terminal, given: str
) -> None:
    answer = terminal("migrate", "--store", given)

    assert answer.code == Exit.USAGE
    assert "hunter2" not in answer.out + answer.err
