"""An orchestrator's three stores: checks that they fit together, and calls their methods."""

from __future__ import annotations

import inspect
from typing import Any, NamedTuple

from stepwell.embedded.driver_stores import DriverStore
from stepwell.embedded.protocols import ContextStore, RunStore, TaskStore


class Stores(NamedTuple):
    """An orchestrator's three stores."""

    runs: RunStore
    tasks: TaskStore
    context: ContextStore

    @property
    def driver(self) -> DriverStore | None:
        """The view that implements all three, or None for a user's own stores."""
        return self.runs if isinstance(self.runs, DriverStore) else None


def stores_of(run_store: Any, task_store: Any, context_store: Any) -> Stores | None:
    """Return the three stores, or None if none was given.

    Raises:
        ValueError: one of them is missing or lacks a method, or they don't fit together.
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


async def value_of(found: Any) -> Any:
    """Return the result of a store's method, awaited if it is asynchronous."""
    return await found if inspect.isawaitable(found) else found


def getter_of(store: RunStore) -> Any:
    """Return the method that reads a run, by either of its names."""
    return getattr(store, "get_run", None) or getattr(store, "get")  # noqa: B009 - the protocol has the other name


async def find_run(store: RunStore, run_id: str) -> object:
    """Return the record of a run, or None, also if the store raises a LookupError."""
    try:
        return await value_of(getter_of(store)(run_id))
    except LookupError:
        return None
