"""Transactions of the writing connection: statements run on the event loop, waits for the disk in a
thread.

Only one of the two uses the connection at a time, so transactions and checkpoints don't overlap. A
short transaction blocks the event loop for its statements, while a long one pauses. The thread
waits for other programs' writes and for fsync, except for small transactions on a disk that has
been fast: there the thread switch costs as much. When a disk becomes slow, it blocks the event loop
for one fsync.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from sqlalchemy.util.concurrency import greenlet_spawn

from stepwell.core.port import Runtime
from stepwell_drivers.sql.deletes import DeleteWork
from stepwell_drivers.sql.entries import RecordWork
from stepwell_drivers.sql.error_class import Trouble
from stepwell_drivers.sql.sqlite import engine
from stepwell_drivers.sql.sqlite.commits import Group
from stepwell_drivers.sql.sqlite.errors import is_busy, trouble_of
from stepwell_drivers.sql.sqlite.journal import record
from stepwell_drivers.sql.sqlite.link import PausingDriver, SqliteLink
from stepwell_drivers.sql.sqlite.renewals import renew
from stepwell_drivers.sql.sqlite.run_cache import Facts, Known, RunKey
from stepwell_drivers.sql.sqlite.thread import DiskThread
from stepwell_drivers.sql.writes import CommitWork, RenewWork, Work, apply_others, sweep

LONG_ROWS = 1_024
"""A transaction with at least this many rows is long."""
SMALL_ROWS = 32
"""A transaction with at most this many rows is small: a step or two."""
QUICK_S = 0.001
"""A disk is fast while its average COMMIT takes no longer than this."""
SLOW_S = 0.008
"""A slower COMMIT counts as this long, so that after some fast ones the disk is fast again."""
NEWEST = 1 / 4
"""The weight of the newest COMMIT in the average."""

T = TypeVar("T")


class Transactions:
    """Writes groups; only one call may run at a time."""

    def __init__(
        self,
        driver: sqlite3.Connection,
        *,
        now_us: Callable[[], int],
        runtime: Runtime,
    ) -> None:
        self._driver = driver
        self._now_us = now_us
        self._runtime = runtime
        self._link = SqliteLink(driver)
        self._thread = DiskThread()
        self._patience_ms = engine.patience_of(driver)
        self._known = Known()
        self._after: dict[RunKey, Facts] = {}
        self._average_s = SLOW_S
        """The moving average of a COMMIT's time."""

    async def write(self, works: Sequence[Work], rows: int) -> tuple[list[Any], Trouble | None]:
        """Do these works, which write about `rows` rows, in one transaction; return their answers."""
        committing = False
        try:
            await self._begin()
            self._known.check(self._driver)
            answers = await self._apply(works, rows)
            committing = True
            await self._commit(rows)
            self._known.keep(self._after)
            for work in works:
                if isinstance(work, DeleteWork):
                    self._known.forget((work.tenant_id, work.run_id))
        except Exception as error:  # noqa: BLE001 - a caller waits for an answer to any error
            trouble = trouble_of(error, committing=committing)
            if not trouble.fatal:
                engine.roll_back(self._driver)
            return [], trouble
        return answers, None

    async def _begin(self) -> None:
        try:
            engine.begin(self._driver)
        except sqlite3.OperationalError as error:
            if not is_busy(error):
                raise
            await self._thread.run(engine.begin, self._driver, patience_ms=self._patience_ms)

    async def _apply(self, works: Sequence[Work], rows: int) -> list[Any]:
        if rows < LONG_ROWS:
            return self._apply_to(self._link, works)
        pausing = SqliteLink(PausingDriver(self._driver, self._thread, self._runtime))
        return await greenlet_spawn(self._apply_to, pausing, works)

    def _apply_to(self, link: SqliteLink, works: Sequence[Work]) -> list[Any]:
        now_us = self._now_us()
        group = Group(link, self._known, now_us)
        self._after = group.after
        commits = [work for work in works if isinstance(work, CommitWork)]
        answers: dict[int, Any] = {id(work): group.decide(work.commits) for work in commits}
        group.write()
        if len(commits) < len(works):
            records = [work for work in works if isinstance(work, RecordWork)]
            for work, recorded in zip(records, record(link, group, records, now_us), strict=True):
                answers[id(work)] = recorded
            if renewals := [work for work in works if isinstance(work, RenewWork)]:
                renewed = renew(link, renewals, now_us)
                answers |= {id(one): each for one, each in zip(renewals, renewed, strict=True)}
            if others := [work for work in works if id(work) not in answers]:
                done = apply_others(link, others, self._clock)
                answers |= {id(one): each for one, each in zip(others, done, strict=True)}
        return [answers[id(work)] for work in works]

    async def _commit(self, rows: int) -> None:
        """Commit; on the event loop only if the transaction is small and the disk fast."""
        if rows <= SMALL_ROWS and self._average_s <= QUICK_S:
            took_s = self._timed_commit()
        else:
            took_s = await self._thread.run(self._timed_commit)
        self._average_s += NEWEST * (min(took_s, SLOW_S) - self._average_s)

    def _timed_commit(self) -> float:
        begun = self._runtime.monotonic()
        engine.commit(self._driver)
        return self._runtime.monotonic() - begun

    def _clock(self, _: object) -> int:
        return self._now_us()

    # --- other calls ---

    async def sweep(self) -> None:
        """Remove expired rows, in a separate transaction."""
        await self._thread.run(self._sweep)

    def _sweep(self) -> None:
        engine.begin(self._driver, patience_ms=self._patience_ms)
        try:
            sweep(self._link, self._now_us())
            engine.commit(self._driver)
        except BaseException:
            engine.roll_back(self._driver)
            raise

    async def between(self, call: Callable[[], T]) -> T:
        """Run a call in the thread that uses the connection between two transactions."""
        return await self._thread.run(call)

    def close(self) -> None:
        """End the thread."""
        self._thread.close()
