"""The thread that writes. All writes that queued while a transaction ran go into the next one.

At low load a commit doesn't wait; at high load one fsync serves hundreds. A group that fails is rolled
back and its members are tried singly, so that a bad one fails alone. After an error that leaves unknown
what is on disk, nothing is acknowledged any more until the store is opened again.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection

from stepwell.core.port import Runtime
from stepwell.core.records.errors import (
    OutcomeUnknown,
    StepwellError,
    StoreFull,
    StoreStopped,
    StoreUnavailable,
)
from stepwell.logger import get_logger
from stepwell_drivers.clock import StoreClock
from stepwell_drivers.sql.sqlite.checkpoints import WAIT_MS, Checkpoints
from stepwell_drivers.sql.sqlite.engine import checkpoint, raw, roll_back
from stepwell_drivers.sql.sqlite.errors import trouble_of
from stepwell_drivers.sql.sqlite.files import Files
from stepwell_drivers.sql.trouble import Trouble
from stepwell_drivers.sql.writes import CommitWork, PresenceWork, Work, apply_group, sweep

log = get_logger(__name__)

QUEUED_MAX = 20_000
"""Writes that may wait; more are refused."""
GROUP_MAX = 1_024
"""Commits and other rows to write in one transaction, counted before they are known in full."""
BUSY_TRIES = 3
SWEEP_SECONDS = 60.0
ROOM_BYTES = 4 * 1024 * 1024
"""A disk that refused a commit is believed to have room again from so many free bytes on, or at the next commit."""


class Job(NamedTuple):
    """A queued write and the future of its result."""

    work: Work
    done: asyncio.Future[Any]


Outcome = tuple[Job, Any, StepwellError | None]


class Writer:
    """Queues writes for one thread, which alone uses the connection."""

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
        self._files = files
        self._checkpoints = Checkpoints(connection, runtime)
        self._clock = clock
        self._runtime = runtime
        self._after = after
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._jobs: deque[Job] = deque()
        self._wake = threading.Event()
        self._closing = False
        self._failed: StepwellError | None = None
        self._full: StoreFull | None = None
        """Why a commit was refused, until one succeeds."""
        self._swept = runtime.monotonic()
        self.groups = 0
        """Transactions so far: tests count them."""
        self._thread = threading.Thread(target=self._run, name="stepwell-write", daemon=True)
        self._thread.start()

    # --- on the event loop ---

    async def do(self, work: Work) -> Any:
        """Queue a write and wait until it is durable.

        It is done even if the caller is cancelled.
        """
        if self._failed is not None:
            raise StoreStopped(f"the store stopped: {self._failed.message}")
        if self._closing:
            raise StoreUnavailable("this store was closed")
        if len(self._jobs) >= QUEUED_MAX:
            raise StoreUnavailable(f"{QUEUED_MAX} writes are waiting already", reason="STORE_BUSY")
        done = self._loop.create_future()
        self._jobs.append(Job(work, done))
        self._wake.set()
        return await done

    async def close(self) -> None:
        """Finish what is queued and end the thread."""
        self._closing = True
        self._wake.set()
        await asyncio.shield(self._ended)
        self._thread.join()

    def _resolve(self, outcomes: list[Outcome]) -> None:
        for job, answer, error in outcomes:
            if job.done.done():
                continue
            if error is None:
                job.done.set_result(answer)
            else:
                job.done.set_exception(error)
        self._after([(job.work, answer) for job, answer, error in outcomes if error is None])

    # --- in the thread ---

    def _run(self) -> None:
        try:
            self._keep_house()
            while True:
                self._wake.wait()
                self._wake.clear()
                while jobs := self._next_group():
                    self._post(self._resolve, self._write(jobs))
                    self._keep_house()
                if self._closing and not self._jobs:
                    break
        finally:
            self._end()

    def _next_group(self) -> list[Job]:
        jobs: list[Job] = []
        size = 0
        while self._jobs and size < GROUP_MAX:
            job = self._jobs.popleft()
            size += len(job.work.commits) if isinstance(job.work, CommitWork) else 1
            jobs.append(job)
        return jobs

    def _write(self, jobs: list[Job]) -> list[Outcome]:
        """Write a group; if that fails for a reason that may be one member's, each by itself."""
        try:
            answers, trouble = self._attempt(jobs)
        except Exception as error:  # noqa: BLE001 - a thread that dies would leave all callers waiting
            answers, trouble = [], trouble_of(error, committing=True)
            self._note(trouble)
        if trouble is None:
            return [(job, answer, None) for job, answer in zip(jobs, answers, strict=True)]
        if len(jobs) == 1 or trouble.fatal:
            return [(job, None, trouble.error) for job in jobs]
        return [outcome for job in jobs for outcome in self._write([job])]

    def _attempt(self, jobs: list[Job]) -> tuple[list[Any], Trouble | None]:
        trouble: Trouble | None = None
        for _ in range(BUSY_TRIES):
            if self._failed is not None:
                words = f"the store stopped: {self._failed.message}"
                return [], Trouble(StoreStopped(words), fatal=True)
            answers, trouble = self._transact(jobs)
            if trouble is None or not trouble.retry:
                break
        else:
            answers = []
        if trouble is not None:
            self._note(trouble)
        return answers, trouble

    def _transact(self, jobs: list[Job]) -> tuple[list[Any], Trouble | None]:
        """Write a group in one transaction."""
        if self._full is not None and any(map(_asks_readiness, jobs)):
            # Such a row may fit where no commit does.
            has_room = self._files.free_bytes() >= ROOM_BYTES
            if not has_room:
                return [], Trouble(self._full)
        committing = False
        before = raw(self._connection).total_changes
        try:
            with self._connection.begin() as transaction:
                answers = apply_group(
                    self._connection, [job.work for job in jobs], lambda _: self._clock.now_us()
                )
                committing = True
                transaction.commit()
        except Exception as error:  # noqa: BLE001 - a caller waits for an answer to any error
            trouble = trouble_of(error, committing=committing)
            if not trouble.fatal:
                roll_back(self._connection)
            return [], trouble
        loss = self._files.loss()
        if loss:
            words = f"{loss} while it was open; put it back, and start this program again"
            return [], Trouble(OutcomeUnknown(words), fatal=True)
        self.groups += 1
        if self._full is not None and any(isinstance(job.work, CommitWork) for job in jobs):
            self._full = None
            log.warning("the disk has room")
        self._checkpoints.count(
            raw(self._connection).total_changes - before, sum(_bytes_in(job.work) for job in jobs)
        )
        return answers, None

    def _keep_house(self) -> None:
        """Between two groups: keep the log small, remove expired rows."""
        if self._failed is not None:
            return
        now = self._runtime.monotonic()
        try:
            self._checkpoints.keep_up(self._files.log_bytes)
            if now - self._swept >= SWEEP_SECONDS:
                self._swept = now
                with self._connection.begin():
                    sweep(self._connection, self._clock.now_us())
        except Exception as error:  # noqa: BLE001 - a failed fsync here is as bad as in a commit
            self._note(trouble_of(error))
            roll_back(self._connection)

    def _note(self, trouble: Trouble) -> None:
        """Stop the store after a fatal error; remember a full disk, and make room."""
        if trouble.fatal and self._failed is None:
            self._failed = trouble.error
            log.error("the store stopped", why=trouble.error.message)
        elif isinstance(trouble.error, StoreFull):
            if self._full is None:
                log.warning("writes are refused", why=trouble.error.message)
            self._full = trouble.error
            self._checkpoints.disk_is_full()

    def _end(self) -> None:
        try:
            if self._failed is None:
                checkpoint(self._connection, empty_within_ms=WAIT_MS)
        except Exception as error:  # noqa: BLE001 - the log is whole: the next opener reads it
            self._note(trouble_of(error))
        finally:
            self._connection.close()
            self._post(_settle, self._ended)

    def _post(self, function: Callable[..., None], *args: Any) -> None:
        """Call `function` on the event loop; a closed loop has no callers left."""
        try:
            self._loop.call_soon_threadsafe(function, *args)
        except RuntimeError:
            self._closing = True


def _settle(ended: asyncio.Future[None]) -> None:
    if not ended.done():
        ended.set_result(None)


def _asks_readiness(job: Job) -> bool:
    """Return whether it is a replica's own presence, which has no tenant."""
    return isinstance(job.work, PresenceWork) and any(
        not one.tenant_id for one in job.work.presences
    )


def _bytes_in(work: Work) -> int:
    if not isinstance(work, CommitWork):
        return 0
    return sum(
        len(outcome.response)
        + len(outcome.prompt)
        + (len(outcome.result.data) if outcome.result is not None else 0)
        for commit in work.commits
        for outcome in commit.outcomes
    )
