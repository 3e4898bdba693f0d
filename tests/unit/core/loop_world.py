"""A world for the loop alone: it plays workers, the store's clock and people, and checks every step.

No store and no asyncio: transitions are applied at once. Each commit must be one that the simulator's
rules allow; after it the fold of all events (S20), the counts and the indexes are compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import astuple, replace

from stepwell.core.loop.advance import advance
from stepwell.core.loop.budgets import used_up
from stepwell.core.loop.context import Context, FreeWorker, Grants, KeyFound, KeyState
from stepwell.core.loop.idempotency import MORE_TIMER
from stepwell.core.loop.occurrences import (
    Answer,
    AwaitChild,
    AwaitSignal,
    Begin,
    BudgetSpent,
    Called,
    Completed,
    Delivery,
    Failed,
    GrantLease,
    LeaseExpired,
    NeedsAnswer,
    Occurrence,
    Planned,
    Reflected,
    Result,
    SignalChild,
    Sleep,
    Start,
    Suspended,
    SuspendedCall,
    TimerDue,
)
from stepwell.core.loop.signals import JOURNAL
from stepwell.core.loop.state import RunState
from stepwell.core.loop.transition import Reply, Transition
from stepwell.core.port import Commit, EntryWrite, JournalQuery, Loaded, OpenExecution
from stepwell.core.records.checkpoints import run_of
from stepwell.core.records.events import Event
from stepwell.core.records.fold import fold
from stepwell.core.records.journal import Entry, StoredEntry, Totals, value_bytes
from stepwell.core.records.model import (
    AttemptCounts,
    Execution,
    Failure,
    Message,
    Payload,
    Plan,
    RetryPolicy,
    Run,
    RunSpec,
    Task,
    TaskSpec,
    Usage,
)
from stepwell.core.records.states import (
    OPEN,
    SETTLED,
    Decision,
    ExecutionStatus,
    StepKind,
)
from tests.simulation.simulator.rules import check_after, check_before
from tests.simulation.simulator.run_model import Applied, RunModel

BOTH = (StepKind.REFLECT, StepKind.SYNTHESIZE)
ONCE = RetryPolicy(max_attempts=1)
AT_ONCE = RetryPolicy(initial_backoff_ms=0)
YES = Payload(data=b"true")
NO_USAGE = Usage()


class World:
    """One run, its whole log, and the checks."""

    def __init__(self, *, seed: int = 0) -> None:
        self.state = RunState.empty("tenant", "run")
        self.seed = seed
        self._model = RunModel("tenant", "run")
        self.timers: dict[str, int] = {}
        self.keys: dict[str, KeyFound] = {}
        """The store's findings by key; it lets the run have all others."""
        self.read: tuple[JournalQuery, ...] = ()
        """The questions for journal entries that decisions have asked."""
        self.said: dict[str, list[Message]] = {}
        """The messages of journal entries, by the execution that recorded them."""
        self.now_us = 1_000_000
        self._minted = 0

    # --- acting -----------------------------------------------------------------------------------

    def do(self, *occurrences: Occurrence, eager: bool = False) -> tuple[Reply, ...]:
        """Advance, check, apply; `eager` leases all offered steps in the same commit."""
        self.now_us += 1_000
        occurrences = tuple(
            replace(one, actor=one.actor or "caller") if isinstance(one, Called) else one
            for one in occurrences
        )
        context = Context(
            now_us=self.now_us, seed=self.seed, grants=self._grants() if eager else Grants()
        )
        before = _picture(self.state)
        transition = advance(self.state, occurrences, context)
        while transition.asks:
            found = {
                key: self._found(key, reserve) for key, reserve in transition.asked_keys.items()
            }
            pages = {one: self._entries(one) for one in transition.asked_pages}
            self.read += transition.asked_pages
            context = replace(context, keys=context.keys | found, pages={**context.pages, **pages})
            transition = advance(self.state, occurrences, context)
        assert _picture(self.state) == before, "advance changed the state that it was given"
        assert advance(self.state, occurrences, context) == transition, "advance is not a function"
        if transition.commit is not None:
            self._apply(transition.commit)
            self._minted += len(transition.commit.leases) if eager else 0
        return transition.replies

    def _found(self, key: str, reserve: bool) -> KeyFound:
        free = KeyFound(state=KeyState.OURS if reserve else KeyState.FREE)
        return self.keys.get(key, free)

    def _entries(self, query: JournalQuery) -> list[StoredEntry]:
        """Return the first entries that the run's store has for a query of the loop."""
        if not query.execution_id:
            kept = self.kept(query.journal)
            kept = [one for one in kept if query.generation in (0, one.generation)]
        else:
            said = tuple(self.said[query.execution_id])
            entry = Entry(key="said", messages=said)
            kept = [EntryWrite(journal=query.journal, generation=1, entry=entry)]
        return [
            StoredEntry(
                entry=one.entry,
                journal=one.journal,
                generation=one.generation,
                execution_id="",
                size=value_bytes(one.entry),
            )
            for one in kept[: query.limit]
        ]

    def _grants(self) -> Grants:
        worker = FreeWorker(worker_id="w", kinds=tuple(StepKind), stages=BOTH, credits=10_000)
        first = self._minted + 1
        tokens = tuple(f"token-{number}" for number in range(first, first + 100))
        return Grants(workers=(worker,), tokens=tokens)

    def revoked_by(self, one: Occurrence) -> dict[str, str]:
        """Return the leases that this occurrence would revoke, and why; the run stays as it is."""
        transition = advance(self.state, [one], Context(now_us=self.now_us, seed=self.seed))
        return {revoked.execution_id: revoked.reason for revoked in transition.revoked}

    def advance(self, *occurrences: Occurrence) -> Transition:
        """Return the decision on these occurrences, and leave the run as it is."""
        return advance(self.state, occurrences, Context(now_us=self.now_us, seed=self.seed))

    def start(
        self,
        *,
        plan: Sequence[TaskSpec] | None = None,
        stages: tuple[StepKind, ...] = (),
        **spec: Any,
    ) -> Reply:
        """Start the run."""
        whole = RunSpec(tenant_id="tenant", run_id="run", **spec)
        tasks = None if plan is None else tuple(plan)
        reply = self.do(Start(spec=whole, plan=tasks, stages=stages))[0]
        if MORE_TIMER in self.timers:
            self.do(TimerDue(name=MORE_TIMER))
        return reply

    def take(
        self, execution_id: str, *, stages: tuple[StepKind, ...] = BOTH, **fields: Any
    ) -> GrantLease:
        """Return a lease with a fresh token."""
        self._minted += 1
        token = f"token-{self._minted}"
        grant = GrantLease(execution_id=execution_id, token=token, worker_id="w", stages=stages)
        return replace(grant, **fields)

    def lease(
        self, execution_id: str, *, stages: tuple[StepKind, ...] = BOTH, **fields: Any
    ) -> str:
        """Lease a ready execution; returns its token."""
        take = self.take(execution_id, stages=stages, **fields)
        assert self.do(take)[0].status == "ACCEPTED"
        return take.token

    def deliver(self, execution_id: str, result: Result, **fields: object) -> Reply:
        """Deliver an execution's result, leasing it first if it is only ready."""
        row = self.state.open.get(execution_id)
        if row is not None and row.execution.status is ExecutionStatus.READY:
            self.lease(execution_id)
        token = self.held(execution_id).token
        delivery = Delivery(execution_id=execution_id, token=token, result=result)
        return self.do(replace(delivery, **fields))[0]

    def complete(self, *task_ids: str) -> None:
        """Complete these tasks, one after the other."""
        for task_id in task_ids:
            attempt = self.task(task_id).attempts
            assert self.deliver(f"task:{task_id}#{attempt}", Completed()).status == "ACCEPTED"

    def fail(self, task_id: str, **failure: object) -> None:
        """Fail an attempt at this task."""
        attempt = self.task(task_id).attempts
        kind = str(failure.pop("kind", "Boom"))
        result = Failed(failure=replace(Failure(kind=kind), **failure))
        assert self.deliver(f"task:{task_id}#{attempt}", result).status == "ACCEPTED"

    def begin(self, execution_id: str) -> str:
        """Lease an execution and begin it; returns its token."""
        token = self.lease(execution_id)
        assert self.do(Begin(execution_id=execution_id, token=token))[0].status == "ACCEPTED"
        return token

    def expire(self, execution_id: str, **fields: Any) -> Reply:
        """End the lease of an execution, leasing it first if it is only ready."""
        if self.held(execution_id).execution.status is ExecutionStatus.READY:
            self.lease(execution_id)
        token = self.held(execution_id).token
        return self.do(LeaseExpired(execution_id=execution_id, token=token, **fields))[0]

    def record(
        self, execution_id: str, *, size: int = 1, usage: Usage = NO_USAGE, says: Sequence[str] = ()
    ) -> None:
        """Record an entry under the lease of an execution, leasing it first if it is only ready."""
        if self.held(execution_id).execution.status is ExecutionStatus.READY:
            self.lease(execution_id)
        held = self.held(execution_id)
        messages = [Message(role="assistant", content=text) for text in says]
        self.said.setdefault(execution_id, []).extend(messages)
        before = held.recorded
        totals = Totals(
            entries=before.entries + 1,
            bytes=before.bytes + size,
            usage=before.usage + usage,
            messages=before.messages + len(messages),
        )
        self.state.note_recorded(execution_id, held.token, totals)

    def suspend(
        self,
        execution_id: str,
        **waits: Sleep | NeedsAnswer | BudgetSpent | AwaitSignal | AwaitChild | SignalChild,
    ) -> None:
        """Hand a step back that waits for these, by the keys of their calls."""
        calls = tuple(
            SuspendedCall(call=call, wait=wait, arguments=f"digest of {call}")
            for call, wait in waits.items()
        )
        assert self.deliver(execution_id, Suspended(waits=calls)).status == "ACCEPTED"

    def late(self, execution_id: str, token: str, result: Result | None = None) -> str:
        """Deliver with an earlier token; returns the reply's status. A refused result changes nothing."""
        before = self.run
        delivery = Delivery(execution_id=execution_id, token=token, result=result or Completed())
        status = self.do(delivery)[0].status
        assert status != "LEASE_LOST" or self.run == before, (
            "a refused result left something behind"
        )
        return status

    def ask(self, task_id: str, **fields: Any) -> str:
        """Have a task's attempt ask; returns the request's id."""
        execution_id = f"task:{task_id}#{self.task(task_id).attempts}"
        result = NeedsAnswer(prompt=f"{task_id}?", **fields)
        assert self.deliver(execution_id, result).status == "ACCEPTED"
        return f"question:{execution_id}"

    def answer(self, question_id: str, **fields: Any) -> Reply:
        """Answer a request with yes, unless a field says otherwise."""
        return self.do(Answer(**{"question_id": question_id, "payload": YES, **fields}))[0]

    # --- looking ------------------------------------------------------------------------------------

    @property
    def events(self) -> list[Event]:
        return self._model.events

    @property
    def commits(self) -> list[Commit]:
        return [applied.commit for applied in self._model.applied]

    @property
    def kept_signals(self) -> tuple[EntryWrite, ...]:
        """The signals that the run keeps, as its store has them."""
        return self.kept(JOURNAL)

    def kept(self, journal: str) -> tuple[EntryWrite, ...]:
        """Return the entries of a journal of the run's own, as its store has them."""
        found: dict[str, EntryWrite] = {}
        for commit in self.commits:
            for one in commit.forgotten:
                if one.journal == journal:
                    found.pop(one.entry.key, None)
            found |= {one.entry.key: one for one in commit.entries if one.journal == journal}
        return tuple(found.values())

    @property
    def plans(self) -> dict[int, Plan]:
        return self._model.plans

    @property
    def executions(self) -> dict[str, Execution]:
        return self._model.executions

    @property
    def run(self) -> Run:
        return self.state.run

    def task(self, task_id: str) -> Task:
        return self.state.tasks[task_id]

    def statuses(self) -> dict[str, str]:
        return {task_id: str(task.status) for task_id, task in self.state.tasks.items()}

    def status_of(self, execution_id: str) -> str:
        return str(self.executions[execution_id].status)

    def ready(self) -> list[str]:
        return self._open(ExecutionStatus.READY)

    def leased(self) -> list[str]:
        return self._open(ExecutionStatus.LEASED)

    def _open(self, status: ExecutionStatus) -> list[str]:
        return [k for k, row in self.state.open.items() if row.execution.status is status]

    def held(self, execution_id: str) -> OpenExecution:
        return self.state.open[execution_id]

    def kinds(self) -> list[str]:
        return [str(event.type) for event in self.events]

    # --- checking -----------------------------------------------------------------------------------

    def _apply(self, commit: Commit) -> None:
        applied = Applied(commit, "here", len(self.events), self.now_us, at=0.0)
        check_before(self._model, applied)
        self._model.apply(applied)
        check_after(self._model, applied)
        for timer in commit.timers:
            if timer.delay_ms < 0:
                self.timers.pop(timer.name, None)
            else:
                self.timers[timer.name] = timer.delay_ms
        self.state.apply(commit)
        if commit.checkpoint is not None:
            assert run_of(commit.run.spec, commit.checkpoint) == commit.run
        self._check_state()

    def _check_state(self) -> None:
        run, executions = self.run, self.executions
        goes_on = run.ended or run.blocked_on != "NONE" or MORE_TIMER in self.timers
        assert goes_on or self.leased(), "a run that waits for nothing has leases"
        if used_up(run) and not run.ended:
            assert not self.ready(), "S17: something is offered, and the budget is used up"
        ended = [e.status for e in executions.values() if e.status not in OPEN]
        counts = astuple(run.attempts)
        for status, count in zip(AttemptCounts.__struct_fields__, counts, strict=True):
            assert count == ended.count(ExecutionStatus(status.upper())), f"attempts {status}"
        rows = fold(run.spec, self.plans, self.events)
        assert (rows.run, rows.tasks, rows.executions) == (run, self.state.tasks, executions), "S20"
        self._check_indexes()

    def _check_indexes(self) -> None:
        state = self.state
        anew = RunState(state.run)
        anew.graph, anew.tasks = state.graph, state.tasks
        anew.rebuild_indexes()
        unsettled = {k for k, t in state.tasks.items() if t.status not in SETTLED}
        assert {k: state.waiting[k] for k in unsettled} == {k: anew.waiting[k] for k in unsettled}
        assert set(state.runnable) == set(anew.runnable)
        assert state.suspended == anew.suspended
        assert {k: +v for k, v in state.groups.items()} == anew.groups
        anew.merge(Loaded(run=state.run, questions=tuple(state.questions.values()), complete=False))
        for name in ("but_children", "of_step", "calls", "shares"):
            assert getattr(state, name) == getattr(anew, name), name
        tally = [str(t.status) for t in state.tasks.values()]
        assert state.run.counts.total == len(tally)
        for status in ("completed", "failed", "skipped", "cancelled"):
            assert getattr(state.run.counts, status) == tally.count(status.upper()), status


def _picture(state: RunState) -> tuple[object, ...]:
    return (
        state.run,
        dict(state.tasks),
        dict(state.open),
        dict(state.questions),
        dict(state.waiting),
        {k: dict(v) for k, v in state.groups.items()},
        tuple(state.runnable),
        frozenset(state.suspended),
        dict(state.requests),
    )


def committed(transition: Transition) -> Commit:
    """Return the commit of a transition that changes something."""
    assert transition.commit is not None
    return transition.commit


def task(task_id: str, *depends_on: str, **fields: Any) -> TaskSpec:
    """Return a task and what it depends on."""
    return TaskSpec(task_id=task_id, depends_on=depends_on, **fields)


def tasks(*ids: str, **fields: Any) -> tuple[TaskSpec, ...]:
    """Return tasks that depend on nothing."""
    return tuple(task(task_id, **fields) for task_id in ids)


def chain(*ids: str, **fields: Any) -> list[TaskSpec]:
    """Return tasks that depend on one another in this order."""
    return [task(each, *ids[max(0, n - 1) : n], **fields) for n, each in enumerate(ids)]


def started(*plan: TaskSpec | str, **spec: Any) -> World:
    """Return a run that was started with this plan; an id alone is a task that depends on nothing."""
    world = World()
    whole = [task(each) if isinstance(each, str) else each for each in plan]
    assert world.start(plan=whole, **spec).status == "ACCEPTED"
    return world


def at_step(kind: StepKind) -> World:
    """Return a run whose step of this kind is offered."""
    world = World()
    world.start()
    if kind is not StepKind.PLAN:
        world.deliver("plan:1#1", Planned(tasks=tasks("a")))
        world.complete("a")
    if kind is StepKind.SYNTHESIZE:
        world.deliver("reflect:1#1", Reflected(decision=Decision.FINISH))
    return world


def planned(*plan: TaskSpec, **spec: Any) -> World:
    """Return a run whose planner made this plan; it reflects and synthesizes."""
    world = World()
    world.start(**spec)
    assert world.deliver("plan:1#1", Planned(tasks=plan)).status == "ACCEPTED"
    return world
