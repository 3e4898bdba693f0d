"""`Orchestrator`: one run, from its start or from where it stopped, in this process."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Self

import structlog

from stepwell.app.questions import give_answer
from stepwell.core.loop.signals import Cancel, Pause, RaiseBudget, Resume, Start
from stepwell.core.port import ANY_ROLE, Presence, Runtime, Store
from stepwell.core.records import limits
from stepwell.core.records.errors import FailedPrecondition, RunNotFound, StoreUnavailable
from stepwell.core.records.model import InputRequest, Run, RunSpec
from stepwell.core.records.states import RunStatus, StepKind
from stepwell.embedded.people import answer_command, read_open_inputs
from stepwell.embedded.resolving import resolution
from stepwell.embedded.result import RunCancelled, RunFailed, RunResult, read_result
from stepwell.embedded.starting import (
    budget_record,
    check_size,
    expect,
    kinds_of,
    start_command,
)
from stepwell.embedded.worker import InProcessWorker
from stepwell.engine.executor import Executor, ExecutorConfig
from stepwell.runtime import SystemRuntime
from stepwell.store.opener import open_store
from stepwell_client import Agent, Done, Failure, NotDone, PlanLike, encode
from stepwell_client import Budget as ClientBudget
from stepwell_client import StepKind as ClientStepKind
from stepwell_client.execution import AgentRunner

log = structlog.get_logger(__name__)

TENANT = "default"
LEASE_MS = 60_000
"""Long, because nobody else waits for it: `resume` ends the leases of a dead process at once."""
POLL_MS = 1_000
_STANDS_STILL = (RunStatus.WAITING, RunStatus.PAUSED)
_NAME = re.compile(limits.NAME_PATTERN)


class Orchestrator:
    """A run of an agent's loop in this process.

    `store` is a URL, or an open Store that stays the caller's to close. Without one nothing is kept.
    With one and no `run_id` an id is made; with both, a second `run()` of the same arguments, in this
    process or another, finds the run that is there and goes on with it.

    A run with a `plan` begins with its tasks; without, the agent's plan function makes one. `stages`
    says which of REFLECT and SYNTHESIZE a run with a plan has: None, all that the agent has functions for.
    """

    def __init__(
        self,
        goal: str,
        agent: Agent,
        *,
        max_iterations: int = 10,
        store: str | Store | None = None,
        run_id: str | None = None,
        input: object = None,  # noqa: A002 - the protocol's word for it
        plan: PlanLike | None = None,
        stages: Sequence[ClientStepKind] | None = None,
        labels: Mapping[str, str] | None = None,
        budget: ClientBudget | None = None,
        max_parallel: int = 32,
        no_progress_limit: int = limits.NO_PROGRESS_LIMIT_DEFAULT,
        tenant_id: str = TENANT,
        runtime: Runtime | None = None,
    ) -> None:
        """Check the arguments; nothing is opened or started before `run()`.

        Raises:
            ValueError: a `run_id` without a store, or an argument beyond its limit.
        """
        if run_id is not None and store is None:
            raise ValueError("a run_id means nothing without a store: pass store=, or leave run_id")
        if run_id is not None and (
            len(run_id) > limits.RUN_ID_CHARS_MAX or not _NAME.fullmatch(run_id)
        ):
            raise ValueError(
                f"run_id {run_id!r} is no name of at most {limits.RUN_ID_CHARS_MAX} characters; "
                "a UUID is best: the service knows runs by no other ids"
            )
        check_size("goal", len(goal.encode("utf-8", "replace")), 0, limits.GOAL_BYTES_MAX)
        check_size("max_iterations", max_iterations, 1, limits.ITERATIONS_MAX)
        check_size("max_parallel", max_parallel, 1, limits.PARALLEL_MAX)
        check_size("no_progress_limit", no_progress_limit, 0, limits.ITERATIONS_MAX)
        if plan is None and StepKind.PLAN not in kinds_of(agent.kinds):
            raise ValueError("the agent has no plan function: decorate one, or pass plan=")
        self._agent = agent
        self._store = store
        self._runtime = runtime or SystemRuntime()
        self._tenant_id = tenant_id
        self._run_id = run_id or self._runtime.new_id()
        self._start: Start | None = start_command(
            RunSpec(
                tenant_id=tenant_id,
                run_id=self._run_id,
                # Its own: the steps of other runs in the same store are not for this agent.
                queue=f"embedded:{self._run_id}",
                goal=goal,
                labels=dict(labels or {}),
                executor_id="embedded",
                max_iterations=max_iterations,
                max_parallel=max_parallel,
                no_progress_limit=no_progress_limit,
            ),
            budget=budget,
            run_input=encode(input),
            plan=plan,
            stages=kinds_of(agent.stages if stages is None else stages) if plan is not None else (),
        )
        self._executor: Executor | None = None
        self._opened: Store | None = None
        self._own: Store | None = None

    @classmethod
    async def resume(
        cls,
        run_id: str,
        agent: Agent,
        *,
        store: str | Store,
        tenant_id: str = TENANT,
        runtime: Runtime | None = None,
    ) -> Self:
        """Return an orchestrator of a run that is there, ready to `run()`.

        One that a crash interrupted goes on with what is not done; PAUSED, WAITING and FAILED ones
        go on from their last checkpoint, failed tasks with new attempts; one that SUCCEEDED just
        returns its result. Completed tasks are never run again.

        Raises:
            RunNotFound: there is no such run in this store (a ValueError too).
            FailedPrecondition: the run was cancelled, which is final.
        """
        self = cls.__new__(cls)
        self._agent = agent
        self._store = store
        self._runtime = runtime or SystemRuntime()
        self._tenant_id = tenant_id
        self._run_id = run_id
        self._start = None
        self._executor = None
        self._opened = None
        self._own = None
        opened = await self._open()
        try:
            run = await opened.get_run(tenant_id, run_id)
        finally:
            await self._shut(opened)
        if run is None:
            raise RunNotFound(run_id)
        if run.status is RunStatus.CANCELLED:
            raise FailedPrecondition(
                f"run {run_id} was cancelled, which is final; start another", reason="RUN_CANCELLED"
            )
        return self

    @property
    def run_id(self) -> str:
        """The run's id: the one given, else the one that was made."""
        return self._run_id

    async def run(self) -> RunResult:
        """Run the loop until the run ends, or stands still, and return what it came to.

        A run that is WAITING for a person or PAUSED has not failed: it is returned with that status.
        After `answer` another `run()` goes on with it, and so does `resume`. Cancelling the call stops the work in hand, leaves the run as it is
        in the store, and raises CancelledError.

        Raises:
            RunFailed: the run FAILED; `.result` has its record and the tasks' results.
            RunCancelled: it was cancelled. A RunFailed too.
            InvalidArgument: the plan given is not valid; `.violations` says where.
            AlreadyExists: the run_id is that of a run with other arguments.
            StoreRefused: the store can't be opened; the message says what to do.
        """
        if self._executor is not None:
            raise RuntimeError("this orchestrator is running already")
        store = await self._open()
        try:
            config = ExecutorConfig(lease_ms=LEASE_MS)
            self._executor, self._opened = Executor(store, self._runtime, config), store
            try:
                run = await self._drive(store, self._executor)
            finally:
                executor, self._executor, self._opened = self._executor, None, None
                await executor.drain()
                await executor.close()
            result = await read_result(store, run)
            if run.ended:
                self._own = None
        finally:
            await self._shut(store)
        if run.status is RunStatus.CANCELLED:
            raise RunCancelled(result)
        if run.status is RunStatus.FAILED:
            raise RunFailed(result)
        return result

    async def cancel(self, reason: str = "") -> None:
        """Cancel the run for good, while `run()` runs it."""
        await self._command(Cancel(reason=reason))

    async def pause(self, reason: str = "") -> None:
        """Have `run()` start no more steps, wait for those in hand, and return."""
        await self._command(Pause(reason=reason))

    async def raise_budget(self, budget: ClientBudget, *, reason: str = "") -> None:
        """Set new, higher limits, while `run()` runs it or between two calls of it.

        A run that is PAUSED for its budget goes on then, in this `run()` or the next one.

        Raises:
            InvalidArgument: a limit would be lower than it was; `.violations` says which.
            FailedPrecondition: the run has ended.
        """
        command = RaiseBudget(budget=budget_record(budget), reason=reason)
        async with self._store_and_executor() as (_, executor):
            expect(await executor.send(self._tenant_id, self._run_id, command))

    async def inputs(self) -> Sequence[InputRequest]:
        """Return what the run waits for people to answer, oldest first."""
        async with self._store_and_executor() as (store, _):
            return await read_open_inputs(store, self._tenant_id, self._run_id)

    async def answer(
        self,
        input_id: str,
        value: object,
        *,
        replan: bool = False,
        reason: str = "",
        answered_by: str = "embedded",
    ) -> None:
        """Answer what the run asks, once, while `run()` runs it or between two calls of it.

        `replan`: have it make another plan before anything else; its planner is shown the `reason`.

        Raises:
            NotFound: it has asked no such thing.
            InvalidArgument: the answer doesn't fit; `.violations` says where.
            FailedPrecondition: it was answered before, has expired or is not asked any more; or it
                is the last iteration, and no other plan can follow.
        """
        command = answer_command(
            input_id, value, replan=replan, reason=reason, answered_by=answered_by
        )
        async with self._store_and_executor() as (store, executor):
            answered = await give_answer(store, executor, self._tenant_id, self._run_id, command)
            expect(answered.reply)

    async def resolve(self, execution_id: str, found: Done | NotDone | Failure) -> None:
        """Say what became of an execution whose outcome is unknown: before `run()`, or meanwhile.

        Done: its task is completed, with that value. NotDone: it is run again. A Failure: its effect took
        place and it failed for good.

        Raises:
            FailedPrecondition: the outcome of this execution isn't unknown, or not any more.
        """
        command = resolution(execution_id, found)
        async with self._store_and_executor() as (_, executor):
            expect(await executor.send(self._tenant_id, self._run_id, command))

    # --- inside -------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _store_and_executor(self) -> AsyncGenerator[tuple[Store, Executor]]:
        """Lend those that run the run, or others where it doesn't run now."""
        if self._executor is not None and self._opened is not None:
            yield self._opened, self._executor
            return
        store = await self._open()
        try:
            executor = Executor(store, self._runtime, ExecutorConfig(lease_ms=LEASE_MS))
            try:
                yield store, executor
            finally:
                await executor.drain()
                await executor.close()
        finally:
            await self._shut(store)

    async def _command(self, command: Cancel | Pause) -> None:
        if self._executor is None:
            raise RuntimeError("the run is not running here")
        expect(await self._executor.send(self._tenant_id, self._run_id, command))

    async def _open(self) -> Store:
        if self._store is None:
            # Kept until the run has ended: what it asks can be answered between two calls of run().
            if self._own is None:
                self._own = await open_store("memory://", runtime=self._runtime)
            return self._own
        if isinstance(self._store, str):
            return await open_store(self._store, runtime=self._runtime)
        return self._store

    async def _shut(self, store: Store) -> None:
        if store is not self._store and store is not self._own:
            await store.close()

    async def _drive(self, store: Store, executor: Executor) -> Run:
        """Start or resume the run, do its steps, and return it as it stands in the end."""
        run = await self._begin(store, executor)
        if run.ended:
            return run
        changed = asyncio.Event()

        def hint(tenant_id: str, run_id: str, _version: int) -> None:
            if (tenant_id, run_id) in (("", ""), (self._tenant_id, self._run_id)):
                changed.set()

        runner = AgentRunner(self._agent)
        worker = InProcessWorker(
            executor,
            self._runtime,
            runner,
            presence=Presence(
                tenant_id=self._tenant_id,
                # The same in the next process, which so finds the leases that this one leaves.
                worker_id=f"embedded:{self._run_id}",
                instance_id=self._runtime.new_id(),
                replica_id=executor.replica_id,
                queues=(run.spec.queue,),
                roles=(ANY_ROLE,),
                kinds=tuple(StepKind),
            ),
            stages=kinds_of(self._agent.stages),
            on_idle=changed.set,
        )
        unsubscribe = store.subscribe(hint)
        try:
            executor.start()
            await worker.open(run.spec.max_parallel)
            return await self._still(store, worker, changed)
        finally:
            unsubscribe()
            await worker.close()
            runner.close()

    async def _begin(self, store: Store, executor: Executor) -> Run:
        if self._start is not None:
            return expect(await executor.send(self._tenant_id, self._run_id, self._start))
        run = await self._read(store)
        if run.status in (RunStatus.FAILED, RunStatus.PAUSED):
            return expect(await executor.send(self._tenant_id, self._run_id, Resume()))
        return run

    async def _read(self, store: Store) -> Run:
        run = await store.get_run(self._tenant_id, self._run_id)
        if run is None:
            raise RunNotFound(self._run_id)
        return run

    async def _still(self, store: Store, worker: InProcessWorker, changed: asyncio.Event) -> Run:
        """Wait until the run has ended, or stands still with nothing in hand."""
        while True:
            changed.clear()
            try:
                run = await self._read(store)
                if run.ended or (run.status in _STANDS_STILL and not worker.busy):
                    return run
            except StoreUnavailable as error:
                log.warning("the store is away; it is asked again", error=error.message)
            try:
                async with asyncio.timeout(POLL_MS / 1_000):
                    await changed.wait()
            except TimeoutError:
                pass
