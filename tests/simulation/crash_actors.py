"""The callers and workers of a run that crashes, and the world outside in which its effects take place.

All of them follow from what the store returns. What had no answer is said again unchanged, as by somebody whose
connection broke; a worker keeps each outcome until it is acknowledged.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress

from msgspec.structs import replace

from stepwell.core.fork.inherit import Changes
from stepwell.core.loop.occurrences import (
    Answer,
    AnyCommand,
    Begin,
    Cancel,
    Completed,
    Delivery,
    Failed,
    Fork,
    RaiseBudget,
    Reconciled,
    Resolve,
    Result,
    SendSignal,
    Start,
    StartInThread,
)
from stepwell.core.loop.transition import ReplyStatus
from stepwell.core.port import Assignment, ExecutionQuery, Presence, QuestionQuery, Store
from stepwell.core.records.journal import Entry
from stepwell.core.records.model import Budget, Failure, Payload, Run, TaskSpec, Usage
from stepwell.core.records.states import (
    BlockedKind,
    Effect,
    EventType,
    ExecutionStatus,
    Finding,
    ForkMode,
    PauseReason,
    QuestionKind,
    QuestionStatus,
    StepKind,
)
from stepwell.engine.executor import Executor, HeldLease
from stepwell.engine.journal_writer import NewEntries
from tests.simulation.canonical import RunKey
from tests.simulation.crash_workloads import CrashWorkload, effect_of, waits_of
from tests.simulation.simulator import forks
from tests.simulation.simulator.reading import events_of, every

CREDITS = 2


class Bank:
    """The world outside, to which AT_MOST_ONCE tasks do something: no crash undoes it."""

    def __init__(self) -> None:
        self.effects: Counter[str] = Counter()
        self.lost: Counter[str] = Counter()
        """Workers that the task has cost on purpose."""
        self.acknowledged: dict[tuple[RunKey, str], Payload | None] = {}
        """The results whose acceptance a worker has seen, by execution."""

    def serve(self, spec: TaskSpec) -> Result | None:
        """Apply the effect, as the task's behaviour says; None: its worker is lost."""
        place = spec.type.removeprefix("lost ")
        if place == "before" and not self.lost[spec.task_id]:
            self.lost[spec.task_id] += 1
            return None
        self.effects[spec.task_id] += 1
        if place == "after":
            return None
        return Completed(result=effect_of(spec.task_id))

    def check(self, task_id: str) -> tuple[Finding, Payload | None]:
        """Return whether the effect of a task took place, and its result."""
        if self.effects[task_id]:
            return Finding.DONE, effect_of(task_id)
        return Finding.NOT_DONE, None


class Callers:
    """The callers of a run and of its fork, over all lives of the executor."""

    def __init__(self, key: RunKey, workload: CrashWorkload) -> None:
        self.key = key
        fork = (key[0], f"fork-{key[1]}")
        self.keys: tuple[RunKey, ...] = (key, fork) if workload.forks_at else (key,)
        """The runs that have to come to an end."""
        self.workload = workload
        self.bank = Bank()
        self.cancel_wanted = asyncio.Event()
        self.moved = asyncio.Event()
        """Something was committed: there may be something to do."""
        self._sent: tuple[RunKey, Start | StartInThread | Fork | AnyCommand] = (
            key,
            workload.start(*key),
        )

    async def serve(self, executor: Executor, store: Store, poll_s: float) -> None:
        """Do what there is to do until all runs have ended. Begins with what had no answer."""
        await self._send(executor, *self._sent)
        while True:
            self.moved.clear()
            runs = [await store.get_run(*key) for key in self.keys]
            if all(run is not None and run.ended for run in runs):
                return
            run = runs[0]
            assert run is not None, "S3: a run is gone whose start was acknowledged"
            if runs[-1] is None and (fork := await self._fork(store, run)):
                await self._send(executor, self.keys[1], fork)
            if not run.ended:
                async for command, name in self._wishes(store, run):
                    named = replace(command, request_id=name, fingerprint=name)
                    await self._send(executor, self.key, named)
            with suppress(TimeoutError):
                async with asyncio.timeout(poll_s):
                    await self.moved.wait()

    async def _send(
        self, executor: Executor, key: RunKey, command: Start | StartInThread | Fork | AnyCommand
    ) -> None:
        self._sent = (key, command)
        reply = await executor.send(*key, command)
        assert reply.status in (ReplyStatus.ACCEPTED, ReplyStatus.UNCHANGED), (command, reply)

    async def _wishes(self, store: Store, run: Run) -> AsyncIterator[tuple[AnyCommand, str]]:
        """Yield what the run waits for, under request ids that are the same in each life."""
        tenant_id, run_id = self.key
        if self.cancel_wanted.is_set():
            yield Cancel(reason="no more"), "cancel"
        if run.pause_reason is PauseReason.BUDGET_EXHAUSTED:
            more = _more(run)
            yield RaiseBudget(budget=more), f"raise to {more}"
        if self.workload.signals:
            for one in await every(store, QuestionQuery(tenant_id=tenant_id, run_id=run_id)):
                if one.question.kind is QuestionKind.SIGNAL:
                    yield SendSignal(name="note", value=Payload(data=b"now")), "signal"
        if run.blocked_on is BlockedKind.QUESTION:
            for one in await every(store, QuestionQuery(tenant_id=tenant_id, run_id=run_id)):
                question = one.question
                if question.status is QuestionStatus.OPEN and not question.expires_ms:
                    text = Payload(
                        data=f"yes, {question.task_id}".encode(), media_type="text/plain"
                    )
                    answer = Answer(
                        question_id=question.question_id, payload=text, answered_by="somebody"
                    )
                    yield answer, f"answer {question.question_id}"
        if run.blocked_on is BlockedKind.UNKNOWN_OUTCOME:
            # The true finding for each unknown outcome that no RECONCILE step has settled.
            for one in await every(store, ExecutionQuery(tenant_id=tenant_id, run_id=run_id)):
                if one.status is ExecutionStatus.UNKNOWN_OUTCOME:
                    name, (finding, result) = one.execution_id, self.bank.check(one.task_id)
                    resolve = Resolve(execution_id=name, finding=finding, result=result)
                    yield resolve, f"resolve {name}"

    async def _fork(self, store: Store, run: Run) -> Fork | None:
        """Fork the run as it stood when the chosen task was completed, its successor done otherwise."""
        events, after = await events_of(store, *self.key), self.workload.forks_at
        completed = (e for e in events if e.type is EventType.TASK_COMPLETED)
        done = [e.version for e in completed if e.task_id == after]
        if not done:
            return None
        plan = await store.read_plan(*self.key, 1)
        assert plan is not None
        tasks = tuple(
            replace(one, prompt="otherwise") if after in one.depends_on else one
            for one in plan.tasks
        )
        changes = Changes(mode=ForkMode.PATCH, plan=tasks)
        fork = forks.make(run, {1: plan}, events, done[0], self.keys[1][1], lambda _: changes)
        assert fork is not None
        return fork


def _more(run: Run) -> Budget:
    """Return more of the part that is used up, so that each part stops the run once."""
    if run.usage.input_tokens >= run.budget.input_tokens:
        return Budget(input_tokens=run.budget.input_tokens * 10)
    return Budget(tasks=run.budget.tasks * 10)


class Died(Exception):
    """A step has killed its worker."""


class CrashWorker:
    """A worker that does one step at a time and keeps each outcome until it is acknowledged."""

    def __init__(self, callers: Callers, worker_id: str, instance: int) -> None:
        self.callers = callers
        self.worker_id = worker_id
        self.presence = Presence(
            tenant_id=callers.key[0],
            worker_id=worker_id,
            instance_id=f"{worker_id}-{instance}",
            queues=("default",),
            kinds=tuple(StepKind),
        )
        self.stages = (StepKind.REFLECT, StepKind.SYNTHESIZE)
        self.todo: asyncio.Queue[Assignment] = asyncio.Queue()
        self.kept: dict[str, Assignment] = {}
        """The assignments that it holds, by token."""
        self.results: dict[str, Result] = {}
        """The results of effects that it has caused and not yet reported, by token."""

    def assign(self, assignment: Assignment) -> None:
        self.kept[assignment.token] = assignment
        self.todo.put_nowait(assignment)

    def cancel(self, execution_id: str, run_id: str, reason: str) -> None:
        for token, one in tuple(self.kept.items()):
            if (one.run.run_id, one.execution.execution_id) == (run_id, execution_id):
                del self.kept[token]

    def ended(self, execution_id: str, run_id: str, entry: Entry) -> None:
        pass

    def replaced(self) -> None:
        self.kept.clear()

    async def work(self, executor: Executor) -> None:
        """Serve until cancelled.

        Raises:
            Died: the step was one that kills its worker.
        """
        session, live = await executor.attach(
            self,
            [
                HeldLease(run_id=a.run.run_id, execution_id=a.execution.execution_id, token=t)
                for t, a in self.kept.items()
            ],
        )
        self.todo = asyncio.Queue()
        for assignment, is_live in zip(tuple(self.kept.values()), live, strict=True):
            if is_live:
                self.todo.put_nowait(assignment)
            else:
                del self.kept[assignment.token]
        executor.credit(session, CREDITS)
        executor.claim_for_free()
        while True:
            assignment = await self.todo.get()
            if assignment.token in self.kept and await self._one(executor, assignment):
                executor.credit(session, 1)
                executor.claim_for_free()

    async def _one(self, executor: Executor, assignment: Assignment) -> bool:
        """Do a step; False: it costs a place of this worker for good."""
        behaviour = assignment.task.type if assignment.task is not None else ""
        if behaviour == "cancel":
            # The run is cancelled while this step is under way; it never reports.
            self.callers.cancel_wanted.set()
            return False
        if behaviour == "poison":
            raise Died
        result = await self._result(executor, assignment)
        if result is not None:
            name, key = assignment.execution.execution_id, _run_of(assignment)
            delivery = Delivery(
                execution_id=name,
                token=assignment.token,
                result=result,
                usage=Usage(input_tokens=1),
            )
            reply = await executor.deliver(*key, delivery)
            if reply.status is ReplyStatus.ACCEPTED and isinstance(result, Completed):
                self.callers.bank.acknowledged[key, name] = result.result
        self.kept.pop(assignment.token, None)
        self.results.pop(assignment.token, None)
        return True

    async def _result(self, executor: Executor, assignment: Assignment) -> Result | None:
        """Return the result of a step, or None if there is nothing to report."""
        spec, kind, bank = assignment.task, assignment.execution.kind, self.callers.bank
        if spec is not None and spec.type == "parent" and kind is StepKind.TASK:
            await self._open(executor, assignment)
        if spec is None or spec.effect is not Effect.AT_MOST_ONCE:
            return self.callers.workload.perform(assignment)
        if kind is StepKind.RECONCILE:
            finding, effect = bank.check(spec.task_id)
            return Reconciled(finding=finding, result=effect)
        if kind is not StepKind.TASK:
            return Failed(failure=Failure(kind="NoSuchStep", message=kind))
        if assignment.token not in self.results:
            begin = Begin(execution_id=assignment.execution.execution_id, token=assignment.token)
            reply = await executor.deliver(*_run_of(assignment), begin)
            lost = reply.status is ReplyStatus.LEASE_LOST
            if lost or (result := bank.serve(spec)) is None:
                return None
            self.results[assignment.token] = result
        return self.results[assignment.token]

    async def _open(self, executor: Executor, assignment: Assignment) -> None:
        """Open what a step waits for while it runs, as one message; it may be that of a worker that has restarted."""
        if not (waits := waits_of(assignment)):
            return
        name, token = assignment.execution.execution_id, assignment.token
        over = asyncio.get_running_loop().create_future()
        one = NewEntries(assignment.run.run_id, name, token, (), opens=waits, open_number=1)
        executor.write_journal(_run_of(assignment)[0], one, over.set_result)
        await over


def _run_of(assignment: Assignment) -> RunKey:
    return assignment.run.tenant_id, assignment.run.run_id
