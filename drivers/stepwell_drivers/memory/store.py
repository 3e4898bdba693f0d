"""The Store port over the state in memory.

No method waits: a commit is applied within the call. Hints follow in the event loop's next turn, so
that a hint never runs inside the call that caused it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from stepwell.core.port import (
    INPUT_KEY,
    Claim,
    Claimed,
    Commit,
    CommitResult,
    EventPage,
    Hint,
    JournalAck,
    JournalWrite,
    KeySwap,
    Loaded,
    LogsOfExecution,
    OldLogs,
    Page,
    Presence,
    Query,
    Renewal,
    Reservation,
    StoredPayload,
    StoreInfo,
)
from stepwell.core.records.checkpoints import Checkpoint
from stepwell.core.records.errors import StoreUnavailable
from stepwell.core.records.model import LogEntry, Plan, Question, Run
from stepwell.core.records.states import Durability, Verdict
from stepwell_drivers.hints import newest
from stepwell_drivers.memory.pages import page
from stepwell_drivers.memory.state import State, Tenant

R = TypeVar("R")


class MemoryStore:
    """An open store over a state in memory; when the last one closes, it calls `on_last_close`."""

    def __init__(self, state: State, *, on_last_close: Callable[[], None] | None = None) -> None:
        self._kept = state
        self._on_last_close = on_last_close
        self._closed = False
        self._stops: list[Callable[[], None]] = []
        state.doors += 1

    @property
    def _state(self) -> State:
        if self._closed:
            raise StoreUnavailable("this store was closed")
        return self._kept

    # --- writing ---

    async def commit(self, commits: Sequence[Commit]) -> Sequence[CommitResult]:
        state = self._state
        results = [state.commit(commit) for commit in commits]
        committed = Verdict.COMMITTED
        state.hints.publish(
            newest(
                [
                    (commit.tenant_id, commit.run_id, commit.version)
                    for commit, result in zip(commits, results, strict=True)
                    if result.verdict is committed
                ]
            )
        )
        return results

    async def renew(self, renewals: Sequence[Renewal]) -> Sequence[bool]:
        state = self._state
        return [state.renew(renewal) for renewal in renewals]

    async def write_journal(self, writes: Sequence[JournalWrite]) -> Sequence[JournalAck]:
        state = self._state
        return [state.write_journal(write) for write in writes]

    async def put_presence(self, presences: Sequence[Presence], *, ttl_ms: int) -> None:
        for presence in presences:
            self._state.put_presence(presence, ttl_ms)

    async def append_logs(self, tenant_id: str, run_id: str, entries: Sequence[LogEntry]) -> None:
        state = self._state
        if state.append_logs(tenant_id, run_id, entries):
            state.hints.publish({(tenant_id, run_id): 0})

    async def delete_run(self, tenant_id: str, run_id: str, *, version: int) -> bool:
        state = self._state
        deleted = state.delete(tenant_id, run_id, version)
        if deleted:
            state.hints.publish({(tenant_id, run_id): 0})
        return deleted

    async def remove_logs(self, which: LogsOfExecution | OldLogs) -> int:
        if isinstance(which, OldLogs):
            return self._state.purge_logs(which.older_ms, which.limit)
        rows = self._state.runs.get((which.tenant_id, which.run_id))
        return rows.log.trim(which.execution_id, which.kind) if rows is not None else 0

    async def swap_keys(
        self, tenant_id: str, pipeline_id: str, swaps: Sequence[KeySwap]
    ) -> Sequence[Reservation]:
        keys = self._state.tenants.setdefault(tenant_id, Tenant()).keys
        return [keys.swap(pipeline_id, swap) for swap in swaps]

    async def claim(self, claim: Claim) -> Claimed:
        state = self._state
        return state.agenda.claim(claim, state.clock.now_us())

    # --- reading ---

    async def get_run(self, tenant_id: str, run_id: str) -> Run | None:
        rows = self._state.runs.get((tenant_id, run_id))
        return rows.run if rows is not None else None

    async def load(self, tenant_id: str, run_id: str, *, since: int = 0) -> Loaded | None:
        rows = self._state.runs.get((tenant_id, run_id))
        return rows.load(since, self._state.clock.now_us()) if rows is not None else None

    async def read_payloads(
        self, tenant_id: str, run_id: str, keys: Sequence[str], *, texts: bool = False
    ) -> Sequence[StoredPayload]:
        rows = self._state.runs.get((tenant_id, run_id))
        outcomes = rows.outcomes if rows is not None else {}
        stored: list[StoredPayload] = []
        for key in keys:
            outcome = outcomes.get(key)
            if outcome is not None and (texts or outcome.result is not None):
                stored.append(
                    StoredPayload(
                        key=key,
                        payload=outcome.result,
                        prompt=outcome.prompt if texts else "",
                        response=outcome.response if texts else "",
                        receipt=outcome.receipt if texts else "",
                    )
                )
            elif key == INPUT_KEY and rows is not None and rows.input is not None:
                stored.append(StoredPayload(key=key, payload=rows.input))
        return stored

    async def read_plan(self, tenant_id: str, run_id: str, revision: int) -> Plan | None:
        rows = self._state.runs.get((tenant_id, run_id))
        first_plan = rows.plans.get(revision) if rows is not None else None
        return first_plan[1] if first_plan is not None else None

    async def read_base(self, tenant_id: str, run_id: str, *, version: int) -> Checkpoint | None:
        rows = self._state.runs.get((tenant_id, run_id))
        return rows.base_up_to(version) if rows is not None else None

    async def read_events(
        self, tenant_id: str, run_id: str, *, after: int, limit: int
    ) -> EventPage | None:
        rows = self._state.runs.get((tenant_id, run_id))
        return rows.read_events(after, limit) if rows is not None else None

    async def page(self, query: Query[R]) -> Page[R]:
        return page(self._state, query)

    async def read_questions(
        self, tenant_id: str, run_id: str, question_ids: Sequence[str]
    ) -> Sequence[Question]:
        rows = self._state.runs.get((tenant_id, run_id))
        if rows is None:
            return []
        return [rows.questions[name].question for name in question_ids if name in rows.questions]

    # --- the store itself ---

    def subscribe(self, hint: Hint) -> Callable[[], None]:
        stop = self._kept.hints.subscribe(hint)
        self._stops.append(stop)
        return stop

    async def describe(self) -> StoreInfo:
        return StoreInfo(
            driver="memory",
            durability=Durability.VOLATILE,
            detail="in this process's memory; gone when it ends",
            store_id=self._state.store_id,
        )

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        for stop in self._stops:
            stop()
        self._stops.clear()
        self._kept.doors -= 1
        if self._kept.doors == 0 and self._on_last_close is not None:
            self._on_last_close()
