"""A watcher that goes from replica to replica with its cursor, and sees to it that its story has no seam."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from random import Random

import grpc
import grpc.aio

from stepwell.core.events import Event
from stepwell.testing.simulator.violation import holds
from stepwell.wire import to_record
from stepwell_client.v1 import orchestrator_pb2, orchestrator_pb2_grpc
from tests.replicas.cluster import NAMES, Cluster

_LOSS = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)


class Follower:
    """Follows one run to its end over any number of streams."""

    def __init__(
        self, cluster: Cluster, run_id: str, rnd: Random, *, moves: float = 0.3, at: str = ""
    ) -> None:
        self._cluster = cluster
        self.run_id = run_id
        self._rnd = rnd
        self._moves = moves
        """How likely it leaves after a message, or in the middle of one."""
        self._at = at or rnd.choice(NAMES)
        self.events: list[Event] = []
        self.came_at: list[float] = []
        self._ends: list[int] = []
        """The last event of each message."""
        self.seen: Counter[str] = Counter()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> Follower:
        """Follow in the background."""
        self._task = asyncio.create_task(self._follow())
        return self

    async def end(self) -> None:
        """Wait until the run's end was seen."""
        assert self._task is not None
        await self._task

    def leave(self) -> None:
        """Stop following, for a test that failed."""
        if self._task is not None:
            self._task.cancel()

    async def _follow(self) -> None:
        while True:
            async with grpc.aio.insecure_channel(self._cluster.target(self._at)) as channel:
                stub = orchestrator_pb2_grpc.OrchestratorStub(channel)
                if await self._stream(stub):
                    return
            before, self._at = self._at, self._rnd.choice([n for n in NAMES if n != self._at])
            self.seen["replica changed"] += before != self._at
            await asyncio.sleep(0.02)

    async def _stream(self, stub: orchestrator_pb2_grpc.OrchestratorAsyncStub) -> bool:
        """Read one stream; tell whether that was all."""
        last = len(self.events)
        request = orchestrator_pb2.WatchRunRequest(run_id=self.run_id, after=last)
        call = stub.WatchRun(request, metadata=self._cluster.metadata)
        opened = False
        try:
            while isinstance(message := await call.read(), orchestrator_pb2.WatchRunResponse):
                opened = True
                if message.HasField("end"):
                    name = orchestrator_pb2.WatchEndReason.Name(message.end.reason)
                    self.seen[name.removeprefix("WATCH_END_REASON_")] += 1
                    return message.end.reason == orchestrator_pb2.WATCH_END_REASON_FINISHED
                if message.HasField("progress"):
                    after = message.progress.after
                    holds(after == len(self.events), "E7", f"progress {after} of {last}")
                elif await self._take([to_record(event) for event in message.events.events]):
                    return False
            self.seen["ended without a word"] += 1
        except grpc.aio.AioRpcError as error:
            if error.code() not in _LOSS:
                raise
            self.seen["cut off" if opened else "not reached"] += 1
        finally:
            call.cancel()
        return False

    async def _take(self, events: Sequence[Event]) -> bool:
        """Take a message in, or a part of it; tell whether to go elsewhere."""
        now = time.monotonic()
        leaves = self._rnd.random() < self._moves
        part = self._rnd.randint(1, len(events)) if leaves else len(events)
        for event in events[:part]:
            last = len(self.events)
            holds(event.number == last + 1, "E3", f"{event.number} came after {last}")
            self.events.append(event)
            self.came_at.append(now)
        self._ends.append(events[-1].number)
        self.seen["left in mid-batch"] += part < len(events)
        if self._rnd.random() < 0.1:
            await self._look_elsewhere(events[-1].version)
        return leaves

    async def _look_elsewhere(self, version: int) -> None:
        """What is seen here, every replica has (E4)."""
        name = self._rnd.choice(NAMES)
        async with grpc.aio.insecure_channel(self._cluster.target(name)) as channel:
            stub = orchestrator_pb2_grpc.OrchestratorStub(channel)
            request = orchestrator_pb2.GetRunRequest(run_id=self.run_id)
            try:
                answer = await stub.GetRun(request, metadata=self._cluster.metadata, timeout=10)
            except grpc.aio.AioRpcError as error:
                if error.code() not in _LOSS:
                    raise
                return
            found = answer.run.version
            holds(found >= version, "E4", f"{name} shows v{found}, and v{version} was watched")
            self.seen["looked at another replica"] += 1

    def check(self, stored: Sequence[Event]) -> None:
        """Compare what was seen, over all streams, with what is stored."""
        name = f"a watcher of {self.run_id}"
        holds(self.events == list(stored), "E2", f"{name} saw {len(self.events)} events")
        versions = {event.number: event.version for event in stored}
        for number in self._ends:
            split = versions.get(number + 1) == versions[number]
            holds(not split, "E8", f"{name} got v{versions[number]} in parts")
