"""The environment: one replica and one worker over a store, with control of their clock."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from stepwell.core.port import Store
from stepwell.core.records.model import RunSpec
from stepwell.embedded.arguments import kinds_of, start_command
from stepwell.embedded.transport import InProcessTransport
from stepwell.engine.executor import Executor, ExecutorConfig
from stepwell.store.opener import open_store
from stepwell_client import Agent, Budget, Worker, encode
from stepwell_client import StepKind as ClientStepKind
from stepwell_client.records import PlanLike
from stepwell_client.v1 import types_pb2
from stepwell_testkit.environment.run import HOPS_MAX, EnvironmentRun
from stepwell_testkit.environment.runtime import SkippingRuntime
from stepwell_testkit.environment.script import Fails, IsLost, Script, ScriptedRunner
from stepwell_testkit.environment.watched_store import WatchedStore

TENANT = "default"
QUEUE = "test"
CREDITS = 64


class Environment:
    """A place to run an agent in a test, used as an async context manager."""

    def __init__(self, agent: Agent, *, store: str = "memory://", seed: int = 0) -> None:
        """`store` is a URL as for a server; `seed` determines the jitter of back-offs."""
        self._agent = agent
        self._url = store
        self._runtime = SkippingRuntime(seed)
        self._script = Script()
        self._opened: Store | None = None
        self._store: WatchedStore
        self._executor: Executor
        self._runner: ScriptedRunner
        self._transport: InProcessTransport
        self._worker: Worker
        self._working: asyncio.Task[None]

    # --- start and end
    # ---------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        self._opened = await open_store(self._url, runtime=self._runtime)
        await self._rise()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._transport.stop()
        await self._worker.drain(0.0)
        await self._working
        await self._executor.drain()
        await self._fall()
        if error is None and self._script.left:
            raise AssertionError(
                f"the script has mishaps that never happened, at {', '.join(self._script.left)}"
            )

    async def _rise(self) -> None:
        assert self._opened is not None
        self._store = WatchedStore(self._opened)
        self._executor = Executor(self._store, self._runtime, ExecutorConfig())
        self._runner = ScriptedRunner(self._agent, self._script)
        self._transport = InProcessTransport(self._executor, self._runtime, TENANT)
        self._worker = Worker(
            self._agent,
            self._transport,
            worker_id="test",
            queues=[QUEUE],
            concurrency=CREDITS,
            runner=self._runner,
        )
        self._executor.start()
        self._working = self._runtime.spawn(self._worker.run(), name="worker")
        await self._worker.connected()

    async def _fall(self) -> None:
        await self._executor.close()
        self._runner.close()
        if self._opened is not None:
            await self._opened.close()

    async def crash(self) -> None:
        """Kill the worker and the replica, and start others over the same store.

        Running attempts are lost. A memory store keeps what was committed.
        """
        assert self._opened is not None
        self._transport.sever()
        self._working.cancel()
        await asyncio.wait([self._working])
        await self._executor.close()
        self._runner.close()
        await self._rise()

    # --- runs and script
    # -------------------------------------------------------------------------------

    async def start(
        self,
        goal: str = "",
        *,
        input: object = None,  # noqa: A002 - the protocol's word for it
        plan: PlanLike | None = None,
        stages: Sequence[ClientStepKind] | None = None,
        labels: Mapping[str, str] | None = None,
        budget: Budget | None = None,
        max_iterations: int = 10,
        max_parallel: int = 32,
        no_progress_limit: int = 3,
    ) -> EnvironmentRun:
        """Start a run; the arguments are those of a client.

        Raises:
            InvalidArgument: the plan is not valid; `.violations` says where.
        """
        run = EnvironmentRun(self, TENANT, self._runtime.new_id())
        command = start_command(
            RunSpec(
                tenant_id=TENANT,
                run_id=run.id,
                queue=QUEUE,
                goal=goal,
                labels=dict(labels or {}),
                executor_id="test",
                max_iterations=max_iterations,
                max_parallel=max_parallel,
                no_progress_limit=no_progress_limit,
            ),
            budget=budget,
            run_input=encode(input),
            plan=plan,
            stages=kinds_of(self._agent.stages if stages is None else stages) if plan else (),
        )
        await run.send(command)
        return run

    def fail(
        self,
        step: str,
        *,
        times: int = 1,
        kind: str = "SCRIPTED",
        message: str = "the script failed this attempt",
        retryable: bool = True,
    ) -> None:
        """Make the next attempts at a step fail: a task's id or type, or `plan`, `reflect` …"""
        failure = types_pb2.Failure(kind=kind, message=message, retryable=retryable)
        self._script.add(step, Fails(failure), times)

    def lose(self, step: str, *, times: int = 1, after: bool = False) -> None:
        """Make the worker die in the next attempts at a step.

        `after`: after the agent's function, and before its outcome is reported. The lease expires,
        and the step runs again.
        """
        self._script.add(step, IsLost(after=after), times)

    async def skip(self, span: float | datetime.timedelta) -> None:
        """Let time pass, in seconds, and let everything that comes due in it happen in order."""
        seconds = span.total_seconds() if isinstance(span, datetime.timedelta) else float(span)
        until = self._runtime.monotonic() + seconds
        for _ in range(HOPS_MAX):
            due_ms = await self.settle()
            left_ms = (until - self._runtime.monotonic()) * 1_000
            if left_ms <= 0:
                return
            self._runtime.skip(left_ms if due_ms < 0 else min(left_ms, due_ms + 1))
        raise AssertionError(f"{HOPS_MAX} things came due within {seconds:g} s")

    # --- for its runs
    # -----------------------------------------------------------------------------------

    @property
    def store(self) -> Store:
        """The store, for reading rows."""
        return self._store

    @property
    def executor(self) -> Executor:
        return self._executor

    def jump(self, ms: int) -> None:
        """Let this much time pass at once."""
        self._runtime.skip(ms + 1)

    async def settle(self) -> int:
        """Wait until no step runs and a claim found nothing to do.

        Returns how long that will stay so, in milliseconds; -1: without limit.
        """
        while True:
            await self._worker.idle()
            await self._executor.quiet()
            looked = self._runtime.spawn(self._store.next_claim(), name="look")
            while not looked.done():
                self._executor.wake()
                await self._runtime.sleep(0)
            claimed = looked.result()
            await self._executor.quiet()
            if not claimed.due and not any(claimed.ready) and not self._worker.is_busy:
                return claimed.next_due_ms
