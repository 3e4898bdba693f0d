"""The calls that a run makes to its three stores, in the order that `stores` documents.

The loop runs on a driver's store as ever. Before each step, and once it stands still, what the loop has committed
since is written to the three stores; a task's result, as soon as its function has returned, before the loop has it.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Iterable
from typing import Any

from stepwell.core.port import Store
from stepwell.core.records.errors import AlreadyExists
from stepwell.core.records.model import Run
from stepwell.core.records.states import Phase, RunStatus, TaskStatus
from stepwell.embedded.result import RunResult
from stepwell.embedded.stores import RESULT, TENANT, RunStore, Stores, status_word, task_rows
from stepwell_client import Agent, Budget, LeaseLost, PlanLike, StepKind, decode
from stepwell_client.execution import AgentRunner, StepServices
from stepwell_client.toolkit import plan_draft
from stepwell_client.v1 import types_pb2, worker_pb2

UNSUPPORTED = "UNSUPPORTED_BY_STORES"
"""The kind of a step's failure that asked for what stores of a user's own can't keep."""
_NO_CALL = "which stores of your own have no call for; pass a SQLiteStore, or store="
_PENDING, _RUNNING = status_word(TaskStatus.PENDING), status_word(TaskStatus.RUNNING)


class StoreCalls:
    """Calls the three stores of one run."""

    def __init__(self, stores: Stores, run_id: str, goal: str, max_iterations: int) -> None:
        self.error: Exception | None = None
        """The exception of a store; the run is stopped for it."""
        self._stores = stores
        self._run_id = run_id
        self._create = (run_id, goal, max_iterations)
        self._created = False
        self._store: Store | None = None
        self._lock = asyncio.Lock()
        self._revision = 0
        """The plan that the stores have."""
        self._version = 0
        self._statuses: dict[str, str] = {}
        self._finished = False

    def create_now(self) -> None:
        """Create the run's record in stores of a user's own, unless they are asynchronous: those wait for `begin`.

        Raises:
            AlreadyExists: there is a run of this id.
        """
        store = self._stores.runs
        is_async = inspect.iscoroutinefunction
        if self._stores.driver or is_async(_getter(store)) or is_async(store.create_run):
            return
        creating = self._create_run()  # Nothing in it waits, so that its first step is all of it.
        try:
            creating.send(None)
        except StopIteration:
            return
        creating.close()
        raise ValueError("run_store: a method that must be awaited is to be an `async def`")

    async def begin(self, store: Store, run: Run, *, fresh: bool) -> None:
        """Note the run that is about to be driven. `fresh`: it was born just now."""
        self._store = store
        self.error = None
        if self._stores.driver is not None:
            self._finished = run.ended
        if not fresh:
            self._revision = run.plan_revision
        elif not self._created:
            await self._create_run()

    async def before(self, assignment: worker_pb2.Assignment) -> None:
        """Write what was committed before this step, and that it begins."""
        run, kind, task_id = assignment.run, assignment.execution.kind, assignment.task.task_id
        iteration = assignment.execution.iteration - 1
        async with self._lock:
            await self._catch_up(run.plan_revision, iteration)
            if kind == StepKind.TASK:
                await self._update(Phase.EXECUTING, iteration, task_id)
                await self._write_status(task_id, _RUNNING)
            elif kind == StepKind.REFLECT:
                await self._update(Phase.REFLECTING, iteration)

    def refuse(self, outcome: worker_pb2.Outcome) -> None:
        """Make an outcome a failure for good where stores of a user's own can't keep what it asks for."""
        if self._stores.driver is not None:
            return
        problem = _not_kept(outcome.planned.plan.tasks or outcome.reflected.plan.tasks)
        if outcome.HasField("needs_input"):
            problem = f"a question must be kept until it is answered, {_NO_CALL}"
        if problem:
            failure = types_pb2.Failure(kind=UNSUPPORTED, message=problem, retryable=False)
            outcome.failed.failure.CopyFrom(failure)

    async def after(self, assignment: worker_pb2.Assignment, outcome: worker_pb2.Outcome) -> None:
        """Save the result of a task, before the loop has it."""
        if assignment.execution.kind == StepKind.TASK and outcome.HasField("completed"):
            completed = outcome.completed
            result = decode(completed.result) if completed.HasField("result") else None
            async with self._lock:
                await self._save(assignment.task.task_id, result)

    async def finish(self, result: RunResult) -> None:
        """Write what was committed since the last step, and the answer of a run that has SUCCEEDED."""
        if self._finished:
            return
        run = result.run
        async with self._lock:
            await self._catch_up(run.plan_revision, run.iteration - 1)
            if run.status is RunStatus.SUCCEEDED:
                await self._save(RESULT, result.value)
                await self._update(Phase.DONE, run.iteration - 1)
            self._finished = run.ended

    # --- inside ---------------------------------------------------------------------------------------

    async def _create_run(self) -> None:
        if self._stores.driver is None and await self._find() is not None:
            raise AlreadyExists(
                f"run_store has a run {self._run_id!r} already: Orchestrator.resume goes on with it"
            )
        await _value(self._stores.runs.create_run(*self._create))
        self._created = True

    async def _find(self) -> object:
        try:
            return await _value(_getter(self._stores.runs)(self._run_id))
        except LookupError:
            return None

    async def _catch_up(self, revision: int, iteration: int) -> None:
        """Write a new plan, and the status of tasks that have changed."""
        if self._stores.driver is None:
            await self._write_tasks(renewed=revision != self._revision)
        if revision != self._revision:
            self._revision = revision
            await self._update(Phase.EXECUTING, iteration)

    async def _write_tasks(self, *, renewed: bool) -> None:
        """Write to a user's task store: all rows where there is a new plan, otherwise what has changed.

        A task is leased before its step begins; that it is running is written by `before`.
        """
        assert self._store is not None
        since = 0 if renewed else self._version
        loaded = await self._store.load(TENANT, self._run_id, since=since)
        if loaded is None:
            return
        self._version = loaded.run.version
        if not renewed:
            for task in loaded.tasks:
                if task.status is not TaskStatus.RUNNING:
                    await self._write_status(task.task_id, status_word(task.status))
            return
        rows = task_rows(loaded)
        for row in rows:
            if row["status"] == _RUNNING:
                row["status"] = self._statuses.get(row["id"], _PENDING)
        await _value(self._stores.tasks.save_tasks(self._run_id, rows))
        self._statuses = {row["id"]: row["status"] for row in rows}

    async def _write_status(self, task_id: str, status: str) -> None:
        if self._statuses.get(task_id) != status:
            self._statuses[task_id] = status
            await _value(self._stores.tasks.update_task(self._run_id, task_id, status))

    async def _update(self, phase: Phase, iteration: int, task_id: str | None = None) -> None:
        update = self._stores.runs.update_loop_state
        await _value(update(self._run_id, phase.value, iteration, task_id))

    async def _save(self, name: str, result: Any) -> None:
        await _value(self._stores.context.save_result(self._run_id, name, result))


class CallingRunner(AgentRunner):
    """An agent's runner that makes the calls to the stores around each step."""

    def __init__(self, agent: Agent, calls: StoreCalls) -> None:
        super().__init__(agent)
        self._calls = calls

    async def run(
        self, assignment: worker_pb2.Assignment, services: StepServices
    ) -> worker_pb2.Outcome:
        """Run the step and return its outcome. Raises LeaseLost where a store failed, which ends the run's drive."""
        await self._report(self._calls.before(assignment))
        outcome = await super().run(assignment, services)
        self._calls.refuse(outcome)
        await self._report(self._calls.after(assignment, outcome))
        return outcome

    async def _report(self, calling: Awaitable[None]) -> None:
        try:
            await calling
        except Exception as error:
            self._calls.error = self._calls.error or error
            raise LeaseLost("a store of the run failed") from error


def check_stores(
    stores: Stores,
    run_id: str | None,
    store: object,
    tenant_id: str,
    budget: Budget | None,
    plan: PlanLike | None,
) -> None:
    """Raise ValueError where an argument doesn't go with three stores, or stores of a user's own can't keep it."""
    if store is not None:
        raise ValueError("store: leave it out, or run_store, task_store and context_store")
    if run_id is None:
        raise ValueError("run_id is missing: the stores keep a run under the id that you give it")
    if tenant_id != TENANT:
        raise ValueError(
            f"tenant_id: the three stores know none but {TENANT!r}; pass store= instead"
        )
    if stores.driver is None:
        if budget is not None:
            raise ValueError(f"budget: what a run has used must be kept, {_NO_CALL}")
        problem = _not_kept(plan_draft(plan).tasks) if plan is not None else ""
        if problem:
            raise ValueError(f"plan: {problem}")


def _not_kept(tasks: Iterable[types_pb2.TaskSpec]) -> str:
    """Return what of a plan stores of a user's own can't keep; empty: they can keep it all."""
    for task in tasks:
        if task.effect == types_pb2.EFFECT_AT_MOST_ONCE:
            return f"task {task.task_id!r} is AT_MOST_ONCE: its beginning must be kept before it begins, {_NO_CALL}"
    return ""


async def _value(found: Any) -> Any:
    """Return what a store's method returned, awaited where it is asynchronous."""
    return await found if inspect.isawaitable(found) else found


def _getter(store: RunStore) -> Any:
    """Return the method that reads a run, by either of its names."""
    return getattr(store, "get_run", None) or getattr(store, "get")  # noqa: B009 - the protocol has the other name
