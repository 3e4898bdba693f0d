"""Plays a program from its first call until everything that it made is deleted."""

from __future__ import annotations

import asyncio
from itertools import product
from typing import Any, get_type_hints

import msgspec

from stepwell.core.port import (
    CheckpointQuery,
    Claim,
    EndedQuery,
    ExecutionQuery,
    FeedQuery,
    JournalQuery,
    KeySwap,
    LeaseQuery,
    LogQuery,
    MessageQuery,
    PresenceQuery,
    QuestionQuery,
    RunQuery,
    TaskQuery,
    Want,
)
from stepwell.core.records.states import LogKind
from stepwell.runtime import SystemRuntime
from stepwell.store.opener import open_store
from stepwell_testkit.conformance.drawn.acting import ANSWER_S_MAX, GROUPS, Calls
from stepwell_testkit.conformance.drawn.calls import Base, Call, Change, Swap
from stepwell_testkit.conformance.drawn.compare import Differs, Reader, must_equal
from stepwell_testkit.conformance.drawn.making import ENDS
from stepwell_testkit.conformance.drawn.names import (
    EXECUTIONS,
    HALF_MS,
    KEYS,
    KINDS,
    PERIOD_MS,
    PIPELINES,
    QUEUES,
    WORKERS,
)
from stepwell_testkit.conformance.drawn.subject import Subject
from stepwell_testkit.runtime import ManualRuntime

TURNS = 5
"""Turns of the event loop in which expected hints arrive."""


class Player(Calls):
    """One running program."""

    @classmethod
    async def start(cls, subject: Subject, number: int) -> Player:
        """Return a new program."""
        runtime = ManualRuntime(f"reference {number}")
        player = cls(subject, await open_store("memory://", runtime=runtime), runtime, number)
        store = await subject.connection(0)
        player._listen(store)
        if "feed" not in subject.left_out:
            now = FeedQuery(cursor="now")
            ends = [(await one.page(now)).cursor for one in (player.reference, store)]
            of_all = (Reader(FeedQuery(cursor=ends[0])), Reader(FeedQuery(cursor=ends[1])))
            mine = FeedQuery(tenant_id=player.known.tenants[1])
            player._feeds = (of_all, (Reader(mine), Reader(mine)))
        return player

    async def play(self, call: Call) -> None:
        """Play one call.

        Raises:
            Differs: the driver's answer differs from the reference's.
        """
        if GROUPS.get(call.method, "") in self.subject.left_out:
            return
        self._via = call.via
        method = getattr(self, call.method)
        # In a replay they are decoded.
        hints = get_type_hints(getattr(type(self), call.method))
        await method(
            **{
                name: msgspec.convert(value, hints.get(name, Any))
                for name, value in call.arguments.items()
            }
        )

    async def finish(self) -> None:
        """Compare everything that can be read, then delete it and check that it is gone."""
        known, left_out = self.known, self.subject.left_out
        self._via = 0
        await self._dump("at the end")
        if "logs" not in left_out:
            await self._shorten_logs()
        for reader in range(len(self._feeds)):
            await self.feed(reader, 100, to_the_end=True)
        for _ in range(TURNS):
            await SystemRuntime().sleep(0)
        for tenant_id, run_id, version in self._hints:
            if version > known.reached.get((tenant_id, run_id), version):
                raise Differs(f"a hint of version {version} of {run_id!r}, which never was there")
        if "delete" not in left_out:
            while known.heads:  # A run with forks stays until they are deleted.
                for key in tuple(known.heads):
                    await self.delete(known.tenants.index(key[0]), key[1], 0)
                    for other in known.reached:
                        await self._read_by_key(other)
            # Creating the run again is refused by its tombstone.
            again = [
                Change(tenant=tenant, run=run_id, base=Base.CREATE)
                for tenant_id, run_id in known.deleted
                for tenant in (known.tenants.index(tenant_id),)
            ]
            await self.commit(tuple(again))
            # Reservations of runs that never existed.
            for tenant_id, pipeline_id, key in list(known.reserved):
                await self._swap(tenant_id, pipeline_id, (Swap(key=key, right=True),))
            await self._dump("when all is deleted")
            must_equal([], await self._left())

    async def close(self) -> None:
        """Close the reference, and leave nothing in the driver's store."""
        if self._stop_hints is not None:
            self._stop_hints()
        await self.reference.close()
        try:
            async with asyncio.timeout(ANSWER_S_MAX):
                left = await self._cleaned()
        except Exception:  # noqa: BLE001 - what can't be cleaned is dropped
            left = True
        if left:
            await self.subject.drop()

    async def _cleaned(self) -> bool:
        """Delete what a failed program left; return whether something stays."""
        if "delete" in self.subject.left_out:
            return True
        store = await self.subject.connection(0)
        # Twice: one that has forks stays until they are gone.
        for key in (*self.known.reached, *self.known.reached):
            run = await store.get_run(*key)
            if run is not None:
                await store.delete_run(*key, version=run.version)
        for tenant_id, pipeline_id in product(self.known.tenants, PIPELINES):
            stands = await store.swap_keys(
                tenant_id, pipeline_id, [KeySwap(key=key) for key in KEYS]
            )
            back = [KeySwap(key=key, before=one) for key, one in zip(KEYS, stands, strict=True)]
            await store.swap_keys(tenant_id, pipeline_id, back)
        return bool(await self._left())

    async def _left(self) -> list[object]:
        """Return what a claim still returns: of this program, and due items of earlier ones."""
        wants = tuple(
            Want(tenant_id=tenant_id, queues=QUEUES, kinds=KINDS[0], version=version, limit=100)
            for tenant_id in self.known.tenants
            for version in ("v", "9")
        )
        claimed = await (await self.subject.connection(0)).claim(Claim(wants=wants, hold_ms=0))
        return [*(one for steps in claimed.ready for one in steps), *claimed.due]

    async def _shorten_logs(self) -> None:
        """Trim each log, purge them all, and compare the rest."""
        for tenant_id, run_id in self.known.heads:
            tenant = self.known.tenants.index(tenant_id)
            await self.trim_logs(tenant, run_id, EXECUTIONS[0].execution_id, next(iter(LogKind)))
        for periods in (1, 0):
            for tenant_id, run_id in self.known.heads:
                await self._list(LogQuery(tenant_id=tenant_id, run_id=run_id, limit=3))
            await self.purge_logs(periods * PERIOD_MS + HALF_MS, 2)

    async def _dump(self, when: str) -> None:
        """Compare everything that can be read of the program's work."""
        known = self.known
        self.log.append(when)
        for tenant_id in known.tenants:
            await self._list(RunQuery(tenant_id=tenant_id, limit=2))
            await self._list(QuestionQuery(tenant_id=tenant_id, limit=2))
            for end in ENDS:
                await self._list(EndedQuery(tenant_id=tenant_id, statuses=(end,)))
            await self._list(PresenceQuery(tenant_id=tenant_id))
            for worker_id in ("", *WORKERS):
                await self._list(LeaseQuery(tenant_id=tenant_id, worker_id=worker_id))
            for pipeline_id in PIPELINES:
                await self._swap(tenant_id, pipeline_id, tuple(Swap(key=key) for key in KEYS))
        for key in known.reached:
            names = {"tenant_id": key[0], "run_id": key[1]}
            await self._load(key, 0)
            await self._read_by_key(key)
            await self._list(QuestionQuery(**names, limit=1))
            await self._list(LeaseQuery(**names))
            # A deleted run may have left its journal to others.
            await self._list(JournalQuery(tenant_id=key[0], run_id=key[1], limit=3))
            if key in known.heads:
                await self._events(key, 0, 100_000)
                for kind in (TaskQuery, ExecutionQuery, MessageQuery, CheckpointQuery, LogQuery):
                    await self._list(kind(**names, limit=3))
