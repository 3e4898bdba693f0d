"""Turns that read from the store: of runs that aren't in memory, that wait for keys, or that replicas share.

A turn that another replica's commit has overtaken reads the changes, and decides again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from stepwell.core.loop.advance import advance
from stepwell.core.loop.context import Context, KeyFound
from stepwell.core.loop.occurrences import (
    Fork,
    Occurrence,
    Start,
    StartInThread,
    WriteToThread,
)
from stepwell.core.loop.state import RunState
from stepwell.core.loop.thread_occurrences import ForkThread
from stepwell.core.loop.transition import Transition
from stepwell.core.port import Commit, JournalQuery, Runtime, Store
from stepwell.core.records.errors import RunNotFound, StoreUnavailable
from stepwell.core.records.journal import StoredEntry
from stepwell.core.records.model import RunSpec
from stepwell.core.records.states import Verdict
from stepwell.engine.batches import Posted, extend
from stepwell.engine.clock import StoreTime
from stepwell.engine.committer import Committer
from stepwell.engine.hot_run import HotRun
from stepwell.engine.key_types import RunKey
from stepwell.engine.keys import Keys
from stepwell.engine.slots import QueueSlots
from stepwell.engine.step_journal import first_entries
from stepwell.engine.verdicts import Verdicts
from stepwell.engine.workers import Workers

CONFLICTS_MAX = 50
"""The reloads of one turn before its occurrences fail. Each means that another replica advanced the
run, or that journal entries were written meanwhile."""
YIELD_TURNS = 2
"""Turns that a replica leaves to the others after its own commit on a shared run."""
YIELD_SECONDS_MAX = 0.1


class SlowTurns:
    """Runs turns that read, one at a time for each run."""

    def __init__(
        self,
        store: Store,
        committer: Committer,
        workers: Workers,
        keys: Keys,
        slots: QueueSlots,
        verdicts: Verdicts,
        runtime: Runtime,
        clock: StoreTime,
        context: Callable[[RunSpec, HotRun, Sequence[Occurrence]], Context],
    ) -> None:
        self._store = store
        self._committer = committer
        self._workers = workers
        self._keys = keys
        self._slots = slots
        self._verdicts = verdicts
        self._runtime = runtime
        self._clock = clock
        self._context = context

    async def turn(self, key: RunKey, hot: HotRun, batch: list[Posted], verdict: Verdict) -> None:
        """Run a turn, and answer all its occurrences; `verdict` is that of its first commit, if it had one."""
        began = self._runtime.monotonic()
        lost = await self._decide_until_committed(key, hot, batch, verdict)
        if lost:
            await self._verdicts.answer_lost(key, lost)
        await self._yield(hot, began)

    async def _decide_until_committed(
        self, key: RunKey, hot: HotRun, batch: list[Posted], verdict: Verdict
    ) -> list[Posted]:
        """Decide a batch until a decision is committed; return its outcomes whose leases are lost."""
        is_current = verdict is not Verdict.COMMITTED
        if is_current:
            await self._catch_up(key, hot, verdict)
        for _ in range(CONFLICTS_MAX):
            if extend(batch, hot.inbox):
                # The store was read before these occurrences came, and may lack what they refer to.
                is_current = False
            occurrences = [one.occurrence for one in batch]
            if hot.state is None:
                hot.state = await self._load(key, occurrences)
                is_current = True
            elif hot.reached > hot.state.run.version:
                # A decision on the older state could not be committed.
                self._verdicts.stats["caught_up"] += 1
                hot.reached = 0
                await hot.refresh(self._store, key, self._runtime)
                is_current = True
                continue
            transition = await self._decide(key, hot, hot.state, occurrences)
            if transition.commit is None:
                # No commit will show whether another replica has advanced the run, so it is read.
                if is_current or not await hot.refresh(self._store, key, self._runtime):
                    if hot.state.run.version == 0:
                        hot.state = None  # Nothing began, so there is nothing to keep up to date.
                    return self._verdicts.resolve(key, batch, transition)
            elif await self._commit(key, hot, transition, transition.commit):
                return self._verdicts.resolve(key, batch, transition)
            is_current = True
        raise StoreUnavailable("too much else changes this run at once; try again")

    async def _decide(
        self, key: RunKey, hot: HotRun, state: RunState, occurrences: Sequence[Occurrence]
    ) -> Transition:
        """Decide on the occurrences, with what other runs have done under the keys of this run's tasks.

        Entries of the run's journals for which it asks are read first.
        """
        spec = occurrences[0].spec if isinstance(occurrences[0], Start | Fork) else state.run.spec
        if self._slots.limit(spec.queue):
            occurrences = await self._slots.take(key, state, occurrences)
        pages: dict[JournalQuery, Sequence[StoredEntry]] = {}

        def advanced(keys: dict[str, KeyFound]) -> Transition:
            context = self._context(spec, hot, occurrences)
            return advance(state, occurrences, replace(context, keys=keys, pages=pages))

        transition = await self._keys.decide(key, hot, state, advanced)
        while transition.asked_pages:
            for query in transition.asked_pages:
                pages[query] = await first_entries(self._store, query)
            transition = await self._keys.decide(key, hot, state, advanced)
        return transition

    async def _load(self, key: RunKey, occurrences: Sequence[Occurrence]) -> RunState:
        if isinstance(occurrences[0], Start | Fork):
            return RunState.empty(*key)
        loaded = await self._store.load(*key)
        if loaded is None and isinstance(
            occurrences[0], StartInThread | WriteToThread | ForkThread
        ):
            return RunState.empty(*key)
        if loaded is None:
            raise RunNotFound(key[1])
        self._clock.observe(loaded.now_us)
        return RunState.of(loaded)

    async def _commit(
        self, key: RunKey, hot: HotRun, transition: Transition, commit: Commit
    ) -> bool:
        """Commit and act on the verdict; return False if another replica was first, with the state now up to date."""
        granted = self._workers.reserve(transition)
        hot.inherit(commit)
        hot.committing = True
        try:
            result = await self._committer.commit(commit)
        except BaseException:
            self._workers.return_grants(granted)
            self._verdicts.uncertain(key)
            raise
        finally:
            hot.committing = False
        if self._verdicts.apply(key, hot, transition, commit, granted, result):
            return True
        await self._catch_up(key, hot, result.verdict)
        return False

    async def _catch_up(self, key: RunKey, hot: HotRun, verdict: Verdict) -> None:
        """Read what the store has instead of the state that the commit was based on."""
        assert hot.state is not None
        before = hot.state.run.version
        await hot.catch_up(self._store, key, self._runtime, verdict)
        is_same = hot.state.run.version == before
        hot.overtaken = hot.overtaken or (verdict is Verdict.CONFLICT and is_same)

    async def _yield(self, hot: HotRun, began: float) -> None:
        """Leave a shared run to other replicas for a moment, so that the loser of a race goes first.

        The winner is up to date and would win again while the others read what they missed. Occurrences
        that come meanwhile are decided together.
        """
        now = self._runtime.monotonic()
        if now >= hot.shared_until or hot.state is None or len(hot.state.open) < 2:
            return
        hot.turn_s += (min(now - began, YIELD_SECONDS_MAX) - hot.turn_s) / 8
        await self._runtime.sleep(min(YIELD_TURNS * hot.turn_s, YIELD_SECONDS_MAX))
