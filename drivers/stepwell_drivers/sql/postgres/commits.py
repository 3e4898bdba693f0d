"""Commits in Postgres: a group is one call of a function.

The function (`migrations/first/postgresql_commit.sql`) looks at the runs, gives the verdicts by the port's rules,
and writes the rows of all commits that it accepts. It is given the rows as lists (`rows.py`) that name a run by
its place in the group, since only the database knows the runs' numbers, and durations in place of moments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, NamedTuple

from stepwell.core.port import Commit, CommitResult
from stepwell.core.records.states import Verdict
from stepwell_drivers.sql.batch import Batch, RunKey
from stepwell_drivers.sql.columns import Values
from stepwell_drivers.sql.rows import Rows
from stepwell_drivers.sql.writes import CommitWork

HEAD = ("tenant_id", "run_id", "version", "commit_id", "follows")
FENCE = ("at", "execution_id", "token", "recorded")
LISTS = tuple(field.name for field in fields(Rows))
"""The lists of rows, in the order of the function's arguments."""
_parameters = ", ".join(f"${at}" for at in range(1, len(LISTS) + 3))
CALL = f"SELECT verdicts, now_us FROM stepwell_commit_0008({_parameters})"  # noqa: S608 - numbers of ours
NOTHING: Sequence[Any] = (None,) * (len(LISTS) + 2)
"""The arguments of a call that commits nothing."""


class _Group(NamedTuple):
    """Commits of different runs."""

    places: Sequence[int]
    """Their places among the commits that were asked for."""
    arguments: Sequence[Any]


class CommitCalls:
    """Commits as calls: several only where a run has more than one commit, or a fork is created with its parent."""

    sql = CALL

    def __init__(self, works: Sequence[CommitWork]) -> None:
        self._sizes = [len(work.commits) for work in works]
        commits = [commit for work in works for commit in work.commits]
        self._groups = [_group(commits, places) for places in _apart(commits)]

    @property
    def arguments(self) -> list[Sequence[Any]]:
        """The arguments of each call; they are made one after another."""
        return [group.arguments for group in self._groups]

    def answers(self, answered: Sequence[Sequence[Any]]) -> list[list[CommitResult]]:
        """Return what the works are answered with, by the rows that the calls returned."""
        results: dict[int, CommitResult] = {}
        for group, ((verdicts, now_us),) in zip(self._groups, answered, strict=True):
            for place, verdict in zip(group.places, verdicts, strict=True):
                results[place] = CommitResult(verdict=Verdict(verdict), now_us=now_us)
        places = iter(range(len(results)))
        return [[results[next(places)] for _ in range(size)] for size in self._sizes]


def _apart(commits: Sequence[Commit]) -> list[list[int]]:
    """Return the places of these commits by calls, so that none depends on another of its call.

    Runs are created in the order given, in which they are listed.
    """
    calls: list[list[int]] = []
    next_call: dict[RunKey, int] = {}
    last_created = 0
    for place, commit in enumerate(commits):
        spec = commit.run.spec
        names = [commit.run_id]
        if commit.version == 1 and spec.parent_run_id:
            names.append(spec.parent_run_id)
        call = max(next_call.get((commit.tenant_id, name), 0) for name in names)
        if commit.version == 1:
            call = last_created = max(call, last_created)
        next_call[commit.tenant_id, commit.run_id] = call + 1
        if call == len(calls):
            calls.append([])
        calls[call].append(place)
    return calls


def _group(commits: Sequence[Commit], places: Sequence[int]) -> _Group:
    # Runs are locked in the order of their names, because then no two groups wait for each other.
    # New rows are created in the order of the commits.
    named = sorted(places, key=lambda place: (commits[place].tenant_id, commits[place].run_id))
    numbers = {place: at for at, place in enumerate(named, 1)}
    heads = [_head(commits[place]) for place in named]
    fences: list[Values] = []
    batch = Batch(0)
    for place in places:
        at = numbers[place]
        fences += [
            (at, fence.execution_id, fence.token, fence.recorded) for fence in commits[place].fences
        ]
        batch.add(commits[place], at)
    rows = batch.rows()
    rows.moved_runs.sort()
    lists = [heads, fences, *[getattr(rows, name) for name in LISTS]]
    return _Group(named, [several or None for several in lists])


def _head(one: Commit) -> Values:
    return (one.tenant_id, one.run_id, one.version, one.commit_id, one.follows)
