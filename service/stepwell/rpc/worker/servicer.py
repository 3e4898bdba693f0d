"""Servicer of the Worker service."""

# ruff: noqa: N802, ARG002 - names and arguments are the protocol's

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from functools import partial

from stepwell.core.records.errors import (
    InvalidArgument,
    StepwellError,
    StoreUnavailable,
    Violation,
)
from stepwell.core.records.states import RunStatus
from stepwell.engine.executor import Heartbeat
from stepwell.engine.results import ResultsQuery
from stepwell.engine.thread_reader import ThreadQuery
from stepwell.rpc.caller import tenant
from stepwell.rpc.worker.append import append
from stepwell.rpc.worker.intake import Answer, Intake, Receipt
from stepwell.rpc.worker.journal_writes import read_journal, write_all
from stepwell.rpc.worker.stream import Stream, serve_stream
from stepwell.rpc.worker.worker_dependencies import WorkerDependencies
from stepwell.wire.leases import named
from stepwell.wire.records import fill, to_record
from stepwell.wire.values import get_ms
from stepwell_client.v1 import worker_pb2 as pb
from stepwell_client.v1.worker_pb2_grpc import WorkerServicer

_DIGITS_MAX = 9
"""The most digits of a place in a list of results."""


class Servicer(WorkerServicer):
    """Serves workers. The gate has checked the caller and the request's limits, except those of its items."""

    def __init__(
        self, deps: WorkerDependencies, message_bytes_max: int, idle_ms: int | None = None
    ) -> None:
        """`idle_ms`: the time after which an idle stream sends an empty message; None: never."""
        self._deps = deps
        self._message_bytes_max = message_bytes_max
        self._idle_ms = idle_ms
        self._streams: set[Stream] = set()

    def Work(
        self, request_iterator: AsyncIterator[pb.WorkRequest], context: object
    ) -> AsyncGenerator[pb.WorkResponse]:
        return serve_stream(
            self._deps, self._streams, request_iterator, self._message_bytes_max, self._idle_ms
        )

    async def ReportOutcomes(
        self, request: pb.ReportOutcomesRequest, context: object
    ) -> pb.ReportOutcomesResponse:
        intake = Intake(self._deps.executor, self._deps.runtime, tenant())
        loop = asyncio.get_running_loop()
        answers: list[asyncio.Future[Answer]] = []
        for outcome in request.outcomes:
            answer: asyncio.Future[Answer] = loop.create_future()
            answers.append(answer)
            intake.accept(outcome, partial(_settle, answer))
        response = pb.ReportOutcomesResponse()
        for answer in answers:
            receipt = await answer
            if isinstance(receipt, Receipt):
                receipt.write(response.acks.add())
            elif isinstance(receipt, StepwellError):
                raise receipt
            else:
                raise StoreUnavailable("an outcome was not taken; send it again")
        return response

    async def Heartbeat(
        self, request: pb.HeartbeatRequest, context: object
    ) -> pb.HeartbeatResponse:
        beats = [
            Heartbeat(
                run_id=one.lease.run_id,
                execution_id=one.lease.execution_id,
                token=one.lease.token,
                progress=to_record(one.progress) if one.HasField("progress") else None,
                session=to_record(one.session),
                idle_ms=get_ms(one.idle) if one.HasField("idle") else None,
            )
            for one in request.heartbeats
        ]
        alive = await self._deps.executor.heartbeat(tenant(), beats)
        return pb.HeartbeatResponse(leases=await self._states(request.heartbeats, alive))

    async def AppendOutput(
        self, request: pb.AppendOutputRequest, context: object
    ) -> pb.AppendOutputResponse:
        alive = await append(self._deps, request)
        return pb.AppendOutputResponse(leases=await self._states(request.appended, alive))

    async def ReadResults(
        self, request: pb.ReadResultsRequest, context: object
    ) -> pb.ReadResultsResponse:
        query = ResultsQuery(
            run_id=request.lease.run_id,
            execution_id=request.lease.execution_id,
            token=request.lease.token,
            task_ids=tuple(request.task_ids),
            first=_first(request.page_token),
        )
        page = await self._deps.executor.read_results(tenant(), query)
        (lease,) = await self._states([request], [page is not None])
        if page is None:
            return pb.ReadResultsResponse(lease=lease)
        response = pb.ReadResultsResponse(
            lease=lease, next_page_token=str(page.next) if page.next else ""
        )
        for result in page.results:
            fill(result, response.results.add())
        return response

    async def WriteJournal(
        self, request: pb.WriteJournalRequest, context: object
    ) -> pb.WriteJournalResponse:
        return await write_all(self._deps, request)

    async def ReadJournal(
        self, request: pb.ReadJournalRequest, context: object
    ) -> pb.ReadJournalResponse:
        page = await read_journal(self._deps, request)
        (lease,) = await self._states([request], [page is not None])
        response = pb.ReadJournalResponse(lease=lease)
        if page is not None:
            fill(page, response.page)
        return response

    async def ReadThread(
        self, request: pb.ReadThreadRequest, context: object
    ) -> pb.ReadThreadResponse:
        query = ThreadQuery(
            run_id=request.lease.run_id,
            execution_id=request.lease.execution_id,
            token=request.lease.token,
            last=request.last,
            to=request.to if request.HasField("to") else -1,
            first=request.first,
            state=request.state,
        )
        page = await self._deps.executor.read_thread(tenant(), query)
        (lease,) = await self._states([request], [page is not None])
        response = pb.ReadThreadResponse(lease=lease)
        if page is not None:
            response.to, response.next, response.state_version = page.to, page.next, page.version
            for message in page.messages:
                fill(message, response.messages.add())
            if page.state is not None:
                fill(page.state, response.state)
        return response

    async def _states(
        self,
        leases: Sequence[
            pb.LeaseHeartbeat
            | pb.Appended
            | pb.ReadResultsRequest
            | pb.ReadJournalRequest
            | pb.ReadThreadRequest
        ],
        alive: Sequence[bool],
    ) -> list[pb.LeaseState]:
        """Return the state of these leases; for a lost lease also whether its run was cancelled."""
        cancelled = await self._cancelled(
            {one.lease.run_id for one, lives in zip(leases, alive, strict=True) if not lives}
        )
        return [
            pb.LeaseState(
                lease=named(one.lease),
                status=pb.LEASE_STATUS_LIVE if lives else pb.LEASE_STATUS_LOST,
                cancel_requested=not lives and one.lease.run_id in cancelled,
            )
            for one, lives in zip(leases, alive, strict=True)
        ]

    async def _cancelled(self, run_ids: set[str]) -> set[str]:
        """Return the cancelled ones among these runs."""
        cancelled: set[str] = set()
        for run_id in run_ids:
            run = await self._deps.executor.store.get_run(tenant(), run_id)
            if run is not None and run.status is RunStatus.CANCELLED:
                cancelled.add(run_id)
        return cancelled

    async def end_streams(self) -> None:
        """End every stream with DRAINING, and wait until the message is sent."""
        streams = tuple(self._streams)
        for stream in streams:
            stream.outgoing.end(pb.WORK_END_REASON_DRAINING)
        for stream in streams:
            await stream.ended.wait()


def _first(page_token: str) -> int:
    """Return the place in the list at which a page of results starts.

    Raises:
        InvalidArgument: the token is invalid.
    """
    if not page_token:
        return 0
    if not (page_token.isascii() and page_token.isdigit() and len(page_token) <= _DIGITS_MAX):
        what = "is none that a page of these results had"
        violations = (Violation("page_token", what),)
        raise InvalidArgument(f"page_token {what}", violations, reason="PAGE_TOKEN_INVALID")
    return int(page_token)


def _settle(waiting: asyncio.Future[Answer], answer: Answer) -> None:
    if not waiting.done():
        waiting.set_result(answer)
