"""What workers write while they work: log entries straight to the store, messages through the loop.

Log entries are fenced by the lease token as this replica knows it, no more: they decide nothing. What an
execution may write is bounded. A line that is too long is cut, what is over the execution's share is left
out; both say so, and neither fails a step.
"""

from __future__ import annotations

import asyncio
import hmac
from collections import OrderedDict
from collections.abc import Sequence

import structlog
from msgspec.structs import replace

from stepwell.core.loop.signals import (
    AppendMessages,
    Delivery,
    Failed,
    NeedsInput,
    Released,
    Reply,
    ReplyStatus,
)
from stepwell.core.port import OpenExecution, Runtime, Store
from stepwell.core.records import limits
from stepwell.core.records.errors import NotFound, StoreError
from stepwell.core.records.model import LogEntry, Message, Record
from stepwell.core.records.states import LogKind
from stepwell.engine.clock import StoreTime
from stepwell.engine.runs import RunKey, Runs

log = structlog.get_logger(__name__)

ENTRY_BYTES = 64
"""What an entry costs besides its text: a flood of empty lines is a flood, too."""
SHARES_KEPT_MAX = 20_000
_PAGE = 128
_NOT_DONE = (Failed, NeedsInput, Released)


class AppendBatch(Record, frozen=True, kw_only=True):
    """What one execution wrote."""

    run_id: str
    execution_id: str
    token: str
    entries: tuple[LogEntry, ...] = ()
    messages: tuple[Message, ...] = ()
    after: int = 0
    """How many messages it has appended before."""


class _Share:
    """How much of its log an execution has used."""

    __slots__ = ("cut", "used")

    def __init__(self, used: int = 0, *, cut: bool = False) -> None:
        self.used = used
        self.cut = cut

    def take(self, entry: LogEntry) -> LogEntry | None:
        """Return the entry as it is kept, or the word that the rest is left out; None: nothing."""
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
    """Takes what workers write, for every run."""

    def __init__(self, store: Store, runs: Runs, runtime: Runtime, clock: StoreTime) -> None:
        self._store = store
        self._runs = runs
        self._runtime = runtime
        self._clock = clock
        self._since_us = clock.now_us()
        self._forgot = False
        self._shares: OrderedDict[tuple[str, str, str], _Share] = OrderedDict()

    async def append(self, tenant_id: str, written: Sequence[AppendBatch]) -> list[bool]:
        """Keep it; False for each whose lease is lost: nothing of that one is kept.

        Raises:
            StoreUnavailable: some of it may not be kept; send it again.
        """
        holds: list[bool] = []
        by_run: dict[RunKey, list[LogEntry]] = {}
        said: list[tuple[int, asyncio.Future[Reply]]] = []
        for place, one in enumerate(written):
            key = (tenant_id, one.run_id)
            row = await self._row(key, one)
            holds.append(row is not None)
            if row is None:
                continue
            if one.entries:
                share = await self._share(key, row)
                found = (share.take(replace(e, execution_id=one.execution_id)) for e in one.entries)
                by_run.setdefault(key, []).extend(entry for entry in found if entry is not None)
            if one.messages:
                said.append((place, self._runs.post(key, _say(one))))
        for (tenant, run_id), entries in by_run.items():
            if entries:
                await self._store.append_logs(tenant, run_id, entries)
        for place, reply in said:
            holds[place] = await _was_kept(reply)
        return holds

    async def _row(self, key: RunKey, one: AppendBatch) -> OpenExecution | None:
        """Return the execution, if the token is that of its lease. A replica that is behind looks."""
        state = await self._runs.state(key)
        if state is None:
            return None
        row = state.open.get(one.execution_id)
        if row is not None and _is_its(row, one.token) and not self._runs.is_behind(key):
            return row
        loaded = await self._store.load(*key, since=state.run.version)
        if loaded is None:
            return None
        changed = {found.execution.execution_id: found for found in loaded.executions}
        row = changed.get(one.execution_id, None if loaded.complete else row)
        return row if row is not None and _is_its(row, one.token) else None

    async def _share(self, key: RunKey, row: OpenExecution) -> _Share:
        """Return what it has used. What it wrote before this replica was there is counted once."""
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
        used, cursor = 0, ""
        while used <= limits.LOG_BYTES_PER_EXECUTION_MAX:
            page = await self._store.read_logs(
                *key, execution_id=execution_id, cursor=cursor, limit=_PAGE
            )
            used += sum(ENTRY_BYTES + len(entry.text.encode()) for entry in page.entries)
            cursor = page.cursor
            if len(page.entries) < _PAGE:
                break
        return _Share(used, cut=used > limits.LOG_BYTES_PER_EXECUTION_MAX)

    def collapse(self, key: RunKey, delivery: Delivery, reply: asyncio.Future[Reply]) -> None:
        """Remove the chunks of an execution whose outcome was just taken: its result is there."""
        if not delivery.streamed or isinstance(delivery.result, _NOT_DONE):
            return
        if reply.cancelled() or reply.exception() is not None:
            return
        if reply.result().status is ReplyStatus.ACCEPTED:
            self._runtime.spawn(self._trim(key, delivery.execution_id), name="collapse chunks")

    async def _trim(self, key: RunKey, execution_id: str) -> None:
        """Readers leave them out anyway, so a failure costs room until the log is purged."""
        try:
            await self._store.trim_logs(*key, execution_id=execution_id, kind=LogKind.CHUNK)
        except StoreError as error:
            log.warning("chunks were not removed", run_id=key[1], error=error.message)


def _is_its(row: OpenExecution, token: str) -> bool:
    return bool(row.token) and hmac.compare_digest(row.token.encode(), token.encode())


def _say(one: AppendBatch) -> AppendMessages:
    return AppendMessages(
        execution_id=one.execution_id, token=one.token, messages=one.messages, after=one.after
    )


async def _was_kept(reply: asyncio.Future[Reply]) -> bool:
    try:
        return (await asyncio.shield(reply)).status is not ReplyStatus.LEASE_LOST
    except NotFound:
        return False


def _fitting(entry: LogEntry) -> LogEntry:
    """Cut a text that is too long, and say how much of it is missing."""
    data = entry.text.encode()
    if len(data) <= limits.LOG_TEXT_BYTES_MAX:
        return entry
    room = limits.LOG_TEXT_BYTES_MAX - 64
    kept = data[:room].decode("utf-8", "ignore")
    left_out = len(data) - len(kept.encode())
    return replace(entry, text=f"{kept} … [cut: {left_out:,} bytes left out]")
