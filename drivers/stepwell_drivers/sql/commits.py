"""The verdict on each commit of a group, and one write for all that were accepted.

The rules are the port's: the version is looked at before the fences, a commit that was applied before
is COMMITTED again, and commits of one run are taken in the order given.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, bindparam, select

from stepwell.core.ports import Commit, CommitResult
from stepwell.core.states import Verdict
from stepwell_drivers.sql import schema
from stepwell_drivers.sql.batch import Batch, RowKey, RunKey
from stepwell_drivers.sql.statements import Pick, Query

_RUN = ("tenant_id", "run_id")
_versions = Pick(schema.runs, _RUN, (*_RUN, "version"))
_buried = Pick(schema.tombstones, _RUN, (*_RUN, "expires_us"))
_tokens = Pick(schema.leases, (*_RUN, "execution_id"), (*_RUN, "execution_id", "token"))
_commit_id = Query(
    select(schema.commits.c.commit_id).where(
        schema.commits.c.tenant_id == bindparam("tenant_id"),
        schema.commits.c.run_id == bindparam("run_id"),
        schema.commits.c.version == bindparam("version"),
    )
)


class _Group:
    """A group while its verdicts are found."""

    def __init__(self, connection: Connection, commits: Sequence[Commit], now_us: int) -> None:
        self._connection = connection
        self._versions = _stored_versions(connection, commits)
        self._buried = self._stored_tombstones(commits, now_us)
        self._tokens = _stored_tokens(connection, commits)
        self._applied: dict[tuple[str, str, int], str] = {}
        self.batch = Batch(now_us)

    def take(self, commit: Commit) -> Verdict:
        """Say what becomes of a commit, and take it in if it is accepted."""
        key = (commit.tenant_id, commit.run_id)
        stored = self._versions.get(key, 0)
        if stored != commit.version - 1 or (not stored and key in self._buried):
            return Verdict.COMMITTED if self._was_applied(commit, stored) else Verdict.CONFLICT
        for fence in commit.fences:
            row_key = (*key, fence.execution_id)
            token = self.batch.tokens.get(row_key, self._tokens.get(row_key, ""))
            if not token or token != fence.token:
                return Verdict.LEASE_LOST
        self.batch.add(commit)
        self._versions[key] = commit.version
        self._applied[*key, commit.version] = commit.commit_id
        return Verdict.COMMITTED

    def _was_applied(self, commit: Commit, stored: int) -> bool:
        if not 1 <= commit.version <= stored:
            return False
        place = (commit.tenant_id, commit.run_id, commit.version)
        if place not in self._applied:
            row = _commit_id.first(
                self._connection,
                tenant_id=commit.tenant_id,
                run_id=commit.run_id,
                version=commit.version,
            )
            self._applied[place] = row[0] if row is not None else ""
        return self._applied[place] == commit.commit_id

    def _stored_tombstones(self, commits: Sequence[Commit], now_us: int) -> set[RunKey]:
        keys = {(commit.tenant_id, commit.run_id) for commit in commits if commit.version == 1}
        absent = [key for key in keys if key not in self._versions]
        return {
            (tenant_id, run_id)
            for tenant_id, run_id, expires_us in _buried.run(self._connection, absent)
            if expires_us > now_us
        }


def _stored_versions(connection: Connection, commits: Sequence[Commit]) -> dict[RunKey, int]:
    keys = dict.fromkeys((commit.tenant_id, commit.run_id) for commit in commits)
    return {(row[0], row[1]): row[2] for row in _versions.run(connection, list(keys))}


def _stored_tokens(connection: Connection, commits: Sequence[Commit]) -> dict[RowKey, str]:
    keys = dict.fromkeys(
        (commit.tenant_id, commit.run_id, fence.execution_id)
        for commit in commits
        for fence in commit.fences
    )
    return {(row[0], row[1], row[2]): row[3] for row in _tokens.run(connection, list(keys))}


def apply_commits(
    connection: Connection, commits: Sequence[Commit], now_us: int
) -> list[CommitResult]:
    """Apply a group within the transaction that the connection is in."""
    if not commits:
        return []
    group = _Group(connection, commits, now_us)
    verdicts = [group.take(commit) for commit in commits]
    group.batch.write(connection)
    return [CommitResult(verdict=verdict, now_us=now_us) for verdict in verdicts]
