"""Acts on the verdicts on commits: updates the state and the workers, and answers the occurrences."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, Protocol

from stepwell.core.loop.idempotency import MORE_TIMER, continues
from stepwell.core.loop.loss_allowance import POISON
from stepwell.core.loop.occurrences import Delivery, Occurrence, TimerDue
from stepwell.core.loop.slots import freed_slots
from stepwell.core.loop.state import RunState
from stepwell.core.loop.transition import LEASE_LOST, Reply, ReplyStatus, Transition
from stepwell.core.port import Commit, CommitResult, Runtime, Store
from stepwell.core.records.states import Verdict
from stepwell.engine import receipts
from stepwell.engine.assigner import Ahead, Assigner, Undelivered, Unfilled
from stepwell.engine.batches import Posted
from stepwell.engine.clock import StoreTime
from stepwell.engine.hot_run import HotRun
from stepwell.engine.key_types import RunKey
from stepwell.engine.keys import Keys, held_keys
from stepwell.engine.letters import Letters
from stepwell.engine.slots import QueueSlots
from stepwell.engine.workers import Workers
from stepwell.logger import get_logger

log = get_logger(__name__)

_COUNTED_AS = {verdict: f"commits_{verdict.lower()}" for verdict in Verdict}


class Posting(NamedTuple):
    """Two ways to queue an occurrence for a run."""

    post: Callable[[RunKey, Occurrence], asyncio.Future[Reply]]
    post_until_accepted: Callable[[RunKey, Occurrence], None]


class CommitObserver(Protocol):
    """Observes this replica's commits. Its methods don't wait and must not raise."""

    def committed(self, commit: Commit) -> None:
        """Note a commit that the store has acknowledged."""
        ...

    def uncertain(self, tenant_id: str, run_id: str) -> None:
        """Note that this replica no longer knows a run's state for certain."""
        ...


class Verdicts:
    """Acts on verdicts for all runs in this replica's memory."""

    def __init__(
        self,
        store: Store,
        workers: Workers,
        assigner: Assigner,
        keys: Keys,
        letters: Letters,
        slots: QueueSlots,
        runtime: Runtime,
        clock: StoreTime,
        posting: Posting,
    ) -> None:
        self._store = store
        self._workers = workers
        self._assigner = assigner
        self._keys = keys
        self._letters = letters
        self._slots = slots
        self._runtime = runtime
        self._clock = clock
        self._posting = posting
        self.observer: CommitObserver | None = None
        self.stats: Counter[str] = Counter()

    def apply(
        self,
        key: RunKey,
        hot: HotRun,
        transition: Transition,
        commit: Commit,
        granted: Sequence[str],
        result: CommitResult,
        ahead: Mapping[str, Ahead] = MappingProxyType({}),
    ) -> bool:
        """Act on the store's verdict; return False if another replica was first, and the state is behind.

        `ahead` has the journals that were read while the commit was made, by execution.
        """
        state = hot.state
        assert state is not None
        self._clock.observe(result.now_us)
        self.stats[_COUNTED_AS[result.verdict]] += 1
        if result.verdict is not Verdict.COMMITTED:
            self._workers.return_grants(granted)
            self.uncertain(key)
            return False
        held = held_keys(state, commit)
        queue = commit.run.spec.queue
        limited = self._slots.limit(queue) > 0
        freed = freed_slots(state, commit) if limited else ()
        state.apply(commit)
        if state.graph.keys:
            self._keys.committed(key, hot, held, commit)
        self.stats["events"] += len(commit.events)
        self.stats["leases"] += len(commit.leases)
        self._assign(key, state, transition, ahead)
        if limited:
            self._slots.ended((key[0], queue), freed)
        if commit.timers and continues(commit.timers):
            self._posting.post(key, TimerDue(name=MORE_TIMER))
        if commit.entries:
            self._letters.committed(key, commit)
        if self.observer is not None:
            self.observer.committed(commit)
        return True

    def uncertain(self, key: RunKey) -> None:
        """Report that this replica no longer knows the run's state."""
        if self.observer is not None:
            self.observer.uncertain(*key)

    def _assign(
        self, key: RunKey, state: RunState, transition: Transition, ahead: Mapping[str, Ahead]
    ) -> None:
        unsent = self._assigner.committed(key, state, transition, ahead)
        for undelivered in unsent.undelivered:
            self._end_lease(key, undelivered)
        for unfilled in unsent.unfilled:
            self._runtime.spawn(self._fill(key, unfilled), name="assign")

    async def _fill(self, key: RunKey, unfilled: Unfilled) -> None:
        undelivered = await self._assigner.fill(key, unfilled)
        if undelivered is not None:
            self._end_lease(key, undelivered)

    def _end_lease(self, key: RunKey, undelivered: Undelivered) -> None:
        """End a lease whose worker never received it; if it expired, it would spend an attempt."""
        assignment, end = undelivered
        delivery = Delivery(
            execution_id=assignment.execution.execution_id, token=assignment.token, result=end
        )
        self._posting.post_until_accepted(key, delivery)

    def resolve(self, key: RunKey, batch: Sequence[Posted], transition: Transition) -> list[Posted]:
        """Resolve the replies of a batch; return the outcomes whose leases are lost."""
        lost: list[Posted] = []
        for one, reply in zip(batch, transition.replies, strict=True):
            if reply.status is ReplyStatus.LEASE_LOST and isinstance(one.occurrence, Delivery):
                lost.append(one)
                continue
            if reply.reason == POISON:
                self.stats["poisoned_steps"] += 1
                log.warning("a step is poison", run_id=key[1], why=reply.message)
            one.settle(reply)
        return lost

    async def answer_lost(self, key: RunKey, lost: Sequence[Posted]) -> None:
        """Answer outcomes whose leases are lost, and count them, because they leave no event."""
        answers = await receipts.answers(self._store, key, lost)
        self.stats["stale_outcomes"] += answers.count(LEASE_LOST)
        for one, answer in zip(lost, answers, strict=True):
            one.settle(answer)
