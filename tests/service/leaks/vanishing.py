"""A client that is killed with streams open and calls under way: `python -m tests.service.leaks.vanishing TARGET RUN`."""

from __future__ import annotations

import asyncio
import sys

import grpc.aio

from stepwell_client.v1 import orchestrator_pb2 as opb
from stepwell_client.v1 import orchestrator_pb2_grpc, worker_pb2_grpc
from stepwell_client.v1 import worker_pb2 as wpb
from tests.service.conftest import ME

EACH = 8


async def main(target: str, run_id: str) -> None:
    """Open streams and wait on them; print a line when all are open."""
    channel = grpc.aio.insecure_channel(target)
    runs = orchestrator_pb2_grpc.OrchestratorStub(channel)
    workers = worker_pb2_grpc.WorkerStub(channel)
    calls = []
    for number in range(EACH):
        watch = runs.WatchRun(opb.WatchRunRequest(run_id=run_id), metadata=ME)
        await watch.read()
        feed = runs.WatchRuns(opb.WatchRunsRequest(), metadata=ME)
        await feed.read()
        work = workers.Work(metadata=ME)
        hello = wpb.Hello(worker_id=f"gone-{number}", instance_id="i", queues=["none"])
        await work.write(wpb.WorkRequest(hello=hello, credits=5))
        await work.read()
        wait = runs.WaitRun(opb.WaitRunRequest(run_id=run_id, timeout={"seconds": 60}), metadata=ME)
        calls += [watch, feed, work, wait, asyncio.ensure_future(_awaited(wait))]
    sys.stdout.write("open\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


async def _awaited(call: grpc.aio.UnaryUnaryCall[opb.WaitRunRequest, opb.WaitRunResponse]) -> None:
    await call


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
