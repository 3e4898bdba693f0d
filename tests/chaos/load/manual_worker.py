"""A worker that no kill reaches: it speaks the Worker service by hand and keeps what was acknowledged."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from random import Random
from typing import Any

import grpc
import grpc.aio

from stepwell_client.v1 import types_pb2, worker_pb2, worker_pb2_grpc
from tests.chaos.oracle.history import Acknowledged
from tests.chaos.world.cluster import Cluster

MANUAL = "by-hand"
"""A queue that nobody else serves."""


class ManualWorker:
    """One worker with one place."""

    def __init__(self, cluster: Cluster, rnd: Random) -> None:
        self._cluster = cluster
        self._rnd = rnd
        self.unsettled: dict[str, worker_pb2.Outcome] = {}
        self.acknowledged: list[Acknowledged] = []

    async def work(self) -> None:
        """Serve until cancelled, now at this replica and now at that one."""
        while True:
            names = self._rnd.sample(self._cluster.names, len(self._cluster.names))
            async with grpc.aio.insecure_channel(self._cluster.target(*names)) as channel:
                call = worker_pb2_grpc.WorkerStub(channel).Work(metadata=self._cluster.metadata)
                try:
                    await self._serve(call)
                except (grpc.RpcError, asyncio.InvalidStateError):
                    pass
                finally:
                    call.cancel()
            await asyncio.sleep(0.05)

    async def _serve(self, call: grpc.aio.StreamStreamCall[Any, Any]) -> None:
        held = [one.lease for one in self.unsettled.values()]
        hello = worker_pb2.Hello(
            worker_id="hand",
            instance_id="only",
            kinds=[types_pb2.STEP_KIND_TASK],
            queues=["default", MANUAL],
            held=held,
        )
        again = self.unsettled.values()
        await call.write(worker_pb2.WorkRequest(hello=hello, credits=1, outcomes=again))
        while isinstance(response := await call.read(), worker_pb2.WorkResponse):
            for ack in response.acks:
                self._settle(ack)
            outcomes = [self._do(assignment) for assignment in response.assignments]
            if outcomes:
                # Slow enough to leave the other workers their share.
                await asyncio.sleep(0.03)
                await call.write(worker_pb2.WorkRequest(outcomes=outcomes, credits=len(outcomes)))
            if response.HasField("end"):
                return

    def _do(self, assignment: worker_pb2.Assignment) -> worker_pb2.Outcome:
        execution = assignment.execution.execution_id
        outcome = worker_pb2.Outcome(
            delivery_id=f"{assignment.run.run_id}/{execution}",
            lease=assignment.lease,
        )
        outcome.completed.result.data = f'"{self._rnd.random()} by hand"'.encode()
        self.unsettled[outcome.delivery_id] = outcome
        return outcome

    def _settle(self, ack: worker_pb2.Ack) -> None:
        outcome = self.unsettled.pop(ack.delivery_id, None)
        if outcome is None:
            return
        assert ack.status != worker_pb2.ACK_STATUS_REJECTED, ack
        # What is refused was committed, perhaps, when the answer was lost with its replica; or the lease was.
        if ack.status == worker_pb2.ACK_STATUS_ACCEPTED:
            lease, data = outcome.lease, outcome.completed.result.data
            self.acknowledged.append(
                Acknowledged(lease.run_id, lease.execution_id, lease.token, data)
            )

    async def __aenter__(self) -> ManualWorker:
        self._task = asyncio.create_task(self.work())
        return self

    async def __aexit__(self, *_error: object) -> None:
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
