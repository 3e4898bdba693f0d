"""ListWorkers, ListQueues: the connected workers, what they hold, and the runs that wait for them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, TypeVar

from stepwell.core.port import (
    LeaseQuery,
    Presence,
    PresenceQuery,
    RunQuery,
    WorkerLease,
)
from stepwell.core.records.states import BlockedKind
from stepwell.engine.executor import Executor
from stepwell.rpc.caller import tenant
from stepwell.rpc.orchestrator.pages import Reader, cursor_of, read_page, size_of, token_of
from stepwell.wire.records import fill
from stepwell_client.v1 import orchestrator_pb2 as pb
from stepwell_client.v1 import types_pb2

HELD_MAX = 100
"""The most steps that are listed for one worker."""
RUNS_MAX = 1_000
"""The most runs that are read for one answer, both waiting runs and runs whose queue must be found."""

T = TypeVar("T")


async def list_workers(
    executor: Executor, request: pb.ListWorkersRequest
) -> pb.ListWorkersResponse:
    """Return a page of the caller's connected workers, with what they hold."""
    tenant_id = tenant()
    held = await _leases(executor, LeaseQuery(tenant_id=tenant_id, run_id=request.run_id))
    workers = [
        one
        for one in await _workers(executor, tenant_id)
        if request.queue in ("", *one.queues) and (not request.run_id or one.worker_id in held)
    ]

    async def show(one: Presence) -> pb.ConnectedWorker:
        leases = held.get(one.worker_id, ())
        message = pb.ConnectedWorker(
            worker_id=one.worker_id,
            instance_id=one.instance_id,
            replica_id=one.replica_id,
            subject=one.subject,
            queues=one.queues,
            kinds=[f"STEP_KIND_{kind}" for kind in one.kinds],
            version=one.version,
            free_slots=one.credits,
            held_count=len(leases),
            draining=one.draining,
            lapses=one.lapses,
        )
        for lease in leases[:HELD_MAX]:
            step = message.held.add(run_id=lease.run_id, execution_id=lease.execution_id)
            if lease.progress is not None:
                fill(lease.progress, step.progress)
        for pattern in one.tasks:
            fill(pattern, message.tasks.add())
        if request.view == types_pb2.VIEW_FULL:
            message.input_schema = executor.input_schema(one)
        if one.connected_us:
            message.connected_time.FromMicroseconds(one.connected_us)
        return message

    read = _after(workers, lambda one: one.worker_id, cursor_of(tenant_id, request))
    shown, after = await read_page(read, show, size_of(request))
    return pb.ListWorkersResponse(
        workers=shown,
        next_page_token=token_of(tenant_id, request, after),
        replica_id=executor.replica_id,
    )


async def list_queues(executor: Executor, request: pb.ListQueuesRequest) -> pb.ListQueuesResponse:
    """Return a page of the queues that have a limit, a worker or a waiting run."""
    tenant_id = tenant()
    cursor = cursor_of(tenant_id, request)
    limits = dict(executor.config.queue_limits)
    workers = await _workers(executor, tenant_id)
    served = Counter(queue for one in workers for queue in one.queues)
    held = await _held_steps(executor, tenant_id, workers)
    waiting = await _waiting_runs(executor, tenant_id)
    names = sorted({*limits, *served, *held.counts, *waiting.counts})

    async def show(name: str) -> pb.Queue:
        message = pb.Queue(
            name=name,
            limit=limits.get(name),
            in_use=held.counts[name],
            waiting_runs=waiting.counts[name],
            workers=served[name],
        )
        if since_us := waiting.since_us.get(name):
            message.waiting_since_time.FromMicroseconds(since_us)
        return message

    shown, after = await read_page(_after(names, str, cursor), show, size_of(request))
    return pb.ListQueuesResponse(
        queues=shown,
        next_page_token=token_of(tenant_id, request, after),
        complete=held.complete and waiting.complete,
        replica_id=executor.replica_id,
    )


def _after(rows: Sequence[T], name: Callable[[T], str], cursor: str) -> Reader[T]:
    """Return the reader of the rows after the one that the cursor names; rows are ordered by name."""
    rest = [one for one in rows if name(one) > cursor]

    async def read(limit: int) -> tuple[Sequence[T], str]:
        page = rest[:limit]
        return page, name(page[-1]) if len(rest) > limit else ""

    return read


async def _workers(executor: Executor, tenant_id: str) -> list[Presence]:
    """Return the newest instance of each of a tenant's workers, by id; with their current state if
    they are connected here.
    """
    reported = (await executor.store.page(PresenceQuery(tenant_id=tenant_id))).items
    here = [one for one in executor.connected if one.tenant_id == tenant_id]
    instances = {(one.worker_id, one.instance_id): one for one in (*reported, *here)}
    oldest_first = sorted(instances.values(), key=lambda one: one.connected_us)
    newest = {one.worker_id: one for one in oldest_first}
    return [newest[worker_id] for worker_id in sorted(newest)]


async def _leases(executor: Executor, query: LeaseQuery) -> Mapping[str, Sequence[WorkerLease]]:
    """Return leases by their workers' ids."""
    held = defaultdict[str, list[WorkerLease]](list)
    for lease in (await executor.store.page(query)).items:
        held[lease.worker_id].append(lease)
    return held


class _Found(NamedTuple):
    """Numbers of steps or runs by queue."""

    counts: Counter[str]
    complete: bool
    since_us: Mapping[str, int] = MappingProxyType({})
    """The time since when the first of them waits."""


async def _held_steps(executor: Executor, tenant_id: str, workers: Sequence[Presence]) -> _Found:
    counts = Counter[str]()
    queue_of = dict[str, str]()
    complete = True
    leases = await _leases(executor, LeaseQuery(tenant_id=tenant_id))
    for worker in workers:
        for lease in leases.get(worker.worker_id, ()):
            queue = queue_of.get(lease.run_id)
            if queue is None and len(worker.queues) == 1:
                # Its run need not be read.
                queue = worker.queues[0]
            elif queue is None and len(queue_of) < RUNS_MAX:
                run = await executor.store.get_run(tenant_id, lease.run_id)
                queue = queue_of[lease.run_id] = run.spec.queue if run is not None else ""
            if queue is None:
                complete = False
            elif queue:
                counts[queue] += 1
    return _Found(counts, complete)


async def _waiting_runs(executor: Executor, tenant_id: str) -> _Found:
    query = RunQuery(tenant_id=tenant_id, blocked_on=(BlockedKind.WORKER,), limit=RUNS_MAX)
    page = await executor.store.page(query)
    since_us = dict[str, int]()
    for run in page.items:
        queue, begun_us = run.spec.queue, run.blocked_since_us
        since_us[queue] = min(begun_us, since_us.get(queue, begun_us))
    counts = Counter(run.spec.queue for run in page.items)
    return _Found(counts, complete=not page.cursor, since_us=since_us)
