"""What the steps of a worker need, over its stream, its heartbeats, and calls of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import grpc

from stepwell_client._client import Client
from stepwell_client._errors import LeaseLost, StepwellClientError, Unauthenticated, Unavailable
from stepwell_client._heartbeats import Heartbeats
from stepwell_client._ledger import Held, Ledger
from stepwell_client._runtime import full_jitter
from stepwell_client._status import from_rpc_error
from stepwell_client._writer import Writer
from stepwell_client.v1 import types_pb2, worker_pb2, worker_pb2_grpc

SAVE_SECONDS = 10.0
SAVE_ATTEMPTS_MAX = 6
BACKOFF_SECONDS = 0.1
BACKOFF_SECONDS_MAX = 2.0


class WorkerServices:
    """The `StepServices` of a worker."""

    def __init__(
        self,
        ledger: Ledger,
        beats: Heartbeats,
        writer: Writer,
        client: Client,
        wake: asyncio.Event,
    ) -> None:
        self._ledger = ledger
        self._beats = beats
        self._writer = writer
        self._client = client
        self._wake = wake

    def _held(self, assignment: worker_pb2.Assignment) -> Held | None:
        key = (assignment.run.spec.run_id, assignment.execution.execution_id)
        return self._ledger.running.get(key)

    async def begin(self, assignment: worker_pb2.Assignment) -> None:
        held = self._held(assignment)
        accepted = False
        if held is not None and not (held.abandoned or held.lost):
            if held.begin is None:
                self._ledger.begin(held, asyncio.get_running_loop().create_future())
                self._wake.set()
            # It is sent again over every stream until it is answered.
            accepted = held.begin is not None and await asyncio.shield(held.begin)
        if not accepted:
            execution = assignment.execution.execution_id
            raise LeaseLost(f"execution {execution} must not begin: its lease is lost")

    def heartbeat(
        self,
        assignment: worker_pb2.Assignment,
        progress: types_pb2.Payload | None,
        session: types_pb2.Session | None,
    ) -> None:
        held = self._held(assignment)
        if held is not None and (progress is not None or session is not None):
            self._beats.tell(held, progress, session)

    async def fetch_results(
        self, assignment: worker_pb2.Assignment, execution_ids: Sequence[str]
    ) -> Mapping[str, types_pb2.Payload]:
        return await self._client.payloads(assignment.run.spec.run_id, execution_ids)

    def write(
        self, assignment: worker_pb2.Assignment, text: str, level: str, *, chunk: bool
    ) -> None:
        held = self._held(assignment)
        if held is not None and not (held.abandoned or held.lost):
            self._writer.write(held.key, held.token, text, level, chunk=chunk)

    async def flush(self, assignment: worker_pb2.Assignment) -> None:
        held = self._held(assignment)
        if held is not None:
            await self._writer.flush(held.key)

    async def save_messages(
        self,
        assignment: worker_pb2.Assignment,
        messages: Sequence[types_pb2.Message],
        after: int,
    ) -> None:
        held = self._held(assignment)
        execution_id = assignment.execution.execution_id
        lost = LeaseLost(f"execution {execution_id} is not wanted any more")
        if held is None or held.abandoned or held.lost:
            raise lost
        appended = worker_pb2.Appended(
            run_id=held.key[0],
            execution_id=execution_id,
            lease_token=held.token,
            messages=messages,
            after=after,
        )
        response = await self._append(worker_pb2.AppendRequest(appended=[appended]))
        if any(state.status == worker_pb2.LEASE_STATUS_LOST for state in response.leases):
            raise lost

    async def _append(self, request: worker_pb2.AppendRequest) -> worker_pb2.AppendResponse:
        """Call until it is answered: what came already is not kept twice."""
        stub = worker_pb2_grpc.WorkerStub(self._client.channel)
        access, runtime = self._client.connection.access, self._client.runtime
        failures = 0
        while True:
            error: StepwellClientError
            try:
                return await stub.Append(request, timeout=SAVE_SECONDS, metadata=access.metadata)
            except grpc.RpcError as problem:
                error = from_rpc_error(problem)
            failures += 1
            comes_back = isinstance(error, Unavailable) or (
                isinstance(error, Unauthenticated) and failures == 1 and access.reload()
            )
            if not comes_back or failures >= SAVE_ATTEMPTS_MAX:
                raise error
            await runtime.sleep(
                full_jitter(runtime, failures, base=BACKOFF_SECONDS, cap=BACKOFF_SECONDS_MAX)
            )

    async def fetch_messages(
        self, assignment: worker_pb2.Assignment
    ) -> Sequence[types_pb2.Message]:
        run_id, task_id = assignment.run.spec.run_id, assignment.execution.task_id
        return [one async for one in self._client.messages(run_id, task_id=task_id)]
