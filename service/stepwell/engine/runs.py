"""The runs that a replica works on: each takes its inputs in turns, one commit at a time.

A turn is the whole shell of the loop: read, advance, commit, and only then tell anybody. All inputs
that came while the last turn ran are decided together. There is no recovery in here: a run that isn't
held is loaded, one that another replica has moved on is brought up to date, and that is all.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Sequence
from itertools import islice
from typing import NamedTuple, Protocol

import structlog

from stepwell.core.loop.advance import advance
from stepwell.core.loop.idempotency import MORE_TIMER, is_more_asked
from stepwell.core.loop.signals import (
    Command,
    Context,
    Delivery,
    Failed,
    Fork,
    GrantLease,
    NeedsInput,
    Reply,
    ReplyStatus,
    Signal,
    Start,
    TimerDue,
    Transition,
)
from stepwell.core.loop.state import RunState
from stepwell.core.port import Runtime, Store
from stepwell.core.records import limits
from stepwell.core.records.errors import (
    AlreadyExists,
    RunNotFound,
    StepwellError,
    StoreError,
    StoreUnavailable,
)
from stepwell.core.records.states import BlockedKind, Verdict
from stepwell.engine import known_results
from stepwell.engine.clock import StoreTime
from stepwell.engine.committer import Committer

log = structlog.get_logger(__name__)

CONFLICTS_MAX = 50
"""Reloads of one turn before its inputs are given back; each means that another replica advanced."""
SHARED_SECONDS = 1.0
"""For how long after another replica's commit a run counts as worked on there, too."""
YIELD_TURNS = 2
"""How many of its turns a replica leaves to the others, after a commit on a shared run."""
YIELD_SECONDS_MAX = 0.1

RunKey = tuple[str, str]
"""(tenant_id, run_id)."""


class Hands(Protocol):
    """Whoever gives leases out: asked before a commit, told after it."""

    def grant(self, transition: Transition) -> list[GrantLease]:
        """Return leases for steps that this transition offers, as far as workers have room."""
        ...

    def committed(self, key: RunKey, state: RunState, transition: Transition) -> None:
        """Hand out what was leased and tell of what was revoked."""
        ...

    def refused(self, tokens: Sequence[str]) -> None:
        """Take back what was granted: its commit did not happen."""
        ...


class Waiting(NamedTuple):
    """An input, and who waits for what becomes of it."""

    input: Signal
    reply: asyncio.Future[Reply]


class HotRun:
    """A run in this replica's memory."""

    __slots__ = ("busy", "committing", "inbox", "reached", "shared_until", "state", "turn_s")

    def __init__(self) -> None:
        self.state: RunState | None = None
        self.inbox: deque[Waiting] = deque()
        self.busy = False
        self.committing = False
        self.reached = 0
        """The newest version that a hint has told of: known to be stored before it is known here."""
        self.shared_until = 0.0
        """Until when other replicas are taken to work on it too, by the monotonic clock."""
        self.turn_s = 0.005
        """What a turn takes, on average, while it is shared."""


class Runs:
    """All runs that this replica holds, by key; the least lately used ones are let go."""

    def __init__(
        self,
        store: Store,
        committer: Committer,
        runtime: Runtime,
        clock: StoreTime,
        *,
        lease_ms: int,
        hot_max: int,
    ) -> None:
        self._store = store
        self._committer = committer
        self._runtime = runtime
        self._clock = clock
        self._lease_ms = lease_ms
        self._hot_max = hot_max
        self._hot: OrderedDict[RunKey, HotRun] = OrderedDict()
        self._hands: Hands | None = None
        self.on_ended: Callable[[str, str], None] | None = None
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._busy = 0
        self._insisting: set[asyncio.Task[None]] = set()
        self.stats: Counter[str] = Counter()

    def bind(self, hands: Hands) -> None:
        """Say who gives leases out."""
        self._hands = hands

    def post(self, key: RunKey, one: Signal) -> asyncio.Future[Reply]:
        """Give a run an input. The reply comes after the commit that carries it.

        The future raises RunNotFound, AlreadyExists (the id is a deleted run's), StoreUnavailable.
        """
        hot = self._hot.get(key)
        if hot is None:
            hot = self._hot[key] = HotRun()
            self._let_go()
        else:
            self._hot.move_to_end(key)
        reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        hot.inbox.append(Waiting(one, reply))
        if not hot.busy:
            hot.busy = True
            self._busy += 1
            self._quiet.clear()
            self._runtime.spawn(self._work(key, hot), name=f"run {key[1]}")
        return reply

    def insist(self, key: RunKey, one: Signal, *, pause_s: float) -> None:
        """Give a run an input whose reply nobody waits for, again while the store takes nothing."""
        work = self._insist(key, one, self.post(key, one), pause_s)
        task = self._runtime.spawn(work, name=f"insist on {key[1]}")
        self._insisting.add(task)
        task.add_done_callback(self._insisting.discard)

    async def _insist(
        self, key: RunKey, one: Signal, reply: asyncio.Future[Reply], pause_s: float
    ) -> None:
        while True:
            try:
                await reply
            except StoreError:
                await self._runtime.sleep(pause_s)
                reply = self.post(key, one)
            except StepwellError:
                return
            else:
                return

    def close(self) -> None:
        """Insist on nothing any more."""
        for task in tuple(self._insisting):
            task.cancel()

    async def state(self, key: RunKey) -> RunState | None:
        """Return a run's state as this replica holds it, which may be behind the store's.

        One that isn't held is loaded first. None: there is no such run.
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
        self._let_go()
        return state

    def forget(self, key: RunKey) -> None:
        """Let go of a run that was deleted."""
        hot = self._hot.get(key)
        if hot is not None and not hot.busy:
            del self._hot[key]

    def is_news(self, key: RunKey, version: int) -> bool:
        """Take a hint; tell whether it may speak of something that this replica did not do itself.

        A version that is being committed here is no news: if it turns out to be another replica's,
        the verdict says so.
        """
        hot = self._hot.get(key)
        if hot is None or hot.state is None or not version:
            return True
        if version <= hot.state.run.version + hot.committing:
            return False
        hot.reached = max(hot.reached, version)
        return True

    def is_behind(self, key: RunKey) -> bool:
        """Tell whether a hint has told of a version that this replica has not read yet."""
        hot = self._hot.get(key)
        return hot is not None and hot.state is not None and hot.reached > hot.state.run.version

    def blocked_counts(self) -> Counter[BlockedKind]:
        """Return the number of runs in memory by what they wait for."""
        states = (hot.state for hot in self._hot.values())
        return Counter(state.run.blocked_on for state in states if state is not None)

    async def quiet(self) -> None:
        """Wait until no turn is under way."""
        await self._quiet.wait()

    # --- turns ------------------------------------------------------------------------------------

    async def _work(self, key: RunKey, hot: HotRun) -> None:
        try:
            while hot.inbox:
                batch = _batch(hot.inbox)
                began = self._runtime.monotonic()
                try:
                    await self._turn(key, hot, batch)
                    await self._yield(hot, began)
                except Exception as error:  # noqa: BLE001 - whoever waits is told, whatever it is
                    self._fail(key, hot, batch, error)
        finally:
            hot.busy = False
            if hot.state is None or hot.state.run.ended:
                self._hot.pop(key, None)
            self._busy -= 1
            if not self._busy:
                self._quiet.set()

    async def _yield(self, hot: HotRun, began: float) -> None:
        """Leave a shared run to the others for a moment: who lost a commit goes first.

        Whoever won is up to date and would win again, while the others read what they missed. What
        comes meanwhile is decided together.
        """
        now = self._runtime.monotonic()
        if now >= hot.shared_until or hot.state is None or len(hot.state.open) < 2:
            return
        hot.turn_s += (min(now - began, YIELD_SECONDS_MAX) - hot.turn_s) / 8
        await self._runtime.sleep(min(YIELD_TURNS * hot.turn_s, YIELD_SECONDS_MAX))

    async def _turn(self, key: RunKey, hot: HotRun, batch: list[Waiting]) -> None:
        looked = False
        for _ in range(CONFLICTS_MAX):
            if _join(batch, hot.inbox):
                # The look was before they came: it may not have seen what they are about.
                looked = False
            inputs = [one.input for one in batch]
            if hot.state is None:
                hot.state = await self._load(key, inputs)
                looked = True
            elif hot.reached > hot.state.run.version:
                # What would be decided on the older state could not be committed.
                self.stats["caught_up"] += 1
                hot.reached = 0
                await self._moved_on(key, hot)
                looked = True
                continue
            state = hot.state
            transition = await known_results.decide(self._store, state, inputs, self._context())
            granted: list[GrantLease] = []
            if transition.offered and self._hands is not None:
                granted = self._hands.grant(transition)
                if granted:
                    transition = advance(state, granted, self._context(), after=transition)
            if not transition.changes_something:
                # No commit will say whether another replica has moved the run on: look.
                if looked or not await self._moved_on(key, hot):
                    self._tell(batch, transition.replies)
                    return
            elif await self._commit(key, hot, transition, granted):
                self._tell(batch, transition.replies)
                return
            looked = True
        raise StoreUnavailable("too many replicas work on this run at once; try again")

    def _tell(self, batch: Sequence[Waiting], replies: Sequence[Reply]) -> None:
        """Answer, and count outcomes that came too late: they leave no event."""
        for one, reply in zip(batch, replies, strict=False):
            if reply.status is ReplyStatus.LEASE_LOST and isinstance(one.input, Delivery):
                self.stats["stale_outcomes"] += 1
        _tell(batch, replies)

    async def _commit(
        self, key: RunKey, hot: HotRun, transition: Transition, granted: Sequence[GrantLease]
    ) -> bool:
        state = hot.state
        assert state is not None
        hot.committing = True
        try:
            commit = transition.commit(self._runtime.new_id(), follows=state.commit_id)
            result = await self._committer.commit(commit)
        except BaseException:
            self._take_back(granted)
            raise
        finally:
            hot.committing = False
        self._clock.tell(result.now_us)
        self.stats[f"commits_{result.verdict.lower()}"] += 1
        if result.verdict is Verdict.COMMITTED:
            state.apply(transition, commit.commit_id)
            self.stats["events"] += len(transition.events)
            self.stats["leases"] += len(transition.leases)
            if self._hands is not None:
                self._hands.committed(key, state, transition)
            if is_more_asked(transition.timers):
                self.post(key, TimerDue(name=MORE_TIMER))
            if state.run.ended and self.on_ended is not None:
                self.on_ended(*key)
            return True
        self._take_back(granted)
        await self._catch_up(key, hot, result.verdict)
        return False

    def _take_back(self, granted: Sequence[GrantLease]) -> None:
        if granted and self._hands is not None:
            self._hands.refused([one.token for one in granted])

    async def _catch_up(self, key: RunKey, hot: HotRun, verdict: Verdict) -> None:
        """Another replica has moved the run on: bring what changed since.

        What is held may be more than the store has: it may have lost what it acknowledged, where its
        class says so, and have gone on without it. Then all is read anew.
        """
        state = hot.state
        assert state is not None
        since = state.run.version if verdict is Verdict.CONFLICT else 0
        loaded = await self._store.load(*key, since=since)
        if loaded is not None and not loaded.complete and loaded.since_id != state.commit_id:
            loaded = await self._store.load(*key)
        if loaded is None:
            hot.state = None
            if since == 0:
                raise AlreadyExists("a run of this id was deleted a short while ago")
            raise RunNotFound(key[1])
        if loaded.run.version != state.run.version:
            hot.shared_until = self._runtime.monotonic() + SHARED_SECONDS
        state.merge(loaded)

    async def _moved_on(self, key: RunKey, hot: HotRun) -> bool:
        """Bring the run up to date; tell whether there was anything to bring."""
        before = hot.state.commit_id if hot.state is not None else ""
        await self._catch_up(key, hot, Verdict.CONFLICT)
        return hot.state is None or hot.state.commit_id != before

    async def _load(self, key: RunKey, inputs: Sequence[Signal]) -> RunState:
        if isinstance(inputs[0], Start | Fork):
            return RunState.unborn(*key)
        loaded = await self._store.load(*key)
        if loaded is None:
            raise RunNotFound(key[1])
        self._clock.tell(loaded.now_us)
        return RunState.of(loaded)

    def _context(self) -> Context:
        return Context(
            now_us=self._clock.now_us(),
            seed=int(self._runtime.random() * 2**32),
            lease_ms=self._lease_ms,
        )

    def _fail(self, key: RunKey, hot: HotRun, batch: Sequence[Waiting], error: Exception) -> None:
        """Nothing is known of the run any more but what the store says: the next turn loads it."""
        hot.state = None
        if not isinstance(error, StepwellError):
            log.error("turn failed", run_id=key[1], exc_info=error)
        for one in batch:
            if not one.reply.done():
                one.reply.set_exception(error)
                one.reply.exception()  # looked at, so that an unwaited one makes no noise

    def _let_go(self) -> None:
        """Make room: the least lately used runs that have nothing under way."""
        excess = len(self._hot) - self._hot_max
        if excess > 0:
            idle = (key for key, hot in self._hot.items() if not hot.busy)
            for key in tuple(islice(idle, excess)):
                del self._hot[key]


def _batch(inbox: deque[Waiting]) -> list[Waiting]:
    """Take what can be decided together: a command with a request id goes alone."""
    batch = [inbox.popleft()]
    _join(batch, inbox)
    return batch


def _join(batch: list[Waiting], inbox: deque[Waiting]) -> bool:
    """Add what has come meanwhile, as far as the events of it all stay within their limit.

    Tells whether there was any.
    """
    known = len(batch)
    if not inbox or _goes_alone(batch[-1].input):
        return False
    room = limits.EVENT_BYTES_PER_COMMIT_MAX - sum(_event_bytes(one.input) for one in batch)
    while (
        inbox
        and len(batch) < limits.INPUTS_PER_TRANSITION_MAX
        and not _goes_alone(inbox[0].input)
        and (room := room - _event_bytes(inbox[0].input)) >= 0
    ):
        batch.append(inbox.popleft())
    return len(batch) > known


def _event_bytes(one: Signal) -> int:
    """Return about how much of an input stands in events: failures and questions can be large."""
    if not isinstance(one, Delivery):
        return 0
    size = 0
    if isinstance(one.result, Failed):
        failure = one.result.failure
        # Of the execution, of its task, and for the next attempt.
        size = 3 * (len(failure.message) + len(failure.details))
    elif isinstance(one.result, NeedsInput):
        size = len(one.result.prompt) + len(one.result.schema)
    return size + (len(one.progress.data) if one.progress is not None else 0)


def _goes_alone(one: Signal) -> bool:
    return isinstance(one, Command | Start | Fork)


def _tell(batch: Sequence[Waiting], replies: Sequence[Reply]) -> None:
    for one, reply in zip(batch, replies, strict=False):
        if not one.reply.done():
            one.reply.set_result(reply)
