"""Load on a store through several doors at once, and a log of what was acknowledged, kept outside of it.

Each run has one author, who sends a commit until it has a verdict, each time through another door: so what
the store has at a version in the end is either what was acknowledged, or a loss. Readers follow meanwhile.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from typing import NamedTuple, Self

from msgspec.structs import replace

from stepwell.core.port import Commit, FeedEntry, Store
from stepwell.core.records.errors import OutcomeUnknown, StoreError, StoreUnavailable
from stepwell.core.records.events import Event
from stepwell.core.records.states import Verdict
from stepwell.runtime import SystemRuntime
from stepwell.watch.notifier import Notifier
from stepwell.watch.runs import watch_run
from stepwell_testkit.conformance.builders import TENANT, born, step
from tests.chaos.load.chains import opened
from tests.simulation.simulator.violation import holds
from tests.support.patience import PATIENCE_S, PAUSE_S, insisting

DOORS = 3
PAGE = 1_000


class Acknowledged(NamedTuple):
    """A commit that its author was told to be durable."""

    version: int
    commit_id: str


class Author:
    """Writes one run. `may_lose`: what was acknowledged may be gone; then it goes on from what is left."""

    def __init__(self, run_id: str, doors: Sequence[Store], *, may_lose: bool) -> None:
        self.run_id = run_id
        self.acknowledged: list[Acknowledged] = []
        self.seen: Counter[str] = Counter()
        self._doors = doors
        self._may_lose = may_lose
        self._asked = 0
        self._before: Commit | None = None

    @property
    def door(self) -> Store:
        """The next one each time."""
        self._asked += 1
        return self._doors[self._asked % len(self._doors)]

    async def write(self) -> None:
        """Commit one more."""
        commit = self._next()
        if await self._settled(commit) is Verdict.COMMITTED:
            self.acknowledged.append(Acknowledged(commit.version, commit.commit_id))
            self._before = commit
            return
        holds(
            self._may_lose, "S3", f"{self.run_id} v{commit.version} follows what was acknowledged"
        )
        self.seen["went on from what was left"] += 1
        await self._look_anew(commit)

    def _next(self) -> Commit:
        """Return the next commit. What was lost comes to be again under another id, which its event shows."""
        before = self._before
        version = 1 if before is None else before.version + 1
        name = f"{self.run_id}@{version}/{self._asked}"
        one = born(self.run_id, commit_id=name) if before is None else step(before, commit_id=name)
        return replace(one, events=tuple(replace(event, message=name) for event in one.events))

    async def _settled(self, commit: Commit) -> Verdict:
        """Send it until there is a verdict."""
        unknown = False
        while True:
            door = self.door
            try:
                if unknown and await _is_there(door, commit):
                    self.seen["unknown commit that was applied"] += 1
                    (result,) = await door.commit([commit])
                    holds(result.verdict is Verdict.COMMITTED or self._may_lose, "S4", repr(result))
                    self.seen["commit_id seen again"] += 1
                    return result.verdict
                (result,) = await door.commit([commit])
            except OutcomeUnknown:
                self.seen["unknown"] += 1
                unknown = True
            except StoreUnavailable:
                self.seen["unavailable"] += 1
            else:
                return result.verdict
            await asyncio.sleep(PAUSE_S)

    async def _look_anew(self, commit: Commit) -> None:
        run = await insisting(lambda: self.door.get_run(TENANT, self.run_id))
        self._before = None if run is None else replace(commit, version=run.version, run=run)


async def _is_there(door: Store, commit: Commit) -> bool:
    run = await door.get_run(TENANT, commit.run_id)
    return run is not None and run.version >= commit.version


class Reader:
    """Watches one run from its first event on, over as many watches as it takes."""

    def __init__(self, run_id: str, door: Store) -> None:
        self.run_id = run_id
        self.events: list[Event] = []
        self.restarts = 0
        self._door = door

    async def follow(self) -> None:
        """Follow until it is cancelled."""
        runtime = SystemRuntime()
        notifier = Notifier(self._door)
        try:
            while True:
                try:
                    await self._watch(notifier, runtime)
                except StoreError:
                    self.restarts += 1
                    await asyncio.sleep(PAUSE_S)
        finally:
            notifier.close()

    async def _watch(self, notifier: Notifier, runtime: SystemRuntime) -> None:
        after = self.events[-1].number if self.events else 0
        async for batch in watch_run(
            self._door,
            notifier,
            runtime,
            tenant_id=TENANT,
            run_id=self.run_id,
            after=after,
            progress_ms=1_000,
        ):
            self.events += batch.events


class FeedReader:
    """Follows the commits of all runs with one cursor."""

    def __init__(self, door: Store) -> None:
        self.entries: list[FeedEntry] = []
        self._door = door
        self._cursor = ""

    async def follow(self) -> None:
        """Follow until it is cancelled."""
        while True:
            if not await self.read_on():
                await asyncio.sleep(4 * PAUSE_S)

    async def read_on(self) -> bool:
        """Read a page; tell whether there was anything."""
        page = await insisting(lambda: self._door.feed(cursor=self._cursor))
        self._cursor = page.cursor
        self.entries += page.entries
        return bool(page.entries)

    def repeated(self) -> int:
        """Return how many entries came more than once."""
        return len(self.entries) - len(set(self.entries))


class Findings(NamedTuple):
    """What it came to."""

    acknowledged: int
    lost: int
    seen: Counter[str]


class Load:
    """Authors and readers at work for as long as the block lasts; `check` what came of it, within it."""

    def __init__(self, url: str, runs: int, *, may_lose: bool = False) -> None:
        self._url = url
        self._runs = runs
        self._may_lose = may_lose
        self._stack = AsyncExitStack()
        self._over = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._reading: list[asyncio.Task[None]] = []
        self.doors: list[Store] = []
        self.authors: list[Author] = []
        self.readers: list[Reader] = []
        self.feed: FeedReader | None = None

    async def __aenter__(self) -> Self:
        for _ in range(DOORS):
            self.doors.append(await insisting(self._opened))
        for at in range(self._runs):
            author = Author(
                f"run-{at}",
                self.doors[at % DOORS :] + self.doors[: at % DOORS],
                may_lose=self._may_lose,
            )
            await author.write()
            self.authors.append(author)
        self._tasks = [asyncio.create_task(self._write(author)) for author in self.authors]
        if not self._may_lose:
            self.readers = [Reader(one.run_id, self.doors[0]) for one in self.authors[::2]]
            self.feed = FeedReader(self.doors[1])
            follow = [reader.follow() for reader in (*self.readers, self.feed)]
            self._reading = [asyncio.create_task(one) for one in follow]
        return self

    async def _opened(self) -> Store:
        return await self._stack.enter_async_context(opened(self._url))

    async def __aexit__(self, *_: object) -> None:
        self._over.set()
        for task in (*self._tasks, *self._reading):
            task.cancel()
        await asyncio.gather(*self._tasks, *self._reading, return_exceptions=True)
        await self._stack.aclose()

    async def _write(self, author: Author) -> None:
        while not self._over.is_set():
            await author.write()
            await asyncio.sleep(PAUSE_S)

    @property
    def acknowledged(self) -> int:
        """How many commits were acknowledged so far."""
        return sum(len(author.acknowledged) for author in self.authors)

    async def more(self, each: int) -> None:
        """Wait until every author has had so many more acknowledged."""
        wanted = {author: len(author.acknowledged) + each for author in self.authors}
        async with asyncio.timeout(PATIENCE_S):
            while any(len(author.acknowledged) < count for author, count in wanted.items()):
                self._raise_failures()
                await asyncio.sleep(PAUSE_S)

    def _raise_failures(self) -> None:
        for task in (*self._tasks, *self._reading):
            if task.done():
                task.result()

    async def check(self) -> Findings:
        """End the load, and compare the store with what was acknowledged and what readers saw.

        Raises:
            InvariantViolation: the store is not consistent, or readers saw something else.
        """
        self._over.set()
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.gather(*self._tasks)
        lost = 0
        logs = {author.run_id: await self._log(author) for author in self.authors}
        for author in self.authors:
            by_version = {event.version: event.message for event in logs[author.run_id]}
            gone = [
                one for one in author.acknowledged if by_version.get(one.version) != one.commit_id
            ]
            holds(self._may_lose or not gone, "S3", f"{author.run_id} lost {gone[:3]}")
            lost += len(gone)
        await self._check_readers(logs)
        self._raise_failures()
        seen = sum((author.seen for author in self.authors), Counter[str]())
        seen["watch begun again"] += sum(reader.restarts for reader in self.readers)
        if self.feed is not None:
            seen["feed entry seen again"] += self.feed.repeated()
        return Findings(self.acknowledged, lost, seen)

    async def _log(self, author: Author) -> list[Event]:
        """Return a run's log, which is whole, and the same through every door."""
        logs = [await _log(door, author.run_id) for door in self.doors]
        holds(all(log == logs[0] for log in logs), "E2", author.run_id)
        numbers = [event.number for event in logs[0]]
        holds(numbers == list(range(1, len(numbers) + 1)), "E1", f"{author.run_id}: {numbers}")
        versions = [event.version for event in logs[0]]
        holds(versions == list(range(1, len(versions) + 1)), "S2", f"{author.run_id}: {versions}")
        run = await insisting(lambda: self.doors[0].get_run(TENANT, author.run_id))
        holds(run is not None and run.version == len(versions), "S1", author.run_id)
        return logs[0]

    async def _check_readers(self, logs: dict[str, list[Event]]) -> None:
        for reader in self.readers:
            log = logs[reader.run_id]
            await _reached(
                lambda reader=reader, log=log: len(reader.events) >= len(log), reader.run_id
            )
            holds(reader.events == log, "E3", reader.run_id)
        if self.feed is None:
            return
        feed = self.feed
        wanted = {
            FeedEntry(tenant_id=TENANT, run_id=run_id, version=event.version)
            for run_id, log in logs.items()
            for event in log
        }
        await _reached(lambda: wanted <= set(feed.entries), "the feed")
        holds(wanted == set(feed.entries), "E4", "the feed names what isn't there")


async def _log(door: Store, run_id: str) -> list[Event]:
    events: list[Event] = []
    while True:
        after = events[-1].number if events else 0
        page = await insisting(
            lambda after=after: door.read_events(TENANT, run_id, after=after, limit=PAGE)
        )
        if page is None or not page.events:
            return events
        events += page.events


async def _reached(is_there: Callable[[], bool], what: str) -> None:
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not is_there():  # noqa: ASYNC110 - nobody tells of it
                await asyncio.sleep(PAUSE_S)
    except TimeoutError:
        holds(False, "E3", f"{what} has a gap")
