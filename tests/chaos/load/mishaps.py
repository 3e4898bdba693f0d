"""Mishaps that befall a server, all at once and again and again: each is a method of `Mishaps`, counted by its name.

None of them may make anything grow: they are what a server meets in a month, in minutes.
"""

from __future__ import annotations

import asyncio
import math
import os
import signal
import sqlite3
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager, suppress
from random import Random
from typing import Any, Self

import grpc
import grpc.aio

from stepwell_client import (
    Client,
    NotFound,
    OnFailure,
    Plan,
    Retry,
    RunStatus,
    StepwellClientError,
    Task,
)
from stepwell_client.v1 import orchestrator_pb2 as opb
from stepwell_client.v1 import orchestrator_pb2_grpc, worker_pb2_grpc
from stepwell_client.v1 import worker_pb2 as wpb
from tests.chaos.world.site import Site
from tests.support.patience import PATIENCE_S

MIB = 1024 * 1024
MANUAL = {"grpc__http2__lookahead_bytes": 1_024, "grpc__http2__bdp_probe": 0}
"""Options of a connection that takes from the network only what is read."""
LARGE = b"x" * 900_000
OFTEN = Retry(max_attempts=100, max_losses=100, initial_backoff=0.01, max_backoff=0.05)
WORK_METHOD = "/stepwell.v1.Worker/Work"
DRAINED_AT_ONCE = 200
PUSH_S = 2.0
"""The time for which somebody pushes or takes nothing."""
MOMENT_S = 0.02
FULL_S = 2.0
LEFT_BYTES = 2 * MIB
"""The room that a full disk has."""
UNFINISHED = (RunStatus.QUEUED, RunStatus.RUNNING, RunStatus.WAITING, RunStatus.PAUSED)
Mishap = Callable[[], Awaitable[None]]


class Mishaps:
    """Begins mishaps, each in a task of its own, and counts those that came to their end."""

    def __init__(self, site: Site, client: Client, rnd: Random) -> None:
        self._site = site
        self._client = client
        self._rnd = rnd
        self.met: Counter[str] = Counter()
        """Mishaps by name."""
        self.refused: Counter[str] = Counter()
        """Mishaps that ended by an error of the server's, by name and error."""
        self.held_at = -math.inf
        """The last moment, by the monotonic clock, at which a foreign read transaction was open on the file."""
        self._recent: deque[str] = deque(maxlen=20)
        self._over = False
        self._names: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._drainer = site.worker("drainer", "drains", concurrency=DRAINED_AT_ONCE, drain_s=0.3)
        self._bomb = site.worker("bomb", "poison")

    def begin(self, watchers: int, hold_s: float) -> None:
        """Have all of them happen again and again. `hold_s`: seconds of a long read transaction on a file."""
        every: list[tuple[Mishap, float, int]] = [
            (self.ordinary, 0.05, 4),
            (self.idle, 1.0, 1),
            (self.poison, 1.0, 1),
            (self.nobody, 0.3, 1),
            (self.drain, 2.0, 1),
            (self.outage, 8.0, 1),
            (self.unread_results, 3.0, 1),
            (self.broken_stream, 0.5, 1),
            (self.undelivered, 1.0, 1),
            (self.watch, 3.0, watchers),
        ]
        if self._site.file is not None:

            async def long_read() -> None:
                await self.hold(hold_s)

            every += [
                (self.read_in_turn, 0.005, 3),
                (long_read, 2 * hold_s, 1),
                (self.full_disk, 4 * hold_s, 1),
            ]
        for mishap, pause_s, times in every:
            for _ in range(times):
                self._tasks.add(asyncio.create_task(self._again(mishap, pause_s)))

    @property
    def names(self) -> list[str]:
        """Return the names of all mishaps that were begun."""
        return sorted(self._names)

    def check(self) -> None:
        """Raise the error that ended one of the tasks."""
        for task in self._tasks:
            if task.done():
                task.result()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._over = True
        pending = set(self._tasks)
        async with asyncio.timeout(PATIENCE_S):
            # A call of grpc.aio that is done may swallow a cancellation.
            while pending:
                for task in pending:
                    task.cancel()
                pending = (await asyncio.wait(pending, timeout=1.0))[1]
        for worker in (self._drainer, self._bomb):
            worker.kill()

    async def cancel_runs(self) -> None:
        """Cancel the runs that are left."""
        async for run in self._client.runs(statuses=UNFINISHED):
            with suppress(StepwellClientError):
                await self._client.run(run.id).cancel(reason="all is over")

    async def _again(self, mishap: Mishap, pause_s: float) -> None:
        name = mishap.__name__.replace("_", " ")
        self._names.add(name)
        with suppress(asyncio.CancelledError):
            while not self._over:
                await asyncio.sleep(pause_s * self._rnd.uniform(0.5, 1.5))
                try:
                    await mishap()
                    self.met[name] += 1
                except (StepwellClientError, grpc.RpcError, TimeoutError) as error:
                    # Another mishap struck this one: the disk is full, say, or the machine is busy.
                    self.refused[f"{name}: {type(error).__name__}"] += 1

    # --- runs -------------------------------------------------------------------------------------

    async def ordinary(self) -> None:
        """Run four tasks with large results to their end."""
        tasks = [Task(f"t{n}", "ordinary", retry=OFTEN) for n in range(4)]
        await self._run_to_end(Plan(tasks), RunStatus.SUCCEEDED)

    async def idle(self) -> None:
        """Run tasks that do nothing for longer than they may."""
        retry = Retry(max_attempts=2, initial_backoff=0.01)
        tasks = [
            Task(name, name, retry=retry, idle_timeout=0.4, on_failure=OnFailure.CONTINUE)
            for name in ("hanging", "stuck")
        ]
        await self._run_to_end(Plan(tasks), RunStatus.SUCCEEDED)

    async def poison(self) -> None:
        """Run a step that ends its workers until it is taken for poison."""
        plan = Plan([Task("deadly", retry=OFTEN, type="deadly")])
        handle = await self._client.start(plan=plan, queue="poison")
        async with asyncio.timeout(PATIENCE_S):
            while (await handle.get()).status != RunStatus.FAILED:
                if not self._bomb.up:
                    self._bomb.kill()
                    self._bomb.start()
                await asyncio.sleep(0.1)

    async def nobody(self) -> None:
        """Start a run in a queue of a new name, which nobody serves, and give it up."""
        queue = f"nobody-{self._rnd.getrandbits(40):x}"
        handle = await self._client.start(plan=Plan([Task("a", "unknown")]), queue=queue)
        self._recent.append(handle.id)
        await asyncio.sleep(1.0)
        await handle.cancel(reason="nobody came")

    async def _run_to_end(self, plan: Plan, status: RunStatus) -> None:
        handle = await self._client.start(plan=plan)
        self._recent.append(handle.id)
        try:
            ended = await handle.wait(timeout_seconds=PATIENCE_S)
        except NotFound:
            return  # It had ended, and retention was faster.
        if ended.status in UNFINISHED:
            raise TimeoutError
        assert ended.status == status, ended

    # --- workers ------------------------------------------------------------------------------------

    async def drain(self) -> None:
        """End a worker of 200 places that has 200 steps in hand: it hands all of them back."""
        tasks = [Task(f"t{n}", "hanging", retry=OFTEN) for n in range(DRAINED_AT_ONCE)]
        handle = await self._client.start(
            plan=Plan(tasks), queue="drains", max_parallel=DRAINED_AT_ONCE
        )
        try:
            if not self._drainer.up:
                self._drainer.kill()
                self._drainer.start()
            async with asyncio.timeout(PATIENCE_S):
                while (await handle.get()).status != RunStatus.RUNNING:  # noqa: ASYNC110 - the server is asked
                    await asyncio.sleep(0.1)
            await asyncio.sleep(0.5)
            self._drainer.signal(signal.SIGTERM)
            await asyncio.to_thread(self._drainer.wait)
        finally:
            await handle.cancel(reason="drained")

    async def outage(self) -> None:
        """Take the server from the steady worker for a while."""
        proxy = self._site.proxy
        proxy.reset = self._rnd.random() < 0.5
        await proxy.refuse()
        proxy.cut()
        try:
            await asyncio.sleep(self._rnd.choice((0.2, 0.5, 1.0, 2.0, 6.0)))
        finally:
            await proxy.accept()
        await asyncio.sleep(1.0)

    # --- streams ------------------------------------------------------------------------------------

    def _hello(self, name: str, queue: str) -> wpb.Hello:
        return wpb.Hello(
            worker_id=f"{name}-{self._rnd.getrandbits(40):x}",
            instance_id=f"{self._rnd.getrandbits(40):x}",
            queues=[queue],
        )

    async def unread_results(self) -> None:
        """Push results of steps that are nobody's, small ones and large ones, and read no answer."""
        async with self._site.channel(**MANUAL) as channel:
            call = worker_pb2_grpc.WorkerStub(channel).Work(metadata=self._site.metadata)
            small = [self._result(f"s{n}", b"0") for n in range(1_000)]
            large = [self._result(f"l{n}", LARGE) for n in range(4)]
            messages = [
                wpb.WorkRequest(hello=self._hello("mute", "mute")),
                *(wpb.WorkRequest(outcomes=one) for one in (small, large) * 4),
            ]
            await _push(call, messages)

    def _result(self, delivery: str, data: bytes) -> wpb.Outcome:
        outcome = wpb.Outcome(
            delivery_id=delivery,
            lease=wpb.Lease(
                run_id=self._rnd.choice(self._recent) if self._recent else "none",
                execution_id=delivery,
                token="1" * 32,
            ),
        )
        outcome.completed.result.data = data
        return outcome

    async def broken_stream(self) -> None:
        """Break streams in the middle of large messages, and send one that is too large, and one that is none."""
        async with self._site.channel() as channel:
            hello = wpb.WorkRequest(hello=self._hello("broken", "broken"))
            large = wpb.WorkRequest(outcomes=[self._result(f"l{n}", LARGE) for n in range(4)])
            too_large = wpb.WorkRequest(outcomes=[self._result(f"l{n}", LARGE) for n in range(6)])
            stub = worker_pb2_grpc.WorkerStub(channel)
            for messages in ([hello, large], [hello, too_large], [large]):
                call = stub.Work(metadata=self._site.metadata)
                await _push(call, messages, seconds=self._rnd.uniform(0.0, 0.1))
            raw: Any = channel.stream_stream(WORK_METHOD)(metadata=self._site.metadata)
            await _push(raw, [os.urandom(2 * MIB)], seconds=0.2)

    async def undelivered(self) -> None:
        """Have steps leased to a worker that reads none of them, and to one that can't receive any."""
        name = f"deaf-{self._rnd.getrandbits(20):x}"
        handles = [
            await self._client.start(
                plan=Plan([Task(f"t{n}", "ordinary", retry=OFTEN) for n in range(5)]),
                queue=name,
                input=LARGE,
            )
            for _ in range(2)
        ]
        try:
            for options in (MANUAL, {"grpc__max_receive_message_length": 64 * 1024}):
                async with self._site.channel(**options) as channel:
                    stub = worker_pb2_grpc.WorkerStub(channel)
                    call = stub.Work(metadata=self._site.metadata)
                    hello = self._hello("deaf", name)
                    await _push(call, [wpb.WorkRequest(hello=hello, credits=100)], seconds=0.0)
                    await asyncio.sleep(PUSH_S)
                    if options is not MANUAL:
                        with suppress(grpc.RpcError):
                            while await call.read() is not grpc.aio.EOF:
                                pass
                    call.cancel()
        finally:
            for handle in handles:
                await handle.cancel(reason="nobody could take it")

    async def watch(self) -> None:
        """Watch a run, or all of them, for a while or to its end; now and then read nothing."""
        if not self._recent:
            return
        stub = orchestrator_pb2_grpc.OrchestratorStub(self._client.channel)
        metadata = self._site.metadata
        run_id = self._rnd.choice(self._recent)
        call: Any
        if self._rnd.random() < 0.1:
            call = stub.WatchRuns(opb.WatchRunsRequest(resume_token="now"), metadata=metadata)
        else:
            call = stub.WatchRun(opb.WatchRunRequest(run_id=run_id), metadata=metadata)
        try:
            async with asyncio.timeout(self._rnd.uniform(0.5, 10.0)):
                if self._rnd.random() < 0.1:
                    await asyncio.sleep(3_600)
                while await call.read() is not grpc.aio.EOF:
                    pass
        except TimeoutError:
            pass
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.NOT_FOUND:
                raise
        finally:
            call.cancel()

    # --- a file ---------------------------------------------------------------------------------------

    async def read_in_turn(self) -> None:
        """Read the file for a moment: several who do so by turns leave none without a reader."""
        # In a thread: on the event loop, which has much to do here, a moment would often become a long time.
        await asyncio.to_thread(self._read_for_a_moment)

    def _read_for_a_moment(self) -> None:
        with self._reading():
            time.sleep(MOMENT_S)

    async def hold(self, seconds: float) -> None:
        """Keep a read transaction open on the file: meanwhile its log grows."""
        self.held_at = math.inf
        try:
            with self._reading():
                await asyncio.sleep(seconds)
        finally:
            self.held_at = time.monotonic()

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Keep a read transaction open on the file."""
        assert self._site.file is not None
        connection = sqlite3.connect(
            f"{self._site.file.as_uri()}?mode=ro", uri=True, isolation_level=None
        )
        with closing(connection):
            connection.execute("BEGIN")
            connection.execute("SELECT count(*) FROM meta").fetchall()
            yield

    async def full_disk(self) -> None:
        """Take the disk's room for a while."""
        assert self._site.file is not None
        folder = self._site.file.parent
        ballast = folder / "ballast"
        try:
            with ballast.open("wb") as file:
                disk = os.statvfs(folder)
                free = disk.f_bavail * disk.f_frsize
                # The server writes meanwhile, and may have taken the room itself.
                with suppress(OSError):
                    os.posix_fallocate(file.fileno(), 0, max(MIB, free - LEFT_BYTES))
            await asyncio.sleep(FULL_S)
        finally:
            ballast.unlink()


async def _push(call: Any, messages: list[Any], seconds: float = PUSH_S) -> None:
    """Write messages until that takes too long or the stream ends, and break it."""
    try:
        async with asyncio.timeout(seconds or None):
            for message in messages:
                await call.write(message)
            if seconds:
                await asyncio.sleep(seconds)
    except (TimeoutError, grpc.RpcError, asyncio.InvalidStateError):
        pass
    finally:
        if seconds:
            call.cancel()
