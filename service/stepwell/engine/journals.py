"""Reads journals for the workers of their steps, and for people who resolve calls."""

from __future__ import annotations

from stepwell.core.loop.journals import name_of
from stepwell.core.loop.state import RunState
from stepwell.core.port import EntryWrite, JournalPage, Store
from stepwell.core.records.model import Record, Run
from stepwell.engine.clock import StoreTime
from stepwell.engine.lease_lookup import leased_state
from stepwell.engine.runs import Runs
from stepwell.engine.step_journal import begun_of, journal_in, read_page


class JournalAsked(Record, frozen=True, kw_only=True):
    """The part of its journal that a step asks for."""

    run_id: str
    execution_id: str
    token: str
    cursor: str = ""
    """Continue after this cursor. Empty: from the beginning."""


class JournalReader:
    """Reads the journals of every run."""

    def __init__(self, store: Store, runs: Runs, clock: StoreTime) -> None:
        self._store = store
        self._runs = runs
        self._clock = clock

    async def read(self, tenant_id: str, asked: JournalAsked) -> JournalPage | None:
        """Return a page of a step's journal, or None if the lease is lost.

        Raises:
            InvalidArgument: the cursor is invalid.
            StoreUnavailable: repeat the read.
        """
        key = (tenant_id, asked.run_id)
        state = await leased_state(self._store, self._runs, key, asked.execution_id, asked.token)
        if state is None:
            return None
        step = journal_in(state, state.open[asked.execution_id].execution)
        if step is None:
            return JournalPage()
        return await read_page(self._store, key, step, asked.cursor, self._clock.now_us())

    async def begun(
        self, tenant_id: str, run_id: str, execution_id: str, call: str
    ) -> tuple[EntryWrite, ...]:
        """Return the BEGINs of a call with an unknown outcome; none if the execution isn't open."""
        state = await self._loaded(tenant_id, run_id)
        row = state.open.get(execution_id) if state is not None else None
        step = journal_in(state, row.execution) if state is not None and row is not None else None
        if step is None:
            return ()
        return await begun_of(self._store, (tenant_id, run_id), step, call)

    async def name_of(self, run: Run, task_id: str) -> str:
        """Return the name of the journal of a task of the plan in force; empty if there is no such task.

        `run` is its run as stored.
        """
        state = await self._runs.state((run.spec.tenant_id, run.spec.run_id))
        if state is None or state.run.plan_revision < run.plan_revision:
            state = await self._loaded(run.spec.tenant_id, run.spec.run_id)
        task = state.tasks.get(task_id) if state is not None else None
        return name_of(run, task) if task is not None else ""

    async def _loaded(self, tenant_id: str, run_id: str) -> RunState | None:
        """Return a run's stored state, which other replicas may have changed."""
        loaded = await self._store.load(tenant_id, run_id)
        return RunState.of(loaded) if loaded is not None else None
