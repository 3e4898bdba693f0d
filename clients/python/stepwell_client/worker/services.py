"""The services of a worker for its steps, over its stream, its heartbeats, and separate calls."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from stepwell_client.agent.journal.journal import BEGIN
from stepwell_client.errors import LeaseLost, StepwellClientError, Unavailable
from stepwell_client.link.backoff import READS, SAVES, Backoff
from stepwell_client.v1 import types_pb2, worker_pb2
from stepwell_client.worker.heartbeats import Heartbeats
from stepwell_client.worker.journal_writer import lost
from stepwell_client.worker.log_sender import LogSender
from stepwell_client.worker.state import StepLease, WorkerState
from stepwell_client.worker.transport import Transport

CALL_SECONDS = 10.0


class WorkerServices:
    """The `StepServices` of a worker."""

    def __init__(
        self,
        state: WorkerState,
        heartbeats: Heartbeats,
        logs: LogSender,
        transport: Transport,
        send: Callable[[], None],
    ) -> None:
        self._state = state
        self._heartbeats = heartbeats
        self._logs = logs
        self._transport = transport
        self._send = send

    def _lease_of(self, assignment: worker_pb2.Assignment) -> StepLease | None:
        key = (assignment.run.run_id, assignment.execution.execution_id)
        return self._state.running.get(key)

    async def begin(self, assignment: worker_pb2.Assignment) -> None:
        lease = self._lease_of(assignment)
        accepted = False
        if lease is not None and not (lease.abandoned or lease.lost):
            if lease.begin is None:
                self._state.begin(lease, asyncio.get_running_loop().create_future())
                self._send()
            # It is sent again over every stream until it is answered.
            accepted = lease.begin is not None and await asyncio.shield(lease.begin)
        if not accepted:
            execution = assignment.execution.execution_id
            raise LeaseLost(f"execution {execution} must not begin: its lease is lost")

    def heartbeat(
        self,
        assignment: worker_pb2.Assignment,
        progress: types_pb2.Payload | None,
        session: types_pb2.Session | None,
    ) -> None:
        lease = self._lease_of(assignment)
        if lease is None:
            return
        self._heartbeats.note_activity(lease)
        if progress is not None or session is not None:
            self._heartbeats.report(lease, progress, session)

    async def read_results(
        self, assignment: worker_pb2.Assignment, task_ids: Sequence[str], page_token: str
    ) -> worker_pb2.ReadResultsResponse:
        lease = self._lease_of(assignment)
        request = worker_pb2.ReadResultsRequest(
            lease=assignment.lease,
            task_ids=task_ids,
            page_token=page_token,
        )
        return await self._read(lease, self._transport.read_results, request)

    async def read_journal(
        self, assignment: worker_pb2.Assignment, page_token: str
    ) -> worker_pb2.JournalPage:
        lease = self._lease_of(assignment)
        request = worker_pb2.ReadJournalRequest(
            lease=assignment.lease,
            page_token=page_token,
        )
        response = await self._read(lease, self._transport.read_journal, request)
        return response.page

    async def read_thread(
        self, assignment: worker_pb2.Assignment, *, last: int, to: int | None, state: bool
    ) -> worker_pb2.ReadThreadResponse:
        lease = self._lease_of(assignment)
        request = worker_pb2.ReadThreadRequest(
            lease=assignment.lease, last=last, to=to, state=state
        )
        whole = await self._read(lease, self._transport.read_thread, request)
        request.to, request.first = whole.to, whole.next
        while request.first:
            page = await self._read(lease, self._transport.read_thread, request)
            whole.messages.extend(page.messages)
            request.first = page.next
        return whole

    def write_journal(
        self,
        assignment: worker_pb2.Assignment,
        write: worker_pb2.JournalWrite,
    ) -> asyncio.Future[worker_pb2.JournalAck]:
        lease = self._lease_of(assignment)
        if lease is None or lease.abandoned or lease.lost or lease.reported:
            answered: asyncio.Future[worker_pb2.JournalAck] = (
                asyncio.get_running_loop().create_future()
            )
            answered.set_result(lost(""))
            return answered
        self._heartbeats.note_activity(lease)
        answered = self._state.journal_writer.add(lease.key, lease.token, write)
        lease.begun_calls.update(one.key for one in write.entries if one.mark == BEGIN)
        answered.add_done_callback(partial(_note_ends, lease, write.entries))
        self._send()
        return answered

    def follow(
        self,
        assignment: worker_pb2.Assignment,
        ended: Callable[[types_pb2.JournalEntry], None],
    ) -> None:
        lease = self._lease_of(assignment)
        if lease is not None:
            lease.follow(ended)

    async def _read(
        self, lease: StepLease | None, method: Callable[..., Awaitable[Any]], request: Any
    ) -> Any:
        """Read data of a step as long as its lease lives. Raises LeaseLost when it ends."""

        def gives_up() -> bool:
            return lease is None or lease.abandoned or lease.lost or lease.reported

        response = await self._call(method, request, READS, gives_up)
        if response is None or response.lease.status == worker_pb2.LEASE_STATUS_LOST:
            raise LeaseLost(f"execution {request.lease.execution_id} is not wanted any more")
        return response

    def write(
        self, assignment: worker_pb2.Assignment, text: str, level: str, *, chunk: bool
    ) -> None:
        lease = self._lease_of(assignment)
        if lease is not None and not (lease.abandoned or lease.lost):
            self._heartbeats.note_activity(lease)
            self._logs.write(lease.key, lease.token, text, level, chunk=chunk)

    async def flush(self, assignment: worker_pb2.Assignment) -> None:
        lease = self._lease_of(assignment)
        if lease is not None:
            await self._logs.flush(lease.key)

    async def save_messages(
        self,
        assignment: worker_pb2.Assignment,
        messages: Sequence[types_pb2.Message],
        after: int,
    ) -> None:
        lease = self._lease_of(assignment)
        execution_id = assignment.execution.execution_id
        gone = LeaseLost(f"execution {execution_id} is not wanted any more")
        if lease is None or lease.abandoned or lease.lost:
            raise gone
        appended = worker_pb2.Appended(
            lease=lease.message,
            messages=messages,
            after=after,
        )
        # Entries that arrived already are not stored twice.
        request = worker_pb2.AppendOutputRequest(appended=[appended])
        response = await self._call(self._transport.append, request, SAVES)
        if any(state.status == worker_pb2.LEASE_STATUS_LOST for state in response.leases):
            raise gone

    async def _call(
        self,
        method: Callable[..., Awaitable[Any]],
        request: Any,
        backoff: Backoff,
        gives_up: Callable[[], bool] = lambda: False,
    ) -> Any:
        """Call until a server answers; return None if `gives_up` becomes true first."""
        runtime = self._transport.runtime
        failures = 0
        while not gives_up():
            try:
                return await method(request, CALL_SECONDS)
            except StepwellClientError as problem:
                error = problem
            failures += 1
            comes_back = isinstance(error, Unavailable) or (
                failures == 1 and self._transport.renews(error)
            )
            if not comes_back or failures == backoff.attempts_max:
                raise error
            await runtime.sleep(backoff.seconds(runtime, failures))
        return None

    async def fetch_messages(
        self, assignment: worker_pb2.Assignment
    ) -> Sequence[types_pb2.Message]:
        run_id, task_id = assignment.run.run_id, assignment.execution.task_id
        return [one async for one in self._transport.messages(run_id, task_id)]


def _note_ends(
    lease: StepLease,
    entries: Sequence[types_pb2.JournalEntry],
    answered: asyncio.Future[worker_pb2.JournalAck],
) -> None:
    """Note the calls whose functions no longer run, or never will."""
    for entry, state in zip(entries, answered.result().entries, strict=False):
        if entry.mark != BEGIN or state.status != worker_pb2.ENTRY_STATUS_ACCEPTED:
            lease.begun_calls.discard(entry.key)
