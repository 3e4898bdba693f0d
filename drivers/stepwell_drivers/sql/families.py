"""Families of runs: keeps a fork's creation and a deletion apart.

A fork refers to results and journals of the run that it was forked from. So those of a deleted run stay as
long as another run of its family is there; its tombstone says so, and keeps the id from being used again
meanwhile. The last one of the family takes all of them with it.

SQLite has one writer. In Postgres a commit that creates a fork takes a shared lock of the family, and a
deletion an exclusive one: so no fork is created from a run that is being deleted, and of two deletions at
once the second one knows that it is the last. The lock is taken before any row's: a transaction that holds
rows never waits for it.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import ColumnElement, Text, bindparam, delete, literal_column, select, text, update

from stepwell.core.port import Commit
from stepwell_drivers.sql import schema
from stepwell_drivers.sql.dialect import Link, is_postgres
from stepwell_drivers.sql.statements import Pick, Query

RunKey = tuple[str, str]
FamilyKey = tuple[str, str]
"""A tenant, and the id of the family: that of its first run."""

_RUN = ("tenant_id", "run_id")
_there = Pick(schema.runs, _RUN, _RUN)
_family_id = Query(
    select(schema.runs.c.family_id).where(
        schema.runs.c.tenant_id == bindparam("tenant_id"),
        schema.runs.c.run_id == bindparam("run_id"),
    )
)
# Literals: a parameter would rule out the partial indexes.
_NOT_EMPTY: ColumnElement[str] = literal_column("''")
_member = Query(
    select(schema.runs.c.run_id)
    .where(
        schema.runs.c.tenant_id == bindparam("tenant_id"),
        schema.runs.c.family_id == bindparam("family_id"),
        schema.runs.c.family_id != _NOT_EMPTY,
        schema.runs.c.run_id != bindparam("but"),
    )
    .limit(1)
)
_tombstones = schema.tombstones.c
_of_family = (
    _tombstones.tenant_id == bindparam("tenant_id"),
    _tombstones.family_id == bindparam("family_id"),
    _tombstones.family_id != _NOT_EMPTY,
)
_left = Query(select(_tombstones.run_key).where(*_of_family))
_settle = Query(update(schema.tombstones).where(*_of_family).values(family_id=literal_column("''")))
_delete_left = [
    Query(delete(table).where(table.c.run_key == bindparam("run_key")))
    for table in schema.OF_A_FAMILY
]


_own = Query(
    text(
        "SELECT pg_advisory_xact_lock("
        "hashtextextended('family ' || current_schema() || ' ' || :name, 0))"
    ).bindparams(bindparam("name", type_=Text()))
)


def joined_by(commit: Commit) -> FamilyKey | None:
    """Return the family that a commit's new run joins; None: it creates no fork."""
    spec = commit.run.spec
    if commit.version != 1 or not spec.parent_run_id:
        return None
    return (commit.tenant_id, spec.family_id or spec.parent_run_id)


def known(connection: Link, commits: Sequence[Commit]) -> set[FamilyKey]:
    """Return which of the families that these commits join exist. SQLite's way, see `postgres/commits.py`."""
    forks = {family: commit for commit in commits if (family := joined_by(commit)) is not None}
    if not forks:
        return set()
    keys = {
        (tenant_id, name): None
        for commit in commits
        if (family := joined_by(commit)) is not None
        for tenant_id, name in (family, (commit.tenant_id, commit.run.spec.parent_run_id))
    }
    there = {(row[0], row[1]) for row in _there.run(connection, list(keys))}
    return there | {family for family in forks if _has_member(connection, family)}


def family_of(connection: Link, run: RunKey) -> FamilyKey | None:
    """Return a run's family, and lock it against joins and deletions; None: there is no such run.

    Call it before any row is locked.
    """
    row = _family_id.first(connection, tenant_id=run[0], run_id=run[1])
    if row is None:
        return None
    family = (run[0], row[0] or run[1])
    if is_postgres(connection.dialect):
        # The length shows where the tenant ends.
        _own.run(connection, name=f"{len(family[0])}:{family[0]}{family[1]}")
    return family


def has_others(connection: Link, family: FamilyKey, run: RunKey) -> bool:
    """Return whether another run of this one's family is there."""
    if family != run and _there.run(connection, [family]):
        return True
    return _has_member(connection, family, but=run[1])


def end(connection: Link, family: FamilyKey, run_key: int) -> None:
    """Remove the outcomes and journals of a family's last run, and those that its other runs left."""
    key = {"tenant_id": family[0], "family_id": family[1]}
    left: list[int] = [row[0] for row in _left.run(connection, **key)]
    for each in (run_key, *left):
        for query in _delete_left:
            query.run(connection, run_key=each)
    if left:
        _settle.run(connection, **key)


def _has_member(connection: Link, family: FamilyKey, *, but: str = "") -> bool:
    tenant_id, family_id = family
    row = _member.first(connection, tenant_id=tenant_id, family_id=family_id, but=but)
    return row is not None
