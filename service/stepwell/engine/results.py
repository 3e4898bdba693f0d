"""Results that a running step reads: those that its assignment lacks, or only refers to.

The lease token is the fence. Results never change, so this replica's knowledge of the lease is
enough; a replica that does not know the lease asks the store.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from stepwell.core.loop.state import RunState
from stepwell.core.port import DependencyResult, Store
from stepwell.core.records import limits
from stepwell.core.records.model import Execution, Record
from stepwell.engine.assignments import entry_bytes, entry_of, listed, payload_bytes
from stepwell.engine.lease_lookup import leased_state
from stepwell.engine.payloads import PayloadCache, Place
from stepwell.engine.runs import Runs

PAGE_BYTES_MAX = 3 * 1024 * 1024
"""The size of a page of results, unless a single one is larger; none is larger than 2 MiB."""


class ResultsQuery(Record, frozen=True, kw_only=True):
    """The results that a step asks for."""

    run_id: str
    execution_id: str
    token: str
    task_ids: tuple[str, ...] = ()
    """Empty: the list of all results that the step is shown, without their bytes."""
    first: int = 0
    """The position to continue at."""


class ResultsPage(NamedTuple):
    """A page of results."""

    results: Sequence[DependencyResult]
    next: int
    """The position of the next page; 0: this was the last."""


class ResultReader:
    """Reads results for the steps of every run."""

    def __init__(self, store: Store, runs: Runs, payloads: PayloadCache) -> None:
        self._store = store
        self._runs = runs
        self._payloads = payloads

    async def read(self, tenant_id: str, query: ResultsQuery) -> ResultsPage | None:
        """Return a page of results, or None if the lease is lost.

        Raises:
            StoreUnavailable: repeat the read.
        """
        key = (tenant_id, query.run_id)
        state = await leased_state(self._store, self._runs, key, query.execution_id, query.token)
        if state is None:
            return None
        execution = state.open[query.execution_id].execution
        if not query.task_ids:
            return _listed(state, listed(state, execution), query.first)
        return await self._named(tenant_id, state, execution, query)

    async def _named(
        self, tenant_id: str, state: RunState, execution: Execution, query: ResultsQuery
    ) -> ResultsPage:
        """Return the results of the query's tasks, with their bytes."""
        wanted = query.task_ids[query.first :]
        entries = [_entry_of(state, task_id) for task_id in wanted]
        if execution.task_id:
            usable = frozenset(state.graph.specs[execution.task_id].depends_on)
            entries = [one if one and one.task_id in usable else None for one in entries]
        places = [_place_of(query.run_id, one) for one in entries if one and one.by_reference]
        payloads = await self._payloads.get(tenant_id, places, PAGE_BYTES_MAX)
        results: list[DependencyResult] = []
        room = PAGE_BYTES_MAX
        for index, entry in enumerate(entries):
            if entry is None:
                continue
            place = _place_of(query.run_id, entry)
            if entry.by_reference and place not in payloads:
                return ResultsPage(results, query.first + index)
            payload = payloads.get(place)
            room -= entry_bytes(entry) + payload_bytes(payload)
            if room < 0 and results:
                return ResultsPage(results, query.first + index)
            results.append(replace(entry, payload=payload, by_reference=False))
        return ResultsPage(results, 0)


def _listed(state: RunState, task_ids: Sequence[str], first: int) -> ResultsPage:
    room = PAGE_BYTES_MAX
    results: list[DependencyResult] = []
    for place in range(first, len(task_ids)):
        entry = entry_of(state.tasks[task_ids[place]], limits.ENTRY_FAILURE_BYTES_MAX)
        if entry is None:
            continue
        room -= entry_bytes(entry)
        if room < 0:
            return ResultsPage(results, place)
        results.append(entry)
    return ResultsPage(results, 0)


def _entry_of(state: RunState, task_id: str) -> DependencyResult | None:
    """Return the result of a task, with its whole failure."""
    task = state.tasks.get(task_id)
    return entry_of(task, PAGE_BYTES_MAX) if task is not None else None


def _place_of(run_id: str, entry: DependencyResult) -> Place:
    return entry.run_id or run_id, entry.execution_id
