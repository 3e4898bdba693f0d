"""Opening a SQLite store: which files are taken, who may hold one, which schema it may have."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import textwrap
from contextlib import closing
from pathlib import Path

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine

from stepwell.core.port import Store
from stepwell.core.records.errors import StoreRefused
from stepwell.core.records.states import Durability
from stepwell.runtime import SystemRuntime
from stepwell_drivers.sql import migrate, schema, views
from stepwell_drivers.sql.sqlite import open_store, url, writer
from stepwell_drivers.sql.sqlite.engine import raw
from stepwell_drivers.sql.store import SqlStore
from stepwell_testkit.conformance import ask
from stepwell_testkit.conformance import builders as b


async def opened(path: Path, parameters: str = "") -> SqlStore:
    store: Store = await open_store(f"sqlite:///{path}{parameters}", runtime=SystemRuntime())
    assert isinstance(store, SqlStore)
    return store


async def refusal(url: str) -> str:
    with pytest.raises(StoreRefused) as caught:
        await open_store(url, runtime=SystemRuntime())
    return caught.value.message


# --- the path ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("sqlite://", "needs a file"),
        ("sqlite:///", "needs a file"),
        ("sqlite:///:memory:", "memory://"),
        ("sqlite:///file:x?mode=memory", "unknown URL parameter 'mode'"),
        ("sqlite:///file:x", "needs a file"),
        ("sqlite://host/x.db", "no host"),
        ("sqlite://me:secret@/x.db", "no host"),
        ("sqlite+aiosqlite:///x.db", "sqlite:///PATH"),
        ("sqlite:///x%00.db", "NUL"),
        ("sqlite:///x\0.db", "NUL"),
        ("sqlite:///{folder}", "is a directory"),
        ("sqlite:///{folder}/missing/x.db", "make it first"),
        ("sqlite:///{folder}/x.db?synchronous=OFF", "unknown URL parameter 'synchronous'"),
        ("sqlite:///{folder}/x.db?nolock=1", "unknown URL parameter 'nolock'"),
        ("sqlite:///{folder}/x.db?busy_timeout_ms=-1", "busy_timeout_ms"),
        ("sqlite:///{folder}/x.db?busy_timeout_ms=1&busy_timeout_ms=2", "busy_timeout_ms"),
        ("sqlite:///{folder}/" + "x" * 300, "can't be used"),
        ("sqlite:////dev/null", "no regular file"),
        ("not a url", "no URL"),
    ],
)
async def test_unusable_path_is_refused_with_a_reason(
    tmp_path: Path, given: str, words: str
) -> None:
    message = await refusal(given.replace("{folder}", str(tmp_path)))
    assert words in message
    assert "secret" not in message
    assert [entry.name for entry in os.scandir(tmp_path)] == []


async def test_a_hard_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.db").touch()
    os.link(tmp_path / "a.db", tmp_path / "b.db")
    assert "hard links" in await refusal(f"sqlite:///{tmp_path / 'a.db'}")


@pytest.mark.parametrize("kind", ["nfs4", "cifs", "smb3", "fuse.sshfs", "9p", "ceph"])
def test_network_file_system_is_recognised_by_its_mount(tmp_path: Path, kind: str) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"/dev/sda / ext4 rw 0 0\nserver:/x /mnt/a\\040b {kind} rw 0 0\n")
    assert url.is_network(url.file_system_of(Path("/mnt/a b/c.db"), mounts))
    assert not url.is_network(url.file_system_of(Path("/mnt/a/c.db"), mounts))


async def test_a_network_file_system_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(url, "file_system_of", lambda path: "nfs4")
    assert "network file system (nfs4)" in await refusal(f"sqlite:///{tmp_path / 'a.db'}")


async def test_the_file_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    store = await opened(tmp_path / "a b.db", "?busy_timeout_ms=100")
    await ask.must(store, b.created())
    modes = {entry.name: entry.stat().st_mode & 0o777 for entry in os.scandir(tmp_path)}
    assert set(modes) == {"a b.db", "a b.db-wal", "a b.db-shm", "a b.db.lock"}
    assert set(modes.values()) == {0o600}
    await store.close()


async def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("no database at all, but long enough to look like one" * 99)
    assert "no SQLite database" in await refusal(f"sqlite:///{tmp_path / 'text.db'}")
    store = await opened(tmp_path / "a.db")
    await store.close()
    torn = bytearray((tmp_path / "a.db").read_bytes())
    torn[100:4096] = b"\xff" * 3996
    (tmp_path / "a.db").write_bytes(torn)
    assert "damaged" in await refusal(f"sqlite:///{tmp_path / 'a.db'}")


async def test_a_foreign_database_is_refused_and_left_as_it_was(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "a.db")) as foreign:
        foreign.execute("CREATE TABLE mine (x)")
    before = (tmp_path / "a.db").read_bytes()
    assert "no store of this program" in await refusal(f"sqlite:///{tmp_path / 'a.db'}")
    assert (tmp_path / "a.db").read_bytes() == before


# --- who holds it --------------------------------------------------------------------------------


async def test_the_same_process_can_not_open_a_file_twice(tmp_path: Path) -> None:
    store = await opened(tmp_path / "a.db")
    (tmp_path / "link.db").symlink_to(tmp_path / "a.db")
    for name in ("a.db", "link.db"):
        assert f"(pid {os.getpid()})" in await refusal(f"sqlite:///{tmp_path / name}")
    await store.close()
    again = await opened(tmp_path / "link.db")
    await again.close()


async def test_second_process_is_refused_with_the_holders_pid(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    holder = program(
        """
        store = await open_store(URL, runtime=SystemRuntime())
        print("open", flush=True)
        sys.stdin.readline()
        """,
        path,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "open\n"
    message = await refusal(f"sqlite:///{path}")
    assert f"(pid {holder.pid})" in message
    assert "stop it" in message
    holder.kill()
    holder.communicate()
    store = await opened(path)  # The system has let go of it.
    await store.close()


async def test_a_fork_can_not_use_the_store(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    done = program(
        """
        store = await open_store(URL, runtime=SystemRuntime())
        child = os.fork()
        if child == 0:
            for call in (store.get_run("a", "b"), store.commit([]), store.describe()):
                try:
                    call.send(None)
                except StoreUnavailable as error:
                    assert "fork" in error.message
                else:
                    os._exit(1)
            try:
                FileLock(Path(URL.removeprefix("sqlite:///")))
            except StoreRefused as error:
                os._exit(0 if str(os.getppid()) in error.message else 2)
            os._exit(3)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert await store.get_run("a", "b") is None
        await store.close()
        print("fine")
        """,
        path,
    )
    out, err = done.communicate(timeout=30)
    assert (out, done.returncode) == ("fine\n", 0), err


def program(body: str, path: Path) -> subprocess.Popen[str]:
    """Start a program of its own that has the store's URL."""
    head = """
        import asyncio, os, sys
        from pathlib import Path
        from stepwell.core.records.errors import StoreRefused, StoreUnavailable
        from stepwell.runtime import SystemRuntime
        from stepwell_testkit.conformance import ask
        from stepwell_testkit.conformance import builders as b
        from stepwell_drivers.sql.sqlite import open_store
        from stepwell_drivers.sql.sqlite.lock import FileLock
        URL = "sqlite:///" + sys.argv[1]
        async def main():
    """
    text = textwrap.dedent(head).rstrip() + "\n" + textwrap.indent(textwrap.dedent(body), "    ")
    return subprocess.Popen(
        [sys.executable, "-c", text + "\nasyncio.run(main())", str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


# --- durability ----------------------------------------------------------------------------------


async def test_wal_and_full_are_what_sqlite_answers(tmp_path: Path) -> None:
    store = await opened(tmp_path / "a.db")
    assert isinstance(store._writer, writer.Writer)
    driver = raw(store._writer._connection)
    assert driver.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert driver.execute("PRAGMA synchronous").fetchone() == (2,)
    info = await store.describe()
    assert (info.driver, info.durability) == ("sqlite", Durability.POWER)
    assert info.detail == "WAL, synchronous=FULL"
    assert info.schema_version == schema.REVISIONS[-1]
    await store.close()


async def test_a_file_system_without_wal_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from stepwell_drivers.sql.sqlite import engine, opening

    def weaker(connection: object) -> None:
        driver = engine.raw(connection)  # pyright: ignore[reportArgumentType] - the real one
        driver.execute("PRAGMA journal_mode=WAL")
        driver.execute("PRAGMA synchronous=NORMAL")
        engine._assert_durable(driver)

    monkeypatch.setattr(opening, "make_durable", weaker)
    assert "synchronous=1" in await refusal(f"sqlite:///{tmp_path / 'a.db'}")
    monkeypatch.undo()
    store = await opened(tmp_path / "a.db")  # The refused one has let go of the file.
    await store.close()


# --- the schema ----------------------------------------------------------------------------------


TABLES = """
SELECT m.name, c.cid, c.name, c.type, c."notnull", c.dflt_value, c.pk, l.wr,
  m.sql LIKE '%AUTOINCREMENT%'
FROM sqlite_master AS m, pragma_table_xinfo(m.name) AS c, pragma_table_list(m.name) AS l
WHERE m.type = 'table' AND m.name NOT LIKE 'alembic%'
UNION ALL
SELECT m.tbl_name, i.origin, i.name, i."unique", i.partial, m.sql, '', '', ''
FROM sqlite_master AS m, pragma_index_list(m.tbl_name) AS i
WHERE m.type = 'index' AND m.name = i.name AND m.tbl_name NOT LIKE 'alembic%'
UNION ALL
SELECT m.name, m.sql, '', '', '', '', '', '', '' FROM sqlite_master AS m WHERE m.type = 'view'
ORDER BY 1, 2, 3
"""


def test_the_migrations_make_the_schema_that_the_code_has(tmp_path: Path) -> None:
    def shape(make: str) -> list[tuple[str, ...]]:
        engine = create_engine(f"sqlite:///{tmp_path / make}.db")
        with engine.begin() as connection:
            if make == "migrated":
                migrate.migrate(connection)
            else:
                schema.metadata.create_all(connection)
                for view in views.statements("sqlite"):
                    connection.exec_driver_sql(view)
            rows = connection.exec_driver_sql(TABLES).all()
        engine.dispose()
        return [tuple(str(value) for value in row) for row in rows]

    assert shape("migrated") == shape("made")
    assert len(shape("migrated")) > 150


def test_the_known_versions_are_the_migrations() -> None:
    config = Config()
    config.set_main_option("script_location", str(migrate.MIGRATIONS))
    steps = ScriptDirectory.from_config(config).walk_revisions()
    assert [step.revision for step in steps][::-1] == list(schema.REVISIONS)
