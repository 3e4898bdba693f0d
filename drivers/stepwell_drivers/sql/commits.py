"""The verdict on each commit of a group, and one write for all that were accepted: SQLite's way.

The rules are the port's: the version is checked before the fences, a commit that was applied before
is COMMITTED again, and commits of one run are taken in the order given.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import bindparam, select

from stepwell.core.port import Commit, CommitResult
from stepwell.core.records.states import Verdict
from stepwell_drivers.sql import families, schema
from stepwell_drivers.sql.batch import Batch
from stepwell_drivers.sql.dialect import Link
from stepwell_drivers.sql.row_writes import write
from stepwell_drivers.sql.statements import Query
from stepwell_drivers.sql.stored import Clock, Stored, read_stored

_commit_id = Query(
    select(schema.commits.c.commit_id).where(
        schema.commits.c.run_key == bindparam("run_key"),
        schema.commits.c.version == bindparam("version"),
    )
)


class _Group:
    """A group whose verdicts are being decided."""

    def __init__(self, connection: Link, stored: Stored, known: set[families.FamilyKey]) -> None:
        self._connection = connection
        self._versions = dict(stored.versions)
        self._ids = dict(stored.ids)
        """The ids of the commits that made them."""
        self._keys = stored.keys
        self._tombstoned = stored.tombstoned
        self._tokens = stored.tokens
        self._families = known
        self._applied: dict[tuple[int, int], str] = {}
        self.batch = Batch(stored.now_us)

    def decide(self, commit: Commit) -> Verdict:
        """Return a commit's verdict; add it to the batch if it is accepted."""
        key = (commit.tenant_id, commit.run_id)
        run_key = self._keys.get(key, 0)
        stored = self._versions.get(key, 0)
        if stored != commit.version - 1 or (not stored and key in self._tombstoned):
            return (
                Verdict.COMMITTED
                if self._was_applied(commit, run_key, stored)
                else Verdict.CONFLICT
            )
        if stored and commit.follows not in ("", self._ids.get(key)):
            return Verdict.CONFLICT
        if not stored and not self._may_be_created(commit):
            return Verdict.CONFLICT
        for fence in commit.fences:
            row_key = (run_key, fence.execution_id)
            token = self.batch.tokens.get(row_key, self._tokens.get(row_key, ""))
            if not token or token != fence.token:
                return Verdict.LEASE_LOST
        self.batch.add(commit, run_key)
        self._versions[key] = commit.version
        self._ids[key] = commit.commit_id
        self._applied[run_key, commit.version] = commit.commit_id
        if not stored:
            self._families |= {key, (commit.tenant_id, commit.run.spec.family_id or commit.run_id)}
        return Verdict.COMMITTED

    def _may_be_created(self, commit: Commit) -> bool:
        """Return whether it is no fork, or a run of its family is there."""
        family = families.joined_by(commit)
        parent = (commit.tenant_id, commit.run.spec.parent_run_id)
        return family is None or not self._families.isdisjoint({family, parent})

    def _was_applied(self, commit: Commit, run_key: int, stored: int) -> bool:
        if not 1 <= commit.version <= stored:
            return False
        place = (run_key, commit.version)
        if place not in self._applied:
            row = _commit_id.first(self._connection, run_key=run_key, version=commit.version)
            self._applied[place] = row[0] if row is not None else ""
        return self._applied[place] == commit.commit_id


def apply_commits(connection: Link, commits: Sequence[Commit], clock: Clock) -> list[CommitResult]:
    """Apply a group within the transaction that the connection is in."""
    if not commits:
        return []
    known = families.known(connection, commits)
    stored = read_stored(connection, commits, clock)
    group = _Group(connection, stored, known)
    verdicts = [group.decide(commit) for commit in commits]
    write(connection, group.batch.rows())
    return [CommitResult(verdict=verdict, now_us=stored.now_us) for verdict in verdicts]
