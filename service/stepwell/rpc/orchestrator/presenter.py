"""Presents runs to callers: with what they wait for as exactly as it is known now.

The rows have WORKER for every ready step. Whether no worker is connected that could do it, or all that
could are busy, changes without a commit, so it is decided at the moment of reading, by who is connected.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from stepwell.core.port import ANY_ROLE, OpenExecution, Presence, PresenceQuery
from stepwell.core.records.model import Run
from stepwell.core.records.states import BlockedKind, ExecutionStatus, Phase, StepKind
from stepwell.engine.executor import Executor
from stepwell.wire import to_message
from stepwell_client.v1 import types_pb2

Steps = frozenset[tuple[StepKind, str]]
"""Kind and role of each step that is ready."""

_CACHED_MAX = 10_000
_KINDS = {
    Phase.PLANNING: StepKind.PLAN,
    Phase.REFLECTING: StepKind.REFLECT,
    Phase.SYNTHESIZING: StepKind.SYNTHESIZE,
}


class RunPresenter:
    """Makes messages of runs."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._store = executor.store
        self._ready: OrderedDict[tuple[str, str, int], Steps] = OrderedDict()

    async def message(self, run: Run) -> types_pb2.Run:
        """Return a run as its message."""
        return to_message(await self.refine(run))

    async def refine(self, run: Run, workers: Sequence[Presence] | None = None) -> Run:
        """Return the run with CAPACITY for WORKER where a connected worker would do a step of it.

        `workers` are the tenant's that are connected, where they are known already.
        """
        if run.blocked_on is not BlockedKind.WORKER:
            return run
        if workers is None:
            workers = await self.workers(run.spec.tenant_id)
        serving = [one for one in workers if run.spec.queue in one.queues]
        if serving and await self._is_served(run, serving):
            return replace(run, blocked_on=BlockedKind.CAPACITY)
        return run

    async def workers(self, tenant_id: str) -> Sequence[Presence]:
        """Return the tenant's workers that are connected."""
        return (await self._store.page(PresenceQuery(tenant_id=tenant_id))).items

    async def _is_served(self, run: Run, serving: Sequence[Presence]) -> bool:
        kind = _KINDS.get(run.phase)
        if kind is not None:
            return any(kind in one.kinds for one in serving)
        if any(
            StepKind.TASK in one.kinds and StepKind.RECONCILE in one.kinds and ANY_ROLE in one.roles
            for one in serving
        ):
            return True
        steps = await self._ready_steps(run)
        return any(
            kind in one.kinds and (not role or role in one.roles)
            for one in serving
            for kind, role in steps
        )

    async def _ready_steps(self, run: Run) -> Steps:
        """Return the run's ready steps, from memory where this replica works on the run."""
        spec = run.spec
        held = self._executor.held(spec.tenant_id, spec.run_id)
        if held is not None and held.run.version == run.version:
            return _ready(held.open.values())
        key = (spec.tenant_id, spec.run_id, run.version)
        steps = self._ready.get(key)
        if steps is None:
            loaded = await self._store.load(spec.tenant_id, spec.run_id)
            steps = self._ready[key] = _ready(loaded.executions if loaded is not None else ())
            if len(self._ready) > _CACHED_MAX:
                self._ready.popitem(last=False)
        return steps


def _ready(rows: Iterable[OpenExecution]) -> Steps:
    executions = (row.execution for row in rows)
    return frozenset(
        (one.kind, one.role) for one in executions if one.status is ExecutionStatus.READY
    )
