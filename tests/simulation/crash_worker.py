"""The worker of a run that crashes, and the world outside in which its effects take place.

A worker does one step at a time and keeps each outcome until it is acknowledged. Its effects on the world
outside are not undone by any crash, and only the bank knows of them.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Protocol

from stepwell.core.loop.signals import (
    Begin,
    Completed,
    Delivery,
    Failed,
    Reconciled,
    ReplyStatus,
    Result,
)
from stepwell.core.port import ANY_ROLE, Assignment, Presence
from stepwell.core.records.model import Failure, TaskSpec, Usage
from stepwell.core.records.states import Effect, Finding, StepKind
from stepwell.engine.executor import Executor, HeldLease
from tests.simulation.canonical import RunKey
from tests.simulation.crash_workloads import effect_of
from tests.simulation.simulator.workloads import Workload

CREDITS = 2


class Died(Exception):
    """A step has killed its worker."""


class Bank:
    """The world outside, to which AT_MOST_ONCE tasks do something."""

    def __init__(self) -> None:
        self.effects: Counter[str] = Counter()
        self.lost: Counter[str] = Counter()
        """Workers that the task has cost on purpose."""

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

    def check(self, task_id: str) -> Finding:
        """Return whether the effect of a task took place."""
        return Finding.DONE if self.effects[task_id] else Finding.NOT_DONE


class WorkerHost(Protocol):
    """The part of a crash world that a worker needs."""

    key: RunKey
    workload: Workload
    bank: Bank
    cancel_wanted: asyncio.Event
    acknowledged: list[tuple[RunKey, Delivery]]


class CrashWorker:
    """A worker that does one step at a time and keeps each outcome until it is acknowledged."""

    def __init__(self, world: WorkerHost, worker_id: str, instance: int) -> None:
        self.world = world
        self.worker_id = worker_id
        self.presence = Presence(
            tenant_id=world.key[0],
            worker_id=worker_id,
            instance_id=f"{worker_id}-{instance}",
            queues=("default",),
            roles=(ANY_ROLE,),
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
            same_run = one.run.spec.run_id == run_id
            if same_run and one.execution.execution_id == execution_id:
                del self.kept[token]

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
                HeldLease(run_id=a.run.spec.run_id, execution_id=a.execution.execution_id, token=t)
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
        while True:
            assignment = await self.todo.get()
            if assignment.token in self.kept and await self._one(executor, assignment):
                executor.credit(session, 1)

    async def _one(self, executor: Executor, assignment: Assignment) -> bool:
        """Do a step; False: it costs a place of this worker for good."""
        behaviour = assignment.task.type if assignment.task is not None else ""
        if behaviour == "cancel":
            # The run is cancelled while this step is under way; it never reports.
            self.world.cancel_wanted.set()
            return False
        if behaviour == "poison":
            raise Died
        result = await self._result(executor, assignment)
        if result is not None:
            delivery = Delivery(
                execution_id=assignment.execution.execution_id,
                token=assignment.token,
                result=result,
                usage=Usage(input_tokens=1),
            )
            reply = await executor.deliver(*_run_of(assignment), delivery)
            if reply.status is ReplyStatus.ACCEPTED:
                self.world.acknowledged.append((_run_of(assignment), delivery))
        self.kept.pop(assignment.token, None)
        self.results.pop(assignment.token, None)
        return True

    async def _result(self, executor: Executor, assignment: Assignment) -> Result | None:
        """Return what a step comes to; None: there is nothing to report."""
        spec, kind = assignment.task, assignment.execution.kind
        if spec is None or spec.effect is not Effect.AT_MOST_ONCE:
            return self.world.workload.perform(assignment)
        if kind is StepKind.RECONCILE:
            finding = self.world.bank.check(spec.task_id)
            return Reconciled(
                finding=finding, result=effect_of(spec.task_id) if finding is Finding.DONE else None
            )
        if kind is not StepKind.TASK:
            return Failed(failure=Failure(kind="NoSuchStep", message=kind))
        if assignment.token in self.results:
            return self.results[assignment.token]
        begin = Begin(execution_id=assignment.execution.execution_id, token=assignment.token)
        reply = await executor.deliver(*_run_of(assignment), begin)
        if reply.status is ReplyStatus.LEASE_LOST:
            return None
        result = self.world.bank.serve(spec)
        if result is not None:
            self.results[assignment.token] = result
        return result


def _run_of(assignment: Assignment) -> RunKey:
    return assignment.run.spec.tenant_id, assignment.run.spec.run_id
