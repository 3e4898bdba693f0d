"""Watches runs and the feed: stored events after a cursor first, then live ones.

A watcher is a cursor and nothing more. It reads the store at its own pace, so there is no queue to
fill; a hint only wakes it earlier than the next poll would, so a lost hint costs time and no event.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

import msgspec
from msgspec.structs import replace

from stepwell.core.port import EventPage, FeedEntry, FeedQuery, Runtime, Store
from stepwell.core.records.errors import (
    CursorOutOfRange,
    InvalidArgument,
    RunNotFound,
    Violation,
)
from stepwell.core.records.events import Event
from stepwell.core.records.model import Record, Run
from stepwell.watch.notifier import POLL_MS, Notifier, Pace

PAGE_EVENTS_MIN = 64
PAGE_EVENTS_MAX = 512
PAGE_BYTES_MAX = 1024 * 1024
"""The most that a watcher holds while its reader doesn't read; a single larger commit is held whole."""
END_CHECK_MS = 500
"""Minimum interval of reads caused by hints, while a caller waits for a run's end."""


class Batch(Record, frozen=True, kw_only=True):
    """Events of whole commits; without events, a progress message: all up to `after` is known."""

    events: tuple[Event, ...] = ()
    after: int = 0
    """The number of the last event that is covered."""
    ended: bool = False
    """The run has ended and `after` is its last event."""


class FeedBatch(Record, frozen=True, kw_only=True):
    """Commits and deletions of any runs; without entries, a progress message: all up to `cursor` is known."""

    entries: tuple[FeedEntry, ...] = ()
    cursor: str = ""


async def watch_run(
    store: Store,
    notifier: Notifier,
    runtime: Runtime,
    *,
    tenant_id: str,
    run_id: str,
    after: int,
    progress_ms: int,
) -> AsyncGenerator[Batch, None]:
    """Yield the run's events after `after`, then live ones; an empty batch is a progress message.

    The last batch has `ended`. When the process closes, the generator ends without such a batch.

    Raises:
        RunNotFound: there is no such run, or it was deleted while it was watched.
        InvalidArgument: `after` is beyond the run's last event.
        CursorOutOfRange: events after `after` are not kept any more.
    """
    changed = notifier.subscribe(tenant_id, run_id)
    pace = Pace(runtime, progress_ms)
    pages = _Pages(store, tenant_id, run_id)
    try:
        page = await pages.read(after)
        if after > page.latest:
            what = (
                f"is {after}, but the run's last event is {page.latest}; "
                "start from a number that was seen"
            )
            raise InvalidArgument(
                f"after {what}", (Violation("after", what),), reason="CURSOR_IN_FUTURE"
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
                pace.sent()
                yield Batch(events=page.events, after=after, ended=page.ended)
            elif page.ended or pace.is_due():
                pace.sent()
                yield Batch(after=after, ended=page.ended)
            if page.ended or notifier.closing:
                return
            if after >= page.latest:
                await notifier.wait(changed, pace.wait_ms())
            if notifier.closing:
                return
            page = await pages.read(after)
    finally:
        notifier.unsubscribe(tenant_id, run_id, changed)


class _Pages:
    """Reads pages of whole commits that are no larger than a watcher may hold.

    An event may have a thousand times the size of another. So the first page is short, and the next one
    is longer if the first had room. The surplus of a page is dropped and read again when its turn comes.
    """

    def __init__(self, store: Store, tenant_id: str, run_id: str) -> None:
        self._store = store
        self._run = (tenant_id, run_id)
        self._limit = PAGE_EVENTS_MIN

    async def read(self, after: int) -> EventPage:
        """Return the next page: events after this number.

        Raises:
            RunNotFound: there is no such run.
        """
        page = await self._store.read_events(*self._run, after=after, limit=self._limit)
        if page is None:
            raise RunNotFound(self._run[1])
        fits = events_that_fit(page.events)
        if fits < len(page.events):
            self._limit = min(2 * fits, PAGE_EVENTS_MIN)
            return replace(page, events=page.events[:fits], ended=False)
        if page.events and page.events[-1].number < page.latest:
            self._limit = min(2 * self._limit, PAGE_EVENTS_MAX)
        return page


def events_that_fit(events: Sequence[Event]) -> int:
    """Return how many of these events a watcher may hold: whole commits, and at least one commit."""
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


async def wait_end(store: Store, notifier: Notifier, *, tenant_id: str, run_id: str) -> Run | None:
    """Return the run once it has ended; None: the process closes first.

    An end that this replica commits wakes the caller at once. Ends that other replicas commit come as
    hints; but a run of thousands of steps causes as many hints, and only the last one matters. So hints
    cause a read at most every `END_CHECK_MS`.

    Raises:
        RunNotFound: there is no such run, or it was deleted in the meantime.
    """
    hinted = notifier.subscribe(tenant_id, run_id)
    ended = notifier.subscribe_end(tenant_id, run_id)
    try:
        while True:
            run = await store.get_run(tenant_id, run_id)
            if run is None:
                raise RunNotFound(run_id)
            if run.ended or notifier.closing:
                return run if run.ended else None
            for _ in range(POLL_MS // END_CHECK_MS):
                if await notifier.wait(ended, END_CHECK_MS) or hinted.is_set() or notifier.closing:
                    break
            hinted.clear()
    finally:
        notifier.unsubscribe(tenant_id, run_id, hinted)
        notifier.unsubscribe_end(tenant_id, run_id, ended)


async def watch_feed(
    store: Store,
    notifier: Notifier,
    runtime: Runtime,
    *,
    tenant_id: str,
    cursor: str,
    progress_ms: int,
) -> AsyncGenerator[FeedBatch, None]:
    """Yield the tenant's commits and deletions after `cursor`, then live ones; an empty batch is a progress message.

    The generator ends without a further batch when the process closes.

    Raises:
        InvalidArgument: this store made no such cursor.
    """
    changed = notifier.subscribe("", "")
    pace = Pace(runtime, progress_ms)
    try:
        while not notifier.closing:
            page = await store.page(FeedQuery(tenant_id=tenant_id, cursor=cursor))
            cursor = page.cursor
            if page.items or pace.is_due():
                pace.sent()
                yield FeedBatch(entries=page.items, cursor=cursor)
            if not page.items:
                await notifier.wait(changed, pace.wait_ms())
    finally:
        notifier.unsubscribe("", "", changed)
