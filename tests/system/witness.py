"""A worker that no kill reaches: it notes what was acknowledged, and compares that with the store."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import grpc
import grpc.aio

from stepwell_client import Client, EventType
from stepwell_client.v1 import types_pb2, worker_pb2, worker_pb2_grpc
from tests.system.processes import Place


class Witness:
    """Speaks the Worker service by hand and keeps the acknowledgement log."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._sent: dict[str, worker_pb2.Outcome] = {}
        self.acknowledged: dict[tuple[str, str], bytes] = {}
        """(run, execution) -> the bytes whose commit was acknowledged."""

    async def work(self) -> None:
        """Serve until cancelled, over however many connections that takes."""
        token = (self._place.folder / "state/stepwell/token").read_text().strip()
        metadata = (("authorization", f"Bearer {token}"),)
        while True:
            async with grpc.aio.insecure_channel(self._place.target) as channel:
                call = worker_pb2_grpc.WorkerStub(channel).Work(metadata=metadata)
                try:
                    await self._serve(call)
                except (grpc.RpcError, asyncio.InvalidStateError):
                    pass
                finally:
                    call.cancel()
            await asyncio.sleep(0.05)

    async def _serve(self, call: grpc.aio.StreamStreamCall[Any, Any]) -> None:
        held = [
            worker_pb2.HeldLease(
                run_id=one.run_id, execution_id=one.execution_id, lease_token=one.lease_token
            )
            for one in self._sent.values()
        ]
        hello = worker_pb2.Hello(
            worker_id="witness", instance_id="only", kinds=[types_pb2.STEP_KIND_TASK], held=held
        )
        await call.write(
            worker_pb2.WorkRequest(hello=hello, credits=1, outcomes=self._sent.values())
        )
        while isinstance(response := await call.read(), worker_pb2.WorkResponse):
            outcomes = self._take(response)
            if outcomes:
                # Slow enough for the other worker to have its share, and to be killed over it.
                await asyncio.sleep(0.1)
                await call.write(worker_pb2.WorkRequest(outcomes=outcomes, credits=len(outcomes)))

    def _take(self, response: worker_pb2.WorkResponse) -> list[worker_pb2.Outcome]:
        outcomes: list[worker_pb2.Outcome] = []
        for ack in response.acks:
            outcome = self._sent.pop(ack.delivery_id, None)
            if outcome is not None and ack.status == worker_pb2.ACK_STATUS_ACCEPTED:
                key = (outcome.run_id, outcome.execution_id)
                self.acknowledged[key] = outcome.completed.result.data
        for assignment in response.assignments:
            execution = assignment.execution.execution_id
            outcome = worker_pb2.Outcome(
                delivery_id=f"{assignment.run.spec.run_id}/{execution}",
                run_id=assignment.run.spec.run_id,
                execution_id=execution,
                lease_token=assignment.lease_token,
            )
            data = f'"{assignment.lease_token[:8]} by the witness"'.encode()
            outcome.completed.result.data = data
            self._sent[outcome.delivery_id] = outcome
            outcomes.append(outcome)
        return outcomes

    async def check(self, client: Client, started: Sequence[str]) -> int:
        """Compare the log with the store; returns how many acknowledged outcomes were compared."""
        for run_id in started:
            check_events([event async for event in client.watch(run_id)])
        for (run_id, execution_id), data in self.acknowledged.items():
            (payload,) = (await client.payloads(run_id, [execution_id])).values()
            assert payload is not None, "S3"
            assert payload.data == data, "S7"
            tasks = [entry.task async for entry in client.tasks(run_id)]
            assert [t.result_id for t in tasks].count(execution_id) == 1, "S3"
        return len(self.acknowledged)


def check_events(events: Sequence[types_pb2.Event]) -> None:
    """Check a whole log: no gap, and nothing leased after it was completed."""
    assert [event.number for event in events] == list(range(1, len(events) + 1)), "E1"
    completed: set[str] = set()
    for event in events:
        if event.type == EventType.TASK_COMPLETED:
            assert event.task_id not in completed, "S7"
            completed.add(event.task_id)
        elif event.type == EventType.EXECUTION_LEASED:
            assert event.task_id not in completed, "S6"
