"""Following a log: entries from a cursor on, first those that are there, then those that come.

As a watcher of events, a reader of a log is a cursor and nothing more: it reads the store at its own pace,
a hint wakes it earlier than the next poll would, and nothing is queued for it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

from stepwell.core.port import LogPage, Runtime, Store
from stepwell.core.records.errors import RunNotFound
from stepwell.core.records.model import Execution, LogEntry, Record
from stepwell.core.records.states import OPEN, ExecutionStatus, LogKind
from stepwell.watch.runs import Bells, Pace

PAGE_MIN = 64
PAGE_MAX = 1_000
PAGE_BYTES_MAX = 1024 * 1024
"""A page that turns out larger is read again, shorter: only the store knows the cursor in between."""
_LOOK_SECONDS = 1.0
"""For how long an execution that was open is taken to be open still."""


class LogBatch(Record, frozen=True, kw_only=True):
    """Entries, or none: then it only says how far all is known."""

    entries: tuple[LogEntry, ...] = ()
    cursor: str = ""
    finished: bool = False
    """All that is there, or will be, was sent."""


class Wanted(Record, frozen=True, kw_only=True):
    """Which entries of a run's log."""

    execution_id: str = ""
    task_id: str = ""
    kinds: frozenset[LogKind] = frozenset()

    def lets(self, entry: LogEntry) -> bool:
        """Tell whether it is one of them, as far as the entry itself says."""
        return (not self.kinds or entry.kind in self.kinds) and (
            not self.task_id or task_of(entry.execution_id) == self.task_id
        )


def task_of(execution_id: str) -> str:
    """Return the task that an execution is of; empty: it is of a step without one."""
    kind, _, rest = execution_id.partition(":")
    return rest.rpartition("#")[0] if kind in ("task", "reconcile") else ""


async def follow_log(
    store: Store,
    bells: Bells,
    runtime: Runtime,
    *,
    tenant_id: str,
    run_id: str,
    wanted: Wanted,
    cursor: str,
    follow: bool,
    progress_ms: int,
) -> AsyncGenerator[LogBatch, None]:
    """Yield the log's entries after `cursor`; with `follow` also those that come.

    Ends after the batch that says `finished`, or silently when the process closes.

    Raises:
        RunNotFound: there is no such run, or it was deleted while it was read.
        InvalidArgument: the cursor is none of this store's.
    """
    bell = bells.hang(tenant_id, run_id)
    pace = Pace(runtime, progress_ms)
    pages = _Pages(store, tenant_id, run_id, wanted.execution_id)
    executions = _Executions(store, runtime, tenant_id, run_id)
    try:
        while True:
            # Looked at first: what was written before the end is then read after it.
            over = not follow or await executions.are_over(wanted.execution_id)
            while True:
                page = await pages.read(cursor)
                cursor = page.cursor
                entries = [entry for entry in page.entries if wanted.lets(entry)]
                entries = await executions.without_collapsed(entries)
                if entries:
                    pace.said()
                    yield LogBatch(entries=tuple(entries), cursor=cursor)
                if not page.entries or bells.closing:
                    break
            if over:
                yield LogBatch(cursor=cursor, finished=True)
                return
            if pace.is_due():
                pace.said()
                yield LogBatch(cursor=cursor)
            if not bells.closing:
                await bells.wait(bell, pace.wait_ms())
            if bells.closing:
                return
    finally:
        bells.take_down(tenant_id, run_id, bell)


class _Pages:
    """Reads pages that are not too large, and not too short where entries are small."""

    def __init__(self, store: Store, tenant_id: str, run_id: str, execution_id: str) -> None:
        self._store = store
        self._run = (tenant_id, run_id)
        self._execution_id = execution_id
        self._limit = PAGE_MIN

    async def read(self, cursor: str) -> LogPage:
        while True:
            page = await self._store.read_logs(
                *self._run, execution_id=self._execution_id, cursor=cursor, limit=self._limit
            )
            size = sum(len(entry.text) for entry in page.entries)
            if size > PAGE_BYTES_MAX and self._limit > PAGE_MIN:
                self._limit = PAGE_MIN
                continue
            if len(page.entries) == self._limit and size < PAGE_BYTES_MAX // 8:
                self._limit = min(2 * self._limit, PAGE_MAX)
            return page


class _Executions:
    """Which executions are open, and how the others ended, as far as a reader needs to know."""

    def __init__(self, store: Store, runtime: Runtime, tenant_id: str, run_id: str) -> None:
        self._store = store
        self._runtime = runtime
        self._run = (tenant_id, run_id)
        self._ended: dict[str, ExecutionStatus] = {}
        self._open_at: dict[str, float] = {}
        self._all_ended_up_to = ""
        """Where to begin to look for a step that has no task: all before it have ended."""

    async def are_over(self, execution_id: str) -> bool:
        """Tell whether nothing more is written: the run has ended, or the one execution.

        Raises:
            RunNotFound: the run is gone.
        """
        run = await self._store.get_run(*self._run)
        if run is None:
            raise RunNotFound(self._run[1])
        if run.ended or not execution_id:
            return run.ended
        await self._look(execution_id)
        return execution_id in self._ended

    async def without_collapsed(self, entries: Sequence[LogEntry]) -> list[LogEntry]:
        """Leave out chunks of executions that have COMPLETED: their result is there."""
        shown: list[LogEntry] = []
        for entry in entries:
            if entry.kind is LogKind.CHUNK and await self._has_completed(entry.execution_id):
                continue
            shown.append(entry)
        return shown

    async def _has_completed(self, execution_id: str) -> bool:
        await self._look(execution_id)
        return self._ended.get(execution_id) is ExecutionStatus.COMPLETED

    async def _look(self, execution_id: str) -> None:
        """Find out how it stands, unless that is known: an end is for good."""
        now = self._runtime.monotonic()
        looked = self._open_at.get(execution_id)
        if execution_id in self._ended or (looked is not None and now - looked < _LOOK_SECONDS):
            return
        task_id = task_of(execution_id)
        cursor = "" if task_id else self._all_ended_up_to
        no_gap = not task_id
        while True:
            page = await self._store.list_executions(
                *self._run, task_id=task_id, cursor=cursor, limit=PAGE_MAX
            )
            for execution in page.executions:
                self._note(execution, now)
            cursor = page.cursor
            no_gap = no_gap and all(one.status not in OPEN for one in page.executions)
            if no_gap and cursor:
                self._all_ended_up_to = cursor
            if not cursor or execution_id in self._ended or self._open_at.get(execution_id) == now:
                return

    def _note(self, execution: Execution, now: float) -> None:
        if execution.status in OPEN:
            self._open_at[execution.execution_id] = now
        else:
            self._open_at.pop(execution.execution_id, None)
            self._ended[execution.execution_id] = execution.status
