"""Commits, heartbeats and deletions: what writes a run's rows.

The commits of one run in one call are one call of the script, in their order; different runs travel
together but are decided apart. So a lost connection may leave some applied and some not: the port's one
answer for all of them says "nothing was done" only when that is certain of each. Births of forks come
after the others, each by itself: their families have to be asked first.
"""

from __future__ import annotations

from collections.abc import Sequence

from stepwell.core.port import Commit, CommitResult, Renewal
from stepwell.core.records.errors import (
    InvalidArgument,
    OutcomeUnknown,
    StoreError,
    StoreFull,
    StoreUnavailable,
)
from stepwell.core.records.states import Verdict
from stepwell_drivers.redis.base import Base, number
from stepwell_drivers.redis.families import TOMBSTONE_US, Families
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
        self._families = Families(base)
        self._unfinished = False
        """A deletion has left rows to be removed."""

    async def commit(self, commits: Sequence[Commit]) -> list[CommitResult]:
        """Send each run's commits to its partition; one result each, in order.

        Raises:
            InvalidArgument: one of them can't be kept; nothing was sent.
            StoreUnavailable: nothing was applied.
            OutcomeUnknown: something may have been.
        """
        base = self._base
        chains: dict[RunKeys, list[int]] = {}
        forks: dict[RunKeys, int] = {}
        bodies = [pack(commit) for commit in commits]
        for at, commit in enumerate(commits):
            run = base.run(commit.tenant_id, commit.run_id)
            chains.setdefault(run, []).append(at)
            if _is_fork(commit):
                forks.setdefault(run, at)
        plain = [run for run in chains if run not in forks]
        asks = [self._ask(run, chains[run], bodies) for run in plain]
        replies = dict(zip(plain, await base.network.commit_all(asks), strict=True))
        for run, at in forks.items():
            replies[run] = await self._bear(run, commits[at], chains[run], bodies)
        results: dict[int, CommitResult] = {}
        for run, chain in chains.items():
            reply = replies[run]
            if not isinstance(reply, StoreError):
                results.update(zip(chain, self._results(reply), strict=True))
            elif isinstance(reply, StoreFull):
                size = sum(len(part) for at in chain for part in bodies[at])
                base.note_refused(run.partition, size)
        if len(results) < len(commits):
            _raise([reply for reply in replies.values() if isinstance(reply, StoreError)], results)
        return [results[at] for at in range(len(commits))]

    def _ask(
        self,
        run: RunKeys,
        chain: list[int],
        bodies: Sequence[list[bytes]],
        *,
        is_orphan: bool = False,
    ) -> Ask:
        base = self._base
        arguments = (
            *(run.name.encode(), number(base.floor), packed((is_orphan, base.store_id, chain))),
            *[part for at in chain for part in bodies[at]],
        )
        return Ask(run.partition.slot, Call(base.scripts.commit, _commit_keys(run), arguments))

    async def _bear(
        self, run: RunKeys, birth: Commit, chain: list[int], bodies: Sequence[list[bytes]]
    ) -> Reply | StoreError:
        """Send a fork's birth, after its family was asked."""
        try:
            alive = await self._families.join(birth.tenant_id, run, birth.run.spec)
        except StoreError as error:
            return error
        # Sent in any case: it may have been applied before.
        asks = [self._ask(run, chain, bodies, is_orphan=not alive)]
        (reply,) = await self._base.network.commit_all(asks)
        return reply

    def _results(self, reply: Reply) -> list[CommitResult]:
        letters, now, stamp = reply.split(b" ")
        self._base.raise_floor(int(stamp))
        now_us = self._base.observe(int(now))
        if b"E" in letters:
            raise InvalidArgument("a commit's events must be numbered on from the run's last")
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
            *(run.rows, run.orders, run.events, run.logs, run.log_marks),
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
    return commit.version == 1 and (spec.parent_run_id != "" or spec.family_id != "")


def _commit_keys(run: RunKeys) -> tuple[bytes, ...]:
    one = run.partition
    return (
        *(one.book, one.wake, one.ready, one.due, one.holders, one.lists, one.tombstones),
        *(one.feed, run.tenant_feed, run.rows, run.orders, run.events),
    )


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
