"""Group commit: all writes that queued while a transaction ran go into the next one.

At low load a commit doesn't wait; at high load one fsync serves hundreds. A failed group is rolled
back and its members are tried singly, so that only bad ones fail. After an error that leaves the
state on disk unknown, nothing is acknowledged until the store is opened again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection

from stepwell.core.port import Commit, Runtime
from stepwell.core.records.errors import (
    OutcomeUnknown,
    StepwellError,
    StoreFull,
    StoreStopped,
    StoreUnavailable,
)
from stepwell.logger import get_logger
from stepwell_drivers.clock import StoreClock
from stepwell_drivers.sql.entries import RecordWork
from stepwell_drivers.sql.error_class import Trouble
from stepwell_drivers.sql.sqlite.engine import checkpoint, raw, roll_back
from stepwell_drivers.sql.sqlite.errors import trouble_of
from stepwell_drivers.sql.sqlite.files import Files
from stepwell_drivers.sql.sqlite.transactions import LONG_ROWS, Transactions
from stepwell_drivers.sql.sqlite.wal import PAGE_BYTES, WAIT_MS, Checkpoints
from stepwell_drivers.sql.writes import (
    CommitWork,
    LogWork,
    PresenceWork,
    RenewWork,
    SwapWork,
    Work,
    bytes_in,
)

log = get_logger(__name__)

QUEUED_MAX = 20_000
"""The most waiting writes; more are refused."""
GROUP_ROWS = 768
"""The approximate number of rows in one transaction, not counting the last work's."""
SWEEP_SECONDS = 60.0
ROOM_BYTES = 4 * 1024 * 1024
"""A disk that refused a commit counts as usable again at this many free bytes, or after a successful commit."""


class Job(NamedTuple):
    """A queued write and the future of its result."""

    work: Work
    done: asyncio.Future[Any]
    rows: int
    payload_bytes: int


Outcome = tuple[Job, Any, StepwellError | None]


class Writer:
    """Queues writes for the one task that uses the connection."""

    def __init__(
        self,
        connection: Connection,
        files: Files,
        *,
        clock: StoreClock,
        runtime: Runtime,
        after: Callable[[Sequence[tuple[Work, Any]]], None],
    ) -> None:
        self._connection = connection
        self._driver = raw(connection)
        self._files = files
        self._checkpoints = Checkpoints(self._driver, files, runtime)
        self._transactions = Transactions(self._driver, now_us=clock.now_us, runtime=runtime)
        self._runtime = runtime
        self._after = after
        self._loop = asyncio.get_running_loop()
        self._jobs: deque[Job] = deque()
        self._wake = asyncio.Event()
        self._closing = False
        self._failed: StepwellError | None = None
        self._full: StoreFull | None = None
        """The reason why a commit was refused, until one succeeds."""
        self._swept = runtime.monotonic()
        self.groups = 0
        """The number of transactions, for tests."""
        self._task = runtime.spawn(self._run(), name="stepwell-write")

    async def do(self, work: Work) -> Any:
        """Queue a write and wait until it is durable.

        The write is done even if the caller is cancelled.
        """
        if self._failed is not None:
            raise StoreStopped(f"the store stopped: {self._failed.message}")
        if self._closing:
            raise StoreUnavailable("this store was closed")
        if len(self._jobs) >= QUEUED_MAX:
            raise StoreUnavailable(f"{QUEUED_MAX} writes are waiting already", reason="STORE_BUSY")
        done = self._loop.create_future()
        self._jobs.append(Job(work, done, *_size_of(work)))
        self._wake.set()
        return await done

    async def close(self) -> None:
        """Finish the queued writes and stop."""
        self._closing = True
        self._wake.set()
        await asyncio.shield(self._task)

    async def _run(self) -> None:
        try:
            await self._keep_house()
            while True:
                while jobs := self._next_group():
                    self._resolve(await self._write(jobs))
                    await self._keep_house()
                    # Callers that were answered get a turn, in which they may queue more.
                    await self._runtime.sleep(0)
                if self._closing:
                    break
                await self._wake.wait()
                self._wake.clear()
        finally:
            await self._end()

    def _next_group(self) -> list[Job]:
        """Return the next works for one transaction; a long work goes alone."""
        jobs: list[Job] = []
        rows = 0
        while self._jobs and rows < GROUP_ROWS:
            if jobs and self._jobs[0].rows >= LONG_ROWS:
                break
            jobs.append(self._jobs.popleft())
            rows += jobs[-1].rows
        return jobs

    def _resolve(self, outcomes: list[Outcome]) -> None:
        for job, answer, error in outcomes:
            if job.done.done():
                continue
            if error is None:
                job.done.set_result(answer)
            else:
                job.done.set_exception(error)
        self._after([(job.work, answer) for job, answer, error in outcomes if error is None])

    # --- a group ---

    async def _write(self, jobs: list[Job]) -> list[Outcome]:
        """Write a group; if it fails for a reason that may be one member's, write each singly."""
        answers, trouble = await self._attempt(jobs)
        if trouble is None:
            return [(job, answer, None) for job, answer in zip(jobs, answers, strict=True)]
        if len(jobs) == 1 or trouble.fatal:
            return [(job, None, trouble.error) for job in jobs]
        return [outcome for job in jobs for outcome in await self._write([job])]

    async def _attempt(self, jobs: list[Job]) -> tuple[list[Any], Trouble | None]:
        """Write a group in one transaction, unless it could not be acknowledged."""
        if self._failed is not None:
            words = f"the store stopped: {self._failed.message}"
            return [], Trouble(StoreStopped(words), fatal=True)
        if self._full is not None and any(map(_asks_readiness, jobs)):
            # A presence row may fit where no commit does.
            has_room = self._files.free_bytes() >= ROOM_BYTES
            if not has_room:
                return [], Trouble(self._full)
        before = self._driver.total_changes
        answers, trouble = await self._transactions.write(
            [job.work for job in jobs], sum(job.rows for job in jobs)
        )
        if trouble is None and (loss := self._files.loss()):
            words = f"{loss} while it was open; put it back, and start this program again"
            trouble = Trouble(OutcomeUnknown(words), fatal=True)
        if trouble is not None:
            self._note(trouble)
            return [], trouble
        self.groups += 1
        if self._full is not None and any(isinstance(job.work, CommitWork) for job in jobs):
            self._full = None
            log.warning("the disk has room")
        changes = self._driver.total_changes - before
        payload_bytes = sum(job.payload_bytes for job in jobs)
        self._checkpoints.count(changes, payload_bytes)
        return answers, None

    def _note(self, trouble: Trouble) -> None:
        """Stop the store after a fatal error; after a full disk remember that, and make room."""
        if trouble.fatal and self._failed is None:
            self._failed = trouble.error
            log.error("the store stopped", why=trouble.error.message)
        elif isinstance(trouble.error, StoreFull):
            if self._full is None:
                log.warning("writes are refused", why=trouble.error.message)
            self._full = trouble.error
            self._checkpoints.disk_is_full()

    # --- between groups ---

    async def _keep_house(self) -> None:
        """Keep the log small, and remove expired rows."""
        if self._failed is not None:
            return
        now = self._runtime.monotonic()
        try:
            if (due := self._checkpoints.due()) is not None:
                await self._transactions.between(due)
            if now - self._swept >= SWEEP_SECONDS:
                self._swept = now
                await self._transactions.sweep()
        except Exception as error:  # noqa: BLE001 - a failed fsync here is as bad as in a commit
            self._note(trouble_of(error))

    async def _end(self) -> None:
        try:
            await self._transactions.between(self._let_go)
        except Exception as error:  # noqa: BLE001 - the log is whole: the next opener reads it
            self._note(trouble_of(error))
        finally:
            self._transactions.close()

    def _let_go(self) -> None:
        try:
            roll_back(self._driver)
            if self._failed is None:
                checkpoint(self._driver, empty_within_ms=WAIT_MS)
        finally:
            self._connection.close()


def _asks_readiness(job: Job) -> bool:
    """Return whether a job is a replica's own presence, which has no tenant."""
    return isinstance(job.work, PresenceWork) and any(
        not one.tenant_id for one in job.work.presences
    )


def _size_of(work: Work) -> tuple[int, int]:
    """Return upper estimates of a work's rows and payload bytes."""
    match work:
        case CommitWork(commits):
            payload_bytes = bytes_in(work)
            return sum(map(_rows_in, commits)) + payload_bytes // PAGE_BYTES, payload_bytes
        case RecordWork(writes):
            payload_bytes = bytes_in(work)
            entries = sum(len(write.entries) for write in writes)
            return entries + payload_bytes // PAGE_BYTES, payload_bytes
        case RenewWork(renewals):
            return len(renewals), 0
        case PresenceWork(presences):
            return len(presences), 0
        case LogWork(entries=entries):
            return 1 + len(entries), 0
        case SwapWork(swaps=swaps):
            return len(swaps), 0
        case _:
            # It removes an unknown number of rows.
            return LONG_ROWS, 0


def _rows_in(commit: Commit) -> int:
    planned = len(commit.plan.tasks) if commit.plan is not None else 0
    return (
        2
        + max(planned, len(commit.tasks))
        + 2 * len(commit.executions)
        + len(commit.events)
        + len(commit.messages)
        + len(commit.entries)
        + len(commit.forgotten)
    )
