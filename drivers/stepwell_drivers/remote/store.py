"""The Store port over a Store service: each method is one call, or a few where one would be too large."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from google.protobuf.message import Message
from grpc.aio import UnaryUnaryMultiCallable
from msgspec.structs import replace

from stepwell.core.port import (
    Claimed,
    ClaimRequest,
    Commit,
    CommitResult,
    EndedQuery,
    EndedRun,
    EventPage,
    ExecutionPage,
    FeedPage,
    FoundResult,
    Hint,
    InputPage,
    InputQuery,
    Loaded,
    LogPage,
    MessagePage,
    Presence,
    Renewal,
    RunPage,
    RunQuery,
    Runtime,
    StoredPayload,
    StoreInfo,
    TaskPage,
    WorkerLease,
)
from stepwell.core.records.errors import OutcomeUnknown
from stepwell.core.records.limits import DURATION_MS_MAX
from stepwell.core.records.model import InputRequest, LogEntry, Outcome, Plan, Record, Run
from stepwell.core.records.states import LogKind
from stepwell.wire import fill, to_record
from stepwell_client.v1 import store_pb2 as pb
from stepwell_client.v1 import types_pb2
from stepwell_drivers.remote.errors import Fault
from stepwell_drivers.remote.hints import RemoteHints
from stepwell_drivers.remote.link import Link
from stepwell_drivers.remote.packing import ITEMS_MAX, packed, storable, within

Q = TypeVar("Q")
A = TypeVar("A")
M = TypeVar("M", bound=Message)


class RemoteStore:
    """One open store behind a Store service."""

    def __init__(self, link: Link, runtime: Runtime) -> None:
        self._link = link
        self._stub = link.stub
        self._hints = RemoteHints(link, runtime)

    async def _ask(self, method: UnaryUnaryMultiCallable[Q, A], request: Q) -> A:
        """Call what may be called any number of times."""
        with self._link.call():
            answer = await self._link.ask(method, request)
        if isinstance(answer, Fault):
            raise answer.error
        return answer

    async def _page(
        self, method: UnaryUnaryMultiCallable[Q, A], make: Callable[[int], Q], limit: int
    ) -> A:
        """Ask for a page; for half of it while it is too large."""
        limit = within(limit)
        with self._link.call():
            while True:
                answer = await self._link.ask(method, make(limit))
                if not isinstance(answer, Fault):
                    return answer
                if not answer.too_large or limit == 1:
                    raise answer.error
                limit //= 2

    async def _by_keys(
        self,
        method: UnaryUnaryMultiCallable[Q, A],
        make: Callable[[Sequence[str]], Q],
        keys: Sequence[str],
    ) -> list[A]:
        """Ask for what stands under keys: in several answers where one would be too large."""
        if len(keys) <= ITEMS_MAX:
            with self._link.call():
                answer = await self._link.ask(method, make(keys))
            if not isinstance(answer, Fault):
                return [answer]
            if not answer.too_large or len(keys) < 2:
                raise answer.error
        half = len(keys) // 2
        first = await self._by_keys(method, make, keys[:half])
        return first + await self._by_keys(method, make, keys[half:])

    # --- writing ---

    async def commit(self, commits: Sequence[Commit]) -> Sequence[CommitResult]:
        results: list[CommitResult] = []
        with self._link.call():
            # All are made before one is sent: what can't be sent is known in time.
            for request in tuple(packed(commits, _commits)):
                answer = await self._link.tell(self._stub.Commit, request)
                if isinstance(answer, Fault):
                    # What went before in this call may be applied: "nothing was" is not so then.
                    raise OutcomeUnknown(answer.error.message) if results else answer.for_commit()
                results += [to_record(result) for result in answer.results]
        if len(results) != len(commits):
            raise OutcomeUnknown(f"{len(results)} verdicts came for {len(commits)} commits")
        return results

    async def renew(self, renewals: Sequence[Renewal]) -> Sequence[bool]:
        held: list[bool] = []
        for request in tuple(packed(renewals, _renewals)):
            held += (await self._ask(self._stub.Renew, request)).held
        return held

    async def put_presence(self, presences: Sequence[Presence], *, ttl_ms: int) -> None:
        for request in tuple(packed(presences, _presences)):
            request.ttl.FromMilliseconds(min(max(ttl_ms, 0), DURATION_MS_MAX))
            await self._ask(self._stub.PutPresence, request)

    async def append_logs(self, tenant_id: str, run_id: str, entries: Sequence[LogEntry]) -> None:
        """Append to a run's log. After StoreUnavailable it may have been done all the same."""

        def make(entries: Sequence[LogEntry]) -> pb.StoreAppendLogsRequest:
            request = pb.StoreAppendLogsRequest(tenant_id=tenant_id, run_id=run_id)
            for entry in entries:
                fill(entry, request.entries.add())
            return request

        with self._link.call():
            for request in tuple(packed(entries, make)):
                # Sent again it would stand there twice.
                answer = await self._link.tell(self._stub.AppendLogs, request)
                if isinstance(answer, Fault):
                    raise answer.error

    async def delete_run(self, tenant_id: str, run_id: str, *, version: int) -> bool:
        with self._link.call():
            if version < 1:
                return False
            request = storable(
                pb.StoreDeleteRunRequest, tenant_id=tenant_id, run_id=run_id, version=version
            )
            answer = await self._link.tell(self._stub.DeleteRun, request)
            if not isinstance(answer, Fault):
                return answer.deleted
            if not answer.certain and await self.get_run(tenant_id, run_id) is None:
                return True  # The answer was lost, and what it would have said can be seen.
        raise answer.error

    async def trim_logs(
        self, tenant_id: str, run_id: str, *, execution_id: str, kind: LogKind
    ) -> None:
        request = storable(
            pb.StoreTrimLogsRequest,
            tenant_id=tenant_id,
            run_id=run_id,
            execution_id=execution_id,
            kind=types_pb2.LogKind.Value(f"LOG_KIND_{kind.name}"),
        )
        await self._ask(self._stub.TrimLogs, request)

    async def purge_logs(self, *, older_ms: int, limit: int) -> int:
        """Remove old log entries. Where an answer was lost, it tells of fewer than were removed."""
        request = pb.StorePurgeLogsRequest(limit=within(limit))
        request.older.FromMilliseconds(max(older_ms, 0))
        return (await self._ask(self._stub.PurgeLogs, request)).removed

    async def claim(self, request: ClaimRequest) -> Claimed:
        asked = pb.StoreClaimRequest()
        storable(_filled, request, asked.request)
        return to_record((await self._ask(self._stub.Claim, asked)).claimed)

    # --- reading ---

    async def get_run(self, tenant_id: str, run_id: str) -> Run | None:
        request = storable(pb.StoreGetRunRequest, tenant_id=tenant_id, run_id=run_id)
        answer = await self._ask(self._stub.GetRun, request)
        return to_record(answer.run) if answer.HasField("run") else None

    async def load(self, tenant_id: str, run_id: str, *, since: int = 0) -> Loaded | None:
        request = storable(
            pb.StoreLoadRequest, tenant_id=tenant_id, run_id=run_id, since=max(since, 0)
        )
        answer = await self._ask(self._stub.Load, request)
        return to_record(answer.loaded) if answer.HasField("loaded") else None

    async def read_payloads(
        self, tenant_id: str, run_id: str, keys: Sequence[str]
    ) -> Sequence[StoredPayload]:
        def make(keys: Sequence[str]) -> pb.StoreReadPayloadsRequest:
            return storable(
                pb.StoreReadPayloadsRequest, tenant_id=tenant_id, run_id=run_id, keys=keys
            )

        answers = await self._by_keys(self._stub.ReadPayloads, make, keys)
        return [to_record(found) for answer in answers for found in answer.payloads]

    async def read_outcomes(
        self, tenant_id: str, run_id: str, execution_ids: Sequence[str]
    ) -> Sequence[Outcome]:
        def make(keys: Sequence[str]) -> pb.StoreReadOutcomesRequest:
            return storable(
                pb.StoreReadOutcomesRequest, tenant_id=tenant_id, run_id=run_id, execution_ids=keys
            )

        answers = await self._by_keys(self._stub.ReadOutcomes, make, execution_ids)
        return [to_record(found) for answer in answers for found in answer.outcomes]

    async def read_plan(self, tenant_id: str, run_id: str, revision: int) -> Plan | None:
        request = storable(
            pb.StoreReadPlanRequest,
            tenant_id=tenant_id,
            run_id=run_id,
            revision=max(revision, 0),
        )
        answer = await self._ask(self._stub.ReadPlan, request)
        return to_record(answer.plan) if answer.HasField("plan") else None

    async def read_events(
        self, tenant_id: str, run_id: str, *, after: int, limit: int
    ) -> EventPage | None:
        run = {"tenant_id": tenant_id, "run_id": run_id}
        after = max(after, 0)

        def make(limit: int) -> pb.StoreReadEventsRequest:
            return storable(pb.StoreReadEventsRequest, **run, after=after, limit=limit)

        answer = await self._page(self._stub.ReadEvents, make, limit)
        return to_record(answer.page) if answer.HasField("page") else None

    async def list_runs(self, query: RunQuery) -> RunPage:
        def make(limit: int) -> pb.StoreListRunsRequest:
            request = pb.StoreListRunsRequest()
            storable(_filled, replace(query, limit=limit), request.query)
            return request

        return to_record((await self._page(self._stub.ListRuns, make, query.limit)).page)

    async def list_inputs(self, query: InputQuery) -> InputPage:
        def make(limit: int) -> pb.StoreListInputsRequest:
            request = pb.StoreListInputsRequest()
            storable(_filled, replace(query, limit=limit), request.query)
            return request

        return to_record((await self._page(self._stub.ListInputs, make, query.limit)).page)

    async def read_inputs(
        self, tenant_id: str, run_id: str, input_ids: Sequence[str]
    ) -> Sequence[InputRequest]:
        def make(keys: Sequence[str]) -> pb.StoreReadInputsRequest:
            return storable(
                pb.StoreReadInputsRequest, tenant_id=tenant_id, run_id=run_id, input_ids=keys
            )

        answers = await self._by_keys(self._stub.ReadInputs, make, input_ids)
        return [to_record(found) for answer in answers for found in answer.inputs]

    async def find_keyed(
        self, tenant_id: str, pipeline_id: str, keys: Sequence[str]
    ) -> Sequence[FoundResult]:
        def make(keys: Sequence[str]) -> pb.StoreFindKeyedRequest:
            return storable(
                pb.StoreFindKeyedRequest, tenant_id=tenant_id, pipeline_id=pipeline_id, keys=keys
            )

        answers = await self._by_keys(self._stub.FindKeyed, make, keys)
        return [to_record(found) for answer in answers for found in answer.results]

    async def list_ended(self, query: EndedQuery) -> Sequence[EndedRun]:
        def make(limit: int) -> pb.StoreListEndedRequest:
            request = pb.StoreListEndedRequest()
            storable(_filled, replace(query, limit=limit), request.query)
            return request

        answer = await self._page(self._stub.ListEnded, make, query.limit)
        return [to_record(ended) for ended in answer.runs]

    async def list_tasks(
        self, tenant_id: str, run_id: str, *, cursor: str = "", limit: int = 100
    ) -> TaskPage:
        page = {"tenant_id": tenant_id, "run_id": run_id, "cursor": cursor}

        def make(limit: int) -> pb.StoreListTasksRequest:
            return storable(pb.StoreListTasksRequest, **page, limit=limit)

        return to_record((await self._page(self._stub.ListTasks, make, limit)).page)

    async def list_executions(
        self, tenant_id: str, run_id: str, *, task_id: str = "", cursor: str = "", limit: int = 100
    ) -> ExecutionPage:
        page = {"tenant_id": tenant_id, "run_id": run_id, "task_id": task_id, "cursor": cursor}

        def make(limit: int) -> pb.StoreListExecutionsRequest:
            return storable(pb.StoreListExecutionsRequest, **page, limit=limit)

        return to_record((await self._page(self._stub.ListExecutions, make, limit)).page)

    async def read_messages(
        self, tenant_id: str, run_id: str, *, task_id: str = "", cursor: str = "", limit: int = 100
    ) -> MessagePage:
        page = {"tenant_id": tenant_id, "run_id": run_id, "task_id": task_id, "cursor": cursor}

        def make(limit: int) -> pb.StoreReadMessagesRequest:
            return storable(pb.StoreReadMessagesRequest, **page, limit=limit)

        return to_record((await self._page(self._stub.ReadMessages, make, limit)).page)

    async def read_logs(
        self,
        tenant_id: str,
        run_id: str,
        *,
        execution_id: str = "",
        cursor: str = "",
        limit: int = 100,
    ) -> LogPage:
        run = {"tenant_id": tenant_id, "run_id": run_id}
        page = {**run, "execution_id": execution_id, "cursor": cursor}

        def make(limit: int) -> pb.StoreReadLogsRequest:
            return storable(pb.StoreReadLogsRequest, **page, limit=limit)

        return to_record((await self._page(self._stub.ReadLogs, make, limit)).page)

    async def list_presence(self, tenant_id: str) -> Sequence[Presence]:
        request = storable(pb.StoreListPresenceRequest, tenant_id=tenant_id)
        answer = await self._ask(self._stub.ListPresence, request)
        return [to_record(presence) for presence in answer.presences]

    async def list_leases(self, tenant_id: str, worker_id: str) -> Sequence[WorkerLease]:
        request = storable(pb.StoreListLeasesRequest, tenant_id=tenant_id, worker_id=worker_id)
        answer = await self._ask(self._stub.ListLeases, request)
        return [to_record(lease) for lease in answer.leases]

    async def feed(self, *, tenant_id: str = "", cursor: str = "", limit: int = 1_000) -> FeedPage:
        page = {"tenant_id": tenant_id, "cursor": cursor}

        def make(limit: int) -> pb.StoreFeedRequest:
            return storable(pb.StoreFeedRequest, **page, limit=limit)

        return to_record((await self._page(self._stub.Feed, make, limit)).page)

    # --- the store itself ---

    def subscribe(self, hint: Hint) -> Callable[[], None]:
        return self._hints.subscribe(hint)

    async def describe(self) -> StoreInfo:
        answer = await self._ask(self._stub.Describe, pb.StoreDescribeRequest())
        info: StoreInfo = to_record(answer.info)
        return replace(info, detail=f"{info.detail}; by the Store service at {self._link.name}")

    async def close(self) -> None:
        await self._hints.close()
        await self._link.close()


def _filled(record: Record, message: M) -> M:
    fill(record, message)
    return message


def _commits(commits: Sequence[Commit]) -> pb.StoreCommitRequest:
    request = pb.StoreCommitRequest()
    for commit in commits:
        fill(commit, request.commits.add())
    return request


def _renewals(renewals: Sequence[Renewal]) -> pb.StoreRenewRequest:
    request = pb.StoreRenewRequest()
    for renewal in renewals:
        fill(renewal, request.renewals.add())
    return request


def _presences(presences: Sequence[Presence]) -> pb.StorePutPresenceRequest:
    request = pb.StorePutPresenceRequest()
    for presence in presences:
        fill(presence, request.presences.add())
    return request
