"""Watching: events from a number on, first those that are there, then those that come.

A watcher is a cursor and nothing more. It reads the store at its own pace, so there is no queue to
fill; a hint only wakes it earlier than the next poll would, so a lost hint costs time and no event.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence

import msgspec
from msgspec.structs import replace

from stepwell.core.port import EventPage, FeedEntry, Runtime, Store
from stepwell.core.records.errors import CursorOutOfRange, InvalidArgument, RunNotFound
from stepwell.core.records.events import Event
from stepwell.core.records.model import Record, Run

POLL_MS = 1_000
"""How long a watcher that gets no hint waits before it looks by itself."""
PAGE_EVENTS_MIN = 64
PAGE_EVENTS_MAX = 512
PAGE_BYTES_MAX = 1024 * 1024
"""What a watcher holds while its reader doesn't read, or the one commit that is larger."""
END_LOOK_MS = 500


class Batch(Record, frozen=True, kw_only=True):
    """Whole commits' events, or none: then it only says how far all is known."""

    events: tuple[Event, ...] = ()
    after: int = 0
    """The number of the last event that is covered."""
    ended: bool = False
    """The run has ended and this covers its last event."""


class FeedBatch(Record, frozen=True, kw_only=True):
    """Commits of any runs, or none: then it only says how far all is known."""

    entries: tuple[FeedEntry, ...] = ()
    cursor: str = ""


_Hung = dict[tuple[str, str], dict[asyncio.Event, None]]
"""Dictionaries rather than sets: bells ring in the order in which they were hung."""


class Bells:
    """One subscription to the store's hints for all watchers of a process."""

    def __init__(self, store: Store, runtime: Runtime) -> None:
        self._runtime = runtime
        self._bells: _Hung = {}
        self._ends: _Hung = {}
        self._closing = asyncio.Event()
        self._stop: Callable[[], None] = store.subscribe(self._ring)

    @property
    def closing(self) -> bool:
        """Whether the watchers have been told to end."""
        return self._closing.is_set()

    def close(self) -> None:
        """Wake every watcher for the last time."""
        self._closing.set()
        self._stop()
        for waiting in (*self._bells.values(), *self._ends.values()):
            for bell in waiting:
                bell.set()

    def _ring(self, tenant_id: str, run_id: str, _version: int) -> None:
        keys = [(tenant_id, run_id), ("", "")] if run_id else tuple(self._bells)
        for key in keys:
            for bell in self._bells.get(key, ()):
                bell.set()

    def hang(self, tenant_id: str, run_id: str) -> asyncio.Event:
        """Return an event that is set when this run may have changed; "" and "": any run."""
        return _hang(self._bells, (tenant_id, run_id))

    def take_down(self, tenant_id: str, run_id: str, bell: asyncio.Event) -> None:
        """Let go of it."""
        _take_down(self._bells, (tenant_id, run_id), bell)

    def hang_end(self, tenant_id: str, run_id: str) -> asyncio.Event:
        """Return an event that is set when this replica commits the run's end."""
        return _hang(self._ends, (tenant_id, run_id))

    def take_down_end(self, tenant_id: str, run_id: str, bell: asyncio.Event) -> None:
        """Let go of it."""
        _take_down(self._ends, (tenant_id, run_id), bell)

    def ring_end(self, tenant_id: str, run_id: str) -> None:
        """Tell that this replica has committed the run's end."""
        for bell in self._ends.get((tenant_id, run_id), ()):
            bell.set()

    async def wait(self, bell: asyncio.Event, timeout_ms: float) -> bool:
        """Wait for the bell, but no longer than this; tell whether it rang."""
        try:
            async with asyncio.timeout(timeout_ms / 1_000):
                await bell.wait()
        except TimeoutError:
            return False
        bell.clear()
        return True


def _hang(hung: _Hung, key: tuple[str, str]) -> asyncio.Event:
    bell = asyncio.Event()
    hung.setdefault(key, {})[bell] = None
    return bell


def _take_down(hung: _Hung, key: tuple[str, str], bell: asyncio.Event) -> None:
    waiting = hung.get(key, {})
    waiting.pop(bell, None)
    if not waiting:
        hung.pop(key, None)


class Pace:
    """How long to wait until the next look, and when a sign of life is due."""

    def __init__(self, runtime: Runtime, progress_ms: int) -> None:
        self._runtime = runtime
        self._progress_ms = progress_ms
        self._said = runtime.monotonic()

    def said(self) -> None:
        """Note that something was said."""
        self._said = self._runtime.monotonic()

    def silent_ms(self) -> float:
        """Return how long nothing was."""
        return (self._runtime.monotonic() - self._said) * 1_000

    def is_due(self) -> bool:
        """Tell whether a sign of life is."""
        return self.silent_ms() >= self._progress_ms

    def wait_ms(self) -> float:
        """Return how long to wait for a hint at the most."""
        return max(1.0, min(POLL_MS, self._progress_ms - self.silent_ms()))


async def watch_run(
    store: Store,
    bells: Bells,
    runtime: Runtime,
    *,
    tenant_id: str,
    run_id: str,
    after: int,
    progress_ms: int,
) -> AsyncGenerator[Batch, None]:
    """Yield the run's events after `after`, then live ones; an empty batch is a sign of life.

    Ends after the batch that says `ended`, or silently when the process closes: the caller tells.

    Raises:
        RunNotFound: there is no such run, or it was deleted while it was watched.
        InvalidArgument: `after` is beyond the run's last event.
        CursorOutOfRange: events after `after` are not kept any more.
    """
    bell = bells.hang(tenant_id, run_id)
    pace = Pace(runtime, progress_ms)
    pages = _Pages(store, tenant_id, run_id)
    try:
        page = await pages.read(after)
        if after > page.latest:
            raise InvalidArgument(
                f"after is {after}, but the run's last event is {page.latest}; "
                "start from a number that was seen",
                reason="CURSOR_IN_FUTURE",
            )
        while True:
            if after + 1 < page.oldest:
                raise CursorOutOfRange(
                    f"events up to {page.oldest - 1} are not kept any more; "
                    f"start after {page.oldest - 1}",
                    oldest=page.oldest,
                    latest=page.latest,
                    reason="CURSOR_OUT_OF_RANGE",
                )
            if page.events:
                after = page.events[-1].number
                pace.said()
                yield Batch(events=page.events, after=after, ended=page.ended)
            elif page.ended or pace.is_due():
                pace.said()
                yield Batch(after=after, ended=page.ended)
            if page.ended or bells.closing:
                return
            if after >= page.latest:
                await bells.wait(bell, pace.wait_ms())
            if bells.closing:
                return
            page = await pages.read(after)
    finally:
        bells.take_down(tenant_id, run_id, bell)


class _Pages:
    """Reads pages of whole commits that are no larger than a watcher may hold.

    An event may have a thousand times the size of another. So the first page is short, the next one is
    longer if that had room, and what is too much of a page is dropped, to be read again when it is wanted.
    """

    def __init__(self, store: Store, tenant_id: str, run_id: str) -> None:
        self._store = store
        self._run = (tenant_id, run_id)
        self._limit = PAGE_EVENTS_MIN

    async def read(self, after: int) -> EventPage:
        """Return the events after this number, or the first of them.

        Raises:
            RunNotFound: there is no such run.
        """
        page = await self._store.read_events(*self._run, after=after, limit=self._limit)
        if page is None:
            raise RunNotFound(self._run[1])
        fits = _fitting(page.events)
        if fits < len(page.events):
            self._limit = min(2 * fits, PAGE_EVENTS_MIN)
            return replace(page, events=page.events[:fits], ended=False)
        if page.events and page.events[-1].number < page.latest:
            self._limit = min(2 * self._limit, PAGE_EVENTS_MAX)
        return page


def _fitting(events: Sequence[Event]) -> int:
    """Return how many of them, in whole commits, a watcher may hold; one commit at the least."""
    if not events or events[0].version == events[-1].version:
        return len(events)
    room, fits = PAGE_BYTES_MAX, 0
    for index, event in enumerate(events):
        if event.version != events[index - 1].version:
            fits = index
        room -= len(msgspec.json.encode(event))
        if room < 0 and fits:
            return fits
    return len(events)


async def wait_end(store: Store, bells: Bells, *, tenant_id: str, run_id: str) -> Run | None:
    """Return the run once it has ended; None: the process closes first.

    An end that this replica committed rings at once. For those of other replicas there are hints, but
    a run that makes thousands of steps gives as many, and only the last one matters: so hints are
    looked into no more often than every `END_LOOK_MS`.

    Raises:
        RunNotFound: there is no such run, or it was deleted in the meantime.
    """
    hinted = bells.hang(tenant_id, run_id)
    ended = bells.hang_end(tenant_id, run_id)
    try:
        while True:
            run = await store.get_run(tenant_id, run_id)
            if run is None:
                raise RunNotFound(run_id)
            if run.ended or bells.closing:
                return run if run.ended else None
            for _ in range(POLL_MS // END_LOOK_MS):
                if await bells.wait(ended, END_LOOK_MS) or hinted.is_set() or bells.closing:
                    break
            hinted.clear()
    finally:
        bells.take_down(tenant_id, run_id, hinted)
        bells.take_down_end(tenant_id, run_id, ended)


async def watch_feed(
    store: Store,
    bells: Bells,
    runtime: Runtime,
    *,
    tenant_id: str,
    cursor: str,
    progress_ms: int,
) -> AsyncGenerator[FeedBatch, None]:
    """Yield the tenant's commits after `cursor`, then live ones; an empty batch is a sign of life.

    Ends silently when the process closes.

    Raises:
        InvalidArgument: the cursor is none of this store's.
    """
    bell = bells.hang("", "")
    pace = Pace(runtime, progress_ms)
    try:
        while not bells.closing:
            page = await store.feed(tenant_id=tenant_id, cursor=cursor)
            cursor = page.cursor
            if page.entries or pace.is_due():
                pace.said()
                yield FeedBatch(entries=page.entries, cursor=cursor)
            if not page.entries:
                await bells.wait(bell, pace.wait_ms())
    finally:
        bells.take_down("", "", bell)
