"""Commits, heartbeats and deletions: what writes a run's rows.

All commits that come together for a partition are one call of its script, which decides each of them apart. So a
lost connection may leave some applied and some not: the port's one answer for all of them says "nothing was
done" only when that is certain of each. Births of forks come after the others, each by itself: their
families have to be asked first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

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
from stepwell_drivers.redis.keys import Partition, RunKeys, escape
from stepwell_drivers.redis.network import Ask
from stepwell_drivers.redis.packing import Packed, RowBuffer, micros, pack
from stepwell_drivers.redis.rows import packed
from stepwell_drivers.redis.scripts import Call
from stepwell_drivers.redis.wire import Reply

_VERDICTS = {
    ord("C"): Verdict.COMMITTED,
    ord("X"): Verdict.CONFLICT,
    ord("L"): Verdict.LEASE_LOST,
}


GROUP_BYTES = 256 * 1024
"""A call that has so many bytes takes no further run: a server that is nearly full refuses it as a whole."""


class _Group:
    """Commits of runs of one partition, for one call."""

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.places: list[int] = []
        """The places of its commits among all that came together."""
        self.size = 0
        self._keys: list[bytes] = []
        self._lines: list[bytes] = []
        """The runs' lines in the partition's book."""
        self._numbers: dict[str, int] = {}
        self._parts: list[tuple[Any, ...]] = []
        self._arguments: list[bytes] = []

    def add(self, run: RunKeys, place: int, commit: Packed) -> None:
        """Take a commit, behind those that are there."""
        number = self._numbers.get(run.name)
        if number is None:
            number = self._numbers[run.name] = len(self._numbers) + 1
            self._keys += (run.rows, run.orders, run.tenant_feed)
            self._lines.append(f"v{run.name}".encode())
        self._parts.append((number, place, *commit.parts))
        self._arguments += commit.arguments
        self.places.append(place)
        self.size += commit.size

    def ask(self, base: Base, *, is_orphan: bool = False) -> Ask:
        """Return its call."""
        one = self.partition
        keys = (
            *(one.book, one.wake, one.ready, one.due, one.holders, one.lists, one.tombstones),
            *(one.feed, *self._keys),
        )
        channel = base.channel.decode()
        head = (base.floor, base.store_id, channel, is_orphan, len(self._lines), self._parts)
        arguments = (packed(head), *self._lines, *self._arguments)
        return Ask(one.slot, Call(base.scripts.commit, keys, arguments))


class _Birth(NamedTuple):
    """A fork that is to be born, and all commits of it."""

    run: RunKeys
    commit: Commit
    group: _Group


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
        replies = await base.network.commit_all([group.ask(base) for group in groups])
        answered = list(zip(groups, replies, strict=True))
        answered += [(birth.group, await self._bear(birth)) for birth in births]
        results: dict[int, CommitResult] = {}
        for group, reply in answered:
            if not isinstance(reply, StoreError):
                results.update(zip(group.places, self._results(reply), strict=True))
            elif isinstance(reply, StoreFull):
                base.note_refused(group.partition, group.size)
        if len(results) < len(commits):
            _raise([reply for _, reply in answered if isinstance(reply, StoreError)], results)
        return [results[place] for place in range(len(commits))]

    def _divided(self, commits: Sequence[Commit]) -> tuple[list[_Group], list[_Birth]]:
        """Return the commits in groups, those of one run in one, and forks that are to be born."""
        groups: list[_Group] = []
        births: list[_Birth] = []
        of_run: dict[str, _Group] = {}
        last: dict[int, _Group] = {}
        """The last group of each partition."""
        for place, commit in enumerate(commits):
            packed_commit = pack(commit)
            run = self._base.run(commit.tenant_id, commit.run_id)
            group = of_run.get(run.name)
            if group is None and _is_fork(commit):
                group = _Group(run.partition)
                births.append(_Birth(run, commit, group))
            elif group is None:
                group = last.get(run.partition.number)
                if group is None or group.size > GROUP_BYTES:
                    group = last[run.partition.number] = _Group(run.partition)
                    groups.append(group)
            of_run[run.name] = group
            group.add(run, place, packed_commit)
        return groups, births

    async def _bear(self, birth: _Birth) -> Reply | StoreError:
        """Send a fork's birth, after its family was asked."""
        commit = birth.commit
        try:
            alive = await self._families.join(commit.tenant_id, birth.run, commit.run.spec)
        except StoreError as error:
            return error
        # Sent in any case: it may have been applied before.
        asks = [birth.group.ask(self._base, is_orphan=not alive)]
        (reply,) = await self._base.network.commit_all(asks)
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


def _raise(failures: list[StoreError], results: dict[int, CommitResult]) -> None:
    applied = any(result.verdict is Verdict.COMMITTED for result in results.values())
    for failure in failures:
        if not isinstance(failure, StoreUnavailable | OutcomeUnknown):
            raise failure
    for failure in failures:
        if isinstance(failure, OutcomeUnknown):
            raise failure
    if applied:
        raise OutcomeUnknown(f"only a part of a group was applied: {failures[0].message}")
    raise failures[0]
