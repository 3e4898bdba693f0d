"""Commits and heartbeats: what writes a run's rows.

All commits that come together for a partition are one call of its script, which decides each of them apart. So a
lost connection may leave some applied and some not: the port's one answer for all of them says "nothing was
done" only when that is certain of each.
"""

from __future__ import annotations

from collections.abc import Sequence

from stepwell.core.port import Commit, CommitResult, Renewal
from stepwell.core.records.errors import StoreError, StoreFull
from stepwell.core.records.states import Verdict
from stepwell_drivers.redis.base import Base
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


class Commits:
    """The door for what changes runs."""

    def __init__(self, base: Base) -> None:
        self._base = base
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
        groups = self._divided(commits)
        replies = await base.network.commit_all([self._ask(group) for group in groups])
        answered = list(zip(groups, replies, strict=True))
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

    def _divided(self, commits: Sequence[Commit]) -> list[Group]:
        """Return the commits in groups."""
        groups = Groups()
        for place, commit in enumerate(commits):
            one = pack(commit)
            run = self._base.run(commit.tenant_id, commit.run_id)
            keys = (run.rows, run.orders, run.tenant_feed)
            groups.of(run).add(run, keys, place, (place, *one.parts), one.arguments)
        return groups.all

    def _ask(self, group: Group) -> Ask:
        """Return a group's call."""
        base, one = self._base, group.partition
        keys = (
            *(one.book, one.wake, one.ready, one.due, one.holders, one.lists, one.tombstones),
            one.feed,
        )
        return group.ask(
            base.scripts.commit, keys, base.floor, base.store_id, base.channel.decode()
        )

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
            one = run.partition
            keys = (one.book, one.wake, one.due, run.rows)
            asks.append(Ask(one.slot, Call(base.scripts.renew, keys, arguments)))
        answers = [False] * len(renewals)
        for group, reply in zip(groups.values(), await base.network.ask_all(asks), strict=True):
            for at, answer in zip(group, reply, strict=True):
                answers[at] = answer == 1
        return answers


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
