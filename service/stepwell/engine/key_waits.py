"""Wakes the runs of this replica that wait for another run's idempotency key.

It reads this replica's commits and the store's hints. If it misses a change, the waiting run's
timer makes up for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from stepwell.core.loop.idempotency import KEY_FREED, MORE_TIMER
from stepwell.core.loop.occurrences import Occurrence, TimerDue
from stepwell.core.loop.transition import Reply
from stepwell.core.port import Commit, Runtime, Store
from stepwell.core.records.errors import StepwellError
from stepwell.core.records.model import Task
from stepwell.core.records.states import TaskStatus
from stepwell.engine.key_types import RunKey
from stepwell.logger import get_logger

log = get_logger(__name__)

CHECK_PAUSE_SECONDS = 0.1
"""The pause before a run is read because of a hint, in which further hints cost nothing."""
UNDECIDED_SECONDS = 1.0
"""The time after which a run that reserved a key without committing is made to continue, because
its replica may have died.
"""


class KeyWait(NamedTuple):
    """A key that runs wait for, and the task of another run that has it."""

    holder: RunKey
    task_id: str
    """Empty: the run has reserved the key, and its next commit shows for which task, if any."""
    key: str


class _Watch:
    """A run with keys that others wait for, as of a version."""

    __slots__ = ("asking", "checking", "hinted", "version", "waiting")

    def __init__(self) -> None:
        self.version = 0
        self.asking = 0
        """The number of running questions that may find that it has a key."""
        self.hinted = False
        self.checking = False
        self.waiting: dict[KeyWait, dict[RunKey, None]] = {}


class KeyWaits:
    """The waiting runs of this replica, by the run that they wait for."""

    def __init__(
        self,
        store: Store,
        runtime: Runtime,
        post: Callable[[RunKey, Occurrence], asyncio.Future[Reply]],
    ) -> None:
        self._store = store
        self._runtime = runtime
        self._post = post
        self._watches: dict[RunKey, _Watch] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def close(self) -> None:
        """Stop waking runs."""
        self._watches.clear()
        for task in tuple(self._tasks):
            task.cancel()

    @contextmanager
    def asking(self, holder: RunKey) -> Generator[None]:
        """Miss no change of a run from here to an `add` within this context."""
        watch = self._watches.setdefault(holder, _Watch())
        watch.asking += 1
        try:
            yield
        finally:
            watch.asking -= 1
            if watch.hinted:
                self._check_soon(holder, watch)
            self._drop_idle(holder, watch)

    def add(self, wait: KeyWait, run: RunKey, version: int) -> None:
        """Wake `run` once the holder, now at `version`, no longer has the key."""
        watch = self._watches.setdefault(wait.holder, _Watch())
        if not watch.waiting:
            watch.version = version
        watch.version = min(watch.version, version)
        runs = watch.waiting.setdefault(wait, {})
        if not wait.task_id and not runs:
            self._spawn(self._move_on(wait))
        runs[run] = None

    def committed(self, holder: RunKey, commit: Commit) -> None:
        """Wake the runs for which a commit of this replica frees a key."""
        watch = self._watches.get(holder)
        if watch is not None:
            # Whoever is reading the run may have read its previous state.
            watch.hinted = watch.hinted or bool(watch.asking)
            self._wake_over(holder, watch, commit.version, commit.tasks)

    def hint(self, tenant_id: str, run_id: str, version: int) -> None:
        """Read a run soon that another replica may have changed."""
        holder = (tenant_id, run_id)
        some = {holder: self._watches[holder]} if holder in self._watches else {}
        for one, watch in (some if run_id else dict(self._watches)).items():
            if not version or version > watch.version:
                self._check_soon(one, watch)

    def _check_soon(self, holder: RunKey, watch: _Watch) -> None:
        watch.hinted = bool(watch.asking)
        if not watch.asking and not watch.checking and watch.waiting:
            watch.checking = True
            self._spawn(self._check(holder, watch))

    async def _check(self, holder: RunKey, watch: _Watch) -> None:
        await self._runtime.sleep(CHECK_PAUSE_SECONDS)
        watch.checking = False
        loaded = await self._store.load(*holder, since=watch.version)
        if loaded is None:
            for wait in tuple(watch.waiting):
                self._wake(watch, wait)
            self._drop_idle(holder, watch)
        else:
            self._wake_over(holder, watch, loaded.run.version, loaded.tasks)

    def _wake_over(
        self, holder: RunKey, watch: _Watch, version: int, tasks: Sequence[Task]
    ) -> None:
        """Wake the runs whose wait is over, by the holder's changed tasks."""
        changed = {task.task_id: task for task in tasks}
        for wait in tuple(watch.waiting):
            task = changed.get(wait.task_id)
            if version > watch.version if not wait.task_id else _is_over(wait, task):
                self._wake(watch, wait)
        watch.version = max(version, watch.version)
        self._drop_idle(holder, watch)

    async def _move_on(self, wait: KeyWait) -> None:
        """Continue a run that reserved a key, if it doesn't continue by itself."""
        await self._runtime.sleep(UNDECIDED_SECONDS)
        watch = self._watches.get(wait.holder)
        if watch is None or wait not in watch.waiting:
            return
        with suppress(StepwellError):
            await self._post(wait.holder, TimerDue(name=MORE_TIMER))
        self._wake(watch, wait)
        self._drop_idle(wait.holder, watch)

    def _wake(self, watch: _Watch, wait: KeyWait) -> None:
        for run in watch.waiting.pop(wait, ()):
            self._post(run, TimerDue(name=KEY_FREED))

    def _drop_idle(self, holder: RunKey, watch: _Watch) -> None:
        if not watch.waiting and not watch.asking and self._watches.get(holder) is watch:
            del self._watches[holder]

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._runtime.spawn(self._logged(work), name="key waits")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _logged(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except StepwellError as error:
            log.info("a run that has a key was not read", error=error.message)


def _is_over(wait: KeyWait, task: Task | None) -> bool:
    return task is not None and (task.held_key != wait.key or task.status is TaskStatus.COMPLETED)
