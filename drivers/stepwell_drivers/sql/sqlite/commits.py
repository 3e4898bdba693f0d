"""The verdict on each commit of a group, and one write for all that were accepted.

The rules are the port's: the version is checked before the fences, a commit that was applied before
is COMMITTED again, and commits of one run are taken in the order given.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import bindparam, func, select, text

from stepwell.core.port import Commit, CommitResult
from stepwell.core.records.journal import Totals
from stepwell.core.records.model import Execution
from stepwell.core.records.states import ExecutionStatus, Verdict
from stepwell_drivers.sql import schema
from stepwell_drivers.sql.batch import Batch
from stepwell_drivers.sql.entries import SUMS, totals_of
from stepwell_drivers.sql.sqlite.journal import write_entries
from stepwell_drivers.sql.sqlite.link import SqliteLink
from stepwell_drivers.sql.sqlite.row_writes import write
from stepwell_drivers.sql.sqlite.run_cache import NOTHING, Facts, Kept, Known, RunKey
from stepwell_drivers.sql.statements import Query

_LEASABLE = frozenset({ExecutionStatus.LEASED, ExecutionStatus.UNKNOWN_OUTCOME})

_runs = schema.runs.c
_facts = Query(
    select(_runs.run_key, _runs.version, _runs.commit_id, _runs.status, _runs.ended_us).where(
        _runs.tenant_id == bindparam("tenant_id"), _runs.run_id == bindparam("run_id")
    )
)
_executions = schema.executions.c
_sums = schema.lease_sums.c
_token = Query(
    select(
        _executions.token,
        _executions.status,
        func.coalesce(func.json_extract(_executions.body, "$.forget_number"), 0),
        *[_sums[name] for name in SUMS],
    )
    .join_from(
        schema.executions,
        schema.lease_sums,
        (_sums.run_key == _executions.run_key)
        & (_sums.execution_id == _executions.execution_id)
        & (_sums.token == _executions.token),
        isouter=True,
    )
    .where(
        _executions.run_key == bindparam("run_key"),
        _executions.execution_id == bindparam("execution_id"),
    )
)
_commit_id = Query(
    select(schema.commits.c.commit_id).where(
        schema.commits.c.run_key == bindparam("run_key"),
        schema.commits.c.version == bindparam("version"),
    )
)
_tombstones = schema.tombstones.c
_tombstone = Query(
    select(_tombstones.expires_us).where(
        _tombstones.tenant_id == bindparam("tenant_id"), _tombstones.run_id == bindparam("run_id")
    )
)
_last_key = Query(text("SELECT seq FROM sqlite_sequence WHERE name = 'run_rows'"))


class Group:
    """A group of commits within one transaction."""

    def __init__(self, link: SqliteLink, known: Known, now_us: int) -> None:
        self._link = link
        self._known = known
        self._now_us = now_us
        self._batch = Batch(now_us, link.in_turns)
        self._before: dict[int, Facts] = {}
        """The facts of its runs as the file has them, by the runs' numbers."""
        self._found: dict[RunKey, Facts] = {}
        """The facts that it has read."""
        self.after: dict[RunKey, Facts] = {}
        """The facts of the runs that it has moved, for when it has been committed."""
        self._applied: dict[tuple[int, int], str] = {}
        self._journals: list[tuple[int, Commit]] = []
        """The accepted commits that change journals."""
        self._run_key = 0
        """The number of the run that was created last."""

    def decide(self, commits: Sequence[Commit]) -> list[CommitResult]:
        """Return the verdicts on some of its commits."""
        return [
            CommitResult(verdict=self._decide(commit), now_us=self._now_us)
            for commit in self._link.in_turns(commits)
        ]

    def write(self) -> None:
        """Write what was accepted."""
        if self.after:
            write(self._link, self._batch.rows(), self._before)
            write_entries(self._link, self._journals, self._now_us)

    def _decide(self, commit: Commit) -> Verdict:
        """Return a commit's verdict; add it to the batch if it is accepted."""
        run = (commit.tenant_id, commit.run_id)
        facts = self.facts_of(run)
        if facts is None:
            return self._create(commit, run)
        if facts.version != commit.version - 1:
            was_applied = self._was_applied(commit, facts)
            return Verdict.COMMITTED if was_applied else Verdict.CONFLICT
        if commit.follows not in ("", facts.commit_id):
            return Verdict.CONFLICT
        knows_all = True
        for fence in commit.fences:
            token = self.token_of(facts, fence.execution_id)
            if not token or token != fence.token:
                return Verdict.LEASE_LOST
            kept = facts.recorded.get(fence.execution_id, NOTHING)
            knows_all &= fence.recorded < 0 or fence.recorded == kept.totals.entries
        if not knows_all:
            return Verdict.CONFLICT
        self._accept(commit, run, facts)
        return Verdict.COMMITTED

    def facts_of(self, run: RunKey) -> Facts | None:
        """Return a run's facts as the group has left them, or None if there is no such run."""
        facts = self.after.get(run)
        if facts is not None:
            return facts
        facts = self._known.of(run) or self._found.get(run)
        if facts is None:
            row = _facts.first(self._link, tenant_id=run[0], run_id=run[1])
            if row is None:
                return None
            run_key, version, commit_id, status, ended_us = row
            facts = Facts(run_key, version, commit_id, (status, ended_us), {}, {})
            self._found[run] = facts
        self._before[facts.run_key] = facts
        return facts

    def token_of(self, facts: Facts, execution_id: str) -> str:
        """Return the token of an execution's lease, or "" if it has none."""
        token = facts.tokens.get(execution_id)
        if token is None:
            row = _token.first(self._link, run_key=facts.run_key, execution_id=execution_id)
            token = facts.tokens[execution_id] = (row[0] or "") if row is not None else ""
            if row is not None and token:
                _, status, forget_number, *sums = row
                totals = Totals() if sums[0] is None else totals_of(sums)
                kept = Kept(totals, status == ExecutionStatus.LEASED, forget_number)
                if kept != NOTHING:
                    facts.recorded[execution_id] = kept
        return token

    def take_sums(self, run: RunKey, execution_id: str, totals: Totals) -> None:
        """Take over the sums of what a lease has recorded."""
        facts = self.facts_of(run)
        assert facts is not None
        kept = facts.recorded.get(execution_id, NOTHING)._replace(totals=totals)
        self.after[run] = facts._replace(recorded={**facts.recorded, execution_id: kept})

    def _was_applied(self, commit: Commit, facts: Facts) -> bool:
        if not 1 <= commit.version <= facts.version:
            return False
        place = (facts.run_key, commit.version)
        if place not in self._applied:
            row = _commit_id.first(self._link, run_key=facts.run_key, version=commit.version)
            self._applied[place] = row[0] if row is not None else ""
        return self._applied[place] == commit.commit_id

    def _create(self, commit: Commit, run: RunKey) -> Verdict:
        if commit.version != 1 or not self._may_be_created(commit, run):
            return Verdict.CONFLICT
        if commit.fences:
            return Verdict.LEASE_LOST
        if not self._run_key:
            row = _last_key.first(self._link)
            self._run_key = row[0] if row is not None else 0
        self._run_key += 1
        self._accept(commit, run, Facts(self._run_key, 0, "", ("", 0), {}, {}))
        return Verdict.COMMITTED

    def _may_be_created(self, commit: Commit, run: RunKey) -> bool:
        row = _tombstone.first(self._link, tenant_id=run[0], run_id=run[1])
        if row is not None and row[0] > self._now_us:
            return False
        parent_id = commit.run.spec.parent_run_id
        return not parent_id or self.facts_of((run[0], parent_id)) is not None

    def _accept(self, commit: Commit, run: RunKey, facts: Facts) -> None:
        run_key = facts.run_key
        self._batch.add(commit, run_key)
        if commit.entries or commit.forgotten:
            self._journals.append((run_key, commit))
        tokens, recorded = dict(facts.tokens), facts.recorded
        leases = {lease.execution_id: lease.token for lease in commit.leases}
        for execution in commit.executions:
            name = execution.execution_id
            if execution.status not in _LEASABLE:
                tokens[name] = ""
            elif name in leases:
                tokens[name] = leases[name]
            is_unknown = execution.status is ExecutionStatus.UNKNOWN_OUTCOME
            if recorded or is_unknown or execution.forget_number:
                recorded = _kept(recorded, execution, is_new=name in leases)
        listed = (str(commit.run.status), commit.run.ended_us)
        self.after[run] = Facts(run_key, commit.version, commit.commit_id, listed, tokens, recorded)
        self._applied[run_key, commit.version] = commit.commit_id


def _kept(recorded: dict[str, Kept], execution: Execution, *, is_new: bool) -> dict[str, Kept]:
    """Return what is known of a run's leases once a row of one of its executions is written."""
    name, status = execution.execution_id, execution.status
    after = dict(recorded)
    before = after.pop(name, NOTHING)
    if status in _LEASABLE:
        totals = Totals() if is_new else before.totals
        kept = Kept(totals, status is ExecutionStatus.LEASED, execution.forget_number)
        if kept != NOTHING:
            after[name] = kept
    return after
