"""Bugs of the service: what is kept of a run, what a stranger is told, what a call leaves behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from stepwell.core.records.errors import InvalidArgument, RunNotFound, StepwellError
from stepwell.engine import runs
from stepwell.rpc import store
from stepwell.rpc.orchestrator import reads
from stepwell.watch import runs as watch
from tests.mutants.by_tests import ByTests
from tests.mutants.crashed import Crashed
from tests.mutants.planting import Swap, everywhere, hidden
from tests.mutants.shelf import Shelf

BUGS = Shelf()

WATCH = "tests/service/test_watch.py"
DOOR = "tests/service/test_store_driver.py"
MATRIX = ByTests(
    "tenant matrix",
    ("tests/service/tenants/test_matrix.py::test_T2_a_foreign_name_is_answered_as_a_missing_one",),
)


@BUGS.put("stages-kept-in-memory", Crashed(("diamond", "re-plan")), "S18")
def _stages_kept_in_memory() -> list[Swap]:
    """Which stages a run has is known to the replica that began it, and not to the one that goes on with it."""
    honest: Callable[..., Any] = hidden(runs.Runs, "_load")

    async def load(self: Any, key: Any, inputs: Any) -> Any:
        state = await honest(self, key, inputs)
        if state.run.version:
            state.run = replace(state.run, stages=())
        return state

    return [(runs.Runs, "_load", load)]


@BUGS.put("stranger-is-told-it-exists", MATRIX, "T2")
def _stranger_is_told_it_exists() -> list[Swap]:
    """A foreign run is answered with PERMISSION_DENIED, which says that it is there."""
    honest = reads.the_run

    async def the_run(parts: Any, run_id: str) -> Any:
        try:
            return await honest(parts, run_id)
        except RunNotFound:
            page = await parts.store.feed()
            if any(entry.run_id == run_id for entry in page.entries):
                raise StepwellError("this run is another tenant's") from None
            raise

    return everywhere(honest, the_run)


@BUGS.put(
    "old-cursor-is-just-wrong",
    ByTests("watch tests", (f"{WATCH}::test_E6_cursor_below_retention_gets_the_oldest_number",)),
    "E6",
)
def _old_cursor_is_just_wrong() -> list[Swap]:
    """A cursor whose events were removed is refused like any wrong one: where to go on is not told."""

    def refused(message: str, **_words: Any) -> Exception:
        return InvalidArgument(message)

    return [(watch, "CursorOutOfRange", refused)]


@BUGS.put(
    "names-pile-up",
    ByTests(
        "store service tests",
        (f"{DOOR}::test_E9_hints_that_are_not_read_cost_a_bounded_number_of_names",),
    ),
    "E9",
)
def _names_pile_up() -> list[Swap]:
    """What a watcher has not read yet is kept for it, however much that comes to."""
    subscriber: Any = hidden(store, "_Subscriber")

    def hint(self: Any, tenant_id: str, run_id: str, version: int) -> None:
        key = (tenant_id, run_id)
        self._runs[key] = max(version, self._runs.get(key, 0))
        self._wake.set()

    return [(subscriber, "hint", hint)]


@BUGS.put(
    "subscriber-never-leaves",
    ByTests(
        "store service tests",
        (f"{DOOR}::test_R1_a_closed_door_leaves_no_stream_and_no_task_behind",),
    ),
    "R1",
)
def _subscriber_never_leaves() -> list[Swap]:
    """Whoever is told of commits stays on the list of those to be told, after its call is over."""
    honest: Callable[..., None] = store.StoreService.__init__

    class Everybody(set[Any]):
        def discard(self, element: Any) -> None:
            """Let nobody go."""

    def init(self: Any, *rest: Any, **named: Any) -> None:
        honest(self, *rest, **named)
        self._subscribers = Everybody()

    return [(store.StoreService, "__init__", init)]
