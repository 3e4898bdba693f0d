"""Reads a tree of runs from the feed: the commits of a root run and of all runs below it, each with its events, once.
So are the runs of a thread read.

The feed names every commit of a tenant once. Its cursor is therefore the only position of a watch of a tree, however
many runs the tree has, and the events of a commit are found in its run by its version.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import NamedTuple, TypeVar

from stepwell.core.port import FeedEntry, FeedQuery, Store
from stepwell.core.records.events import Event
from stepwell.core.records.model import Run

_COMMITS_AT_ONCE = 128
"""The most commits whose events are held while the watcher's reader doesn't read."""
_EVENTS_MAX = 512
"""The most events that one read returns."""
_OTHERS_MAX = 10_000
"""The number of runs that are remembered as being in other trees."""
_PLACES_MAX = 1_000
"""The number of runs whose last event is remembered; that of another one is searched for."""

T = TypeVar("T")
NewestRun = Callable[[FeedEntry], Awaitable[Run | None]]
"""Returns the run of an entry, at its version or a later one, or None if it was deleted."""


class TreeCommit(NamedTuple):
    """A commit of a run of the tree, or the deletion of any run."""

    place: int
    """Its index among the entries that were read."""
    entry: FeedEntry
    run: Run | None
    """The run after this commit or a later one, or None if it was deleted."""
    events: Sequence[Event]


class Tree:
    """A reader of the commits of one tree, in the order of the feed."""

    def __init__(
        self,
        store: Store,
        newest: NewestRun,
        *,
        tenant_id: str,
        root_run_id: str,
        thread_id: str = "",
    ) -> None:
        """`thread_id`: the runs are those of this thread, whatever their tree."""
        self._store = store
        self._newest = newest
        self._tenant_id = tenant_id
        self._root_run_id = root_run_id
        self._thread_id = thread_id
        self._others: OrderedDict[str, None] = OrderedDict()
        self._places: OrderedDict[str, int] = OrderedDict()
        """The number of the last event that was read, by run."""

    async def read(self, entries: Sequence[FeedEntry]) -> AsyncGenerator[TreeCommit]:
        """Yield those of consecutive entries that are in the tree, and all deletions."""
        for begin in range(0, len(entries), _COMMITS_AT_ONCE):
            for one in await self._read(begin, entries[begin : begin + _COMMITS_AT_ONCE]):
                yield one

    async def _read(self, begin: int, entries: Sequence[FeedEntry]) -> list[TreeCommit]:
        kept: list[TreeCommit] = []
        commits: dict[str, list[FeedEntry]] = {}
        for place, entry in enumerate(entries, begin):
            run_id = entry.run_id
            if entry.deleted:
                # Commits before the deletion can't be read any more; later ones under the id are another run's.
                kept = [one for one in kept if one.entry.run_id != run_id]
                for known in (commits, self._others, self._places):
                    known.pop(run_id, None)
            elif run_id in self._others:
                continue
            else:
                commits.setdefault(run_id, []).append(entry)
            kept.append(TreeCommit(place, entry, None, ()))
        runs = dict(
            zip(
                commits,
                await asyncio.gather(*(self._newest(some[-1]) for some in commits.values())),
                strict=True,
            )
        )
        found = {run_id: run for run_id, run in runs.items() if run and self._has(run)}
        events = dict(
            zip(
                found,
                await asyncio.gather(
                    *(self._events(run, commits[run_id]) for run_id, run in found.items())
                ),
                strict=True,
            )
        )
        return [
            one
            if one.entry.deleted
            else one._replace(run=run, events=events[one.entry.run_id].get(one.entry.version, ()))
            for one in kept
            if (run := found.get(one.entry.run_id)) or one.entry.deleted
        ]

    def _has(self, run: Run) -> bool:
        spec = run.spec
        if self._thread_id:
            found = spec.thread_id == self._thread_id
        else:
            found = self._root_run_id in (spec.run_id, spec.child_of.root_run_id)
        if found:
            return True
        _remember(self._others, spec.run_id, None, _OTHERS_MAX)
        return False

    async def _events(self, run: Run, commits: Sequence[FeedEntry]) -> dict[int, list[Event]]:
        """Return the events of consecutive commits of a run, by their versions."""
        first, last = commits[0].version, commits[-1].version
        found: dict[int, list[Event]] = {}
        run_id = run.spec.run_id
        after = self._places.get(run_id)
        if after is None:
            after = await self._before(run, first)
        limit = min(2 * len(commits), _EVENTS_MAX)
        while True:
            page = await self._store.read_events(self._tenant_id, run_id, after=after, limit=limit)
            events = page.events if page is not None else ()
            for event in events:
                if event.version <= last:
                    after = event.number
                    if event.version >= first:
                        found.setdefault(event.version, []).append(event)
            if not events or events[-1].version >= last:
                _remember(self._places, run_id, after, _PLACES_MAX)
                return found

    async def _before(self, run: Run, version: int) -> int:
        """Return the number of the last event of earlier versions, by a search in the run's events."""
        low, high = 0, run.last_event if version > 1 else 0
        while low < high:
            middle = (low + high) // 2
            page = await self._store.read_events(
                self._tenant_id, run.spec.run_id, after=middle, limit=1
            )
            if page is None or not page.events or page.events[0].version >= version:
                high = middle
            else:
                low = page.events[-1].number
        return low


def _remember(known: OrderedDict[str, T], run_id: str, value: T, most: int) -> None:
    """Keep a value for a run, and no more than `most` values."""
    known[run_id] = value
    known.move_to_end(run_id)
    if len(known) > most:
        known.popitem(last=False)


async def cursor_after(
    store: Store, tenant_id: str, cursor: str, entries: Sequence[FeedEntry]
) -> str:
    """Return the feed's cursor after these entries, the first ones after `cursor`.

    Entries of runs that were deleted meanwhile may be left out by the store; the cursor then covers no others in
    their place.
    """
    covered = set(entries)
    limit = len(entries)
    while limit:
        query = FeedQuery(tenant_id=tenant_id, cursor=cursor, limit=limit)
        page = await store.page(query)
        within = sum(one in covered for one in page.items)
        if within == len(page.items):
            return page.cursor
        limit = within
    return cursor
