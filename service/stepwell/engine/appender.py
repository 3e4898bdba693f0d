"""Appends the output of running steps: log entries to the store, messages through the loop.

Log entries decide nothing, so this replica's knowledge of the lease token is a sufficient fence.
The log of an execution is bounded: long lines are cut, and entries beyond the limit are left out.
Both leave a note in the log, and neither fails a step.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence

from msgspec.structs import replace

from stepwell.core.loop.occurrences import AppendMessages
from stepwell.core.loop.transition import Reply, ReplyStatus
from stepwell.core.port import LogQuery, OpenExecution, Runtime, Store, every_row
from stepwell.core.records import limits
from stepwell.core.records.errors import NotFound
from stepwell.core.records.model import LogEntry, Message, Record
from stepwell.core.records.states import LogKind
from stepwell.engine.clock import StoreTime
from stepwell.engine.key_types import RunKey
from stepwell.engine.lease_lookup import holds_lease
from stepwell.engine.runs import Runs

ENTRY_BYTES = 64
"""The size of an entry in addition to its text, so that empty lines count, too."""
SHARES_KEPT_MAX = 20_000
_PAGE = 128


class AppendBatch(Record, frozen=True, kw_only=True):
    """Log entries and messages that one execution appends."""

    run_id: str
    execution_id: str
    token: str
    entries: tuple[LogEntry, ...] = ()
    messages: tuple[Message, ...] = ()
    after: int = 0
    """The number of messages that the execution has appended before."""


class _Share:
    """The part of its log limit that an execution has used."""

    __slots__ = ("cut", "used")

    def __init__(self, used: int = 0, *, cut: bool = False) -> None:
        self.used = used
        self.cut = cut

    def add(self, entry: LogEntry) -> LogEntry | None:
        """Return the entry to append, or a note that the rest is left out, or None."""
        if self.cut:
            return None
        entry = _fitting(entry)
        self.used += ENTRY_BYTES + len(entry.text.encode())
        if self.used <= limits.LOG_BYTES_PER_EXECUTION_MAX:
            return entry
        self.cut = True
        most = limits.LOG_BYTES_PER_EXECUTION_MAX
        words = f"[cut: this execution has written its {most:,} bytes; the rest is left out]"
        return replace(entry, text=words, level="WARNING", kind=LogKind.CUT)


class Appender:
    """Appends log entries and messages for every run."""

    def __init__(self, store: Store, runs: Runs, runtime: Runtime, clock: StoreTime) -> None:
        self._store = store
        self._runs = runs
        self._runtime = runtime
        self._clock = clock
        self._since_us = clock.now_us()
        self._forgot = False
        self._shares: OrderedDict[tuple[str, str, str], _Share] = OrderedDict()

    async def append(self, tenant_id: str, written: Sequence[AppendBatch]) -> list[bool]:
        """Append the batches; return False for each whose lease is lost, which is not appended.

        Raises:
            StoreUnavailable: some of it may be missing; send it again.
        """
        holds: list[bool] = []
        by_run: dict[RunKey, list[LogEntry]] = {}
        posted: list[tuple[int, asyncio.Future[Reply]]] = []
        for place, one in enumerate(written):
            key = (tenant_id, one.run_id)
            row = await self._row(key, one)
            holds.append(row is not None)
            if row is None:
                continue
            if one.entries:
                share = await self._share(key, row)
                named = (replace(entry, execution_id=one.execution_id) for entry in one.entries)
                fitting = (share.add(entry) for entry in named)
                by_run.setdefault(key, []).extend(e for e in fitting if e is not None)
            if one.messages:
                posted.append((place, self._runs.post(key, _occurrence_of(one))))
        for (tenant, run_id), entries in by_run.items():
            if entries:
                await self._store.append_logs(tenant, run_id, entries)
        for place, reply in posted:
            holds[place] = await _was_appended(reply)
        return holds

    async def _row(self, key: RunKey, one: AppendBatch) -> OpenExecution | None:
        """Return the execution if the token is its lease's; a replica that is behind reads the store."""
        state = await self._runs.state(key)
        if state is None:
            return None
        row = state.open.get(one.execution_id)
        if row is not None and holds_lease(row, one.token) and not self._runs.is_behind(key):
            return row
        loaded = await self._store.load(*key, since=state.run.version)
        if loaded is None:
            return None
        changed = {each.execution.execution_id: each for each in loaded.executions}
        row = changed.get(one.execution_id, None if loaded.complete else row)
        return row if row is not None and holds_lease(row, one.token) else None

    async def _share(self, key: RunKey, row: OpenExecution) -> _Share:
        """Return the used part of an execution's log limit; entries of other replicas are counted once."""
        execution = row.execution
        name = (*key, execution.execution_id)
        share = self._shares.get(name)
        if share is None:
            older = self._forgot or execution.leased_us < self._since_us
            share = await self._count(key, execution.execution_id) if older else _Share()
            share = self._shares.setdefault(name, share)
            if len(self._shares) > SHARES_KEPT_MAX:
                self._shares.popitem(last=False)
                self._forgot = True
        self._shares.move_to_end(name)
        return share

    async def _count(self, key: RunKey, execution_id: str) -> _Share:
        query = LogQuery(tenant_id=key[0], run_id=key[1], execution_id=execution_id, limit=_PAGE)
        entries = every_row(self._store, query)
        used = sum([ENTRY_BYTES + len(entry.text.encode()) async for entry in entries])
        return _Share(used, cut=used > limits.LOG_BYTES_PER_EXECUTION_MAX)


def _occurrence_of(one: AppendBatch) -> AppendMessages:
    return AppendMessages(
        execution_id=one.execution_id, token=one.token, messages=one.messages, after=one.after
    )


async def _was_appended(reply: asyncio.Future[Reply]) -> bool:
    try:
        return (await asyncio.shield(reply)).status is not ReplyStatus.LEASE_LOST
    except NotFound:
        return False


def _fitting(entry: LogEntry) -> LogEntry:
    """Cut a text that is too long, with a note of the missing bytes."""
    data = entry.text.encode()
    if len(data) <= limits.LOG_TEXT_BYTES_MAX:
        return entry
    room = limits.LOG_TEXT_BYTES_MAX - 64
    kept = data[:room].decode("utf-8", "ignore")
    left_out = len(data) - len(kept.encode())
    return replace(entry, text=f"{kept} … [cut: {left_out:,} bytes left out]")
