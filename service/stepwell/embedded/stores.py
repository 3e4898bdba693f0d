"""The three stores of a run, as an orchestrator calls them; and two of ours that are all three.

An orchestrator with a `run_store`, a `task_store` and a `context_store` calls them in this order:

    create_run(run_id, goal, max_iterations)            once, before the first step
    update_loop_state(run_id, "EXECUTING", 0, None)     a plan was accepted
    update_loop_state(run_id, "EXECUTING", 0, task_id)  before each task
    save_result(run_id, task_id, result)                after it, before its row becomes "completed"
    update_loop_state(run_id, "REFLECTING", 0, None)    before each reflection
    save_result(run_id, "__result__", answer)           the run has SUCCEEDED
    update_loop_state(run_id, "DONE", 0, None)          and nothing follows

Iterations count from 0. Arguments are passed by position, so their names are the store's own.

`MemoryStore` and `SQLiteStore` are views of a driver's store: the loop commits every transition to it, and all that
the three protocols read comes from there. In stores of a user's own, the rows are what was written by these calls,
and nothing else is kept: how durable a run is, is theirs to say.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypedDict

from msgspec import to_builtins
from msgspec.structs import replace

from stepwell.core.port import Loaded, Runtime, Store
from stepwell.core.records.errors import RunNotFound, StoreMissing
from stepwell.core.records.model import TaskSpec
from stepwell.core.records.states import Phase, TaskStatus
from stepwell.embedded import shared
from stepwell.embedded.result import read_result
from stepwell.runtime import SystemRuntime
from stepwell.store.opener import open_store
from stepwell.wire import to_message
from stepwell_client import decode

RESULT = "__result__"
"""The name under which a run's answer is saved among its results."""
TENANT = "default"


class RunRow(TypedDict):
    """A run as `get_run` of our stores returns it."""

    run_id: str
    goal: str
    max_iterations: int
    phase: str
    """PLANNING, EXECUTING, REFLECTING, SYNTHESIZING or DONE."""
    iteration: int
    """From 0."""
    current_task_id: str | None
    """The task under way, the first of them; None: there is none."""
    status: str
    """The run's status in lower case: `running`, `waiting`, `succeeded` …"""


TaskRow = dict[str, Any]
"""A task: `id`, `status` and `iteration`, then the fields of its definition that were set, such as `type`, `title`,
`prompt`, `role`, `depends_on`, `input` (a value) and `retry`. JSON can hold all of it, where it can hold the input.

The status is `pending`, `running`, `blocked`, `completed`, `failed`, `skipped` or `cancelled`. The iteration is the
one that planned it, from 0.
"""


class RunStore(Protocol):
    """Keeps a record per run. Each method may be async; one that isn't is called on the caller's thread."""

    def create_run(self, run_id: str, goal: str, max_iterations: int, /) -> Any:
        """Keep a new run, in phase PLANNING and iteration 0."""
        ...

    def get_run(self, run_id: str, /) -> Any:
        """Return the run; None: there is none. A store may call the method `get` instead.

        What is read from it, as keys or as attributes: goal, max_iterations, phase, iteration.
        """
        ...

    def update_loop_state(
        self, run_id: str, phase: str, iteration: int, current_task_id: str | None, /
    ) -> Any:
        """Keep where the run is."""
        ...


class TaskStore(Protocol):
    """Keeps the tasks of each run, as rows with a status. Methods as in `RunStore`."""

    def save_tasks(self, run_id: str, tasks: Sequence[TaskRow], /) -> Any:
        """Keep these rows as the run's tasks, in this order, in place of those before: a plan was accepted."""
        ...

    def update_task(self, run_id: str, task_id: str, status: str, /) -> Any:
        """Keep a task's new status."""
        ...

    def get_tasks(self, run_id: str, status: str | None = None, /) -> Any:
        """Return the rows, or those with this status, in their order."""
        ...


class ContextStore(Protocol):
    """Keeps the results of each run by task. Methods as in `RunStore`."""

    def save_result(self, run_id: str, task_id: str, result: Any, /) -> Any:
        """Keep what a task returned; a later one of the same task replaces it."""
        ...

    def get_all_results(self, run_id: str, /) -> Any:
        """Return a mapping of task ids to results."""
        ...


class DriverStore:
    """All three protocols as a view of a driver's store; what an orchestrator's stores of ours have in common.

    The loop commits every transition to the driver's store, and that is what the reads return, at any moment. So the
    calls that report a transition change nothing.
    """

    @property
    def place(self) -> object:
        """The driver's store: two views with equal places show the same runs."""
        raise NotImplementedError

    async def acquire(self, runtime: Runtime, *, create: bool) -> Store:
        """Return the driver's store, open. Raises StoreMissing: there is none, and `create` is False."""
        raise NotImplementedError

    async def release(self, store: Store) -> None:
        """Give the driver's store back."""
        raise NotImplementedError

    # --- the RunStore ---------------------------------------------------------------------------------

    async def create_run(
        self,
        run_id: str,
        goal: str,  # noqa: ARG002 - the protocol's
        max_iterations: int,  # noqa: ARG002 - the protocol's
        /,
    ) -> None:
        """Return if the run is there; the orchestrator that was given this store makes it.

        Raises:
            RunNotFound: another made this call. A store of your own can't be built on this one.
        """
        if await self.get_run(run_id) is None:
            raise RunNotFound(
                run_id,
                f"{type(self).__name__} shows the runs of orchestrators that it was given to itself, as all three "
                f"stores; there is no run {run_id}",
            )

    async def get_run(self, run_id: str, /) -> RunRow | None:
        """Return the run as of its last commit; None: there is none, and nothing is made by asking."""
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
        """Do nothing: the loop has committed it."""

    # --- the TaskStore --------------------------------------------------------------------------------

    async def save_tasks(self, run_id: str, tasks: Sequence[TaskRow], /) -> None:
        """Do nothing: the loop has committed the plan."""

    async def update_task(self, run_id: str, task_id: str, status: str, /) -> None:
        """Do nothing: the loop commits it."""

    async def get_tasks(self, run_id: str, status: str | None = None, /) -> list[TaskRow]:
        """Return the tasks of all plans, or those with this status, in the order of their plans."""
        loaded = await self._load(run_id)
        rows = task_rows(loaded) if loaded is not None else []
        return [row for row in rows if status is None or row["status"] == status]

    # --- the ContextStore -----------------------------------------------------------------------------

    async def save_result(self, run_id: str, task_id: str, result: Any, /) -> None:
        """Do nothing: the loop commits it together with the task's completion."""

    async def get_all_results(self, run_id: str, /) -> dict[str, Any]:
        """Return the results of completed tasks by id; with the answer as `__result__` once the run is DONE."""
        async with self._opened() as store:
            run = await store.get_run(TENANT, run_id) if store is not None else None
            if store is None or run is None:
                return {}
            result = await read_result(store, run)
        done = TaskStatus.COMPLETED
        results = {key: one.value for key, one in result.tasks.items() if one.status is done}
        return {**results, RESULT: result.value} if run.phase is Phase.DONE else results

    # --- inside ---------------------------------------------------------------------------------------

    async def _load(self, run_id: str) -> Loaded | None:
        async with self._opened() as store:
            return await store.load(TENANT, run_id) if store is not None else None

    @asynccontextmanager
    async def _opened(self) -> AsyncGenerator[Store | None]:
        try:
            store = await self.acquire(SystemRuntime(), create=False)
        except StoreMissing:
            yield None
            return
        try:
            yield store
        finally:
            await self.release(store)


class MemoryStore(DriverStore):
    """All three stores, in this process's memory, as long as this object is kept."""

    def __init__(self) -> None:
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
    """All three stores, in a SQLite file: that of the store `sqlite:///PATH`. One process at a time opens it."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Take the file's path; it is made by the first run. Raises ValueError for a path that no URL can hold."""
        self.path = Path(path).expanduser().resolve()
        if "?" in str(self.path):
            raise ValueError(
                f"the path {str(self.path)!r} has a question mark; no store's file may"
            )
        self._url = f"sqlite:///{self.path}"

    @property
    def place(self) -> object:
        """The file's URL."""
        return self._url

    async def acquire(self, runtime: Runtime, *, create: bool) -> Store:
        """Return the store, opened by the first who asks."""
        return await shared.acquire(self._url, runtime, create=create)

    async def release(self, store: Store) -> None:
        """Close it if nobody else uses it."""
        await shared.release(self._url, store)


class Stores(NamedTuple):
    """An orchestrator's three stores."""

    runs: RunStore
    tasks: TaskStore
    context: ContextStore

    @property
    def driver(self) -> DriverStore | None:
        """The view that all three are; None: they are a user's own."""
        return self.runs if isinstance(self.runs, DriverStore) else None


def stores_of(run_store: Any, task_store: Any, context_store: Any) -> Stores | None:
    """Return the three stores; None: none was given.

    Raises:
        ValueError: one of them is missing, lacks a method, or they don't fit together.
    """
    given = {"run_store": run_store, "task_store": task_store, "context_store": context_store}
    missing = [name for name, store in given.items() if store is None]
    if len(missing) == len(given):
        return None
    if missing:
        raise ValueError(f"{' and '.join(missing)} is missing: pass all three stores, or none")
    for name, store in given.items():
        for method in _METHODS[name]:
            if not any(callable(getattr(store, one, None)) for one in method.split("/")):
                raise ValueError(f"{name} has no method {method.replace('/', ' or ')}")
    ours = [store for store in given.values() if isinstance(store, DriverStore)]
    if ours and (len(ours) < len(given) or len({one.place for one in ours}) > 1):
        raise ValueError(
            "run_store, task_store and context_store: pass the same MemoryStore or SQLiteStore as all three, "
            "or three of your own"
        )
    return Stores(run_store, task_store, context_store)


_METHODS = {
    "run_store": ("create_run", "get_run/get", "update_loop_state"),
    "task_store": ("save_tasks", "update_task", "get_tasks"),
    "context_store": ("save_result", "get_all_results"),
}


def status_word(status: TaskStatus) -> str:
    """Return a task's status as its row shows it: READY is `pending`, too."""
    return (TaskStatus.PENDING if status is TaskStatus.READY else status).lower()


def task_rows(loaded: Loaded) -> list[TaskRow]:
    """Return the tasks of all of a run's plans as rows, a task that was planned again where it was last."""
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
