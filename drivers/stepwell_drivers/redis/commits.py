"""Commits, heartbeats and deletions: what writes a run's rows.

The commits of one run in one call are one call of the script, in their order; different runs travel
together but are decided apart. So a lost connection may leave some applied and some not: the port's one
answer for all of them says "nothing was done" only when that is certain of each.
"""

from __future__ import annotations

from collections.abc import Sequence

from stepwell.core.errors import InvalidArgument, OutcomeUnknown, StoreError, StoreUnavailable
from stepwell.core.ports import Commit, CommitResult, Renewal
from stepwell.core.states import Verdict
from stepwell_drivers.redis.base import Base, number
from stepwell_drivers.redis.keys import RunKeys, escape
from stepwell_drivers.redis.network import Ask
from stepwell_drivers.redis.packing import Beside, micros, pack
from stepwell_drivers.redis.rows import packed
from stepwell_drivers.redis.scripts import Call
from stepwell_drivers.redis.wire import Reply

TOMBSTONE_US = 2 * 3_600 * 1_000_000
SWEEP_COMMITS = 2_000
"""So many commits of a deleted run are taken out of the feeds in one go."""

_VERDICTS = {
    ord("C"): Verdict.COMMITTED,
    ord("X"): Verdict.CONFLICT,
    ord("L"): Verdict.LEASE_LOST,
}


class Commits:
    """The door for what changes runs."""

    def __init__(self, base: Base) -> None:
        self._base = base

    async def commit(self, commits: Sequence[Commit]) -> list[CommitResult]:
        """Send each run's commits to its partition; one result each, in order.

        Raises:
            InvalidArgument: one of them can't be kept; nothing was sent.
            StoreUnavailable: nothing was applied.
            OutcomeUnknown: something may have been.
        """
        base = self._base
        chains: dict[RunKeys, list[int]] = {}
        bodies = [pack(commit) for commit in commits]
        for at, commit in enumerate(commits):
            chains.setdefault(base.run(commit.tenant_id, commit.run_id), []).append(at)
        floor = number(base.floor)
        asks = [
            Ask(
                run.partition.slot,
                Call(
                    base.scripts.commit,
                    _commit_keys(run),
                    (
                        *(run.name.encode(), floor, packed(chain)),
                        *[part for at in chain for part in bodies[at]],
                    ),
                ),
            )
            for run, chain in chains.items()
        ]
        replies = await base.network.commit_all(asks)
        results: dict[int, CommitResult] = {}
        for chain, reply in zip(chains.values(), replies, strict=True):
            if not isinstance(reply, StoreError):
                results.update(zip(chain, self._results(reply), strict=True))
        if len(results) < len(commits):
            _raise([reply for reply in replies if isinstance(reply, StoreError)], results)
        return [results[at] for at in range(len(commits))]

    def _results(self, reply: Reply) -> list[CommitResult]:
        letters, now, stamp = reply.split(b" ")
        self._base.heard_stamp(int(stamp))
        now_us = self._base.heard(int(now))
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
            beside = Beside()
            array = packed([_renewal(renewals[at], beside) for at in group])
            arguments = (run.name.encode(), array, *beside.rows)
            call = Call(base.scripts.renew, _renew_keys(run), arguments)
            asks.append(Ask(run.partition.slot, call))
        answers = [False] * len(renewals)
        for group, reply in zip(groups.values(), await base.network.ask_all(asks), strict=True):
            for at, answer in zip(group, reply, strict=True):
                answers[at] = answer == 1
        return answers

    async def delete(self, tenant_id: str, run_id: str, version: int) -> bool:
        """Remove a run at a version. Out of sight at once; out of the feeds before this returns."""
        run = self._base.run(tenant_id, run_id)
        rubbish = f"{run.partition.tag}rubbish:{run.name}".encode()
        keys = (
            *_shared(run),
            run.partition.trash,
            *(run.rows, run.orders, run.events, run.logs, rubbish),
        )
        arguments = (run.name.encode(), number(version), number(TOMBSTONE_US))
        asked_before = False
        call = (run.partition, self._base.scripts.delete, keys, *arguments)
        try:
            answer = await self._base.call(*call, again=False)
        except OutcomeUnknown:
            asked_before = True
            answer = await self._base.call(*call)
        # 2: there is a tombstone. If we asked before, it is ours.
        deleted = answer == 1 or (answer == 2 and asked_before)
        if deleted:
            await self._sweep(run, rubbish)
        return deleted

    async def _sweep(self, run: RunKeys, rubbish: bytes) -> None:
        partition = run.partition
        keys = (partition.trash, partition.feed, run.tenant_feed, rubbish)
        arguments = (run.name.encode(), number(SWEEP_COMMITS))
        left = 1
        while left > 0:
            left = await self._base.call(partition, self._base.scripts.sweep, keys, *arguments)

    async def sweep_all(self) -> None:
        """Take away what is left of runs whose deletion was interrupted."""
        base = self._base
        lists = await base.network.ask_all(
            [Ask(one.slot, ("ZRANGE", one.trash, 0, 999)) for one in base.keys.partitions]
        )
        for partition, names in zip(base.keys.partitions, lists, strict=True):
            for name in names:
                tenant, _, _ = name.partition(b":")
                run = RunKeys(
                    partition=partition,
                    name=name.decode(),
                    rows=b"",
                    orders=b"",
                    events=b"",
                    logs=b"",
                    tenant_feed=partition.tag.encode() + b"feed-of:" + tenant,
                )
                await self._sweep(run, f"{partition.tag}rubbish:{run.name}".encode())


def _shared(run: RunKeys) -> tuple[bytes, ...]:
    one = run.partition
    return (
        *(one.book, one.wake, one.ready, one.due),
        *(one.holders, one.births, one.graves),
    )


def _commit_keys(run: RunKeys) -> tuple[bytes, ...]:
    return (
        *_shared(run),
        *(run.partition.feed, run.tenant_feed),
        *(run.rows, run.orders, run.events),
    )


def _renew_keys(run: RunKeys) -> tuple[bytes, ...]:
    one = run.partition
    return (one.book, one.wake, one.due, run.rows)


def _renewal(renewal: Renewal, beside: Beside) -> tuple[object, ...]:
    session = renewal.session
    return (
        renewal.execution_id,
        escape(renewal.execution_id),
        renewal.token,
        micros(renewal.lease_ms),
        renewal.progress is not None and beside.row(renewal.progress),
        bool(session.backend or session.session_id) and beside.row(session),
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
