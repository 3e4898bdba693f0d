"""Players: they take runs to their ends as an executor and its workers would, each step by a commit of their own.

The core decides each step. A `Load` has many of them at once, on several doors to one store; some runs are played by
two, so that there are conflicts. All that they do is written down, for the oracle.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, Self

from stepwell.core.loop.advance import advance
from stepwell.core.loop.context import Context
from stepwell.core.loop.occurrences import Completed, Delivery, GrantLease, Occurrence, Start
from stepwell.core.loop.state import RunState
from stepwell.core.port import FeedQuery, JournalWrite, Renewal, Store
from stepwell.core.records.errors import StoreError
from stepwell.core.records.events import Event
from stepwell.core.records.journal import Entry
from stepwell.core.records.model import Payload, RunSpec, TaskSpec
from stepwell.core.records.states import ExecutionStatus, Verdict
from stepwell.engine.step_journal import journal_in
from stepwell_testkit.proxy import StoreProxy
from tests.chaos.oracle import history
from tests.chaos.oracle.history import TENANT, Findings
from tests.chaos.world import observed
from tests.chaos.world.observed import Scribe
from tests.simulation.simulator.violation import holds
from tests.support.patience import PATIENCE_S, PAUSE_S, insisting

PLAYERS = 12
RECORDS = 0.3
"""The probability that a player makes calls in a step that it leases."""
JOINS = 0.2
"""The probability that a player takes up a run that another one has begun."""


def start(run_id: str, *plan: TaskSpec, data: bytes = b"") -> Start:
    """Return the command that brings a run to life."""
    spec = RunSpec(tenant_id=TENANT, run_id=run_id, goal="endure", max_parallel=2)
    run_input = Payload(data=data) if data else None
    return Start(spec=spec, plan=plan, input=run_input, actor="player")


class Player:
    """Takes every lease and reports every result of a few runs, one after the other."""

    def __init__(self, store: Store, name: str, seed: str) -> None:
        self._store = store
        self._chance = Random(f"{seed} {name}")
        self._names = (f"{name}.{number}" for number in count(1))

    async def play(self, run_id: str) -> None:
        """Take a run to its end, from its birth or from where it is."""
        state = await self._load(run_id)
        while not state.run.ended:
            # Everybody else's turn: a store in memory waits for nothing.
            await asyncio.sleep(0)
            what = self._next(state)
            commit = advance(state, [what], Context(commit_id=next(self._names), now_us=1)).commit
            assert commit is not None
            (result,) = await self._store.commit([commit])
            if result.verdict is not Verdict.COMMITTED:
                # Somebody else plays it, too.
                state = await self._load(run_id)
                continue
            state.apply(commit)
            if isinstance(what, GrantLease) and self._chance.random() < RECORDS:
                await self._record(state, what)
                # Who ends the lease says how many entries it knows of.
                state = await self._load(run_id)
            elif isinstance(what, GrantLease | Delivery):
                await self._renew(run_id, what)

    async def _load(self, run_id: str) -> RunState:
        loaded = await self._store.load(TENANT, run_id)
        return RunState.empty(TENANT, run_id) if loaded is None else RunState.of(loaded)

    def _next(self, state: RunState) -> Occurrence:
        if not state.run.version:
            return start(state.run.spec.run_id, *self._plan())
        name, one = next(iter(state.open.items()))
        if one.execution.status is ExecutionStatus.READY:
            return GrantLease(execution_id=name, token=next(self._names), worker_id="worker")
        data = self._chance.randbytes(self._chance.choice([10, 500, 6_000]))
        result = Completed(result=Payload(data=data, media_type="application/octet-stream"))
        return Delivery(execution_id=name, token=one.token, result=result)

    def _plan(self) -> Iterator[TaskSpec]:
        for at in range(self._chance.randint(2, 6)):
            before = (f"t{self._chance.randrange(at)}",) if at else ()
            yield TaskSpec(task_id=f"t{at}", type="count", depends_on=before)

    async def _record(self, state: RunState, what: GrantLease) -> None:
        """Record two calls of the step, one after the other, each with a value of its own."""
        step = journal_in(state, state.open[what.execution_id].execution)
        assert step is not None
        for number in range(2):
            value = Payload(data=self._chance.randbytes(50))
            write = JournalWrite(
                tenant_id=TENANT,
                run_id=state.run.spec.run_id,
                execution_id=what.execution_id,
                token=what.token,
                journal=step.name,
                generation=step.journal.generation,
                entries=(Entry(key=f"{what.token}.{number}", value=value),),
            )
            await self._store.write_journal([write])

    async def _renew(self, run_id: str, what: GrantLease | Delivery) -> None:
        """Now and then give a sign of life of a lease; of one that is over nobody takes any (S8)."""
        if self._chance.random() < 0.9:
            return
        beat = Renewal(
            tenant_id=TENANT,
            run_id=run_id,
            execution_id=what.execution_id,
            token=what.token,
            lease_ms=60_000,
        )
        (alive,) = await self._store.renew([beat])
        over = isinstance(what, Delivery)
        holds(not (alive and over), "S8", f"{run_id} {what.execution_id} was renewed when over")


class AnyDoor(StoreProxy):
    """Several doors to one store: a call goes through any of them, and again until it has an answer."""

    def __init__(self, doors: Sequence[Store], chance: Random) -> None:
        super().__init__(doors[0])
        self._doors = doors
        self._chance = chance

    async def call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        def ask() -> Any:
            return getattr(self._chance.choice(self._doors), method)(*args, **kwargs)

        return await insisting(ask)


class Page(NamedTuple):
    """Events of a run that a reader was given, after a number."""

    run_id: str
    after: int
    events: tuple[Event, ...]


class Load:
    """Players and readers on several doors, for as long as the block lasts.

    `shows_early`: the store shows commits before they are acknowledged, and may lose those.
    """

    def __init__(
        self, doors: Sequence[Store], folder: Path, seed: str, *, shows_early: bool = False
    ) -> None:
        self._diaries = [folder / f"door-{at}.diary" for at in range(len(doors))]
        self.doors = [
            Scribe(door, path, path.stem) for door, path in zip(doors, self._diaries, strict=True)
        ]
        self._seed = seed
        self._chance = Random(seed)
        self._shows_early = shows_early
        self.runs: list[str] = []
        self._pages: list[Page] = []
        self._feeds: list[list[tuple[str, int]]] = [[] for _ in doors]
        """For each reader of the feed all that it got."""
        self._cursors = ["" for _ in doors]
        self._over = False
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        lives = [self._play(f"player-{at}") for at in range(PLAYERS)]
        lives += [self._read(at) for at in range(len(self.doors))]
        self._tasks = [asyncio.create_task(life) for life in lives]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def seen(self) -> Counter[str]:
        """Count the calls, and how those ended that commit."""
        return sum((door.seen for door in self.doors), Counter[str]())

    async def until(self, enough: Callable[[], bool]) -> None:
        """Wait until it is enough, while all of them live."""
        async with asyncio.timeout(2 * PATIENCE_S):
            while not enough():
                for task in self._tasks:
                    if task.done():
                        task.result()
                await asyncio.sleep(PAUSE_S)

    async def more(self, commits: int) -> None:
        """Wait until so many more commits were acknowledged."""
        goal = self.seen["COMMITTED"] + commits
        await self.until(lambda: self.seen["COMMITTED"] >= goal)

    async def check(self, past: Store) -> Findings:
        """End all runs, and check what everybody saw against what the store has.

        Raises:
            InvariantViolation: something doesn't hold.
        """
        self._over = True
        async with asyncio.timeout(2 * PATIENCE_S):
            await asyncio.gather(*self._tasks)
        diary = [entry for path in self._diaries for entry in observed.read(path)]
        diary.sort(key=lambda entry: entry.at)
        findings = await history.check(past, diary, shows_early=self._shows_early)
        if not self._shows_early:
            self._check_pages(findings)
        await self._check_feeds(findings)
        return findings

    async def _play(self, name: str) -> None:
        player = Player(AnyDoor(self.doors, self._chance), name, self._seed)
        while not self._over:
            if not self.runs or self._chance.random() > JOINS:
                self.runs.append(f"run-{len(self.runs)}")
            await player.play(self.runs[-1])

    async def _read(self, at: int) -> None:
        """Read on in the feed and in runs that are played, each time through any door."""
        while not self._over:
            await asyncio.sleep(PAUSE_S)
            try:
                await self._read_feed(at, self._chance.choice(self.doors))
                if self.runs:
                    await self._read_events(self._chance.choice(self.runs[-PLAYERS:]))
            except StoreError:
                continue

    async def _read_feed(self, at: int, door: Store) -> bool:
        page = await door.page(FeedQuery(cursor=self._cursors[at], limit=200))
        self._cursors[at] = page.cursor
        self._feeds[at] += [(one.run_id, one.version) for one in page.items]
        return bool(page.items)

    async def _read_events(self, run_id: str) -> None:
        after = self._chance.randint(0, 5)
        run = await self._chance.choice(self.doors).get_run(TENANT, run_id)
        if run is None or run.last_event < after:
            return
        door = self._chance.choice(self.doors)
        page = await door.read_events(TENANT, run_id, after=after, limit=4)
        if not self._shows_early:
            name = f"{run_id} v{run.version} was seen, and then not"
            holds(page is not None and page.latest >= run.last_event, "E4", name)
        if page is not None:
            self._pages.append(Page(run_id, after, tuple(page.events)))

    def _check_pages(self, findings: Findings) -> None:
        """A page goes on where it was asked to, is what the store has, and splits no commit (E2 E8)."""
        for one in self._pages:
            events = findings.books[one.run_id].events
            end = one.after + len(one.events)
            holds([*one.events] == events[one.after : end], "E2", f"{one}")
            split = (
                one.events and end < len(events) and events[end].version == events[end - 1].version
            )
            holds(not split, "E8", f"{one} is split")

    async def _check_feeds(self, findings: Findings) -> None:
        """Each reader of the feed gets each commit once, a run's in their order (E1)."""
        wanted = {name: list(range(1, book.version + 1)) for name, book in findings.books.items()}
        for at, (door, feed) in enumerate(zip(self.doors, self._feeds, strict=True)):
            async with asyncio.timeout(PATIENCE_S):
                while len(set(feed)) < sum(map(len, wanted.values())):
                    if not await insisting(lambda at=at, door=door: self._read_feed(at, door)):
                        await asyncio.sleep(PAUSE_S)
            found = defaultdict[str, list[int]](list)
            # Behind a fail-over it may name one twice.
            for run_id, version in dict.fromkeys(feed) if self._shows_early else feed:
                found[run_id].append(version)
            holds(
                found == wanted, "E1", f"reader {at} of the feed missed a commit, or got one twice"
            )
