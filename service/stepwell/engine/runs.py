"""Runs in a replica's memory: each decides its occurrences in turns, one commit at a time.

A turn reads, advances, commits, and only then notifies anybody.

All occurrences that come during a turn are decided together in the next one. No recovery is needed: a
run that isn't in memory is loaded, and a run that another replica has advanced is brought up to
date. Most turns need nothing from the store before they decide. Turns that begin within one turn of
the event loop are decided one after another by one callback, and their commits make one group. A
turn that must read first runs in a separate task (`engine/slow_turns.py`).
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

from stepwell.core.loop.advance import advance
from stepwell.core.loop.context import Context
from stepwell.core.loop.occurrences import Fork, GrantLease, Occurrence, Start
from stepwell.core.loop.slots import slot_of
from stepwell.core.loop.state import RunState
from stepwell.core.loop.transition import Reply, Transition
from stepwell.core.port import Commit, CommitResult, Runtime, Store
from stepwell.core.records.errors import StepwellError, StoreError
from stepwell.core.records.model import Run, RunSpec
from stepwell.core.records.states import BlockedKind, RunStatus, Verdict
from stepwell.engine.assigner import Ahead, Assigner
from stepwell.engine.batches import Posted, goes_alone, next_batch, reject
from stepwell.engine.clock import StoreTime
from stepwell.engine.committer import Committer
from stepwell.engine.hot_run import HotRun
from stepwell.engine.key_types import RunKey
from stepwell.engine.key_waits import KeyWaits
from stepwell.engine.keys import Keys
from stepwell.engine.letters import Letters
from stepwell.engine.slots import QueueSlots
from stepwell.engine.slow_turns import SlowTurns
from stepwell.engine.verdicts import Posting, Verdicts
from stepwell.engine.workers import Workers
from stepwell.logger import get_logger

log = get_logger(__name__)

TURNS_AT_ONCE_MAX = 64
"""Turns that are decided before the event loop does anything else."""


class _Turn(NamedTuple):
    """A decided turn whose commit is in progress."""

    key: RunKey
    hot: HotRun
    batch: list[Posted]
    transition: Transition
    commit: Commit
    granted: list[str]
    ahead: Mapping[str, Ahead]


class Runs:
    """All runs in this replica's memory, by key; the least recently used are dropped."""

    def __init__(
        self,
        store: Store,
        committer: Committer,
        workers: Workers,
        assigner: Assigner,
        slots: QueueSlots,
        runtime: Runtime,
        clock: StoreTime,
        *,
        lease_ms: int,
        retry_pause_ms: int,
        stickiness_ms: int,
        hot_max: int,
    ) -> None:
        self._store = store
        self._committer = committer
        self._workers = workers
        self._assigner = assigner
        self._runtime = runtime
        self._clock = clock
        self._lease_ms = lease_ms
        self._retry_pause_ms = retry_pause_ms
        self._stickiness_ms = stickiness_ms
        self._hot_max = hot_max
        self._hot: OrderedDict[RunKey, HotRun] = OrderedDict()
        self._idle = asyncio.Event()
        self._idle.set()
        self._busy = 0
        self._waiting: deque[tuple[RunKey, HotRun]] = deque()
        """Runs whose next turn begins in `_begin_turns`."""
        self._beginning = False
        self._posting: set[asyncio.Task[None]] = set()
        self.key_waits = KeyWaits(store, runtime, self.post)
        self.letters = Letters(store, runtime, self.post, self.held, assigner.payloads)
        keys = Keys(store, runtime, self.key_waits)
        posting = Posting(self.post, self.post_until_accepted)
        self.verdicts = Verdicts(
            store, workers, assigner, keys, self.letters, slots, runtime, clock, posting
        )
        self._slow_turns = SlowTurns(
            store, committer, workers, keys, slots, self.verdicts, runtime, clock, self._context
        )

    def post(self, key: RunKey, occurrence: Occurrence) -> asyncio.Future[Reply]:
        """Queue an occurrence for a run, like `pass_on`; return a future of the reply."""
        reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self.pass_on(key, occurrence, partial(_resolve, reply))
        return reply

    def pass_on(
        self, key: RunKey, occurrence: Occurrence, answered: Callable[[Reply | Exception], None]
    ) -> None:
        """Queue an occurrence for a run; call `answered` with the reply after the commit that applies the occurrence.

        It may get an error instead, such as RunNotFound, AlreadyExists (a deleted run had this id)
        or StoreUnavailable. It is called once, later, and must not raise.
        """
        hot = self._hot.get(key)
        if hot is None:
            hot = self._hot[key] = HotRun()
            self._drop_excess()
        else:
            self._hot.move_to_end(key)
        hot.inbox.append(Posted(occurrence, answered))
        if not hot.busy:
            hot.busy = True
            self._busy += 1
            self._idle.clear()
            self._queue_turn(key, hot)

    def post_claimed(self, key: RunKey, grant: GrantLease) -> asyncio.Future[Reply]:
        """Queue the lease of a claimed step. Following steps may keep its place for a while."""
        reply = self.post(key, grant)
        hot = self._hot.get(key)
        if hot is not None:
            hot.keep(grant.execution_id, self._runtime.monotonic(), self._stickiness_ms / 1_000)
        return reply

    def post_until_accepted(self, key: RunKey, occurrence: Occurrence) -> None:
        """Queue an occurrence whose reply nobody awaits; repeat that while the store is unavailable."""
        work = self._post_until_accepted(key, occurrence, self.post(key, occurrence))
        task = self._runtime.spawn(work, name=f"post until accepted {key[1]}")
        self._posting.add(task)
        task.add_done_callback(self._posting.discard)

    async def _post_until_accepted(
        self, key: RunKey, occurrence: Occurrence, reply: asyncio.Future[Reply]
    ) -> None:
        while True:
            try:
                await reply
            except StoreError:
                await self._runtime.sleep(self._retry_pause_ms / 1_000)
                reply = self.post(key, occurrence)
            except StepwellError:
                return
            else:
                return

    def close(self) -> None:
        """Stop repeating occurrences."""
        self.key_waits.close()
        self.letters.close()
        for task in tuple(self._posting):
            task.cancel()

    async def state(self, key: RunKey) -> RunState | None:
        """Return a run's state in memory, which may be older than the store's.

        A run that isn't in memory is loaded first. None if the run doesn't exist.
        """
        hot = self._hot.get(key)
        if hot is not None and hot.state is not None:
            return hot.state
        loaded = await self._store.load(*key)
        if loaded is None:
            return None
        state = RunState.of(loaded)
        hot = self._hot.setdefault(key, HotRun())
        if hot.state is None and not hot.busy:
            hot.state = state
        self._drop_excess()
        return state

    def held(self, key: RunKey) -> RunState | None:
        """Return a run's state if this replica holds it; it may be behind the store's."""
        hot = self._hot.get(key)
        return hot.state if hot is not None else None

    def hold_back(self, key: RunKey, write: Callable[[], None]) -> bool:
        """Have entries written after the current turn, if entries overtook it; return False if none did."""
        hot = self._hot.get(key)
        if hot is None or not hot.overtaken:
            return False
        hot.held_back.append(write)
        return True

    def forget(self, key: RunKey) -> None:
        """Drop a deleted run."""
        self.verdicts.uncertain(key)
        hot = self._hot.get(key)
        if hot is not None and not hot.busy:
            del self._hot[key]

    def is_news(self, key: RunKey, version: int) -> bool:
        """Note a hint; return whether another replica may have caused it.

        A version that is being committed here is no news. If another replica made it, the commit's
        verdict shows that.
        """
        hot = self._hot.get(key)
        if hot is None or hot.state is None or not version:
            return True
        if version <= hot.state.run.version + hot.committing:
            return False
        hot.reached = max(hot.reached, version)
        return True

    def committing(self, key: RunKey) -> int:
        """Return the version of a run that is being committed, or 0."""
        hot = self._hot.get(key)
        if hot is None or hot.state is None or not hot.committing:
            return 0
        return hot.state.run.version + 1

    def is_behind(self, key: RunKey) -> bool:
        """Return whether a hint has named a version that this replica has not read yet."""
        hot = self._hot.get(key)
        return hot is not None and hot.state is not None and hot.reached > hot.state.run.version

    def blocked_counts(self) -> Counter[BlockedKind]:
        """Return the number of runs in memory by the reason why they wait."""
        return Counter(run.blocked_on for _, run in self._runs_in_memory())

    def run_counts(self) -> Counter[tuple[str, RunStatus]]:
        """Return the number of runs in memory by tenant and status."""
        return Counter((tenant, run.status) for tenant, run in self._runs_in_memory())

    def _runs_in_memory(self) -> Iterator[tuple[str, Run]]:
        """Return each run with its tenant, without threads."""
        for (tenant, _), hot in self._hot.items():
            if hot.state is not None and not hot.state.run.spec.is_thread:
                yield tenant, hot.state.run

    async def quiet(self) -> None:
        """Wait until no turn is in progress."""
        await self._idle.wait()

    # --- turns ------------------------------------------------------------------------------------

    def _queue_turn(self, key: RunKey, hot: HotRun) -> None:
        self._waiting.append((key, hot))
        if not self._beginning:
            self._beginning = True
            asyncio.get_running_loop().call_soon(self._begin_turns)

    def _begin_turns(self) -> None:
        """Begin the turns of runs that have occurrences, a limited number at once."""
        for _ in range(min(len(self._waiting), TURNS_AT_ONCE_MAX)):
            self._begin_turn(*self._waiting.popleft())
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._begin_turns)
        else:
            self._beginning = False

    def _begin_turn(self, key: RunKey, hot: HotRun) -> None:
        """Decide a turn and hand over its commit; if it must read first, start a task for it."""
        if not goes_alone(hot.inbox[0].occurrence) and (removal := self.letters.removal(key)):
            hot.inbox.appendleft(Posted(removal, _ignore))
        batch = next_batch(hot.inbox)
        try:
            transition = self._decide_at_once(key, hot, batch)
        except Exception as error:  # noqa: BLE001 - it must not harm the turns of other runs
            self._fail_turn(key, hot, batch, error)
            self._end_turn(key, hot)
            return
        if transition is None or transition.commit is None or transition.asks:
            self._runtime.spawn(self._read_and_turn(key, hot, batch), name=f"run {key[1]}")
            return
        if hot.state is None:
            hot.state = RunState.empty(*key)
        granted = self._workers.reserve(transition)
        hot.inherit(transition.commit)
        hot.committing = True
        ahead = self._assigner.read_ahead(key, hot.state, transition.commit)
        turn = _Turn(key, hot, batch, transition, transition.commit, granted, ahead)
        self._committer.post(turn.commit, partial(self._settle_turn, turn))

    def _decide_at_once(
        self, key: RunKey, hot: HotRun, batch: Sequence[Posted]
    ) -> Transition | None:
        """Return the decision on a batch, or None if the store must be read first, or other replicas go first."""
        state, occurrences = hot.state, [one.occurrence for one in batch]
        if state is None:
            begins = occurrences[0]
            if not isinstance(begins, Start | Fork):
                return None
            # Nothing is read: if the run exists already, the commit's verdict shows that.
            context = self._context(begins.spec, hot, occurrences)
            return advance(RunState.empty(*key), occurrences, context)
        if state.graph.keys or hot.reached > state.run.version:
            return None
        for one in occurrences:
            if isinstance(one, GrantLease) and slot_of(one.token) >= 0:
                return None
        if hot.shared_until and self._runtime.monotonic() < hot.shared_until:
            return None
        return advance(state, occurrences, self._context(state.run.spec, hot, occurrences))

    def _settle_turn(self, turn: _Turn, answer: CommitResult | Exception) -> None:
        """Act on the verdict of a turn that was decided at once."""
        key, hot, batch, transition, commit, granted, ahead = turn
        hot.committing = False
        if isinstance(answer, Exception):
            self._workers.return_grants(granted)
            self.verdicts.uncertain(key)
            self._fail_turn(key, hot, batch, answer)
            self._end_turn(key, hot)
            return
        work: Coroutine[Any, Any, None] | None = None
        try:
            if not self.verdicts.apply(key, hot, transition, commit, granted, answer, ahead):
                work = self._read_and_turn(key, hot, batch, answer.verdict)
            elif lost := self.verdicts.resolve(key, batch, transition):
                work = self._answer_and_end(key, hot, lost)
        except Exception as error:  # noqa: BLE001 - it must not harm the turns of other runs
            self._fail_turn(key, hot, batch, error)
        if work is not None:
            self._runtime.spawn(work, name=f"run {key[1]}")
        else:
            self._end_turn(key, hot)

    async def _answer_and_end(self, key: RunKey, hot: HotRun, lost: Sequence[Posted]) -> None:
        try:
            await self.verdicts.answer_lost(key, lost)
        except Exception as error:  # noqa: BLE001 - whoever sent them waits for an answer
            self._fail_turn(key, hot, lost, error)
        finally:
            self._end_turn(key, hot)

    async def _read_and_turn(
        self,
        key: RunKey,
        hot: HotRun,
        batch: list[Posted],
        verdict: Verdict = Verdict.COMMITTED,
    ) -> None:
        """Run a turn that reads from the store; `verdict` is that of its first commit, if it had one."""
        try:
            await self._slow_turns.turn(key, hot, batch, verdict)
        except Exception as error:  # noqa: BLE001 - whoever sent the occurrences waits for an answer
            self._fail_turn(key, hot, batch, error)
        finally:
            self._end_turn(key, hot)

    def _fail_turn(
        self, key: RunKey, hot: HotRun, batch: Sequence[Posted], error: Exception
    ) -> None:
        # Only the store knows the run's state now, so the next turn loads it.
        hot.state = None
        if not isinstance(error, StepwellError):
            log.error("turn failed", run_id=key[1], exc_info=error)
        reject(batch, error)

    def _end_turn(self, key: RunKey, hot: HotRun) -> None:
        """Queue the run's next turn, if occurrences have come meanwhile."""
        if hot.overtaken:
            hot.let_go_on()
        if hot.inbox:
            self._queue_turn(key, hot)
            return
        hot.busy = False
        run = hot.state.run if hot.state is not None else None
        # The letters of a run that has ended are its last turn, or its next.
        if run is None or (run.ended and run.letters.first == run.letters.next):
            self._hot.pop(key, None)
        self._busy -= 1
        if not self._busy:
            self._idle.set()

    def _context(self, spec: RunSpec, hot: HotRun, occurrences: Sequence[Occurrence]) -> Context:
        """Return the circumstances of a decision, with the workers that are free at this moment."""
        return Context(
            commit_id=self._runtime.new_id(),
            now_us=self._clock.now_us(),
            seed=int(self._runtime.random() * 2**32),
            lease_ms=self._lease_ms,
            grants=self._workers.grants(spec, hot.kept(occurrences, self._runtime.monotonic())),
        )

    def _drop_excess(self) -> None:
        """Drop the least recently used runs without a running turn, down to the limit."""
        excess = len(self._hot) - self._hot_max
        if excess > 0:
            idle = (key for key, hot in self._hot.items() if not hot.busy)
            for key in tuple(islice(idle, excess)):
                del self._hot[key]


def _ignore(_: Reply | Exception) -> None:
    pass


def _resolve(future: asyncio.Future[Reply], reply: Reply | Exception) -> None:
    if future.done():
        return
    if isinstance(reply, Exception):
        future.set_exception(reply)
        future.exception()  # Retrieved, so that asyncio doesn't log it as an unhandled error.
    else:
        future.set_result(reply)
