"""The end of a run's rows, and the tombstone that stands where they were."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import bindparam, delete, literal_column, select

from stepwell_drivers.sql import reservations, schema
from stepwell_drivers.sql.dialect import Link
from stepwell_drivers.sql.statements import Insert, Query

TOMBSTONE_US = 2 * 3_600 * 1_000_000
"""The time for which a deleted run's id is refused: the port asks for an hour at least."""


class DeleteWork(NamedTuple):
    """`Store.delete_run`; answers whether it was at the version and had no forks."""

    tenant_id: str
    run_id: str
    version: int


_RUN = ("tenant_id", "run_id")
_version = Query(
    select(schema.runs.c.version, schema.runs.c.run_key)
    .where(
        schema.runs.c.tenant_id == bindparam("tenant_id"),
        schema.runs.c.run_id == bindparam("run_id"),
    )
    .with_for_update()
)
_fork = Query(
    select(schema.runs.c.run_key)
    .where(
        schema.runs.c.tenant_id == bindparam("tenant_id"),
        schema.runs.c.parent_run_id == bindparam("run_id"),
        # A literal: a parameter would rule out the partial index.
        schema.runs.c.parent_run_id != literal_column("''"),
    )
    .limit(1)
)
_MOVING = ("run_key", "version", "expires_us")
_put_deletions = Insert(
    schema.commits, ("run_key", "tenant_id", "deleted_run_id", "version", "committed_us")
)
_put_tombstones = Insert(schema.tombstones, (*_RUN, *_MOVING), key=_RUN, replaced=_MOVING)
_delete_rows = [
    Query(
        delete(table).where(schema.listed(table.c.run_key), table.c.run_key == bindparam("run_key"))
    )
    for table in schema.OF_A_RUN
]
# The deletion of an earlier run of that id, whose tombstone is replaced.
_forget_deletion = Query(
    delete(schema.commits).where(
        schema.commits.c.run_key
        == select(schema.tombstones.c.run_key)
        .where(
            schema.tombstones.c.tenant_id == bindparam("tenant_id"),
            schema.tombstones.c.run_id == bindparam("run_id"),
        )
        .scalar_subquery()
    )
)


def delete_run(connection: Link, work: DeleteWork, now_us: int) -> bool:
    """Remove a run, if it is at the version and has no forks, and name the deletion in the feed.

    In Postgres its row is locked first, and a commit that creates a fork locks it, too: either that
    commit finds no parent, or the fork is found here.
    """
    run = (work.tenant_id, work.run_id)
    key = {"tenant_id": work.tenant_id, "run_id": work.run_id}
    row = _version.first(connection, **key)
    if row is None or row[0] != work.version or _fork.first(connection, **key) is not None:
        return False
    run_key = row[1]
    for query in _delete_rows:
        query.run(connection, run_key=run_key)
    reservations.free(connection, *run)
    _forget_deletion.run(connection, **key)
    _put_deletions.run(connection, [(run_key, *run, -work.version, now_us)])
    _put_tombstones.run(connection, [(*run, run_key, work.version, now_us + TOMBSTONE_US)])
    return True
