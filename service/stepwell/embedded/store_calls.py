"""The calls of a run to its three stores, in the order that `protocols` documents.

The loop runs on a driver's store. Before each step, and once the run stands still, the loop's new
commits are written to the three stores. A task's result is written as soon as its function has
returned, before the loop gets it.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from stepwell.core.port import Store
from stepwell.core.records.errors import AlreadyExists
from stepwell.core.records.model import Run
from stepwell.core.records.states import Phase, TaskStatus
from stepwell.embedded.driver_stores import TENANT, Birth, status_word, task_rows
from stepwell.embedded.protocols import RESULT
from stepwell.embedded.restored import Restored
from stepwell.embedded.result import RunResult
from stepwell.embedded.stores import Stores, find_run, getter_of, value_of
from stepwell_client import Agent, RunStatus, StepKind, decode
from stepwell_client.errors import LeaseLost
from stepwell_client.internal import AgentRunner, StepServices, plan_draft
from stepwell_client.records import PlanLike
from stepwell_client.v1 import types_pb2, worker_pb2

UNSUPPORTED = "UNSUPPORTED_BY_STORES"
"""The failure kind of a step that asked for something that a user's own stores can't keep."""
_NO_CALL = "which stores of your own have no call for; pass a SQLiteStore, or store="
_PENDING, _RUNNING = status_word(TaskStatus.PENDING), status_word(TaskStatus.RUNNING)


class StoreCalls:
    """Calls the three stores of one run."""

    def __init__(
        self,
        stores: Stores,
        run_id: str,
        goal: str = "",
        max_iterations: int = 0,
        *,
        restored: Restored | None = None,
    ) -> None:
        """`restored`: the run is in a user's own stores, and continues from there."""
        self.error: Exception | None = None
        """The exception of a store, because of which the run is stopped."""
        self.on_error: Callable[[], None] = lambda: None
        self._stores = stores
        self._run_id = run_id
        self._create = (run_id, goal, max_iterations)
        self._created = restored is not None
        self._restored = restored
        self._store: Store | None = None
        self._lock = asyncio.Lock()
        self._revision = restored.plans if restored else 0
        """The revision of the stored plan."""
        self._version = 0
        self._statuses: dict[str, str] = dict(restored.statuses) if restored else {}
        self._finished = restored is not None and restored.phase is Phase.DONE

    def create_now(self, birth: Birth) -> None:
        """Create the run's record, in our stores by `birth`; a user's asynchronous ones wait for `begin`.

        Raises:
            AlreadyExists: there is a run with this id.
        """
        store = self._stores.runs
        is_async = inspect.iscoroutinefunction
        if self._stores.driver is not None:
            self._stores.driver.bear(birth)
            return
        if is_async(getter_of(store)) or is_async(store.create_run):
            return
        creating = self._create_run()  # Nothing in it waits, so its first step runs all of it.
        try:
            creating.send(None)
        except StopIteration:
            return
        creating.close()
        raise ValueError("run_store: a method that must be awaited is to be an `async def`")

    async def begin(self, store: Store, run: Run, *, fresh: bool) -> None:
        """Note the run that is about to be executed; `fresh` says that it was just created."""
        self._store = store
        self.error = None
        if self._stores.driver is not None:
            self._finished = run.ended
            if not fresh:
                self._revision = run.plan_revision
        if fresh and not self._created:
            await self._create_run()

    def check_budget(self) -> None:
        """Raise ValueError for a user's own stores, which can't keep a budget."""
        if self._stores.driver is None:
            raise ValueError(f"budget: it must be kept until the run ends, {_NO_CALL}")

    def done_before(self, assignment: worker_pb2.Assignment) -> worker_pb2.Outcome | None:
        """Return the outcome of a step that was finished before the run was restored, or None."""
        return self._restored.outcome(assignment) if self._restored else None

    async def before(self, assignment: worker_pb2.Assignment) -> None:
        """Write the commits before this step, and the step's beginning."""
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
        """Make an outcome a permanent failure if it asks for something that a user's own stores can't keep."""
        if self._stores.driver is not None:
            return
        problem = _not_kept(outcome.planned.plan.tasks or outcome.reflected.plan.tasks)
        if outcome.completed.more.tasks:
            problem = (
                f"added tasks must be kept with the result of the task that adds them, {_NO_CALL}"
            )
        if outcome.HasField("needs_answer"):
            problem = f"a question must be kept until it is answered, {_NO_CALL}"
        if problem:
            failure = types_pb2.Failure(kind=UNSUPPORTED, message=problem, retryable=False)
            outcome.failed.failure.CopyFrom(failure)

    async def after(self, assignment: worker_pb2.Assignment, outcome: worker_pb2.Outcome) -> None:
        """Save the result of a task, before the loop gets it."""
        if assignment.execution.kind == StepKind.TASK and outcome.HasField("completed"):
            completed = outcome.completed
            result = decode(completed.result) if completed.HasField("result") else None
            async with self._lock:
                await self._save(assignment.task.task_id, result)

    async def finish(self, result: RunResult) -> None:
        """Write the commits since the last step, and the answer of a SUCCEEDED run."""
        if self._finished:
            return
        run = result.run
        async with self._lock:
            await self._catch_up(run.plan_revision, run.iteration - 1)
            if result.status == RunStatus.SUCCEEDED:
                await self._save(RESULT, result.value)
                await self._update(Phase.DONE, run.iteration - 1)
            self._finished = run.has_ended

    # --- inside ---------------------------------------------------------------------------------------

    async def _create_run(self) -> None:
        if (
            self._stores.driver is None
            and await find_run(self._stores.runs, self._run_id) is not None
        ):
            raise AlreadyExists(
                f"run_store has a run {self._run_id!r} already: Orchestrator.resume goes on with it"
            )
        await value_of(self._stores.runs.create_run(*self._create))
        self._created = True

    async def _catch_up(self, revision: int, iteration: int) -> None:
        """Write a new plan, and the status of changed tasks.

        A restored run's plan may be older than the stored one, which then stays.
        """
        renewed = revision > self._revision
        if self._stores.driver is None:
            await self._write_tasks(renewed=renewed)
        if renewed:
            await self._update(Phase.EXECUTING, iteration)
            self._revision = revision

    async def _write_tasks(self, *, renewed: bool) -> None:
        """Write to a user's task store: all rows for a new plan, otherwise the changes.

        A task is leased before its step begins; `before` writes that it is running.
        """
        assert self._store is not None
        since = 0 if renewed else self._version
        loaded = await self._store.load(TENANT, self._run_id, since=since)
        if loaded is None:
            return
        self._version = loaded.run.version
        if not renewed:
            for task in loaded.tasks:
                settled = self._restored is not None and self._restored.is_settled(task.task_id)
                if task.status is not TaskStatus.RUNNING and not settled:
                    await self._write_status(task.task_id, status_word(task.status))
            return
        rows = task_rows(loaded)
        for row in rows:
            if row["status"] == _RUNNING and self._statuses.get(row["id"]) != _RUNNING:
                row["status"] = _PENDING
        await value_of(self._stores.tasks.save_tasks(self._run_id, rows))
        self._restored = None
        self._statuses = {row["id"]: row["status"] for row in rows}

    async def _write_status(self, task_id: str, status: str) -> None:
        if self._statuses.get(task_id) != status:
            self._statuses[task_id] = status
            await value_of(self._stores.tasks.update_task(self._run_id, task_id, status))

    async def _update(self, phase: Phase, iteration: int, task_id: str | None = None) -> None:
        update = self._stores.runs.update_loop_state
        await value_of(update(self._run_id, phase.value, iteration, task_id))

    async def _save(self, name: str, result: Any) -> None:
        await value_of(self._stores.context.save_result(self._run_id, name, result))


class CallingRunner(AgentRunner):
    """An agent's runner that makes the calls to the stores around each step."""

    def __init__(self, agent: Agent, calls: StoreCalls) -> None:
        super().__init__(agent)
        self._calls = calls

    async def run(
        self, assignment: worker_pb2.Assignment, services: StepServices
    ) -> worker_pb2.Outcome:
        """Run the step and return its outcome. Raises LeaseLost if a store failed, which stops the run."""
        done = self._calls.done_before(assignment)
        if done is not None:
            return done
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
            self._calls.on_error()
            raise LeaseLost("a store of the run failed") from error


def check_stores(
    stores: Stores,
    run_id: str | None,
    store: object,
    tenant_id: str,
    plan: PlanLike | None,
    *,
    unkept: Mapping[str, object],
) -> None:
    """Raise ValueError if an argument doesn't go with three stores.

    `unkept` has the arguments that a user's own stores can't keep, by name (None: not given).
    """
    if store is not None:
        raise ValueError("store: leave it out, or run_store, task_store and context_store")
    if run_id is None:
        raise ValueError("run_id is missing: the stores keep a run under the id that you give it")
    if tenant_id != TENANT:
        raise ValueError(
            f"tenant_id: the three stores know none but {TENANT!r}; pass store= instead"
        )
    if stores.driver is None:
        for name, given in unkept.items():
            if given is not None:
                raise ValueError(f"{name}: it must be kept until the run ends, {_NO_CALL}")
        problem = _not_kept(plan_draft(plan).tasks) if plan is not None else ""
        if problem:
            raise ValueError(f"plan: {problem}")


def _not_kept(tasks: Iterable[types_pb2.TaskSpec]) -> str:
    """Return the part of a plan that a user's own stores can't keep, or ""."""
    for task in tasks:
        if task.effect == types_pb2.EFFECT_AT_MOST_ONCE:
            return f"task {task.task_id!r} is AT_MOST_ONCE: its beginning must be kept before it begins, {_NO_CALL}"
    return ""
