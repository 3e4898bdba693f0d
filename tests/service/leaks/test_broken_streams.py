"""R1: a stream that breaks with a message that no one took leaves nothing behind.

What it leaves must be gone at once, not at the garbage collector's next full round: that may come after a
gigabyte of messages. So the collector is off here, and what only it could free is counted.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from types import FrameType
from typing import Any

import grpc
import grpc.aio
import pytest
from google.protobuf.message import Message

from stepwell.config import ExecutorSettings, WatchSettings
from stepwell.rpc.server import Server
from stepwell_client.v1 import orchestrator_pb2 as opb
from stepwell_client.v1 import orchestrator_pb2_grpc, types_pb2, worker_pb2_grpc
from stepwell_client.v1 import worker_pb2 as wpb
from tests.service.conftest import ME, Client, World, outcome
from tests.support.patience import until

STREAMS = 100
LARGE = b'"' + b"x" * 900_000 + b'"'
LEFT_BYTES_MAX = 16 * 1024 * 1024
"""A fifth of the messages' bytes, for buffers that are used again."""
HELLO = wpb.Hello(worker_id="w", instance_id="i", queues=["q"])


@pytest.fixture
async def server(world: World) -> Server:
    lasting = ExecutorSettings(lease_ms=600_000)
    return await world.server(executor=lasting, watch=WatchSettings(stall_ms=100))


@asynccontextmanager
async def channel(server: Server, **options: int) -> AsyncIterator[grpc.aio.Channel]:
    """A connection of its own."""
    given = [("grpc.use_local_subchannel_pool", 1), *options.items()]
    named = [(name.replace("__", "."), value) for name, value in given]
    async with grpc.aio.insecure_channel(server.addresses[0], options=named) as made:
        yield made


async def connect(made: grpc.aio.Channel) -> Any:
    """Return the stream of a worker that was welcomed and is sent a step."""
    call: Any = worker_pb2_grpc.WorkerStub(made).Work(metadata=ME)
    await call.write(wpb.WorkRequest(hello=HELLO, credits=1))
    assert (await call.read()).HasField("welcome")
    return call


async def refuse(server: Server, _run_id: str) -> None:
    """Be sent a step that is larger than this worker receives."""
    for _ in range(STREAMS):
        async with channel(server, grpc__max_receive_message_length=64 * 1024) as made:
            with pytest.raises(grpc.aio.AioRpcError, match="RESOURCE_EXHAUSTED"):
                await (await connect(made)).read()
        await until(lambda: not server.deps.executor.connected)


async def ask_wrongly(server: Server, _run_id: str) -> None:
    """Send large requests that are refused."""
    async with channel(server) as made:
        stub = orchestrator_pb2_grpc.OrchestratorStub(made)
        wrong = opb.StartRunRequest(queue="no name", input=types_pb2.Payload(data=LARGE))
        for _ in range(STREAMS):
            with pytest.raises(grpc.aio.AioRpcError, match="INVALID_ARGUMENT"):
                await stub.StartRun(wrong, metadata=ME)


async def leave(server: Server, _run_id: str) -> None:
    """Go away without a word, with a step under way."""
    for _ in range(STREAMS):
        leased = server.deps.executor.stats["leases"]
        async with channel(server) as made:
            await connect(made)
            await until(lambda leased=leased: server.deps.executor.stats["leases"] > leased)
        await until(lambda: not server.deps.executor.connected)


async def stall(server: Server, run_id: str) -> None:
    """Watch large events without reading, until the server ends it."""
    async with channel(server, grpc__http2__lookahead_bytes=1024) as made:
        stub = orchestrator_pb2_grpc.OrchestratorStub(made)
        request = opb.WatchRunRequest(run_id=run_id)
        calls: list[Any] = [stub.WatchRun(request, metadata=ME) for _ in range(STREAMS)]
        await asyncio.gather(*(call.initial_metadata() for call in calls))
        await until(lambda: not open_watches(server))


def open_watches(server: Server) -> float | None:
    label = {"method": "/stepwell.v1.Orchestrator/WatchRun"}
    return server.metrics.registry.get_sample_value("stepwell_rpc_streams", label)


async def large_events(client: Client) -> str:
    """Return a run whose events have a few megabytes."""
    plan = types_pb2.PlanDraft()
    for n in range(20):
        task = plan.tasks.add(task_id=f"t{n}", on_failure=types_pb2.ON_FAILURE_CONTINUE)
        task.retry.max_attempts = 1
    run = await client.start(plan=plan, queue="f")
    failure = types_pb2.Failure(message="m" * 65_000, details="d" * 65_000)
    async with client.worker("w2", queues=["f"], grant=20) as worker:
        for _ in plan.tasks:
            await worker.report(outcome(await worker.assignment(), failed={"failure": failure}))
    return run.spec.run_id


class MallInfo2(ctypes.Structure):
    """The `struct mallinfo2` of malloc.h, with names for the two fields that are read."""

    _fields_ = (
        ("unread_1", ctypes.c_size_t * 4),
        ("hblkhd", ctypes.c_size_t),
        ("unread_2", ctypes.c_size_t * 2),
        ("uordblks", ctypes.c_size_t),
        ("unread_3", ctypes.c_size_t * 2),
    )


def allocated_bytes() -> int:
    """Return the bytes that C code and large Python objects of this process hold, without what the allocator keeps."""
    ask = ctypes.CDLL(None).mallinfo2
    ask.restype = MallInfo2
    now = ask()
    return now.uordblks + now.hblkhd


@contextmanager
def uncollected() -> Iterator[list[Any]]:
    """Turn the collector off; at the end, fill the list with the objects that only it could free."""
    found: list[Any] = []
    gc.collect()
    gc.disable()
    try:
        yield found
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        found += gc.garbage
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


@pytest.mark.parametrize("way", [refuse, leave, stall, ask_wrongly])
async def test_messages_that_no_one_took_are_freed_at_once(
    server: Server, client: Client, way: Callable[[Server, str], Awaitable[None]]
) -> None:
    run_id = await large_events(client)
    await client.start_tasks("a", queue="q", input=types_pb2.Payload(data=LARGE))
    await until(lambda: not server.deps.executor.connected)
    with uncollected() as found:
        await way(server, run_id)
        before = allocated_bytes()
        await way(server, run_id)
        # gRPC frees a broken stream's buffers in threads of its own.
        await until(lambda: allocated_bytes() - before < LEFT_BYTES_MAX)
    kept = (Message, asyncio.Task, BaseException, FrameType)
    assert not Counter(type(one).__name__ for one in found if isinstance(one, kept))
