"""The callers of a run that crashes: they start it again in each life, and do what it waits for.

Each command follows from what the store returns. One that had no answer is sent again unchanged, as a caller
does whose connection broke.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import TypeVar

from msgspec.structs import replace

from stepwell.core.fork.carry import Changes
from stepwell.core.fork.fork import base_of
from stepwell.core.loop.signals import (
    Answer,
    AnyCommand,
    Cancel,
    Command,
    Fork,
    RaiseBudget,
    Resolve,
    Start,
)
from stepwell.core.loop.transition import ReplyStatus
from stepwell.core.port import ExecutionQuery, InputQuery, Store
from stepwell.core.records.fold import fold
from stepwell.core.records.model import Budget, Payload, Plan, Run
from stepwell.core.records.states import (
    BlockedKind,
    EventType,
    ExecutionStatus,
    Finding,
    ForkMode,
    InputStatus,
    PauseReason,
)
from stepwell.engine.executor import Executor
from tests.simulation.canonical import ALL_MAX, RunKey
from tests.simulation.crash_worker import Bank
from tests.simulation.crash_workloads import CrashWorkload, effect_of
from tests.simulation.simulator.workloads import Workload

C = TypeVar("C", bound=Command)
FORK = "-fork"
Sent = tuple[RunKey, Start | Fork | AnyCommand]


class Callers:
    """The callers of a run and of its fork, over all lives of the executor."""

    def __init__(self, key: RunKey, workload: Workload, bank: Bank) -> None:
        self.key = key
        self.workload = workload
        self.bank = bank
        self.cancel_wanted = asyncio.Event()
        self.moved = asyncio.Event()
        """Something was committed: there may be something to do."""
        self._sent: Sent = (key, workload.start(*key))

    @property
    def keys(self) -> tuple[RunKey, ...]:
        """The runs that have to come to an end."""
        if isinstance(self.workload, CrashWorkload) and self.workload.forks_at:
            return (self.key, (self.key[0], self.key[1] + FORK))
        return (self.key,)

    async def serve(self, executor: Executor, store: Store, poll_s: float) -> None:
        """Do what there is to do until all runs have ended. Begins with what had no answer."""
        await self._send(executor, self._sent)
        while True:
            self.moved.clear()
            runs = [await store.get_run(*key) for key in self.keys]
            if all(run is not None and run.ended for run in runs):
                return
            async for command in self._wishes(store, runs):
                await self._send(executor, command)
            with suppress(TimeoutError):
                async with asyncio.timeout(poll_s):
                    await self.moved.wait()

    async def _send(self, executor: Executor, sent: Sent) -> None:
        self._sent = sent
        key, command = sent
        reply = await executor.send(*key, command)
        assert reply.status in (ReplyStatus.ACCEPTED, ReplyStatus.UNCHANGED), (command, reply)

    async def _wishes(self, store: Store, runs: list[Run | None]) -> AsyncIterator[Sent]:
        run = runs[0]
        assert run is not None, "S3: a run is gone whose start was acknowledged"
        if len(runs) > 1 and runs[1] is None:
            fork = await self._fork(store, run)
            if fork is not None:
                yield self.keys[1], fork
        if run.ended:
            return
        if self.cancel_wanted.is_set():
            yield self.key, _named(Cancel(reason="no more"), "cancel")
        if run.pause_reason is PauseReason.BUDGET_EXHAUSTED:
            more = _more(run)
            yield self.key, _named(RaiseBudget(budget=more), f"raise to {more}")
        if run.blocked_on is BlockedKind.INPUT:
            async for answer in self._answers(store):
                yield self.key, answer
        if run.blocked_on is BlockedKind.UNKNOWN_OUTCOME:
            async for resolve in self._findings(store):
                yield self.key, resolve

    async def _answers(self, store: Store) -> AsyncIterator[Answer]:
        query = InputQuery(tenant_id=self.key[0], run_id=self.key[1])
        for one in (await store.page(query)).items:
            request = one.request
            if request.status is InputStatus.OPEN and not request.expires_ms:
                text = Payload(data=f"yes, {request.task_id}".encode(), media_type="text/plain")
                answer = Answer(input_id=request.input_id, payload=text, answered_by="somebody")
                yield _named(answer, f"answer {request.input_id}")

    async def _findings(self, store: Store) -> AsyncIterator[Resolve]:
        """Yield the true finding for each unknown outcome that no RECONCILE step has settled."""
        for one in (
            await store.page(
                ExecutionQuery(tenant_id=self.key[0], run_id=self.key[1], limit=ALL_MAX)
            )
        ).items:
            if one.status is ExecutionStatus.UNKNOWN_OUTCOME:
                finding = self.bank.check(one.task_id)
                result = effect_of(one.task_id) if finding is Finding.DONE else None
                resolve = Resolve(execution_id=one.execution_id, finding=finding, result=result)
                yield _named(resolve, f"resolve {one.execution_id}")

    async def _fork(self, store: Store, run: Run) -> Fork | None:
        """Fork the run as it stood when the chosen task was completed, its successor done otherwise."""
        assert isinstance(self.workload, CrashWorkload)
        page = await store.read_events(*self.key, after=0, limit=ALL_MAX)
        assert page is not None
        completed = (e for e in page.events if e.type is EventType.TASK_COMPLETED)
        done = [e.version for e in completed if e.task_id == self.workload.forks_at]
        if not done:
            return None
        version = done[0]
        events = [event for event in page.events if event.version <= version]
        plan = await store.read_plan(*self.key, 1)
        assert plan is not None
        spec = replace(
            run.spec,
            run_id=self.keys[1][1],
            parent_run_id=self.key[1],
            parent_version=version,
            family_id=self.key[1],
            request_fingerprint="fork",
        )
        rows_then = fold(run.spec, {1: plan}, events)
        base = base_of(spec, rows_then, {1: plan}, _otherwise(plan, self.workload.forks_at))
        assert not base.misfits, base.misfits
        return replace(base.fork, input=Payload(data=b"forked"))


def _otherwise(plan: Plan, after: str) -> Changes:
    """Return a plan in which the dependents of a task have another prompt."""
    tasks = tuple(
        replace(one, prompt="otherwise") if after in one.depends_on else one for one in plan.tasks
    )
    return Changes(mode=ForkMode.PATCH, plan=tasks)


def _more(run: Run) -> Budget:
    """Return more of the part that is used up, so that each part stops the run once."""
    if run.usage.input_tokens >= run.budget.input_tokens:
        return Budget(input_tokens=run.budget.input_tokens * 10)
    return Budget(tasks=run.budget.tasks * 10)


def _named(command: C, request_id: str) -> C:
    return replace(command, request_id=request_id, fingerprint=request_id)
