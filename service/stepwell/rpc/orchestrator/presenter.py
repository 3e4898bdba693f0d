"""Presents runs to callers, with the exact reason why they wait now.

The rows have WORKER for every ready step. Whether no suitable worker is connected, or all of them
are busy, changes without a commit. It is therefore decided when a run is read, by the workers that
are connected: to this replica now, to others at most a moment ago.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from stepwell.core.loop.loss_allowance import current, losses_in
from stepwell.core.port import OpenExecution, Presence, PresenceQuery, Runtime
from stepwell.core.records.model import Run, Task
from stepwell.core.records.routing import TYPED, does, fits, pin_of
from stepwell.core.records.states import BlockedKind, ExecutionStatus, Phase, StepKind
from stepwell.engine.executor import Executor
from stepwell.wire.records import fill, to_message
from stepwell_client.v1 import types_pb2


class Lane(NamedTuple):
    """Kind, type and role of ready steps, which decide the workers that may do them."""

    kind: StepKind
    type: str = ""
    role: str = ""
    alone: bool = False
    """True if the step is suspect, so that only a worker without other steps does it."""

    def is_done_by(self, worker: Presence, pin: str) -> bool:
        """Return whether a worker of the run's queue does such steps."""
        return (
            self.kind in worker.kinds
            and does(worker.tasks, self.kind, self.type, self.role)
            and fits(pin, worker.version)
        )


Lanes = frozenset[Lane]


class _Seen(NamedTuple):
    """One reading of a tenant's workers."""

    until: float
    reading: asyncio.Task[Sequence[Presence]]

    @property
    def has_failed(self) -> bool:
        """Return whether the read failed."""
        done = self.reading
        return done.done() and (done.cancelled() or done.exception() is not None)


_CACHED_MAX = 10_000
_SEEN_SECONDS = 0.5
"""The time for which the arrival or departure of another replica's worker may go unnoticed."""
_SEEN_MAX = 1_000
_KINDS = {
    Phase.PLANNING: StepKind.PLAN,
    Phase.REFLECTING: StepKind.REFLECT,
    Phase.SYNTHESIZING: StepKind.SYNTHESIZE,
}


class RunPresenter:
    """Makes messages of runs."""

    def __init__(self, executor: Executor, runtime: Runtime) -> None:
        self._executor = executor
        self._store = executor.store
        self._runtime = runtime
        self._seen: dict[str, _Seen] = {}
        self._ready: OrderedDict[tuple[str, str, int], Lanes] = OrderedDict()

    async def message(self, run: Run) -> types_pb2.Run:
        """Return a run as its message, with the step that it waits for if no worker takes it."""
        refined = await self.refine(run)
        message: types_pb2.Run = to_message(refined)
        if refined.blocked_on in (BlockedKind.WORKER, BlockedKind.CAPACITY):
            lanes = await self._ready_lanes(run)
            if refined.blocked_on is BlockedKind.CAPACITY:
                lanes = frozenset(lane for lane in lanes if lane.alone)
            if lanes:
                lane, spec = min(lanes), run.spec
                waiting = types_pb2.WaitingStep(
                    queue=spec.queue,
                    kind=f"STEP_KIND_{lane.kind}",
                    type=lane.type,
                    role=lane.role,
                    alone=lane.alone,
                )
                fill(spec.worker_version, waiting.worker_version)
                message.waiting_for.CopyFrom(waiting)
        return message

    async def refine(self, run: Run, workers: Sequence[Presence] | None = None) -> Run:
        """Return the run with CAPACITY instead of WORKER if a connected worker would do one of its steps.

        `workers` are the tenant's connected workers, if known already.
        """
        if run.blocked_on is not BlockedKind.WORKER:
            return run
        if workers is None:
            # This replica's workers are known here; the store is asked for those of the others.
            tenant_id = run.spec.tenant_id
            here = [one for one in self._executor.connected if one.tenant_id == tenant_id]
            if await self._is_served(run, here):
                return replace(run, blocked_on=BlockedKind.CAPACITY)
            workers = await self._seen_workers(tenant_id)
        if await self._is_served(run, workers):
            return replace(run, blocked_on=BlockedKind.CAPACITY)
        return run

    async def _seen_workers(self, tenant_id: str) -> Sequence[Presence]:
        """Return the tenant's workers as of a moment ago at most, because many runs may be started at once."""
        now = self._runtime.monotonic()
        seen = self._seen.get(tenant_id)
        if seen is None or now >= seen.until or seen.has_failed:
            if len(self._seen) >= _SEEN_MAX:
                self._seen.clear()
            reading = self._runtime.spawn(self.workers(tenant_id), name="workers of a tenant")
            seen = self._seen[tenant_id] = _Seen(now + _SEEN_SECONDS, reading)
        return await asyncio.shield(seen.reading)

    async def workers(self, tenant_id: str) -> Sequence[Presence]:
        """Return the tenant's connected workers."""
        return (await self._store.page(PresenceQuery(tenant_id=tenant_id))).items

    async def _is_served(self, run: Run, workers: Sequence[Presence]) -> bool:
        serving = [one for one in workers if run.spec.queue in one.queues]
        if not serving:
            return False
        pin = pin_of(run.spec.worker_version)
        if run.phase not in _KINDS and any(
            not one.tasks and frozenset(one.kinds) >= TYPED and fits(pin, one.version)
            for one in serving
        ):
            return True
        lanes = await self._ready_lanes(run)
        return any(lane.is_done_by(one, pin) for one in serving for lane in lanes)

    async def _ready_lanes(self, run: Run) -> Lanes:
        """Return the lanes of the run's ready steps, from memory if this replica works on the run."""
        kind = _KINDS.get(run.phase)
        if kind is not None:
            suspect = current(run, run.step_losses).suspect
            return frozenset({Lane(kind, alone=suspect)})
        spec = run.spec
        held = self._executor.held(spec.tenant_id, spec.run_id)
        if held is not None and held.run.version == run.version:
            return _ready(run, held.tasks, held.open.values())
        key = (spec.tenant_id, spec.run_id, run.version)
        lanes = self._ready.get(key)
        if lanes is None:
            loaded = await self._store.load(spec.tenant_id, spec.run_id)
            tasks = {one.task_id: one for one in loaded.tasks} if loaded is not None else {}
            rows = loaded.executions if loaded is not None else ()
            lanes = self._ready[key] = _ready(run, tasks, rows)
            if len(self._ready) > _CACHED_MAX:
                self._ready.popitem(last=False)
        return lanes


def _ready(run: Run, tasks: Mapping[str, Task], rows: Iterable[OpenExecution]) -> Lanes:
    executions = (row.execution for row in rows)
    return frozenset(
        Lane(
            one.kind,
            one.type,
            one.role,
            losses_in(run, tasks.get(one.task_id), one.kind).suspect,
        )
        for one in executions
        if one.status is ExecutionStatus.READY
    )
