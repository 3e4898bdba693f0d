"""Reads the messages of a thread for those who watch it, and what its run streams.

The position of such a reader is a message's number, and a place in the log of the run that works.
"""

from __future__ import annotations

import asyncio

from stepwell.core.loop.thread_messages import fork_refusal
from stepwell.core.port import LogQuery, Runtime, Store
from stepwell.core.records.errors import InvalidArgument, Violation
from stepwell.core.records.model import LogEntry
from stepwell.core.records.states import LogKind
from stepwell.core.records.threads import key_of
from stepwell.engine.thread_reader import read_messages
from stepwell.watch.logs import PAGE_MIN
from stepwell.watch.notifier import POLL_MS, Notifier
from stepwell.watch.runs import MessagePage, MessagePlace

_MESSAGES_MAX = 1_000
"""The most messages of a page."""


class MessageReader:
    """Reads one thread when its store hints at a change, or if it hasn't been read for `POLL_MS`."""

    def __init__(
        self,
        store: Store,
        notifier: Notifier,
        runtime: Runtime,
        *,
        tenant_id: str,
        thread_id: str,
        chunks: bool = False,
    ) -> None:
        """`chunks`: the run that works is read, too."""
        self._store = store
        self._notifier = notifier
        self._runtime = runtime
        self._key = key_of(tenant_id, thread_id)
        self._tenant_id = tenant_id
        self._chunks = chunks
        self._changed = notifier.subscribe(*self._key)
        self._followed = ""
        """The run to whose hints the reader is subscribed."""
        self._logged = asyncio.Event()
        self._read_at = 0.0
        self._place = MessagePlace()

    def close(self) -> None:
        """End the subscriptions to hints."""
        self._notifier.unsubscribe(*self._key, self._changed)
        self._follow("")

    def _follow(self, run_id: str) -> None:
        """Subscribe to the hints of this run, and to those of no other."""
        if run_id != self._followed:
            self._notifier.unsubscribe(self._tenant_id, self._followed, self._logged)
            if run_id:
                self._logged = self._notifier.subscribe(self._tenant_id, run_id)
            self._followed = run_id

    async def begin(self, place: MessagePlace | None, after: int | None) -> MessagePlace:
        """Set the place where the reader begins: the given one, or after that message, or the end.

        Raises:
            InvalidArgument: there is no such message.
        """
        if place is None:
            kept, made_us, _ = await self._kept()
            if after is not None and after > kept:
                what = f"is {after}, but the thread's last message is {kept}"
                violation = Violation("after_message", what)
                raise InvalidArgument(
                    f"after_message {what}", (violation,), reason="CURSOR_IN_FUTURE"
                )
            place = MessagePlace(kept if after is None else after, made_us)
        self._place = place
        self._changed.set()
        return place

    async def read(self, room: int) -> MessagePage | None:
        """Return the next messages, of about `room` bytes, and chunks, or the thread's deletion, or None."""
        now, number = self._runtime.monotonic(), self._place.number
        is_due = (now - self._read_at) * 1_000 >= POLL_MS
        if not (self._changed.is_set() or self._logged.is_set() or is_due):
            return None
        self._changed.clear()
        self._logged.clear()
        self._read_at = now
        kept, made_us, working = await self._kept()
        if self._place.made_us not in (0, made_us):
            self._place = MessagePlace()
            self._changed.set()
            return MessagePage(place=self._place, deleted=True)
        run_id, chunks = await self._read_chunks(working) if self._chunks else ("", ())
        last = min(kept, number + _MESSAGES_MAX)
        found = ()
        if number < last:
            found, _ = await read_messages(self._store, self._key, number + 1, last, room)
        number = found[-1].number if found else number
        self._place = self._place._replace(number=number, made_us=made_us)
        if not found and not chunks:
            return None
        self._changed.set()
        return MessagePage(place=self._place, messages=tuple(found), run_id=run_id, chunks=chunks)

    async def _read_chunks(self, working: str) -> tuple[str, tuple[LogEntry, ...]]:
        """Return the run that is read, and what it has streamed further.

        It is read to its end, also if another one works by now. A run's chunks are there before its end is.
        """
        run_id, log = self._place.run_id or working, self._place.log
        self._follow(run_id)
        if not run_id:
            return "", ()
        query = LogQuery(tenant_id=self._tenant_id, run_id=run_id, cursor=log, limit=PAGE_MIN)
        page = await self._store.page(query)
        if page.items or run_id == working:
            self._place = self._place._replace(run_id=run_id, log=page.cursor)
        else:
            self._place = self._place._replace(run_id=working, log="")
        if page.items or run_id != working:
            self._changed.set()
        return run_id, tuple(one for one in page.items if one.kind is LogKind.CHUNK)

    async def _kept(self) -> tuple[int, int, str]:
        """Return the number of messages, when the thread was made, and the run that works.

        All are empty if the thread is missing or an unfinished fork.
        """
        run = await self._store.get_run(*self._key)
        if run is None or fork_refusal(run) is not None:
            return 0, 0, ""
        return run.thread.messages, run.created_us, run.thread.working
