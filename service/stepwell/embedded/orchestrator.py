"""`Orchestrator`: one run in this process, from its start or from where it stopped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, overload

from stepwell.app.question_tokens import answer_by_token
from stepwell.app.questions import give_answer, open_questions
from stepwell.app.start import MAX_ITERATIONS_DEFAULT
from stepwell.app.threads import in_thread
from stepwell.core.loop.occurrences import Cancel, Fork, Pause, RaiseBudget
from stepwell.core.loop.signals import kept_signal
from stepwell.core.port import Runtime, Store
from stepwell.core.records import limits
from stepwell.core.records.model import Run, RunSpec
from stepwell.core.records.states import StepKind
from stepwell.embedded.arguments import (
    ACTOR,
    EmbeddedOnBusy,
    answer_command,
    budget_record,
    check_name,
    check_texts,
    kinds_of,
    on_busy_of,
    resolve_command,
    signal_command,
    start_command,
)
from stepwell.embedded.drive import Drive
from stepwell.embedded.driver_stores import TENANT
from stepwell.embedded.one_line import shown
from stepwell.embedded.protocols import ContextStore, RunStore, TaskStore
from stepwell.embedded.registry import Registry, agent_of, one_of, registry_may_be_second
from stepwell.embedded.restored import Restored, restore
from stepwell.embedded.result import Position, RunCancelled, RunFailed, RunResult, position_of
from stepwell.embedded.store_calls import StoreCalls, check_stores
from stepwell.embedded.stores import stores_of
from stepwell.engine.step_journal import signals_of
from stepwell.runtime import SystemRuntime
from stepwell.wire.records import to_message, to_record
from stepwell_client import Agent, Done, Failure, NotDone, Question, RunStatus, encode
from stepwell_client import Budget as ClientBudget
from stepwell_client import StepKind as ClientStepKind
from stepwell_client.internal import answer_payload, read_question, read_record
from stepwell_client.records import KeptSignal, PlanLike


class Orchestrator:
    """A run of an agent's loop in this process.

    `registry` has the functions: an Agent, or a mapping of names to functions (see `Registry`).

    It may also be given as `agent=`, or as the second argument. There are two ways to say where the
    run is kept; without either it is not kept.

    - `store`: a URL, or an open Store, which the caller closes. Without a `run_id` an id is made.
      With both, a second `run()` with the same arguments, in this process or another, finds the
      existing run and continues it.
    - `run_store`, `task_store`, `context_store`, and a `run_id`: one `MemoryStore` or `SQLiteStore`
      as all three, or
      three of your own (`stepwell.embedded.protocols` has the calls). The run's record exists once
      this returns or, if your `create_run` is asynchronous, before the first step.

    A run with a `plan` begins with its tasks; otherwise the plan function makes a plan. `stages`
    are the stages (REFLECT, SYNTHESIZE) of a run with a plan; None: all for which there are
    functions. At most `max_parallel` tasks run at once. A signal of a name in `reflect_on` makes the run reflect early.

    With a `thread` the run belongs to that thread of the store, of whose runs one works at a time: `run()` waits for
    those before it. `on_busy="reject"` makes `run()` fail with the reason THREAD_BUSY instead; `"interrupt"` cancels
    the run that works, and this one comes next.
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
        reflect_on: Sequence[str] = ...,
        thread: str = ...,
        on_busy: EmbeddedOnBusy = ...,
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
        reflect_on: Sequence[str] = (),
        thread: str = "",
        on_busy: EmbeddedOnBusy = "enqueue",
        tenant_id: str = TENANT,
        runtime: Runtime | None = None,
    ) -> None:
        """Check the arguments, and create the record in `run_store`. Nothing else is started before `run()`.

        Raises:
            ValueError: a store is missing, there is a `run_id` without stores or stores without a
                `run_id`, an argument exceeds its limit, or stores of your own can't keep an
                argument: a budget, input, labels, an AT_MOST_ONCE task.
            AlreadyExists: your own `run_store` has a run with this id.
        """
        made = agent_of(one_of(registry, agent))
        stores = stores_of(run_store, task_store, context_store)
        _check_names(tenant_id, run_id, thread, is_kept=stores is not None or store is not None)
        if stores is not None:
            given = {"budget": budget, "input": input, "labels": labels or None}
            given["thread"] = thread or None
            check_stores(stores, run_id, store, tenant_id, plan, unkept=given)
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
                reflect_on=tuple(dict.fromkeys(reflect_on)),
                thread_id=thread,
            ),
            budget=budget,
            run_input=encode(input),
            plan=plan,
            stages=kinds_of(made.stages if stages is None else stages) if plan is not None else (),
        )
        calls = StoreCalls(stores, run_id, goal, max_iterations) if stores is not None else None
        self._drive = Drive(
            *(made, run_id, in_thread(start, on_busy_of(on_busy)) if thread else start),
            store=stores.driver if stores is not None else store,
            tenant_id=tenant_id,
            runtime=runtime,
            calls=calls,
            is_new=is_new,
        )
        self._position = Position(goal)
        if calls is not None:
            calls.create_now(self._drive.bear)

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
        retry_failed: bool | None = None,
        tenant_id: str = TENANT,
        runtime: Runtime | None = None,
    ) -> Orchestrator:
        """Return an orchestrator of an existing run, ready to `run()`. Nothing is created.

        The run is found in `store`, or in the three stores. The functions are in `registry` or
        `agent`, or the second argument.

        `goal`, `iteration` and `context` of the returned object are those that were persisted.

        A run that a crash interrupted continues with its unfinished steps. A PAUSED, WAITING or
        FAILED run continues from its last checkpoint. A SUCCEEDED run just returns its result.
        Completed tasks never run again. `retry_failed` says whether failed tasks do; None: they do
        with `store`, and stay failed with three stores. A run whose task stays failed fails again
        once everything that doesn't depend on that task is done; in stores of your own, once the
        tasks that were ready are done.

        From stores of your own it continues from the phase in `run_store`: PLANNING plans,
        EXECUTING runs the tasks that are not `completed` with a result, REFLECTING reflects,
        SYNTHESIZING synthesizes, DONE has the result.

        Raises:
            ValueError: a store is missing, or returned something that can't be read.
            RunNotFound: the store has no such run (also a ValueError).
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
        retry_failed = stores is None if retry_failed is None else retry_failed
        position = Position()
        if stores is not None:
            check_stores(stores, run_id, store, tenant_id, None, unkept={})
            restored = None
            if stores.driver is None:
                restored = await restore(stores, run_id, retry_failed=retry_failed)
                position = Position(restored.goal, restored.iteration, restored.results)
                start = _begin_again(tenant_id, run_id, restored)
            kept, calls = stores.driver, StoreCalls(stores, run_id, restored=restored)
        drive = Drive(
            *(made, run_id, start),
            store=kept,
            tenant_id=tenant_id,
            runtime=runtime,
            calls=calls,
            retry_failed=retry_failed,
        )
        with shown(run_id, drive.kept):
            if start is None:
                position = position_of(await drive.check_resumable())
        return _Resumed(drive, position)

    @property
    def run_id(self) -> str:
        """The run's id, given or made."""
        return self._drive.run_id

    @property
    def goal(self) -> str:
        """The run's goal: the given one, or the persisted one of a resumed run."""
        return self._position.goal

    @property
    def iteration(self) -> int:
        """The run's iteration, from 0, as of the resume or the end of the last `run`."""
        return self._position.iteration

    @property
    def context(self) -> Mapping[str, Any]:
        """The results of completed tasks by their ids, as of the resume or the end of the last `run`.

        The answer of a run that is DONE is there as `__result__`.
        """
        return self._position.context

    async def run(self) -> RunResult:
        """Run the loop until the run ends, or stands still, and return its result.

        A run that is WAITING for a person or PAUSED has not failed and is returned with that
        status. After `answer` another `run()`, or `resume`, continues it. Cancelling the call stops
        the running steps, leaves the run in the store unchanged, and raises CancelledError.

        Raises:
            RunFailed: the run FAILED; `.result` has its record and the tasks' results.
            RunCancelled: it was cancelled. Also a RunFailed.
            InvalidArgument: the given plan is invalid; `.violations` says where.
            AlreadyExists: the run_id belongs to a run with other arguments.
            StoreRefused: the store can't be opened; the message says what to do.
        """
        with shown(self.run_id, self._drive.kept):
            result = await self._drive.run()
        self._position = position_of(result)
        if result.status == RunStatus.CANCELLED:
            raise RunCancelled(result)
        if result.status == RunStatus.FAILED:
            raise RunFailed(result)
        return result

    async def cancel(self, reason: str = "") -> None:
        """Cancel the run for good, while `run()` is running."""
        await self._send_running(Cancel(reason=reason))

    async def pause(self, reason: str = "") -> None:
        """Make `run()` start no more steps, wait for the running ones, and return."""
        await self._send_running(Pause(reason=reason))

    async def raise_budget(self, budget: ClientBudget, *, reason: str = "") -> None:
        """Set new, higher limits, during `run()` or between two calls of it.

        A run that is PAUSED for its budget then continues, in this `run()` or the next one.

        Raises:
            InvalidArgument: a limit would be lower than it was; `.violations` says which.
            ValueError: the run is in stores of your own, which can't keep a budget.
            FailedPrecondition: the run has ended.
        """
        check_texts({"reason": reason})
        await self._drive.send(RaiseBudget(budget=budget_record(budget), reason=reason))

    async def questions(self) -> Sequence[Question]:
        """Return the run's open questions to people, oldest first."""
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
        """Answer a question of the run, once, during `run()` or between two calls of it.

        With `replan` the run makes another plan before anything else; its planner is shown the
        `reason`.

        Raises:
            NotFound: the run has no such question.
            InvalidArgument: the answer doesn't fit; `.violations` says where.
            FailedPrecondition: the question was answered before, has expired or was withdrawn; or
                no other plan can follow in the last iteration.
        """
        command = answer_command(
            question_id, value, replan=replan, reason=reason, answered_by=answered_by
        )
        drive = self._drive
        async with drive.executor() as executor:
            await give_answer(executor, drive.tenant_id, drive.run_id, command)

    async def answer_by_token(self, token: str, value: object) -> bool:
        """Answer the question of this token, once; return False if this answer was given before.

        The question may be of any run in the store.

        Raises:
            NotFound: no question in the store has this token.
            InvalidArgument: the answer doesn't fit; `.violations` says where.
            FailedPrecondition: the question has another answer, or is no longer open.
        """
        async with self._drive.executor() as executor:
            return await answer_by_token(executor, token, to_record(answer_payload(value)))

    async def signal(self, name: str, value: object = None, *, reason: str = "") -> None:
        """Send the run a signal, during `run()` or between two calls of it: `ctx.receive(name)` of a step takes it, once.

        Raises:
            ValueError: the name is invalid, or the value is too large.
            FailedPrecondition: the run has ended, or keeps 1,000 signals or 16 MiB (SIGNALS_FULL).
        """
        await self._drive.send(signal_command(name, value, reason=reason))

    async def signals(self) -> Sequence[KeptSignal]:
        """Return the signals that the run keeps, which no step has received, oldest first."""
        async with self._drive.executor() as executor:
            kept = await signals_of(executor.store, (self._drive.tenant_id, self._drive.run_id))
        return tuple(read_record(to_message(kept_signal(one)), KeptSignal) for one in kept)

    async def resolve(self, execution_id: str, found: Done | NotDone | Failure) -> None:
        """Resolve an execution whose outcome is unknown, before or during `run()`.

        Done completes its task with that value, NotDone runs it again, and a Failure says that its
        effect took place and it failed for good.

        Raises:
            FailedPrecondition: the outcome of this execution isn't unknown, or no longer.
        """
        await self._drive.send(resolve_command(execution_id, found))

    async def _send_running(self, command: Cancel | Pause) -> None:
        if not self._drive.is_running:
            raise RuntimeError("the run is not running here")
        check_texts({"reason": command.reason})
        await self._drive.send(command)


def _check_names(tenant_id: str, run_id: str | None, thread: str, *, is_kept: bool) -> None:
    if run_id is not None and not is_kept:
        raise ValueError(
            "a run_id means nothing without a store: pass run_store=, task_store= and context_store=, or "
            "store=, or leave run_id"
        )
    if run_id is not None:
        check_name("run_id", run_id, limits.RUN_ID_CHARS_MAX)
    check_name("tenant_id", tenant_id)
    if thread:
        check_name("thread", thread)


def _spec(tenant_id: str, run_id: str, **named: Any) -> RunSpec:
    return RunSpec(
        tenant_id=tenant_id,
        run_id=run_id,
        # A separate queue, because the steps of other runs in the same store are not for this
        # agent.
        queue=f"embedded:{run_id}",
        executor_id=ACTOR,
        **named,
    )


def _begin_again(tenant_id: str, run_id: str, restored: Restored) -> Fork:
    """Return the command that starts a restored run in memory, in the iteration of its first remaining plan."""
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
    """An orchestrator of an existing run, without the arguments of a start."""

    def __init__(self, drive: Drive, position: Position) -> None:
        self._drive = drive
        self._position = position
