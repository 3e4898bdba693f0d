"""Reads a server's settings at the start: whether it can hold a store, and how durable a commit is.

Durability classes, from measurements and the manual:

- `synchronous_commit=off`: a commit is acknowledged while it is only in the server's memory. `kill
  -9` of any backend makes the server restart without it: VOLATILE.
- `fsync=off`: the operating system has it, so the end of any process loses nothing, but a power cut
  can damage everything: PROCESS. So can a half-written page without `full_page_writes`.
- `synchronous_commit=on` (or `local`) with `fsync`: POWER.
- … and a synchronous standby has it too (`on`, `remote_apply`, `remote_write`): NODE.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from stepwell.core.records.errors import StoreRefused
from stepwell.core.records.states import Durability
from stepwell.logger import get_logger

log = get_logger(__name__)

VERSION_NUM_MIN = 130_000

FACTS = """
SELECT current_setting('server_version_num'),
       current_setting('server_version'),
       pg_is_in_recovery()::text,
       current_setting('default_transaction_read_only'),
       current_setting('fsync'),
       current_setting('full_page_writes'),
       current_setting('synchronous_commit'),
       current_setting('synchronous_standby_names'),
       current_setting('server_encoding'),
       coalesce(
           (SELECT has_schema_privilege(oid, 'USAGE')::text
              FROM pg_catalog.pg_namespace WHERE nspname = current_setting('search_path')),
           'absent'
       )
"""
"""Returns one row for `Facts.of`. Reads no table, so any user may run it on any server."""


class Facts(NamedTuple):
    """The settings of a server on which a store depends."""

    version_num: int
    """180006 for 18.6."""
    version: str
    in_recovery: bool
    read_only: bool
    fsync: bool
    full_page_writes: bool
    synchronous_commit: str
    synchronous_standby_names: str
    encoding: str
    schema: str
    """`true` or `false`: whether the user may use the store's schema; `absent`: it doesn't exist."""

    @classmethod
    def of(cls, row: Sequence[str]) -> Facts:
        """Return the facts of `FACTS`' row."""
        number, version, recovery, read_only, fsync, pages, commit, standbys, encoding, schema = row
        return cls(
            version_num=int(number),
            version=version.partition(" ")[0],
            in_recovery=recovery == "true",
            read_only=read_only == "on",
            fsync=fsync == "on",
            full_page_writes=pages == "on",
            synchronous_commit=commit,
            synchronous_standby_names=standbys.strip(),
            encoding=encoding,
            schema=schema,
        )

    @property
    def waits_for_standby(self) -> bool:
        """True if a COMMIT waits until another machine has it.

        `statement_timeout` doesn't end that wait (the server stops its clock before it commits).
        The driver closes the socket instead, and asks again for the verdict.
        """
        return bool(self.synchronous_standby_names) and self.synchronous_commit in {
            "on",
            "remote_apply",
            "remote_write",
        }


class Worth(NamedTuple):
    """The durability of an acknowledged commit on a server."""

    durability: Durability
    detail: str
    """The settings that decided the class, for people."""
    todo: str = ""
    """Advice to an operator about a weak class, or empty."""


def check(facts: Facts, shown: str) -> None:
    """Raise if a server can't hold a store; `shown` is the URL for people.

    Raises:
        StoreRefused: it is too old, takes no writes, holds no Unicode, or is closed to the user.
    """
    if facts.version_num < VERSION_NUM_MIN:
        raise StoreRefused(
            f"{shown} is Postgres {facts.version}; a store needs {VERSION_NUM_MIN // 10_000} or newer"
        )
    if facts.in_recovery:
        raise StoreRefused(
            f"{shown} is a standby, which takes no writes; name the primary, or all of them"
            " (?host=A:5432&host=B:5432): the one that takes writes is used"
        )
    if facts.read_only:
        raise StoreRefused(
            f"{shown} is read-only (default_transaction_read_only is on); switch that off for this"
            " user and database, or name a server that takes writes"
        )
    if facts.encoding != "UTF8":
        raise StoreRefused(
            f"{shown} has the encoding {facts.encoding}; make a database with ENCODING 'UTF8'"
        )

    if facts.schema == "false":
        # Otherwise its tables would seem to be missing.
        raise StoreRefused(
            f"{shown}: permission denied, the store's schema is there and the user may not use it;"
            " grant it (GRANT USAGE ON SCHEMA … TO …), see docs/operating.md"
        )


def worth_of(facts: Facts) -> Worth:
    """Return the durability that these settings give."""
    settings = (
        f"fsync={_on(facts.fsync)}, full_page_writes={_on(facts.full_page_writes)},"
        f" synchronous_commit={facts.synchronous_commit}"
    )
    detail = f"Postgres {facts.version}, {settings}"
    if facts.synchronous_commit == "off":
        return Worth(
            Durability.VOLATILE,
            f"{detail}: the last commits are lost when any process of the server crashes",
            "ALTER ROLE … SET synchronous_commit = on",
        )
    if not facts.fsync:
        return Worth(
            Durability.PROCESS,
            f"{detail}: a power cut may damage the whole database",
            "set fsync = on in postgresql.conf and reload",
        )
    if not facts.full_page_writes:
        return Worth(
            Durability.PROCESS,
            f"{detail}: a power cut may leave half-written pages, unless the file system writes them"
            " whole",
            "set full_page_writes = on in postgresql.conf and reload",
        )
    if facts.waits_for_standby:
        return Worth(Durability.NODE, f"{detail}, a synchronous standby")
    return Worth(Durability.POWER, detail)


def warn_if_weak(worth: Worth, shown: str) -> None:
    """Log a warning if a power cut would lose acknowledged commits."""
    if worth.todo:
        log.warning(
            "acknowledged commits may be lost",
            store=shown,
            durability=str(worth.durability),
            why=worth.detail,
            todo=worth.todo,
        )


def _on(value: bool) -> str:
    return "on" if value else "off"
