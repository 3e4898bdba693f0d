"""Group commit: all writes that queued while transactions ran go into the next one.

A few groups run at once, each on its own link.

A run is in at most one of them, so its commits keep their order. Each group runs in its own task,
because its callers may be cancelled. A failed group is rolled back, and retried if another
transaction was in the way; otherwise its members are tried singly, so that only bad ones fail. An
error that leaves open whether the group was committed goes to all its members. A group that is one
statement is sent without a transaction, in one round trip.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy.util.concurrency import greenlet_spawn

from stepwell.core.port import LogsOfExecution, OldLogs, Runtime
from stepwell.core.records.errors import StepwellError, StoreUnavailable
from stepwell_drivers.sql.batch import RunKey
from stepwell_drivers.sql.deletes import DeleteWork
from stepwell_drivers.sql.entries import RecordWork
from stepwell_drivers.sql.error_class import Trouble
from stepwell_drivers.sql.logs import LogWork
from stepwell_drivers.sql.postgres.clock import database_clock
from stepwell_drivers.sql.postgres.commits import CommitCalls
from stepwell_drivers.sql.postgres.errors import BUSY, trouble_of
from stepwell_drivers.sql.postgres.journal_writes import RecordCalls
from stepwell_drivers.sql.postgres.links import WRITE, Links, PostgresLink
from stepwell_drivers.sql.postgres.readers import roll_back
from stepwell_drivers.sql.postgres.renewals import RenewCall
from stepwell_drivers.sql.writes import (
    CommitWork,
    RenewWork,
    Work,
    apply_others,
    bytes_in,
)

QUEUED_MAX = 20_000
"""The most waiting writes; more are refused."""
GROUP_MAX = 512
"""The approximate number of commits and other rows in one transaction."""
GROUP_BYTES_MAX = 8 * 1024 * 1024
"""Payload bytes in one transaction, not counting the last commit's."""
TRIES_MAX = 6
RETRY_S = 0.01
"""The upper bound of the first random back-off; it doubles."""


class Job(NamedTuple):
    """A queued write and the future of its result."""

    work: Work
    runs: frozenset[RunKey]
    """The runs that it changes, each in one group at a time."""
    done: asyncio.Future[Any]


Outcome = tuple[Job, Any, StepwellError | None]


class Writer:
    """Queues writes and commits them in groups."""

    def __init__(
        self,
        links: Links,
        *,
        groups_max: int,
        runtime: Runtime,
        after: Callable[[Sequence[tuple[Work, Any]]], None],
        alarm: Callable[[StepwellError], None],
        committing: str = "COMMIT",
    ) -> None:
        """Make a writer that calls `after` with each committed group and `alarm` with each error.

        `committing` is the statement that ends a transaction.
        """
        self._links = links
        self._groups_max = groups_max
        self._runtime = runtime
        self._after = after
        self._alarm = alarm
        self._committing = committing
        self._loop = asyncio.get_running_loop()
        self._jobs: deque[Job] = deque()
        self._under_way: set[asyncio.Task[None]] = set()
        self._busy: set[RunKey] = set()
        self._pumping = False
        self._closing = False
        self.groups = 0
        """The number of transactions, for tests."""

    async def do(self, work: Work) -> Any:
        """Queue a write and wait until it is durable.

        The write is done even if the caller is cancelled.
        """
        if self._closing:
            raise StoreUnavailable("this store was closed")
        if len(self._jobs) >= QUEUED_MAX:
            raise StoreUnavailable(f"{QUEUED_MAX} writes are waiting already", reason=BUSY)
        job = Job(work, _runs_of(work), self._loop.create_future())
        self._jobs.append(job)
        self._pump_soon()
        return await job.done

    async def close(self) -> None:
        """Finish the queued writes."""
        self._closing = True
        self._pump()
        while self._under_way:
            await asyncio.wait(self._under_way)

    def _pump_soon(self) -> None:
        """Start groups after all ready tasks have had a turn, so that their writes go together."""
        if not self._pumping:
            self._pumping = True
            self._loop.call_soon(self._pump)

    def _pump(self) -> None:
        self._pumping = False
        while len(self._under_way) < self._groups_max and (jobs := self._next_group()):
            runs = {run for job in jobs for run in job.runs}
            self._busy |= runs
            task = self._runtime.spawn(self._serve(jobs), name="stepwell-postgres-write")
            self._under_way.add(task)

            def ended(task: asyncio.Task[None], runs: set[RunKey] = runs) -> None:
                self._under_way.discard(task)
                self._busy -= runs
                self._pump()

            task.add_done_callback(ended)

    def _next_group(self) -> list[Job]:
        """Pop the next group: writes of one kind, of runs not in another group, in order within each run."""
        jobs: list[Job] = []
        left: deque[Job] = deque()
        waiting = set(self._busy)
        size = size_bytes = 0
        while self._jobs:
            job = self._jobs.popleft()
            fits = size < GROUP_MAX and size_bytes < GROUP_BYTES_MAX
            if not fits or not waiting.isdisjoint(job.runs) or not _may_join(jobs, job):
                left.append(job)
                waiting |= job.runs
                continue
            jobs.append(job)
            # A second write for the same run would need a second call.
            waiting |= job.runs
            size += _size_of(job.work)
            size_bytes += bytes_in(job.work)
        self._jobs = left
        return jobs

    # --- a group ---

    async def _serve(self, jobs: list[Job]) -> None:
        outcomes = await self._write(jobs)
        for job, answer, error in outcomes:
            if job.done.done():
                continue
            if error is None:
                job.done.set_result(answer)
            else:
                job.done.set_exception(error)
        self._after([(job.work, answer) for job, answer, error in outcomes if error is None])

    async def _write(self, jobs: list[Job]) -> list[Outcome]:
        """Write a group; if it fails for a reason that may be one member's, write each singly."""
        answers, trouble = await self._attempt([job.work for job in jobs])
        if trouble is None:
            return [(job, answer, None) for job, answer in zip(jobs, answers, strict=True)]
        if len(jobs) == 1 or trouble.fatal:
            self._alarm(trouble.error)
            return [(job, None, trouble.error) for job in jobs]
        return [outcome for job in jobs for outcome in await self._write([job])]

    async def _attempt(self, works: list[Work]) -> tuple[list[Any], Trouble | None]:
        trouble: Trouble | None = None
        wait_s = RETRY_S
        for left in reversed(range(TRIES_MAX)):
            answers, trouble = await self._transact(works)
            if trouble is None:
                self.groups += 1
                return answers, None
            if not trouble.retry or not left:
                break
            await self._runtime.sleep(self._runtime.random() * wait_s)
            wait_s *= 2
        return [], trouble

    async def _transact(self, works: list[Work]) -> tuple[list[Any], Trouble | None]:
        """Write a group in one transaction."""
        attempt = _Attempt()
        try:
            calls = _calls_of(works)
            async with self._links.one() as link:
                attempt.is_stale = link.used
                try:
                    if calls is None:
                        answers = await self._in_transaction(link, works, attempt)
                    else:
                        answers = calls.answers(await self._call(link, calls, attempt))
                except BaseException as error:
                    if await roll_back(link, error):
                        self._links.drop_idle()
                    raise
        except Exception as error:  # noqa: BLE001 - a caller waits for an answer to any error
            trouble = trouble_of(error, committing=attempt.is_committing)
            # The link died while it was idle: try another.
            return [], trouble._replace(retry=trouble.retry or (trouble.fatal and attempt.is_stale))
        return answers, None

    async def _in_transaction(
        self, link: PostgresLink, works: list[Work], attempt: _Attempt
    ) -> list[Any]:
        await link.begin(WRITE)
        attempt.is_stale = False
        answers = await greenlet_spawn(apply_others, link, works, database_clock)
        attempt.is_committing = True
        await link.end(self._committing)
        return answers

    async def _call(
        self, link: PostgresLink, calls: CommitCalls | RenewCall | RecordCalls, attempt: _Attempt
    ) -> Sequence[Sequence[Any]]:
        fetch = link.driver_connection.fetch
        if not calls.arguments:
            return []
        if len(calls.arguments) == 1 and not self._links.pooler:
            await link.get_ready()
            attempt.is_stale = False
            # The server commits when it reads the Sync after the statement. By then it has stopped
            # the clock of `statement_timeout` and ignores cancellations, so no time-out ends its
            # wait for a standby.
            attempt.is_committing = True
            return [await fetch(calls.sql, *calls.arguments[0])]
        await link.begin(WRITE)
        attempt.is_stale = False
        answered = [await fetch(calls.sql, *arguments) for arguments in calls.arguments]
        attempt.is_committing = True
        await link.end(self._committing)
        return answered


@dataclass(slots=True)
class _Attempt:
    """The stage of an attempt, which decides what an error means."""

    is_stale: bool = False
    """The link was idle and has not answered since."""
    is_committing: bool = False
    """The server may have committed."""


def _calls_of(works: Sequence[Work]) -> CommitCalls | RenewCall | RecordCalls | None:
    """Return the calls for these writes, which are of one kind; None if that kind has no calls."""
    commits = [work for work in works if isinstance(work, CommitWork)]
    if commits:
        return CommitCalls(commits)
    records = [work for work in works if isinstance(work, RecordWork)]
    if records:
        return RecordCalls(records)
    renewals = [work for work in works if isinstance(work, RenewWork)]
    return RenewCall(renewals) if renewals else None


def _runs_of(work: Work) -> frozenset[RunKey]:
    if isinstance(work, CommitWork):
        return frozenset((commit.tenant_id, commit.run_id) for commit in work.commits)
    if isinstance(work, RecordWork):
        return frozenset((one.tenant_id, one.run_id) for one in work.writes)
    if isinstance(work, LogWork | LogsOfExecution | DeleteWork):
        return frozenset({(work.tenant_id, work.run_id)})
    return frozenset()


def _may_join(jobs: list[Job], job: Job) -> bool:
    """Return whether a write may join a group: all locks on runs are taken at once, in key order."""
    if not jobs:
        return True
    first = jobs[0].work
    if isinstance(first, DeleteWork | OldLogs):
        return False
    return isinstance(job.work, type(first))


def _size_of(work: Work) -> int:
    match work:
        case CommitWork(commits):
            return len(commits)
        case RecordWork(writes):
            return len(writes)
        case _:
            return 1
