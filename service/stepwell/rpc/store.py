"""The Store service: any store's port as RPCs. Each converts, calls, and converts back.

Who calls, and whether the request is within its limits, was looked at by the gate; what a store raises
is told there too. A write that was begun is finished even if its caller has gone: the caller can't
know how far it came, and sends the same commit again to be told.
"""
# ruff: noqa: N802, ARG002 - methods have the protocol's names and arguments

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from functools import partial
from typing import Any, TypeVar

from google.protobuf.message import Message

from stepwell.core.port import Runtime, Store
from stepwell.core.records.errors import ResourceExhausted
from stepwell.core.records.limits import STORE_MESSAGE_BYTES_MAX
from stepwell.core.records.states import LogKind
from stepwell.rpc.parts import Context, Parts, Service
from stepwell.wire import fill, to_record
from stepwell_client.v1 import store_pb2 as pb
from stepwell_client.v1 import store_pb2_grpc, types_pb2

HINTS_MAX = 1_000
"""Runs that a subscriber is told of in one message; beyond that it is told that any may have changed."""
ANSWER_BYTES_MAX = STORE_MESSAGE_BYTES_MAX - 64 * 1024
"""With room for what surrounds the message."""

SERVICE_NAME = "stepwell.v1.Store"
_LOG_KINDS = {types_pb2.LogKind.Value(f"LOG_KIND_{kind.name}"): kind for kind in LogKind}

T = TypeVar("T")
M = TypeVar("M", bound=Message)


def make_service(parts: Parts) -> Service:
    """Return the service over a server's own store."""
    servicer = StoreService(parts.store, parts.runtime)
    return Service(
        SERVICE_NAME,
        partial(store_pb2_grpc.add_StoreServicer_to_server, servicer),
        end_streams=servicer.close,
    )


class StoreService(store_pb2_grpc.StoreServicer):
    """The servicer over one store. It doesn't close the store."""

    def __init__(self, store: Store, runtime: Runtime) -> None:
        self._store = store
        self._runtime = runtime
        self._writes: set[asyncio.Task[Any]] = set()
        self._subscribers: set[_Subscriber] = set()
        self._closed = False

    async def close(self) -> None:
        """End the streams of hints and wait for the writes that were begun. Safe to call twice."""
        self._closed = True
        for subscriber in self._subscribers:
            subscriber.end()
        if self._writes:
            await asyncio.wait(self._writes)

    async def _finish(self, write: Coroutine[Any, Any, T]) -> T:
        """Return what a write came to; if who waits for it is cancelled, it goes on."""
        task = self._runtime.spawn(write, name="stepwell-store-write")
        self._writes.add(task)
        task.add_done_callback(self._written)
        return await asyncio.shield(task)

    def _written(self, task: asyncio.Task[Any]) -> None:
        self._writes.discard(task)
        if not task.cancelled():
            task.exception()  # Seen, also where nobody waits for it any more.

    # --- writing ---

    async def Commit(
        self, request: pb.StoreCommitRequest, context: Context
    ) -> pb.StoreCommitResponse:
        commits = [to_record(one) for one in request.commits]
        results = await self._finish(self._store.commit(commits))
        response = pb.StoreCommitResponse()
        for result in results:
            fill(result, response.results.add())
        return response

    async def Renew(self, request: pb.StoreRenewRequest, context: Context) -> pb.StoreRenewResponse:
        renewals = [to_record(one) for one in request.renewals]
        held = await self._finish(self._store.renew(renewals))
        return pb.StoreRenewResponse(held=held)

    async def PutPresence(
        self, request: pb.StorePutPresenceRequest, context: Context
    ) -> pb.StorePutPresenceResponse:
        presences = [to_record(one) for one in request.presences]
        ttl_ms = request.ttl.ToMilliseconds()
        await self._finish(self._store.put_presence(presences, ttl_ms=ttl_ms))
        return pb.StorePutPresenceResponse()

    async def AppendLogs(
        self, request: pb.StoreAppendLogsRequest, context: Context
    ) -> pb.StoreAppendLogsResponse:
        entries = [to_record(one) for one in request.entries]
        await self._finish(self._store.append_logs(request.tenant_id, request.run_id, entries))
        return pb.StoreAppendLogsResponse()

    async def DeleteRun(
        self, request: pb.StoreDeleteRunRequest, context: Context
    ) -> pb.StoreDeleteRunResponse:
        deleted = await self._finish(
            self._store.delete_run(request.tenant_id, request.run_id, version=request.version)
        )
        return pb.StoreDeleteRunResponse(deleted=deleted)

    async def TrimLogs(
        self, request: pb.StoreTrimLogsRequest, context: Context
    ) -> pb.StoreTrimLogsResponse:
        trim = self._store.trim_logs(
            request.tenant_id,
            request.run_id,
            execution_id=request.execution_id,
            kind=_LOG_KINDS[request.kind],
        )
        await self._finish(trim)
        return pb.StoreTrimLogsResponse()

    async def PurgeLogs(
        self, request: pb.StorePurgeLogsRequest, context: Context
    ) -> pb.StorePurgeLogsResponse:
        older_ms = request.older.ToMilliseconds()
        purge = self._store.purge_logs(older_ms=older_ms, limit=request.limit)
        return pb.StorePurgeLogsResponse(removed=await self._finish(purge))

    async def Claim(self, request: pb.StoreClaimRequest, context: Context) -> pb.StoreClaimResponse:
        claimed = await self._store.claim(to_record(request.request))
        response = pb.StoreClaimResponse()
        fill(claimed, response.claimed)
        return response

    # --- reading ---

    async def GetRun(
        self, request: pb.StoreGetRunRequest, context: Context
    ) -> pb.StoreGetRunResponse:
        run = await self._store.get_run(request.tenant_id, request.run_id)
        response = pb.StoreGetRunResponse()
        if run is not None:
            fill(run, response.run)
        return response

    async def Load(self, request: pb.StoreLoadRequest, context: Context) -> pb.StoreLoadResponse:
        loaded = await self._store.load(request.tenant_id, request.run_id, since=request.since)
        response = pb.StoreLoadResponse()
        if loaded is not None:
            fill(loaded, response.loaded)
        return _fitting(response)

    async def ReadPayloads(
        self, request: pb.StoreReadPayloadsRequest, context: Context
    ) -> pb.StoreReadPayloadsResponse:
        found = await self._store.read_payloads(request.tenant_id, request.run_id, request.keys)
        response = pb.StoreReadPayloadsResponse()
        for payload in found:
            fill(payload, response.payloads.add())
        return _fitting(response)

    async def ReadOutcomes(
        self, request: pb.StoreReadOutcomesRequest, context: Context
    ) -> pb.StoreReadOutcomesResponse:
        found = await self._store.read_outcomes(
            request.tenant_id, request.run_id, request.execution_ids
        )
        response = pb.StoreReadOutcomesResponse()
        for outcome in found:
            fill(outcome, response.outcomes.add())
        return _fitting(response)

    async def ReadPlan(
        self, request: pb.StoreReadPlanRequest, context: Context
    ) -> pb.StoreReadPlanResponse:
        plan = await self._store.read_plan(request.tenant_id, request.run_id, request.revision)
        response = pb.StoreReadPlanResponse()
        if plan is not None:
            fill(plan, response.plan)
        return _fitting(response)

    async def ReadEvents(
        self, request: pb.StoreReadEventsRequest, context: Context
    ) -> pb.StoreReadEventsResponse:
        page = await self._store.read_events(
            request.tenant_id, request.run_id, after=request.after, limit=request.limit
        )
        response = pb.StoreReadEventsResponse()
        if page is not None:
            fill(page, response.page)
        return _fitting(response)

    async def ListRuns(
        self, request: pb.StoreListRunsRequest, context: Context
    ) -> pb.StoreListRunsResponse:
        page = await self._store.list_runs(to_record(request.query))
        response = pb.StoreListRunsResponse()
        fill(page, response.page)
        return _fitting(response)

    async def ListInputs(
        self, request: pb.StoreListInputsRequest, context: Context
    ) -> pb.StoreListInputsResponse:
        page = await self._store.list_inputs(to_record(request.query))
        response = pb.StoreListInputsResponse()
        fill(page, response.page)
        return _fitting(response)

    async def ReadInputs(
        self, request: pb.StoreReadInputsRequest, context: Context
    ) -> pb.StoreReadInputsResponse:
        found = await self._store.read_inputs(request.tenant_id, request.run_id, request.input_ids)
        response = pb.StoreReadInputsResponse()
        for one in found:
            fill(one, response.inputs.add())
        return _fitting(response)

    async def FindKeyed(
        self, request: pb.StoreFindKeyedRequest, context: Context
    ) -> pb.StoreFindKeyedResponse:
        found = await self._store.find_keyed(request.tenant_id, request.pipeline_id, request.keys)
        response = pb.StoreFindKeyedResponse()
        for result in found:
            fill(result, response.results.add())
        return _fitting(response)

    async def ListEnded(
        self, request: pb.StoreListEndedRequest, context: Context
    ) -> pb.StoreListEndedResponse:
        response = pb.StoreListEndedResponse()
        for ended in await self._store.list_ended(to_record(request.query)):
            fill(ended, response.runs.add())
        return _fitting(response)

    async def ListTasks(
        self, request: pb.StoreListTasksRequest, context: Context
    ) -> pb.StoreListTasksResponse:
        page = await self._store.list_tasks(
            request.tenant_id, request.run_id, cursor=request.cursor, limit=request.limit
        )
        response = pb.StoreListTasksResponse()
        fill(page, response.page)
        return _fitting(response)

    async def ListExecutions(
        self, request: pb.StoreListExecutionsRequest, context: Context
    ) -> pb.StoreListExecutionsResponse:
        page = await self._store.list_executions(
            request.tenant_id,
            request.run_id,
            task_id=request.task_id,
            cursor=request.cursor,
            limit=request.limit,
        )
        response = pb.StoreListExecutionsResponse()
        fill(page, response.page)
        return _fitting(response)

    async def ReadMessages(
        self, request: pb.StoreReadMessagesRequest, context: Context
    ) -> pb.StoreReadMessagesResponse:
        page = await self._store.read_messages(
            request.tenant_id,
            request.run_id,
            task_id=request.task_id,
            cursor=request.cursor,
            limit=request.limit,
        )
        response = pb.StoreReadMessagesResponse()
        fill(page, response.page)
        return _fitting(response)

    async def ReadLogs(
        self, request: pb.StoreReadLogsRequest, context: Context
    ) -> pb.StoreReadLogsResponse:
        page = await self._store.read_logs(
            request.tenant_id,
            request.run_id,
            execution_id=request.execution_id,
            cursor=request.cursor,
            limit=request.limit,
        )
        response = pb.StoreReadLogsResponse()
        fill(page, response.page)
        return _fitting(response)

    async def ListPresence(
        self, request: pb.StoreListPresenceRequest, context: Context
    ) -> pb.StoreListPresenceResponse:
        response = pb.StoreListPresenceResponse()
        for presence in await self._store.list_presence(request.tenant_id):
            fill(presence, response.presences.add())
        return _fitting(response)

    async def ListLeases(
        self, request: pb.StoreListLeasesRequest, context: Context
    ) -> pb.StoreListLeasesResponse:
        response = pb.StoreListLeasesResponse()
        for lease in await self._store.list_leases(request.tenant_id, request.worker_id):
            fill(lease, response.leases.add())
        return _fitting(response)

    async def Feed(self, request: pb.StoreFeedRequest, context: Context) -> pb.StoreFeedResponse:
        page = await self._store.feed(
            tenant_id=request.tenant_id, cursor=request.cursor, limit=request.limit
        )
        response = pb.StoreFeedResponse()
        fill(page, response.page)
        return _fitting(response)

    # --- the store itself ---

    async def Subscribe(
        self, request: pb.StoreSubscribeRequest, context: Context
    ) -> AsyncIterator[pb.StoreSubscribeResponse]:
        subscriber = _Subscriber()
        stop = self._store.subscribe(subscriber.hint)
        self._subscribers.add(subscriber)
        try:
            if self._closed:
                return
            yield pb.StoreSubscribeResponse()
            while (response := await subscriber.next()) is not None:
                yield response
        finally:
            self._subscribers.discard(subscriber)
            stop()

    async def Describe(
        self, request: pb.StoreDescribeRequest, context: Context
    ) -> pb.StoreDescribeResponse:
        response = pb.StoreDescribeResponse()
        fill(await self._store.describe(), response.info)
        return response


class _Subscriber:
    """What one stream has yet to be told: while a message is written, hints are put together."""

    def __init__(self) -> None:
        self._runs: dict[tuple[str, str], int] = {}
        self._wake = asyncio.Event()
        self._ended = False

    def hint(self, tenant_id: str, run_id: str, version: int) -> None:
        """Note that a run may have changed."""
        if len(self._runs) >= HINTS_MAX:
            self._runs = {("", ""): 0}
        elif ("", "") not in self._runs:
            key = (tenant_id, run_id)
            self._runs[key] = max(self._runs.get(key, 0), version)
        self._wake.set()

    def end(self) -> None:
        """Let the stream end."""
        self._ended = True
        self._wake.set()

    async def next(self) -> pb.StoreSubscribeResponse | None:
        """Wait for hints and return all of them; None: the stream is to end."""
        await self._wake.wait()
        if self._ended:
            return None
        self._wake.clear()
        response = pb.StoreSubscribeResponse()
        for (tenant_id, run_id), version in self._runs.items():
            response.hints.add(tenant_id=tenant_id, run_id=run_id, version=version)
        self._runs.clear()
        return response


def _fitting(response: M) -> M:
    """Return the response if it fits into a message.

    Raises:
        ResourceExhausted: it doesn't: whoever asked is to ask for less at once.
    """
    size = response.ByteSize()
    if size > ANSWER_BYTES_MAX:
        raise ResourceExhausted(
            f"the answer has {size:,} bytes; limit: {ANSWER_BYTES_MAX:,}; ask for less at once",
            reason="RESPONSE_TOO_LARGE",
        )
    return response
