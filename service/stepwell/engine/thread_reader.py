"""Messages and the state of a thread, as its stored entries have them, for steps of its runs and for callers.

A step reads as far as the thread goes when it first asks, and sees what earlier steps of its own run wrote: their letters are
delivered before. Its repetitions read up to the same message.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from stepwell.core.loop import letters, thread_messages
from stepwell.core.loop.state import RunState
from stepwell.core.port import JournalQuery, Store, every_row
from stepwell.core.records.cuts import text_bytes
from stepwell.core.records.errors import FailedPrecondition, StoreUnavailable
from stepwell.core.records.journal import value_bytes
from stepwell.core.records.model import Payload, Record
from stepwell.core.records.threads import ThreadMessage, key_of
from stepwell.engine.key_types import RunKey
from stepwell.engine.lease_lookup import leased_state
from stepwell.engine.runs import Runs

PAGE_BYTES_MAX = 3 * 1024 * 1024
"""The size of a page of messages; one message has at most 1 MiB."""
_MESSAGE_BYTES = 128
"""Limit of a message without its role and its content."""


class ThreadQuery(Record, frozen=True, kw_only=True):
    """The question of a step for a part of its run's thread."""

    run_id: str
    execution_id: str
    token: str
    last: int = 0
    """The number of messages, the newest of those up to `to`."""
    to: int = -1
    """The number of the newest message; -1: the newest that there is."""
    first: int = 0
    """The number of the message to continue at; 0: the first."""
    state: bool = False
    """With the state."""


class ThreadPage(NamedTuple):
    """Messages of a thread, oldest first, and its state."""

    messages: Sequence[ThreadMessage]
    to: int
    next: int
    """The number of the first message of the next page; 0: this was the last."""
    version: int
    """That of the state; 0: it was never set, or not asked for."""
    state: Payload | None


class ThreadReader:
    """Reads threads for the steps of every run."""

    def __init__(self, store: Store, runs: Runs) -> None:
        self._store = store
        self._runs = runs

    async def read(self, tenant_id: str, query: ThreadQuery) -> ThreadPage | None:
        """Return a page of messages, or None if the lease is lost.

        Raises:
            FailedPrecondition: the run is in no thread.
            StoreUnavailable: repeat the read.
        """
        key = (tenant_id, query.run_id)
        run = await leased_state(self._store, self._runs, key, query.execution_id, query.token)
        if run is None:
            return None
        thread_id = run.run.spec.thread_id
        if not thread_id:
            raise FailedPrecondition("the run is in no thread", reason="NO_THREAD")
        thread, to = key_of(tenant_id, thread_id), query.to
        if to < 0:
            await self._deliver(key, run)
        found = await self._store.get_run(*thread)
        kept = found.thread.messages if found is not None else 0
        to = kept if to < 0 else min(to, kept)
        first = max(query.first, to - query.last + 1, 1)
        messages, after = await read_messages(self._store, thread, first, to)
        version, state = await read_state(self._store, thread) if query.state else (0, None)
        return ThreadPage(messages, to, after, version, state)

    async def _deliver(self, key: RunKey, run: RunState) -> None:
        """Deliver what earlier steps of the run wrote to its thread."""
        if run.run.letters.first == run.run.letters.next:
            return
        await asyncio.shield(self._runs.letters.deliver(key))
        query = JournalQuery(
            tenant_id=key[0],
            run_id=key[1],
            journal=letters.JOURNAL,
            generation=letters.GENERATION,
        )
        async for one in every_row(self._store, query):
            if one.entry.name == letters.APPEND:
                raise StoreUnavailable("messages are on their way to the thread; read it again")


async def read_messages(
    store: Store, thread: RunKey, first: int, last: int, room: int = PAGE_BYTES_MAX
) -> tuple[Sequence[ThreadMessage], int]:
    """Return messages of a thread by their numbers, and the number of the first that doesn't fit; 0: all fit."""
    found: list[ThreadMessage] = []
    for block in range(
        thread_messages.block_of(first), thread_messages.block_of(last) + 1 if last else 0
    ):
        query = JournalQuery(
            tenant_id=thread[0],
            run_id=thread[1],
            journal=thread_messages.MESSAGES,
            generation=block,
        )
        async for stored in every_row(store, query):
            message = thread_messages.thread_message(stored)
            if not first <= message.number <= last:
                continue
            room -= _MESSAGE_BYTES + text_bytes(message.role) + value_bytes(stored.entry)
            if room < 0 and found:
                return found, message.number
            found.append(message)
    return found, 0


async def read_state(store: Store, thread: RunKey) -> tuple[int, Payload | None]:
    """Return the version of a thread's state and the state; 0 and None if it was never set."""
    query = JournalQuery(
        tenant_id=thread[0], run_id=thread[1], journal=thread_messages.STATE, limit=1
    )
    items = (await store.page(query)).items
    return (int(items[0].entry.key), items[0].entry.value) if items else (0, None)
