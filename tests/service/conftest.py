"""A real server on a free port, and raw stubs for clients: what a stranger's code would use."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import google.rpc.error_details_pb2 as error_details_pb2
import google.rpc.status_pb2 as status_pb2
import grpc
import grpc.aio
import pytest
from google.protobuf.message import Message
from pydantic import SecretStr

from stepwell.config import (
    AuthSettings,
    ExecutorSettings,
    GrpcSettings,
    Settings,
    StaticToken,
    StoreSettings,
    WatchSettings,
)
from stepwell.core.port import Store
from stepwell.rpc.server import Server
from stepwell_client.v1 import orchestrator_pb2 as opb
from stepwell_client.v1 import orchestrator_pb2_grpc, types_pb2, worker_pb2_grpc
from stepwell_client.v1 import worker_pb2 as wpb
from stepwell_testkit.environment.runtime import SkippingRuntime

TOKENS = {
    "all": ("tenant-a", {"run:read", "run:write", "worker", "admin"}),
    "reader": ("tenant-a", {"run:read"}),
    "writer": ("tenant-a", {"run:write"}),
    "worker": ("tenant-a", {"worker"}),
    "store": ("tenant-a", {"store"}),
    "foreign": ("tenant-b", {"run:read", "run:write", "worker", "store", "admin"}),
}
NO_RUN = "00000000-0000-4000-8000-000000000000"


def token(name: str) -> str:
    return f"test-token-of-{name}"


Metadata = tuple[tuple[str, str], ...]


def bearer(name: str) -> Metadata:
    return (("authorization", f"Bearer {token(name)}"),)


ME = bearer("all")


class Client:
    """Stubs over one channel."""

    def __init__(self, target: str, me: Metadata = ME) -> None:
        self.me = me
        # Messages as large as a stranger may send; each test's channel is its own connection.
        options = [
            ("grpc.max_send_message_length", -1),
            ("grpc.max_receive_message_length", 64 * 1024 * 1024),
            ("grpc.use_local_subchannel_pool", 1),
        ]
        self.channel = grpc.aio.insecure_channel(target, options=options)
        self.runs = orchestrator_pb2_grpc.OrchestratorStub(self.channel)
        self.work = worker_pb2_grpc.WorkerStub(self.channel)

    def ask(self, method: str, *, metadata: Metadata | None = None, **fields: Any) -> Any:
        """Call a method of either service; returns the call, to be awaited or read."""
        stub, messages = (self.runs, opb) if hasattr(self.runs, method) else (self.work, wpb)
        request = getattr(messages, f"{method}Request")(**fields)
        return getattr(stub, method)(request, metadata=self.me if metadata is None else metadata)

    async def start(self, **fields: Any) -> types_pb2.Run:
        return (await self.ask("StartRun", **fields)).run

    async def start_tasks(self, *task_ids: str, **fields: Any) -> types_pb2.Run:
        """Start a run with a plan of independent tasks."""
        plan = types_pb2.PlanDraft(tasks=[types_pb2.TaskSpec(task_id=one) for one in task_ids])
        return await self.start(plan=plan, **fields)

    async def get(self, run_id: str) -> types_pb2.Run:
        return (await self.ask("GetRun", run_id=run_id)).run

    async def wait(self, run_id: str) -> types_pb2.Run:
        return (await self.ask("WaitRun", run_id=run_id)).run

    def watch(self, run_id: str, *, after: int = 0, **fields: Any) -> Any:
        return self.ask("WatchRun", run_id=run_id, resume_token=str(after), **fields)

    @asynccontextmanager
    async def worker(
        self, worker_id: str = "w1", instance_id: str = "i1", *, grant: int = 10, **hello: Any
    ) -> AsyncIterator[RawWorker]:
        call = self.work.Work(metadata=self.me)
        worker = RawWorker(call)
        request = wpb.WorkRequest(
            hello=wpb.Hello(worker_id=worker_id, instance_id=instance_id, **hello),
            credits=grant,
        )
        await call.write(request)
        first: Any = await call.read()
        assert first.HasField("welcome"), first
        worker.welcome = first.welcome
        try:
            yield worker
        finally:
            call.cancel()


class RawWorker:
    """The worker's end of a Work stream."""

    def __init__(self, call: Any) -> None:
        self.call = call
        self.welcome = wpb.Welcome()
        self._assignments: list[wpb.Assignment] = []
        self._acks: list[wpb.Ack] = []
        self._recorded: list[wpb.JournalAck] = []
        self.cancellations: list[wpb.Cancellation] = []
        self.ended_calls: list[wpb.EndedCall] = []
        self.end: wpb.WorkEnd | None = None

    async def _more(self) -> bool:
        message = await self.call.read()
        if message is grpc.aio.EOF:
            return False
        self._assignments += message.assignments
        self._acks += message.acks
        self._recorded += message.journal_acks
        self.ended_calls += message.ended_calls
        self.cancellations += message.cancellations
        if message.HasField("end"):
            self.end = message.end
        return True

    async def assignment(self) -> wpb.Assignment:
        while not self._assignments:
            assert await self._more(), "the stream ended"
        return self._assignments.pop(0)

    async def ack(self) -> wpb.Ack:
        while not self._acks:
            assert await self._more(), "the stream ended"
        return self._acks.pop(0)

    async def recorded(self) -> wpb.JournalAck:
        while not self._recorded:
            assert await self._more(), "the stream ended"
        return self._recorded.pop(0)

    async def ended_call(self) -> wpb.EndedCall:
        while not self.ended_calls:
            assert await self._more(), "the stream ended"
        return self.ended_calls.pop(0)

    async def cancellation(self) -> wpb.Cancellation:
        while not self.cancellations:
            assert await self._more(), "the stream ended"
        return self.cancellations.pop(0)

    async def until_end(self) -> wpb.WorkEnd | None:
        while await self._more():
            pass
        return self.end

    async def send(self, *outcomes: wpb.Outcome, grant: int = 0) -> None:
        await self.call.write(wpb.WorkRequest(outcomes=outcomes, credits=grant))

    async def report(self, outcome: wpb.Outcome) -> wpb.Ack:
        await self.send(outcome)
        return await self.ack()

    async def begin(self, assignment: wpb.Assignment) -> wpb.Ack:
        begin = wpb.Begin(delivery_id="b", **lease_of(assignment))
        await self.call.write(wpb.WorkRequest(begins=[begin]))
        return await self.ack()

    async def complete(self, assignment: wpb.Assignment, data: bytes = b"{}") -> wpb.Ack:
        return await self.report(completed(assignment, data))


def completed(assignment: wpb.Assignment, data: bytes = b"{}", **fields: Any) -> wpb.Outcome:
    result = wpb.Outcome.Completed(result=types_pb2.Payload(data=data))
    return outcome(assignment, completed=result, **fields)


def outcome(assignment: wpb.Assignment, **fields: Any) -> wpb.Outcome:
    fields.setdefault("delivery_id", f"d/{assignment.execution.execution_id}")
    return wpb.Outcome(**{**lease_of(assignment), **fields})


def lease_of(assignment: wpb.Assignment, **changes: Any) -> dict[str, Any]:
    """Return the field that names a lease, with these changes of its own fields."""
    lease = wpb.Lease(**changes)
    whole = wpb.Lease()
    whole.CopyFrom(assignment.lease)
    whole.MergeFrom(lease)
    return {"lease": whole}


class Refusal:
    """An error as a client sees it, with its details taken apart."""

    def __init__(self, error: grpc.aio.AioRpcError) -> None:
        self.code = error.code()
        self.message = error.details() or ""
        trailing = dict(error.trailing_metadata() or ())
        raw = trailing.get("grpc-status-details-bin", b"")
        status = status_pb2.Status.FromString(raw if isinstance(raw, bytes) else b"")
        infos = self._of(status, error_details_pb2.ErrorInfo)
        assert len(infos) == 1, f"{self.code} {self.message}: {len(infos)} ErrorInfo"
        assert status.code == self.code.value[0]
        self.reason = infos[0].reason
        assert infos[0].domain == "stepwell"
        self.metadata = dict(infos[0].metadata)
        faults = self._of(status, error_details_pb2.BadRequest)
        self.fields = [one.field for fault in faults for one in fault.field_violations]
        self.retry = self._of(status, error_details_pb2.RetryInfo)
        self.missing = [
            (one.resource_type, one.resource_name)
            for one in self._of(status, error_details_pb2.ResourceInfo)
        ]

    @staticmethod
    def _of(status: status_pb2.Status, kind: type[Any]) -> list[Any]:
        found: list[Message] = []
        for detail in status.details:
            message = kind()
            if detail.Is(kind.DESCRIPTOR):
                detail.Unpack(message)
                found.append(message)
        return found


async def refusal(call: Any) -> Refusal:
    """Await a call (or read a stream) that must fail."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await _to_its_end(call)
    return Refusal(caught.value)


async def _to_its_end(call: Any) -> None:
    if hasattr(call, "__aiter__"):
        async for _ in call:
            pass
    else:
        await call


def settings_for(url: str, folder: Path, **groups: Any) -> Settings:
    tokens = tuple(
        StaticToken(
            name=name,
            token_sha256=SecretStr(hashlib.sha256(token(name).encode()).hexdigest()),
            tenant=tenant,
            scopes=frozenset(given),
        )
        for name, (tenant, given) in TOKENS.items()
    )
    groups.setdefault("auth", AuthSettings(token_file=folder / "auth" / "token", tokens=tokens))
    groups.setdefault("grpc", GrpcSettings(port=0))
    groups.setdefault("executor", ExecutorSettings(poll_ms=200))
    groups.setdefault("watch", WatchSettings(stall_ms=500))
    groups.setdefault("drain_ms", 5_000)
    return Settings(store=StoreSettings(url=SecretStr(url)), **groups)


class World:
    """Makes servers and clients, and ends them all."""

    def __init__(self, stack: AsyncExitStack, folder: Path, url: str) -> None:
        self._stack = stack
        self.folder = folder
        self.url = url
        self.runtime = SkippingRuntime()
        """The clock of all servers: leases and timers are over when a test skips their time."""

    async def server(self, *, store: Store | None = None, **groups: Any) -> Server:
        settings = settings_for(self.url, self.folder, **groups)
        server = Server(settings, store=store, runtime=self.runtime)
        return await self._stack.enter_async_context(server)

    async def client(self, server: Server) -> Client:
        client = Client(server.addresses[0])
        self._stack.push_async_callback(client.channel.close)
        return client


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """A world on the memory store: the conformance suite says that other stores are equal."""
    async with AsyncExitStack() as stack:
        yield World(stack, tmp_path, "memory://")


@pytest.fixture
async def server(world: World) -> Server:
    return await world.server()


@pytest.fixture
async def client(world: World, server: Server) -> Client:
    return await world.client(server)
