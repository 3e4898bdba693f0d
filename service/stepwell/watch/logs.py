"""Follows logs: first stored entries after a cursor, then those that are appended meanwhile.

A reader of a log is only a cursor, like a watcher of events: it reads the store at its own pace, a
hint wakes it earlier than the next poll would, and nothing is queued for it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

from stepwell.core.port import ExecutionQuery, LogQuery, Page, Runtime, Store
from stepwell.core.records.cuts import text_bytes
from stepwell.core.records.errors import RunNotFound
from stepwell.core.records.model import Execution, LogEntry, Record
from stepwell.core.records.states import OPEN, ExecutionStatus, LogKind
from stepwell.watch.notifier import Notifier, Pace

PAGE_MIN = 64
PAGE_MAX = 1_000
PAGE_BYTES_MAX = 1024 * 1024
"""A larger page is read again with fewer entries, because only the store knows a cursor within a page."""
_OPEN_FOR_SECONDS = 1.0
"""The time for which an open execution is assumed to stay open."""


class LogBatch(Record, frozen=True, kw_only=True):
    """Entries of a log; without entries, a progress message: everything up to `cursor` is known."""

    entries: tuple[LogEntry, ...] = ()
    cursor: str = ""
    finished: bool = False
    """True if everything was sent and nothing more will be written."""


class LogFilter(Record, frozen=True, kw_only=True):
    """Selects entries of a run's log; empty fields select all."""

    execution_id: str = ""
    task_id: str = ""
    kinds: frozenset[LogKind] = frozenset()

    def matches(self, entry: LogEntry) -> bool:
        """Return whether the entry's kind and task are selected."""
        return (not self.kinds or entry.kind in self.kinds) and (
            not self.task_id or task_of(entry.execution_id) == self.task_id
        )


def task_of(execution_id: str) -> str:
    """Return the task of this execution; empty for a step without a task."""
    kind, _, rest = execution_id.partition(":")
    return rest.rpartition("#")[0] if kind in ("task", "reconcile") else ""


async def follow_log(
    store: Store,
    notifier: Notifier,
    runtime: Runtime,
    *,
    tenant_id: str,
    run_id: str,
    selected: LogFilter,
    cursor: str,
    follow: bool,
    progress_ms: int,
) -> AsyncGenerator[LogBatch, None]:
    """Yield the log's entries after `cursor`; with `follow`, also those that are appended meanwhile.

    The last batch has `finished`. When the process closes, the generator ends without such a batch.

    Raises:
        RunNotFound: there is no such run, or it was deleted while it was read.
        InvalidArgument: the cursor is not from this store.
    """
    changed = notifier.subscribe(tenant_id, run_id)
    pace = Pace(runtime, progress_ms)
    pages = _Pages(store, tenant_id, run_id, selected.execution_id)
    executions = _Executions(store, runtime, tenant_id, run_id)
    try:
        while True:
            # Checked before the pages are read, so that they include entries written before the
            # end.
            over = not follow or await executions.are_over(selected.execution_id)
            while True:
                page = await pages.read(cursor)
                cursor = page.cursor
                entries = [entry for entry in page.items if selected.matches(entry)]
                if entries:
                    pace.sent()
                    yield LogBatch(entries=tuple(entries), cursor=cursor)
                if not page.items or notifier.closing:
                    break
            if over:
                yield LogBatch(cursor=cursor, finished=True)
                return
            if pace.is_due():
                pace.sent()
                yield LogBatch(cursor=cursor)
            if not notifier.closing:
                await notifier.wait(changed, pace.wait_ms())
            if notifier.closing:
                return
    finally:
        notifier.unsubscribe(tenant_id, run_id, changed)


class _Pages:
    """Reads pages of a log; adapts their length to the size of the entries."""

    def __init__(self, store: Store, tenant_id: str, run_id: str, execution_id: str) -> None:
        self._store = store
        self._run = (tenant_id, run_id)
        self._execution_id = execution_id
        self._limit = PAGE_MIN

    async def read(self, cursor: str) -> Page[LogEntry]:
        while True:
            page = await self._store.page(
                LogQuery(
                    tenant_id=self._run[0],
                    run_id=self._run[1],
                    execution_id=self._execution_id,
                    cursor=cursor,
                    limit=self._limit,
                )
            )
            size = sum(text_bytes(entry.text) for entry in page.items)
            if size > PAGE_BYTES_MAX and self._limit > PAGE_MIN:
                self._limit = PAGE_MIN
                continue
            if len(page.items) == self._limit and size < PAGE_BYTES_MAX // 8:
                self._limit = min(2 * self._limit, PAGE_MAX)
            return page


class _Executions:
    """Tracks which executions are open and how others ended, as far as a log's reader asks."""

    def __init__(self, store: Store, runtime: Runtime, tenant_id: str, run_id: str) -> None:
        self._store = store
        self._runtime = runtime
        self._run = (tenant_id, run_id)
        self._ended: dict[str, ExecutionStatus] = {}
        self._open_at: dict[str, float] = {}
        self._all_ended_up_to = ""
        """The cursor up to which all executions have ended, where searches for a step without a task begin."""

    async def are_over(self, execution_id: str) -> bool:
        """Return whether nothing more is written, because the run or the given execution has ended.

        Raises:
            RunNotFound: the run is gone.
        """
        run = await self._store.get_run(*self._run)
        if run is None:
            raise RunNotFound(self._run[1])
        if run.ended or not execution_id:
            return run.ended
        await self._refresh(execution_id)
        return execution_id in self._ended

    async def _refresh(self, execution_id: str) -> None:
        """Read the status of an execution, unless its end is known or it was open a moment ago."""
        now = self._runtime.monotonic()
        checked_at = self._open_at.get(execution_id)
        if execution_id in self._ended or (
            checked_at is not None and now - checked_at < _OPEN_FOR_SECONDS
        ):
            return
        task_id = task_of(execution_id)
        cursor = "" if task_id else self._all_ended_up_to
        no_gap = not task_id
        while True:
            page = await self._store.page(
                ExecutionQuery(
                    tenant_id=self._run[0],
                    run_id=self._run[1],
                    task_id=task_id,
                    cursor=cursor,
                    limit=PAGE_MAX,
                )
            )
            for execution in page.items:
                self._remember(execution, now)
            cursor = page.cursor
            no_gap = no_gap and all(one.status not in OPEN for one in page.items)
            if no_gap and cursor:
                self._all_ended_up_to = cursor
            if not cursor or execution_id in self._ended or self._open_at.get(execution_id) == now:
                return

    def _remember(self, execution: Execution, now: float) -> None:
        if execution.status in OPEN:
            self._open_at[execution.execution_id] = now
        else:
            self._open_at.pop(execution.execution_id, None)
            self._ended[execution.execution_id] = execution.status
