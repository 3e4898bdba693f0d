"""Watches runs and the feed: first stored events after a cursor, then live ones.

A watcher is only a cursor. It reads the run's ring (`rings.py`) at its own pace, without a queue,
and reads the store if it is behind the ring or another replica makes the commits. A hint only wakes
it earlier than the next poll would, so a lost hint costs time and no event.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import NamedTuple

from stepwell.core.port import FeedEntry, FeedQuery, Runtime, Store
from stepwell.core.records.errors import (
    CursorOutOfRange,
    InvalidArgument,
    RunNotFound,
    Violation,
)
from stepwell.core.records.model import LogEntry, Record, Run
from stepwell.core.records.threads import ThreadMessage
from stepwell.watch.notifier import POLL_MS, Notifier, Pace
from stepwell.watch.rings import EncodedEvent, Follower, encoded

PAGE_EVENTS_MIN = 64
PAGE_EVENTS_MAX = 512
PAGE_BYTES_MAX = 1024 * 1024
"""The most that a watcher holds while its reader doesn't read; a single larger commit is held completely."""
END_CHECK_MS = 500
"""The minimum interval of reads caused by hints, while a caller waits for a run's end."""


class Batch(Record, frozen=True, kw_only=True):
    """Events of whole commits; without events, a progress message: everything up to `after` is known."""

    events: Sequence[EncodedEvent] = ()
    after: int = 0
    """The number of the last covered event."""
    ended: bool = False
    """True if the run has ended and `after` is its last event."""
    run: Run | None = None
    """With `ended`: the ended run, if this replica has committed its end."""


class MessagePlace(NamedTuple):
    """The position of a reader of a thread's messages, and of what its runs stream."""

    number: int = 0
    """That of the last message that was read."""
    made_us: int = 0
    """The time at which the thread was made, which another thread of the same id doesn't have; 0: it isn't known."""
    run_id: str = ""
    """The run whose chunks are read; empty: none."""
    log: str = ""
    """The cursor in that run's log."""


class MessagePage(Record, frozen=True, kw_only=True):
    """Further messages of a thread and chunks of a run of it, or its deletion."""

    place: MessagePlace
    messages: tuple[ThreadMessage, ...] = ()
    run_id: str = ""
    """The run that streamed the chunks."""
    chunks: tuple[LogEntry, ...] = ()
    deleted: bool = False


ReadMessages = Callable[[], Awaitable[MessagePage | None]]
"""Returns what has come to a thread since the last call, or a part of it, or None."""


class FeedBatch(Record, frozen=True, kw_only=True):
    """Commits and deletions of any runs; with nothing else, a progress message: everything up to `cursor` is known."""

    entries: tuple[FeedEntry, ...] = ()
    cursor: str = ""
    messages: MessagePage | None = None
    """News of the thread that is watched."""


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
        CursorOutOfRange: events after `after` are no longer kept.
    """
    follower = notifier.rings.follow(tenant_id, run_id, reads=True)
    pace = Pace(runtime, progress_ms)
    pages = _Pages(store, notifier, follower)
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
                yield Batch(events=page.events, after=after, ended=page.ended, run=page.run)
            elif page.ended or pace.is_due():
                pace.sent()
                yield Batch(after=after, ended=page.ended, run=page.run)
            if page.ended or notifier.closing:
                return
            if after >= page.latest:
                await pages.wait(after, pace.wait_ms())
            if notifier.closing:
                return
            page = pages.live(after) or await pages.read(after)
    finally:
        notifier.rings.leave(follower)


class _Page(NamedTuple):
    """Events of whole commits, and what is known about later ones."""

    events: Sequence[EncodedEvent]
    oldest: int
    latest: int
    ended: bool
    run: Run | None = None


class _Pages:
    """Pages of one run, from its ring or from the store, no larger than a watcher may hold.

    Events may differ in size by a factor of a thousand. The first page is therefore short, and the
    next one is longer if the first had room. The surplus of a page is dropped and read again later.
    """

    def __init__(self, store: Store, notifier: Notifier, follower: Follower) -> None:
        self._store = store
        self._notifier = notifier
        self._follower = follower
        self._ring = follower.ring
        self._news = 0
        self._limit = PAGE_EVENTS_MIN

    def live(self, after: int) -> _Page | None:
        """Return the ring's events after this number, or None if it lacks the first of them."""
        self._follower.changed.clear()
        events = self._ring.after(after)
        if not events:
            return None
        run = self._ring.run
        ended = run is not None and run.ended
        return _Page(events, 1, self._ring.last, ended, run if ended else None)

    async def wait(self, after: int, timeout_ms: float) -> None:
        """Wait for a turn in which the ring or the store may have events after this number, but no longer than this."""
        # One sign may stand for both: the ring's events are seen now, but the store's news isn't.
        while self._ring.news == self._news:
            if not await self._notifier.wait(self._follower.changed, timeout_ms):
                return
            if self._ring.last > after:
                return

    async def read(self, after: int) -> _Page:
        """Read the events after this number from the store.

        Raises:
            RunNotFound: there is no such run.
        """
        # Noted before the read, because the answer may lack what comes during it.
        self._news = self._ring.news
        page = await self._store.read_events(*self._follower.key, after=after, limit=self._limit)
        if page is None:
            raise RunNotFound(self._follower.key[1])
        events = encoded(page.events, self._notifier.rings.encode)
        fits = events_that_fit(events)
        if fits < len(events):
            self._limit = min(2 * fits, PAGE_EVENTS_MIN)
            return _Page(events[:fits], page.oldest, page.latest, ended=False)
        if events and events[-1].number < page.latest:
            self._limit = min(2 * self._limit, PAGE_EVENTS_MAX)
        return _Page(events, page.oldest, page.latest, page.ended)


def events_that_fit(events: Sequence[EncodedEvent]) -> int:
    """Return the number of these events that a watcher may hold: whole commits, and at least one."""
    if not events or events[0].version == events[-1].version:
        return len(events)
    room, fits = PAGE_BYTES_MAX, 0
    for index, event in enumerate(events):
        if event.version != events[index - 1].version:
            fits = index
        room -= len(event.data)
        if room < 0 and fits:
            return fits
    return len(events)


async def wait_end(store: Store, notifier: Notifier, *, tenant_id: str, run_id: str) -> Run | None:
    """Return the run once it has ended, or None if the process closes first.

    An end that this replica commits wakes the caller at once, and nothing is read as long as this
    replica makes the commits. Ends that other replicas commit come as hints; but a run of thousands
    of steps causes as many hints, of which only the last one matters. Hints therefore cause a read
    at most every `END_CHECK_MS`.

    Raises:
        RunNotFound: there is no such run, or it was deleted in the meantime.
    """
    follower = notifier.rings.follow(tenant_id, run_id, reads=False)
    ring = follower.ring
    try:
        while True:
            news = ring.news
            run = await store.get_run(tenant_id, run_id)
            if run is None:
                raise RunNotFound(run_id)
            if run.ended or notifier.closing:
                return run if run.ended else None
            must_read = False
            while not must_read:
                version = ring.version
                must_read = await _may_have_ended(notifier, follower, news)
                if ring.run is not None and ring.run.ended:
                    return ring.run
                # A commit made here meanwhile tells as much as a read would.
                must_read = must_read or ring.version <= version
    finally:
        notifier.rings.leave(follower)


async def _may_have_ended(notifier: Notifier, follower: Follower, news: int) -> bool:
    """Wait for the poll interval; return True early when the run has ended here or the store may have more."""
    for _ in range(POLL_MS // END_CHECK_MS):
        woken = await notifier.wait(follower.changed, END_CHECK_MS)
        if woken or follower.ring.news != news:
            return True
    return False


async def watch_feed(
    store: Store,
    notifier: Notifier,
    runtime: Runtime,
    *,
    tenant_id: str,
    cursor: str,
    progress_ms: int,
    read_messages: ReadMessages | None = None,
) -> AsyncGenerator[FeedBatch, None]:
    """Yield the tenant's commits and deletions after `cursor`, then live ones; an empty batch is a progress message.

    With `read_messages` also what that returns. The generator ends without a further batch when the process closes.

    Raises:
        InvalidArgument: the cursor is not from this store.
    """
    changed = notifier.subscribe("", "")
    pace = Pace(runtime, progress_ms)
    try:
        while not notifier.closing:
            # Read first, because a run's commit comes before the messages that it appends.
            messages = await read_messages() if read_messages is not None else None
            page = await store.page(FeedQuery(tenant_id=tenant_id, cursor=cursor))
            cursor = page.cursor
            if page.items or messages is not None or pace.is_due():
                pace.sent()
                yield FeedBatch(entries=page.items, cursor=cursor, messages=messages)
            if not page.items and messages is None:
                await notifier.wait(changed, pace.wait_ms())
    finally:
        notifier.unsubscribe("", "", changed)
