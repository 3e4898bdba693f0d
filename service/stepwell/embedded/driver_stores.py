"""Two stores that implement all three protocols, as views of a driver's store: `MemoryStore` and `SQLiteStore`."""

from __future__ import annotations

import asyncio
import os
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from msgspec import to_builtins
from msgspec.structs import replace

from stepwell.core.port import Loaded, Runtime, Store
from stepwell.core.records.errors import RunNotFound, StoreError, StoreMissing
from stepwell.core.records.model import TaskSpec
from stepwell.core.records.states import Phase, TaskStatus
from stepwell.embedded import shared
from stepwell.embedded.protocols import RESULT, RunRow, TaskRow
from stepwell.embedded.result import read_result
from stepwell.runtime import SystemRuntime
from stepwell.store.opener import open_store
from stepwell.wire.records import to_message
from stepwell_client import decode

TENANT = "default"
Birth = Callable[[Store], Awaitable[None]]
"""Creates a run in an open store."""


class Holder(ABC):
    """Opens a driver's store and closes it."""

    @property
    @abstractmethod
    def place(self) -> object:
        """The identity of the driver's store: two views with equal places show the same runs."""

    @abstractmethod
    async def acquire(self, runtime: Runtime, *, create: bool) -> Store:
        """Return the driver's store, open. Raises StoreMissing if it doesn't exist and `create` is False."""

    @abstractmethod
    async def release(self, store: Store) -> None:
        """Release the driver's store."""


class DriverStore(Holder):
    """All three protocols as a view of a driver's store; the base of our own stores.

    The loop commits every transition to the driver's store, which the reads return. The calls that
    report a transition therefore change nothing.
    """

    def __init__(self) -> None:
        self._births: list[Birth] = []

    def bear(self, birth: Birth) -> None:
        """Create a run: before the next use of this store."""
        self._births.append(birth)

    async def open(self, runtime: Runtime, *, create: bool) -> Store:
        """Return the driver's store with all runs that `bear` was given. Raises as `acquire` does."""
        births = self._births
        store = await self.acquire(runtime, create=create or bool(births))
        try:
            while births:
                await births[0](store)
                births.pop(0)
        except BaseException:
            await self.release(store)
            raise
        return store

    # --- the RunStore ---------------------------------------------------------------------------------

    async def create_run(
        self,
        run_id: str,
        goal: str,  # noqa: ARG002 - the protocol's
        max_iterations: int,  # noqa: ARG002 - the protocol's
        /,
    ) -> None:
        """Return if the run exists, because the orchestrator with this store creates it.

        Raises:
            RunNotFound: something else made this call. A store of your own can't be built on this
                one.
        """
        if await self.get_run(run_id) is None:
            raise RunNotFound(
                run_id,
                f"{type(self).__name__} shows the runs of orchestrators that it was given to itself, as all three "
                f"stores; there is no run {run_id}",
            )

    async def get_run(self, run_id: str, /) -> RunRow | None:
        """Return the run as of its last commit, or None; never creates it."""
        loaded = await self._load(run_id)
        if loaded is None:
            return None
        run = loaded.run
        running = (one.task_id for one in loaded.tasks if one.status is TaskStatus.RUNNING)
        return RunRow(
            run_id=run_id,
            goal=run.spec.goal,
            max_iterations=run.spec.max_iterations,
            phase=run.phase.value,
            iteration=run.iteration - 1,
            current_task_id=next(running, None),
            status=run.status.lower(),
        )

    get = get_run

    async def update_loop_state(
        self, run_id: str, phase: str, iteration: int, current_task_id: str | None, /
    ) -> None:
        """Do nothing, because the loop has committed it."""

    # --- the TaskStore --------------------------------------------------------------------------------

    async def save_tasks(self, run_id: str, tasks: Sequence[TaskRow], /) -> None:
        """Do nothing, because the loop has committed the plan."""

    async def update_task(self, run_id: str, task_id: str, status: str, /) -> None:
        """Do nothing, because the loop commits it."""

    async def get_tasks(self, run_id: str, status: str | None = None, /) -> list[TaskRow]:
        """Return the tasks of all plans, or those with this status, in the order of their plans."""
        loaded = await self._load(run_id)
        rows = task_rows(loaded) if loaded is not None else []
        return [row for row in rows if status is None or row["status"] == status]

    # --- the ContextStore -----------------------------------------------------------------------------

    async def save_result(self, run_id: str, task_id: str, result: Any, /) -> None:
        """Do nothing, because the loop commits the result with the task's completion."""

    async def get_all_results(self, run_id: str, /) -> dict[str, Any]:
        """Return the results of completed tasks by id, and once the run is DONE its answer as `__result__`."""
        async with self._opened() as store:
            run = await store.get_run(TENANT, run_id) if store is not None else None
            if store is None or run is None:
                return {}
            result = await read_result(store, run)
        results = result.task_values()
        return {**results, RESULT: result.value} if run.phase is Phase.DONE else results

    # --- inside ---------------------------------------------------------------------------------------

    async def _load(self, run_id: str) -> Loaded | None:
        async with self._opened() as store:
            return await store.load(TENANT, run_id) if store is not None else None

    @asynccontextmanager
    async def _opened(self) -> AsyncGenerator[Store | None]:
        try:
            store = await self.open(SystemRuntime(), create=False)
        except StoreMissing:
            yield None
            return
        try:
            yield store
        finally:
            await self.release(store)


class MemoryStore(DriverStore):
    """All three stores, in this process's memory, as long as this object exists."""

    def __init__(self) -> None:
        super().__init__()
        self._store: Store | None = None

    @property
    def place(self) -> object:
        """This object."""
        return id(self)

    async def acquire(self, runtime: Runtime, *, create: bool) -> Store:  # noqa: ARG002 - it is always there
        """Return the store."""
        if self._store is None:
            self._store = await open_store("memory://", runtime=runtime)
        return self._store

    async def release(self, store: Store) -> None:
        """Keep it."""


class SQLiteStore(DriverStore):
    """All three stores, in the SQLite file of the store `sqlite:///PATH`. One process at a time opens it."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Take the file's path; the first run creates the file. Raises ValueError for a path that no URL can hold."""
        super().__init__()
        self.path = Path(path).expanduser().resolve()
        if "?" in str(self.path):
            raise ValueError(
                f"the path {str(self.path)!r} has a question mark; no store's file may"
            )
        self._url = f"sqlite:///{self.path}"

    def bear(self, birth: Birth) -> None:
        """Create a run in the file at once; where this process has the file open, before its next use."""
        super().bear(birth)

        async def use() -> None:
            async with self._opened():
                pass

        # The caller's own event loop may be running, and can't be waited for.
        with ThreadPoolExecutor(1) as thread, suppress(StoreError):
            thread.submit(asyncio.run, use()).result()

    @property
    def place(self) -> object:
        """The file's URL."""
        return self._url

    async def acquire(self, runtime: Runtime, *, create: bool) -> Store:
        """Return the store, opened by the first caller."""
        return await shared.acquire(self._url, runtime, create=create)

    async def release(self, store: Store) -> None:
        """Close the store if nobody else uses it."""
        await shared.release(self._url, store)


AnyStore = str | Store | DriverStore
"""The place of embedded runs: a URL, an open store, or a view of one."""


async def acquire(kept: AnyStore, runtime: Runtime, *, create: bool) -> Store:
    """Return the store, open. Raises StoreMissing if it doesn't exist and `create` is False."""
    if isinstance(kept, str):
        return await shared.acquire(kept, runtime, create=create)
    return await kept.open(runtime, create=create) if isinstance(kept, DriverStore) else kept


async def release(kept: AnyStore, store: Store) -> None:
    """Release what `acquire` returned; an open store stays the caller's."""
    if isinstance(kept, str):
        await shared.release(kept, store)
    elif isinstance(kept, DriverStore):
        await kept.release(store)


def status_word(status: TaskStatus) -> str:
    """Return a task's status as its row shows it; READY is also `pending`."""
    return (TaskStatus.PENDING if status is TaskStatus.READY else status).lower()


def task_rows(loaded: Loaded) -> list[TaskRow]:
    """Return the tasks of all of a run's plans as rows, a replanned task at its last place."""
    rows: dict[str, TaskRow] = {}
    status = {task.task_id: task.status for task in loaded.tasks}
    for plan in loaded.plans:
        for spec in plan.tasks:
            rows.pop(spec.task_id, None)
            word = status_word(status.get(spec.task_id, TaskStatus.PENDING))
            rows[spec.task_id] = _row(spec, word, plan.iteration - 1)
    return list(rows.values())


def _row(spec: TaskSpec, status: str, iteration: int) -> TaskRow:
    row: TaskRow = {"id": spec.task_id, "status": status, "iteration": iteration}
    row |= to_builtins(replace(spec, input=None))
    del row["task_id"]
    if spec.input is not None:
        row["input"] = decode(to_message(spec.input))
    return row
