"""A server whose every word the test decides: real grpc.aio on a free port, scripted servicers."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
import grpc.aio

from stepwell_client import Agent, Client, Worker
from stepwell_client.internal import Runtime
from stepwell_client.v1 import (
    orchestrator_pb2,
    orchestrator_pb2_grpc,
    types_pb2,
    worker_pb2,
    worker_pb2_grpc,
)
from tests.support.patience import PATIENCE_S
from tests.support.steps import RUN_ID, assignment, span

TOKEN = "a-token"


class FastRuntime(Runtime):
    """Jitter without chance: back-offs are a hundredth of their longest."""

    def random(self) -> float:
        return 0.01


class End:
    """The end of a scripted watch: by itself or with an error."""

    def __init__(self, code: grpc.StatusCode | None = None, message: str = "") -> None:
        self.code = code
        self.message = message

    async def reach(self, context: Any) -> None:
        """Abort the call with its error, if it has one."""
        if self.code is not None:
            await context.abort(self.code, self.message)


class Script:
    """Answers one after the other; the last one again and again."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)

    def __call__(self, request: Any) -> Any:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


class FakeOrchestrator(orchestrator_pb2_grpc.OrchestratorServicer):
    """Unary calls are answered by `answers`, watches by `watches`, a script a stream."""

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.metadata: list[dict[str, Any]] = []
        self.answers: dict[str, Callable[[Any], Any]] = {}
        self.watches: deque[list[Any]] = deque()
        self.watch_cancelled = asyncio.Event()
        self.open_watches = 0

    async def answer(self, request: Any, context: Any) -> Any:
        self.requests.append(request)
        self.metadata.append(dict(context.invocation_metadata()))
        answer = self.answers[type(request).__name__](request)
        if isinstance(answer, End):
            await answer.reach(context)
        return answer

    async def stream(self, request: Any, context: Any) -> None:
        self.requests.append(type(request).FromString(request.SerializeToString()))
        self.open_watches += 1
        try:
            for item in self.watches.popleft():
                if isinstance(item, End):
                    return await item.reach(context)
                await context.write(item)
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.watch_cancelled.set()
            raise
        finally:
            self.open_watches -= 1

    StartRun = GetRun = ListRuns = ListTasks = ListExecutions = ListResults = WaitRun = answer
    ResumeRun = PauseRun = CancelRun = DeleteRun = GetServerInfo = answer
    ForkRun = ListPlans = ListCheckpoints = ListQuestions = AnswerQuestion = AnswerByToken = (
        RaiseBudget
    ) = answer
    ListWorkers = ListQueues = answer
    ResolveExecution = RetryTask = SkipTask = StopRun = SendSignal = ListMessages = (
        ReadTranscript
    ) = ListJournal = answer
    PurgeRuns = ListSignals = answer
    GetThread = ListThreads = ListThreadMessages = AppendToThread = SetThreadState = answer
    SetThreadLabels = DeleteThread = ForkThread = answer
    WatchRun = WatchRuns = WatchLogs = stream  # pyright: ignore[reportAssignmentType] - the stub knows generators only


@dataclass
class Stream:
    """The server's side of one Work stream, in the hands of the test."""

    context: Any
    hello: worker_pb2.Hello
    _inbox: asyncio.Queue[worker_pb2.WorkRequest] = field(default_factory=asyncio.Queue)
    _end: asyncio.Future[End] = field(default_factory=asyncio.Future)
    credits: int = 0
    requests: list[worker_pb2.WorkRequest] = field(default_factory=list)
    outcomes: deque[worker_pb2.Outcome] = field(default_factory=deque)
    begins: deque[worker_pb2.Begin] = field(default_factory=deque)
    writes: deque[worker_pb2.JournalWrite] = field(default_factory=deque)

    async def send(self, **fields: Any) -> None:
        await self.context.write(worker_pb2.WorkResponse(**fields))

    async def welcome(self, *, lease: float = 30, interval: float = 10, held: Any = ()) -> None:
        await self.send(
            welcome=worker_pb2.Welcome(
                lease_duration=span(lease), heartbeat_interval=span(interval), held=held
            )
        )

    async def read(self) -> worker_pb2.WorkRequest:
        """The next request, counted."""
        request = await asyncio.wait_for(self._inbox.get(), PATIENCE_S)
        self.requests.append(request)
        self.credits += request.credits
        self.outcomes.extend(request.outcomes)
        self.begins.extend(request.begins)
        self.writes.extend(request.journal_writes)
        return request

    async def outcome(self) -> worker_pb2.Outcome:
        while not self.outcomes:
            await self.read()
        return self.outcomes.popleft()

    async def begin(self) -> worker_pb2.Begin:
        while not self.begins:
            await self.read()
        return self.begins.popleft()

    async def write(self) -> worker_pb2.JournalWrite:
        while not self.writes:
            await self.read()
        return self.writes.popleft()

    async def read_rest(self) -> None:
        """Read what a worker has sent that has left."""
        while not self._inbox.empty():
            await self.read()

    async def granted(self, count: int) -> None:
        """Until so many credits were granted, all in all."""
        while self.credits < count:
            await self.read()

    async def ack(
        self, item: Any, status: worker_pb2.AckStatus = worker_pb2.ACK_STATUS_ACCEPTED
    ) -> None:
        await self.send(acks=[ack_of(item, status)])

    def end(self, code: grpc.StatusCode | None = None, message: str = "") -> None:
        """End-of-file, or an error."""
        if not self._end.done():
            self._end.set_result(End(code, message))


def ack_of(
    item: Any, status: worker_pb2.AckStatus = worker_pb2.ACK_STATUS_ACCEPTED
) -> worker_pb2.Ack:
    return worker_pb2.Ack(
        delivery_id=item.delivery_id,
        lease=item.lease,
        status=status,
    )


def recorded_of(
    write: worker_pb2.JournalWrite,
    status: worker_pb2.LeaseStatus = worker_pb2.LEASE_STATUS_LIVE,
) -> worker_pb2.JournalAck:
    """Return the answer to a journal write whose entries are all kept, unless its lease is lost."""
    kept = worker_pb2.EntryState(status=worker_pb2.ENTRY_STATUS_ACCEPTED)
    return worker_pb2.JournalAck(
        delivery_id=write.delivery_id,
        lease=worker_pb2.LeaseState(status=status),
        entries=[kept for _ in write.entries],
    )


class FakeWorkers(worker_pb2_grpc.WorkerServicer):
    """Hands each Work stream to the test; answers the unary calls as told."""

    def __init__(self) -> None:
        self._streams: asyncio.Queue[Stream] = asyncio.Queue()
        self.refusals: deque[End] = deque()
        self.metadata: list[dict[str, Any]] = []
        self.old_tokens: set[str] = set()
        """A stream with one of these is refused as UNAUTHENTICATED, however often it comes."""
        self.heartbeats: list[worker_pb2.LeaseHeartbeat] = []
        self.answers_heartbeats = True
        self.beat = asyncio.Event()
        self.lease_state: dict[str, dict[str, Any]] = {}
        self.completed: list[worker_pb2.Outcome] = []
        self.completes = False
        self.recorded: list[worker_pb2.JournalWrite] = []
        self.journal: list[worker_pb2.JournalPage] = []
        """The pages of a step's journal after the assignment's."""
        self.cursors: list[str] = []
        self.appended: list[worker_pb2.Appended] = []
        self.append_calls = 0
        self.append_refusals: deque[End] = deque()
        self.results: list[worker_pb2.DependencyResult] = []
        self.reads: list[list[str]] = []
        self.read_refusals: deque[End] = deque()
        self.append_gate = asyncio.Event()
        self.append_gate.set()

    async def stream(self) -> Stream:
        return await asyncio.wait_for(self._streams.get(), PATIENCE_S)

    async def Work(self, request_iterator: Any, context: Any) -> None:  # pyright: ignore[reportIncompatibleMethodOverride] - the stub knows generators only
        self.metadata.append(dict(context.invocation_metadata()))
        if self.metadata[-1]["authorization"].removeprefix("Bearer ") in self.old_tokens:
            await context.abort(grpc.StatusCode.UNAUTHENTICATED)
        if self.refusals:
            await self.refusals.popleft().reach(context)
        first = await context.read()
        stream = Stream(context, first.hello)
        self._streams.put_nowait(stream)
        reader = asyncio.ensure_future(self._read(context, stream))
        try:
            end = await stream._end
        finally:
            reader.cancel()
        await end.reach(context)

    @staticmethod
    async def _read(context: Any, stream: Stream) -> None:
        while True:
            request = await context.read()
            if request is grpc.aio.EOF:
                return stream.end()
            stream._inbox.put_nowait(request)

    async def Heartbeat(self, request: Any, context: Any) -> worker_pb2.HeartbeatResponse:
        self.heartbeats += request.heartbeats
        self.beat.set()
        if not self.answers_heartbeats:
            await asyncio.Event().wait()
        return worker_pb2.HeartbeatResponse(leases=self._states(request.heartbeats))

    def _states(self, items: Any) -> list[worker_pb2.LeaseState]:
        live = {"status": worker_pb2.LEASE_STATUS_LIVE}
        return [
            worker_pb2.LeaseState(
                lease=one.lease,
                **self.lease_state.get(one.lease.execution_id, live),
            )
            for one in items
        ]

    async def AppendOutput(self, request: Any, context: Any) -> worker_pb2.AppendOutputResponse:
        self.append_calls += 1
        if self.append_refusals:
            await self.append_refusals.popleft().reach(context)
        await self.append_gate.wait()
        self.appended += request.appended
        return worker_pb2.AppendOutputResponse(leases=self._states(request.appended))

    async def ReadResults(self, request: Any, context: Any) -> worker_pb2.ReadResultsResponse:
        self.reads.append(list(request.task_ids))
        if self.read_refusals:
            await self.read_refusals.popleft().reach(context)
        (lease,) = self._states([request])
        known = {one.task_id: one for one in self.results}
        found = [known[each] for each in request.task_ids if each in known]
        return worker_pb2.ReadResultsResponse(lease=lease, results=found)

    async def WriteJournal(self, request: Any, context: Any) -> worker_pb2.WriteJournalResponse:
        if not self.completes:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "not now")
        self.recorded += request.writes
        return worker_pb2.WriteJournalResponse(acks=[recorded_of(one) for one in request.writes])

    async def ReadJournal(self, request: Any, context: Any) -> worker_pb2.ReadJournalResponse:
        self.cursors.append(request.page_token)
        if self.read_refusals:
            await self.read_refusals.popleft().reach(context)
        (lease,) = self._states([request])
        return worker_pb2.ReadJournalResponse(lease=lease, page=self.journal.pop(0))

    async def ReadThread(self, request: Any, context: Any) -> worker_pb2.ReadThreadResponse:
        del request
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, "this server has no threads")
        raise AssertionError

    def lines(self, execution_id: str = "e1") -> list[str]:
        """Return the lines that an execution has written, as they came."""
        return [
            line.text
            for one in self.appended
            if one.lease.execution_id == execution_id
            for line in one.logs
        ]

    async def ReportOutcomes(self, request: Any, context: Any) -> worker_pb2.ReportOutcomesResponse:
        if not self.completes:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "not now")
        self.completed += request.outcomes
        return worker_pb2.ReportOutcomesResponse(acks=[ack_of(item) for item in request.outcomes])


@dataclass
class FakeServer:
    target: str
    runs: FakeOrchestrator
    workers: FakeWorkers


@asynccontextmanager
async def fake_server(port: int = 0) -> AsyncIterator[FakeServer]:
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    runs, workers = FakeOrchestrator(), FakeWorkers()
    orchestrator_pb2_grpc.add_OrchestratorServicer_to_server(runs, server)
    worker_pb2_grpc.add_WorkerServicer_to_server(workers, server)
    port = server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    try:
        yield FakeServer(f"127.0.0.1:{port}", runs, workers)
    finally:
        await server.stop(0)


def events(*numbers: int, next_after: int | None = None) -> orchestrator_pb2.WatchRunResponse:
    """A message of a watch with these events."""
    batch = [types_pb2.Event(number=number, version=number) for number in numbers]
    after = numbers[-1] if next_after is None else next_after
    return orchestrator_pb2.WatchRunResponse(
        events=orchestrator_pb2.EventBatch(events=batch, resume_token=str(after))
    )


def watch_end(
    reason: orchestrator_pb2.WatchEndReason, run: types_pb2.Run | None = None
) -> orchestrator_pb2.WatchRunResponse:
    return orchestrator_pb2.WatchRunResponse(end=orchestrator_pb2.WatchEnd(reason=reason, run=run))


def a_run(status: types_pb2.RunStatus, **fields: Any) -> types_pb2.Run:
    return types_pb2.Run(spec=types_pb2.RunSpec(run_id=RUN_ID), status=status, **fields)


# --- workers of it -------------------------------------------------------------------------------------


@asynccontextmanager
async def serving(agent: Agent, client: Client, **options: Any) -> AsyncIterator[Worker]:
    """A worker whose run() is ended by the test's end."""
    worker = Worker(agent, client, **options)
    task = asyncio.ensure_future(worker.run())
    try:
        yield worker
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def welcomed(server: FakeServer, **terms: Any) -> Stream:
    stream = await server.workers.stream()
    await stream.welcome(**terms)
    return stream


@asynccontextmanager
async def working(
    server: FakeServer, client: Client, function: Any, *, interval: float = 10, **given: Any
) -> AsyncIterator[tuple[Stream, Worker]]:
    """A worker with one place and one function, which was given a step; its stream and itself."""
    agent = Agent()
    agent.task(function)
    async with serving(agent, client, concurrency=1) as worker:
        stream = await welcomed(server, interval=interval)
        await stream.granted(1)
        await stream.send(assignments=[assignment(**given)])
        yield stream, worker
