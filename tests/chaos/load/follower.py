"""A watcher that goes from replica to replica with its cursor, and sees to it that its story has no seam.

At random it leaves in the middle of a message, lies down with one unread, comes back with a cursor that it
had long before, and asks for what can't have happened yet.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from random import Random

import grpc
import grpc.aio

from stepwell.core.records.events import Event
from stepwell.wire.records import to_message
from stepwell_client.v1 import orchestrator_pb2, orchestrator_pb2_grpc, types_pb2
from tests.chaos.world.cluster import Cluster
from tests.simulation.simulator.violation import holds
from tests.support.patience import PATIENCE_S

_LOSS = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)
_FUTURE = 1_000_000


class Follower:
    """Follows one run to its end over any number of streams."""

    def __init__(
        self,
        cluster: Cluster,
        run_id: str,
        rnd: Random,
        *,
        moves: float = 0.3,
        lies_down: bool = True,
        at: str = "",
        may_lose: bool = False,
    ) -> None:
        self._cluster = cluster
        self.run_id = run_id
        self._rnd = rnd
        self._moves = moves
        """The probabilities that it leaves after a message, or in the middle of one."""
        self._lies_down = lies_down
        self._at = at or rnd.choice(cluster.names)
        self._may_lose = may_lose
        """The store shows commits before they are acknowledged, and may lose them: then others stand in their place."""
        self._gone: list[types_pb2.Event] = []
        """Events that were different ones when they were seen again."""
        self.events: list[types_pb2.Event] = []
        self.came_at: list[float] = []
        self._ends: list[int] = []
        """The last event of each message."""
        self._cut_at = ""
        """The replica that was left in the middle of a message, until another one has gone on."""
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
            stub = self._stub(self._at)
            if self._rnd.random() < self._moves:
                await self._ask_for_the_future(stub)
            reached = self.seen["not reached"]
            if await self._stream(stub):
                return
            if self.seen["not reached"] > reached:
                await asyncio.sleep(self._rnd.uniform(0.2, 0.5))
            elsewhere = [name for name in self._cluster.names if name != self._at]
            before, self._at = self._at, self._rnd.choice(elsewhere or self._cluster.names)
            self.seen["replica changed"] += before != self._at
            await asyncio.sleep(0.02)

    def _stub(self, name: str) -> orchestrator_pb2_grpc.OrchestratorAsyncStub:
        return orchestrator_pb2_grpc.OrchestratorStub(self._cluster.channel(name))

    async def _stream(self, stub: orchestrator_pb2_grpc.OrchestratorAsyncStub) -> bool:
        """Read one stream; tell whether that was all."""
        last = len(self.events)
        if self._rnd.random() < self._moves / 2:
            last = self._rnd.randint(0, last)
            self.seen["came back with an old cursor"] += last < len(self.events)
        request = orchestrator_pb2.WatchRunRequest(run_id=self.run_id, resume_token=str(last))
        # Where there is another replica one goes there; where there is none one waits.
        alone = len(self._cluster.names) == 1
        call = stub.WatchRun(request, metadata=self._cluster.metadata, wait_for_ready=alone)
        opened = False
        try:
            # It comes at once, or not at all.
            await call.initial_metadata()
            opened = not call.done()
            while isinstance(message := await call.read(), orchestrator_pb2.WatchRunResponse):
                if message.HasField("end"):
                    name = orchestrator_pb2.WatchEndReason.Name(message.end.reason)
                    self.seen[name.removeprefix("WATCH_END_REASON_")] += 1
                    finished = message.end.reason == orchestrator_pb2.WATCH_END_REASON_FINISHED
                    # One that has failed is resumed, and goes on.
                    return finished and message.end.run.status != types_pb2.RUN_STATUS_FAILED
                if message.HasField("progress"):
                    after = int(message.progress.resume_token)
                    holds(after == last, "E7", f"progress {after} of {last}")
                    continue
                events = list(message.events.events)
                if await self._take(events, last):
                    return False
                last = events[-1].number
            self.seen["ended without a word"] += 1
        except grpc.aio.AioRpcError as error:
            if self._may_lose and error.code() is grpc.StatusCode.INVALID_ARGUMENT:
                # All behind the end that the run has now is lost.
                self._forget(0)
            elif error.code() not in _LOSS:
                raise
            self.seen["cut off" if opened else "not reached"] += 1
        finally:
            call.cancel()
        return False

    async def _take(self, events: Sequence[types_pb2.Event], last: int) -> bool:
        """Take a message in, or a part of it; tell whether to go elsewhere."""
        now = time.monotonic()
        leaves = self._rnd.random() < self._moves
        part = self._rnd.randint(1, len(events)) if leaves else len(events)
        for event in events[:part]:
            holds(event.number == last + 1, "E3", f"{event.number} came after {last}")
            last = event.number
            if last <= len(self.events):
                if event == self.events[last - 1]:
                    continue
                holds(self._may_lose, "E2", f"{event.number} is another one now")
                self._forget(last - 1)
            self.events.append(event)
            self.came_at.append(now)
        if self._cut_at not in ("", self._at):
            self.seen["watcher reconnected on another replica in mid-batch"] += 1
            self._cut_at = ""
        self._ends.append(events[-1].number)
        if part < len(events):
            self.seen["left in mid-batch"] += 1
            self._cut_at = self._at
        if self._rnd.random() < 0.1:
            await self._check_elsewhere(events[-1].version)
        if self._lies_down and self._rnd.random() < self._moves / 3:
            self.seen["lay down"] += 1
            await asyncio.sleep(self._rnd.uniform(0.2, 1.0))
        return leaves

    def _forget(self, count: int) -> None:
        """Put away all that was seen but the first `count` events."""
        self._gone += self.events[count:]
        del self.events[count:], self.came_at[count:]
        self._ends = [number for number in self._ends if number <= count]

    async def _ask_for_the_future(self, stub: orchestrator_pb2_grpc.OrchestratorAsyncStub) -> None:
        """Nobody is given what hasn't happened yet (E5)."""
        after = len(self.events) + _FUTURE
        request = orchestrator_pb2.WatchRunRequest(run_id=self.run_id, resume_token=str(after))
        call = stub.WatchRun(request, metadata=self._cluster.metadata)
        try:
            message = await call.read()
            draining = isinstance(message, orchestrator_pb2.WatchRunResponse) and message.HasField(
                "end"
            )
            holds(draining, "E5", f"{message} came after {after}")
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.INVALID_ARGUMENT:
                self.seen["cursor from the future refused"] += 1
            elif error.code() not in _LOSS:
                raise
        finally:
            call.cancel()

    async def _check_elsewhere(self, version: int) -> None:
        """Check that every replica has what is seen here (E4)."""
        name = self._rnd.choice(self._cluster.names)
        request = orchestrator_pb2.GetRunRequest(run_id=self.run_id)
        try:
            answer = await self._stub(name).GetRun(
                request, metadata=self._cluster.metadata, timeout=PATIENCE_S
            )
        except grpc.aio.AioRpcError as error:
            if error.code() not in (*_LOSS, grpc.StatusCode.DEADLINE_EXCEEDED):
                raise
            return
        found = answer.run.version
        holds(
            found >= version or self._may_lose,
            "E4",
            f"{name} shows v{found}, and v{version} was watched",
        )
        self.seen["looked at another replica"] += 1

    def check(self, stored_events: Sequence[Event], sent_events: Sequence[Event] = ()) -> None:
        """Compare what was seen, over all streams, with what is stored, and with all that was ever sent."""
        stored, sent = list(map(to_message, stored_events)), list(map(to_message, sent_events))
        name = f"a watcher of {self.run_id}"
        kept = {one.number for one, own in zip(stored, self.events, strict=False) if one == own}
        # A watcher that saw an end which was lost then is gone when the run comes to another one.
        left_early = self._may_lose and bool(self.events) and len(self.events) not in kept
        whole = len(self.events) == len(stored)
        holds(whole or left_early, "E2", f"{name} saw {len(self.events)} events")
        self._gone += [event for event in self.events if event.number not in kept]
        lost = [event for event in self._gone if event not in stored]
        # What was acknowledged is stored: these are of commits that were not.
        fine = not lost or (self._may_lose and all(event in sent for event in lost))
        holds(fine, "E2", f"{name} saw {lost}")
        self.seen["event seen and lost"] += len(lost)
        versions = {event.number: event.version for event in stored}
        for number in kept.intersection(self._ends):
            split = versions.get(number + 1) == versions[number]
            holds(not split, "E8", f"{name} got v{versions[number]} in parts")
