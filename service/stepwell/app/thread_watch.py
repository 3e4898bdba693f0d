"""Reads the messages of a thread for those who watch it. The position of such a reader is a message's number."""

from __future__ import annotations

from stepwell.core.loop.thread_messages import fork_refusal
from stepwell.core.port import Runtime, Store
from stepwell.core.records.errors import InvalidArgument, Violation
from stepwell.core.records.threads import key_of
from stepwell.engine.thread_reader import read_messages
from stepwell.watch.notifier import POLL_MS, Notifier
from stepwell.watch.runs import MessagePage, MessagePlace

_MESSAGES_MAX = 1_000
"""The most messages of a page."""


class MessageReader:
    """Reads one thread when its store hints at a change, or if it hasn't been read for `POLL_MS`."""

    def __init__(
        self, store: Store, notifier: Notifier, runtime: Runtime, *, tenant_id: str, thread_id: str
    ) -> None:
        self._store = store
        self._notifier = notifier
        self._runtime = runtime
        self._key = key_of(tenant_id, thread_id)
        self._changed = notifier.subscribe(*self._key)
        self._read_at = 0.0
        self._place = MessagePlace()

    def close(self) -> None:
        """End the subscription to hints."""
        self._notifier.unsubscribe(*self._key, self._changed)

    async def begin(self, place: MessagePlace | None, after: int | None) -> MessagePlace:
        """Set the place where the reader begins: the given one, or after that message, or the end.

        Raises:
            InvalidArgument: there is no such message.
        """
        if place is None:
            kept, made_us = await self._kept()
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
        """Return the next messages, at least one and of about `room` bytes, or the thread's deletion, or None."""
        now, number = self._runtime.monotonic(), self._place.number
        if not self._changed.is_set() and (now - self._read_at) * 1_000 < POLL_MS:
            return None
        self._changed.clear()
        self._read_at = now
        kept, made_us = await self._kept()
        if self._place.made_us not in (0, made_us):
            self._place = MessagePlace()
            self._changed.set()
            return MessagePage(place=self._place, deleted=True)
        last = min(kept, number + _MESSAGES_MAX)
        found = ()
        if number < last:
            found, _ = await read_messages(self._store, self._key, number + 1, last, room)
        self._place = MessagePlace(found[-1].number if found else number, made_us)
        if not found:
            return None
        self._changed.set()
        return MessagePage(place=self._place, messages=tuple(found))

    async def _kept(self) -> tuple[int, int]:
        """Return the number of messages, and when the thread was made; zeros if it is missing or an unfinished fork."""
        run = await self._store.get_run(*self._key)
        if run is None or fork_refusal(run) is not None:
            return 0, 0
        return run.thread.messages, run.created_us
