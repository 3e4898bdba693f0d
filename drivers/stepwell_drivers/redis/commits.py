"""Commits, heartbeats and deletions: what writes a run's rows.

All commits that come together for a partition are one call of its script, which decides each of them apart. So a
lost connection may leave some applied and some not: the port's one answer for all of them says "nothing was
done" only when that is certain of each. Births of forks come after the others, each by itself: their
families have to be asked first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from stepwell.core.port import Commit, CommitResult, Renewal
from stepwell.core.records.errors import (
    OutcomeUnknown,
    StoreError,
    StoreFull,
    StoreUnavailable,
)
from stepwell.core.records.states import Verdict
from stepwell_drivers.redis.base import Base, number
from stepwell_drivers.redis.families import TOMBSTONE_US, Families
from stepwell_drivers.redis.groups import Group, Groups, failure_of
from stepwell_drivers.redis.keys import RunKeys, escape
from stepwell_drivers.redis.network import Ask
from stepwell_drivers.redis.packing import RowBuffer, micros, pack
from stepwell_drivers.redis.rows import packed
from stepwell_drivers.redis.scripts import Call
from stepwell_drivers.redis.wire import Reply

_VERDICTS = {
    ord("C"): Verdict.COMMITTED,
    ord("X"): Verdict.CONFLICT,
    ord("L"): Verdict.LEASE_LOST,
}


class _Birth(NamedTuple):
    """A fork that is to be born, and all commits of it."""

    run: RunKeys
    commit: Commit
    group: Group


class Commits:
    """The door for what changes runs."""

    def __init__(self, base: Base) -> None:
        self._base = base
        self._families = Families(base)
        self._unfinished = False
        """A deletion has left rows to be removed."""
        self.listeners = 0
        """The number of those who listen to hints where the last commits went; below 0: it isn't known."""

    async def commit(self, commits: Sequence[Commit]) -> list[CommitResult]:
        """Send the commits to their partitions; one result each, in order.

        Raises:
            InvalidArgument: one of them can't be kept; nothing was sent.
            StoreUnavailable: nothing was applied.
            OutcomeUnknown: something may have been.
        """
        base = self._base
        groups, births = self._divided(commits)
        replies = await base.network.commit_all([self._ask(group) for group in groups])
        answered = list(zip(groups, replies, strict=True))
        answered += [(birth.group, await self._bear(birth)) for birth in births]
        results: dict[int, CommitResult] = {}
        for group, reply in answered:
            if not isinstance(reply, StoreError):
                results.update(zip(group.places, self._results(reply), strict=True))
            elif isinstance(reply, StoreFull):
                base.note_refused(group.partition, group.size)
        if len(results) < len(commits):
            failures = [reply for _, reply in answered if isinstance(reply, StoreError)]
            verdicts = (result.verdict for result in results.values())
            raise failure_of(failures, is_done=Verdict.COMMITTED in verdicts)
        return [results[place] for place in range(len(commits))]

    def _divided(self, commits: Sequence[Commit]) -> tuple[list[Group], list[_Birth]]:
        """Return the commits in groups, and forks that are to be born."""
        groups = Groups()
        births: list[_Birth] = []
        for place, commit in enumerate(commits):
            one = pack(commit)
            run = self._base.run(commit.tenant_id, commit.run_id)
            if _is_fork(commit) and not groups.knows(run):
                births.append(_Birth(run, commit, groups.alone(run)))
            keys = (run.rows, run.orders, run.tenant_feed)
            groups.of(run).add(run, keys, place, (place, *one.parts), one.arguments)
        return groups.all, births

    def _ask(self, group: Group, *, is_orphan: bool = False) -> Ask:
        """Return a group's call."""
        base, one = self._base, group.partition
        keys = (
            *(one.book, one.wake, one.ready, one.due, one.holders, one.lists, one.tombstones),
            one.feed,
        )
        head = (base.floor, base.store_id, base.channel.decode(), is_orphan)
        return group.ask(base.scripts.commit, keys, *head)

    async def _bear(self, birth: _Birth) -> Reply | StoreError:
        """Send a fork's birth, after its family was asked."""
        commit = birth.commit
        try:
            alive = await self._families.join(commit.tenant_id, birth.run, commit.run.spec)
        except StoreError as error:
            return error
        # Sent in any case: it may have been applied before.
        ask = self._ask(birth.group, is_orphan=not alive)
        (reply,) = await self._base.network.commit_all([ask])
        return reply

    def _results(self, reply: Reply) -> list[CommitResult]:
        letters, now, stamp, listeners = reply.split(b" ")
        self.listeners = int(listeners)
        self._base.raise_floor(int(stamp))
        now_us = self._base.observe(int(now))
        return [CommitResult(verdict=_VERDICTS[letter], now_us=now_us) for letter in letters]

    async def renew(self, renewals: Sequence[Renewal]) -> list[bool]:
        """Move leases' deadlines, each run's in one call; whether each is still the holder's."""
        base = self._base
        groups: dict[RunKeys, list[int]] = {}
        for at, renewal in enumerate(renewals):
            groups.setdefault(base.run(renewal.tenant_id, renewal.run_id), []).append(at)
        asks: list[Ask] = []
        for run, group in groups.items():
            rows = RowBuffer()
            array = packed([_renewal(renewals[at], rows) for at in group])
            arguments = (run.name.encode(), array, *rows.rows)
            call = Call(base.scripts.renew, _renew_keys(run), arguments)
            asks.append(Ask(run.partition.slot, call))
        answers = [False] * len(renewals)
        for group, reply in zip(groups.values(), await base.network.ask_all(asks), strict=True):
            for at, answer in zip(group, reply, strict=True):
                answers[at] = answer == 1
        return answers

    async def delete(self, tenant_id: str, run_id: str, version: int) -> bool:
        """Remove a run at a version. Out of sight at once; what is left of it goes before this returns,
        or, when a server fails meanwhile, with a later deletion or at the next start.
        """
        run = self._base.run(tenant_id, run_id)
        one = run.partition
        keys = (
            *(one.book, one.wake, one.ready, one.due, one.holders, one.lists),
            *(one.logged, one.tombstones, one.trash),
            *(run.rows, run.orders, run.logs, run.log_marks),
            *(run.rubbish, run.kept, run.family),
            *(one.feed, run.tenant_feed, run.tenant_deletions),
        )
        floor = number(self._base.floor)
        arguments = (run.name.encode(), number(version), number(TOMBSTONE_US), floor)
        asked_before = False
        call = (run.partition, self._base.scripts.delete, keys, *arguments)
        try:
            answer = await self._base.call(*call, again=False)
        except OutcomeUnknown:
            asked_before = True
            answer = await self._base.call(*call)
        if answer > 2:
            self._base.raise_floor(answer)
        # 2: there is a tombstone. If we asked before, it is ours.
        deleted = answer > 2 or (answer == 2 and asked_before)
        if deleted:
            await self._finish(run)
        return deleted

    async def _finish(self, run: RunKeys) -> None:
        try:
            await self._families.finish(run)
            if self._unfinished:
                await self.finish_all()
        except StoreUnavailable:
            self._unfinished = True

    async def finish_all(self) -> None:
        """Take away what is left of runs whose deletion was interrupted."""
        await self._families.finish_all()
        self._unfinished = False


def _is_fork(commit: Commit) -> bool:
    spec = commit.run.spec
    return commit.version == 1 and bool(spec.parent_run_id or spec.family_id)


def _renew_keys(run: RunKeys) -> tuple[bytes, ...]:
    one = run.partition
    return (one.book, one.wake, one.due, run.rows)


def _renewal(renewal: Renewal, rows: RowBuffer) -> tuple[object, ...]:
    session = renewal.session
    return (
        renewal.execution_id,
        escape(renewal.execution_id),
        renewal.token,
        micros(renewal.lease_ms),
        renewal.progress is not None and rows.row(renewal.progress),
        bool(session.backend or session.session_id) and rows.row(session),
    )
