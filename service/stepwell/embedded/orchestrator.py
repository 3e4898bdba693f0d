"""`Orchestrator`: one run, from its start or from where it stopped, in this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, overload

from stepwell.app.questions import give_answer, open_questions
from stepwell.app.start import MAX_ITERATIONS_DEFAULT
from stepwell.core.loop.signals import Cancel, Fork, Pause, RaiseBudget
from stepwell.core.port import Runtime, Store
from stepwell.core.records import limits
from stepwell.core.records.model import Run, RunSpec
from stepwell.core.records.states import StepKind
from stepwell.embedded.arguments import (
    ACTOR,
    answer_command,
    budget_record,
    check_name,
    check_texts,
    kinds_of,
    resolve_command,
    start_command,
)
from stepwell.embedded.drive import Drive
from stepwell.embedded.driver_stores import TENANT
from stepwell.embedded.protocols import ContextStore, RunStore, TaskStore
from stepwell.embedded.registry import Registry, agent_of, one_of, registry_may_be_second
from stepwell.embedded.restored import Restored, restore
from stepwell.embedded.result import RunCancelled, RunFailed, RunResult
from stepwell.embedded.store_calls import StoreCalls, check_stores
from stepwell.embedded.stores import stores_of
from stepwell.runtime import SystemRuntime
from stepwell.wire import to_message
from stepwell_client import Agent, Done, Failure, NotDone, Question, RunStatus, encode
from stepwell_client import Budget as ClientBudget
from stepwell_client import StepKind as ClientStepKind
from stepwell_client.internal import read_question
from stepwell_client.records import PlanLike


class Orchestrator:
    """A run of an agent's loop in this process.

    `registry` holds the functions: an Agent, or a mapping of names to functions (see `Registry`). `agent=` is
    another word for it, and an Agent may stand second as well.

    Where the run is kept is said in one of two ways. Without either nothing is kept.

    - `store`: a URL, or an open Store that stays the caller's to close. With no `run_id` an id is made; with both, a
      second `run()` of the same arguments, in this process or another, finds the run that is there and goes on.
    - `run_store`, `task_store`, `context_store`, and a `run_id`: one `MemoryStore` or `SQLiteStore` as all three, or
      three of your own (`stepwell.embedded.protocols` has the calls). The run's record is there once this returns,
      or where `create_run` is asynchronous, before the first step.

    A run with a `plan` begins with its tasks; without, the plan function makes one. `stages` says which of REFLECT
    and SYNTHESIZE a run with a plan has: None, all that there are functions for. `max_parallel` tasks run at once.
    """

    @overload
    def __init__(
        self,
        goal: str,
        max_iterations: int = ...,
        registry: Registry | None = ...,
        run_store: RunStore | None = ...,
        task_store: TaskStore | None = ...,
        context_store: ContextStore | None = ...,
        run_id: str | None = ...,
        *,
        agent: Registry | None = ...,
        store: str | Store | None = ...,
        input: object = ...,
        plan: PlanLike | None = ...,
        stages: Sequence[ClientStepKind] | None = ...,
        labels: Mapping[str, str] | None = ...,
        budget: ClientBudget | None = ...,
        max_parallel: int = ...,
        no_progress_limit: int = ...,
        tenant_id: str = ...,
        runtime: Runtime | None = ...,
    ) -> None: ...
    @overload
    def __init__(self, goal: str, agent: Registry, /, **named: Any) -> None: ...
    @registry_may_be_second
    def __init__(
        self,
        goal: str,
        max_iterations: int = MAX_ITERATIONS_DEFAULT,
        registry: Registry | None = None,
        run_store: RunStore | None = None,
        task_store: TaskStore | None = None,
        context_store: ContextStore | None = None,
        run_id: str | None = None,
        *,
        agent: Registry | None = None,
        store: str | Store | None = None,
        input: object = None,  # noqa: A002 - the protocol's word for it
        plan: PlanLike | None = None,
        stages: Sequence[ClientStepKind] | None = None,
        labels: Mapping[str, str] | None = None,
        budget: ClientBudget | None = None,
        max_parallel: int = 1,
        no_progress_limit: int = limits.NO_PROGRESS_LIMIT_DEFAULT,
        tenant_id: str = TENANT,
        runtime: Runtime | None = None,
    ) -> None:
        """Check the arguments. Without `run_store`, nothing is opened or started before `run()`.

        Raises:
            ValueError: a store is missing, a `run_id` without stores or stores without a `run_id`, an argument
                beyond its limit, or with stores of your own one that they can't keep: a budget,
                input, labels, an AT_MOST_ONCE task.
            AlreadyExists: your own `run_store` has a run of this id.
        """
        made = agent_of(one_of(registry, agent))
        stores = stores_of(run_store, task_store, context_store)
        if stores is None and run_id is not None and store is None:
            raise ValueError(
                "a run_id means nothing without a store: pass run_store=, task_store= and context_store=, or "
                "store=, or leave run_id"
            )
        if stores is not None:
            unkept = {"budget": budget, "input": input, "labels": labels or None}
            check_stores(stores, run_id, store, tenant_id, plan, unkept=unkept)
        if run_id is not None:
            check_name("run_id", run_id, limits.RUN_ID_CHARS_MAX)
        check_name("tenant_id", tenant_id)
        if plan is None and StepKind.PLAN not in kinds_of(made.kinds):
            raise ValueError("the agent has no plan function: decorate one, or pass plan=")
        runtime = runtime or SystemRuntime()
        is_new = run_id is None
        run_id = run_id or runtime.new_id()
        start = start_command(
            _spec(
                tenant_id,
                run_id,
                goal=goal,
                labels=dict(labels or {}),
                max_iterations=max_iterations,
                max_parallel=max_parallel,
                no_progress_limit=no_progress_limit,
            ),
            budget=budget,
            run_input=encode(input),
            plan=plan,
            stages=kinds_of(made.stages if stages is None else stages) if plan is not None else (),
        )
        calls = StoreCalls(stores, run_id, goal, max_iterations) if stores is not None else None
        kept = stores.driver if stores is not None else store
        self._drive = Drive(
            made,
            run_id,
            start,
            store=kept,
            tenant_id=tenant_id,
            runtime=runtime,
            calls=calls,
            is_new=is_new,
        )
        if calls is not None:
            calls.create_now()

    @staticmethod
    async def resume(
        run_id: str,
        run_store: RunStore | Registry | None = None,
        task_store: TaskStore | None = None,
        context_store: ContextStore | None = None,
        registry: Registry | None = None,
        *,
        agent: Registry | None = None,
        store: str | Store | None = None,
        tenant_id: str = TENANT,
        runtime: Runtime | None = None,
    ) -> Orchestrator:
        """Return an orchestrator of a run that is there, ready to `run()`. Nothing is made by asking.

        The run is found in `store`, or in the three stores; the functions are in `registry` or `agent`, or stand second.

        One that a crash interrupted goes on with what is not done; PAUSED, WAITING and FAILED ones
        go on from their last checkpoint, failed tasks with new attempts; one that SUCCEEDED just
        returns its result. Completed tasks are never run again.

        From stores of your own it goes on from the phase in `run_store`: PLANNING plans, EXECUTING runs the tasks
        that are not `completed` with a result, REFLECTING reflects, SYNTHESIZING synthesizes, DONE has the result.

        Raises:
            ValueError: a store is missing, or what one returned can't be read.
            RunNotFound: there is no such run in this store (a ValueError too).
            FailedPrecondition: the run was cancelled, which is final.
        """
        check_name("run_id", run_id, limits.RUN_ID_CHARS_MAX)
        check_name("tenant_id", tenant_id)
        second, runs = (
            (run_store, None) if isinstance(run_store, Agent | Mapping) else (None, run_store)
        )
        made = agent_of(one_of(registry, agent, second))
        stores = stores_of(runs, task_store, context_store)
        if stores is None and store is None:
            raise ValueError("pass run_store=, task_store= and context_store=, or store=")
        runtime = runtime or SystemRuntime()
        kept, start, calls = store, None, None
        if stores is not None:
            check_stores(stores, run_id, store, tenant_id, None, unkept={})
            restored = None
            if stores.driver is None:
                restored = await restore(stores, run_id)
                start = _begin_again(tenant_id, run_id, restored)
            kept, calls = stores.driver, StoreCalls(stores, run_id, restored=restored)
        drive = Drive(
            made, run_id, start, store=kept, tenant_id=tenant_id, runtime=runtime, calls=calls
        )
        if start is None:
            await drive.check_resumable()
        return _Resumed(drive)

    @property
    def run_id(self) -> str:
        """The run's id: the one given, else the one that was made."""
        return self._drive.run_id

    async def run(self) -> RunResult:
        """Run the loop until the run ends, or stands still, and return its result.

        A run that is WAITING for a person or PAUSED has not failed: it is returned with that status.
        After `answer` another `run()` goes on with it, and so does `resume`. Cancelling the call stops the
        steps under way, leaves the run as it is in the store, and raises CancelledError.

        Raises:
            RunFailed: the run FAILED; `.result` has its record and the tasks' results.
            RunCancelled: it was cancelled. A RunFailed too.
            InvalidArgument: the plan given is not valid; `.violations` says where.
            AlreadyExists: the run_id is that of a run with other arguments.
            StoreRefused: the store can't be opened; the message says what to do.
        """
        result = await self._drive.run()
        if result.status == RunStatus.CANCELLED:
            raise RunCancelled(result)
        if result.status == RunStatus.FAILED:
            raise RunFailed(result)
        return result

    async def cancel(self, reason: str = "") -> None:
        """Cancel the run for good, while `run()` runs it."""
        await self._send_running(Cancel(reason=reason))

    async def pause(self, reason: str = "") -> None:
        """Have `run()` start no more steps, wait for those under way, and return."""
        await self._send_running(Pause(reason=reason))

    async def raise_budget(self, budget: ClientBudget, *, reason: str = "") -> None:
        """Set new, higher limits, while `run()` runs it or between two calls of it.

        A run that is PAUSED for its budget goes on then, in this `run()` or the next one.

        Raises:
            InvalidArgument: a limit would be lower than it was; `.violations` says which.
            ValueError: the run is in stores of your own, which can't keep a budget.
            FailedPrecondition: the run has ended.
        """
        check_texts({"reason": reason})
        await self._drive.send(RaiseBudget(budget=budget_record(budget), reason=reason))

    async def questions(self) -> Sequence[Question]:
        """Return the questions that the run waits for people to answer, oldest first."""
        async with self._drive.executor() as executor:
            run_id = self._drive.run_id
            asked = await open_questions(executor.store, self._drive.tenant_id, run_id)
        return tuple(read_question(to_message(one), run_id) for one in asked)

    async def answer(
        self,
        question_id: str,
        value: object,
        *,
        replan: bool = False,
        reason: str = "",
        answered_by: str = "",
    ) -> None:
        """Answer a question of the run, once, while `run()` runs it or between two calls of it.

        `replan`: have it make another plan before anything else; its planner is shown the `reason`.

        Raises:
            NotFound: it has asked no such thing.
            InvalidArgument: the answer doesn't fit; `.violations` says where.
            FailedPrecondition: it was answered before, has expired or is not asked any more; or it
                is the last iteration, and no other plan can follow.
        """
        command = answer_command(
            question_id, value, replan=replan, reason=reason, answered_by=answered_by
        )
        drive = self._drive
        async with drive.executor() as executor:
            await give_answer(executor, drive.tenant_id, drive.run_id, command)

    async def resolve(self, execution_id: str, found: Done | NotDone | Failure) -> None:
        """Settle an execution whose outcome is unknown: before `run()`, or meanwhile.

        Done: its task is completed, with that value. NotDone: it is run again. A Failure: its effect took
        place and it failed for good.

        Raises:
            FailedPrecondition: the outcome of this execution isn't unknown, or not any more.
        """
        await self._drive.send(resolve_command(execution_id, found))

    async def _send_running(self, command: Cancel | Pause) -> None:
        if not self._drive.is_running:
            raise RuntimeError("the run is not running here")
        check_texts({"reason": command.reason})
        await self._drive.send(command)


def _spec(tenant_id: str, run_id: str, **named: Any) -> RunSpec:
    return RunSpec(
        tenant_id=tenant_id,
        run_id=run_id,
        # Its own: the steps of other runs in the same store are not for this agent.
        queue=f"embedded:{run_id}",
        executor_id=ACTOR,
        **named,
    )


def _begin_again(tenant_id: str, run_id: str, restored: Restored) -> Fork:
    """Return the command that begins a restored run in memory, in the iteration of the first plan that is left."""
    spec = _spec(
        tenant_id,
        run_id,
        goal=restored.goal,
        max_iterations=restored.max_iterations,
        max_parallel=1,
        no_progress_limit=0,  # Its results of earlier iterations aren't known.
    )
    start = start_command(spec, budget=None, run_input=None, plan=None, stages=())
    return Fork(spec=start.spec, run=Run(spec=start.spec, iteration=restored.first_iteration + 1))


class _Resumed(Orchestrator):
    """An orchestrator of a run that is there: it starts none, so it takes no arguments of a start."""

    def __init__(self, drive: Drive) -> None:
        self._drive = drive
