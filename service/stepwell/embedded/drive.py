"""Executes one run in this process: opens its store, and does its steps until it ends or stands still."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

from msgspec.structs import replace

from stepwell.app.commands import accepted, carry_out
from stepwell.app.runs import read_run
from stepwell.app.threads import start_in_thread
from stepwell.core.loop.children import ROOT_LABEL
from stepwell.core.loop.occurrences import (
    AnyCommand,
    Fork,
    RaiseBudget,
    Resume,
    Start,
    StartInThread,
)
from stepwell.core.port import RunQuery, Runtime, Store, every_row
from stepwell.core.records.errors import (
    AlreadyExists,
    FailedPrecondition,
    RunNotFound,
    StepwellError,
    StoreError,
    StoreMissing,
    StoreUnavailable,
)
from stepwell.core.records.model import Run
from stepwell.core.records.states import BlockedKind, RunStatus
from stepwell.embedded.arguments import ACTOR
from stepwell.embedded.differences import differences
from stepwell.embedded.driver_stores import AnyStore, SQLiteStore, acquire, release
from stepwell.embedded.result import RunResult, read_result
from stepwell.embedded.store_calls import CallingRunner, StoreCalls
from stepwell.embedded.transport import InProcessTransport
from stepwell.engine.executor import Executor, ExecutorConfig
from stepwell.logger import get_logger
from stepwell.store.opener import mask_url, open_store
from stepwell_client import Agent, Unavailable, Worker
from stepwell_client.errors import WorkerReplaced
from stepwell_client.internal import CONCURRENCY_MAX

log = get_logger(__name__)

LEASE_MS = 60_000
"""Long, because nobody else waits for it: `resume` ends the leases of a dead process at once."""
POLL_MS = 1_000
_STANDS_STILL = (RunStatus.WAITING, RunStatus.PAUSED)


@asynccontextmanager
async def lent_executor(store: Store, runtime: Runtime) -> AsyncGenerator[Executor]:
    """Lend an executor of an open store, and close it at the end."""
    executor = Executor(store, runtime, ExecutorConfig(lease_ms=LEASE_MS))
    try:
        yield executor
    finally:
        await executor.drain()
        await executor.close()


class Drive:
    """One run with its store and, while it is executed, an executor and a worker."""

    def __init__(
        self,
        agent: Agent,
        run_id: str,
        start: Start | StartInThread | Fork | None,
        *,
        store: AnyStore | None,
        tenant_id: str,
        runtime: Runtime,
        calls: StoreCalls | None = None,
        is_new: bool = False,
        retry_failed: bool = True,
    ) -> None:
        """`start`: the command that starts the run; None: it is there, and is resumed.

        `is_new`: nobody else has the run's id, so no other process can have the run.
        """
        self.run_id = run_id
        self.tenant_id = tenant_id
        self._agent = agent
        self._start = start
        self._is_new = is_new
        self._retry_failed = retry_failed
        self._store = store
        self._calls = calls
        self._runtime = runtime
        self._own: Store | None = None
        """The memory store of a run without another store, until the run has ended."""
        self._running: Executor | None = None

    @property
    def is_running(self) -> bool:
        """True while `run` is running."""
        return self._running is not None

    @property
    def kept(self) -> str:
        """One line about where the run is kept, and how to continue it after Ctrl-C."""
        if self._store is None and self._calls is None:
            return f"stopped; run {self.run_id} was not kept: pass store= to keep the next one"
        place = "its stores"
        if isinstance(self._store, str):
            place = mask_url(self._store)
        elif isinstance(self._store, SQLiteStore):
            place = str(self._store.path)
        again = "start the same program again, or use " if self._start and not self._calls else ""
        return (
            f"stopped; run {self.run_id} is kept in {place}; to continue it, {again or 'use '}"
            f"Orchestrator.resume({self.run_id!r}, …)"
        )

    async def check_resumable(self) -> RunResult:
        """Return the run as it stands. Raises unless it exists and is not cancelled."""
        try:
            store = await self._open(create=False)
        except StoreMissing as error:
            raise RunNotFound(self.run_id, error.message) from error
        try:
            run = await read_run(store, self.tenant_id, self.run_id)
            if run.status is RunStatus.CANCELLED:
                raise FailedPrecondition(
                    f"run {self.run_id} was cancelled, which is final; start another",
                    reason="RUN_CANCELLED",
                )
            return await read_result(store, run)
        finally:
            await self._close(store)

    async def bear(self, store: Store) -> None:
        """Create the run in its open store, if there is none of this id; `run` checks the arguments."""
        assert self._start is not None
        async with lent_executor(store, self._runtime) as executor:
            try:
                await self._send_start(executor, self._start)
            except StoreError:
                raise
            except StepwellError:
                pass  # `run` says so.

    async def run(self) -> RunResult:
        """Run the loop until the run ends, or stands still, and return its result."""
        if self._running is not None:
            raise RuntimeError("this orchestrator is running already")
        store = await self._open()
        try:
            async with lent_executor(store, self._runtime) as executor:
                self._running = executor
                try:
                    run = await self._work(executor)
                finally:
                    self._running = None
            result = await read_result(store, run)
            if self._calls is not None:
                await self._calls.finish(result)
            if run.ended and self._calls is None:
                self._own = None
            return result
        finally:
            await self._close(store)

    @asynccontextmanager
    async def executor(self) -> AsyncGenerator[Executor]:
        """Lend the executor that executes the run, or another one if it doesn't run now."""
        if self._running is not None:
            yield self._running
            return
        store = await self._open()
        try:
            async with lent_executor(store, self._runtime) as executor:
                yield executor
        finally:
            await self._close(store)

    async def send(self, command: AnyCommand) -> None:
        """Send a command to the run, whether or not `run` is running."""
        if isinstance(command, RaiseBudget) and self._calls is not None:
            self._calls.check_budget()
        async with self.executor() as executor:
            await carry_out(executor, self.tenant_id, self.run_id, replace(command, actor=ACTOR))

    # --- inside -------------------------------------------------------------------------------------

    async def _open(self, *, create: bool = True) -> Store:
        if self._store is None:
            # Kept until the run has ended, so that its questions can be answered between two calls
            # of run().
            if self._own is None:
                self._own = await open_store("memory://", runtime=self._runtime)
            return self._own
        return await acquire(self._store, self._runtime, create=create)

    async def _close(self, store: Store) -> None:
        if self._store is not None:
            await release(self._store, store)

    async def _work(self, executor: Executor) -> Run:
        """Start or resume the run, do its steps, and return it at the end."""
        spec = self._start.spec if self._start is not None else None
        if spec is None or not self._is_new:
            # First: an error, as of a run_id with other arguments, must not cost another process its leases.
            run = await self._begin(executor)
            if run.ended:
                return run
            spec = run.spec
        changed = asyncio.Event()

        def hint(tenant_id: str, run_id: str, version: int) -> None:
            ours = (tenant_id, run_id) in (("", ""), (self.tenant_id, self.run_id))
            if ours and not self._goes_on(executor, version):
                changed.set()

        transport = InProcessTransport(executor, self._runtime, self.tenant_id)
        if self._calls is not None:
            self._calls.on_error = changed.set
        worker = Worker(
            self._agent,
            transport,
            # The same id in the next process, which thus finds the leases that this one leaves.
            worker_id=f"embedded:{self.run_id}",
            queues=(spec.queue,),
            concurrency=min(spec.max_parallel, CONCURRENCY_MAX),
            runner=CallingRunner(self._agent, self._calls) if self._calls is not None else None,
        )
        unsubscribe = executor.store.subscribe(hint)
        # The worker first: the executor's first claim is for it.
        working = self._runtime.spawn(worker.run(), name="worker")
        executor.start()
        working.add_done_callback(lambda _: changed.set())
        try:
            if self._is_new:
                # The worker connects meanwhile: where that is quick, the run's first commit leases its first step.
                await self._begin(executor)
            return await self._standstill(executor, worker, working, changed)
        finally:
            unsubscribe()
            if executor.store_stopped is None:
                transport.stop()
                await worker.drain(0.0)
            else:
                transport.sever()  # Outcomes that are handed back could not be stored.
                working.cancel()
            try:
                await working
            except Unavailable as error:
                if worker.is_busy:
                    log.warning(
                        "the store was not told of steps, which run again", error=error.reason
                    )
            except (WorkerReplaced, asyncio.CancelledError):
                pass

    async def _other_arguments(self, store: Store) -> str:
        assert isinstance(self._start, Start | StartInThread)
        found = await differences(store, self._start)
        return (
            f"run {self.run_id!r} was started with other arguments"
            f"{': ' if found else ''}{found}; give this one another run_id, or continue"
            f" the first by Orchestrator.resume({self.run_id!r}, …)"
        )

    def _goes_on(self, executor: Executor, version: int) -> bool:
        """Return whether the executor has the run at this version, and it neither has ended nor stands still."""
        held = executor.held(self.tenant_id, self.run_id)
        if held is None or not version or held.run.version < version:
            return False
        return not held.run.ended and held.run.status not in _STANDS_STILL

    async def _begin(self, executor: Executor) -> Run:
        if self._start is not None:
            try:
                run = await self._send_start(executor, self._start)
            except AlreadyExists:
                raise AlreadyExists(await self._other_arguments(executor.store)) from None
            await self._begin_calls(executor.store, run, fresh=run.version == 1)
            return run
        run = await read_run(executor.store, self.tenant_id, self.run_id)
        if run.status in (RunStatus.FAILED, RunStatus.PAUSED):
            again = Resume(actor=ACTOR, retry_failed=self._retry_failed)
            run = (await carry_out(executor, self.tenant_id, self.run_id, again)).run
        await self._begin_calls(executor.store, run, fresh=False)
        return run

    async def _send_start(self, executor: Executor, start: Start | StartInThread | Fork) -> Run:
        start = replace(start, actor=ACTOR)
        if isinstance(start, StartInThread):
            return (await start_in_thread(executor, start)).run
        return accepted(await executor.send(self.tenant_id, self.run_id, start)).run

    async def _begin_calls(self, store: Store, run: Run, *, fresh: bool) -> None:
        if self._calls is not None:
            await self._calls.begin(store, run, fresh=fresh)

    async def _standstill(
        self,
        executor: Executor,
        worker: Worker,
        working: asyncio.Task[None],
        changed: asyncio.Event,
    ) -> Run:
        """Return the run once it has ended, or stands still without a running step.

        Raises:
            StoreStopped: the store has stopped, and so has the run.
        """
        away = ""
        while True:
            changed.clear()
            if self._calls is not None and self._calls.error is not None:
                raise self._calls.error
            if executor.store_stopped is not None:
                raise executor.store_stopped
            if working.done():
                # If another process has the run now, wait for that.
                with suppress(WorkerReplaced):
                    working.result()
            stands_still = False
            try:
                run = await read_run(executor.store, self.tenant_id, self.run_id)
                stands_still = run.status in _STANDS_STILL and not await _goes_on_later(
                    executor.store, run
                )
                if run.ended or (stands_still and not worker.is_busy):
                    return run
            except StoreUnavailable as error:
                if error.message != away:
                    log.warning("the store is away; it is asked again", error=error.message)
                away = error.message
            try:
                async with asyncio.timeout(POLL_MS / 1_000):
                    await (worker.idle() if stands_still else changed.wait())
            except TimeoutError:
                pass


async def _goes_on_later(store: Store, run: Run) -> bool:
    """Return whether a waiting run waits for child runs that work or have yet to report their end, or waits no more."""
    if run.blocked_on is not BlockedKind.CHILD:
        return False
    tenant_id, run_id = run.spec.tenant_id, run.spec.run_id
    query = RunQuery(tenant_id=tenant_id, labels={ROOT_LABEL: run_id})
    tree = [run] + [one async for one in every_row(store, query)]
    if any(
        one.letters.first < one.letters.next or not (one.ended or one.status in _STANDS_STILL)
        for one in tree
    ):
        return True
    # A child may have ended, and its parent gone on, after the parent was read.
    return (await read_run(store, tenant_id, run_id)).version != run.version
